//! Random programs, divided among the adapters and compared with the oracle that evaluates without
//! plans.
//!
//! Method: the programs are divided among the adapters, and on each adapter among threads with a
//! device each. Most of the time is spent compiling kernels, and a software driver compiles on one
//! thread per device.

use gpu_wgsl::check::{adapters_in_turn, every_adapter};
use gpu_wgsl::{Gpu, Select};
use std::panic::resume_unwind;
use std::thread;
use tensor_core::Executor;
use tensor_core::random_programs::{Tally, compare_on, is_full, seed};

/// Number of programs of a usual run, and of a run with `VERIFY_FULL=1`.
const CASES: [u32; 2] = [200, 20_000];
/// Minimum number of threads that share the programs, each with its own seed.
const SHARES: usize = 4;

#[test]
fn random_programs_give_what_their_nodes_say() {
    let adapters = every_adapter();
    let Some(first) = adapters.first() else {
        return;
    };
    let n_shares = u32::try_from(adapters.len().max(SHARES)).unwrap();
    let seed = seed();
    let compare = |(adapter, share): (&Gpu, u32)| {
        let gpu = Gpu::open(Select::Index(adapter.adapter().index)).unwrap();
        gpu.poison_allocations(true);
        // A failure report contains the driver and this seed. As the seed of the first share, it
        // reproduces the same programs if `VK_DRIVER_FILES` contains only this driver.
        let seed = seed.wrapping_add(share.into());
        let compared = compare_on(&gpu, CASES[usize::from(is_full())] / n_shares, seed);
        compared.unwrap_or_else(|report| panic!("{}: {report}", adapter.adapter().driver))
    };
    let tally: Tally = thread::scope(|scope| {
        let shares: Vec<_> = adapters_in_turn()
            .zip(0..n_shares)
            .map(|share| scope.spawn(move || compare(share)))
            .collect();
        let compared = shares
            .into_iter()
            .map(|share| share.join().unwrap_or_else(|panic| resume_unwind(panic)));
        compared.sum()
    });
    eprintln!("PROGRAM_SEED={seed}: {tally:?}");
    tally.assert_compared(first.accuracy());
}
