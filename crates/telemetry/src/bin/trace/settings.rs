//! The settings of a recording, converted from the command line and checked.

use anyhow::{Result, anyhow, ensure};
use commands::clap::error::ErrorKind;
use commands::trace::{Format, Trace as Options, invalid};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use telemetry::format::Dialect;
use telemetry::{Sampler, Select};
use tool_io::check_replaceable;

/// Default file for the rows.
const OUT: &str = "log.csv";
/// Default sampling interval.
const INTERVAL: Duration = Duration::from_millis(100);

/// The source of readings.
#[derive(Debug)]
pub(crate) enum Input {
    /// NVML or, if it has no device, RAPL.
    Any,
    /// NVML.
    Nvml,
    /// RAPL.
    Rapl,
    /// A simulated GPU.
    Demo,
    /// A recorded file.
    File(PathBuf),
}

/// The settings of a recording or of a conversion.
pub(crate) struct Settings {
    pub(crate) select: Select,
    pub(crate) interval: Duration,
    pub(crate) at_most: Option<Duration>,
    /// File for the rows. Without this option the file is [`OUT`], or no file is written if the
    /// source is a recorded file.
    pub(crate) out: Option<PathBuf>,
    /// Format of the rows.
    pub(crate) dialect: Dialect,
    report: Option<PathBuf>,
    pub(crate) input: Input,
    pub(crate) nvml: Option<PathBuf>,
    pub(crate) serve: Option<SocketAddr>,
    /// Whether the live line is shown.
    pub(crate) is_live: bool,
    /// Whether the address of the endpoint is printed.
    pub(crate) is_quiet: bool,
    pub(crate) is_json: bool,
    pub(crate) command: Vec<OsString>,
}

impl Settings {
    /// Converts and checks the options of a recording.
    ///
    /// # Errors
    /// Options that contradict each other or the source, and an interval that is too short.
    pub(crate) fn new(options: Options) -> commands::clap::error::Result<Self> {
        let input = match &options.source {
            None => Input::Any,
            Some(name) if name == "nvml" => Input::Nvml,
            Some(name) if name == "rapl" => Input::Rapl,
            Some(name) if name == "demo" => Input::Demo,
            Some(name) if name.is_empty() => {
                let message = "--source: empty (expected nvml, rapl, demo or a recorded file)";
                return Err(invalid(ErrorKind::ValueValidation, message.to_owned()));
            }
            Some(file) => Input::File(file.into()),
        };
        let conflict = |message: String| invalid(ErrorKind::ArgumentConflict, message);
        if options.nvml.is_some() && !matches!(input, Input::Any | Input::Nvml) {
            let found = options.source.unwrap_or_default();
            return Err(conflict(format!(
                "--nvml applies to the source nvml only (found {})",
                found.display()
            )));
        }
        if let Input::File(file) = &input {
            check_conversion(&options, file)?;
        }
        let interval = options.interval.unwrap_or(INTERVAL);
        if interval < Sampler::MIN_INTERVAL {
            return Err(invalid(
                ErrorKind::ValueValidation,
                format!(
                    "--interval: {interval:?} is too short (at least {:?})",
                    Sampler::MIN_INTERVAL
                ),
            ));
        }
        let rows = options.out.as_deref().unwrap_or(OUT.as_ref());
        let dialect = match options.format {
            Some(Format::Csv) => Dialect::Csv,
            Some(Format::Jsonl) => Dialect::JsonLines,
            Some(Format::Chrome) => Dialect::ChromeTrace,
            Some(Format::SemicolonCsv) => Dialect::SemicolonCsv,
            None => Dialect::from_path(rows),
        };
        let settings = Self {
            select: selection(options.gpu),
            interval,
            at_most: options.at_most,
            dialect,
            report: options.report,
            nvml: options.nvml,
            serve: options.serve,
            // The live line would erase COMMAND's output on the current line.
            is_live: options.live || (options.command.is_empty() && !options.quiet),
            is_quiet: options.quiet,
            is_json: options.json,
            command: options.command,
            out: options.out,
            input,
        };
        if is_output(settings.rows()) {
            return Err(conflict(
                "--out: standard output is used for the result (expected another file)".to_owned(),
            ));
        }
        // Report an invalid report path now rather than at the end of sampling.
        let page = settings.page();
        page.map_err(|error| conflict(error.to_string()))?;
        Ok(settings)
    }

    /// Returns the recorded file given as the source; none for a live source.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.input {
            Input::File(file) => Some(file),
            _ => None,
        }
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

    /// Checks that the report can be written, before the work.
    ///
    /// # Errors
    /// As [`Self::page`], and a folder in which no file can be created.
    pub(crate) fn check_page(&self) -> Result<()> {
        let page = self.page()?;
        check_replaceable(&page).map_err(|error| {
            let hint = if self.report.is_none() {
                "; --report sets another path"
            } else {
                ""
            };
            anyhow!("{error:#}{hint}")
        })
    }

    /// Returns the words of the command, joined by spaces.
    pub(crate) fn command_line(&self) -> String {
        let words = self.command.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Returns the selection of devices by their names; all devices without a name.
pub(crate) fn selection(names: Vec<String>) -> Select {
    if names.is_empty() {
        Select::All
    } else {
        Select::Named(names)
    }
}

/// Checks that the options apply to the conversion of a recorded file.
fn check_conversion(options: &Options, file: &Path) -> commands::clap::error::Result<()> {
    let of_live_sources = [
        ("COMMAND", !options.command.is_empty()),
        ("--interval", options.interval.is_some()),
        ("--for", options.at_most.is_some()),
        ("--serve", options.serve.is_some()),
        ("--live", options.live),
    ];
    let conflict = |message: String| Err(invalid(ErrorKind::ArgumentConflict, message));
    for (option, is_given) in of_live_sources {
        if is_given {
            return conflict(format!(
                "{option} requires a live source (nvml, rapl or demo), but --source is the file {}",
                file.display()
            ));
        }
    }
    if options.format.is_some() && options.out.is_none() {
        return conflict(format!(
            "--format requires --out, because --source is the file {}",
            file.display()
        ));
    }
    Ok(())
}

/// Returns whether two paths name the same file, which need not exist.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    match (whole(one), whole(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_one_file_by_any_name() {
        assert!(is_same("a.csv".as_ref(), "./a.csv".as_ref()));
        assert!(!is_same("a.csv".as_ref(), "a.html".as_ref()));
    }
}
