//! Options of `trace`.

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Description of COMMAND and of the files, for `--help`.
const LONG_ABOUT: &str = "\
Samples power, energy and utilisation while COMMAND runs or, without COMMAND, until Ctrl-C or \
SIGTERM. Prints the energy with its uncertainty and the reasons for idle time, and writes a report.

COMMAND runs in the current folder, has the terminal for itself, and paths are relative to the \
current folder. The first SIGTERM is passed on to COMMAND, and the terminal sends Ctrl-C to \
COMMAND as well; a second signal kills COMMAND. If COMMAND cannot be started, an existing FILE is \
unchanged and no new FILE is created. A COMMAND with the name of an analysis needs a -- before it.";

/// The exit codes, for both help texts.
const EXIT_CODES: &str = "\
Exit code: that of COMMAND, or 128 plus the number of the signal that ended it; 0 without COMMAND; \
1 if sampling or writing failed, or if all devices were lost; 2 for invalid usage; 126 if COMMAND \
cannot be executed; 127 if COMMAND is not found.";

/// Command line of `trace`.
#[derive(Debug, Parser)]
#[command(
    name = "trace",
    version,
    about = "Samples power, energy and utilisation while a command runs",
    long_about = LONG_ABOUT,
    after_help = EXIT_CODES,
    override_usage = "trace [OPTIONS] [--] [COMMAND]...\n       \
                      trace compare [OPTIONS] <BEFORE> <AFTER>\n       \
                      trace dvfs [OPTIONS] <FILE>...",
    subcommand_value_name = "ANALYSIS",
    subcommand_help_heading = "Analyses of recorded files",
    disable_help_subcommand = true,
    args_override_self = true,
    max_term_width = 100
)]
pub struct Trace {
    /// Analysis of recorded files; `None` to sample or to convert a file.
    #[command(subcommand)]
    pub analysis: Option<Analysis>,

    /// Use only this device, by index, UUID or PCI bus id; repeatable [default: all]
    #[arg(long, global = true, value_name = "NAME")]
    pub gpu: Vec<String>,

    /// Sampling interval: 100ms, 0.5s, 200us, 1min, 1h … [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub interval: Option<Duration>,

    /// Stop sampling after this time; then wait for COMMAND to end
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub at_most: Option<Duration>,

    /// Write rows to FILE while sampling [default: log.csv]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Format of FILE [default: by the extension of FILE: .jsonl, .json for chrome, otherwise csv]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// Write the HTML report to FILE [default: the name of the rows file with .html, or log.html
    /// if the rows file is a pipe or a device]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Source: nvml, rapl, demo (a simulated GPU), or a recorded file [default: nvml, else rapl]
    ///
    /// The report of a recorded file is written at once, and its rows if --out is given. A
    /// recorded file excludes COMMAND, --interval, --for, --serve and --live.
    #[arg(long, value_name = "SOURCE")]
    pub source: Option<OsString>,

    /// Load NVIDIA's management library from PATH; for the source nvml only
    #[arg(long, value_name = "PATH")]
    pub nvml: Option<PathBuf>,

    /// Answer GET /metrics for Prometheus while sampling: 127.0.0.1:9835, or 9835 for this port on
    /// localhost
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub serve: Option<SocketAddr>,

    /// Show the live line also while COMMAND runs, although the two share the terminal
    #[arg(long, conflicts_with = "quiet")]
    pub live: bool,

    /// Show no live line; with COMMAND there is none unless --live is given
    #[arg(long)]
    pub quiet: bool,

    /// Print the result as one JSON object
    #[arg(long, global = true)]
    pub json: bool,

    /// Program to run, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// An analysis of recorded files.
#[derive(Debug, Subcommand)]
pub enum Analysis {
    /// Compare two recordings of a job: throughput, energy per item, and what limited the clocks
    ///
    /// The job is the only region of a file, such as COMMAND, or the whole file if it has no or
    /// several regions. Devices are compared in the order of the files.
    Compare {
        /// Recording of the job under the first policy
        before: PathBuf,
        /// Recording of the job under the second policy
        after: PathBuf,
        /// Items of work in BEFORE, and in AFTER unless --items-after is given
        #[arg(long, value_name = "N", default_value = "1", value_parser = amount)]
        items: f64,
        /// Items of work in AFTER
        #[arg(long, value_name = "N", value_parser = amount)]
        items_after: Option<f64>,
    },
    /// Find the clock of least energy in recordings of one job at several clocks
    ///
    /// Each FILE has one or more runs of the job: its outermost regions, or the whole file if it
    /// has none. The clock of a run is the median of its readings. Runs at one clock are averaged,
    /// and the standard error of their mean is the noise of the point. At least three clocks are
    /// needed.
    Dvfs {
        /// Recordings of the job
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Items of work in each run
        #[arg(long, value_name = "N", default_value = "1", value_parser = amount)]
        items: f64,
        /// Also print the clock of least energy that is at most this much slower than the fastest
        #[arg(long, value_name = "PERCENT", value_parser = percent)]
        max_slowdown: Option<f64>,
    },
}

/// A format of the file of rows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// Comma-separated values with all devices and metrics
    Csv,
    /// JSON lines with all devices and metrics
    Jsonl,
    /// Trace events for Perfetto
    Chrome,
    /// The columns of the original monitoring script; first device only
    SemicolonCsv,
}

