//! Text formats of traces: writers that run during sampling, and readers.
//!
//! | format | for | content |
//! |---|---|---|
//! | [`Dialect::Csv`] | people and tables | everything |
//! | [`Dialect::JsonLines`] | programs | everything |
//! | [`Dialect::SemicolonCsv`] | programs that read the `;`-separated file of `gpu_trace.py` (2023) | one device; power and memory as shares of their limits |
//! | [`Dialect::ChromeTrace`] | Perfetto and `chrome://tracing` | power, utilisation, clocks, energy and temperature, with regions of code |
//! | [`prometheus`] | scrapers | the newest row of each device |
//!
//! Method: lines are written as a whole, so the file of a killed process is a shorter but valid
//! trace. Readers skip lines that they cannot parse, and return an error with the line number for
//! each.
//! Source: the semicolon dialect is the format of the script `gpu_trace.py` in the blog note
//! "Tracing GPU Resources" (2023).

mod chrome;
mod csv;
mod json_lines;
pub mod prometheus;
mod semicolon_csv;

use crate::trace::{FaultCount, Overhead, Region, Row, Trace};
use crate::{Device, Error, Metric, Result};
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use semicolon_csv::{DeviceLimits, HEADER as SEMICOLON_CSV_HEADER};

/// Version of the formats, stored in the header of files.
const VERSION: u32 = 1;

/// A consumer of a trace that receives each row as it is sampled.
pub trait Sink: Send {
    /// Receives the source, the devices and the interval, before the first row.
    ///
    /// # Errors
    /// An I/O error if the output cannot be written. The sink then receives no more calls.
    fn begin(&mut self, trace: &Trace) -> io::Result<()>;

    /// Receives a row, which is not yet part of `trace`.
    ///
    /// # Errors
    /// Same as [`Self::begin`].
    fn row(&mut self, trace: &Trace, row: &Row) -> io::Result<()>;

    /// Receives a region of code that has ended.
    ///
    /// # Errors
    /// Same as [`Self::begin`].
    fn mark(&mut self, trace: &Trace, mark: &Region) -> io::Result<()>;

    /// Writes all buffered text.
    ///
    /// # Errors
    /// Same as [`Self::begin`].
    fn flush(&mut self, trace: &Trace) -> io::Result<()>;

    /// Receives faults and overhead, after the last row, and writes all buffered text.
    ///
    /// # Errors
    /// Same as [`Self::begin`].
    fn end(&mut self, trace: &Trace) -> io::Result<()>;
}

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Comma-separated values with one column per metric and units in the column names. Other data
    /// is JSON in lines that begin with `#`.
    Csv,
    /// JSON lines: one object per line. Times of rows are exact to the nanosecond in the first 2^22
    /// s (48 days) of a trace.
    JsonLines,
    /// The seven columns of the script `gpu_trace.py`, separated by semicolons.
    SemicolonCsv,
    /// Chrome trace events: metrics as counters, and regions of code as slices.
    ChromeTrace,
}

/// A parsed trace, with an error for each skipped line.
#[derive(Debug)]
pub struct Read {
    /// The parsed trace.
    pub trace: Trace,
    /// An error for each skipped line.
    pub skipped: Vec<Error>,
}

/// A sink that writes a trace as text during sampling.
#[derive(Debug)]
pub struct Writer<W> {
    dialect: Dialect,
    /// A newly created file without text, to be removed on drop. This field precedes `out`, so that
    /// it is dropped first and the file is removed while it is still locked.
    created: Created,
    out: W,
    /// Complete lines that are not written yet.
    held: String,
    /// Rows that follow the lines in `held` and are not formatted yet. Formatting in batches is
    /// faster, because the code and data for formatting stay in the processor's caches.
    rows: Vec<Row>,
    semicolon_csv: semicolon_csv::WriterState,
    tracks: chrome::Tracks,
    /// If set and true, nothing is written; see [`Writer::held_back`].
    holds: Option<Arc<AtomicBool>>,
    /// Function that truncates the output before the first text; `None` if not needed (any more).
    empties: Option<fn(&mut W) -> io::Result<()>>,
    /// Number of bytes written so far.
    n_written: u64,
    /// The path of the output, and the function that checks that the file at the path still
    /// contains all text; `None` if the output has no path.
    checks: Option<(PathBuf, Check<W>)>,
}

