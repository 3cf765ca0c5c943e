//! Other people's programs on the same work: long-lived Python processes.
//!
//! Role: starts a rival, asks it for times and for its result, and turns whatever goes wrong
//! with it into a reason to show; a rival can neither stop nor hang a run.
//! Method: JSON lines on the child's standard input and output, as `rivals/protocol.py` says;
//! one thread reads answers, one keeps the end of standard error for reasons. The scripts are
//! part of the executable and are written to a temporary folder, as are the inputs.
//! Limits: what a rival says of its number of threads is believed. The file is long for its tests: most of it are
//! rivals that misbehave.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::machine::temporary_folder;
use crate::record::NotRun;
use crate::workload::Output;

/// Names the Python to use before any on the search path.
pub const PYTHON_VARIABLE: &str = "RIVALS_PYTHON";

/// Time in which a rival must have loaded its library and inputs; a first import from a slow
/// disk takes tens of seconds.
pub const START_PATIENCE: Duration = Duration::from_secs(120);

const PROTOCOL: Script = Script {
    name: "protocol.py",
    text: include_str!("../rivals/protocol.py"),
};

/// Lines of standard error that are kept for a reason.
const KEPT_LINES: usize = 20;

/// A script that speaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its file name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// What a rival is started with.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Library to measure, passed as `--library`; also its name until it tells its own.
    pub library: &'a str,
    /// Script to run.
    pub script: Script,
    /// Whole numbers, passed as `--name value`.
    pub sizes: &'a [(&'a str, usize)],
    /// Arrays, written as raw little-endian f32 and passed as `--name path`.
    pub arrays: &'a [(&'a str, &'a [f32])],
    /// Longest wait for one answer after the start.
    pub patience: Duration,
}

/// A running rival; it ends when dropped.
#[derive(Debug)]
pub struct Rival {
    /// Name that it gave itself.
    pub name: String,
    /// Version of its library.
    pub version: String,
    /// Threads it says it uses.
    pub threads: usize,
    process: Process,
    patience: Duration,
    folder: Folder,
}

/// Finds a Python: the one that [`PYTHON_VARIABLE`] names, else `python3`, else `python`.
///
/// # Errors
/// None of them runs; the error says what to do.
pub fn python() -> Result<PathBuf, NotRun> {
    let named = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
    let candidates = match &named {
        Some(path) => vec![path.clone()],
        None => vec![PathBuf::from("python3"), PathBuf::from("python")],
    };
    candidates
        .into_iter()
        .find(|path| runs(path))
        .ok_or_else(|| NotRun {
            what: "rivals in Python".to_owned(),
            why: named.map_or("no Python was found".to_owned(), |path| {
                format!(
                    "{PYTHON_VARIABLE} names {}, which does not run",
                    path.display()
                )
            }),
            how: format!("install Python 3, or name one in {PYTHON_VARIABLE}"),
        })
}

