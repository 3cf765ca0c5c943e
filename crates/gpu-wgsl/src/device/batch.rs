//! Recording of dispatches, and their submission in batches.
//!
//! Method: a recorded run is plain data. It keeps the memory of its buffers alive, but does not
//! reserve the memory in the pool: if the caller drops a buffer, a later run may get memory that an
//! earlier run still reads. This is safe because runs execute in order. An upload into such memory
//! first submits the recorded runs. A flush puts the parameters of all runs into one uniform buffer
//! and the runs into one pass.
//!
//! ```text
//!  uniform buffer: | params of run 0 | pad | params of run 1 | pad | ...    aligned offsets
//! ```

use super::memory::BufferHandle;
use super::memory::create_buffer;
use super::timing::{self, Measurement};
use super::{AnyBuffer, Gpu, kernels::Pipeline, lock};
use crate::{Error, Result};
use shaders::Access;
use std::ops::Range;
use std::sync::Arc;
use std::thread::ThreadId;

/// Number of recorded runs at which a batch is submitted. Two timestamps for each run fit into
/// wgpu's limit of 4096 queries.
const MAX_RUNS: usize = 2048;

/// Recorded runs that wait for a flush.
#[derive(Debug, Default)]
pub(super) struct Batch {
    runs: Vec<Run>,
    /// Total number of operations of the runs.
    operations: f64,
    params_bytes: u64,
    /// The running measurement; `None` outside of a measurement.
    pub(super) measurement: Option<Measurement>,
}

/// A recorded dispatch.
#[derive(Debug)]
pub(super) struct Run {
    pipeline: Arc<Pipeline>,
    params: Vec<u8>,
    buffers: Vec<BufferHandle>,
    /// Bound byte ranges of the first buffers; the remaining buffers are bound whole.
    chunks: Vec<Range<u64>>,
    /// Number of operations; 0 if unknown.
    operations: f64,
    grid: [u32; 2],
    /// The thread that recorded the run.
    pub(super) thread: ThreadId,
    /// The number of the step to which the run belongs, if the run was recorded under a step number
    /// ([`Gpu::numbered`]).
    pub(super) number: Option<usize>,
}

impl Run {
    pub(super) fn new(
        pipeline: Arc<Pipeline>,
        params: Vec<u8>,
        buffers: &[&AnyBuffer],
        grid: [u32; 2],
    ) -> Self {
        let buffers = buffers.iter().map(|buffer| buffer.bound()).collect();
        Self {
            pipeline,
            params,
            buffers,
            chunks: Vec::new(),
            operations: 0.0,
            grid,
            thread: std::thread::current().id(),
            number: timing::current_number(),
        }
    }

    pub(super) fn on_ranges(self, chunks: &[Range<u64>]) -> Self {
        let chunks = chunks.to_vec();
        Self { chunks, ..self }
    }

    pub(super) fn of_operations(self, operations: f64) -> Self {
        Self { operations, ..self }
    }

    fn mark_outputs_stale(&self, why: &str) {
        for (buffer, (access, _)) in self.buffers.iter().zip(&self.pipeline.bindings) {
            if *access == Access::ReadWrite {
                buffer.mark_stale(why);
            }
        }
    }

    /// Returns the name of the kernel.
    pub(super) fn kernel(&self) -> &str {
        &self.pipeline.name
    }

    pub(super) fn encode(&self, pass: &mut wgpu::ComputePass<'_>, bind_group: &wgpu::BindGroup) {
        pass.set_pipeline(&self.pipeline.pipeline);
        pass.set_bind_group(0, bind_group, &[]);
        pass.dispatch_workgroups(self.grid[0], self.grid[1], 1);
    }
}

impl Gpu {
    /// Sends all recorded runs in one submission, without waiting.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Device`] for errors that the driver reported so far.
    pub fn flush(&self) -> Result<()> {
        let mut batch = lock(&self.shared.batch);
        self.flush_batch(&mut batch)
    }

    /// Sends all recorded runs and waits until they are finished.
    ///
    /// # Errors
    /// As [`Gpu::flush`].
    pub fn finish(&self) -> Result<()> {
        self.flush()?;
        self.wait("finish")
    }

