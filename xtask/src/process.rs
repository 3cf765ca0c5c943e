//! Child processes whose output is read line by line.
//!
//! Role: the only module that spawns children and reads their output.
//! Method: one thread per pipe sends lines to the caller's thread, so that a full pipe cannot block
//! the child, and lines of stdout and stderr are not mixed.
//! Signals: after [`end_children_on_stop`], a watched child and its children are a process group of
//! their own, which is ended when this program is asked to end; [`watch`] then returns
//! [`Interrupted`]. Without it, Ctrl-C reaches the children, because they are in the group of this
//! program. A child that catches Ctrl-C outlives this program. Such programs are therefore started
//! by `program`, which replaces this process.

use std::env;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};

use crate::workspace;
use tool_io::signals;

/// Time between two frames of a spinner.
const SPINNER_TICK: Duration = Duration::from_millis(120);

/// Maximum time in which the last lines of an ended child are read.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Time between two checks whether a silent child has ended.
const POLL: Duration = Duration::from_millis(20);

/// A line of a child's output, with the pipe it was read from.
#[derive(Debug)]
pub(crate) enum OutputLine {
    Out(String),
    Err(String),
}

/// Output and exit status of a finished child.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The error of a command that was ended because this program was asked to end.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Process groups of the watched children, after [`end_children_on_stop`].
static GROUPS: OnceLock<Mutex<Groups>> = OnceLock::new();

/// Process groups of watched children.
#[derive(Default)]
struct Groups {
    is_stopped: bool,
    /// Ids of the groups, which are those of the children.
    running: Vec<u32>,
}

impl Groups {
    fn lock() -> Option<MutexGuard<'static, Self>> {
        let groups = GROUPS.get()?;
        // A panic while the list is locked leaves a list that is still right.
        Some(groups.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ends watched children from now on when this program is asked to end, by Ctrl-C or a signal.
pub(crate) fn end_children_on_stop() -> Result<()> {
    GROUPS.get_or_init(Mutex::default);
    signals::on_stop(|_| {
        if let Some(mut groups) = Groups::lock() {
            groups.is_stopped = true;
            groups.running.iter().for_each(|&group| end_group(group));
        }
    })?;
    Ok(())
}

/// Returns the error if this program was asked to end.
pub(crate) fn check_not_interrupted() -> Result<(), Interrupted> {
    match Groups::lock() {
        Some(groups) if groups.is_stopped => Err(Interrupted),
        _ => Ok(()),
    }
}

/// Ends all processes of a group.
fn end_group(group: u32) {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process_group};
        let pid = i32::try_from(group).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // A group that has already ended is no fault.
            let _ = kill_process_group(pid, Signal::TERM);
        }
    }
    #[cfg(not(unix))]
    let _ = group;
}

/// Spawns a child in a process group of its own if children are ended on a stop.
fn spawn_watched(command: &mut Command) -> Result<Child> {
    // The list stays locked until the child is on it, so that a stop cannot miss the child.
    let groups = Groups::lock();
    if groups.as_ref().is_some_and(|groups| groups.is_stopped) {
        return Err(Interrupted.into());
    }
    #[cfg(unix)]
    if groups.is_some() {
        std::os::unix::process::CommandExt::process_group(command, 0);
    }
    let child = command.spawn();
    let child = child.with_context(|| format!("could not start {}", name(command)))?;
    if let Some(mut groups) = groups {
        groups.running.push(child.id());
    }
    Ok(child)
}

/// Removes an ended child from the list of groups.
fn forget(child: &Child) {
    if let Some(mut groups) = Groups::lock() {
        groups.running.retain(|&group| group != child.id());
    }
}

/// Creates a cargo command in the workspace root, without colors.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(workspace::root())
        .env("CARGO_TERM_COLOR", "never");
    command
}

/// Creates a command of the nightly toolchain of rustup, such as `cargo` or `rustc`.
pub(crate) fn nightly(program: &str) -> Command {
    let mut command = Command::new(program);
    // Rustup sets the variable for the toolchain that runs this program.
    command.arg("+nightly").env_remove("RUSTUP_TOOLCHAIN");
    command
}

