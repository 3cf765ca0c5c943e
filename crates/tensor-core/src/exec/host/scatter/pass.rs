//! The passes over the elements of a scatter.
//!
//! Method: a pass folds elements one after the other. A task computes the results of some outer
//! indices, or of some positions; each task that computes some of the positions reads the whole
//! index. Long scatters into few results are divided by terms instead: each part has results of its
//! own, which are combined in the order of the parts.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use super::super::lanes::{LaneType, Stored, larger, smaller};
use super::super::loops::{View, update};
use super::{ScatterLoops, Source};
use crate::dtype::{Element as _, Scalar};
use crate::error::{Error, Result};
use crate::exec::reference::gathered_place;
use crate::level::Level;
use crate::op::Reduce;
use crate::parallel;
use crate::storage::{HostStorage, Pool};

/// The minimum number of elements of a task or part: some tens of microseconds.
pub(super) const TASK: usize = 1 << 15;
/// The number of parts that keeps any machine busy.
const ENOUGH_PARTS: usize = 16;
/// The minimum width at which the positions are divided between threads. Each thread then reads the
/// whole index, which takes less time than folding rows of this width.
pub(super) const WIDE: usize = 16;

/// The conversion of an index to a position of the results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Index {
    /// The size of the axis, if an index outside is an error.
    pub(super) extent: Option<usize>,
    /// Whether negative numbers count from the end of the axis.
    pub(super) is_signed: bool,
    /// The index of the first position.
    pub(super) first: u32,
    /// Whether the index decreases by 1 from each position to the next; otherwise it increases by
    /// 1.
    pub(super) is_flipped: bool,
}

/// The way in which the elements of a result are combined.
pub(super) trait Combine<T: LaneType> {
    /// The type of the accumulators.
    type Total: LaneType;
    fn start() -> Self::Total;
    fn with(total: Self::Total, element: T) -> Self::Total;
    /// Combines the totals of two parts.
    fn join(total: Self::Total, later: Self::Total) -> Self::Total;
    fn result(total: Self::Total) -> T;
    /// Returns the memory of results as accumulators, if the types are the same.
    fn in_place(out: &mut [T]) -> Option<&mut [Self::Total]>;
}

/// Sums in the type of the elements.
pub(super) struct Sum;
/// Sums of `f32` in `f64`.
pub(super) struct InF64;
pub(super) struct Largest;
pub(super) struct Smallest;

macro_rules! combine_in_type {
    ($name:ident, $op:ident, $f:expr) => {
        impl<T: LaneType> Combine<T> for $name {
            type Total = T;
            #[inline(always)]
            fn start() -> T {
                T::identity(Reduce::$op)
            }
            #[inline(always)]
            fn with(total: T, element: T) -> T {
                $f(total, element)
            }
            #[inline(always)]
            fn join(total: T, later: T) -> T {
                $f(total, later)
            }
            #[inline(always)]
            fn result(total: T) -> T {
                total
            }
            fn in_place(out: &mut [T]) -> Option<&mut [T]> {
                Some(out)
            }
        }
    };
}

combine_in_type!(Sum, Sum, T::plus);
combine_in_type!(Largest, Max, larger);
combine_in_type!(Smallest, Min, smaller);

impl Combine<f32> for InF64 {
    type Total = f64;
    #[inline(always)]
    fn start() -> f64 {
        0.0
    }
    #[inline(always)]
    fn with(total: f64, element: f32) -> f64 {
        total + f64::from(element)
    }
    #[inline(always)]
    fn join(total: f64, later: f64) -> f64 {
        total + later
    }
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a sum is rounded once")]
    fn result(total: f64) -> f32 {
        total as f32
    }
    fn in_place(_: &mut [f32]) -> Option<&mut [f64]> {
        None
    }
}

/// One pass over the elements.
pub(super) struct Pass<'a, T, C> {
    loops: &'a ScatterLoops,
    at: &'a [u32],
    /// The elements; `None` if they are counted.
    elements: Option<(&'a Source, &'a [T])>,
    level: Level,
    combine: PhantomData<fn() -> C>,
}

