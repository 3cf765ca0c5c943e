//! Scans on the host.
//!
//! Role: runs a nest with a [`Value::Scanned`](crate::ir::Value::Scanned), with the operations
//! before and after the scan.
//! Method: the interpreter computes the operand of a few thousand elements, the loops of `line`
//! scan these elements, and the interpreter computes the rest of the nest from the results. The
//! operand, the results of the scan and the output of these elements stay in the caches of a core.
//! A piece of the output consists of whole short lines, of some points of a line, or of some
//! columns of one point if points are long. The pieces of a long line form chains, one for each
//! range of columns: each piece of a chain continues from the results of the piece before. Chains
//! run in parallel. If there are few chains and they are long, each chain is divided into parts:
//! the parts are folded first, which yields the result before each part, and then scanned. The
//! division depends on the nest alone, so the bits of the result do not depend on the number of
//! threads.
//!
//! ```text
//! [ lines | axis of the scan | columns ]        one point: a row of neighbours
//! ```

use std::ops::Range;

use super::around_fold::{epilogue_of, operand_of};
use super::kernel::Span;
use super::lanes::{LaneType, Stored};
use super::machine::Machine;
use super::program::Bytecode;
use super::split::Loops;
use crate::dtype::{DType, HostData};
use crate::error::Result;
use crate::ir::{IndexMap, LoopNest, Value};
use crate::level::Level;
use crate::op::Scan;
use crate::parallel;

mod line;

/// The maximum number of elements that are scanned at a time, a multiple of `line::GROUP`.
const PIECE: usize = 1 << 12;
const _: () = assert!(PIECE.is_multiple_of(line::GROUP));
/// The minimum number of elements of a task of short lines, and of a part of a chain.
const TASK: usize = 1 << 15;
/// The number of tasks that keeps any machine busy. Fewer long chains are divided.
const ENOUGH_TASKS: usize = 64;

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
    /// The number of points that are scanned at a time.
    piece: usize,
    /// The number of elements of a point that are scanned at a time, at most [`PIECE`].
    columns: usize,
    /// The number of parts into which a chain is divided.
    n_parts: usize,
}

/// The source of the elements that are scanned.
#[derive(Debug)]
enum Operand {
    /// An input with the order of elements of the output.
    Input(usize),
    /// The program that computes the elements.
    Computed(Box<Bytecode>),
}

