//! The walk of a machine over the blocks of its output.
//!
//! Role: selects the instructions that run next, and moves finished blocks to the output.
//! Method: each instruction runs over one block of lanes at a time, so that its dispatch cost is
//! shared by all lanes. The loop over instructions is compiled once for each instruction set and
//! selected at run time (`level`). All blocks of a walk run within that loop, because entering it
//! costs as much as an instruction on a hundred lanes.
//!
//! ```text
//! for each block:  start (once), setup, [ body, next unit ] for each unit, epilogue, store
//! ```

use std::ops::Range;

use crate::error::Result;

use super::lanes::Stored;
use super::loops::View;
use super::machine::Machine;
use super::program::{Bytecode, Slot};
use super::register::{Destination, Register};

/// The number of units between two checks for an early stop, if lanes are output elements. Each
/// check reads all lanes.
const LOOK_EVERY: usize = 4;

/// Consecutive output elements of any type.
trait Output {
    fn len(&self) -> usize;
    /// Returns some elements as bytes to which lanes may be written without conversion, or `None`
    /// if each lane must be converted.
    fn bytes(&mut self, at: Range<usize>) -> Option<&mut [u8]>;
    /// Converts some elements to lanes of a register.
    fn load(&self, at: Range<usize>, register: &mut Register);
    /// Converts the lanes of a result, from lane `first` on, to elements.
    fn store(&mut self, at: Range<usize>, machine: &Machine<'_>, result: Slot, first: usize);
}

impl<T: Stored> Output for &mut [T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    fn bytes(&mut self, at: Range<usize>) -> Option<&mut [u8]> {
        T::as_bytes_mut(&mut self[at])
    }

    fn load(&self, at: Range<usize>, register: &mut Register) {
        let lanes = register.lanes_mut::<T::Lane>().iter_mut();
        lanes
            .zip(&self[at])
            .for_each(|(lane, &element)| *lane = element.load());
    }

    fn store(&mut self, at: Range<usize>, machine: &Machine<'_>, result: Slot, first: usize) {
        let out = &mut self[at];
        match machine.view::<T::Lane>(result) {
            View::Lanes(lanes) => out
                .iter_mut()
                .zip(&lanes[first..])
                .for_each(|(out, &lane)| *out = T::store(lane)),
            View::Uniform(lane) => out.fill(T::store(lane)),
        }
    }
}

/// The action after the instructions that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The first block.
    Start,
    /// The next unit of the reduction.
    Unit,
    /// The result of the block is complete.
    Store,
}

/// The state of a walk.
struct Walk<'a> {
    /// The output, or `None` if the walk ends when the units of the first block are folded.
    out: Option<&'a mut dyn Output>,
    /// The number of the first element.
    first: usize,
    /// The number of elements.
    len: usize,
    /// The elements that the current block computes, counted from the first.
    block: Range<usize>,
    /// The place of the current block among the output elements of an outer index.
    place: usize,
    /// The units that each block folds.
    units: Range<usize>,
    /// The number of units of the current block that are folded.
    n_folded: usize,
    /// The totals of parts of the reduction, which are joined instead of folded.
    parts: &'a [Vec<Register>],
    next: Next,
    /// The number of the instruction that writes to the output directly.
    direct: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(program: &Bytecode, first: usize, out: Option<&'a mut dyn Output>) -> Self {
        let mut walk = Self {
            out,
            first,
            len: 0,
            block: 0..0,
            place: 0,
            units: 0..program.n_units,
            n_folded: 0,
            parts: &[],
            next: Next::Start,
            direct: None,
        };
        if let Some(out) = &mut walk.out {
            walk.len = out.len();
            walk.direct = program.direct().filter(|_| out.bytes(0..0).is_some());
        }
        walk
    }

    /// Returns the destination of an instruction if the instruction writes to the output.
    #[inline(always)]
    fn destination(&mut self, instruction: usize) -> Option<Destination<'_>> {
        if self.direct != Some(instruction) {
            return None;
        }
        let bytes = self.out.as_mut()?.bytes(self.block.clone())?;
        Some(Destination(bytes))
    }
}

