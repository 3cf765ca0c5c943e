//! `TENSOR_VERIFY=1`: every step beside the oracle.

use std::sync::{Arc, OnceLock};

use super::reference::evaluate;
use super::{Executor, Storage};
use crate::compare::{Bound, compare};
use crate::dtype::{HostData, Scalar};
use crate::error::{Error, Result};
use crate::plan::Step;

/// Compares what a step computed with what [`Reference`](super::Reference) computes, if the environment asks for it.
pub(super) fn check_if_asked(
    executor: &dyn Executor,
    step: &Step,
    inputs: &[Arc<dyn Storage>],
    output: &Arc<dyn Storage>,
) -> Result<()> {
    static ASKED: OnceLock<bool> = OnceLock::new();
    if !*ASKED.get_or_init(|| std::env::var_os("TENSOR_VERIFY").is_some_and(|value| value == "1")) {
        return Ok(());
    }
    let mut given = Vec::with_capacity(inputs.len());
    for input in inputs {
        given.push(pollster::block_on(Arc::clone(input).read())?);
    }
    let actual = pollster::block_on(Arc::clone(output).read())?;
    against_reference(executor, step, &given.iter().collect::<Vec<_>>(), &actual)
}

/// Compares an output with the oracle's, element by element within the error that its operations may make. Elements of
/// which nothing can be said are left out: a comparison in the program could fall either way there.
///
/// # Errors
/// [`Error::VerifyFailed`] with the worst element; what the oracle meets.
pub fn against_reference(
    executor: &dyn Executor,
    step: &Step,
    inputs: &[&HostData],
    actual: &HostData,
) -> Result<()> {
    let (expected, errors) = evaluate(&step.nest, inputs, Some(executor.accuracy()))?;
    within(actual, &expected, &errors).map_err(|what| Error::VerifyFailed {
        executor: executor.name().to_owned(),
        domain: step.nest.domain.clone(),
        reduce: step.nest.reduce.clone(),
        what,
    })
}

/// Compares elements with those of an oracle, each within its absolute error; infinite ones are left out.
pub(crate) fn within(actual: &HostData, expected: &HostData, errors: &[f64]) -> Result<(), String> {
    if actual.dtype() != expected.dtype() {
        return Err(format!(
            "the output is {} instead of {}",
            actual.dtype(),
            expected.dtype()
        ));
    }
    if actual.len() != expected.len() {
        return Err(format!(
            "{} elements instead of {}",
            actual.len(),
            expected.len()
        ));
    }
    // Every element of every type is an f64, so one comparison in f64 serves all types.
    let width = |at: usize| errors[at] / f64::EPSILON;
    let kept: Vec<usize> = (0..expected.len())
        .filter(|&at| width(at).is_finite())
        .collect();
    let widths: Vec<f64> = kept.iter().map(|&at| width(at)).collect();
    let of = |data: &HostData| -> Vec<f64> {
        let elements = kept.iter().filter_map(|&at| data.get(at));
        elements.map(Scalar::to_f64).collect()
    };
    let bound = Bound::relative(1).scaled_by(widths).allow_empty();
    let compared = compare(of(actual), of(expected), &bound);
    compared.map(drop).map_err(|mismatch| mismatch.to_string())
}