/// Creates a command of the compiler that cargo uses.
pub(crate) fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Returns the output of a command, without white space at its ends; `None` if the command is
/// missing or fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok();
    let output = output.filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a command to its end, passes every line to `on_line` as it arrives, and returns all lines.
pub(crate) fn watch(
    command: &mut Command,
    mut on_line: impl FnMut(&OutputLine),
) -> Result<Finished> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = spawn_watched(command)?;
    let (sender, lines) = channel();
    send_lines(child.stdout.take(), sender.clone(), OutputLine::Out);
    send_lines(child.stderr.take(), sender, OutputLine::Err);

    let (mut out, mut err) = (String::new(), String::new());
    for line in lines {
        on_line(&line);
        let (text, whole) = match &line {
            OutputLine::Out(text) => (text, &mut out),
            OutputLine::Err(text) => (text, &mut err),
        };
        whole.push_str(text);
        whole.push('\n');
    }
    let status = child.wait()?;
    forget(&child);
    check_not_interrupted()?;
    Ok(Finished { status, out, err })
}

/// Runs a command until its end, its time limit, or the first line for which `stops` returns true.
/// Returns the exit status of a command that ended by itself.
pub(crate) fn run_until(
    command: &mut Command,
    limit: Duration,
    mut stops: impl FnMut(&OutputLine) -> bool,
) -> Result<Option<ExitStatus>> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let end = Instant::now() + limit;
    let mut child = spawn_watched(command)?;
    let (sender, lines) = channel();
    send_lines(child.stdout.take(), sender.clone(), OutputLine::Out);
    send_lines(child.stderr.take(), sender, OutputLine::Err);
    let mut running = Running { child, lines };
    // A process that the child started may keep the pipes open, so their end is not awaited.
    let status = loop {
        match running.lines.recv_timeout(POLL) {
            Ok(line) if stops(&line) => break None,
            Ok(_) => {}
            Err(_) => {
                if let Some(status) = running.status()? {
                    break Some(status);
                }
            }
        }
        if Instant::now() > end {
            break None;
        }
    };
    // The children of a command that has not ended are in its group.
    if status.is_none() && GROUPS.get().is_some() {
        end_group(running.child.id());
    }
    drop(running);
    check_not_interrupted()?;
    Ok(status)
}

/// A child that runs while the caller does other work; ended on drop.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    lines: Receiver<OutputLine>,
}

/// Starts a command whose stdout is dropped and whose stderr is collected.
pub(crate) fn start(command: &mut Command) -> Result<Running> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = spawn_watched(command)?;
    let (sender, lines) = channel();
    send_lines(child.stderr.take(), sender, OutputLine::Err);
    Ok(Running { child, lines })
}

impl Running {
    /// Returns the exit status if the child has ended.
    pub(crate) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends the child if it is running, and returns its stderr.
    pub(crate) fn end(mut self) -> String {
        self.kill();
        let end = Instant::now() + LAST_LINES;
        let mut err = String::new();
        // A process that the child started may keep the pipe open, so its end is not awaited.
        while let Ok(OutputLine::Err(line)) = self
            .lines
            .recv_timeout(end.saturating_duration_since(Instant::now()))
            && Instant::now() < end
        {
            err.push_str(&line);
            err.push('\n');
        }
        err
    }

