//! Sorts on the host.
//!
//! Role: runs a nest with a [`Value::Sorted`](crate::ir::Value::Sorted).
//! Method: each element becomes an unsigned key whose order is that of the sort; the position of
//! the element joins the key if positions are the result. Short lines are sorted by comparisons,
//! long ones by radix: for each byte of the key, from the lowest to the highest, the keys are
//! distributed to one bucket per value of the byte, in order, which is stable. A byte that all keys
//! have in common is left out. The keys of neighbouring columns are sorted at a time, so that each
//! cache line of the input is read once. A single long line is cut into runs, which threads sort
//! and then merge in pairs; threads share a merge by searching for the places in both runs that
//! divide its output. A stable sort has one result, so these choices do not change it.
//! Source: Knuth 1998, "The Art of Computer Programming" 3, sections 5.2.5 and 5.2.4.

use std::marker::PhantomData;

use key::{Item, Key};

use crate::dtype::{DType, HostData};
use crate::error::{Error, Result};
use crate::ir::LoopNest;
use crate::op::{Sort, Sorted};
use crate::parallel;
use crate::storage::HostStorage;

mod key;
mod line;
#[cfg(test)]
mod tests;

/// The approximate number of elements of a task: some hundreds of microseconds.
const TASK: usize = 1 << 14;
/// The number of neighbouring columns that are sorted at a time: those of a cache line of `f32`s.
const COLUMNS: usize = 16;
/// The minimum number of elements of a run of a line that several threads sort.
const LEAST_RUN: usize = 1 << 15;

/// A compiled nest with a sort.
#[derive(Debug)]
pub(super) struct SortLoops {
    sort: Sort,
    /// The type of the elements.
    dtype: DType,
    /// The number of elements of a line.
    n: usize,
    /// The number of columns: of elements between neighbours of a line.
    width: usize,
}

impl SortLoops {
    /// Compiles a nest, or returns `None` if it sorts nothing. The output must not be empty.
    pub(super) fn new(nest: &LoopNest) -> Option<Self> {
        let sort = nest.sort()?;
        Some(Self {
            sort,
            dtype: nest.dtypes[0],
            n: nest.domain[sort.axis],
            width: nest.domain[sort.axis + 1..].iter().product(),
        })
    }

    /// Computes all output elements.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is no memory for the keys.
    pub(super) fn fill(&self, inputs: &[&HostData], out: &mut HostStorage) -> Result<()> {
        match self.dtype {
            DType::F64 => self.fill_from::<f64>(inputs[0], out),
            DType::I32 => self.fill_from::<i32>(inputs[0], out),
            DType::U32 => self.fill_from::<u32>(inputs[0], out),
            _ => self.fill_from::<f32>(inputs[0], out),
        }
    }

    fn fill_from<S: Key>(&self, input: &HostData, out: &mut HostStorage) -> Result<()> {
        let input = S::slice(input).unwrap_or_default();
        match self.sort.result {
            Sorted::Elements => Lines::<S, S::Alone>::new(self, input).fill(out.elements_mut()),
            Sorted::Positions => {
                Lines::<S, S::WithPosition>::new(self, input).fill(out.elements_mut())
            }
        }
    }
}

/// The lines of one sort, for the types of its elements and items.
struct Lines<'a, S, I> {
    loops: &'a SortLoops,
    input: &'a [S],
    items: PhantomData<fn() -> I>,
}

/// The columns that one task sorts.
struct Columns<'o, T> {
    /// The number of the first element in the input.
    first: usize,
    /// The elements of these columns at each point of the axis.
    points: Vec<&'o mut [T]>,
}

/// The memory of a task.
struct Scratch<I> {
    items: Vec<I>,
    spare: Vec<I>,
}

impl<'a, S: Key, I: Item<S>> Lines<'a, S, I> {
    fn new(loops: &'a SortLoops, input: &'a [S]) -> Self {
        Self {
            loops,
            input,
            items: PhantomData,
        }
    }

    fn fill(&self, out: &mut [I::Result]) -> Result<()> {
        let SortLoops { n, width, .. } = *self.loops;
        if width > 1 {
            return self.fill_columns(out);
        }
        let n_lines = out.len() / n;
        let n_threads = rayon::current_num_threads();
        let n_runs = n_threads.min(n / LEAST_RUN);
        if n_lines < n_threads && n_runs > 1 && !parallel::is_in_task() {
            let mut lines = out.chunks_mut(n).enumerate();
            return lines.try_for_each(|(number, out)| self.fill_long(number * n, n_runs, out));
        }
        let together = TASK.div_ceil(n) * n;
        parallel::for_each(
            out.chunks_mut(together).enumerate(),
            || self.scratch(n),
            |scratch, (number, out)| {
                let Scratch { items, spare } = available(scratch)?;
                for (line, out) in out.chunks_mut(n).enumerate() {
                    let first = number * together + line * n;
                    let has_variants = self.read(first, 0, items);
                    line::sort(items, spare);
                    self.write(items, out);
                    if has_variants {
                        self.restore_variants(first, items, |at, result| out[at] = result);
                    }
                }
                Ok(())
            },
        )
    }

