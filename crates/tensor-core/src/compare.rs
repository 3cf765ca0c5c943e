//! The comparison of computed and expected numbers; the only one in this workspace.
//!
//! Role: tests, benches and the self-check of executors pass actual and expected numbers and a
//! [`Tolerance`].
//! Method: first, comparisons that prove nothing are rejected: different lengths or shapes, no
//! elements, one buffer on both sides, a tolerance or a magnitude that is not a finite number, or a
//! [`sentinel`](Element::SENTINEL) that was not overwritten. Then every element is compared with
//! its own tolerance; one bad element in a million is a failure.
//! Accuracy: differences and tolerances are computed in f64. Integers and booleans are compared as
//! integers and must be equal whatever the tolerance.
//! Limits: a finite tolerance that is far too wide cannot be detected. [`Summary`] therefore counts
//! the elements for which a result of zero would have passed.

use ndarray::ArrayViewD;

pub use element::{Element, Value, sentinel_filled};
pub use mismatch::{Deviation, Mismatch, Side};
pub use values::Values;

mod element;
mod mismatch;
mod values;

/// The number of bad elements that a report lists after the worst element.
const LISTED: usize = 5;

/// The tolerance of a comparison.
///
/// The tolerance of an element is `max(n · ε · scale, absolute)`. `ε` is the machine epsilon of the
/// actual type; `scale` is the magnitude of the expected value, or as set by
/// [`Tolerance::scaled_by`]; `absolute` is 0, or as set by [`Tolerance::or_absolute`]. A NaN
/// matches a NaN, an infinity matches only itself, and -0 matches 0.
///
/// # Sums of products
/// A tolerance should be derived from the number of roundings. `ε` is the distance between adjacent
/// numbers, so rounding to nearest has an error of at most half of it: `fl(x) = x · (1 + δ)` with
/// `|δ| ≤ u = ε / 2`. A sum of `n` products takes `n` multiplications and `n − 1` additions. In any
/// order, the additions form a binary tree with `n` leaves and a depth of at most `n − 1`, so each
/// product is affected by its own rounding and at most `n − 1` more. Adding to zero is exact, and a
/// fused multiply-add omits a rounding. Hence the result is `Σ a·b·(1 + θ)` with `|θ| ≤ γ = n·u /
/// (1 − n·u)`, and its error is at most `γ · Σ|a·b|`, in any order.
///
/// In tests this is `Tolerance::relative(n / 2 + 1).scaled_by(|A|·|B|)`: `(n / 2 + 1) · ε` is `(n +
/// 2) · u`, or `(n + 1) · u` for odd `n`, and the excess over `n·u` covers the second-order term of
/// `γ` up to `n` = 4096 in f32. Beyond that, `n·u` itself is still an error bound if products and
/// sums are rounded separately (Jeannerod and Rump 2013). Results that underflow also need
/// [`Tolerance::or_absolute`].
///
/// # Source
/// Higham 2002, "Accuracy and Stability of Numerical Algorithms", sections 3.1 and 4.2; Jeannerod
/// and Rump 2013, "Improved error bounds for inner products in floating-point arithmetic", SIAM
/// Journal on Matrix Analysis and Applications 34(2).
#[derive(Debug, Clone, PartialEq)]
pub struct Tolerance {
    rule: Criterion,
    absolute: Option<f64>,
    magnitudes: Option<Vec<f64>>,
    allow_empty: bool,
}

/// The relative part of a tolerance: equal bits, or a number of epsilons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Criterion {
    Bits,
    Relative(usize),
}

impl Tolerance {
    /// Creates a tolerance of zero: values must be equal, where NaN equals NaN and -0 equals 0.
    #[must_use]
    pub fn exact() -> Self {
        Self::relative(0)
    }

    /// Creates a comparison of bits: values must have the same type and the same bits. -0 differs
    /// from 0, and NaNs with different bits differ.
    #[must_use]
    pub fn bits() -> Self {
        Self {
            rule: Criterion::Bits,
            ..Self::relative(0)
        }
    }

    /// Creates a relative tolerance of `n` epsilons of the actual type, times the expected value.
    ///
    /// `n` epsilons must be below 1, because with a larger tolerance a result of zero would pass
    /// for any expected value. [`compare`] returns an error otherwise.
    #[must_use]
    pub fn relative(n: usize) -> Self {
        Self {
            rule: Criterion::Relative(n),
            absolute: None,
            magnitudes: None,
            allow_empty: false,
        }
    }

    /// Sets the absolute tolerance; the larger of both tolerances applies. Used for results that
    /// may underflow.
    #[must_use]
    pub fn or_absolute(mut self, absolute: f64) -> Self {
        self.absolute = Some(absolute);
        self
    }

    /// Sets the magnitudes that scale the relative tolerance instead of the expected values, one
    /// per element in row-major order. Used for sums whose terms cancel.
    #[must_use]
    pub fn scaled_by(mut self, magnitudes: impl IntoIterator<Item = f64>) -> Self {
        self.magnitudes = Some(magnitudes.into_iter().collect());
        self
    }

