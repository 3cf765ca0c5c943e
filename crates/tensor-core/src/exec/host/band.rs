//! Bands on the host: several steps run on a few rows at a time.
//!
//! Role: runs the steps of a [`Band`] piece by piece, one task for each piece. Results that only
//! the band reads are stored in scratch memory for one piece, which stays in the second-level
//! cache.
//! Method: each step fills the rows of the piece by the code that fills its whole output otherwise
//! (`kernel`), so the results have the same bits. The scratch memory of a step contains the rows of
//! the piece alone; steps that read it subtract the position of the first of these rows.
//! Consecutive steps that are chains on the same rows run together, on blocks of rows
//! (`rows::together`). A result that only these steps read needs scratch memory for one block.

use std::ops::Range;
use std::sync::Arc;

use super::chain::Results;
use super::kernel::{Kernel, Kernels, Span};
use super::lanes::Stored;
use super::rows::RowInput;
use super::rows::together::{self, Member};
use super::vector::FloatVector;
use crate::dtype::{DType, HostData, with_element};
use crate::error::Result;
#[cfg(test)]
use crate::fault::{self, Fault};
use crate::math::Chunks;
use crate::parallel;
use crate::plan::{Band, BufferId, Plan, Step};
use crate::storage::{HostStorage, Pool};

#[cfg(test)]
mod tests;

/// A step of a band.
struct Stage<'a> {
    step: &'a Step,
    kernel: Arc<Kernel>,
    dtype: DType,
    /// The source of each input of the step.
    inputs: Vec<Source>,
    /// The number of elements of a row of the result.
    row_len: usize,
    /// The number of the result among the outputs of the band; `None` if the result is only
    /// read within the band.
    output: Option<usize>,
    /// The number in the band of the last step that reads the result.
    last_reader: Option<usize>,
}

impl Stage<'_> {
    /// Returns whether a step of the band after a group reads the result.
    fn is_read_after(&self, group: &Group) -> bool {
        self.last_reader
            .is_some_and(|reader| reader >= group.steps.end)
    }

    /// Returns the number of elements of scratch memory for the result of a step of a group, if it
    /// needs any. A result that only the group reads needs memory for one block of rows.
    fn scratch_len(&self, group: &Group, piece_rows: usize) -> Option<usize> {
        let is_own = group.steps.len() > 1 && !self.is_read_after(group);
        match self.kernel.rows().filter(|_| is_own) {
            Some(_) if self.output.is_some() => None,
            Some(rows) => Some(group.n_block_rows * rows.row_len()),
            None => self.last_reader.map(|_| piece_rows * self.row_len),
        }
    }
}

/// Consecutive steps of a band. Several steps run together, on blocks of rows.
struct Group {
    /// The numbers of the steps in the band.
    steps: Range<usize>,
    /// The number of rows of a block.
    n_block_rows: usize,
}

/// The source of an input of a step.
#[derive(Clone, Copy)]
enum Source {
    /// An input of the band, with its number.
    Input(usize),
    /// The result of an earlier step of the band, with its number in the band.
    Stage(usize),
}

/// The rows of an output that belong to one piece.
trait OutputRows: Send {
    /// Computes the rows.
    fn fill(&mut self, kernel: &Kernel, span: &Span<'_>) -> Result<()>;
    /// Copies the rows from the start of an array.
    fn copy_from(&mut self, data: &HostData);
    /// Returns the bytes of the elements, or `None` if the elements must be converted to lanes.
    fn bytes(&mut self) -> Option<&mut [u8]>;
}

impl<T: Stored> OutputRows for &mut [T] {
    fn fill(&mut self, kernel: &Kernel, span: &Span<'_>) -> Result<()> {
        kernel.fill_span(span, self)
    }

    fn copy_from(&mut self, data: &HostData) {
        let elements = T::slice(data).unwrap_or_default();
        self.iter_mut()
            .zip(elements)
            .for_each(|(to, &from)| *to = from);
    }

