//! The loops over chains, on vectors in CPU registers.
//!
//! Role: computes a chain on rows of lanes, for `rows` and for the interpreter.
//! Method: an interpreter of vectors. A few vectors are loaded, all operations of the chain are
//! applied to them, and the results are stored; then the next vectors follow. Between the
//! operations the values stay in CPU registers, except that some functions, and folds, read them
//! from a buffer. A branch selects each operation for a few hundred bytes of lanes. The branches
//! are the same each time, so the CPU predicts them, and loads vectors while it computes others.
//! Accuracy: each operation rounds its result, as it would in a separate loop. Results are folded
//! in groups of a constant number of lanes, so the bits depend on no instruction set.

use pulp::{Simd, WithSimd};

use super::chain::{Link, MAX_LINKS, Operand};
use super::functions;
use super::lanes::{larger, smaller, total};
use super::level::Level;
use super::loops::{FOLDED_LANES, Fold, View};
use super::vector::{FloatVector, Vector};
use crate::math::Chunks;
use crate::op::{Binary, Reduce, Unary};

/// The number of results that are folded at a time, a multiple of the lanes of all vectors.
pub(super) const GROUP: usize = 1024;

/// The destination of the results of a chain.
pub(super) enum Results<'a, T> {
    /// All results, row by row.
    Lanes(&'a mut [T]),
    /// The fold of the results of each row.
    Totals(Reduce, &'a mut [T]),
}

/// A chain on rows of lanes.
pub(super) struct Rows<'a, T> {
    pub(super) level: Level,
    pub(super) first: Operand<'a, T>,
    pub(super) links: &'a [Link<Operand<'a, T>>],
    pub(super) n_rows: usize,
    /// The number of lanes of a row.
    pub(super) len: usize,
    /// Memory for the lanes of a row, at most [`GROUP`] (see
    /// [`needs_scratch`](super::chain::needs_scratch)).
    pub(super) scratch: [&'a mut [T]; 2],
    pub(super) results: Results<'a, T>,
}

impl<T: FloatVector + Chunks> WithSimd for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // The vectors of the value and of an operand stay in the registers of the CPU, and a row
        // fills these vectors.
        if S::REGISTER_COUNT < 32 || self.len < 8 * T::n_lanes::<S>() {
            self.run::<S, 4>(simd);
        } else {
            self.run::<S, 8>(simd);
        }
    }
}

