//! The loops over the tiles of one piece of the output.
//!
//! Method: the loops over blocks of terms are the outermost, so that the lanes of a block stay in a
//! cache while all rows meet them. Lanes that would evict each other from the cache are copied to
//! neighbouring lines first. Sums of products have tiles of several shapes for the rows and lanes
//! that fill no tile of the largest shape. All other reductions have tiles of four rows, and the
//! last tile overlaps the tile before.

use pulp::{Simd, WithSimd};

use super::super::lanes::LaneType;
use super::super::vector::Vector;
use super::fold::Fold;
use super::kernel::{MAX_LANES, MAX_ROWS, Sums, Tile};
use super::padding::Patterns;
use super::reducer::Reducer;
use super::terms::Terms;

/// The number of rows from which packing the lanes pays.
const PACKED_ROWS: usize = 8;

/// A piece of the output: some rows and lanes of some batches.
pub(super) struct Piece<'a, F: Reducer> {
    pub(super) reducer: F,
    pub(super) fold: &'a Fold,
    /// Whether the lanes of a block are packed, if there are enough rows.
    pub(super) packs: bool,
    pub(super) rows_in: &'a [F::In],
    pub(super) lanes_in: &'a [F::In],
    /// For each batch: the distances in the operand of the rows, in that of the lanes, and in the
    /// output.
    pub(super) batches: Vec<[isize; 3]>,
    /// For each row: the position in its operand, and the distance in the output.
    pub(super) rows: Vec<[isize; 2]>,
    /// The patterns of the rows, if padding is left out of the sums.
    pub(super) patterns: Option<Patterns<'a>>,
    /// For each run of neighbouring lanes: the position in their operand, and the distance in the
    /// output.
    pub(super) runs: Vec<[isize; 2]>,
    /// The distance of each lane of a run in the output.
    pub(super) lanes: Vec<isize>,
    pub(super) out: &'a mut [F::Out],
    /// The elements of the output that are computed: those of each `row_len` elements from
    /// `first_lane` on.
    pub(super) row_len: usize,
    pub(super) first_lane: usize,
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

impl<F: Reducer> WithSimd for Piece<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let mut sums = [self.reducer.start(); MAX_ROWS * MAX_LANES];
        let fold = self.fold;
        let (batches, runs, rows, patterns) = (
            std::mem::take(&mut self.batches),
            std::mem::take(&mut self.runs),
            std::mem::take(&mut self.rows),
            self.patterns.take(),
        );
        let width = F::In::n_lanes::<S>();
        let packs = self.packs && rows.len() >= PACKED_ROWS;
        let mut packed = Packed::<F::In>::default();
        if packs {
            packed = Packed::new(&fold.table, Self::max_vectors::<S>() * width);
        }
        if patterns.is_some() {
            // The first block may have no terms for some rows.
            let nothing = self.reducer.result(self.reducer.start());
            self.out.fill(nothing);
        }
        let mut grouped: Vec<[isize; 2]> = Vec::new();
        for (number, block) in fold.blocks.iter().enumerate() {
            // A test of early results costs little, because it ends at the first that is not final.
            let out_rows = self.out.chunks(self.row_len.max(1));
            let mut results = out_rows.flat_map(|row| &row[self.first_lane..]);
            if number > 0 && results.all(|&result| self.reducer.is_final(result)) {
                break;
            }
            let terms = Terms::new(&fold.table[..block.len]);
            let packed_terms = packs.then(|| Terms::new(&packed.table[..block.len]));
            let all = patterns.as_ref().map_or_else(
                || vec![(0..block.len, 0..rows.len())],
                |patterns| patterns.terms_of_rows(fold, number),
            );
            // The rows with the same terms.
            for group in all.chunk_by(|(a, _), (b, _)| a == b) {
                let part = group[0].0.clone();
                let rows = match group {
                    [(_, range)] => &rows[range.clone()],
                    _ => {
                        grouped.clear();
                        let ranges = group.iter().map(|(_, range)| range.clone());
                        ranges.for_each(|range| grouped.extend_from_slice(&rows[range]));
                        &grouped
                    }
                };
                let packed_part = packed_terms.filter(|_| rows.len() >= PACKED_ROWS);
                let packed_part = packed_part.map(|terms| terms.part(part.clone()));
                let mut step = Step {
                    simd,
                    rows,
                    terms: &terms.part(part),
                    packed_terms: packed_part.as_ref(),
                    packed: &mut packed.lanes,
                    combines: number > 0,
                    row_shift: 0,
                    piece: &mut self,
                    sums: &mut sums,
                };
                for &[in_rows, in_lanes, in_out] in &batches {
                    step.row_shift = block.start[0].wrapping_add(in_rows);
                    for &[start, base] in &runs {
                        let start = start.wrapping_add(block.start[1]).wrapping_add(in_lanes);
                        step.all_lanes(start, base.wrapping_add(in_out));
                    }
                }
            }
        }
    }
}

