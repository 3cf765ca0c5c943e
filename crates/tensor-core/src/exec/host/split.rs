//! Deals a nest out to threads.
//!
//! Method: the output is cut into ranges, each filled by one task. Where it has too few elements for that and each folds
//! many, the folding is cut instead, and the parts are joined in order. Where the cuts lie depends on the nest alone, never
//! on the number of threads, so neither do the bits.

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use super::lanes::Stored;
use super::machine::Machine;
use super::pairs;
use super::program::{Phase, Program};
use super::register::Register;
use super::rows::MAX_ROWS;
use crate::dtype::HostData;
use crate::error::Result;
use crate::ir::LoopNest;

/// Values that one task computes at least: some tens of microseconds.
const TASK_VALUES: usize = 1 << 17;
/// Tasks that keep any machine busy; fewer, and folding is cut too.
const ENOUGH_TASKS: usize = 32;
/// Values of one block of lanes for which it pays to fold them in parts.
const WORTH_PARTS: usize = 8 * TASK_VALUES;
/// Parts that folding is cut into at most.
const MAX_PARTS: usize = 64;

/// A compiled nest, and how it is dealt out.
#[derive(Debug)]
pub(super) struct Loops {
    program: Program,
    /// The output elements of one task.
    elements: usize,
    /// The parts that folding is cut into.
    n_parts: usize,
}

impl Loops {
    pub(super) fn of(nest: &LoopNest) -> Self {
        let program = Program::of(nest);
        let elements = elements_a_task(nest, &program);
        let n_tasks = nest.output_len().div_ceil(elements);
        Self {
            n_parts: n_parts(nest, &program, nest.output_len(), n_tasks),
            program,
            elements,
        }
    }

    /// For a nest without reductions whose last input is the output itself: each element is computed from what stands in
    /// its place.
    pub(super) fn in_place(nest: &LoopNest) -> Self {
        let program = Program::in_place(nest);
        Self {
            elements: elements_a_task(nest, &program),
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
        let chunks = out.par_chunks_mut(self.elements).enumerate();
        chunks.try_for_each_init(
            || Machine::new(&self.program, inputs),
            |machine, (task, out)| machine.fill(task * self.elements, out),
        )
    }
}

/// The elements of one task.
fn elements_a_task(nest: &LoopNest, program: &Program) -> usize {
    let values_an_element = nest.values.len().saturating_mul(nest.reduce_len().max(1));
    let wish = TASK_VALUES.div_ceil(values_an_element.max(1));
    task_len(program, nest.output_len(), wish)
}

/// The elements of one task, at least `wish`: groups of rows of lanes if enough tasks remain or a task hardly grows, else
/// rows, else blocks.
fn task_len(program: &Program, n_elements: usize, wish: usize) -> usize {
    let lanes = if program.lanes.reduced {
        1
    } else {
        program.lanes.len
    };
    let units = [MAX_ROWS, pairs::ROWS, 1].map(|rows| lanes.saturating_mul(rows));
    let unit = units
        .into_iter()
        .find(|&unit| n_elements / unit >= ENOUGH_TASKS || unit <= 2 * wish);
    wish.next_multiple_of(unit.unwrap_or(program.block))
}

fn n_parts(nest: &LoopNest, program: &Program, n_elements: usize, n_tasks: usize) -> usize {
    let values = nest
        .values
        .len()
        .saturating_mul(n_elements)
        .saturating_mul(nest.reduce_len());
    let lanes = if program.lanes.reduced {
        1
    } else {
        program.lanes.len.min(program.block)
    };
    let values_a_block = values / n_elements.div_ceil(lanes.max(1));
    let units = program.reduce_units();
    if nest.reduce.is_empty() || n_tasks >= ENOUGH_TASKS || values_a_block < WORTH_PARTS {
        return 1;
    }
    (values_a_block / TASK_VALUES).min(MAX_PARTS).min(units)
}

/// Computes all output elements, folding in parts.
fn fill_in_parts<T: Stored>(
    program: &Program,
    inputs: &[&HostData],
    out: &mut [T],
    n_parts: usize,
) -> Result<()> {
    let units = program.reduce_units();
    let cut = |part: usize| units * part / n_parts;
    let mut done = 0;
    while done < out.len() {
        let mut machine = Machine::new(program, inputs);
        let len = machine.seek(done, out.len() - done);
        let parts: Result<Vec<Vec<Register>>> = (0..n_parts)
            .into_par_iter()
            .map(|part| {
                let mut machine = Machine::new(program, inputs);
                machine.seek(done, len);
                machine.run_phase(Phase::Setup);
                machine.fold(cut(part)..cut(part + 1));
                machine.check()?;
                Ok(machine.totals())
            })
            .collect();
        machine.run_phase(Phase::Setup);
        machine.join(&parts?);
        machine.finish(&mut out[done..done + len])?;
        done += len;
    }
    Ok(())
}
