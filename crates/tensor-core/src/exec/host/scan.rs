//! Scans on the host.
//!
//! Role: runs a nest with a [`Value::Scanned`](crate::ir::Value::Scanned), with the operations
//! before and after the scan.
//! Method: the interpreter computes the operand of a few thousand elements, the loops of `line`
//! scan these elements, and the interpreter computes the rest of the nest from the results; all
//! three stay in the first-level cache. Lines run in parallel. If there are few lines and they are
//! long, each line is divided into parts: the parts are folded first, which yields the result
//! before each part, and then scanned. The division depends on the nest alone, so the bits of the
//! result do not depend on the number of threads.
//!
//! ```text
//! [ lines | axis of the scan | elements of a point ]        one point: a row of neighbours
//! ```

use std::ops::Range;

use super::kernel::Span;
use super::lanes::{LaneType, Stored};
use super::level::Level;
use super::machine::Machine;
use super::product::epilogue_of;
use super::program::Bytecode;
use super::split::Loops;
use crate::dtype::{DType, HostData};
use crate::error::Result;
use crate::ir::{LoopNest, Value, ValueId};
use crate::op::Scan;
use crate::parallel;

mod line;

/// The number of elements that are scanned at a time.
const PIECE: usize = 1 << 12;
/// The minimum number of elements of a task.
const TASK: usize = 1 << 15;
/// The number of lines that keeps any machine busy. With fewer lines, long lines are divided.
const ENOUGH_LINES: usize = 32;
/// The maximum number of parts of a line.
const MAX_PARTS: usize = 64;

/// A compiled nest with a scan.
#[derive(Debug)]
pub(super) struct ScanLoops {
    scan: Scan,
    /// The type of the operand and of the results of the scan.
    dtype: DType,
    operand: Operand,
    /// The loops that compute the output from the results of the scan; `None` if these are the
    /// output.
    epilogue: Option<Loops>,
    n_lines: usize,
    /// The number of points of a line.
    n_points: usize,
    /// The number of elements of a point.
    width: usize,
    /// The number of points of a part of a line; `n_points` if lines are not divided.
    part: usize,
    /// The number of points that are scanned at a time.
    piece: usize,
}

/// The source of the elements that are scanned.
#[derive(Debug)]
enum Operand {
    /// An input with the order of elements of the output.
    Input(usize),
    Computed(Box<Bytecode>),
}

impl ScanLoops {
    /// Compiles a nest, or returns `None` if it scans nothing. The output must not be empty.
    pub(super) fn new(nest: &LoopNest) -> Option<Self> {
        let (id, scan) = nest.scan()?;
        let operand = nest.values[id.0].operands().next()?;
        let in_order = crate::plan::contiguous(&nest.domain);
        let epilogue = (id != nest.result()).then(|| Loops::new(&epilogue_of(nest, id, &in_order)));
        let (n_points, width) = (
            nest.domain[scan.axis],
            nest.domain[scan.axis + 1..].iter().product::<usize>(),
        );
        // Pieces of single elements consist of whole groups, so pieces do not change the groups.
        let piece = (PIECE / width).max(1);
        let n_lines = nest.output_len() / (n_points * width);
        let n_parts = match n_lines {
            ENOUGH_LINES.. => 1,
            _ => (n_points * width / TASK).clamp(1, MAX_PARTS),
        };
        let part = n_points.div_ceil(n_parts).next_multiple_of(piece);
        Some(Self {
            scan,
            dtype: nest.dtypes[id.0],
            operand: match &nest.values[operand.0] {
                Value::Load { input, map, guards } if guards.is_empty() && *map == in_order => {
                    Operand::Input(*input)
                }
                _ => Operand::Computed(Box::new(Bytecode::compile(&operand_of(nest, operand)))),
            },
            epilogue,
            n_lines,
            n_points,
            width,
            part: part.min(n_points),
            piece,
        })
    }

    /// Computes all output elements.
    pub(super) fn fill<T: Stored>(&self, inputs: &[&HostData], out: &mut [T]) -> Result<()> {
        let starts = vec![0; inputs.len()];
        let span = Span {
            inputs,
            starts: &starts,
            first: 0,
        };
        match self.dtype {
            DType::F64 => self.fill_in_parallel::<f64, T>(&span, out),
            DType::I32 => self.fill_in_parallel::<i32, T>(&span, out),
            DType::U32 => self.fill_in_parallel::<u32, T>(&span, out),
            _ => self.fill_in_parallel::<f32, T>(&span, out),
        }
    }

