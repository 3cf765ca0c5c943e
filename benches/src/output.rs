//! Output of results to standard output, for programs whose output other programs read.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};

/// Prints `text` to standard output. A closed pipe is ignored, because a reader such as `head` may
/// stop early.
///
/// # Errors
/// Any other failure to write.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output: cannot write"),
    }
}
