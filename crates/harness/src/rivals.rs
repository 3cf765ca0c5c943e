//! Rivals: other libraries on the same work, as long-running Python processes.
//!
//! Role: starts a rival on a [`BaselineArguments`] and requests times and results. Any failure of a
//! rival becomes a reason to show; a rival can neither stop nor block a run.
//! Method: requests and answers are defined in `protocol.py`; [`process`](crate::process)
//! transports them.
//! Limits: the number of threads that a rival reports is not verified.

mod job;
mod python;

pub use job::{BaselineArguments, Script};
pub use python::{PYTHON_VARIABLE, packages, python};

use crate::implementation::{Implementation, Output};
use crate::process::Process;
use crate::record::NotRun;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tool_io::TemporaryFolder;

/// Longest wait for a rival to load its library and inputs; a first import from a slow disk takes
/// tens of seconds.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running rival; its process is ended when dropped.
#[derive(Debug)]
pub struct Rival {
    /// Name that the rival reports.
    pub name: String,
    /// Version of the rival's library.
    pub version: String,
    /// Number of threads that the rival reports.
    pub threads: usize,
    process: Process,
    patience: Duration,
    folder: TemporaryFolder,
}

impl Rival {
    /// Starts a rival and waits until it is ready.
    ///
    /// # Errors
    /// The library is missing, or the start failed; the error contains the reason.
    pub fn start(python: &Path, job: &BaselineArguments<'_>) -> Result<Self, NotRun> {
        Self::start_within(python, job, START_TIMEOUT)
    }

    fn start_within(
        python: &Path,
        job: &BaselineArguments<'_>,
        patience: Duration,
    ) -> Result<Self, NotRun> {
        Self::try_start(python, job, patience).map_err(|error| NotRun {
            what: job.library.to_owned(),
            why: format!("{error:#}"),
            how: format!(
                "run `cargo xtask rivals`, or set {PYTHON_VARIABLE} to a Python with this library"
            ),
        })
    }

    fn try_start(python: &Path, job: &BaselineArguments<'_>, patience: Duration) -> Result<Self> {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "rival")
            .context("cannot create a temporary folder")?;
        let arguments = job.write(folder.path())?;
        let mut process = Process::spawn(python::command(python).args(arguments))?;
        let answer = process.answer(patience)?;
        if let Some(why) = answer.get("missing") {
            bail!("{}", why.as_str().unwrap_or("library not installed"));
        }
        let ready: Ready =
            serde_json::from_value(answer).context("first answer has no name and version")?;
        job.remove_arrays(folder.path());
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

    /// Runs the work `times` times and returns the seconds of each run.
    ///
    /// # Errors
    /// The rival's process ended, it exceeded the time limit (its process is then killed), or it
    /// did not answer with `times` positive times.
    pub fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        let answer = self
            .process
            .request(&json!({ "run": times }), self.patience)?;
        let seconds: Vec<f64> = field(&answer, "seconds")?;
        ensure!(
            seconds.len() == times && seconds.iter().all(|time| *time > 0.0 && time.is_finite()),
            "{}: invalid times (expected {times} positive numbers, got {seconds:?})",
            self.name
        );
        Ok(seconds)
    }

    /// Runs the work once and returns the peak memory held in addition to inputs and result, in
    /// bytes, or `None` if the rival's system does not report memory.
    ///
    /// # Errors
    /// As [`Rival::run`].
    pub fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        let answer = self
            .process
            .request(&json!({ "memory": true }), self.patience)?;
        field(&answer, "peak_extra_bytes")
    }

    /// Returns the last result; runs the work once if there is none.
    ///
    /// # Errors
    /// As [`Rival::run`], or the file of the result cannot be decoded as the element type that the
    /// rival reports.
    pub fn result(&mut self) -> Result<Output> {
        let path = self.folder.path().join("result");
        let answer = self
            .process
            .request(&json!({ "result": path }), self.patience)?;
        let dtype: String = field(&answer, "dtype")?;
        let raw =
            fs::read(&path).with_context(|| format!("{}: cannot read the result", self.name))?;
        let _ = fs::remove_file(&path);
        decode(&dtype, &raw).with_context(|| {
            format!(
                "{}: result of {} bytes is not valid {dtype}",
                self.name,
                raw.len()
            )
        })
    }
}

/// Decodes raw little-endian elements; returns `None` if the bytes are not valid for the type.
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
        "f64" => {
            let (words, rest) = raw.as_chunks::<8>();
            let words = rest.is_empty().then_some(words)?;
            Output::F64(words.iter().map(|word| f64::from_le_bytes(*word)).collect())
        }
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
    serde_json::from_value(value).with_context(|| format!("answer has no valid {key} ({answer})"))
}

impl Implementation for Rival {
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        Self::run(self, times)
    }

    fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        Self::peak_extra_bytes(self)
    }

    fn result(&mut self) -> Result<Output> {
        Self::result(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    fn job(text: &'static str) -> BaselineArguments<'static> {
        let script = Script {
            name: "fake",
            text,
            imports: &[],
            case: None,
        };
        BaselineArguments {
            library: "fake",
            script,
            sizes: vec![],
            arrays: vec![],
            types: vec![],
            patience: SHORT,
            part: None,
        }
    }

    /// Starts a fake rival, a shell script that uses the protocol of a real one.
    #[cfg(unix)]
    fn fake(text: &'static str) -> Result<Rival, NotRun> {
        Rival::start_within(Path::new("sh"), &job(text), Duration::from_secs(5))
    }

    #[cfg(unix)]
    const READY: &str = r#"{"name":"fake","version":"1","threads":2}"#;

    #[test]
    fn an_interpreter_that_is_not_there_is_a_reason() {
        let missing = Rival::start(Path::new("no-such-python"), &job("")).unwrap_err();
        assert!(missing.why.starts_with("cannot start"), "{}", missing.why);
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
    fn a_rival_that_dies_is_reported_with_its_last_output() {
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
            missing.why.contains("no answer within 0.3 s"),
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
            missing.why.contains("not JSON: \"hello\""),
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
        assert!(missing.why.contains("not UTF-8"), "{}", missing.why);
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
        assert!(rival.run(1).unwrap_err().to_string().contains("no answer"));
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
    fn wrong_counts_and_impossible_times_are_rejected() {
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
        let protocol = rival.folder.path().join("protocol.py");
        assert!(protocol.exists());
        drop(rival);
        assert!(!protocol.exists());
    }

    /// A rival without any library: it doubles each element of its input.
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
        imports: &[],
        case: None,
    };

    #[test]
    fn the_protocol_works_in_a_real_python() {
        let Ok(python) = python() else {
            return gpu_wgsl::check::skip("no Python on this machine");
        };
        let job = BaselineArguments {
            script: DOUBLES,
            arrays: vec![("x", &[1.5, -2.0, 0.25])],
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
}
