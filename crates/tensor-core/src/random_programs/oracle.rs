//! Programs evaluated node by node, without a plan.
//!
//! Role: the oracle of the property test. It only uses nodes and the definitions in [`crate::op`];
//! it does not depend on fusion, index maps of buffers, or executors.
//! Method: every node becomes an array of scalars, each with a bound on the error that an executor
//! may make (see `exec::analysis`), propagated through the whole program. Float sums and products
//! are computed in f64, in order.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::dtype::{DType, Scalar};
use crate::exec::Accuracy;
use crate::exec::analysis::{Approximate, FoldError, Terms};
use crate::ir::IndexMap;
use crate::op::{Binary, Compare, Reduce, Scan, Sort, Sorted, Unary};
use crate::rng::philox4x32_10;
use crate::tensor::{Node, Op, Tensor};

/// The elements of one tensor, row-major.
pub(super) type Array = Vec<Approximate>;

/// A cache of arrays by the address of their node.
pub(super) struct Oracle {
    /// Each array with its tensor, because the address of a tensor that was dropped may become that
    /// of another tensor.
    known: HashMap<usize, (Tensor, Rc<Array>)>,
    /// The terms of arrays whose elements are sums of floats, or views of such an array.
    terms: HashMap<usize, Terms>,
    accuracy: Accuracy,
    /// Whether integers, booleans and the results of step functions have no errors.
    is_decided: bool,
}

impl Default for Oracle {
    fn default() -> Self {
        Self::new(Accuracy::IEEE)
    }
}

impl Oracle {
    /// Creates an oracle for executors of some accuracy.
    pub(super) fn new(accuracy: Accuracy) -> Self {
        Self {
            known: HashMap::new(),
            terms: HashMap::new(),
            accuracy,
            is_decided: false,
        }
    }

    /// Creates an oracle whose error bounds hold if every decision of a program is the oracle's:
    /// integers, booleans and the results of step functions are exact.
    pub(super) fn with_its_decisions() -> Self {
        Self {
            is_decided: true,
            ..Self::default()
        }
    }

    /// Returns the elements of a tensor.
    pub(super) fn array(&mut self, tensor: &Tensor) -> Rc<Array> {
        if let Some((_, known)) = self.known.get(&tensor.address()) {
            return Rc::clone(known);
        }
        let node = tensor.node();
        let inputs: Vec<Rc<Array>> = node.inputs.iter().map(|input| self.array(input)).collect();
        let first = node.inputs.first().map(Tensor::address);
        let terms = first.and_then(|input| self.terms.get(&input)).copied();
        let (mut array, terms) = match &node.op {
            Op::Reduce { op, .. } => reduced(*op, node, &inputs[0], terms, self.accuracy),
            op => {
                let is_view = matches!(op, Op::Reshape | Op::View { .. } | Op::Pad { .. });
                (
                    computed(node, &inputs, self.accuracy),
                    terms.filter(|_| is_view),
                )
            }
        };
        if let Some(terms) = terms {
            self.terms.insert(tensor.address(), terms);
        }
        if self.is_decided && is_decision(node) {
            array.iter_mut().for_each(|element| element.error = 0.0);
        }
        let array = Rc::new(array);
        assert_eq!(
            array.len(),
            node.shape.iter().product::<usize>(),
            "{tensor:?}"
        );
        let known = (tensor.clone(), Rc::clone(&array));
        self.known.insert(tensor.address(), known);
        array
    }
}

/// Returns whether a node is an integer, a boolean, or the result of a step function.
pub(super) fn is_decision(node: &Node) -> bool {
    let is_step = matches!(
        node.op,
        Op::Unary(Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc)
            | Op::Binary(Binary::FloorDiv)
    );
    is_step || !node.dtype.is_float()
}

