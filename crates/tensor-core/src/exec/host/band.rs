//! Bands on the host: several steps run on a few rows at a time.
//!
//! Role: runs the steps of a [`Band`] piece by piece, one task for each piece. Results that only
//! the band reads are stored in scratch memory for one piece, which stays in the second-level
//! cache.
//! Method: each step fills the rows of the piece by the code that fills its whole output otherwise
//! (`kernel`), so the results have the same bits. The scratch memory of a step contains the rows of
//! the piece alone; steps that read it subtract the position of the first of these rows.

use std::ops::Range;
use std::sync::Arc;

use super::kernel::{Kernel, Kernels, Span};
use super::lanes::Stored;
use crate::dtype::{DType, HostData, with_element};
use crate::error::Result;
use crate::parallel;
use crate::plan::{Band, BufferId, Plan, Step};
use crate::storage::{HostStorage, Pool};

/// A step of a band.
struct Stage<'a> {
    step: &'a Step,
    kernel: Arc<Kernel>,
    dtype: DType,
    /// The source of each input of the step.
    inputs: Vec<Source>,
    /// The number of elements of a row of the result.
    row_len: usize,
    /// The number of the result among the outputs of the band; `None` if it is no output.
    output: Option<usize>,
    /// Whether a later step of the band reads the result.
    is_read: bool,
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
    if !stages.iter().all(|stage| stage.kernel.can_fill_spans()) {
        return Ok(None);
    }
    let outputs = band.outputs.iter().map(|output| &plan.buffers[output.0]);
    let arrays = outputs.map(|buffer| pool.take(buffer.dtype, buffer.len()));
    let mut arrays = arrays.collect::<Result<Vec<HostStorage>>>()?;
    let scratch = || -> Result<Vec<Option<HostStorage>>> {
        let arrays = stages.iter().map(|stage| {
            let len = band.piece_rows * stage.row_len;
            stage
                .is_read
                .then(|| pool.take(stage.dtype, len))
                .transpose()
        });
        arrays.collect()
    };
    let pieces = pieces(band, &mut arrays).into_iter().enumerate();
    parallel::for_each(pieces, scratch, |scratch, (piece, outputs)| {
        let first = piece * band.piece_rows;
        let rows = first..band.n_rows.min(first + band.piece_rows);
        match scratch {
            Ok(scratch) => run_piece(&stages, data, scratch, outputs, rows),
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
            is_read: steps.iter().any(|reader| reader.inputs.iter().any(is_same)),
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

/// Runs all steps on the rows of one piece.
fn run_piece(
    stages: &[Stage<'_>],
    data: &[&HostData],
    scratch: &mut [Option<HostStorage>],
    mut outputs: Vec<Box<dyn OutputRows + '_>>,
    rows: Range<usize>,
) -> Result<()> {
    for (number, stage) in stages.iter().enumerate() {
        let (before, own) = scratch.split_at_mut(number);
        let source = |source: &Source| match *source {
            Source::Input(number) => Some((data[number], 0)),
            Source::Stage(number) => {
                let start = rows.start * stages[number].row_len;
                before[number].as_ref().map(|rows| (rows.data(), start))
            }
        };
        let (inputs, starts): (Vec<&HostData>, Vec<usize>) =
            stage.inputs.iter().filter_map(source).unzip();
        let span = Span {
            inputs: &inputs,
            starts: &starts,
            first: rows.start * stage.row_len,
        };
        let output = stage.output.map(|output| &mut outputs[output]);
        let result = match (&mut own[0], output) {
            (Some(own), output) => {
                let len = rows.len() * stage.row_len;
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
        result.map_err(|error| stage.step.locate(error))?;
    }
    Ok(())
}
