//! Journals of results: a damaged file is an error or loses results at its end, but no result is
//! ever wrong.
//!
//! Method: if the first byte is odd, the rest is a file, which must be a journal or stay as it is.
//! Otherwise a journal with results from the input is written, cut off or changed in at most four
//! bytes in a row, and opened again. A checksum of 32 bits finds every such change.

use std::fs;

use cluster::{Journal, Results};

use crate::source::Source;
use crate::temporary::Temporary;

/// The description of the job.
const JOB: &str = "job";
/// Maximum number of results of a journal.
const MAX_RESULTS: usize = 8;

/// Checks the reader and the writer of journals.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    if source.bool() {
        any_file(source.rest());
    } else {
        damaged(&mut source);
    }
}

fn any_file(bytes: &[u8]) {
    let file = Temporary::file("any.journal", bytes);
    match Journal::open(file.path(), JOB) {
        Ok((journal, results)) => check_appends(journal, results),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let left = fs::read(file.path()).expect("the file was not removed");
            assert_eq!(left, bytes, "an error changed the file");
        }
    }
}

/// Checks that results that are appended are read back together with the earlier ones.
fn check_appends(mut journal: Journal, mut results: Results) {
    let path = journal.path().to_owned();
    let number = (0..).find(|number| !results.contains_key(number));
    let number = number.expect("a journal has fewer results than numbers");
    let appended = journal.append([(number, &b"appended"[..])]);
    appended.expect("the disk is not full");
    drop(journal);
    results.insert(number, b"appended".to_vec());
    let (_, again) = Journal::open(path, JOB).expect("an appended journal can be opened");
    assert_eq!(again, results);
}

fn damaged(source: &mut Source<'_>) {
    let file = Temporary::file("damaged.journal", b"");
    let (mut journal, _) = Journal::open(file.path(), JOB).expect("an empty file is a new journal");
    let mut results = Results::new();
    for _ in 0..source.below(MAX_RESULTS) {
        let number = u64::from(source.byte()) << source.below(56);
        let len = source.below(64);
        let payload = source.take(len).to_vec();
        results.entry(number).or_insert_with(|| {
            let appended = journal.append([(number, &payload[..])]);
            appended.expect("the disk is not full");
            payload
        });
    }
    drop(journal);
    let mut bytes = fs::read(file.path()).expect("the file was written");
    let at = usize::from(source.short()) % bytes.len();
    if source.bool() {
        bytes.truncate(at);
    } else {
        let change = source.take(4);
        for (byte, change) in bytes[at..].iter_mut().zip(change) {
            *byte ^= change;
        }
    }
    fs::write(file.path(), &bytes).expect("the disk is not full");
    match Journal::open(file.path(), JOB) {
        Ok((journal, read)) => {
            let is_right = |(number, payload): (&u64, &Vec<u8>)| {
                results
                    .get(number)
                    .is_some_and(|written| written == payload)
            };
            assert!(read.iter().all(is_right), "{results:?} became {read:?}");
            check_appends(journal, read);
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let left = fs::read(file.path()).expect("the file was not removed");
            assert_eq!(left, bytes, "an error changed the file");
        }
    }
}
