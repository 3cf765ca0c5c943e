//! Random programs on every adapter, against the oracle that knows no plans.

use gpu_wgsl::check::every_adapter;
use tensor_core::Executor;
use tensor_core::random_programs::{compare_on, is_full, seed};

/// Programs of a warm run, and of a full one.
const CASES: [u32; 2] = [500, 20_000];

#[test]
fn random_programs_give_what_their_nodes_say() {
    for gpu in every_adapter() {
        let seed = seed();
        match compare_on(gpu, CASES[usize::from(is_full())], seed) {
            Ok(tally) => {
                eprintln!("PROGRAM_SEED={seed}: {tally:?}");
                tally.assert_compared(gpu.accuracy());
            }
            Err(report) => panic!("{report}"),
        }
    }
}
