//! Quantiles of the inverse Gaussian and its relatives, for either tail, from probabilities or
//! their logarithms.
//!
//! Method: solves `L(y) = ln p` in `y = ln x`, where `L` is the logarithm of the smaller tail, by
//! Householder's method of fourth order within a bracket. With `g = L'` and `c = -1/2 - w v/2`, the
//! slope of `ln(x f)`, the next derivatives are `L'' = g (c - g)` and `L''' = g (c' + (c - g)(c -
//! 2g))`. They contain no new functions, so a step is about as cheap as a Newton step. The search
//! stores `x` and multiplies it by `exp(step)`, so no digits are lost by a conversion of `y` to
//! `x`. Each distribution has its own first guess. Near the root, the error of `L` is computed as
//! the logarithm of the quotient `P/p`, because the rounding error of a difference of logarithms
//! grows with `|ln p|`.
//! Cost: usually two evaluations of the tail; a test limits the number to 8. A step that leaves the
//! bracket is replaced by bisection.

use crate::distribution::Distribution;
use crate::lanes;
use crate::point::Point;
use crate::special::elementary::{exp, ln};
use std::f64::consts::LN_2;

/// The maximum number of steps, more than any input needs.
const MAX_STEPS: u32 = 60;
/// The number of steps after which a search bisects the whole range of f64. Only a first guess that
/// is wrong by many decades needs so many steps. About ten more steps shorten the bracket to a few
/// decades.
const PATIENCE: f64 = 8.0;
/// The error of `L`, in units of `max(1, |L|)`, up to which the next step is the last step. The
/// error after this step is of fourth order in `LAST_STEP`.
const LAST_STEP: f64 = 5e-5;
/// The difference of logarithms below which the error of `L` is computed from the quotient of the
/// probabilities.
const NEAR: f64 = 0.05;
/// The range of the numerator and the denominator of Householder's correction in which the
/// correction is used. Otherwise the step is a Newton step.
const HOUSEHOLDER_RANGE: std::ops::Range<f64> = 0.3..3.0;

/// A tail probability, at most 1/2, whose quantile is to be found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Whether the probability is that of the upper tail.
    pub(crate) is_upper: bool,
    /// The logarithm of the probability.
    pub(crate) ln_p: f64,
    /// The probability itself, or 0 where only its logarithm is given or it is not a normal number.
    pub(crate) p: f64,
}

/// The meaning of the argument of a quantile function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuantileArgument {
    /// The probability is that of the upper tail.
    pub(crate) is_upper: bool,
    /// The argument is the logarithm of the probability.
    pub(crate) is_log: bool,
}

impl QuantileArgument {
    /// Returns the target for the argument `p`.
    #[inline(always)]
    pub(crate) fn target(self, distribution: &impl Distribution, p: f64) -> Target {
        if self.is_log {
            distribution.ln_target(p, self.is_upper)
        } else {
            distribution.target(p, self.is_upper)
        }
    }
}

impl Target {
    /// Creates the target of a probability in `[0, 1]`, of the upper or the lower tail.
    #[inline(always)]
    pub(crate) fn of_probability(p: f64, is_upper: bool) -> Self {
        // For p > 1/2 use the other tail, whose probability 1 - p is exact in f64.
        let is_small = p <= 0.5;
        let p = if is_small { p } else { 1.0 - p };
        Self {
            is_upper: is_upper == is_small,
            ln_p: ln(p),
            p: if p < f64::MIN_POSITIVE { 0.0 } else { p },
        }
    }

    /// Creates the target of the logarithm of a probability, at most 0.
    #[inline(always)]
    pub(crate) fn of_ln_probability(ln_p: f64, is_upper: bool) -> Self {
        if ln_p <= -LN_2 {
            Self {
                is_upper,
                ln_p,
                p: 0.0,
            }
        } else {
            // The probability is above 1/2: 1 - exp(ln_p) is the probability of the other tail.
            Self::of_probability(-ln_p.exp_m1(), !is_upper)
        }
    }
}

/// A quantile and the number of evaluations that the search used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantile {
    pub(crate) x: f64,
    /// Evaluations of the tail.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test bounds it"))]
    pub(crate) n_steps: u32,
}

/// Returns the quantiles of `N` probabilities or logarithms of probabilities, computed side by side
/// in SIMD lanes. The quantiles at the ends of the support are 0 and ∞.
pub(crate) fn solve<const N: usize>(
    distribution: &impl Distribution<Point = Point>,
    ps: &[f64; N],
    argument: QuantileArgument,
) -> [Quantile; N] {
    lanes::run(Solve {
        distribution,
        ps,
        argument,
    })
}

/// The computation of `N` quantiles, in the form that `pulp` dispatches.
struct Solve<'a, L, const N: usize> {
    distribution: &'a L,
    ps: &'a [f64; N],
    argument: QuantileArgument,
}

