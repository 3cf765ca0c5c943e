//! The command-line options of the trace command.

use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use telemetry::format::Dialect;
use telemetry::{Sampler, Select};

pub(crate) const HELP: &str = "\
trace: sample power, energy and utilisation

usage: cargo xtask trace [options] [-- COMMAND …]

Samples while COMMAND runs or, without COMMAND, until Ctrl-C or SIGTERM. Prints the energy with its uncertainty and the
reasons for idle time, and writes a report. The first SIGTERM is passed on to COMMAND, and the terminal sends Ctrl-C
to COMMAND as well; a second signal kills COMMAND. COMMAND runs in the current directory, and paths are relative to it.
If COMMAND cannot be started, an existing FILE is unchanged and no new FILE is created.

  --gpu NAME        sample only this device, by index, UUID or PCI bus id; repeatable (default: all)
  --interval TIME   sampling interval: 100ms, 0.5s, 200us, 1min, 1h … (default 100ms)
  --for TIME        stop sampling after this time; then wait for COMMAND to end
  --out FILE        write rows to FILE while sampling (default: log.csv)
  --format FORMAT   csv, jsonl, chrome, or semicolon-csv (the columns of the original monitoring script, first device
                    only) (default: by the extension of FILE: .jsonl, .json for chrome, otherwise csv)
  --report FILE     write the HTML report to FILE (default: the name of the rows file with .html, or log.html if the rows
                    file is a pipe or a device)
  --source SOURCE   nvml, rapl, demo (a simulated GPU), or a recorded file, whose report is written at once, and its rows
                    if --out is given (default: nvml, else rapl). A recorded file excludes COMMAND, --interval, --for
                    and --serve
  --nvml PATH       load NVIDIA's management library from PATH; for the source nvml only
  --serve ADDRESS   answer GET /metrics for Prometheus while sampling: 127.0.0.1:9835, or 9835 for this port on localhost
  --quiet           print no live line; with COMMAND there is none, because it would erase COMMAND's output
  --json            print the result as one JSON object
  --help            print this help

Exit code: that of COMMAND, or 128 plus the signal that ended it; 0 without COMMAND; 1 if sampling or writing failed;
2 for invalid usage.
";
/// Default file for the rows.
const OUT: &str = "log.csv";

/// The parsed options.
pub(crate) struct Options {
    pub(crate) select: Select,
    pub(crate) interval: Duration,
    pub(crate) at_most: Option<Duration>,
    /// File for the rows. Without this option the file is [`OUT`], or no file is written if the
    /// source is a recorded file.
    pub(crate) out: Option<PathBuf>,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) report: Option<PathBuf>,
    pub(crate) source: Option<OsString>,
    pub(crate) nvml: Option<PathBuf>,
    pub(crate) serve: Option<SocketAddr>,
    pub(crate) is_quiet: bool,
    pub(crate) is_json: bool,
    pub(crate) command: Vec<OsString>,
}

impl Options {
    /// Returns the recorded file given as the source; none for a live source.
    pub(crate) fn file(&self) -> Option<&Path> {
        let source = self.source.as_ref()?;
        let is_live = ["nvml", "rapl", "demo"].iter().any(|name| source == name);
        (!is_live).then(|| source.as_ref())
    }

    /// Returns the path of the rows file.
    pub(crate) fn rows(&self) -> &Path {
        self.out.as_deref().unwrap_or(OUT.as_ref())
    }

    /// Returns the path of the report.
    ///
    /// # Errors
    /// A report path that is the rows file or the recorded file.
    pub(crate) fn page(&self) -> Result<PathBuf> {
        let rows = match (&self.out, self.file()) {
            (None, Some(file)) => file,
            _ => self.rows(),
        };
        // A name next to a pipe or a device would be in a folder such as /dev.
        let is_file = !rows.exists() || rows.is_file();
        let namesake = if is_file { rows } else { OUT.as_ref() };
        let page = self
            .report
            .clone()
            .unwrap_or_else(|| namesake.with_extension("html"));
        for other in [Some(rows), self.file()].into_iter().flatten() {
            ensure!(
                !is_same(&page, other),
                "--report: {} is also a file of rows (expected another file)",
                page.display()
            );
        }
        Ok(page)
    }

    /// Returns an error if an option does not apply to the source.
    fn check_source(&self, has_interval: bool) -> Result<()> {
        let source = self.source.as_ref();
        let is_nvml = source.is_none_or(|source| source == "nvml");
        ensure!(
            self.nvml.is_none() || is_nvml,
            "--nvml applies to the source nvml only (found {})",
            source.unwrap_or(&OsString::new()).display()
        );
        let Some(file) = self.file() else {
            return Ok(());
        };
        let of_live_sources = [
            ("COMMAND", !self.command.is_empty()),
            ("--interval", has_interval),
            ("--for", self.at_most.is_some()),
            ("--serve", self.serve.is_some()),
        ];
        for (option, is_given) in of_live_sources {
            ensure!(
                !is_given,
                "{option} requires a live source (nvml, rapl or demo), but {} is a recorded file",
                file.display()
            );
        }
        ensure!(
            self.dialect.is_none() || self.out.is_some(),
            "--format requires --out, because {} is a recorded file",
            file.display()
        );
        Ok(())
    }

