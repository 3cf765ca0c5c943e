//! A step of a regret minimiser: computes the next strategy from action values.
//!
//! Role: the only place where regrets become strategies, both for a player of a matrix game and for
//! every information set of an extensive game.
//! Method: information sets with equally many actions run in parallel SIMD lanes; a single set is
//! one lane. The regret of action `a` grows by its value minus the strategy's value and is
//! discounted by a factor that depends on its sign. Its positive part, normalised, is the next
//! strategy. A predictive rule counts the last regret twice. The choices of a rule are expressed by
//! these factors.
//! Source: Hart and Mas-Colell 2000 (regret matching); Tammelin 2014 (clipping); Brown and Sandholm
//! 2019 (discounts); Farina, Kroer and Sandholm 2021 (prediction); Freund and Schapire 1997
//! (Hedge); Brown 1951 (fictitious play).

use crate::simd::{map, mul_then_add};
use pulp::Simd;

/// The update of a rule in one iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Regret matching; `predictive` counts the last regret twice.
    Match { keep: Keep, predictive: bool },
    /// Probabilities in proportion to `exp(rate * regret)`; with `by_actions` the rate is
    /// multiplied by `sqrt(ln n)` for `n` actions.
    Hedge { rate: f64, by_actions: bool },
    /// Probability 1 for the first of the actions with the highest sum of regrets.
    Follow,
    /// Probabilities grow by `step` times the last regret, relative to themselves.
    Replicate { step: f64 },
}

/// The discount of sums of regrets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    All,
    Positive,
    /// Positive and negative sums are multiplied by these factors.
    Shares {
        positive: f64,
        negative: f64,
    },
}

/// Sums of positive regrets below this threshold count as 0, because their reciprocal would
/// overflow.
const NOTHING: f64 = f64::MIN_POSITIVE;

/// A selection among interleaved vectors: each action has a group of `of` vectors, and vector
/// number `at` of each group is selected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interleaved {
    pub(crate) at: usize,
    pub(crate) of: usize,
}

/// The selection of all vectors.
pub(crate) const WHOLE: Interleaved = Interleaved { at: 0, of: 1 };

/// The state of several information sets in parallel lanes.
pub(crate) struct Sets<'a, S: Simd> {
    pub(crate) values: &'a [S::f64s],
    pub(crate) regrets: &'a mut [S::f64s],
    pub(crate) strategy: &'a mut [S::f64s],
}

/// Updates regrets from action values and writes the next strategy. Returns the value of the
/// strategy played.
///
/// Shapes: `part.of` vectors for each action. Without positive regrets all actions are equally
/// likely.
#[inline(always)]
pub(crate) fn step<S: Simd>(simd: S, step: Step, sets: Sets<'_, S>, part: Interleaved) -> S::f64s {
    let Interleaved { at, of } = part;
    let Sets {
        values,
        regrets,
        strategy,
    } = sets;
    let zero = simd.splat_f64s(0.0);
    let mut value = zero;
    for (values, strategy) in values.chunks_exact(of).zip(strategy.chunks_exact(of)) {
        value = mul_then_add(simd, values[at], strategy[at], value);
    }
    match step {
        Step::Match { keep, predictive } => {
            let sets = Sets {
                values,
                regrets,
                strategy,
            };
            let ahead = (value, predictive);
            match keep {
                Keep::All => matching(simd, ahead, sets, part, |sum| sum),
                Keep::Positive => matching(simd, ahead, sets, part, |sum| simd.max_f64s(sum, zero)),
                Keep::Shares { positive, negative } => {
                    let shares = (simd.splat_f64s(positive), simd.splat_f64s(negative));
                    matching(simd, ahead, sets, part, |sum| {
                        let is_positive = simd.greater_than_f64s(sum, zero);
                        simd.mul_f64s(sum, simd.select_f64s(is_positive, shares.0, shares.1))
                    });
                }
            }
        }
        Step::Hedge { rate, by_actions } => {
            let n_actions = (values.len() / of) as f64;
            let factor = if by_actions {
                n_actions.ln().sqrt()
            } else {
                1.0
            };
            // An infinite rate would turn a difference of 0 into NaN.
            let rate = (rate * factor).min(f64::MAX);
            let highest = accumulate(simd, value, values, regrets, part);
            let mut total = zero;
            for (regrets, strategy) in regrets.chunks_exact(of).zip(strategy.chunks_exact_mut(of)) {
                let behind = simd.sub_f64s(regrets[at], highest);
                strategy[at] = map(simd, behind, |behind| (rate * behind).exp());
                total = simd.add_f64s(total, strategy[at]);
            }
            normalise(simd, strategy, total, part);
        }
        Step::Follow => {
            let highest = accumulate(simd, value, values, regrets, part);
            first(simd, highest, regrets, strategy, part);
        }
        Step::Replicate { step } => {
            accumulate(simd, value, values, regrets, part);
            let (one, step) = (simd.splat_f64s(1.0), simd.splat_f64s(step));
            let mut total = zero;
            for (values, strategy) in values.chunks_exact(of).zip(strategy.chunks_exact_mut(of)) {
                let growth = mul_then_add(simd, step, simd.sub_f64s(values[at], value), one);
                strategy[at] = simd.mul_f64s(strategy[at], growth);
                total = simd.add_f64s(total, strategy[at]);
            }
            normalise(simd, strategy, total, part);
        }
    }
    value
}

