//! The kernel that learns in extensive games, compared with its twin on every adapter of this
//! machine.

use super::kernels::broken;
use gpu_wgsl::check::{
    Data, FailureCause, KernelCase, Values, check_on, check_on_every_adapter, every_adapter,
};
use shaders::params::{ExtensiveGamesParams, MatchingKeep};
use shaders::twin::extensive_games_solve::ExtensiveGamesTree;
use shaders::{Kernel, layout, twin};
use tensor_core::compare::{Tolerance, assert_close, compare};

/// Tolerance between the numbers of an adapter and the twin: some iterations amplify a rounding
/// error a thousandfold.
const TOLERANCE: f64 = 5e-4;
/// Maximum change of a game's result if every second payoff is multiplied by 1 + ε
/// (`f32::EPSILON`). Games within this limit also stay within [`TOLERANCE`], whatever operations an
/// adapter fuses.
const STEADY: f64 = 1e-4;
/// Stream number of the random payoffs.
const PAYOFFS: u64 = 3;
/// Factor that scales [`Values::Large`] to magnitudes of at most 1.
const LARGE: f32 = 1.0 / (1_u64 << 50) as f32;
/// Number of sequences below one decision at the start of the game: its two actions, and the three
/// actions of the decision after each of them.
const BRANCH: u32 = 8;

/// Returns the parameters of a tree in which the first player has `n_first` decisions at the start
/// of the game, and the second player one more.
fn params(n_first: u32, games: u32, iterations: u32) -> ExtensiveGamesParams {
    let n_second = n_first + 1;
    ExtensiveGamesParams {
        games,
        first_sequences: 1 + BRANCH * n_first,
        sequences: 2 + BRANCH * (n_first + n_second),
        decisions: 3 * (n_first + n_second),
        depths: 2,
        pairs: 2 * 36 * n_first * n_second,
        iterations,
        ..ExtensiveGamesParams::default()
    }
}

/// Returns parameters for every rule, with fewer sequences than the 128 lanes of a workgroup, and
/// with more.
fn shapes() -> Vec<ExtensiveGamesParams> {
    let all = MatchingKeep::All as u32;
    let positive = MatchingKeep::Positive as u32;
    let shares = MatchingKeep::Shares as u32;
    let of = |params, keep, alternating, predictive| ExtensiveGamesParams {
        keep,
        alternating,
        predictive,
        ..params
    };
    vec![
        of(params(1, 0, 3), all, 0, 0.0),
        of(params(1, 1, 1), all, 0, 0.0),
        of(params(1, 3, 4), all, 1, 0.0),
        of(params(2, 2, 4), positive, 0, 1.0),
        of(params(7, 3, 3), positive, 1, 1.0),
        of(params(8, 2, 4), shares, 1, 0.0),
        of(params(17, 2, 2), all, 0, 1.0),
    ]
}

/// Returns the tables of the tree: sequences, decisions, levels and others. Decisions are in this
/// order: first the decisions that start the game, the first player's before the second's, then the
/// decisions that follow.
fn tree(params: &ExtensiveGamesParams) -> [Vec<u32>; 4] {
    let n_first = (params.first_sequences - 1) / BRANCH;
    let counts = [n_first, n_first + 1];
    let starts = [0, params.first_sequences];
    let n_roots = counts[0] + counts[1];
    let mut sequences = vec![[0; 4]; params.sequences as usize];
    let mut decisions = vec![];
    let mut others = vec![];
    let mut pairs = 0;
    for player in 0..2 {
        let roots = if player == 0 { 0 } else { counts[0] };
        sequences[starts[player] as usize] = [0, 0, roots, roots + counts[player]];
        for root in 0..counts[player] {
            decisions.push([starts[player], starts[player] + 1 + BRANCH * root, 2, 0]);
        }
    }
    for player in 0..2 {
        let leaves = |player: usize| {
            let first = move |root| starts[player] + 1 + BRANCH * root + 2;
            (0..counts[player]).flat_map(move |root| first(root)..first(root) + 6)
        };
        for root in 0..counts[player] {
            let first = starts[player] + 1 + BRANCH * root;
            for action in 0..2 {
                let behind =
                    n_roots + 2 * (if player == 0 { 0 } else { counts[0] } + root) + action;
                sequences[(first + action) as usize] = [0, 0, behind, behind + 1];
                decisions.push([first + action, first + 2 + 3 * action, 3, 0]);
            }
        }
        for leaf in leaves(player) {
            let n_pairs = 6 * counts[1 - player];
            sequences[leaf as usize] = [pairs, pairs + n_pairs, 0, 0];
            pairs += n_pairs;
            others.extend(leaves(1 - player));
        }
    }
    let levels = vec![0, counts[0], n_roots, n_roots + 2 * counts[0], 3 * n_roots];
    [sequences.concat(), decisions.concat(), levels, others]
}

