//! Reductions of elements that an index assigns to positions of an axis.
//!
//! Role: finds the nests that compare an index with every position of an axis and fold the elements
//! whose index equals the position: scatters, counts of integers, and the gradients of gathers. The
//! host executor computes such a nest in one pass over the elements, so the planner does not put it
//! into bands.
//!
//! ```text
//! for e in extent:                               out = neutral everywhere
//!     for r in elements:                         for r in elements:
//!         out[e] += if at[r] == e { x[r] }           out[at[r]] += x[r]
//!     the nest                                   the same results
//! ```

use super::{IndexMap, LoopNest, Value, ValueId};
use crate::op::{Compare, Reduce};

/// The parts of a nest that is a scatter. All of its folds share the axis and the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scatter {
    /// The domain axis of the positions. Only the comparison depends on this axis.
    pub(crate) axis: usize,
    /// The `u32` that is compared with each position.
    pub(crate) at: ValueId,
    /// The index of the first position on the axis.
    pub(crate) first: u32,
    /// Whether the index decreases by 1 from each position to the next; otherwise it increases by
    /// 1.
    pub(crate) is_flipped: bool,
    /// All folds of the nest.
    pub(crate) folds: Vec<ScatterFold>,
}

/// A fold of a scatter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScatterFold {
    /// The result of the fold.
    pub(crate) folded: ValueId,
    pub(crate) op: Reduce,
    /// The elements that are folded; `None` if they are counted.
    pub(crate) elements: Option<ValueId>,
}

impl Scatter {
    /// Returns the scatter that a nest computes; `None` if the nest has another form, or so few
    /// positions that comparing every index with each of them is faster.
    pub(crate) fn from_nest(nest: &LoopNest) -> Option<Self> {
        /// The smallest number of positions.
        const POSITIONS: usize = 8;
        let mut folds = Vec::new();
        let mut shared = None;
        for (id, value) in nest.values.iter().enumerate() {
            let &Value::Reduced(op, operand) = value else {
                continue;
            };
            let (hit, elements) = parts(nest, op, operand)?;
            if *shared.get_or_insert(hit) != hit {
                return None;
            }
            folds.push(ScatterFold {
                folded: ValueId(id),
                op,
                elements,
            });
        }
        let Value::Compare(Compare::Eq, left, right) = nest.values[shared?.0] else {
            return None;
        };
        let (at, positions) = match (&nest.values[left.0], &nest.values[right.0]) {
            (_, Value::Index(map)) if position_axis(nest, map).is_some() => (left, map),
            (Value::Index(map), _) => (right, map),
            _ => return None,
        };
        let axis = position_axis(nest, positions)?;
        let mut operands = folds.iter().filter_map(|fold| fold.elements).chain([at]);
        let is_apart = operands.all(|operand| !nest.dependence(operand)[axis]);
        (is_apart && nest.domain[axis] >= POSITIONS).then(|| Self {
            axis,
            at,
            first: super::low_bits(positions.offset),
            is_flipped: positions.stride(axis) < 0,
            folds,
        })
    }
}

/// Returns the comparison and the elements of a fold by `op` over `operand`.
fn parts(nest: &LoopNest, op: Reduce, operand: ValueId) -> Option<(ValueId, Option<ValueId>)> {
    match nest.values[operand.0] {
        Value::Compare(..) if op == Reduce::Sum => Some((operand, None)),
        Value::Select(hit, elements, other) => {
            let dtype = nest.dtypes[elements.0];
            let is_folded = match op {
                Reduce::Sum | Reduce::Max | Reduce::Min => dtype.is_float() || dtype.is_integer(),
                Reduce::Prod | Reduce::All | Reduce::Any => false,
            };
            let is_neutral = || nest.values[other.0] == Value::Const(op.neutral(dtype));
            (is_folded && is_neutral()).then_some((hit, Some(elements)))
        }
        _ => None,
    }
}

/// Returns the only axis of a map, if it is a domain axis whose positions are adjacent.
fn position_axis(nest: &LoopNest, map: &IndexMap) -> Option<usize> {
    let mut axes = (0..map.strides.len()).filter(|&axis| map.stride(axis) != 0);
    let axis = axes.next()?;
    let is_only = axes.next().is_none() && axis < nest.domain.len();
    (is_only && map.stride(axis).unsigned_abs() == 1).then_some(axis)
}
