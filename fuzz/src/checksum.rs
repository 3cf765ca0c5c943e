//! Checksums of files, which an engine cannot guess.

use quant::Error;

/// The key of the checksum.
const KEY: &str = "checksum";

/// Returns the file with the checksum that the error of its reader expects; `None` for an error
/// that is not about the checksum. With it, the engine can change the other parts of a file.
pub(crate) fn corrected(file: &[u8], error: &Error) -> Option<Vec<u8>> {
    let (key, actual, expected) = match error {
        Error::File { source, .. } => return corrected(file, source),
        Error::ModelFile {
            key,
            actual,
            expected,
            ..
        } => (key, actual, expected),
        _ => return None,
    };
    let [actual, expected] = [actual, expected].map(|text| text.trim_matches('"'));
    if key != KEY || actual.len() != expected.len() {
        return None;
    }
    let mut file = file.to_vec();
    let at = file
        .windows(actual.len())
        .position(|part| part == actual.as_bytes())?;
    file[at..at + expected.len()].copy_from_slice(expected.as_bytes());
    Some(file)
}
