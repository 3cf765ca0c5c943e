//! The terms of a sum that are not padding.
//!
//! Method: where the operand of the rows is padding, its element is 0, and so is the product. The
//! terms of a block that are not padding are consecutive for each row, and many rows have the same
//! range of terms. The rows of a piece are grouped by range, and tiles compute one group at a time.
//! Rows whose guards have the same positions share a pattern, so that the terms are found once for
//! all of them. The other factor must be finite, because the product of 0 and infinity is NaN.

use std::ops::Range;

use super::fold::{Fold, points};
use crate::ir::{Guard, held};

/// The number of rows of the largest tile with several vectors of lanes.
const TILE_ROWS: usize = 6;

/// The guards of the operand of the rows.
#[derive(Debug)]
pub(super) struct Padding {
    guards: Vec<Guard>,
    /// The row axes on which a guard depends.
    axes: Vec<usize>,
    /// The last row axis that precedes `axes` and has at least [`TILE_ROWS`] indices.
    free_axis: usize,
    /// For each guard, the distance of its position at the start of each block of terms.
    starts: Vec<Vec<isize>>,
    /// The stride of each guard along the first axis of a block.
    strides: Vec<isize>,
}

/// The patterns of the rows of a piece.
#[derive(Debug)]
pub(super) struct Patterns<'a> {
    padding: &'a Padding,
    /// The positions of the guards in the first block, for each pattern.
    positions: Vec<Vec<isize>>,
    /// The number of rows of each pattern. The rows of a pattern follow those of the one before.
    n_rows: usize,
}

impl Padding {
    /// Returns the padding of an operand with these guards over all loops. `first` is the number of
    /// the first reduced axis. A guard is ignored if it depends on a batch axis, or on an axis
    /// after the first axis of a block. Returns `None` if no guard is left, or if too few rows
    /// would have equal terms.
    pub(super) fn new(
        guards: &[Guard],
        fold: &Fold,
        sizes: &[usize],
        first: usize,
        [rows, batch]: [&[usize]; 2],
    ) -> Option<Self> {
        let depends =
            |guard: &Guard, axes: &[usize]| axes.iter().any(|&axis| guard.map.stride(axis) != 0);
        let is_usable = |guard: &&Guard| {
            let inner: Vec<usize> = (fold.first_axis + 1..sizes.len()).collect();
            !depends(guard, batch) && !depends(guard, &inner)
        };
        let guards: Vec<Guard> = guards.iter().filter(is_usable).cloned().collect();
        if guards.is_empty() {
            return None;
        }
        let is_of_guard = |axis: &usize| guards.iter().any(|guard| guard.map.stride(*axis) != 0);
        let starts = guards
            .iter()
            .map(|guard| fold.starts(sizes, first, &guard.map));
        let axes: Vec<usize> = rows.iter().copied().filter(is_of_guard).collect();
        let first_of_guards = axes.iter().copied().min().unwrap_or(0);
        let is_free = |axis: &usize| rows.contains(axis) && sizes[*axis] >= TILE_ROWS;
        Some(Self {
            free_axis: (0..first_of_guards).rev().find(is_free)?,
            axes,
            starts: starts.collect(),
            strides: guards
                .iter()
                .map(|guard| guard.map.stride(fold.first_axis))
                .collect(),
            guards,
        })
    }

    /// Returns whether `terms_of_rows` excludes all padding of an operand with these guards.
    pub(super) fn covers(&self, guards: &[Guard]) -> bool {
        guards.iter().all(|guard| self.guards.contains(guard))
    }

    /// Returns the axis along which the output is divided into tasks, and the number of its indices
    /// for one task: as many as the rows of a tile, or fewer if there would not be a task for each
    /// thread. Returns `None` if there are fewer indices than threads.
    pub(super) fn cut(&self, sizes: &[usize]) -> Option<(usize, usize)> {
        let axis = self.free_axis;
        let n_outer: usize = sizes[..axis].iter().product();
        let n_most = n_outer * sizes[axis] / rayon::current_num_threads().max(1);
        (n_most > 0).then_some((axis, n_most.min(TILE_ROWS)))
    }

    /// Returns the row axes in the order of the patterns: those on which a guard depends are first.
    pub(super) fn in_order(&self, rows: &[usize]) -> Vec<usize> {
        let others = rows.iter().filter(|axis| !self.axes.contains(axis));
        self.axes.iter().chain(others).copied().collect()
    }

    /// Returns the patterns of a piece that begins at an index and has these sizes.
    pub(super) fn patterns(&self, index: &[usize], sizes: &[usize], n_rows: usize) -> Patterns<'_> {
        // Each guard is a list of points of its own, one for each pattern.
        let of_guard = |guard: &Guard| {
            let start = guard.map.at(index);
            let steps = points(self.axes.iter().copied(), sizes, |axis| {
                [guard.map.stride(axis)]
            });
            steps
                .into_iter()
                .map(move |[step]| start.wrapping_add(step))
        };
        let mut guards: Vec<_> = self.guards.iter().map(of_guard).collect();
        let n: usize = self.axes.iter().map(|&axis| sizes[axis]).product();
        let positions = (0..n).map(|_| guards.iter_mut().filter_map(Iterator::next).collect());
        Patterns {
            padding: self,
            positions: positions.collect(),
            n_rows: n_rows / n.max(1),
        }
    }
}

impl Patterns<'_> {
    /// Returns the terms of a block that are not padding, each with a range of rows. Rows with
    /// equal terms follow each other; rows without a term are left out.
    pub(super) fn terms_of_rows(
        &self,
        fold: &Fold,
        block: usize,
    ) -> Vec<(Range<usize>, Range<usize>)> {
        let padding = self.padding;
        let len = fold.blocks[block].len / fold.unit;
        let mut terms: Vec<(Range<usize>, Range<usize>)> = Vec::with_capacity(self.positions.len());
        for (pattern, positions) in self.positions.iter().enumerate() {
            let mut inside = 0..len;
            for (number, guard) in padding.guards.iter().enumerate() {
                let position = positions[number].wrapping_add(padding.starts[number][block]);
                let held = held(position, padding.strides[number], guard.extent, len);
                inside = inside.start.max(held.start)..inside.end.min(held.end);
            }
            if inside.start < inside.end {
                terms.push((
                    inside.start * fold.unit..inside.end * fold.unit,
                    pattern * self.n_rows..(pattern + 1) * self.n_rows,
                ));
            }
        }
        terms.sort_by_key(|(terms, _)| (terms.start, terms.end));
        terms
    }
}
