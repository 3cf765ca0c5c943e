//! The energy of a window of a trace, with its method and bounds on its error.
//!
//! Role: [`Trace::energy`], the only place where readings become joules. Its input is a list of
//! rows and a window.
//! Method: three methods, the best first: the device's energy counter, the integral of its instant
//! power, the integral of its average power. Readings become updates with bounds on their times
//! (`updates/track.rs`), updates become cells of power (`energy/unfold.rs`), and `energy/cells.rs`
//! sums the cells and their bounds.
//! Choice: the best method whose interval is at most twice as wide as the narrowest. If the
//! intervals of two methods do not meet, one of the methods is wrong, and nothing shows which. The
//! reported intervals are then the hull of both, the estimate stays that of the better method, and
//! [`Energy::check`] contains the other estimate.
//! Accuracy: every sensor that sees the whole time determines a window that begins and ends where
//! power is steady, to the resolution of its readings. If power changes within an update period of
//! an end, nothing shows on which side of the end the change was; the error does not grow with the
//! window, and the interval contains it. The end of a window after the last update is only bounded
//! by the power limit. For a part-time sensor ([`SensorClass::PartTime`], [`SensorClass::Fast`]),
//! [`Energy::interval`] allows for 0 W up to the power limit in the time that was not seen.
//! [`Energy::likely`] assumes that hidden time is like the three seconds around it, and is far
//! narrower; for a load that repeats in nearly the sensor's own period, both it and the estimate
//! are wrong.
//! Missed updates: an update that passed between two reads hides its whole period.
//! [`Energy::interval`] allows for 0 W up to the power limit there.
//! Short traces: without an update period, a counter is updated at most as often as it changes, and
//! at least as often as its longest run of equal readings shows or, until several changes came
//! sooner, as the slowest known counter (`counter_rhythm`). A counter that does not change was not
//! updated, because a device that is read draws power.
//! Unknown sensors: their period lies between those of the known kinds unless the trace determines
//! it, and they may see all of the time or a quarter of it. Hidden time is then assumed to be like
//! the time around it, so for them [`Energy::interval`] is not certain.
//! Counters: a counter is used for as long as it rises, and no faster than the device can draw. For
//! a window in which it was reset or stood still, and for a method that reports 0 J, the next
//! method is used. Where no method covers the window there is no energy, never a zero.
//! Source: for the gains and offsets of sensors, see [`Calibration::of_device`].
//! Limits: a counter that was reset between two reads, and has passed its earlier value since, is
//! not recognised as reset. For RAPL no tolerance is known.

mod calibration;
mod cells;
mod counted;
mod reported;
mod unfold;

pub use calibration::{Calibration, Metered};
pub(crate) use cells::{Cell, Sight};
pub use counted::Counted;
pub(crate) use counted::went_on;
pub(crate) use reported::Reported;

use crate::updates::{self, Rhythm};
use crate::{Device, Kind, Metric, SensorClass, Trace};
use cells::{Cells, Sum, hull};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::time::Duration;
use unfold::Habit;

/// The energy of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// The estimate, in J.
    pub joules: f64,
    /// Bounds on the truth, whatever the device did while the sensor did not look, with the
    /// tolerance of gain and offset if one is known: for RAPL ([`Calibration::of_kind`]) equal to
    /// `sampling` unless a calibration was given. At idle an offset of some watts is a large share
    /// of the energy; [`Energy::relative`] reports it.
    pub interval: Interval,
    /// Bounds on the truth as in `interval`, without the tolerance of gain and offset.
    pub sampling: Interval,
    /// Bounds on the truth, with the tolerance of the calibration, if time that was not seen was
    /// like the seconds around it; equal to `interval` for a sensor that sees all of the time and
    /// is read more often than it is updated.
    pub likely: Interval,
    /// How it was found.
    pub method: Method,
    /// The metric.
    pub metric: Metric,
    /// The field that the metric came from.
    pub field: String,
    /// The kind of sensor, if it is known.
    pub class: Option<SensorClass>,
    /// The window.
    pub window: Range<Duration>,
    /// Updates of the sensor in the window; below ten, read the interval first.
    pub n_updates: usize,
    /// What another method found.
    pub check: Option<EnergyCheck>,
}

