//! Energy of a window of a trace, with the method of measurement and bounds on the error.
//!
//! Role: implements [`Trace::energy`], the only place where readings become joules. Its input is a
//! list of rows and a window.
//! Method: three methods, the best first: the device's energy counter, the integral of its instant
//! power, the integral of its average power. Readings become updates with bounds on their times
//! (`updates/track.rs`), updates become cells of power (`energy/unfold.rs`), and `energy/cells.rs`
//! sums the cells and their bounds.
//! Choice: the best method whose interval is at most twice as wide as the narrowest interval. If
//! the intervals of two methods do not overlap, one of the methods is wrong, but the trace does not
//! show which. The reported intervals are then the hull of both intervals, the estimate is still
//! that of the better method, and [`Energy::check`] contains the other estimate.
//! Accuracy: if power is steady at both ends of the window, every sensor that observes the whole
//! time determines the energy to the resolution of its readings. If power changes within an update
//! period of an end, the readings do not show on which side of the end the change was. The
//! resulting error does not grow with the length of the window, and the interval contains it. The
//! part of a window after the last update is only bounded by the power limit. For a part-time
//! sensor ([`SensorClass::PartTime`], [`SensorClass::Fast`]), [`Energy::interval`] allows any power
//! from 0 W to the power limit in the time that the sensor did not observe. [`Energy::likely`]
//! assumes power in that hidden time to be within the range of the readings up to three seconds
//! before and after, and is far narrower. If a load repeats with nearly the sensor's own period,
//! this assumption fails, and both the estimate and [`Energy::likely`] are wrong.
//! Missed updates: an update that passed between two reads hides its whole period.
//! [`Energy::interval`] allows any power from 0 W to the power limit in this period.
//! Short traces: a trace may be too short to determine the update period of its counter. The
//! distances between changes, the longest run of equal readings and the period of the slowest known
//! counter then bound the age of a reading (`energy/models.rs`). An unchanged counter was not
//! updated, because a device that can be read draws power.
//! Unknown sensors: their period is assumed to be between those of the known sensors unless the
//! trace determines the period. They may observe all of the time or a quarter of it. Hidden time is
//! assumed to be like the time around it, so [`Energy::interval`] is not certain for these sensors.
//! Counters: a counter is used as long as it rises, and rises no faster than the device can draw.
//! If it was reset or stuck in the window, or if a method reports 0 J, the next method is used. If
//! no method covers the window, the result is `None` and never 0 J.
//! Source: for the gains and offsets of sensors, see [`Calibration::for_device`].
//! Limits: a counter that was reset between two reads and has passed its earlier value since is not
//! recognised as reset. For RAPL no tolerance is known.

mod calibration;
mod cells;
mod counted;
mod models;
mod reported;
mod total;
mod unfold;

pub use calibration::{Calibration, MeteredWindow};
pub(crate) use cells::{Cell, Visibility};
pub use counted::EnergyTotal;
pub(crate) use counted::went_on;
pub use total::TotalEnergy;

use crate::reported::{EnergyBounds, METRICS, Method};
use crate::trace::CONTEXT;
use crate::updates;
use crate::{Metric, SensorClass, Trace};
use cells::{Cells, hull};
use models::{counter_rhythm, models};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::time::Duration;
use unfold::SensorModel;

