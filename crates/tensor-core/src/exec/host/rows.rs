//! Nests that are one chain of operations, computed row by row.
//!
//! Role: computes a nest if its loops are rows of neighbouring elements, with one chain of
//! operations on each element and at most one fold along the row: the steps of softmax and of layer
//! normalization, sums of rows, and chains over whole arrays. Other nests run in other loops
//! (`kernel`).
//! Method: `chain_loops` computes all rows of a task in one call. The cost of starting a row is
//! therefore small compared with the cost of its elements, and the CPU loads the next row while it
//! computes one. An operand is a number for each lane of a row, a number for each row, or one
//! number for the whole nest. Operations after a fold that form a chain are applied to the result
//! of each row; the interpreter runs other epilogues after all rows. Several nests of a band run
//! together (`together`).
//!
//! ```text
//! for each row i:                             first x[i, ..]
//!     total[i] = sum of exp(x[i, j] - m[i])   links [- m[i], exp], fold: sum
//!     out[i] = ln(total[i])                   epilogue [ln]
//! ```

use super::around_fold::epilogue_of;
use super::chain::{
    Chain, Elements, Link, MAX_LINKS, Operand, OperandSource, ResultPosition, Results,
    is_arithmetic,
};
use super::chain_loops::{GROUP, Links, RowChain, Rows};
use super::functions;
use super::kernel::Span;
use super::lane_axes::{LaneAxes, flat_stride};
use super::lanes::{Stored, with_floats};
use super::machine::Machine;
use super::program::Bytecode;
use super::register::Register;
use super::split::TASK_VALUES;
use super::vector::FloatVector;
use crate::dtype::HostData;
use crate::error::Result;
use crate::ir::{IndexMap, LoopNest, Value, ValueId};
use crate::level::Level;
use crate::math::Chunks;
use crate::op::Reduce;
use crate::parallel;

pub(super) mod together;

#[cfg(test)]
mod tests;

/// The minimum number of elements of a row, if there are several rows. The interpreter computes
/// many short rows at a time.
const LEAST_LANES: usize = 64;
/// The number of elements of a chunk of a long row. Each chunk is folded separately.
const CHUNK: usize = 1 << 16;
/// The maximum number of chunks of all rows. The number of elements of a repeated axis, and so the
/// number of chunks, may exceed the memory.
const MAX_CHUNKS: usize = 1 << 20;

/// The number of elements of a block of rows. Several chains are computed on one block, then on the
/// next block. The blocks of an operand and of a result of `f32` take 8 KiB, so they stay in a
/// first-level cache. With twice as many elements, a softmax of rows of 1000 elements took longer.
const BLOCK_LANES: usize = 1 << 10;

/// A compiled nest.
#[derive(Debug)]
pub(super) struct ChainRows {
    chain: Chain<OperandSource>,
    fold: Option<Reduce>,
    epilogue: Epilogue,
    /// The sizes of the loops over rows.
    sizes: Vec<usize>,
    /// The number of elements of a row.
    len: usize,
    /// The number of output elements of a task.
    task: usize,
    level: Level,
}

/// The operations on the folds.
#[derive(Debug)]
enum Epilogue {
    /// Operations on the fold of each row.
    Links(Vec<Link<OperandSource>>),
    /// A program of the interpreter that computes the output in place from the folds.
    Program(Box<Bytecode>),
}

/// The elements that an input of a nest reads.
#[derive(Clone, Copy)]
pub(super) enum RowInput<'a> {
    /// An array that begins with the element of this number.
    Array(&'a HostData, usize),
    /// The results of an earlier nest on the same rows, with its number.
    Nest(usize),
}

