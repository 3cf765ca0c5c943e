//! The loops over chains, on vectors in CPU registers.
//!
//! Role: computes chains on rows of lanes, for `rows` and for the interpreter.
//! Method: an interpreter of vectors (`fill`). A few vectors are loaded, all operations of the
//! chain are applied to them, and the results are stored; then the next vectors follow. Between
//! the operations the values stay in CPU registers, except that some functions, and folds
//! (`accumulate`), read them from a buffer. A branch selects each operation for a few hundred bytes
//! of lanes. The branches are the same each time, so the CPU predicts them, and loads vectors while
//! it computes others. The loops of `fill` and `accumulate` may be compiled as separate functions:
//! in one large function, small changes of the code decided which vectors stayed in CPU registers.
//! Accuracy: each operation rounds its result, as it would in a separate loop. Results are folded
//! in groups of a constant number of lanes, so the bits depend on no instruction set, except for
//! the sign of an extreme 0 and the bits of an extreme NaN.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::chain::{Link, MAX_LINKS, Operand, Results};
use super::functions;
use super::loops::{FOLDED_LANES, View};
use super::vector::{FloatVector, Vector};
use crate::level::Level;
use crate::math::Chunks;
use crate::op::{Reduce, Unary};
use accumulate::Accumulate;
use fill::fill;

mod accumulate;
mod fill;

/// The number of results that are folded at a time, a multiple of the lanes of all vectors.
pub(super) const GROUP: usize = 1024;

/// A chain that is computed for each row.
#[derive(Debug)]
pub(super) struct RowChain<'a, T> {
    pub(super) first: Operand<'a, T>,
    pub(super) links: Links<'a, T>,
    /// The number of lanes of a row.
    pub(super) len: usize,
    /// The fold of the lanes of a row into one result, and the operations on this result; `None` if
    /// each lane is a result. None of these operations is a function with a loop of its own.
    pub(super) fold: Option<(Reduce, Links<'a, T>)>,
}

impl<T> RowChain<'_, T> {
    /// Returns whether values of the chain pass through memory: before a fold, and between
    /// functions with loops of their own.
    pub(super) fn needs_scratch(&self) -> bool {
        let links = self.links.as_slice();
        let is_array = matches!(self.first, Operand::Lanes(_) | Operand::ResultLanes(_));
        let is_array = is_array && links.is_empty();
        links.iter().any(Link::is_function) || (self.fold.is_some() && !is_array)
    }
}

/// The operations of a chain on rows.
#[derive(Debug)]
pub(super) struct Links<'a, T> {
    /// The operations, and unused elements after the last operation.
    links: [Link<Operand<'a, T>>; MAX_LINKS],
    n_links: usize,
}

impl<'a, T: Vector> Links<'a, T> {
    /// Returns operations with the operand of each source.
    #[inline(always)]
    pub(super) fn new<O>(links: &[Link<O>], operand: impl Fn(&O) -> Operand<'a, T>) -> Self {
        let mut operands = [Link::Unary(Unary::Abs); MAX_LINKS];
        for (to, link) in operands.iter_mut().zip(links) {
            *to = link.as_ref().map(&operand);
        }
        Self {
            links: operands,
            n_links: links.len(),
        }
    }

    /// Returns the operations on some lanes of a row, in the memory of `views`.
    #[inline(always)]
    fn on_row<'m, 'v>(
        &self,
        row: usize,
        lanes: &Range<usize>,
        results: &'v [Results<'_, T>],
        views: &'m mut [Link<View<'v, T>>; MAX_LINKS],
    ) -> &'m [Link<View<'v, T>>]
    where
        'a: 'v,
    {
        for (view, link) in views.iter_mut().zip(self.as_slice()) {
            *view = link.map(
                #[inline(always)]
                |operand| operand.view(row, lanes.clone(), results),
            );
        }
        &views[..self.n_links]
    }
}

impl<T> Default for Links<'_, T> {
    /// Returns no operations.
    fn default() -> Self {
        Self {
            links: [(); MAX_LINKS].map(|()| Link::Unary(Unary::Abs)),
            n_links: 0,
        }
    }
}

impl<'a, T> Links<'a, T> {
    /// Returns the operations.
    #[inline(always)]
    fn as_slice(&self) -> &[Link<Operand<'a, T>>] {
        &self.links[..self.n_links]
    }
}

/// Chains on the same rows. All chains are computed on a block of rows, then on the next block.
pub(super) struct Rows<'r, 'a, T> {
    pub(super) level: Level,
    pub(super) chains: &'r [RowChain<'r, T>],
    /// The results of each chain.
    pub(super) results: &'r mut [Results<'a, T>],
    pub(super) n_rows: usize,
    /// The number of rows of a block: each chain is computed on all rows of a block before the next
    /// chain.
    pub(super) n_block_rows: usize,
    /// Memory for the lanes of a row, at most [`GROUP`], if a chain needs it (see
    /// [`RowChain::needs_scratch`]).
    pub(super) scratch: [&'r mut [T]; 2],
}