/// The energy of a device in a window, with bounds and the method of measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// The estimate, in J.
    pub joules: f64,
    /// Bounds on the true energy for any power between 0 W and the power limit in time that the
    /// sensor did not observe.
    ///
    /// They include the tolerance of gain and offset. For RAPL ([`Calibration::for_kind`]) no
    /// tolerance is known, so the bounds equal `sampling` unless the caller passes a calibration.
    /// At idle an offset of some watts is a large share of the energy; [`Energy::relative`] returns
    /// the bounds as shares.
    pub interval: Interval,
    /// Bounds on the true energy as in `interval`, without the tolerance of gain and offset.
    pub sampling: Interval,
    /// Bounds on the true energy if hidden power was within the range of the readings up to three
    /// seconds before and after.
    ///
    /// They include the tolerance of the calibration. They equal `interval` if the sensor observes
    /// all of the time and is read more often than it is updated.
    pub likely: Interval,
    /// Method of measurement.
    pub method: Method,
    /// Metric that the energy was computed from.
    pub metric: Metric,
    /// Name of the library field behind the metric.
    pub field: String,
    /// Class of the sensor; `None` if it is unknown.
    pub class: Option<SensorClass>,
    /// The window, in time since the start of the trace.
    pub window: Range<Duration>,
    /// Number of updates of the sensor in the window. With fewer than ten, the interval is usually
    /// wide and matters more than the estimate.
    pub n_updates: usize,
    /// Result of another method for the same window; `None` if no other method covers the window.
    pub check: Option<EnergyCheck>,
}

/// The energy of the same window by another method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyCheck {
    /// The estimate, in J.
    pub joules: f64,
    /// Bounds on the true energy, as in [`Energy::interval`].
    pub interval: Interval,
    /// Method of measurement.
    pub method: Method,
    /// Metric that the energy was computed from.
    pub metric: Metric,
}

/// A closed interval of energies, in J.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower bound, in J.
    pub low_j: f64,
    /// Upper bound, in J.
    pub high_j: f64,
}

