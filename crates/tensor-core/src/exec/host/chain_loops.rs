//! The loops over chains, on vectors in CPU registers.
//!
//! Role: computes chains on rows of lanes, for `rows` and for the interpreter.
//! Method: an interpreter of vectors. A few vectors are loaded, all operations of the chain are
//! applied to them, and the results are stored; then the next vectors follow. Between the
//! operations the values stay in CPU registers, except that some functions, and folds, read them
//! from a buffer. A branch selects each operation for a few hundred bytes of lanes. The branches
//! are the same each time, so the CPU predicts them, and loads vectors while it computes others.
//! Accuracy: each operation rounds its result, as it would in a separate loop. Results are folded
//! in groups of a constant number of lanes, so the bits depend on no instruction set.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::chain::{Link, MAX_LINKS, Operand, Results};
use super::functions;
use super::level::Level;
use super::loops::{FOLDED_LANES, Fold, View};
use super::vector::{FloatVector, Vector};
use crate::math::Chunks;
use crate::op::{Binary, Reduce, Unary};

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

/// Chains on the same rows. All chains of a row are computed before those of the next row.
pub(super) struct Rows<'r, 'a, T> {
    pub(super) level: Level,
    pub(super) chains: &'r [RowChain<'r, T>],
    /// The results of each chain.
    pub(super) results: &'r mut [Results<'a, T>],
    pub(super) n_rows: usize,
    /// Memory for the lanes of a row, at most [`GROUP`], if a chain needs it (see
    /// [`RowChain::needs_scratch`]).
    pub(super) scratch: [&'r mut [T]; 2],
}

impl<T: FloatVector + Chunks> WithSimd for Rows<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // A single chain runs on all rows at once, so that its setup is not repeated for each row.
        let n_rows = if self.chains.len() == 1 {
            self.n_rows.max(1)
        } else {
            1
        };
        for first in (0..self.n_rows).step_by(n_rows) {
            for number in 0..self.chains.len() {
                self.run_chain(simd, first..first + n_rows, number);
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
            let identity = chain
                .fold
                .as_ref()
                .map_or(T::ZERO, |fold| T::identity(fold.0));
            let mut accumulators = [identity; FOLDED_LANES];
            let mut total = identity;
            for start in (0..chain.len).step_by(GROUP) {
                let lanes = start..chain.len.min(start + GROUP);
                let group = Group {
                    level: self.level,
                    first: chain.first.view(row, lanes.clone(), earlier),
                    links: chain.links.on_row(row, &lanes, earlier, &mut views),
                    n: lanes.len(),
                };
                let scratch = self.scratch.each_mut().map(|scratch| &mut **scratch);
                let out = match chain.fold {
                    Some(_) => None,
                    None => Some(own.row_mut(row, lanes)),
                };
                let results = group.compute(simd, scratch, out);
                if let Some((op, _)) = chain.fold {
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
                    simd.vectorize(Fill {
                        value: View::Uniform(total),
                        links: after.on_row(row, &(0..1), earlier, &mut views),
                        out,
                    });
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
                simd.vectorize(Fill {
                    value,
                    links: arithmetic,
                    out: to,
                });
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

/// Operations on the lanes of `value`.
struct Fill<'a, T> {
    value: View<'a, T>,
    links: &'a [Link<View<'a, T>>],
    out: &'a mut [T],
}

impl<T: FloatVector + Chunks> WithSimd for Fill<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // The vectors of the value stay in the registers of the CPU, with those that a function
        // needs, and the lanes fill these vectors.
        match self.out.len() / T::n_lanes::<S>() {
            0 => self.run::<S, 1>(simd),
            8.. if S::REGISTER_COUNT >= 32 => self.run::<S, 8>(simd),
            _ => self.run::<S, 4>(simd),
        }
    }
}

impl<T: FloatVector + Chunks> Fill<'_, T> {
    /// Computes all lanes, in chunks of `N` vectors.
    #[inline(always)]
    fn run<S: Simd, const N: usize>(self, simd: S) {
        let Self { value, links, out } = self;
        let width = T::n_lanes::<S>();
        let n = out.len();
        let mut done = 0;
        while done < n {
            // The last chunk ends with the last lane. It computes some lanes again, which is faster
            // than vectors that are not full.
            let at = n.saturating_sub(N * width).min(done);
            let x = chunk::<S, T, N>(simd, value, links, at);
            if n >= N * width {
                let to = &mut out[at..][..N * width];
                for (to, x) in to.chunks_exact_mut(width).zip(x) {
                    to.copy_from_slice(lanes_of::<S, T>(&x));
                }
            } else {
                // The copy keeps `x` itself in CPU registers.
                let copy = x;
                let lanes: &[T] = bytemuck::cast_slice(&copy);
                out.copy_from_slice(&lanes[..n]);
            }
            done = at + N * width;
        }
    }
}

