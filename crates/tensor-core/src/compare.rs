//! The comparator: the only place in the workspace that decides whether numbers are right.
//!
//! Role: tests, benches and the self-check of executors hand in what was computed and what was
//! expected, with a [`Bound`] that says how far the two may lie apart, and why.
//! Method: before it looks at numbers it refuses comparisons that prove nothing: different lengths
//! or shapes, no elements, one buffer on both sides, a bound or a magnitude that is not a finite
//! number, a [`sentinel`](Element::SENTINEL) that nobody overwrote. Then every element must meet
//! its allowance; one bad element in a million is a failure.
//! Accuracy: differences and allowances are taken in f64. Integers and booleans must be equal under
//! every bound, and are compared as integers.
//! Limits: a bound that is finite but far too wide cannot be told from a right one; [`Summary`]
//! therefore counts the elements for which a zero would have passed.

use ndarray::ArrayViewD;

pub use element::{Element, Value, sentinel_filled};
pub use mismatch::{Deviation, Mismatch, Side};
pub use values::Values;

mod element;
mod mismatch;
mod values;

/// How many bad elements a report lists besides the worst one.
const LISTED: usize = 5;

/// How far an actual value may lie from the expected one.
///
/// The allowance of an element is `max(n · ε · scale, absolute)`: `ε` is the machine epsilon of
/// the actual type, `scale` the size of the expected value unless [`Bound::scaled_by`] gives
/// another, `absolute` zero unless [`Bound::or_absolute`] gives it. A NaN matches a NaN, an infinity
/// only itself, -0 matches 0.
///
/// # Sums of products
/// A bound should follow from the number of roundings. `ε` is the distance of neighbours, so rounding
/// to the nearest is off by half of it: `fl(x) = x · (1 + δ)` with `|δ| ≤ u = ε / 2`. A sum of `n`
/// products takes `n` multiplications and `n − 1` additions. However the additions are bracketed,
/// they are a binary tree with `n` leaves, in which no leaf lies deeper than `n − 1`: each product
/// meets its own rounding and at most `n − 1` more. Adding to zero is exact, and a fused
/// multiply-add leaves a rounding out. So the result is `Σ a·b·(1 + θ)` with
/// `|θ| ≤ γ = n·u / (1 − n·u)`, and its error at most `γ · Σ|a·b|`, in any order.
///
/// In tests this is `Bound::relative(n / 2 + 1).scaled_by(|A|·|B|)`: `(n / 2 + 1) · ε` is
/// `(n + 2) · u`, or `(n + 1) · u` for odd `n`, and what it has beyond `n·u` covers the second order
/// of `γ` up to `n` = 4096 in f32. Beyond, `n·u` itself is still a bound where products and sums are
/// rounded apart (Jeannerod and Rump 2013). Results that underflow need [`Bound::or_absolute`] too.
///
/// # Source
/// Higham 2002, "Accuracy and Stability of Numerical Algorithms", sections 3.1 and 4.2; Jeannerod and
/// Rump 2013, "Improved error bounds for inner products in floating-point arithmetic", SIAM Journal
/// on Matrix Analysis and Applications 34(2).
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    rule: Rule,
    absolute: Option<f64>,
    magnitudes: Option<Vec<f64>>,
    allow_empty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Bits,
    Relative(usize),
}

impl Bound {
    /// Values must be equal; NaN equals NaN, -0 equals 0.
    #[must_use]
    pub fn exact() -> Self {
        Self::relative(0)
    }

    /// Values must have one type and the same bits: -0 differs from 0, a NaN from other NaNs.
    #[must_use]
    pub fn bits() -> Self {
        Self {
            rule: Rule::Bits,
            ..Self::relative(0)
        }
    }

    /// Values may differ by `n` epsilons of the actual type times the expected value.
    ///
    /// `n` epsilons must stay below 1, where a zero would pass for anything.
    #[must_use]
    pub fn relative(n: usize) -> Self {
        Self {
            rule: Rule::Relative(n),
            absolute: None,
            magnitudes: None,
            allow_empty: false,
        }
    }

    /// Values may also differ by `absolute`, whichever is more; for results that may underflow.
    #[must_use]
    pub fn or_absolute(mut self, absolute: f64) -> Self {
        self.absolute = Some(absolute);
        self
    }

    /// Measures the relative part against these magnitudes, one an element in row-major order,
    /// instead of the expected value; for sums whose terms cancel.
    #[must_use]
    pub fn scaled_by(mut self, magnitudes: impl IntoIterator<Item = f64>) -> Self {
        self.magnitudes = Some(magnitudes.into_iter().collect());
        self
    }

    /// Lets a comparison of no elements pass.
    #[must_use]
    pub fn allow_empty(mut self) -> Self {
        self.allow_empty = true;
        self
    }

