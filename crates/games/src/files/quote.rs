//! Texts in quotation marks.
//!
//! Role: writing and reading of names; each is the inverse of the other.
//! Method: a quotation mark is escaped by a backslash. A backslash is doubled only where a reader
//! would take it for an escape: before a quotation mark, before a backslash and at the end of the
//! text. All other backslashes stay single, so programs that do not support doubled backslashes
//! read them correctly.

const MARK: u8 = b'"';
const ESCAPE: u8 = b'\\';

/// Adds a text in quotation marks.
pub(super) fn push(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        let mistaken = matches!(rest.peek(), None | Some('"' | '\\'));
        if letter == '"' || (letter == '\\' && mistaken) {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}

/// Appends a list of quoted texts in braces, such as `{ "a" "b" }`.
pub(super) fn push_list<'a>(out: &mut String, texts: impl IntoIterator<Item = &'a str>) {
    out.push('{');
    for text in texts {
        out.push(' ');
        push(out, text);
    }
    out.push_str(" }");
}

/// Reads the text after a quotation mark. Returns the text and its length in bytes including the
/// closing mark; `None` if there is no closing mark.
pub(super) fn read(bytes: &[u8]) -> Option<(String, usize)> {
    let mut text = vec![];
    let mut at = 0;
    loop {
        let step = match bytes[at..] {
            [] => return None,
            [MARK, ..] => return Some((String::from_utf8_lossy(&text).into_owned(), at + 1)),
            [ESCAPE, next @ (MARK | ESCAPE), ..] => {
                text.push(next);
                2
            }
            [byte, ..] => {
                text.push(byte);
                1
            }
        };
        at += step;
    }
}