impl<F: Reducer> Piece<'_, F> {
    /// Writes the sums of a tile to the output, `width` sums for each row, except those of the
    /// first `n_skipped` rows. If `combines` is set, they are combined with the results of earlier
    /// blocks. Compiled once for all shapes of tiles.
    fn write(
        &mut self,
        rows: &[[isize; 2]],
        lanes: &Lanes,
        sums: &[F::Lane],
        width: usize,
        n_skipped: usize,
        combines: bool,
    ) {
        let reducer = self.reducer;
        let places = &self.lanes[lanes.first..lanes.first + lanes.n];
        let (first, last) = (places[0], places[lanes.n - 1]);
        let are_neighbours = last - first == (lanes.n - 1).cast_signed();
        let base = lanes.base.wrapping_add(first);
        let written = rows.iter().zip(sums.chunks(width)).skip(n_skipped);
        for (&[_, row], sums) in written {
            let start = base.wrapping_add(row).cast_unsigned();
            let results = sums[..lanes.n].iter().map(|&lane| reducer.result(lane));
            if are_neighbours {
                let out = self.out[start..start + lanes.n].iter_mut().zip(results);
                if combines {
                    out.for_each(|(out, result)| *out = reducer.combine(*out, result));
                } else {
                    out.for_each(|(out, result)| *out = result);
                }
            } else {
                for (result, &place) in results.zip(places) {
                    let out = &mut self.out[start.wrapping_add_signed(place - first)];
                    *out = if combines {
                        reducer.combine(*out, result)
                    } else {
                        result
                    };
                }
            }
        }
    }

    /// Returns the largest number of vectors of a tile: 4 if the reducer has many shapes and the
    /// instruction set at least 32 registers, and 2 otherwise.
    const fn max_vectors<S: Simd>() -> usize {
        if F::HAS_MANY_SHAPES && S::REGISTER_COUNT >= 32 {
            4
        } else {
            2
        }
    }
}

/// The lanes of a block in the order in which a tile reads them.
#[derive(Default)]
struct Packed<T> {
    /// The distances of the terms in the operand of the rows, and in `lanes`.
    table: Vec<[isize; 2]>,
    lanes: Vec<T>,
}

impl<T: LaneType> Packed<T> {
    /// Creates memory for some lanes of each term.
    fn new(terms: &[[isize; 2]], n_lanes: usize) -> Self {
        let table = terms.iter().zip(0_isize..);
        Self {
            table: table
                .map(|(&[row, _], number)| [row, number * n_lanes.cast_signed()])
                .collect(),
            lanes: vec![T::zeroed(); terms.len() * n_lanes],
        }
    }
}

/// Some terms of a block with the lanes that they read.
struct Part<'p, T> {
    terms: &'p Terms<'p>,
    lanes: &'p [T],
    /// The position of the first lane.
    start: isize,
}

