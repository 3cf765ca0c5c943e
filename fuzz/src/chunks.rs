//! A reader that returns a few bytes at a time.

use std::io::{self, Read};

/// A reader of some bytes in chunks of at most `len` bytes.
#[derive(Debug)]
pub(crate) struct Chunks<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) len: usize,
}

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.len.max(1).min(buffer.len());
        self.bytes.read(&mut buffer[..len])
    }
}
