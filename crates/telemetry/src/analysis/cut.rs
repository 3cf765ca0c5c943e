//! Division of a device's time into busy and idle parts, by power and by utilisation.
//!
//! Role: the two cuts that [`idle_periods`](super::idle_periods) compares.
//! Method, power: where power has two levels, a reading between them is a mixture of both, and
//! `(high - w) / (high - low)` is the idle share of its time. This sum is exact for power of two levels, wherever
//! the edges lie within a reading. A reading that resembles a neighbour and is close to a level is no mixture but a
//! third level, and is idle or busy as a whole. The range counts each mixture once as busy and once as idle.
//! Method, utilisation: a reading below [`IDLE_PERCENT`] is idle time, the reading next to one is a mixture. Each
//! reading describes an earlier time, by a lag that [`lag`](super::lag) measures.
//! Limits: a level is certain if power stays there for three readings, or if the sensor's own window is short. The
//! range of a level that is not certain reaches down to 0 W, or up to the most that the device can draw.

use crate::updates::quantile;
use serde::Serialize;

/// Utilisation below this, in %, is idle.
pub(super) const IDLE_PERCENT: f64 = 10.0;
/// Low power above this share of high power is a lighter load and not a gap.
pub(super) const GAP_LEVEL: f64 = 0.7;
/// Longest time that a reading of utilisation is averaged over, in s: NVML's documentation says 1/6 s to 1 s, and the
/// update of an A100 takes 1.012 s.
pub(super) const LONGEST_WINDOW_S: f64 = 1.1;
/// A reading within this share of the difference of both levels belongs to a level.
const NEAR: f64 = 0.2;
/// A reading within this share of the difference of both levels from a neighbour resembles the neighbour.
const ALIKE: f64 = 0.1;
/// A reading further from both levels than this share of their difference is a mixture, whatever its neighbours.
const THIRD_LEVEL: f64 = 0.35;
/// Least share of the time near a level for which power has two levels.
const MIN_SHARE_NEAR: f64 = 0.5;
/// Shares of the time below and above which power is extreme.
const EXTREMES: (f64, f64) = (0.01, 0.99);
/// Least share of the time at a third level that counts.
const MIN_SHARE_THIRD: f64 = 0.05;
/// Tolerance of a step beyond a level, as a share of the difference of both levels.
const REPAIR_TOLERANCE: f64 = 0.05;
/// Steps after which a counter has made up for an update that a reading missed.
const REPAIR_REACH: usize = 4;
/// Readings in a row near a level that make the level certain: the middle one holds nothing else.
const CERTAIN_RUN: usize = 3;
/// Share of the time below the highest utilisation of a busy device.
const PEAK: f64 = 0.95;

/// A number with the range that contains the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The best estimate.
    pub value: f64,
    /// The lower end of the range.
    pub low: f64,
    /// The upper end of the range.
    pub high: f64,
}

impl Estimate {
    /// Returns whether the range contains a number.
    #[must_use]
    pub fn contains(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// Multiplies by a factor that is at least 0.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    /// Widens the range to that of another estimate.
    pub(super) fn hull(self, other: &Self) -> Self {
        Self {
            value: self.value,
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// Returns whether both ranges have a number in common.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    fn add(&mut self, other: Self) {
        self.value += other.value;
        self.low += other.low;
        self.high += other.high;
    }

    /// Moves both ends such that the range lies within 0 to `most` and contains the value.
    fn within(self, most: f64) -> Self {
        let value = self.value.clamp(0.0, most);
        Self {
            value,
            low: self.low.clamp(0.0, value),
            high: self.high.clamp(value, most),
        }
    }
}

/// A time with one reading: of power in W, or of utilisation in %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub from_s: f64,
    pub to_s: f64,
    pub value: f64,
}

impl Step {
    fn length_s(&self) -> f64 {
        self.to_s - self.from_s
    }
}

/// A time that is busy or idle as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    pub from_s: f64,
    pub to_s: f64,
    pub is_idle: bool,
    /// Energy of this time, in J.
    pub joules: f64,
}