/// A fold of lanes into accumulators, as [`LaneType::accumulate`](super::lanes::LaneType::accumulate)
/// does with [`Fold::Together`]. The results have the same bits, except that the sign of an extreme
/// 0 and the bits of an extreme NaN may differ: the last of equal lanes is the extreme here, the
/// first there, and the lanes of an overlapping group belong to other accumulators.
///
/// A row has few lanes, so the time for the lanes at its end counts. Loops in plain Rust fold these
/// lanes one by one, in memory. Here the last lanes of a sum are loaded as vectors, the last of them
/// padded with zeros. For extremes, the last group overlaps the group before.
struct Accumulate<'a, T> {
    op: Reduce,
    lanes: &'a [T],
    accumulators: &'a mut [T; FOLDED_LANES],
}

impl<T: FloatVector> WithSimd for Accumulate<'_, T> {
    type Output = T;

    /// Returns the fold of all accumulators.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> T {
        match FOLDED_LANES / T::n_lanes::<S>() {
            2 => self.run::<S, 2>(simd),
            4 => self.run::<S, 4>(simd),
            8 => self.run::<S, 8>(simd),
            16 => self.run::<S, 16>(simd),
            _ => self.run::<S, FOLDED_LANES>(simd),
        }
    }
}

impl<T: FloatVector> Accumulate<'_, T> {
    /// Folds the lanes with `K` vectors of accumulators.
    #[inline(always)]
    fn run<S: Simd, const K: usize>(self, simd: S) -> T {
        let Self { op, lanes, .. } = self;
        let mut accumulators = load::<S, T, K>(simd, self.accumulators, 0);
        let width = T::n_lanes::<S>();
        let (groups, rest) = lanes.as_chunks::<FOLDED_LANES>();
        let mut totals = [T::splat(simd, T::identity(op)); K];
        macro_rules! fold_extremes {
            ($groups:expr, $extreme:ident) => {{
                // NaN, if there was one: the extremes of NaN and numbers are not specified.
                let mut nans = totals;
                for group in $groups {
                    for number in 0..K {
                        let x = vector_at::<S, T>(group, number);
                        nans[number] = T::nan_or(simd, x, nans[number]);
                        totals[number] = T::$extreme(simd, totals[number], x);
                    }
                }
                for (total, nan) in totals.iter_mut().zip(nans) {
                    *total = T::nan_or(simd, nan, *total);
                }
            }};
        }
        match (op, lanes.last_chunk::<FOLDED_LANES>()) {
            (Reduce::Sum, _) => {
                for group in groups {
                    for (number, total) in totals.iter_mut().enumerate() {
                        *total = <T as Vector>::add(simd, *total, vector_at::<S, T>(group, number));
                    }
                }
                for (number, total) in totals.iter_mut().enumerate() {
                    let lanes = &rest[rest.len().min(number * width)..];
                    if lanes.len() >= width {
                        *total = <T as Vector>::add(simd, *total, vector_at::<S, T>(lanes, 0));
                    } else if !lanes.is_empty() {
                        *total = <T as Vector>::add(simd, *total, <T as Vector>::load(simd, lanes));
                    }
                }
            }
            // If lanes remain, a last group contains these lanes and some of the group before, which
            // changes no extreme.
            (Reduce::Max, Some(last)) => {
                let last = (!rest.is_empty()).then_some(last);
                fold_extremes!(groups.iter().chain(last), max);
            }
            (Reduce::Min, Some(last)) => {
                let last = (!rest.is_empty()).then_some(last);
                fold_extremes!(groups.iter().chain(last), min);
            }
            _ => {
                let mut in_memory = [T::identity(op); FOLDED_LANES];
                let how = Fold::Together(lanes.len());
                T::accumulate(op, how, &mut in_memory, View::Lanes(lanes));
                totals = load::<S, T, K>(simd, &in_memory, 0);
            }
        }
        for (accumulator, total) in accumulators.iter_mut().zip(totals) {
            *accumulator = join::<S, T>(simd, op, *accumulator, total);
        }
        self.accumulators
            .copy_from_slice(bytemuck::cast_slice(&accumulators));
        total::<S, T, K>(simd, op, accumulators)
    }
}

