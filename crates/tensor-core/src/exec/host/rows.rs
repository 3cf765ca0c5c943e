//! Rows of lanes that are reduced together.
//!
//! Method: rows that differ only in positions and accumulators go through the reduction side by
//! side. Elements that do not depend on the row are then read from the first-level cache; where
//! `pairs` has a loop, from CPU registers.

use super::lanes::Stored;
use super::machine::Machine;
use super::pairs::{self, Pairs};
use super::program::Phase;
use super::register::{Register, with_lane};
use crate::dtype::DType;
use crate::error::Result;

/// The maximum number of rows that are reduced together: their accumulators share the first-level
/// cache with the elements.
pub(super) const MAX_ROWS: usize = 8;

/// A row of lanes in a group of rows: its number in the group, the distances of its positions from
/// those of the first row, and its accumulator.
#[derive(Default)]
pub(super) struct Row {
    pub(super) number: usize,
    pub(super) distances: Vec<isize>,
    pub(super) accumulator: Register,
}

impl Machine<'_> {
    /// Returns the number of whole rows of lanes, beginning at an element, that may be reduced
    /// together; 0 if the row must be computed alone.
    ///
    /// The rows must differ only in positions and accumulators. No row may stop before the others,
    /// except in the loop over pairs, which handles early stops itself.
    pub(super) fn rows_at(&self, element: usize, most: usize) -> usize {
        let program = self.program;
        // Setup instructions would need registers for each row.
        let similar =
            !program.lanes.reduced && program.lanes.per_output == 1 && program.setup.is_empty();
        // The loop over pairs checks for early stops of all its rows together.
        let stops_together = program.pairs.is_some() && program.lanes.len >= pairs::LANES;
        let together = !program.stops || stops_together;
        if !similar
            || !together
            || program.accumulators.len() != 1
            || !element.is_multiple_of(program.lanes.len)
        {
            return 0;
        }
        let n_rows = (most / program.lanes.len).min(MAX_ROWS);
        // A single row gains only if it has a loop over pairs.
        let takes_one = stops_together
            && program
                .pairs
                .as_ref()
                .is_some_and(|pairs| pairs.takes(1) > 0);
        if n_rows > 1 || takes_one { n_rows } else { 0 }
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
        for (number, row) in rows.iter_mut().enumerate() {
            row.number = number;
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
        // The loop over pairs reduces as many rows as it can; the interpreter reduces the others,
        // one unit of all rows at a time.
        let (paired, single) = self.split_rows(rows);
        for row in &mut *paired {
            // The loop writes all lanes.
            row.accumulator.make_room(self.len);
        }
        self.fold_pairs(paired);
        if !single.is_empty() {
            self.reset_accumulators();
            let accumulator = program.accumulators[0].register;
            for row in &mut *single {
                row.accumulator.clone_from(&self.registers[accumulator]);
            }
        }
        let units = if single.is_empty() {
            0
        } else {
            program.reduce_units()
        };
        for _ in 0..units {
            for row in &mut *single {
                self.swap_row(row, isize::wrapping_add);
                self.run_phase(Phase::Body);
                self.swap_row(row, isize::wrapping_sub);
            }
            self.advance(program.n_domain..program.sizes.len());
        }
        if single.is_empty() && program.ends_together() && self.len == lanes {
            return self.finish_together(rows, out);
        }
        for (row, out) in rows.iter_mut().zip(out.chunks_mut(lanes)) {
            self.swap_row(row, isize::wrapping_add);
            self.finish(&mut out[..self.len])?;
            self.swap_row(row, isize::wrapping_sub);
        }
        Ok(())
    }

    /// Runs the epilogue for the lanes of several rows at once, and writes them to `out`. The cost
    /// of starting an instruction is then shared by the rows.
    fn finish_together<T: Stored>(&mut self, rows: &[Row], out: &mut [T]) -> Result<()> {
        let (lanes, accumulator) = (self.len, &self.program.accumulators[0]);
        // As many rows as a register has room for.
        let n_together = self.program.register_lanes() / lanes;
        for (rows, out) in rows
            .chunks(n_together)
            .zip(out.chunks_mut(n_together * lanes))
        {
            let together = &mut self.registers[accumulator.register];
            with_lane!(accumulator.dtype, Lane => {
                let chunks = together.lanes_mut::<Lane>().chunks_mut(lanes);
                for (together, row) in chunks.zip(rows) {
                    together.copy_from_slice(&row.accumulator.lanes::<Lane>()[..lanes]);
                }
            });
            self.len = lanes * rows.len();
            self.finish(&mut out[..lanes * rows.len()])?;
        }
        Ok(())
    }

    /// Splits rows into those for the loop over pairs and those for the interpreter.
    fn split_rows<'r>(&self, rows: &'r mut [Row]) -> (&'r mut [Row], &'r mut [Row]) {
        let n_paired = match &self.program.pairs {
            Some(pairs) if self.len >= pairs::LANES => self.n_paired(pairs, rows),
            _ => 0,
        };
        rows.split_at_mut(n_paired)
    }

    /// Returns the number of rows that the loop over pairs reduces. Rows of another batch index
    /// meet other lanes. Such rows are left to the interpreter, unless the loop reduces all rows of
    /// each batch index.
    fn n_paired(&self, pairs: &Pairs, rows: &[Row]) -> usize {
        let lane = |row: &Row| row.distances[self.program.accesses[pairs.lane].maps.start];
        if rows.iter().all(|row| lane(row) == 0) {
            return pairs.takes(rows.len());
        }
        let is_taken = |row: &Row| {
            let batch = rows.iter().filter(|other| lane(other) == lane(row));
            let len = batch.count();
            pairs.takes(len) == len
        };
        if rows.iter().all(is_taken) {
            rows.len()
        } else {
            0
        }
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
