//! Slopes from finite differences, and bounds on their errors.
//!
//! Method: two central difference quotients, of steps `h` and `h / 2`. If the function has four
//! derivatives, the two quotients differ by three times the error of the second one, and the second
//! difference at `h` is four times the one at `h / 2`. The deviation from both rules bounds the
//! error. Corners and steps of the function are detected by the decisions that the program makes
//! ([`piece`]), which must be equal at all five points. Rounding errors are added: to first order,
//! the sum over all operations of the rounding error times the cotangent.
//! Source: Linnainmaa 1970, who introduced reverse accumulation to compute this sum.

use std::collections::HashMap;

use super::super::oracle::{Oracle, is_decision};
use crate::dtype::DType;
use crate::op::{Binary, Reduce, Sort, Sorted, Unary};
use crate::tensor::Op;
use crate::{Tensor, grad};

/// The maximum distance by which the inputs are moved along a direction. Its square, the relative
/// error of a quotient, is about 4e-9; a rounding error of one part in 2^53 becomes 2e-12.
pub(super) const STEP: f64 = 1.0 / 16384.0;

/// Below this size the third power of a reciprocal, which occurs in second derivatives, may
/// overflow `f64`.
const TINY: f64 = 1e-100;

/// Returns the slope at the middle of five values at points half a [`STEP`] apart, and a bound on
/// its error. `rounding` is a bound on the rounding error of each value.
pub(super) fn slope([a, b, c, d, e]: [f64; 5], rounding: f64) -> (f64, f64) {
    let (wide, near) = ((e - a) / (2.0 * STEP), (d - b) / STEP);
    let bend = ((e - c) + (a - c) - 4.0 * ((d - c) + (b - c))) / STEP;
    let error = (wide - near).abs() + bend.abs() + 2.0 * rounding / STEP;
    (near, error)
}

/// Facts about the nodes from which a value is computed.
pub(super) struct Reached {
    /// For each node, by its address, whether a change of the node changes the value.
    counts: HashMap<usize, bool>,
    /// A bound on the rounding error of the value, to first order.
    pub(super) rounding: f64,
    /// Whether an operand of some operation is so close to a pole of the operation's derivatives
    /// that they may overflow.
    pub(super) has_pole: bool,
}

impl Reached {
    /// Collects the facts from the program and its cotangents.
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

    /// Returns `true` if a change of a tensor changes the value; for integers and booleans, which
    /// have no slope, returns `true` if the tensor depends on the inputs.
    pub(super) fn has(&self, tensor: &Tensor) -> bool {
        self.counts.get(&tensor.address()) == Some(&true)
    }
}

/// Returns the rounding error of a node in units of epsilon, times its cotangent; a reduction
/// rounds once for each of its elements.
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
        Op::Scan(scan) => {
            // One rounding for each element of a line.
            let n = node.shape[scan.axis] as f64;
            match scan.op {
                Reduce::Sum => {
                    let sizes = oracle.array(&node.inputs[0].abs().scanned_by(scan));
                    let sizes: Vec<f64> = sizes.iter().map(|x| x.value.to_f64()).collect();
                    n * weighted(&sizes)
                }
                Reduce::Prod => n * weighted(&own),
                Reduce::Max | Reduce::Min | Reduce::All | Reduce::Any => 0.0,
            }
        }
        _ => 0.0,
    }
}

/// Returns `true` for a root, logarithm, power or reciprocal of almost 0 or of infinity, and for an
/// infinite exponent.
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

/// Returns the number in `value`, and a description of the piece of the function that contains the
/// inputs. The description lists the results of all decisions on the way: all integers and
/// booleans, the results of step functions, and which operands or elements extremes select.
pub(super) fn piece(value: &Tensor, inputs: &[Tensor]) -> (f64, Vec<f64>) {
    let (_, nodes) = between(value, inputs);
    let mut oracle = Oracle::default();
    let pieces = nodes.iter().flat_map(|node| decided(node, &mut oracle));
    let pieces = pieces.collect();
    (numbers(&mut oracle, value)[0], pieces)
}

/// Returns the decisions of one node, as [`piece`] lists them.
fn decided(tensor: &Tensor, oracle: &mut Oracle) -> Vec<f64> {
    let node = tensor.node();
    let own = numbers(oracle, tensor);
    let mut input = |number: usize| numbers(oracle, &node.inputs[number]);
    match node.op {
        _ if is_decision(node) => own,
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
        Op::Scan(scan) if matches!(scan.op, Reduce::Max | Reduce::Min) => {
            // The number of elements that equal each result, and the sum of their positions, say
            // which elements the results are.
            let (elements, n) = (input(0), node.shape[scan.axis]);
            let stride: usize = node.shape[scan.axis + 1..].iter().product();
            let taken = |(at, result): (usize, &f64)| {
                let first = at - at / stride % n * stride;
                let line = (0..n).map(|step| first + step * stride);
                line.filter(|&other| elements[other] == *result)
                    .map(|other| 1.0 + (other as f64).sqrt())
                    .sum::<f64>()
            };
            own.iter().enumerate().map(taken).collect()
        }
        Op::Sort(sort) => {
            // The order of the elements is the decision.
            let order = node.inputs[0].sorted_by(Sort {
                result: Sorted::Positions,
                ..sort
            });
            numbers(oracle, &order)
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

/// Returns the nodes between some tensors and a value, the tensors included, in the order of the
/// program; and for each visited node whether it depends on the tensors.
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
