//! Comparison of every step with the reference executor (`TENSOR_VERIFY=1`).

use std::ops::AddAssign;
use std::sync::{Arc, OnceLock};

use super::reference::evaluate;
use super::{Executor, Storage};
use crate::compare::{Mismatch, Tolerance, check_written, compare};
use crate::dtype::{HostData, Scalar};
use crate::error::{Error, Result};
use crate::plan::Step;

/// Returns whether the environment variable `TENSOR_VERIFY` is `1`. The variable is read once per
/// process.
pub(super) fn is_enabled() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| std::env::var_os("TENSOR_VERIFY").is_some_and(|value| value == "1"))
}

/// Compares the output of a step with that of [`Reference`](super::Reference) if the environment
/// variable `TENSOR_VERIFY` is `1`.
pub(super) fn verify_if_enabled(
    executor: &dyn Executor,
    step: &Step,
    inputs: &[Arc<dyn Storage>],
    output: &Arc<dyn Storage>,
) -> Result<()> {
    if !is_enabled() {
        return Ok(());
    }
    let mut given = Vec::with_capacity(inputs.len());
    for input in inputs {
        given.push(pollster::block_on(Arc::clone(input).read())?);
    }
    let actual = pollster::block_on(Arc::clone(output).read())?;
    let given: Vec<&HostData> = given.iter().collect();
    against_reference(executor, step, &given, &actual).map(drop)
}

/// The numbers of elements in a comparison with the reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The number of elements of all outputs.
    pub n_elements: usize,
    /// The number of elements that depend on a comparison that could fall either way. These
    /// elements are not compared, or compared with a tolerance that includes both outcomes. This
    /// number includes elements that are not compared for another reason, for example because the
    /// executor may flush subnormal numbers.
    pub n_undecided: usize,
}

impl Coverage {
    /// Returns `n_undecided` divided by `n_elements`; 0 without elements.
    #[must_use]
    pub fn share_undecided(&self) -> f64 {
        self.n_undecided as f64 / self.n_elements.max(1) as f64
    }
}

impl AddAssign for Coverage {
    fn add_assign(&mut self, other: Self) {
        self.n_elements += other.n_elements;
        self.n_undecided += other.n_undecided;
    }
}

/// Compares an output with that of [`Reference`](super::Reference), element by element, within
/// the error that the operations may make, and returns the numbers of elements. An element whose
/// error has no bound is not compared: a comparison in the program could go either way, or the
/// executor may flush subnormal numbers. An element that holds the
/// [sentinel](crate::compare::Element::SENTINEL) always fails, because the executor did not write
/// it.
///
/// # Errors
/// [`Error::VerifyFailed`] with the worst element; errors of the reference executor.
pub fn against_reference(
    executor: &dyn Executor,
    step: &Step,
    inputs: &[&HostData],
    actual: &HostData,
) -> Result<Coverage> {
    let expected = evaluate(&step.nest, inputs, Some(executor.accuracy()))?;
    let errors = &expected.errors;
    within(actual, &expected.output, errors).map_err(|what| failed(executor, step, what))?;
    let elements = errors.iter().zip(&expected.is_open);
    let undecided = elements.filter(|&(&error, &is_open)| is_open || !is_compared(error));
    Ok(Coverage {
        n_elements: errors.len(),
        n_undecided: undecided.count(),
    })
}

/// Returns whether an element with this error is compared.
fn is_compared(error: f64) -> bool {
    width(error).is_finite()
}

/// Returns an error in units of `f64::EPSILON`, as the comparator takes tolerances.
fn width(error: f64) -> f64 {
    error / f64::EPSILON
}

fn failed(executor: &dyn Executor, step: &Step, what: String) -> Error {
    Error::VerifyFailed {
        executor: executor.name().to_owned(),
        domain: step.nest.domain.clone(),
        reduce: step.nest.reduce.clone(),
        what,
    }
}

/// Compares the output of a band with that of a step of the band, bit by bit; all NaN values count
/// as equal.
///
/// # Errors
/// [`Error::VerifyFailed`] with the worst element.
pub(super) fn against_step(
    executor: &dyn Executor,
    step: &Step,
    of_band: Arc<dyn Storage>,
    of_step: Arc<dyn Storage>,
) -> Result<()> {
    let [actual, expected] = [of_band, of_step].map(|array| pollster::block_on(array.read()));
    same_bits(&scalars(&actual?), &scalars(&expected?)).map_err(|what| failed(executor, step, what))
}

/// Returns the elements of an array.
pub(crate) fn scalars(data: &HostData) -> Vec<Scalar> {
    (0..data.len()).filter_map(|at| data.get(at)).collect()
}

/// Compares scalars bit by bit; all NaN values count as equal.
pub(crate) fn same_bits(actual: &[Scalar], expected: &[Scalar]) -> Result<(), String> {
    let plain = |scalar: &Scalar| match scalar.to_f64() {
        value if value.is_nan() => f64::NAN,
        value => value,
    };
    let [actual, expected] =
        [actual, expected].map(|all| all.iter().map(plain).collect::<Vec<_>>());
    let compared = compare(&actual, &expected, &Tolerance::bits().allow_empty());
    compared.map(drop).map_err(|mismatch| mismatch.to_string())
}

