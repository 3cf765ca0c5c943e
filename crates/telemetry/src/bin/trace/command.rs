//! The traced command, and the events that end sampling.

use anyhow::{Context, Result, ensure};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tool_io::signals::{self, INTERRUPTED, Stop};

/// Interval at which a command is polled if its end is not signalled by an event.
const LOOK: Duration = Duration::from_millis(200);
/// Offset that shells add to the number of the signal that ended a process.
const SIGNALLED: i32 = 128;
/// The number of the stop signal that ends this program at once, in case something blocks a normal
/// end, such as a pipe without a reader.
const LAST_STOP: usize = 3;

/// An event that wakes the program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A signal requested the end of the program.
    Stop(Stop),
    /// The command has ended.
    Ended,
}

/// A queue of events.
pub(crate) struct Events {
    send: Sender<Event>,
    receive: Receiver<Event>,
}

/// A running command.
pub(crate) struct Traced {
    child: Child,
    n_stops: usize,
}

impl Events {
    /// Installs signal handlers that send events instead of ending the program; the third signal
    /// ends the program at once.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn listen() -> Result<Self> {
        let (send, receive) = channel();
        let (sender, mut n_stops) = (send.clone(), 0);
        signals::on_stop(move |stop| {
            n_stops += 1;
            if n_stops == LAST_STOP {
                std::process::exit(INTERRUPTED.into());
            }
            // The send fails only if the receiver is gone, when the program is about to end anyway.
            let _ = sender.send(Event::Stop(stop));
        })?;
        Ok(Self { send, receive })
    }

    /// Waits for the next event; returns `None` after the time `at_most`.
    pub(crate) fn next(&self, at_most: Duration) -> Option<Event> {
        self.receive.recv_timeout(at_most).ok()
    }
}

/// Checks that the program of a command exists, before anything else is done.
///
/// # Errors
/// A program that is not found at its path or, for a plain name, in `PATH`.
pub(crate) fn check(words: &[OsString]) -> Result<()> {
    let Some(program) = words.first() else {
        return Ok(());
    };
    let is_path = Path::new(program).components().count() > 1;
    let path = env::var_os("PATH").unwrap_or_default();
    let is_in = |folder: &Path| {
        let file = folder.join(program);
        file.is_file() || file.with_extension(env::consts::EXE_EXTENSION).is_file()
    };
    let is_there = if is_path {
        is_in("".as_ref())
    } else {
        env::split_paths(path.as_os_str()).any(|folder| is_in(&folder))
    };
    ensure!(is_there, "program not found ({})", OsStr::display(program));
    Ok(())
}

impl Traced {
    /// Starts a command; its end is reported as an event.
    ///
    /// # Errors
    /// A program that does not exist or cannot be run.
    pub(crate) fn start(words: &[OsString], events: &Events) -> Result<Self> {
        let (program, args) = words.split_first().context("no command to start")?;
        let child = Command::new(program).args(args).spawn();
        let child =
            child.with_context(|| format!("failed to start {}", program.to_string_lossy()))?;
        notice_end(&child, events.send.clone())?;
        Ok(Self { child, n_stops: 0 })
    }

    /// Returns the exit status; none while the command runs.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Stops the command. The first call forwards SIGTERM, but not SIGINT, because the terminal
    /// sends the SIGINT of Ctrl-C to the command as well. Later calls kill the command.
    pub(crate) fn stop(&mut self, stop: Stop) {
        self.n_stops += 1;
        // Errors are ignored, because the command may have ended by itself.
        if self.n_stops > 1 {
            let _ = self.child.kill();
        } else if stop == Stop::Terminate {
            #[cfg(unix)]
            {
                let pid = rustix::process::Pid::from_child(&self.child);
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
    }

    /// Waits for the end of the command and passes on stop signals.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn outlive(&mut self, events: &Events) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if let Some(Event::Stop(stop)) = events.next(LOOK) {
                self.stop(stop);
            }
        }
    }
}

/// Sends an event as soon as the command ends, so that its region ends at that time. Systems other
/// than Unix rely on polling instead.
fn notice_end(child: &Child, ended: Sender<Event>) -> Result<()> {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let pid = Pid::from_child(child);
        std::thread::Builder::new()
            .name("command".to_owned())
            .spawn(move || {
                // `NOWAIT` leaves the process for `Child::try_wait` to reap, so that its id cannot
                // be reused before that.
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                let _ = waitid(WaitId::Pid(pid), options);
                let _ = ended.send(Event::Ended);
            })
            .context("failed to start the thread that waits for the command")?;
    }
    #[cfg(not(unix))]
    let _ = (child, ended);
    Ok(())
}

/// Returns the exit code that a shell would report: 128 plus the signal number after a signal.
pub(crate) fn code_of(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let code = status.code().or(signal.map(|signal| SIGNALLED + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