    /// Returns whether [`fill_span`](Self::fill_span) computes the same bits as
    /// [`fill`](Self::fill).
    pub(super) fn can_fill_spans(&self) -> bool {
        self.part == self.n_points
    }

    /// Computes consecutive whole lines of the output on the calling thread.
    pub(super) fn fill_span<T: Stored>(&self, span: &Span<'_>, out: &mut [T]) -> Result<()> {
        match self.dtype {
            DType::F64 => Task::<f64>::new(self, span).fill_lines(span.first, out),
            DType::I32 => Task::<i32>::new(self, span).fill_lines(span.first, out),
            DType::U32 => Task::<u32>::new(self, span).fill_lines(span.first, out),
            _ => Task::<f32>::new(self, span).fill_lines(span.first, out),
        }
    }

    fn line_len(&self) -> usize {
        self.n_points * self.width
    }

    /// Returns the number of lines that are scanned at a time, if a line fits into a piece.
    fn lines_together(&self) -> Option<usize> {
        let n_lines = PIECE / self.line_len();
        (n_lines > 0).then_some(n_lines.min(self.n_lines))
    }

    fn fill_in_parallel<S: Stored<Lane = S> + LaneType, T: Stored>(
        &self,
        span: &Span<'_>,
        out: &mut [T],
    ) -> Result<()> {
        let line_len = self.line_len();
        if self.part < self.n_points {
            let lines = out.chunks_mut(line_len).enumerate();
            for (line, out) in lines {
                self.fill_line::<S, T>(span, line * line_len, out)?;
            }
            return Ok(());
        }
        let task = TASK.div_ceil(line_len) * line_len;
        parallel::for_each(
            out.chunks_mut(task).enumerate(),
            || Task::<S>::new(self, span),
            |state, (number, out)| state.fill_lines(number * task, out),
        )
    }

    /// Computes one line of the output, which begins with element `first`, in parts.
    fn fill_line<S: Stored<Lane = S> + LaneType, T: Stored>(
        &self,
        span: &Span<'_>,
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        let parts: Vec<Range<usize>> = self.divided(0..self.n_points, self.part).collect();
        let start = vec![S::identity(self.scan.op); self.width];
        // The fold of all parts but the last one.
        let mut totals = vec![start.clone(); parts.len() - 1];
        parallel::for_each(
            totals.iter_mut().zip(&parts),
            || Task::<S>::new(self, span),
            |state, (total, part)| state.fold(first, part.clone(), total),
        )?;
        let mut before = vec![start];
        for total in totals {
            let mut next = before[before.len() - 1].clone();
            line::run(
                Level::best(),
                self.scan,
                self.width,
                &mut next,
                &total,
                &mut total.clone(),
            );
            before.push(next);
        }
        let mut rest = out;
        let mut outputs = Vec::with_capacity(parts.len());
        for part in &parts {
            let len = part.len() * self.width;
            let (own, others) = if self.scan.reversed {
                let (others, own) = rest.split_at_mut(rest.len() - len);
                (own, others)
            } else {
                rest.split_at_mut(len)
            };
            outputs.push(own);
            rest = others;
        }
        parallel::for_each(
            before.iter_mut().zip(parts).zip(outputs),
            || Task::<S>::new(self, span),
            |state, ((before, part), out)| state.fill_points(first, part, before, out),
        )
    }

    /// Divides consecutive points of a line into chunks, in the order of the scan.
    fn divided(&self, points: Range<usize>, chunk: usize) -> impl Iterator<Item = Range<usize>> {
        let reversed = self.scan.reversed;
        let n_chunks = points.len().div_ceil(chunk);
        (0..n_chunks).map(move |number| {
            let (near, far) = (number * chunk, points.len().min((number + 1) * chunk));
            match reversed {
                false => points.start + near..points.start + far,
                true => points.end - far..points.end - near,
            }
        })
    }
}