/// A function that checks an output with a path and a number of bytes written.
type Check<W> = fn(&W, &Path, u64) -> io::Result<()>;

/// The path of a new file, which is removed on drop unless the path has been taken.
#[derive(Debug)]
struct Created(Option<PathBuf>);

impl Drop for Created {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // An error is ignored: an empty file that remains is harmless.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A handle that releases a [`Writer`] created with [`Writer::held_back`].
#[derive(Debug)]
#[must_use]
pub struct Release(Arc<AtomicBool>);

impl Release {
    /// Allows the writer to write, starting with its next flush.
    pub fn release(self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The header of a file, before the first row.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    trace: u32,
    source: String,
    began_unix_ns: u64,
    interval_s: f64,
    devices: Vec<Device>,
}

/// A record other than a row, between or after rows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Note {
    Mark(Region),
    Fault(FaultCount),
    Overhead(Overhead),
}

/// Number of buffered rows at which the buffer is written without waiting for a flush.
const MAX_ROWS: usize = 1 << 9;

impl Dialect {
    /// Returns the dialect for a file name: JSON lines for `.jsonl` and `.ndjson`, a Chrome trace
    /// for `.json`, and CSV by default.
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("jsonl" | "ndjson") => Self::JsonLines,
            Some("json") => Self::ChromeTrace,
            _ => Self::Csv,
        }
    }

    /// Detects the dialect of a text by its first characters; `None` if the format is unknown.
    #[must_use]
    pub fn detect(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.starts_with("{\"trace\":") {
            Some(Self::JsonLines)
        } else if text.starts_with(semicolon_csv::HEADER) {
            Some(Self::SemicolonCsv)
        } else if text.starts_with(csv::FIRST) {
            Some(Self::Csv)
        } else if text.starts_with('[') || text.starts_with("{\"traceEvents\"") {
            Some(Self::ChromeTrace)
        } else {
            None
        }
    }
}

/// Parses a trace in any of the dialects.
///
/// For [`Dialect::SemicolonCsv`], power and memory are missing because their limits are unknown;
/// see [`read_semicolon_csv`].
///
/// # Errors
/// [`Error::Text`] if the format is unknown or the header cannot be parsed.
pub fn read(bytes: &[u8]) -> Result<Read> {
    let text = String::from_utf8_lossy(bytes);
    match Dialect::detect(&text) {
        Some(Dialect::Csv) => csv::read(&text),
        Some(Dialect::JsonLines) => json_lines::read(&text),
        Some(Dialect::SemicolonCsv) => semicolon_csv::read(&text, DeviceLimits::default()),
        Some(Dialect::ChromeTrace) => chrome::read(&text),
        None => Err(text_error("trace", 1, "unknown format")),
    }
}

/// Parses a trace in [`Dialect::SemicolonCsv`], and converts its shares to watts and bytes by the
/// given limits, which the file itself does not contain.
///
/// # Errors
/// [`Error::Text`] if the first line is not [`SEMICOLON_CSV_HEADER`].
pub fn read_semicolon_csv(bytes: &[u8], limits: DeviceLimits) -> Result<Read> {
    semicolon_csv::read(&String::from_utf8_lossy(bytes), limits)
}

/// Formats a complete trace as text.
#[must_use]
pub fn write(trace: &Trace, dialect: Dialect) -> String {
    let mut writer = Writer::new(dialect, io::sink());
    writer.write_begin(trace);
    writer.write_rows(trace, &trace.rows);
    let mut marks: Vec<&Region> = trace.regions.iter().collect();
    if dialect == Dialect::ChromeTrace {
        // Same order as during sampling, when a region is written at its end.
        marks.sort_by_key(|mark| mark.end);
    }
    for mark in marks {
        writer.write_mark(trace, mark);
    }
    writer.write_end(trace);
    writer.held
}