impl<'a, T, C> Pass<'a, T, C>
where
    T: Stored<Lane = T> + LaneType,
    C: Combine<T, Total: Stored>,
{
    pub(super) fn new(
        loops: &'a ScatterLoops,
        at: &'a [u32],
        elements: Option<(&'a Source, &'a [T])>,
    ) -> Self {
        Self {
            loops,
            at,
            elements,
            level: Level::best(),
            combine: PhantomData,
        }
    }

    /// Computes all results.
    pub(super) fn compute(&self, out: &mut [T], pool: &Arc<Pool>) -> Result<()> {
        match self.n_parts() {
            1 => self.fill(out, pool),
            n_parts => self.fill_in_parts(n_parts, out, pool),
        }
    }

    /// Returns whether each thread may read the whole index.
    fn divides_positions(&self) -> bool {
        self.loops.sizes.width >= WIDE && !self.loops.at.has_width
    }

    /// Returns the number of parts into which the terms are divided.
    fn n_parts(&self) -> usize {
        let sizes = self.loops.sizes;
        if self.divides_positions() {
            return 1;
        }
        let least = TASK.max(4 * sizes.results());
        let n_parts = (ENOUGH_PARTS / sizes.outer).min(sizes.elements() / least);
        n_parts.max(1)
    }

    /// Computes all results; each task computes the results of some positions.
    fn fill(&self, out: &mut [T], pool: &Arc<Pool>) -> Result<()> {
        let sizes = self.loops.sizes;
        let results = sizes.results();
        // No number of positions changes the order in which the elements of a result are folded, so
        // the number may depend on the number of threads.
        let n_threads = rayon::current_num_threads();
        let per_task = if self.divides_positions() && sizes.outer < n_threads {
            let n_tasks = n_threads.min(sizes.elements() / TASK).max(1);
            sizes.positions.div_ceil(n_tasks)
        } else {
            sizes.positions
        };
        let most = per_task * sizes.width;
        let together = if per_task < sizes.positions {
            1
        } else {
            TASK.div_ceil(sizes.elements()).min(sizes.outer)
        };
        let tasks = out.chunks_mut(together * results).enumerate();
        let tasks = tasks.flat_map(|(number, out)| {
            let parts = out.chunks_mut(if together == 1 {
                per_task * sizes.width
            } else {
                out.len()
            });
            parts
                .enumerate()
                .map(move |(part, out)| (number * together, part * per_task, out))
        });
        parallel::for_each(
            tasks,
            || None,
            |scratch: &mut Option<HostStorage>, (outer, first, out)| {
                for (number, out) in out.chunks_mut(results).enumerate() {
                    let positions = first..first + out.len() / sizes.width;
                    if let Some(totals) = C::in_place(out) {
                        totals.fill(C::start());
                        self.add(outer + number, 0..sizes.terms, positions, totals)?;
                        continue;
                    }
                    let totals = match scratch {
                        Some(scratch) => scratch,
                        None => scratch.insert(pool.take(C::Total::DTYPE, most)?),
                    };
                    let totals = &mut totals.elements_mut::<C::Total>()[..out.len()];
                    totals.fill(C::start());
                    self.add(outer + number, 0..sizes.terms, positions, totals)?;
                    write::<T, C>(totals, out);
                }
                Ok(())
            },
        )
    }

    /// Computes all results, with the terms divided into parts.
    fn fill_in_parts(&self, n_parts: usize, out: &mut [T], pool: &Arc<Pool>) -> Result<()> {
        let sizes = self.loops.sizes;
        let results = sizes.results();
        let mut all = pool.take(C::Total::DTYPE, out.len() * n_parts)?;
        let totals = all.elements_mut::<C::Total>();
        let terms = |part: usize| sizes.terms * part / n_parts..sizes.terms * (part + 1) / n_parts;
        parallel::for_each(
            totals.chunks_mut(results).enumerate(),
            || (),
            |(), (number, totals)| {
                totals.fill(C::start());
                let (outer, part) = (number / n_parts, number % n_parts);
                self.add(outer, terms(part), 0..sizes.positions, totals)
            },
        )?;
        for (totals, out) in totals
            .chunks_mut(results * n_parts)
            .zip(out.chunks_mut(results))
        {
            let (total, parts) = totals.split_at_mut(results);
            for part in parts.chunks(results) {
                for (total, &later) in total.iter_mut().zip(part) {
                    *total = C::join(*total, later);
                }
            }
            write::<T, C>(total, out);
        }
        Ok(())
    }

    /// Folds the elements of some terms of an outer index into the totals of some positions.
    fn add(
        &self,
        outer: usize,
        terms: Range<usize>,
        positions: Range<usize>,
        totals: &mut [C::Total],
    ) -> Result<()> {
        let loops = self.loops;
        let (width, index) = (loops.sizes.width, loops.index.beginning_at(positions.start));
        let one = [T::identity(Reduce::Prod)];
        let mut fault = None;
        let mut runs = Runs::new(&loops.terms, terms);
        self.level.dispatch(
            #[inline(always)]
            || {
                while let Some(len) = runs.advance() {
                    let at = Strided::new(&loops.at, self.at, loops, outer, &runs.index);
                    let one = Strided {
                        elements: &one,
                        step: 0,
                    };
                    let (elements, has_width) = match self.elements {
                        None => (one, false),
                        Some((source, elements)) => {
                            let elements =
                                Strided::new(source, elements, loops, outer, &runs.index);
                            (elements, source.has_width)
                        }
                    };
                    let row = |term: usize| match has_width {
                        true => View::Lanes(elements.row(term, width)),
                        false => View::Uniform(elements.get(term)),
                    };
                    let faulty = match (width, loops.at.has_width) {
                        (1, _) => add_singles::<T, C>(totals, len, index, at, elements),
                        (_, false) => add_rows::<T, C>(totals, (len, width), index, at, row),
                        (_, true) => add_columns::<T, C>(totals, (len, width), index, at, row),
                    };
                    fault = fault.or(faulty);
                }
            },
        );
        fault.map_or(Ok(()), |at| Err(index.error(at)))
    }
}