impl ChainRows {
    /// Compiles a nest. Returns `None` if the nest is not a chain on rows, or if the interpreter is
    /// faster.
    pub(super) fn new(nest: &LoopNest) -> Option<Self> {
        let n_domain = nest.domain.len();
        let mut folds = nest.values.iter().enumerate().filter(|it| it.1.is_fold());
        let (fold, last) = match (folds.next(), folds.next()) {
            (None, _) => (None, nest.result()),
            (Some((id, &Value::Reduced(op, operand))), None) => (Some((ValueId(id), op)), operand),
            _ => return None,
        };
        let sizes = nest.sizes();
        let (n_row_axes, end) = match fold {
            Some(_) => (n_domain, sizes.len()),
            None => (first_lane_axis(nest), n_domain),
        };
        let len = sizes[n_row_axes..end].iter().product::<usize>();
        let n_rows = sizes[..n_row_axes].iter().product::<usize>();
        let is_usual = len >= LEAST_LANES || (n_rows == 1 && fold.is_none());
        let dtype = nest.dtypes[last.0];
        if !is_usual || !dtype.is_float() || nest.dtype() != dtype {
            return None;
        }
        // The interpreter folds many rows side by side if neighbouring rows are neighbours in the
        // inputs, too.
        let n_chunks = n_rows.saturating_mul(len.div_ceil(CHUNK));
        if fold.is_some() && (n_chunks > MAX_CHUNKS || !LaneAxes::choose(nest).0.reduced) {
            return None;
        }
        let chain = chain_of(nest, last, n_row_axes)?;
        if fold.is_none() && chain.links.is_empty() {
            return None;
        }
        let epilogue = match fold {
            Some((fold, _)) if fold != nest.result() => Epilogue::new(nest, fold),
            _ => Epilogue::Links(Vec::new()),
        };
        let values_an_element = nest.values.len().saturating_mul(nest.reduce_len().max(1));
        let wish = TASK_VALUES.div_ceil(values_an_element);
        let row = if fold.is_some() { 1 } else { len };
        Some(Self {
            chain,
            fold: fold.map(|fold| fold.1),
            epilogue,
            sizes: sizes[..n_row_axes].to_vec(),
            len,
            // Whole rows; or whole groups, so that the vectors of each task are aligned.
            task: wish.next_multiple_of(if row <= 2 * wish { row } else { GROUP }),
            level: Level::best(),
        })
    }

    /// Computes all output elements.
    pub(super) fn fill<T: Stored>(&self, inputs: &[&HostData], out: &mut [T]) -> Result<()> {
        let starts = vec![0; inputs.len()];
        let span = |first| Span {
            inputs,
            starts: &starts,
            first,
        };
        if self.has_long_folds() {
            let in_parallel = out.len() > self.task || self.len > 2 * CHUNK;
            with_floats!(out, out => self.fold_long_rows(&span(0), out, in_parallel)?);
            return self.run_program(&span(0), out);
        }
        if out.len() <= self.task {
            return self.fill_span(&span(0), out);
        }
        parallel::for_each(
            out.chunks_mut(self.task).enumerate(),
            || (),
            |(), (task, out)| self.fill_span(&span(task * self.task), out),
        )
    }

    /// Computes consecutive elements of the output on the calling thread.
    pub(super) fn fill_span<T: Stored>(&self, span: &Span<'_>, out: &mut [T]) -> Result<()> {
        if self.has_long_folds() {
            with_floats!(out, out => self.fold_long_rows(span, out, false)?);
        } else {
            with_floats!(out, out => self.fill_rows(span, out));
        }
        self.run_program(span, out)
    }

    /// Runs the program of the epilogue on the folds, in place.
    fn run_program<T: Stored>(&self, span: &Span<'_>, out: &mut [T]) -> Result<()> {
        let Epilogue::Program(program) = &self.epilogue else {
            return Ok(());
        };
        Machine::with_starts(program, span.inputs, span.starts).fill(span.first, out)
    }

    /// Returns whether rows are folded in chunks.
    fn has_long_folds(&self) -> bool {
        self.fold.is_some() && self.len > CHUNK
    }

    /// Computes the folds of rows: first the folds of the chunks of each row, then the folds of
    /// these results.
    fn fold_long_rows<T: FloatVector + Chunks>(
        &self,
        span: &Span<'_>,
        out: &mut [T],
        in_parallel: bool,
    ) -> Result<()> {
        let n_chunks = self.len.div_ceil(CHUNK);
        let mut totals = vec![T::ZERO; out.len() * n_chunks];
        let input = |input: usize| RowInput::of_span(span, input);
        let fold = |(chunk, total): (usize, &mut T)| {
            let at = (span.first + chunk / n_chunks, chunk % n_chunks * CHUNK);
            let mut chain = self.row_chain(at, CHUNK.min(self.len - at.1), &input);
            if let Some((_, epilogue)) = &mut chain.fold {
                *epilogue = Links::default();
            }
            let total = Results::new(std::slice::from_mut(total), 0);
            run_rows(self.level, &[chain], &mut [total], [1, 1]);
            Ok(())
        };
        let mut chunks = totals.iter_mut().enumerate();
        if in_parallel {
            parallel::for_each(chunks, || (), |(), chunk| fold(chunk))?;
        } else {
            chunks.try_for_each(fold)?;
        }
        let mut done = 0;
        while done < out.len() {
            let row = span.first + done;
            let n_rows = (out.len() - done).min(self.n_together(row));
            let chain = RowChain {
                first: Operand::Lanes(Elements {
                    array: &totals[n_chunks * done..],
                    start: 0,
                    step: n_chunks.cast_signed(),
                }),
                links: Links::default(),
                ..self.row_chain((row, 0), n_chunks, &input)
            };
            let results = Results::new(&mut out[done..], 1);
            run_rows(self.level, &[chain], &mut [results], [n_rows; 2]);
            done += n_rows;
        }
        Ok(())
    }

