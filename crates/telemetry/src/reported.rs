//! Energy of a window by one metric as a device reports it, before calibration.
//!
//! Role: the type in which energies are added. Reported energies of adjoining windows are added
//! first and calibrated afterwards, because the bounds of a calibrated sum are narrower than the
//! sum of calibrated bounds, each of which is cut off at 0 J. A trace whose rows were thinned
//! stores reported energies ([`crate::Ledger`]), so that any calibration can be applied later.

use crate::Metric;
use serde::{Deserialize, Serialize};

/// A method of measuring energy, ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Difference of an energy counter.
    Counter,
    /// Integral of power whose readings are means over at most about one update period.
    InstantPower,
    /// Integral of power that is reconstructed from means over the last second.
    AveragePower,
}

/// Metrics that energy can be computed from: the counter, then the metrics of power.
pub(crate) const METRICS: [Metric; 4] = {
    let [first, second, third] = Metric::POWERS;
    [Metric::Energy, first, second, third]
};

/// The energy of a window in J, with bounds (low, high).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EnergyBounds {
    /// The estimate.
    pub joules: f64,
    /// Bounds if the power at times that no reading covers was within the range of the readings
    /// before and after.
    pub likely: (f64, f64),
    /// Bounds for any power, from 0 W to the highest possible power, at times that no reading
    /// covers.
    pub certain: (f64, f64),
}

/// The reported energy of a window by one metric, with bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reported {
    pub metric: Metric,
    pub method: Method,
    pub sum: EnergyBounds,
    pub n_updates: usize,
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
    /// The estimate assumes the mean power of the window in the lost and in the gained time. The
    /// bounds allow any power from 0 W to `ceiling_w`.
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
}
