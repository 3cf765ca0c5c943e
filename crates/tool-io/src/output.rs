//! Standard output, and notes on standard error.
//!
//! Role: the only way in which programs of the workspace print. Clippy rejects `print!`, because it
//! panics when a reader closes the pipe.
//! Method: a closed pipe is not an error, because a reader such as `head` may stop early. The
//! command continues and returns its own exit status.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::{Result, failed};

/// Writes a text to standard output.
///
/// # Errors
/// Any failure to write except a closed pipe.
pub fn print(text: impl Display) -> Result<()> {
    print_to(&mut io::stdout().lock(), text)
}

/// Writes a text and a line break to standard output.
///
/// # Errors
/// Those of [`print()`].
pub fn print_line(text: impl Display) -> Result<()> {
    print(format_args!("{text}\n"))
}

/// Writes a text and a line break to standard error. If this fails, the text is lost: `eprintln!`
/// would panic, and a message is not worth the end of a long run.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns a text whose characters all print: control characters, which would act on the terminal,
/// and characters that change the order of the text are escaped, as in `\u{1b}`.
#[must_use]
pub fn printable(text: &str) -> String {
    // `escape_debug` also escapes quotation marks and backslashes, which print.
    let escaped = text.escape_debug().to_string();
    let unquoted = escaped.replace("\\\"", "\"").replace("\\'", "'");
    unquoted.replace("\\\\", "\\")
}

fn print_to(out: &mut impl Write, text: impl Display) -> Result<()> {
    let mut out = Pipe(out);
    let written = out.write_all(text.to_string().as_bytes());
    written
        .and_then(|()| out.flush())
        .map_err(failed("cannot write to standard output"))
}

/// A writer that ignores a closed pipe.
#[derive(Debug)]
pub struct Pipe<W>(pub W);

impl<W: Write> Write for Pipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that always fails.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn only_characters_that_do_not_print_are_escaped() {
        for text in ["", "Ann's \"é\" a\u{301} \\ 牌", "\\\"", "\"\\\\", "{}"] {
            assert_eq!(printable(text), text);
        }
        let text = "\u{1b}[2J\r\n\u{9b}\u{202e}\u{7f}\"";
        assert_eq!(printable(text), "\\u{1b}[2J\\r\\n\\u{9b}\\u{202e}\\u{7f}\"");
    }

    #[test]
    fn a_closed_pipe_is_silent_and_a_full_disk_is_an_error() {
        assert!(print_to(&mut Failing(ErrorKind::BrokenPipe), "text").is_ok());
        let error = print_to(&mut Failing(ErrorKind::StorageFull), "text").unwrap_err();
        assert_eq!(error.to_string(), "cannot write to standard output");
        let mut written = vec![];
        print_to(&mut written, format_args!("{}\n", 7)).unwrap();
        assert_eq!(written, b"7\n");
    }
}
