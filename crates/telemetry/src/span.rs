//! The energy of a region of code.
//!
//! Method: all devices are read before the region begins and after it ends, next to the rounds of
//! the sampler, and the region is marked in the trace. Work that was only queued on a GPU belongs
//! to the region only if somebody waits for it: a span takes a function that waits, and calls it
//! before both readings.
//! Accuracy: that of [`Trace::energy`]. The next update of a sensor after the end bounds the energy
//! at the end, so the same region has a narrower interval in the final trace, as a rule, than at
//! the end of the span.

use crate::energy::{Energy, Interval};
use crate::nvml::Nvml;
use crate::rapl::Rapl;
use crate::sampler::{Running, Sampler};
use crate::source::Source;
use crate::trace::{Mark, Trace};
use crate::{Device, Error, Fault, Metric, Result};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The time after work for which sampling should go on, as in [`measure`]: two updates of the
/// slowest sensors.
pub const LINGER: Duration = Duration::from_millis(200);
/// The interval at which [`measure`] samples.
const INTERVAL: Duration = Duration::from_millis(20);

/// A region of code that is being run; it ends with [`Self::end`], or when it is dropped.
///
/// # Examples
/// ```
/// use telemetry::{Sampler, synthetic::{Program, Synthetic}};
///
/// let running = Sampler::new(Synthetic::of(Program::constant(50.0))?).start()?;
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
pub struct Spent {
    /// Its name.
    pub name: String,
    /// Its start and end, by the trace's clock.
    pub window: Range<Duration>,
    /// The devices that were sampled, each with its energy, if it reports any.
    pub devices: Vec<(Device, Option<Energy>)>,
}

impl Running {
    /// Begins a region of code.
    #[must_use]
    pub fn span(&self, name: impl Into<String>) -> Span<'_> {
        self.span_synced(name, || ())
    }

    /// Begins a region of code of a GPU; `sync` waits until nothing is queued there.
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

    /// Returns the energy of a window of the trace, as far as it is known now. Later updates narrow
    /// the bounds at its end.
    #[must_use]
    pub fn spent(&self, name: impl Into<String>, window: Range<Duration>) -> Spent {
        Spent::of(&self.excerpt(&window), name.into(), window)
    }
}

impl Span<'_> {
    /// Ends the region, and returns its energy as far as it is known now.
    #[must_use]
    pub fn end(mut self) -> Spent {
        let window = self.start..self.finish();
        self.running.spent(self.name.clone(), window)
    }

    fn finish(&mut self) -> Duration {
        self.is_over = true;
        (self.sync)();
        // The time of sampling is not the region's.
        let end = self.running.now();
        self.running.leave(Mark {
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

impl Spent {
    /// Returns the energy of a region by a trace.
    #[must_use]
    pub fn of_mark(trace: &Trace, mark: &Mark) -> Self {
        Self::of(trace, mark.name.clone(), mark.start..mark.end)
    }

    fn of(trace: &Trace, name: String, window: Range<Duration>) -> Self {
        let energy = |(index, device): (usize, &Device)| {
            (device.clone(), trace.energy(index, window.clone()))
        };
        Self {
            name,
            devices: trace.devices.iter().enumerate().map(energy).collect(),
            window,
        }
    }

    /// Returns the length of the region.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.window.end.saturating_sub(self.window.start)
    }

    /// Returns the energy of all devices, in J; none if that of any is not known.
    #[must_use]
    pub fn joules(&self) -> Option<f64> {
        let each = self.devices.iter();
        each.map(|(_, energy)| Some(energy.as_ref()?.joules)).sum()
    }

    /// Returns bounds on the energy of all devices, as if their errors added up; none if that of
    /// any is not known.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        let mut sum = Interval {
            low_j: 0.0,
            high_j: 0.0,
        };
        for (_, energy) in &self.devices {
            let interval = energy.as_ref()?.interval;
            sum.low_j += interval.low_j;
            sum.high_j += interval.high_j;
        }
        Some(sum)
    }
}

/// Times before and after work in which [`measure`] samples, so that the sensors' updates at both
/// ends are seen.
///
/// The default is 200 ms each, two updates of the slowest sensors. In models of work of 0.05 to 2 s
/// between idle times, 200 ms before the work narrowed intervals by up to 14 % and errors by up to
/// 24 %, compared with none; 1 s or 2 s before or after made no further difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margins {
    /// The time before.
    pub before: Duration,
    /// The time after.
    pub after: Duration,
}

