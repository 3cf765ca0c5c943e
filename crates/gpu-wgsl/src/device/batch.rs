//! Records dispatches, sends them in one submission, and times them.
//!
//! Method: a recorded run is plain data and owns the buffers it uses, so nothing that it reads can be reused before
//! it has run. At a flush the parameters of all runs go into one uniform buffer and the runs into one pass.

use super::memory::create_buffer;
use super::{AnyBuffer, Gpu, kernels::Pipeline, lock};
use crate::adapter::{Adapter, Feature};
use crate::{Error, Result};
use shaders::Access;
use std::ops::Range;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Recorded runs after which a batch leaves by itself; two timestamps each fit wgpu's 4096 queries.
const MAX_RUNS: usize = 2048;

/// How a device's time is measured, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Timestamps between the dispatches of one pass.
    InPass,
    /// Timestamps around passes of one dispatch each.
    PerPass,
    /// The host's clock around submissions of one dispatch each, waiting included.
    WallClock,
}

impl Timer {
    /// Gives the best that the adapter has.
    pub(super) fn best(adapter: &Adapter) -> Self {
        let has = |timer: &Self| {
            timer
                .needs()
                .iter()
                .all(|feature| adapter.features.contains(feature))
        };
        [Self::InPass, Self::PerPass]
            .into_iter()
            .find(has)
            .unwrap_or(Self::WallClock)
    }

    fn needs(self) -> &'static [Feature] {
        match self {
            Self::InPass => &[Feature::Timestamps, Feature::TimestampsInPass],
            Self::PerPass => &[Feature::Timestamps],
            Self::WallClock => &[],
        }
    }
}

/// Time that one dispatch took on the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Name of the kernel.
    pub kernel: String,
    /// From its start to its end.
    pub elapsed: Duration,
}

/// Runs that wait for a flush.
#[derive(Debug, Default)]
pub(super) struct Batch {
    runs: Vec<Run>,
    /// Of those runs.
    operations: f64,
    /// The measurement that is under way.
    measurement: Option<Measurement>,
}

/// Timings of the runs that one thread recorded while it measures.
#[derive(Debug)]
struct Measurement {
    timer: Timer,
    thread: ThreadId,
    timings: Vec<Timing>,
}

/// One recorded dispatch.
#[derive(Debug)]
pub(super) struct Run {
    pipeline: Arc<Pipeline>,
    params: Vec<u8>,
    buffers: Vec<AnyBuffer>,
    /// Of the first buffers the bytes that are bound; the others are bound whole.
    stretches: Vec<Range<u64>>,
    /// As far as they are known.
    operations: f64,
    grid: [u32; 2],
    thread: ThreadId,
}

impl Run {
    pub(super) fn new(
        pipeline: Arc<Pipeline>,
        params: &[u8],
        buffers: &[&AnyBuffer],
        grid: [u32; 2],
    ) -> Self {
        let buffers = buffers.iter().map(|&buffer| buffer.clone()).collect();
        Self {
            pipeline,
            params: params.to_vec(),
            buffers,
            stretches: Vec::new(),
            operations: 0.0,
            grid,
            thread: std::thread::current().id(),
        }
    }

    pub(super) fn on_stretches(self, stretches: &[Range<u64>]) -> Self {
        let stretches = stretches.to_vec();
        Self { stretches, ..self }
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

    fn encode(&self, pass: &mut wgpu::ComputePass<'_>, bind_group: &wgpu::BindGroup) {
        pass.set_pipeline(&self.pipeline.pipeline);
        pass.set_bind_group(0, bind_group, &[]);
        pass.dispatch_workgroups(self.grid[0], self.grid[1], 1);
    }
}

impl Gpu {
    /// Sends everything recorded in one submission, without waiting for it.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Device`] for what the driver reported so far.
    pub fn flush(&self) -> Result<()> {
        let mut batch = lock(&self.shared.batch);
        self.flush_batch(&mut batch)
    }

    /// Sends everything recorded and waits until it has run.
    ///
    /// # Errors
    /// As [`Gpu::flush`].
    pub fn finish(&self) -> Result<()> {
        self.flush()?;
        self.wait("finish")
    }

