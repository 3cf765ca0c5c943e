//! Files of trainings that can be resumed.
//!
//! Format: safetensors. The texts are `format`, `version`, `net` and `recipe` (their text forms)
//! and `step`. The tensors are `parameter.NAME`, `optimizer.N` and `state.NAME`.

use std::collections::BTreeMap;
use std::path::Path;

use tensor_core::Tensor;
use tensor_core::data::safetensors::{self, Reader};

use crate::error::{Error, Result};

const FORMAT: &str = "quant.checkpoint";
const VERSION: &str = "1";

/// The texts of a checkpoint that must be equal for it to be resumed.
pub(super) struct Identity {
    pub(super) net: String,
    pub(super) recipe: String,
}

/// Writes a checkpoint, which appears complete or not at all.
pub(super) fn write(
    path: &Path,
    identity: &Identity,
    n_steps: usize,
    named: &[(String, &Tensor)],
) -> Result<()> {
    let texts = [
        ("format", FORMAT),
        ("version", VERSION),
        ("net", &identity.net),
        ("recipe", &identity.recipe),
        ("step", &n_steps.to_string()),
    ];
    let texts: BTreeMap<String, String> = texts
        .into_iter()
        .map(|(key, text)| (key.to_owned(), text.to_owned()))
        .collect();
    let named: Vec<(&str, &Tensor)> = named.iter().map(|(name, t)| (name.as_str(), *t)).collect();
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
    let texts = [
        ("format", FORMAT),
        ("version", VERSION),
        ("net", &identity.net),
        ("recipe", &identity.recipe),
    ];
    for (key, expected) in texts {
        if text(key).as_deref() != Some(expected) {
            return Err(unexpected(key, text(key), expected.to_owned()));
        }
    }
    let n_steps = text("step").and_then(|text| text.parse().ok());
    let n_steps =
        n_steps.ok_or_else(|| unexpected("step", text("step"), "a number of steps".to_owned()))?;
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
                found,
                format!("a tensor of {dtype} {shape:?}"),
            ));
        }
        let tensor = reader.read(name).map_err(tensor_core::Error::from)?;
        tensors.push(tensor);
    }
    Ok((n_steps, tensors))
}

fn unexpected(key: &str, actual: Option<String>, expected: String) -> Error {
    Error::ModelFile {
        operation: "Training::resume",
        key: key.to_owned(),
        actual: actual.unwrap_or_else(|| "missing".to_owned()),
        expected,
    }
}