impl Default for Margins {
    fn default() -> Self {
        Self {
            before: LINGER,
            after: LINGER,
        }
    }
}

/// Runs some work, and returns its output and the energy it took: by the GPUs of NVIDIA's driver,
/// or by RAPL where none of them reports energy.
///
/// Work that is only queued is not waited for; see [`Running::span_synced`]. Sampling begins 200 ms
/// before the work and ends 200 ms after it, so this takes 0.4 s more than the work;
/// [`measure_within`] takes other [`Margins`]. Work that is shorter than a sensor's update, up to
/// 100 ms, has an interval of about its own energy's width: [`Energy::n_updates`] and the interval
/// show that it was too short.
///
/// # Errors
/// [`Error::Library`] if there is neither; [`Error::Unavailable`] if neither reports energy, as
/// RAPL where only root may read it. The work is not done then.
///
/// # Examples
/// ```
/// match telemetry::measure(|| (0..1_000_000_u64).sum::<u64>()) {
///     Ok((sum, spent)) => println!("{sum} for {:?} J", spent.joules()),
///     Err(error) => println!("not measured: {error}"),
/// }
/// ```
pub fn measure<T>(work: impl FnOnce() -> T) -> Result<(T, Spent)> {
    let sampler = match Nvml::open().and_then(reporting_energy) {
        Ok(nvml) => Sampler::new(nvml),
        Err(no_gpu) => match Rapl::open().and_then(reporting_energy) {
            Ok(rapl) => Sampler::new(rapl),
            Err(Error::Library { .. }) => return Err(no_gpu),
            Err(unreadable) => return Err(unreadable),
        },
    };
    measure_by(sampler.interval(INTERVAL), work)
}

/// Returns the source, or an error if none of its devices reports energy.
fn reporting_energy<S: Source>(source: S) -> Result<S> {
    let devices = source.devices();
    if devices.iter().any(Device::tells_energy) {
        return Ok(source);
    }
    let all = devices.iter().flat_map(|device| &device.capabilities);
    let mut of_energy = all.filter(|capability| capability.metric == Metric::Energy);
    let fault = of_energy.find_map(|capability| capability.fault);
    Err(Error::Unavailable {
        operation: "measure",
        metric: Metric::Energy,
        device: 0,
        fault: fault.unwrap_or(Fault::NotSupported),
    })
}

/// Runs some work as [`measure`] does, with a sampler of the caller's.
///
/// # Errors
/// Those of [`Sampler::start`]; the work is not done then.
pub fn measure_by<T>(sampler: Sampler, work: impl FnOnce() -> T) -> Result<(T, Spent)> {
    measure_within(sampler, Margins::default(), work)
}

/// Runs some work as [`measure_by`] does, with other times of sampling before and after it.
///
/// # Errors
/// Those of [`Sampler::start`]; the work is not done then.
pub fn measure_within<T>(
    sampler: Sampler,
    margins: Margins,
    work: impl FnOnce() -> T,
) -> Result<(T, Spent)> {
    let running = sampler.start()?;
    std::thread::sleep(margins.before);
    let span = running.span("measured");
    let output = work();
    let soon = span.end();
    std::thread::sleep(margins.after);
    let trace = running.stop().trace;
    Ok((output, Spent::of(&trace, soon.name, soon.window)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Replay;
    use crate::{Capability, Kind};

    #[test]
    fn a_source_without_energy_is_rejected_with_its_fault() {
        let source = |fault| {
            let device = Device {
                capabilities: vec![Capability {
                    metric: Metric::Energy,
                    field: "energy_uj".to_owned(),
                    fault,
                }],
                ..Device::named(Kind::Rapl, "package-0")
            };
            Replay::of(Trace {
                devices: vec![device],
                ..Trace::default()
            })
        };
        assert!(reporting_energy(source(None)).is_ok());
        let error = reporting_energy(source(Some(Fault::NoPermission)))
            .err()
            .unwrap();
        assert!(error.to_string().contains("no permission"), "{error}");
    }
}
