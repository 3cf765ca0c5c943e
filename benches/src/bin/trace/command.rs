//! The command that is traced, and who wants it to end.

use anyhow::{Context, Result, ensure};
use benches::signals::{self, INTERRUPTED, Stop};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How often a command is looked at where its end is not told.
const LOOK: Duration = Duration::from_millis(200);
/// What shells add to the number of the signal that ended a process.
const SIGNALLED: i32 = 128;
/// The wish to end that is the last: something does not let the program end as it should, such as a
/// pipe that nobody reads.
const LAST_STOP: usize = 3;

/// What wakes the program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Somebody wants it to end.
    Stop(Stop),
    /// The command has ended.
    Ended,
}

/// Events as they come.
pub(crate) struct Events {
    send: Sender<Event>,
    receive: Receiver<Event>,
}

/// A command that runs.
pub(crate) struct Traced {
    child: Child,
    n_stops: usize,
}

impl Events {
    /// Listens to signals, instead of being ended by them; a third one ends the program at once.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn listen() -> Result<Self> {
        let (send, receive) = channel();
        let (sender, mut n_stops) = (send.clone(), 0);
        signals::on_stop(move |stop| {
            n_stops += 1;
            if n_stops == LAST_STOP {
                std::process::exit(INTERRUPTED.into());
            }
            // Nobody listens any more where the program is about to end anyway.
            let _ = sender.send(Event::Stop(stop));
        })?;
        Ok(Self { send, receive })
    }

    /// Waits for the next one.
    pub(crate) fn next(&self, at_most: Duration) -> Option<Event> {
        self.receive.recv_timeout(at_most).ok()
    }
}

/// Checks that a command is there, before anything is done for it.
///
/// # Errors
/// A program that is not where it is looked for.
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
    ensure!(is_there, "{} is not there", OsStr::display(program));
    Ok(())
}

impl Traced {
    /// Starts a command, whose end will be an event.
    ///
    /// # Errors
    /// A command that is not there, or can't be run.
    pub(crate) fn start(words: &[OsString], events: &Events) -> Result<Self> {
        let (program, args) = words.split_first().context("no command")?;
        let child = Command::new(program).args(args).spawn();
        let child =
            child.with_context(|| format!("{} could not be started", program.to_string_lossy()))?;
        notice_end(&child, events.send.clone())?;
        Ok(Self { child, n_stops: 0 })
    }

    /// Gives how it ended, if it did.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Tells it that it is to end, if it does not know: gently the first time, then not.
    pub(crate) fn stop(&mut self, stop: Stop) {
        self.n_stops += 1;
        // It may have ended by itself meanwhile.
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

    /// Waits for its end.
    ///
    /// # Errors
    /// What the system says.
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

/// Reports the end of a command at once, so that its region ends then; on systems other than Unix,
/// a little later.
fn notice_end(child: &Child, ended: Sender<Event>) -> Result<()> {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let pid = Pid::from_child(child);
        std::thread::Builder::new()
            .name("command".to_owned())
            .spawn(move || {
                // It is left for the program to take note of, so that its number is no other
                // process's before.
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                let _ = waitid(WaitId::Pid(pid), options);
                let _ = ended.send(Event::Ended);
            })
            .context("a thread for the command")?;
    }
    #[cfg(not(unix))]
    let _ = (child, ended);
    Ok(())
}

/// Gives the exit code that a shell would give.
pub(crate) fn code_of(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let code = status.code().or(signal.map(|signal| SIGNALLED + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