    /// Computes consecutive results of the chain.
    fn fill_rows<T: FloatVector + Chunks>(&self, span: &Span<'_>, out: &mut [T]) {
        let n_outputs = self.row_len();
        let input = |input: usize| RowInput::of_span(span, input);
        let mut done = 0;
        while done < out.len() {
            let element = span.first + done;
            let (row, lane) = (element / n_outputs, element % n_outputs);
            let rest = out.len() - done;
            // Whole rows if possible, otherwise the end or the start of a row.
            let (n_rows, len) = if lane == 0 && rest >= n_outputs {
                ((rest / n_outputs).min(self.n_together(row)), self.len)
            } else {
                (1, rest.min(n_outputs - lane))
            };
            let row_len = n_outputs.min(len);
            let chain = self.row_chain((row, lane), len, &input);
            let results = Results::new(&mut out[done..], row_len);
            run_rows(self.level, &[chain], &mut [results], [n_rows; 2]);
            done += n_rows * row_len;
        }
    }

    /// Returns the number of rows from a row on that have equal distances in each input.
    fn n_together(&self, row: usize) -> usize {
        let size = self.sizes.last().copied().unwrap_or(1);
        size - row % size
    }

    /// Returns the number of output elements of a row.
    pub(super) fn row_len(&self) -> usize {
        if self.fold.is_some() { 1 } else { self.len }
    }

    /// Returns the chain on `len` lanes, from a lane of a row on.
    fn row_chain<'a, T: FloatVector>(
        &self,
        (row, lane): (usize, usize),
        len: usize,
        input: &impl Fn(usize) -> RowInput<'a>,
    ) -> RowChain<'a, T> {
        let elements = |data: &'a HostData, first: usize, map: &IndexMap, lane: usize| {
            let mut start = map.offset.wrapping_add(lane.cast_signed());
            let mut row = row;
            for (&size, &stride) in self.sizes.iter().zip(&map.strides).rev() {
                start = start.wrapping_add(stride.wrapping_mul((row % size).cast_signed()));
                row /= size;
            }
            Elements {
                array: T::slice(data).unwrap_or_default(),
                start: start.wrapping_sub(first.cast_signed()),
                step: map.strides.last().copied().unwrap_or(0),
            }
        };
        let place = |nest: usize, map: &IndexMap, lane: usize| ResultPosition {
            chain: nest,
            start: map.offset.unsigned_abs() + lane,
        };
        let operand = |source: &OperandSource| match source {
            OperandSource::Number(number) => {
                Operand::Number(T::from_scalar(*number).unwrap_or_default())
            }
            OperandSource::Row(number, map) => match input(*number) {
                RowInput::Array(data, first) => Operand::Row(elements(data, first, map, 0)),
                RowInput::Nest(nest) => Operand::ResultNumber(place(nest, map, 0)),
            },
            OperandSource::Lanes(number, map) => match input(*number) {
                RowInput::Array(data, first) => Operand::Lanes(elements(data, first, map, lane)),
                RowInput::Nest(nest) => Operand::ResultLanes(place(nest, map, lane)),
            },
        };
        let epilogue = self.epilogue.links();
        RowChain {
            first: operand(&self.chain.first),
            links: Links::new(&self.chain.links, operand),
            len,
            fold: self.fold.map(|op| (op, Links::new(epilogue, operand))),
        }
    }
}

impl Epilogue {
    /// Returns the operations on the fold of each row.
    fn links(&self) -> &[Link<OperandSource>] {
        match self {
            Self::Links(links) => links,
            Self::Program(_) => &[],
        }
    }

    /// Compiles the epilogue of a fold.
    fn new(nest: &LoopNest, fold: ValueId) -> Self {
        let totals = IndexMap::in_order(&nest.domain);
        let epilogue = epilogue_of(nest, &[fold], &totals);
        // The input with the folds follows those of the nest.
        let n_inputs = nest.inputs.len();
        let is_total = |source: &OperandSource| match source {
            OperandSource::Row(input, _) => *input == n_inputs,
            _ => false,
        };
        let has_one_type = epilogue.dtypes.iter().all(|dtype| *dtype == nest.dtype());
        let chain = chain_of(&epilogue, epilogue.result(), nest.domain.len());
        if let Some(mut chain) = chain.filter(|_| has_one_type) {
            // The fold becomes the first operand of the chain.
            if let Some(Link::Binary(op, operand)) = chain.links.first()
                && is_total(operand)
            {
                let first = std::mem::replace(&mut chain.first, operand.clone());
                chain.links[0] = Link::Swapped(*op, first);
            }
            let n_totals = chain.operands().filter(|source| is_total(source)).count();
            let runs_alone = chain.links.iter().any(Link::needs_own_loop);
            if is_total(&chain.first) && n_totals == 1 && !runs_alone {
                return Self::Links(chain.links);
            }
        }
        Self::Program(Box::new(Bytecode::in_place(&epilogue)))
    }
}

