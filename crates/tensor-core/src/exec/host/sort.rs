//! Sorts on the host.
//!
//! Role: runs a nest with a [`Value::Sorted`](crate::ir::Value::Sorted).
//! Method: each element becomes an unsigned key whose order is that of the sort; the position of
//! the element joins the key if positions are the result. Short lines are sorted by comparisons,
//! long ones by radix: for each byte of the key, from the lowest to the highest, the keys are
//! distributed to one bucket per value of the byte, in order, which is stable. A byte that all keys
//! have in common is left out. Up to `COLUMNS` neighbouring columns are sorted together, so that
//! each cache line of the input is read once. A single long line is cut into runs, which threads
//! sort and then merge in pairs; threads share a merge by searching for the places in both runs
//! that divide its output. A stable sort has one result, so these choices do not change it.
//! Limits: threads do not share a line whose elements are apart in memory.
//! Source: Knuth 1998, "The Art of Computer Programming" 3, sections 5.2.5 and 5.2.4.

use std::marker::PhantomData;
use std::sync::Arc;

use key::{Item, Key};

use crate::dtype::{DType, HostData};
use crate::error::Result;
use crate::ir::{LoopNest, Value};
use crate::op::{Sort, Sorted};
use crate::parallel;
use crate::storage::{HostStorage, Pool};

mod key;
mod line;
#[cfg(test)]
mod tests;

/// The approximate number of elements of a task, which takes some hundreds of microseconds.
const TASK: usize = 1 << 14;
/// The number of neighbouring columns that are sorted together: those of a cache line of `f32`s.
const COLUMNS: usize = 16;
/// The minimum number of elements of a run of a line that several threads sort.
const LEAST_RUN: usize = 1 << 15;

/// A compiled nest with a sort.
#[derive(Debug)]
pub(super) struct SortLoops {
    sort: Sort,
    /// The number of the input.
    input: usize,
    /// The type of the elements.
    dtype: DType,
    /// The number of elements of a line.
    n: usize,
    /// The number of columns: the distance, in elements, between consecutive elements of a line.
    width: usize,
}

impl SortLoops {
    /// Compiles a nest, or returns `None` if it sorts nothing. The output must not be empty.
    pub(super) fn new(nest: &LoopNest) -> Option<Self> {
        let sort = nest.sort()?;
        let Value::Load { input, .. } = nest.values[0] else {
            unreachable!("a checked sort reads an input");
        };
        Some(Self {
            sort,
            input,
            dtype: nest.dtypes[0],
            n: nest.domain[sort.axis],
            width: nest.domain[sort.axis + 1..].iter().product(),
        })
    }

    /// Computes all output elements.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is no memory for the keys.
    pub(super) fn fill(
        &self,
        inputs: &[&HostData],
        out: &mut HostStorage,
        pool: &Arc<Pool>,
    ) -> Result<()> {
        let input = inputs[self.input];
        match self.dtype {
            DType::F64 => self.fill_from::<f64>(input, out, pool),
            DType::I32 => self.fill_from::<i32>(input, out, pool),
            DType::U32 => self.fill_from::<u32>(input, out, pool),
            _ => self.fill_from::<f32>(input, out, pool),
        }
    }

    fn fill_from<S: Key>(
        &self,
        input: &HostData,
        out: &mut HostStorage,
        pool: &Arc<Pool>,
    ) -> Result<()> {
        let Some(input) = S::slice(input) else {
            unreachable!("a checked nest has the types of its inputs");
        };
        match self.sort.result {
            Sorted::Elements => {
                Lines::<S, S::Alone>::new(self, input, pool).fill(out.elements_mut())
            }
            Sorted::Positions => {
                Lines::<S, S::WithPosition>::new(self, input, pool).fill(out.elements_mut())
            }
        }
    }
}

/// The input of a sort, with its element type `S` and its item type `I`.
struct Lines<'a, S, I> {
    loops: &'a SortLoops,
    input: &'a [S],
    pool: &'a Arc<Pool>,
    items: PhantomData<fn() -> I>,
}

/// The columns that one task sorts.
struct Columns<'o, T> {
    /// The index of the first element in the input.
    first: usize,
    n_columns: usize,
    points: Points<'o, T>,
}

