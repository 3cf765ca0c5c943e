//! Random programs on every adapter, compared with the oracle that evaluates without plans.
//!
//! Method: the programs are divided among threads, each with its own device. Most of the time is
//! spent compiling kernels, and a software driver compiles on one thread per device.

use gpu_wgsl::check::every_adapter;
use gpu_wgsl::{Gpu, Select};
use std::panic::resume_unwind;
use std::thread;
use tensor_core::Executor;
use tensor_core::random_programs::{Tally, compare_on, is_full, seed};

/// Number of programs of a usual run, and of a run with `VERIFY_FULL=1`.
const CASES: [u32; 2] = [300, 20_000];
/// Number of threads that share the programs, each with its own seed.
const SHARES: u32 = 4;

#[test]
fn random_programs_give_what_their_nodes_say() {
    for gpu in every_adapter() {
        let seed = seed();
        let compare = &|share: u32| {
            let gpu = Gpu::open(Select::Index(gpu.adapter().index)).unwrap();
            gpu.poison_allocations(true);
            // A failure report contains this seed. As the seed of the first share, it reproduces
            // the same programs.
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
