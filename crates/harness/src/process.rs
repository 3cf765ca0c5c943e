//! A child process with requests and answers as lines of JSON.
//!
//! Role: sends a request, waits for the answer up to a time limit, and reports how the child ended
//! if there is no answer. Requests are opaque here, except the request to quit.
//! Method: one thread reads the answers; another stores the last lines of standard error, for error
//! messages.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of lines of standard error that are stored for error messages.
const KEPT_LINES: usize = 20;

/// A child process with requests and answers in lines; it is ended when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<std::io::Result<String>>,
    complaints: Option<JoinHandle<VecDeque<String>>>,
}

impl Process {
    /// Starts a command whose standard input and output are lines of JSON.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let no_pipe = || format!("{program} has no pipe for its output");
        let stdout = child.stdout.take().with_context(no_pipe)?;
        let stderr = child.stderr.take().with_context(no_pipe)?;
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let complaints = Some(std::thread::spawn(move || last_lines(stderr)));
        let requests = child.stdin.take();
        Ok(Self {
            child,
            requests,
            answers,
            complaints,
        })
    }

    /// Sends a request and waits for the answer, at most for `patience`.
    ///
    /// # Errors
    /// The process has ended; the error contains its last line of standard error. The process did
    /// not answer in time, or its answer is not JSON; it was killed.
    pub fn request(&mut self, request: &Value, patience: Duration) -> Result<Value> {
        let pipe = self.requests.as_mut().context("the process has ended")?;
        let sent = writeln!(pipe, "{request}").and_then(|()| pipe.flush());
        match sent {
            Ok(()) => self.answer(patience),
            Err(_) => Err(self.ended()),
        }
    }

    /// Waits at most `patience` for the first answer of a process, which is sent without a request.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn answer(&mut self, patience: Duration) -> Result<Value> {
        let line = match self.answers.recv_timeout(patience) {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => {
                self.end();
                return Err(anyhow!(error).context("answer is not UTF-8"));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            Err(RecvTimeoutError::Timeout) => {
                self.end();
                bail!("no answer within {} s", patience.as_secs_f64());
            }
        };
        serde_json::from_str(&line).map_err(|_| {
            // After an invalid line, later answers cannot be matched to their requests.
            self.end();
            anyhow!("answer is not JSON: {:?}", shortened(&line))
        })
    }

    /// Ends the process and returns an error with its exit status and its last line of standard
    /// error.
    fn ended(&mut self) -> anyhow::Error {
        self.requests = None;
        let patience = Duration::from_millis(500);
        let status = wait(&mut self.child, patience)
            .map_or("process closed its output".to_owned(), |status| {
                format!("process ended with {status}")
            });
        let _ = self.child.kill();
        // A grandchild could hold the pipe open; the error then contains no line of standard error.
        let complaints = self
            .complaints
            .take()
            .filter(|reader| finishes(reader, patience));
        let complaints = complaints
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default();
        let last = complaints.iter().rev().find(|line| !line.trim().is_empty());
        match last {
            Some(line) => anyhow!("{status}: {}", shortened(line.trim())),
            None => anyhow!(status),
        }
    }

    fn end(&mut self) {
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.requests.take() {
            let _ = writeln!(pipe, "{}", json!({ "quit": true }));
        }
        // The pipe is closed now; a rival that does not exit is killed.
        if wait(&mut self.child, Duration::from_millis(300)).is_none() {
            self.end();
        }
    }
}

const POLL: Duration = Duration::from_millis(5);

/// Waits for a child to exit, at most for `patience`, because the standard library has no wait with
/// a time limit. Returns `None` when the time is over.
fn wait(child: &mut Child, patience: Duration) -> Option<std::process::ExitStatus> {
    let mut waited = Duration::ZERO;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if waited < patience => {
                std::thread::sleep(POLL);
                waited += POLL;
            }
            _ => return None,
        }
    }
}

fn finishes<T>(thread: &JoinHandle<T>, patience: Duration) -> bool {
    let mut waited = Duration::ZERO;
    while !thread.is_finished() && waited < patience {
        std::thread::sleep(POLL);
        waited += POLL;
    }
    thread.is_finished()
}

/// Reads a stream to its end and returns the last lines, so that a child with much output never
/// blocks.
fn last_lines(stream: impl Read) -> VecDeque<String> {
    let mut kept = VecDeque::new();
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        kept.push_back(String::from_utf8_lossy(&line).into_owned());
        line.clear();
        if kept.len() > KEPT_LINES {
            kept.pop_front();
        }
    }
    kept
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 200;
    text.chars().take(LONGEST).collect()
}