/// The state of `N` searches that run side by side in SIMD lanes. The loop ends when every search
/// has found its root; a search that has ended keeps its `x`.
///
/// All fields are arrays of f64, including flags and counts, so that the compiler can keep each
/// field in vector registers of one width.
struct Searches<const N: usize> {
    /// The logarithms of the probabilities.
    ln_p: [f64; N],
    /// The probabilities, or 0 as in [`Target::p`].
    p: [f64; N],
    /// 1 for the lower tail, -1 for the upper tail.
    side: [f64; N],
    /// The current guesses.
    x: [f64; N],
    /// The lower ends of the brackets.
    low: [f64; N],
    /// The upper ends of the brackets.
    high: [f64; N],
    /// 1 until the root is found, then 0.
    is_open: [f64; N],
    /// The numbers of steps so far.
    n_steps: [f64; N],
}

impl<L: Distribution<Point = Point>, const N: usize> pulp::NullaryFnOnce for Solve<'_, L, N> {
    type Output = [Quantile; N];

    #[inline(always)]
    fn call(self) -> [Quantile; N] {
        let Self {
            distribution,
            ps,
            argument,
        } = self;
        let mut searches = Searches {
            ln_p: [0.0; N],
            p: [0.0; N],
            side: [1.0; N],
            x: [0.0; N],
            low: [0.0; N],
            high: [f64::INFINITY; N],
            is_open: [1.0; N],
            n_steps: [0.0; N],
        };
        for (i, &p) in ps.iter().enumerate() {
            let target = argument.target(distribution, p);
            searches.ln_p[i] = target.ln_p;
            searches.p[i] = target.p;
            searches.side[i] = if target.is_upper { -1.0 } else { 1.0 };
            searches.x[i] = distribution
                .start(target)
                .clamp(f64::MIN_POSITIVE, f64::MAX);
            searches.is_open[i] = if target.ln_p == f64::NEG_INFINITY {
                0.0
            } else {
                1.0
            };
        }
        for _ in 0..MAX_STEPS {
            if searches.is_open.iter().sum::<f64>() == 0.0 {
                break;
            }
            searches.step(distribution);
        }
        let at = |i: usize| {
            // For a logarithm of -∞ the tail is empty, and the quantile is an end of the support.
            // The callers have rejected NaN.
            let end = if searches.side[i] < 0.0 {
                f64::INFINITY
            } else {
                0.0
            };
            let is_end = searches.ln_p[i] == f64::NEG_INFINITY;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small count"
            )]
            Quantile {
                x: if is_end { end } else { searches.x[i] },
                n_steps: searches.n_steps[i] as u32,
            }
        };
        std::array::from_fn(at)
    }
}

impl<const N: usize> Searches<N> {
    /// Moves every search by one step.
    ///
    /// All values are computed in every lane and then selected, because branches would prevent
    /// vectorization.
    #[inline(always)]
    fn step(&mut self, distribution: &impl Distribution<Point = Point>) {
        for i in 0..N {
            let target = Target {
                is_upper: self.side[i] < 0.0,
                ln_p: self.ln_p[i],
                p: self.p[i],
            };
            let x = self.x[i];
            let (miss, step) = step(distribution, target, x);
            // Whether x is above the root: the lower tail is then too large, the upper too small.
            let is_beyond = if target.is_upper {
                miss < 0.0
            } else {
                miss > 0.0
            };
            let low = if is_beyond { self.low[i] } else { x };
            let high = if is_beyond { x } else { self.high[i] };
            let next = x * exp(step, 0.0).value();
            let is_last = miss.abs() <= LAST_STEP * target.ln_p.abs().max(1.0);
            // A step that leaves the bracket is replaced by bisection.
            let within = if low < next && next < high {
                next
            } else {
                between(low, high, self.n_steps[i] < PATIENCE)
            };
            let walked = if is_last { next } else { within };
            // If the root is outside f64's range, the result is ∞ or 0.
            let walked = if low == f64::MAX {
                f64::INFINITY
            } else {
                walked
            };
            let walked = if high == f64::MIN_POSITIVE {
                0.0
            } else {
                walked
            };
            let is_found = is_last || low == f64::MAX || high == f64::MIN_POSITIVE;
            let is_open = self.is_open[i] == 1.0;
            self.x[i] = if is_open { walked } else { x };
            self.low[i] = low;
            self.high[i] = high;
            self.n_steps[i] += self.is_open[i];
            self.is_open[i] = if is_found { 0.0 } else { self.is_open[i] };
        }
    }
}

