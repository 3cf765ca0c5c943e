//! The innermost loop: the reductions of some rows with some vectors of lanes.
//!
//! Method: the accumulators of `R` rows and `V` vectors stay in CPU registers. At each term of a
//! sum, the kernel loads `V` vectors of lanes, and combines each with one element of each row. A
//! product of floats, as an example:
//! ```text
//!              V vectors of lanes y
//! row 0: x  |  a00 a01        for each term, in order:
//! row 1: x  |  a10 a11          y = lanes at the term, x = elements of the rows at the term
//! ...       |                   a[row][vector] = x[row] * y[vector] + a[row][vector]
//! ```
//! Positions are sums of a start and a distance from a table, so windows, steps and transpositions
//! are read in place.
//!
//! Safety: the loop reads through pointers. With indexed slices it takes 1.4 times as long (68
//! instead of 96 GFLOP/s on one core with AVX2): a check for each element of a row costs as much as
//! the product, and a start in a register for each row has to be added to the distance first.
//! [`Tile`] checks the lowest and the highest position of each row and of the lanes before the
//! loop.

#![allow(
    unsafe_code,
    reason = "a check for each element takes a third of the time of the loop"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators would be compiled for each kernel, as `Tile` explains"
)]

use pulp::{Simd, WithSimd};

use super::super::lanes::LaneType;
use super::super::vector::Vector;
use super::reducer::Reducer;
use super::terms::Terms;
use crate::op::Reduce;

/// The largest number of rows of a tile.
pub(super) const MAX_ROWS: usize = 8;
/// The largest number of lanes of a tile: four vectors of 16.
pub(super) const MAX_LANES: usize = 64;

/// The sums of a tile: row `r` begins at `r * n_lanes`.
pub(super) type Sums<T> = [T; MAX_ROWS * MAX_LANES];

/// A tile of `R` rows and `V` vectors of lanes.
///
/// The loops are compiled for each reducer, each instruction set and each shape, which makes them
/// the largest part of this crate's code. They are therefore written with indices: each adapter of
/// an iterator would be compiled as often.
pub(super) struct Tile<'a, F: Reducer, S, const R: usize, const V: usize> {
    pub(super) simd: S,
    pub(super) reducer: F,
    pub(super) terms: &'a Terms<'a>,
    pub(super) rows: &'a [F::In],
    pub(super) lanes: &'a [F::In],
    /// The position of each row's first element.
    pub(super) row_starts: [isize; R],
    /// The position of the first lane.
    pub(super) lane_start: isize,
    /// Whether the terms are added to the accumulators in `sums`.
    pub(super) continues: bool,
    pub(super) sums: &'a mut Sums<F::Lane>,
}

/// The accumulators of a tile.
type Accumulators<F, S, const R: usize, const V: usize> =
    [[<<F as Reducer>::Lane as Vector>::Of<S>; V]; R];

impl<F: Reducer, S: Simd, const R: usize, const V: usize> WithSimd for Tile<'_, F, S, R, V> {
    type Output = ();

    /// Computes the accumulators. `sums` gets `V` whole vectors for each row.
    ///
    /// # Panics
    /// If a position is outside of an operand. The loop nest was checked, so this cannot happen.
    #[inline(always)]
    fn with_simd<S2: Simd>(self, _: S2) {
        let width = F::In::n_lanes::<S>();
        assert!(
            self.terms.rows_fit(&self.row_starts, self.rows.len())
                && self
                    .terms
                    .lanes_fit(self.lane_start, V * width, self.lanes.len()),
            "the positions of a checked nest are inside its inputs"
        );
        let mut sums = [[F::Lane::splat(self.simd, self.reducer.start()); V]; R];
        if self.continues {
            for row in 0..R {
                for vector in 0..V {
                    let start = (row * V + vector) * width;
                    let sum = bytemuck::cast_slice(&self.sums[start..start + width]);
                    sums[row][vector] =
                        bytemuck::pod_read_unaligned::<<F::Lane as Vector>::Of<S>>(sum);
                }
            }
        }
        self.add_chunks(&mut sums);
        // The length of a vector is a constant, so that no copy is a call.
        for row in 0..R {
            for vector in 0..V {
                let start = (row * V + vector) * width;
                let out = &mut self.sums[start..start + width];
                let sums = bytemuck::bytes_of(&sums[row][vector]);
                bytemuck::cast_slice_mut::<_, u8>(out).copy_from_slice(sums);
            }
        }
    }
}