/// The division of some terms into runs: consecutive terms that differ in the index along the last
/// reduced axis alone.
struct Runs<'a> {
    sizes: &'a [usize],
    /// The index of the first term of the current run along each reduced axis.
    index: Vec<usize>,
    next: usize,
    end: usize,
}

impl<'a> Runs<'a> {
    fn new(sizes: &'a [usize], terms: Range<usize>) -> Self {
        Self {
            sizes,
            index: vec![0; sizes.len()],
            next: terms.start,
            end: terms.end,
        }
    }

    /// Moves to the next run and returns its number of terms; `None` at the end.
    #[inline(never)]
    fn advance(&mut self) -> Option<usize> {
        if self.next == self.end {
            return None;
        }
        let mut rest = self.next;
        for (index, size) in self.index.iter_mut().zip(self.sizes).rev() {
            *index = rest % size;
            rest /= size;
        }
        let within = self.index.last().zip(self.sizes.last());
        let len = within.map_or(1, |(index, size)| size - index);
        let len = len.min(self.end - self.next);
        self.next += len;
        Some(len)
    }
}

/// The elements of a run of terms, at equal distances; the first ones, if a term has several.
#[derive(Clone, Copy)]
struct Strided<'a, T> {
    elements: &'a [T],
    step: usize,
}

impl<'a, T: Copy> Strided<'a, T> {
    #[inline(never)]
    fn new(
        source: &Source,
        elements: &'a [T],
        loops: &ScatterLoops,
        mut outer: usize,
        index: &[usize],
    ) -> Self {
        let mut first = source.first;
        for (stride, size) in source.outer.iter().zip(&loops.outer).rev() {
            first += stride * (outer % size);
            outer /= size;
        }
        for (stride, index) in source.terms.iter().zip(index) {
            first += stride * index;
        }
        Self {
            elements: &elements[first..],
            step: source.terms.last().copied().unwrap_or(0),
        }
    }

    #[inline(always)]
    fn get(&self, term: usize) -> T {
        self.elements[term * self.step]
    }

    /// Returns the elements of a term.
    #[inline(always)]
    fn row(&self, term: usize, width: usize) -> &'a [T] {
        &self.elements[term * self.step..][..width]
    }

    /// Returns one element of each term, if they are contiguous.
    #[inline(always)]
    fn contiguous(&self, len: usize) -> Option<&'a [T]> {
        (self.step == 1).then(|| &self.elements[..len])
    }
}

