//! The CPU executor: fused loops over SIMD lanes, on all cores.
//!
//! Role: runs plans on the host. `compile` translates a nest into a `program`: instructions on
//! blocks of lanes, which run along `lane_axes`. `machine` contains the registers and the current
//! point of the loops, `blocks` walks over the output, `step` runs an instruction, `fetch` loads
//! elements into lanes, and `lanes`, `loops` and `functions` contain the inner loops.
//! `crate::level` selects the vector instructions of all loops. `product` hands large matrix
//! products to the GEMM library, and computes other reductions over pairs of elements in `tiles`.
//! `moves` runs the nests that only move elements, `scan` those with a running fold, and `sort`
//! those that sort. `rows` runs nests that are one chain of operations on rows, alone or several of
//! a band together. `chain` defines the form of a chain, and `chain_loops` contains the loops over
//! chains. `split` splits the work over threads, and `band` runs several steps on a few rows at a
//! time.
//! Method: an interpreter over blocks of about a thousand lanes. Its inner loops are plain Rust
//! compiled for SSE, AVX2 and AVX-512 and selected at run time. Machine code from Cranelift was
//! tried on two workloads and rejected: its vectors have at most 128 bits, it lacks `exp`, `ln` and
//! `sin`, and adds 38 crates with raw pointers. Times on one thread of an AMD EPYC (Zen 5), from a
//! program that was not kept:
//!
//! | | similarity sum 256×2000 | chain over 4096² |
//! |---|---|---|
//! | lanes, one instruction per operation | 99 ms | 8.0 ms |
//! | lanes, instructions of two operations (`abs(a - b)`, `a * b + c`) | 60 ms | 6.0 ms |
//! | Cranelift, 128-bit SIMD, unrolled | 100 ms | 20.8 ms |
//! | Rust loops by hand, AVX-512 / SSE2 | 38 / 118 ms | 4.9 / 20 ms |
//!
//! Instructions that prefetch the next block were removed: on one thread of an AMD EPYC (Zen 4),
//! `exp` over 4096² took 6.8 ms with them and takes 5.2 ms without, and the sum of `2 e` 3.9 and
//! 2.8 ms. The CPU's own prefetchers follow the blocks. Only plain sums on two threads were slower
//! without (1.8 and 2.2 ms).
//!
//! On two threads of an AMD EPYC (Zen 4), the benchmark `chain` over 4096² takes 4.1 ms with the
//! chains of the module `chain`. It took 5.6 ms with instructions of two operations.
//!
//! An interpreter cannot keep an accumulator for each output element in CPU registers. The most
//! common nests that need such accumulators are reductions over pairs of elements of two inputs:
//! products, convolutions, distances. These run in `tiles`.
//! Accuracy: the order of a sum depends on the step alone, so results have the same bits on any
//! number of threads.

use std::sync::Arc;

use super::reference::host_inputs;
use super::{Executor, HostStorage, MemoryUse, Storage};
use crate::dtype::HostData;
use crate::error::Result;
use crate::level::Level;
use crate::plan::{Band, Plan, Step, Target};
use crate::storage::Pool;
use kernel::Kernels;

mod around_fold;
mod band;
mod bits;
mod blocks;
mod chain;
mod chain_loops;
mod compile;
mod factor;
mod fetch;
mod functions;
mod kernel;
mod lane_axes;
mod lanes;
mod loops;
mod machine;
mod moves;
mod product;
mod program;
mod register;
mod rows;
mod scan;
mod scatter;
mod sort;
mod split;
mod step;
mod tiles;
mod vector;

/// The executor on the CPU of this machine, on as many threads as rayon's current pool has.
///
/// Clones share their memory, its counters, and the cache of compiled nests. Memory of dropped
/// arrays is reused for later arrays. The memory taken from the system may therefore reach twice
/// [`peak_bytes`](Host::peak_bytes) until [`clear_cache`](Host::clear_cache) is called.
///
/// # Examples
/// ```
/// use tensor_core::{Host, Tensor};
/// let host = Host::new();
/// let x = Tensor::from_vec(&[1000, 8], vec![0.5_f32; 8000]);
/// // The shape (1000, 8, 8) of the differences is never in memory.
/// let near = (x.expand_dims(2) - x.expand_dims(1)).abs().lt(1.0).sum(0).realize(&host)?;
/// assert_eq!(host.live_bytes(), 4 * 64);
/// assert_eq!(host.peak_bytes(), 4 * 64);
/// assert_eq!(near.to_host::<u32>()?[[0, 7]], 1000);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Host {
    pool: Arc<Pool>,
    kernels: Arc<Kernels>,
}

impl Host {
    /// Creates an executor with its own memory, counters and cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes of the arrays that this executor computed and that are still in use.
    #[must_use]
    pub fn live_bytes(&self) -> usize {
        self.pool.usage().live_bytes
    }

    /// Returns the peak of the bytes in use, including temporaries and packed factors of tiles,
    /// since the last [`reset_peak`](Host::reset_peak). Not included is the memory of products in
    /// the GEMM library: its packed blocks, and copies of factors and results that it cannot read
    /// or write in place.
    #[must_use]
    pub fn peak_bytes(&self) -> usize {
        self.pool.usage().peak_bytes
    }

    /// Returns the bytes of dropped arrays whose memory is cached for reuse, at most
    /// [`peak_bytes`](Host::peak_bytes).
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.pool.kept()
    }

    /// Returns the number of allocations, scratch memory included, that were not served from cached
    /// memory.
    #[must_use]
    pub fn n_allocations(&self) -> u64 {
        self.pool.n_allocations()
    }

    /// Frees the cached memory. The scratch memory that each thread caches, at most a quarter of a
    /// megabyte per thread, stays allocated.
    pub fn clear_cache(&self) {
        self.pool.clear_cache();
    }

    /// Resets the peak to the bytes in use now, and frees the cached memory.
    pub fn reset_peak(&self) {
        self.pool.reset_peak();
    }
}

impl Executor for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn target(&self) -> Target {
        Target {
            max_values: 96,
            max_inputs: 24,
            min_product: (!Level::is_restricted()).then_some(1 << 12),
            computes_factors: false,
            stores_halves: false,
            merges_sums: true,
            min_band: Some(1 << 19),
        }
    }

    fn shares_its_steps(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<MemoryUse> {
        Some(self.pool.usage())
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        HostStorage::downcast(storage).is_some()
    }

    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(HostStorage::foreign(data)))
    }

    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
        let data = host_inputs(inputs)?;
        let lens = data.iter().map(|data| (data.dtype(), data.len()));
        let kernel = self.kernels.get(&step.nest, lens.collect())?;
        Ok(Arc::new(kernel.run(&data, &self.pool)?))
    }

    fn run_band(
        &self,
        plan: &Plan,
        band: &Band,
        inputs: &[Arc<dyn Storage>],
    ) -> Result<Option<Vec<Arc<dyn Storage>>>> {
        let data = host_inputs(inputs)?;
        let outputs = band::run((&self.kernels, &self.pool), plan, band, &data)?;
        let shared = |array| Arc::new(array) as Arc<dyn Storage>;
        Ok(outputs.map(|outputs| outputs.into_iter().map(shared).collect()))
    }
}
