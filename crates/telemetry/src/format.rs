//! Traces as text: written while they are sampled, and read back.
//!
//! | format | for | content |
//! |---|---|---|
//! | [`Dialect::Csv`] | people and tables | everything |
//! | [`Dialect::JsonLines`] | programs | everything |
//! | [`Dialect::Seed`] | scripts that read the `;` file of a script of 2023 | one device; power and memory as shares of their limits |
//! | [`Dialect::ChromeTrace`] | Perfetto and `chrome://tracing` | power, utilisation, clocks, energy and temperature, with regions of code |
//! | [`prometheus`] | scrapers | the newest row of each device |
//!
//! Method: a line is written whole or not at all, so the file of a killed process is a shorter
//! trace. Readers skip lines that they can't parse, and report where these were.

mod chrome;
mod csv;
mod json_lines;
pub mod prometheus;
mod seed;

use crate::trace::{FaultCount, Mark, Overhead, Row, Trace};
use crate::{Device, Error, Metric, Result};
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use seed::{HEADER as SEED_HEADER, Limits};

/// The version of the formats, which files contain.
const VERSION: u32 = 1;

/// A consumer of a trace, row by row.
pub trait Sink: Send {
    /// Takes the source, the devices and the interval, before the first row.
    ///
    /// # Errors
    /// An output that can't be written; the sink is given up then.
    fn begin(&mut self, trace: &Trace) -> io::Result<()>;

    /// Takes a row, which is not yet among the trace's.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn row(&mut self, trace: &Trace, row: &Row) -> io::Result<()>;

    /// Takes a region of code that was left.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn mark(&mut self, trace: &Trace, mark: &Mark) -> io::Result<()>;

    /// Writes all text that is held back.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn flush(&mut self, trace: &Trace) -> io::Result<()>;

    /// Takes faults and overhead, after the last row, and writes all text that is held back.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn end(&mut self, trace: &Trace) -> io::Result<()>;
}

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Comma-separated, a column a metric, units in the names; all else in lines that begin with
    /// `#`.
    Csv,
    /// An object a line.
    JsonLines,
    /// The seven columns of the script in S0, by semicolons.
    Seed,
    /// Trace events: counters, and regions of code as slices.
    ChromeTrace,
}

/// A trace that was read, with the lines that were skipped.
#[derive(Debug)]
pub struct Read {
    /// The trace.
    pub trace: Trace,
    /// An error for each skipped line.
    pub skipped: Vec<Error>,
}

/// Writes a trace as text while it is sampled.
#[derive(Debug)]
pub struct Writer<W> {
    dialect: Dialect,
    /// The file that was created and has no text yet. Dropped before `out`, so that the file is
    /// removed while it is locked.
    created: Created,
    out: W,
    /// Whole lines that are not written yet.
    held: String,
    /// Rows after them. They become lines together, while code and data for that are in the
    /// processor's caches.
    rows: Vec<Row>,
    seed: seed::State,
    tracks: chrome::Tracks,
    /// While this is true, nothing is written.
    holds: Option<Arc<AtomicBool>>,
    /// The function that empties the output before the first text, if the output may have content.
    empties: Option<fn(&mut W) -> io::Result<()>>,
}

/// A new file, which is removed when this value is dropped, unless the path was taken.
#[derive(Debug)]
struct Created(Option<PathBuf>);

impl Drop for Created {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // An empty file that stays does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Permission for a [`Writer`] that was held back to write.
#[derive(Debug)]
#[must_use]
pub struct Release(Arc<AtomicBool>);

impl Release {
    /// Lets the writer write, from its next flush on.
    pub fn release(self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The content of a file before the first row.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    trace: u32,
    source: String,
    began_unix_ns: u64,
    interval_s: f64,
    devices: Vec<Device>,
}

/// A note between or after rows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Note {
    Mark(Mark),
    Fault(FaultCount),
    Overhead(Overhead),
}

/// Rows that are written without waiting for a flush.
const MAX_ROWS: usize = 1 << 9;

impl Dialect {
    /// Returns the dialect of a file's name: `.jsonl`, `.json` (a Chrome trace), else CSV.
    #[must_use]
    pub fn of_path(path: &Path) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("jsonl" | "ndjson") => Self::JsonLines,
            Some("json") => Self::ChromeTrace,
            _ => Self::Csv,
        }
    }

    /// Returns the dialect of a text by its first characters.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.starts_with("{\"trace\":") {
            Some(Self::JsonLines)
        } else if text.starts_with(seed::HEADER) {
            Some(Self::Seed)
        } else if text.starts_with(csv::FIRST) {
            Some(Self::Csv)
        } else if text.starts_with('[') || text.starts_with("{\"traceEvents\"") {
            Some(Self::ChromeTrace)
        } else {
            None
        }
    }
}