fn runs(python: &Path) -> bool {
    let mut command = Command::new(python);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Rival {
    /// Starts a rival and waits until it is ready.
    ///
    /// # Errors
    /// The library is missing, or the start failed in any way; the error says why.
    pub fn start(python: &Path, job: &Job<'_>) -> Result<Self, NotRun> {
        Self::start_within(python, job, START_PATIENCE)
    }

    fn start_within(python: &Path, job: &Job<'_>, patience: Duration) -> Result<Self, NotRun> {
        Self::try_start(python, job, patience).map_err(|error| NotRun {
            what: job.library.to_owned(),
            why: format!("{error:#}"),
            how: format!("`cargo xtask rivals`, or name a Python that has it in {PYTHON_VARIABLE}"),
        })
    }

    fn try_start(python: &Path, job: &Job<'_>, patience: Duration) -> Result<Self> {
        let folder = Folder(temporary_folder("rival")?);
        let arguments = prepare(&folder.0, job)?;
        let mut process = Process::spawn(Command::new(python).args(arguments))?;
        let answer = process.answer(patience)?;
        if let Some(why) = answer.get("missing") {
            bail!("{}", why.as_str().unwrap_or("its library is missing"));
        }
        let ready: Ready = serde_json::from_value(answer).context("said no name and version")?;
        for (name, _) in job.arrays {
            // The rival has read them; large inputs should not lie on the disk for the whole run.
            let _ = fs::remove_file(array_path(&folder.0, name));
        }
        let Ready {
            name,
            version,
            threads,
        } = ready;
        Ok(Self {
            name,
            version,
            threads,
            process,
            patience: job.patience,
            folder,
        })
    }

    /// Runs the work `times` times and gives the seconds of each.
    ///
    /// # Errors
    /// The rival died, took longer than its patience (it is then ended), or did not answer with
    /// that many positive times.
    pub fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        let answer = self.process.ask(&json!({ "run": times }), self.patience)?;
        let seconds: Vec<f64> = field(&answer, "seconds")?;
        ensure!(
            seconds.len() == times && seconds.iter().all(|time| *time > 0.0 && time.is_finite()),
            "{} was to run {times} times and told the times {seconds:?}",
            self.name
        );
        Ok(seconds)
    }

    /// Runs the work once and gives the most memory it held beyond inputs and result, in bytes; `None` where its
    /// system does not tell.
    ///
    /// # Errors
    /// As [`Rival::run`].
    pub fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        let answer = self
            .process
            .ask(&json!({ "memory": true }), self.patience)?;
        field(&answer, "peak_extra_bytes")
    }

    /// Gives the last result, or that of one more run if there was none.
    ///
    /// # Errors
    /// As [`Rival::run`], or the file it wrote can't be read as elements of the type that it names.
    pub fn result(&mut self) -> Result<Output> {
        let path = self.folder.0.join("result");
        let answer = self
            .process
            .ask(&json!({ "result": path }), self.patience)?;
        let dtype: String = field(&answer, "dtype")?;
        let raw = fs::read(&path).with_context(|| format!("{} wrote no result", self.name))?;
        let _ = fs::remove_file(&path);
        decode(&dtype, &raw).with_context(|| {
            format!(
                "{} wrote {} bytes, which are no {dtype}",
                self.name,
                raw.len()
            )
        })
    }
}

/// Reads raw little-endian elements; `None` where they are not of that type.
fn decode(dtype: &str, raw: &[u8]) -> Option<Output> {
    let words = || {
        let (words, rest) = raw.as_chunks::<4>();
        rest.is_empty().then_some(words)
    };
    let bit = |byte: &u8| match byte {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    Some(match dtype {
        "f32" => Output::F32(
            words()?
                .iter()
                .map(|word| f32::from_le_bytes(*word))
                .collect(),
        ),
        "u32" => Output::U32(
            words()?
                .iter()
                .map(|word| u32::from_le_bytes(*word))
                .collect(),
        ),
        "bool" => Output::Bool(raw.iter().map(bit).collect::<Option<_>>()?),
        _ => return None,
    })
}

#[derive(Deserialize)]
struct Ready {
    name: String,
    version: String,
    #[serde(default)]
    threads: usize,
}

fn field<T: serde::de::DeserializeOwned>(answer: &Value, key: &str) -> Result<T> {
    let value = answer.get(key).cloned().unwrap_or(Value::Null);
    serde_json::from_value(value).with_context(|| format!("answered {answer} in place of {key}"))
}

/// Writes scripts and arrays, and gives the command line.
fn prepare(folder: &Path, job: &Job<'_>) -> Result<Vec<std::ffi::OsString>> {
    for script in [PROTOCOL, job.script] {
        let path = folder.join(script.name);
        fs::write(&path, script.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let script = folder.join(job.script.name);
    let mut arguments = vec![
        script.into_os_string(),
        "--library".into(),
        job.library.into(),
    ];
    for (name, size) in job.sizes {
        arguments.extend([format!("--{name}").into(), size.to_string().into()]);
    }
    for (name, array) in job.arrays {
        let path = array_path(folder, name);
        write_array(&path, array).with_context(|| format!("cannot write {}", path.display()))?;
        arguments.extend([format!("--{name}").into(), path.into_os_string()]);
    }
    Ok(arguments)
}

fn array_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.f32"))
}

fn write_array(path: &Path, array: &[f32]) -> std::io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    for number in array {
        file.write_all(&number.to_le_bytes())?;
    }
    file.flush()
}

/// A temporary folder that goes with its owner.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind in the system's temporary files harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A child that is asked and answers in lines; it is ended when dropped.
#[derive(Debug)]
struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<std::io::Result<String>>,
    complaints: Option<JoinHandle<VecDeque<String>>>,
}

