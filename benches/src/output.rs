//! Results on standard output, for programs that other programs read.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};

/// Prints `text`; a reader that has seen enough, such as `head`, is no fault.
///
/// # Errors
/// Any other failure to write.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output"),
    }
}