/// Returns a point inside a bracket: the geometric mean of its ends. If one end is 0 or infinite,
/// and `is_near`, the point is near the other end. At most one end may be 0 or infinite.
#[inline(always)]
fn between(low: f64, high: f64, is_near: bool) -> f64 {
    const FAR: f64 = 16.0;
    let middle = low.max(f64::MIN_POSITIVE).sqrt() * high.min(f64::MAX).sqrt();
    let down = (high / FAR).max(f64::MIN_POSITIVE);
    let up = (low * FAR).min(f64::MAX);
    let inside = if is_near && high == f64::INFINITY {
        up
    } else {
        middle
    };
    if is_near && low == 0.0 { down } else { inside }
}

/// Returns the error `ln P(x) - ln p`, and the step in `ln x` that corrects the error.
#[inline(always)]
fn step(distribution: &impl Distribution<Point = Point>, target: Target, x: f64) -> (f64, f64) {
    let point = distribution.point(x);
    let tail = point.tail();
    let by_logarithms = tail.ln_probability(target.is_upper) - target.ln_p;
    // The difference of the logarithms has an error of epsilons of `|ln p|`. Near the root use
    // ln(P/p) = 2 artanh(z/(2 + z)) with z = P/p - 1, by the first terms of its series.
    let z = (tail.probability(target.is_upper) - target.p) / target.p;
    let half = z / (2.0 + z);
    let square = half * half;
    let by_quotient =
        2.0 * half * (1.0 + square * (1.0 / 3.0 + square * (0.2 + square * (1.0 / 7.0))));
    let miss = if by_logarithms.abs() < NEAR && target.p > 0.0 {
        by_quotient
    } else {
        by_logarithms
    };
    let rate = point.rate(&tail, target.is_upper);
    let g = if target.is_upper { -rate } else { rate };
    let newton = -miss / g;
    // The derivatives of L, as in the header, divided by g: `second` is L''/(2g), `third`
    // L'''/(6g).
    let (c, c_slope) = point.ln_rate_slopes();
    let second = 0.5 * (c - g);
    let third = (c_slope + (c - g) * (c - 2.0 * g)) * (1.0 / 6.0);
    let (above, below) = (
        1.0 + second * newton,
        1.0 + newton * (2.0 * second + third * newton),
    );
    // Far from the root the correction may have a zero or a pole, and NaN fails both comparisons.
    let is_trusted = (HOUSEHOLDER_RANGE.start < above && above < HOUSEHOLDER_RANGE.end)
        && (HOUSEHOLDER_RANGE.start < below && below < HOUSEHOLDER_RANGE.end);
    (
        miss,
        if is_trusted {
            newton * above / below
        } else {
            newton
        },
    )
}

/// Returns the standard normal quantile of `exp(ln_p)`, a probability below 1/2, with an absolute
/// error below 4.5e-4.
///
/// Source: Hastings 1955, "Approximations for digital computers", sheet 68.
#[inline(always)]
pub(crate) fn normal_quantile(ln_p: f64) -> f64 {
    // Twice the root of a quarter, because `-2 ln_p` may be infinite.
    let t = 2.0 * (-0.5 * ln_p).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    above / below - t
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FirstPassage, InverseGaussian, Levy};

    /// Logarithms of probabilities from -1e-15 to -1e25.
    fn levels() -> impl Iterator<Item = f64> {
        (0..400).map(|level| -10_f64.powf(f64::from(level) / 10.0 - 15.0))
    }

    /// Computes the quantile of each level in both tails. Returns the numbers of evaluations and of
    /// quantiles.
    fn evaluations(
        distribution: &(impl Distribution<Point = Point> + std::fmt::Debug),
    ) -> [u32; 2] {
        let (mut total, mut count) = (0, 0);
        for (ln_p, is_upper) in levels().flat_map(|ln_p| [(ln_p, false), (ln_p, true)]) {
            let argument = QuantileArgument {
                is_upper,
                is_log: true,
            };
            let [Quantile { x, n_steps }] = solve(distribution, &[ln_p], argument);
            assert!(
                n_steps <= 8,
                "{distribution:?} at {ln_p}, upper {is_upper}: {n_steps}, {x}"
            );
            (total, count) = (total + n_steps, count + 1);
        }
        [total, count]
    }

    #[test]
    fn no_quantile_on_the_plane_takes_more_than_eight_evaluations() {
        let mut spent = vec![evaluations(&Levy::new(1.0).unwrap())];
        for phi_exponent in -28..=16 {
            let phi = 10_f64.powf(0.5 * f64::from(phi_exponent));
            let distribution = InverseGaussian::new(1.0, 1.0 / phi).unwrap();
            spent.push(evaluations(&distribution));
            spent.push(evaluations(&distribution.reciprocal()));
            for drift in [-1.0, 1.0] {
                spent.push(evaluations(
                    &FirstPassage::new(1.0, drift, phi.sqrt()).unwrap(),
                ));
            }
        }
        let [total, count] = spent
            .into_iter()
            .fold([0, 0], |[total, count], [t, c]| [total + t, count + c]);
        assert!(
            f64::from(total) / f64::from(count) < 1.25,
            "{total} of {count}"
        );
    }
}
