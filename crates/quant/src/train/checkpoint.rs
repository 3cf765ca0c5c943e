//! Files of trainings that can be resumed.
//!
//! Format: safetensors. The texts are `format`, `version`, `net` and `recipe` (their text forms),
//! `images` and `start` (checksums of the images with their labels, and of the parameters and the
//! state before the first step), `step`, and `checksum` (of all other texts and the tensors). The
//! tensors are `parameter.NAME`, `optimizer.N` and `state.NAME`.

use std::collections::BTreeMap;
use std::path::Path;

use tensor_core::Tensor;
use tensor_core::data::safetensors::{self, Reader};

use crate::checksum::{self, Checksum};
use crate::error::{Error, Result};

const FORMAT: &str = "quant.checkpoint";
const VERSION: &str = "1";

/// The texts of a checkpoint that must be equal so that a training can resume.
pub(super) struct Identity {
    pub(super) net: String,
    pub(super) recipe: String,
    pub(super) images: String,
    pub(super) start: String,
    /// The number of all steps.
    pub(super) n_steps: usize,
}

impl Identity {
    fn texts(&self) -> [(&'static str, &str); 6] {
        [
            ("format", FORMAT),
            ("version", VERSION),
            ("net", &self.net),
            ("recipe", &self.recipe),
            ("images", &self.images),
            ("start", &self.start),
        ]
    }
}

/// Writes a checkpoint. An existing file is replaced only after the new file is complete.
pub(super) fn write(
    path: &Path,
    identity: &Identity,
    step: usize,
    named: &[(String, &Tensor)],
) -> Result<()> {
    let texts = identity.texts().into_iter();
    let mut texts: BTreeMap<String, String> = texts
        .map(|(key, text)| (key.to_owned(), text.to_owned()))
        .collect();
    texts.insert("step".to_owned(), step.to_string());
    let named: Vec<(&str, &Tensor)> = named.iter().map(|(name, t)| (name.as_str(), *t)).collect();
    let sum = Checksum::of_file(&texts, &named.iter().copied().collect())?;
    texts.insert(checksum::KEY.to_owned(), sum.to_string());
    Ok(safetensors::write_with_metadata(path, &named, &texts)?)
}

/// Reads the number of steps and the tensors of a checkpoint, in the order of `expected`, whose
/// shapes and types they must have.
///
/// # Errors
/// [`Error::ModelFile`] for a text or tensor that differs from the expected one;
/// [`Error::Tensor`] for a file that cannot be read.
pub(super) fn read(
    path: &Path,
    identity: &Identity,
    expected: &[(String, &Tensor)],
) -> Result<(usize, Vec<Tensor>)> {
    let mut reader = Reader::open(path).map_err(tensor_core::Error::from)?;
    let text = |key: &str| reader.metadata().get(key).cloned();
    for (key, expected) in identity.texts() {
        let actual = text(key).unwrap_or_else(|| "missing".to_owned());
        if actual != expected {
            let [actual, expected] = difference(&actual, expected);
            return Err(unexpected(key, &actual, &expected));
        }
    }
    let step = text("step").and_then(|text| text.parse().ok());
    let step = step.filter(|&step: &usize| step <= identity.n_steps);
    let Some(step) = step else {
        let actual = text("step").unwrap_or_else(|| "missing".to_owned());
        return Err(unexpected(
            "step",
            &actual,
            &format!("a number up to {}", identity.n_steps),
        ));
    };
    let mut tensors = Vec::with_capacity(expected.len());
    for (name, like) in expected {
        let (dtype, shape) = (like.dtype()?, like.shape()?);
        let entry = reader.entries().iter().find(|entry| entry.name == *name);
        let found = entry.map(|entry| format!("a tensor of {} {:?}", entry.dtype, entry.shape));
        let is_right =
            entry.is_some_and(|entry| entry.dtype.dtype() == Some(dtype) && entry.shape == shape);
        if !is_right {
            return Err(unexpected(
                name,
                found.as_deref().unwrap_or("missing"),
                &format!("a tensor of {dtype} {shape:?}"),
            ));
        }
        let tensor = reader.read(name).map_err(tensor_core::Error::from)?;
        tensors.push(tensor);
    }
    let n_tensors = reader.entries().len();
    if n_tensors != expected.len() {
        return Err(unexpected(
            "tensors",
            &n_tensors.to_string(),
            &expected.len().to_string(),
        ));
    }
    let names = expected.iter().map(|(name, _)| name.as_str());
    let sum = Checksum::of_file(reader.metadata(), &names.zip(&tensors).collect())?.to_string();
    let written = reader.metadata().get(checksum::KEY);
    if written != Some(&sum) {
        let written = written.map_or("missing", String::as_str);
        return Err(unexpected(checksum::KEY, written, &sum));
    }
    Ok((step, tensors))
}

/// Returns the parts of two texts from the first word on in which they differ.
fn difference(a: &str, b: &str) -> [String; 2] {
    /// The number of characters that are shown.
    const MAX: usize = 60;
    let n_equal = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let words = a.char_indices().take(n_equal).filter(|&(_, c)| c == ' ');
    let start = words.last().map_or(0, |(at, _)| at + 1);
    [a, b].map(|text| {
        let (before, rest) = (if start > 0 { "… " } else { "" }, &text[start..]);
        let Some((limit, _)) = rest.char_indices().nth(MAX) else {
            return format!("{before}{rest}");
        };
        // Ends after a whole word, if there is one.
        let is_whole = rest[limit..].starts_with(' ');
        let space = rest[..limit].rfind(' ').filter(|_| !is_whole);
        let end = space.unwrap_or(limit);
        format!("{before}{} …", &rest[..end])
    })
}

fn unexpected(key: &str, actual: &str, expected: &str) -> Error {
    Error::model_file("Training::resume", key, actual, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_begins_with_the_word_that_differs() {
        let of = |a, b| difference(a, b).join(" | ");
        assert_eq!(
            of("rate 1, 2 epochs", "rate 1, 3 epochs"),
            "… 2 epochs | … 3 epochs"
        );
        assert_eq!(of("ä1 b", "ä1 c"), "… b | … c");
        assert_eq!(of("3f", "4e"), "3f | 4e");
        assert_eq!(of("same", "same and more"), "same | same and more");
        assert_eq!(difference("", &"x".repeat(99))[1].chars().count(), 62);
        let words = |word: &str| difference("", &word.repeat(20))[1].clone();
        assert_eq!(
            words("seven é "),
            format!("{} …", "seven é ".repeat(7).trim_end())
        );
        assert_eq!(words("of3 "), format!("{} …", "of3 ".repeat(15).trim_end()));
        assert_eq!(
            words("four5 "),
            format!("{} …", "four5 ".repeat(10).trim_end())
        );
    }
}
