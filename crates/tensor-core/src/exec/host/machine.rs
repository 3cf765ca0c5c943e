//! The machine that runs a program: its registers and the current point of the loops.
//!
//! Role: a machine belongs to one task. `blocks` moves the machine from block to block and selects
//! the instructions that run next; `step` runs one instruction on the lanes of the current block.
//! Method: when a loop advances by one, the position of each map changes by one stride; no index
//! calculation is needed.
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
use super::loops::{FOLDED_LANES, Fold, View};
use super::program::Bytecode;
use super::register::{Register, with_lane};
use crate::level::Level;

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
    /// The block, as `start` and `len`, for which the values of the start were computed.
    started: Option<(usize, usize)>,
    /// The first error of an instruction, taken by `check`.
    pub(super) fault: Option<Error>,
    /// The strides along a block of one lane: a zero for each map.
    pub(super) no_strides: Vec<isize>,
}

impl<'p> Machine<'p> {
    /// Creates a machine for inputs that begin with their first elements.
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
            started: None,
            fault: None,
        };
        for &(register, scalar) in &program.constants {
            machine.set_uniform(register, scalar);
        }
        machine
    }

    /// Creates a machine for inputs that begin with later elements: `starts` contains the number of
    /// the array's element with which each input begins.
    pub(super) fn with_starts(
        program: &'p Bytecode,
        inputs: &'p [&'p HostData],
        starts: &[usize],
    ) -> Self {
        let mut machine = Self::new(program, inputs);
        for (input, start) in starts.iter().enumerate() {
            machine.shift_input(input, -start.cast_signed());
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

    /// Moves to the block that begins with an output element, and to the first unit of the
    /// reduction. Returns the number of elements of the block, at most `most`.
    pub(super) fn seek(&mut self, element: usize, most: usize) -> usize {
        let n_outputs = self.program.n_lane_outputs();
        self.move_to(self.program.outer_axes(), element / n_outputs);
        self.move_to_unit(0);
        self.begin_block(element % n_outputs, most)
    }

    /// Begins the block at a place among the output elements of the current outer index. Returns
    /// the number of elements of the block, at most `most`.
    pub(super) fn begin_block(&mut self, place: usize, most: usize) -> usize {
        let program = self.program;
        if program.lanes.reduced {
            // The lanes of the first unit; one element is the fold of all units.
            (self.start, self.len) = (0, program.lanes.len.min(program.block));
            return 1;
        }
        if program.lanes.n_rows > 1 {
            // The block has all lanes, because the lanes of one output element are in different
            // rows.
            (self.start, self.len) = (0, program.lanes.len);
            return (program.n_lane_outputs() - place).min(most);
        }
        let per_output = program.lanes.per_output;
        let len = (program.n_lane_outputs() - place)
            .min(most)
            .min(program.block / per_output);
        (self.start, self.len) = (place * per_output, len * per_output);
        len
    }

    /// Moves to a unit of the reduction (see [`Bytecode::n_units`]).
    pub(super) fn move_to_unit(&mut self, unit: usize) {
        let program = self.program;
        if program.lanes.reduced {
            // Unit u is block `u % n_blocks` of the point `u / n_blocks` of the other reduced axes.
            self.move_to(
                program.n_domain..program.lanes.first,
                unit / program.n_blocks,
            );
            self.start = unit % program.n_blocks * program.block;
            self.len = (program.lanes.len - self.start).min(program.block);
        } else {
            self.move_to(program.n_domain..program.sizes.len(), unit);
        }
    }

    /// Moves to the next unit of the reduction, after the last unit to the first.
    pub(super) fn next_unit(&mut self) {
        let program = self.program;
        if !program.lanes.reduced {
            return self.advance(program.n_domain..program.sizes.len());
        }
        self.start += program.block;
        if self.start >= program.lanes.len {
            self.start = 0;
            self.advance(program.n_domain..program.lanes.first);
        }
        self.len = (program.lanes.len - self.start).min(program.block);
    }

    /// Moves some axes to a flat index in row-major order. No division is needed once the rest is
    /// smaller than an axis, and axes whose index stays the same are not touched.
    pub(super) fn move_to(&mut self, axes: Range<usize>, mut flat: usize) {
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

    /// Returns the number of the first instruction of the current block: 0 if the values that are
    /// equal in all blocks have to be computed, and the number of the first instruction after them
    /// otherwise.
    pub(super) fn first_instruction(&mut self) -> usize {
        let program = self.program;
        // If the lanes fill several blocks, only values that are equal in all lanes are computed at
        // the start. Otherwise each block has all lanes, except the first and the last block
        // of a walk.
        let are_known = self.started.is_some_and(|(start, len)| {
            program.lanes.len > program.block || (self.start == start && self.len <= len)
        });
        if are_known {
            return program.n_start;
        }
        self.started = Some((self.start, self.len));
        0
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

    /// Returns `true` if no further unit can change a result. Lanes that are folded together are
    /// decided by one lane: 1 for `Any`, 0 for `All`.
    pub(super) fn is_decided(&self) -> bool {
        self.program.accumulators.iter().all(|accumulator| {
            let lanes = self.registers[accumulator.register].lanes::<u8>();
            let answer = u8::from(accumulator.op == Reduce::Any);
            match self.folding() {
                Fold::Together(_) => lanes[..FOLDED_LANES].contains(&answer),
                Fold::Each => !lanes[..self.len].contains(&(1 - answer)),
            }
        })
    }

    /// Folds the lanes of each accumulator. Rows are folded into the first row, one after the
    /// other. Other lanes are folded into one total, by halves: 32 lanes into 16, then into 8, and
    /// so on.
    pub(super) fn fold_accumulators(&mut self) {
        let row_len = self.program.n_lane_outputs();
        for accumulator in &self.program.accumulators {
            with_lane!(accumulator.dtype, T => {
                if !self.program.lanes.reduced {
                    let lanes = self.registers[accumulator.register].lanes_mut::<T>();
                    let (total, rows) = lanes[..self.len].split_at_mut(row_len);
                    for row in rows.chunks_exact(row_len) {
                        T::accumulate(accumulator.op, Fold::Each, total, View::Lanes(row));
                    }
                    continue;
                }
                let lanes = self.registers[accumulator.register].lanes::<T>();
                let total = lanes.first_chunk().map(|lanes| total(accumulator.op, lanes));
                let total = total.unwrap_or_else(|| T::identity(accumulator.op));
                self.registers[accumulator.total].lanes_mut::<T>()[0] = total;
            });
        }
    }

    /// Returns copies of the totals of the current block.
    pub(super) fn totals(&self) -> Vec<Register> {
        let accumulators = self.program.accumulators.iter();
        accumulators
            .map(|accumulator| self.registers[accumulator.total].clone())
            .collect()
    }

    /// Combines the totals of consecutive parts of a reduction, in the order of the parts.
    pub(super) fn join(&mut self, parts: &[Vec<Register>]) {
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
}