impl<T: FloatVector + Chunks> WithSimd for Rows<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let n_block_rows = self.n_block_rows.max(1);
        for first in (0..self.n_rows).step_by(n_block_rows) {
            let rows = first..self.n_rows.min(first + n_block_rows);
            for number in 0..self.chains.len() {
                self.run_chain(simd, rows.clone(), number);
            }
        }
    }
}

impl<T: FloatVector + Chunks> Rows<'_, '_, T> {
    /// Computes a chain on some rows.
    #[inline(always)]
    fn run_chain<S: Simd>(&mut self, simd: S, rows: Range<usize>, number: usize) {
        let chain = &self.chains[number];
        let (earlier, own) = self.results.split_at_mut(number);
        let (earlier, own) = (&*earlier, &mut own[0]);
        let mut views = [Link::Unary(Unary::Abs); MAX_LINKS];
        for row in rows {
            let op = chain.fold.as_ref().map(|fold| fold.0);
            let mut total = op.map_or(T::ZERO, T::identity);
            let mut accumulators = [total; FOLDED_LANES];
            for start in (0..chain.len).step_by(GROUP) {
                let lanes = start..chain.len.min(start + GROUP);
                let group = Group {
                    level: self.level,
                    first: chain.first.view(row, lanes.clone(), earlier),
                    links: chain.links.on_row(row, &lanes, earlier, &mut views),
                    n: lanes.len(),
                };
                let scratch = self.scratch.each_mut().map(|scratch| &mut **scratch);
                let out = match op {
                    Some(_) => None,
                    None => Some(own.row_mut(row, lanes)),
                };
                let results = group.compute(simd, scratch, out);
                if let Some(op) = op {
                    total = simd.vectorize(Accumulate {
                        op,
                        lanes: results,
                        accumulators: &mut accumulators,
                    });
                }
            }
            if let Some((_, after)) = &chain.fold {
                let out = own.row_mut(row, 0..1);
                out.fill(total);
                if !after.as_slice().is_empty() {
                    let links = after.on_row(row, &(0..1), earlier, &mut views);
                    fill(simd, View::Uniform(total), links, out);
                }
            }
        }
    }
}

/// A chain on some lanes of a row.
struct Group<'a, T> {
    level: Level,
    first: View<'a, T>,
    links: &'a [Link<View<'a, T>>],
    /// The number of lanes.
    n: usize,
}

impl<'a, T: FloatVector + Chunks> Group<'a, T> {
    /// Computes the results of all lanes. Stores them in `out`, or else returns them.
    ///
    /// Some functions run in separate loops (`functions`), because rare arguments need a branch, or
    /// because the function is the only operation: then its constants fit the CPU registers. The
    /// operations before such a function run first, on all lanes of the group.
    #[inline(always)]
    fn compute<S: Simd>(
        self,
        simd: S,
        [mut now, mut next]: [&'a mut [T]; 2],
        mut out: Option<&mut [T]>,
    ) -> &'a [T] {
        let n = self.n;
        let mut links = self.links;
        let is_alone = links.len() == 1;
        // `None` once the value of the chain is in `now`.
        let mut first = Some(self.first);
        loop {
            let n_before = links.iter().position(
                #[inline(always)]
                |link| link.needs_own_loop() || (is_alone && link.is_function()),
            );
            let (arithmetic, rest) = links.split_at(n_before.unwrap_or(links.len()));
            let is_uniform = matches!(first, Some(View::Uniform(_)));
            if !arithmetic.is_empty() || is_uniform {
                let value = first.unwrap_or_else(|| View::Lanes(&now[..n]));
                let to = match &mut out {
                    Some(out) if rest.is_empty() => out,
                    _ => &mut next[..n],
                };
                fill(simd, value, arithmetic, to);
                std::mem::swap(&mut now, &mut next);
                first = None;
            }
            let [Link::Unary(op), after @ ..] = rest else {
                break;
            };
            let value = match first {
                Some(View::Lanes(lanes)) => lanes,
                _ => &now[..n],
            };
            let to = match &mut out {
                Some(out) if after.is_empty() => out,
                _ => &mut next[..n],
            };
            functions::unary(self.level, *op, to, value);
            std::mem::swap(&mut now, &mut next);
            first = None;
            if after.is_empty() {
                break;
            }
            links = after;
        }
        match first {
            Some(View::Lanes(lanes)) => lanes,
            _ if out.is_some() => &[],
            _ => &now[..n],
        }
    }
}
