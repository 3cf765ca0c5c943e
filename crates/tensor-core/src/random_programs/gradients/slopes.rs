//! Slopes by differences, and how far they can be trusted.
//!
//! Method: two central quotients, of steps `h` and `h / 2`, and what they leave open. Where the function has four
//! derivatives the quotients differ by three times the error of the second one, and its second differences at `h` are four times
//! those at `h / 2`. A corner or a step within `h` breaks at least one of these rules by as much as it moves the second
//! quotient, wherever it lies: a corner at the place itself leaves both quotients alike, but not the second differences.
//! Rounding adds what it moves each value by; to first order, that is the sum over all operations on the way of
//! what they round times their cotangents.
//! Source: Linnainmaa 1970, who found reverse accumulation for just that sum.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::op::{Binary, Reduce, Unary};
use crate::tensor::Op;
use crate::{Tensor, grad};

use super::super::oracle::Oracle;

/// How far the inputs are moved along a direction: its cube is about the rounding of an `f64`.
pub(super) const STEP: f64 = 1.0 / 16384.0;

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
    /// Whether an operation on the way has a pole of its derivative where it is taken: a root or a power of 0.
    pub(super) has_pole: bool,
}

impl Reached {
    pub(super) fn from(value: &Tensor, inputs: &[Tensor]) -> Result<Self, String> {
        let mut counts: HashMap<usize, bool> =
            inputs.iter().map(|input| (input.address(), true)).collect();
        let mut nodes = inputs.to_vec();
        depends(value, &mut counts, &mut nodes);
        let floats = nodes.iter().filter(|node| node.node().dtype == DType::F64);
        let floats: Vec<&Tensor> = floats.collect();
        let cotangents = grad(value, &floats).map_err(|error| error.to_string())?;
        let (mut oracle, mut rounding, mut has_pole) = (Oracle::default(), 0.0, false);
        for (tensor, cotangent) in floats.iter().zip(&cotangents) {
            let numbers = |oracle: &mut Oracle, tensor: &Tensor| -> Vec<f64> {
                let array = oracle.array(tensor);
                array.iter().map(|element| element.value.to_f64()).collect()
            };
            let cotangent = numbers(&mut oracle, cotangent);
            counts.insert(tensor.address(), cotangent.iter().any(|&by| by != 0.0));
            let node = tensor.node();
            let first = node.inputs.first();
            let own = numbers(&mut oracle, tensor);
            let by_own = || -> f64 {
                own.iter()
                    .zip(&cotangent)
                    .map(|(x, by)| (x * by).abs())
                    .sum()
            };
            rounding += match node.op {
                Op::Unary(_) | Op::Binary(_) => by_own(),
                Op::Reduce {
                    op: Reduce::Sum | Reduce::Prod,
                    ..
                } if !own.is_empty() => {
                    let folded = first.map_or(Vec::new(), |first| numbers(&mut oracle, first));
                    let len = folded.len() / own.len();
                    let sum = |at: usize| -> f64 {
                        folded[at * len..(at + 1) * len]
                            .iter()
                            .map(|x| x.abs())
                            .sum()
                    };
                    let sums = || (0..own.len()).map(|at| sum(at) * cotangent[at].abs()).sum();
                    let is_sum = matches!(
                        node.op,
                        Op::Reduce {
                            op: Reduce::Sum,
                            ..
                        }
                    );
                    len as f64 * if is_sum { sums() } else { by_own() }
                }
                _ => 0.0,
            };
            has_pole |= match (&node.op, first) {
                (Op::Unary(Unary::Sqrt) | Op::Binary(Binary::Pow), Some(first)) => {
                    numbers(&mut oracle, first).contains(&0.0)
                }
                _ => false,
            };
        }
        let rounding = rounding * f64::EPSILON;
        Ok(Self {
            counts,
            rounding,
            has_pole,
        })
    }

    /// Whether a change of a tensor is handed on, or for whole numbers and truths: whether the inputs decide on it.
    pub(super) fn has(&self, tensor: &Tensor) -> bool {
        self.counts.get(&tensor.address()) == Some(&true)
    }
}

/// Whether a tensor depends on those that count already, in whatever way; adds those that do to `nodes`.
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
