//! A copy of rows, to compute their energies before the rows are thinned.
//!
//! Method: [`Trace::batch`] copies rows under the sampler's lock, [`RowBatch::sum_up`] computes
//! energies without the lock, and the sampler then replaces its ledger by the returned one.

use crate::energy::PowerEstimate;
use crate::ledger::EnergyEntry;
use crate::reported::{METRICS, Reported};
use crate::trace::CONTEXT;
use crate::{Ledger, Metric, Trace};
use std::ops::Range;
use std::time::Duration;

/// Divisor of the capacity: up to `capacity / WHOLE_SHARE` of the newest rows are not thinned,
/// because the energies of later windows need these rows.
const WHOLE_SHARE: usize = 4;
/// Maximum number of estimates of power that a batch computes from the energy counter of a device:
/// one for the longest time without a reset of the counter, and others for windows before or after
/// a reset. A power metric needs only one estimate.
const MAX_ESTIMATES: usize = 4;

/// A copy of rows and regions of a trace, with the starts of open regions.
#[derive(Debug)]
pub(crate) struct RowBatch {
    trace: Trace,
    open: Vec<Duration>,
    capacity: usize,
}

/// Estimates of power computed so far for one metric of one device.
#[derive(Default)]
struct Cached {
    estimate: Vec<PowerEstimate>,
    n_tries: usize,
}

/// A calculator of the reported energies of a trace, with a cache of estimates of power.
struct Sums<'a> {
    trace: &'a Trace,
    all_s: (f64, f64),
    /// Cached estimates by device and metric.
    cached: Vec<[Cached; METRICS.len()]>,
    /// Time of the first row of each device.
    first_rows: Vec<Option<Duration>>,
    ceilings_w: Vec<f64>,
}

impl Trace {
    /// Copies the rows after the ledger's last slice, and the rows before its end that have not
    /// been thinned.
    pub(crate) fn batch(&self, open: &[Duration], capacity: usize) -> RowBatch {
        let mut ledger = self.ledger.clone();
        // Before the first thinning, the trace's interval is the requested one.
        if ledger.interval.is_zero() {
            ledger.interval = self.interval;
        }
        let from = ledger.whole_from.min(ledger.end());
        let first = self.rows.partition_point(|row| row.time < from);
        let mut trace = self.with_rows(self.rows[first..].to_vec());
        let end = ledger.end();
        let marks = self.regions.iter().filter(|mark| mark.end > end);
        trace.regions = marks.cloned().collect();
        trace.interval = ledger.interval;
        trace.ledger = ledger;
        RowBatch {
            trace,
            open: open.to_vec(),
            capacity,
        }
    }
}

impl RowBatch {
    /// Computes the energies of this batch and returns the extended ledger. Rows before its
    /// [`Ledger::complete_from`] may be thinned.
    pub(crate) fn sum_up(self) -> Ledger {
        let trace = &self.trace;
        let mut ledger = trace.ledger.clone();
        let first = trace
            .rows
            .partition_point(|row| row.time < ledger.whole_from);
        let whole = &trace.rows[first..];
        let Some(last) = whole.last() else {
            return ledger;
        };
        let n_whole = (self.capacity / WHOLE_SHARE).max(1).min(whole.len());
        let since = whole[whole.len() - n_whole].time;
        // Rows on both sides of the edge are needed to find the sensor's phase at the edge.
        let around = (last.time.saturating_sub(since) / 2).min(CONTEXT);
        let end = last.time.saturating_sub(around);
        if end <= ledger.end() {
            ledger.thin_before(since);
            return ledger;
        }
        let mut sums = Sums::new(trace);
        ledger.ceilings_w = std::sync::Arc::new(sums.ceilings_w.clone());
        let edges = self.edges(ledger.end()..end);
        let slices = edges.windows(2).map(|pair| {
            let window = pair[0]..pair[1];
            sums.entry(&window, |sums, device, metric| {
                sums.reported(device, metric, &window)
            })
        });
        ledger.add_slices(slices.collect());
        let regions = self.regions(&mut sums, &ledger, end);
        ledger.add_regions(regions);
        ledger.thin_before(end.saturating_sub(around));
        ledger
    }