fn inputs(params: &ExtensiveGamesParams, values: Values) -> Vec<Data> {
    let iterations = params.iterations as f32;
    let ticks = (1..=params.iterations)
        .flat_map(|t| [1.0 / iterations, t as f32 / (t as f32 + 1.0), 0.5, 0.0]);
    let payoffs = values.f32s((params.games * params.pairs) as usize, PAYOFFS);
    let factor = if values == Values::Large { LARGE } else { 1.0 };
    let payoffs = payoffs
        .f32s()
        .iter()
        .map(|payoff| factor * payoff)
        .collect();
    let mut inputs = tree(params).map(Data::U32).to_vec();
    inputs.extend([Data::F32(ticks.collect()), Data::F32(payoffs)]);
    inputs
}

/// Returns the lengths of the state and of the averages, for all games together.
fn n_learnt(params: &ExtensiveGamesParams) -> [usize; 2] {
    let n = (params.games * params.sequences) as usize;
    [4 * n + (params.games * params.decisions) as usize, n]
}

fn run(kernel: &Kernel, params: &ExtensiveGamesParams, inputs: &[Data], outputs: &mut [Data]) {
    let [sequences, decisions, levels, others, ticks, payoffs] = inputs else {
        panic!("the kernel reads six buffers");
    };
    let [state, averages] = outputs else {
        panic!("the kernel writes two buffers");
    };
    let tree = ExtensiveGamesTree {
        sequences: sequences.u32s(),
        decisions: decisions.u32s(),
        levels: levels.u32s(),
        others: others.u32s(),
    };
    let learnt = [state.f32s_mut(), averages.f32s_mut()];
    twin::extensive_games_solve(kernel, params, tree, [ticks.f32s(), payoffs.f32s()], learnt);
}

fn case(kernel: &Kernel) -> KernelCase<'_, ExtensiveGamesParams> {
    KernelCase {
        kernel,
        needs: &[],
        shapes: shapes(),
        inputs,
        twin: run,
        tolerance: |_, _| Tolerance::exact().or_absolute(TOLERANCE),
        fails_on: &[],
    }
}

#[test]
fn extensive_games_solve_matches_its_twin() {
    check_on_every_adapter(&case(&layout::EXTENSIVE_GAMES_SOLVE));
}

#[test]
fn a_kernel_of_extensive_games_that_is_broken_is_reported() {
    let faults = [
        (
            "omits later decisions",
            "value += state[at.worths + behind];",
            "",
        ),
        ("forgets the way there", "reach * state", "state"),
        (
            "leaves the last level",
            "var left = params.depths;",
            "var left = params.depths - 1u;",
        ),
        (
            "shows all updates at once",
            "let n_turns = 1u + params.alternating;",
            "let n_turns = 2u;",
        ),
        ("predicts nothing", "sum + params.predictive * last", "sum"),
    ];
    for gpu in every_adapter() {
        for (fault, from, to) in faults {
            let kernel = broken(&layout::EXTENSIVE_GAMES_SOLVE, from, to);
            let failure = check_on(gpu, &case(&kernel)).expect_err(fault);
            let is_seen = matches!(failure.fault, FailureCause::Mismatch(_));
            assert!(is_seen, "{fault}: {failure}");
        }
    }
}

/// Checks that the results of the test games are insensitive to rounding. If this test fails, the
/// test above may fail on a correct adapter: choose other payoffs.
#[test]
fn no_extensive_game_that_is_compared_hangs_by_a_rounding() {
    for params in shapes() {
        for values in [Values::Random, Values::Large, Values::Small] {
            let mut inputs = inputs(&params, values);
            let outputs = || n_learnt(&params).map(|n| Data::F32(vec![0.0; n]));
            let (mut before, mut after) = (outputs(), outputs());
            run(
                &layout::EXTENSIVE_GAMES_SOLVE,
                &params,
                &inputs,
                &mut before,
            );
            for (place, payoff) in inputs[5].f32s_mut().iter_mut().enumerate() {
                *payoff *= if place % 2 == 0 {
                    1.0 + f32::EPSILON
                } else {
                    1.0
                };
            }
            run(&layout::EXTENSIVE_GAMES_SOLVE, &params, &inputs, &mut after);
            let bound = Tolerance::exact().or_absolute(STEADY).allow_empty();
            for (before, after) in before.iter().zip(&after) {
                let moved = compare(after.f32s(), before.f32s(), &bound);
                assert!(moved.is_ok(), "{params:?} {values:?}: {moved:?}");
            }
        }
    }
}