    /// Sorts a line on several threads.
    fn fill_long(&self, first: usize, n_runs: usize, out: &mut [I::Result]) -> Result<()> {
        let n = self.loops.n;
        let Scratch {
            mut items,
            mut spare,
        } = self.scratch(n)?;
        let run = n.div_ceil(n_runs);
        let mut variants = vec![false; n_runs];
        let runs = items.chunks_mut(run).zip(spare.chunks_mut(run));
        parallel::for_each(
            runs.zip(&mut variants).enumerate(),
            || (),
            |(), (number, ((items, spare), has_variants))| {
                *has_variants = self.read(first, number * run, items);
                line::sort(items, spare);
                Ok(())
            },
        )?;
        let sorted = line::merge_runs(&mut items, &mut spare, run)?;
        parallel::for_each(
            out.chunks_mut(TASK).zip(sorted.chunks(TASK)),
            || (),
            |(), (out, items)| {
                self.write(items, out);
                Ok(())
            },
        )?;
        if variants.contains(&true) {
            self.restore_variants(first, sorted, |at, result| out[at] = result);
        }
        Ok(())
    }

    /// Sorts lines whose elements are apart in memory.
    fn fill_columns(&self, out: &mut [I::Result]) -> Result<()> {
        let SortLoops { n, width, .. } = *self.loops;
        let mut tasks = Vec::new();
        for (block, out) in out.chunks_mut(n * width).enumerate() {
            let of_block = tasks.len();
            let firsts = (0..width).step_by(COLUMNS);
            tasks.extend(firsts.map(|column| Columns {
                first: block * n * width + column,
                points: Vec::with_capacity(n),
            }));
            for point in out.chunks_mut(width) {
                let columns = point.chunks_mut(COLUMNS);
                for (task, columns) in tasks[of_block..].iter_mut().zip(columns) {
                    task.points.push(columns);
                }
            }
        }
        parallel::for_each(
            tasks.into_iter(),
            || self.scratch(n * COLUMNS.min(width)),
            |scratch, mut task| {
                let Scratch { items, spare } = available(scratch)?;
                let n_columns = task.points.first().map_or(0, |point| point.len());
                let items = &mut items[..n * n_columns];
                let mut variants = [false; COLUMNS];
                for at in 0..n {
                    let row = &self.input[task.first + at * width..][..n_columns];
                    for (column, element) in row.iter().enumerate() {
                        items[column * n + at] = self.item(*element, at);
                        variants[column] |= element.is_variant();
                    }
                }
                for column in items.chunks_mut(n) {
                    line::sort(column, spare);
                }
                for (at, point) in task.points.iter_mut().enumerate() {
                    for (column, result) in point.iter_mut().enumerate() {
                        *result = items[column * n + at].result(self.loops.sort.descending);
                    }
                }
                for (column, items) in items.chunks(n).enumerate() {
                    if variants[column] {
                        self.restore_variants(task.first + column, items, |at, result| {
                            task.points[at][column] = result;
                        });
                    }
                }
                Ok(())
            },
        )
    }

    /// Allocates memory for `len` items, and for those of a line.
    fn scratch(&self, len: usize) -> Result<Scratch<I>> {
        let zeros = |len: usize| {
            let mut items = Vec::new();
            if items.try_reserve_exact(len).is_err() {
                return Err(Error::OutOfMemory {
                    executor: "host",
                    len,
                    dtype: S::DTYPE,
                });
            }
            items.resize(len, I::default());
            Ok(items)
        };
        Ok(Scratch {
            items: zeros(len)?,
            spare: zeros(self.loops.n)?,
        })
    }

    fn item(&self, element: S, position: usize) -> I {
        I::new(element.key(self.loops.sort.descending), position)
    }

    /// Reads the items of a contiguous line from a position on. Returns whether other elements may
    /// have the same keys.
    fn read(&self, first: usize, position: usize, items: &mut [I]) -> bool {
        let elements = &self.input[first + position..];
        let mut has_variants = false;
        for (at, (item, element)) in items.iter_mut().zip(elements).enumerate() {
            *item = self.item(*element, position + at);
            // No early exit, so that the loop can run in vectors.
            has_variants |= element.is_variant();
        }
        has_variants
    }

    /// Writes the results of sorted items.
    fn write(&self, items: &[I], out: &mut [I::Result]) {
        for (out, item) in out.iter_mut().zip(items) {
            *out = item.result(self.loops.sort.descending);
        }
    }

    /// Calls `write` with the places of zeros and NaNs among the sorted items of a line, and these
    /// elements in their order on the line: their keys have no sign of zero and no bits of NaN.
    fn restore_variants(&self, first: usize, items: &[I], mut write: impl FnMut(usize, I::Result)) {
        let line = self.input[first..].iter().step_by(self.loops.width);
        let line = line.take(self.loops.n).copied();
        for is_equal in [S::is_zero, S::is_nan] {
            let elements = line.clone().filter(|&element| is_equal(element));
            let Some(element) = elements.clone().next() else {
                continue;
            };
            let least = self.item(element, 0);
            let place = items.partition_point(|item| *item < least);
            for (at, result) in elements.filter_map(I::from_element).enumerate() {
                write(place + at, result);
            }
        }
    }
}

/// Returns the memory of a task, or the error of its allocation.
fn available<I>(scratch: &mut Result<Scratch<I>>) -> Result<&mut Scratch<I>> {
    scratch.as_mut().map_err(|error| error.clone())
}
