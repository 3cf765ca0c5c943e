//! Shared helpers of the tests: the reference data, and games with random gains.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]
#![allow(
    dead_code,
    reason = "every test program has its own copy, and uses a part of it"
)]

use games::MatrixGame;
use games::ndarray::{Array3, Axis};
use serde_json::Value;
use tensor_core::rng::Philox;

/// Reads `testdata/games-reference.json`.
pub(crate) fn reference() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/games-reference.json");
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns random payoffs `[games, rows, cols]` between -1 and 1.
pub(crate) fn random_gains(shape: [usize; 3], key: u64) -> Array3<f64> {
    let mut uniform = vec![0.0; shape.iter().product()];
    Philox::new(key).fill_uniform_f64(0, &mut uniform);
    Array3::from_shape_vec(shape, uniform)
        .unwrap()
        .mapv(|u| 2.0 * u - 1.0)
}

/// Returns a single game of [`random_gains`].
pub(crate) fn random_game([rows, cols]: [usize; 2], key: u64) -> MatrixGame {
    let gains = random_gains([1, rows, cols], key);
    MatrixGame::zero_sum(gains.index_axis_move(Axis(0), 0)).unwrap()
}

pub(crate) mod fractions;
