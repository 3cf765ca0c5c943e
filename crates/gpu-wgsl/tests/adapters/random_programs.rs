//! Random programs on every adapter, against the oracle that knows no plans.
//!
//! Method: threads share the programs, each with a device of its own: what takes longest, building kernels, a driver that
//! computes on the CPU does on one thread a device.

use gpu_wgsl::check::every_adapter;
use gpu_wgsl::{Gpu, Select};
use std::panic::resume_unwind;
use std::thread;
use tensor_core::Executor;
use tensor_core::random_programs::{Tally, compare_on, is_full, seed};

/// Programs of a warm run, and of a full one.
const CASES: [u32; 2] = [300, 20_000];
/// Threads among which they are shared, each with a seed of its own.
const SHARES: u32 = 4;

#[test]
fn random_programs_give_what_their_nodes_say() {
    for gpu in every_adapter() {
        let seed = seed();
        let compare = &|share: u32| {
            let gpu = Gpu::open(Select::Index(gpu.adapter().index)).unwrap();
            gpu.mark_unwritten(true);
            // A report names this seed, which gives the same programs again as that of the first share.
            let seed = seed.wrapping_add(share.into());
            compare_on(&gpu, CASES[usize::from(is_full())] / SHARES, seed)
        };
        let tally: Tally = thread::scope(|scope| {
            let shares: Vec<_> = (0..SHARES)
                .map(|share| scope.spawn(move || compare(share)))
                .collect();
            let compared = shares.into_iter().map(|share| match share.join() {
                Ok(compared) => compared.unwrap_or_else(|report| panic!("{report}")),
                Err(panic) => resume_unwind(panic),
            });
            compared.sum()
        });
        eprintln!("PROGRAM_SEED={seed}: {tally:?}");
        tally.assert_compared(gpu.accuracy());
    }
}
