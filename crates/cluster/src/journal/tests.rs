//! Tests of the journal: kills at every byte, damage of every byte, other jobs.

use std::fs;
use std::path::PathBuf;
#[cfg(unix)]
use std::process::Command;

use tool_io::TemporaryFolder;

use super::*;

/// A folder that is removed at the end of a test.
struct Folder(TemporaryFolder);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("journal-{name}");
        Self(TemporaryFolder::create(&std::env::temp_dir(), &name).unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("journal")
    }
}

const RESULTS: [(u64, &[u8]); 4] = [(7, b"seven"), (0, b""), (3, b"\0\0\0"), (1, b"one")];

/// Writes a journal, and returns its bytes and the length after each result.
fn written(path: &Path) -> (Vec<u8>, Vec<usize>) {
    let (mut journal, done) = Journal::open(path, "job").unwrap();
    assert!(done.is_empty());
    let mut ends = vec![fs::read(path).unwrap().len()];
    for result in RESULTS {
        journal.append([result]).unwrap();
        ends.push(fs::read(path).unwrap().len());
    }
    (fs::read(path).unwrap(), ends)
}

#[test]
fn a_journal_cut_at_any_byte_keeps_every_whole_result_and_continues() {
    let folder = Folder::new("cut");
    let path = folder.file();
    let (bytes, ends) = written(&path);
    for len in 0..=bytes.len() {
        fs::write(&path, &bytes[..len]).unwrap();
        let (mut journal, done) = Journal::open(&path, "job").unwrap();
        let n_whole = ends.iter().filter(|&&end| end <= len).count();
        let n_whole = n_whole.saturating_sub(1);
        let expected: Results = RESULTS[..n_whole]
            .iter()
            .map(|&(number, payload)| (number, payload.to_vec()))
            .collect();
        assert_eq!(done, expected, "cut at byte {len}");
        journal.append(RESULTS[n_whole..].iter().copied()).unwrap();
        drop(journal);
        assert_eq!(fs::read(&path).unwrap(), bytes, "cut at byte {len}");
    }
}

#[test]
fn a_change_of_any_byte_is_reported_and_the_file_is_left_alone() {
    let folder = Folder::new("damage");
    let path = folder.file();
    let (bytes, ends) = written(&path);
    for place in 0..bytes.len() {
        for flip in [1, 0x80] {
            let mut damaged = bytes.clone();
            damaged[place] ^= flip;
            fs::write(&path, &damaged).unwrap();
            let error = Journal::open(&path, "job").unwrap_err();
            match error {
                Error::NotAJournal { .. } => assert!(place < 7, "byte {place}"),
                Error::JournalFormat { .. } => assert_eq!(place, 7),
                Error::JournalDamaged {
                    offset, n_results, ..
                } => {
                    let n_before = ends.iter().filter(|&&end| end <= place).count();
                    let start = if n_before == 0 { 8 } else { ends[n_before - 1] };
                    let expected = (start as u64, n_before.saturating_sub(1));
                    assert_eq!((offset, n_results), expected, "byte {place}");
                }
                error => panic!("byte {place}: {error}"),
            }
            assert_eq!(fs::read(&path).unwrap(), damaged);
            if place >= ends[0] {
                // The copy that the message suggests.
                let offset = ends[ends.iter().filter(|&&end| end <= place).count() - 1];
                fs::write(&path, &damaged[..offset]).unwrap();
                Journal::open(&path, "job").unwrap();
            }
        }
    }
}

#[test]
fn a_journal_of_another_job_or_with_a_second_result_is_rejected() {
    let folder = Folder::new("other");
    let path = folder.file();
    written(&path);
    let error = Journal::open(&path, "job 2").unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::OtherJob { .. }), "{text}");
    assert!(text.contains("(\"job\"; expected \"job 2\")"), "{text}");
    let (mut journal, _) = Journal::open(&path, "job").unwrap();
    let (mut again, (number, payload)) = (Vec::new(), RESULTS[0]);
    add_record(&mut again, number, payload).unwrap();
    journal.append_records(&again).unwrap();
    drop(journal);
    let text = Journal::open(&path, "job").unwrap_err().to_string();
    assert!(text.contains("a second result of task 7"), "{text}");
}

