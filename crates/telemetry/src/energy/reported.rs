//! Energy of a window by one metric as a device reports it, before calibration.
//!
//! Role: the type in which energies are added. Reported energies of adjoining windows are added
//! first and calibrated afterwards, because the bounds of a calibrated sum are narrower than the
//! sum of calibrated bounds, each of which is cut off at 0 J. A trace whose rows were thinned
//! stores reported energies ([`crate::Ledger`]), so that any calibration can be applied later.

use super::{
    COUNTER_STEP_J, Calibration, Energy, EnergyBounds, Method, PowerEstimate, READING_STEP_W,
};
use crate::{Device, Metric, Trace};
use std::ops::Range;
use std::time::Duration;

/// The reported energy of a window by one metric, with bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reported {
    pub metric: Metric,
    method: Method,
    sum: EnergyBounds,
    n_updates: usize,
    /// Time of the window that the metric covers, in s.
    pub covered_s: f64,
}

impl Reported {
    /// Returns the energy of this window and the window after it, `next`; the method is the worse
    /// of the two.
    pub(crate) fn followed_by(self, next: &Self) -> Self {
        let add = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
        Self {
            metric: self.metric,
            method: self.method.max(next.method),
            sum: EnergyBounds {
                joules: self.sum.joules + next.sum.joules,
                likely: add(self.sum.likely, next.sum.likely),
                certain: add(self.sum.certain, next.sum.certain),
            },
            n_updates: self.n_updates + next.n_updates,
            covered_s: self.covered_s + next.covered_s,
        }
    }

    /// Returns the energy after the ends of the window have moved, so that the window lost
    /// `lost_s` seconds and gained `gained_s` seconds.
    ///
    /// The estimate assumes mean power in both times. The bounds allow any power from 0 W to
    /// `ceiling_w`.
    pub(crate) fn reshaped(self, lost_s: f64, gained_s: f64, ceiling_w: f64) -> Self {
        let mean_w = self.sum.joules / self.covered_s;
        // The lower bound assumes the ceiling in the lost time and 0 W in the gained time; the
        // upper bound assumes the opposite.
        let moved = |(low_j, high_j): (f64, f64)| {
            let low_j: f64 = low_j - ceiling_w * lost_s;
            (low_j.max(0.0), high_j + ceiling_w * gained_s)
        };
        Self {
            sum: EnergyBounds {
                joules: (self.sum.joules + mean_w * (gained_s - lost_s)).max(0.0),
                likely: moved(self.sum.likely),
                certain: moved(self.sum.certain),
            },
            covered_s: self.covered_s + gained_s - lost_s,
            ..self
        }
    }

    /// Returns the calibrated energy of a window of the device `about`.
    ///
    /// The bounds are first widened by the resolution of the readings.
    pub(super) fn calibrated(
        &self,
        about: &Device,
        calibration: &Calibration,
        window: Range<Duration>,
    ) -> Energy {
        let lasts_s = (window.end - window.start).as_secs_f64();
        let step_j = if self.method == Method::Counter {
            COUNTER_STEP_J
        } else {
            READING_STEP_W * lasts_s
        };
        let wider = |(low_j, high_j): (f64, f64)| (low_j - step_j, high_j + step_j);
        let (likely, certain) = (wider(self.sum.likely), wider(self.sum.certain));
        Energy {
            joules: calibration.joules(self.sum.joules, lasts_s),
            interval: calibration.interval(certain, lasts_s),
            sampling: calibration.estimate().interval(certain, lasts_s),
            likely: calibration.interval(likely, lasts_s),
            method: self.method,
            metric: self.metric,
            field: about
                .field(self.metric)
                .unwrap_or(self.metric.name())
                .to_owned(),
            class: about.sensor_class(self.metric),
            window,
            n_updates: self.n_updates,
            check: None,
        }
    }
}

impl PowerEstimate {
    /// Returns the reported energy between two times; `None` if the metric does not cover all of
    /// the time between.
    pub(crate) fn reported(&self, metric: Metric, from_s: f64, to_s: f64) -> Option<Reported> {
        let sum = self.sum(from_s, to_s)?;
        self.covers(from_s, to_s).then(|| Reported {
            metric,
            method: self.method,
            sum,
            n_updates: self.n_updates(from_s, to_s),
            covered_s: to_s - from_s,
        })
    }
}

impl Trace {
    /// Computes the reported energy of a window from the rows in memory.
    ///
    /// Returns `None` if the window is empty or the metric does not cover the window.
    pub(crate) fn reported_by_rows(
        &self,
        device: usize,
        metric: Metric,
        window: &Range<Duration>,
    ) -> Option<Reported> {
        self.devices.get(device)?;
        if window.is_empty() {
            return None;
        }
        let (from_s, to_s) = (window.start.as_secs_f64(), window.end.as_secs_f64());
        self.power_estimate(device, metric, (from_s, to_s))?
            .reported(metric, from_s, to_s)
    }
}
