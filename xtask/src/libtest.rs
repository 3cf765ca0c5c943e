//! Parser for the output of Rust's test harness.
//!
//! Role: converts the stdout of a test executable, or of a run of doc tests, into one report per
//! test, and the stderr of kernel tests into skips.
//! Method: a small state machine. Results are between `running N tests` and the first `failures:`.
//! After `failures:` come blocks of captured output; lines in these blocks that look like results
//! are ignored. `test result:` ends the section. Doc tests print several sections.

/// The result of a test, as printed by the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    Failed,
    Ignored,
}

/// The result of a test, with its output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    /// Output of a failed test.
    pub(crate) output: String,
}

/// A test that passed but printed on stderr that it could not do its work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) name: String,
    pub(crate) why: String,
}

/// Remarks that the harness appends to a name in results, but not in listings.
const REMARKS: [&str; 3] = [" - should panic", " - compile fail", " - compile"];

enum State {
    /// Before a section, or after its `test result:`.
    Outside,
    Results,
    Failures,
}

/// Parses the reports of every section, in the order of their results.
pub(crate) fn parse(stdout: &str) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    let mut state = State::Outside;
    // If a test prints directly to stdout, its verdict appears on a later line.
    let mut unfinished: Option<&str> = None;
    let mut block: Option<usize> = None;
    for line in stdout.lines() {
        match state {
            State::Outside if is_opening(line) => state = State::Results,
            State::Outside => (),
            _ if line.starts_with("test result: ") => {
                cut_list_of_failures(block.take().map(|place| &mut reports[place]));
                state = State::Outside;
            }
            State::Results if line == "failures:" => state = State::Failures,
            State::Results => match result_line(line) {
                Some((name, Some(verdict))) => reports.push(Report::new(name, verdict)),
                Some((name, None)) => unfinished = Some(name),
                None => {
                    if let (Some(name), Some(verdict)) = (unfinished, verdict(line)) {
                        reports.push(Report::new(name, verdict));
                        unfinished = None;
                    }
                }
            },
            State::Failures => match opened_block(line, &reports) {
                Some(place) => block = Some(place),
                None => {
                    if let Some(place) = block {
                        reports[place].output.push_str(line);
                        reports[place].output.push('\n');
                    }
                }
            },
        }
    }
    reports
}

/// Parses names from `--list --format terse`; benches are not included.
pub(crate) fn listing(stdout: &str) -> Vec<String> {
    let names = stdout
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}

/// Parses lines `skipped: <test name>: <why>`.
pub(crate) fn skips(stderr: &str) -> Vec<Skip> {
    let lines = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("skipped: "));
    lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, why)| Skip {
            name: name.to_owned(),
            why: why.to_owned(),
        })
        .collect()
}

/// Returns whether a line is the result of a test; used to count progress.
pub(crate) fn is_result(line: &str) -> bool {
    matches!(result_line(line), Some((_, Some(_))))
}

impl Report {
    fn new(name: &str, verdict: Verdict) -> Self {
        Self {
            name: name.to_owned(),
            verdict,
            output: String::new(),
        }
    }
}

fn is_opening(line: &str) -> bool {
    line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test"))
}

/// Parses `test NAME ... VERDICT`; `None` as verdict if it follows on a later line.
fn result_line(line: &str) -> Option<(&str, Option<Verdict>)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let remark = REMARKS.iter().find_map(|remark| name.strip_suffix(remark));
    Some((remark.unwrap_or(name), verdict(rest)))
}

/// Parses `ok`, `FAILED`, `ignored` or `ignored, why`.
fn verdict(word: &str) -> Option<Verdict> {
    match word {
        "ok" => Some(Verdict::Ok),
        "FAILED" => Some(Verdict::Failed),
        "ignored" => Some(Verdict::Ignored),
        _ if word.starts_with("ignored, ") => Some(Verdict::Ignored),
        // For example `FAILED (exit code 3)`.
        _ if word.starts_with("FAILED ") => Some(Verdict::Failed),
        _ => None,
    }
}

/// Returns the index of the failed test whose output block begins with this line.
fn opened_block(line: &str, reports: &[Report]) -> Option<usize> {
    let name = line.strip_prefix("---- ")?.strip_suffix(" stdout ----")?;
    // A test may print such a line itself. Then either its own block has already begun, or the name
    // is not that of a failed test.
    reports.iter().position(|report| {
        report.verdict == Verdict::Failed && report.name == name && report.output.is_empty()
    })
}

