//! What the trace command is asked to do.

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

Samples while COMMAND runs, without one until Ctrl-C or SIGTERM. Ends with the energy, how sure it is, what kept the
device from working, and a report. SIGTERM is passed on to COMMAND; Ctrl-C reaches it anyway; a second one kills it.
COMMAND runs in the current folder, and paths are relative to it. If COMMAND can't be started, an old FILE is
unchanged and no new FILE is created.

  --gpu NAME        only this one, by index, UUID or PCI place; may be given again (default: all)
  --interval TIME   100ms, 0.5s, 200us, 1min, 1h … (default 100ms)
  --for TIME        stop sampling after this time; COMMAND goes on, and is waited for
  --out FILE        write rows to FILE as they come (default: log.csv)
  --format FORMAT   seed (the `;` columns of the source's script, first device; the default for .csv), csv, jsonl or chrome
  --report FILE     write the HTML report there (default: the name of the rows' file with .html)
  --source SOURCE   nvml, rapl, demo (a GPU that does not exist; default: nvml, else rapl), or a recorded file, of which
                    the report is made at once, and --out if that is given
  --nvml PATH       load NVIDIA's library from there
  --serve ADDRESS   answer GET /metrics for Prometheus meanwhile: 127.0.0.1:9835, or 9835 for the same
  --quiet           print no live line; with COMMAND there is none, since it would erase COMMAND's output
  --json            print the result as one JSON object
  --help            print this

Exit: that of COMMAND, or 128 and the signal that ended it; 0 without one; 1 where nothing could be sampled or written;
2 for wrong usage.
";
/// Where rows go without another choice.
const OUT: &str = "log.csv";

/// What is asked for.
pub(crate) struct Options {
    pub(crate) select: Select,
    pub(crate) interval: Duration,
    pub(crate) at_most: Option<Duration>,
    /// None is [`OUT`], but nowhere for a recorded file.
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
    /// Gives the recorded file that takes the place of a source, if one does.
    pub(crate) fn file(&self) -> Option<&Path> {
        let source = self.source.as_ref()?;
        let is_live = ["nvml", "rapl", "demo"].iter().any(|name| source == name);
        (!is_live).then(|| source.as_ref())
    }

    /// Gives the file of rows.
    pub(crate) fn rows(&self) -> &Path {
        self.out.as_deref().unwrap_or(OUT.as_ref())
    }

    /// Gives the file of the report.
    ///
    /// # Errors
    /// One that is the file of rows, or the recorded file.
    pub(crate) fn page(&self) -> Result<PathBuf> {
        let rows = match (&self.out, self.file()) {
            (None, Some(file)) => file,
            _ => self.rows(),
        };
        let page = self
            .report
            .clone()
            .unwrap_or_else(|| rows.with_extension("html"));
        for other in [Some(rows), self.file()].into_iter().flatten() {
            ensure!(
                !is_same(&page, other),
                "{} can't take both the report and rows: --report names another file",
                page.display()
            );
        }
        Ok(page)
    }

    /// Gives the format of the rows: that of the source's script, unless another is asked for.
    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
            .unwrap_or_else(|| match Dialect::of_path(self.rows()) {
                Dialect::Csv => Dialect::Seed,
                other => other,
            })
    }

    /// Gives the command as one would type it.
    pub(crate) fn command_line(&self) -> String {
        let words = self.command.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Whether two paths are of one file, which need not exist.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    match (whole(one), whole(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// Reads the command line; nothing if it asks for help.
pub(crate) fn parse() -> Result<Option<Options>> {
    use lexopt::prelude::*;
    let mut names = vec![];
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
            Long("interval") => options.interval = time(&parser.value()?.string()?)?,
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
    ensure!(
        options.interval >= Sampler::MIN_INTERVAL,
        "--interval is {:?}, it must be at least {:?}",
        options.interval,
        Sampler::MIN_INTERVAL
    );
    ensure!(
        !is_output(options.rows()),
        "rows can't go to standard output, where the result is printed: --out names a file"
    );
    // What is wrong with it is better known before an hour of sampling than after.
    options.page()?;
    Ok(Some(options))
}

/// Whether a file is the one that standard output goes to.
fn is_output(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let place = |path: &Path| {
            let facts = path.metadata().ok()?;
            facts.is_file().then(|| (facts.dev(), facts.ino()))
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

/// Reads an address, or a port of this machine's own.
fn address(text: &str) -> Result<SocketAddr> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let why = || format!("{text:?} is no address with a port, such as 127.0.0.1:9835");
    text.parse().ok().with_context(why)
}

/// Reads a time with its unit.
fn time(text: &str) -> Result<Duration> {
    let number = text.trim_end_matches(char::is_alphabetic);
    let per_second = match &text[number.len()..] {
        "s" | "" => 1.0,
        "ms" => 1e3,
        "us" | "µs" => 1e6,
        "min" => 1.0 / 60.0,
        "h" => 1.0 / 3600.0,
        _ => bail!("{text:?} is no time in s, ms, us, min or h"),
    };
    let seconds: Option<f64> = number.trim().parse().ok();
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s / per_second).ok());
    time.with_context(|| format!("{text:?} is no time, such as 100ms"))
}

fn dialect(text: &str) -> Result<Dialect> {
    Ok(match text {
        "seed" => Dialect::Seed,
        "csv" => Dialect::Csv,
        "jsonl" => Dialect::JsonLines,
        "chrome" => Dialect::ChromeTrace,
        _ => bail!("{text:?} is none of seed, csv, jsonl, chrome"),
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
