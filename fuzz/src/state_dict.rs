//! Files of float networks: any bytes are parameters of a layer or an error.
//!
//! Method: the first byte chooses the window, the second whether a normalization is read, the rest
//! is the file. The number of weights of a layer must be a multiple of the size of its window times
//! the number of its outputs.

use quant::{StateDict, Window};

use crate::temporary::Temporary;

/// Sizes of windows.
const SIZES: [[usize; 2]; 8] = [
    [1, 1],
    [1, 3],
    [3, 3],
    [2, 1],
    [0, 0],
    [0, 1],
    [usize::MAX, 2],
    [1 << 32, 1 << 32],
];

/// Checks the reader of float networks.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let &[size, norm, ref file @ ..] = bytes else {
        return;
    };
    let size = SIZES[usize::from(size) % SIZES.len()];
    let place = Temporary::file("state.safetensors", file);
    let mut states = match StateDict::open(place.path()) {
        Ok(states) => states.with_epsilon(f32::from(norm / 2)),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let norm = (norm % 2 == 1).then_some("bn");
    match states.layer("conv", norm, Window::new(size)) {
        Ok(layer) => {
            let weights = layer.weights.values().expect("float weights have values");
            let n_taps: usize = size.iter().product();
            assert!(
                weights
                    .len()
                    .is_multiple_of((n_taps * layer.n_outputs).max(1))
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
