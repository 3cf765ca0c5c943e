//! The traced command, and the events that end sampling.

use anyhow::{Context, Result};
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tool_io::exit;
use tool_io::output::printable;
use tool_io::signals::{self, Stop};

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
                exit::at_once(exit::INTERRUPTED);
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

/// A command that could not be started.
#[derive(Debug)]
pub(crate) struct NotStarted {
    program: OsString,
    why: io::Error,
}

impl NotStarted {
    /// Returns the exit code that `env`, `nice` and `time` return for such a command.
    pub(crate) fn code(&self) -> u8 {
        match self.why.kind() {
            io::ErrorKind::NotFound => exit::NOT_FOUND,
            _ => exit::NOT_EXECUTABLE,
        }
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = printable(&self.program.to_string_lossy());
        match self.why.kind() {
            io::ErrorKind::NotFound => write!(f, "command not found ({program})"),
            _ => write!(f, "command cannot be executed ({program}): {}", self.why),
        }
    }
}

impl Error for NotStarted {}

impl Traced {
    /// Starts a command; its end is reported as an event.
    ///
    /// # Errors
    /// [`NotStarted`] for a program that does not exist or cannot be executed.
    pub(crate) fn start(words: &[OsString], events: &Events) -> Result<Self> {
        let (program, args) = words.split_first().context("no command to start")?;
        let child = Command::new(program).args(args).spawn();
        let child = child.map_err(|why| NotStarted {
            program: program.clone(),
            why,
        })?;
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
