//! Folds over pairs: every row against every lane.
//!
//! Role: the inner loop of nests that fold a function of two plain inputs, of which one is the same for all lanes and the
//! other the same for all rows: distances of all pairs, similarities, products of integers, tropical products. It is to
//! those what a GEMM kernel is to products of floats.
//! Method: four rows and 64 lanes of accumulators stay in the CPU's registers over the whole reduction, so that an element
//! that is read serves four rows, and nothing is stored before the end. What folds and compares is a type parameter, so
//! each combination is one loop of its own. Anything else runs through the interpreter.

use crate::dtype::DType;
use crate::op::{Binary, Compare, Reduce};

use super::lanes::{Lane, larger, smaller};
use super::machine::{Machine, Wide};
use super::program::{Code, Instruction, Place, Program};
use super::rows::Row;
use super::step::input_of;

/// Rows that are folded together.
pub(super) const ROWS: usize = 4;
/// Lanes that are folded together.
pub(super) const LANES: usize = 64;

/// What is folded, of an element `x` of the row and an element `y` of the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// `x * y`.
    Product,
    /// `x + y`.
    Sum,
    /// `|x - y|`.
    AbsDifference,
}

/// How it is folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// By a reduction of numbers.
    Number(Reduce),
    /// By a reduction of comparisons with the constant in a register.
    Compared(Reduce, Compare, usize),
}

/// A nest that folds pairs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pairs {
    pub(super) dtype: DType,
    pub(super) function: Function,
    pub(super) fold: Fold,
    /// The access that reads one element for all lanes.
    pub(super) row: usize,
    /// The access that reads lanes.
    pub(super) lane: usize,
}

impl Pairs {
    /// Reads a program as a fold over pairs, if it is one.
    pub(super) fn of(program: &Program) -> Option<Self> {
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
        let lane = lane_beside(function, fetch.destination)?;
        let is_result = |place: Place| place == Place::Lanes(function.destination);
        let fold = match fold.code {
            Code::Accumulate(op) if is_result(fold.operands[0]) => Fold::Number(op),
            Code::AccumulateCompare(op, compare @ (Compare::Lt | Compare::Le))
                if is_result(fold.operands[0]) =>
            {
                let is_bound = |place: &Place| {
                    program
                        .constants
                        .iter()
                        .any(|(register, _)| Place::Uniform(*register) == *place)
                };
                let Place::Uniform(bound) = Some(fold.operands[1]).filter(is_bound)? else {
                    return None;
                };
                Fold::Compared(op, compare, bound)
            }
            _ => return None,
        };
        let pairs = Self {
            dtype: function.dtype,
            function: match function.code {
                Code::Binary(Binary::Mul) => Function::Product,
                Code::Binary(Binary::Add) => Function::Sum,
                Code::AbsDifference => Function::AbsDifference,
                _ => return None,
            },
            fold,
            row,
            lane,
        };
        let forward = [row, lane].iter().all(|&access| {
            program.strides[program.n_domain][program.accesses[access].maps.start] >= 0
        });
        if !forward {
            return None;
        }
        pairs.has_a_loop().then_some(pairs)
    }

    /// Whether the combination is one of those below.
    fn has_a_loop(self) -> bool {
        let number = matches!(
            self.fold,
            Fold::Number(Reduce::Sum | Reduce::Max | Reduce::Min)
        );
        match self.dtype {
            DType::F32 => number || matches!(self.fold, Fold::Compared(..)),
            DType::F64 => number,
            DType::I32 | DType::U32 => number && self.function != Function::AbsDifference,
            DType::Bool | DType::F16 => false,
        }
    }
}

/// The access whose lanes an instruction combines with the value in a register.
fn lane_beside(instruction: &Instruction, register: usize) -> Option<usize> {
    match instruction.operands {
        [Place::Uniform(row), Place::Input(lane), _]
        | [Place::Input(lane), Place::Uniform(row), _]
            if row == register =>
        {
            Some(lane)
        }
        _ => None,
    }
}

/// Where four rows and the lanes lie in their inputs, and how far the next element to fold lies from each.
pub(super) struct Tile<'a, T> {
    pub(super) function: Function,
    pub(super) rows: &'a [T],
    pub(super) row_starts: [usize; ROWS],
    pub(super) row_stride: usize,
    pub(super) lanes: &'a [T],
    pub(super) lane_start: usize,
    pub(super) lane_stride: usize,
    pub(super) n: usize,
}