/// The state of a task.
struct Task<'a, S> {
    loops: &'a ScanLoops,
    span: Span<'a>,
    level: Level,
    /// The machine that computes the operand; `None` if the operand is an input.
    machine: Option<Machine<'a>>,
    /// The elements of the operand.
    elements: Vec<S>,
    /// The results of the scan, if there is an epilogue.
    results: HostData,
}

impl<'a, S: Stored<Lane = S> + LaneType> Task<'a, S> {
    fn new(loops: &'a ScanLoops, span: &Span<'a>) -> Self {
        let len = match loops.lines_together() {
            Some(n_lines) => n_lines * loops.line_len(),
            None => loops.piece * loops.width,
        };
        let machine = match &loops.operand {
            Operand::Input(_) => None,
            Operand::Computed(program) => {
                let mut machine = Machine::new(program, span.inputs);
                for (input, start) in span.starts.iter().enumerate() {
                    machine.shift_input(input, -start.cast_signed());
                }
                Some(machine)
            }
        };
        let zeros = |is_needed: bool| vec![S::zeroed(); if is_needed { len } else { 0 }];
        Self {
            loops,
            span: *span,
            level: Level::best(),
            elements: zeros(machine.is_some()),
            machine,
            results: S::into_host(zeros(loops.epilogue.is_some())),
        }
    }

    /// Computes whole lines of the output, which begin with element `first`.
    fn fill_lines<T: Stored>(&mut self, first: usize, out: &mut [T]) -> Result<()> {
        let line_len = self.loops.line_len();
        let start = S::identity(self.loops.scan.op);
        let mut so_far = vec![start; self.loops.width];
        // Several short lines at a time, or one long line in several pieces.
        let n_together = self.loops.lines_together();
        let chunk = n_together.unwrap_or(1) * line_len;
        for (number, out) in out.chunks_mut(chunk).enumerate() {
            so_far.fill(start);
            let first = first + number * chunk;
            if n_together.is_some() {
                self.fill_piece(first, &mut so_far, out)?;
            } else {
                self.fill_points(first, 0..self.loops.n_points, &mut so_far, out)?;
            }
        }
        Ok(())
    }

    /// Computes some points of the line that begins with element `line`. `so_far` contains the
    /// results before these points.
    fn fill_points<T: Stored>(
        &mut self,
        line: usize,
        points: Range<usize>,
        so_far: &mut [S],
        out: &mut [T],
    ) -> Result<()> {
        let (loops, width, start) = (self.loops, self.loops.width, points.start);
        for piece in loops.divided(points, loops.piece) {
            let place = (piece.start - start) * width;
            let out = &mut out[place..place + piece.len() * width];
            self.fill_piece(line + piece.start * width, so_far, out)?;
        }
        Ok(())
    }

    /// Computes consecutive elements of the output, which begin with element `first`: some points
    /// of a line, or whole lines. `so_far` contains the results before the first point.
    fn fill_piece<T: Stored>(
        &mut self,
        first: usize,
        so_far: &mut [S],
        out: &mut [T],
    ) -> Result<()> {
        let (loops, level, len) = (self.loops, self.level, out.len());
        let (scan, line_len) = (loops.scan, loops.line_len());
        let elements = elements(
            &self.span,
            loops,
            &mut self.machine,
            &mut self.elements,
            first..first + len,
        )?;
        let Some(epilogue) = &loops.epilogue else {
            // Without an epilogue the results are the output.
            let out = bytemuck::cast_slice_mut(T::as_bytes_mut(out).unwrap_or_default());
            line::run(level, scan, line_len, so_far, elements, out);
            return Ok(());
        };
        let results = S::slice_mut(&mut self.results).unwrap_or_default();
        line::run(level, scan, line_len, so_far, elements, &mut results[..len]);
        let span = Span {
            inputs: &[self.span.inputs, &[&self.results]].concat(),
            starts: &[self.span.starts, &[first]].concat(),
            first,
        };
        epilogue.fill_span(&span, out)
    }

    /// Folds some points of the line that begins with element `line` into `total`.
    fn fold(&mut self, line: usize, points: Range<usize>, total: &mut [S]) -> Result<()> {
        let (loops, width) = (self.loops, self.loops.width);
        for piece in loops.divided(points, loops.piece) {
            let first = line + piece.start * width;
            let elements = elements(
                &self.span,
                loops,
                &mut self.machine,
                &mut self.elements,
                first..first + piece.len() * width,
            )?;
            line::fold(self.level, loops.scan, total, elements);
        }
        Ok(())
    }
}

