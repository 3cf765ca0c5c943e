//! Reductions over pairs: every row combined with every lane.
//!
//! Role: the inner loop of nests that reduce a function of two plain inputs, one of which is equal
//! for all lanes and the other equal for all rows. Examples are distances of all pairs,
//! similarities, integer matrix products, products of packed bytes and tropical products. It serves
//! these nests as a GEMM kernel serves float products.
//! Method: the accumulators of four rows and 64 lanes stay in CPU registers during the whole
//! reduction. Each loaded element serves four rows, and nothing is stored before the end. Where
//! ones are counted, the rows that fill no tile of four are tiles of one row. The
//! functions that fold and compare are type parameters, so each combination compiles to its own
//! loop. All other nests run through the interpreter.
//!
//! ```text
//!           64 lanes y
//! row 0 x | a00 a01 ... |    for each step of the reduced axis:
//! row 1 x | a10 a11 ... |      a[row][lane] = fold(a[row][lane], f(x[row], y[lane]))
//! row 2 x | ...         |
//! row 3 x | ...         |
//! ```

use std::ops::Range;

use crate::dtype::DType;
use crate::op::{Binary, Compare, Reduce, Unary};

use super::fetch::copy_run;
use super::lanes::{LaneType, Stored};
use super::machine::Machine;
use super::program::{Bytecode, Code, Instruction, Slot};
use super::rows::{MAX_ROWS, Row};
use super::step::input_of;
use super::tiles::points;

use tile::PairTile;

#[cfg(test)]
mod at_levels;
mod tile;

/// The number of rows of a tile.
pub(super) const ROWS: usize = 4;
/// The number of lanes that are reduced together.
pub(super) const LANES: usize = 64;

/// A function of an element `x` of the row and an element `y` of the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairFunction {
    /// `x * y`.
    Product,
    /// `x + y`.
    Sum,
    /// `|x - y|`.
    AbsDifference,
    /// The sum of the products of four signed bytes.
    Dot4I8,
}

/// The reduction that is computed for each pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    /// A reduction of the function's values.
    Number(PairFunction, Reduce),
    /// A reduction of comparisons of the function's values with a constant. The last field is the
    /// number of the constant's register.
    Compared(PairFunction, Reduce, Compare, usize),
    /// The number of ones in the bits of all `x ^ y`, or of all `x & y`.
    Ones(BitFunction),
}

/// A function of the bits of two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BitFunction {
    And,
    Xor,
}

/// A nest that is a reduction over pairs.
#[derive(Debug, Clone)]
pub(super) struct Pairs {
    pub(super) dtype: DType,
    pub(super) reduction: Reduction,
    /// The access that reads one element for all lanes. It may have guards.
    pub(super) row: usize,
    /// The access that reads the lanes.
    pub(super) lane: usize,
    /// The distances in the row's and in the lane's input to each point of the reduced axes but the
    /// last.
    outer: Vec<[isize; 2]>,
    /// The same points for rows whose elements are stored one after the other. Rows with guards are
    /// copied in this form.
    dense: Vec<[isize; 2]>,
    /// For each guard of the row, the lowest and the highest distance of its position over all
    /// points of the reduced axes.
    reach: Vec<[isize; 2]>,
}

impl Pairs {
    /// The maximum number of points of the reduced axes but the last: their distances fit the
    /// second-level cache.
    const MAX_OUTER: usize = 1 << 14;

