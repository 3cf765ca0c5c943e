//! A trace: readings of devices over a time, with the data that later analysis needs.

use crate::{Device, Fault, Ledger, Metric, Result, Select, Values, energy};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

/// Sampled rows of devices, with regions of code.
///
/// Rows are in the order of their times; times count from the start of the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Name of the source: `nvml`.
    pub source: String,
    /// When it began, in ns since 1970, by the machine's wall clock.
    pub began_unix_ns: u64,
    /// The time between two rows of a device: the requested one, or more where memory had no room.
    pub interval: Duration,
    /// The devices.
    pub devices: Vec<Device>,
    /// The readings.
    pub rows: Vec<Row>,
    /// Regions of code that were left, in the order of their starts.
    pub marks: Vec<Mark>,
    /// How many more there were for which memory had no room.
    pub n_marks_left_out: u64,
    /// Faults of metrics, with their numbers.
    pub faults: Vec<FaultCount>,
    /// The cost of sampling itself.
    pub overhead: Option<Overhead>,
    /// Energies of rows that are no longer in `rows`.
    pub ledger: Ledger,
}

/// A reading of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Position of the device among the trace's.
    pub device: usize,
    /// When it was read.
    pub time: Duration,
    /// The values.
    pub values: Values,
}

/// A region of code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// When it was entered.
    pub start: Duration,
    /// When it was left.
    pub end: Duration,
    /// Number of open regions of the same thread at its start.
    pub depth: usize,
    /// Number of its thread, from 0 in the order of first regions; 0 in files of versions without
    /// threads.
    #[serde(default)]
    pub thread: usize,
}

/// How often a metric of a device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCount {
    /// Position of the device among the trace's.
    pub device: usize,
    /// The metric.
    pub metric: Metric,
    /// Why.
    pub fault: Fault,
    /// When it did first.
    pub first: Duration,
    /// How often.
    pub count: u64,
}

/// The cost of sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Time that the sampler's thread spent on a processor; none where the system does not report
    /// it.
    pub cpu: Option<Duration>,
    /// Time that the trace took so far.
    pub wall: Duration,
    /// Rounds, each of which reads every device.
    pub ticks: u64,
    /// Rounds that were due while an earlier one ran, and were left out.
    pub missed: u64,
    /// The latest start of a round after it was due.
    pub latest: Duration,
    /// The longest time that a round took.
    pub longest: Duration,
}

impl Trace {
    /// Returns a trace of the same devices with other rows and without regions.
    pub(crate) fn with_rows(&self, rows: Vec<Row>) -> Self {
        Self {
            source: self.source.clone(),
            devices: self.devices.clone(),
            marks: vec![],
            faults: self.faults.clone(),
            ledger: Ledger::default(),
            rows,
            ..*self
        }
    }

    /// Returns the rows of a window and of the time around it that its energy depends on.
    pub(crate) fn around(&self, window: &Range<Duration>) -> &[Row] {
        let from = window.start.saturating_sub(energy::CONTEXT);
        let to = window.end.saturating_add(energy::CONTEXT);
        let first = self.rows.partition_point(|row| row.time < from);
        let last = self.rows.partition_point(|row| row.time <= to);
        &self.rows[first..last.max(first)]
    }

    /// Returns a copy of the rows of a window and around it, which shares the ledger.
    pub(crate) fn excerpt(&self, window: &Range<Duration>) -> Self {
        Self {
            ledger: self.ledger.clone(),
            ..self.with_rows(self.around(window).to_vec())
        }
    }

    /// Returns the trace of some devices only.
    ///
    /// # Errors
    /// [`crate::Error::NoDevice`] if the selection is empty.
    pub fn of_selected(mut self, select: &Select) -> Result<Self> {
        let selected = select.among(&self.devices)?;
        self.ledger.select(&selected);
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

    /// Returns a device's rows.
    pub fn of_device(&self, device: usize) -> impl Iterator<Item = &Row> + Clone + '_ {
        self.rows.iter().filter(move |row| row.device == device)
    }

    /// Returns times, in s, and values of a metric, of the rows that have one.
    #[must_use]
    pub fn series(&self, device: usize, metric: Metric) -> Vec<(f64, f64)> {
        let point = |row: &Row| Some((row.time.as_secs_f64(), row.values.get(metric)?));
        self.of_device(device).filter_map(point).collect()
    }

    /// Returns the time of the last row.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.rows.last().map_or(Duration::ZERO, |row| row.time)
    }

    /// Counts a fault.
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
