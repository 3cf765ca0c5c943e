//! Reductions over pairs: every row combined with every lane.
//!
//! Role: the inner loop of nests that reduce a function of two plain inputs, one of which is equal
//! for all lanes and the other equal for all rows. Examples are distances of all pairs,
//! similarities, integer matrix products and tropical products. It serves these nests as a GEMM
//! kernel serves float products.
//! Method: the accumulators of four rows and 64 lanes stay in CPU registers during the whole
//! reduction. Each loaded element serves four rows, and nothing is stored before the end. The
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

use crate::dtype::DType;
use crate::op::{Binary, Compare, Reduce};

use super::lanes::{LaneType, larger, smaller};
use super::machine::{Machine, Wide};
use super::program::{Bytecode, Code, Instruction, Slot};
use super::rows::Row;
use super::step::input_of;

/// The number of rows that are reduced together.
pub(super) const ROWS: usize = 4;
/// The number of lanes that are reduced together.
pub(super) const LANES: usize = 64;

/// The function that is reduced, of an element `x` of the row and an element `y` of the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairFunction {
    /// `x * y`.
    Product,
    /// `x + y`.
    Sum,
    /// `|x - y|`.
    AbsDifference,
}

/// The reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    /// A reduction of the function's values.
    Number(Reduce),
    /// A reduction of comparisons of the function's values with a constant. The last field is the
    /// number of the constant's register.
    Compared(Reduce, Compare, usize),
}

/// A nest that is a reduction over pairs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pairs {
    pub(super) dtype: DType,
    pub(super) function: PairFunction,
    pub(super) fold: Reduction,
    /// The access that reads one element for all lanes.
    pub(super) row: usize,
    /// The access that reads the lanes.
    pub(super) lane: usize,
}

impl Pairs {
    /// Returns the reduction over pairs that a program computes, or `None` if the program has
    /// another form. The body must be exactly: fetch the row's element, apply the function, fold.
    pub(super) fn from_program(program: &Bytecode) -> Option<Self> {
        // One reduced axis, no padding, and no values before the reduction.
        let one_axis = program.sizes.len() == program.n_domain + 1;
        let plain = program.setup.is_empty()
            && program
                .accesses
                .iter()
                .all(|access| access.guards.is_empty());
        if program.lanes.reduced || !one_axis || !plain || program.accumulators.len() != 1 {
            return None;
        }
        let (fetch, function, fold) = match &program.body[..] {
            [fetch, function, fold] => (fetch, function, fold),
            _ => return None,
        };
        let Code::Fetch(row) = fetch.code else {
            return None;
        };
        let lane = lane_operand(function, fetch.destination)?;
        let is_result = |place: Slot| place == Slot::Lanes(function.destination);
        let fold = match fold.code {
            Code::Accumulate(op) if is_result(fold.operands[0]) => Reduction::Number(op),
            Code::AccumulateCompare(op, compare @ (Compare::Lt | Compare::Le))
                if is_result(fold.operands[0]) =>
            {
                // The comparison must be with a constant, which all rows share.
                let is_bound = |place: &Slot| {
                    program
                        .constants
                        .iter()
                        .any(|(register, _)| Slot::Uniform(*register) == *place)
                };
                let Slot::Uniform(bound) = Some(fold.operands[1]).filter(is_bound)? else {
                    return None;
                };
                Reduction::Compared(op, compare, bound)
            }
            _ => return None,
        };
        let pairs = Self {
            dtype: function.dtype,
            function: match function.code {
                Code::Binary(Binary::Mul) => PairFunction::Product,
                Code::Binary(Binary::Add) => PairFunction::Sum,
                Code::AbsDifference => PairFunction::AbsDifference,
                _ => return None,
            },
            fold,
            row,
            lane,
        };
        // The loops index with unsigned strides.
        let forward = [row, lane].iter().all(|&access| {
            program.strides[program.n_domain][program.accesses[access].maps.start] >= 0
        });
        if !forward {
            return None;
        }
        pairs.has_a_loop().then_some(pairs)
    }