    /// Returns the reduction over pairs that a program computes, or `None` if the program has
    /// another form. The body must be exactly: fetch the row's element, apply the function, fold.
    pub(super) fn from_program(program: &Bytecode) -> Option<Self> {
        // At least one reduced axis, and no values before the reduction.
        let n_domain = program.n_domain;
        let reduced = n_domain..program.sizes.len();
        if program.lanes.reduced
            || reduced.is_empty()
            || !program.setup.is_empty()
            || program.accumulators.len() != 1
        {
            return None;
        }
        let (fetch, function, fold) = match &program.body[..] {
            [fetch, function, fold] => (fetch, function, fold),
            // The bits of the function's value are counted before they are folded.
            [fetch, function, count, fold] if counts_ones(function, count) => {
                (fetch, function, fold)
            }
            _ => return None,
        };
        let Code::Fetch(row) = fetch.code else {
            return None;
        };
        let lane = lane_operand(function, fetch.destination)?;
        if !program.accesses[lane].guards.is_empty() {
            return None;
        }
        let outer = outer_points(program, row, lane)?;
        let pairs = Self {
            dtype: function.dtype,
            reduction: reduction(program, function, fold)?,
            row,
            lane,
            dense: dense_points(&outer, program.sizes[program.sizes.len() - 1]),
            outer,
            reach: guard_reach(program, row),
        };
        pairs.has_a_loop().then_some(pairs)
    }

    /// Returns the number of rows, of `n_rows`, that the loops reduce: all rows where ones are
    /// counted, because the interpreter takes several times as long for a row; otherwise the rows
    /// of whole tiles.
    pub(super) fn takes(&self, n_rows: usize) -> usize {
        match self.reduction {
            Reduction::Ones(_) => n_rows,
            _ => n_rows / ROWS * ROWS,
        }
    }

    /// Returns `true` if `fold_pairs` has a loop for this combination of type, function and
    /// reduction.
    fn has_a_loop(&self) -> bool {
        match (self.dtype, self.reduction) {
            (DType::F32, Reduction::Compared(..)) => true,
            (DType::F32 | DType::F64, Reduction::Number(_, op)) => is_looped(op),
            (DType::I32 | DType::U32, Reduction::Number(PairFunction::Dot4I8, op)) => {
                op == Reduce::Sum
            }
            (DType::I32 | DType::U32, Reduction::Number(function, op)) => {
                is_looped(op) && function != PairFunction::AbsDifference
            }
            (DType::I32 | DType::U32, Reduction::Ones(_)) => true,
            _ => false,
        }
    }
}

fn is_looped(op: Reduce) -> bool {
    matches!(op, Reduce::Sum | Reduce::Max | Reduce::Min)
}

/// Returns whether an instruction counts the ones in the result of the instruction before it.
fn counts_ones(function: &Instruction, count: &Instruction) -> bool {
    let is_bits = matches!(function.code, Code::Binary(Binary::And | Binary::Xor));
    is_bits
        && count.code == Code::Unary(Unary::CountOnes)
        && count.operands[0] == Slot::Lanes(function.destination)
}

/// Returns the reduction of a function's values by the last instruction of a program's body; `None`
/// if there is no such loop. With [`counts_ones`], the function is `&` or `^`.
fn reduction(program: &Bytecode, function: &Instruction, fold: &Instruction) -> Option<Reduction> {
    // The operand of the fold: the result of the instruction before it.
    let before = &program.body[program.body.len() - 2];
    if fold.operands[0] != Slot::Lanes(before.destination) {
        return None;
    }
    if before.code == Code::Unary(Unary::CountOnes) {
        let bits = match function.code {
            Code::Binary(Binary::And) => BitFunction::And,
            _ => BitFunction::Xor,
        };
        return (fold.code == Code::Accumulate(Reduce::Sum)).then_some(Reduction::Ones(bits));
    }
    let function = match function.code {
        Code::Binary(Binary::Mul) => PairFunction::Product,
        Code::Binary(Binary::Add) => PairFunction::Sum,
        Code::Binary(Binary::Dot4I8) => PairFunction::Dot4I8,
        Code::AbsDifference => PairFunction::AbsDifference,
        _ => return None,
    };
    match fold.code {
        Code::Accumulate(op) => Some(Reduction::Number(function, op)),
        Code::AccumulateCompare(op, compare @ (Compare::Lt | Compare::Le)) => {
            // The comparison must be with a constant, which all rows share.
            let mut constants = program.constants.iter();
            let (bound, _) =
                constants.find(|(register, _)| Slot::Uniform(*register) == fold.operands[1])?;
            Some(Reduction::Compared(function, op, compare, *bound))
        }
        _ => None,
    }
}