    /// Allows comparisons of no elements, which are an error by default.
    #[must_use]
    pub fn allow_empty(mut self) -> Self {
        self.allow_empty = true;
        self
    }

    /// Checks the tolerance itself. Each condition tests for the valid case, so that NaN is
    /// rejected.
    fn check(&self, epsilon: f64, len: usize) -> Result<(), Mismatch> {
        let invalid = |why: String| Err(Mismatch::InvalidBound { why });
        match self.rule {
            Criterion::Bits if self.absolute.is_some() || self.magnitudes.is_some() => {
                return invalid(
                    "a comparison of bits takes no absolute tolerance and no magnitudes".into(),
                );
            }
            Criterion::Relative(n) if n as f64 * epsilon >= 1.0 => {
                return invalid(format!(
                    "{n} epsilons of {epsilon:e} are 1 or more, so zero would pass for any value"
                ));
            }
            Criterion::Relative(0) if self.magnitudes.is_some() => {
                return invalid("magnitudes need a relative tolerance to scale".into());
            }
            _ => {}
        }
        if let Some(absolute) = self.absolute.filter(|x| !is_magnitude(*x)) {
            return invalid(format!(
                "the absolute tolerance is {absolute} (expected a finite number from 0)"
            ));
        }
        let Some(magnitudes) = &self.magnitudes else {
            return Ok(());
        };
        if magnitudes.len() != len {
            return invalid(format!(
                "got {} magnitudes for {len} elements",
                magnitudes.len()
            ));
        }
        match magnitudes.iter().position(|x| !is_magnitude(*x)) {
            Some(at) => invalid(format!(
                "magnitude {at} is {} (expected a finite number from 0)",
                magnitudes[at]
            )),
            None => Ok(()),
        }
    }

    /// Returns the tolerance for one element.
    fn allowance(&self, at: usize, expected: f64, epsilon: f64) -> f64 {
        let scale = match &self.magnitudes {
            Some(magnitudes) => magnitudes[at],
            None => expected.abs(),
        };
        let relative = match self.rule {
            Criterion::Bits => 0.0,
            Criterion::Relative(n) => n as f64 * epsilon * scale,
        };
        relative.max(self.absolute.unwrap_or(0.0))
    }
}

fn is_magnitude(x: f64) -> bool {
    x.is_finite() && x >= 0.0
}

/// Statistics of a comparison that passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The number of elements.
    pub n_elements: usize,
    /// The largest absolute difference.
    pub max_error: f64,
    /// The largest ratio of a difference to its tolerance; 0 if all elements are equal.
    pub max_share: f64,
    /// The number of non-zero expected elements for which a result of zero would have passed.
    pub n_zero_passes: usize,
}

/// Compares computed values with expected values.
///
/// Slices, vectors, fixed-size arrays and `ndarray`s of any rank can be compared, by value or by
/// reference. If both sides have a shape, the shapes must be equal; otherwise only the lengths. The
/// element types may differ, for example for an f32 result and its f64 oracle.
///
/// # Errors
/// A [`Mismatch`], whose variant states which of the rules at the top of this module is violated.
///
/// # Examples
/// ```
/// use tensor_core::compare::{Tolerance, Mismatch, compare};
/// let expected = [1.0_f64 / 3.0, 2.0, 3.0];
/// let summary = compare([1.0_f32 / 3.0, 2.0, 3.0], expected, &Tolerance::relative(1))?;
/// assert!(summary.max_share < 0.5);
/// let error = compare([1.0_f32 / 3.0, 2.0, 3.1], expected, &Tolerance::relative(1)).unwrap_err();
/// assert!(matches!(error, Mismatch::Elements { n_bad: 1, .. }));
/// # Ok::<(), Mismatch>(())
/// ```
pub fn compare(
    actual: impl Values,
    expected: impl Values,
    bound: &Tolerance,
) -> Result<Summary, Mismatch> {
    compare_views(&actual, &expected, bound)
}

/// Asserts that [`compare`] passes.
///
/// # Panics
/// If the comparison fails, with the full report.
///
/// # Examples
/// ```
/// use tensor_core::compare::{Tolerance, assert_close};
/// assert_close(vec![0.1_f64 + 0.2], [0.3_f64], Tolerance::relative(1));
/// ```
#[track_caller]
pub fn assert_close(actual: impl Values, expected: impl Values, bound: Tolerance) {
    if let Err(mismatch) = compare(actual, expected, &bound) {
        panic!("{mismatch}");
    }
}