    /// Returns `true` if `fold_pairs` has a loop for this combination of type, function and
    /// reduction.
    fn has_a_loop(self) -> bool {
        let number = matches!(
            self.fold,
            Reduction::Number(Reduce::Sum | Reduce::Max | Reduce::Min)
        );
        match self.dtype {
            DType::F32 => number || matches!(self.fold, Reduction::Compared(..)),
            DType::F64 => number,
            DType::I32 | DType::U32 => number && self.function != PairFunction::AbsDifference,
            DType::Bool | DType::F16 => false,
        }
    }
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

/// Four rows and 64 lanes to combine: their inputs, the positions of their first elements, and the
/// strides and the length of the reduced axis.
pub(super) struct PairTile<'a, T> {
    pub(super) function: PairFunction,
    pub(super) rows: &'a [T],
    pub(super) row_starts: [usize; ROWS],
    pub(super) row_stride: usize,
    pub(super) lanes: &'a [T],
    pub(super) lane_start: usize,
    pub(super) lane_stride: usize,
    pub(super) n: usize,
}

impl<T: LaneType> PairTile<'_, T> {
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
        for unit in 0..self.n {
            let from = self.lane_start + unit * self.lane_stride;
            let Some(y) = self
                .lanes
                .get(from..)
                .and_then(|lanes| lanes.first_chunk::<LANES>())
            else {
                break;
            };
            for (sums, start) in sums.iter_mut().zip(self.row_starts) {
                let Some(&x) = self.rows.get(start + unit * self.row_stride) else {
                    break;
                };
                // LANES is a constant, so the compiler unrolls this loop and keeps the accumulators
                // in registers.
                for (sum, &y) in sums.iter_mut().zip(y) {
                    *sum = fold(*sum, function(x, y));
                }
            }
            if unit % ASK_EVERY == ASK_EVERY - 1 && sums.iter().all(&decided) {
                break;
            }
        }
        sums
    }

    /// Runs the loop for the function of this tile.
    #[inline(always)]
    fn apply<A: Copy>(
        &self,
        start: A,
        fold: impl Fn(A, T) -> A,
        decided: impl Fn(&[A; LANES]) -> bool,
    ) -> [[A; LANES]; ROWS] {
        match self.function {
            PairFunction::Product => self.run(start, T::times, fold, decided),
            PairFunction::Sum => self.run(start, T::plus, fold, decided),
            PairFunction::AbsDifference => self.run(start, T::distance, fold, decided),
        }
    }

    /// Folds the values of the function.
    #[inline(always)]
    pub(super) fn numbers(&self, op: Reduce) -> [[T; LANES]; ROWS] {
        match op {
            Reduce::Max => self.apply(T::identity(op), |a, x| larger(x, a), |_| false),
            Reduce::Min => self.apply(T::identity(op), |a, x| smaller(x, a), |_| false),
            _ => self.apply(T::identity(Reduce::Sum), T::plus, |_| false),
        }
    }

    /// Folds comparisons of the function's values with a bound.
    #[inline(always)]
    pub(super) fn compared(&self, op: Reduce, compare: Compare, bound: T) -> [[u32; LANES]; ROWS] {
        match compare {
            Compare::Lt => self.hits(op, |x| x < bound),
            _ => self.hits(op, |x| x <= bound),
        }
    }

    /// Counts the values for which `hits` returns `true`, or combines the returned flags with `All`
    /// or `Any`. The accumulators are `u32`, as wide as the compared `f32` values, so that both
    /// fill the same number of vectors.
    #[inline(always)]
    fn hits(&self, op: Reduce, hits: impl Fn(T) -> bool) -> [[u32; LANES]; ROWS] {
        match op {
            Reduce::All => self.apply(
                1,
                |a, x| a & u32::from(hits(x)),
                |flags| !flags.contains(&1),
            ),
            Reduce::Any => self.apply(
                0,
                |a, x| a | u32::from(hits(x)),
                |flags| !flags.contains(&0),
            ),
            _ => self.apply(0, |a, x| a + u32::from(hits(x)), |_| false),
        }
    }
}

