//! What a nest is compiled to: instructions on blocks of lanes, and where their operands lie.
//!
//! Role: made by `compile`, run by `machine`.

use std::ops::Range;

use crate::dtype::{DType, Scalar};
use crate::ir::{Guard, LoopNest};
use crate::op::{Binary, Compare, Reduce, Unary};

use super::compile::Compiler;
use super::lane_axes::LaneAxes;
use super::pairs::Pairs;

/// Where an operand is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A lane for each element, in a register.
    Lanes(usize),
    /// One value for all lanes, in the first lane of a register.
    Uniform(usize),
    /// Lanes that lie in an input, in this access's order.
    Input(usize),
}

/// What an instruction does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Code {
    Unary(Unary),
    IsNan,
    Binary(Binary),
    Compare(Compare),
    Select,
    Cast(DType),
    /// Elements of an input through an access.
    Fetch(usize),
    /// Elements through an access, shifted by the first operand.
    Gather {
        access: usize,
        stride: isize,
        extent: usize,
    },
    /// Positions of an access.
    Index(usize),
    /// Whether the guards of an access hold.
    Inside(usize),
    /// Words `stride * at + first` of random streams: the operands are `at` and the two words of
    /// the stream's number.
    Random {
        key: [u32; 2],
        stride: u32,
        first: u32,
    },
    /// Folds the first operand into the destination.
    Accumulate(Reduce),
    /// Folds a comparison of the operands into the destination.
    AccumulateCompare(Reduce, Compare),
    /// `|a - b|`.
    AbsDifference,
    /// `a * b + c` (or `- c`), rounded twice.
    MulAdd(Binary),
}

/// One operation on a block of lanes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Instruction {
    pub(super) code: Code,
    /// The type of the operands (of what is read, for those that read).
    pub(super) dtype: DType,
    pub(super) operands: [Place; 3],
    pub(super) destination: usize,
    /// Whether one lane stands for all.
    pub(super) uniform: bool,
}

/// A map through which lanes read or are counted, with the conditions on it.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) input: usize,
    pub(super) dtype: DType,
    pub(super) guards: Vec<Guard>,
    /// The numbers of its map and, following it, of the maps of its guards, in [`Program::offsets`].
    pub(super) maps: Range<usize>,
}

/// A reduction's accumulators.
#[derive(Debug, Clone)]
pub(super) struct Accumulator {
    pub(super) register: usize,
    /// Where the folded lanes go: the same register unless the lanes themselves are folded.
    pub(super) total: usize,
    pub(super) op: Reduce,
    pub(super) dtype: DType,
}

/// A compiled nest.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) sizes: Vec<usize>,
    pub(super) n_domain: usize,
    pub(super) lanes: LaneAxes,
    /// The most lanes of one block.
    pub(super) block: usize,
    pub(super) accesses: Vec<Access>,
    /// Those of inputs that lanes read where they lie.
    pub(super) streams: Vec<usize>,
    /// The position of each map where all loops begin.
    pub(super) offsets: Vec<isize>,
    /// For each loop axis the stride of each map.
    pub(super) strides: Vec<Vec<isize>>,
    /// What no reduced axis changes.
    pub(super) setup: Vec<Instruction>,
    /// What is computed at every point that is folded.
    pub(super) body: Vec<Instruction>,
    /// What is computed once per output element.
    pub(super) epilogue: Vec<Instruction>,
    pub(super) accumulators: Vec<Accumulator>,
    /// For each register whether it holds one value for all lanes.
    pub(super) registers: Vec<bool>,
    /// Constants, and the registers that hold them.
    pub(super) constants: Vec<(usize, Scalar)>,
    pub(super) result: Place,
    /// The register that takes up what stands in the output before it is written.
    pub(super) before: Option<usize>,
    /// Whether every reduction may stop before the end.
    pub(super) stops: bool,
    /// The fold over pairs that it is, if it is one.
    pub(super) pairs: Option<Pairs>,
}

/// When a value is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Setup,
    Body,
    Epilogue,
}

impl Program {
    pub(super) fn of(nest: &LoopNest) -> Self {
        let mut program = Compiler::new(nest).compile();
        program.pairs = Pairs::of(&program);
        program
    }

    /// Compiles a nest without reductions whose last input is the output itself, in the same order.
    pub(super) fn in_place(nest: &LoopNest) -> Self {
        Compiler::in_place(nest).compile()
    }

    /// The number of points outside the lanes that are folded into one output element.
    pub(super) fn reduce_units(&self) -> usize {
        let reduced: usize = self.sizes[self.n_domain..].iter().product();
        if self.lanes.reduced {
            reduced / self.lanes.len.max(1) * self.lanes.len.div_ceil(self.block)
        } else {
            reduced
        }
    }
}
