//! Rows of lanes that are reduced together.
//!
//! Method: rows that differ only in positions and accumulators go through the reduction side by
//! side. Elements that do not depend on the row are then read from the first-level cache.

use super::lanes::Stored;
use super::machine::Machine;
use super::program::Phase;
use super::register::Register;
use crate::error::Result;

/// The maximum number of rows that are reduced together: their accumulators share the first-level
/// cache with the elements.
pub(super) const MAX_ROWS: usize = 8;

/// A row of lanes in a group of rows: the distances of its positions from those of the first row,
/// and its accumulator.
#[derive(Default)]
pub(super) struct Row {
    pub(super) distances: Vec<isize>,
    pub(super) accumulator: Register,
}

impl Machine<'_> {
    /// Returns the number of whole rows of lanes, beginning at an element, that may be reduced
    /// together; 0 if the row must be computed alone.
    ///
    /// The rows must differ only in positions and accumulators, and no row may stop before the
    /// others.
    pub(super) fn rows_at(&self, element: usize, most: usize) -> usize {
        let program = self.program;
        // Setup instructions would need registers for each row.
        let similar =
            !program.lanes.reduced && program.lanes.per_output == 1 && program.setup.is_empty();
        if !similar
            || program.stops
            || program.accumulators.len() != 1
            || !element.is_multiple_of(program.lanes.len)
        {
            return 0;
        }
        let n_rows = (most / program.lanes.len).min(MAX_ROWS);
        if n_rows > 1 { n_rows } else { 0 }
    }

    /// Computes whole rows of lanes, block by block.
    pub(super) fn fill_rows<T: Stored>(&mut self, first: usize, out: &mut [T]) -> Result<()> {
        let program = self.program;
        let lanes = program.lanes.len;
        let n_rows = out.len() / lanes;
        // The memory of the rows is reused by the next group.
        let mut rows = std::mem::take(&mut self.rows);
        if rows.len() < n_rows {
            rows.resize_with(n_rows, Row::default);
        }
        let rows_in_use = &mut rows[..n_rows];
        for start in (0..lanes).step_by(program.block) {
            self.fill_block(first + start, rows_in_use, &mut out[start..])?;
        }
        self.rows = rows;
        Ok(())
    }

    /// Computes one block of lanes of each row. The first block begins at an element and at the
    /// start of `out`, the others at distances of whole rows.
    fn fill_block<T: Stored>(
        &mut self,
        first: usize,
        rows: &mut [Row],
        out: &mut [T],
    ) -> Result<()> {
        let program = self.program;
        let lanes = program.lanes.len;
        // The rows follow one another, so no row after the first needs a division.
        self.seek(first, lanes);
        for row in &mut *rows {
            row.distances.clone_from(&self.positions);
            self.advance(0..program.lanes.first);
        }
        // Positions of the rows relative to the first row.
        self.seek(first, lanes);
        for row in &mut *rows {
            let distances = row.distances.iter_mut();
            distances
                .zip(&self.positions)
                .for_each(|(here, base)| *here = here.wrapping_sub(*base));
        }
        self.reset_accumulators();
        let accumulator = program.accumulators[0].register;
        for row in &mut *rows {
            row.accumulator.clone_from(&self.registers[accumulator]);
        }
        for _ in 0..program.n_units {
            for row in &mut *rows {
                self.swap_row(row, isize::wrapping_add);
                self.run_phase(Phase::Body);
                self.swap_row(row, isize::wrapping_sub);
            }
            self.advance(program.n_domain..program.sizes.len());
        }
        for (row, out) in rows.iter_mut().zip(out.chunks_mut(lanes)) {
            self.swap_row(row, isize::wrapping_add);
            self.finish(&mut out[..self.len])?;
            self.swap_row(row, isize::wrapping_sub);
        }
        Ok(())
    }

    /// Exchanges the accumulator with that of a row, and moves all positions by the row's
    /// distances: to the row if `step` adds, back if `step` subtracts.
    fn swap_row(&mut self, row: &mut Row, step: impl Fn(isize, isize) -> isize) {
        self.shift(&row.distances, step);
        let register = self.program.accumulators[0].register;
        std::mem::swap(&mut self.registers[register], &mut row.accumulator);
    }

    /// Moves all positions by distances.
    pub(super) fn shift(&mut self, distances: &[isize], step: impl Fn(isize, isize) -> isize) {
        for (position, &distance) in self.positions.iter_mut().zip(distances) {
            *position = step(*position, distance);
        }
    }
}