impl<T: FloatVector + Chunks> Rows<'_, T> {
    /// Computes all rows, in chunks of `N` vectors.
    #[inline(always)]
    fn run<S: Simd, const N: usize>(mut self, simd: S) {
        let mut links = [Link::Unary(Unary::Abs); MAX_LINKS];
        let links = &mut links[..self.links.len()];
        let len = self.len;
        for number in 0..self.n_rows {
            let mut accumulators = match self.results {
                Results::Totals(op, _) => [T::identity(op); FOLDED_LANES],
                _ => [T::ZERO; FOLDED_LANES],
            };
            for start in (0..len).step_by(GROUP) {
                let lanes = start..len.min(start + GROUP);
                let n = lanes.len();
                for (link, of_rows) in links.iter_mut().zip(self.links) {
                    *link = of_rows.map(
                        #[inline(always)]
                        |operand| operand.view(number, lanes.clone()),
                    );
                }
                let first = self.first.view(number, lanes.clone());
                let out = match &mut self.results {
                    Results::Lanes(out) => Some(&mut out[number * len..][lanes.clone()]),
                    _ => None,
                };
                let group = Group {
                    level: self.level,
                    first,
                    links,
                    n,
                };
                let scratch = self.scratch.each_mut().map(|scratch| &mut **scratch);
                let results = group.compute::<S, N>(simd, scratch, out);
                if let Results::Totals(op, _) = self.results {
                    accumulate::<S, T>(simd, op, results, &mut accumulators);
                }
            }
            if let Results::Totals(op, totals) = &mut self.results {
                totals[number] = total(*op, &accumulators);
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
    let (n_whole, n_rest) = (lanes.len() / FOLDED_LANES, lanes.len() % FOLDED_LANES);
    let group = |at: usize| load::<S, T, K>(simd, View::Lanes(lanes), at);
    let mut totals = [T::splat(simd, T::identity(op)); K];
    macro_rules! fold {
        ($group:expr, |$total:ident, $x:ident| $folded:expr) => {
            for ($total, $x) in totals.iter_mut().zip($group) {
                *$total = $folded;
            }
        };
    }
    match op {
        Reduce::Sum => {
            for number in 0..n_whole {
                fold!(group(number * FOLDED_LANES), |total, x| {
                    <T as Vector>::add(simd, *total, x)
                });
            }
            if n_rest > 0 {
                // The lanes after the end are 0.
                let rest = View::Lanes(&lanes[n_whole * FOLDED_LANES..]);
                fold!(load::<S, T, K>(simd, rest, 0), |total, x| {
                    <T as Vector>::add(simd, *total, x)
                });
            }
        }
        Reduce::Max | Reduce::Min if n_whole > 0 => {
            // NaN, if there was one: comparisons with NaN fail, so the extremes do not have it.
            let mut nans = totals;
            for number in 0..lanes.len().div_ceil(FOLDED_LANES) {
                // The last group contains some lanes of the group before, which changes no extreme.
                let at = (number * FOLDED_LANES).min(lanes.len() - FOLDED_LANES);
                let group = group(at);
                for (nan, &x) in nans.iter_mut().zip(&group) {
                    *nan = T::nan_or(simd, x, *nan);
                }
                match op {
                    Reduce::Max => fold!(group, |total, x| T::at_least(simd, *total, x)),
                    _ => fold!(group, |total, x| T::at_most(simd, *total, x)),
                }
            }
            fold!(nans, |total, nan| T::nan_or(simd, nan, *total));
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

/// Returns `N` vectors of an operand.
#[inline(always)]
fn load<S: Simd, T: FloatVector, const N: usize>(
    simd: S,
    operand: View<'_, T>,
    at: usize,
) -> [T::Of<S>; N] {
    let width = T::n_lanes::<S>();
    let lanes = match operand {
        View::Uniform(x) => return [T::splat(simd, x); N],
        View::Lanes(lanes) => lanes,
    };
    // These are plain loops because the compiler does not always inline calls of `array::from_fn`.
    let mut vectors = [T::splat(simd, T::identity(Reduce::Sum)); N];
    if lanes.len() >= N * width {
        let lanes = &lanes[at..][..N * width];
        for (number, vector) in vectors.iter_mut().enumerate() {
            let lanes = &lanes[number * width..][..width];
            *vector = bytemuck::pod_read_unaligned(bytemuck::cast_slice(lanes));
        }
    } else {
        // Fewer lanes than the vectors have: the others are 0.
        for (number, vector) in vectors.iter_mut().enumerate() {
            let start = lanes.len().min(number * width);
            let end = lanes.len().min(start + width);
            *vector = <T as Vector>::load(simd, &lanes[start..end]);
        }
    }
    vectors
}

/// Applies all operations to `N` vectors of lanes.
#[inline(always)]
fn chunk<S: Simd, T: FloatVector + Chunks, const N: usize>(
    simd: S,
    value: View<'_, T>,
    links: &[Link<View<'_, T>>],
    at: usize,
) -> [T::Of<S>; N] {
    let mut x = load::<S, T, N>(simd, value, at);
    macro_rules! each {
        (|$x:ident| $result:expr) => {
            for $x in &mut x {
                *$x = $result;
            }
        };
        (|$x:ident, $y:ident| $result:expr, $operand:expr) => {
            for ($x, $y) in x.iter_mut().zip($operand) {
                *$x = $result;
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
                let y = load::<S, T, N>(simd, operand, at);
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
                let y = load::<S, T, N>(simd, operand, at);
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
