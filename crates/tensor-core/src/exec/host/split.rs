//! The split of a nest over threads.
//!
//! Method: the output is split into ranges, each filled by one task. If the output has too few
//! elements for enough tasks and each element reduces many values, the reduction is split instead,
//! and the partial results are combined in order. The boundaries depend on the nest alone and never
//! on the number of threads, so the bits of the result do not depend on it either.

use super::kernel::Span;
use super::lanes::Stored;
use super::machine::Machine;
use super::program::Bytecode;
use super::register::Register;
use crate::dtype::HostData;
use crate::error::Result;
use crate::ir::LoopNest;
use crate::parallel;

/// The minimum number of values that one task computes: some tens of microseconds.
pub(super) const TASK_VALUES: usize = 1 << 17;
/// The number of tasks that keeps any machine busy. With fewer tasks the reduction may be split,
/// too.
const ENOUGH_TASKS: usize = 32;
/// The minimum number of values of one block of lanes for which splitting the reduction pays.
const WORTH_PARTS: usize = 8 * TASK_VALUES;
/// The maximum number of parts of a reduction.
const MAX_PARTS: usize = 64;

/// A compiled nest, and its split over threads.
#[derive(Debug)]
pub(super) struct Loops {
    program: Bytecode,
    /// The number of output elements of one task.
    elements: usize,
    /// The number of parts of the reduction; 1 if it is not split.
    n_parts: usize,
}

impl Loops {
    /// Compiles a nest and chooses its split.
    pub(super) fn new(nest: &LoopNest) -> Self {
        let program = Bytecode::compile(nest);
        let elements = elements_per_task(nest, &program);
        let n_tasks = nest.output_len().div_ceil(elements);
        Self {
            n_parts: n_parts(nest, &program, nest.output_len(), n_tasks),
            program,
            elements,
        }
    }

    /// Compiles a nest without reductions whose last input is the output itself: each element is
    /// computed from the old element at the same position.
    pub(super) fn in_place(nest: &LoopNest) -> Self {
        let program = Bytecode::in_place(nest);
        Self {
            elements: elements_per_task(nest, &program),
            n_parts: 1,
            program,
        }
    }

    /// Computes all output elements.
    pub(super) fn fill<T: Stored>(&self, inputs: &[&HostData], out: &mut [T]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        if self.n_parts > 1 {
            return fill_in_parts(&self.program, inputs, out, self.n_parts);
        }
        if out.len() <= self.elements {
            return Machine::new(&self.program, inputs).fill(0, out);
        }
        let chunks = out.chunks_mut(self.elements).enumerate();
        parallel::for_each(
            chunks,
            || Machine::new(&self.program, inputs),
            |machine, (task, out)| machine.fill(task * self.elements, out),
        )
    }

    /// Returns whether a span of a multiple of `unit` elements has the bits of the whole output.
    /// Lanes along rows compute all output elements of an outer index together, so a span must
    /// contain all of these.
    pub(super) fn can_fill_spans(&self, unit: usize) -> bool {
        let program = &self.program;
        let is_one_row = program.lanes.n_rows == 1;
        self.n_parts == 1 && (is_one_row || unit.is_multiple_of(program.n_lane_outputs()))
    }

    /// Computes consecutive elements of the output on the calling thread. The machine is a new one
    /// each time, because it borrows the inputs, which change from piece to piece.
    pub(super) fn fill_span<T: Stored>(&self, span: &Span<'_>, out: &mut [T]) -> Result<()> {
        Machine::with_starts(&self.program, span.inputs, span.starts).fill(span.first, out)
    }
}

/// Returns the number of output elements of one task.
fn elements_per_task(nest: &LoopNest, program: &Bytecode) -> usize {
    let values_an_element = nest.values.len().saturating_mul(nest.reduce_len().max(1));
    let wish = TASK_VALUES.div_ceil(values_an_element.max(1));
    task_len(program, nest.output_len(), wish)
}

