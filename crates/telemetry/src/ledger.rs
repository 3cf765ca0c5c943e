//! Energies of rows that are no longer in memory.
//!
//! Role: the rows of a long trace are thinned, and an energy computed from thinned rows has wide
//! bounds: ±100 % for 1 h without a counter, compared with ±11 % from all rows. The sampler
//! therefore computes energies before it thins rows.
//! Method: the past is divided into consecutive slices. The energy of a slice is computed while its
//! rows and the rows around it are all in memory, and so is the energy of each region of code that
//! has ended. The start of a region that is open when rows are thinned becomes the edge of a slice.
//! The energy of a window is the sum of its slices, and of rows at both ends:
//! ```text
//! window  |-------------------------------------|
//! parts   | rows | slice | slice | slice | rows |
//! ```
//! Energies are stored as reported ([`Reported`]) and calibrated when they are read.
//! Concurrency: a [`RowBatch`] holds a copy of the rows, so energies are computed without the
//! sampler's lock. Cells of power are computed once for each device and metric of a batch,
//! independently of the number of slices and regions. Slices and regions are shared, so a copy of a
//! ledger is cheap.
//! Accuracy: bounds add up. Each edge of a slice adds the uncertainty of two ends, which is below
//! 1 % of a slice of a minute. If an end of a window is up to a read interval from the edge of a
//! slice, the edge is used, and the bounds allow for any power up to the device's limit in between.
//! A slice that a metric does not cover, for example while a device was lost, is a gap of any power
//! up to that limit.
//! Limits: at most [`MAX_SLICES`] slices; then pairs of neighbours are joined. A window that is not
//! a region and begins or ends within a slice depends on thinned rows there.

use crate::Metric;
use crate::reported::{METRICS, Reported};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of slices of a ledger.
const MAX_SLICES: usize = 1 << 12;
/// Maximum share of a window that a metric may leave uncovered. The same limit applies to energies
/// that are computed from rows.
const MOST_MISSING: f64 = 0.5;

/// Energies of slices of time and of regions of code whose rows were thinned. A ledger is empty if
/// all rows fit into memory, and for a trace that was read from a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    slices: Arc<Vec<EnergyEntry>>,
    regions: Arc<Vec<EnergyEntry>>,
    /// Highest possible power of each device, in W.
    pub(crate) ceilings_w: Arc<Vec<f64>>,
    /// The time from which on all rows are in memory.
    pub(crate) whole_from: Duration,
    /// The read interval that was requested; zero before rows were thinned.
    pub(crate) interval: Duration,
}

/// The reported energies of a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EnergyEntry {
    pub(crate) window: Range<Duration>,
    /// For each device, the energies by all metrics that cover the window.
    pub(crate) energies: Vec<Vec<Reported>>,
}

impl Ledger {
    /// Returns whether the ledger is empty, which means that no rows were thinned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Returns the time from which on no row was thinned.
    #[must_use]
    pub fn complete_from(&self) -> Duration {
        self.whole_from
    }

    /// Marks rows before a time as thinned.
    pub(crate) fn thin_before(&mut self, time: Duration) {
        self.whole_from = self.whole_from.max(time);
    }

    /// Keeps only the energies of the devices in `selected`, in the order of `selected`.
    pub(crate) fn select(&mut self, selected: &[usize]) {
        for entries in [&mut self.slices, &mut self.regions] {
            for entry in Arc::make_mut(entries) {
                let of = |&device: &usize| entry.energies.get(device).cloned().unwrap_or_default();
                entry.energies = selected.iter().map(of).collect();
            }
        }
        let ceiling_w = |&device: &usize| self.ceilings_w.get(device).copied().unwrap_or(0.0);
        self.ceilings_w = Arc::new(selected.iter().map(ceiling_w).collect());
    }

    /// Returns the end of the last slice; zero without slices.
    pub(crate) fn end(&self) -> Duration {
        let last = self.slices.last();
        last.map_or(Duration::ZERO, |last| last.window.end)
    }

    /// Returns the reported energy of a window: the stored energy if the window is a region, and
    /// otherwise the sum of the window's slices and of the rows before and after the slices, which
    /// `of_rows` computes. Returns `None` if the metric does not cover enough of the window.
    pub(crate) fn reported(
        &self,
        device: usize,
        metric: Metric,
        window: &Range<Duration>,
        mut of_rows: impl FnMut(Range<Duration>) -> Option<Reported>,
    ) -> Option<Reported> {
        if let Some(region) = self.region(window) {
            return region.reported(device, metric);
        }
        let slices = self.within(window);
        let (Some(first), Some(last)) = (slices.first(), slices.last()) else {
            return of_rows(window.clone());
        };
        let (start, end) = (first.window.start, last.window.end);
        let (sum, missing_s) = summed(slices, device, metric)?;
        // The slices may extend beyond the window, and the metric may not cover all of them. The
        // surplus time is subtracted and the uncovered time is added, each with bounds for any
        // power.
        let lost_s = seconds(start, window.start) + seconds(window.end, end);
        let mut gained_s = missing_s;
        let mut parts = vec![];
        for part in [window.start..start, end..window.end] {
            let is_short = part.end.saturating_sub(part.start) <= self.interval;
            // For a short time, "any power" has narrower bounds than thinned rows.
            let is_bounded = is_short && part.start < self.whole_from;
            let found = (!is_bounded && !part.is_empty()).then(|| of_rows(part.clone()));
            match found.flatten() {
                Some(found) => parts.push(found),
                None if is_short => gained_s += seconds(part.start, part.end),
                None => return None,
            }
        }
        let ceiling_w = *self.ceilings_w.get(device)?;
        let sum = sum.reshaped(lost_s, gained_s, ceiling_w);
        Some(parts.iter().fold(sum, Reported::followed_by))
    }