    /// Returns the format of the rows: the value of `--format`, or else the format for the file's
    /// extension.
    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
            .unwrap_or_else(|| Dialect::from_path(self.rows()))
    }

    /// Returns the words of the command, joined by spaces.
    pub(crate) fn command_line(&self) -> String {
        let words = self.command.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Returns whether two paths name the same file, which need not exist.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    match (whole(one), whole(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// Parses the command line; none if it requests the help.
pub(crate) fn parse() -> Result<Option<Options>> {
    use lexopt::prelude::*;
    let (mut names, mut interval) = (vec![], None);
    let mut options = Options {
        select: Select::All,
        interval: Duration::from_millis(100),
        at_most: None,
        out: None,
        dialect: None,
        report: None,
        source: None,
        nvml: None,
        serve: None,
        is_quiet: false,
        is_json: false,
        command: vec![],
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("gpu") => names.push(parser.value()?.string()?),
            Long("interval") => interval = Some(time(&parser.value()?.string()?)?),
            Long("for") => options.at_most = Some(time(&parser.value()?.string()?)?),
            Long("out") => options.out = Some(parser.value()?.into()),
            Long("format") => options.dialect = Some(dialect(&parser.value()?.string()?)?),
            Long("report") => options.report = Some(parser.value()?.into()),
            Long("source") => options.source = Some(parser.value()?),
            Long("nvml") => options.nvml = Some(parser.value()?.into()),
            Long("serve") => options.serve = Some(address(&parser.value()?.string()?)?),
            Long("quiet") => options.is_quiet = true,
            Long("json") => options.is_json = true,
            Long("help") | Short('h') => return Ok(None),
            Value(first) => {
                options.command = [first].into_iter().chain(parser.raw_args()?).collect();
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if !names.is_empty() {
        options.select = Select::Named(names);
    }
    options.check_source(interval.is_some())?;
    options.interval = interval.unwrap_or(options.interval);
    ensure!(
        options.interval >= Sampler::MIN_INTERVAL,
        "--interval: {:?} is too short (at least {:?})",
        options.interval,
        Sampler::MIN_INTERVAL
    );
    ensure!(
        !is_output(options.rows()),
        "--out: standard output is used for the result (expected another file)"
    );
    // Report an invalid report path now rather than at the end of sampling.
    options.page()?;
    Ok(Some(options))
}

/// Returns whether a file or pipe is the target of standard output; false for devices, because
/// `/dev/null` takes both outputs.
fn is_output(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let place = |path: &Path| {
            let facts = path.metadata().ok()?;
            let is_device = facts.file_type().is_char_device();
            (!is_device).then(|| (facts.dev(), facts.ino()))
        };
        let output = place("/dev/stdout".as_ref());
        output.is_some() && output == place(path)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Parses a socket address, or a port on localhost.
fn address(text: &str) -> Result<SocketAddr> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let why =
        || format!("invalid address {text:?} (expected address and port, such as 127.0.0.1:9835)");
    text.parse().ok().with_context(why)
}

/// Parses a time with a unit; without a unit, in seconds.
fn time(text: &str) -> Result<Duration> {
    let number = text.trim_end_matches(char::is_alphabetic);
    let per_second = match &text[number.len()..] {
        "s" | "" => 1.0,
        "ms" => 1e3,
        "us" | "µs" => 1e6,
        "min" => 1.0 / 60.0,
        "h" => 1.0 / 3600.0,
        _ => bail!("invalid unit of time in {text:?} (expected s, ms, us, min or h)"),
    };
    let seconds: Option<f64> = number.trim().parse().ok();
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s / per_second).ok());
    time.with_context(|| format!("invalid time {text:?} (expected a time such as 100ms)"))
}

fn dialect(text: &str) -> Result<Dialect> {
    Ok(match text {
        "semicolon-csv" => Dialect::SemicolonCsv,
        "csv" => Dialect::Csv,
        "jsonl" => Dialect::JsonLines,
        "chrome" => Dialect::ChromeTrace,
        _ => bail!("invalid format {text:?} (expected csv, jsonl, chrome or semicolon-csv)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_help_can_be_sampled_at() {
        for text in ["100ms", "0.5s", "200us"] {
            assert!(HELP.contains(text));
            assert!(time(text).unwrap() >= Sampler::MIN_INTERVAL, "{text}");
        }
        for (text, s) in [
            ("1e3ms", 1.0),
            ("2min", 120.0),
            ("1h", 3600.0),
            ("3µs", 3e-6),
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
    fn one_file_is_one_file_by_any_name() {
        assert!(is_same("a.csv".as_ref(), "./a.csv".as_ref()));
        assert!(!is_same("a.csv".as_ref(), "a.html".as_ref()));
    }
}
