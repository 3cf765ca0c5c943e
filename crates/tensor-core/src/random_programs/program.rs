//! Random programs in the form of lists of instructions.
//!
//! Method: an instruction refers to tensors by how many were made after them, and `apply` adapts
//! these tensors so that the operation accepts them. So every list of instructions is a valid
//! program, and a failing program can be shrunk by removing instructions.
//! Limits: tensors with more than [`MAX_ELEMENTS`] elements or more than [`MAX_RANK`] axes are
//! skipped.

use proptest::prelude::*;

use super::apply::is_small;
use super::inputs::{Input, inputs, shape};
use super::large::Large;
use crate::Tensor;
use crate::dtype::DType;
use crate::op::{Binary, Compare, Reduce, Sorted, Unary};
use crate::plan::Target;
use crate::view::Slice;

/// The maximum number of elements of a tensor, and of multiplications of a matrix product.
pub(super) const MAX_ELEMENTS: usize = 1 << 14;
/// The maximum number of axes of a tensor.
pub(super) const MAX_RANK: usize = 6;

/// A program, and an additional target to plan it for.
#[derive(Debug, Clone)]
pub(super) struct RandomProgram {
    inputs: Vec<Input>,
    instructions: Vec<Instruction>,
    /// The outputs besides the last tensor.
    outputs: Vec<Pick>,
    pub(super) target: Target,
}

/// A reference to a tensor: the number of tensors made after it, modulo their total number.
pub(super) type Pick = usize;

/// An operation on tensors that earlier instructions made.
#[derive(Debug, Clone)]
pub(super) enum Instruction {
    Arange(usize),
    Full(Vec<usize>, f64),
    Rand {
        normal: bool,
        shape: Vec<usize>,
        stream: Stream,
    },
    Unary(Unary, Pick),
    Binary(Binary, Pick, Pick),
    /// `(x first y) then y`, which can be simplified in real arithmetic but not in IEEE arithmetic.
    Repeated {
        first: Binary,
        then: Binary,
        x: Pick,
        y: Pick,
    },
    /// Each element of the first tensor combined with each element of the second.
    Outer(Binary, Pick, Pick),
    WithNumber {
        op: Binary,
        x: Pick,
        number: f64,
        reversed: bool,
    },
    Compare(Compare, Pick, Pick),
    Select(Pick, Pick, Pick),
    Cast(DType, Pick),
    View(View, Pick),
    Concat {
        parts: Vec<Pick>,
        axis: isize,
    },
    Gather {
        table: Pick,
        index: Pick,
        axis: isize,
        from_end: bool,
    },
    TakeAlongAxis {
        table: Pick,
        index: Pick,
        axis: isize,
    },
    Reduce {
        fold: Fold,
        x: Pick,
        axes: u8,
        keep: bool,
    },
    Scan {
        op: Reduce,
        x: Pick,
        axis: isize,
        reversed: bool,
        exclusive: bool,
    },
    Sort {
        x: Pick,
        axis: isize,
        descending: bool,
        result: Sorted,
    },
    Scatter {
        op: Reduce,
        start: Pick,
        index: Pick,
        values: Pick,
        axis: isize,
        is_along_axis: bool,
    },
    Along {
        extreme: Extreme,
        x: Pick,
        axis: isize,
    },
    Matmul(Pick, Pick),
    /// A program with its own data.
    Large(Large),
}

/// The source of a random stream's number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    /// A constant of the program.
    Fixed(u64),
    /// The first element of a tensor.
    Computed(Pick),
}

/// A view of a tensor.
#[derive(Debug, Clone)]
pub(super) enum View {
    Permute(usize),
    Transpose,
    ExpandDims(isize),
    Squeeze(usize),
    Slice(isize, Slice),
    Flip(isize),
    Window {
        axis: isize,
        size: usize,
        step: usize,
    },
    Pad {
        axis: isize,
        before: usize,
        after: usize,
        fill: f64,
    },
    Broadcast {
        times: usize,
        new_axis: bool,
    },
    Reshape(usize),
}

/// A reduction over axes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fold {
    Plain(Reduce),
    Count,
    Mean,
}

/// An operation along one axis that uses the axis' extreme.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extreme {
    Argmax,
    Argmin,
    Softmax,
}

/// Returns the strategy of all small programs.
pub(super) fn programs() -> impl Strategy<Value = RandomProgram> {
    let instructions = prop::collection::vec(instruction(), 1..24);
    let outputs = prop::collection::vec(0_usize..8, 0..3);
    (inputs(), instructions, outputs, target()).prop_map(
        |(inputs, instructions, outputs, target)| RandomProgram {
            inputs,
            instructions,
            outputs,
            target,
        },
    )
}