impl Writer<File> {
    /// Opens or creates a file for writing.
    ///
    /// An existing file keeps its content until the first text is written. A new file is removed if
    /// the writer is dropped before it has written any text.
    ///
    /// Before each write and at the end the writer checks that the path still refers to the file,
    /// and that the file has the length of the text written. If another program removed, replaced,
    /// truncated or extended the file, the call of the [`Sink`] returns an error. Pipes and devices
    /// are not checked.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be opened, or if another program is writing a trace to
    /// the file.
    pub fn create(dialect: Dialect, path: &Path) -> Result<Self> {
        let file_error = |why| Error::File {
            path: path.to_owned(),
            why,
        };
        let (file, created) = loop {
            let (file, is_new) = open(path).map_err(file_error)?;
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                let why = "another program is writing a trace to this file";
                return Err(file_error(io::Error::new(io::ErrorKind::ResourceBusy, why)));
            }
            // Another writer that had no text may have removed the file between `open` and the
            // lock. Rows written to the removed file would be lost, so open the path again.
            if is_at(&file, path) {
                break (file, is_new.then(|| path.to_owned()));
            }
        };
        Ok(Self {
            empties: Some(empty),
            created: Created(created),
            // Absolute, in case the program changes its current folder.
            checks: Some((std::path::absolute(path).map_err(file_error)?, check_intact)),
            ..Self::new(dialect, file)
        })
    }
}

/// Opens or creates a file for writing, and keeps existing content. Returns the file and whether it
/// is new.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = File::options();
    let options = options.write(true).truncate(false);
    match options.create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        // Either an existing file, or a dangling symbolic link, whose target is created here.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let file = options.create_new(false).create(true).open(path)?;
            Ok((file, false))
        }
        Err(error) => Err(error),
    }
}

/// Returns whether a path still refers to an open file, by device and inode.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (open, named) = (file.metadata().map(id), std::fs::metadata(path).map(id));
    open.ok()
        .zip(named.ok())
        .is_some_and(|(open, named)| open == named)
}

/// Returns `true`, because systems other than Unix do not remove an open file.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

impl<W> Writer<W> {
    /// Creates a writer to any output. The output needs no buffering, because the writer buffers
    /// lines.
    #[must_use]
    pub fn new(dialect: Dialect, out: W) -> Self {
        Self {
            dialect,
            out,
            held: String::new(),
            rows: vec![],
            semicolon_csv: semicolon_csv::WriterState::default(),
            tracks: chrome::Tracks::default(),
            holds: None,
            empties: None,
            created: Created(None),
            n_written: 0,
            checks: None,
        }
    }

    /// Holds back all text until [`Release::release`] is called on the returned handle.
    ///
    /// Until then a file is not changed, and memory grows with the rows. If the handle is dropped
    /// unused, nothing is ever written.
    pub fn held_back(mut self) -> (Self, Release) {
        let holds = Arc::new(AtomicBool::new(true));
        self.holds = Some(Arc::clone(&holds));
        (self, Release(holds))
    }

    fn is_holding(&self) -> bool {
        let holds = self.holds.as_ref();
        holds.is_some_and(|holds| holds.load(Ordering::Acquire))
    }

    fn write_begin(&mut self, trace: &Trace) {
        let header = Header {
            trace: VERSION,
            source: trace.source.clone(),
            began_unix_ns: trace.began_unix_ns,
            interval_s: trace.interval.as_secs_f64(),
            devices: trace.devices.clone(),
        };
        match self.dialect {
            Dialect::Csv => csv::begin(&mut self.held, &header),
            Dialect::JsonLines => json_lines::begin(&mut self.held, &header),
            Dialect::SemicolonCsv => semicolon_csv::begin(&mut self.held),
            Dialect::ChromeTrace => chrome::begin(&mut self.held, &header),
        }
    }