/// Returns the number of output elements of one task, at least `wish`. Rounds up to whole rows of
/// lanes if enough tasks remain or the task grows little, otherwise to blocks.
fn task_len(program: &Bytecode, n_elements: usize, wish: usize) -> usize {
    let row = program.n_lane_outputs();
    let is_row = n_elements / row >= ENOUGH_TASKS || row <= 2 * wish || program.lanes.n_rows > 1;
    let a_block = program.block / program.lanes.per_output;
    wish.next_multiple_of(if is_row { row } else { a_block })
}

/// Returns the number of parts of the reduction for each output block: 1, unless there are too few
/// tasks and each block reduces many values.
fn n_parts(nest: &LoopNest, program: &Bytecode, n_elements: usize, n_tasks: usize) -> usize {
    let values = nest
        .values
        .len()
        .saturating_mul(n_elements)
        .saturating_mul(nest.reduce_len());
    let lanes = program.n_lane_outputs().min(program.block);
    // Values that one output block reduces.
    let values_a_block = values / n_elements.div_ceil(lanes.max(1));
    let units = program.n_units;
    if nest.reduce.is_empty() || n_tasks >= ENOUGH_TASKS || values_a_block < WORTH_PARTS {
        return 1;
    }
    (values_a_block / TASK_VALUES).min(MAX_PARTS).min(units)
}

/// Computes all output elements with the reduction split into parts, block by block.
fn fill_in_parts<T: Stored>(
    program: &Bytecode,
    inputs: &[&HostData],
    out: &mut [T],
    n_parts: usize,
) -> Result<()> {
    let units = program.n_units;
    // Part p covers the units cut(p)..cut(p + 1); all parts are of nearly equal length.
    let cut = |part: usize| units * part / n_parts;
    let mut done = 0;
    while done < out.len() {
        let mut machine = Machine::new(program, inputs);
        let len = machine.seek(done, out.len() - done);
        let mut parts: Vec<Vec<Register>> = Vec::new();
        parts.resize_with(n_parts, Vec::new);
        parallel::for_each(
            parts.iter_mut().enumerate(),
            || Machine::new(program, inputs),
            |machine, (part, totals)| {
                *totals = machine.fold_part(done, len, cut(part)..cut(part + 1))?;
                Ok(())
            },
        )?;
        machine.join_parts(done, &parts, &mut out[done..done + len])?;
        done += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::{Executor, Host, Reference};
    use crate::plan::Plan;
    use crate::tensor::Tensor;

    #[test]
    fn folds_of_rows_are_those_of_the_reference_whole_and_in_parts() {
        let host = Host::new();
        let whole = |shape: &[usize]| {
            let n: usize = shape.iter().product();
            let x = Tensor::from_vec(shape, (0..n).map(|i| (i * 37 % 11) as f32 - 5.0).collect());
            x.realize(&host).unwrap()
        };
        for (n_rows, n_cols, has_parts) in [(14400, 32, true), (60, 24, false), (14, 3, false)] {
            let (x, shift) = (whole(&[n_rows, n_cols]), whole(&[n_cols]));
            let shifted = &x - &shift;
            // Two folds of one step, each with a value that is equal in all rows.
            let columns = (&shifted * &shifted).sum(0) + shifted.max(0) * &shift;
            let batches = (whole(&[3, n_rows, n_cols]) * &shift).sum(1);
            for (name, program) in [("columns", columns), ("batches", batches)] {
                let (plan, _) = Plan::new(&[&program], &host.target()).unwrap();
                let [step] = &plan.steps[..] else {
                    panic!("{name}: {}", plan.explain());
                };
                let loops = Loops::new(&step.nest);
                let is_of_rows = loops.program.lanes.n_rows > 1;
                assert!(is_of_rows, "{name} of {n_rows} x {n_cols}: {loops:?}");
                if name == "columns" {
                    assert_eq!(loops.n_parts > 1, has_parts, "{n_rows} x {n_cols}");
                }
                let actual = program.eval::<f32>(&host).unwrap();
                let expected = program.eval::<f32>(&Reference).unwrap();
                assert_eq!(actual, expected, "{name} of {n_rows} x {n_cols}");
            }
        }
    }
}