impl<T: Lane> Tile<'_, T> {
    /// Folds all pairs: `fold(accumulator, function(x, y))`, until `decided` says of all accumulators that no more can
    /// change them.
    #[inline(always)]
    fn run<A: Copy>(
        &self,
        start: A,
        function: impl Fn(T, T) -> T,
        fold: impl Fn(A, T) -> A,
        decided: impl Fn(&[A; LANES]) -> bool,
    ) -> [[A; LANES]; ROWS] {
        /// How often to ask whether all is decided.
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

    #[inline(always)]
    fn apply<A: Copy>(
        &self,
        start: A,
        fold: impl Fn(A, T) -> A,
        decided: impl Fn(&[A; LANES]) -> bool,
    ) -> [[A; LANES]; ROWS] {
        match self.function {
            Function::Product => self.run(start, T::times, fold, decided),
            Function::Sum => self.run(start, T::plus, fold, decided),
            Function::AbsDifference => self.run(start, T::distance, fold, decided),
        }
    }

    /// Folds numbers.
    #[inline(always)]
    pub(super) fn numbers(&self, op: Reduce) -> [[T; LANES]; ROWS] {
        match op {
            Reduce::Max => self.apply(T::identity(op), |a, x| larger(x, a), |_| false),
            Reduce::Min => self.apply(T::identity(op), |a, x| smaller(x, a), |_| false),
            _ => self.apply(T::identity(Reduce::Sum), T::plus, |_| false),
        }
    }

    /// Folds comparisons with a bound.
    #[inline(always)]
    pub(super) fn compared(&self, op: Reduce, compare: Compare, bound: T) -> [[u32; LANES]; ROWS] {
        match compare {
            Compare::Lt => self.hits(op, |x| x < bound),
            _ => self.hits(op, |x| x <= bound),
        }
    }

    /// Counts hits, or joins them: as `u32`, as wide as what is compared.
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
    /// Folds as many rows as the loop over pairs takes at once, over all lanes of the block.
    pub(super) fn fold_pairs(&mut self, rows: &mut [Row]) {
        let Some(pairs) = self.program.pairs else {
            return;
        };
        let arch = self.arch;
        arch.dispatch(Wide(
            #[inline(always)]
            || match (pairs.dtype, pairs.fold) {
                (DType::F64, Fold::Number(op)) => self.fold_tiles(
                    &pairs,
                    rows,
                    #[inline(always)]
                    |tile: &Tile<'_, f64>| tile.numbers(op),
                ),
                (DType::I32, Fold::Number(op)) => self.fold_tiles(
                    &pairs,
                    rows,
                    #[inline(always)]
                    |tile: &Tile<'_, i32>| tile.numbers(op),
                ),
                (DType::U32, Fold::Number(op)) => self.fold_tiles(
                    &pairs,
                    rows,
                    #[inline(always)]
                    |tile: &Tile<'_, u32>| tile.numbers(op),
                ),
                (_, Fold::Number(op)) => self.fold_tiles(
                    &pairs,
                    rows,
                    #[inline(always)]
                    |tile: &Tile<'_, f32>| tile.numbers(op),
                ),
                (_, Fold::Compared(Reduce::Sum, compare, bound)) => {
                    let bound = self.registers[bound].lanes::<f32>()[0];
                    self.fold_tiles(
                        &pairs,
                        rows,
                        #[inline(always)]
                        |tile: &Tile<'_, f32>| tile.compared(Reduce::Sum, compare, bound),
                    );
                }
                (_, Fold::Compared(op, compare, bound)) => {
                    let bound = self.registers[bound].lanes::<f32>()[0];
                    self.fold_tiles(
                        &pairs,
                        rows,
                        // Flags are as wide as what is compared only while they are folded.
                        #[inline(always)]
                        |tile: &Tile<'_, f32>| {
                            let flags = tile.compared(op, compare, bound);
                            flags.map(|row| row.map(|flag| u8::from(flag != 0)))
                        },
                    );
                }
            },
        ));
    }

    /// Folds one tile of the block after the other; the last may overlap the one before, which changes nothing.
    #[inline(always)]
    fn fold_tiles<T: Lane, A: Lane>(
        &self,
        pairs: &Pairs,
        rows: &mut [Row],
        fold: impl Fn(&Tile<'_, T>) -> [[A; LANES]; ROWS],
    ) {
        let program = self.program;
        let map = |access: usize| program.accesses[access].maps.start;
        let input = |access: usize| input_of::<T>(self.inputs[program.accesses[access].input]);
        // A loop over pairs has no negative strides, and the planner keeps positions inside their inputs.
        let unsigned = |position: isize| usize::try_from(position).unwrap_or(usize::MAX);
        let stride = |access: usize| unsigned(program.strides[program.n_domain][map(access)]);
        let mut tile = Tile {
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
            let from = from.min(self.len - LANES);
            tile.lane_start = unsigned(self.positions[map(pairs.lane)]) + self.start + from;
            for (row, sums) in rows.iter_mut().zip(fold(&tile)) {
                row.accumulators[0].lanes_mut::<A>()[from..from + LANES].copy_from_slice(&sums);
            }
        }
    }
}
