//! Kernels that learn in matrix games, compared with their twins on every adapter of this machine.

use super::kernels::broken;
use gpu_wgsl::check::{
    Data, FailureCause, KernelCase, Values, check_on, check_on_every_adapter, every_adapter,
};
use shaders::params::{
    MatchingKeep, MatrixGameUpdateParams, MatrixGameValueParams, MatrixGamesParams,
};
use shaders::{Kernel, layout, twin};
use tensor_core::compare::{Tolerance, assert_close, compare};

type Twin = fn(&Kernel, &MatrixGamesParams, [&[f32]; 2], [&mut [f32]; 2]);

/// Tolerance between the regrets and strategies of an adapter and the twin: some iterations amplify
/// a rounding error a thousandfold.
const TOLERANCE: f64 = 5e-4;
/// Maximum change of a game's result if every second payoff is multiplied by 1 + ε
/// (`f32::EPSILON`). Games within this limit also stay within [`TOLERANCE`], whatever operations an
/// adapter fuses.
const STEADY: f64 = 1e-4;

/// Stream number of the random payoffs.
const GAINS: u64 = 5;
/// Factor that scales [`Values::Large`] to magnitudes of at most 1.
const LARGE: f32 = 1.0 / (1_u64 << 50) as f32;

const RULES: [(MatchingKeep, u32, f32); 5] = [
    (MatchingKeep::All, 0, 0.0),
    (MatchingKeep::All, 1, 1.0),
    (MatchingKeep::Positive, 0, 0.0),
    (MatchingKeep::Positive, 1, 1.0),
    (MatchingKeep::Shares, 1, 0.0),
];

/// Returns parameters for every rule, for numbers of games around multiples of `group`, and for up
/// to `most` actions per player.
fn shapes(most: u32, group: u32) -> Vec<MatrixGamesParams> {
    let games = [0, 1, group - 1, group, group + 1, 2 * group + 3];
    let sides = [
        [1, 1],
        [1, most],
        [2, 3],
        [most, 2],
        [most - 1, most],
        [most, most],
    ];
    let shape = |place: usize, [rows, cols]: [u32; 2]| {
        let (keep, alternating, predictive) = RULES[place % RULES.len()];
        MatrixGamesParams {
            games: games[place % games.len()],
            rows,
            cols,
            done: 0,
            iterations: 1 + u32::try_from(place % 9).expect("the remainder is below 9"),
            keep: keep as u32,
            alternating,
            predictive,
        }
    };
    let places = sides.into_iter().cycle().take(30);
    places
        .enumerate()
        .map(|(place, side)| shape(place, side))
        .collect()
}

/// Returns payoffs of magnitude below 2, and weights that sum to 1.
fn inputs(params: &MatrixGamesParams, values: Values) -> Vec<Data> {
    let iterations = params.iterations as f32;
    let ticks = (1..=params.iterations).flat_map(|t| {
        let t = t as f32;
        [
            2.0 * t / (iterations * (iterations + 1.0)),
            t / (t + 1.0),
            0.5,
            0.0,
        ]
    });
    let n_gains = params.games * params.rows * params.cols;
    let gains = values.f32s(n_gains as usize, GAINS);
    let factor = if values == Values::Large { LARGE } else { 1.0 };
    let gains = gains.f32s().iter().map(|gain| factor * gain).collect();
    vec![Data::F32(ticks.collect()), Data::F32(gains)]
}

macro_rules! case {
    ($constant:ident, $stem:ident, $most:literal, $group:literal) => {
        KernelCase {
            kernel: &layout::$constant,
            needs: &[],
            shapes: shapes($most, $group),
            inputs,
            twin: |kernel, params, inputs, outputs| {
                run(twin::$stem, kernel, params, inputs, outputs)
            },
            tolerance: |_, _| Tolerance::exact().or_absolute(TOLERANCE),
            fails_on: &[],
        }
    };
}

fn run(
    twin: Twin,
    kernel: &Kernel,
    params: &MatrixGamesParams,
    inputs: &[Data],
    outputs: &mut [Data],
) {
    let [state, averages] = outputs else {
        panic!("a kernel of matrix games writes two buffers");
    };
    let inputs = [inputs[0].f32s(), inputs[1].f32s()];
    twin(
        kernel,
        params,
        inputs,
        [state.f32s_mut(), averages.f32s_mut()],
    );
}

#[test]
fn matrix_games_solve_3_matches_its_twin() {
    check_on_every_adapter(&case!(MATRIX_GAMES_SOLVE_3, matrix_games_solve_3, 3, 64));
}