impl ScanLoops {
    /// Compiles a nest, or returns `None` if it scans nothing. The output must not be empty.
    pub(super) fn new(nest: &LoopNest) -> Option<Self> {
        let (id, scan) = nest.scan()?;
        let operand = nest.values[id.0].operands().next()?;
        let in_order = IndexMap::in_order(&nest.domain);
        let epilogue =
            (id != nest.result()).then(|| Loops::new(&epilogue_of(nest, &[id], &in_order)));
        let (n_points, width) = (
            nest.domain[scan.axis],
            nest.domain[scan.axis + 1..].iter().product::<usize>(),
        );
        let n_lines = nest.output_len() / (n_points * width);
        // Columns of nearly equal width.
        let n_column_chains = width.div_ceil(PIECE);
        let columns = width.div_ceil(n_column_chains);
        let n_chains = n_lines * n_column_chains;
        let n_long_parts = n_points * columns / TASK;
        Some(Self {
            scan,
            dtype: nest.dtypes[id.0],
            operand: match &nest.values[operand.0] {
                Value::Load { input, map, guards } if guards.is_empty() && *map == in_order => {
                    Operand::Input(*input)
                }
                _ => {
                    let axes: Vec<usize> = (0..nest.domain.len()).collect();
                    let body = operand_of(nest, operand, &axes);
                    Operand::Computed(Box::new(Bytecode::compile(&body)))
                }
            },
            epilogue,
            n_lines,
            n_points,
            width,
            // For points of one element, a piece is a multiple of `line::GROUP`, so that pieces do
            // not change the groups.
            piece: (PIECE / width).max(1),
            columns,
            n_parts: ENOUGH_TASKS.div_ceil(n_chains).min(n_long_parts).max(1),
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
        self.n_parts == 1
    }

    /// Computes consecutive whole lines of the output on the calling thread.
    pub(super) fn fill_span<T: Stored>(&self, span: &Span<'_>, out: &mut [T]) -> Result<()> {
        match self.dtype {
            DType::F64 => self.fill_in_order::<f64, T>(span, out),
            DType::I32 => self.fill_in_order::<i32, T>(span, out),
            DType::U32 => self.fill_in_order::<u32, T>(span, out),
            _ => self.fill_in_order::<f32, T>(span, out),
        }
    }

    fn line_len(&self) -> usize {
        self.n_points * self.width
    }

    /// Returns the number of elements of whole lines that are scanned at a time, if a line fits
    /// into a piece.
    fn lines_together(&self) -> Option<usize> {
        let n_lines = PIECE / self.line_len();
        (n_lines > 0).then_some(n_lines.min(self.n_lines) * self.line_len())
    }

    fn fill_in_order<S: Stored<Lane = S> + LaneType, T: Stored>(
        &self,
        span: &Span<'_>,
        out: &mut [T],
    ) -> Result<()> {
        let mut state = Task::<S>::new(self, span);
        if let Some(together) = self.lines_together() {
            return state.fill_lines(together, span.first, out);
        }
        let mut chains = self.chains(span.first, out).into_iter();
        chains.try_for_each(|chain| {
            let mut so_far = self.start(&chain);
            state.fill_chain(chain, &mut so_far)
        })
    }

    fn fill_in_parallel<S: Stored<Lane = S> + LaneType, T: Stored>(
        &self,
        span: &Span<'_>,
        out: &mut [T],
    ) -> Result<()> {
        let state = || Task::<S>::new(self, span);
        if let Some(together) = self.lines_together() {
            let task = TASK.div_ceil(together) * together;
            return parallel::for_each(
                out.chunks_mut(task).enumerate(),
                state,
                |state, (number, out)| state.fill_lines(together, number * task, out),
            );
        }
        let chains = self.chains(0, out);
        if self.n_parts == 1 {
            return parallel::for_each(chains.into_iter(), state, |state, chain| {
                let mut so_far = self.start(&chain);
                state.fill_chain(chain, &mut so_far)
            });
        }
        let mut parts: Vec<Part<'_, S, T>> = Vec::new();
        for mut chain in chains {
            let len = chain.len().div_ceil(self.n_parts);
            let so_far = self.start::<S, T>(&chain);
            let mut is_first = true;
            while !chain.is_empty() {
                let later = chain.split_off(len.min(chain.len()));
                parts.push(Part {
                    is_first,
                    is_last: later.is_empty(),
                    pieces: chain,
                    so_far: so_far.clone(),
                });
                (is_first, chain) = (false, later);
            }
        }
        parallel::for_each(
            parts.iter_mut().filter(|part| !part.is_last),
            state,
            |state, part| state.fold(&part.pieces, &mut part.so_far),
        )?;
        let mut before = Vec::new();
        for part in &mut parts {
            if part.is_first {
                before = self.start(&part.pieces);
            }
            let mut next = before.clone();
            line::fold(Level::best(), self.scan, &mut next, &part.so_far);
            part.so_far = std::mem::replace(&mut before, next);
        }
        parallel::for_each(parts.into_iter(), state, |state, mut part| {
            state.fill_chain(part.pieces, &mut part.so_far)
        })
    }

    /// Divides whole long lines of the output, which begin with element `first`, into the pieces of
    /// each chain, in the order of the scan.
    fn chains<'o, T>(&self, first: usize, out: &'o mut [T]) -> Vec<Vec<Piece<'o, T>>> {
        let n_columns = self.width.div_ceil(self.columns);
        // Points that are longer than a piece are pieces of their own.
        let together = if n_columns == 1 { PIECE } else { self.columns };
        let (points, mut first) = (self.piece * self.width, first);
        let mut chains = Vec::new();
        for line in out.chunks_mut(self.line_len()) {
            // A short piece is the last one in the order of the scan.
            let n_rest = if self.scan.reversed {
                line.len() % points
            } else {
                0
            };
            let (rest, line) = line.split_at_mut(n_rest);
            let mut own: Vec<Vec<Piece<'o, T>>> = Vec::new();
            own.resize_with(n_columns, Vec::new);
            for points in rest.chunks_mut(points).chain(line.chunks_mut(points)) {
                for (chain, out) in own.iter_mut().zip(points.chunks_mut(together)) {
                    let len = out.len();
                    chain.push(Piece { first, out });
                    first += len;
                }
            }
            if self.scan.reversed {
                own.iter_mut().for_each(|chain| chain.reverse());
            }
            chains.extend(own);
        }
        chains
    }