/// Number of iterations of a run, which every driver's limit on loops allows in one dispatch.
const WHOLE: u32 = 45;
/// The iterations of [`WHOLE`], divided into three dispatches.
const CHUNKS: [u32; 3] = [1, 16, 28];

/// Returns the parameters of the successive dispatches.
fn dispatches(
    params: ExtensiveGamesParams,
    chunks: &[u32],
) -> impl Iterator<Item = ExtensiveGamesParams> {
    chunks.iter().scan(0, move |sum, &iterations| {
        let done = *sum;
        *sum += iterations;
        Some(ExtensiveGamesParams {
            done,
            iterations,
            ..params
        })
    })
}

/// Returns runs with every treatment of regrets, both update orders, with and without prediction.
/// No two iterations have the same weight or the same pair of shares, so a chunk that uses the
/// values of another chunk gives a different result.
fn long_runs() -> impl Iterator<Item = (ExtensiveGamesParams, Vec<Data>)> {
    let rules = [
        (MatchingKeep::All, 0, 1.0),
        (MatchingKeep::Positive, 1, 1.0),
        (MatchingKeep::Shares, 1, 0.0),
    ];
    let ticks = |t| {
        let (t, n) = (t as f32, WHOLE as f32);
        [2.0 * t / (n * (n + 1.0)), t / (t + 1.0), t / (t + 2.0), 0.0]
    };
    rules
        .into_iter()
        .map(move |(keep, alternating, predictive)| {
            let params = ExtensiveGamesParams {
                keep: keep as u32,
                alternating,
                predictive,
                ..params(3, 5, WHOLE)
            };
            let mut inputs = inputs(&params, Values::Random);
            inputs[4] = Data::F32((1..=WHOLE).flat_map(ticks).collect());
            (params, inputs)
        })
}

#[test]
fn a_run_in_chunks_has_the_bits_of_a_whole_one() {
    let kernel = &layout::EXTENSIVE_GAMES_SOLVE;
    for (params, inputs) in long_runs() {
        for gpu in every_adapter() {
            let words: Vec<_> = inputs[..4]
                .iter()
                .map(|data| data.u32s())
                .map(|words| gpu.upload("tree", &[words.len()], words).unwrap())
                .collect();
            let numbers: Vec<_> = inputs[4..]
                .iter()
                .map(|data| data.f32s())
                .map(|numbers| gpu.upload("numbers", &[numbers.len()], numbers).unwrap())
                .collect();
            let learnt = |chunks: &[u32]| {
                let learnt = n_learnt(&params).map(|n| gpu.alloc::<f32>("learnt", &[n]).unwrap());
                let floats = numbers.iter().chain(&learnt).map(|buffer| &**buffer);
                let buffers: Vec<_> = words.iter().map(|buffer| &**buffer).chain(floats).collect();
                for params in dispatches(params, chunks) {
                    gpu.dispatch(kernel, &params, &buffers).unwrap();
                }
                learnt.map(|buffer| gpu.read(&buffer).unwrap()).concat()
            };
            assert_close(learnt(&CHUNKS), learnt(&[WHOLE]), Tolerance::bits());
        }
    }
}

#[test]
fn a_twin_in_chunks_has_the_bits_of_a_whole_run() {
    let kernel = &layout::EXTENSIVE_GAMES_SOLVE;
    for (params, inputs) in long_runs() {
        let learnt = |chunks: &[u32]| {
            let mut learnt = n_learnt(&params).map(|n| Data::F32(vec![0.0; n]));
            for params in dispatches(params, chunks) {
                run(kernel, &params, &inputs, &mut learnt);
            }
            learnt.map(|data| data.f32s().to_vec()).concat()
        };
        assert_close(learnt(&CHUNKS), learnt(&[WHOLE]), Tolerance::bits());
    }
}
