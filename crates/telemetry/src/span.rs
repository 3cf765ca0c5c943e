//! Spans: time and energy of a region of code.
//!
//! Method: all devices are read before the region begins and after it ends, in addition to the
//! rounds of the sampler, and the region is marked in the trace. Work that is only queued on a GPU
//! is part of the region only if the region waits for the GPU. For this purpose a span accepts a
//! function that waits; the span calls the function before both readings.
//! Accuracy: as for [`Trace::energy`]. The first update of a sensor after the end of a region
//! narrows the error interval. The interval computed from the final trace is therefore usually
//! narrower than the interval returned at the end of the span.

use crate::energy::{Energy, Interval, TotalEnergy};
use crate::sampler::{Running, Sampler};
use crate::trace::{Region, Trace};
use crate::{Device, Failure, Result, local};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The time for which sampling should continue after the work, as in [`measure`]: two updates of
/// the slowest sensors.
pub const POST_ROLL: Duration = Duration::from_millis(200);
/// The sampling interval of [`measure`].
const INTERVAL: Duration = Duration::from_millis(20);

/// A running region of code, which ends with [`Self::end`] or when the value is dropped.
///
/// # Examples
/// ```
/// use telemetry::{Sampler, synthetic::{PowerProfile, Synthetic}};
///
/// let running = Sampler::new(Synthetic::from_power(PowerProfile::constant(50.0))?).start()?;
/// let epoch = running.span("epoch");
/// let step = running.span("step"); // spans may nest
/// // …
/// drop(step);
/// let spent = epoch.end();
/// println!("{} took {:?}: {:?} J", spent.name, spent.duration(), spent.joules());
/// # Ok::<(), telemetry::Error>(())
/// ```
pub struct Span<'a> {
    running: &'a Running,
    sync: Box<dyn Fn() + 'a>,
    name: String,
    start: Duration,
    depth: usize,
    thread: usize,
    is_over: bool,
}

/// The time and energy of a region of code.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanReport {
    /// Name of the region.
    pub name: String,
    /// Start and end of the region, since the start of the trace.
    pub window: Range<Duration>,
    /// Sampled devices, each with its energy; `None` if the device's energy is unknown.
    pub devices: Vec<(Device, Option<Energy>)>,
    /// Failures of the sampler until this report. A failure that ended sampling
    /// ([`Failure::ends_sampling`]) leaves the time after it without readings, and the rows in the
    /// file of a sink that failed are incomplete. Empty for a report from a trace, which does not
    /// contain failures.
    pub failures: Vec<Failure>,
}

impl Running {
    /// Begins a region of code.
    #[must_use]
    pub fn span(&self, name: impl Into<String>) -> Span<'_> {
        self.span_synced(name, || ())
    }

    /// Begins a region of code that uses a GPU. `sync` must wait until the GPU's queue is empty; it
    /// is called now and at the end of the region.
    #[must_use]
    pub fn span_synced<'a>(&'a self, name: impl Into<String>, sync: impl Fn() + 'a) -> Span<'a> {
        let name = name.into();
        sync();
        let (start, depth, thread) = self.enter();
        Span {
            running: self,
            sync: Box::new(sync),
            name,
            start,
            depth,
            thread,
            is_over: false,
        }
    }

    /// Returns the energy of a window of the trace, computed from the readings so far. Later
    /// updates of the sensors may narrow the error interval.
    #[must_use]
    pub fn report(&self, name: impl Into<String>, window: Range<Duration>) -> SpanReport {
        SpanReport {
            failures: self.failures(),
            ..SpanReport::new(&self.excerpt(&window), name.into(), window)
        }
    }
}

impl Span<'_> {
    /// Ends the region, and returns its energy computed from the readings so far.
    #[must_use]
    pub fn end(mut self) -> SpanReport {
        let window = self.start..self.finish();
        self.running.report(self.name.clone(), window)
    }

    /// Waits for the GPU, marks the region in the trace, and returns its end.
    fn finish(&mut self) -> Duration {
        self.is_over = true;
        (self.sync)();
        // The region ends before the reading, so that its time does not include the reading.
        let end = self.running.now();
        self.running.leave(Region {
            name: self.name.clone(),
            start: self.start,
            end,
            depth: self.depth,
            thread: self.thread,
        });
        end
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.finish();
        }
    }
}

impl fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Span");
        shown.field("name", &self.name).field("start", &self.start);
        shown.finish_non_exhaustive()
    }
}