/// Busy and idle parts in the order of time, with their sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cut {
    pub parts: Vec<Part>,
    /// Idle time, in s.
    pub idle_s: Estimate,
    /// Energy of the idle time, in J, without the tolerance of the sensor's gain.
    pub idle_j: Estimate,
    /// Whether power stays at a third level at times, which may be idle or busy.
    pub has_third_level: bool,
}

impl Cut {
    /// Returns the cut of a device that is busy all the time, or idle all the time for all that is known.
    pub(super) fn unknown(power: &[Step], spans: &[(f64, f64)]) -> Self {
        let part = |&(from_s, to_s): &(f64, f64)| Part {
            from_s,
            to_s,
            is_idle: false,
            joules: joules(power, from_s, to_s),
        };
        let parts: Vec<Part> = spans.iter().map(part).collect();
        let up_to = |high| Estimate {
            high,
            ..Estimate::default()
        };
        Self {
            idle_s: up_to(spans.iter().map(|span| span.1 - span.0).sum()),
            idle_j: up_to(parts.iter().map(|part| part.joules).sum()),
            parts,
            has_third_level: false,
        }
    }

    /// Splits a step into an idle part and a busy part; the idle part comes first if `is_idle_first`.
    fn split(&mut self, step: &Step, idle_share: f64, is_idle_first: bool, energies_j: (f64, f64)) {
        let first_share = if is_idle_first {
            idle_share
        } else {
            1.0 - idle_share
        };
        let middle_s = match first_share {
            share if share >= 1.0 => step.to_s,
            share => step.from_s + share.max(0.0) * step.length_s(),
        };
        let ends = [(step.from_s, middle_s), (middle_s, step.to_s)];
        for ((from_s, to_s), is_idle) in ends.into_iter().zip([is_idle_first, !is_idle_first]) {
            if to_s > from_s {
                self.parts.push(Part {
                    from_s,
                    to_s,
                    is_idle,
                    joules: if is_idle { energies_j.0 } else { energies_j.1 },
                });
            }
        }
    }
}

/// Readings of power, in W, that its levels are found in.
pub(super) struct Readings {
    pub steps: Vec<Step>,
    /// Whether the sensor's window is so short that a reading is hardly ever a mixture.
    pub is_short: bool,
}

/// The two levels of power, in W.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Levels {
    low_w: f64,
    high_w: f64,
    is_low_certain: bool,
    is_high_certain: bool,
}

impl Levels {
    /// Finds two levels in readings of power. Returns none if power stays between two levels for most of the time, or
    /// if these are close.
    fn find(readings: &Readings) -> Option<Self> {
        let steps = &readings.steps;
        let weighed: Vec<(f64, f64)> = steps.iter().map(|s| (s.value, s.length_s())).collect();
        let least_w = quantile(weighed.clone(), EXTREMES.0)?.max(0.0);
        let most_w = quantile(weighed.clone(), EXTREMES.1)?;
        if !(most_w > 0.0 && least_w < GAP_LEVEL * most_w) {
            return None;
        }
        let reach_w = NEAR * (most_w - least_w);
        let near = |level_w: f64| {
            let near = weighed.iter().copied();
            near.filter(move |(watts, _)| (watts - level_w).abs() <= reach_w)
                .collect::<Vec<_>>()
        };
        let time_s = |list: &[(f64, f64)]| list.iter().map(|reading| reading.1).sum::<f64>();
        let (low, high) = (near(least_w), near(most_w));
        if time_s(&low) + time_s(&high) < MIN_SHARE_NEAR * time_s(&weighed) {
            return None;
        }
        let (low_w, high_w) = (quantile(low, 0.5)?, quantile(high, 0.5)?);
        let stays = |level_w: f64| {
            let is_near = |step: &Step| (step.value - level_w).abs() <= reach_w;
            let mut runs = steps.chunk_by(|a, b| is_near(a) == is_near(b));
            readings.is_short || runs.any(|run| run.len() >= CERTAIN_RUN && is_near(&run[0]))
        };
        Some(Self {
            low_w,
            high_w,
            is_low_certain: stays(low_w),
            is_high_certain: stays(high_w),
        })
    }

