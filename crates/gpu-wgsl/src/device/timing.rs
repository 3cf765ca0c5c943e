//! Measurement of the time that recorded work takes on the device.
//!
//! Method: during a measurement, submissions write two timestamps per run, which are read
//! immediately. A device counts in ticks of its own clock. To convert to the host's clock, a device
//! timestamp is taken between two readings of the host's clock, three times; the attempt with the
//! shortest interval is used. Its error is at most the round-trip time. The clocks drift apart, so
//! the conversion is repeated for each measurement.

use super::batch::Run;
use super::memory::create_buffer;
use super::{Gpu, lock};
use crate::adapter::{Adapter, Feature};
use crate::{Error, Result};
use std::cell::Cell;
use std::thread::ThreadId;
use std::time::Duration;
use web_time::Instant;

/// A method of measuring device time. The variants are ordered from the best method to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Timestamps between the dispatches of one pass.
    InPass,
    /// Timestamps around passes of one dispatch each.
    PerPass,
    /// The host's clock around submissions of one dispatch each, including the wait.
    WallClock,
}

impl Timer {
    /// Returns the best method that the adapter supports.
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

/// Time of one dispatch on the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Name of the kernel.
    pub kernel: String,
    /// Time from the start to the end of the run.
    pub elapsed: Duration,
}

/// The runs that a measurement includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Runs recorded by this thread.
    Thread(ThreadId),
    /// Runs that have a step number.
    Numbered,
}

/// A running measurement.
#[derive(Debug)]
pub(super) struct Measurement {
    timer: Timer,
    owner: Owner,
    laps: Vec<Lap>,
}

/// A measured run.
#[derive(Debug)]
struct Lap {
    kernel: String,
    number: Option<usize>,
    times: Times,
}

/// Start and end of a run.
#[derive(Clone, Copy, Debug)]
enum Times {
    /// Readings of the device's clock.
    Device(Ticks<[u64; 2]>),
    Host([Instant; 2]),
}

/// Readings of the device's clock, in ticks. They remain integers, because a clock that has run for
/// days has more ticks than an `f64` represents exactly.
#[derive(Clone, Copy, Debug)]
struct Ticks<T> {
    ticks: T,
    tick_ns: f64,
}

impl<T> Ticks<T> {
    /// Returns the duration of a number of ticks.
    fn duration(&self, n_ticks: u64) -> Duration {
        Duration::from_secs_f64(n_ticks as f64 * self.tick_ns * 1e-9)
    }
}

impl Times {
    fn elapsed(self) -> Duration {
        match self {
            Self::Device(clock) => {
                let [start, end] = clock.ticks;
                clock.duration(end.saturating_sub(start))
            }
            Self::Host([start, end]) => end - start,
        }
    }
}

/// An instant, as read on the device's clock and on the host's clock.
#[derive(Clone, Copy, Debug)]
struct Moment {
    device_ticks: u64,
    host: Instant,
}

impl Moment {
    fn on_host(self, times: Times) -> [Instant; 2] {
        match times {
            Times::Host(times) => times,
            Times::Device(clock) => clock.ticks.map(|ticks| {
                let apart = clock.duration(ticks.abs_diff(self.device_ticks));
                if ticks < self.device_ticks {
                    self.host.checked_sub(apart).unwrap_or(self.host)
                } else {
                    self.host + apart
                }
            }),
        }
    }
}

thread_local! {
    /// The step number that runs recorded by this thread get.
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the step number that runs recorded by this thread get, if there is one.
pub(super) fn current_number() -> Option<usize> {
    NUMBER.get()
}

/// A guard that ends a measurement when it is dropped. Runs that are recorded but not submitted at
/// this time execute with the next flush and are not measured.
#[derive(Debug)]
pub(crate) struct Measuring<'g>(&'g Gpu);

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        lock(&self.0.shared.batch).measurement = None;
    }
}

impl Gpu {
    /// Measures every dispatch that `work` records on this thread, in order, with the best
    /// available method.
    ///
    /// Work recorded earlier is submitted first. A device runs only one measurement at a time.
    ///
    /// # Errors
    /// [`Error::Measuring`] if another measurement is running; errors from `work`; otherwise as
    /// [`Gpu::flush`].
    pub fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<Vec<Timing>> {
        self.time_by(self.timer(), work)
    }