/// Returns the distances in the row's and in the lane's input to each point of the reduced axes but
/// the last, in row-major order; `None` if there are too many points.
fn outer_points(program: &Bytecode, row: usize, lane: usize) -> Option<Vec<[isize; 2]>> {
    let axes = program.n_domain..program.sizes.len() - 1;
    let sizes = &program.sizes[axes.clone()];
    let n_points = sizes
        .iter()
        .try_fold(1, |n: usize, &size| n.checked_mul(size));
    n_points.filter(|&n| n <= Pairs::MAX_OUTER)?;
    let strides = |axis: usize| [row, lane].map(|access| stride(program, axis, access));
    Some(points(axes, &program.sizes, strides))
}

/// Returns the stride with which an access moves along an axis.
fn stride(program: &Bytecode, axis: usize, access: usize) -> isize {
    program.strides[axis][program.accesses[access].maps.start]
}

/// Returns for each guard of an access the lowest and the highest distance of its position over all
/// points of the reduced axes.
fn guard_reach(program: &Bytecode, access: usize) -> Vec<[isize; 2]> {
    let maps = program.accesses[access].maps.clone();
    let guards = maps.start + 1..maps.end;
    guards
        .map(|map| {
            let mut reach = [0_isize; 2];
            for axis in program.n_domain..program.sizes.len() {
                let last = program.sizes[axis].saturating_sub(1).cast_signed();
                let whole = program.strides[axis][map].saturating_mul(last);
                reach[0] = reach[0].saturating_add(whole.min(0));
                reach[1] = reach[1].saturating_add(whole.max(0));
            }
            reach
        })
        .collect()
}

/// Returns the access whose lanes an instruction combines with the value in a register.
fn lane_operand(instruction: &Instruction, register: usize) -> Option<usize> {
    match instruction.operands {
        [Slot::Uniform(row), Slot::Input(lane), _] | [Slot::Input(lane), Slot::Uniform(row), _]
            if row == register =>
        {
            Some(lane)
        }
        _ => None,
    }
}

