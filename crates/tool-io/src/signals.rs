//! Signals that request the end of a program: Ctrl-C, termination, or a closed terminal.
//!
//! Role: the only place that handles signals, for programs that must finish their files before they
//! exit.
//! Method: a thread waits for signals and calls a function, so no work is done inside a signal
//! handler. A signal that was ignored when the program started, as under `nohup`, stays ignored in
//! the program and its children.
//! Limits: on systems other than Unix only Ctrl-C is handled. Where `/proc/self/status` is missing,
//! as on every system but Linux, ignored signals are not recognized, and they end the program, too.

use crate::{Result, failed};

/// Reason why a program should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C, which the terminal also sends to the program's children.
    Interrupt,
    /// A request of another process, or a closed terminal; sent to this program only.
    Terminate,
}

/// Calls `on` for every signal that requests the end of the program, until the program exits.
///
/// # Errors
/// The signal handler cannot be installed, or the thread that waits for signals cannot be started.
pub fn on_stop(mut on: impl FnMut(Stop) + Send + 'static) -> Result<()> {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter();
        let wanted = wanted.filter(|&signal| !is_ignored(signal));
        let signals = signal_hook::iterator::Signals::new(wanted);
        let mut signals = signals.map_err(failed("signals: cannot install the handler"))?;
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
            .map_err(failed("signals: cannot start the thread"))?;
        Ok(())
    }
    #[cfg(not(unix))]
    {
        ctrlc::set_handler(move || on(Stop::Interrupt))
            .map_err(std::io::Error::other)
            .map_err(failed("signals: cannot install the Ctrl-C handler"))
    }
}

/// Returns whether this process ignores a signal, as the children of `nohup` and of a shell's
/// background jobs do; `false` if the system does not report it, and for a number that is not from
/// 1 to 64.
#[cfg(unix)]
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The mask has signal 1 at bit 0.
    let bit = u32::try_from(signal)
        .ok()
        .and_then(|signal| signal.checked_sub(1));
    let shifted = mask.zip(bit).and_then(|(mask, bit)| mask.checked_shr(bit));
    shifted.is_some_and(|shifted| shifted & 1 == 1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_no_signal_is_not_ignored() {
        for signal in [i32::MIN, -1, 0, 65, 128, i32::MAX] {
            assert!(!is_ignored(signal), "{signal}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_signal_that_the_process_ignores_is_recognized() {
        // The runtime of Rust ignores SIGPIPE in every program.
        assert!(is_ignored(signal_hook::consts::SIGPIPE));
    }
}
