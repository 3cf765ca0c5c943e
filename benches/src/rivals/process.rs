//! A child process that is asked and answers in lines of JSON.
//!
//! Role: sends a request, waits for its answer no longer than allowed, and says how the child ended where there is
//! none. Of what requests mean it knows the one to quit.
//! Method: one thread reads answers, one keeps the end of standard error for reasons.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines of standard error that are kept for a reason.
const KEPT_LINES: usize = 20;

/// A child that is asked and answers in lines; it is ended when dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<std::io::Result<String>>,
    complaints: Option<JoinHandle<VecDeque<String>>>,
}

impl Process {
    pub(super) fn spawn(command: &mut Command) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("does not start")?;
        let stdout = child.stdout.take().context("has no standard output")?;
        let stderr = child.stderr.take().context("has no standard error")?;
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

    pub(super) fn ask(&mut self, request: &Value, patience: Duration) -> Result<Value> {
        let pipe = self.requests.as_mut().context("has ended")?;
        let sent = writeln!(pipe, "{request}").and_then(|()| pipe.flush());
        match sent {
            Ok(()) => self.answer(patience),
            Err(_) => Err(self.ended()),
        }
    }

    pub(super) fn answer(&mut self, patience: Duration) -> Result<Value> {
        let line = match self.answers.recv_timeout(patience) {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => {
                self.end();
                return Err(anyhow!(error).context("answered what is no text"));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            Err(RecvTimeoutError::Timeout) => {
                self.end();
                bail!("gave no answer in {} s", patience.as_secs_f64());
            }
        };
        serde_json::from_str(&line).map_err(|_| {
            // After one wrong line, later answers can't be matched to their requests.
            self.end();
            anyhow!("answered {:?}, which is no JSON", shortened(&line))
        })
    }

    /// Ends the process and says how it ended, with the last thing it complained of.
    fn ended(&mut self) -> anyhow::Error {
        self.requests = None;
        let patience = Duration::from_millis(500);
        let status = wait(&mut self.child, patience)
            .map_or("closed its output".to_owned(), |status| {
                format!("ended with {status}")
            });
        let _ = self.child.kill();
        // A grandchild could hold the pipe open; then there is no complaint to show.
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
        // The pipe is closed now; a rival that neither reads nor quits is ended.
        if wait(&mut self.child, Duration::from_millis(300)).is_none() {
            self.end();
        }
    }
}

const POLL: Duration = Duration::from_millis(5);

/// Waits for a child to end; the standard library has no wait with a limit.
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

/// Reads to the end and keeps the last lines, so that a talkative child never blocks.
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