/// Folds all lanes of accumulators into one number, by halves, as
/// [`lanes::total`](super::lanes::total) does.
#[inline(always)]
fn total<S: Simd, T: FloatVector, const K: usize>(
    simd: S,
    op: Reduce,
    mut accumulators: [T::Of<S>; K],
) -> T {
    let mut n = K;
    while n > 1 {
        n /= 2;
        for number in 0..n {
            let other = accumulators[number + n];
            accumulators[number] = join::<S, T>(simd, op, accumulators[number], other);
        }
    }
    let mut first = accumulators[0];
    let mut n = T::n_lanes::<S>();
    while n > 1 {
        n /= 2;
        first = join::<S, T>(simd, op, first, T::rotate(simd, first, n));
    }
    lanes_of::<S, T>(&first)[0]
}

/// Folds the lanes of two vectors in pairs.
#[inline(always)]
fn join<S: Simd, T: FloatVector>(simd: S, op: Reduce, a: T::Of<S>, b: T::Of<S>) -> T::Of<S> {
    match op {
        Reduce::Sum => <T as Vector>::add(simd, a, b),
        Reduce::Prod => <T as Vector>::mul(simd, a, b),
        Reduce::Max | Reduce::Any => T::larger(simd, b, a),
        Reduce::Min | Reduce::All => T::smaller(simd, b, a),
    }
}

/// Returns the lanes of a vector.
#[inline(always)]
fn lanes_of<S: Simd, T: FloatVector>(vector: &T::Of<S>) -> &[T] {
    bytemuck::cast_slice(std::slice::from_ref(vector))
}

/// Returns `N` vectors of lanes, with zeros after the end of the lanes.
#[inline(always)]
fn load<S: Simd, T: FloatVector, const N: usize>(simd: S, lanes: &[T], at: usize) -> [T::Of<S>; N] {
    let width = T::n_lanes::<S>();
    // These are plain loops because the compiler does not always inline calls of `array::from_fn`.
    let mut vectors = [T::splat(simd, T::identity(Reduce::Sum)); N];
    if lanes.len() >= at + N * width {
        for (number, vector) in vectors.iter_mut().enumerate() {
            *vector = vector_at::<S, T>(&lanes[at..][..N * width], number);
        }
    } else {
        for (number, vector) in vectors.iter_mut().enumerate() {
            let start = lanes.len().min(at + number * width);
            let lanes = &lanes[start..lanes.len().min(start + width)];
            *vector = match lanes.len() == width {
                true => vector_at::<S, T>(lanes, 0),
                false => <T as Vector>::load(simd, lanes),
            };
        }
    }
    vectors
}

/// Returns the vector of lanes with this number.
#[inline(always)]
fn vector_at<S: Simd, T: FloatVector>(lanes: &[T], number: usize) -> T::Of<S> {
    let width = T::n_lanes::<S>();
    let lanes = &lanes[number * width..][..width];
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(lanes))
}

/// Evaluates to an operand from a lane on, with `N` vectors of lanes: if the operand has fewer, a
/// copy with zeros after its end. The copy is a variable of the caller that has no value before, so
/// that nothing is written for other operands.
macro_rules! whole {
    ($simd:ident, $operand:expr, $at:expr, $copy:ident) => {{
        let n = N * T::n_lanes::<S>();
        match $operand {
            View::Uniform(x) => View::Uniform(x),
            View::Lanes(lanes) if lanes.len() >= $at + n => View::Lanes(&lanes[$at..$at + n]),
            View::Lanes(lanes) => {
                $copy = load::<S, T, N>($simd, lanes, $at);
                View::Lanes(bytemuck::cast_slice(&$copy))
            }
        }
    }};
}