    /// Measures on the device every dispatch that `work` records on this thread, in order, by the best timer there is.
    ///
    /// What was recorded before leaves first. One measurement runs at a time on a device.
    ///
    /// # Errors
    /// [`Error::Measuring`] while another measurement runs; whatever `work` returns; else as [`Gpu::flush`].
    pub fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<Vec<Timing>> {
        self.time_by(self.timer(), work)
    }

    /// Measures as [`Gpu::time`] does, by a timer of one's choice.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the device lacks that timer; else as [`Gpu::time`].
    pub fn time_by(&self, timer: Timer, work: impl FnOnce() -> Result<()>) -> Result<Vec<Timing>> {
        self.require("time", timer.needs())?;
        {
            let mut batch = lock(&self.shared.batch);
            if batch.measurement.is_some() {
                return Err(Error::Measuring);
            }
            self.flush_batch(&mut batch)?;
            let thread = std::thread::current().id();
            batch.measurement = Some(Measurement {
                timer,
                thread,
                timings: Vec::new(),
            });
        }
        // Ends the measurement also where `work` panics.
        let _end = EndMeasurement(self);
        work()?;
        let mut batch = lock(&self.shared.batch);
        self.flush_batch(&mut batch)?;
        Ok(batch
            .measurement
            .take()
            .map_or_else(Vec::new, |measurement| measurement.timings))
    }

    pub(super) fn record(&self, run: Run) -> Result<()> {
        let mut batch = lock(&self.shared.batch);
        batch.operations += run.operations;
        batch.runs.push(run);
        if batch.runs.len() >= MAX_RUNS || batch.operations > self.room().operations {
            self.flush_batch(&mut batch)
        } else {
            Ok(())
        }
    }

    pub(super) fn is_recorded(&self, buffer: &AnyBuffer) -> bool {
        let batch = lock(&self.shared.batch);
        batch
            .runs
            .iter()
            .any(|run| run.buffers.iter().any(|other| other.is(buffer)))
    }

    fn flush_batch(&self, batch: &mut Batch) -> Result<()> {
        self.alive("flush")?;
        let runs = std::mem::take(&mut batch.runs);
        batch.operations = 0.0;
        let sent = self.send(&runs, batch.measurement.as_mut());
        if let Err(error) = &sent {
            // A submission runs whole or not at all, and another thread may be the one that is told.
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
                Some(Measurement {
                    timer,
                    thread,
                    timings,
                }) => {
                    let elapsed = self.submit_timed(*timer, runs, &bind_groups)?;
                    let own = runs
                        .iter()
                        .zip(elapsed)
                        .filter(|(run, _)| run.thread == *thread);
                    timings.extend(own.map(|(run, elapsed)| Timing {
                        kernel: run.pipeline.name.clone(),
                        elapsed,
                    }));
                }
            }
        }
        self.sound("flush")
    }

    /// Binds every run: its parameters within one uniform buffer, then its storage buffers.
    fn bind_groups(&self, runs: &[Run]) -> Result<Vec<wgpu::BindGroup>> {
        let alignment = self.adapter().limits.min_uniform_buffer_offset_alignment as usize;
        let mut uniform = Vec::new();
        let mut offsets = Vec::with_capacity(runs.len());
        for run in runs {
            offsets.push(uniform.len() as u64);
            uniform.extend_from_slice(&run.params);
            uniform.resize(uniform.len().next_multiple_of(alignment), 0);
        }
        let refused = |fault: super::Fault| Error::Device {
            op: "flush",
            message: fault.into_message(),
        };
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let params = self
            .scoped(|device| create_buffer(device, "params", uniform.len() as u64, usage))
            .map_err(refused)?;
        self.shared.queue.write_buffer(&params, 0, &uniform);
        self.scoped(|device| {
            runs.iter()
                .zip(offsets)
                .map(|(run, offset)| bind_group(device, run, &params, offset))
                .collect()
        })
        .map_err(refused)
    }

    fn submit(&self, runs: &[Run], bind_groups: &[wgpu::BindGroup]) {
        let mut encoder = self.encoder();
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for (run, bind_group) in runs.iter().zip(bind_groups) {
            run.encode(&mut pass, bind_group);
        }
        drop(pass);
        self.shared.queue.submit([encoder.finish()]);
    }