/// Reads a trace in any of the dialects; of one in [`Dialect::Seed`] the shares of unknown limits
/// are left out.
///
/// # Errors
/// [`Error::Text`] if the text is in none of them, or its header can't be read.
pub fn read(bytes: &[u8]) -> Result<Read> {
    let text = String::from_utf8_lossy(bytes);
    match Dialect::of_text(&text) {
        Some(Dialect::Csv) => csv::read(&text),
        Some(Dialect::JsonLines) => json_lines::read(&text),
        Some(Dialect::Seed) => seed::read(&text, Limits::default()),
        Some(Dialect::ChromeTrace) => chrome::read(&text),
        None => Err(refused("trace", 1, "it begins like none of the formats")),
    }
}

/// Reads a trace of the seed's dialect, whose shares become watts and bytes by limits that the file
/// does not have.
///
/// # Errors
/// [`Error::Text`] if the header is another.
pub fn read_seed(bytes: &[u8], limits: Limits) -> Result<Read> {
    seed::read(&String::from_utf8_lossy(bytes), limits)
}

/// Returns a whole trace as text.
#[must_use]
pub fn write(trace: &Trace, dialect: Dialect) -> String {
    let mut writer = Writer::new(dialect, io::sink());
    writer.write_begin(trace);
    writer.write_rows(trace, &trace.rows);
    let mut marks: Vec<&Mark> = trace.marks.iter().collect();
    if dialect == Dialect::ChromeTrace {
        // As they are written while they are sampled.
        marks.sort_by_key(|mark| mark.end);
    }
    for mark in marks {
        writer.write_mark(trace, mark);
    }
    writer.write_end(trace);
    writer.held
}

impl Writer<File> {
    /// Opens a file to write to, or creates it. The file keeps its content until the first text is
    /// written; a new file is removed if the writer is dropped before.
    ///
    /// # Errors
    /// [`Error::File`] if the system does not open the file, or while another program writes a
    /// trace to it.
    pub fn create(dialect: Dialect, path: &Path) -> Result<Self> {
        let refused = |why| Error::File {
            path: path.to_owned(),
            why,
        };
        let (file, created) = loop {
            let (file, is_new) = open(path).map_err(refused)?;
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                let why = "another program writes a trace to it";
                return Err(refused(io::Error::new(io::ErrorKind::ResourceBusy, why)));
            }
            // Between `open` and the lock, a writer without text may have removed its new file:
            // rows in a file without a name would be lost.
            if is_at(&file, path) {
                break (file, is_new.then(|| path.to_owned()));
            }
        };
        Ok(Self {
            empties: Some(empty),
            created: Created(created),
            ..Self::new(dialect, file)
        })
    }
}

/// Opens a file to write to without a change to its content, or creates it; returns whether it is
/// new.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = File::options();
    let options = options.write(true).truncate(false);
    match options.create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        // An old file, or a link without a target, which opening creates.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let file = options.create_new(false).create(true).open(path)?;
            Ok((file, false))
        }
        Err(error) => Err(error),
    }
}

/// Returns whether a path leads to an open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (open, named) = (file.metadata().map(id), std::fs::metadata(path).map(id));
    open.ok()
        .zip(named.ok())
        .is_some_and(|(open, named)| open == named)
}

/// Returns `true`: systems other than Unix do not remove a file that is open.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

