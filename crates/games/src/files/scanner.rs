//! A tokenizer for braces, quoted texts and words.
//!
//! Role: the only place that defines the separators of tokens and the form of syntax errors.
//! Method: one pass without a list of tokens; line and column are counted only for an error.

use super::decimal::{self, Decimal};
use super::{MAX_DIGITS, MAX_PLAYERS, quote};
use crate::extensive::Count;
use crate::number::{nearest, words_of_gcd};
use crate::strategic::table::MAX_PAYOFF;
use crate::{Error, Rational, Result};

/// Largest number of characters of a file shown in an error.
const MAX_SHOWN: usize = 40;

/// Cost of a token and of its part of the game, in operations on machine words.
const WORDS_PER_TOKEN: usize = 128;

/// Number of bits that hold a decimal digit.
const BITS_PER_DIGIT: u64 = 4;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text, and how much of it has been read.
pub(super) struct Scanner<'a> {
    operation: &'static str,
    text: &'a [u8],
    at: usize,
    count: &'a Count<'a>,
}

impl<'a> Scanner<'a> {
    /// Starts at the beginning of a text. The scanner reports its work to `count`, whose error ends
    /// the reading.
    pub(super) fn new(operation: &'static str, text: &'a [u8], count: &'a Count<'a>) -> Self {
        Self {
            operation,
            text: text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
            at: 0,
            count,
        }
    }

    /// Returns the function to which work is reported.
    pub(super) fn counter(&self) -> &'a Count<'a> {
        self.count
    }

