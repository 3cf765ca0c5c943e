//! The CPU executor: fused loops over lanes, on all cores.
//!
//! Role: runs plans on the host. `compile` turns a nest into a `program`: instructions on blocks of lanes, which run along
//! `lane_axes`. `machine` walks the loops, `step` runs an instruction, `fetch` brings elements into lanes, `lanes` and `loops`
//! hold the inner loops, `rows` folds several rows of lanes at a time and `pairs` every row against every lane. `product`
//! hands matrix products to the GEMM library, whole or in `ranges`. `split` deals work out to threads.
//! Method: an interpreter over blocks of about a thousand lanes, whose inner loops are plain Rust compiled for SSE, AVX2
//! and AVX-512 and chosen at run time. ARCHITECTURE.md tells why not machine code generated at run time.
//! Accuracy: the order of a sum depends on the step alone, so results have the same bits on any number of threads.

use std::sync::Arc;

use super::pool::Pool;
use super::reference::host_inputs;
use super::{Executor, HostStorage, MemoryUse, Storage};
use crate::dtype::HostData;
use crate::error::Result;
use crate::plan::{Step, Target};
use kernel::Kernels;

mod compile;
mod factor;
mod fetch;
mod kernel;
mod lane_axes;
mod lanes;
mod loops;
mod machine;
mod pairs;
mod prefetch;
mod product;
mod program;
mod ranges;
mod register;
mod rows;
mod split;
mod step;

/// The executor on the CPU of this machine, on the threads of rayon's current pool.
///
/// Clones share their memory and its counters, and the nests that are compiled. Memory of arrays that are no longer alive is used
/// again by those that are computed next: what the system has given may come to twice [`peak_bytes`](Host::peak_bytes), until
/// [`release_kept`](Host::release_kept).
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
    /// Makes an executor with counters of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes of arrays that it has computed and that are still alive.
    #[must_use]
    pub fn live_bytes(&self) -> usize {
        self.pool.usage().live_bytes
    }

    /// The most such bytes at one time, those of temporaries and of packed matrices included, since the last
    /// [`reset_peak`](Host::reset_peak).
    #[must_use]
    pub fn peak_bytes(&self) -> usize {
        self.pool.usage().peak_bytes
    }

    /// The bytes of arrays that are no longer alive and whose memory waits to be used again, never more than
    /// [`peak_bytes`](Host::peak_bytes).
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.pool.kept()
    }

    /// How many arrays, scratch memory included, did not find memory to use again.
    #[must_use]
    pub fn n_allocations(&self) -> u64 {
        self.pool.n_allocations()
    }

    /// Gives the memory that waits to be used again back to the system. What threads keep for their registers, a quarter of a
    /// megabyte each at most, stays.
    pub fn release_kept(&self) {
        self.pool.release_kept();
    }

    /// Lets the peak begin anew from what is alive now, and gives memory that waits back to the system.
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
            min_product: Some(1 << 12),
            computes_factors: false,
        }
    }

    fn shares_its_steps(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<MemoryUse> {
        Some(self.pool.usage())
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        HostStorage::of(storage).is_some()
    }

    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(HostStorage::foreign(data)))
    }

    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
        let data = host_inputs(inputs)?;
        let kernel = self.kernels.of(&step.nest, &data)?;
        Ok(Arc::new(kernel.run(&data, &self.pool)?))
    }
}
