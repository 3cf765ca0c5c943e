//! The journal: a file of finished results, from which an interrupted job continues.
//!
//! Role: the only format of results on disk. [`Journal::open`] reads the results of earlier runs,
//! and [`Journal::append`] adds results.
//! Method: an append-only file of records. A record is a header of 20 bytes and a payload; header
//! and payload have a checksum (CRC-32) each. The checksum of the header distinguishes an
//! incomplete record from a record with a damaged length. The first record contains the description
//! of the job. A result is in the file once `append` returns, and then survives the death of the
//! process. It survives a loss of power once the disk has confirmed the write, which `append`
//! requests every [`SYNC_INTERVAL`].
//! Limits: a result has at most [`MAX_RESULT_BYTES`]. A file on a disk that supports locks cannot
//! be opened twice at a time.
//!
//! ```text
//! file    = "cluster" format:u8 record(number = u64::MAX, payload = job) record*
//! record  = number:u64 len:u32 payload_crc:u32 header_crc:u32 payload      (little-endian)
//! ```
//!
//! # Examples
//! ```
//! use cluster::Journal;
//!
//! let path = std::env::temp_dir().join(format!("squares-{}.journal", std::process::id()));
//! let (mut journal, done) = Journal::open(&path, "squares of 0..3")?;
//! assert!(done.is_empty());
//! journal.append([(1, &b"1"[..]), (2, b"4")])?;
//! drop(journal);
//!
//! // A later run finds the two results.
//! let (_journal, done) = Journal::open(&path, "squares of 0..3")?;
//! assert_eq!(done[&2], b"4");
//! # std::fs::remove_file(path).ok();
//! # Ok::<(), cluster::Error>(())
//! ```

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The largest size of a result, in bytes: 1 GiB.
pub const MAX_RESULT_BYTES: usize = 1 << 30;

/// The time between two requests to the disk to confirm what was written.
pub const SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// The first bytes of each journal, which are followed by the number of the format.
const MAGIC: &[u8; 7] = b"cluster";
/// The number of the format.
const FORMAT: u8 = 1;
/// The number of the record that describes the job.
const JOB: u64 = u64::MAX;
/// The size of the header of a record, in bytes.
const HEADER_BYTES: usize = 20;

/// The results of a job by the number of their task.
pub type Results = BTreeMap<u64, Vec<u8>>;

/// An open journal, to which results are appended.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    len: u64,
    /// The numbers of the results that were read by `open` and written by `append`.
    numbers: HashSet<u64>,
    /// Set if the file can be longer than `len`, by a part of a record.
    is_torn: bool,
    synced: Instant,
}

/// The contents of a file at a position.
enum Part {
    Record {
        number: u64,
        payload: Vec<u8>,
    },
    /// Nothing, or the beginning of a record whose end was not written.
    End,
    Damage(String),
}

