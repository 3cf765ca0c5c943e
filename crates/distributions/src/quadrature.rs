//! Integrals with error estimates, by adaptive Gauss–Kronrod quadrature.
//!
//! Role: computes the distances between distributions, which are sums of integrals between known
//! points: crossings of densities, quantiles, ends of supports.
//! Method: the range is split into consecutive pieces at these points. Each piece is integrated by
//! the 21-point Kronrod rule; the difference to the 10-point Gauss rule estimates the error. The
//! piece with the largest error is halved until the sum of all errors meets the tolerance.
//! Source: the rule: Kronrod 1965, "Nodes and weights of quadrature formulas"; nodes and weights as
//! in Piessens et al. 1983, "QUADPACK"; a test checks that they integrate polynomials of degree 31.

use std::collections::BinaryHeap;

/// The positive nodes of the 21-point rule on [-1, 1], outermost first. The nodes at odd indices
/// are the positive nodes of the 10-point Gauss rule.
const NODES: [f64; 10] = [
    0.995_657_163_025_808_1,
    0.973_906_528_517_171_7,
    0.930_157_491_355_708_2,
    0.865_063_366_688_984_5,
    0.780_817_726_586_416_9,
    0.679_409_568_299_024_4,
    0.562_757_134_668_604_7,
    0.433_395_394_129_247_2,
    0.294_392_862_701_460_2,
    0.148_874_338_981_631_22,
];
/// The weights of [`NODES`] in the 21-point rule.
const WEIGHTS: [f64; 10] = [
    0.011_694_638_867_371_874,
    0.032_558_162_307_964_725,
    0.054_755_896_574_351_995,
    0.075_039_674_810_919_96,
    0.093_125_454_583_697_6,
    0.109_387_158_802_297_64,
    0.123_491_976_262_065_84,
    0.134_709_217_311_473_34,
    0.142_775_938_577_060_09,
    0.147_739_104_901_338_49,
];
/// The weight of the node 0 in the 21-point rule.
const MIDDLE_WEIGHT: f64 = 0.149_445_554_002_916_9;
/// The weights of the nodes at odd indices in the 10-point Gauss rule.
const GAUSS_WEIGHTS: [f64; 5] = [
    0.066_671_344_308_688_14,
    0.149_451_349_150_580_6,
    0.219_086_362_515_982_04,
    0.269_266_719_309_996_35,
    0.295_524_224_714_752_87,
];

/// The maximum number of halvings of pieces for one integral.
const MAX_HALVINGS: usize = 2000;
/// The rounding error of the sum of a piece, relative to the integral of the absolute values.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// A number and an estimate of its absolute error.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// The estimated absolute error.
    pub error: f64,
}

/// A value of an integrand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) value: f64,
    /// A bound on the rounding error of the value.
    pub(crate) rounding: f64,
}

/// A piece of the range, with the integral over the piece. `C` identifies the variable of
/// integration.
#[derive(Clone, Copy, Debug)]
struct Subinterval<C> {
    chart: C,
    low: f64,
    high: f64,
    integral: Estimate,
    /// The integral of the rounding errors.
    rounding: f64,
}

/// Computes the integral of `f` over the pieces between ascending `points`.
///
/// The refinement ends when the estimated error is at most `relative` times the integral, or after
/// a fixed number of halvings. In the latter case, for example for a divergent integral, the
/// returned error is larger than the tolerance. If a value of `f` is NaN or infinite, so is the
/// integral.
pub(crate) fn integrate(f: impl Fn(f64) -> f64, points: &[f64], relative: f64) -> Estimate {
    let exact = |_: (), x: f64| Term {
        value: f(x),
        rounding: 0.0,
    };
    let ranges = points.windows(2).map(|ends| ((), ends[0], ends[1]));
    integrate_charts(exact, ranges, relative)
}

/// Computes the sum of the integrals of `f` over ranges `(chart, low, high)`, where `chart`
/// identifies the variable of integration and is passed to `f`. Empty ranges are ignored.
///
/// Method and accuracy are those of [`integrate`], with two differences. The error includes the
/// integral of the rounding errors of `f`. The refinement also ends when the rounding errors exceed
/// the error of the quadrature, because more nodes cannot reduce them.
pub(crate) fn integrate_charts<C: Copy>(
    f: impl Fn(C, f64) -> Term,
    ranges: impl Iterator<Item = (C, f64, f64)>,
    relative: f64,
) -> Estimate {
    let mut pieces: BinaryHeap<Subinterval<C>> = ranges
        .filter(|(_, low, high)| low < high)
        .map(|(chart, low, high)| Subinterval::new(&f, chart, low, high))
        .collect();
    for _ in 0..MAX_HALVINGS {
        // Sum again in every step: a running total would keep the rounding errors of large errors
        // that have been refined away.
        let (Estimate { value, error }, rounding) = total(&pieces);
        // A comparison with NaN is false, so NaN ends the refinement as well.
        let is_open = error > rounding.max(relative * value.abs());
        let worst = pieces.peek().copied().filter(|_| is_open);
        let Some(Subinterval {
            chart, low, high, ..
        }) = worst
        else {
            break;
        };
        let middle = low + 0.5 * (high - low);
        // The ends are neighbouring numbers: the piece cannot be halved.
        if !(low < middle && middle < high) {
            break;
        }
        pieces.pop();
        pieces.extend([
            Subinterval::new(&f, chart, low, middle),
            Subinterval::new(&f, chart, middle, high),
        ]);
    }
    // The refinement compares both errors; the result reports their sum.
    let (Estimate { value, error }, rounding) = total(&pieces);
    Estimate {
        value,
        error: error + rounding,
    }
}