impl Machine<'_> {
    /// Folds rows over all lanes of the current block. The number of rows of each batch index must
    /// be one that the loop reduces completely, as returned by [`Pairs::takes`].
    pub(super) fn fold_pairs(&mut self, rows: &mut [Row]) {
        let program = self.program;
        let Some(pairs) = &program.pairs else {
            return;
        };
        let lane = program.accesses[pairs.lane].maps.start;
        if rows.iter().all(|row| row.distances[lane] == 0) {
            self.fold_batch(pairs, rows);
            return;
        }
        // Rows of one batch index meet the same lanes, so they are folded together.
        rows.sort_by_key(|row| row.distances[lane]);
        for batch in rows.chunk_by_mut(|a, b| a.distances[lane] == b.distances[lane]) {
            self.fold_batch(pairs, batch);
        }
        rows.sort_by_key(|row| row.number);
    }

    /// Folds rows of one batch index over all lanes of the current block.
    fn fold_batch(&mut self, pairs: &Pairs, rows: &mut [Row]) {
        let level = self.level;
        if let Reduction::Ones(function) = pairs.reduction {
            level.dispatch_count(
                #[inline(always)]
                |by_words| self.count_tiles(pairs, rows, function, by_words),
            );
            return;
        }
        level.dispatch(
            #[inline(always)]
            || match (pairs.dtype, pairs.reduction) {
                (_, Reduction::Ones(_)) => {}
                (DType::F64, Reduction::Number(function, op)) => self.fold_tiles(
                    pairs,
                    rows,
                    #[inline(always)]
                    |tile: &PairTile<'_, f64, ROWS>| tile.numbers(function, op),
                ),
                (DType::I32, Reduction::Number(function, op)) => self.fold_tiles(
                    pairs,
                    rows,
                    #[inline(always)]
                    |tile: &PairTile<'_, i32, ROWS>| tile.numbers(function, op),
                ),
                (DType::U32, Reduction::Number(function, op)) => self.fold_tiles(
                    pairs,
                    rows,
                    #[inline(always)]
                    |tile: &PairTile<'_, u32, ROWS>| tile.numbers(function, op),
                ),
                (_, Reduction::Number(function, op)) => self.fold_tiles(
                    pairs,
                    rows,
                    #[inline(always)]
                    |tile: &PairTile<'_, f32, ROWS>| tile.numbers(function, op),
                ),
                (_, Reduction::Compared(function, Reduce::Sum, compare, bound)) => {
                    let bound = self.registers[bound].lanes::<f32>()[0];
                    self.fold_tiles(
                        pairs,
                        rows,
                        #[inline(always)]
                        |tile: &PairTile<'_, f32, ROWS>| {
                            tile.compared(function, Reduce::Sum, compare, bound)
                        },
                    );
                }
                (_, Reduction::Compared(function, op, compare, bound)) => {
                    let bound = self.registers[bound].lanes::<f32>()[0];
                    self.fold_tiles(
                        pairs,
                        rows,
                        // The flags are as wide as the compared values while they are folded, and
                        // are stored as bytes.
                        #[inline(always)]
                        |tile: &PairTile<'_, f32, ROWS>| {
                            let flags = tile.compared(function, op, compare, bound);
                            flags.map(|row| row.map(|flag| u8::from(flag != 0)))
                        },
                    );
                }
            },
        );
    }

    /// Counts ones in tiles of `ROWS` rows, and in the other rows one by one.
    #[inline(always)]
    fn count_tiles(
        &mut self,
        pairs: &Pairs,
        rows: &mut [Row],
        function: BitFunction,
        by_words: bool,
    ) {
        let (whole, rest) = rows.split_at_mut(rows.len() / ROWS * ROWS);
        self.fold_tiles(
            pairs,
            whole,
            #[inline(always)]
            |tile: &PairTile<'_, u32, ROWS>| tile.ones(function, by_words),
        );
        self.fold_tiles(
            pairs,
            rest,
            #[inline(always)]
            |tile: &PairTile<'_, u32, 1>| tile.ones(function, by_words),
        );
    }

    /// Folds whole tiles of rows over the lanes of the block. The last tile of lanes may overlap
    /// the one before: the overlap is computed twice, with equal results.
    #[inline(always)]
    fn fold_tiles<T: Stored<Lane = T> + LaneType, A: LaneType, const R: usize>(
        &mut self,
        pairs: &Pairs,
        rows: &mut [Row],
        fold: impl Fn(&PairTile<'_, T, R>) -> [[A; LANES]; R],
    ) {
        let program = self.program;
        let last = program.sizes.len() - 1;
        let map = |access: usize| program.accesses[access].maps.start;
        let inputs = self.inputs;
        let input = |access: usize| input_of::<T>(inputs[program.accesses[access].input]);
        let n = program.sizes[last];
        let (tiles, _) = rows.as_chunks_mut::<R>();
        // Without rows, the block may be shorter than a tile: `split_rows` leaves such a block to
        // the interpreter.
        if tiles.is_empty() {
            return;
        }
        // Rows next to the padding are copied with its zeros.
        let mut inside = [true; MAX_ROWS];
        let len = R * n * pairs.outer.len();
        for (number, rows) in tiles.iter().enumerate() {
            inside[number] = rows.iter().all(|row| self.is_inside(pairs, row));
            if !inside[number] {
                self.copy_padded::<T>(pairs, rows, number * len..(number + 1) * len);
            }
        }
        let row = map(pairs.row);
        // All rows have the same distance to the lanes of the first row of the group.
        let lanes = map(pairs.lane);
        let lane_start = self.positions[lanes].wrapping_add(tiles[0][0].distances[lanes]);
        let lane_start = lane_start.cast_unsigned();
        for from in (0..self.len).step_by(LANES) {
            // The last tile is moved back to end with the block.
            let from = from.min(self.len - LANES);
            // All rows meet the same lanes in turn, while these are in a cache.
            for (number, rows) in tiles.iter_mut().enumerate() {
                let mut tile = PairTile {
                    rows: input(pairs.row),
                    row_starts: [0; R],
                    row_stride: stride(program, last, pairs.row).cast_unsigned(),
                    lanes: input(pairs.lane),
                    lane_start: lane_start.wrapping_add(self.start + from),
                    lane_stride: stride(program, last, pairs.lane).cast_unsigned(),
                    outer: &pairs.outer,
                    n,
                };
                if inside[number] {
                    for (start, one) in tile.row_starts.iter_mut().zip(&*rows) {
                        let position = self.positions[row].wrapping_add(one.distances[row]);
                        *start = position.cast_unsigned();
                    }
                } else {
                    tile.rows = bytemuck::cast_slice(&self.padded);
                    tile.row_starts =
                        std::array::from_fn(|row| number * len + row * n * pairs.outer.len());
                    tile.row_stride = 1;
                    tile.outer = &pairs.dense;
                }
                // By reference: arrays of this size are expensive to move.
                let sums = fold(&tile);
                for (row, sums) in rows.iter_mut().zip(&sums) {
                    row.accumulator.lanes_mut::<A>()[from..from + LANES].copy_from_slice(sums);
                }
            }
        }
    }

    /// Returns whether all guards of a row hold at every point of the reduced axes.
    fn is_inside(&self, pairs: &Pairs, row: &Row) -> bool {
        let access = &self.program.accesses[pairs.row];
        let maps = access.maps.start + 1..access.maps.end;
        let mut guards = access.guards.iter().zip(maps).zip(&pairs.reach);
        guards.all(|((guard, map), &[low, high])| {
            let position = self.positions[map].wrapping_add(row.distances[map]);
            position.saturating_add(low) >= 0
                && usize::try_from(position.saturating_add(high))
                    .is_ok_and(|highest| highest < guard.extent)
        })
    }

    /// Copies the elements of rows at all points of the reduced axes, one row after the other, to a
    /// range of `padded`; 0 where a guard does not hold.
    fn copy_padded<T: Stored<Lane = T> + LaneType>(
        &mut self,
        pairs: &Pairs,
        rows: &[Row],
        range: Range<usize>,
    ) {
        let program = self.program;
        let last = program.sizes.len() - 1;
        let access = &program.accesses[pairs.row];
        let maps = access.maps.clone();
        let strides = &program.strides[last][maps.clone()];
        // As lanes of `T`: the bits of `i32` are counted as `u32`.
        let data = input_of::<T>(self.inputs[access.input]);
        let mut padded = std::mem::take(&mut self.padded);
        let n_words = (range.end * size_of::<T>()).div_ceil(size_of::<u64>());
        if padded.len() < n_words {
            padded.resize(n_words, 0);
        }
        let elements: &mut [T] = &mut bytemuck::cast_slice_mut(&mut padded)[range];
        let mut runs = elements.chunks_mut(program.sizes[last].max(1));
        for row in rows {
            self.shift(&row.distances, isize::wrapping_add);
            for run in runs.by_ref().take(pairs.outer.len()) {
                let positions = &self.positions[maps.clone()];
                copy_run(data, &access.guards, positions, strides, run);
                // After the last point, the index is that of the first point again.
                self.advance(program.n_domain..last);
            }
            self.shift(&row.distances, isize::wrapping_sub);
        }
        self.padded = padded;
    }
}

/// Returns the points of `outer` with the distances of a row whose elements are stored one after
/// the other.
fn dense_points(outer: &[[isize; 2]], n: usize) -> Vec<[isize; 2]> {
    let points = outer.iter().enumerate();
    points
        .map(|(number, &[_, lane])| [(number * n).cast_signed(), lane])
        .collect()
}
