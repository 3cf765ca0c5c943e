//! One step of a minimiser: from what actions were worth to the next strategy.
//!
//! Role: the only place where regrets become strategies, for a matrix game's player and for every information set of an
//! extensive game alike.
//! Method: `L` sets of equally many actions abreast, one a lane. The regret of action `a` grows by its value less the
//! strategy's, is discounted by a factor for its sign, and what is positive of it, normalised, is the next strategy;
//! a predictive rule counts the last regret twice. All choices of rules are these factors.
//! Source: Hart and Mas-Colell 2000 (regret matching); Tammelin 2014 (clipping); Brown and Sandholm 2019 (discounts);
//! Farina, Kroer and Sandholm 2021 (prediction); Freund and Schapire 1997 (Hedge); Brown 1951 (fictitious play).

/// What a rule does in one iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Regret matching: factors of positive and of negative sums, and whether the last regret counts twice.
    Match {
        positive: f64,
        negative: f64,
        predictive: bool,
    },
    /// Probabilities in proportion to `exp(rate * regret)`, where the rate may be by `sqrt(ln n)` larger for `n` actions.
    Hedge { rate: f64, by_actions: bool },
    /// The first of the best actions so far.
    Follow,
    /// Probabilities grow by `step` times the last regret, relative to themselves.
    Replicate { step: f64 },
}

/// Below this sum of positive regrets there are none: its reciprocal would overflow.
const NOTHING: f64 = f64::MIN_POSITIVE;

/// Takes what each action was worth, and gives what the strategy was worth, before it writes the next.
///
/// Shapes: one item for each action. Ties and the lack of positive regrets give equal probabilities.
#[inline(always)]
pub(crate) fn step<const L: usize>(
    step: Step,
    values: &[[f64; L]],
    regrets: &mut [[f64; L]],
    strategy: &mut [[f64; L]],
) -> [f64; L] {
    let mut worth = [0.0; L];
    for (values, strategy) in values.iter().zip(&*strategy) {
        for lane in 0..L {
            worth[lane] += values[lane] * strategy[lane];
        }
    }
    match step {
        Step::Match {
            positive,
            negative,
            predictive,
        } => {
            let ahead = if predictive { 1.0 } else { 0.0 };
            let mut total = [0.0; L];
            let actions = values.iter().zip(&mut *regrets).zip(&mut *strategy);
            for ((values, regrets), strategy) in actions {
                for lane in 0..L {
                    let last = values[lane] - worth[lane];
                    let sum = regrets[lane] + last;
                    let sum = sum * if sum > 0.0 { positive } else { negative };
                    regrets[lane] = sum;
                    let next = (sum + ahead * last).max(0.0);
                    strategy[lane] = next;
                    total[lane] += next;
                }
            }
            normalise(strategy, total);
        }
        Step::Hedge { rate, by_actions } => {
            accumulate(values, &worth, regrets);
            let n_actions = values.len() as f64;
            let factor = if by_actions {
                n_actions.ln().sqrt()
            } else {
                1.0
            };
            hedge(rate * factor, regrets, strategy);
        }
        Step::Follow => {
            accumulate(values, &worth, regrets);
            follow(regrets, strategy);
        }
        Step::Replicate { step } => {
            accumulate(values, &worth, regrets);
            let mut total = [0.0; L];
            for (values, strategy) in values.iter().zip(&mut *strategy) {
                for lane in 0..L {
                    strategy[lane] *= 1.0 + step * (values[lane] - worth[lane]);
                    total[lane] += strategy[lane];
                }
            }
            normalise(strategy, total);
        }
    }
    worth
}

/// Divides by the sum; where there is none, all actions are equally likely.
#[inline(always)]
fn normalise<const L: usize>(strategy: &mut [[f64; L]], total: [f64; L]) {
    let equal = 1.0 / strategy.len() as f64;
    let is_some = total.map(|total| total >= NOTHING);
    let inverse = total.map(|total| 1.0 / total.max(NOTHING));
    for strategy in strategy {
        for lane in 0..L {
            let share = strategy[lane] * inverse[lane];
            strategy[lane] = if is_some[lane] { share } else { equal };
        }
    }
}

#[inline(always)]
fn accumulate<const L: usize>(values: &[[f64; L]], worth: &[f64; L], regrets: &mut [[f64; L]]) {
    for (values, regrets) in values.iter().zip(regrets) {
        for lane in 0..L {
            regrets[lane] += values[lane] - worth[lane];
        }
    }
}

fn hedge<const L: usize>(rate: f64, regrets: &[[f64; L]], strategy: &mut [[f64; L]]) {
    let mut highest = [f64::NEG_INFINITY; L];
    for regrets in regrets {
        for lane in 0..L {
            highest[lane] = highest[lane].max(regrets[lane]);
        }
    }
    let mut total = [0.0; L];
    for (regrets, strategy) in regrets.iter().zip(&mut *strategy) {
        for lane in 0..L {
            strategy[lane] = (rate * (regrets[lane] - highest[lane])).exp();
            total[lane] += strategy[lane];
        }
    }
    normalise(strategy, total);
}

fn follow<const L: usize>(regrets: &[[f64; L]], strategy: &mut [[f64; L]]) {
    for lane in 0..L {
        let mut best = 0;
        for (action, regrets_of) in regrets.iter().enumerate() {
            if regrets_of[lane] > regrets[best][lane] {
                best = action;
            }
        }
        for (action, strategy) in strategy.iter_mut().enumerate() {
            strategy[lane] = f64::from(u8::from(action == best));
        }
    }
}
