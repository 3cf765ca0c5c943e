//! Traces: readings of devices over time, with the metadata that later analysis needs.

use crate::{Device, Fault, Ledger, Metric, Result, Select, Values};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

/// Length of the time before and after a window whose rows are used to find the sensor's phase.
pub(crate) const CONTEXT: Duration = Duration::from_secs(20);

/// A recording of devices: sampled rows, and the regions of code that ran meanwhile.
///
/// Rows are in the order of their times. All times count from the start of the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Name of the source, such as `nvml`.
    pub source: String,
    /// Start of the trace by the machine's wall clock, in ns since 1970.
    pub began_unix_ns: u64,
    /// Time between two rows of a device. Larger than requested if rows had to be thinned for
    /// memory.
    pub interval: Duration,
    /// The sampled devices.
    pub devices: Vec<Device>,
    /// Readings, in the order of their times.
    pub rows: Vec<Row>,
    /// Regions of code that have ended, in the order of their starts.
    pub regions: Vec<Region>,
    /// Number of further regions of code that were dropped for lack of memory.
    pub n_regions_left_out: u64,
    /// Metrics without a value, with the reason and the number of occurrences.
    pub faults: Vec<FaultCount>,
    /// The cost of sampling itself.
    pub overhead: Option<Overhead>,
    /// Energies of rows that were removed from `rows` to save memory.
    pub ledger: Ledger,
}

/// A reading of a device at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Position of the device in [`Trace::devices`].
    pub device: usize,
    /// Time of the reading.
    pub time: Duration,
    /// Values of the metrics.
    pub values: Values,
}

/// A region of code that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Name of the region.
    pub name: String,
    /// Start of the region.
    pub start: Duration,
    /// End of the region.
    pub end: Duration,
    /// Number of open regions of the same thread at its start.
    pub depth: usize,
    /// Number of the region's thread. Threads are numbered from 0 in the order of their first
    /// region; 0 in older files without threads.
    #[serde(default)]
    pub thread: usize,
}

/// The number of times that a metric of a device had a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCount {
    /// Position of the device in [`Trace::devices`].
    pub device: usize,
    /// Metric that has no value.
    pub metric: Metric,
    /// Kind of the fault.
    pub fault: Fault,
    /// Time of the first occurrence.
    pub first: Duration,
    /// Number of occurrences.
    pub count: u64,
}

/// The cost of sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// CPU time of the sampler's thread; `None` if the system does not report CPU time.
    pub cpu: Option<Duration>,
    /// Length of the trace so far.
    pub wall: Duration,
    /// Number of completed rounds, each of which reads every device.
    pub ticks: u64,
    /// Number of rounds that were skipped because an earlier round was still running.
    pub missed: u64,
    /// Longest delay between the due time and the start of a round.
    pub latest: Duration,
    /// Longest duration of a round.
    pub longest: Duration,
}

impl Row {
    /// Returns whether the row has a value of any metric.
    pub(crate) fn has_value(&self) -> bool {
        self.values.iter().next().is_some()
    }
}

impl Trace {
    /// Returns a trace of the same devices with other rows and without regions.
    pub(crate) fn with_rows(&self, rows: Vec<Row>) -> Self {
        Self {
            source: self.source.clone(),
            devices: self.devices.clone(),
            regions: vec![],
            faults: self.faults.clone(),
            ledger: Ledger::default(),
            rows,
            ..*self
        }
    }

    /// Returns the rows of a window, and the rows around the window that its energy depends on.
    pub(crate) fn around(&self, window: &Range<Duration>) -> &[Row] {
        let from = window.start.saturating_sub(CONTEXT);
        let to = window.end.saturating_add(CONTEXT);
        let first = self.rows.partition_point(|row| row.time < from);
        let last = self.rows.partition_point(|row| row.time <= to);
        &self.rows[first..last.max(first)]
    }

    /// Returns a trace with a copy of the rows in and around a window, and with the ledger.
    pub(crate) fn excerpt(&self, window: &Range<Duration>) -> Self {
        Self {
            ledger: self.ledger.clone(),
            ..self.with_rows(self.around(window).to_vec())
        }
    }

    /// Returns the trace of some devices only.
    ///
    /// # Errors
    /// [`crate::Error::NoDevice`] if a name matches no device or several, or if there are no
    /// devices.
    pub fn select(mut self, select: &Select) -> Result<Self> {
        let selected = select.among(&self.devices)?;
        self.ledger.select(&selected);
        // Old position to new position; rows and faults of other devices are removed.
        let place = |device: usize| selected.iter().position(|&found| found == device);
        self.rows.retain_mut(|row| {
            let found = place(row.device);
            row.device = found.unwrap_or_default();
            found.is_some()
        });
        self.faults.retain_mut(|fault| {
            let found = place(fault.device);
            fault.device = found.unwrap_or_default();
            found.is_some()
        });
        self.devices = selected.iter().map(|&i| self.devices[i].clone()).collect();
        Ok(self)
    }

    /// Returns the rows of a device.
    pub fn device_rows(&self, device: usize) -> impl Iterator<Item = &Row> + Clone + '_ {
        self.rows.iter().filter(move |row| row.device == device)
    }

    /// Returns (time in s, value) of a metric for each row of a device that has a value.
    #[must_use]
    pub fn series(&self, device: usize, metric: Metric) -> Vec<(f64, f64)> {
        let point = |row: &Row| Some((row.time.as_secs_f64(), row.values.get(metric)?));
        self.device_rows(device).filter_map(point).collect()
    }

    /// Returns the time of the last row, or zero if there are no rows.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.rows.last().map_or(Duration::ZERO, |row| row.time)
    }

    /// Counts an occurrence of a fault.
    pub(crate) fn count(&mut self, device: usize, metric: Metric, fault: Fault, now: Duration) {
        let is_it = |count: &&mut FaultCount| {
            (count.device, count.metric, count.fault) == (device, metric, fault)
        };
        match self.faults.iter_mut().find(is_it) {
            Some(known) => known.count += 1,
            None => self.faults.push(FaultCount {
                device,
                metric,
                fault,
                first: now,
                count: 1,
            }),
        }
    }
}
