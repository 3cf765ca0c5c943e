//! Slopes by differences, and how far they can be trusted.
//!
//! Method: two central quotients, of steps `h` and `h / 2`. Where the function has four derivatives they differ by three times
//! the error of the second one, and its second differences at `h` are four times those at `h / 2`; what either rule
//! misses bounds the error. Corners and steps are told by what the program decides on its way ([`piece`]): that must be
//! the same at all five places. Rounding adds what it moves each value by; to first order, that is the sum over all
//! operations on the way of what they round times their cotangents.
//! Source: Linnainmaa 1970, who found reverse accumulation for just that sum.

use std::collections::HashMap;

use super::super::oracle::Oracle;
use crate::dtype::DType;
use crate::op::{Binary, Reduce, Unary};
use crate::tensor::Op;
use crate::{Tensor, grad};

/// How far the inputs are moved along a direction, at most. Its square is the relative error of a quotient, about 4e-9, and
/// a rounding of one part in 2^53 becomes 2e-12.
pub(super) const STEP: f64 = 1.0 / 16384.0;

/// Below this size the third power of a reciprocal, as in second derivatives, is no `f64`.
const TINY: f64 = 1e-100;

/// The slope at the middle of five values, of places half a [`STEP`] apart, each of them rounded by so much at most; and how
/// far from it the true one may be.
pub(super) fn slope([a, b, c, d, e]: [f64; 5], rounding: f64) -> (f64, f64) {
    let (wide, near) = ((e - a) / (2.0 * STEP), (d - b) / STEP);
    let bend = ((e - c) + (a - c) - 4.0 * ((d - c) + (b - c))) / STEP;
    let error = (wide - near).abs() + bend.abs() + 2.0 * rounding / STEP;
    (near, error)
}

/// What a value is computed from.
pub(super) struct Reached {
    /// For each node whether a change of it is handed on, by its address.
    counts: HashMap<usize, bool>,
    /// How far rounding may move the value, to first order.
    pub(super) rounding: f64,
    /// Whether an operation on the way is so near a pole of its derivatives that they may overflow.
    pub(super) has_pole: bool,
}

impl Reached {
    pub(super) fn from(value: &Tensor, inputs: &[Tensor]) -> Result<Self, String> {
        let (counts, nodes) = between(value, inputs);
        let floats = nodes.iter().filter(|node| node.node().dtype == DType::F64);
        let floats: Vec<&Tensor> = floats.collect();
        let cotangents = grad(value, &floats).map_err(|error| error.to_string())?;
        let mut reached = Self {
            counts,
            rounding: 0.0,
            has_pole: false,
        };
        let mut oracle = Oracle::default();
        for (tensor, cotangent) in floats.iter().zip(&cotangents) {
            let cotangent = numbers(&mut oracle, cotangent);
            let is_handed_on = cotangent.iter().any(|&by| by != 0.0);
            reached.counts.insert(tensor.address(), is_handed_on);
            let rounded = rounded(tensor, &cotangent, &mut oracle);
            reached.rounding += f64::EPSILON * rounded;
            reached.has_pole |= has_pole(tensor, &mut oracle);
        }
        Ok(reached)
    }

    /// Whether a change of a tensor is handed on, or for whole numbers and truths: whether the inputs decide on it.
    pub(super) fn has(&self, tensor: &Tensor) -> bool {
        self.counts.get(&tensor.address()) == Some(&true)
    }
}

/// What a node rounds, times its cotangent: for a fold as often as it has elements.
fn rounded(tensor: &Tensor, cotangent: &[f64], oracle: &mut Oracle) -> f64 {
    let node = tensor.node();
    let own = numbers(oracle, tensor);
    let weighted = |sizes: &[f64]| -> f64 {
        let parts = sizes.iter().zip(cotangent);
        parts.map(|(size, by)| (size * by).abs()).sum()
    };
    match node.op {
        Op::Unary(_) | Op::Binary(_) => weighted(&own),
        Op::Reduce { op, .. } if !own.is_empty() => {
            let folded = numbers(oracle, &node.inputs[0]);
            let len = folded.len() / own.len();
            let sum = |at: usize| {
                folded[at * len..(at + 1) * len]
                    .iter()
                    .map(|x| x.abs())
                    .sum()
            };
            match op {
                Reduce::Sum => len as f64 * weighted(&(0..own.len()).map(sum).collect::<Vec<_>>()),
                Reduce::Prod => len as f64 * weighted(&own),
                Reduce::Max | Reduce::Min | Reduce::All | Reduce::Any => 0.0,
            }
        }
        _ => 0.0,
    }
}