    fn write_rows(&mut self, trace: &Trace, rows: &[Row]) {
        for row in rows {
            match self.dialect {
                Dialect::Csv => csv::row(&mut self.held, row),
                Dialect::JsonLines => json_lines::row(&mut self.held, row),
                Dialect::SemicolonCsv => {
                    semicolon_csv::row(&mut self.held, &mut self.semicolon_csv, trace, row)
                }
                Dialect::ChromeTrace => chrome::row(&mut self.held, row),
            }
        }
    }

    /// Formats the buffered rows as lines, and keeps the allocation of the buffer.
    fn write_held(&mut self, trace: &Trace) {
        let mut rows = std::mem::take(&mut self.rows);
        self.write_rows(trace, &rows);
        rows.clear();
        self.rows = rows;
    }

    fn write_mark(&mut self, trace: &Trace, mark: &Region) {
        match self.dialect {
            Dialect::ChromeTrace => chrome::mark(&mut self.held, &mut self.tracks, trace, mark),
            _ => self.write_note(&Note::Mark(mark.clone())),
        }
    }

    fn write_note(&mut self, note: &Note) {
        match self.dialect {
            Dialect::Csv => csv::note(&mut self.held, note),
            Dialect::JsonLines => json_lines::note(&mut self.held, note),
            Dialect::ChromeTrace => chrome::note(&mut self.held, note),
            // Programs that read this dialect expect seven numbers per line and nothing else.
            Dialect::SemicolonCsv => {}
        }
    }

    fn write_end(&mut self, trace: &Trace) {
        let faults = trace.faults.iter().copied().map(Note::Fault);
        let overhead = trace.overhead.map(Note::Overhead);
        for note in faults.chain(overhead) {
            self.write_note(&note);
        }
        if self.dialect == Dialect::ChromeTrace {
            chrome::end(&mut self.held);
        }
    }
}

impl<W: Write> Writer<W> {
    /// Writes all buffered text, unless the writer is held back.
    fn send(&mut self, trace: &Trace) -> io::Result<()> {
        self.write_held(trace);
        if self.is_holding() {
            return Ok(());
        }
        if let Some(empty) = self.empties.take() {
            empty(&mut self.out)?;
            self.created.0 = None;
        }
        // Not only at the end: a write after a truncation fills the file with zeros up to its
        // former length, so that its length is the expected one again.
        self.check()?;
        self.out.write_all(self.held.as_bytes())?;
        self.n_written += self.held.len() as u64;
        self.held.clear();
        self.out.flush()
    }

    /// Returns an error if another program has changed the output since the first text.
    fn check(&self) -> io::Result<()> {
        match &self.checks {
            Some((path, check)) if self.empties.is_none() => check(&self.out, path, self.n_written),
            _ => Ok(()),
        }
    }
}

impl<W: Write + Send> Sink for Writer<W> {
    fn begin(&mut self, trace: &Trace) -> io::Result<()> {
        self.write_begin(trace);
        self.send(trace)
    }

    fn row(&mut self, trace: &Trace, row: &Row) -> io::Result<()> {
        self.rows.push(*row);
        if self.rows.len() < MAX_ROWS {
            return Ok(());
        }
        self.send(trace)
    }

    fn mark(&mut self, trace: &Trace, mark: &Region) -> io::Result<()> {
        self.write_held(trace);
        self.write_mark(trace, mark);
        Ok(())
    }

    fn flush(&mut self, trace: &Trace) -> io::Result<()> {
        self.send(trace)
    }

    fn end(&mut self, trace: &Trace) -> io::Result<()> {
        self.write_held(trace);
        self.write_end(trace);
        self.send(trace)?;
        self.check()
    }
}

