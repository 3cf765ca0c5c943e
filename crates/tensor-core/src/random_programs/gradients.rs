//! Gradients of random programs, compared with central differences in f64.
//!
//! Role: the property test of [`grad`]. The test must detect three deliberate faults in gradients.
//! Method: the instructions are those of all random programs, but only results that are integers,
//! booleans or `f64` of ordinary size are kept. The loss is a weighted sum of the last floats. Its
//! slope along a random direction through all inputs, computed from the gradient, must equal the
//! difference quotient that `slopes` computes from losses, within an error bound found at this
//! point. The naive evaluator computes both, because an executor may decide a comparison of two
//! almost equal numbers differently. The gradient itself is a program like any other, and is
//! compared on every executor and target. Second derivatives: the slope of this slope, along
//! another direction.
//! Limits: where no sharp bound is found (corners, steps and ties; losses that cancel), and where
//! the loss does not change, nothing is compared, and the case is counted. Elements of a gradient
//! that depend on a decision within rounding errors are compared with quotients, but not between
//! executors.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::coverage::Coverage;
use super::inputs::{Input, Values, shape};
use super::oracle::Oracle;
use super::own::{self, check_all};
use super::program::{Extreme, Fold, Instruction, View, instruction, made, target};
use super::{Failure, Tally, is_full, search, seed};
use crate::dtype::DType;
use crate::fault::{self, Fault};
use crate::op::{Binary, Reduce, Sorted, Unary};
use crate::plan::Target;
use crate::tensor::Op;
use crate::{Tensor, grad};
use slopes::{Reached, STEP, slope};

mod slopes;

/// The largest magnitude of a number in the results that a program keeps.
const MAX_NUMBER: f64 = 1e3;
/// The maximum number of tensors in the loss.
const N_SUMMED: usize = 4;
/// The maximum error of a comparison: the sum of the errors of the difference quotient and of the
/// slope by the gradient. The error is relative to the quotient or, if larger, to the sum of the
/// magnitudes of the slope's terms, but to a sum of at most 1.
const SHARP: f64 = 1e-5;
/// The rounding error of the slope that is computed from the gradient, relative to the sum of the
/// magnitudes of the slope's terms. It is far smaller than the error of a difference quotient.
const OWN_ERROR: f64 = 1e-12;

/// A program of floats with a loss.
#[derive(Debug, Clone)]
struct Differentiable {
    inputs: Vec<Input>,
    instructions: Vec<Instruction>,
    seed: u16,
    target: Target,
}

fn differentiables() -> impl Strategy<Value = Differentiable> {
    let values = prop_oneof![Just(Values::Plain), Just(Values::Positive)];
    let input = (shape(), values, any::<u16>())
        .prop_map(|(shape, values, seed)| Input::new(&shape, DType::F64, values, seed));
    let inputs = prop::collection::vec(input, 1..4);
    // More functions than in other programs, because many are undefined at their arguments.
    let unary = (prop::sample::select(&Unary::ALL[..]), 0_usize..8);
    let unary = unary.prop_map(|(op, x)| Instruction::Unary(op, x));
    // And more overlapping windows, because most axes are too short for them.
    let window = (-4_isize..4, 2_usize..4, 1_usize..3)
        .prop_map(|(axis, size, step)| View::Window { axis, size, step });
    let window = (window, 0_usize..8).prop_map(|(window, x)| Instruction::View(window, x));
    let instructions = prop_oneof![12 => instruction(), 2 => unary, 1 => window];
    let instructions = prop::collection::vec(instructions, 4..48);
    (inputs, instructions, any::<u16>(), target()).prop_map(
        |(inputs, instructions, seed, target)| Differentiable {
            inputs,
            instructions,
            seed,
            target,
        },
    )
}

/// A function at one point: its inputs and value.
struct Sample {
    inputs: Vec<Tensor>,
    /// The results of the kept instructions.
    made: Vec<Tensor>,
    value: Tensor,
}