    /// Measures like [`Gpu::time`], with the given method.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the device does not support the method; otherwise as
    /// [`Gpu::time`].
    pub fn time_by(&self, timer: Timer, work: impl FnOnce() -> Result<()>) -> Result<Vec<Timing>> {
        self.require("time", timer.needs())?;
        let owner = Owner::Thread(std::thread::current().id());
        // The guard ends the measurement even if `work` panics.
        let measuring = self.measure(timer, owner)?;
        work()?;
        let laps = measuring.laps()?.into_iter();
        let timing = |lap: Lap| Timing {
            elapsed: lap.times.elapsed(),
            kernel: lap.kernel,
        };
        Ok(laps.map(timing).collect())
    }

    /// Starts to measure all runs that have a step number, until the returned guard is dropped.
    pub(crate) fn measure_numbered(&self) -> Result<Measuring<'_>> {
        self.measure(self.timer(), Owner::Numbered)
    }

    /// Calls `work`; runs that this thread records meanwhile get the step number `number`.
    pub(crate) fn numbered<T>(number: usize, work: impl FnOnce() -> T) -> T {
        let before = NUMBER.replace(Some(number));
        let result = work();
        NUMBER.set(before);
        result
    }

    fn measure(&self, timer: Timer, owner: Owner) -> Result<Measuring<'_>> {
        let mut batch = lock(&self.shared.batch);
        if batch.measurement.is_some() {
            return Err(Error::Measuring);
        }
        self.flush_batch(&mut batch)?;
        batch.measurement = Some(Measurement {
            timer,
            owner,
            laps: Vec::new(),
        });
        Ok(Measuring(self))
    }

    /// Reads the device's clock and the host's clock three times, and returns the reading with the
    /// shortest round trip.
    fn moment(&self) -> Result<Moment> {
        const TRIES: usize = 3;
        let mut best: Option<(Duration, Moment)> = None;
        for _ in 0..TRIES {
            let before = Instant::now();
            let stamps = self.stamps(1, |encoder, queries| {
                // An empty pass with a timestamp.
                drop(stamped_pass(encoder, queries, None, 0));
            })?;
            let took = before.elapsed();
            if best.is_none_or(|(least, _)| took < least) {
                let moment = Moment {
                    device_ticks: stamps.ticks[0],
                    host: before + took / 2,
                };
                best = Some((took, moment));
            }
        }
        best.map(|(_, moment)| moment).ok_or(Error::Measuring)
    }

    /// Submits runs, and adds the times of those that belong to the measurement's owner.
    pub(super) fn submit_measured(
        &self,
        measurement: &mut Measurement,
        runs: &[Run],
        bind_groups: &[wgpu::BindGroup],
    ) -> Result<()> {
        let times = self.submit_timed(measurement.timer, runs, bind_groups)?;
        let is_own = |run: &Run| match measurement.owner {
            Owner::Thread(thread) => run.thread == thread,
            Owner::Numbered => run.number.is_some(),
        };
        let own = runs.iter().zip(times).filter(|(run, _)| is_own(run));
        measurement.laps.extend(own.map(|(run, times)| Lap {
            kernel: run.kernel().to_owned(),
            number: run.number,
            times,
        }));
        Ok(())
    }

    fn submit_timed(
        &self,
        timer: Timer,
        runs: &[Run],
        bind_groups: &[wgpu::BindGroup],
    ) -> Result<Vec<Times>> {
        let n_runs = runs.len();
        // `stamps` has two entries per run: start and end.
        let stamps = match timer {
            Timer::InPass => self.stamps(n_runs, |encoder, queries| {
                encode_in_pass(encoder, queries, runs, bind_groups);
            })?,
            Timer::PerPass => self.stamps(n_runs, |encoder, queries| {
                encode_per_pass(encoder, queries, runs, bind_groups);
            })?,
            Timer::WallClock => {
                let timed = runs.iter().zip(bind_groups).map(|(run, bind_group)| {
                    let start = Instant::now();
                    self.submit(std::slice::from_ref(run), std::slice::from_ref(bind_group));
                    self.wait("time")?;
                    Ok(Times::Host([start, Instant::now()]))
                });
                return timed.collect();
            }
        };
        let pairs = stamps.ticks.chunks_exact(2);
        let times = pairs.map(|pair| {
            Times::Device(Ticks {
                ticks: [pair[0], pair[1]],
                tick_ns: stamps.tick_ns,
            })
        });
        Ok(times.collect())
    }

    /// Submits the encoded work with two timestamps for each of `n_runs` runs, and returns the
    /// timestamps.
    fn stamps(
        &self,
        n_runs: usize,
        encode: impl FnOnce(&mut wgpu::CommandEncoder, &wgpu::QuerySet),
    ) -> Result<Ticks<Vec<u64>>> {
        let count = stamp(n_runs, 0);
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
            operation: "time",
            message: fault.into_message(),
        })?;
        let mut encoder = self.encoder();
        encode(&mut encoder, &queries);
        encoder.resolve_query_set(&queries, 0..count, &resolved, 0);
        self.shared.queue.submit([encoder.finish()]);
        let mut ticks = vec![0_u64; count as usize];
        let read = self.read_bytes(&resolved, bytes, bytemuck::cast_slice_mut(&mut ticks));
        pollster::block_on(read)?;
        let tick_ns = f64::from(self.shared.queue.get_timestamp_period());
        Ok(Ticks { ticks, tick_ns })
    }
}