    /// Returns the edges of the slices of a window: its ends, and the starts of regions that end
    /// after the window, so that such a region can later be summed from slices.
    fn edges(&self, window: Range<Duration>) -> Vec<Duration> {
        let left = self
            .trace
            .regions
            .iter()
            .filter(|mark| mark.end > window.end);
        let starts = left.map(|mark| mark.start).chain(self.open.iter().copied());
        let mut edges: Vec<Duration> = starts
            .filter(|start| *start > window.start && *start < window.end)
            .chain([window.start, window.end])
            .collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// Computes the energies of regions that ended before a time and are not in the ledger yet.
    fn regions(&self, sums: &mut Sums<'_>, ledger: &Ledger, end: Duration) -> Vec<EnergyEntry> {
        let windows = self.trace.regions.iter().map(|mark| mark.start..mark.end);
        let left = windows.filter(|window| window.end <= end && ledger.region(window).is_none());
        let energies = left.map(|window| {
            sums.entry(&window, |sums, device, metric| {
                ledger.reported(device, metric, &window, |part| {
                    sums.reported(device, metric, &part)
                })
            })
        });
        // After slices were joined, the start of a region may no longer be an edge of a slice. Its
        // energy would need thinned rows, which this batch does not have.
        let is_known =
            |entry: &EnergyEntry| entry.energies.iter().any(|of_device| !of_device.is_empty());
        energies.filter(is_known).collect()
    }
}

impl<'a> Sums<'a> {
    fn new(trace: &'a Trace) -> Self {
        let seconds = |row: Option<&crate::Row>| row.map_or(0.0, |row| row.time.as_secs_f64());
        let known_w = |device: usize| trace.ledger.ceilings_w.get(device).copied().unwrap_or(0.0);
        let ceiling_w = |device| trace.ceiling_w(device).unwrap_or(0.0).max(known_w(device));
        let devices = 0..trace.devices.len();
        let first_row = |device| trace.device_rows(device).next().map(|row| row.time);
        Self {
            trace,
            all_s: (seconds(trace.rows.first()), seconds(trace.rows.last())),
            cached: devices.clone().map(|_| Default::default()).collect(),
            first_rows: devices.clone().map(first_row).collect(),
            ceilings_w: devices.map(ceiling_w).collect(),
        }
    }

    /// Creates the entry of a window; `reported` computes the energy of each device and metric.
    fn entry(
        &mut self,
        window: &Range<Duration>,
        reported: impl Fn(&mut Self, usize, Metric) -> Option<Reported>,
    ) -> EnergyEntry {
        let devices = 0..self.trace.devices.len();
        let of_device = |device: usize| {
            let of_metric = |metric| reported(self, device, metric);
            METRICS.into_iter().filter_map(of_metric).collect()
        };
        EnergyEntry {
            window: window.clone(),
            energies: devices.map(of_device).collect(),
        }
    }

    /// Returns the reported energy of a window.
    ///
    /// Devices are read in turn, so the first row of most devices is later than the start of the
    /// trace. For a window that begins with the trace, the bounds allow for any power until the
    /// first row.
    fn reported(
        &mut self,
        device: usize,
        metric: Metric,
        window: &Range<Duration>,
    ) -> Option<Reported> {
        let first_row = self.first_rows[device]?;
        let is_first = window.start.is_zero() && first_row < window.end;
        let start = if is_first { first_row } else { window.start };
        let (from_s, to_s) = (start.as_secs_f64(), window.end.as_secs_f64());
        let found = self.by_cells(device, metric, from_s, to_s)?;
        let gained_s = from_s - window.start.as_secs_f64();
        Some(found.reshaped(0.0, gained_s, self.ceilings_w[device]))
    }

    /// Returns the energy from a cached estimate that covers the window, or from a new estimate
    /// while fewer than [`MAX_ESTIMATES`] were tried.
    fn by_cells(
        &mut self,
        device: usize,
        metric: Metric,
        from_s: f64,
        to_s: f64,
    ) -> Option<Reported> {
        let place = METRICS.iter().position(|known| *known == metric)?;
        // The first estimate covers all rows. Only a counter may be reset and need further ones.
        let cached = &mut self.cached[device][place];
        if cached.n_tries == 0 {
            cached
                .estimate
                .extend(self.trace.power_estimate(device, metric, self.all_s));
            let is_counter = metric == Metric::Energy && !cached.estimate.is_empty();
            cached.n_tries = if is_counter { 1 } else { MAX_ESTIMATES };
        }
        let covering = |estimate: &PowerEstimate| estimate.reported(metric, from_s, to_s);
        if let Some(found) = cached.estimate.iter().find_map(covering) {
            return Some(found);
        }
        if cached.n_tries >= MAX_ESTIMATES {
            return None;
        }
        cached.n_tries += 1;
        let estimate = self.trace.power_estimate(device, metric, (from_s, to_s))?;
        let found = estimate.reported(metric, from_s, to_s);
        cached.estimate.push(estimate);
        found
    }
}
