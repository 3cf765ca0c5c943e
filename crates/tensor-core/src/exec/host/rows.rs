//! Rows of lanes that are reduced together.
//!
//! Method: rows that differ only in positions and accumulators go through the reduction side by
//! side. Elements that do not depend on the row are then read from the first-level cache; where
//! `pairs` has a loop, from CPU registers.

use super::lanes::Stored;
use super::machine::Machine;
use super::pairs::{self, Pairs};
use super::program::Phase;
use super::register::Register;
use crate::error::Result;

/// The maximum number of rows that are reduced together: their accumulators share the first-level
/// cache with the elements.
pub(super) const MAX_ROWS: usize = 8;

/// A row of lanes in a group of rows: the distances of its positions from those of the first row,
/// and its accumulators.
pub(super) struct Row {
    pub(super) distances: Vec<isize>,
    pub(super) accumulators: Vec<Register>,
}

impl Machine<'_> {
    /// Returns the number of whole rows of lanes, beginning at an element, that may be reduced
    /// together; 1 if the row must be computed alone.
    ///
    /// The rows must differ only in positions and accumulators. No row may stop before the others,
    /// except in the loop over pairs, which handles early stops itself.
    pub(super) fn rows_at(&self, element: usize, most: usize) -> usize {
        let program = self.program;
        // Setup instructions would need registers for each row.
        let similar = !program.lanes.reduced && program.setup.is_empty();
        // The loop over pairs checks for early stops of all its rows together.
        let stops_together = program.pairs.is_some() && program.lanes.len >= pairs::LANES;
        let together = !program.stops || stops_together;
        if !similar
            || !together
            || program.accumulators.len() != 1
            || !element.is_multiple_of(program.lanes.len)
        {
            return 1;
        }
        (most / program.lanes.len).min(MAX_ROWS)
    }

    /// Computes whole rows of lanes, block by block.
    pub(super) fn fill_rows<T: Stored>(&mut self, first: usize, out: &mut [T]) -> Result<()> {
        let program = self.program;
        let lanes = program.lanes.len;
        for start in (0..lanes).step_by(program.block) {
            let mut rows = Vec::with_capacity(out.len() / lanes);
            let mut base = Vec::new();
            for row in (first..first + out.len()).step_by(lanes) {
                self.seek(row + start, lanes);
                if base.is_empty() {
                    base.clone_from(&self.positions);
                }
                self.reset_accumulators();
                rows.push(Row {
                    // Positions of the row relative to the first row.
                    distances: self
                        .positions
                        .iter()
                        .zip(&base)
                        .map(|(here, base)| here.wrapping_sub(*base))
                        .collect(),
                    accumulators: program
                        .accumulators
                        .iter()
                        .map(|one| self.registers[one.register].clone())
                        .collect(),
                });
            }
            self.seek(first + start, lanes);
            // The loop over pairs reduces as many rows as it can; the interpreter reduces the
            // others, one unit of all rows at a time.
            let (paired, single) = self.split_rows(&mut rows);
            for rows in paired.chunks_exact_mut(pairs::ROWS) {
                self.fold_pairs(rows);
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
            for (row, out) in rows.iter_mut().zip(out.chunks_mut(lanes)) {
                self.swap_row(row, isize::wrapping_add);
                self.finish(&mut out[start..start + self.len])?;
                self.swap_row(row, isize::wrapping_sub);
            }
        }
        Ok(())
    }

    /// Splits rows into those for the loop over pairs and those for the interpreter.
    fn split_rows<'r>(&self, rows: &'r mut [Row]) -> (&'r mut [Row], &'r mut [Row]) {
        // The loop over pairs combines all rows with the same lanes. A row of another batch index
        // has other lanes.
        let one_batch = |pairs: &Pairs| {
            let lane = self.program.accesses[pairs.lane].maps.start;
            rows.iter().all(|row| row.distances[lane] == 0)
        };
        let takes_any =
            self.len >= pairs::LANES && self.program.pairs.as_ref().is_some_and(one_batch);
        let n_paired = if takes_any {
            rows.len() / pairs::ROWS * pairs::ROWS
        } else {
            0
        };
        rows.split_at_mut(n_paired)
    }

    /// Exchanges the accumulators with those of a row, and moves all positions by the row's
    /// distances: to the row if `step` adds, back if `step` subtracts.
    fn swap_row(&mut self, row: &mut Row, step: impl Fn(isize, isize) -> isize) {
        for (position, &distance) in self.positions.iter_mut().zip(&row.distances) {
            *position = step(*position, distance);
        }
        for (accumulator, register) in self.program.accumulators.iter().zip(&mut row.accumulators) {
            std::mem::swap(&mut self.registers[accumulator.register], register);
        }
    }
}