impl Machine<'_> {
    /// Computes the output elements from number `first` on into `out`.
    pub(super) fn fill<T: Stored>(&mut self, first: usize, mut out: &mut [T]) -> Result<()> {
        let walk = Walk::new(self.program, first, Some(&mut out));
        self.walk(walk)
    }

    /// Folds a range of units of the reduction (see [`Bytecode::n_units`]) for the block that
    /// begins with an output element and has at most `most` elements. Returns the totals.
    pub(super) fn fold_part(
        &mut self,
        first: usize,
        most: usize,
        units: Range<usize>,
    ) -> Result<Vec<Register>> {
        let mut walk = Walk::new(self.program, first, None);
        (walk.units, walk.len) = (units, most);
        self.walk(walk)?;
        Ok(self.totals())
    }

    /// Computes a block from the totals of the parts of its reduction, in the order of the parts.
    pub(super) fn join_parts<T: Stored>(
        &mut self,
        first: usize,
        parts: &[Vec<Register>],
        mut out: &mut [T],
    ) -> Result<()> {
        let mut walk = Walk::new(self.program, first, Some(&mut out));
        (walk.units, walk.parts) = (0..0, parts);
        self.walk(walk)
    }

    /// Runs the instructions of a walk.
    fn walk(&mut self, mut walk: Walk<'_>) -> Result<()> {
        let (program, level) = (self.program, self.level);
        level.dispatch(
            #[inline(always)]
            || {
                while let Some(numbers) = self.next(&mut walk) {
                    for number in numbers {
                        let instruction = &program.instructions[number];
                        // Taken out of the list, so that operands can be borrowed from the other
                        // registers.
                        let mut register =
                            std::mem::take(&mut self.registers[instruction.destination]);
                        let mut destination = match walk.destination(number) {
                            Some(out) => out,
                            None => register.destination(),
                        };
                        self.step(instruction, &mut destination);
                        self.registers[instruction.destination] = register;
                    }
                }
            },
        );
        self.check()
    }

    /// Returns the numbers of the instructions that run next; `None` at the end.
    #[inline(never)]
    fn next(&mut self, walk: &mut Walk<'_>) -> Option<Range<usize>> {
        let program = self.program;
        if walk.next == Next::Unit {
            walk.n_folded += 1;
            let looks = program.lanes.reduced || walk.n_folded.is_multiple_of(LOOK_EVERY);
            let is_decided = program.stops && looks && self.is_decided();
            let n_units = walk.units.len();
            if walk.n_folded < n_units && !is_decided {
                self.next_unit();
                return Some(program.body.clone());
            }
            // Back to the first unit, for the next block.
            match is_decided {
                true => self.move_to_unit(0),
                false if n_units > 1 => self.next_unit(),
                false => {}
            }
            walk.next = Next::Store;
            self.end_fold(walk.parts);
            return walk.out.is_some().then(|| program.epilogue());
        }
        if walk.next == Next::Store {
            self.store(walk);
        }
        if self.fault.is_some() || !self.next_block(walk) {
            return None;
        }
        let first = self.first_instruction();
        if program.accumulators.is_empty() {
            walk.next = Next::Store;
            return Some(first..program.epilogue().end);
        }
        self.reset_accumulators();
        walk.n_folded = 0;
        walk.next = Next::Unit;
        match walk.units.is_empty() {
            true => Some(first..program.body.start),
            false => Some(first..program.body.end),
        }
    }

    /// Moves to the next block, or returns `false` if there is none.
    fn next_block(&mut self, walk: &mut Walk<'_>) -> bool {
        let program = self.program;
        let done = walk.block.end;
        let most = walk.len - done;
        if most == 0 {
            return false;
        }
        let n_outputs = program.n_lane_outputs();
        let len = if walk.next == Next::Start {
            walk.place = walk.first % n_outputs;
            let len = self.seek(walk.first, most);
            if walk.units.start > 0 {
                self.move_to_unit(walk.units.start);
            }
            len
        } else {
            walk.place += walk.block.len();
            if walk.place == n_outputs {
                walk.place = 0;
                self.advance(program.outer_axes());
            }
            self.begin_block(walk.place, most)
        };
        walk.block = done..done + len;
        if let (Some(out), Some(register)) = (&walk.out, program.before) {
            out.load(walk.block.clone(), &mut self.registers[register]);
        }
        true
    }

    /// Computes the totals of a block, and moves from its lanes to the lanes of the epilogue.
    fn end_fold(&mut self, parts: &[Vec<Register>]) {
        let lanes = &self.program.lanes;
        if lanes.reduced || lanes.n_rows > 1 {
            if parts.is_empty() {
                self.fold_accumulators();
            }
            (self.start, self.len) = (0, self.program.n_lane_outputs());
        } else {
            self.start /= lanes.per_output;
            self.len /= lanes.per_output;
        }
        if !parts.is_empty() {
            self.join(parts);
        }
    }

    /// Moves the result of a block to the output, unless its last instruction has written there.
    fn store(&mut self, walk: &mut Walk<'_>) {
        if let (Some(out), None) = (&mut walk.out, walk.direct) {
            // The first row has a lane for each output element of the outer index, also for those
            // before the block.
            let first = if self.program.lanes.n_rows > 1 {
                walk.place
            } else {
                0
            };
            out.store(walk.block.clone(), self, self.program.result, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Machine;
    use super::super::program::Bytecode;
    use crate::exec::reference::host_inputs;
    use crate::exec::{Executor, Host, Reference};
    use crate::plan::Plan;
    use crate::tensor::Tensor;

    #[test]
    fn values_that_are_equal_in_all_blocks_are_those_of_each_block() {
        let numbers = |shape: &[usize]| {
            let n: usize = shape.iter().product();
            Tensor::from_vec(shape, (0..n).map(|i| (i * 37 % 101) as f32).collect())
        };
        let (x, row, column) = (numbers(&[9, 5, 40]), numbers(&[5, 1]), numbers(&[40]));
        // A row and a column are equal for all of the nine matrices.
        let shifted = (&x - &row * 2) * &column + 3;
        for (name, program) in [
            ("elements", shifted.clone()),
            (
                "a fold of outer elements",
                (&x.permute(&[1, 2, 0]) * column.expand_dims(-1)).max(-1),
            ),
            ("a fold of lanes", (&x * &column).sum(-1)),
            (
                "a fold of lanes that stay",
                (numbers(&[9, 5, 1]) * &column * &column).max(-1),
            ),
            ("no input", Tensor::arange(40).broadcast_to(&[30, 40]) * 2),
        ] {
            let (plan, data) = Plan::new(&[&program], &Host::new().target()).unwrap();
            let [step] = &plan.steps[..] else {
                panic!("{name}: {}", plan.explain());
            };
            let at = |input| plan.inputs.iter().position(|known| known == input).unwrap();
            let inputs: Vec<_> = step
                .inputs
                .iter()
                .map(|input| data[at(input)].clone())
                .collect();
            let inputs = host_inputs(&inputs).unwrap();
            let bytecode = Bytecode::compile(&step.nest);
            let expected = program
                .cast(crate::DType::F32)
                .eval::<f32>(&Reference)
                .unwrap();
            let expected: Vec<f32> = expected.into_iter().collect();
            // One machine computes parts that begin and end anywhere, also within the lanes.
            let mut machine = Machine::new(&bytecode, &inputs);
            for (first, len) in [
                (0, 7),
                (3, 60),
                (0, 30),
                (41, 19),
                (1, 1),
                (0, 45),
                (13, 22),
            ] {
                let part = &expected[first.min(expected.len())..];
                let part = &part[..len.min(part.len())];
                let actual: Vec<f32> = match step.nest.dtype() {
                    crate::DType::I32 => {
                        let mut out = vec![-7_i32; part.len()];
                        machine.fill(first, &mut out).unwrap();
                        out.into_iter().map(|x| x as f32).collect()
                    }
                    _ => {
                        let mut out = vec![-7_f32; part.len()];
                        machine.fill(first, &mut out).unwrap();
                        out
                    }
                };
                assert_eq!(actual, part, "{name}, {len} from {first}");
            }
        }
    }

    #[test]
    fn a_block_after_one_that_is_decided_early_begins_with_its_first_term() {
        // The first row decides all columns, which are many blocks.
        let (rows, cols) = (64, 5000);
        let first_row = (0..rows * cols).map(|i| if i < cols { 1.0 } else { 0.0 });
        let x = Tensor::from_vec(&[rows, cols], first_row.collect::<Vec<f32>>());
        for (name, decided, expected) in [
            ("any", x.gt(0.5).any(0), 1.0),
            ("all", x.lt(0.5).all(0), 0.0),
        ] {
            let found = decided.cast(crate::DType::F32).eval::<f32>(&Host::new());
            let found = found.unwrap();
            assert!(found.iter().all(|&found| found == expected), "{name}");
        }
    }
}