/// Returns an error unless the path refers to the open file and the file has the expected length.
/// Accepts pipes and devices, which have no length.
fn check_intact(file: &File, path: &Path, n_bytes: u64) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(());
    }
    if !is_at(file, path) {
        let why = "another program removed or replaced the file";
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    if metadata.len() != n_bytes {
        let why = format!(
            "another program changed the file (length {} bytes; {n_bytes} written)",
            metadata.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(())
}

/// Truncates a regular file; does nothing for a pipe or a terminal.
fn empty(file: &mut File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(())
}

impl Header {
    /// Creates a trace without rows from the header; rejects other versions of the format.
    fn into_trace(self, format: &'static str) -> Result<Trace> {
        if self.trace != VERSION {
            let why = format!(
                "unsupported version (found {}, expected {VERSION})",
                self.trace
            );
            return Err(text_error(format, 1, &why));
        }
        Ok(Trace {
            source: self.source,
            began_unix_ns: self.began_unix_ns,
            interval: seconds(self.interval_s).unwrap_or_default(),
            devices: self.devices,
            ..Trace::default()
        })
    }
}

impl Note {
    /// Adds the note to a trace; returns an error if the trace does not have the note's device.
    fn add_to(self, trace: &mut Trace) -> std::result::Result<(), &'static str> {
        match self {
            Self::Mark(mark) => trace.regions.push(mark),
            Self::Fault(fault) if fault.device < trace.devices.len() => trace.faults.push(fault),
            Self::Fault(_) => return Err("unknown device"),
            Self::Overhead(overhead) => trace.overhead = Some(overhead),
        }
        Ok(())
    }
}

/// Returns the lines of a text with their numbers, starting at 1. A last line without a line break
/// is an error, because its last number may be cut off.
fn lines(text: &str) -> impl Iterator<Item = (usize, std::result::Result<&str, &'static str>)> {
    let text = text.trim_start_matches('\u{feff}');
    text.split_inclusive('\n').enumerate().map(|(index, line)| {
        let whole = line.strip_suffix('\n').ok_or("line is cut off");
        (index + 1, whole.map(|line| line.trim_end_matches('\r')))
    })
}

/// Number of decimal digits of a nanosecond, in seconds.
const NANOSECOND_DIGITS: usize = 9;

/// Parses seconds; `None` if the number is negative, not finite or out of range. A decimal number
/// of at most nine digits after the point is exact.
fn parse_seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_decimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || !is_decimal(whole)
        || !is_decimal(fraction)
        || fraction.len() > NANOSECOND_DIGITS
    {
        return text.parse().ok().and_then(seconds);
    }
    let nanoseconds = format!("{fraction:0<NANOSECOND_DIGITS$}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanoseconds))
}

/// Converts seconds to a time; `None` if the number is negative, not finite or out of range.
fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// Returns the value of a metric in JSON; `None` if the value is null or absent.
///
/// # Errors
/// A value of another type than a number, with the same message as in the CSV reader.
fn metric_value(
    metric: Metric,
    value: Option<&serde_json::Value>,
) -> std::result::Result<Option<f64>, String> {
    match value {
        None | Some(serde_json::Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(not_a_number(metric)),
        },
    }
}

/// Returns the message for a value of a metric that is not a finite number.
fn not_a_number(metric: Metric) -> String {
    format!("{metric} is not a finite number")
}

fn text_error(format: &'static str, line: usize, why: &str) -> Error {
    Error::Text {
        format,
        line,
        why: why.to_owned(),
    }
}

/// Sorts rows by time and regions by start, because a damaged file may have another order.
fn sorted(mut trace: Trace) -> Trace {
    trace.rows.sort_by_key(|row| row.time);
    trace.regions.sort_by_key(|mark| mark.start);
    trace
}

/// Returns the column name of a metric, such as `power_instant_W`.
fn column(metric: Metric) -> String {
    match metric.unit().sign() {
        "" => metric.name().to_owned(),
        sign => format!("{}_{sign}", metric.name()),
    }
}