impl Process {
    fn spawn(command: &mut Command) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // OpenBLAS under NumPy keeps a core busy for 100 ms after a call, so that whoever runs
        // next is measured on one core less. With 2²⁴ ticks of the clock, a few milliseconds,
        // its threads still bridge the gap between two runs of one turn.
        command.env("OPENBLAS_THREAD_TIMEOUT", "24");
        // No compiled copies of the scripts, and no lines held back.
        command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1");
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

    fn ask(&mut self, request: &Value, patience: Duration) -> Result<Value> {
        let pipe = self.requests.as_mut().context("has ended")?;
        let sent = writeln!(pipe, "{request}").and_then(|()| pipe.flush());
        match sent {
            Ok(()) => self.answer(patience),
            Err(_) => Err(self.ended()),
        }
    }

    fn answer(&mut self, patience: Duration) -> Result<Value> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::matmul;

    const SHORT: Duration = Duration::from_millis(300);

    fn job(text: &'static str) -> Job<'static> {
        let script = Script { name: "fake", text };
        Job {
            library: "fake",
            script,
            sizes: &[],
            arrays: &[],
            patience: SHORT,
        }
    }

    /// Starts a rival written for the shell; it sees the protocol as a real one does.
    #[cfg(unix)]
    fn fake(text: &'static str) -> Result<Rival, NotRun> {
        Rival::start_within(Path::new("sh"), &job(text), Duration::from_secs(5))
    }

    #[cfg(unix)]
    const READY: &str = r#"{"name":"fake","version":"1","threads":2}"#;

    #[test]
    fn an_interpreter_that_is_not_there_is_a_reason() {
        let missing = Rival::start(Path::new("no-such-python"), &job("")).unwrap_err();
        assert!(missing.why.starts_with("does not start"), "{}", missing.why);
        assert_eq!(missing.what, "fake");
        assert!(missing.how.contains("cargo xtask rivals"));
    }

    #[cfg(unix)]
    #[test]
    fn a_missing_library_is_a_reason() {
        let missing = fake(r#"echo '{"missing":"No module named fake"}'"#).unwrap_err();
        assert_eq!(missing.why, "No module named fake");
    }

    #[cfg(unix)]
    #[test]
    fn a_rival_that_dies_tells_its_last_words() {
        let missing = fake("echo first >&2; echo 'out of luck' >&2; exit 3").unwrap_err();
        assert!(
            missing.why.contains("exit status: 3: out of luck"),
            "{}",
            missing.why
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_rival_that_never_gets_ready_is_given_up() {
        let begin = std::time::Instant::now();
        let missing = Rival::start_within(Path::new("sh"), &job("sleep 60"), SHORT).unwrap_err();
        assert!(
            missing.why.contains("gave no answer in 0.3 s"),
            "{}",
            missing.why
        );
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[cfg(unix)]
    #[test]
    fn garbage_in_place_of_json_is_a_reason() {
        let missing = fake("echo hello").unwrap_err();
        assert!(
            missing.why.contains("answered \"hello\""),
            "{}",
            missing.why
        );
        let missing = fake(r#"echo '{"speed":"high"}'"#).unwrap_err();
        assert!(
            missing.why.contains("no name and version"),
            "{}",
            missing.why
        );
        let missing = fake(r"printf '\377\376\n'").unwrap_err();
        assert!(missing.why.contains("no text"), "{}", missing.why);
    }

    #[cfg(unix)]
    #[test]
    fn a_rival_that_hangs_or_dies_at_work_gives_an_error_each_time() {
        const HANGS: &str = r#"echo '{"name":"fake","version":"1"}'; read request; sleep 60"#;
        const DIES: &str = r#"echo '{"name":"fake","version":"1"}'; read request; exit 7"#;
        let mut rival = fake(HANGS).unwrap();
        assert_eq!(
            (rival.name.as_str(), rival.version.as_str(), rival.threads),
            ("fake", "1", 0)
        );
        assert!(
            rival
                .run(1)
                .unwrap_err()
                .to_string()
                .contains("gave no answer")
        );
        assert!(rival.run(1).unwrap_err().to_string().contains("has ended"));
        let mut rival = fake(DIES).unwrap();
        assert!(
            rival
                .run(1)
                .unwrap_err()
                .to_string()
                .contains("exit status: 7")
        );
        assert!(
            rival
                .result()
                .unwrap_err()
                .to_string()
                .contains("has ended")
        );
    }

    #[cfg(unix)]
    #[test]
    fn wrong_counts_and_impossible_times_are_refused() {
        const SCRIPT: &str = r#"echo '{"name":"fake","version":"1"}'
            read request; echo '{"seconds":[0.5]}'
            read request; echo '{"seconds":[0.5,-1]}'
            read request; echo '{"seconds":"fast"}'
            read request; echo '{"seconds":[0.5,0.25]}'
            read request"#;
        let mut rival = fake(SCRIPT).unwrap();
        for _ in 0..3 {
            assert!(rival.run(2).is_err());
        }
        assert_eq!(rival.run(2).unwrap(), [0.5, 0.25]);
    }

    #[test]
    fn results_are_read_in_their_type_or_not_at_all() {
        assert_eq!(decode("u32", &[1, 1, 0, 0]), Some(Output::U32(vec![257])));
        assert_eq!(
            decode("f32", &[0, 0, 128, 63]),
            Some(Output::F32(vec![1.0]))
        );
        assert_eq!(
            decode("bool", &[0, 1]),
            Some(Output::Bool(vec![false, true]))
        );
        for (dtype, raw) in [
            ("f32", &[0; 5][..]),
            ("u32", &[0; 3]),
            ("bool", &[2]),
            ("i64", &[0; 8]),
        ] {
            assert_eq!(decode(dtype, raw), None, "{dtype}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_talkative_rival_does_not_block() {
        const SCRIPT: &str = r#"i=0; while [ $i -lt 5000 ]; do
            echo 'a line of warning that nobody reads, and it is long' >&2; i=$((i+1)); done
            echo '{"name":"fake","version":"1"}'; read request"#;
        assert!(fake(SCRIPT).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_goes_with_the_rival() {
        let script: &'static str = Box::leak(format!("echo '{READY}'; read request").into());
        let rival = fake(script).unwrap();
        let folder = rival.folder.0.clone();
        assert!(folder.join("protocol.py").exists());
        drop(rival);
        assert!(!folder.exists());
    }

    /// A rival without any library: doubles the one number of its input.
    const DOUBLES: Script = Script {
        name: "doubles.py",
        text: "
import array, sys
import protocol
say = protocol.start()
print('a library that prints')
number = array.array('f')
number.frombytes(open(sys.argv[sys.argv.index('--x') + 1], 'rb').read())
double = lambda: array.array('f', [2 * x for x in number])
protocol.serve(say, 'doubles', sys.version.split()[0], 1, double, lambda x: x.tobytes())
",
    };

    #[test]
    fn the_protocol_works_in_a_real_python() {
        let Ok(python) = python() else {
            return gpu_wgsl::check::skip("no Python on this machine");
        };
        let arrays: &[(&str, &[f32])] = &[("x", &[1.5, -2.0, 0.25])];
        let job = Job {
            script: DOUBLES,
            arrays,
            patience: Duration::from_secs(20),
            ..job("")
        };
        let mut rival = Rival::start(&python, &job).unwrap();
        assert_eq!((rival.name.as_str(), rival.threads), ("doubles", 1));
        let doubled = Output::F32(vec![3.0, -4.0, 0.5]);
        assert_eq!(rival.result().unwrap(), doubled);
        assert_eq!(rival.run(4).unwrap().len(), 4);
        assert_eq!(rival.result().unwrap(), doubled);
    }

    #[test]
    fn matmul_multiplies_or_says_what_is_missing() {
        let Ok(python) = python() else {
            return gpu_wgsl::check::skip("no Python on this machine");
        };
        for library in ["numpy", "torch", "torch-compile", "jax"] {
            let job = Job {
                library,
                script: matmul::SCRIPT,
                sizes: &[("m", 2), ("k", 3), ("n", 1)],
                arrays: &[
                    ("a", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
                    ("b", &[1.0, 0.5, -1.0]),
                ],
                patience: Duration::from_secs(60),
            };
            match Rival::start(&python, &job) {
                Ok(mut rival) => {
                    assert_eq!(rival.name, library);
                    assert_eq!(rival.run(3).unwrap().len(), 3);
                    assert_eq!(rival.result().unwrap(), Output::F32(vec![-1.0, 0.5]));
                }
                Err(missing) => {
                    assert!(missing.why.contains("No module"), "{}", missing.why);
                    gpu_wgsl::check::skip(&missing.why);
                }
            }
        }
    }
}
