//! Generated kernels: compilation, and runs on buffers whose types and lengths the caller
//! guarantees.

use std::ops::Range;
use std::sync::Arc;

use super::{AnyBuffer, Gpu, batch, kernels::Pipeline};
use crate::{Error, Result};

/// A compiled kernel. The caller caches it.
#[derive(Debug)]
pub(crate) struct Generated {
    name: String,
    pipeline: Arc<Pipeline>,
}

impl Gpu {
    /// Compiles the WGSL text whose entry point is `name`.
    ///
    /// # Errors
    /// [`Error::Shader`] with the compiler's message and the source line; [`Error::TooLarge`]
    /// beyond a limit of the device.
    pub(crate) fn generated(&self, name: &str, source: &str) -> Result<Generated> {
        self.alive("compile")?;
        let kernel = shaders::reflect(name, source).map_err(|message| Error::Shader {
            kernel: name.to_owned(),
            message,
        })?;
        self.check_limits(&kernel)?;
        Ok(Generated {
            name: name.to_owned(),
            pipeline: self.compiled(&kernel)?,
        })
    }

    /// Records a run of `n_workgroups` workgroups. `chunks` are the bound byte ranges of the first
    /// buffers; the remaining buffers are bound whole. `operations` is the number of operations of
    /// the run; the batch is submitted once the total of its runs exceeds
    /// [`KernelLimits::operations`](crate::limits::KernelLimits::operations).
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the grid exceeds the device's limit; [`Error::ForeignBuffer`];
    /// [`Error::Lost`].
    pub(crate) fn run_generated(
        &self,
        kernel: &Generated,
        params: Vec<u8>,
        buffers: &[&AnyBuffer],
        chunks: Option<&[Range<u64>]>,
        n_workgroups: u64,
        operations: f64,
    ) -> Result<()> {
        self.alive("dispatch")?;
        for buffer in buffers {
            self.check_owner("dispatch", buffer)?;
        }
        let limit = self.adapter().limits.max_compute_workgroups_per_dimension;
        let grid = crate::linear_grid(&kernel.name, &[n_workgroups], n_workgroups, limit)?;
        let run = batch::Run::new(Arc::clone(&kernel.pipeline), params, buffers, grid);
        let run = match chunks {
            Some(chunks) => run.on_ranges(chunks),
            None => run,
        };
        self.record(run.of_operations(operations))
    }
}