impl Trace {
    /// Parses a command line, whose first word is the name of the program.
    ///
    /// # Errors
    /// The request for the help or the version, and invalid usage.
    pub fn parse_words(words: impl IntoIterator<Item = OsString>) -> clap::error::Result<Self> {
        let options = Self::try_parse_from(words)?;
        options.check()?;
        Ok(options)
    }

    /// Checks what the definition of the options cannot express.
    ///
    /// # Errors
    /// An option of sampling was given for an analysis.
    pub fn check(&self) -> clap::error::Result<()> {
        match self.sampling_option() {
            Some(option) if self.analysis.is_some() => {
                let message = format!("{option} does not apply to an analysis of recorded files");
                Err(invalid(ErrorKind::ArgumentConflict, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the name of a given option that only applies to sampling or to a report.
    fn sampling_option(&self) -> Option<&'static str> {
        let given = [
            ("--interval", self.interval.is_some()),
            ("--for", self.at_most.is_some()),
            ("--out", self.out.is_some()),
            ("--format", self.format.is_some()),
            ("--report", self.report.is_some()),
            ("--source", self.source.is_some()),
            ("--nvml", self.nvml.is_some()),
            ("--serve", self.serve.is_some()),
            ("--live", self.live),
            ("--quiet", self.quiet),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(name, _)| name)
    }
}

/// Creates an error of invalid usage, with the usage of the program.
#[must_use]
pub fn invalid(kind: ErrorKind, message: impl std::fmt::Display) -> clap::Error {
    Trace::command().error(kind, message)
}

/// Parses a socket address, or a port on localhost.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let why = |_| "expected address and port, such as 127.0.0.1:9835".to_owned();
    text.parse().map_err(why)
}

/// Parses a time with a unit; without a unit, in seconds.
fn time(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(char::is_alphabetic);
    let per_second = match &text[number.len()..] {
        "s" | "" => 1.0,
        "ms" => 1e3,
        "us" | "µs" => 1e6,
        "min" => 1.0 / 60.0,
        "h" => 1.0 / 3600.0,
        unit => {
            return Err(format!(
                "invalid unit of time {unit:?} (expected s, ms, us, min or h)"
            ));
        }
    };
    let seconds: Option<f64> = number.trim().parse().ok();
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s / per_second).ok());
    time.ok_or_else(|| "expected a time such as 100ms".to_owned())
}

/// Parses an amount of work: a finite number above 0.
fn amount(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|&number: &f64| number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a finite number above 0".to_owned())
}

/// Parses a percentage from 0 to 100, with or without a percent sign.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "expected a percentage from 0 to 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> clap::error::Result<Trace> {
        Trace::parse_words(["trace"].iter().chain(words).map(OsString::from))
    }

    #[test]
    fn the_definition_of_the_options_is_consistent() {
        Trace::command().debug_assert();
    }

    #[test]
    fn times_have_units_and_are_seconds_without_one() {
        for (text, s) in [
            ("100ms", 0.1),
            ("0.5s", 0.5),
            ("200us", 2e-4),
            ("1e3ms", 1.0),
            ("2min", 120.0),
            ("1h", 3600.0),
            ("3µs", 3e-6),
            ("7", 7.0),
        ] {
            assert_eq!(time(text).unwrap(), Duration::from_secs_f64(s), "{text}");
        }
        for text in ["", "s", "-1s", "NaN", "inf", "1d", "1e400s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_may_be_a_port_and_is_this_machines_then() {
        assert_eq!(address("99").unwrap(), (Ipv4Addr::LOCALHOST, 99).into());
        assert_eq!(address("[::1]:5").unwrap().to_string(), "[::1]:5");
        for text in ["", "localhost", "70000", "1.2.3.4"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_of_work_are_above_0_and_percentages_are_shares() {
        assert_eq!(amount("2.5e3").unwrap(), 2500.0);
        assert_eq!(percent("5%").unwrap(), 5.0);
        for text in ["0", "-1", "NaN", "inf", "x", ""] {
            assert!(amount(text).is_err(), "{text}");
        }
        for text in ["101", "-1", "NaN", "%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_after_the_command_are_its_own() {
        let options = parsed(&["--quiet", "sh", "--json", "-c", "--", "x"]).unwrap();
        assert!(options.quiet && !options.json);
        assert_eq!(options.command, ["sh", "--json", "-c", "--", "x"]);
        let options = parsed(&["--", "compare", "a", "b"]).unwrap();
        assert!(options.analysis.is_none());
        assert_eq!(options.command, ["compare", "a", "b"]);
        // An unknown option is not the name of a program.
        assert!(parsed(&["--nosuch"]).is_err());
    }

    #[test]
    fn the_last_of_repeated_options_counts_and_devices_add_up() {
        let options = parsed(&["--for", "1s", "--gpu", "0", "--for", "2s", "--gpu", "1"]).unwrap();
        assert_eq!(options.at_most, Some(Duration::from_secs(2)));
        assert_eq!(options.gpu, ["0", "1"]);
    }

    #[test]
    fn analyses_share_options_before_and_after_their_name() {
        for words in [
            &["--json", "--gpu", "1", "compare", "a", "b"][..],
            &["compare", "a", "--json", "b", "--gpu", "1"],
        ] {
            let options = parsed(words).unwrap();
            assert!(options.json && options.gpu == ["1"], "{words:?}");
            assert!(matches!(
                options.analysis,
                Some(Analysis::Compare { items, items_after: None, .. }) if items == 1.0
            ));
        }
        let error = parsed(&["--out", "x", "dvfs", "a"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("--out does not apply"), "{error}");
    }
}