/// Computes the elements of a node that is no reduction from those of its inputs.
fn computed(node: &Node, inputs: &[Rc<Array>], accuracy: Accuracy) -> Array {
    let each = |f: &dyn Fn(usize) -> Approximate| (0..inputs[0].len()).map(f).collect();
    let from_input = |number: usize, at: usize| inputs[number][at];
    match &node.op {
        Op::Error(error) => panic!("error node: {error}"),
        Op::Data(storage) => {
            let data = pollster::block_on(Arc::clone(storage).read())
                .expect("the inputs of random programs are in host memory");
            (0..data.len())
                .map(|at| exact(data.get(at).expect("the position is below the length")))
                .collect()
        }
        Op::Const(scalar) => vec![exact(*scalar)],
        Op::Index => (0..)
            .take(node.shape[0])
            .map(|at| exact(Scalar::U32(at)))
            .collect(),
        Op::Random { key, stride, first } => each(&|at| {
            let place = (*stride, *first);
            random(*key, place, [0, 1, 2].map(|input| from_input(input, at)))
        }),
        Op::Unary(op) => each(&|at| {
            let x = from_input(0, at);
            let value = op.eval(x.value);
            with_error(value, accuracy.unary(*op, x, value))
        }),
        Op::Binary(op) => each(&|at| {
            let (a, b) = (from_input(0, at), from_input(1, at));
            let value = op.eval(a.value, b.value);
            with_error(value, accuracy.binary(*op, a, b, value))
        }),
        Op::Compare(op) => each(&|at| {
            let (a, b) = (from_input(0, at), from_input(1, at));
            with_error(
                Scalar::Bool(op.eval(a.value, b.value)),
                accuracy.compare(*op, a, b),
            )
        }),
        Op::Select => each(&|at| {
            let (condition, yes, no) = (from_input(0, at), from_input(1, at), from_input(2, at));
            let is_yes = condition.value == Scalar::Bool(true);
            let (taken, other) = if is_yes { (yes, no) } else { (no, yes) };
            with_error(taken.value, accuracy.select(condition, taken, other))
        }),
        Op::Cast => each(&|at| {
            let x = from_input(0, at);
            let value = x.value.cast(node.dtype);
            with_error(value, accuracy.cast(x, value))
        }),
        Op::Reshape | Op::Surrogate => inputs[0].to_vec(),
        Op::View { rows, .. } => moved(node, rows, &inputs[0]),
        Op::Pad { before, fill } => padded(node, before, *fill, &inputs[0]),
        Op::Gather { axis, rows } => gathered(node, *axis, rows, &inputs[0], &inputs[1]),
        Op::Reduce { .. } => unreachable!("`Oracle::array` computes reductions"),
        Op::Scan(scan) => scanned(*scan, node, &inputs[0], accuracy),
        Op::Sort(sort) => sorted(*sort, node, &inputs[0], accuracy),
    }
}

/// Computes the elements of a reduction, and the properties of the terms if they are sums of
/// floats. `inner` are the terms of the input.
fn reduced(
    op: Reduce,
    node: &Node,
    input: &Array,
    inner: Option<Terms>,
    accuracy: Accuracy,
) -> (Array, Option<Terms>) {
    // The reduced axes are the last ones, so each output folds one contiguous chunk.
    let lines: usize = node.shape.iter().product();
    let len = input.len().checked_div(lines).unwrap_or(0);
    let is_sum = op == Reduce::Sum && node.dtype.is_float();
    let mut terms: Option<Terms> = None;
    let mut line = |at: usize| {
        let mut error = FoldError::of_sums(op, inner.filter(|_| is_sum));
        let element = folded(
            &mut error,
            op,
            node,
            &input[at * len..(at + 1) * len],
            accuracy,
        );
        let own = error.terms(node.dtype, element.error);
        terms = Some(terms.map_or(own, |terms| terms.joined(own)));
        element
    };
    let array = (0..lines).map(&mut line).collect();
    (array, terms.filter(|_| is_sum))
}

fn exact(value: Scalar) -> Approximate {
    with_error(value, 0.0)
}

fn with_error(value: Scalar, error: f64) -> Approximate {
    Approximate { value, error }
}

/// Returns a random word, given its position and the two words of its stream's number.
fn random(key: [u32; 2], (stride, first): (u32, u32), operands: [Approximate; 3]) -> Approximate {
    let [at, low, high] = operands.map(|operand| match operand.value {
        Scalar::U32(word) => word,
        other => panic!("random: {} operand (expected u32)", other.dtype()),
    });
    let word = at.wrapping_mul(stride).wrapping_add(first);
    let block = philox4x32_10([word / 4, 0, low, high], key);
    let error = operands.iter().map(|operand| operand.error).sum();
    with_error(Scalar::U32(block[word as usize % 4]), error)
}

