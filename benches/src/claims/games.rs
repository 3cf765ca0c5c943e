//! Claims of the blog note "Approximate Nash Equilibrium by Regret Matching" and of its code.
//!
//! Method: the note's own loop runs unchanged ([`SourceOrder`]). It computes the next strategy
//! before it adds the latest regrets, and averages strategies 2 to N + 1. The textbook's order,
//! with regrets added first and strategies 1 to N averaged, is that of the workload `batch-games`.
//! The note's `eps` is twice the largest sum of regrets divided by N.

use super::{Claim, Correction, Reading, Verdict};
use crate::workloads::batch_games::{CRASH, Textbook};
use anyhow::Result;
use games::ndarray::{Array2, arr2};
use games::{Bimatrix, MatrixGame, SolverConfig, Updates, best_response, exact};
use games::{nash_conv, solve};
use harness::program::InputDistribution;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use source_order::SourceOrder;

mod source_order;

/// Number of iterations in the note's example.
const STEPS: u64 = 500;
/// Upper limit of `eps` in the note's example.
const EPS: f64 = 0.03;
/// Number of iterations of the search for the iteration at which `eps` falls below [`EPS`].
const LONG: u64 = 40_000;
/// Number of seeds of the stochastic variant.
const SEEDS: u64 = 200;
/// Number of random games on which NashConv is compared with its value computed from regrets.
const GAMES: usize = 400;
/// Maximum number of rows and of columns of a random game.
const MOST_ACTIONS: usize = 8;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s0.games.equilibrium",
        claim: "the equilibrium of rock-paper-scissors with crash is 25 %, 50 %, 25 %: number of extreme equilibria, both \
            players' strategies, and the value of the game",
        claimed: &[1.0, 0.25, 0.5, 0.25, 0.25, 0.5, 0.25, 0.0],
        reading: Reading::Printed(15),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let game = crash()?;
            let equilibria = exact::all_equilibria(&Bimatrix::from(game.clone()))?;
            let strategies = equilibria.iter().flat_map(|found| &found.strategies);
            let profile: Vec<Vec<f64>> = strategies
                .map(|strategy| strategy.iter().map(games::Number::nearest).collect())
                .collect();
            let value = best_response(&game, &profile)?.values[0];
            let n_equilibria = equilibria.len() as f64;
            Ok(Some(
                [&[n_equilibria], &profile.concat()[..], &[value]].concat(),
            ))
        },
    },
    Claim {
        id: "s0.games.eps-500",
        claim: "eps is below 0.03 after 500 iterations",
        claimed: &[EPS],
        reading: Reading::Below,
        correction: Some(Correction {
            claim: "above 0.03 in either order: eps after 500 iterations in the note's order and in the textbook's; first \
                iteration with eps below 0.03, in each order; first iteration from which eps stays below 0.03 up to \
                iteration 40 000, in each order",
            verdict: Verdict::DoesNotHold,
            claimed: &[0.107_107_85, 0.067_650_05, 4219.0, 1388.0, 8158.0, 2750.0],
            reading: Reading::Printed(8),
            measure: || {
                let game = crash()?;
                let (mut note, mut textbook) = (SourceOrder::new(&game), Textbook::new(CRASH));
                let [at, first, last] = below(|| {
                    note.advance(1);
                    note.estimate()
                });
                let [textbook_at, textbook_first, textbook_last] = below(|| {
                    textbook.advance(1);
                    textbook.estimate()
                });
                Ok(Some(vec![
                    at,
                    textbook_at,
                    first,
                    textbook_first,
                    last,
                    textbook_last,
                ]))
            },
        }),
        expected: Verdict::DoesNotHold,
        measure: || Ok(Some(vec![in_note_order(STEPS)?.0])),
    },
    Claim {
        id: "s0.games.upper-bound",
        claim: "eps is an upper bound of the error: NashConv divided by eps at N = 100 and 1000",
        claimed: &[1.0, 1.0],
        reading: Reading::Below,
        correction: Some(Correction {
            claim: "if regrets and averages cover the same iterations, both players update simultaneously and the average is \
                uniform, the sum of both players' largest regrets divided by N is NashConv: largest difference over 400 random \
                games of up to 8 by 8 actions",
            verdict: Verdict::DoesNotHold,
            claimed: &[1e-12],
            reading: Reading::Below,
            measure: || Ok(Some(vec![difference_by_regrets()?])),
        }),
        expected: Verdict::DoesNotHold,
        measure: || {
            let ratio = |iterations| {
                let (eps, nash_conv) = in_note_order(iterations)?;
                Ok(nash_conv / eps)
            };
            [100, 1000]
                .into_iter()
                .map(ratio)
                .collect::<Result<_>>()
                .map(Some)
        },
    },
    Claim {
        id: "s0.games.converges",
        claim: "averaged strategies converge to the equilibrium: NashConv at N = 10³, 10⁴ and 10⁵ divided by NashConv at N / 10",
        claimed: &[0.5, 0.5, 0.5],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let found = [100, 1000, 10_000, 100_000].map(in_note_order);
            let nash_conv = |found: Result<(f64, f64)>| Ok(found?.1);
            let found: Vec<f64> = found.into_iter().map(nash_conv).collect::<Result<_>>()?;
            Ok(Some(found.windows(2).map(|two| two[1] / two[0]).collect()))
        },
    },
    Claim {
        id: "s0.games.stochastic",
        claim: "eps is below 0.03 after 500 iterations of the stochastic variant, which samples actions: mean over 200 seeds",
        claimed: &[EPS],
        reading: Reading::Below,
        correction: Some(Correction {
            claim: "eps is far above 0.03 for every seed: mean, and number of seeds with eps below 0.03",
            verdict: Verdict::DoesNotHold,
            claimed: &[0.2, 0.0],
            reading: Reading::Printed(1),
            measure: || {
                let found = stochastic()?;
                let n_below = found.iter().filter(|&&eps| eps < EPS).count();
                Ok(Some(vec![mean(&found), n_below as f64]))
            },
        }),
        expected: Verdict::DoesNotHold,
        measure: || Ok(Some(vec![mean(&stochastic()?)])),
    },
    Claim {
        id: "s0.games.estimate",
        claim: "regrets can be used to estimate the accuracy: eps divided by NashConv at N = 100, 500 and 1000",
        claimed: &[1.0, 1.0, 1.0],
        reading: Reading::Printed(2),
        correction: Some(Correction {
            claim: "only if regrets and averages cover the same iterations: sum of both players' largest regrets divided by N \
                and by NashConv, in the textbook's order",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[1.0, 1.0, 1.0],
            reading: Reading::Printed(10),
            measure: || {
                let game = crash()?;
                let ratio = |iterations| {
                    let solution = solve(&game, &textbook().iterations(iterations))?;
                    Ok(solution.regret_nash_conv.unwrap_or(f64::NAN) / solution.nash_conv)
                };
                [100, 500, 1000]
                    .into_iter()
                    .map(ratio)
                    .collect::<Result<_>>()
                    .map(Some)
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || {
            let ratio = |iterations| {
                let (eps, nash_conv) = in_note_order(iterations)?;
                Ok(eps / nash_conv)
            };
            [100, 500, 1000]
                .into_iter()
                .map(ratio)
                .collect::<Result<_>>()
                .map(Some)
        },
    },
];

fn crash() -> Result<MatrixGame> {
    Ok(MatrixGame::zero_sum(arr2(&CRASH))?)
}

/// Returns the configuration of regret matching in the textbook's order.
fn textbook() -> SolverConfig {
    SolverConfig::regret_matching().updates(Updates::Simultaneous)
}

/// Returns `eps` of the note's loop after `iterations`, and NashConv of its average strategies.
fn in_note_order(iterations: u64) -> Result<(f64, f64)> {
    let game = crash()?;
    let mut note = SourceOrder::new(&game);
    note.advance(iterations);
    Ok((note.estimate(), nash_conv(&game, &note.average())?))
}

/// Calls `next`, which returns `eps` after one more iteration, [`LONG`] times. Returns three
/// numbers: `eps` after [`STEPS`] iterations, the first iteration with `eps` below [`EPS`], and the
/// first iteration from which `eps` stays below [`EPS`].
fn below(mut next: impl FnMut() -> f64) -> [f64; 3] {
    let (mut at, mut first, mut last) = (f64::NAN, f64::NAN, 1.0);
    for iteration in 1..=LONG {
        let eps = next();
        if iteration == STEPS {
            at = eps;
        }
        if eps >= EPS {
            last = (iteration + 1) as f64;
        } else if first.is_nan() {
            first = iteration as f64;
        }
    }
    [at, first, last]
}

/// Returns the largest difference, over random games, between the NashConv of a solution and the
/// NashConv computed from its regrets.
fn difference_by_regrets() -> Result<f64> {
    let mut worst = 0.0_f64;
    for game in 0..GAMES {
        let (rows, cols) = (
            1 + game % MOST_ACTIONS,
            1 + game / MOST_ACTIONS % MOST_ACTIONS,
        );
        let gains = InputDistribution::Centred.draw(rows * cols, game as u64);
        let gains = Array2::from_shape_vec((rows, cols), gains)?;
        let game = MatrixGame::zero_sum(gains)?;
        let solution = solve(&game, &textbook().iterations(STEPS))?;
        let by_regrets = solution.regret_nash_conv.unwrap_or(f64::NAN);
        // `f64::max` ignores NaN, but `min(1.0)` turns a NaN difference into 1.
        worst = worst.max((by_regrets - solution.nash_conv).abs().min(1.0));
    }
    Ok(worst)
}

/// Returns `eps` of the stochastic variant for each seed.
fn stochastic() -> Result<Vec<f64>> {
    let game = crash()?;
    let eps = |seed| {
        let mut note = SourceOrder::new(&game);
        note.advance_stochastic(STEPS, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
        note.estimate()
    };
    Ok((0..SEEDS).map(eps).collect())
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}