#[cfg(test)]
thread_local! {
    /// Number of times that this thread has computed cells of power from rows, the expensive step.
    pub(crate) static N_ESTIMATES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
/// Factor by which power may briefly exceed the limit and all readings. In the recording
/// `rtx3090-step` of `testdata/power-traces`, the highest 5 ms of the external meter are 1.07 times
/// the highest reading of the sensor (tested).
pub(crate) const EXCURSION: f64 = 1.2;
/// Highest possible power of a device that reports no limit, as a multiple of its highest reading.
const WITHOUT_LIMIT: f64 = 2.0;
/// Time after which an unchanged counter counts as stuck, in s: ten updates of the slowest known
/// counter. At 0.1 W the smallest step of a counter, 1 mJ, already occurs every 10 ms.
const STUCK_S: f64 = 1.0;
/// Time after which an unchanged counter counts as stuck, in median lengths of its runs of equal
/// readings. This limit replaces [`STUCK_S`] where it is longer, for a counter that is slower than
/// all known counters.
const STUCK_UPDATES: f64 = 10.0;
/// Range of the search for an update period, in s.
pub(crate) const COUNTER_PERIODS_S: (f64, f64) = (0.004, 0.25);
/// Update period of the slowest known counter and of the slowest known power sensor, in s.
pub(crate) const SLOWEST_COUNTER_S: f64 = 0.1;
/// Tolerance of a sensor's clock, as a share of its period. Crystals are far better, oscillators
/// without a crystal are within 1 %, and the recordings in `testdata/power-traces` are within
/// 0.3 %.
pub(crate) const CLOCK: f64 = 0.015;
/// Largest ratio of a method's interval width to the narrowest width at which the method is still
/// preferred over methods of lower rank.
const MUCH_NARROWER: f64 = 2.0;
/// Resolution of a power reading, in W: NVML reports mW.
const READING_STEP_W: f64 = 0.001;
/// Resolution of a counter, in J: NVML counts in mJ.
const COUNTER_STEP_J: f64 = 0.001;

impl Trace {
    /// Returns the energy of a device in a window, by the best method that covers the window.
    ///
    /// Uses [`Calibration::for_device`]. Returns `None` for an empty window, for a device index out
    /// of range, and if no method covers the window:
    /// - the device reports neither power above 0 W nor a counter that moves,
    /// - the rows begin or end more than about an update period inside the window, or
    /// - more than half of the window is missing.
    #[must_use]
    pub fn energy(&self, device: usize, window: Range<Duration>) -> Option<Energy> {
        let calibration = Calibration::for_device(self.devices.get(device)?);
        self.energy_calibrated(device, window, &calibration)
    }

    /// Returns the energy as [`Self::energy`] does, with the given calibration of the device.
    ///
    /// The calibration is applied to all metrics of the device.
    #[must_use]
    pub fn energy_calibrated(
        &self,
        device: usize,
        window: Range<Duration>,
        calibration: &Calibration,
    ) -> Option<Energy> {
        let by = |metric| self.energy_by(device, metric, window.clone(), calibration);
        let mut found: Vec<Energy> = METRICS.into_iter().filter_map(by).collect();
        // The order of the metrics is not the order of methods, because `PowerDraw` is instant
        // power on some devices and average power on others.
        found.sort_by_key(|energy| energy.method);
        let width_j = |energy: &Energy| energy.interval.width_j();
        let narrowest_j = found.iter().map(width_j).fold(f64::INFINITY, f64::min);
        let best = found
            .iter()
            .position(|energy| width_j(energy) <= MUCH_NARROWER * narrowest_j)?;
        let mut best = found.remove(best);
        let others = || found.iter().filter(|energy| energy.method != best.method);
        let check = others().next().map(|second| EnergyCheck {
            joules: second.joules,
            interval: second.interval,
            method: second.method,
            metric: second.metric,
        });
        // A method whose interval does not overlap the chosen one contradicts it. Either of the two
        // may be wrong, so the reported intervals contain both.
        let apart: Vec<Energy> = others()
            .filter(|other| !other.interval.overlaps(&best.interval))
            .cloned()
            .collect();
        for other in apart {
            best.interval = best.interval.hull(&other.interval);
            best.sampling = best.sampling.hull(&other.sampling);
            best.likely = best.likely.hull(&other.likely);
        }
        Some(Energy { check, ..best })
    }

    /// Returns the energy of a window by one metric: [`Metric::Energy`] or a metric of power.
    ///
    /// Returns `None` for any other metric, and if the metric does not cover the window (see
    /// [`Trace::energy`]).
    #[must_use]
    pub fn energy_by(
        &self,
        device: usize,
        metric: Metric,
        window: Range<Duration>,
        calibration: &Calibration,
    ) -> Option<Energy> {
        let about = self.devices.get(device)?;
        let reported = self.reported(device, metric, &window)?;
        Some(reported.calibrated(about, calibration, window))
    }

    /// Returns the best method that covers the time from `from_s` to `to_s`, and its cells of
    /// power; `None` if no method covers all of this time.
    pub(crate) fn best_cells(
        &self,
        device: usize,
        from_s: f64,
        to_s: f64,
    ) -> Option<(Method, Cells)> {
        self.devices.get(device)?;
        let estimate = METRICS
            .into_iter()
            .filter_map(|metric| self.power_estimate(device, metric, (from_s, to_s)));
        let reach = estimate.filter(|estimate| estimate.covers(from_s, to_s));
        let mut estimate = reach.min_by_key(|estimate| estimate.method)?;
        Some((estimate.method, estimate.ways.swap_remove(0).0))
    }

    /// Computes the cells of power around a window by one metric; `None` if the metric is not one
    /// of [`METRICS`], or if no bound on the power of the device is known.
    pub(crate) fn power_estimate(
        &self,
        device: usize,
        metric: Metric,
        (from_s, to_s): (f64, f64),
    ) -> Option<PowerEstimate> {
        #[cfg(test)]
        N_ESTIMATES.with(|n| n.set(n.get() + 1));
        if !METRICS.contains(&metric) {
            return None;
        }
        let about = &self.devices[device];
        let mut series = self.rising(device, metric);
        // The usual update interval needs the whole series; the cells only need the context.
        let stuck_s = stuck_s(&series);
        let context_s = CONTEXT.as_secs_f64();
        series.retain(|&(time_s, _)| time_s > from_s - context_s && time_s < to_s + context_s);
        let ceiling_w = self.ceiling_w(device)?;
        if metric == Metric::Energy {
            let longest = |run: &&[(f64, f64)]| {
                let (first_s, last_s) = (run[0].0, run[run.len() - 1].0);
                to_s.min(last_s) - from_s.max(first_s)
            };
            // A run is a part of the series in which the counter was neither stuck nor reset. Only
            // the run with the largest overlap with the window is used, because the energy between
            // two runs is unknown.
            let moving = moving(&series, stuck_s).into_iter();
            let runs = moving.flat_map(|part| part.chunk_by(|a, b| went_on(*a, *b, ceiling_w)));
            let run = runs.max_by(|a, b| longest(a).total_cmp(&longest(b)))?;
            let (period_bounds, longest_s) = counter_rhythm(about, run);
            let cells = unfold::of_counter(run, period_bounds.as_ref(), longest_s, ceiling_w);
            return Some(PowerEstimate {
                method: Method::Counter,
                ways: vec![cells],
            });
        }
        let models = models(about, metric, &series);
        // Windows that overlap by half a period or more make the readings averages.
        let is_average = models[0].window_s > 1.5 * models[0].period_bounds.period_s;
        let row_s = updates::row_interval_s(self, device);
        let of_habit = |model: &SensorModel| unfold::of_power(&series, *model, row_s, ceiling_w);
        Some(PowerEstimate {
            method: if is_average {
                Method::AveragePower
            } else {
                Method::InstantPower
            },
            ways: models.iter().flat_map(of_habit).collect(),
        })
    }

    /// Returns the finite, non-negative readings of a metric, (s, value), with strictly increasing
    /// times.
    ///
    /// A wall clock that was set back leaves rows with equal times; only the first of these is
    /// used.
    fn rising(&self, device: usize, metric: Metric) -> Vec<(f64, f64)> {
        let mut series = self.series(device, metric);
        series.retain(|&(_, value)| value.is_finite() && value >= 0.0);
        series.dedup_by(|next, last| next.0 <= last.0);
        series
    }

    /// Returns the highest power that a device can have drawn at any moment, in W.
    ///
    /// The bound is the power limit or the highest reading, whichever is larger, times
    /// [`EXCURSION`]; without a limit it is the highest reading times [`WITHOUT_LIMIT`]. Returns
    /// `None` if the device reports no limit, no power above 0 W and no counter that moves.
    pub(crate) fn ceiling_w(&self, device: usize) -> Option<f64> {
        let greatest = |metrics: &[Metric]| {
            let values = self.device_rows(device).flat_map(|row| {
                let get = |&metric| row.values.get(metric).filter(|watts| watts.is_finite());
                metrics.iter().filter_map(get)
            });
            values.fold(0.0, f64::max)
        };
        let limits = self.devices[device].limits;
        let known = [limits.max_w, limits.set_w, limits.default_w];
        let limit = known
            .into_iter()
            .flatten()
            .fold(greatest(&[Metric::PowerLimit]), f64::max);
        let mut reached = greatest(&Metric::POWERS);
        if reached == 0.0 {
            reached = self.counted_w(device);
        }
        let ceiling_w = if limit > 0.0 {
            limit.max(reached) * EXCURSION
        } else {
            reached * WITHOUT_LIMIT
        };
        (ceiling_w > 0.0).then_some(ceiling_w)
    }

    /// Returns the highest mean power between two readings of the counter, in W; 0 without a
    /// counter. The device certainly reached this power.
    fn counted_w(&self, device: usize) -> f64 {
        let series = self.rising(device, Metric::Energy);
        // The time for which a counter was stuck must not count as an update interval, which would
        // lower the mean power.
        let moving = moving(&series, stuck_s(&series)).into_iter();
        let reached = moving.map(|part| self.reached_w(device, part));
        reached.fold(0.0, f64::max)
    }

    /// Returns the highest mean power between two readings of a counter that is not stuck, in W.
    fn reached_w(&self, device: usize, series: &[(f64, f64)]) -> f64 {
        let (_, update_s) = counter_rhythm(&self.devices[device], series);
        // The energy between two readings may have taken up to one update period longer than the
        // time between the reads. Pairs that are 10 or 100 readings apart, or the whole series,
        // reduce the relative effect of that period.
        let widths = [1, 10, 100, series.len().saturating_sub(1)];
        let pairs = widths
            .into_iter()
            .filter(|&width| width > 0)
            .flat_map(|width| {
                let starts = series.iter().zip(series.get(width..).unwrap_or_default());
                starts.map(|(from, to)| (*from, *to))
            });
        let pairs = pairs.filter(|&(from, to)| went_on(from, to, counted::ANY_POWER_W));
        let mean_w =
            |(from, to): ((f64, f64), (f64, f64))| (to.1 - from.1) / (to.0 - from.0 + update_s);
        pairs.map(mean_w).fold(0.0, f64::max)
    }
}

/// The power over time that one metric determines around a window.
pub(crate) struct PowerEstimate {
    method: Method,
    /// Cells and updates for each possible interpretation of the readings (see [`models()`] and
    /// [`unfold::of_power`]). The estimate uses the first interpretation; the bounds include all of
    /// them.
    ways: Vec<(Cells, Vec<updates::Update>)>,
}

impl PowerEstimate {
    /// Returns whether the cells cover a window and any of them has a power other than 0 W, because
    /// no device that can be read draws 0 W.
    fn covers(&self, from_s: f64, to_s: f64) -> bool {
        let cells = &self.ways[0].0;
        cells.reach_over(from_s, to_s) && cells.within(from_s, to_s).any(|cell| cell.watts != 0.0)
    }

    /// Returns the energy of a window with bounds that include those of all `ways`; `None` if the
    /// cells of one of the `ways` do not cover the window.
    fn sum(&self, from_s: f64, to_s: f64) -> Option<EnergyBounds> {
        let mut sums = self.ways.iter().map(|(cells, _)| cells.sum(from_s, to_s));
        let mut sum = sums.next()??;
        for other in sums {
            sum = sum.or(&other?);
        }
        Some(sum)
    }

    fn n_updates(&self, from_s: f64, to_s: f64) -> usize {
        let within = |u: &&updates::Update| u.time_s > from_s && u.time_s <= to_s;
        self.ways[0].1.iter().filter(within).count()
    }
}

/// Returns the time after which an unchanged counter counts as stuck, in s, from its readings,
/// (s, J).
fn stuck_s(series: &[(f64, f64)]) -> f64 {
    let mut lasted: Vec<f64> = series
        .chunk_by(|a, b| a.1 == b.1)
        .map(|same| same[same.len() - 1].0 - same[0].0)
        .collect();
    // The last run of equal readings is cut off by the end of the series.
    lasted.pop();
    let usual_s = updates::median(lasted).unwrap_or(0.0);
    STUCK_S.max(STUCK_UPDATES * usual_s)
}

/// Splits a counter's readings, (s, J), at runs of equal readings that last longer than `stuck_s`.
fn moving(series: &[(f64, f64)], stuck_s: f64) -> Vec<&[(f64, f64)]> {
    // A stuck run is left out except for its first reading, which ends the part before, and its
    // last reading, which begins the part after:
    //
    //   reading   1 2 3 3 3 3 3 3 4 5
    //   parts     [---]         [---]
    let (mut parts, mut first, mut start) = (vec![], 0, 0);
    for same in series.chunk_by(|a, b| a.1 == b.1) {
        let last = start + same.len() - 1;
        if series[last].0 - series[start].0 > stuck_s {
            parts.push(&series[first..=start]);
            first = last;
        }
        start = last + 1;
    }
    parts.push(&series[first..]);
    parts
}

impl Energy {
    /// Returns the mean power of the window, in W; infinite or NaN if the window is empty.
    #[must_use]
    pub fn mean_w(&self) -> f64 {
        self.joules
            / self
                .window
                .end
                .saturating_sub(self.window.start)
                .as_secs_f64()
    }

    /// Returns the bounds of [`Self::interval`] relative to the estimate: −0.1 and 0.2 for an
    /// estimate of 100 J and an interval of 90 J to 120 J. Returns `None` if the estimate is 0 J.
    #[must_use]
    pub fn relative(&self) -> Option<(f64, f64)> {
        let share = |bound_j: f64| bound_j / self.joules - 1.0;
        (self.joules > 0.0).then(|| (share(self.interval.low_j), share(self.interval.high_j)))
    }

    /// Returns the difference between the check and the estimate, as a share of the estimate: 0.01
    /// if the check is 1 % higher. Returns `None` without a check and if the estimate is 0 J.
    #[must_use]
    pub fn disagreement(&self) -> Option<f64> {
        let check = self.check.filter(|_| self.joules > 0.0)?;
        Some(check.joules / self.joules - 1.0)
    }
}

impl fmt::Display for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} J {}", digits(self.joules), self.interval)?;
        if let Some((low, high)) = self.relative() {
            let [low, high] = [low, high].map(|share| percent(share, 0));
            write!(f, " ({low}, {high})")?;
        }
        if self.likely != self.interval {
            write!(f, ", likely {},", self.likely)?;
        }
        write!(f, " by {}, {} updates", self.method, self.n_updates)?;
        match (self.disagreement(), self.check) {
            (Some(off), Some(check)) => {
                // A small negative share would print as "-0.0".
                let off = if off.abs() < 0.0005 { 0.0 } else { off };
                write!(f, "; {} {}", check.method, percent(off, 1))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", digits(self.low_j), digits(self.high_j))
    }
}