    fn submit_timed(
        &self,
        timer: Timer,
        runs: &[Run],
        bind_groups: &[wgpu::BindGroup],
    ) -> Result<Vec<Duration>> {
        match timer {
            Timer::InPass => self.submit_stamped(runs, bind_groups, encode_in_pass),
            Timer::PerPass => self.submit_stamped(runs, bind_groups, encode_per_pass),
            Timer::WallClock => runs
                .iter()
                .zip(bind_groups)
                .map(|(run, bind_group)| {
                    let start = Instant::now();
                    self.submit(std::slice::from_ref(run), std::slice::from_ref(bind_group));
                    self.wait("time")?;
                    Ok(start.elapsed())
                })
                .collect(),
        }
    }

    /// Submits with two timestamps a run, written by `encode`, and gives their differences.
    fn submit_stamped(
        &self,
        runs: &[Run],
        bind_groups: &[wgpu::BindGroup],
        encode: fn(&mut wgpu::CommandEncoder, &wgpu::QuerySet, &[Run], &[wgpu::BindGroup]),
    ) -> Result<Vec<Duration>> {
        let count = stamp(runs.len(), 0);
        let bytes = u64::from(count) * u64::from(wgpu::QUERY_SIZE);
        let created = self.scoped(|device| {
            let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count,
            });
            let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
            (queries, create_buffer(device, "timestamps", bytes, usage))
        });
        let (queries, resolved) = created.map_err(|fault| Error::Device {
            op: "time",
            message: fault.into_message(),
        })?;
        let mut encoder = self.encoder();
        encode(&mut encoder, &queries, runs, bind_groups);
        encoder.resolve_query_set(&queries, 0..count, &resolved, 0);
        self.shared.queue.submit([encoder.finish()]);
        let mut ticks = vec![0_u64; count as usize];
        let read = self.read_bytes(&resolved, bytes, bytemuck::cast_slice_mut(&mut ticks));
        pollster::block_on(read)?;
        let tick_ns = f64::from(self.shared.queue.get_timestamp_period());
        let elapsed = |pair: &[u64]| {
            let n_ticks = pair[1].saturating_sub(pair[0]);
            Duration::from_secs_f64(n_ticks as f64 * tick_ns * 1e-9)
        };
        Ok(ticks.chunks_exact(2).map(elapsed).collect())
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.shared
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }
}

/// Ends a measurement when it goes out of scope; what was recorded under it runs unmeasured with the next flush.
struct EndMeasurement<'a>(&'a Gpu);

impl Drop for EndMeasurement<'_> {
    fn drop(&mut self) {
        lock(&self.0.shared.batch).measurement = None;
    }
}

/// Number of the timestamp before (0) or after (1) a run.
fn stamp(run: usize, after: u32) -> u32 {
    2 * u32::try_from(run).expect("a batch leaves at MAX_RUNS") + after
}

fn encode_in_pass(
    encoder: &mut wgpu::CommandEncoder,
    queries: &wgpu::QuerySet,
    runs: &[Run],
    bind_groups: &[wgpu::BindGroup],
) {
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    for (place, (run, bind_group)) in runs.iter().zip(bind_groups).enumerate() {
        pass.write_timestamp(queries, stamp(place, 0));
        run.encode(&mut pass, bind_group);
        pass.write_timestamp(queries, stamp(place, 1));
    }
}

fn encode_per_pass(
    encoder: &mut wgpu::CommandEncoder,
    queries: &wgpu::QuerySet,
    runs: &[Run],
    bind_groups: &[wgpu::BindGroup],
) {
    for (place, (run, bind_group)) in runs.iter().zip(bind_groups).enumerate() {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: Some(&run.pipeline.name),
            timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                query_set: queries,
                beginning_of_pass_write_index: Some(stamp(place, 0)),
                end_of_pass_write_index: Some(stamp(place, 1)),
            }),
        });
        run.encode(&mut pass, bind_group);
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
    let stretches = run
        .stretches
        .iter()
        .map(Some)
        .chain(std::iter::repeat(None));
    let storage =
        bound
            .zip(stretches)
            .zip(1..)
            .map(
                |(((buffer, (_, stride_bytes)), stretch), binding)| wgpu::BindGroupEntry {
                    binding,
                    resource: match stretch {
                        Some(stretch) => buffer.stretch(stretch),
                        None => buffer.binding(*stride_bytes),
                    },
                },
            );
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(&run.pipeline.name),
        layout: &run.pipeline.bind_group_layout,
        entries: &std::iter::once(uniform).chain(storage).collect::<Vec<_>>(),
    })
}