/// Whether a root, a logarithm, a power or a reciprocal of almost 0 is taken, or of infinity, or an infinite power.
fn has_pole(tensor: &Tensor, oracle: &mut Oracle) -> bool {
    let node = tensor.node();
    let mut has = |input: usize, is_pole: fn(f64) -> bool| {
        let numbers = numbers(oracle, &node.inputs[input]);
        numbers.into_iter().any(is_pole)
    };
    let at_end = |x: f64| x.abs() < TINY || x.is_infinite();
    match node.op {
        Op::Unary(Unary::Sqrt | Unary::Ln | Unary::Recip) => has(0, at_end),
        Op::Binary(Binary::Div) => has(1, at_end),
        Op::Binary(Binary::Pow) => has(0, at_end) || has(1, f64::is_infinite),
        _ => false,
    }
}

/// A value, and which piece of the function it lies on: whole numbers and truths on the way, what steps give, and which
/// argument or element an extreme takes.
pub(super) fn piece(value: &Tensor, inputs: &[Tensor]) -> (f64, Vec<f64>) {
    let (_, nodes) = between(value, inputs);
    let mut oracle = Oracle::default();
    let pieces = nodes.iter().flat_map(|node| decided(node, &mut oracle));
    let pieces = pieces.collect();
    (numbers(&mut oracle, value)[0], pieces)
}

/// What one node decides.
fn decided(tensor: &Tensor, oracle: &mut Oracle) -> Vec<f64> {
    let node = tensor.node();
    let own = numbers(oracle, tensor);
    let mut input = |number: usize| numbers(oracle, &node.inputs[number]);
    match node.op {
        _ if node.dtype != DType::F64 => own,
        Op::Unary(Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc)
        | Op::Binary(Binary::FloorDiv) => own,
        Op::Unary(Unary::Abs) => input(0).into_iter().map(f64::signum).collect(),
        Op::Binary(Binary::Rem) => joined(&input(0), &input(1), |a, b| (a / b).floor()),
        Op::Binary(Binary::Maximum | Binary::Minimum) => joined(&input(0), &input(1), |a, b| {
            f64::from(u8::from(a > b)) - f64::from(u8::from(a < b))
        }),
        Op::Reduce {
            op: Reduce::Max | Reduce::Min,
            ..
        } => {
            let folded = input(0);
            let len = folded.len().checked_div(own.len()).unwrap_or_default();
            let is_taken = |(at, x): (usize, &f64)| f64::from(u8::from(*x == own[at / len]));
            folded.iter().enumerate().map(is_taken).collect()
        }
        _ => Vec::new(),
    }
}

fn joined(a: &[f64], b: &[f64], f: fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

fn numbers(oracle: &mut Oracle, tensor: &Tensor) -> Vec<f64> {
    let array = oracle.array(tensor);
    array.iter().map(|element| element.value.to_f64()).collect()
}

/// The nodes that depend on some tensors in whatever way, these included, on the way to a value; and for each node there
/// whether it does. Their order is that of the program, whatever its numbers are.
fn between(value: &Tensor, inputs: &[Tensor]) -> (HashMap<usize, bool>, Vec<Tensor>) {
    let mut counts = inputs.iter().map(|input| (input.address(), true)).collect();
    let mut nodes = inputs.to_vec();
    depends(value, &mut counts, &mut nodes);
    (counts, nodes)
}

fn depends(tensor: &Tensor, counts: &mut HashMap<usize, bool>, nodes: &mut Vec<Tensor>) -> bool {
    if let Some(&known) = counts.get(&tensor.address()) {
        return known;
    }
    let mut does = false;
    for input in &tensor.node().inputs {
        does |= depends(input, counts, nodes);
    }
    counts.insert(tensor.address(), does);
    if does {
        nodes.push(tensor.clone());
    }
    does
}