    fn bytes(&mut self) -> Option<&mut [u8]> {
        T::as_bytes_mut(self)
    }
}

/// Runs a band on inputs, in the order of [`Band::inputs`]. Returns its outputs, or `None` if a
/// step cannot run piece by piece.
pub(super) fn run(
    (kernels, pool): (&Kernels, &Arc<Pool>),
    plan: &Plan,
    band: &Band,
    data: &[&HostData],
) -> Result<Option<Vec<HostStorage>>> {
    let stages = stages(kernels, plan, band)?;
    let can_fill = |stage: &Stage<'_>| stage.kernel.can_fill_spans(stage.row_len);
    if !stages.iter().all(can_fill) {
        return Ok(None);
    }
    let outputs = band.outputs.iter().map(|output| &plan.buffers[output.0]);
    let arrays = outputs.map(|buffer| pool.take(buffer.dtype, buffer.len()));
    let mut arrays = arrays.collect::<Result<Vec<HostStorage>>>()?;
    let groups = groups(&stages, band.n_rows);
    let scratch = || -> Result<Vec<Option<HostStorage>>> {
        let of_group = |group: &Group| {
            let stages = stages[group.steps.clone()].iter();
            let lens = stages.map(|stage| stage.scratch_len(group, band.piece_rows));
            lens.collect::<Vec<Option<usize>>>()
        };
        let arrays = groups.iter().flat_map(of_group).zip(&stages);
        let arrays = arrays.map(|(len, stage)| len.map(|len| pool.take(stage.dtype, len)));
        arrays.map(Option::transpose).collect()
    };
    let pieces = pieces(band, &mut arrays).into_iter().enumerate();
    parallel::for_each(pieces, scratch, |scratch, (piece, outputs)| {
        let first = piece * band.piece_rows;
        let rows = first..band.n_rows.min(first + band.piece_rows);
        match scratch {
            Ok(scratch) => {
                let mut piece = Piece {
                    stages: &stages,
                    n_rows: band.n_rows,
                    data,
                    scratch,
                    outputs,
                    rows,
                };
                groups.iter().try_for_each(|group| piece.run(group))
            }
            Err(error) => Err(error.clone()),
        }
    })?;
    Ok(Some(arrays))
}

/// Returns the steps of a band with their kernels.
fn stages<'a>(kernels: &Kernels, plan: &'a Plan, band: &Band) -> Result<Vec<Stage<'a>>> {
    let steps: Vec<&Step> = band.steps.iter().map(|&at| &plan.steps[at]).collect();
    let mut stages = Vec::with_capacity(steps.len());
    for (number, &step) in steps.iter().enumerate() {
        let lens = step.inputs.iter().map(|input| {
            let buffer = &plan.buffers[input.0];
            (buffer.dtype, buffer.len())
        });
        let earlier = &steps[..number];
        let source = |input: &BufferId| match earlier.iter().position(|it| it.output == *input) {
            Some(number) => Source::Stage(number),
            // A checked band lists all of its inputs.
            None => Source::Input(band.inputs.binary_search(input).unwrap_or_default()),
        };
        let is_same = |output: &BufferId| *output == step.output;
        let is_reader = |reader: &&Step| reader.inputs.iter().any(is_same);
        let buffer = &plan.buffers[step.output.0];
        stages.push(Stage {
            step,
            kernel: kernels
                .get(&step.nest, lens.collect())
                .map_err(|error| step.locate(error))?,
            dtype: buffer.dtype,
            inputs: step.inputs.iter().map(source).collect(),
            row_len: buffer.len() / band.n_rows,
            output: band.outputs.iter().position(is_same),
            last_reader: steps.iter().rposition(is_reader),
        });
    }
    Ok(stages)
}

/// Divides the outputs of a band into pieces. Each piece has some rows of each output.
fn pieces<'a>(band: &Band, arrays: &'a mut [HostStorage]) -> Vec<Vec<Box<dyn OutputRows + 'a>>> {
    let mut pieces = Vec::new();
    pieces.resize_with(band.n_rows.div_ceil(band.piece_rows), Vec::new);
    for array in arrays {
        let len = array.data().len() / band.n_rows * band.piece_rows;
        with_element!(array.data().dtype(), T => {
            let chunks = array.elements_mut::<T>().chunks_mut(len);
            for (piece, rows) in pieces.iter_mut().zip(chunks) {
                piece.push(Box::new(rows) as Box<dyn OutputRows + 'a>);
            }
        });
    }
    pieces
}

/// Divides the steps of a band into groups.
fn groups(stages: &[Stage<'_>], n_rows: usize) -> Vec<Group> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for number in 0..stages.len() {
        match groups.last_mut() {
            Some(group) if joins(stages, group, number, n_rows) => group.end = number + 1,
            _ => groups.push(number..number + 1),
        }
    }
    let group = |steps: Range<usize>| {
        let nests = stages[steps.clone()].iter();
        let nests = nests.filter_map(|stage| stage.kernel.rows());
        Group {
            n_block_rows: together::n_block_rows(nests),
            steps,
        }
    };
    groups.into_iter().map(group).collect()
}