/// The outcomes of some programs.
#[derive(Debug, Default)]
struct Outcomes {
    programs: usize,
    compared: usize,
    /// Programs without a loss, or with a loss whose slope is not larger than the error bound.
    flat: usize,
    /// Programs near a corner or a step, or without a sharp error bound.
    rough: usize,
    /// Programs with a derivative that overflows at a pole, for example the root of 0.
    poles: usize,
    /// The number of compared programs with each kind of instruction, view and operation.
    kinds: BTreeMap<&'static str, usize>,
    executors: Tally,
}

impl Differentiable {
    /// Returns the numbers of the instructions whose results the program keeps.
    fn kept(&self) -> Vec<usize> {
        let inputs = self.inputs.iter().map(Input::tensor).collect();
        let (mut kept, mut oracle) = (Vec::new(), Oracle::default());
        made(inputs, &self.instructions, |number, tensor| {
            let is_kept = match tensor.node().dtype {
                DType::F64 => oracle
                    .array(tensor)
                    .iter()
                    .all(|element| element.value.to_f64().abs() <= MAX_NUMBER),
                DType::F32 | DType::F16 => false,
                _ => true,
            };
            kept.extend(is_kept.then_some(number));
            is_kept
        });
        kept
    }

    /// Returns a direction: for each input the numbers by which its elements are moved.
    fn direction(&self, order: u16) -> Vec<Input> {
        let numbers = |(at, input): (u16, &Input)| {
            let seed = self.seed.wrapping_add(order << 8).wrapping_add(at);
            Input::new(input.shape(), DType::F64, Values::Plain, seed)
        };
        (1..).zip(&self.inputs).map(numbers).collect()
    }

    /// Returns the function that is differentiated, at inputs that are moved by `by` along the
    /// direction of `order`. The function is the loss for order 1, and the slope of the loss along
    /// the first direction for order 2. Returns `None` if no instruction made a float.
    fn place(&self, kept: &[usize], order: u16, by: f64) -> Result<Option<Sample>, String> {
        let moved = |(input, along): (&Input, &Input)| {
            let numbers = input.numbers().into_iter().zip(along.numbers());
            Tensor::from_vec(input.shape(), numbers.map(|(x, d)| x + by * d).collect())
        };
        let inputs: Vec<Tensor> = self
            .inputs
            .iter()
            .zip(&self.direction(order))
            .map(moved)
            .collect();
        let keeps = |number: usize, _: &Tensor| kept.contains(&number);
        let mut made = made(inputs.clone(), &self.instructions, keeps);
        let made = made.split_off(inputs.len());
        let floats = made.iter().rev();
        let floats = floats.filter(|tensor| tensor.node().dtype == DType::F64);
        let weighted = |(at, tensor): (u16, &Tensor)| {
            let seed = self.seed.wrapping_sub(at);
            let weights = Input::new(&tensor.node().shape, DType::F64, Values::Plain, seed);
            (tensor * weights.tensor()).sum(..)
        };
        let losses = (0..).zip(floats).take(N_SUMMED).map(weighted);
        let Some(mut value) = losses.reduce(|a, b| a + b) else {
            return Ok(None);
        };
        if order == 2 {
            let along = self.direction(1);
            let parts = gradients(&value, &inputs)?.into_iter().zip(&along);
            let parts = parts.map(|(gradient, along)| (gradient * along.tensor()).sum(..));
            value = parts
                .reduce(|a, b| a + b)
                .ok_or("a program without inputs")?;
        }
        Ok(Some(Sample {
            inputs,
            made,
            value,
        }))
    }