/// Formats a share in per cent with its sign; a share of 100,000 or more with an exponent.
fn percent(share: f64, decimals: usize) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 1e7 {
        format!("{percent:+.decimals$} %")
    } else {
        format!("{percent:+.3e} %")
    }
}

/// Formats a number with at least four significant digits and all digits before the decimal point.
///
/// A number whose absolute value is below 1e-4 or at least 1e7 is formatted with an exponent, and 0
/// as `0`.
pub(crate) fn digits(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{number:.3e}");
    }
    let decimals = (0..8).find(|&d| size * 10.0_f64.powi(d) >= 999.95);
    format!(
        "{number:.*}",
        usize::try_from(decimals.unwrap_or(8)).unwrap_or(8)
    )
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "energy counter",
            Self::InstantPower => "instant power",
            Self::AveragePower => "average power",
        })
    }
}

impl Interval {
    /// Returns whether an energy is in the interval, both ends included.
    #[must_use]
    pub fn contains(&self, joules: f64) -> bool {
        (self.low_j..=self.high_j).contains(&joules)
    }

    /// Returns whether two intervals overlap. Intervals that share only an end overlap.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low_j <= other.high_j && other.low_j <= self.high_j
    }

    /// Returns the smallest interval that contains both intervals.
    #[must_use]
    pub fn hull(&self, other: &Self) -> Self {
        let (low_j, high_j) = hull((self.low_j, self.high_j), (other.low_j, other.high_j));
        Self { low_j, high_j }
    }

    /// Returns the width, in J.
    #[must_use]
    pub fn width_j(&self) -> f64 {
        self.high_j - self.low_j
    }
}

impl EnergyBounds {
    /// Returns this sum with bounds that also include the bounds of another sum.
    fn or(&self, other: &Self) -> Self {
        let likely = hull(self.likely, other.likely);
        Self {
            joules: self.joules,
            likely,
            certain: hull(likely, hull(self.certain, other.certain)),
        }
    }
}

#[cfg(test)]
mod tests;