impl<F: Reducer, S: Simd, const R: usize, const V: usize> Tile<'_, F, S, R, V> {
    /// Adds the terms to accumulators, chunk by chunk.
    #[inline(always)]
    fn add_chunks(&self, sums: &mut Accumulators<F, S, R, V>) {
        let distances = self.terms.distances();
        if F::CHUNK == usize::MAX {
            return self.add_terms(distances, sums);
        }
        for distances in distances.chunks(F::CHUNK) {
            let mut chunk = [[F::Lane::splat(self.simd, self.reducer.start()); V]; R];
            self.add_terms(distances, &mut chunk);
            for row in 0..R {
                for vector in 0..V {
                    let (sum, chunk) = (sums[row][vector], chunk[row][vector]);
                    sums[row][vector] = self.reducer.join(self.simd, sum, chunk);
                }
            }
            if self.reducer.are_decided(self.simd, sums.as_flattened()) {
                break;
            }
        }
    }

    /// Adds some of the terms to accumulators. The positions of all terms were checked.
    #[inline(always)]
    fn add_terms(&self, distances: &[[isize; 2]], sums: &mut Accumulators<F, S, R, V>) {
        let simd = self.simd;
        let width = F::In::n_lanes::<S>();
        let mut rows = [self.rows.as_ptr(); R];
        for row in 0..R {
            rows[row] = rows[row].wrapping_offset(self.row_starts[row]);
        }
        let lanes = self.lanes.as_ptr().wrapping_offset(self.lane_start);
        let mut kept = *sums;
        for &[row_distance, lane_distance] in distances {
            let from = lanes.wrapping_offset(lane_distance);
            let mut y = [F::In::splat(simd, F::In::identity(Reduce::Sum)); V];
            for vector in 0..V {
                let from = from
                    .wrapping_add(vector * width)
                    .cast::<<F::In as Vector>::Of<S>>();
                // SAFETY: the start of the lanes plus the distance is between the lowest and the
                // highest position, and the whole vectors from there are inside `lanes`, as
                // `with_simd` checked. A vector is plain data, so any bytes are valid.
                y[vector] = unsafe { from.read_unaligned() };
            }
            for row in 0..R {
                // SAFETY: the row's start plus the distance is between the lowest and the highest
                // position, which are inside `rows`, as `with_simd` checked.
                let x = unsafe { rows[row].wrapping_offset(row_distance).read() };
                let x = F::In::splat(simd, x);
                for vector in 0..V {
                    let sum = kept[row][vector];
                    kept[row][vector] = self.reducer.add(simd, x, y[vector], sum);
                }
            }
        }
        *sums = kept;
    }
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;
    use std::panic::catch_unwind;

    use pulp::Scalar;

    use super::super::reducer::MultiplyAdd;
    use super::*;

    /// Returns the sums of products of two rows with two lanes. The second term is before the first
    /// in the rows.
    fn products(row_starts: [isize; 2], lane_start: isize) -> [f32; 4] {
        let mut sums = [f32::NAN; MAX_ROWS * MAX_LANES];
        let tile = Tile::<'_, _, Scalar, 2, 2> {
            simd: Scalar::new(),
            reducer: MultiplyAdd::<f32>(PhantomData),
            terms: &Terms::new(&[[0, 0], [-1, 2]]),
            rows: &[1.0, 2.0, 3.0],
            lanes: &[10.0, 20.0, 30.0, 40.0],
            row_starts,
            lane_start,
            continues: false,
            sums: &mut sums,
        };
        tile.with_simd(Scalar::new());
        [sums[0], sums[1], sums[2], sums[3]]
    }

    // Miri runs these tests.
    #[test]
    fn the_first_and_the_last_elements_are_read() {
        // 2 * [10, 20] + 1 * [30, 40] and 3 * [10, 20] + 2 * [30, 40].
        assert_eq!(products([1, 2], 0), [50.0, 80.0, 90.0, 140.0]);
    }

    #[test]
    fn positions_outside_of_an_operand_panic() {
        for (row_starts, lane_start) in [([0, 1], 0), ([1, 3], 0), ([1, 2], 1), ([1, 2], -1)] {
            let found = catch_unwind(|| products(row_starts, lane_start));
            assert!(found.is_err(), "{row_starts:?}, {lane_start}: {found:?}");
        }
    }
}
