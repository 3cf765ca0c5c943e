//! Reported energies: their computation from rows, and their calibration.

use super::{COUNTER_STEP_J, Calibration, Energy, PowerEstimate, READING_STEP_W};
use crate::reported::{Method, Reported};
use crate::{Device, Metric, Trace};
use std::ops::Range;
use std::time::Duration;

impl Reported {
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
    /// Returns the reported energy of a window by one metric, from the rows in memory and from the
    /// ledger of the rows that were thinned out.
    pub(crate) fn reported(
        &self,
        device: usize,
        metric: Metric,
        window: &Range<Duration>,
    ) -> Option<Reported> {
        if self.ledger.is_empty() || window.is_empty() {
            return self.reported_by_rows(device, metric, window);
        }
        let of_rows = |part: Range<Duration>| {
            let mut rows = self.with_rows(self.around(&part).to_vec());
            if part.start >= self.ledger.whole_from {
                rows.rows.retain(|row| row.time >= self.ledger.whole_from);
                rows.interval = self.ledger.interval;
            }
            rows.reported_by_rows(device, metric, &part)
        };
        self.ledger.reported(device, metric, window, of_rows)
    }

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
