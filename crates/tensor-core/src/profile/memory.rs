//! Memory use by step, operation, line or span.
//!
//! Method: each array counts for the step that writes it, during its whole life. The live bytes of
//! each subject at the peak are copied at the first release after a new peak, not at every
//! allocation on the way to the peak.

use std::fmt;

use super::Profile;
use super::data::Subject;
use super::recorder::MAX_SPANS;
use super::table::{By, grouped, time};
use crate::plan::explain::bytes;

/// The number of allocations by one [`Subject`], and the sizes of its arrays in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ArraysOf {
    allocations: u64,
    allocated: u64,
    live: u64,
    peak: u64,
}

/// The counters for all arrays, in bytes, and their history; times are in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrays {
    pub(super) live: u64,
    pub(super) peak: u64,
    peak_at: u64,
    /// The live bytes of each subject at the peak.
    at_peak: Vec<u64>,
    /// Whether no array was released since the peak. `at_peak` is then still that of an earlier
    /// peak, until [`Self::settle`] updates it.
    is_rising: bool,
    pub(super) curve: Vec<(u64, u64)>,
    pub(super) dropped_points: u64,
}

/// The memory use by step, operation, line or name of a span.
///
/// The text form is a table: bytes at the peak, bytes live at the end, bytes allocated in total,
/// number of allocations, and the row's own peak.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Memory {
    /// The bytes live at the time of the snapshot.
    pub live_bytes: u64,
    /// The peak of the live bytes. Arrays are counted at the end of the step that writes them. If
    /// steps or runs overlap, another array may have been released by then, and the executor's own
    /// peak may be higher.
    pub peak_bytes: u64,
    /// The time at which the peak was first reached, in nanoseconds.
    pub peak_ns: u64,
    /// The temporary memory of steps: the rise of the executor's own counter beyond these arrays
    /// and beyond the bytes that were live before the profiler was created. `None` if the executor
    /// has no counter or its peak did not rise. If steps or runs overlap, the value is an upper
    /// bound.
    pub working_bytes: Option<u64>,
    /// The step after which the executor's peak was first seen.
    pub executor_peak_after: Option<String>,
    /// The rows, sorted by their bytes at the peak, largest first.
    pub rows: Vec<MemoryRow>,
}

/// The arrays of one step, operation, line or span name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryRow {
    /// The step, operation, line or span that wrote the arrays.
    pub name: String,
    /// The number of arrays.
    pub allocations: u64,
    /// The sum of their bytes over all allocations.
    pub allocated_bytes: u64,
    /// The bytes live at the time of the snapshot.
    pub live_bytes: u64,
    /// The bytes live at the peak of all arrays. The sum over all rows is this peak.
    pub bytes_at_peak: u64,
    /// The peak of this row's live bytes; an upper bound (the sum of the steps' peaks) if several
    /// steps share the row.
    pub peak_bytes: u64,
}

impl Arrays {
    /// Records an allocation of a subject.
    pub(super) fn allocated(&mut self, now: u64, of: &mut ArraysOf, bytes: u64) {
        of.allocations += 1;
        of.allocated = of.allocated.saturating_add(bytes);
        of.live += bytes;
        of.peak = of.peak.max(of.live);
        self.live += bytes;
        let now = self.later(now);
        if self.live > self.peak {
            self.peak = self.live;
            self.peak_at = now;
            self.is_rising = true;
        }
        self.point(now);
    }

    /// Records a release of a subject's array.
    pub(super) fn released(
        &mut self,
        now: u64,
        subjects: &mut [Subject],
        subject: usize,
        bytes: u64,
    ) {
        // A peak may end here: copy the live bytes of each subject before this array is subtracted.
        self.settle(subjects);
        let live = &mut subjects[subject].arrays.live;
        *live -= bytes;
        self.live -= bytes;
        self.point(self.later(now));
    }

    /// Copies the live bytes of each subject to `at_peak` if there is a new peak that has not been
    /// copied.
    pub(super) fn settle(&mut self, subjects: &[Subject]) {
        if self.is_rising {
            self.at_peak.clear();
            let live = subjects.iter().map(|subject| subject.arrays.live);
            self.at_peak.extend(live);
            self.is_rising = false;
        }
    }

    /// Returns `now`, or the time of the last point if that is later: another thread may have read
    /// the clock later, but taken the lock first.
    fn later(&self, now: u64) -> u64 {
        self.curve.last().map_or(now, |(last, _)| now.max(*last))
    }

    fn point(&mut self, now: u64) {
        if self.curve.len() < MAX_SPANS {
            self.curve.push((now, self.live));
        } else {
            self.dropped_points += 1;
        }
    }
}

pub(super) fn summarize(profile: &Profile, by: By) -> Memory {
    let data = &profile.data;
    let mut rows = grouped(data, by, |row: &mut MemoryRow, number, subject, is_last| {
        if !is_last {
            return;
        }
        let held = &subject.arrays;
        row.allocations += held.allocations;
        row.allocated_bytes = row.allocated_bytes.saturating_add(held.allocated);
        row.live_bytes += held.live;
        row.peak_bytes = row.peak_bytes.saturating_add(held.peak);
        row.bytes_at_peak += data.arrays.at_peak.get(number).copied().unwrap_or(0);
    });
    let mut rows: Vec<MemoryRow> = rows
        .drain(..)
        .map(|(name, row)| MemoryRow { name, ..row })
        .filter(|row| row.allocations > 0)
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.bytes_at_peak, row.peak_bytes)));
    let raised = data.executor.filter(|executor| executor.subject.is_some());
    let name = |subject: u32| data.subjects[subject as usize].what.short().into_owned();
    Memory {
        live_bytes: data.arrays.live,
        peak_bytes: data.arrays.peak,
        peak_ns: data.arrays.peak_at,
        working_bytes: raised.map(|executor| {
            let beyond = executor.peak.saturating_sub(executor.before.live_bytes);
            (beyond as u64).saturating_sub(data.arrays.peak)
        }),
        executor_peak_after: raised.and_then(|executor| executor.subject).map(name),
        rows,
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |count: u64| bytes(usize::try_from(count).unwrap_or(usize::MAX));
        writeln!(
            f,
            "arrays: peak {} after {}; {} still live",
            show(self.peak_bytes),
            time(self.peak_ns as f64),
            show(self.live_bytes),
        )?;
        if let (Some(working), Some(after)) = (self.working_bytes, &self.executor_peak_after) {
            writeln!(
                f,
                "working memory of steps: at most {}; peak of the executor after {after}",
                show(working)
            )?;
        }
        writeln!(
            f,
            "{:>10} {:>6} {:>10} {:>10} {:>7} {:>10}  allocated by",
            "at peak", "share", "own peak", "alive", "arrays", "allocated"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:>10} {:>5.1}% {:>10} {:>10} {:>7} {:>10}  {}",
                show(row.bytes_at_peak),
                100.0 * row.bytes_at_peak as f64 / (self.peak_bytes as f64).max(1.0),
                show(row.peak_bytes),
                show(row.live_bytes),
                row.allocations,
                show(row.allocated_bytes),
                row.name,
            )?;
        }
        Ok(())
    }
}