    /// Moves energy back to steps below the low level, which a device always draws: a counter that is read at the moment
    /// of its update shows that update in a later step. The energy comes from the next step above the high level, which
    /// keeps that level, and then from the next one above the low level.
    fn repaired(&self, steps: &[Step]) -> Vec<Step> {
        let mut steps = steps.to_vec();
        let tolerance_w = REPAIR_TOLERANCE * (self.high_w - self.low_w);
        for i in 0..steps.len() {
            let end = (i + 1 + REPAIR_REACH).min(steps.len());
            for level_w in [self.high_w, self.low_w] {
                if steps[i].value >= self.low_w - tolerance_w {
                    break;
                }
                let is_above = |&j: &usize| steps[j].value > level_w + tolerance_w;
                let Some(j) = (i + 1..end).find(is_above) else {
                    continue;
                };
                let needed_j = (level_w - steps[i].value) * steps[i].length_s();
                let excess_j = (steps[j].value - level_w) * steps[j].length_s();
                let moved_j = needed_j.min(excess_j);
                steps[i].value += moved_j / steps[i].length_s();
                steps[j].value -= moved_j / steps[j].length_s();
            }
        }
        steps
    }

    /// Returns whether power stays away from both levels for several steps, for a share of the time that counts.
    fn misses_a_level(&self, steps: &[Step]) -> bool {
        let difference_w = self.high_w - self.low_w;
        let place = |step: &Step| (step.value - self.low_w) / difference_w;
        let is_between = |step: &Step| (NEAR..=1.0 - NEAR).contains(&place(step));
        let is_alike = |a: &Step, b: &Step| (a.value - b.value).abs() <= ALIKE * difference_w;
        let time_s = |list: &[Step]| list.iter().map(Step::length_s).sum::<f64>();
        let runs = steps.chunk_by(is_alike);
        let between = runs.filter(|run| run.len() >= CERTAIN_RUN && is_between(&run[0]));
        between.map(time_s).sum::<f64>() > MIN_SHARE_THIRD * time_s(steps)
    }

    /// Estimates the idle share of a reading, in W, between two others.
    fn idle_share(&self, watts: f64, neighbours: [Option<f64>; 2]) -> Estimate {
        let difference_w = self.high_w - self.low_w;
        // 0 at the low level and 1 at the high one.
        let place = (watts - self.low_w) / difference_w;
        let mixture = (1.0 - place).clamp(0.0, 1.0);
        let resembles = |other: f64| (other - watts).abs() <= ALIKE * difference_w;
        let is_level = (place - 0.5).abs() >= 0.5 - THIRD_LEVEL
            && neighbours.into_iter().flatten().any(resembles);
        let value = match (is_level, place < 0.5) {
            (true, true) => 1.0,
            (true, false) => 0.0,
            (false, _) => mixture,
        };
        Estimate {
            value,
            low: if place <= NEAR { mixture } else { 0.0 },
            high: if place >= 1.0 - NEAR { mixture } else { 1.0 },
        }
    }
}

/// Cuts time where power, in W, has two levels; returns none where it has not.
///
/// `steps` hold the energy, and `readings` show the levels; `slack_s` is how far the ends of the steps may be off, and
/// `most_w` the most that the device can draw.
pub(super) fn by_power(
    steps: &[Step],
    readings: &Readings,
    slack_s: f64,
    most_w: f64,
) -> Option<Cut> {
    let levels = Levels::find(readings)?;
    let steps = &levels.repaired(steps);
    let middle_w = 0.5 * (levels.low_w + levels.high_w);
    let mut cut = Cut {
        has_third_level: levels.misses_a_level(&readings.steps),
        ..Cut::default()
    };
    for (i, step) in steps.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| steps[i]);
        let before = before.filter(|before| before.to_s >= step.from_s);
        let after = steps.get(i + 1).filter(|after| after.from_s <= step.to_s);
        let neighbours = [before.map(|b| b.value), after.map(|a| a.value)];
        let share = levels.idle_share(step.value, neighbours);
        let watts = step.value.max(0.0);
        // Idle time of a mixture draws the low level.
        let of_mixture_w = watts.min(levels.low_w);
        let is_whole = share.value >= 1.0;
        let idle_w = if is_whole { watts } else { of_mixture_w };
        let most_idle_w = if watts < middle_w {
            watts
        } else {
            of_mixture_w
        };
        let time_s = step.length_s();
        cut.idle_s.add(share.scaled(time_s));
        let idle_j = Estimate {
            value: share.value * idle_w,
            low: share.low * of_mixture_w,
            high: share.high * most_idle_w,
        };
        cut.idle_j.add(idle_j.scaled(time_s));
        let falls = neighbours[0].unwrap_or(step.value) > neighbours[1].unwrap_or(step.value);
        let energies_j = (
            share.value * idle_w * time_s,
            (step.value - share.value * idle_w) * time_s,
        );
        cut.split(step, share.value, !falls, energies_j);
    }
    widen(&mut cut, steps, &levels, slack_s, most_w);
    Some(cut)
}