/// Returns consecutive elements of the operand, computed into `scratch` if they are not an input.
fn elements<'e, S: Stored<Lane = S> + LaneType>(
    span: &Span<'e>,
    loops: &ScanLoops,
    machine: &mut Option<Machine<'_>>,
    scratch: &'e mut [S],
    at: Range<usize>,
) -> Result<&'e [S]> {
    match (&loops.operand, machine) {
        (Operand::Input(input), _) => {
            let data = S::slice(span.inputs[*input]).unwrap_or_default();
            let start = span.starts[*input];
            Ok(&data[at.start - start..at.end - start])
        }
        (Operand::Computed(_), Some(machine)) => {
            let scratch = &mut scratch[..at.len()];
            machine.fill(at.start, scratch)?;
            Ok(scratch)
        }
        (Operand::Computed(_), None) => unreachable!("`Task::new` creates the machine"),
    }
}

/// Returns the nest that computes the operand of a scan.
fn operand_of(nest: &LoopNest, operand: ValueId) -> LoopNest {
    let needed = nest.body();
    let mut places = vec![ValueId(0); nest.values.len()];
    let mut part = LoopNest {
        values: Vec::new(),
        dtypes: Vec::new(),
        ..nest.clone()
    };
    // The scan is the only fold, so the operand is the last value of the body.
    for id in (0..=operand.0).filter(|&id| needed[id]) {
        let mut value = nest.values[id].clone();
        value.map_operands(|operand| places[operand.0]);
        places[id] = ValueId(part.values.len());
        part.values.push(value);
        part.dtypes.push(nest.dtypes[id]);
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Reference, ScanAxis, Tensor};

    /// Returns numbers with exact sums, each with another neighbour.
    fn numbers(shape: &[usize]) -> Tensor {
        let len = shape.iter().product();
        let number = |at: usize| ((at * 7919) % 31) as f32 - 15.0;
        Tensor::from_vec(shape, (0..len).map(number).collect())
    }

    fn scans() -> [ScanAxis; 4] {
        let along = ScanAxis::new(1);
        [
            along,
            along.reversed(),
            along.exclusive(),
            along.reversed().exclusive(),
        ]
    }

    fn check(result: &Tensor) {
        let [host, expected] = [
            result.eval::<f32>(&Host::new()).unwrap(),
            result.eval::<f32>(&Reference).unwrap(),
        ];
        assert!(host == expected, "{result:?}");
    }

    #[test]
    fn lines_around_every_piece_part_and_task_are_exact() {
        for n_points in [
            PIECE - 1,
            PIECE,
            PIECE + 1,
            2 * TASK - 1,
            2 * TASK,
            2 * TASK + 17,
        ] {
            for shape in [
                [1, n_points, 1],
                [2, n_points / 3, 3],
                [33, n_points / 33, 1],
            ] {
                for along in scans() {
                    let x = numbers(&shape);
                    check(&x.cumsum(along));
                    // With an operand and an epilogue, whose type differs from the scan's.
                    check(&((&x + 1.0).cumsum(along).cast(DType::I32) * 2).cast(DType::F32));
                }
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        for shape in [
            [1, 3 * TASK + 5, 1],
            [3, TASK, 5],
            [100, 1000, 1],
            [1, 100, 5000],
        ] {
            let len = shape.iter().product::<usize>();
            let x = (0..len).map(|at| (at as f32 * 0.37).sin()).collect();
            let x = Tensor::from_vec(&shape, x);
            for along in scans() {
                let result = (&x * 0.5).cumsum(along).exp();
                let on = |n_threads: usize| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
                    let run = || result.eval::<f32>(&Host::new()).unwrap();
                    pool.build().unwrap().install(run)
                };
                let bits = |x: &ndarray::ArrayD<f32>| x.mapv(f32::to_bits);
                let one = bits(&on(1));
                for n_threads in [2, 3, 8] {
                    assert!(
                        bits(&on(n_threads)) == one,
                        "{shape:?}, {along:?}, {n_threads}"
                    );
                }
            }
        }
    }
}
