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
use super::lanes::{larger, smaller, total};
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
    fn with_simd<S: Simd>(self, simd: S) {
        let is_short = |chain: &RowChain<'_, T>| chain.len < 8 * T::n_lanes::<S>();
        // The vectors of the value stay in the registers of the CPU, with those that a function
        // needs, and a row fills these vectors.
        if S::REGISTER_COUNT < 32 || self.chains.iter().any(is_short) {
            self.run::<S, 4>(simd);
        } else {
            self.run::<S, 8>(simd);
        }
    }
}

impl<T: FloatVector + Chunks> Rows<'_, '_, T> {
    /// Computes all rows, in chunks of `N` vectors.
    #[inline(always)]
    fn run<S: Simd, const N: usize>(mut self, simd: S) {
        // A single chain runs on all rows at once, so that its setup is not repeated for each row.
        let n_rows = if self.chains.len() == 1 {
            self.n_rows.max(1)
        } else {
            1
        };
        for first in (0..self.n_rows).step_by(n_rows) {
            for number in 0..self.chains.len() {
                self.run_chain::<S, N>(simd, first..first + n_rows, number);
            }
        }
    }

    /// Computes a chain on some rows.
    #[inline(always)]
    fn run_chain<S: Simd, const N: usize>(&mut self, simd: S, rows: Range<usize>, number: usize) {
        let chain = &self.chains[number];
        let (earlier, own) = self.results.split_at_mut(number);
        let (earlier, own) = (&*earlier, &mut own[0]);
        let mut views = [Link::Unary(Unary::Abs); MAX_LINKS];
        for row in rows {
            let mut accumulators = match chain.fold {
                Some((op, _)) => [T::identity(op); FOLDED_LANES],
                None => [T::ZERO; FOLDED_LANES],
            };
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
                let results = group.compute::<S, N>(simd, scratch, out);
                if let Some((op, _)) = chain.fold {
                    accumulate::<S, T>(simd, op, results, &mut accumulators);
                }
            }
            if let Some((op, after)) = &chain.fold {
                let mut result = total(*op, &accumulators);
                if !after.as_slice().is_empty() {
                    let links = after.on_row(row, &(0..1), earlier, &mut views);
                    let [results] = chunk::<S, T, 1>(simd, View::Uniform(result), links, 0);
                    result = lanes_of::<S, T>(&results)[0];
                }
                own.row_mut(row, 0..1).fill(result);
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
    fn compute<S: Simd, const N: usize>(
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
                fill::<S, T, N>(simd, value, arithmetic, to);
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

/// Computes operations on the lanes of `value`.
#[inline(always)]
fn fill<S: Simd, T: FloatVector + Chunks, const N: usize>(
    simd: S,
    value: View<'_, T>,
    links: &[Link<View<'_, T>>],
    out: &mut [T],
) {
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

/// Folds lanes into accumulators, as [`LaneType::accumulate`](super::lanes::LaneType::accumulate)
/// does with [`Fold::Together`]. The results have the same bits, except that the sign of an extreme
/// 0 and the bits of an extreme NaN may differ: the last of equal lanes is the extreme here, the
/// first there, and the lanes of an overlapping group belong to other accumulators.
///
/// A row has few lanes, so the time for the lanes at its end counts. Loops in plain Rust fold these
/// lanes one by one, in memory. Here the last lanes of a sum are loaded as one group that is padded
/// with zeros. For extremes, the last group overlaps the group before.
#[inline(always)]
fn accumulate<S: Simd, T: FloatVector>(simd: S, op: Reduce, lanes: &[T], accumulators: &mut [T]) {
    match FOLDED_LANES / T::n_lanes::<S>() {
        2 => accumulate_in::<S, T, 2>(simd, op, lanes, accumulators),
        4 => accumulate_in::<S, T, 4>(simd, op, lanes, accumulators),
        8 => accumulate_in::<S, T, 8>(simd, op, lanes, accumulators),
        16 => accumulate_in::<S, T, 16>(simd, op, lanes, accumulators),
        _ => accumulate_in::<S, T, FOLDED_LANES>(simd, op, lanes, accumulators),
    }
}

/// Folds lanes into `K` vectors of accumulators.
#[inline(always)]
fn accumulate_in<S: Simd, T: FloatVector, const K: usize>(
    simd: S,
    op: Reduce,
    lanes: &[T],
    accumulators: &mut [T],
) {
    let (groups, rest) = lanes.as_chunks::<FOLDED_LANES>();
    let mut totals = [T::splat(simd, T::identity(op)); K];
    macro_rules! fold {
        ($vectors:expr, |$total:ident, $x:ident| $folded:expr) => {
            for ($total, $x) in totals.iter_mut().zip($vectors) {
                *$total = $folded;
            }
        };
    }
    macro_rules! fold_extremes {
        ($groups:expr, $extreme:ident) => {{
            // NaN, if there was one: comparisons with NaN fail, so the extremes do not have it.
            let mut nans = totals;
            for group in $groups {
                let vectors = load::<S, T, K>(simd, group, 0);
                for (nan, &x) in nans.iter_mut().zip(&vectors) {
                    *nan = T::nan_or(simd, x, *nan);
                }
                fold!(vectors, |total, x| T::$extreme(simd, *total, x));
            }
            fold!(nans, |total, nan| T::nan_or(simd, nan, *total));
        }};
    }
    match (op, lanes.last_chunk::<FOLDED_LANES>()) {
        (Reduce::Sum, _) => {
            for group in groups {
                fold!(load::<S, T, K>(simd, group, 0), |total, x| {
                    <T as Vector>::add(simd, *total, x)
                });
            }
            if !rest.is_empty() {
                // The lanes after the end are 0.
                fold!(load::<S, T, K>(simd, rest, 0), |total, x| {
                    <T as Vector>::add(simd, *total, x)
                });
            }
        }
        // If lanes remain, a last group contains these lanes and some of the group before, which
        // changes no extreme.
        (Reduce::Max, Some(last)) => {
            let last = (!rest.is_empty()).then_some(last);
            fold_extremes!(groups.iter().chain(last), at_least);
        }
        (Reduce::Min, Some(last)) => {
            let last = (!rest.is_empty()).then_some(last);
            fold_extremes!(groups.iter().chain(last), at_most);
        }
        _ => {
            let how = Fold::Together(lanes.len());
            return T::accumulate(op, how, accumulators, View::Lanes(lanes));
        }
    }
    let totals: &[T] = bytemuck::cast_slice(&totals);
    let pairs = accumulators.iter_mut().zip(totals);
    match op {
        Reduce::Sum => pairs.for_each(|(d, &total)| *d = d.plus(total)),
        Reduce::Max => pairs.for_each(|(d, &total)| *d = larger(total, *d)),
        _ => pairs.for_each(|(d, &total)| *d = smaller(total, *d)),
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
