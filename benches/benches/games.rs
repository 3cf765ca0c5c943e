//! Criterion benchmarks of the hot paths of the games: an iteration, an evaluation of NashConv, a
//! batch of games.
//!
//! `cargo bench -p benches --bench games -- leduc` runs those whose name contains `leduc`.
//! Throughput is iterations, evaluations or games per second. Learning continues from call to call,
//! as in a long run.

use criterion::{Bencher, BenchmarkId, Criterion, Throughput};
use games::extensive::{CompiledGame, Kuhn, Leduc, LiarsDice, Mccfr, Sampling, Tree};
use games::ndarray::{Array2, Array3};
use games::{Batch, Game, MatrixGame, Result, Run, SolverConfig, Updates, nash_conv};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use tensor_core::rng::Philox;

/// Number of games in a batch.
const N_GAMES: usize = 1024;
/// Number of iterations in each game.
const STEPS: u64 = 500;
/// Sides of the matrix games.
const SIDES: [usize; 2] = [100, 1000];

fn main() -> Result<()> {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    let trees = [
        ("kuhn", Tree::from_game(&Kuhn)?),
        ("leduc", Tree::from_game(&Leduc::new())?),
        ("leduc isomorphic", Tree::from_game(&Leduc::isomorphic())?),
        ("liars dice 4", Tree::from_game(&LiarsDice::new(4, 1)?)?),
        ("liars dice 6", Tree::from_game(&LiarsDice::new(6, 1)?)?),
    ];
    for (name, tree) in &trees {
        let compiled = CompiledGame::from_tree(tree)?;
        learning(&mut criterion, name, &compiled)?;
        sampled(&mut criterion, name, tree)?;
    }
    for side in SIDES {
        let gains = uniform(side * side);
        let gains = Array2::from_shape_fn((side, side), |(row, col)| gains[row * side + col]);
        let game = MatrixGame::zero_sum(gains)?;
        learning(&mut criterion, &format!("matrix {side}"), &game)?;
    }
    batch(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

/// Benchmarks an iteration of each learning rule, and an evaluation of NashConv.
fn learning<G: Game>(criterion: &mut Criterion, name: &str, game: &G) -> Result<()> {
    let rules = [
        ("cfr", SolverConfig::regret_matching()),
        ("cfr+", SolverConfig::regret_matching_plus()),
        ("dcfr", SolverConfig::discounted(1.5, 0.0, 2.0)),
        ("pcfr+", SolverConfig::predictive_regret_matching_plus()),
    ];
    for (rule, config) in rules {
        let mut run = Run::new(game, &config)?;
        measure(criterion, rule, name, 1, |bencher| {
            bencher.iter(|| run.advance(1))
        });
    }
    let mut run = Run::new(game, &SolverConfig::default())?;
    run.advance(10);
    let average = run.average();
    measure(criterion, "nash_conv", name, 1, |bencher| {
        bencher.iter(|| nash_conv(game, &average));
    });
    Ok(())
}

/// Benchmarks an iteration of learning on samples, with the walks of both players.
fn sampled(criterion: &mut Criterion, name: &str, tree: &Tree) -> Result<()> {
    let outcome = Sampling::Outcome { exploration: 0.6 };
    for (sampling_name, sampling) in [("external", Sampling::External), ("outcome", outcome)] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut run = Mccfr::new(tree, sampling)?;
        measure(criterion, sampling_name, name, 1, |bencher| {
            bencher.iter(|| run.advance(1, &mut rng));
        });
    }
    Ok(())
}

/// Benchmarks regret matching in many games of 3 by 3 actions, on all threads.
fn batch(criterion: &mut Criterion) -> Result<()> {
    let gains = uniform(9 * N_GAMES);
    let gains = Array3::from_shape_fn((N_GAMES, 3, 3), |(game, row, col)| {
        gains[9 * game + 3 * row + col]
    });
    let batch = Batch::zero_sum(gains)?;
    let config = SolverConfig::regret_matching().updates(Updates::Simultaneous);
    let config = config.iterations(STEPS);
    measure(criterion, "batch", "3x3", N_GAMES, |bencher| {
        bencher.iter(|| batch.solve(&config));
    });
    Ok(())
}

fn measure(
    criterion: &mut Criterion,
    group: &str,
    name: &str,
    elements: usize,
    work: impl FnMut(&mut Bencher<'_>),
) {
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(elements as u64));
    group.bench_function(BenchmarkId::from_parameter(name), work);
    group.finish();
}

/// Returns random numbers, uniform in [-1, 1).
fn uniform(len: usize) -> Vec<f32> {
    let mut numbers = vec![0.0; len];
    Philox::new(1).fill_uniform_f32(0, &mut numbers);
    numbers.iter_mut().for_each(|x| *x = 2.0 * *x - 1.0);
    numbers
}