impl<'a> RowInput<'a> {
    /// Returns an input of a span.
    fn of_span(span: &Span<'a>, input: usize) -> Self {
        Self::Array(span.inputs[input], span.starts[input])
    }
}

/// Computes chains on rows of lanes, in blocks of rows. A single chain needs no blocks.
fn run_rows<T: FloatVector + Chunks>(
    level: Level,
    chains: &[RowChain<'_, T>],
    results: &mut [Results<'_, T>],
    [n_rows, n_block_rows]: [usize; 2],
) {
    let len = chains.iter().map(|chain| chain.len).max().unwrap_or(0);
    let mut scratch = match chains.iter().any(RowChain::needs_scratch) {
        true => [(); 2].map(|()| Register::scratch(len.min(GROUP))),
        false => Default::default(),
    };
    level.run(Rows {
        level,
        chains,
        results,
        n_rows,
        n_block_rows,
        scratch: scratch.each_mut().map(Register::lanes_mut),
    });
}

/// Returns the first of the last axes along which the elements of each input are neighbours, or the
/// same element.
fn first_lane_axis(nest: &LoopNest) -> usize {
    let n_domain = nest.domain.len();
    let is_even = |&first: &usize| {
        let mut maps = nest.values.iter().flat_map(Value::maps);
        maps.all(|map| lane_stride(map, first, &nest.domain[first..]).is_some())
    };
    let firsts = (0..n_domain).rev().take_while(is_even);
    firsts.last().unwrap_or(n_domain)
}

/// Returns 1 if neighbouring lanes are neighbours in an input, 0 if they are the same element, and
/// `None` otherwise. Lanes run along the axes from `first` on, which have these sizes.
fn lane_stride(map: &IndexMap, first: usize, sizes: &[usize]) -> Option<isize> {
    if map.strides[first..first + sizes.len()]
        .iter()
        .all(|&stride| stride == 0)
    {
        return Some(0);
    }
    flat_stride(map, first, sizes).filter(|&stride| stride == 1)
}

/// Returns whether a value is an operation of chains on rows.
fn is_link(nest: &LoopNest, id: ValueId) -> bool {
    let is_function = match nest.values[id.0] {
        Value::Unary(op, _) => functions::has(op) && nest.dtypes[id.0].is_float(),
        _ => false,
    };
    is_function || is_arithmetic(nest, id)
}

/// Returns the chain that ends with a value of a nest, if the value is one. Lanes run along the
/// axes from `first_lane` on.
fn chain_of(nest: &LoopNest, last: ValueId, first_lane: usize) -> Option<Chain<OperandSource>> {
    let sizes = nest.sizes();
    let mut readers = vec![0; nest.values.len()];
    for value in &nest.values {
        let [a, b] = [value.operands().next(), value.operands().nth(1)];
        // A value that reads another twice is one reader.
        for operand in value.operands().take(if a == b { 1 } else { usize::MAX }) {
            readers[operand.0] += 1;
        }
    }
    let is_merged = |id: ValueId| readers[id.0] == 1 && is_link(nest, id);
    let source = |id: ValueId| match &nest.values[id.0] {
        Value::Const(number) => Some(OperandSource::Number(*number)),
        Value::Load { input, map, guards } if guards.is_empty() => {
            let end = if nest.reduce.is_empty() {
                nest.domain.len()
            } else {
                sizes.len()
            };
            let stride = lane_stride(map, first_lane, &sizes[first_lane..end])?;
            let of_rows = IndexMap {
                offset: map.offset,
                strides: map.strides[..first_lane].to_vec(),
            };
            Some(match stride {
                0 => OperandSource::Row(*input, of_rows),
                _ => OperandSource::Lanes(*input, of_rows),
            })
        }
        _ => None,
    };
    if is_link(nest, last) {
        let chain = Chain::new(nest, last, is_merged, source)?;
        return (chain.links.len() <= MAX_LINKS).then_some(chain);
    }
    Some(Chain {
        first: source(last)?,
        links: Vec::new(),
    })
}
