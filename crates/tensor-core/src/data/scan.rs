//! A scanner for the text of a header.
//!
//! Role: the common parts of parsing the dictionaries of NPY and the JSON of safetensors.
//! Method: neither format allows arbitrary nesting, so the scanner does not recurse and no hostile
//! text can exhaust the stack. Spaces between tokens are skipped.

use crate::error::DataError;

/// The number of characters of the text that an error shows.
const SHOWN: usize = 20;

/// The rest of a header that has not been scanned yet.
pub(super) struct Scan<'a> {
    format: &'static str,
    rest: &'a str,
}

impl<'a> Scan<'a> {
    pub(super) fn new(format: &'static str, text: &'a str) -> Self {
        Self { format, rest: text }
    }

    /// Consumes `wanted` if the text continues with it; returns whether it does.
    pub(super) fn accept(&mut self, wanted: &str) -> bool {
        self.rest = self.rest.trim_start();
        let after = self.rest.strip_prefix(wanted);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Consumes `wanted`; an error if the text continues with anything else.
    pub(super) fn expect(&mut self, wanted: &str) -> Result<(), DataError> {
        if self.accept(wanted) {
            return Ok(());
        }
        Err(self.unexpected(wanted))
    }

    /// Consumes and returns characters, without skipping spaces, up to the first one for which
    /// `is_end` is true.
    pub(super) fn until(&mut self, is_end: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self
            .rest
            .split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Consumes and returns the next character, without skipping spaces.
    pub(super) fn letter(&mut self) -> Option<char> {
        let mut letters = self.rest.chars();
        let letter = letters.next();
        self.rest = letters.as_str();
        letter
    }

    /// Consumes and returns a number without a sign.
    pub(super) fn number(&mut self) -> Result<usize, DataError> {
        self.rest = self.rest.trim_start();
        let n_digits = self
            .rest
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(n_digits);
        let number = digits.parse().map_err(|_| self.unexpected("a size"))?;
        self.rest = rest;
        Ok(number)
    }

    /// Consumes a list in brackets, with items separated by commas; a trailing comma is allowed.
    /// `item` consumes one item.
    pub(super) fn list(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.expect(open)?;
        while !self.accept(close) {
            item(self)?;
            if !self.accept(",") {
                return self.expect(close);
            }
        }
        Ok(())
    }

    /// Consumes and returns a list of numbers.
    pub(super) fn numbers(&mut self, open: &str, close: &str) -> Result<Vec<usize>, DataError> {
        let mut numbers = Vec::new();
        self.list(open, close, |scan| {
            numbers.push(scan.number()?);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Checks that only spaces remain.
    pub(super) fn end(&self) -> Result<(), DataError> {
        if self.rest.trim().is_empty() {
            return Ok(());
        }
        Err(self.unexpected("the end"))
    }

    /// Creates the error for a text that continues with something other than `wanted`.
    pub(super) fn unexpected(&self, wanted: &str) -> DataError {
        let found: String = self.rest.trim_start().chars().take(SHOWN).collect();
        self.bad(format!(
            "invalid header (found {found:?}; expected {wanted})"
        ))
    }

    /// Creates the error for an invalid header.
    pub(super) fn bad(&self, why: String) -> DataError {
        DataError::BadHeader {
            format: self.format,
            why,
        }
    }
}