/// Removes the harness's list of failed names from the last block.
fn cut_list_of_failures(last: Option<&mut Report>) {
    if let Some(report) = last
        && let Some(end) = report.output.rfind("\nfailures:\n")
    {
        report.output.truncate(end);
    }
}

/// Returns whether a line of a test program reports a failed test.
pub(crate) fn is_failure(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with("... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of a run in which a failed test printed lines that look like libtest's result lines.
    const UNIT: &str = include_str!("../testdata/unit.txt");
    /// Output of `cargo test --doc` in a workspace with two crates.
    const DOC: &str = include_str!("../testdata/doc.txt");
    /// Output of an executable that a test aborted.
    const CRASH: &str = include_str!("../testdata/crash.txt");

    fn verdicts(reports: &[Report]) -> Vec<(&str, Verdict)> {
        let pairs = reports
            .iter()
            .map(|report| (report.name.as_str(), report.verdict));
        pairs.collect()
    }

    #[test]
    fn unit_tests_are_read_once_each_and_imitations_are_not() {
        assert_eq!(
            verdicts(&parse(UNIT)),
            [
                ("tests::does_not_panic", Verdict::Failed),
                ("tests::good", Verdict::Ok),
                ("tests::lazy", Verdict::Ignored),
                ("tests::lazy_why", Verdict::Ignored),
                ("tests::no_adapter", Verdict::Ok),
                ("tests::bad", Verdict::Failed),
                ("tests::panics", Verdict::Ok),
                ("tests::result", Verdict::Failed),
            ]
        );
    }

    #[test]
    fn a_failure_carries_its_own_output() {
        let reports = parse(UNIT);
        let output = |name: &str| {
            let report = reports.iter().find(|report| report.name == name);
            report.unwrap().output.trim()
        };
        assert!(output("tests::bad").starts_with("test tests::good ... FAILED\nfailures:\n"));
        assert!(output("tests::bad").contains("assertion `left == right` failed: numbers"));
        assert_eq!(output("tests::result"), "Error: \"no luck\"");
        assert_eq!(output("tests::good"), "");
    }

    #[test]
    fn doc_tests_of_several_sections_and_crates_are_read() {
        assert_eq!(
            verdicts(&parse(DOC)),
            [
                ("crates/alpha/src/lib.rs - add (line 15)", Verdict::Ignored),
                ("crates/alpha/src/lib.rs - add (line 3)", Verdict::Ok),
                ("crates/alpha/src/lib.rs - add (line 18)", Verdict::Ok),
                ("crates/alpha/src/lib.rs - add (line 9)", Verdict::Ok),
                ("crates/alpha/src/lib.rs - add (line 6)", Verdict::Failed),
                ("crates/alpha/src/lib.rs - add (line 12)", Verdict::Ok),
                ("crates/beta/src/lib.rs - (line 2)", Verdict::Ok),
            ]
        );
    }

    #[test]
    fn a_crash_leaves_the_tests_before_it() {
        assert_eq!(verdicts(&parse(CRASH)), [("fine", Verdict::Ok)]);
    }

    #[test]
    fn a_verdict_on_a_later_line_belongs_to_the_test_before_it() {
        let stdout = "\nrunning 1 test\ntest chatty ... hello\nok\n\n\
            test result: ok. 1 passed; 0 failed\ntest late ... ok\n";
        assert_eq!(verdicts(&parse(stdout)), [("chatty", Verdict::Ok)]);
    }

    #[test]
    fn skips_keep_their_reason_whole() {
        let stderr = "warning: x\nskipped: kernels::sum: no adapter: none found\n";
        let expected = Skip {
            name: "kernels::sum".into(),
            why: "no adapter: none found".into(),
        };
        assert_eq!(skips(stderr), [expected]);
    }

    #[test]
    fn listings_name_tests_only() {
        let stdout = "a::b: test\nc: bench\nsrc/lib.rs - d (line 3): test\n";
        assert_eq!(listing(stdout), ["a::b", "src/lib.rs - d (line 3)"]);
    }

    #[test]
    fn only_a_reported_failure_of_a_test_is_a_failure() {
        assert!(is_failure("test plan::a_plan_is_small ... FAILED"));
        assert!(!is_failure("test plan::a_plan_is_small ... ok"));
        assert!(!is_failure("FAILED"));
    }
}