#[test]
fn matrix_games_solve_4_matches_its_twin() {
    check_on_every_adapter(&case!(MATRIX_GAMES_SOLVE_4, matrix_games_solve_4, 4, 64));
}

#[test]
fn matrix_games_solve_16_matches_its_twin() {
    check_on_every_adapter(&case!(MATRIX_GAMES_SOLVE_16, matrix_games_solve_16, 16, 5));
}

#[test]
fn kernels_of_matrix_games_that_are_broken_are_reported() {
    let faults = [
        ("clips nothing", "regrets = max(regrets, Actions());", ""),
        (
            "discounts all alike",
            "Actions(tick.z), Actions(tick.y)",
            "Actions(tick.z), Actions(tick.z)",
        ),
        (
            "predicts nothing",
            "regrets + params.predictive * last",
            "regrets",
        ),
        ("shows no update", "seen = row.strategy;\n        }", "}"),
        (
            "averages the next strategy",
            "tick.x * player.strategy",
            "tick.x * strategy",
        ),
        (
            "plays padding actions",
            "WORST: f32 = -3.0",
            "WORST: f32 = 0.0",
        ),
        (
            "swaps rows and columns",
            "row * params.cols + col",
            "col * params.rows + row",
        ),
    ];
    for gpu in every_adapter() {
        for (fault, from, to) in faults {
            let kernel = broken(&layout::MATRIX_GAMES_SOLVE_3, from, to);
            let case = KernelCase {
                kernel: &kernel,
                ..case!(MATRIX_GAMES_SOLVE_3, matrix_games_solve_3, 3, 64)
            };
            let failure = check_on(gpu, &case).expect_err(fault);
            let is_seen = matches!(failure.fault, FailureCause::Mismatch(_));
            assert!(is_seen, "{fault}: {failure}");
        }
    }
}

/// Checks that the results of the test games are insensitive to rounding. If this test fails, the
/// tests above may fail on a correct adapter: choose other games.
#[test]
fn no_game_that_is_compared_hangs_by_a_rounding() {
    let cases = [
        case!(MATRIX_GAMES_SOLVE_3, matrix_games_solve_3, 3, 64),
        case!(MATRIX_GAMES_SOLVE_4, matrix_games_solve_4, 4, 64),
        case!(MATRIX_GAMES_SOLVE_16, matrix_games_solve_16, 16, 5),
    ];
    for case in cases {
        for params in &case.shapes {
            for values in [Values::Random, Values::Large, Values::Small] {
                let mut inputs = inputs(params, values);
                let outputs = || {
                    let n = (params.games * (params.rows + params.cols)) as usize;
                    [Data::F32(vec![0.0; 2 * n]), Data::F32(vec![0.0; n])]
                };
                let (mut before, mut after) = (outputs(), outputs());
                (case.twin)(case.kernel, params, &inputs, &mut before);
                for (place, gain) in inputs[1].f32s_mut().iter_mut().enumerate() {
                    *gain *= if place % 2 == 0 {
                        1.0 + f32::EPSILON
                    } else {
                        1.0
                    };
                }
                (case.twin)(case.kernel, params, &inputs, &mut after);
                let bound = Tolerance::exact().or_absolute(STEADY).allow_empty();
                for (before, after) in before.iter().zip(&after) {
                    let moved = compare(after.f32s(), before.f32s(), &bound);
                    assert!(moved.is_ok(), "{params:?} {values:?}: {moved:?}");
                }
            }
        }
    }
}

#[test]
fn a_run_in_chunks_has_the_bits_of_a_whole_one() {
    for kernel in [
        &layout::MATRIX_GAMES_SOLVE_3,
        &layout::MATRIX_GAMES_SOLVE_4,
        &layout::MATRIX_GAMES_SOLVE_16,
    ] {
        let params = MatrixGamesParams {
            games: 67,
            rows: 3,
            cols: 2,
            iterations: 60,
            alternating: 1,
            ..MatrixGamesParams::default()
        };
        let inputs = inputs(&params, Values::Random);
        for gpu in every_adapter() {
            let ticks = gpu.upload("ticks", &[240], inputs[0].f32s()).unwrap();
            let gains = gpu.upload("gains", &[67 * 6], inputs[1].f32s()).unwrap();
            let learnt = |chunks: &[u32]| {
                let state = gpu.alloc::<f32>("state", &[67 * 10]).unwrap();
                let averages = gpu.alloc::<f32>("averages", &[67 * 5]).unwrap();
                let mut done = 0;
                for &iterations in chunks {
                    let params = MatrixGamesParams {
                        done,
                        iterations,
                        ..params
                    };
                    let buffers = [&*ticks, &*gains, &*state, &*averages];
                    gpu.dispatch(kernel, &params, &buffers).unwrap();
                    done += iterations;
                }
                [gpu.read(&state).unwrap(), gpu.read(&averages).unwrap()].concat()
            };
            assert_close(learnt(&[1, 20, 39]), learnt(&[60]), Tolerance::bits());
        }
    }
}

