//! Texts in quotation marks.
//!
//! Role: writing and reading of names side by side, each the other's inverse.
//! Method: a quotation mark gets a backslash before it. A backslash gets another one only where it
//! would be mistaken for such a mark: before a quotation mark, a backslash or the end. So a lone
//! one means the same to programs that know of no doubled ones.

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