impl Machine<'_> {
    /// Folds `ROWS` rows over all lanes of the current block.
    pub(super) fn fold_pairs(&mut self, rows: &mut [Row]) {
        let Some(pairs) = self.program.pairs else {
            return;
        };
        let arch = self.arch;
        arch.dispatch(Wide(
            #[inline(always)]
            || match (pairs.dtype, pairs.fold) {
                (DType::F64, Reduction::Number(op)) => self.fold_tiles(
                    &pairs,
                    rows,
                    #[inline(always)]
                    |tile: &PairTile<'_, f64>| tile.numbers(op),
                ),
                (DType::I32, Reduction::Number(op)) => self.fold_tiles(
                    &pairs,
                    rows,
                    #[inline(always)]
                    |tile: &PairTile<'_, i32>| tile.numbers(op),
                ),
                (DType::U32, Reduction::Number(op)) => self.fold_tiles(
                    &pairs,
                    rows,
                    #[inline(always)]
                    |tile: &PairTile<'_, u32>| tile.numbers(op),
                ),
                (_, Reduction::Number(op)) => self.fold_tiles(
                    &pairs,
                    rows,
                    #[inline(always)]
                    |tile: &PairTile<'_, f32>| tile.numbers(op),
                ),
                (_, Reduction::Compared(Reduce::Sum, compare, bound)) => {
                    let bound = self.registers[bound].lanes::<f32>()[0];
                    self.fold_tiles(
                        &pairs,
                        rows,
                        #[inline(always)]
                        |tile: &PairTile<'_, f32>| tile.compared(Reduce::Sum, compare, bound),
                    );
                }
                (_, Reduction::Compared(op, compare, bound)) => {
                    let bound = self.registers[bound].lanes::<f32>()[0];
                    self.fold_tiles(
                        &pairs,
                        rows,
                        // The flags are as wide as the compared values while they are folded, and
                        // are stored as bytes.
                        #[inline(always)]
                        |tile: &PairTile<'_, f32>| {
                            let flags = tile.compared(op, compare, bound);
                            flags.map(|row| row.map(|flag| u8::from(flag != 0)))
                        },
                    );
                }
            },
        ));
    }

    /// Folds the block tile by tile. The last tile may overlap the one before: the overlap is
    /// computed twice, with equal results.
    #[inline(always)]
    fn fold_tiles<T: LaneType, A: LaneType>(
        &self,
        pairs: &Pairs,
        rows: &mut [Row],
        fold: impl Fn(&PairTile<'_, T>) -> [[A; LANES]; ROWS],
    ) {
        let program = self.program;
        let map = |access: usize| program.accesses[access].maps.start;
        let input = |access: usize| input_of::<T>(self.inputs[program.accesses[access].input]);
        // Positions and strides are not negative: `from_program` rejects negative strides, and the
        // planner keeps positions inside their inputs.
        let unsigned = |position: isize| usize::try_from(position).unwrap_or(usize::MAX);
        let stride = |access: usize| unsigned(program.strides[program.n_domain][map(access)]);
        let mut tile = PairTile {
            function: pairs.function,
            rows: input(pairs.row),
            row_starts: [0; ROWS],
            row_stride: stride(pairs.row),
            lanes: input(pairs.lane),
            lane_start: 0,
            lane_stride: stride(pairs.lane),
            n: program.sizes[program.n_domain],
        };
        for (start, row) in tile.row_starts.iter_mut().zip(&*rows) {
            let here = map(pairs.row);
            *start = unsigned(self.positions[here].wrapping_add(row.distances[here]));
        }
        for from in (0..self.len).step_by(LANES) {
            // The last tile is moved back to end with the block.
            let from = from.min(self.len - LANES);
            tile.lane_start = unsigned(self.positions[map(pairs.lane)]) + self.start + from;
            for (row, sums) in rows.iter_mut().zip(fold(&tile)) {
                row.accumulators[0].lanes_mut::<A>()[from..from + LANES].copy_from_slice(&sums);
            }
        }
    }
}
