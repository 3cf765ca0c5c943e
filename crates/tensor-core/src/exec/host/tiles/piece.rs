//! The loops over the tiles of one piece of the output.
//!
//! Method: the loops over blocks of terms are the outermost, so that the lanes of a block stay in a
//! cache while all rows meet them. Rows and lanes that fill no tile of the largest shape are tiles
//! of smaller shapes.

use pulp::{Simd, WithSimd};

use super::fold::Fold;
use super::kernel::{MAX_LANES, MAX_ROWS, Sums, Terms, Tile};
use super::vector::Vector;

/// A piece of the output: some rows and lanes of some batches.
pub(super) struct Piece<'a, T> {
    pub(super) fold: &'a Fold,
    pub(super) rows_in: &'a [T],
    pub(super) lanes_in: &'a [T],
    /// For each batch: the distances in the operand of the rows, in that of the lanes, and in the
    /// output.
    pub(super) batches: Vec<[isize; 3]>,
    /// For each row: the position in its operand, and the distance in the output.
    pub(super) rows: Vec<[isize; 2]>,
    /// For each run of neighbouring lanes: the position in their operand, and the distance in the
    /// output.
    pub(super) runs: Vec<[isize; 2]>,
    /// The distance of each lane of a run in the output.
    pub(super) lanes: Vec<isize>,
    pub(super) out: &'a mut [T],
}

/// Some lanes of a run.
struct Lanes {
    /// The position of the first lane.
    start: isize,
    /// The distance in the output of the batch and the run.
    base: isize,
    /// The numbers of the lanes in the run.
    first: usize,
    n: usize,
}

impl<T: Vector> WithSimd for Piece<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let mut sums = [T::ZERO; MAX_ROWS * MAX_LANES];
        let (fold, batches, runs) = (
            self.fold,
            std::mem::take(&mut self.batches),
            std::mem::take(&mut self.runs),
        );
        let width = T::n_lanes::<S>();
        for (number, block) in fold.blocks.iter().enumerate() {
            let mut step = Step {
                simd,
                terms: Terms::new(&fold.table[..block.len]),
                adds: number > 0,
                row_shift: 0,
                piece: &mut self,
                sums: &mut sums,
            };
            for &[in_rows, in_lanes, in_out] in &batches {
                step.row_shift = block.start[0].wrapping_add(in_rows);
                for &[start, base] in &runs {
                    let start = start.wrapping_add(block.start[1]).wrapping_add(in_lanes);
                    let n_lanes = step.piece.lanes.len();
                    let mut first = 0;
                    while first < n_lanes {
                        let lanes = |n: usize| Lanes {
                            start: start.wrapping_add(first.cast_signed()),
                            base: base.wrapping_add(in_out),
                            first,
                            n,
                        };
                        let rest = n_lanes - first;
                        let n = rest.min(2 * width);
                        step.all_rows(&lanes(n));
                        first += n;
                    }
                }
            }
        }
    }
}

/// The tiles of one block of terms.
struct Step<'s, 'a, T, S> {
    simd: S,
    terms: Terms<'a>,
    /// Whether the sums are added to those of earlier blocks.
    adds: bool,
    /// The distance of the block and the batch in the operand of the rows.
    row_shift: isize,
    piece: &'s mut Piece<'a, T>,
    sums: &'s mut Sums<T>,
}

/// Computes all rows in tiles of the given numbers of rows, the largest first.
macro_rules! tiles {
    ($step:ident, $lanes:ident, $vectors:literal, $partial:literal, [$($n_rows:literal)*]) => {{
        let mut row = 0;
        $(
            while $step.piece.rows.len() - row >= $n_rows {
                $step.tile::<$n_rows, $vectors, $partial>(row, $lanes);
                row += $n_rows;
            }
        )*
    }};
}

impl<T: Vector, S: Simd> Step<'_, '_, T, S> {
    /// Computes all rows of some lanes, which fill at most two vectors. The lanes after the last
    /// one are loaded as well if they exist, because whole vectors load faster; their sums are left
    /// out.
    #[inline(always)]
    fn all_rows(&mut self, lanes: &Lanes) {
        let width = T::n_lanes::<S>();
        let n_loaded = lanes.n.next_multiple_of(width);
        let are_whole = self
            .terms
            .lanes_fit(lanes.start, n_loaded, self.piece.lanes_in.len());
        match (n_loaded > width, are_whole) {
            (true, true) => tiles!(self, lanes, 2, false, [6 4 2 1]),
            (true, false) => tiles!(self, lanes, 2, true, [6 4 2 1]),
            (false, true) => tiles!(self, lanes, 1, false, [8 4 2 1]),
            (false, false) => tiles!(self, lanes, 1, true, [8 4 2 1]),
        }
    }

    /// Computes the sums of some rows, beginning with the row of number `row`, and writes them to
    /// the output.
    #[inline(always)]
    fn tile<const R: usize, const V: usize, const PARTIAL: bool>(
        &mut self,
        row: usize,
        lanes: &Lanes,
    ) {
        let piece = &mut *self.piece;
        let Some(rows) = piece.rows[row..].first_chunk::<R>() else {
            return;
        };
        let tile: Tile<'_, T, S, R, V, PARTIAL> = Tile {
            simd: self.simd,
            terms: self.terms,
            rows: piece.rows_in,
            lanes: piece.lanes_in,
            row_starts: rows.map(|[start, _]| start.wrapping_add(self.row_shift)),
            lane_start: lanes.start,
            n_lanes: lanes.n,
            sums: self.sums,
        };
        self.simd.vectorize(tile);
        let width = V * T::n_lanes::<S>();
        let places = &piece.lanes[lanes.first..lanes.first + lanes.n];
        let (first, last) = (places[0], places[lanes.n - 1]);
        let are_neighbours = last - first == (lanes.n - 1).cast_signed();
        let base = lanes.base.wrapping_add(first);
        for (&[_, row], sums) in rows.iter().zip(self.sums.chunks(width)) {
            let start = base.wrapping_add(row).cast_unsigned();
            let sums = &sums[..lanes.n];
            if are_neighbours {
                let out = &mut piece.out[start..start + lanes.n];
                if self.adds {
                    out.iter_mut()
                        .zip(sums)
                        .for_each(|(out, &sum)| *out = *out + sum);
                } else {
                    out.copy_from_slice(sums);
                }
            } else {
                for (&sum, &place) in sums.iter().zip(places) {
                    let out = &mut piece.out[start.wrapping_add_signed(place - first)];
                    *out = if self.adds { *out + sum } else { sum };
                }
            }
        }
    }
}