    /// Checks the bound itself; every comparison is with the good case, so that NaN fails.
    fn check(&self, epsilon: f64, len: usize) -> Result<(), Mismatch> {
        let invalid = |why: String| Err(Mismatch::InvalidBound { why });
        match self.rule {
            Rule::Bits if self.absolute.is_some() || self.magnitudes.is_some() => {
                return invalid(
                    "equal bits leave no room for an absolute part or magnitudes".into(),
                );
            }
            Rule::Relative(n) if n as f64 * epsilon >= 1.0 => {
                return invalid(format!(
                    "{n} epsilons of {epsilon:e} let zero pass for any value"
                ));
            }
            Rule::Relative(0) if self.magnitudes.is_some() => {
                return invalid("magnitudes need a relative part to scale".into());
            }
            _ => {}
        }
        if let Some(absolute) = self.absolute.filter(|x| !is_magnitude(*x)) {
            return invalid(format!("the absolute part is {absolute}"));
        }
        let Some(magnitudes) = &self.magnitudes else {
            return Ok(());
        };
        if magnitudes.len() != len {
            return invalid(format!(
                "{} magnitudes for {len} elements",
                magnitudes.len()
            ));
        }
        match magnitudes.iter().position(|x| !is_magnitude(*x)) {
            Some(at) => invalid(format!("magnitude {at} is {}", magnitudes[at])),
            None => Ok(()),
        }
    }

    /// The allowance for one element.
    fn allowance(&self, at: usize, expected: f64, epsilon: f64) -> f64 {
        let scale = match &self.magnitudes {
            Some(magnitudes) => magnitudes[at],
            None => expected.abs(),
        };
        let relative = match self.rule {
            Rule::Bits => 0.0,
            Rule::Relative(n) => n as f64 * epsilon * scale,
        };
        relative.max(self.absolute.unwrap_or(0.0))
    }
}

fn is_magnitude(x: f64) -> bool {
    x.is_finite() && x >= 0.0
}

/// What a comparison that passed has seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The number of elements.
    pub n_elements: usize,
    /// The largest absolute difference.
    pub max_error: f64,
    /// The largest difference as a share of its allowance; 0 where nothing differs.
    pub max_share: f64,
    /// The number of non-zero expected elements for which a zero would have passed.
    pub n_zero_passes: usize,
}

/// Compares what was computed with what was expected.
///
/// Slices, vectors, fixed-size arrays and `ndarray`s of any rank can be compared, by value or by
/// reference; the shape counts where both sides have one, the length otherwise. The element types
/// may differ, as with an f32 result and its f64 oracle.
///
/// # Errors
/// [`Mismatch`], whose variants say which of the rules at the top of this module is broken.
///
/// # Examples
/// ```
/// use tensor_core::compare::{Bound, Mismatch, compare};
/// let expected = [1.0_f64 / 3.0, 2.0, 3.0];
/// let summary = compare([1.0_f32 / 3.0, 2.0, 3.0], expected, &Bound::relative(1))?;
/// assert!(summary.max_share < 0.5);
/// let error = compare([1.0_f32 / 3.0, 2.0, 3.1], expected, &Bound::relative(1)).unwrap_err();
/// assert!(matches!(error, Mismatch::Elements { n_bad: 1, .. }));
/// # Ok::<(), Mismatch>(())
/// ```
pub fn compare(
    actual: impl Values,
    expected: impl Values,
    bound: &Bound,
) -> Result<Summary, Mismatch> {
    compare_views(&actual, &expected, bound)
}

/// Panics with a full report unless [`compare`] passes.
///
/// # Panics
/// If the comparison fails; this is what it is for.
///
/// # Examples
/// ```
/// use tensor_core::compare::{Bound, assert_close};
/// assert_close(vec![0.1_f64 + 0.2], [0.3_f64], Bound::relative(1));
/// ```
#[track_caller]
pub fn assert_close(actual: impl Values, expected: impl Values, bound: Bound) {
    if let Err(mismatch) = compare(actual, expected, &bound) {
        panic!("{mismatch}");
    }
}

fn compare_views<A: Values, E: Values>(
    actual: &A,
    expected: &E,
    bound: &Bound,
) -> Result<Summary, Mismatch> {
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
    if bound.rule == Rule::Bits && A::Element::NAME != E::Element::NAME {
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

/// Checks that no element of `actual` holds the sentinel, in types that reserve one; for elements
/// that a comparison leaves out.
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
    bound: &Bound,
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

/// How two elements differ, and how much they may.
struct Difference {
    error: f64,
    allowed: f64,
    passes: bool,
    zero_passes: bool,
}

impl Difference {
    fn new<A: Element, E: Element>(actual: A, expected: E, at: usize, bound: &Bound) -> Self {
        if bound.rule == Rule::Bits {
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