    /// Compares the slope computed from the gradient with the difference quotient, and the
    /// gradients between executors and the oracle.
    fn check(&self, order: u16, outcomes: &mut Outcomes) -> Result<(), String> {
        outcomes.programs += 1;
        let kept = self.kept();
        let Some(place) = self.place(&kept, order, 0.0)? else {
            outcomes.flat += 1;
            return Ok(());
        };
        let gradients = gradients(&place.value, &place.inputs)?;
        let along = self.direction(order);
        let along: Vec<f64> = along.iter().flat_map(Input::numbers).collect();
        let (parts, own_rounding) = terms(&gradients, &along);
        let reached = Reached::from(&place.value, &place.inputs)?;
        let magnitude: f64 = parts.iter().map(|part| part.abs()).sum();
        if !magnitude.is_finite() {
            outcomes.poles += 1;
            return if reached.has_pole {
                Ok(())
            } else {
                Err(format!(
                    "the slope is {magnitude}, but no operation is near a pole"
                ))
            };
        }
        let (mut values, mut pieces) = ([0.0; 5], Vec::new());
        for (own, part) in values.iter_mut().zip([-1.0, -0.5, 0.0, 0.5, 1.0]) {
            let place = self.place(&kept, order, part * STEP)?;
            let place = place.ok_or("the program changed")?;
            let (value, piece) = slopes::piece(&place.value, &place.inputs);
            *own = value;
            pieces.push(piece);
        }
        let is_one_piece = pieces.windows(2).all(|pair| pair[0] == pair[1]);
        let (expected, error) = slope(values, reached.rounding);
        let is_sharp = |error: f64| error <= SHARP * expected.abs().max(magnitude.min(1.0));
        if !is_one_piece {
            outcomes.rough += 1;
        } else if magnitude.max(expected.abs()) <= error {
            outcomes.flat += 1;
        } else if !is_sharp(error + own_rounding) {
            outcomes.rough += 1;
        } else {
            let actual: f64 = parts.iter().sum();
            let bound = error + own_rounding + OWN_ERROR * magnitude;
            if (actual - expected).abs() > bound {
                return Err(format!(
                    "order {order}: the slope by the gradient is {actual}, by differences {expected} with an error of \
                     {bound:e} at most"
                ));
            }
            outcomes.compared += 1;
            self.count(&kept, &place, &reached, &mut outcomes.kinds);
        }
        own::check(
            &gradients,
            &self.target,
            &mut outcomes.executors,
            &mut Coverage::default(),
        )
    }

    /// Counts the kinds of instructions that contributed to the value.
    fn count(
        &self,
        kept: &[usize],
        place: &Sample,
        reached: &Reached,
        kinds: &mut BTreeMap<&'static str, usize>,
    ) {
        // If several instructions returned the same tensor unchanged, only the first counts.
        let mut firsts: HashMap<usize, Option<usize>> = HashMap::new();
        let inputs = place.inputs.iter().map(|input| (input, None));
        let made = place.made.iter().zip(kept.iter().copied().map(Some));
        for (tensor, number) in inputs.chain(made) {
            let first = *firsts.entry(tensor.address()).or_insert(number);
            if first == number && reached.has(tensor) {
                let of = number.map(|number| kinds_of(&self.instructions[number]));
                let overlapping = overlaps(tensor).then_some("overlapping_windows");
                for kind in of.into_iter().flatten().chain(overlapping) {
                    *kinds.entry(kind).or_default() += 1;
                }
            }
        }
    }
}

/// Computes the gradients and checks that they have the shapes and types of the inputs.
fn gradients(value: &Tensor, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let wrt: Vec<&Tensor> = inputs.iter().collect();
    let gradients = grad(value, &wrt).map_err(|error| error.to_string())?;
    for (gradient, input) in gradients.iter().zip(inputs) {
        let (own, of) = (gradient.node(), input.node());
        if (&own.shape, own.dtype) != (&of.shape, of.dtype) {
            return Err(format!(
                "the gradient {gradient:?} does not match {input:?}"
            ));
        }
    }
    Ok(gradients)
}

/// Returns the terms of the slope along a direction, and a bound on the rounding error of their
/// sum. The terms of a gradient may cancel, so the error may exceed the size of the slope. The
/// bound takes the oracle's decisions as exact, because the losses of the difference quotient are
/// computed with the same decisions.
fn terms(gradients: &[Tensor], along: &[f64]) -> (Vec<f64>, f64) {
    let mut oracle = Oracle::with_its_decisions();
    let arrays: Vec<_> = gradients.iter().map(|it| oracle.array(it)).collect();
    let elements = || arrays.iter().flat_map(|array| array.iter()).zip(along);
    let terms = elements().map(|(element, by)| element.value.to_f64() * by);
    let terms = terms.collect();
    let moved = elements().filter(|&(_, &by)| by != 0.0);
    let error = moved.map(|(element, by)| element.error * by.abs()).sum();
    (terms, error)
}