/// Compares elements with expected elements, each within its absolute error. Elements with an
/// infinite error are only checked for the sentinel.
pub(crate) fn within(actual: &HostData, expected: &HostData, errors: &[f64]) -> Result<(), String> {
    if actual.dtype() != expected.dtype() {
        return Err(format!(
            "output has type {} (expected {})",
            actual.dtype(),
            expected.dtype()
        ));
    }
    if actual.len() != expected.len() {
        return Err(format!(
            "output has {} elements (expected {})",
            actual.len(),
            expected.len()
        ));
    }
    written(actual).map_err(|mismatch| mismatch.to_string())?;
    // Every element of every type is an f64, so one comparison in f64 serves all types.
    let kept: Vec<usize> = (0..expected.len())
        .filter(|&at| is_compared(errors[at]))
        .collect();
    let widths: Vec<f64> = kept.iter().map(|&at| width(errors[at])).collect();
    let of = |data: &HostData| -> Vec<f64> {
        let elements = kept.iter().filter_map(|&at| data.get(at));
        elements.map(Scalar::to_f64).collect()
    };
    let bound = Tolerance::relative(1).scaled_by(widths).allow_empty();
    let compared = compare(of(actual), of(expected), &bound);
    compared.map(drop).map_err(|mismatch| mismatch.to_string())
}

/// Returns an error if some element holds the sentinel. Elements are checked in their own type,
/// because a conversion could change their bits.
fn written(actual: &HostData) -> Result<(), Mismatch> {
    match actual {
        HostData::F32(elements) => check_written(elements),
        HostData::F64(elements) => check_written(elements),
        HostData::I32(elements) => check_written(elements),
        HostData::U32(elements) => check_written(elements),
        // Every bit pattern of these types is a possible result, so they have no sentinel.
        HostData::Bool(_) | HostData::F16(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Element, sentinel_filled};
    use crate::plan::Plan;
    use crate::{Host, Tensor};

    #[test]
    fn an_element_that_nobody_wrote_fails_whatever_the_oracle_says() {
        let nan = f64::NAN;
        let unwritten = [
            HostData::F32(sentinel_filled(1)),
            HostData::F64(sentinel_filled(1)),
            HostData::I32(sentinel_filled(1)),
            HostData::U32(sentinel_filled(1)),
        ];
        for actual in unwritten {
            for (expected, error) in [
                (nan, f64::INFINITY),
                (f64::INFINITY, f64::INFINITY),
                (f64::INFINITY, 0.0),
                (1.0, f64::INFINITY),
                (1.0, 1e300),
            ] {
                let expected = Scalar::F64(expected).cast(actual.dtype());
                let expected = HostData::from_scalars(actual.dtype(), &[expected]);
                let message = within(&actual, &expected, &[error]).unwrap_err();
                assert!(message.contains("were not written"), "{message}");
            }
        }
    }

    #[test]
    fn an_element_may_differ_by_its_error_and_by_no_more() {
        let expected = HostData::F64(vec![8.0; 2]);
        let differing = |by: f64| {
            let actual = HostData::F64(vec![8.0, 8.0 + by]);
            within(&actual, &expected, &[0.0, 1e-3])
        };
        assert_eq!(differing(0.99e-3), Ok(()));
        assert!(differing(1.01e-3).is_err() && differing(-1.01e-3).is_err());
    }

    #[test]
    fn one_unwritten_element_among_undecided_ones_is_named() {
        let actual = HostData::F32(vec![1.0, f32::NAN, <f32 as Element>::SENTINEL, 2.0]);
        let expected = HostData::F32(vec![f32::NAN; 4]);
        let message = within(&actual, &expected, &[f64::INFINITY; 4]).unwrap_err();
        assert!(message.contains("[2]"), "{message}");
        let written = HostData::F32(vec![1.0, f32::NAN, f32::INFINITY, 2.0]);
        assert_eq!(within(&written, &expected, &[f64::INFINITY; 4]), Ok(()));
    }

    #[test]
    fn elements_whose_comparison_could_fall_either_way_are_counted() {
        let host = Host::new();
        // The exponential of the f32 next to ln 2 is within an error of 2; the others are far from
        // it.
        let near = std::f32::consts::LN_2;
        let x = Tensor::from_vec(&[4], vec![near, 0.25, near, 2.0]);
        let chosen = x.exp().lt(2.0).select(0.0_f32, 5.0);
        let (plan, data) = Plan::new(&[&chosen], &host.target()).unwrap();
        let input = pollster::block_on(Arc::clone(&data[0]).read()).unwrap();
        let coverage = |actual: Vec<f32>| {
            let actual = HostData::F32(actual);
            against_reference(&host, &plan.steps[0], &[&input], &actual).unwrap()
        };
        let expected = Coverage {
            n_elements: 4,
            n_undecided: 2,
        };
        assert_eq!(coverage(vec![5.0, 0.0, 0.0, 5.0]), expected);
        assert!((expected.share_undecided() - 0.5).abs() < f64::EPSILON);
        let mut sum = expected;
        sum += coverage(vec![0.0, 0.0, 5.0, 5.0]);
        assert_eq!((sum.n_elements, sum.n_undecided), (8, 4));
        assert_eq!(Coverage::default().share_undecided(), 0.0);
    }
}