impl<W> Writer<W> {
    /// Creates a writer to any output. It needs no buffer, since lines are held back already.
    #[must_use]
    pub fn new(dialect: Dialect, out: W) -> Self {
        Self {
            dialect,
            out,
            held: String::new(),
            rows: vec![],
            seed: seed::State::default(),
            tracks: chrome::Tracks::default(),
            holds: None,
            empties: None,
            created: Created(None),
        }
    }

    /// Holds back all text until the returned [`Release`] is used, or for ever if it is dropped; a
    /// file is unchanged for so long. Memory grows with the rows meanwhile.
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
            Dialect::Seed => seed::begin(&mut self.held),
            Dialect::ChromeTrace => chrome::begin(&mut self.held, &header),
        }
    }

    fn write_rows(&mut self, trace: &Trace, rows: &[Row]) {
        for row in rows {
            match self.dialect {
                Dialect::Csv => csv::row(&mut self.held, row),
                Dialect::JsonLines => json_lines::row(&mut self.held, row),
                Dialect::Seed => seed::row(&mut self.held, &mut self.seed, trace, row),
                Dialect::ChromeTrace => chrome::row(&mut self.held, row),
            }
        }
    }

    /// Makes lines of the rows that are held.
    fn write_held(&mut self, trace: &Trace) {
        let mut rows = std::mem::take(&mut self.rows);
        self.write_rows(trace, &rows);
        rows.clear();
        self.rows = rows;
    }

    fn write_mark(&mut self, trace: &Trace, mark: &Mark) {
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
            // The script's readers take seven numbers a line and nothing else.
            Dialect::Seed => {}
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
    fn send(&mut self, trace: &Trace) -> io::Result<()> {
        self.write_held(trace);
        if self.is_holding() {
            return Ok(());
        }
        if let Some(empty) = self.empties.take() {
            empty(&mut self.out)?;
            self.created.0 = None;
        }
        self.out.write_all(self.held.as_bytes())?;
        self.held.clear();
        self.out.flush()
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

    fn mark(&mut self, trace: &Trace, mark: &Mark) -> io::Result<()> {
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
        self.send(trace)
    }
}

/// Empties a regular file; a pipe or a terminal is left as it is.
fn empty(file: &mut File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(())
}

impl Header {
    /// Returns the trace without its rows.
    fn into_trace(self, format: &'static str) -> Result<Trace> {
        if self.trace != VERSION {
            let why = format!("version {}, this crate reads {VERSION}", self.trace);
            return Err(refused(format, 1, &why));
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
    /// Adds the note to a trace, or returns an error if the trace has no such device.
    fn add_to(self, trace: &mut Trace) -> std::result::Result<(), &'static str> {
        match self {
            Self::Mark(mark) => trace.marks.push(mark),
            Self::Fault(fault) if fault.device < trace.devices.len() => trace.faults.push(fault),
            Self::Fault(_) => return Err("no such device"),
            Self::Overhead(overhead) => trace.overhead = Some(overhead),
        }
        Ok(())
    }
}

/// Returns the lines of text with their numbers, from 1. A last line without an end is an error,
/// since its last number may be the beginning of a longer one.
fn lines(text: &str) -> impl Iterator<Item = (usize, std::result::Result<&str, &'static str>)> {
    let text = text.trim_start_matches('\u{feff}');
    text.split_inclusive('\n').enumerate().map(|(index, line)| {
        let whole = line.strip_suffix('\n').ok_or("the line is cut off");
        (index + 1, whole.map(|line| line.trim_end_matches('\r')))
    })
}

/// Returns a time, or none if it is negative, not finite, or out of range.
fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

fn refused(format: &'static str, line: usize, why: &str) -> Error {
    Error::Text {
        format,
        line,
        why: why.to_owned(),
    }
}

/// Puts rows in the order of their times, which a damaged file may lack.
fn sorted(mut trace: Trace) -> Trace {
    trace.rows.sort_by_key(|row| row.time);
    trace.marks.sort_by_key(|mark| mark.start);
    trace
}

/// Returns the name of a metric's column: `power_instant_W`.
fn column(metric: Metric) -> String {
    match metric.unit().sign() {
        "" => metric.name().to_owned(),
        sign => format!("{}_{sign}", metric.name()),
    }
}
