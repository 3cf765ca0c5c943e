//! Reductions over pairs of elements.
//!
//! Role: finds the nests that reduce a function of two loaded elements: products of matrices,
//! convolutions, distances of all pairs, similarities, products of packed bits and tropical
//! products. The host executor computes large ones in tiles of registers, so the planner does not
//! put them into bands.

use super::{LoopNest, Value, ValueId};
use crate::dtype::{DType, Scalar};
use crate::op::{Binary, Compare, Reduce, Unary};

/// A function of an element `x` of the left factor and an element `y` of the right factor. All
/// functions are commutative, because symmetric results are mirrored ([`Pairs::is_symmetric`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairFunction {
    /// `x * y`.
    Product,
    /// `x + y`.
    Sum,
    /// `|x - y|`.
    AbsDifference,
    /// The sum of the products of four signed bytes.
    Dot4I8,
}

/// A function of the bits of two words, commutative as each [`PairFunction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BitFunction {
    And,
    Xor,
}

/// The reduction that is computed for each pair of a row and a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reduction {
    /// A reduction of the function's values.
    Number(PairFunction, Reduce),
    /// A reduction of comparisons of the function's values with a constant.
    Compared(PairFunction, Reduce, Compare, f32),
    /// The number of ones in the bits of all `x & y`, or of all `x ^ y`.
    Ones(BitFunction),
}

/// The parts of a nest that is a reduction over pairs. The axes are those of a
/// [`Contract`](crate::ir::Contract).
#[derive(Debug, Clone)]
pub(crate) struct Pairs {
    pub(crate) reduction: Reduction,
    /// The type of both factors.
    pub(crate) dtype: DType,
    /// The left and the right factor: two loads.
    pub(crate) factors: [ValueId; 2],
    /// The result of the reduction.
    pub(crate) folded: ValueId,
    /// The domain axes of both factors, or of neither.
    pub(crate) batch: Vec<usize>,
    /// The domain axes of the left factor alone, and those of the right factor alone.
    pub(crate) own: [Vec<usize>; 2],
}

impl Pairs {
    /// Returns the reduction over pairs that a nest computes; `None` if the nest has another form.
    pub(crate) fn from_nest(nest: &LoopNest) -> Option<Self> {
        let is_load = |factor: &ValueId| matches!(nest.values[factor.0], Value::Load { .. });
        if let Some(contract) = &nest.contract {
            let factors = [contract.lhs, contract.rhs];
            return factors.iter().all(is_load).then(|| Self {
                reduction: Reduction::Number(PairFunction::Product, Reduce::Sum),
                dtype: nest.dtypes[contract.sum.0],
                factors,
                folded: contract.sum,
                batch: contract.batch.clone(),
                own: [contract.rows.clone(), contract.cols.clone()],
            });
        }
        let is_reduction = |(_, value): &(usize, &Value)| matches!(value, Value::Reduced(..));
        let mut reductions = nest.values.iter().enumerate().filter(is_reduction);
        let (folded, &Value::Reduced(op, operand)) = reductions.next()? else {
            return None;
        };
        if reductions.next().is_some() {
            return None;
        }
        let (reduction, factors) = reduction(nest, op, operand)?;
        let dtype = nest.dtypes[factors[0].0];
        if !factors.iter().all(is_load) || !has_a_loop(dtype, reduction) {
            return None;
        }
        let depends = factors.map(|factor| nest.dependence(factor));
        let axes = |want: [bool; 2]| -> Vec<usize> {
            (0..nest.domain.len())
                .filter(|&axis| [depends[0][axis], depends[1][axis]] == want)
                .collect()
        };
        Some(Self {
            reduction,
            dtype,
            factors,
            folded: ValueId(folded),
            batch: [axes([true, true]), axes([false, false])].concat(),
            own: [axes([true, false]), axes([false, true])],
        })
    }

    /// Returns whether the reduction has enough terms and results for tiles. The loops of an
    /// interpreter split long reductions of few results over threads.
    pub(crate) fn is_large(&self, nest: &LoopNest) -> bool {
        /// The smallest number of results.
        const RESULTS: usize = 64;
        let is_repeated = self.own.iter().flatten().any(|&axis| nest.domain[axis] > 1);
        let is_reduced = nest.reduce.iter().any(|&size| size > 1);
        is_repeated && is_reduced && nest.output_len() >= RESULTS
    }