    /// Returns the slices whose edges are nearest to the ends of a window. An edge outside the
    /// window is chosen only if it is at most a read interval away.
    fn within(&self, window: &Range<Duration>) -> &[EnergyEntry] {
        let slices = &self.slices;
        let is_nearer = |outside: Duration, inside: Option<Duration>| {
            outside <= self.interval && inside.is_none_or(|inside| outside < inside)
        };
        let start = |place: usize| Some(slices.get(place)?.window.start);
        // The first edge inside the window, unless the edge before the window is nearer.
        let mut first = slices.partition_point(|slice| slice.window.start < window.start);
        if first > 0
            && let Some(before) = start(first - 1)
            && is_nearer(
                window.start - before,
                start(first).map(|start| start - window.start),
            )
        {
            first -= 1;
        }
        let end = |place: usize| Some(slices.get(place)?.window.end);
        // The same choice at the end: `last` is the index after the last slice that is used.
        let mut last = slices.partition_point(|slice| slice.window.end <= window.end);
        let inside = last.checked_sub(1).and_then(end);
        if let Some(after) = end(last)
            && is_nearer(after - window.end, inside.map(|inside| window.end - inside))
        {
            last += 1;
        }
        &slices[first..last.max(first)]
    }

    /// Returns the entry of the region with this window; entries are sorted by start and end.
    pub(crate) fn region(&self, window: &Range<Duration>) -> Option<&EnergyEntry> {
        let key = |entry: &EnergyEntry| (entry.window.start, entry.window.end);
        let found = self
            .regions
            .binary_search_by_key(&(window.start, window.end), key);
        found.ok().map(|found| &self.regions[found])
    }

    /// Appends slices, and joins pairs of neighbours while there are more than [`MAX_SLICES`].
    pub(crate) fn add_slices(&mut self, added: Vec<EnergyEntry>) {
        let slices = Arc::make_mut(&mut self.slices);
        slices.extend(added);
        while slices.len() > MAX_SLICES {
            let joined = slices.chunks(2).map(|pair| match pair {
                [one, two] => one.followed_by(two),
                _ => pair[0].clone(),
            });
            *slices = joined.collect();
        }
    }

    pub(crate) fn add_regions(&mut self, added: Vec<EnergyEntry>) {
        let regions = Arc::make_mut(&mut self.regions);
        regions.extend(added);
        regions.sort_by_key(|entry| (entry.window.start, entry.window.end));
        regions.dedup_by(|a, b| a.window == b.window);
    }
}

impl EnergyEntry {
    fn reported(&self, device: usize, metric: Metric) -> Option<Reported> {
        let mut energies = self.energies.get(device)?.iter();
        energies.find(|energy| energy.metric == metric).copied()
    }

    /// Joins the slice with the next slice. If a metric covers only one of the two slices, the sum
    /// is the energy of that slice; [`Reported::covered_s`] records the covered time.
    fn followed_by(&self, next: &Self) -> Self {
        let of_device = |device: usize| {
            let sum = |metric| {
                let (one, two) = (self.reported(device, metric), next.reported(device, metric));
                match (one, two) {
                    (Some(one), Some(two)) => Some(one.followed_by(&two)),
                    (one, two) => one.or(two),
                }
            };
            METRICS.into_iter().filter_map(sum).collect()
        };
        Self {
            window: self.window.start..next.window.end,
            energies: (0..self.energies.len()).map(of_device).collect(),
        }
    }
}

/// Returns the sum of slices, and the length of the slices that the metric does not cover, in s;
/// `None` if the share of the uncovered slices exceeds [`MOST_MISSING`].
fn summed(slices: &[EnergyEntry], device: usize, metric: Metric) -> Option<(Reported, f64)> {
    let found = slices
        .iter()
        .filter_map(|slice| slice.reported(device, metric));
    let sum = found.reduce(|sum, next| sum.followed_by(&next))?;
    let (first, last) = (slices.first()?, slices.last()?);
    let lasts_s = seconds(first.window.start, last.window.end);
    let missing_s = (lasts_s - sum.covered_s).max(0.0);
    (missing_s <= MOST_MISSING * lasts_s).then_some((sum, missing_s))
}

/// Returns the time between two times, in s; 0 if `to` is before `from`.
fn seconds(from: Duration, to: Duration) -> f64 {
    to.saturating_sub(from).as_secs_f64()
}

#[cfg(test)]
mod tests;
