//! Kernels whose text is written for a program: compiled once, run on buffers that their writer answers for.

use std::ops::Range;
use std::sync::Arc;

use super::{AnyBuffer, Gpu, batch, kernels::Pipeline};
use crate::{Error, Result};

/// A kernel that is ready to run; whoever wrote it keeps it.
#[derive(Debug)]
pub(crate) struct Generated {
    name: String,
    pipeline: Arc<Pipeline>,
}

impl Gpu {
    /// Compiles the text whose entry point is `name`.
    ///
    /// # Errors
    /// [`Error::Shader`] with the compiler's words and the line; [`Error::TooLarge`] beyond a limit of the device.
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

    /// Records a run of so many workgroups, on the bytes given of the first buffers, and the rest whole.
    /// After `operations` beyond what a watchdog bears, what is recorded leaves.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more workgroups than the device's grid has; [`Error::ForeignBuffer`]; [`Error::Lost`].
    pub(crate) fn run_generated(
        &self,
        kernel: &Generated,
        params: Vec<u8>,
        buffers: &[&AnyBuffer],
        stretches: Option<&[Range<u64>]>,
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
        let run = match stretches {
            Some(stretches) => run.on_stretches(stretches),
            None => run,
        };
        self.record(run.of_operations(operations))
    }
}