impl Journal {
    /// Opens the journal of a job and returns it together with the results that it contains.
    /// Creates the file if it does not exist. Removes a record at the end that was cut short.
    ///
    /// `job` describes the job: everything that its results depend on.
    ///
    /// # Errors
    /// [`Error::OtherJob`] if the file has another description; [`Error::NotAJournal`],
    /// [`Error::JournalFormat`] and [`Error::JournalDamaged`] for a file that was not written by
    /// this version or was changed since; [`Error::JournalInUse`]; [`Error::TooLarge`] for a
    /// description beyond [`MAX_RESULT_BYTES`]; [`Error::File`]. The file is then as before.
    pub fn open(path: impl AsRef<Path>, job: &str) -> Result<(Self, Results)> {
        let path = path.as_ref();
        let fault = || Error::file("journal", path);
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let why = "not a regular file";
            return Err(fault()(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(fault())?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(Error::JournalInUse {
                    path: path.to_owned(),
                });
            }
            // Some network file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let start = start_of(job)?;
        let mut begins = vec![];
        (&file)
            .take(start.len() as u64)
            .read_to_end(&mut begins)
            .map_err(fault())?;
        // The first write of an earlier run can have been cut short.
        let is_new = begins.len() < start.len() && start.starts_with(&begins);
        let (results, len) = if is_new {
            (Results::new(), 0)
        } else {
            file.rewind().map_err(fault())?;
            read(&file, path, job)?
        };
        file.set_len(len).map_err(fault())?;
        let mut journal = Self {
            path: path.to_owned(),
            file,
            len,
            numbers: results.keys().copied().collect(),
            is_torn: false,
            synced: Instant::now(),
        };
        if is_new {
            journal.write(&start)?;
            journal.sync()?;
            // The name of a new file is in its folder. Some systems cannot sync a folder.
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let folder = File::open(folder.unwrap_or(Path::new(".")));
            let _ = folder.and_then(|folder| folder.sync_all());
        }
        Ok((journal, results))
    }

    /// Appends results, each with the number of its task, in one write. After a failed write, the
    /// file contains none of these results.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] for the number `u64::MAX`, which is that of the description of
    /// the job, and for a second result of a task; [`Error::TooLarge`] for a result beyond
    /// [`MAX_RESULT_BYTES`]; [`Error::File`], for example if the disk is full.
    pub fn append<'a>(&mut self, results: impl IntoIterator<Item = (u64, &'a [u8])>) -> Result<()> {
        let invalid = |number: u64, must: &str| Error::ParameterInvalid {
            operation: "append",
            parameter: "number of a task",
            actual: number.to_string(),
            must: must.to_owned(),
        };
        let (mut bytes, mut added) = (vec![], HashSet::new());
        for (number, payload) in results {
            if number == JOB {
                return Err(invalid(number, "below 2^64 - 1"));
            }
            if self.numbers.contains(&number) || !added.insert(number) {
                return Err(invalid(number, "that of a task without a result"));
            }
            add_record(&mut bytes, number, payload)?;
        }
        self.write(&bytes)?;
        self.numbers.extend(added);
        self.sync_if_due()
    }

    /// Appends records that [`add_record`] wrote, with numbers of tasks that have no result yet.
    pub(crate) fn append_records(&mut self, records: &[u8]) -> Result<()> {
        self.write(records)?;
        self.sync_if_due()
    }

    fn sync_if_due(&mut self) -> Result<()> {
        if self.synced.elapsed() >= SYNC_INTERVAL {
            self.sync()?;
        }
        Ok(())
    }

    /// Waits until the disk confirms all results, so that they survive a loss of power.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn sync(&mut self) -> Result<()> {
        let synced = self.file.sync_data();
        self.synced = Instant::now();
        synced.map_err(Error::file("journal", &self.path))
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let fault = || Error::file("journal", &self.path);
        if self.is_torn {
            self.file.set_len(self.len).map_err(fault())?;
            self.is_torn = false;
        }
        if let Err(error) = self.file.write_all(bytes) {
            // Remove the part that was written. If that fails too, the next write or the next run
            // does it.
            self.is_torn = self.file.set_len(self.len).is_err();
            return Err(fault()(error));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// Returns the first bytes of the journal of a job.
fn start_of(job: &str) -> Result<Vec<u8>> {
    let mut start = MAGIC.to_vec();
    start.push(FORMAT);
    add_record(&mut start, JOB, job.as_bytes())?;
    Ok(start)
}

/// Appends a record to `bytes`.
///
/// # Errors
/// [`Error::TooLarge`] for a payload beyond [`MAX_RESULT_BYTES`].
pub(crate) fn add_record(bytes: &mut Vec<u8>, number: u64, payload: &[u8]) -> Result<()> {
    let len = u32::try_from(payload.len()).ok();
    let Some(len) = len.filter(|_| payload.len() <= MAX_RESULT_BYTES) else {
        return Err(Error::TooLarge {
            operation: "journal",
            value: match number {
                JOB => "the description of the job".to_owned(),
                number => format!("the result of task {number}"),
            },
            len_bytes: payload.len(),
            limit_bytes: MAX_RESULT_BYTES,
        });
    };
    let from = bytes.len();
    bytes.extend(number.to_le_bytes());
    bytes.extend(len.to_le_bytes());
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    let header_crc = crc32fast::hash(&bytes[from..]);
    bytes.extend(header_crc.to_le_bytes());
    bytes.extend(payload);
    Ok(())
}

/// Returns the results of records that [`add_record`] wrote.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = (u64, Vec<u8>)> {
    std::iter::from_fn(move || match next_part(&mut bytes) {
        Ok(Part::Record { number, payload }) => Some((number, payload)),
        Ok(Part::End | Part::Damage(_)) | Err(_) => None,
    })
}