/// Updates regrets and strategy by regret matching; `keep` discounts the sums of regrets.
#[inline(always)]
fn matching<S: Simd>(
    simd: S,
    (value, predictive): (S::f64s, bool),
    sets: Sets<'_, S>,
    part: Interleaved,
    keep: impl Fn(S::f64s) -> S::f64s,
) {
    let Interleaved { at, of } = part;
    let zero = simd.splat_f64s(0.0);
    let mut total = zero;
    let values = sets.values.chunks_exact(of);
    let learnt = sets
        .regrets
        .chunks_exact_mut(of)
        .zip(sets.strategy.chunks_exact_mut(of));
    for (values, (regrets, strategy)) in values.zip(learnt) {
        let last = simd.sub_f64s(values[at], value);
        let sum = keep(simd.add_f64s(regrets[at], last));
        regrets[at] = sum;
        let ahead = if predictive {
            simd.add_f64s(sum, last)
        } else {
            sum
        };
        strategy[at] = simd.max_f64s(ahead, zero);
        total = simd.add_f64s(total, strategy[at]);
    }
    normalise(simd, sets.strategy, total, part);
}

/// Writes 1 for the first of the highest values, and 0 for all other values.
#[inline(always)]
pub(crate) fn first<S: Simd>(
    simd: S,
    highest: S::f64s,
    values: &[S::f64s],
    chosen: &mut [S::f64s],
    part: Interleaved,
) {
    let Interleaved { at, of } = part;
    let zero = simd.splat_f64s(0.0);
    // Once an action was chosen in a lane, 0 is left for all later actions.
    let mut left = simd.splat_f64s(1.0);
    for (values, chosen) in values.chunks_exact(of).zip(chosen.chunks_exact_mut(of)) {
        let is_lower = simd.greater_than_f64s(highest, values[at]);
        chosen[at] = simd.select_f64s(is_lower, zero, left);
        left = simd.sub_f64s(left, chosen[at]);
    }
}

/// Returns the highest value of each lane.
#[inline(always)]
pub(crate) fn highest<S: Simd>(simd: S, values: &[S::f64s], part: Interleaved) -> S::f64s {
    let mut highest = simd.splat_f64s(f64::NEG_INFINITY);
    for values in values.chunks_exact(part.of) {
        highest = simd.max_f64s(values[part.at], highest);
    }
    highest
}

/// Adds the regrets of one iteration to their sums. Returns the highest sum of each lane.
#[inline(always)]
fn accumulate<S: Simd>(
    simd: S,
    value: S::f64s,
    values: &[S::f64s],
    regrets: &mut [S::f64s],
    part: Interleaved,
) -> S::f64s {
    let Interleaved { at, of } = part;
    let mut highest = simd.splat_f64s(f64::NEG_INFINITY);
    for (values, regrets) in values.chunks_exact(of).zip(regrets.chunks_exact_mut(of)) {
        regrets[at] = simd.add_f64s(regrets[at], simd.sub_f64s(values[at], value));
        highest = simd.max_f64s(regrets[at], highest);
    }
    highest
}

/// Returns probabilities in proportion to the positive parts of numbers; uniform if no number is
/// positive.
pub(crate) fn in_proportion(numbers: &[f64]) -> Vec<f64> {
    let total: f64 = numbers.iter().map(|number| number.max(0.0)).sum();
    let equal = 1.0 / numbers.len() as f64;
    let share = |number: &f64| {
        if total > 0.0 {
            number.max(0.0) / total
        } else {
            equal
        }
    };
    numbers.iter().map(share).collect()
}

/// Divides the strategy by its sum `total`; if the sum is too small, all actions are equally
/// likely.
#[inline(always)]
fn normalise<S: Simd>(simd: S, strategy: &mut [S::f64s], total: S::f64s, part: Interleaved) {
    let Interleaved { at, of } = part;
    let equal = simd.splat_f64s(1.0 / (strategy.len() / of) as f64);
    let is_some = simd.greater_than_f64s(total, simd.splat_f64s(NOTHING));
    let inverse = simd.div_f64s(
        simd.splat_f64s(1.0),
        simd.select_f64s(is_some, total, equal),
    );
    for strategy in strategy.chunks_exact_mut(of) {
        let share = simd.mul_f64s(strategy[at], inverse);
        strategy[at] = simd.select_f64s(is_some, share, equal);
    }
}
