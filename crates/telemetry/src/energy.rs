//! The energy of a window of a trace, with how it was found and how far it may be off.
//!
//! Role: [`Trace::energy`], which everything that says joules goes through.
//! Method: the device's energy counter first, the integral of its instant power second, of its average power third;
//! where none reaches over the window there is no energy, never a zero. Whatever second method there is serves as a
//! check. Readings become cells of power (`energy/unfold.rs`), which are summed up with their bounds
//! (`energy/cells.rs`).
//! Accuracy: a window that begins and ends where power is steady is found to the resolution of the readings by every
//! sensor that sees the whole time. Where power changes within an update period of an end, nothing says on which side
//! of it; that error does not grow with the window, and the interval holds it. A part-time sensor
//! ([`SensorClass::PartTime`], [`SensorClass::Fast`]) does not tell what happened while it did not look: its
//! [`Energy::interval`] is as wide as nothing at all and the power limit allow for that time. [`Energy::likely`] takes
//! hidden time to be like the three seconds around it and is far narrower; a load that repeats in nearly the sensor's
//! own period defeats it, and its estimate.
//! Source: for the tolerance of gains, the comparison with external meters by Yang, Adamek and Armour 2024 (see
//! [`crate::sensor`]): −8 % to +13 % by card.

mod cells;
mod unfold;

use crate::{Device, Kind, Metric, SensorClass, Trace, updates};
use cells::{Cells, Sum};
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
    /// Where the truth is, whatever the device did while the sensor did not look, and with the tolerance of the gain.
    pub interval: Interval,
    /// The same without the tolerance of the gain.
    pub sampling: Interval,
    /// Where the truth is, with the tolerance of the gain, if time that was not seen was like the seconds around it;
    /// equal to `interval` for a sensor that sees all of the time.
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

/// What a card's sensor tells over what is true.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Told over true; readings are divided by it.
    pub gain: f64,
    /// The least that the gain may be.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// Metrics that tell the power that is drawn, the best first.
const POWERS: [Metric; 3] = [
    Metric::PowerInstant,
    Metric::PowerDraw,
    Metric::PowerAverage,
];
/// Gains of cards that were compared with a meter.
const GAINS: (f64, f64) = (0.92, 1.13);
/// Rows before and after a window that help to find the sensor's phase, in s.
const CONTEXT_S: f64 = 20.0;
/// Power may exceed limit and readings for a moment by this factor.
const EXCURSION: f64 = 1.2;
/// The most power of a device that tells no limit, over its greatest reading.
const WITHOUT_LIMIT: f64 = 2.0;
/// More than any device draws, in W.
const ANY_POWER_W: f64 = 1e6;
/// Periods of counters that are looked for, in s.
const COUNTER_PERIODS_S: (f64, f64) = (0.004, 0.25);
/// Time between updates of a counter that changes with every read, at most, in s.
const SLOWEST_COUNTER_S: f64 = 0.1;
/// RAPL's counters are updated every 0.976 ms (Intel, Software Developer's Manual, volume 3, `MSR_RAPL_POWER_UNIT`).
const RAPL_UPDATE_S: f64 = 0.000_976;
/// What a step of a reading of power may hide, in W: NVML tells mW.
const READING_STEP_W: f64 = 0.001;
/// What a step of a counter may hide, in J: NVML counts in mJ.
const COUNTER_STEP_J: f64 = 0.001;
/// Reads less frequent than this, in periods, measure no period that is worth more than the table's.
const FREQUENT_READS: f64 = 0.5;
/// How far a period that was measured may be from that of the sensor's class, to be taken instead.
const CLASS_PERIOD_TOLERANCE: f64 = 0.05;

impl Trace {
    /// Gives the energy that a device took from one time to another, by the best method there is.
    ///
    /// None if no method reaches over the window: the device tells neither energy nor power, its rows begin later or
    /// end earlier by more than an update, or more of the window is missing than is there; and for an empty window.
    #[must_use]
    pub fn energy(&self, device: usize, window: Range<Duration>) -> Option<Energy> {
        self.energy_calibrated(device, window, &Calibration::default())
    }

    /// Does the same with the gain of this card, which holds for all its fields.
    #[must_use]
    pub fn energy_calibrated(
        &self,
        device: usize,
        window: Range<Duration>,
        calibration: &Calibration,
    ) -> Option<Energy> {
        let by = |metric| self.energy_by(device, metric, window.clone(), calibration);
        let metrics = [Metric::Energy].into_iter().chain(POWERS);
        let mut found: Vec<Energy> = metrics.filter_map(by).collect();
        // Power as it is drawn by default may be the average.
        found.sort_by_key(|energy| energy.method);
        let second = found.iter().find(|energy| energy.method != found[0].method);
        let check = second.map(|second| EnergyCheck {
            joules: second.joules,
            interval: second.interval,
            method: second.method,
            metric: second.metric,
        });
        let best = found.into_iter().next()?;
        Some(Energy { check, ..best })
    }