/// Sizes around four actions and around a workgroup's 256 terms: 1, primes, several workgroups, not
/// square.
const SIDES: [[u32; 2]; 9] = [
    [0, 3],
    [1, 1],
    [1, 300],
    [3, 255],
    [4, 256],
    [5, 257],
    [101, 7],
    [257, 64],
    [33, 1021],
];

/// Returns an upper bound on the number of roundings that a term passes: one for each term of its
/// invocation, and one for each of the eight steps of the tree.
fn n_roundings(n_terms: u32) -> usize {
    n_terms.div_ceil(256) as usize + 9
}

#[test]
fn matrix_game_value_matches_its_twin() {
    check_on_every_adapter(&KernelCase {
        kernel: &layout::MATRIX_GAME_VALUE,
        needs: &[],
        shapes: SIDES
            .map(|[actions, others]| MatrixGameValueParams {
                actions,
                others,
                ..MatrixGameValueParams::default()
            })
            .to_vec(),
        inputs: |params, values| {
            let n_cells = (params.actions * params.others) as usize;
            let strategy = values.f32s(params.others as usize, 1);
            vec![values.f32s(n_cells, 0), strategy]
        },
        twin: |_, params, inputs, outputs| {
            let [payoffs, strategy] = [inputs[0].f32s(), inputs[1].f32s()];
            twin::matrix_game_value(params, payoffs, strategy, outputs[0].f32s_mut());
        },
        tolerance: |params, inputs| {
            let [payoffs, strategy] = [inputs[0].f32s(), inputs[1].f32s()];
            let magnitude = |line: &[f32]| -> f64 {
                let terms = line.iter().zip(strategy);
                terms.map(|(a, p)| f64::from((a * p).abs())).sum()
            };
            let lines = payoffs.chunks_exact(params.others as usize);
            Tolerance::relative(n_roundings(params.others)).scaled_by(lines.map(magnitude))
        },
        fails_on: &[],
    });
}

/// Compares the kernel with its twin. The kernel continues from the contents of its buffers, so it
/// must start from numbers and not from unwritten outputs.
#[test]
fn matrix_game_update_matches_its_twin() {
    let kernel = &layout::MATRIX_GAME_UPDATE;
    let sizes = [1, 2, 255, 256, 257, 1021, 3 * 256];
    let rules = RULES.into_iter().cycle();
    for (n, (keep, _, predictive)) in sizes.into_iter().flat_map(|n| [n; 3]).zip(rules) {
        let numbers = |stream| Values::Random.f32s(n, stream).f32s().to_vec();
        let values = numbers(0);
        let strategy = vec![1.0 / n as f32; n];
        let first = [strategy.clone(), numbers(1), strategy];
        for gpu in every_adapter() {
            let mut learnt = first.clone();
            let upload = |numbers: &Vec<f32>| gpu.upload("numbers", &[n], numbers).unwrap();
            let (given, buffers) = (upload(&values), learnt.each_ref().map(upload));
            for step in 1_u8..=3 {
                let params = MatrixGameUpdateParams {
                    actions: u32::try_from(n).unwrap(),
                    keep: keep as u32,
                    predictive,
                    share: 1.0 / f32::from(step),
                    kept: [0.75, 0.5],
                    ..MatrixGameUpdateParams::default()
                };
                let [strategy, regrets, average] = &buffers;
                gpu.dispatch(kernel, &params, &[&given, strategy, regrets, average])
                    .unwrap();
                let numbers = learnt.each_mut().map(|numbers| &mut numbers[..]);
                twin::matrix_game_update(&params, &values, numbers);
            }
            for (buffer, expected) in buffers.iter().zip(&learnt) {
                let bound = Tolerance::exact().or_absolute(1e-5);
                assert_close(gpu.read(buffer).unwrap(), expected, bound);
            }
        }
    }
}