    /// Returns whether the result does not change if the row and the column are exchanged: both
    /// factors read the same elements, and all functions of pairs are commutative.
    pub(crate) fn is_symmetric(&self, nest: &LoopNest) -> bool {
        let [&[row], &[col]] = self.own.each_ref().map(Vec::as_slice) else {
            return false;
        };
        let [left, right] = self.factors.map(|factor| &nest.values[factor.0]);
        let (
            Value::Load { input, map, guards },
            Value::Load {
                input: other,
                map: map_of_other,
                guards: guards_of_other,
            },
        ) = (left, right)
        else {
            return false;
        };
        let exchanged = |axis: usize| match axis {
            axis if axis == row => col,
            axis if axis == col => row,
            axis => axis,
        };
        let mut axes = 0..nest.domain.len() + nest.reduce.len();
        input == other
            && nest.domain[row] == nest.domain[col]
            && map.offset == map_of_other.offset
            && guards.is_empty()
            && guards_of_other.is_empty()
            && axes.all(|axis| map.stride(axis) == map_of_other.stride(exchanged(axis)))
    }

    /// Returns whether the reduction is a sum of products of floats.
    pub(crate) fn is_float_product(&self) -> bool {
        let is_product = Reduction::Number(PairFunction::Product, Reduce::Sum);
        self.dtype.is_float() && self.reduction == is_product
    }
}

/// Returns whether tiles have loops for a reduction of elements of a type.
fn has_a_loop(dtype: DType, reduction: Reduction) -> bool {
    let is_looped = |op: Reduce| matches!(op, Reduce::Sum | Reduce::Max | Reduce::Min);
    match (dtype, reduction) {
        (DType::F32, Reduction::Compared(..)) => true,
        (DType::I32 | DType::U32, Reduction::Number(PairFunction::Dot4I8, op)) => op == Reduce::Sum,
        (DType::I32 | DType::U32, Reduction::Number(PairFunction::AbsDifference, _)) => false,
        (DType::F32 | DType::F64 | DType::I32 | DType::U32, Reduction::Number(_, op)) => {
            is_looped(op)
        }
        (DType::I32 | DType::U32, Reduction::Ones(_)) => true,
        _ => false,
    }
}

/// Returns the reduction by `op` of a value that is a function of two factors, and these factors.
fn reduction(nest: &LoopNest, op: Reduce, operand: ValueId) -> Option<(Reduction, [ValueId; 2])> {
    let value = |id: ValueId| &nest.values[id.0];
    match *value(operand) {
        Value::Compare(compare @ (Compare::Lt | Compare::Le), compared, bound) => {
            let &Value::Const(Scalar::F32(bound)) = value(bound) else {
                return None;
            };
            let (function, factors) = function(nest, compared)?;
            Some((Reduction::Compared(function, op, compare, bound), factors))
        }
        Value::Unary(Unary::CountOnes, bits) if op == Reduce::Sum => {
            let (function, factors) = match *value(bits) {
                Value::Binary(Binary::And, x, y) => (BitFunction::And, [x, y]),
                Value::Binary(Binary::Xor, x, y) => (BitFunction::Xor, [x, y]),
                _ => return None,
            };
            Some((Reduction::Ones(function), factors))
        }
        _ => {
            let (function, factors) = function(nest, operand)?;
            Some((Reduction::Number(function, op), factors))
        }
    }
}

/// Returns the function of two factors that a value is, and these factors.
fn function(nest: &LoopNest, id: ValueId) -> Option<(PairFunction, [ValueId; 2])> {
    match nest.values[id.0] {
        Value::Binary(Binary::Mul, x, y) => Some((PairFunction::Product, [x, y])),
        Value::Binary(Binary::Add, x, y) => Some((PairFunction::Sum, [x, y])),
        Value::Binary(Binary::Dot4I8, x, y) => Some((PairFunction::Dot4I8, [x, y])),
        Value::Unary(Unary::Abs, difference) => match nest.values[difference.0] {
            Value::Binary(Binary::Sub, x, y) => Some((PairFunction::AbsDifference, [x, y])),
            _ => None,
        },
        _ => None,
    }
}
