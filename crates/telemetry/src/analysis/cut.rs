//! Division of a device's time into busy and idle parts.
//!
//! Role: defines the steps (intervals of time with one reading each) and a cut, the division of
//! time into busy and idle parts. [`by_power`] and [`by_utilisation`] are the two cuts that
//! [`idle_periods`](super::idle_periods) compares.
//! Hidden time: the part of a step that its reading does not describe. The ranges of a cut count
//! hidden time once as busy and once as idle.

mod levels;
mod power;
mod utilisation;

use levels::Levels;
pub(super) use levels::{GAP_LEVEL, Readings};
pub(super) use power::{Power, by_power};
pub(super) use utilisation::{LONGEST_WINDOW_S, by_utilisation};

use super::estimate::Estimate;

/// A step: an interval of time with one reading of power, in W, or of utilisation, in %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimedReading {
    pub from_s: f64,
    pub to_s: f64,
    pub value: f64,
    /// The time within the step that the reading does not describe, in s.
    pub hidden_s: f64,
}

impl TimedReading {
    /// Returns a step whose reading describes all of its time.
    pub(super) fn seen(from_s: f64, to_s: f64, value: f64) -> Self {
        Self {
            from_s,
            to_s,
            value,
            hidden_s: 0.0,
        }
    }

    /// Returns a step that no reading describes; its value is an estimate from the neighbouring
    /// steps.
    pub(super) fn hidden(from_s: f64, to_s: f64, value: f64) -> Self {
        Self {
            hidden_s: to_s - from_s,
            ..Self::seen(from_s, to_s, value)
        }
    }

    fn length_s(&self) -> f64 {
        self.to_s - self.from_s
    }

    fn seen_s(&self) -> f64 {
        self.length_s() - self.hidden_s
    }

    fn hidden_share(&self) -> f64 {
        (self.hidden_s / self.length_s()).clamp(0.0, 1.0)
    }
}

/// An interval of time in which the device is busy throughout or idle throughout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ActivityPart {
    pub from_s: f64,
    pub to_s: f64,
    pub is_idle: bool,
    /// Energy of the part, in J.
    pub joules: f64,
}

/// The busy and idle parts of a window, in the order of time, with the sums over the idle parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cut {
    pub parts: Vec<ActivityPart>,
    /// Idle time, in s.
    pub idle_s: Estimate,
    /// Energy of the idle time, in J. The range does not include the tolerance of the sensor's gain
    /// and offset.
    pub idle_j: Estimate,
    /// Whether power sometimes stays at a third level, which may be idle or busy.
    pub has_third_level: bool,
}

impl Cut {
    /// Returns the cut for a device whose power and utilisation do not show its state: all parts
    /// count as busy, and the ranges allow all time to be idle.
    pub(super) fn unknown(power: &[TimedReading], spans: &[(f64, f64)]) -> Self {
        let part = |&(from_s, to_s): &(f64, f64)| ActivityPart {
            from_s,
            to_s,
            is_idle: false,
            joules: joules(power, from_s, to_s),
        };
        let parts: Vec<ActivityPart> = spans.iter().map(part).collect();
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

    /// Returns the energy of all parts, in J.
    pub(super) fn joules(&self) -> f64 {
        self.parts.iter().fold(0.0, |sum, part| sum + part.joules)
    }

    /// Multiplies all energies by a factor.
    pub(super) fn scale_energy(&mut self, factor: f64) {
        for part in &mut self.parts {
            part.joules *= factor;
        }
        self.idle_j = self.idle_j.scaled(factor);
    }

    /// Splits a step into an idle part and a busy part with the energies `energies_j` (idle, busy),
    /// in J. The idle part comes first if `is_idle_first`.
    fn split(
        &mut self,
        step: &TimedReading,
        idle_share: f64,
        is_idle_first: bool,
        energies_j: (f64, f64),
    ) {
        let first_share = if is_idle_first {
            idle_share
        } else {
            1.0 - idle_share
        };
        // A share of 1 ends exactly at the end of the step, so that rounding leaves no second part.
        let middle_s = match first_share {
            share if share >= 1.0 => step.to_s,
            share => step.from_s + share.max(0.0) * step.length_s(),
        };
        let ends = [(step.from_s, middle_s), (middle_s, step.to_s)];
        for ((from_s, to_s), is_idle) in ends.into_iter().zip([is_idle_first, !is_idle_first]) {
            if to_s > from_s {
                self.parts.push(ActivityPart {
                    from_s,
                    to_s,
                    is_idle,
                    joules: if is_idle { energies_j.0 } else { energies_j.1 },
                });
            }
        }
    }
}

/// Returns the parts of steps that are within spans; steps and spans are in the order of time.
pub(super) fn clipped(steps: &[TimedReading], spans: &[(f64, f64)]) -> Vec<TimedReading> {
    let mut inside = vec![];
    for step in steps {
        let first = spans.partition_point(|span| span.1 <= step.from_s);
        let meeting = spans[first..].iter();
        for &(from_s, to_s) in meeting.take_while(|span| span.0 < step.to_s) {
            let mut part =
                TimedReading::seen(step.from_s.max(from_s), step.to_s.min(to_s), step.value);
            // Hidden time may be anywhere in the step, so as much of it as fits may be in this
            // part.
            part.hidden_s = step.hidden_s.min(part.length_s());
            inside.extend((part.from_s < part.to_s).then_some(part));
        }
    }
    inside
}

/// Returns steps that cover all of a window: gaps are filled with hidden steps whose value is the
/// mean of their neighbours. Returns an empty list if no step is in the window.
pub(super) fn without_gaps(
    steps: &[TimedReading],
    (from_s, to_s): (f64, f64),
) -> Vec<TimedReading> {
    let mut whole: Vec<TimedReading> = vec![];
    for &step in &clipped(steps, &[(from_s, to_s)]) {
        let last = whole.last().copied();
        let end_s = last.map_or(from_s, |last| last.to_s);
        if end_s < step.from_s {
            let before = last.map_or(step.value, |last| last.value);
            let value = 0.5 * (before + step.value);
            whole.push(TimedReading::hidden(end_s, step.from_s, value));
        }
        whole.push(step);
    }
    if let Some(&last) = whole.last()
        && last.to_s < to_s
    {
        whole.push(TimedReading::hidden(last.to_s, to_s, last.value));
    }
    whole
}

/// Returns the energy of steps of power between two times, in J; the steps are in the order of
/// time.
pub(super) fn joules(power: &[TimedReading], from_s: f64, to_s: f64) -> f64 {
    let first = power.partition_point(|step| step.to_s <= from_s);
    let within = power[first..].iter().take_while(|step| step.from_s < to_s);
    let parts = within.map(|step| step.value * (step.to_s.min(to_s) - step.from_s.max(from_s)));
    parts.fold(0.0, |sum, joules| sum + joules)
}
