//! The text of a header, taken apart from the front.
//!
//! Role: what the dictionaries of NPY and the JSON of safetensors have in common.
//! Method: no part of either nests deeper than its format says, so nothing here calls itself and no text, however
//! hostile, exhausts the stack. Spaces between the parts are skipped.

use super::error::DataError;

/// How much of a text an error shows.
const SHOWN: usize = 20;

/// What is left of a header.
pub(super) struct Scan<'a> {
    format: &'static str,
    rest: &'a str,
}

impl<'a> Scan<'a> {
    pub(super) fn new(format: &'static str, text: &'a str) -> Self {
        Self { format, rest: text }
    }

    /// Takes `wanted` if it comes next.
    pub(super) fn accept(&mut self, wanted: &str) -> bool {
        self.rest = self.rest.trim_start();
        let after = self.rest.strip_prefix(wanted);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Takes `wanted`, which must come next.
    pub(super) fn expect(&mut self, wanted: &str) -> Result<(), DataError> {
        if self.accept(wanted) {
            return Ok(());
        }
        Err(self.unexpected(wanted))
    }

    /// Takes characters as they are, up to one that is an end.
    pub(super) fn until(&mut self, is_end: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self
            .rest
            .split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes the next character as it is.
    pub(super) fn letter(&mut self) -> Option<char> {
        let mut letters = self.rest.chars();
        let letter = letters.next();
        self.rest = letters.as_str();
        letter
    }

    /// Takes a number without a sign.
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

    /// Takes what stands between two brackets, with commas between; a comma after the last is allowed.
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

    /// Takes a list of numbers.
    pub(super) fn numbers(&mut self, open: &str, close: &str) -> Result<Vec<usize>, DataError> {
        let mut numbers = Vec::new();
        self.list(open, close, |scan| {
            numbers.push(scan.number()?);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Makes sure that nothing but spaces is left.
    pub(super) fn end(&self) -> Result<(), DataError> {
        if self.rest.trim().is_empty() {
            return Ok(());
        }
        Err(self.unexpected("its end"))
    }

    /// The error that something else comes next.
    pub(super) fn unexpected(&self, wanted: &str) -> DataError {
        let found: String = self.rest.trim_start().chars().take(SHOWN).collect();
        self.bad(format!("the header has {found:?} in the place of {wanted}"))
    }

    /// The error of a header that is wrong.
    pub(super) fn bad(&self, why: String) -> DataError {
        DataError::BadHeader {
            format: self.format,
            why,
        }
    }
}