/// Returns the kind of an instruction, and the name of its operation.
fn kinds_of(instruction: &Instruction) -> Vec<&'static str> {
    use Instruction as I;
    match instruction {
        I::Unary(op, _) => vec!["unary", op.name()],
        I::Binary(op, ..) => vec!["binary", op.name()],
        I::Repeated { first, then, .. } => vec!["repeated", first.name(), then.name()],
        I::Outer(op, ..) => vec!["outer", op.name()],
        I::WithNumber { op, .. } => vec!["with_number", op.name()],
        I::Compare(op, ..) => vec!["compare", op.name()],
        I::Select(..) => vec!["select"],
        I::Cast(..) => vec!["cast"],
        I::View(view, _) => vec!["view", view_kind(view)],
        I::Concat { .. } => vec!["concat"],
        I::Gather { .. } => vec!["gather"],
        I::TakeAlongAxis { .. } => vec!["take_along_axis"],
        I::Reduce { fold, .. } => vec![
            "reduce",
            match fold {
                Fold::Plain(Reduce::All | Reduce::Any) => "all_or_any",
                Fold::Plain(op) => op.name(),
                Fold::Count => "count",
                Fold::Mean => "mean",
            },
        ],
        I::Scan { op, .. } => vec![match op {
            Reduce::Prod => "cumprod",
            Reduce::Max => "cummax",
            Reduce::Min => "cummin",
            _ => "cumsum",
        }],
        I::Sort { result, .. } => vec![match result {
            Sorted::Elements => "sort",
            Sorted::Positions => "argsort",
        }],
        I::Scatter { op, .. } => vec![match op {
            Reduce::Max => "scatter_max",
            Reduce::Min => "scatter_min",
            _ => "scatter_add",
        }],
        I::Along { extreme, .. } => vec![match extreme {
            Extreme::Argmax => "argmax",
            Extreme::Argmin => "argmin",
            Extreme::Softmax => "softmax",
        }],
        I::Matmul(..) => vec!["matmul"],
        I::Arange(_) | I::Full(..) | I::Rand { .. } | I::Large(_) => vec![],
    }
}

/// Returns `true` if a tensor is a view of windows that share elements.
fn overlaps(tensor: &Tensor) -> bool {
    let node = tensor.node();
    let Op::View { rows, .. } = &node.op else {
        return false;
    };
    rows.iter().any(|row| {
        let walked = row.strides.iter().zip(&node.shape);
        let walked = walked.filter(|(stride, size)| **stride != 0 && **size > 1);
        let walked: Vec<(isize, usize)> = walked.map(|(&stride, &size)| (stride, size)).collect();
        matches!(walked[..], [(step, _), (1, size)] if step.unsigned_abs() < size)
    })
}

fn view_kind(view: &View) -> &'static str {
    match view {
        View::Permute(_) => "permute",
        View::Transpose => "t",
        View::ExpandDims(_) => "expand_dims",
        View::Squeeze(_) => "squeeze",
        View::Slice(_, slice) if slice.step.abs() > 1 => "slice_with_step",
        View::Slice(..) => "slice",
        View::Flip(_) => "flip",
        View::Window { .. } => "window",
        View::Pad { .. } => "pad",
        View::Broadcast { .. } => "broadcast_to",
        View::Reshape(_) => "reshape",
    }
}

/// The number of programs; more than 500 of them have a slope that is compared.
const CASES: u32 = 1_000;
const CASES_IN_FULL: u32 = 40_000;
/// The number of programs of first derivatives per program of second derivatives.
const SECOND_ONE_IN: u32 = 2;