/// Applies all operations to `N` vectors of lanes.
#[inline(always)]
fn chunk<S: Simd, T: FloatVector + Chunks, const N: usize>(
    simd: S,
    value: View<'_, T>,
    links: &[Link<View<'_, T>>],
    at: usize,
) -> [T::Of<S>; N] {
    let mut x = match value {
        View::Uniform(x) => [T::splat(simd, x); N],
        View::Lanes(lanes) => load::<S, T, N>(simd, lanes, at),
    };
    macro_rules! each {
        (|$x:ident| $result:expr) => {
            for $x in &mut x {
                *$x = $result;
            }
        };
        // A number takes one CPU register. Vectors of lanes are loaded one by one.
        (|$x:ident, $y:ident| $result:expr, $operand:expr) => {
            match $operand {
                View::Uniform(number) => {
                    let $y = T::splat(simd, number);
                    for $x in &mut x {
                        *$x = $result;
                    }
                }
                View::Lanes(lanes) => {
                    let lanes = &lanes[..N * T::n_lanes::<S>()];
                    for (number, $x) in x.iter_mut().enumerate() {
                        let $y = vector_at::<S, T>(lanes, number);
                        *$x = $result;
                    }
                }
            }
        };
    }
    // The loop over the lanes of all vectors has a constant length, so the compiler turns it into
    // vector instructions. It runs on a copy: the address of `x` itself would keep `x` in memory.
    macro_rules! function {
        ($function:ident) => {{
            let mut copy = x;
            for lane in bytemuck::cast_slice_mut::<T::Of<S>, T>(&mut copy) {
                *lane = T::$function(*lane);
            }
            x = copy;
        }};
    }
    for &link in links {
        match link {
            Link::Unary(op) => match op {
                Unary::Neg => each!(|x| <T as FloatVector>::neg(simd, *x)),
                Unary::Abs => each!(|x| T::abs(simd, *x)),
                Unary::Sqrt => each!(|x| T::sqrt(simd, *x)),
                Unary::Recip => {
                    let one = T::splat(simd, T::identity(Reduce::Prod));
                    each!(|x| <T as FloatVector>::div(simd, one, *x));
                }
                Unary::Exp => function!(exp),
                Unary::Ln => function!(ln),
                Unary::Tanh => function!(tanh),
                Unary::Sigmoid => function!(sigmoid),
                _ => unreachable!("{op:?} has a loop of its own"),
            },
            Link::Binary(op, operand) => {
                let copy: [T::Of<S>; N];
                let y = whole!(simd, operand, at, copy);
                match op {
                    Binary::Add => each!(|x, y| <T as Vector>::add(simd, *x, y), y),
                    Binary::Sub => each!(|x, y| <T as FloatVector>::sub(simd, *x, y), y),
                    Binary::Mul => each!(|x, y| <T as Vector>::mul(simd, *x, y), y),
                    Binary::Div => each!(|x, y| <T as FloatVector>::div(simd, *x, y), y),
                    // A comparison with a number that is not NaN takes fewer instructions.
                    Binary::Maximum if is_number(operand) => {
                        each!(|x, y| T::at_least(simd, *x, y), y);
                    }
                    Binary::Minimum if is_number(operand) => {
                        each!(|x, y| T::at_most(simd, *x, y), y);
                    }
                    Binary::Maximum => each!(|x, y| T::larger(simd, *x, y), y),
                    Binary::Minimum => each!(|x, y| T::smaller(simd, *x, y), y),
                    _ => unreachable!("{op:?} is not supported by chains"),
                }
            }
            Link::Swapped(op, operand) => {
                let copy: [T::Of<S>; N];
                let y = whole!(simd, operand, at, copy);
                match op {
                    Binary::Add => each!(|x, y| <T as Vector>::add(simd, y, *x), y),
                    Binary::Sub => each!(|x, y| <T as FloatVector>::sub(simd, y, *x), y),
                    Binary::Mul => each!(|x, y| <T as Vector>::mul(simd, y, *x), y),
                    Binary::Div => each!(|x, y| <T as FloatVector>::div(simd, y, *x), y),
                    Binary::Maximum => each!(|x, y| T::larger(simd, y, *x), y),
                    Binary::Minimum => each!(|x, y| T::smaller(simd, y, *x), y),
                    _ => unreachable!("{op:?} is not supported by chains"),
                }
            }
            Link::Twice(op) => match op {
                Binary::Add => each!(|x| <T as Vector>::add(simd, *x, *x)),
                Binary::Sub => each!(|x| <T as FloatVector>::sub(simd, *x, *x)),
                Binary::Mul => each!(|x| <T as Vector>::mul(simd, *x, *x)),
                Binary::Div => each!(|x| <T as FloatVector>::div(simd, *x, *x)),
                // The extreme of a number and itself is that number.
                Binary::Maximum | Binary::Minimum => {}
                _ => unreachable!("{op:?} is not supported by chains"),
            },
        }
    }
    x
}

/// Returns whether an operand is one number for all lanes, and not NaN.
#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_number<T: FloatVector>(operand: View<'_, T>) -> bool {
    matches!(operand, View::Uniform(x) if x == x)
}