fn compare_views<A: Values, E: Values>(
    actual: &A,
    expected: &E,
    bound: &Tolerance,
) -> Result<Summary, Mismatch> {
    // Structural checks come first, from cheap to expensive; elements are compared last.
    let (left, right) = (actual.values(), expected.values());
    if left.len() != right.len() {
        return Err(Mismatch::Length {
            actual: left.len(),
            expected: right.len(),
        });
    }
    if A::HAS_SHAPE && E::HAS_SHAPE && left.shape() != right.shape() {
        let (actual, expected) = (left.shape().to_vec(), right.shape().to_vec());
        return Err(Mismatch::Shape { actual, expected });
    }
    bound.check(A::Element::EPSILON, left.len())?;
    if bound.rule == Criterion::Bits && A::Element::NAME != E::Element::NAME {
        let (actual, expected) = (A::Element::NAME, E::Element::NAME);
        return Err(Mismatch::BitsOfTwoTypes { actual, expected });
    }
    if left.is_empty() && !bound.allow_empty {
        return Err(Mismatch::Empty);
    }
    if values::share_memory(&left, &right) {
        return Err(Mismatch::SameBuffer);
    }
    let shape = if A::HAS_SHAPE {
        left.shape()
    } else {
        right.shape()
    };
    check_sentinel(&left, Side::Actual, shape)?;
    check_sentinel(&right, Side::Expected, shape)?;
    compare_elements(&left, &right, shape, bound)
}

/// Checks that every element of `actual` was written: in types that reserve a sentinel, none has
/// this value. Used for elements that a comparison skips.
pub(crate) fn check_written(actual: impl Values) -> Result<(), Mismatch> {
    let values = actual.values();
    check_sentinel(&values, Side::Actual, values.shape())
}

fn check_sentinel<T: Element>(
    values: &ArrayViewD<'_, T>,
    side: Side,
    shape: &[usize],
) -> Result<(), Mismatch> {
    if !T::SENTINEL_IS_RESERVED {
        return Ok(());
    }
    let sentinel = T::SENTINEL.bits();
    let mut left_over = (0..)
        .zip(values)
        .filter(|(_, value)| value.bits() == sentinel);
    match left_over.next() {
        Some((at, _)) => Err(Mismatch::Sentinel {
            side,
            first: mismatch::index_of(at, shape),
            n_left: 1 + left_over.count(),
            n_elements: values.len(),
        }),
        None => Ok(()),
    }
}

fn compare_elements<A: Element, E: Element>(
    actual: &ArrayViewD<'_, A>,
    expected: &ArrayViewD<'_, E>,
    shape: &[usize],
    bound: &Tolerance,
) -> Result<Summary, Mismatch> {
    let n_elements = actual.len();
    let mut summary = Summary {
        n_elements,
        max_error: 0.0,
        max_share: 0.0,
        n_zero_passes: 0,
    };
    let (mut n_bad, mut worst, mut first): (_, Option<Deviation>, _) = (0, None, Vec::new());
    for (at, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        let difference = Difference::new(actual, expected, at, bound);
        if difference.passes {
            summary.max_error = summary.max_error.max(difference.error);
            summary.max_share = summary.max_share.max(difference.share());
            summary.n_zero_passes += usize::from(difference.zero_passes);
            continue;
        }
        n_bad += 1;
        // Only the worst element and the first few are described; the others are counted.
        let is_worst = worst
            .as_ref()
            .is_none_or(|worst| difference.is_worse_than(worst));
        if is_worst || first.len() < LISTED {
            let deviation = Deviation {
                index: mismatch::index_of(at, shape),
                actual: actual.value(),
                expected: expected.value(),
                error: difference.error,
                allowed: difference.allowed,
            };
            if first.len() < LISTED {
                first.push(deviation.clone());
            }
            if is_worst {
                worst = Some(deviation);
            }
        }
    }
    match worst {
        Some(worst) => Err(Mismatch::Elements {
            n_bad,
            n_elements,
            worst: Box::new(worst),
            first,
        }),
        None => Ok(summary),
    }
}

/// The difference of two elements, and its tolerance.
struct Difference {
    error: f64,
    allowed: f64,
    passes: bool,
    zero_passes: bool,
}

impl Difference {
    fn new<A: Element, E: Element>(actual: A, expected: E, at: usize, bound: &Tolerance) -> Self {
        if bound.rule == Criterion::Bits {
            let passes = actual.bits() == expected.bits();
            let error = if passes {
                0.0
            } else {
                actual.value().distance(expected.value())
            };
            return Self {
                error,
                allowed: 0.0,
                passes,
                zero_passes: false,
            };
        }
        let (actual, expected) = (actual.value(), expected.value());
        let error = actual.distance(expected);
        // A tolerance applies to finite floats only. NaN, infinities and integers must be equal.
        let allowed = match (actual, expected) {
            (Value::Float(a), Value::Float(e)) if a.is_finite() && e.is_finite() => {
                bound.allowance(at, e, A::EPSILON)
            }
            _ => 0.0,
        };
        let size = expected.distance(Value::Int(0));
        Self {
            error,
            allowed,
            passes: error <= allowed,
            zero_passes: size > 0.0 && size <= allowed,
        }
    }

    fn share(&self) -> f64 {
        share(self.error, self.allowed)
    }

    fn is_worse_than(&self, other: &Deviation) -> bool {
        let key = |error, allowed| (share(error, allowed), error);
        key(self.error, self.allowed) > key(other.error, other.allowed)
    }
}

fn share(error: f64, allowed: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / allowed }
}