/// Widens the ranges by the ends of the steps and by levels that are not certain: idle time is then that of the linear
/// relation `(high · T − E) / (high − low)` for all levels that are possible.
fn widen(cut: &mut Cut, steps: &[Step], levels: &Levels, slack_s: f64, most_w: f64) {
    let time_s: f64 = steps.iter().map(Step::length_s).sum();
    let energy_j: f64 = steps.iter().map(|step| step.value * step.length_s()).sum();
    let idle_s = |low_w: f64, high_w: f64| (high_w * time_s - energy_j) / (high_w - low_w);
    let (low_w, high_w) = (levels.low_w, levels.high_w);
    if !levels.is_low_certain {
        cut.idle_s.low = cut.idle_s.low.min(idle_s(0.0, high_w));
        cut.idle_j.low = 0.0;
    }
    if !levels.is_high_certain {
        cut.idle_s.high = cut.idle_s.high.max(idle_s(low_w, most_w.max(high_w)));
        cut.idle_j.high = cut.idle_j.high.max(low_w * cut.idle_s.high.min(time_s));
    }
    // A common error of all times moves both ends of the window.
    let ends_s = 2.0 * slack_s;
    cut.idle_s.low -= ends_s;
    cut.idle_s.high += ends_s;
    cut.idle_j.low -= ends_s * low_w;
    cut.idle_j.high += ends_s * low_w;
    cut.idle_s = cut.idle_s.within(time_s);
    cut.idle_j = cut.idle_j.within(energy_j.max(cut.idle_j.value));
}

/// Cuts time by utilisation: `readings`, in %, with the times at which they were read, whose description of the device
/// is late by `lag_s`. `spans` are the times to be cut, and `power`, in W, holds their energy.
///
/// The energy of an idle run is at least that of the time that is idle for every possible lag, and at most that of the
/// time that is idle for one of them.
pub(super) fn by_utilisation(
    readings: &[Step],
    lag_s: Estimate,
    spans: &[(f64, f64)],
    power: &[Step],
) -> Cut {
    let mut cut = Cut::default();
    let weighed = readings.iter().map(|step| (step.value, step.length_s()));
    let peak_pct = quantile(weighed.collect(), PEAK).unwrap_or(100.0);
    let runs = runs(readings, lag_s.value);
    for (i, run) in runs.iter().enumerate() {
        let neighbours = [i.checked_sub(1).map(|i| runs[i]), runs.get(i + 1).copied()];
        let share = idle_share_of(run, neighbours, peak_pct);
        for step in clipped(std::slice::from_ref(run), spans) {
            let energy_j = joules(power, step.from_s, step.to_s);
            cut.idle_s.add(share.scaled(step.length_s()));
            cut.idle_j.value += share.value * energy_j;
            let energies_j = (share.value * energy_j, (1.0 - share.value) * energy_j);
            let is_idle_first = neighbours[0].is_some_and(|before| is_idle(&before));
            cut.split(&step, share.value, is_idle_first, energies_j);
        }
        let (later_s, earlier_s) = (lag_s.value - lag_s.low, lag_s.high - lag_s.value);
        let energy_j = |from_s: f64, to_s: f64| {
            let time = Step {
                from_s,
                to_s,
                value: 0.0,
            };
            let inside = clipped(&[time], spans).into_iter();
            inside.fold(0.0, |sum, part| sum + joules(power, part.from_s, part.to_s))
        };
        cut.idle_j.low += share.low * energy_j(run.from_s + later_s, run.to_s - earlier_s);
        let reach_s = if share.high >= 1.0 { 1.0 } else { 0.0 };
        let (from_s, to_s) = (
            run.from_s - reach_s * earlier_s,
            run.to_s + reach_s * later_s,
        );
        cut.idle_j.high += share.high * energy_j(from_s, to_s);
    }
    let time_s: f64 = spans.iter().map(|span| span.1 - span.0).sum();
    let all_j: f64 = cut.parts.iter().map(|part| part.joules).sum();
    // At both ends of all, the readings of the device's time may be missing.
    let ends_s = 2.0 * (lag_s.high - lag_s.low);
    cut.idle_s.low -= ends_s;
    cut.idle_s.high += ends_s;
    cut.idle_s = cut.idle_s.within(time_s);
    cut.idle_j = cut.idle_j.within(all_j.max(cut.idle_j.value));
    cut
}

