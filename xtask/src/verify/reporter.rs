//! Output of a run of checks, and its summary.
//!
//! Role: the only module of `verify` that prints. Text goes to stdout, or to stderr if stdout is
//! used for one JSON object per check.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::process::spinner;
use tool_io::output::Pipe;

/// Number of listed durations, and the shortest duration that is listed.
const SLOWEST: usize = 10;
const SLOW: Duration = Duration::from_secs(5);

/// Detail of a check that was not run again.
const UNCHANGED: &str = "unchanged";

/// Outcome of a check; the text is the reason for a failure or a skip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The check passed in an earlier run, and nothing that it depends on has changed.
    Unchanged,
    Failed(String),
    Skipped(String),
}

impl Outcome {
    /// Returns the outcome of a check with these faults.
    pub(super) fn from_faults(faults: &[String]) -> Self {
        match faults.is_empty() {
            true => Self::Passed,
            false => Self::Failed(faults.join("\n")),
        }
    }
}

/// A reporter that prints and counts outcomes.
pub(crate) struct Reporter {
    /// Output for people.
    text: Box<dyn Write>,
    /// JSON output for programs, if requested.
    records: Option<Box<dyn Write>>,
    bar: ProgressBar,
    /// Whether to print a line when long work begins, because there is no terminal for a spinner.
    announce: bool,
    begun: Instant,
    n_passed: usize,
    n_unchanged: usize,
    failed: Vec<String>,
    skipped: Vec<String>,
    /// The start of the whole run.
    started: Instant,
    /// The durations of checks and processes.
    durations: Vec<(Duration, String)>,
}

impl Reporter {
    pub(crate) fn new(json: bool) -> Self {
        let (text, records): (Box<dyn Write>, Option<Box<dyn Write>>) = if json {
            (
                Box::new(Pipe(io::stderr())),
                Some(Box::new(Pipe(io::stdout()))),
            )
        } else {
            (Box::new(Pipe(io::stdout())), None)
        };
        let announce = !io::stderr().is_terminal();
        Self::with(text, records, announce)
    }

    fn with(text: Box<dyn Write>, records: Option<Box<dyn Write>>, announce: bool) -> Self {
        Self {
            text,
            records,
            bar: spinner(""),
            announce,
            begun: Instant::now(),
            n_passed: 0,
            n_unchanged: 0,
            failed: Vec::new(),
            skipped: Vec::new(),
            started: Instant::now(),
            durations: Vec::new(),
        }
    }

    /// Starts the clock of a check.
    pub(crate) fn begin(&mut self, what: &str) {
        self.begun = Instant::now();
        self.note(what);
    }

    /// Starts the clock of long work, and prints a line if there is no terminal.
    pub(crate) fn begin_long(&mut self, what: &str) -> Result<()> {
        self.begin(what);
        if self.announce {
            writeln!(self.text, "run     {what}")?;
        }
        Ok(())
    }

    /// Shows the current step of the running work, if there is a terminal.
    pub(crate) fn note(&self, what: &str) {
        self.bar.set_message(what.trim().to_owned());
    }

    /// Reports the outcome of the check that began last, with its duration.
    pub(crate) fn end(&mut self, id: &str, outcome: Outcome) -> Result<()> {
        let elapsed = self.begun.elapsed();
        self.took(id, elapsed);
        self.put(id, outcome, &format!("{:.1} s", elapsed.as_secs_f64()))
    }

    /// Stores the duration of a process for the list of the slowest.
    pub(crate) fn took(&mut self, what: &str, duration: Duration) {
        self.durations.push((duration, what.to_owned()));
    }

    /// Reports the outcome of a single test.
    pub(crate) fn add(&mut self, id: &str, outcome: Outcome) -> Result<()> {
        self.put(id, outcome, "")
    }

    /// Reports a check that passed, with a detail.
    pub(crate) fn pass(&mut self, id: &str, detail: &str) -> Result<()> {
        self.put(id, Outcome::Passed, detail)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.n_passed + self.n_unchanged + self.failed.len() + self.skipped.len() == 0
    }

    fn put(&mut self, id: &str, outcome: Outcome, took: &str) -> Result<()> {
        let (word, detail) = match &outcome {
            Outcome::Passed => ("passed", took),
            Outcome::Unchanged => ("passed", UNCHANGED),
            Outcome::Failed(detail) => ("failed", detail.as_str()),
            Outcome::Skipped(why) => ("skipped", why.as_str()),
        };
        if let Some(records) = &mut self.records {
            let record = json!({"id": id, "outcome": word, "detail": detail});
            writeln!(records, "{record}")?;
            records.flush()?;
        }
        let line = match &outcome {
            Outcome::Passed | Outcome::Unchanged => {
                format!("{word}  {id}  {detail}").trim_end().to_owned()
            }
            Outcome::Failed(detail) => format!("FAILED  {id}\n{}", indent(detail)),
            Outcome::Skipped(why) => format!("skipped {id}: {why}"),
        };
        let text = &mut self.text;
        self.bar.suspend(|| writeln!(text, "{line}"))?;
        match outcome {
            Outcome::Passed => self.n_passed += 1,
            Outcome::Unchanged => self.n_unchanged += 1,
            Outcome::Failed(_) => self.failed.push(id.to_owned()),
            Outcome::Skipped(why) => self.skipped.push(why),
        }
        Ok(())
    }