impl Index {
    /// Returns the conversion to numbers that begin with 0 at a position of the results.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "an index is compared with positions modulo 2^32"
    )]
    fn beginning_at(self, start: usize) -> Self {
        let start = start as u32;
        Self {
            first: if self.is_flipped {
                self.first.wrapping_sub(start)
            } else {
                self.first.wrapping_add(start)
            },
            ..self
        }
    }

    /// Returns the number of the position of an index; too large if there is none.
    #[inline(always)]
    fn position(self, at: u32) -> usize {
        let at = self.counted_from_start(at);
        let position = if self.is_flipped {
            self.first.wrapping_sub(at)
        } else {
            at.wrapping_sub(self.first)
        };
        position as usize
    }

    /// Returns an index counted from the start of the axis.
    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the size matters for `i32` alone, whose axes are shorter"
    )]
    fn counted_from_start(self, at: u32) -> u32 {
        match self.extent {
            Some(extent) if self.is_signed && at.cast_signed() < 0 => {
                at.wrapping_add(extent as u32)
            }
            _ => at,
        }
    }

    /// Returns an index that belongs to no position here if the index is outside of its axis.
    #[inline(always)]
    fn outside(self, at: u32) -> Option<u32> {
        let is_outside = |extent: usize| gathered_place(self.scalar(at), extent).is_none();
        self.extent.is_some_and(is_outside).then_some(at)
    }

    fn error(self, at: u32) -> Error {
        Error::IndexOutOfRange {
            index: self.scalar(at).to_f64(),
            extent: self.extent.unwrap_or_default(),
        }
    }

    fn scalar(self, at: u32) -> Scalar {
        match self.is_signed {
            true => Scalar::I32(at.cast_signed()),
            false => Scalar::U32(at),
        }
    }
}

/// Folds terms of one element each. Returns an index outside of its axis, if there is any.
#[inline(always)]
fn add_singles<T: LaneType, C: Combine<T>>(
    totals: &mut [C::Total],
    len: usize,
    index: Index,
    at: Strided<'_, u32>,
    elements: Strided<'_, T>,
) -> Option<u32> {
    let mut fault = None;
    match (at.contiguous(len), elements.contiguous(len)) {
        (Some(at), Some(elements)) => {
            for (&at, &element) in at.iter().zip(elements) {
                add::<T, C>(totals, index, at, element, &mut fault);
            }
        }
        (Some(at), None) if elements.step == 0 => {
            let element = elements.get(0);
            for &at in at {
                add::<T, C>(totals, index, at, element, &mut fault);
            }
        }
        _ => {
            for term in 0..len {
                add::<T, C>(totals, index, at.get(term), elements.get(term), &mut fault);
            }
        }
    }
    fault
}

/// Folds an element into the total at an index.
#[inline(always)]
fn add<T: LaneType, C: Combine<T>>(
    totals: &mut [C::Total],
    index: Index,
    at: u32,
    element: T,
    fault: &mut Option<u32>,
) {
    match totals.get_mut(index.position(at)) {
        Some(total) => *total = C::with(*total, element),
        None => *fault = fault.or(index.outside(at)),
    }
}

/// Folds terms with one index each. Returns an index outside of its axis, if there is any.
#[inline(always)]
fn add_rows<'a, T: LaneType + 'a, C: Combine<T>>(
    totals: &mut [C::Total],
    (len, width): (usize, usize),
    index: Index,
    at: Strided<'_, u32>,
    row: impl Fn(usize) -> View<'a, T>,
) -> Option<u32> {
    let n_positions = totals.len() / width;
    let mut fault = None;
    for term in 0..len {
        let at = at.get(term);
        let place = index.position(at);
        if place < n_positions {
            let totals = &mut totals[place * width..][..width];
            update(totals, row(term), |total, element| {
                *total = C::with(*total, element);
            });
        } else {
            fault = fault.or(index.outside(at));
        }
    }
    fault
}

/// Folds terms with one index for each column. Returns an index outside of its axis, if there is
/// any.
#[inline(always)]
fn add_columns<'a, T: LaneType + 'a, C: Combine<T>>(
    totals: &mut [C::Total],
    (len, width): (usize, usize),
    index: Index,
    at: Strided<'_, u32>,
    row: impl Fn(usize) -> View<'a, T>,
) -> Option<u32> {
    let n_positions = totals.len() / width;
    let mut fault = None;
    for term in 0..len {
        let elements = row(term);
        for (column, &at) in at.row(term, width).iter().enumerate() {
            let place = index.position(at);
            if place < n_positions {
                let total = &mut totals[place * width + column];
                *total = C::with(*total, elements.at(column));
            } else {
                fault = fault.or(index.outside(at));
            }
        }
    }
    fault
}

/// Converts totals to results.
fn write<T: LaneType, C: Combine<T>>(totals: &[C::Total], out: &mut [T]) {
    for (out, &total) in out.iter_mut().zip(totals) {
        *out = C::result(total);
    }
}