/// Returns the sum of all pieces and of their rounding errors.
fn total<C>(pieces: &BinaryHeap<Subinterval<C>>) -> (Estimate, f64) {
    let none = Estimate {
        value: 0.0,
        error: 0.0,
    };
    pieces.iter().fold((none, 0.0), |(sum, rounding), piece| {
        let sum = Estimate {
            value: sum.value + piece.integral.value,
            error: sum.error + piece.integral.error,
        };
        (sum, rounding + piece.rounding)
    })
}

impl<C: Copy> Subinterval<C> {
    /// Integrates `f` over one piece.
    fn new(f: &impl Fn(C, f64) -> Term, chart: C, low: f64, high: f64) -> Self {
        let (middle, half) = (low + 0.5 * (high - low), 0.5 * (high - low));
        let at_middle = f(chart, middle);
        let (mut kronrod, mut gauss) = (MIDDLE_WEIGHT * at_middle.value, 0.0);
        let mut size = MIDDLE_WEIGHT * at_middle.value.abs();
        let mut rounding = MIDDLE_WEIGHT * at_middle.rounding;
        for (i, (&node, &weight)) in NODES.iter().zip(&WEIGHTS).enumerate() {
            let [left, right] = [-node, node].map(|node| f(chart, middle + half * node));
            kronrod += weight * (left.value + right.value);
            size += weight * (left.value.abs() + right.value.abs());
            rounding += weight * (left.rounding + right.rounding);
            // The Gauss rule uses every second node, so it costs no further evaluation.
            if i % 2 == 1 {
                gauss += GAUSS_WEIGHTS[i / 2] * (left.value + right.value);
            }
        }
        Self {
            chart,
            low,
            high,
            integral: Estimate {
                value: half * kronrod,
                error: half * error((kronrod - gauss).abs(), size),
            },
            rounding: half * rounding,
        }
    }
}

/// Returns the error estimate of a 21-point sum from its difference to the 10-point sum; `size` is
/// the sum of the absolute values. All three are relative to half the length of the piece.
///
/// The difference is the error of the 10-point rule. QUADPACK uses about the power 3/2 of the
/// difference as the error of the 21-point rule. This is good for smooth integrands, but far too
/// small at a kink, so the difference itself is used here.
fn error(difference: f64, size: f64) -> f64 {
    // For an infinite size the difference is infinite or NaN, which is passed on unchanged.
    if size.is_finite() {
        difference + ROUNDING * size
    } else {
        difference
    }
}

impl<C> PartialEq for Subinterval<C> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<C> Eq for Subinterval<C> {}

impl<C> PartialOrd for Subinterval<C> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<C> Ord for Subinterval<C> {
    /// Compares by the error, so that the largest element of a heap is the worst piece.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.integral.error.total_cmp(&other.integral.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::compare::{Tolerance, assert_close};

    /// Integrates over [0, 1] in one piece.
    fn piece(f: impl Fn(f64) -> f64) -> Estimate {
        let exact = |(), x: f64| Term {
            value: f(x),
            rounding: 0.0,
        };
        Subinterval::new(&exact, (), 0.0, 1.0).integral
    }

    #[test]
    fn one_piece_is_exact_for_polynomials_of_degree_31() {
        for degree in 0..=31 {
            let piece = piece(|x| x.powi(degree));
            let truth = 1.0 / f64::from(degree + 1);
            assert_close([piece.value], [truth], Tolerance::relative(8));
        }
        let beyond = piece(|x| x.powi(60));
        assert!((beyond.value * 61.0 - 1.0).abs() > 1e-12);
    }

    #[test]
    fn the_error_estimate_covers_the_error() {
        type Case = (fn(f64) -> f64, f64, f64);
        let cases: [Case; 4] = [
            (|x| x.exp(), 1.0, 1.0_f64.exp_m1()),
            (|x| x.sqrt(), 1.0, 2.0 / 3.0),
            (|x| (x - 0.3).abs(), 1.0, 0.29),
            (|x| (-x * x).exp(), 30.0, 0.886_226_925_452_758),
        ];
        for (f, high, truth) in cases {
            let Estimate { value, error } = integrate(f, &[0.0, high], 1e-12);
            assert!((value - truth).abs() <= error.max(1e-15), "{value} {error}");
            assert!(error <= 1e-11 * truth, "{error}");
        }
    }

    #[test]
    fn an_empty_range_is_not_evaluated() {
        // At 0 this function is infinite, and 0 times ∞ would be NaN.
        let root = |x: f64| x.sqrt().recip();
        let with_empty_range = integrate(root, &[0.0, 0.0, 1.0], 1e-6);
        assert_eq!(with_empty_range, integrate(root, &[0.0, 1.0], 1e-6));
        assert!((with_empty_range.value - 2.0).abs() <= with_empty_range.error);
    }

    #[test]
    fn an_integral_that_diverges_has_a_large_error() {
        let Estimate { value, error } = integrate(|x| (1.0 - x).powi(-2), &[0.0, 1.0], 1e-10);
        assert!(error > 1e-6 * value || !value.is_finite());
        assert!(integrate(|_| f64::NAN, &[0.0, 1.0], 1e-10).value.is_nan());
    }
}