#[test]
fn zeros_after_a_loss_of_power_are_cut_off() {
    let folder = Folder::new("zeros");
    let path = folder.file();
    let (bytes, _) = written(&path);
    for n_zeros in [1, 20, 21, 10_000] {
        let mut file = bytes.clone();
        file.resize(bytes.len() + n_zeros, 0);
        fs::write(&path, &file).unwrap();
        let (_journal, done) = Journal::open(&path, "job").unwrap();
        assert_eq!(done.len(), RESULTS.len());
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_last_record_whose_end_is_zeros_is_cut_off() {
    let folder = Folder::new("tail");
    let path = folder.file();
    let (bytes, ends) = written(&path);
    // The header and the first byte of the last result were written before the power failed.
    let mut file = bytes.clone();
    let last = ends[RESULTS.len() - 1];
    file[last + HEADER_BYTES + 1..].fill(0);
    fs::write(&path, &file).unwrap();
    let (mut journal, done) = Journal::open(&path, "job").unwrap();
    assert_eq!(done.len(), RESULTS.len() - 1);
    journal.append([RESULTS[RESULTS.len() - 1]]).unwrap();
    drop(journal);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn two_processes_cannot_open_a_journal_at_a_time() {
    let folder = Folder::new("lock");
    let path = folder.file();
    let (journal, _) = Journal::open(&path, "job").unwrap();
    let error = Journal::open(&path, "job").unwrap_err();
    assert!(matches!(error, Error::JournalInUse { .. }), "{error}");
    drop(journal);
    Journal::open(&path, "job").unwrap();
}

/// The error of a write is tested in a process whose files have a limited size: beyond it, a write
/// fails after a part of its bytes, as on a full disk.
#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_that_names_the_file_and_keeps_earlier_results() {
    /// The variable with the path of the journal in that process.
    const FILE: &str = "JOURNAL_OF_LIMITED_SIZE";
    /// The number of a result that fits after the write that failed.
    const SMALL: u64 = 100;
    let payload = [1; 1000];
    if let Some(path) = std::env::var_os(FILE) {
        let (mut journal, _) = Journal::open(&path, "job").unwrap();
        let mut len = journal.len;
        let error = (0..SMALL).find_map(|number| {
            let error = journal.append([(number, &payload[..])]).err();
            if error.is_none() {
                len = journal.len;
            }
            error
        });
        let error = error.expect("the limit is below 100 kB").to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        // The part that was written is removed.
        assert_eq!(fs::metadata(&path).unwrap().len(), len);
        journal.append([(SMALL, &b"small"[..])]).unwrap();
        return;
    }
    let folder = Folder::new("full");
    let path = folder.file();
    let name = concat!(
        module_path!(),
        "::a_full_disk_is_an_error_that_names_the_file_and_keeps_earlier_results"
    );
    let (_, name) = name.split_once("::").unwrap();
    // The limit is 4 blocks of 512 or 1024 bytes. Without the signal, a write beyond it fails.
    let limited = "trap '' XFSZ && ulimit -f 4 && exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", limited])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(FILE, &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let is_good = output.status.success() && text.contains(" 1 passed;");
    assert!(is_good, "{text}{}", String::from_utf8_lossy(&output.stderr));
    let (_journal, mut done) = Journal::open(&path, "job").unwrap();
    assert_eq!(done.remove(&SMALL).unwrap(), b"small");
    let whole: Results = (0..done.len() as u64)
        .map(|number| (number, payload.to_vec()))
        .collect();
    assert!(!whole.is_empty() && done == whole);
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_cannot_be_a_journal_is_an_error_that_names_the_path() {
    let error = Journal::open("/dev/full", "job").unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("/dev/full") && text.contains("not a regular file"),
        "{text}"
    );
    let error = Journal::open("/nowhere/journal", "job").unwrap_err();
    assert!(error.to_string().contains("/nowhere/journal"), "{error}");
}

#[test]
fn numbers_that_open_would_reject_are_errors_and_leave_the_file_alone() {
    let folder = Folder::new("numbers");
    let path = folder.file();
    let (bytes, _) = written(&path);
    let (mut journal, done) = Journal::open(&path, "job").unwrap();
    for results in [
        &[(2, &b"two"[..]), (u64::MAX, b"job")][..],
        &[(2, b"two"), (2, b"two")],
        // Of an earlier run.
        &[(7, b"seven")],
    ] {
        let error = journal.append(results.iter().copied()).unwrap_err();
        assert!(matches!(error, Error::ParameterInvalid { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    journal.append([(2, &b"two"[..])]).unwrap();
    journal.append([(2, &b"two"[..])]).unwrap_err();
    drop(journal);
    let (_journal, again) = Journal::open(&path, "job").unwrap();
    assert_eq!(again.len(), done.len() + 1);
}