/// Returns targets with small and large caps.
pub(super) fn target() -> impl Strategy<Value = Target> {
    let max_values = prop_oneof![3 => 3_usize..9, 1 => Just(64)];
    let min_product = prop_oneof![Just(None), Just(Some(1))];
    (
        max_values,
        prop_oneof![Just(2), Just(16)],
        min_product,
        any::<[bool; 3]>(),
        prop_oneof![Just(None), Just(Some(0))],
    )
        .prop_map(
            |(max_values, max_inputs, min_product, switches, min_band)| {
                let [computes_factors, stores_halves, merges_sums] = switches;
                Target {
                    max_values,
                    max_inputs,
                    min_product,
                    computes_factors,
                    stores_halves,
                    merges_sums,
                    min_band,
                }
            },
        )
}

/// Returns the strategy of a single instruction, with weights for its kinds.
pub(super) fn instruction() -> impl Strategy<Value = Instruction> {
    use Instruction as I;
    // Mostly recent tensors, so that programs grow deep.
    let pick = || prop_oneof![3 => 0_usize..2, 2 => 0_usize..12];
    let axis = || -4_isize..4;
    let unary = prop::sample::select(&Unary::ALL[..]);
    let binary = || prop::sample::select(&Binary::ALL[..]);
    let arithmetic =
        || prop::sample::select(vec![Binary::Add, Binary::Sub, Binary::Mul, Binary::Div]);
    let stream = prop_oneof![
        any::<u64>().prop_map(Stream::Fixed),
        (0_usize..4).prop_map(Stream::Computed)
    ];
    let fold = prop_oneof![
        prop::sample::select(&Reduce::ALL[..]).prop_map(Fold::Plain),
        Just(Fold::Plain(Reduce::Sum)),
        Just(Fold::Count),
        Just(Fold::Mean),
    ];
    let scan = prop::sample::select(vec![Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::Min]);
    let sorted = prop_oneof![Just(Sorted::Elements), Just(Sorted::Positions)];
    let scatter = prop::sample::select(vec![Reduce::Sum, Reduce::Max, Reduce::Min]);
    let extreme = prop_oneof![
        Just(Extreme::Argmax),
        Just(Extreme::Argmin),
        Just(Extreme::Softmax)
    ];
    prop_oneof![
        1 => (0_usize..9).prop_map(I::Arange),
        1 => (shape(), number()).prop_map(|(shape, number)| I::Full(shape, number)),
        1 => (any::<bool>(), shape(), stream)
            .prop_map(|(normal, shape, stream)| I::Rand { normal, shape, stream }),
        5 => (unary, pick()).prop_map(|(op, x)| I::Unary(op, x)),
        8 => (binary(), pick(), pick()).prop_map(|(op, a, b)| I::Binary(op, a, b)),
        3 => (arithmetic(), arithmetic(), pick(), pick())
            .prop_map(|(first, then, x, y)| I::Repeated { first, then, x, y }),
        2 => (binary(), pick(), pick()).prop_map(|(op, a, b)| I::Outer(op, a, b)),
        4 => (binary(), pick(), number(), any::<bool>())
            .prop_map(|(op, x, number, reversed)| I::WithNumber { op, x, number, reversed }),
        3 => (prop::sample::select(&Compare::ALL[..]), pick(), pick()).prop_map(|(op, a, b)| I::Compare(op, a, b)),
        3 => (pick(), pick(), pick()).prop_map(|(condition, a, b)| I::Select(condition, a, b)),
        3 => (dtype(), pick()).prop_map(|(dtype, x)| I::Cast(dtype, x)),
        14 => (view(), pick()).prop_map(|(view, x)| I::View(view, x)),
        2 => (prop::collection::vec(pick(), 1..4), axis()).prop_map(|(parts, axis)| I::Concat { parts, axis }),
        2 => (pick(), pick(), axis(), any::<bool>())
            .prop_map(|(table, index, axis, from_end)| I::Gather { table, index, axis, from_end }),
        2 => (pick(), pick(), axis()).prop_map(|(table, index, axis)| I::TakeAlongAxis { table, index, axis }),
        8 => (fold, pick(), any::<u8>(), any::<bool>())
            .prop_map(|(fold, x, axes, keep)| I::Reduce { fold, x, axes, keep }),
        4 => (scan, pick(), axis(), any::<bool>(), any::<bool>())
            .prop_map(|(op, x, axis, reversed, exclusive)| I::Scan { op, x, axis, reversed, exclusive }),
        3 => (pick(), axis(), any::<bool>(), sorted)
            .prop_map(|(x, axis, descending, result)| I::Sort { x, axis, descending, result }),
        4 => (scatter, (pick(), pick(), pick()), axis(), any::<bool>())
            .prop_map(|(op, (start, index, values), axis, is_along_axis)| I::Scatter { op, start, index, values, axis, is_along_axis }),
        2 => (extreme, pick(), axis()).prop_map(|(extreme, x, axis)| I::Along { extreme, x, axis }),
        5 => (pick(), pick()).prop_map(|(a, b)| I::Matmul(a, b)),
    ]
}

