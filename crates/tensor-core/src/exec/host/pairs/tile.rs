//! The loops of one tile: some rows combined with 64 lanes, over all points of the reduced axes.
//!
//! Method: the accumulators are arrays of constant length, so the compiler keeps them in CPU
//! registers and unrolls the loops over lanes. Ones are counted word by word or byte by byte.

use crate::op::{Compare, Reduce};

use super::super::lanes::{LaneType, larger, smaller};
use super::{BitFunction, LANES, PairFunction};

/// Rows and 64 lanes to combine.
///
/// ```text
/// for each point of the reduced axes but the last:   `outer`, distances in both inputs
///   for unit in 0..n:                                the last reduced axis
///     x[row]  = rows[row_starts[row] + point[0] + unit * row_stride]
///     y[lane] = lanes[lane_start + point[1] + unit * lane_stride + lane]
/// ```
pub(super) struct PairTile<'a, T, const ROWS: usize> {
    pub(super) rows: &'a [T],
    pub(super) row_starts: [usize; ROWS],
    pub(super) row_stride: usize,
    pub(super) lanes: &'a [T],
    pub(super) lane_start: usize,
    pub(super) lane_stride: usize,
    pub(super) outer: &'a [[isize; 2]],
    pub(super) n: usize,
}

impl<T: LaneType, const ROWS: usize> PairTile<'_, T, ROWS> {
    /// Calls `f` with the elements of the rows and of the lanes at each point of the reduced axes,
    /// until `f` returns `false`.
    ///
    /// Positions wrap, so a negative stride is added as its two's complement. A position outside of
    /// an input ends the walk; the planner keeps positions inside.
    #[inline(always)]
    fn walk(&self, mut f: impl FnMut([T; ROWS], &[T; LANES]) -> bool) {
        for &[row_point, lane_point] in self.outer {
            let lane_start = self.lane_start.wrapping_add(lane_point.cast_unsigned());
            let row_starts = self
                .row_starts
                .map(|start| start.wrapping_add(row_point.cast_unsigned()));
            for unit in 0..self.n {
                let from = lane_start.wrapping_add(unit.wrapping_mul(self.lane_stride));
                let along = unit.wrapping_mul(self.row_stride);
                let y = self
                    .lanes
                    .get(from..)
                    .and_then(|lanes| lanes.first_chunk::<LANES>());
                let Some(y) = y else {
                    return;
                };
                let mut x = [T::zeroed(); ROWS];
                for (x, start) in x.iter_mut().zip(row_starts) {
                    let Some(&element) = self.rows.get(start.wrapping_add(along)) else {
                        return;
                    };
                    *x = element;
                }
                if !f(x, y) {
                    return;
                }
            }
        }
    }

    /// Folds all pairs: `fold(accumulator, function(x, y))`. Stops when `decided` returns `true`
    /// for the accumulators of every row, because then no further element can change the result.
    #[inline(always)]
    fn run<A: Copy>(
        &self,
        start: A,
        function: impl Fn(T, T) -> T,
        fold: impl Fn(A, T) -> A,
        decided: impl Fn(&[A; LANES]) -> bool,
    ) -> [[A; LANES]; ROWS] {
        /// The number of steps between two checks for an early stop.
        const ASK_EVERY: usize = 4;
        let mut sums = [[start; LANES]; ROWS];
        let mut step = 0;
        self.walk(
            #[inline(always)]
            |x, y| {
                for (sums, x) in sums.iter_mut().zip(x) {
                    // LANES is a constant, so the compiler unrolls this loop and keeps the
                    // accumulators in registers.
                    for (sum, &y) in sums.iter_mut().zip(y) {
                        *sum = fold(*sum, function(x, y));
                    }
                }
                step += 1;
                step % ASK_EVERY != 0 || !sums.iter().all(&decided)
            },
        );
        sums
    }

    /// Runs the loop for a function.
    #[inline(always)]
    fn apply<A: Copy>(
        &self,
        function: PairFunction,
        start: A,
        fold: impl Fn(A, T) -> A,
        decided: impl Fn(&[A; LANES]) -> bool,
    ) -> [[A; LANES]; ROWS] {
        match function {
            PairFunction::Product => self.run(start, T::times, fold, decided),
            PairFunction::Sum => self.run(start, T::plus, fold, decided),
            PairFunction::AbsDifference => self.run(start, T::distance, fold, decided),
            PairFunction::Dot4I8 => unreachable!("products of bytes are only added"),
        }
    }

    /// Folds the values of a function.
    #[inline(always)]
    pub(super) fn numbers(&self, function: PairFunction, op: Reduce) -> [[T; LANES]; ROWS] {
        match op {
            _ if function == PairFunction::Dot4I8 => {
                self.run(T::identity(Reduce::Sum), T::dot4_i8, T::plus, |_| false)
            }
            Reduce::Max => self.apply(function, T::identity(op), |a, x| larger(x, a), |_| false),
            Reduce::Min => self.apply(function, T::identity(op), |a, x| smaller(x, a), |_| false),
            _ => self.apply(function, T::identity(Reduce::Sum), T::plus, |_| false),
        }
    }

    /// Folds comparisons of a function's values with a bound.
    #[inline(always)]
    pub(super) fn compared(
        &self,
        function: PairFunction,
        op: Reduce,
        compare: Compare,
        bound: T,
    ) -> [[u32; LANES]; ROWS] {
        match compare {
            Compare::Lt => self.hits(function, op, |x| x < bound),
            _ => self.hits(function, op, |x| x <= bound),
        }
    }

    /// Counts the values for which `hits` returns `true`, or combines the returned flags with `All`
    /// or `Any`. The accumulators are `u32`, as wide as the compared `f32` values, so that both
    /// fill the same number of vectors.
    #[inline(always)]
    fn hits(
        &self,
        function: PairFunction,
        op: Reduce,
        hits: impl Fn(T) -> bool,
    ) -> [[u32; LANES]; ROWS] {
        match op {
            Reduce::All => self.apply(
                function,
                1,
                |a, x| a & u32::from(hits(x)),
                |flags| !flags.contains(&1),
            ),
            Reduce::Any => self.apply(
                function,
                0,
                |a, x| a | u32::from(hits(x)),
                |flags| !flags.contains(&0),
            ),
            _ => self.apply(function, 0, |a, x| a + u32::from(hits(x)), |_| false),
        }
    }
}