/// Returns whether a step runs together with the steps of a group before it.
fn joins(stages: &[Stage<'_>], group: &Range<usize>, number: usize, n_rows: usize) -> bool {
    let rows = |number: usize| {
        let rows = stages[number].kernel.rows();
        rows.filter(|rows| rows.can_join() && rows.n_rows().is_multiple_of(n_rows))
    };
    let (Some(first), Some(own)) = (rows(group.start), rows(number)) else {
        return false;
    };
    let stage = &stages[number];
    #[cfg(test)]
    if fault::is_planted(Fault::RowsTogether) {
        return true;
    }
    let mut inputs = stage.inputs.iter().enumerate();
    first.n_rows() == own.n_rows()
        && stages[group.start].dtype == stage.dtype
        && inputs.all(|(input, source)| match *source {
            Source::Stage(earlier) if earlier >= group.start => {
                rows(earlier).is_some_and(|rows| own.stays_in_rows(input, rows.row_len()))
            }
            _ => true,
        })
}

/// The rows of a band that are computed by one task.
struct Piece<'p, 'a> {
    stages: &'p [Stage<'a>],
    /// The number of rows of the band.
    n_rows: usize,
    /// The inputs of the band.
    data: &'p [&'p HostData],
    scratch: &'p mut [Option<HostStorage>],
    outputs: Vec<Box<dyn OutputRows + 'p>>,
    rows: Range<usize>,
}

impl Piece<'_, '_> {
    /// Runs a group of steps.
    fn run(&mut self, group: &Group) -> Result<()> {
        if group.steps.len() == 1 {
            return self.run_step(group.steps.start);
        }
        match self.stages[group.steps.start].dtype {
            DType::F64 => self.run_together::<f64>(group),
            _ => self.run_together::<f32>(group),
        }
        Ok(())
    }

    /// Runs one step.
    fn run_step(&mut self, number: usize) -> Result<()> {
        let stage = &self.stages[number];
        let (before, own) = self.scratch.split_at_mut(number);
        let source = |source: &Source| match *source {
            Source::Input(number) => Some((self.data[number], 0)),
            Source::Stage(number) => {
                let start = self.rows.start * self.stages[number].row_len;
                before[number].as_ref().map(|rows| (rows.data(), start))
            }
        };
        let (inputs, starts): (Vec<&HostData>, Vec<usize>) =
            stage.inputs.iter().filter_map(source).unzip();
        let span = Span {
            inputs: &inputs,
            starts: &starts,
            first: self.rows.start * stage.row_len,
        };
        let output = stage.output.map(|output| &mut self.outputs[output]);
        let result = match (&mut own[0], output) {
            (Some(own), output) => {
                let len = self.rows.len() * stage.row_len;
                let filled = with_element!(stage.dtype, T => {
                    stage.kernel.fill_span(&span, &mut own.elements_mut::<T>()[..len])
                });
                if let Some(output) = output {
                    output.copy_from(own.data());
                }
                filled
            }
            (None, Some(output)) => output.fill(&stage.kernel, &span),
            (None, None) => Ok(()),
        };
        result.map_err(|error| stage.step.locate(error))
    }

    /// Runs a group of several steps, on blocks of rows.
    fn run_together<T: Stored + FloatVector + Chunks>(&mut self, group: &Group) {
        let start = group.steps.start;
        let (before, own) = self.scratch.split_at_mut(start);
        let stages = &self.stages[group.steps.clone()];
        let source = |source: &Source| match *source {
            Source::Input(number) => Some(RowInput::Array(self.data[number], 0)),
            Source::Stage(number) if number >= start => Some(RowInput::Nest(number - start)),
            Source::Stage(number) => {
                let first = self.rows.start * self.stages[number].row_len;
                let rows = before[number].as_ref();
                rows.map(|rows| RowInput::Array(rows.data(), first))
            }
        };
        let mut outputs: Vec<_> = self.outputs.iter_mut().map(Some).collect();
        let (mut members, mut results) = (Vec::new(), Vec::new());
        for (stage, scratch) in stages.iter().zip(&mut *own) {
            let Some(nest) = stage.kernel.rows() else {
                unreachable!("`joins` returned `true`");
            };
            members.push(Member {
                nest,
                inputs: stage.inputs.iter().filter_map(source).collect(),
            });
            let output = stage.output.and_then(|output| outputs[output].take());
            let row_len = nest.row_len();
            results.push(match (scratch.as_mut(), output) {
                (Some(scratch), _) => {
                    let elements = scratch.elements_mut::<T>();
                    match stage.is_read_after(group) {
                        true => Results::new(elements, row_len),
                        false => Results::with_last_rows(elements, row_len, group.n_block_rows),
                    }
                }
                (None, Some(output)) => {
                    let Some(bytes) = output.bytes() else {
                        unreachable!("f32 and f64 are their own lanes");
                    };
                    Results::new(bytemuck::cast_slice_mut(bytes), row_len)
                }
                (None, None) => Results::new(&mut [], 0),
            });
        }
        let nest_rows_per_row = members[0].nest.n_rows() / self.n_rows;
        let rows = self.rows.start * nest_rows_per_row..self.rows.end * nest_rows_per_row;
        together::fill(&members, &mut results, rows, group.n_block_rows);
        drop(results);
        for (stage, scratch) in stages.iter().zip(own) {
            if let (Some(scratch), Some(output)) = (scratch, stage.output) {
                self.outputs[output].copy_from(scratch.data());
            }
        }
    }
}