fn view() -> impl Strategy<Value = View> {
    let axis = || -4_isize..4;
    let bound = || prop::option::of(-6_isize..7);
    let step = prop_oneof![-3_isize..0, 1_isize..4];
    prop_oneof![
        (0_usize..720).prop_map(View::Permute),
        Just(View::Transpose),
        axis().prop_map(View::ExpandDims),
        (0_usize..4).prop_map(View::Squeeze),
        (axis(), bound(), bound(), step)
            .prop_map(|(axis, start, stop, step)| View::Slice(axis, Slice { start, stop, step })),
        axis().prop_map(View::Flip),
        (axis(), 1_usize..5, 1_usize..4).prop_map(|(axis, size, step)| View::Window {
            axis,
            size,
            step
        }),
        (axis(), 0_usize..4, 0_usize..4, number()).prop_map(|(axis, before, after, fill)| {
            View::Pad {
                axis,
                before,
                after,
                fill,
            }
        }),
        (0_usize..5, any::<bool>())
            .prop_map(|(times, new_axis)| View::Broadcast { times, new_axis }),
        (0_usize..64).prop_map(View::Reshape),
    ]
}

pub(super) fn dtype() -> impl Strategy<Value = DType> {
    use DType::{Bool, F16, F32, F64, I32, U32};
    prop::sample::select(vec![F32, F32, F32, F64, I32, U32, Bool, F16])
}

fn number() -> impl Strategy<Value = f64> {
    let rare = vec![
        -0.0,
        1e30,
        -1e-30,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        33.0,
    ];
    let plain = vec![0.0, 1.0, 2.0, -1.0, 0.5, 3.0, -2.5, 0.1, 0.7];
    prop_oneof![6 => prop::sample::select(plain), 1 => prop::sample::select(rare)]
}

/// Runs instructions and returns the inputs followed by the new tensors. Skips tensors that are not
/// small, and tensors for which `keeps`, called with the instruction's number, returns `false`.
///
/// # Panics
/// If an instruction returns an error node although its operands were adapted.
pub(super) fn made(
    inputs: Vec<Tensor>,
    instructions: &[Instruction],
    mut keeps: impl FnMut(usize, &Tensor) -> bool,
) -> Vec<Tensor> {
    let mut made = inputs;
    for (number, instruction) in instructions.iter().enumerate() {
        let pick = |pick: &Pick| made[made.len() - 1 - pick % made.len()].clone();
        let tensor = instruction.apply(&pick).filter(is_small);
        made.extend(tensor.filter(|tensor| keeps(number, tensor)));
    }
    made
}

impl RandomProgram {
    /// Creates a program of instructions that need no inputs.
    pub(super) fn new(instructions: Vec<Instruction>, target: Target) -> Self {
        Self {
            inputs: Vec::new(),
            instructions,
            outputs: Vec::new(),
            target,
        }
    }

    /// Returns the program without the instructions that [`tensors`](Self::tensors) leaves out,
    /// such as those whose tensors are too large. `Eager` would compute these tensors first.
    pub(super) fn without_unused(&self) -> Self {
        let mut used = Vec::new();
        let inputs = self.inputs.iter().map(Input::tensor).collect();
        made(inputs, &self.instructions, |number, _| {
            used.push(self.instructions[number].clone());
            true
        });
        Self {
            instructions: used,
            ..self.clone()
        }
    }

    /// Returns the output tensors of the program.
    ///
    /// # Panics
    /// If an instruction returns an error node although its operands were adapted.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let inputs = self.inputs.iter().map(Input::tensor).collect();
        let made = made(inputs, &self.instructions, |_, _| true);
        let last = made.len() - 1;
        let asked = self.outputs.iter().map(|pick| last - pick % made.len());
        asked.chain([last]).map(|at| made[at].clone()).collect()
    }
}