    /// Gives the energy by one metric: [`Metric::Energy`] or one of power. None as for [`Trace::energy`].
    #[must_use]
    pub fn energy_by(
        &self,
        device: usize,
        metric: Metric,
        window: Range<Duration>,
        calibration: &Calibration,
    ) -> Option<Energy> {
        let about = self.devices.get(device)?;
        if window.is_empty() {
            return None;
        }
        let (method, mut summed, n_updates) = self.summed(device, metric, &window)?;
        let seconds = (window.end - window.start).as_secs_f64();
        let step_j = if method == Method::Counter {
            COUNTER_STEP_J
        } else {
            READING_STEP_W * seconds
        };
        summed.likely = (summed.likely.0 - step_j, summed.likely.1 + step_j);
        summed.certain = (summed.certain.0 - step_j, summed.certain.1 + step_j);
        let through = |(low, high): (f64, f64), gains: (f64, f64)| Interval {
            low_j: (low / gains.1).max(0.0),
            high_j: high / gains.0,
        };
        let gains = (calibration.low, calibration.high);
        Some(Energy {
            joules: summed.joules / calibration.gain,
            interval: through(summed.certain, gains),
            sampling: through(summed.certain, (calibration.gain, calibration.gain)),
            likely: through(summed.likely, gains),
            method,
            metric,
            field: about.field(metric).unwrap_or(metric.name()).to_owned(),
            class: about.sensor_class(metric),
            window,
            n_updates,
            check: None,
        })
    }

    /// Sums up what one metric says of a window, and counts the updates in it.
    fn summed(
        &self,
        device: usize,
        metric: Metric,
        window: &Range<Duration>,
    ) -> Option<(Method, Sum, usize)> {
        let about = &self.devices[device];
        let (from_s, to_s) = (window.start.as_secs_f64(), window.end.as_secs_f64());
        let near =
            |&(time_s, _): &(f64, f64)| time_s > from_s - CONTEXT_S && time_s < to_s + CONTEXT_S;
        let series = self.series(device, metric);
        let mut series: Vec<_> = series.into_iter().filter(near).collect();
        // A wall clock that was set back leaves readings of the same time.
        series.dedup_by(|next, last| next.0 <= last.0);
        let ceiling_w = self.ceiling_w(device);
        let within = |u: &&updates::Update| u.time_s > from_s && u.time_s <= to_s;
        let sum = |(cells, updates): (Cells, Vec<updates::Update>)| {
            let n_updates = updates.iter().filter(within).count();
            Some((cells.sum(from_s, to_s)?, n_updates))
        };
        if metric == Metric::Energy {
            let update_s = counter_update_s(about, &series);
            let (summed, n) = sum(unfold::of_counter(&series, update_s, ceiling_w)?)?;
            return Some((Method::Counter, summed, n));
        }
        if !POWERS.contains(&metric) {
            return None;
        }
        let habits = habits(about.sensor_class(metric), metric, &series);
        let of_habit = |habit: &Habit| sum(unfold::of_power(&series, *habit, ceiling_w));
        let (mut summed, n_updates) = of_habit(&habits[0])?;
        for other in &habits[1..] {
            summed = summed.or(&of_habit(other)?.0);
        }
        let is_average = habits[0].window_s > 1.5 * habits[0].update_s;
        let method = if is_average {
            Method::AveragePower
        } else {
            Method::InstantPower
        };
        Some((method, summed, n_updates))
    }

