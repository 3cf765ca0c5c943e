//! Who wants a program to end: Ctrl-C, or somebody who asks for it.
//!
//! Role: the one place that takes signals, for programs that finish their files first.
//! Method: a thread waits for signals and calls back, so nothing of what a program does is done in a handler. A signal that
//! was ignored from the start, as `nohup` has it, stays ignored, by the program and by its children.
//! Limits: where there are no signals but Ctrl-C, all of them are taken for that.

use anyhow::{Context, Result};

/// Exit code of a program that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// Why a program is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C, which the terminal sends to the program's children as well.
    Interrupt,
    /// Asked for by another process, or the terminal is gone; sent to this program alone.
    Terminate,
}

/// Calls back for every wish to end, until the program does.
///
/// # Errors
/// What the system says if signals can't be waited for.
pub fn on_stop(mut on: impl FnMut(Stop) + Send + 'static) -> Result<()> {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let ignored = ignored_signals();
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter();
        let wanted = wanted.filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let signals = signal_hook::iterator::Signals::new(wanted);
        let mut signals = signals.context("signals")?;
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    on(if signal == SIGINT {
                        Stop::Interrupt
                    } else {
                        Stop::Terminate
                    });
                }
            })
            .context("a thread for signals")?;
        Ok(())
    }
    #[cfg(not(unix))]
    {
        ctrlc::set_handler(move || on(Stop::Interrupt)).context("Ctrl-C handler")
    }
}

/// Gives the signals that this program was told to ignore, a bit each from signal 1 on; none where the system does not tell.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
