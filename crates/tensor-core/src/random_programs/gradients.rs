//! Gradients of random programs, against central differences in f64.
//!
//! Role: the property test of [`grad`]. Three faults planted in gradients on purpose must show in it.
//! Method: the instructions are those of all random programs, but only what they make of whole numbers, truths and `f64`s
//! of ordinary size is kept. The loss is a weighted sum of the last floats; its slope along a random direction through all
//! inputs, by the gradient that the host executor gives, must be the quotient of differences that `slopes` takes of the
//! naive evaluator's losses, within a bound found at that place. The gradient itself is a program like others, compared on
//! every executor and target as those are. Second derivatives: the slope of that slope, along another direction.
//! Limits: where no sharp bound is found (corners, steps and ties; losses that cancel), nothing is compared, and it is
//! counted; so are losses that do not change.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::coverage::Coverage;
use super::inputs::{Input, Values, shape};
use super::oracle::Oracle;
use super::own::{self, check_all};
use super::program::{Extreme, Fold, Instruction, View, instruction, made, target};
use super::{Failure, Tally, computed, is_full, scalars, search, seed};
use crate::dtype::DType;
use crate::fault::{self, Fault};
use crate::op::{Reduce, Unary};
use crate::plan::{Plan, Target};
use crate::tensor::Op;
use crate::{Executor, Host, Tensor, grad};
use slopes::{Reached, STEP, slope};

mod slopes;

/// The largest number that a program goes on with.
const MAX_NUMBER: f64 = 1e3;
/// How many tensors make up the loss, at most.
const N_SUMMED: usize = 4;
/// The largest error with which a difference is good enough to be compared with: relative to it, or to what cancels in the
/// slope, but then to 1 at most.
const SHARP: f64 = 1e-5;
/// What the slope by the gradient may err by itself, relative to its parts: far less than a difference does.
const OWN_ERROR: f64 = 1e-12;

/// A program of floats that has a slope.
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
    // More functions than elsewhere: many have no value where they are asked for one.
    let unary = (prop::sample::select(&Unary::ALL[..]), 0_usize..8);
    let unary = unary.prop_map(|(op, x)| Instruction::Unary(op, x));
    // And more windows that overlap, for which axes are mostly too short.
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

/// A function at one place: its value, and what it is a function of.
struct Place {
    inputs: Vec<Tensor>,
    /// What the kept instructions made.
    made: Vec<Tensor>,
    value: Tensor,
}

/// What became of some programs.
#[derive(Debug, Default)]
struct Outcomes {
    programs: usize,
    compared: usize,
    /// Losses that no float input moves, or not beyond rounding.
    flat: usize,
    /// A corner or a step is near, or no quotient is sharp.
    rough: usize,
    /// A derivative overflows at a pole, such as that of a root of 0.
    poles: usize,
    /// How often each kind of instruction, view and operation had a share in what was compared.
    kinds: BTreeMap<&'static str, usize>,
    executors: Tally,
}