    /// Returns counts and durations for a record.
    pub(crate) fn summary(&self) -> Value {
        let seconds = |time: Duration| (10.0 * time.as_secs_f64()).round() / 10.0;
        let mut durations = self.durations.clone();
        durations.sort_by(|a, b| b.cmp(a));
        durations.retain(|(time, _)| *time >= SLOW);
        let slowest = durations
            .into_iter()
            .map(|(time, what)| json!({ "check": what, "elapsed_s": seconds(time) }));
        json!({
            "elapsed_s": seconds(self.started.elapsed()),
            "passed": self.n_passed + self.n_unchanged,
            "unchanged": self.n_unchanged,
            "failed": self.failed.len(),
            "skipped": self.skipped.len(),
            "slowest": slowest.collect::<Vec<_>>(),
        })
    }

    /// Prints the slowest work, the failed checks, the reasons of skipped checks, and last the
    /// summary after a prefix.
    pub(crate) fn close(mut self, prefix: &str) -> Result<ExitCode> {
        self.bar.finish_and_clear();
        writeln!(self.text)?;
        self.durations.sort_by(|a, b| b.cmp(a));
        let slow = self.durations.iter().filter(|(time, _)| *time >= SLOW);
        for (time, what) in slow.take(SLOWEST) {
            writeln!(self.text, "slowest {:>6.1} s  {what}", time.as_secs_f64())?;
        }
        let elapsed = self.started.elapsed().as_secs_f64();
        writeln!(self.text, "elapsed {elapsed:>6.1} s")?;
        for id in &self.failed {
            writeln!(self.text, "failed: {id}")?;
        }
        self.skipped.sort();
        for same in self.skipped.chunk_by(|a, b| a == b) {
            writeln!(self.text, "skipped {}: {}", same.len(), same[0])?;
        }
        if self.n_unchanged > 0 {
            writeln!(
                self.text,
                "unchanged {}: passed in an earlier run with the same files and environment (`--again` repeats them)",
                self.n_unchanged
            )?;
        }
        writeln!(
            self.text,
            "{prefix}{} passed, {} failed, {} skipped",
            self.n_passed + self.n_unchanged,
            self.failed.len(),
            self.skipped.len()
        )?;
        self.text.flush()?;
        Ok(ExitCode::from(u8::from(!self.failed.is_empty())))
    }
}

fn indent(text: &str) -> String {
    let lines = text.lines().map(|line| format!("    | {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// A writer whose text the test can read.
    #[derive(Clone, Default)]
    struct Page(Rc<RefCell<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Page {
        fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    #[test]
    fn the_sum_is_the_last_line_and_a_failure_decides_the_exit() {
        let (text, records) = (Page::default(), Page::default());
        let mut reporter = Reporter::with(
            Box::new(text.clone()),
            Some(Box::new(records.clone())),
            false,
        );
        assert!(reporter.is_empty());
        reporter.add("a", Outcome::Passed).unwrap();
        reporter
            .add("b", Outcome::Failed("why\nhow".into()))
            .unwrap();
        reporter
            .add("c", Outcome::Skipped("no adapter".into()))
            .unwrap();
        reporter
            .add("d", Outcome::Skipped("no adapter".into()))
            .unwrap();
        reporter.add("e", Outcome::Unchanged).unwrap();
        reporter.took("quick", SLOW / 2);
        reporter.took("slow", SLOW);
        reporter.took("slower", 2 * SLOW);
        let summary = reporter.summary();
        let counts = ["passed", "unchanged", "failed", "skipped"].map(|key| summary[key].as_u64());
        assert_eq!(counts, [2, 1, 1, 2].map(Some));
        let slower = json!({ "check": "slower", "elapsed_s": 10.0 });
        assert_eq!(summary["slowest"][0], slower);
        let code = reporter.close("").unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(1)));
        let expected = "passed  a\nFAILED  b\n    | why\n    | how\nskipped c: no adapter\n\
            skipped d: no adapter\npassed  e  unchanged\n\nslowest   10.0 s  slower\nslowest    5.0 s  slow\n\
            failed: b\nskipped 2: no adapter\nunchanged 1: passed in an earlier run with the same \
            files and environment (`--again` repeats them)\n2 passed, 1 failed, 2 skipped\n";
        let text = text.text();
        let is_fixed = |line: &&str| !line.starts_with("elapsed ");
        let fixed: Vec<&str> = text.lines().filter(is_fixed).collect();
        assert_eq!(fixed.join("\n") + "\n", expected);
        let records = records.text();
        let outcomes: Vec<Value> = records
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(outcomes.len(), 5);
        assert_eq!(
            outcomes[1],
            json!({"id": "b", "outcome": "failed", "detail": "why\nhow"})
        );
    }
}