    fn kill(&mut self) {
        // A child that has already ended is no fault.
        let _ = self.child.kill();
        let _ = self.child.wait();
        forget(&self.child);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads a pipe on a separate thread. Invalid UTF-8 is replaced by replacement characters.
fn send_lines(
    pipe: Option<impl Read + Send + 'static>,
    sender: Sender<OutputLine>,
    wrap: fn(String) -> OutputLine,
) {
    let mut reader = BufReader::new(pipe.expect("the child was spawned with this pipe"));
    thread::spawn(move || {
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(1..)) {
            let text = String::from_utf8_lossy(&bytes);
            let line = text.trim_end_matches(['\n', '\r']).to_owned();
            if sender.send(wrap(line)).is_err() {
                return;
            }
            bytes.clear();
        }
    });
}

/// Returns the last `n_lines` lines of a text, after a note with the number of omitted lines.
pub(crate) fn tail(text: &str, n_lines: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    match lines.len().checked_sub(n_lines) {
        Some(n_cut @ 1..) => {
            format!("… {n_cut} lines omitted\n{}", lines[n_cut..].join("\n"))
        }
        _ => lines.join("\n"),
    }
}

/// Returns the name of the program that a command starts, for messages.
pub(crate) fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// Returns the path of the first program in `PATH` that has one of the names.
pub(crate) fn find_in_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut places = env::split_paths(&path).flat_map(|folder| {
        let file = move |name: &&str| folder.join(format!("{name}{}", env::consts::EXE_SUFFIX));
        names.iter().map(file)
    });
    places.find(|place| place.is_file())
}

/// Returns a spinner with a message on stderr; hidden if stderr is not a terminal.
pub(crate) fn spinner(message: impl Into<String>) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message.into());
    let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
    bar.set_style(style.expect("the template is a valid constant"));
    bar.enable_steady_tick(SPINNER_TICK);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_says_how_much_it_left_out() {
        assert_eq!(tail("a\nb\nc\n", 2), "… 1 lines omitted\nb\nc");
        assert_eq!(tail("a\nb\n", 2), "a\nb");
        assert_eq!(tail("", 2), "");
    }

    #[cfg(unix)]
    #[test]
    fn both_pipes_are_read_apart_and_to_their_end() {
        let script = "echo one; echo two >&2; printf three; exit 7";
        let mut n_lines = 0;
        let finished = watch(Command::new("sh").args(["-c", script]), |_| n_lines += 1).unwrap();
        assert_eq!(finished.out, "one\nthree\n");
        assert_eq!(finished.err, "two\n");
        assert_eq!(finished.status.code(), Some(7));
        assert_eq!(n_lines, 3);
    }

    #[cfg(unix)]
    #[test]
    fn a_command_ends_by_itself_at_a_line_or_at_its_limit() {
        let run = |script: &str, limit| {
            let stops = |line: &OutputLine| matches!(line, OutputLine::Out(text) if text == "two");
            run_until(Command::new("sh").args(["-c", script]), limit, stops).unwrap()
        };
        let long = Duration::from_secs(60);
        let ended = run("echo one; exit 7", long).unwrap();
        assert_eq!(ended.code(), Some(7));
        assert_eq!(run("echo two; sleep 60", long), None);
        assert_eq!(run("sleep 60", Duration::from_millis(50)), None);
    }

    #[cfg(unix)]
    #[test]
    fn an_ended_child_is_noticed_and_a_running_child_is_ended() {
        let script = "echo one; echo two >&2; exit 7";
        let mut ended = start(Command::new("sh").args(["-c", script])).unwrap();
        let status = loop {
            if let Some(status) = ended.status().unwrap() {
                break status;
            }
            thread::yield_now();
        };
        assert_eq!(status.code(), Some(7));
        assert_eq!(ended.end(), "two\n");
        let mut running = start(Command::new("tail").args(["-f", "/dev/null"])).unwrap();
        assert!(running.status().unwrap().is_none());
        assert_eq!(running.end(), "");
    }

    #[cfg(unix)]
    #[test]
    fn a_program_is_found_by_any_of_its_names() {
        let found = find_in_path(&["no-such-program-here", "sh"]).unwrap();
        assert!(found.is_absolute() && found.ends_with("sh"), "{found:?}");
        assert_eq!(find_in_path(&["no-such-program-here"]), None);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = watch(&mut Command::new("no-such-program-here"), |_| ())
            .err()
            .unwrap();
        assert!(error.to_string().contains("no-such-program-here"));
    }
}