impl Measuring<'_> {
    /// Submits recorded work, waits for it, and returns the measurements so far.
    fn laps(&self) -> Result<Vec<Lap>> {
        let mut batch = lock(&self.0.shared.batch);
        self.0.flush_batch(&mut batch)?;
        let measurement = batch.measurement.as_mut();
        Ok(measurement.map_or_else(Vec::new, |measurement| {
            std::mem::take(&mut measurement.laps)
        }))
    }

    /// Returns the measurements so far, by step number, as instants of the host's clock. Runs of
    /// the same number are merged, from the first start to the last end.
    pub(crate) fn finish(&self) -> Result<Vec<(usize, [Instant; 2])>> {
        let laps = self.laps()?;
        let Some(first) = laps.first() else {
            return Ok(Vec::new());
        };
        let moment = match first.times {
            Times::Device(_) => self.0.moment()?,
            Times::Host([host, _]) => Moment {
                device_ticks: 0,
                host,
            },
        };
        let mut times: Vec<(usize, [Instant; 2])> = Vec::new();
        for lap in &laps {
            let (Some(number), [start, end]) = (lap.number, moment.on_host(lap.times)) else {
                continue;
            };
            match times.iter_mut().rfind(|(known, _)| *known == number) {
                Some((_, known)) => *known = [known[0].min(start), known[1].max(end)],
                None => times.push((number, [start, end])),
            }
        }
        Ok(times)
    }
}

/// Returns the index of the timestamp before (`after` = 0) or after (1) a run.
fn stamp(run: usize, after: u32) -> u32 {
    2 * u32::try_from(run).expect("a batch has at most MAX_RUNS runs") + after
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
        let mut pass = stamped_pass(encoder, queries, Some(run.kernel()), place);
        run.encode(&mut pass, bind_group);
    }
}

/// Begins a pass with a timestamp at its beginning and at its end.
fn stamped_pass<'e>(
    encoder: &'e mut wgpu::CommandEncoder,
    queries: &wgpu::QuerySet,
    label: Option<&str>,
    place: usize,
) -> wgpu::ComputePass<'e> {
    encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label,
        timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
            query_set: queries,
            beginning_of_pass_write_index: Some(stamp(place, 0)),
            end_of_pass_write_index: Some(stamp(place, 1)),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_has_run_for_months_measures_single_ticks() {
        let start = (1 << 60) + 1;
        let times = |end| {
            Times::Device(Ticks {
                ticks: [start, end],
                tick_ns: 8.0,
            })
        };
        assert_eq!(times(start + 3).elapsed(), Duration::from_nanos(24));
        assert_eq!(times(start - 1).elapsed(), Duration::ZERO);
        let moment = Moment {
            device_ticks: start + 1,
            host: Instant::now(),
        };
        let [begin, end] = moment.on_host(times(start + 3));
        assert_eq!(end - begin, Duration::from_nanos(24));
    }
}