impl<const ROWS: usize> PairTile<'_, u32, ROWS> {
    /// Counts the ones in the bits of `x & y` or `x ^ y`, in words if `by_words` is set.
    #[inline(always)]
    pub(super) fn ones(&self, function: BitFunction, by_words: bool) -> [[u32; LANES]; ROWS] {
        match (function, by_words) {
            (BitFunction::And, true) => self.count_words(|x, y| x & y),
            (BitFunction::Xor, true) => self.count_words(|x, y| x ^ y),
            (BitFunction::And, false) => self.count_bytes(|x, y| x & y),
            (BitFunction::Xor, false) => self.count_bytes(|x, y| x ^ y),
        }
    }

    /// Counts the ones word by word, for CPUs that have an instruction for that.
    #[inline(always)]
    fn count_words(&self, function: impl Fn(u32, u32) -> u32) -> [[u32; LANES]; ROWS] {
        let mut sums = [[0_u32; LANES]; ROWS];
        self.walk(
            #[inline(always)]
            |x, y| {
                for (sums, x) in sums.iter_mut().zip(x) {
                    for (sum, &y) in sums.iter_mut().zip(y) {
                        *sum = sum.wrapping_add(function(x, y).count_ones());
                    }
                }
                true
            },
        );
        sums
    }

    /// Counts the ones byte by byte, in counters of one byte, which are added to the sums before
    /// they overflow. AVX2 counts the ones of a byte with two table lookups. Counters of words
    /// would also need the sum of four bytes at every step, and are about a quarter slower
    /// (measured with AVX2).
    #[inline(always)]
    fn count_bytes(&self, function: impl Fn(u32, u32) -> u32) -> [[u32; LANES]; ROWS] {
        /// The maximum number of steps for which a counter of one byte holds up to 8 ones each.
        const STEPS: u32 = 255 / u8::BITS;
        let mut sums = [[0; LANES]; ROWS];
        let mut counters = [[0_u8; BYTES]; ROWS];
        let mut step = 0;
        self.walk(
            #[inline(always)]
            |x, y| {
                for (counters, x) in counters.iter_mut().zip(x) {
                    let bits: [u8; BYTES] = bytemuck::cast(y.map(|y| function(x, y)));
                    for (counter, bits) in counters.iter_mut().zip(bits) {
                        *counter += u8_ones(bits);
                    }
                }
                step += 1;
                if step == STEPS {
                    add_bytes(&mut sums, &mut counters);
                    step = 0;
                }
                true
            },
        );
        add_bytes(&mut sums, &mut counters);
        sums
    }
}

/// The number of bytes of 64 lanes.
const BYTES: usize = 4 * LANES;

/// Adds the four counters of each lane to the lane's sum, and clears the counters.
#[inline(always)]
fn add_bytes<const ROWS: usize>(
    sums: &mut [[u32; LANES]; ROWS],
    counters: &mut [[u8; BYTES]; ROWS],
) {
    for (sums, counters) in sums.iter_mut().zip(&mut *counters) {
        for (sum, bytes) in sums.iter_mut().zip(counters.as_chunks::<4>().0) {
            *sum = sum.wrapping_add(bytes.iter().copied().map(u32::from).sum());
        }
    }
    *counters = [[0; BYTES]; ROWS];
}

/// Returns the number of ones in a byte.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a byte has at most 8 ones")]
fn u8_ones(byte: u8) -> u8 {
    byte.count_ones() as u8
}
