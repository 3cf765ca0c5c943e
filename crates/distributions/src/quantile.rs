//! Quantiles of the laws, from either tail, from probabilities or their logarithms.
//!
//! Method: the root of `L(x) = ln P` in `y = ln x`, on the tail that is smaller, by Householder's method of fourth order
//! within a bracket. With `g = L'` and `c = -1/2 - w v/2`, the slope of `ln(x f)`, the derivatives are `g (c - g)` and
//! `g (c' + (c - g)(c - 2g))`, so a step costs no more than Newton's. What is kept is `x` itself, multiplied by
//! `exp(step)`: no digits are lost between `y` and `x`. Each law has its start.
//! Cost: two evaluations as a rule; a test bounds them by 8. Bisection takes over where a step leaves the bracket.

use crate::lanes;
use crate::law::Law;
use crate::special::elementary::exp;
use std::f64::consts::LN_2;

/// More steps than any input needs; what has not converged by then is as near as f64 tells.
const MAX_STEPS: u32 = 60;
/// Below this error of `L`, in units of `max(1, |L|)`, the next step is the last: its error is of fourth order.
const LAST_STEP: f64 = 5e-5;
/// Both factors of the step are trusted within this range, else the step is Newton's.
const TRUSTED: std::ops::Range<f64> = 0.3..3.0;

/// The logarithm of a tail probability, at most `-ln 2`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) is_upper: bool,
    pub(crate) ln_p: f64,
}

impl Target {
    /// Gives the target of a probability in `(0, 1)`, of the upper tail or of the lower one.
    pub(crate) fn of_probability(p: f64, is_upper: bool) -> Self {
        // 1 - p is exact for p >= 1/2.
        if p <= 0.5 {
            Self {
                is_upper,
                ln_p: p.ln(),
            }
        } else {
            Self {
                is_upper: !is_upper,
                ln_p: (1.0 - p).ln(),
            }
        }
    }

    /// Gives the target of the logarithm of a probability, below 0.
    pub(crate) fn of_ln_probability(ln_p: f64, is_upper: bool) -> Self {
        if ln_p <= -LN_2 {
            Self { is_upper, ln_p }
        } else {
            Self {
                is_upper: !is_upper,
                ln_p: (-ln_p.exp_m1()).ln(),
            }
        }
    }
}

/// A quantile and what it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantile {
    pub(crate) x: f64,
    /// Evaluations of the tail.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test bounds it"))]
    pub(crate) n_steps: u32,
}

/// Gives the quantile of a target: 0 and infinity at the ends.
pub(crate) fn solve(law: &impl Law, target: Target) -> Quantile {
    // At -∞ no tail is left; NaN does not get here.
    if target.ln_p == f64::NEG_INFINITY {
        let x = if target.is_upper { f64::INFINITY } else { 0.0 };
        return Quantile { x, n_steps: 0 };
    }
    lanes::run(Solve { law, target })
}

struct Solve<'a, L> {
    law: &'a L,
    target: Target,
}

impl<L: Law> pulp::NullaryFnOnce for Solve<'_, L> {
    type Output = Quantile;

    #[inline(always)]
    fn call(self) -> Quantile {
        let Self { law, target } = self;
        let mut x = law.start(target).clamp(f64::MIN_POSITIVE, f64::MAX);
        let (mut low, mut high) = (0.0_f64, f64::INFINITY);
        let direction = if target.is_upper { -1.0 } else { 1.0 };
        for n_steps in 1..MAX_STEPS {
            let (miss, step) = step(law, target, x);
            if direction * miss > 0.0 {
                high = x;
            } else {
                low = x;
            }
            let next = x * exp(step, 0.0).value();
            if miss.abs() <= LAST_STEP * target.ln_p.abs().max(1.0) {
                return Quantile { x: next, n_steps };
            }
            // Beyond what f64 holds no step leads on.
            if low == f64::MAX {
                return Quantile {
                    x: f64::INFINITY,
                    n_steps,
                };
            }
            if high == f64::MIN_POSITIVE {
                return Quantile { x: 0.0, n_steps };
            }
            x = if low < next && next < high {
                next
            } else {
                between(low, high)
            };
        }
        Quantile {
            x,
            n_steps: MAX_STEPS,
        }
    }
}

/// Gives a point inside a bracket of which at most one end is 0 or infinite.
fn between(low: f64, high: f64) -> f64 {
    const FAR: f64 = 16.0;
    if low == 0.0 {
        (high / FAR).max(f64::MIN_POSITIVE)
    } else if high == f64::INFINITY {
        (low * FAR).min(f64::MAX)
    } else {
        low.sqrt() * high.sqrt()
    }
}

/// Gives by how much `L(x)` misses its target, and the step in `ln x` that mends it.
#[inline(always)]
fn step(law: &impl Law, target: Target, x: f64) -> (f64, f64) {
    let point = law.point(x);
    let tail = point.tail();
    let miss = tail.ln_probability(target.is_upper) - target.ln_p;
    let rate = point.rate(&tail, target.is_upper);
    let g = if target.is_upper { -rate } else { rate };
    let newton = -miss / g;
    // With c the slope of ln(x f), L'' = g (c - g) and L''' = g (c' + (c - g) (c - 2 g)).
    let (c, c_slope) = point.ln_rate_slopes();
    let second = 0.5 * (c - g);
    let third = (c_slope + (c - g) * (c - 2.0 * g)) * (1.0 / 6.0);
    let (above, below) = (
        1.0 + second * newton,
        1.0 + newton * (2.0 * second + third * newton),
    );
    let is_trusted = TRUSTED.contains(&above) && TRUSTED.contains(&below);
    (
        miss,
        if is_trusted {
            newton * above / below
        } else {
            newton
        },
    )
}

/// Gives the normal quantile of a logarithm of a probability below 1/2, with an absolute error below 4.5e-4.
///
/// Source: Hastings 1955, "Approximations for digital computers", sheet 68.
#[inline(always)]
pub(crate) fn normal_quantile(ln_p: f64) -> f64 {
    let t = (-2.0 * ln_p).sqrt();
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

    /// Solves for each level on both sides, and gives how many evaluations that took, and how many quantiles it were.
    fn evaluations(law: &(impl Law + std::fmt::Debug)) -> [u32; 2] {
        let (mut total, mut count) = (0, 0);
        for (ln_p, is_upper) in levels().flat_map(|ln_p| [(ln_p, false), (ln_p, true)]) {
            let target = law.ln_target(ln_p, is_upper);
            let Quantile { x, n_steps } = solve(law, target);
            assert!(
                n_steps <= 8,
                "{law:?} at {ln_p}, upper {is_upper}: {n_steps}, {x}"
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
            let law = InverseGaussian::new(1.0, 1.0 / phi).unwrap();
            spent.push(evaluations(&law));
            spent.push(evaluations(&law.reciprocal()));
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
            f64::from(total) / f64::from(count) < 3.0,
            "{total} of {count}"
        );
    }
}