/// Calls `f` with each index of a shape, in row-major order, and returns the results.
fn at_each_index<T>(shape: &[usize], mut f: impl FnMut(usize, &[usize]) -> T) -> Vec<T> {
    let len: usize = shape.iter().product();
    let mut index = vec![0; shape.len()];
    let next = |at| {
        let result = f(at, &index);
        for (place, &size) in index.iter_mut().zip(shape).rev() {
            *place += 1;
            if *place < size {
                break;
            }
            *place = 0;
        }
        result
    };
    (0..len).map(next).collect()
}

/// Returns the row-major position of an index with a coordinate for each axis, or `None` if a
/// coordinate is out of range.
fn place(shape: &[usize], index: impl Iterator<Item = isize>) -> Option<usize> {
    let mut at = 0;
    for (axis, coordinate) in index.enumerate() {
        let coordinate = usize::try_from(coordinate).ok()?;
        if coordinate >= shape[axis] {
            return None;
        }
        at = at * shape[axis] + coordinate;
    }
    Some(at)
}

fn moved(node: &Node, rows: &[IndexMap], source: &Array) -> Array {
    let from = &node.inputs[0].node().shape;
    at_each_index(&node.shape, |_, index| {
        let at = place(from, rows.iter().map(|row| row.at(index)));
        source[at.expect("a view stays inside its source")]
    })
}

fn padded(node: &Node, before: &[usize], fill: Scalar, source: &Array) -> Array {
    let from = &node.inputs[0].node().shape;
    at_each_index(&node.shape, |_, index| {
        let inner = index
            .iter()
            .zip(before)
            .map(|(&at, &before)| at.cast_signed() - before.cast_signed());
        place(from, inner).map_or(exact(fill), |at| source[at])
    })
}

fn gathered(
    node: &Node,
    axis: usize,
    rows: &[IndexMap],
    table: &Array,
    positions: &Array,
) -> Array {
    let from = &node.inputs[0].node().shape;
    at_each_index(&node.shape, |number, index| {
        let position = positions[number];
        let mut coordinates: Vec<isize> = rows.iter().map(|row| row.at(index)).collect();
        let shift = match position.value {
            Scalar::I32(at) if at < 0 => at as isize + from[axis].cast_signed(),
            Scalar::I32(at) => at as isize,
            Scalar::U32(at) => at as isize,
            other => panic!("gather: index of type {}", other.dtype()),
        };
        coordinates[axis] += shift;
        let at = place(from, coordinates.into_iter())
            .expect("`positions` keeps indices within the axis");
        // A wrong position reads an unrelated element.
        let error = if position.error == 0.0 {
            table[at].error
        } else {
            f64::INFINITY
        };
        with_error(table[at].value, error)
    })
}

/// Computes one element of a reduction, and collects the data of its error.
fn folded(
    error: &mut FoldError,
    op: Reduce,
    node: &Node,
    line: &[Approximate],
    accuracy: Accuracy,
) -> Approximate {
    let wide = node.dtype.is_float() && matches!(op, Reduce::Sum | Reduce::Prod);
    let within = if wide { DType::F64 } else { node.dtype };
    // A sum starts at +0.0, so a sum of negative zeros is +0.0. A sum over no axes adds nothing and
    // keeps -0.0.
    let is_sum = op == Reduce::Sum && node.shape.len() < node.inputs[0].node().shape.len();
    let mut so_far = is_sum.then(|| Scalar::zero(within));
    for element in line {
        error.push(*element);
        let next = element.value.cast(within);
        so_far = Some(so_far.map_or(next, |so_far| op.binary().eval(so_far, next)));
    }
    let source = node.inputs[0].node().dtype;
    let result = so_far
        .or_else(|| op.identity(source))
        .expect("the maximum of no elements is rejected before");
    let result = result.cast(node.dtype);
    with_error(result, accuracy.folded(error, result))
}