impl Differentiable {
    /// The numbers of the instructions that programs keep.
    fn kept(&self) -> Vec<usize> {
        let inputs = self.inputs.iter().map(Input::tensor).collect();
        let (mut kept, mut oracle, mut known) = (Vec::new(), Oracle::default(), Vec::new());
        made(inputs, &self.instructions, |number, tensor| {
            // The oracle knows tensors by their address, so they live as long as it does.
            known.push(tensor.clone());
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

    /// Numbers for each input, by which it is moved.
    fn direction(&self, order: u16) -> Vec<Input> {
        let numbers = |(at, input): (u16, &Input)| {
            let seed = self.seed.wrapping_add(order << 8).wrapping_add(at);
            Input::new(input.shape(), DType::F64, Values::Plain, seed)
        };
        (1..).zip(&self.inputs).map(numbers).collect()
    }

    /// The loss, or for the second order its slope along the first direction, where the inputs are moved `by` so much along
    /// the direction of that order; `None` if no instruction made a float.
    fn place(&self, kept: &[usize], order: u16, by: f64) -> Result<Option<Place>, String> {
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
        Ok(Some(Place {
            inputs,
            made,
            value,
        }))
    }

    /// Compares the gradient with differences, and between executors.
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
        let parts: Vec<f64> = on_host(&gradients)?
            .into_iter()
            .zip(&along)
            .map(|(g, d)| g * d)
            .collect();
        let reached = Reached::from(&place.value, &place.inputs)?;
        let magnitude: f64 = parts.iter().map(|part| part.abs()).sum();
        if !magnitude.is_finite() {
            outcomes.poles += 1;
            return if reached.has_pole {
                Ok(())
            } else {
                Err(format!("the slope is {magnitude} where nothing has a pole"))
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
        if !is_one_piece {
            outcomes.rough += 1;
        } else if magnitude.max(expected.abs()) <= error {
            outcomes.flat += 1;
        } else if error <= SHARP * expected.abs().max(magnitude.min(1.0)) {
            let actual: f64 = parts.iter().sum();
            let bound = error + rounding(&gradients, &along) + OWN_ERROR * magnitude;
            if (actual - expected).abs() > bound {
                return Err(format!(
                    "order {order}: the slope by the gradient is {actual}, by differences {expected} with an error of \
                     {bound:e} at most"
                ));
            }
            outcomes.compared += 1;
            self.count(&kept, &place, &reached, &mut outcomes.kinds);
        } else {
            outcomes.rough += 1;
        }
        own::check(
            &gradients,
            &self.target,
            &mut outcomes.executors,
            &mut Coverage::default(),
        )
    }

    /// Counts what had a share in the value, by kinds.
    fn count(
        &self,
        kept: &[usize],
        place: &Place,
        reached: &Reached,
        kinds: &mut BTreeMap<&'static str, usize>,
    ) {
        // A tensor that several instructions gave back unchanged is the first one's.
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

/// The gradients, which must have the shapes and the types of the inputs.
fn gradients(value: &Tensor, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let wrt: Vec<&Tensor> = inputs.iter().collect();
    let gradients = grad(value, &wrt).map_err(|error| error.to_string())?;
    for (gradient, input) in gradients.iter().zip(inputs) {
        let (own, of) = (gradient.node(), input.node());
        if (&own.shape, own.dtype) != (&of.shape, of.dtype) {
            return Err(format!("{gradient:?} is the gradient of {input:?}"));
        }
    }
    Ok(gradients)
}

/// A bound on the rounding error of the slope along a direction: terms of a gradient may cancel, so
/// that its error exceeds its size. Elements whose error has no bound add nothing.
fn rounding(gradients: &[Tensor], along: &[f64]) -> f64 {
    let mut oracle = Oracle::default();
    let elements = gradients.iter().map(|gradient| oracle.array(gradient));
    let errors = elements.flat_map(|array| array.iter().map(|x| x.error).collect::<Vec<_>>());
    let weighted = errors.zip(along).map(|(error, by)| error * by.abs());
    weighted.filter(|error| error.is_finite()).sum()
}

/// The elements of some tensors of `f64`, one after the other.
fn on_host(tensors: &[Tensor]) -> Result<Vec<f64>, String> {
    let (host, asked) = (Host::new(), tensors.iter().collect::<Vec<_>>());
    let (plan, data) = Plan::of(&asked, &host.target()).map_err(|error| error.to_string())?;
    let arrays = computed(&plan, &data, &host)?;
    let elements = arrays.iter().flat_map(scalars);
    Ok(elements.map(crate::dtype::Scalar::to_f64).collect())
}

/// The kind of an instruction, and the operation that it applies.
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
        I::Along { extreme, .. } => vec![match extreme {
            Extreme::Argmax => "argmax",
            Extreme::Argmin => "argmin",
            Extreme::Softmax => "softmax",
        }],
        I::Matmul(..) => vec!["matmul"],
        I::Arange(_) | I::Full(..) | I::Rand { .. } | I::Large(_) => vec![],
    }
}

/// Whether a tensor is a view of windows that share elements.
fn overlaps(tensor: &Tensor) -> bool {
    let node = tensor.node();
    let Op::Move { rows, .. } = &node.op else {
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

/// So many that over 500 have a slope and are compared.
const CASES: u32 = 1_000;
const CASES_IN_FULL: u32 = 40_000;
/// Second derivatives are those of one in so many programs.
const SECOND_ONE_IN: u32 = 2;

/// The kinds that hand a slope on, and the least number of each in 1,000 programs.
const SLOPES: (usize, &str) = (
    2,
    "unary abs cos exp ln neg recip sigmoid sin sqrt tanh binary outer repeated with_number add div maximum minimum mul pow rem \
     sub reduce max mean min prod sum matmul softmax select concat gather take_along_axis view broadcast_to expand_dims \
     flip pad permute reshape slice slice_with_step squeeze t window \
     overlapping_windows",
);
/// The kinds that only decide or step, likewise.
const DECISIONS: (usize, &str) = (
    1,
    "ceil floor floor_div round trunc cast compare eq le lt ne is_nan not and or xor shl shr all_or_any count argmax argmin",
);

impl Outcomes {
    /// Fails if too small a share of the programs was compared, or too many were left out, all of 100.
    fn assert_compared(&self, least: usize) {
        let share = |n: usize| 100 * n / self.programs;
        assert!(
            share(self.compared) >= least && share(self.rough) < 7 && share(self.poles) < 2,
            "{self:?}"
        );
    }

    fn assert_covered(&self) {
        for (least, kinds) in [SLOPES, DECISIONS] {
            let least = least * self.programs / 1_000;
            for kind in kinds.split_whitespace() {
                let n = self.kinds.get(kind).copied().unwrap_or_default();
                assert!(n >= least, "{n} {kind} instead of {least}: {self:?}");
            }
        }
    }
}

/// Checks gradients of programs of that order.
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

/// The programs within which a fault in gradients must show.
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