    /// Returns the first byte of the next token; `None` at the end.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += length_while(rest, is_blank);
        self.text.get(self.at).copied()
    }

    /// Returns the position of the next token, for [`Self::fault`].
    pub(super) fn position(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Skips a brace if it is next, and returns whether it was.
    pub(super) fn passes(&mut self, brace: u8) -> bool {
        let found = self.peek() == Some(brace);
        self.at += usize::from(found);
        found
    }

    /// Passes the brace before a list.
    pub(super) fn open(&mut self, list: &str) -> Result<()> {
        let at = self.position();
        if self.passes(b'{') {
            return Ok(());
        }
        Err(self.fault(at, format!("{{ before {list}")))
    }

    /// Passes the brace after a list.
    pub(super) fn close(&mut self, list: &str) -> Result<()> {
        let at = self.position();
        if self.passes(b'}') {
            return Ok(());
        }
        Err(self.fault(at, format!("}} after {list}")))
    }

    /// Returns the next token up to a blank, a brace or a quotation mark; empty if a brace or a
    /// quotation mark is next.
    pub(super) fn word(&mut self) -> &'a [u8] {
        let start = self.position();
        let rest = &self.text[start..];
        let length = length_while(rest, is_of_word);
        self.at += length;
        &rest[..length]
    }

    /// Reads one of the keywords that the format requires here.
    pub(super) fn keyword(&mut self, choice: &[&str]) -> Result<()> {
        let at = self.position();
        let word = self.word();
        if choice.iter().any(|choice| choice.as_bytes() == word) {
            return Ok(());
        }
        Err(self.fault(at, choice.join(" or ")))
    }

    /// Reads a quoted text if one is next.
    pub(super) fn optional_text(&mut self) -> Result<Option<String>> {
        (self.count)(WORDS_PER_TOKEN)?;
        let at = self.position();
        if !self.passes(b'"') {
            return Ok(None);
        }
        let Some((text, length)) = quote::read(&self.text[self.at..]) else {
            return Err(self.fault(at, "a text with a closing quotation mark"));
        };
        self.at += length;
        Ok(Some(text))
    }

    /// Reads a text.
    pub(super) fn text(&mut self, what: &str) -> Result<String> {
        let at = self.position();
        self.optional_text()?
            .ok_or_else(|| self.fault(at, format!("{what} in quotation marks")))
    }

    /// Reads a list of at least one text in braces.
    pub(super) fn texts(&mut self, what: &str) -> Result<Vec<String>> {
        self.open(what)?;
        let mut texts = vec![];
        while texts.is_empty() || !self.passes(b'}') {
            texts.push(self.text(what)?);
        }
        Ok(texts)
    }

    /// Reads the names of the players.
    pub(super) fn players(&mut self) -> Result<Vec<String>> {
        let names = self.texts("a player's name")?;
        self.limit("number of players", names.len() as u128, MAX_PLAYERS)?;
        Ok(names)
    }

    /// Reads an integer that is not negative.
    pub(super) fn natural(&mut self, what: &str) -> Result<u64> {
        (self.count)(WORDS_PER_TOKEN)?;
        let at = self.position();
        let word = str::from_utf8(self.word()).unwrap_or_default();
        // The standard library would take a sign.
        let digits = Some(word).filter(|word| !word.starts_with('+'));
        digits
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| self.fault(at, what))
    }

    /// Reads a number.
    pub(super) fn number(&mut self, what: &str) -> Result<Decimal> {
        (self.count)(WORDS_PER_TOKEN)?;
        let at = self.position();
        let word = str::from_utf8(self.word()).unwrap_or_default();
        // A longer word is no number.
        let n_digits = word.len().min(MAX_DIGITS) as u64;
        (self.count)(words_of_gcd(BITS_PER_DIGIT * n_digits))?;
        decimal::read(word).ok_or_else(|| {
            let expected = format!("{what}, a number of at most {MAX_DIGITS} digits");
            self.fault(at, expected)
        })
    }

    /// Reads a payoff.
    pub(super) fn payoff(&mut self) -> Result<Rational> {
        let at = self.position();
        let payoff = self.number("a payoff")?.value;
        if nearest(&payoff).abs() <= MAX_PAYOFF {
            return Ok(payoff);
        }
        Err(self.fault(
            at,
            format!("a payoff of absolute value at most {MAX_PAYOFF:e}"),
        ))
    }

    /// Returns an error if any text is left.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.fault(self.at, "the end of the file")),
        }
    }

    /// Returns an error if the rest of the text is too short for this number of items, before
    /// memory is allocated for the items.
    ///
    /// Each item takes at least `n_bytes` bytes, including the blank before the next item.
    pub(super) fn check_room(&mut self, count: usize, n_bytes: usize, what: &str) -> Result<()> {
        let at = self.position();
        let n_left = self.text.len() - at;
        if count <= n_left / n_bytes + 1 {
            return Ok(());
        }
        let found = format!("the last {n_left} bytes of the file");
        Err(self.fault_found(at, format!("{count} {what}"), found))
    }

    /// Returns an error if a count exceeds a limit.
    pub(super) fn limit(&self, what: &'static str, needed: u128, limit: usize) -> Result<()> {
        let limit = limit as u128;
        if needed <= limit {
            return Ok(());
        }
        Err(Error::TooLarge {
            operation: self.operation,
            what,
            needed,
            limit,
        })
    }

    /// Returns the error of an unexpected token at a position.
    pub(super) fn fault(&self, at: usize, expected: impl Into<String>) -> Error {
        self.fault_found(at, expected, self.shown(at))
    }

    /// Returns an error with the expected and the found text at a position.
    pub(super) fn fault_found(
        &self,
        at: usize,
        expected: impl Into<String>,
        found: String,
    ) -> Error {
        let before = String::from_utf8_lossy(&self.text[..at]);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Error::FileInvalid {
            operation: self.operation,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            expected: expected.into(),
            found,
        }
    }

    /// Returns the text at a position as shown in errors.
    fn shown(&self, at: usize) -> String {
        let rest = &self.text[at..];
        let length = match rest.first() {
            None => return "the end of the file".into(),
            Some(b'"') => 1 + quote::read(&rest[1..]).map_or(rest.len() - 1, |(_, length)| length),
            Some(_) => length_while(rest, is_of_word).max(1),
        };
        // A UTF-8 character has at most four bytes, so the cut never removes text that is shown.
        let piece = String::from_utf8_lossy(&rest[..length.min(4 * (MAX_SHOWN + 1))]);
        let shown: String = piece.chars().take(MAX_SHOWN).collect();
        let dots = if shown.len() < piece.len() { "…" } else { "" };
        format!("{}{dots}", shown.escape_debug())
    }
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b',' || byte == b'\x0b'
}

fn is_of_word(byte: u8) -> bool {
    !is_blank(byte) && !matches!(byte, b'{' | b'}' | b'"')
}

fn length_while(bytes: &[u8], holds: fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&byte| holds(byte)).count()
}
