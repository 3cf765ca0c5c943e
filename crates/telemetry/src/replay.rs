//! Source that replays a recorded trace.

use crate::Values;
use crate::device::Device;
use crate::source::{Reading, Source};
use crate::trace::Trace;
use std::time::Duration;

/// A source that replays a recorded trace.
///
/// A reading at time `t` returns the values of the newest row at or before `t`. There are no values
/// before the first row, nor more than one interval after the trace's last row.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Trace,
    /// Times and values of the rows, per device.
    rows: Vec<Vec<(Duration, Values)>>,
}

impl Replay {
    /// Creates a source from a trace.
    #[must_use]
    pub fn new(trace: Trace) -> Self {
        let of_device = |device| {
            let rows = trace.device_rows(device);
            rows.map(|row| (row.time, row.values)).collect()
        };
        Self {
            rows: (0..trace.devices.len()).map(of_device).collect(),
            trace,
        }
    }

    /// Returns the recorded trace.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

impl Source for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn devices(&self) -> &[Device] {
        &self.trace.devices
    }

    fn read(&mut self, device: usize, now: Duration) -> Reading {
        let rows = &self.rows[device];
        // Rows are sorted by time, so a binary search finds the newest row at or before `now`.
        let n_past = rows.partition_point(|&(time, _)| time <= now);
        let is_over = now > self.trace.duration().saturating_add(self.trace.interval);
        let newest = rows[..n_past].last().filter(|_| !is_over);
        Reading {
            values: newest.map_or_else(Values::none, |&(_, values)| values),
            faults: vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Metric, Row, Sampler};

    #[test]
    fn a_replayed_trace_sampled_as_it_was_is_itself() {
        let device = Device::new(Kind::Gpu, "recorded");
        let row = |step: u32| {
            let mut values = Values::none();
            values.set(Metric::PowerDraw, f64::from(step * step));
            Row {
                device: 0,
                time: Duration::from_millis(100) * step,
                values,
            }
        };
        let trace = Trace {
            interval: Duration::from_millis(100),
            devices: vec![device],
            rows: (1..50).map(row).collect(),
            ..Trace::default()
        };
        let sampled = Sampler::new(Replay::new(trace.clone()))
            .record(Duration::from_secs(9))
            .unwrap();
        let reported = sampled
            .rows
            .iter()
            .filter(|row| row.values != Values::none());
        assert!(reported.clone().take(49).eq(&trace.rows));
        // The last row remains valid for one more interval.
        assert_eq!(reported.count(), 50);
    }
}
