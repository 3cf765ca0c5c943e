//! Who holds memory.
//!
//! Method: each array counts for the step that writes it, as long as it lives. Who held the peak is copied when the first array
//! goes after a new peak, not at each of the allocations that lead up to it.

use std::fmt;

use super::Profile;
use super::data::Subject;
use super::recorder::MAX_SPANS;
use super::table::{By, grouped, time};
use crate::plan::explain::bytes;

/// The arrays of one subject.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ArraysOf {
    allocations: u64,
    allocated: u64,
    live: u64,
    peak: u64,
}

/// All arrays.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrays {
    pub(super) live: u64,
    pub(super) peak: u64,
    peak_at: u64,
    /// The live bytes of each subject at the peak.
    at_peak: Vec<u64>,
    /// Whether nothing went since the peak was reached, and `at_peak` is of an earlier one.
    is_rising: bool,
    pub(super) curve: Vec<(u64, u64)>,
    pub(super) dropped_points: u64,
}

/// Memory by step, operation, line or name of a span.
///
/// Its text is a table: at the peak, alive at the end, allocated in all, the number of allocations, the most at one time.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Memory {
    /// The bytes alive when the profile was taken.
    pub live_bytes: u64,
    /// The most bytes alive at one time. Arrays are counted when the step that writes them has ended: where steps or runs
    /// overlap, another may have gone by then, and the executor's own peak be higher.
    pub peak_bytes: u64,
    /// When that was first reached.
    pub peak_ns: u64,
    /// What the executor's own counter rose to beyond these arrays and beyond what was alive before the profiler was made: the
    /// memory that steps take on the way, if the executor counts it and the profiler saw its counter rise. Where steps or runs
    /// overlap it is an upper bound.
    pub working_bytes: Option<u64>,
    /// The step after which the executor's counter was first seen at its highest.
    pub executor_peak_after: Option<String>,
    /// Who holds them, the largest share of the peak first.
    pub rows: Vec<MemoryRow>,
}

/// Arrays that belong together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryRow {
    /// The step, operation, line or span that wrote them.
    pub name: String,
    /// How many there were.
    pub allocations: u64,
    /// Their bytes in all.
    pub allocated_bytes: u64,
    /// The bytes alive when the profile was taken.
    pub live_bytes: u64,
    /// The bytes alive at the peak of all arrays. These add up to that peak.
    pub bytes_at_peak: u64,
    /// The most bytes of these alive at one time; where several steps make one row, the sum of theirs, an upper bound.
    pub peak_bytes: u64,
}

impl Arrays {
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

    pub(super) fn released(
        &mut self,
        now: u64,
        subjects: &mut [Subject],
        subject: usize,
        bytes: u64,
    ) {
        self.settle(subjects);
        let live = &mut subjects[subject].arrays.live;
        *live -= bytes;
        self.live -= bytes;
        self.point(self.later(now));
    }

    /// Copies who holds the peak, if all of it is still there.
    pub(super) fn settle(&mut self, subjects: &[Subject]) {
        if self.is_rising {
            self.at_peak.clear();
            let live = subjects.iter().map(|subject| subject.arrays.live);
            self.at_peak.extend(live);
            self.is_rising = false;
        }
    }

    /// A time that is not before the last point: another thread may have read the clock later and come first.
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

pub(super) fn of(profile: &Profile, by: By) -> Memory {
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
            "arrays: {} at the peak, after {}; {} still alive",
            show(self.peak_bytes),
            time(self.peak_ns as f64),
            show(self.live_bytes),
        )?;
        if let (Some(working), Some(after)) = (self.working_bytes, &self.executor_peak_after) {
            writeln!(
                f,
                "beyond them the executor counted at most {}; its highest after {after}",
                show(working)
            )?;
        }
        writeln!(
            f,
            "{:>10} {:>6} {:>10} {:>10} {:>7} {:>10}  held by",
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