impl SpanReport {
    /// Computes the energy of a marked region from a trace.
    #[must_use]
    pub fn from_region(trace: &Trace, mark: &Region) -> Self {
        Self::new(trace, mark.name.clone(), mark.start..mark.end)
    }

    fn new(trace: &Trace, name: String, window: Range<Duration>) -> Self {
        let energy = |(index, device): (usize, &Device)| {
            (device.clone(), trace.energy(index, window.clone()))
        };
        Self {
            name,
            devices: trace.devices.iter().enumerate().map(energy).collect(),
            window,
            failures: vec![],
        }
    }

    /// Returns the length of the region.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.window.end.saturating_sub(self.window.start)
    }

    /// Returns the total energy of the devices whose energy is known; `None` if there is none.
    #[must_use]
    pub fn total(&self) -> Option<TotalEnergy> {
        TotalEnergy::from_devices(self.devices.iter().map(|(_, energy)| energy.as_ref()))
    }

    /// Returns the total energy of all devices, in J; `None` if the energy of any device is
    /// unknown.
    #[must_use]
    pub fn joules(&self) -> Option<f64> {
        let total = self.total().filter(TotalEnergy::is_complete)?;
        Some(total.joules)
    }

    /// Returns the error interval of the total energy, in the worst case that the devices' errors
    /// add up. Returns `None` if the energy of any device is unknown.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        let total = self.total().filter(TotalEnergy::is_complete)?;
        Some(total.interval)
    }
}

/// Times before and after the work during which [`measure`] samples, so that the trace contains the
/// sensors' updates around both ends of the work.
///
/// The default is 200 ms each, two updates of the slowest sensors: an update before the work and
/// one after it narrow the error interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margins {
    /// Time before the work.
    pub before: Duration,
    /// Time after the work.
    pub after: Duration,
}

impl Default for Margins {
    fn default() -> Self {
        Self {
            before: POST_ROLL,
            after: POST_ROLL,
        }
    }
}

/// Runs some work, and returns its output and its energy.
///
/// The energy is that of the GPUs of NVIDIA's driver, or of RAPL if no GPU reports energy; see
/// [`Sampler::open_with_energy`].
///
/// Queued work is not waited for; see [`Running::span_synced`]. Sampling begins 200 ms before the
/// work and ends 200 ms after it, so the call takes 0.4 s longer than the work; [`measure_within`]
/// accepts other [`Margins`]. If the work is shorter than the update interval of the sensor, up to
/// 100 ms, the error interval is about as wide as the energy itself. [`Energy::n_updates`] and the
/// interval show whether the work was too short. [`SpanReport::failures`] lists failures of the
/// source or of a sink.
///
/// # Errors
/// [`Error::NoSource`](crate::Error::NoSource) if neither NVML nor RAPL reports energy, for example
/// if there is no GPU and only root may read RAPL; [`Error::Thread`](crate::Error::Thread) if the
/// system cannot create the sampler's thread. In these cases the work is not run.
///
/// # Examples
/// ```
/// match telemetry::measure(|| (0..1_000_000_u64).sum::<u64>()) {
///     Ok((sum, spent)) => println!("{sum} for {:?} J", spent.joules()),
///     Err(error) => println!("not measured: {error}"),
/// }
/// ```
pub fn measure<T>(work: impl FnOnce() -> T) -> Result<(T, SpanReport)> {
    let sampler = local::with_energy("measure")?;
    measure_by(sampler.interval(INTERVAL), work)
}

/// Runs some work like [`measure`], with the given sampler.
///
/// # Errors
/// The errors of [`Sampler::start`]; in these cases the work is not run.
pub fn measure_by<T>(sampler: Sampler, work: impl FnOnce() -> T) -> Result<(T, SpanReport)> {
    measure_within(sampler, Margins::default(), work)
}

/// Runs some work like [`measure_by`], with the given margins of sampling before and after the
/// work.
///
/// # Errors
/// The errors of [`Sampler::start`]; in these cases the work is not run.
pub fn measure_within<T>(
    sampler: Sampler,
    margins: Margins,
    work: impl FnOnce() -> T,
) -> Result<(T, SpanReport)> {
    let running = sampler.start()?;
    std::thread::sleep(margins.before);
    let span = running.span("measured");
    let output = work();
    // Updates after this end narrow the interval, so the energy is computed from the final trace.
    let soon = span.end();
    std::thread::sleep(margins.after);
    let stopped = running.stop();
    let report = SpanReport {
        failures: stopped.failures,
        ..SpanReport::new(&stopped.trace, soon.name, soon.window)
    };
    Ok((output, report))
}