/// The kinds that propagate a slope, and the minimum number of each in 1,000 programs. Operations
/// on one and two arguments that are not among [`DECISIONS`] propagate a slope, too.
const SLOPES: (usize, &str) = (
    2,
    "unary binary outer repeated with_number reduce max mean min prod sum matmul softmax cumsum cumprod cummax cummin sort select concat gather \
     take_along_axis scatter_add scatter_max scatter_min view broadcast_to expand_dims \
     flip pad permute reshape slice slice_with_step squeeze t window \
     overlapping_windows",
);
/// The kinds that propagate no slope, because their results are decisions or constant between
/// steps, and the minimum number of each in 1,000 programs.
const DECISIONS: (usize, &str) = (
    1,
    "ceil floor floor_div round trunc cast compare eq le lt ne is_nan not count_ones and or xor shl shr dot4_i8 all_or_any count argmax argmin argsort",
);

impl Outcomes {
    /// Panics if less than `least` percent of the programs were compared, or if too many programs
    /// were skipped.
    fn assert_compared(&self, least: usize) {
        let share = |n: usize| 100 * n / self.programs;
        assert!(
            share(self.compared) >= least && share(self.rough) < 7 && share(self.poles) < 2,
            "{self:?}"
        );
    }

    fn assert_covered(&self) {
        let decisions: Vec<&str> = DECISIONS.1.split_whitespace().collect();
        let names = Unary::ALL.map(Unary::name).into_iter();
        let names = names.chain(Binary::ALL.map(Binary::name));
        let slopes = SLOPES.1.split_whitespace();
        let slopes = slopes.chain(names.filter(|name| !decisions.contains(name)));
        for (least, kinds) in [
            (SLOPES.0, slopes.collect()),
            (DECISIONS.0, decisions.clone()),
        ] {
            let least = least * self.programs / 1_000;
            for kind in kinds {
                let n = self.kinds.get(kind).copied().unwrap_or_default();
                assert!(
                    n >= least,
                    "{kind}: {n} programs (at least {least} expected): {self:?}"
                );
            }
        }
    }
}

/// Returns a check of the gradients of programs, of the given order.
fn checked(
    order: u16,
    outcomes: &mut Outcomes,
) -> impl FnMut(Differentiable) -> Result<(), String> {
    move |program| program.check(order, outcomes)
}

#[test]
fn gradients_of_random_programs_are_the_slopes() {
    let (cases, seed) = (if is_full() { CASES_IN_FULL } else { CASES }, seed());
    let mut outcomes = Outcomes::default();
    check_all(&differentiables(), cases, seed, checked(1, &mut outcomes));
    eprintln!("PROGRAM_SEED={seed}: {outcomes:?}");
    outcomes.assert_compared(50);
    outcomes.assert_covered();
}

#[test]
fn second_derivatives_of_random_programs_are_the_slopes_of_slopes() {
    let (cases, seed) = (if is_full() { CASES_IN_FULL } else { CASES }, seed());
    let mut outcomes = Outcomes::default();
    let cases = cases / SECOND_ONE_IN;
    check_all(&differentiables(), cases, seed, checked(2, &mut outcomes));
    eprintln!("PROGRAM_SEED={seed}: {outcomes:?}");
    outcomes.assert_compared(30);
}

/// The number of programs within which a fault in gradients must be found.
const UNTIL_FOUND: u32 = 300;

#[track_caller]
fn is_found(fault: Fault) {
    let mut outcomes = Outcomes::default();
    let check = checked(1, &mut outcomes);
    let found = fault::planted(fault, || {
        search(&differentiables(), UNTIL_FOUND, 1, 0, check)
    });
    let Err(Failure { programs, report }) = found else {
        panic!("{fault:?} was not found in {UNTIL_FOUND} programs");
    };
    eprintln!("{fault:?} was found by program {programs}");
    assert!(report.contains("by differences"), "{report}");
}

#[test]
fn windows_handed_back_with_a_wrong_stride_are_found() {
    is_found(Fault::GradientStride);
}

#[test]
fn a_reader_whose_share_is_dropped_is_found() {
    is_found(Fault::GradientShare);
}

#[test]
fn a_difference_with_swapped_derivatives_is_found() {
    is_found(Fault::GradientOperands);
}
