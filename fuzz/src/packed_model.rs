//! Files of frozen networks: any bytes are a network or an error.
//!
//! Method: the first byte chooses the pixels of an image, the rest is the file. A file that only
//! has a wrong checksum gets the right one, which the error names, so that the engine can change
//! the other parts of a file. A network must be equal after it is written and read again, and the
//! layers of a small image must have the values that the oracle of random programs computes.

use quant::FrozenNetwork;
use tensor_core::random_programs::check_program;
use tensor_core::{Executor as _, Host};

use crate::checksum;
use crate::temporary::Temporary;

/// Maximum number of elements of the image, and of sums of all layers, of a network that is run.
const MAX_ELEMENTS: usize = 1 << 10;

/// Checks the reader, the writer and the programs of frozen networks.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let Some((&choice, file)) = bytes.split_first() else {
        return;
    };
    let Some(network) = network(file) else {
        return;
    };
    let place = Temporary::file("model.safetensors", b"");
    network
        .write(place.path())
        .expect("a network that was read can be written");
    let again = FrozenNetwork::read(place.path()).expect("a written network can be read");
    // Formatted, because a NaN is not equal to itself.
    assert_eq!(format!("{again:?}"), format!("{network:?}"));
    check_output(&network, choice);
}

/// Reads a network, after the checksum is corrected if this is the only fault.
fn network(file: &[u8]) -> Option<FrozenNetwork> {
    let error = match FrozenNetwork::from_bytes(file) {
        Ok(network) => return Some(network),
        Err(error) => error,
    };
    assert!(!error.to_string().is_empty());
    FrozenNetwork::from_bytes(&checksum::corrected(file, &error)?).ok()
}

fn check_output(network: &FrozenNetwork, choice: u8) {
    let n_elements: usize = network.input_size().iter().product();
    if n_elements > MAX_ELEMENTS {
        return;
    }
    let pixels: Vec<u8> = (0..n_elements)
        .map(|at| choice.wrapping_mul(at.to_le_bytes()[0]))
        .collect();
    let Ok(program) = network
        .codes(&pixels)
        .and_then(|codes| network.layers_of(&codes))
    else {
        return;
    };
    let lens = program
        .iter()
        .map(|layer| layer.shape().map_or(0, |shape| shape.iter().product()));
    if lens.sum::<usize>() > MAX_ELEMENTS {
        return;
    }
    let checked = check_program(&Host::new(), &program, &Host::new().target());
    checked.expect("the program of a network has the values of its nodes");
}
