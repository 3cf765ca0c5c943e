//! Distance of sampled averages from equilibria, in the mean over several seeds.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use games::extensive::{
    CompiledGame, ExtensiveGame, Kuhn, Leduc, LiarsDice, Mccfr, Sampling, Tree,
};
use games::nash_conv;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

const OUTCOME: Sampling = Sampling::Outcome { exploration: 0.6 };
/// Number of seeds per mean; a single run may deviate from the mean by half of the mean.
const N_SEEDS: u64 = 6;

/// Returns the mean NashConv of the average strategies over runs with several seeds.
fn mean_nash_conv(game: &impl ExtensiveGame, sampling: Sampling, iterations: u64) -> f64 {
    let tree = Tree::from_game(game).unwrap();
    let compiled = CompiledGame::from_tree(&tree).unwrap();
    let learnt = |seed| {
        let mut run = Mccfr::new(&tree, sampling).unwrap();
        run.advance(iterations, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
        nash_conv(&compiled, &run.average()).unwrap()
    };
    (1..=N_SEEDS).map(learnt).sum::<f64>() / N_SEEDS as f64
}

/// Checks that the mean NashConv of several runs is below a bound.
///
/// Each call has a comment with the measured value. The margin is smaller than the effect of wrong
/// weights of regrets. Wrong weights of averages hardly change NashConv, so a unit test in the
/// module of [`Mccfr`] checks these weights.
fn comes_near(game: &impl ExtensiveGame, sampling: Sampling, iterations: u64, bound: f64) {
    let found = mean_nash_conv(game, sampling, iterations);
    eprintln!("{}, {sampling:?}: {found}", game.title());
    assert!(found < bound, "{found}");
}

#[test]
fn samples_learn_kuhn() {
    comes_near(&Kuhn, Sampling::External, 200_000, 0.007); // 0.0044
    comes_near(&Kuhn, OUTCOME, 200_000, 0.018); // 0.0121
}

/// In the game without suits, chance is not uniform: a pair of equal ranks is half as likely as a
/// pair of different ranks.
#[test]
fn samples_learn_leduc_of_ranks() {
    let game = Leduc::isomorphic();
    comes_near(&game, Sampling::External, 100_000, 0.13); // 0.095
    comes_near(&game, OUTCOME, 100_000, 1.0); // 0.87
}

/// Two dice of two faces show different faces half of the time, so the three rolls are not equally
/// likely.
#[test]
fn samples_learn_liars_dice() {
    let game = LiarsDice::new(2, 2).unwrap();
    comes_near(&game, Sampling::External, 50_000, 0.001); // 0.0006
    comes_near(&game, OUTCOME, 50_000, 0.02); // 0.0130
}
