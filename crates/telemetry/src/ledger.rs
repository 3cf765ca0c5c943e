//! Energies of rows that memory no longer has.
//!
//! Role: a long trace is thinned, and thinned rows bound an energy badly: 1 h without a counter had ±100 % where its
//! file has ±11 %. The sampler therefore sums energies up before it thins rows.
//! Method: the past is divided into slices that follow each other. A slice gets its energy, by
//! [`Trace::energy`], while its rows and those around it are whole. A region of code that was left gets its energy
//! likewise, once the rows after it are there; a region that is open when rows are thinned begins at the edge of a
//! slice. A window is the sum of its slices, and of rows at both ends.
//! Accuracy: intervals add up. Each edge of a slice adds the uncertainty of two ends, which is below 1 % of a slice of
//! a minute.
//! Limits: [`MAX_SLICES`] slices, of which two neighbours become one where there are more. A window that was no region
//! and that begins or ends within a slice rests on thinned rows there.

use crate::Trace;
use crate::energy::{CONTEXT, Energy};
use std::ops::Range;
use std::time::Duration;

/// Most slices.
const MAX_SLICES: usize = 1 << 12;
/// Most regions that get an energy of their own each time that memory is thinned, the longest first.
const MAX_REGIONS: usize = 1 << 8;
/// A window that begins or ends within this share of the read interval of an edge begins or ends there.
const SAME_EDGE: u32 = 10;
/// Share of the capacity that stays whole at most: the rows that later energies need before them.
const WHOLE_SHARE: usize = 4;

/// Energies of slices and regions whose rows were thinned. Empty for a trace that fits into memory, and for one that
/// was read from a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    slices: Vec<Kept>,
    regions: Vec<Kept>,
    /// From this time on, rows are whole.
    whole_from: Duration,
    /// The read interval that was requested; zero before rows were thinned.
    interval: Duration,
}

/// The energies of a window, by device.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    window: Range<Duration>,
    energies: Vec<Option<Energy>>,
}

impl Ledger {
    /// Returns whether all rows are in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Returns the time from which on all rows are in memory.
    #[must_use]
    pub fn whole_from(&self) -> Duration {
        self.whole_from
    }

    /// Keeps the energies of some devices only, in the order of `selected`.
    pub(crate) fn select(&mut self, selected: &[usize]) {
        for kept in self.slices.iter_mut().chain(&mut self.regions) {
            let of = |&device: &usize| kept.energies.get(device).cloned().flatten();
            kept.energies = selected.iter().map(of).collect();
        }
    }

    fn end(&self) -> Duration {
        self.slices
            .last()
            .map_or(Duration::ZERO, |last| last.window.end)
    }

    /// Returns the slices within a window.
    fn within(&self, window: &Range<Duration>) -> &[Kept] {
        let edge = self.interval / SAME_EDGE;
        let first = self
            .slices
            .partition_point(|slice| slice.window.start + edge < window.start);
        let last = self
            .slices
            .partition_point(|slice| slice.window.end <= window.end + edge);
        &self.slices[first..last.max(first)]
    }

    /// Makes one slice of two neighbours, throughout.
    fn halve(&mut self) {
        let pairs = self.slices.chunks(2);
        self.slices = pairs
            .map(|pair| match pair {
                [one, two] => one.followed_by(two),
                _ => pair[0].clone(),
            })
            .collect();
    }
}

impl Kept {
    fn followed_by(&self, next: &Self) -> Self {
        let pairs = self.energies.iter().zip(&next.energies);
        let sum = |(one, two): (&Option<Energy>, &Option<Energy>)| {
            Some(one.as_ref()?.followed_by(two.as_ref()?))
        };
        Self {
            window: self.window.start..next.window.end,
            energies: pairs.map(sum).collect(),
        }
    }
}

impl Trace {
    /// Sums up the energies of the past, for which `open` holds the starts of open regions, and returns the time before
    /// which rows may be thinned; none if hardly any time passed.
    pub(crate) fn sum_up(&mut self, open: &[Duration], capacity: usize) -> Option<Duration> {
        // Before the first thinning, the trace's interval is the requested one.
        if self.ledger.interval.is_zero() {
            self.ledger.interval = self.interval;
        }
        let first = self
            .rows
            .partition_point(|row| row.time < self.ledger.whole_from);
        let whole = &self.rows[first..];
        let (start, now) = (whole.first()?.time, whole.last()?.time);
        let start = if self.ledger.is_empty() {
            start
        } else {
            self.ledger.end()
        };
        let kept_rows = (capacity / WHOLE_SHARE).max(1).min(whole.len());
        let since = whole[whole.len() - kept_rows].time;
        // Rows on both sides of the edge help to find the sensor's phase there.
        let around = (now.saturating_sub(since) / 2).min(CONTEXT);
        let end = now.saturating_sub(around);
        if end <= start {
            return Some(since);
        }
        self.slice(start..end, open);
        self.keep_regions(end);
        if self.ledger.slices.len() > MAX_SLICES {
            self.ledger.halve();
        }
        Some(end.saturating_sub(around))
    }