/// Copies lanes to neighbouring lines of the cache, for each of some terms with a place in the
/// copy.
fn pack<T: Copy>([terms, places]: [&Terms<'_>; 2], from: &[T], lanes: &Lanes, to: &mut [T]) {
    let terms = terms.distances().iter().zip(places.distances());
    for (&[_, distance], &[_, place]) in terms {
        let from = &from[lanes.start.wrapping_add(distance).cast_unsigned()..][..lanes.n];
        to[place.cast_unsigned()..][..lanes.n].copy_from_slice(from);
    }
}

/// The tiles of one block of terms.
struct Step<'s, 'a, F: Reducer, S> {
    simd: S,
    rows: &'s [[isize; 2]],
    terms: &'s Terms<'a>,
    /// The terms of packed lanes; `None` if lanes are read in place.
    packed_terms: Option<&'s Terms<'s>>,
    packed: &'s mut Vec<F::In>,
    /// Whether the results are combined with those of earlier blocks.
    combines: bool,
    /// The distance of the block and the batch in the operand of the rows.
    row_shift: isize,
    piece: &'s mut Piece<'a, F>,
    sums: &'s mut Sums<F::Lane>,
}

/// Computes all rows in tiles of the given numbers of rows, the largest first.
macro_rules! tiles {
    ($step:ident, $lanes:ident, $parts:ident, $vectors:literal, [$($n_rows:literal)*]) => {{
        let mut row = 0;
        $(
            while $step.rows.len() - row >= $n_rows {
                $step.tile::<$n_rows, $vectors>(row, 0, $lanes, $parts);
                row += $n_rows;
            }
        )*
    }};
}

impl<F: Reducer, S: Simd> Step<'_, '_, F, S> {
    /// Computes all rows of all lanes of a run.
    #[inline(always)]
    fn all_lanes(&mut self, start: isize, base: isize) {
        let widest = Piece::<F>::max_vectors::<S>() * F::In::n_lanes::<S>();
        let n_lanes = self.piece.lanes.len();
        let mut first = 0;
        while first < n_lanes {
            let lanes = |n: usize| Lanes {
                start: start.wrapping_add(first.cast_signed()),
                base,
                first,
                n,
            };
            let rest = n_lanes - first;
            let n = if rest >= widest && self.are_whole(&lanes(widest)) {
                widest
            } else {
                rest.min(2 * F::In::n_lanes::<S>())
            };
            self.all_rows(&lanes(n));
            first += n;
        }
    }

    /// Returns whether the vectors of some lanes are inside the array at all terms.
    #[inline(always)]
    fn are_whole(&self, lanes: &Lanes) -> bool {
        let len = self.piece.lanes_in.len();
        self.packed_terms.is_some() || self.terms.lanes_fit(lanes.start, lanes.n, len)
    }

    /// Computes all rows of some lanes, which fill at most two vectors, or four vectors that are
    /// inside the array. The lanes after the last one are loaded as well if they exist, because
    /// whole vectors load faster; their sums are left out. From the first term on at which they do
    /// not exist, the lanes are copied.
    #[inline(always)]
    fn all_rows(&mut self, lanes: &Lanes) {
        let width = F::In::n_lanes::<S>();
        let n_loaded = lanes.n.next_multiple_of(width);
        let in_place = self.piece.lanes_in;
        let part = |terms| Part {
            terms,
            lanes: in_place,
            start: lanes.start,
        };
        let mut packed = std::mem::take(self.packed);
        let (split, places, mut ends);
        let parts = &if let Some(terms) = self.packed_terms {
            pack([self.terms, terms], in_place, lanes, &mut packed);
            let part = Part {
                terms,
                lanes: &packed,
                start: 0,
            };
            [Some(part), None]
        } else if self.terms.lanes_fit(lanes.start, n_loaded, in_place.len()) {
            [Some(part(self.terms)), None]
        } else {
            split = self.terms.split(lanes.start, n_loaded, in_place.len());
            ends = Packed::new(split[1].distances(), n_loaded);
            places = Terms::new(&ends.table);
            pack([&split[1], &places], in_place, lanes, &mut ends.lanes);
            let after = Part {
                terms: &places,
                lanes: &ends.lanes,
                start: 0,
            };
            [Some(part(&split[0])), Some(after)]
        };
        // Each shape is compiled for each reducer and each instruction set.
        if !F::HAS_MANY_SHAPES {
            if n_loaded > width {
                self.tiles_of_four::<2>(lanes, parts);
            } else {
                self.tiles_of_four::<1>(lanes, parts);
            }
        } else if Piece::<F>::max_vectors::<S>() == 4 && n_loaded == 4 * width {
            tiles!(self, lanes, parts, 4, [6 4 2 1]);
        } else if n_loaded > width {
            tiles!(self, lanes, parts, 2, [6 4 2 1]);
        } else {
            tiles!(self, lanes, parts, 1, [8 4 2 1]);
        }
        *self.packed = packed;
    }

    /// Computes all rows in tiles of 4 rows. The last tile overlaps the tile before. If there are
    /// fewer than 4 rows, the tile contains the last row several times.
    #[inline(always)]
    fn tiles_of_four<const V: usize>(
        &mut self,
        lanes: &Lanes,
        parts: &[Option<Part<'_, F::In>>; 2],
    ) {
        let n_rows = self.rows.len();
        for row in (0..n_rows).step_by(4) {
            let first = row.min(n_rows.saturating_sub(4));
            self.tile::<4, V>(first, row - first, lanes, parts);
        }
    }

    /// Computes the sums of some rows, beginning with the row of number `row`, and writes them to
    /// the output, except those of the first `n_skipped` rows. If fewer than `R` rows are left, the
    /// last row is computed several times and written once.
    #[inline(always)]
    fn tile<const R: usize, const V: usize>(
        &mut self,
        row: usize,
        n_skipped: usize,
        lanes: &Lanes,
        parts: &[Option<Part<'_, F::In>>; 2],
    ) {
        let piece = &mut *self.piece;
        let rows = &self.rows[row..];
        let rows = &rows[..rows.len().min(R)];
        let mut row_starts = [0; R];
        for number in 0..R {
            let [start, _] = rows[number.min(rows.len() - 1)];
            row_starts[number] = start.wrapping_add(self.row_shift);
        }
        let mut continues = false;
        for part in parts {
            let Some(part) = part else {
                break;
            };
            let tile: Tile<'_, F, S, R, V> = Tile {
                simd: self.simd,
                reducer: piece.reducer,
                terms: part.terms,
                rows: piece.rows_in,
                lanes: part.lanes,
                row_starts,
                lane_start: part.start,
                continues,
                sums: self.sums,
            };
            if F::COUNTS_WORDS {
                // `vectorize` would compile the loop without the instruction.
                tile.with_simd(self.simd);
            } else {
                self.simd.vectorize(tile);
            }
            continues = true;
        }
        let width = V * F::In::n_lanes::<S>();
        piece.write(rows, lanes, self.sums, width, n_skipped, self.combines);
    }
}