    /// Returns the results before the first point of a chain.
    fn start<S: LaneType, T>(&self, chain: &[Piece<'_, T>]) -> Vec<S> {
        // If a point is longer than a piece, each piece contains some columns of one point.
        let n_columns = match chain.first() {
            Some(piece) if self.width > PIECE => piece.out.len(),
            _ => self.width,
        };
        vec![S::identity(self.scan.op); n_columns]
    }
}

/// Consecutive elements of the output that are scanned at a time.
struct Piece<'o, T> {
    /// The position of the first element.
    first: usize,
    out: &'o mut [T],
}

/// A part of a chain.
struct Part<'o, S, T> {
    is_first: bool,
    is_last: bool,
    pieces: Vec<Piece<'o, T>>,
    /// The fold of this part, and then the results before this part.
    so_far: Vec<S>,
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
        let len = loops.lines_together().unwrap_or(PIECE);
        let machine = match &loops.operand {
            Operand::Input(_) => None,
            Operand::Computed(program) => {
                Some(Machine::with_starts(program, span.inputs, span.starts))
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

    /// Computes whole short lines of the output, which begin with element `first`; `together`
    /// elements are scanned at a time.
    fn fill_lines<T: Stored>(
        &mut self,
        together: usize,
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        let start = S::identity(self.loops.scan.op);
        let mut so_far = vec![start; self.loops.width];
        for (number, out) in out.chunks_mut(together).enumerate() {
            so_far.fill(start);
            self.fill_piece(first + number * together, &mut so_far, out)?;
        }
        Ok(())
    }

    /// Computes some pieces of a chain. `so_far` contains the results before the first piece.
    fn fill_chain<T: Stored>(&mut self, pieces: Vec<Piece<'_, T>>, so_far: &mut [S]) -> Result<()> {
        let mut pieces = pieces.into_iter();
        pieces.try_for_each(|piece| self.fill_piece(piece.first, so_far, piece.out))
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

    /// Folds some pieces of a chain into `total`.
    fn fold<T>(&mut self, pieces: &[Piece<'_, T>], total: &mut [S]) -> Result<()> {
        for piece in pieces {
            let elements = elements(
                &self.span,
                self.loops,
                &mut self.machine,
                &mut self.elements,
                piece.first..piece.first + piece.out.len(),
            )?;
            line::fold(self.level, self.loops.scan, total, elements);
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

    /// Factors whose products stay small.
    const FACTORS: [f32; 6] = [2.0, -1.0, 0.5, 1.0, -0.5, -2.0];

    /// Returns a tensor whose elements depend on the position along the axis 1.
    fn along_lines(shape: &[usize], element: impl Fn(usize) -> f32) -> Tensor {
        let line = (0..shape[1]).map(element).collect();
        Tensor::from_vec(&[shape[1], 1], line).broadcast_to(shape)
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
                [1, n_points.div_ceil(PIECE), PIECE + 1],
            ] {
                for along in scans() {
                    let x = numbers(&shape);
                    check(&x.cumsum(along));
                    // Neighbouring products differ, and extremes change to the end of each line.
                    check(&along_lines(&shape, |at| FACTORS[at % FACTORS.len()]).cumprod(along));
                    let [up, down] =
                        [1.0, -1.0].map(|step| &x + along_lines(&shape, |at| step * at as f32));
                    check(&up.cummax(along));
                    check(&down.cummin(along));
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
