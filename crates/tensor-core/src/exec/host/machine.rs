//! Runs a program on blocks of lanes.
//!
//! Role: the interpreter. A machine belongs to one task; it holds the registers, knows where in the loops it stands,
//! and is handed ranges of the output to fill.
//! Method: instructions run over one block of lanes at a time, so what starting one costs is shared by all of them. The
//! loop over instructions is compiled once for each instruction set and chosen at run time (`pulp`). Positions in inputs
//! move by one stride when a loop moves by one.

use std::ops::Range;

use crate::dtype::{DType, Element, HostData, Scalar, with_element};
use crate::error::{Error, Result};
use crate::op::Reduce;

use super::lanes::{Lane, Stored, View};
use super::pairs::{self, Pairs};
use super::program::Program;
use super::register::{Register, with_lane};

/// Rows of lanes that are folded together at most: their accumulators share the first-level cache with what is read.
pub(super) const MAX_ROWS: usize = 8;

/// Registers, and a place in the loops of a program.
pub(super) struct Machine<'p> {
    pub(super) program: &'p Program,
    pub(super) inputs: &'p [&'p HostData],
    pub(super) arch: pulp::Arch,
    pub(super) registers: Vec<Register>,
    /// Where each map stands, at lane 0 of the current point.
    pub(super) positions: Vec<isize>,
    /// What is added to every position in an input.
    shifts: Vec<isize>,
    /// The current index of each loop; 0 along the lanes.
    index: Vec<usize>,
    /// The current block of lanes.
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) fault: Option<Error>,
    /// Zeros, as many as there are maps.
    pub(super) no_strides: Vec<isize>,
}

/// A row of lanes that is folded along with others: how far its positions lie from theirs, and its accumulators.
pub(super) struct Row {
    pub(super) distances: Vec<isize>,
    pub(super) accumulators: Vec<Register>,
}

/// A closure that `pulp` inlines into code for the CPU's widest instructions. Calling it through `FnMut` matters: the
/// shim that calls it through `FnOnce` is not inlined, and runs narrow code.
pub(super) struct Wide<F>(pub(super) F);

impl<F: FnMut()> pulp::WithSimd for Wide<F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        (self.0)();
    }
}