/// The elements of some columns at each point of the axis.
enum Points<'o, T> {
    /// The elements of all columns, which are contiguous.
    All(&'o mut [T]),
    Some(Vec<&'o mut [T]>),
}

impl<T> Columns<'_, T> {
    /// Returns the elements at a point of the axis.
    fn point(&mut self, at: usize) -> &mut [T] {
        match &mut self.points {
            Points::All(points) => &mut points[at * self.n_columns..][..self.n_columns],
            Points::Some(points) => points[at],
        }
    }
}

/// Memory for items.
struct Items<I> {
    memory: HostStorage,
    len: usize,
    items: PhantomData<fn() -> I>,
}

impl<I: Item<S>, S: Key> Lines<'_, S, I> {
    /// Allocates memory for some items, with unspecified contents.
    fn items(&self, len: usize) -> Result<Items<I>> {
        // No type of elements has a larger alignment.
        let len_in_f64 = (len * size_of::<I>()).div_ceil(size_of::<f64>());
        Ok(Items {
            memory: self.pool.take(DType::F64, len_in_f64)?,
            len,
            items: PhantomData,
        })
    }
}

impl<I: bytemuck::Pod> Items<I> {
    fn get(&mut self) -> &mut [I] {
        let items = bytemuck::cast_slice_mut(self.memory.elements_mut::<f64>());
        &mut items[..self.len]
    }
}

/// The memory of a task.
struct Scratch<I> {
    items: Items<I>,
    spare: Items<I>,
}

impl<'a, S: Key, I: Item<S>> Lines<'a, S, I> {
    fn new(loops: &'a SortLoops, input: &'a [S], pool: &'a Arc<Pool>) -> Self {
        Self {
            loops,
            input,
            pool,
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
                let (items, spare) = (items.get(), spare.get());
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
        let mut scratch = self.scratch(n)?;
        let (items, spare) = (scratch.items.get(), scratch.spare.get());
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
        let sorted = line::merge_runs(items, spare, run)?;
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
            let first = block * n * width;
            if width <= COLUMNS {
                tasks.push(Columns {
                    first,
                    n_columns: width,
                    points: Points::All(out),
                });
                continue;
            }
            let mut points: Vec<Vec<&mut [I::Result]>> = Vec::new();
            points.resize_with(width.div_ceil(COLUMNS), Vec::new);
            for point in out.chunks_mut(width) {
                for (points, columns) in points.iter_mut().zip(point.chunks_mut(COLUMNS)) {
                    points.push(columns);
                }
            }
            tasks.extend(
                points
                    .into_iter()
                    .enumerate()
                    .map(|(number, points)| Columns {
                        first: first + number * COLUMNS,
                        n_columns: COLUMNS.min(width - number * COLUMNS),
                        points: Points::Some(points),
                    }),
            );
        }
        parallel::for_each(
            tasks.into_iter(),
            || self.scratch(n * COLUMNS.min(width)),
            |scratch, mut task| {
                let Scratch { items, spare } = available(scratch)?;
                let n_columns = task.n_columns;
                let (items, spare) = (&mut items.get()[..n * n_columns], spare.get());
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
                for at in 0..n {
                    for (column, result) in task.point(at).iter_mut().enumerate() {
                        *result = items[column * n + at].result(self.loops.sort.descending);
                    }
                }
                for (column, items) in items.chunks(n).enumerate() {
                    if variants[column] {
                        self.restore_variants(task.first + column, items, |at, result| {
                            task.point(at)[column] = result;
                        });
                    }
                }
                Ok(())
            },
        )
    }

    /// Allocates `len` items, and spare memory for the items of one line.
    fn scratch(&self, len: usize) -> Result<Scratch<I>> {
        Ok(Scratch {
            items: self.items(len)?,
            spare: self.items(self.loops.n)?,
        })
    }

    fn item(&self, element: S, position: usize) -> I {
        I::new(element.key(self.loops.sort.descending), position)
    }

    /// Reads the items of a contiguous line from a position on. Returns whether the line contains
    /// -0.0 or NaN, whose bits the key does not hold.
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

    /// Passes to `write` the place and the original element of each zero and NaN of a line, in the
    /// order of the line, because keys hold neither the sign of zero nor the bits of NaN. Positions
    /// need no such correction.
    fn restore_variants(&self, first: usize, items: &[I], mut write: impl FnMut(usize, I::Result)) {
        let line = self.input[first..].iter().step_by(self.loops.width);
        let line = line.take(self.loops.n).copied();
        if self.loops.sort.result == Sorted::Positions {
            return;
        }
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