fn is_idle(run: &Step) -> bool {
    run.value < IDLE_PERCENT
}

/// Estimates the idle share of a run of equal readings between two others; `peak_pct` is the utilisation of busy time.
fn idle_share_of(run: &Step, neighbours: [Option<Step>; 2], peak_pct: f64) -> Estimate {
    let of_one = |share| Estimate {
        value: share,
        low: share,
        high: 1.0,
    };
    if is_idle(run) {
        return of_one(1.0);
    }
    // A longer run of equal readings is no average over the edge of an idle time.
    let is_next_to_idle = neighbours.iter().flatten().any(is_idle);
    if is_next_to_idle && run.length_s() <= LONGEST_WINDOW_S {
        let value = (1.0 - run.value / peak_pct.max(IDLE_PERCENT)).clamp(0.0, 1.0);
        return Estimate {
            low: 0.0,
            ..of_one(value)
        };
    }
    // Gaps between kernels, or gaps that the average hides.
    Estimate {
        high: (1.0 - run.value / 100.0).clamp(0.0, 1.0),
        ..Estimate::default()
    }
}

/// Joins equal readings that follow each other, moved to an earlier time; the last one goes on to the end of all.
fn runs(readings: &[Step], lag_s: f64) -> Vec<Step> {
    let mut runs: Vec<Step> = vec![];
    for reading in readings {
        let (from_s, to_s) = (reading.from_s - lag_s, reading.to_s - lag_s);
        match runs.last_mut() {
            Some(last) if last.value == reading.value && last.to_s >= from_s => last.to_s = to_s,
            _ => runs.push(Step {
                from_s,
                to_s,
                value: reading.value,
            }),
        }
    }
    if let Some(last) = runs.last_mut() {
        last.to_s += lag_s;
    }
    runs
}

/// Returns the parts of steps that lie within spans; both in the order of time.
pub(super) fn clipped(steps: &[Step], spans: &[(f64, f64)]) -> Vec<Step> {
    let mut inside = vec![];
    for step in steps {
        let first = spans.partition_point(|span| span.1 <= step.from_s);
        let meeting = spans[first..].iter();
        for &(from_s, to_s) in meeting.take_while(|span| span.0 < step.to_s) {
            let part = Step {
                from_s: step.from_s.max(from_s),
                to_s: step.to_s.min(to_s),
                value: step.value,
            };
            inside.extend((part.from_s < part.to_s).then_some(part));
        }
    }
    inside
}

/// Returns the energy of steps of power between two times, in J.
pub(super) fn joules(power: &[Step], from_s: f64, to_s: f64) -> f64 {
    let first = power.partition_point(|step| step.to_s <= from_s);
    let within = power[first..].iter().take_while(|step| step.from_s < to_s);
    let parts = within.map(|step| step.value * (step.to_s.min(to_s) - step.from_s.max(from_s)));
    parts.fold(0.0, |sum, joules| sum + joules)
}