    /// Adds slices, with edges at the starts of regions that go on beyond them.
    fn slice(&mut self, window: Range<Duration>, open: &[Duration]) {
        let left = self.marks.iter().filter(|mark| mark.end > window.end);
        let starts = left.map(|mark| mark.start).chain(open.iter().copied());
        let mut edges: Vec<Duration> = starts
            .filter(|start| *start > window.start && *start < window.end)
            .chain([window.start, window.end])
            .collect();
        edges.sort_unstable();
        edges.dedup();
        let energies: Vec<Kept> = edges
            .windows(2)
            .map(|pair| self.kept(&(pair[0]..pair[1])))
            .collect();
        self.ledger.slices.extend(energies);
    }

    /// Keeps the energies of regions that were left before a time, and are not kept yet.
    fn keep_regions(&mut self, end: Duration) {
        let known = |window: &Range<Duration>| self.ledger.region(window).is_some();
        let windows = self.marks.iter().map(|mark| mark.start..mark.end);
        let left = windows.filter(|window| window.end <= end && !known(window));
        let mut left: Vec<Range<Duration>> = left.collect();
        // Sampling waits meanwhile, so of many short regions those are left out that hardly hold an update.
        left.sort_by_key(|window| std::cmp::Reverse(window.end.saturating_sub(window.start)));
        left.truncate(MAX_REGIONS);
        let regions: Vec<Kept> = left.iter().map(|window| self.kept(window)).collect();
        self.ledger.regions.extend(regions);
        self.ledger
            .regions
            .sort_by_key(|kept| (kept.window.start, kept.window.end));
        self.ledger.regions.dedup_by(|a, b| a.window == b.window);
    }

    fn kept(&self, window: &Range<Duration>) -> Kept {
        let devices = 0..self.devices.len();
        Kept {
            window: window.clone(),
            energies: devices
                .map(|device| self.energy(device, window.clone()))
                .collect(),
        }
    }

    /// Marks rows before a time as thinned.
    pub(crate) fn is_whole_from(&mut self, time: Duration) {
        self.ledger.whole_from = self.ledger.whole_from.max(time);
    }

    /// Returns the energy of a window by slices and regions; none if it has none of them, so that rows have to do.
    pub(crate) fn energy_by_ledger(
        &self,
        device: usize,
        window: &Range<Duration>,
    ) -> Option<Energy> {
        let ledger = &self.ledger;
        if ledger.is_empty() {
            return None;
        }
        if let Some(region) = ledger.region(window) {
            return region.energies.get(device)?.clone();
        }
        let slices = ledger.within(window);
        let (Some(first), Some(last)) = (slices.first(), slices.last()) else {
            let is_whole = window.start >= ledger.whole_from;
            return is_whole.then(|| self.energy_by_rows(device, window.clone(), true))?;
        };
        let edge = ledger.interval / SAME_EDGE;
        let head = window.start..first.window.start;
        let tail = last.window.end..window.end;
        let has = |part: &Range<Duration>| part.end.saturating_sub(part.start) > edge;
        let mut sum: Option<Energy> = None;
        let mut add = |part: Energy| {
            sum = Some(match &sum {
                Some(sum) => sum.followed_by(&part),
                None => part,
            });
        };
        if has(&head) {
            let is_whole = head.start >= ledger.whole_from;
            add(self.energy_by_rows(device, head, is_whole)?);
        }
        for slice in slices {
            add(slice.energies.get(device)?.clone()?);
        }
        if has(&tail) {
            let is_whole = tail.start >= ledger.whole_from;
            add(self.energy_by_rows(device, tail, is_whole)?);
        }
        sum.map(|sum| Energy {
            window: window.clone(),
            ..sum
        })
    }

    /// Returns the energy by rows: all of them, or only those that are whole.
    fn energy_by_rows(
        &self,
        device: usize,
        window: Range<Duration>,
        is_whole: bool,
    ) -> Option<Energy> {
        let mut trace = self.excerpt(&window);
        trace.ledger = Ledger::default();
        if is_whole {
            trace.rows.retain(|row| row.time >= self.ledger.whole_from);
            trace.interval = self.ledger.interval;
        }
        trace.energy(device, window)
    }
}

impl Ledger {
    fn region(&self, window: &Range<Duration>) -> Option<&Kept> {
        let key = |kept: &Kept| (kept.window.start, kept.window.end);
        let found = self
            .regions
            .binary_search_by_key(&(window.start, window.end), key);
        found.ok().map(|found| &self.regions[found])
    }
}

impl Energy {
    /// Returns the energy of two windows that follow each other; the worse of both methods counts.
    fn followed_by(&self, next: &Self) -> Self {
        let worse = if next.method > self.method {
            next
        } else {
            self
        };
        let check = match (self.check, next.check) {
            (Some(one), Some(two)) if one.method == two.method => Some(crate::EnergyCheck {
                joules: one.joules + two.joules,
                interval: one.interval.plus(&two.interval),
                ..one
            }),
            _ => None,
        };
        Self {
            joules: self.joules + next.joules,
            interval: self.interval.plus(&next.interval),
            sampling: self.sampling.plus(&next.sampling),
            likely: self.likely.plus(&next.likely),
            window: self.window.start..next.window.end,
            n_updates: self.n_updates + next.n_updates,
            check,
            ..worse.clone()
        }
    }
}

impl crate::Interval {
    fn plus(&self, other: &Self) -> Self {
        Self {
            low_j: self.low_j + other.low_j,
            high_j: self.high_j + other.high_j,
        }
    }
}

#[cfg(test)]
mod tests;