    /// Gives the most power that a device may have drawn for a moment, in W.
    fn ceiling_w(&self, device: usize) -> f64 {
        let greatest = |metrics: &[Metric]| {
            let values = self.of_device(device).flat_map(|row| {
                let get = |&metric| row.values.get(metric);
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
        let told = greatest(&[
            Metric::PowerInstant,
            Metric::PowerAverage,
            Metric::PowerDraw,
        ]);
        if limit > 0.0 {
            limit.max(told) * EXCURSION
        } else if told > 0.0 {
            told * WITHOUT_LIMIT
        } else {
            // Only a counter: nothing is known of how power was distributed between two of its updates.
            ANY_POWER_W
        }
    }
}

impl Energy {
    /// Gives the mean power of the window, in W.
    #[must_use]
    pub fn mean_w(&self) -> f64 {
        self.joules / (self.window.end - self.window.start).as_secs_f64()
    }

    /// Gives the difference to the check, as a share of this energy: 0.01 if the check found 1 % more.
    #[must_use]
    pub fn disagreement(&self) -> Option<f64> {
        self.check.map(|check| check.joules / self.joules - 1.0)
    }
}

impl fmt::Display for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { low_j, high_j } = self.interval;
        let (joules, n) = (self.joules, self.n_updates);
        write!(f, "{joules:.1} J [{low_j:.1}, {high_j:.1}]")?;
        if self.likely != self.interval {
            let Interval { low_j, high_j } = self.likely;
            write!(f, ", likely [{low_j:.1}, {high_j:.1}],")?;
        }
        write!(f, " by {}, {n} updates", self.method)?;
        match (self.disagreement(), self.check) {
            (Some(off), Some(check)) => write!(f, "; {} {:+.1} %", check.method, 100.0 * off),
            _ => Ok(()),
        }
    }
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

    /// Gives its length, in J.
    #[must_use]
    pub fn width_j(&self) -> f64 {
        self.high_j - self.low_j
    }
}

impl Default for Calibration {
    /// A card that was compared with no meter.
    fn default() -> Self {
        Self {
            gain: 1.0,
            low: GAINS.0,
            high: GAINS.1,
        }
    }
}

impl Calibration {
    /// Gives the calibration of a card whose gain is known, told over true.
    ///
    /// # Panics
    /// If the gain is not above 0.
    #[must_use]
    pub fn known(gain: f64) -> Self {
        assert!(gain > 0.0, "a gain is told over true, and above 0");
        Self {
            gain,
            low: gain,
            high: gain,
        }
    }

    /// Gives the calibration of a card from an energy that it told without one and the truth of a meter, in J.
    ///
    /// # Panics
    /// If either is not above 0.
    #[must_use]
    pub fn from_meter(told_j: f64, true_j: f64) -> Self {
        assert!(
            told_j > 0.0 && true_j > 0.0,
            "energies of a meter's window are above 0"
        );
        Self::known(told_j / true_j)
    }
}

impl Sum {
    /// Widens to what another says.
    fn or(&self, other: &Self) -> Self {
        let hull = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.max(b.1));
        let likely = hull(self.likely, other.likely);
        Self {
            joules: self.joules,
            likely,
            certain: hull(likely, hull(self.certain, other.certain)),
        }
    }
}

/// Gives how a metric's readings may have been made; the first is what the estimate rests on.
fn habits(class: Option<SensorClass>, metric: Metric, series: &[(f64, f64)]) -> Vec<Habit> {
    let (known_s, windows_s) = match (class, metric) {
        (Some(class), _) => {
            let (update_s, window_s) = class.update_and_window_s();
            (Some(update_s), vec![window_s])
        }
        (None, Metric::PowerAverage) => (None, vec![1.0]),
        // Unknown: all of the time, or the last second.
        (None, Metric::PowerDraw) => (None, vec![0.0, 1.0]),
        (None, _) => (None, vec![0.0]),
    };
    let range_s = known_s.map_or(COUNTER_PERIODS_S, |known_s| {
        let off = CLASS_PERIOD_TOLERANCE * known_s;
        (known_s - off, known_s + off)
    });
    let measured = updates::period(series, range_s.0, range_s.1)
        .filter(|found| updates::read_interval_s(series) < FREQUENT_READS * found.period_s);
    // What was measured replaces what is known only if the two contradict each other.
    let update_s = match (measured, known_s) {
        (Some(found), Some(known_s)) if (found.period_s - known_s).abs() < found.uncertainty_s => {
            known_s
        }
        (Some(found), _) => found.period_s,
        (None, known_s) => known_s.unwrap_or(SLOWEST_COUNTER_S),
    };
    let habit = |window_s: f64| Habit {
        update_s,
        window_s: if window_s == 0.0 {
            update_s
        } else {
            // A sensor that sees all of the time does so whatever its clock.
            window_s * known_s.map_or(1.0, |known_s| update_s / known_s)
        },
    };
    windows_s.into_iter().map(habit).collect()
}

/// Gives the time between updates of a counter, in s.
fn counter_update_s(device: &Device, series: &[(f64, f64)]) -> f64 {
    if device.kind == Kind::Rapl {
        return RAPL_UPDATE_S;
    }
    let (shortest_s, longest_s) = COUNTER_PERIODS_S;
    match updates::period(series, shortest_s, longest_s) {
        Some(found) => found.period_s,
        None => updates::read_interval_s(series).min(SLOWEST_COUNTER_S),
    }
}

#[cfg(test)]
mod tests;