impl<'p> Machine<'p> {
    pub(super) fn new(program: &'p Program, inputs: &'p [&'p HostData]) -> Self {
        let register =
            |&uniform: &bool| Register::with_lanes(if uniform { 1 } else { program.block });
        let mut machine = Self {
            program,
            inputs,
            arch: pulp::Arch::new(),
            registers: program.registers.iter().map(register).collect(),
            positions: program.offsets.clone(),
            no_strides: vec![0; program.offsets.len()],
            shifts: vec![0; inputs.len().max(1)],
            index: vec![0; program.sizes.len()],
            start: 0,
            len: 0,
            fault: None,
        };
        for &(register, scalar) in &program.constants {
            machine.set_uniform(register, scalar);
        }
        machine
    }

    fn set_uniform(&mut self, register: usize, scalar: Scalar) {
        with_element!(scalar.dtype(), T => {
            if let Some(value) = T::from_scalar(scalar) {
                self.registers[register].lanes_mut::<<T as Stored>::Lane>()[0] = Stored::load(value);
            }
        });
    }

    /// Lets positions in an input count from another element.
    pub(super) fn shift_input(&mut self, input: usize, by: isize) {
        self.shifts[input] = by;
    }

    /// The fault that an instruction met.
    ///
    /// # Errors
    /// That fault.
    pub(super) fn check(&mut self) -> Result<()> {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Computes the output elements from number `first` on.
    pub(super) fn fill<T: Stored>(&mut self, first: usize, out: &mut [T]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let rows = self.rows_at(first + done, out.len() - done);
            if rows > 1 {
                let len = rows * self.program.lanes.len;
                self.fill_rows(first + done, &mut out[done..done + len])?;
                done += len;
                continue;
            }
            let len = self.seek(first + done, out.len() - done);
            self.run_phase(Phase::Setup);
            self.fold(0..self.program.reduce_units());
            self.finish(&mut out[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// How many whole rows of lanes from an element on may be folded together.
    ///
    /// Together they read what does not depend on the row from the first-level cache. They must differ in nothing but
    /// positions and accumulators, and none may stop before the others, unless the loop over pairs takes care of that.
    fn rows_at(&self, element: usize, most: usize) -> usize {
        let program = self.program;
        let alike = !program.lanes.reduced && program.setup.is_empty();
        let stops_together = program.pairs.is_some() && program.lanes.len >= pairs::LANES;
        let together = !program.stops || stops_together;
        if !alike
            || !together
            || program.accumulators.len() != 1
            || !element.is_multiple_of(program.lanes.len)
        {
            return 1;
        }
        (most / program.lanes.len).min(MAX_ROWS)
    }

    /// Computes whole rows of lanes, block after block.
    fn fill_rows<T: Stored>(&mut self, first: usize, out: &mut [T]) -> Result<()> {
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

    /// The rows that the loop over pairs takes, and those that the interpreter does.
    fn split_rows<'r>(&self, rows: &'r mut [Row]) -> (&'r mut [Row], &'r mut [Row]) {
        // In another batch, a row would meet other lanes.
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

    /// Exchanges the accumulators for those of a row, and moves positions there or back.
    fn swap_row(&mut self, row: &mut Row, step: impl Fn(isize, isize) -> isize) {
        for (position, &distance) in self.positions.iter_mut().zip(&row.distances) {
            *position = step(*position, distance);
        }
        for (accumulator, register) in self.program.accumulators.iter().zip(&mut row.accumulators) {
            std::mem::swap(&mut self.registers[accumulator.register], register);
        }
    }

    /// Moves to the block that begins with an output element, and gives how many elements it has, `most` at most.
    pub(super) fn seek(&mut self, element: usize, most: usize) -> usize {
        let program = self.program;
        let lanes = &program.lanes;
        let (outer, len) = if lanes.reduced {
            (element, 1)
        } else {
            self.start = element % lanes.len;
            (
                element / lanes.len,
                (lanes.len - self.start).min(program.block).min(most),
            )
        };
        self.len = len;
        let outer_axes = if lanes.reduced {
            program.n_domain
        } else {
            lanes.first
        };
        self.index.fill(0);
        self.place_at(0..outer_axes, outer);
        len
    }

    /// Moves some axes to a flat index.
    fn place_at(&mut self, axes: Range<usize>, mut flat: usize) {
        let program = self.program;
        for axis in axes.rev() {
            self.index[axis] = flat % program.sizes[axis];
            flat /= program.sizes[axis];
        }
        self.positions.clone_from(&program.offsets);
        for (&index, strides) in self.index.iter().zip(&program.strides) {
            for (position, stride) in self.positions.iter_mut().zip(strides) {
                *position = position.wrapping_add(stride.wrapping_mul(index.cast_signed()));
            }
        }
        for access in &program.accesses {
            let position = &mut self.positions[access.maps.start];
            *position = position.wrapping_add(self.shifts[access.input]);
        }
    }

    /// Moves to the next index of some axes, in row-major order.
    fn advance(&mut self, axes: Range<usize>) {
        let program = self.program;
        for axis in axes.rev() {
            let size = program.sizes[axis];
            self.index[axis] += 1;
            let wraps = self.index[axis] == size;
            let steps = if wraps { 1 - size.cast_signed() } else { 1 };
            for (position, stride) in self.positions.iter_mut().zip(&program.strides[axis]) {
                *position = position.wrapping_add(stride.wrapping_mul(steps));
            }
            if !wraps {
                return;
            }
            self.index[axis] = 0;
        }
    }

    /// Folds some units of the reduced axes into fresh accumulators.
    pub(super) fn fold(&mut self, units: Range<usize>) {
        let program = self.program;
        if program.accumulators.is_empty() {
            return;
        }
        self.reset_accumulators();
        if program.lanes.reduced {
            self.fold_lanes(units);
        } else if !units.is_empty() {
            self.fold_points(units);
        }
    }

    /// Lanes are output elements: each unit is one point of the reduced axes.
    fn fold_points(&mut self, units: Range<usize>) {
        /// How often to look whether all is decided.
        const LOOK_EVERY: usize = 4;
        let program = self.program;
        let axes = program.n_domain..program.sizes.len();
        self.place_at(axes.clone(), units.start);
        for done in 1..=units.len() {
            self.run_phase(Phase::Body);
            if program.stops && done % LOOK_EVERY == 0 && self.all_are_decided() {
                return;
            }
            self.advance(axes.clone());
        }
    }

    /// Whether no further point can change any lane.
    fn all_are_decided(&self) -> bool {
        self.program.accumulators.iter().all(|accumulator| {
            let undecided = u8::from(accumulator.op == Reduce::All);
            !self.registers[accumulator.register].lanes::<u8>()[..self.len].contains(&undecided)
        })
    }

    /// Lanes are folded: each unit is one block of them, and in the end the lanes are folded too.
    fn fold_lanes(&mut self, units: Range<usize>) {
        let program = self.program;
        let (lanes, axes) = (&program.lanes, program.n_domain..program.lanes.first);
        let blocks = lanes.len.div_ceil(program.block).max(1);
        if !units.is_empty() {
            self.place_at(axes.clone(), units.start / blocks);
        }
        for unit in units {
            let block = unit % blocks;
            self.start = block * program.block;
            self.len = (lanes.len - self.start).min(program.block);
            self.run_phase(Phase::Body);
            if program.stops && self.is_decided() {
                break;
            }
            if block + 1 == blocks {
                self.advance(axes.clone());
            }
        }
        self.fold_accumulators();
        (self.start, self.len) = (0, 1);
    }

    fn reset_accumulators(&mut self) {
        let width = self.folded_lanes();
        for accumulator in &self.program.accumulators {
            with_lane!(accumulator.dtype, T => {
                let lanes = &mut self.registers[accumulator.register].lanes_mut::<T>()[..width];
                lanes.fill(T::identity(accumulator.op));
            });
        }
    }

    /// The lanes of accumulators that are in use; where they are folded by halves, a power of two.
    fn folded_lanes(&self) -> usize {
        let program = self.program;
        if program.lanes.reduced {
            program.lanes.len.min(program.block).next_power_of_two()
        } else {
            self.len
        }
    }

    /// Whether some lane of each accumulator has what no further element can change.
    fn is_decided(&self) -> bool {
        self.program.accumulators.iter().all(|accumulator| {
            let answer = u8::from(accumulator.op == Reduce::Any);
            self.registers[accumulator.register].lanes::<u8>()[..self.len].contains(&answer)
        })
    }

    /// Folds the lanes of each accumulator into one, by halves.
    fn fold_accumulators(&mut self) {
        let width = self.folded_lanes();
        for accumulator in &self.program.accumulators {
            with_lane!(accumulator.dtype, T => {
                let lanes = &mut self.registers[accumulator.register].lanes_mut::<T>()[..width];
                let mut width = width;
                while width > 1 {
                    width /= 2;
                    let (low, high) = lanes.split_at_mut(width);
                    T::accumulate(accumulator.op, low, View::Lanes(&high[..width]));
                }
                let total = lanes[0];
                self.registers[accumulator.total].lanes_mut::<T>()[0] = total;
            });
        }
    }

    /// The accumulators of the current block, as [`fold`](Self::fold) left them.
    pub(super) fn totals(&self) -> Vec<Register> {
        let accumulators = self.program.accumulators.iter();
        accumulators
            .map(|accumulator| self.registers[accumulator.total].clone())
            .collect()
    }

    /// Makes accumulators from those of consecutive parts.
    pub(super) fn join(&mut self, parts: &[Vec<Register>]) {
        self.reset_accumulators();
        for (number, accumulator) in self.program.accumulators.iter().enumerate() {
            with_lane!(accumulator.dtype, T => {
                let total = &mut self.registers[accumulator.total].lanes_mut::<T>()[..self.len];
                total.fill(T::identity(accumulator.op));
                for part in parts {
                    T::accumulate(accumulator.op, total, View::Lanes(&part[number].lanes::<T>()[..self.len]));
                }
            });
        }
    }

    /// Computes what follows the reduction, and writes the block.
    pub(super) fn finish<T: Stored>(&mut self, out: &mut [T]) -> Result<()> {
        self.run_phase(Phase::Epilogue);
        self.check()?;
        match self.view::<T::Lane>(self.program.result) {
            View::Lanes(lanes) => out
                .iter_mut()
                .zip(lanes)
                .for_each(|(out, &lane)| *out = T::store(lane)),
            View::Uniform(lane) => out.fill(T::store(lane)),
        }
        Ok(())
    }

    /// Runs the instructions of one phase on the current block.
    pub(super) fn run_phase(&mut self, phase: Phase) {
        let program = self.program;
        let instructions = match phase {
            Phase::Setup => &program.setup,
            Phase::Body => &program.body,
            Phase::Epilogue => &program.epilogue,
        };
        if instructions.is_empty() {
            return;
        }
        let arch = self.arch;
        arch.dispatch(Wide(
            #[inline(always)]
            || {
                for instruction in instructions {
                    // Taken out, so that operands can be read from the other registers.
                    let mut destination =
                        std::mem::take(&mut self.registers[instruction.destination]);
                    self.step(instruction, &mut destination);
                    self.registers[instruction.destination] = destination;
                }
            },
        ));
    }
}

/// The parts of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Setup,
    Body,
    Epilogue,
}