/// Computes the elements of a scan.
fn scanned(scan: Scan, node: &Node, input: &Array, accuracy: Accuracy) -> Array {
    let (n, stride) = (
        node.shape[scan.axis],
        node.shape[scan.axis + 1..].iter().product::<usize>(),
    );
    let wide = node.dtype.is_float() && matches!(scan.op, Reduce::Sum | Reduce::Prod);
    let within = if wide { DType::F64 } else { node.dtype };
    let mut results = input.clone();
    // The first elements of all lines.
    for first in (0..input.len()).filter(|at| at / stride % n == 0) {
        let mut so_far = scan.start(node.dtype).cast(within);
        let mut error = FoldError::new(scan.op);
        for step in 0..n {
            let step = if scan.reversed { n - 1 - step } else { step };
            let at = first + step * stride;
            let result = |so_far: Scalar, error: &mut FoldError| {
                let result = so_far.cast(node.dtype);
                with_error(result, accuracy.folded(error, result))
            };
            if scan.exclusive {
                results[at] = result(so_far, &mut error);
            }
            so_far = scan.op.binary().eval(so_far, input[at].value.cast(within));
            error.push(input[at]);
            if !scan.exclusive {
                results[at] = result(so_far, &mut error);
            }
        }
    }
    results
}

/// Computes the elements of a sort.
fn sorted(sort: Sort, node: &Node, input: &Array, accuracy: Accuracy) -> Array {
    let (n, stride) = (
        node.shape[sort.axis],
        node.shape[sort.axis + 1..].iter().product::<usize>(),
    );
    let mut results = input.clone();
    for first in (0..input.len()).filter(|at| at / stride % n == 0) {
        let line = (0..n).map(|step| input[first + step * stride]);
        let mut line: Vec<(u32, Approximate)> = (0..).zip(line).collect();
        let is_before = |a: f64, b: f64| {
            let differs = if sort.descending { a > b } else { a < b };
            differs || (b.is_nan() && !a.is_nan())
        };
        line.sort_by(|(_, a), (_, b)| {
            let (a, b) = (a.value.to_f64(), b.value.to_f64());
            is_before(b, a).cmp(&is_before(a, b))
        });
        // The value at each place changes by at most the largest error of the line.
        let largest = line.iter().map(|(_, x)| x.error).fold(0.0, f64::max);
        // If two neighbours may change places, any position may be wrong. An element with an
        // infinite error may have any place. A comparison with NaN does not show this: its outcome
        // is certain, whatever the other element is.
        let may_swap = line.windows(2).any(|pair| {
            let [(_, a), (_, b)] = [pair[0], pair[1]];
            let error = a.error + b.error;
            error.is_infinite() || error > 0.0 && accuracy.compare(Compare::Le, a, b) > 0.0
        });
        for (step, (position, element)) in line.into_iter().enumerate() {
            results[first + step * stride] = match sort.result {
                Sorted::Elements => with_error(element.value, largest),
                Sorted::Positions if may_swap => with_error(Scalar::U32(position), f64::INFINITY),
                Sorted::Positions => exact(Scalar::U32(position)),
            };
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_a_value_that_may_be_nan_are_uncertain() {
        // The sums are certainly negative, but for the one in the middle, whose terms cancel.
        let terms = vec![-1.0_f32, -1.0, -1.0, 3e7, -3e7, -1.0, -1.0, -1.0, -1.0];
        let logarithms = Tensor::from_vec(&[3, 3], terms).sum(-1).ln();
        let mut oracle = Oracle::default();
        let positions = oracle.array(&logarithms.argsort(0)).to_vec();
        assert!(
            positions
                .iter()
                .all(|position| position.error.is_infinite())
        );
    }

    #[test]
    fn a_dropped_tensor_is_not_taken_for_a_later_one() {
        let mut oracle = Oracle::default();
        for len in 1..100 {
            let tensor = Tensor::full(&[len], len as f64);
            let array = oracle.array(&tensor.cumsum(0));
            let last = array.last().map(|element| element.value.to_f64());
            assert_eq!(last, Some((len * len) as f64));
        }
    }
}
