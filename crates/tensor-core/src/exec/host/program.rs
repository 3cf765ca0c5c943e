//! The compiled form of a nest: instructions on blocks of lanes, and the places of their operands.
//!
//! Role: created by `compile`, run by `blocks` and `step`.

use std::ops::Range;

use crate::dtype::{DType, Scalar};
use crate::ir::{Guard, LoopNest};
use crate::op::{Binary, Compare, Reduce, Unary};

use super::chain::Chain;
use super::compile::Compiler;
use super::lane_axes::{LaneAxes, Runs};

/// The number of the input of accesses that compute positions and load nothing.
pub(super) const NO_INPUT: usize = usize::MAX;

/// The place of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// One value per lane, in this register.
    Lanes(usize),
    /// One value for all lanes, in the first lane of this register.
    Uniform(usize),
    /// Lanes that are read from an input in place, through this access.
    Input(usize),
}

/// The operation of an instruction.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Code {
    Unary(Unary),
    IsNan,
    Binary(Binary),
    Compare(Compare),
    Select,
    Cast(DType),
    /// Loads elements of an input through an access.
    Fetch(usize),
    /// Loads elements through an access whose position is shifted by `stride` times the first
    /// operand, an index in `-extent..extent`.
    Gather {
        access: usize,
        stride: isize,
        extent: usize,
    },
    /// Computes the positions that the first operand, an index in `-extent..extent`, names; 0 where
    /// the guards of the access do not hold.
    Position {
        access: usize,
        extent: usize,
    },
    /// Computes the positions of an access.
    Index(usize),
    /// Computes whether the guards of an access hold.
    Inside(usize),
    /// Computes the words at the positions `stride * at + first` of random streams. The operands
    /// are `at` and the two words of the stream's number.
    Random {
        key: [u32; 2],
        stride: u32,
        first: u32,
    },
    /// Folds the first operand into the destination.
    Accumulate(Reduce),
    /// Packs the first operand, flags, into the words of the destination.
    Pack,
    /// Folds a comparison of the first two operands into the destination.
    AccumulateCompare(Reduce, Compare),
    /// Computes operations that follow each other, with operands of their own.
    Chain(Box<Chain<Slot>>),
}

/// An operation on a block of lanes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Instruction {
    pub(super) code: Code,
    /// The type of the operands; for instructions that load, the type of the elements.
    pub(super) dtype: DType,
    pub(super) operands: [Slot; 3],
    pub(super) destination: usize,
    /// Whether all lanes have the same value, so that only the first lane is computed.
    pub(super) uniform: bool,
}

/// A map from lanes to positions in an input, with its guards.
#[derive(Debug, Clone)]
pub(super) struct Access {
    /// The number of the input, or [`NO_INPUT`].
    pub(super) input: usize,
    pub(super) dtype: DType,
    pub(super) guards: Vec<Guard>,
    /// The numbers of the maps in [`Bytecode::offsets`]: first the map of the elements, then the
    /// map of each guard.
    pub(super) maps: Range<usize>,
    /// The runs of neighbouring lanes, if no guard depends on the lane.
    pub(super) runs: Option<Runs>,
}

/// The accumulators of a reduction.
#[derive(Debug, Clone)]
pub(super) struct Accumulator {
    pub(super) register: usize,
    /// The register of the final result. It differs from `register` only if the lanes themselves
    /// are reduced.
    pub(super) total: usize,
    pub(super) op: Reduce,
    pub(super) dtype: DType,
}

/// A compiled nest.
#[derive(Debug)]
pub(super) struct Bytecode {
    /// The sizes of all loop axes, domain axes first. An axis of rows is a domain axis.
    pub(super) sizes: Vec<usize>,
    pub(super) n_domain: usize,
    pub(super) lanes: LaneAxes,
    /// The maximum number of lanes in a block.
    pub(super) block: usize,
    /// The number of blocks into which the lanes are divided, if they are reduced; otherwise 1.
    pub(super) n_blocks: usize,
    /// The number of units of the reduction for one output element: points of the reduced axes, or
    /// blocks of lanes if the lanes are reduced. Flags are packed in one unit.
    pub(super) n_units: usize,
    pub(super) accesses: Vec<Access>,
    /// The position of each map at index 0 of all loops.
    pub(super) offsets: Vec<isize>,
    /// The stride of each map, for each loop axis: `strides[axis][map]`.
    pub(super) strides: Vec<Vec<isize>>,
    /// The instructions that run in the first block, because their results are equal in all blocks
    /// (the start), followed by those that run once per block before the reduction, because they
    /// depend on no reduced axis (the setup), the body and the epilogue.
    pub(super) instructions: Vec<Instruction>,
    /// The number of instructions of the start.
    pub(super) n_start: usize,
    /// The numbers of the instructions that run at every point of the reduction.
    pub(super) body: Range<usize>,
    pub(super) accumulators: Vec<Accumulator>,
    /// For each register, whether it holds one value for all lanes.
    pub(super) registers: Vec<bool>,
    /// The constants, each with the number of its register.
    pub(super) constants: Vec<(usize, Scalar)>,
    pub(super) result: Slot,
    /// The register into which the old elements of the output are loaded, for programs that run in
    /// place.
    pub(super) before: Option<usize>,
    /// Whether the loop of the reduction may stop before the last point: every reduction is `All`
    /// or `Any`, whose result may be decided earlier, and no value is gathered.
    pub(super) stops: bool,
}

impl Bytecode {
    /// Compiles a nest.
    pub(super) fn compile(nest: &LoopNest) -> Self {
        let (lanes, nest) = LaneAxes::choose(nest);
        Compiler::new(&nest, lanes).compile()
    }

    /// Compiles a nest without reductions whose last input is the output itself, in the same order
    /// of elements.
    pub(super) fn in_place(nest: &LoopNest) -> Self {
        let (lanes, nest) = LaneAxes::choose(nest);
        Compiler::in_place(&nest, lanes).compile()
    }

    /// Returns the numbers of the instructions that run once per block, after the reduction.
    pub(super) fn epilogue(&self) -> Range<usize> {
        self.body.end..self.instructions.len()
    }

    /// Returns the number of the instruction that computes the lanes of the result at last, if
    /// there is one whose lanes are the elements of the block.
    pub(super) fn direct(&self) -> Option<usize> {
        let last = self.epilogue().last()?;
        let instruction = &self.instructions[last];
        let is_result = self.result == Slot::Lanes(instruction.destination);
        (is_result && !instruction.uniform && self.lanes.n_rows == 1).then_some(last)
    }

    /// Returns the domain axes that no lanes run along.
    pub(super) fn outer_axes(&self) -> Range<usize> {
        match self.lanes.reduced {
            true => 0..self.n_domain,
            false => 0..self.lanes.first,
        }
    }

    /// Returns the number of output elements of all lanes.
    pub(super) fn n_lane_outputs(&self) -> usize {
        match self.lanes.reduced {
            true => 1,
            false => self.lanes.n_outputs(),
        }
    }

    /// Returns the number of lanes of a register. Registers are no longer than the lanes in use:
    /// clearing more takes longer than the steps of a small program.
    pub(super) fn register_lanes(&self) -> usize {
        self.block.min(self.lanes.len)
    }
}