/// What another method found for the same window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyCheck {
    /// The estimate, in J.
    pub joules: f64,
    /// Its interval.
    pub interval: Interval,
    /// How it was found.
    pub method: Method,
    /// The metric.
    pub metric: Metric,
}

/// Energies between two, in J.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The least.
    pub low_j: f64,
    /// The most.
    pub high_j: f64,
}

/// How an energy was found, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Difference of an energy counter.
    Counter,
    /// Integral of power over the sensor's own window.
    InstantPower,
    /// Integral of power over the last second, unfolded.
    AveragePower,
}

/// Metrics that energy is computed from.
pub(crate) const METRICS: [Metric; 4] = {
    let [first, second, third] = Metric::POWERS;
    [Metric::Energy, first, second, third]
};
#[cfg(test)]
thread_local! {
    /// Number of times that this thread computed cells of power from rows, the expensive step.
    pub(crate) static N_TOLD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
/// Time before and after a window whose rows help to find the sensor's phase.
pub(crate) const CONTEXT: Duration = Duration::from_secs(20);
/// Power may exceed limit and readings for a moment by this factor: in the recording `rtx3090-step`
/// of `testdata/power-traces` the meter's greatest 5 ms are 1.07 of the sensor's greatest reading
/// (tested).
pub(crate) const EXCURSION: f64 = 1.2;
/// The most power of a device that tells no limit, over its greatest reading.
const WITHOUT_LIMIT: f64 = 2.0;
/// The time after which an unchanged counter is stuck, in s: ten updates of the slowest known
/// counter, while the least step of a counter, 1 mJ, takes 10 ms at a tenth of a watt.
const STUCK_S: f64 = 1.0;
/// The same time for a counter that is slower than all known ones, in its usual runs of equal
/// readings.
const STUCK_UPDATES: f64 = 10.0;
/// Periods of counters that are looked for, in s.
pub(crate) const COUNTER_PERIODS_S: (f64, f64) = (0.004, 0.25);
/// Time between updates of the slowest known counter, and of the slowest known sensor of power, in
/// s.
pub(crate) const SLOWEST_COUNTER_S: f64 = 0.1;
/// Time between updates of the fastest sensor of power that is known, in s.
const FASTEST_POWER_S: f64 = 0.02;
/// Error of a sensor's clock, as a share of its period: crystals are far better, and oscillators
/// without one keep to 1 %; the recordings in `testdata/power-traces` are within 0.3 %.
pub(crate) const CLOCK: f64 = 0.015;
/// The share of the time that a sensor of an unknown kind may see, if it does not see all: the
/// least of those known.
const GUESSED_SHARE: f64 = 0.25;
/// Architectures whose sensors read a capacitor's voltage, which all of the time charges (see
/// [`crate::sensor`]).
const SEES_ALL: [&str; 2] = ["Kepler", "Maxwell"];
/// A method whose interval is wider than another's by more than this factor gives way to the other.
const MUCH_NARROWER: f64 = 2.0;
/// RAPL's counters are updated every 0.976 ms (Intel, Software Developer's Manual, volume 3,
/// `MSR_RAPL_POWER_UNIT`).
const RAPL_UPDATE_S: f64 = 0.000_976;
/// Resolution of a reading of power, in W: NVML reports mW.
const READING_STEP_W: f64 = 0.001;
/// Resolution of a counter, in J: NVML counts in mJ.
const COUNTER_STEP_J: f64 = 0.001;
/// Reads less frequent than this, in periods, measure no period that is worth more than the
/// table's.
const FREQUENT_READS: f64 = 0.5;
/// How far a period that was measured may be from that of the sensor's class, to be taken instead.
const CLASS_PERIOD_TOLERANCE: f64 = 0.05;

impl Trace {
    /// Returns the energy that a device took from one time to another, by the best method there is.
    ///
    /// None if no method covers the window: the device reports neither energy nor power above 0, or
    /// a counter that stands still, its rows begin later or end earlier by more than an update, or
    /// more than half of the window is missing; and for an empty window.
    #[must_use]
    pub fn energy(&self, device: usize, window: Range<Duration>) -> Option<Energy> {
        let calibration = Calibration::of_device(self.devices.get(device)?);
        self.energy_calibrated(device, window, &calibration)
    }

    /// Returns the energy as [`Self::energy`] does, with a calibration of this device, which holds
    /// for all its fields.
    #[must_use]
    pub fn energy_calibrated(
        &self,
        device: usize,
        window: Range<Duration>,
        calibration: &Calibration,
    ) -> Option<Energy> {
        let by = |metric| self.energy_by(device, metric, window.clone(), calibration);
        let mut found: Vec<Energy> = METRICS.into_iter().filter_map(by).collect();
        // Power as it is drawn by default may be the average.
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
        let apart: Vec<Energy> = others()
            .filter(|other| !other.interval.meets(&best.interval))
            .cloned()
            .collect();
        for other in apart {
            best.interval = best.interval.hull(&other.interval);
            best.sampling = best.sampling.hull(&other.sampling);
            best.likely = best.likely.hull(&other.likely);
        }
        Some(Energy { check, ..best })
    }

    /// Returns the energy by one metric: [`Metric::Energy`] or one of power. None as for
    /// [`Trace::energy`].
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

    /// Returns the method of the estimate of [`Self::energy`] from one time to another, and its
    /// cells of power; none if no method covers all of that time.
    pub(crate) fn drawn(&self, device: usize, from_s: f64, to_s: f64) -> Option<(Method, Cells)> {
        self.devices.get(device)?;
        let told = METRICS
            .into_iter()
            .filter_map(|metric| self.told(device, metric, (from_s, to_s)));
        let reach = told.filter(|told| told.tells(from_s, to_s));
        let mut told = reach.min_by_key(|told| told.method)?;
        Some((told.method, told.ways.swap_remove(0).0))
    }

    /// Computes the cells of power around a window by one metric.
    pub(crate) fn told(
        &self,
        device: usize,
        metric: Metric,
        (from_s, to_s): (f64, f64),
    ) -> Option<Told> {
        #[cfg(test)]
        N_TOLD.with(|n| n.set(n.get() + 1));
        if !METRICS.contains(&metric) {
            return None;
        }
        let about = &self.devices[device];
        let mut series = self.rising(device, metric);
        let stuck_s = stuck_s(&series);
        let context_s = CONTEXT.as_secs_f64();
        series.retain(|&(time_s, _)| time_s > from_s - context_s && time_s < to_s + context_s);
        let ceiling_w = self.ceiling_w(device)?;
        if metric == Metric::Energy {
            let longest = |run: &&[(f64, f64)]| {
                let (first_s, last_s) = (run[0].0, run[run.len() - 1].0);
                to_s.min(last_s) - from_s.max(first_s)
            };
            let moving = moving(&series, stuck_s).into_iter();
            let runs = moving.flat_map(|part| part.chunk_by(|a, b| went_on(*a, *b, ceiling_w)));
            let run = runs.max_by(|a, b| longest(a).total_cmp(&longest(b)))?;
            let (rhythm, longest_s) = counter_rhythm(about, run);
            let cells = unfold::of_counter(run, rhythm.as_ref(), longest_s, ceiling_w);
            return Some(Told {
                method: Method::Counter,
                ways: vec![cells],
            });
        }
        let habits = habits(about, metric, &series);
        let is_average = habits[0].window_s > 1.5 * habits[0].rhythm.period_s;
        let row_s = updates::row_interval_s(self, device);
        let of_habit = |habit: &Habit| unfold::of_power(&series, *habit, row_s, ceiling_w);
        Some(Told {
            method: if is_average {
                Method::AveragePower
            } else {
                Method::InstantPower
            },
            ways: habits.iter().flat_map(of_habit).collect(),
        })
    }

    /// Returns a metric's readings that make sense, with times that rise: a wall clock that was set
    /// back leaves several of the same.
    fn rising(&self, device: usize, metric: Metric) -> Vec<(f64, f64)> {
        let mut series = self.series(device, metric);
        series.retain(|&(_, value)| value.is_finite() && value >= 0.0);
        series.dedup_by(|next, last| next.0 <= last.0);
        series
    }

    /// Returns the most power that a device may have drawn for a moment, in W; none if the device
    /// reports neither a limit nor power.
    pub(crate) fn ceiling_w(&self, device: usize) -> Option<f64> {
        let greatest = |metrics: &[Metric]| {
            let values = self.of_device(device).flat_map(|row| {
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

    /// Returns the greatest mean power between two readings of the counter, in W, which power
    /// reached for certain.
    fn counted_w(&self, device: usize) -> f64 {
        let series = self.rising(device, Metric::Energy);
        // The time for which a counter stood still is no time between its updates.
        let moving = moving(&series, stuck_s(&series)).into_iter();
        let reached = moving.map(|part| self.reached_w(device, part));
        reached.fold(0.0, f64::max)
    }

    /// Returns the greatest mean power between two readings of a counter that moves, in W.
    fn reached_w(&self, device: usize, series: &[(f64, f64)]) -> f64 {
        let (_, update_s) = counter_rhythm(&self.devices[device], series);
        // Two readings that lie close together may still be an update apart, which counts less over
        // many of them.
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

/// What a metric tells of power.
pub(crate) struct Told {
    method: Method,
    /// Cells and updates, for each way in which the readings may have been made; the first is what
    /// the estimate rests on.
    ways: Vec<(Cells, Vec<updates::Update>)>,
}

impl Told {
    /// Whether it reaches over a window with more than nothing: no device that is read draws 0 W.
    fn tells(&self, from_s: f64, to_s: f64) -> bool {
        let cells = &self.ways[0].0;
        cells.reach_over(from_s, to_s) && cells.within(from_s, to_s).any(|cell| cell.watts != 0.0)
    }

    /// Sums up with the bounds of all ways; none if one does not reach over the window.
    fn sum(&self, from_s: f64, to_s: f64) -> Option<Sum> {
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

/// Returns the time, in s, after which an unchanged counter counts as stuck, from its readings (s,
/// J).
fn stuck_s(series: &[(f64, f64)]) -> f64 {
    let mut lasted: Vec<f64> = series
        .chunk_by(|a, b| a.1 == b.1)
        .map(|same| same[same.len() - 1].0 - same[0].0)
        .collect();
    // How long it would have told the last one, nobody knows.
    lasted.pop();
    let usual_s = updates::median(lasted).unwrap_or(0.0);
    STUCK_S.max(STUCK_UPDATES * usual_s)
}

/// Splits a counter's readings, (s, J), at runs of equal readings that last longer than `stuck_s`.
fn moving(series: &[(f64, f64)], stuck_s: f64) -> Vec<&[(f64, f64)]> {
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
    /// Returns the mean power of the window, in W.
    #[must_use]
    pub fn mean_w(&self) -> f64 {
        self.joules / (self.window.end - self.window.start).as_secs_f64()
    }

    /// Returns the bounds of the interval as shares of this energy, less 1: −0.1 and 0.2 for 90 to
    /// 120 J of 100 J; none of no energy.
    #[must_use]
    pub fn relative(&self) -> Option<(f64, f64)> {
        let share = |bound_j: f64| bound_j / self.joules - 1.0;
        (self.joules > 0.0).then(|| (share(self.interval.low_j), share(self.interval.high_j)))
    }

    /// Returns the difference to the check, as a share of this energy: 0.01 if the check found 1 %
    /// more; none without a check, and of no energy.
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
            write!(f, " ({:+.0} %, {:+.0} %)", 100.0 * low, 100.0 * high)?;
        }
        if self.likely != self.interval {
            write!(f, ", likely {},", self.likely)?;
        }
        write!(f, " by {}, {} updates", self.method, self.n_updates)?;
        match (self.disagreement(), self.check) {
            (Some(off), Some(check)) => {
                // Adding 0 takes the sign of what was rounded to nothing.
                let off_pct = (1000.0 * off).round() / 10.0 + 0.0;
                write!(f, "; {} {off_pct:+.1} %", check.method)
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

/// Writes a number with four digits, or all before the point; one that is very small or large with
/// an exponent.
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
    /// Whether an energy is in it.
    #[must_use]
    pub fn contains(&self, joules: f64) -> bool {
        (self.low_j..=self.high_j).contains(&joules)
    }

    /// Returns whether some energy is in both.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.low_j <= other.high_j && other.low_j <= self.high_j
    }

    /// Returns the interval from the least to the most of two.
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

impl Sum {
    /// Widens to what another says.
    fn or(&self, other: &Self) -> Self {
        let likely = hull(self.likely, other.likely);
        Self {
            joules: self.joules,
            likely,
            certain: hull(likely, hull(self.certain, other.certain)),
        }
    }
}

/// Returns how a metric's readings may have been made; the first is what the estimate rests on.
fn habits(device: &Device, metric: Metric, series: &[(f64, f64)]) -> Vec<Habit> {
    let (known_s, mut windows_s) = match (device.sensor_class(metric), metric) {
        (Some(class), _) => {
            let (update_s, window_s) = class.update_and_window_s();
            (Some(update_s), vec![Window::Of(window_s / update_s)])
        }
        (None, Metric::PowerAverage) => (None, vec![Window::Seconds(1.0)]),
        // Unknown: all of the time, the last second, or a part of the time.
        (None, Metric::PowerDraw) => (
            None,
            vec![Window::Of(1.0), Window::Seconds(1.0), Window::Guessed],
        ),
        (None, _) => (None, vec![Window::Of(1.0), Window::Guessed]),
    };
    let architecture = device.architecture.as_deref().unwrap_or_default();
    if SEES_ALL
        .iter()
        .any(|name| name.eq_ignore_ascii_case(architecture))
    {
        windows_s.retain(|window| *window != Window::Guessed);
    }
    let range_s = known_s.map_or(COUNTER_PERIODS_S, |known_s| {
        let off = CLASS_PERIOD_TOLERANCE * known_s;
        (known_s - off, known_s + off)
    });
    let measured = updates::period(series, range_s.0, range_s.1).filter(|found| {
        updates::read_interval_s(series, found.period_s) < FREQUENT_READS * found.period_s
    });
    let rhythm = match (measured, known_s) {
        (Some(found), Some(known_s)) => {
            let (found, known) = (found.rhythm(), Rhythm::new(known_s, CLOCK));
            found.within(&known).unwrap_or(found)
        }
        (Some(found), None) => found.rhythm(),
        (None, Some(known_s)) => Rhythm::new(known_s, CLOCK),
        (None, None) => Rhythm {
            period_s: SLOWEST_COUNTER_S,
            shortest_s: FASTEST_POWER_S * (1.0 - CLOCK),
            longest_s: SLOWEST_COUNTER_S * (1.0 + CLOCK),
        },
    };
    let habit = |window| Habit {
        rhythm,
        window_s: match window {
            Window::Of(share) => share * rhythm.period_s,
            Window::Seconds(window_s) => window_s,
            Window::Guessed => GUESSED_SHARE * rhythm.period_s,
        },
        shift_s: rhythm.period_s - rhythm.shortest_s,
        is_guess: window == Window::Guessed,
    };
    windows_s.into_iter().map(habit).collect()
}

/// The window that a reading of power is the mean of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Window {
    /// In periods of the updates: a sensor that sees all of the time does so whatever its clock.
    Of(f64),
    /// In s.
    Seconds(f64),
    /// A part of the time, as of the sensors that see the least of it.
    Guessed,
}

/// Returns the rhythm of a counter's updates, where one is found, and a bound on the age of a
/// reading, in s.
///
/// Each update changes the counter of a device that draws power, so a run of equal readings has no
/// update, and the change before a run and the change after it are at least one update apart.
/// Without a rhythm, the bound is that of the slowest known counter, unless several changes came
/// sooner or a run was longer.
fn counter_rhythm(device: &Device, series: &[(f64, f64)]) -> (Option<Rhythm>, f64) {
    if device.kind == Kind::Rapl {
        return (None, RAPL_UPDATE_S);
    }
    let runs: Vec<(f64, f64)> = series
        .chunk_by(|a, b| a.1 == b.1)
        .map(|run| (run[0].0, run[run.len() - 1].0))
        .collect();
    let run_s = runs.iter().map(|run| run.1 - run.0).fold(0.0, f64::max);
    // From the last read before a run to the first read after it.
    let around = runs.windows(3).map(|three| three[2].0 - three[0].1);
    let around_s = around.fold(f64::INFINITY, f64::min);
    let known_s = SLOWEST_COUNTER_S * (1.0 + CLOCK);
    let has_several = runs.len() > updates::MIN_CHANGES;
    let bound_s = if run_s > known_s && around_s.is_finite() || has_several && around_s < known_s {
        around_s.max(run_s)
    } else {
        known_s.max(run_s)
    };
    let (shortest_s, slowest_s) = COUNTER_PERIODS_S;
    let rhythm = updates::period(series, shortest_s, slowest_s).map(|found| found.rhythm());
    let bound_s = rhythm.map_or(bound_s, |rhythm| bound_s.min(rhythm.longest_s.max(run_s)));
    (rhythm, bound_s)
}

#[cfg(test)]
mod tests;
