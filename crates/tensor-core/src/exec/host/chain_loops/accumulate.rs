//! Folds of the lanes of a row.
//!
//! Role: folds the results of a chain on a row into one number.
//! Accuracy: lanes are folded in turn into a constant number of accumulators, and the accumulators
//! by halves, so the bits depend on no instruction set, except for the sign of an extreme 0 and the
//! bits of an extreme NaN.

use pulp::{Simd, WithSimd};

use crate::exec::host::loops::{FOLDED_LANES, Fold, View};
use crate::exec::host::vector::{FloatVector, Vector, load_vectors, vector_at, vector_lanes};
use crate::op::Reduce;

/// A fold of lanes into accumulators, as by [`LaneType::accumulate`] with [`Fold::Together`]. The
/// results have the same bits, except that the sign of an extreme 0 and the bits of an extreme NaN
/// may differ.
///
/// A row has few lanes, so the time for the lanes at its end counts. Loops in plain Rust fold these
/// lanes one by one, in memory; here they are loaded as vectors.
///
/// [`LaneType::accumulate`]: crate::exec::host::lanes::LaneType::accumulate
pub(super) struct Accumulate<'a, T> {
    pub(super) op: Reduce,
    pub(super) lanes: &'a [T],
    pub(super) accumulators: &'a mut [T; FOLDED_LANES],
}

impl<T: FloatVector> WithSimd for Accumulate<'_, T> {
    type Output = T;

    /// Folds the lanes into the accumulators, and returns the fold of all accumulators.
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
        let totals = match (op, lanes.last_chunk::<FOLDED_LANES>()) {
            (Reduce::Sum, _) => sums::<S, T, K>(simd, lanes),
            (Reduce::Max | Reduce::Min, Some(last)) => extremes::<S, T, K>(simd, op, lanes, last),
            _ => {
                let mut in_memory = [T::identity(op); FOLDED_LANES];
                let how = Fold::Together(lanes.len());
                T::accumulate(op, how, &mut in_memory, View::Lanes(lanes));
                load_vectors::<S, T, K>(simd, &in_memory, 0)
            }
        };
        let mut accumulators = load_vectors::<S, T, K>(simd, self.accumulators, 0);
        for (accumulator, total) in accumulators.iter_mut().zip(totals) {
            *accumulator = join::<S, T>(simd, op, *accumulator, total);
        }
        self.accumulators
            .copy_from_slice(bytemuck::cast_slice(&accumulators));
        total::<S, T, K>(simd, op, accumulators)
    }
}

/// Returns the sums of the lanes of each group, in turn. The last vector is padded with zeros.
#[inline(always)]
fn sums<S: Simd, T: FloatVector, const K: usize>(simd: S, lanes: &[T]) -> [T::Of<S>; K] {
    let width = T::n_lanes::<S>();
    let (groups, rest) = lanes.as_chunks::<FOLDED_LANES>();
    let mut totals = [T::splat(simd, T::identity(Reduce::Sum)); K];
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
    totals
}

/// Returns the extremes of the lanes of each group, in turn. If lanes remain after the last group,
/// another group, `last`, contains these lanes and some of the group before, which changes no
/// extreme.
#[inline(always)]
fn extremes<S: Simd, T: FloatVector, const K: usize>(
    simd: S,
    op: Reduce,
    lanes: &[T],
    last: &[T; FOLDED_LANES],
) -> [T::Of<S>; K] {
    let (groups, rest) = lanes.as_chunks::<FOLDED_LANES>();
    let last = (!rest.is_empty()).then_some(last);
    let mut totals = [T::splat(simd, T::identity(op)); K];
    // NaN, if a lane was NaN: the extremes of NaN and numbers are not specified.
    let mut nans = totals;
    // The operation is selected before the loop.
    macro_rules! fold {
        ($extreme:ident) => {
            for group in groups.iter().chain(last) {
                for number in 0..K {
                    let x = vector_at::<S, T>(group, number);
                    nans[number] = T::nan_or(simd, x, nans[number]);
                    totals[number] = T::$extreme(simd, totals[number], x);
                }
            }
        };
    }
    match op {
        Reduce::Max => fold!(max_of_numbers),
        _ => fold!(min_of_numbers),
    }
    for (total, nan) in totals.iter_mut().zip(nans) {
        *total = T::nan_or(simd, nan, *total);
    }
    totals
}

/// Folds all lanes of accumulators into one number, by halves, as [`lanes::total`] does.
///
/// [`lanes::total`]: crate::exec::host::lanes::total
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
    vector_lanes::<S, T>(&first)[0]
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