/// Reads a journal from its first byte. Returns the results and the length of the valid part.
fn read(file: &File, path: &Path, job: &str) -> Result<(Results, u64)> {
    let mut input = BufReader::new(file);
    let mut magic = [0; MAGIC.len() + 1];
    let is_whole = input.read_exact(&mut magic).is_ok();
    if !is_whole || !magic.starts_with(MAGIC) {
        return Err(Error::NotAJournal {
            path: path.to_owned(),
        });
    }
    if magic[MAGIC.len()] != FORMAT {
        return Err(Error::JournalFormat {
            path: path.to_owned(),
            actual: magic[MAGIC.len()],
            expected: FORMAT,
        });
    }
    let mut results = Results::new();
    let mut offset = magic.len() as u64;
    let mut is_job_known = false;
    loop {
        let damage = |problem: &str| Error::JournalDamaged {
            path: path.to_owned(),
            offset,
            n_results: results.len(),
            problem: problem.to_owned(),
        };
        let part = next_part(&mut input).map_err(Error::file("journal", path))?;
        let (number, payload) = match part {
            Part::Record { number, payload } => (number, payload),
            Part::End if is_job_known => return Ok((results, offset)),
            Part::End => return Err(damage("the description of the job is incomplete")),
            Part::Damage(problem) => return Err(damage(&problem)),
        };
        let len = (HEADER_BYTES + payload.len()) as u64;
        if is_job_known && number != JOB {
            if results.contains_key(&number) {
                return Err(damage(&format!("a second result of task {number}")));
            }
            results.insert(number, payload);
        } else if is_job_known || number != JOB {
            return Err(damage("the description of the job is not the first record"));
        } else if payload != job.as_bytes() {
            return Err(Error::OtherJob {
                path: path.to_owned(),
                actual: String::from_utf8_lossy(&payload).into_owned(),
                expected: job.to_owned(),
            });
        } else {
            is_job_known = true;
        }
        offset += len;
    }
}

/// Reads the record at the position of `input`.
fn next_part(input: &mut impl Read) -> io::Result<Part> {
    let mut header = vec![];
    input.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    if header.len() < HEADER_BYTES {
        return Ok(Part::End);
    }
    let word = |from: usize| {
        let bytes = [0, 1, 2, 3].map(|n| header[from + n]);
        u32::from_le_bytes(bytes)
    };
    if crc32fast::hash(&header[..16]) != word(16) {
        // After a loss of power, the end of a file can be zeros that were never written.
        return Ok(if header.iter().all(|&byte| byte == 0) && is_zero(input)? {
            Part::End
        } else {
            Part::Damage("the checksum of the record's header does not match".to_owned())
        });
    }
    let number = u64::from(word(0)) | u64::from(word(4)) << 32;
    let len = word(8) as usize;
    if len > MAX_RESULT_BYTES {
        return Ok(Part::Damage(format!("the record has {len} bytes")));
    }
    let mut payload = vec![];
    input.take(len as u64).read_to_end(&mut payload)?;
    if payload.len() < len {
        return Ok(Part::End);
    }
    let has_zeros = payload.ends_with(&[0]);
    Ok(if crc32fast::hash(&payload) == word(12) {
        Part::Record { number, payload }
    } else if has_zeros && is_zero(input)? {
        // The last record, whose end was never written.
        Part::End
    } else {
        Part::Damage("the checksum of the record's payload does not match".to_owned())
    })
}

/// Returns whether the rest of a file is zeros.
fn is_zero(input: &mut impl Read) -> io::Result<bool> {
    let mut bytes = [0; 4096];
    loop {
        match input.read(&mut bytes)? {
            0 => return Ok(true),
            n if bytes[..n].iter().any(|&byte| byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