    pub(super) fn record(&self, run: Run) -> Result<()> {
        let mut batch = lock(&self.shared.batch);
        // An output computed from a stale input is stale, too.
        if let Some(why) = run.buffers.iter().find_map(BufferHandle::staleness) {
            run.mark_outputs_stale(&why);
        }
        let limits = &self.adapter().limits;
        let alignment = limits.min_uniform_buffer_offset_alignment as usize;
        let params_bytes = run.params.len().next_multiple_of(alignment) as u64;
        if batch.params_bytes + params_bytes > limits.max_buffer_size {
            self.flush_batch(&mut batch)?;
        }
        batch.params_bytes += params_bytes;
        batch.operations += run.operations;
        batch.runs.push(run);
        if batch.runs.len() >= MAX_RUNS || batch.operations > self.limits().operations {
            self.flush_batch(&mut batch)
        } else {
            Ok(())
        }
    }

    /// Returns whether a recorded run uses this memory.
    pub(super) fn is_recorded(&self, memory: &wgpu::Buffer) -> bool {
        let batch = lock(&self.shared.batch);
        let mut used = batch.runs.iter().flat_map(|run| &run.buffers);
        used.any(|bound| bound.is_same_buffer(memory))
    }

    pub(super) fn flush_batch(&self, batch: &mut Batch) -> Result<()> {
        self.alive("flush")?;
        let runs = std::mem::take(&mut batch.runs);
        (batch.operations, batch.params_bytes) = (0.0, 0);
        let sent = self.send(&runs, batch.measurement.as_mut());
        if let Err(error) = &sent {
            // A failed submission runs nothing. The error may be returned to another thread, so the
            // outputs are marked as stale.
            runs.iter()
                .for_each(|run| run.mark_outputs_stale(&error.to_string()));
        }
        sent
    }

    fn send(&self, runs: &[Run], measurement: Option<&mut Measurement>) -> Result<()> {
        if !runs.is_empty() {
            let bind_groups = self.bind_groups(runs)?;
            match measurement {
                None => self.submit(runs, &bind_groups),
                Some(measurement) => self.submit_measured(measurement, runs, &bind_groups)?,
            }
        }
        self.sound("flush")
    }

    /// Creates the bind group of each run: its parameters, at an offset of one shared uniform
    /// buffer, then its storage buffers.
    fn bind_groups(&self, runs: &[Run]) -> Result<Vec<wgpu::BindGroup>> {
        let alignment = self.adapter().limits.min_uniform_buffer_offset_alignment as usize;
        let mut uniform = Vec::new();
        let mut offsets = Vec::with_capacity(runs.len());
        for run in runs {
            offsets.push(uniform.len() as u64);
            uniform.extend_from_slice(&run.params);
            uniform.resize(uniform.len().next_multiple_of(alignment), 0);
        }
        let failed = |fault: super::ResourceError| Error::Device {
            operation: "flush",
            message: fault.into_message(),
        };
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let params = self
            .scoped(|device| create_buffer(device, "params", uniform.len() as u64, usage))
            .map_err(failed)?;
        self.shared.queue.write_buffer(&params, 0, &uniform);
        self.scoped(|device| {
            runs.iter()
                .zip(offsets)
                .map(|(run, offset)| bind_group(device, run, &params, offset))
                .collect()
        })
        .map_err(failed)
    }

    pub(super) fn submit(&self, runs: &[Run], bind_groups: &[wgpu::BindGroup]) {
        let mut encoder = self.encoder();
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for (run, bind_group) in runs.iter().zip(bind_groups) {
            run.encode(&mut pass, bind_group);
        }
        drop(pass);
        self.shared.queue.submit([encoder.finish()]);
    }

    pub(super) fn encoder(&self) -> wgpu::CommandEncoder {
        self.shared
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }
}

fn bind_group(
    device: &wgpu::Device,
    run: &Run,
    params: &wgpu::Buffer,
    offset: u64,
) -> wgpu::BindGroup {
    let uniform = wgpu::BindGroupEntry {
        binding: 0,
        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: params,
            offset,
            size: std::num::NonZero::new(run.params.len() as u64),
        }),
    };
    let bound = run.buffers.iter().zip(&run.pipeline.bindings);
    // Buffers without a byte range are bound whole.
    let chunks = run.chunks.iter().map(Some).chain(std::iter::repeat(None));
    let storage =
        bound
            .zip(chunks)
            .zip(1..)
            .map(
                |(((buffer, (_, stride_bytes)), chunk), binding)| wgpu::BindGroupEntry {
                    binding,
                    resource: match chunk {
                        Some(chunk) => buffer.range(chunk),
                        None => buffer.whole(*stride_bytes),
                    },
                },
            );
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(&run.pipeline.name),
        layout: &run.pipeline.bind_group_layout,
        entries: &std::iter::once(uniform).chain(storage).collect::<Vec<_>>(),
    })
}
