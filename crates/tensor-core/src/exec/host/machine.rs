//! The interpreter that runs a program on blocks of lanes.
//!
//! Role: a machine belongs to one task. It holds the registers and the current index of the loops,
//! and fills the ranges of the output that the task is given.
//! Method: each instruction runs over one block of lanes at a time, so that its dispatch cost is
//! shared by all lanes. The loop over instructions is compiled once for each instruction set and
//! selected at run time (`level`). When a loop advances by one, the position of each map changes by
//! one stride; no index calculation is needed.
//! Layout: the current point, for lanes along the output. `move_to` sets the outer and reduced
//! axes; `start` and `len` select a block of the lanes.
//!
//! ```text
//! sizes  [ outer domain axes | lane axes | reduced axes ]
//! index    move_to, advance    always 0    move_to, advance
//!                              start..start + len
//! ```

use std::ops::Range;

use crate::dtype::{DType, Element, HostData, Scalar, with_element};
use crate::error::{Error, Result};
use crate::op::Reduce;

use super::lanes::{LaneType, Stored, total};
use super::level::Level;
use super::loops::{FOLDED_LANES, Fold, View};
use super::program::{Bytecode, Instruction, Phase, Slot};
use super::register::{Destination, Register, with_lane};
use super::rows::Row;

/// The registers, and the current index in the loops of a program.
pub(super) struct Machine<'p> {
    pub(super) program: &'p Bytecode,
    pub(super) inputs: &'p [&'p HostData],
    /// The instruction set that the loops are compiled for.
    pub(super) level: Level,
    pub(super) registers: Vec<Register>,
    /// The position of each map, at lane 0 of the current point. The first position of an access is
    /// an element of its input, the others are compared with the extents of guards.
    pub(super) positions: Vec<isize>,
    /// The current index of each loop; always 0 along the lane axes.
    index: Vec<usize>,
    /// The current block: lanes `start..start + len`.
    pub(super) start: usize,
    pub(super) len: usize,
    /// The first error of an instruction, taken by `check`.
    pub(super) fault: Option<Error>,
    /// The strides along a block of one lane: a zero for each map.
    pub(super) no_strides: Vec<isize>,
    /// Memory for the rows that are reduced together.
    pub(super) rows: Vec<Row>,
}

