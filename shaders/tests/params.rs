//! Sizes and numbers of loop iterations that follow from parameters.

use shaders::Params;
use shaders::params::{
    ExtensiveGamesParams, MatmulParams, MatrixGamesParams, PackedConvParams, PhiloxFillParams,
};

#[test]
fn sizes_beyond_64_bits_saturate() {
    let games = MatrixGamesParams {
        games: u32::MAX,
        rows: u32::MAX,
        cols: u32::MAX,
        done: u32::MAX,
        iterations: u32::MAX,
        alternating: u32::MAX,
        ..MatrixGamesParams::default()
    };
    assert_eq!(games.buffer_lens()[1..], [u64::MAX; 3]);
    assert!(games.loop_iterations() > 1 << 63);
    let extensive = ExtensiveGamesParams {
        games: u32::MAX,
        first_sequences: u32::MAX,
        sequences: u32::MAX,
        decisions: u32::MAX,
        depths: u32::MAX,
        pairs: u32::MAX,
        done: u32::MAX,
        iterations: u32::MAX,
        alternating: u32::MAX,
        ..ExtensiveGamesParams::default()
    };
    assert_eq!(extensive.buffer_lens()[6], u64::MAX);
    assert_eq!(extensive.loop_iterations(), u64::MAX);
}

#[test]
fn each_execution_of_a_loop_counts_one_iteration_more() {
    // Ten rounds.
    assert_eq!(PhiloxFillParams::new(0, 0, 1).loop_iterations(), 11);
    // Three tiles: three passes, each with a loop over 16 terms, and the end of the outer loop.
    let product = MatmulParams::new(1, 33, 1);
    assert_eq!(product.loop_iterations(), 3 + 3 * 17 + 1);
    // Five iterations with a loop over two turns, and the loops over the actions.
    let games = MatrixGamesParams {
        rows: 2,
        cols: 3,
        iterations: 5,
        alternating: 1,
        ..MatrixGamesParams::default()
    };
    assert_eq!(games.loop_iterations(), 5 * (1 + 3) + 1 + 2 * (3 + 4));
    let sums = PackedConvParams {
        kernel: [2, 3],
        words: 4,
        planes: 2,
        weight_planes: 1,
        ..PackedConvParams::default()
    };
    // A pair: its pass, the loop over 6 taps, and 6 loops over 4 words. The ends of the loops over
    // pairs, windows, codes and thresholds follow.
    let pairs = 2 * (1 + 7 + 6 * 5);
    let ends = 2 + 1 + 1 + 2;
    assert_eq!(sums.loop_iterations(), pairs + ends);
}