impl<'p> Machine<'p> {
    pub(super) fn new(program: &'p Bytecode, inputs: &'p [&'p HostData]) -> Self {
        let block = program.register_lanes().next_multiple_of(FOLDED_LANES);
        let register = |&uniform: &bool| Register::with_lanes(if uniform { 1 } else { block });
        let mut machine = Self {
            program,
            inputs,
            level: Level::best(),
            registers: program.registers.iter().map(register).collect(),
            positions: program.offsets.clone(),
            no_strides: vec![0; program.offsets.len()],
            index: vec![0; program.sizes.len()],
            start: 0,
            len: 0,
            fault: None,
            rows: Vec::new(),
        };
        for &(register, scalar) in &program.constants {
            machine.set_uniform(register, scalar);
        }
        machine
    }

    /// Stores a constant in the first lane of a register.
    fn set_uniform(&mut self, register: usize, scalar: Scalar) {
        with_element!(scalar.dtype(), T => {
            if let Some(value) = T::from_scalar(scalar) {
                self.registers[register].lanes_mut::<<T as Stored>::Lane>()[0] = Stored::load(value);
            }
        });
    }

    /// Moves all positions in an input by `by` elements.
    pub(super) fn shift_input(&mut self, input: usize, by: isize) {
        for access in &self.program.accesses {
            if access.input == input {
                let position = &mut self.positions[access.maps.start];
                *position = position.wrapping_add(by);
            }
        }
    }

    /// Returns and clears the stored error of an instruction.
    ///
    /// # Errors
    /// The error of the instruction.
    pub(super) fn check(&mut self) -> Result<()> {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Computes the output elements from number `first` on into `out`.
    pub(super) fn fill<T: Stored>(&mut self, first: usize, out: &mut [T]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            // Several rows of lanes at once where that is possible, otherwise one block.
            let rows = self.rows_at(first + done, out.len() - done);
            if rows > 0 {
                let len = rows * self.program.lanes.len;
                self.fill_rows(first + done, &mut out[done..done + len])?;
                done += len;
                continue;
            }
            let len = self.seek(first + done, out.len() - done);
            self.run_phase(Phase::Setup);
            self.fold(0..self.program.n_units);
            self.finish(&mut out[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Moves to the block that begins with an output element. Returns the number of elements of the
    /// block, at most `most`.
    pub(super) fn seek(&mut self, element: usize, most: usize) -> usize {
        let program = self.program;
        let lanes = &program.lanes;
        // If the lanes are reduced, a block yields one element; else the element's number splits
        // into an outer index and a lane.
        let (outer, len) = if lanes.reduced {
            (element, 1)
        } else {
            let n_outputs = lanes.n_outputs();
            let place = element % n_outputs;
            self.start = place * lanes.per_output;
            let most = most.min(program.block / lanes.per_output);
            (element / n_outputs, (n_outputs - place).min(most))
        };
        self.len = len * lanes.per_output;
        let outer_axes = if lanes.reduced {
            program.n_domain
        } else {
            lanes.first
        };
        self.move_to(0..outer_axes, outer);
        self.move_to(program.n_domain..program.sizes.len(), 0);
        len
    }

    /// Moves some axes to a flat index in row-major order. No division is needed once the rest is
    /// smaller than an axis, and axes whose index stays the same are not touched.
    fn move_to(&mut self, axes: Range<usize>, mut flat: usize) {
        let program = self.program;
        for axis in axes.rev() {
            let size = program.sizes[axis];
            let index = if flat < size {
                std::mem::take(&mut flat)
            } else {
                let index = flat % size;
                flat /= size;
                index
            };
            // Each step along an axis changes all positions by the axis' strides.
            let steps = index.cast_signed() - self.index[axis].cast_signed();
            if steps != 0 {
                self.index[axis] = index;
                self.step_along(axis, steps);
            }
        }
    }

    /// Moves all positions by some steps along an axis.
    fn step_along(&mut self, axis: usize, steps: isize) {
        for (position, stride) in self.positions.iter_mut().zip(&self.program.strides[axis]) {
            *position = position.wrapping_add(stride.wrapping_mul(steps));
        }
    }

    /// Advances the index of some axes by one, in row-major order.
    pub(super) fn advance(&mut self, axes: Range<usize>) {
        let program = self.program;
        for axis in axes.rev() {
            let size = program.sizes[axis];
            self.index[axis] += 1;
            let wraps = self.index[axis] == size;
            // From the last index of an axis, `1 - size` steps lead back to the first.
            let steps = if wraps { 1 - size.cast_signed() } else { 1 };
            self.step_along(axis, steps);
            if !wraps {
                return;
            }
            self.index[axis] = 0;
        }
    }

    /// Folds a range of units of the reduction (see [`Bytecode::n_units`]) into cleared
    /// accumulators.
    pub(super) fn fold(&mut self, units: Range<usize>) {
        let program = self.program;
        if program.accumulators.is_empty() {
            return;
        }
        self.reset_accumulators();
        if program.lanes.per_output > 1 {
            self.run_phase(Phase::Body);
            // The epilogue runs on words.
            self.start /= program.lanes.per_output;
            self.len /= program.lanes.per_output;
        } else if program.lanes.reduced {
            self.fold_lanes(units);
        } else if !units.is_empty() {
            self.fold_points(units);
        }
    }

    /// Folds a range of units if lanes are output elements. Each unit is then one point of the
    /// reduced axes.
    fn fold_points(&mut self, units: Range<usize>) {
        /// The number of points between two checks for an early stop.
        const LOOK_EVERY: usize = 4;
        let program = self.program;
        let axes = program.n_domain..program.sizes.len();
        self.move_to(axes.clone(), units.start);
        for done in 1..=units.len() {
            self.run_phase(Phase::Body);
            if program.stops && done % LOOK_EVERY == 0 && self.all_are_decided() {
                return;
            }
            self.advance(axes.clone());
        }
    }

    /// Returns `true` if no further point can change any lane: `All` is decided by 0, `Any` by 1.
    fn all_are_decided(&self) -> bool {
        self.program.accumulators.iter().all(|accumulator| {
            let undecided = u8::from(accumulator.op == Reduce::All);
            !self.registers[accumulator.register].lanes::<u8>()[..self.len].contains(&undecided)
        })
    }

    /// Folds a range of units if lanes run along the reduced axes. Each unit is then one block of
    /// lanes. At the end, the lanes of each accumulator are folded into one.
    fn fold_lanes(&mut self, units: Range<usize>) {
        let program = self.program;
        let (lanes, axes) = (&program.lanes, program.n_domain..program.lanes.first);
        // Unit u is block `u % n_blocks` of the point `u / n_blocks` of the other reduced axes.
        let mut block = 0;
        if units.start > 0 {
            block = units.start % program.n_blocks;
            self.move_to(axes.clone(), units.start / program.n_blocks);
        }
        for _ in units {
            self.start = block * program.block;
            self.len = (lanes.len - self.start).min(program.block);
            self.run_phase(Phase::Body);
            if program.stops && self.is_decided() {
                break;
            }
            block += 1;
            if block == program.n_blocks {
                block = 0;
                self.advance(axes.clone());
            }
        }
        self.fold_accumulators();
        // The epilogue runs on the one folded lane.
        (self.start, self.len) = (0, 1);
    }

    /// Fills the accumulators with the identities of their reductions.
    pub(super) fn reset_accumulators(&mut self) {
        let width = self.folded_lanes();
        for accumulator in &self.program.accumulators {
            with_lane!(accumulator.dtype, T => {
                let lanes = &mut self.registers[accumulator.register].lanes_mut::<T>()[..width];
                lanes.fill(T::identity(accumulator.op));
            });
        }
    }

    /// Returns the number of accumulator lanes in use.
    #[inline(always)]
    pub(super) fn folded_lanes(&self) -> usize {
        match self.folding() {
            Fold::Each => self.len,
            Fold::Together(_) => FOLDED_LANES,
        }
    }

    /// Returns the way in which the current block is folded.
    #[inline(always)]
    pub(super) fn folding(&self) -> Fold {
        if self.program.lanes.reduced {
            Fold::Together(self.len)
        } else {
            Fold::Each
        }
    }

    /// Returns `true` if some lane of each accumulator decides the whole reduction: 1 for `Any`, 0
    /// for `All`.
    fn is_decided(&self) -> bool {
        self.program.accumulators.iter().all(|accumulator| {
            let answer = u8::from(accumulator.op == Reduce::Any);
            self.registers[accumulator.register].lanes::<u8>()[..FOLDED_LANES].contains(&answer)
        })
    }

    /// Folds the lanes of each accumulator into one total, by halves: 32 lanes into 16, then into
    /// 8, and so on.
    fn fold_accumulators(&mut self) {
        for accumulator in &self.program.accumulators {
            with_lane!(accumulator.dtype, T => {
                let lanes = self.registers[accumulator.register].lanes::<T>();
                let total = lanes.first_chunk().map(|lanes| total(accumulator.op, lanes));
                let total = total.unwrap_or_else(|| T::identity(accumulator.op));
                self.registers[accumulator.total].lanes_mut::<T>()[0] = total;
            });
        }
    }

    /// Returns copies of the totals of the current block after [`fold`](Self::fold).
    pub(super) fn totals(&self) -> Vec<Register> {
        let accumulators = self.program.accumulators.iter();
        accumulators
            .map(|accumulator| self.registers[accumulator.total].clone())
            .collect()
    }

    /// Combines the totals of consecutive parts of a reduction, in the order of the parts.
    pub(super) fn join(&mut self, parts: &[Vec<Register>]) {
        self.reset_accumulators();
        for (number, accumulator) in self.program.accumulators.iter().enumerate() {
            with_lane!(accumulator.dtype, T => {
                let total = &mut self.registers[accumulator.total].lanes_mut::<T>()[..self.len];
                // Each part has one total for each lane of the output block.
                total.fill(T::identity(accumulator.op));
                for part in parts {
                    T::accumulate(accumulator.op, Fold::Each, total, View::Lanes(&part[number].lanes::<T>()[..self.len]));
                }
            });
        }
    }

    /// Runs the epilogue and writes the block to `out`.
    pub(super) fn finish<T: Stored>(&mut self, out: &mut [T]) -> Result<()> {
        let program = self.program;
        // A program that runs in place reads the old elements of the output. Each element is
        // converted, because the type of elements may differ from the type of lanes (`bool`,
        // `f16`).
        if let Some(register) = program.before {
            let lanes = self.registers[register].lanes_mut::<T::Lane>();
            lanes
                .iter_mut()
                .zip(&*out)
                .for_each(|(lane, &element)| *lane = element.load());
        }
        let ends_in_result = program
            .epilogue
            .last()
            .is_some_and(|last| !last.uniform && program.result == Slot::Lanes(last.destination));
        // If the last instruction computes the result and lanes need no conversion, it writes to
        // the output directly.
        if let (true, Some(out)) = (ends_in_result, T::as_bytes_mut(out)) {
            self.run(&program.epilogue, Some(out));
            return self.check();
        }
        self.run_phase(Phase::Epilogue);
        self.check()?;
        match self.view::<T::Lane>(program.result) {
            View::Lanes(lanes) => out
                .iter_mut()
                .zip(lanes)
                .for_each(|(out, &lane)| *out = T::store(lane)),
            View::Uniform(lane) => out.fill(T::store(lane)),
        }
        Ok(())
    }

    /// Runs the instructions of a phase on the current block.
    pub(super) fn run_phase(&mut self, phase: Phase) {
        let program = self.program;
        let instructions = match phase {
            Phase::Setup => &program.setup,
            Phase::Body => &program.body,
            Phase::Epilogue => &program.epilogue,
        };
        self.run(instructions, None);
    }

    /// Runs instructions on the current block. If `out` is given, the last instruction writes to
    /// it.
    fn run(&mut self, instructions: &[Instruction], mut out: Option<&mut [u8]>) {
        let Some(last) = instructions.len().checked_sub(1) else {
            return;
        };
        let level = self.level;
        level.dispatch(
            #[inline(always)]
            || {
                for (number, instruction) in instructions.iter().enumerate() {
                    // Taken out of the list, so that operands can be borrowed from the other
                    // registers.
                    let mut register = std::mem::take(&mut self.registers[instruction.destination]);
                    let mut destination = match &mut out {
                        Some(out) if number == last => Destination(out),
                        _ => register.destination(),
                    };
                    self.step(instruction, &mut destination);
                    self.registers[instruction.destination] = register;
                }
            },
        );
    }
}
