//! What the faults planted in the planner do.

use super::arena::Arena;
use crate::fault::{Fault, is_planted};
use crate::ir::{Value, ValueId};
use crate::op::Binary;

/// The step of a view along an axis.
pub(super) fn step(step: isize) -> isize {
    if is_planted(Fault::PlannedStride) {
        step.signum()
    } else {
        step
    }
}

/// The operands of an operation.
pub(super) fn operands(op: Binary, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
    let swapped = is_planted(Fault::PlannedOperands) && op == Binary::Sub;
    if swapped { (b, a) } else { (a, b) }
}

/// The value that a step computes.
pub(super) fn result(arena: &Arena, root: ValueId) -> ValueId {
    let is_like_root = |id: &ValueId| {
        matches!(arena.value(*id), Value::Reduced(..)) && arena.dtype(*id) == arena.dtype(root)
    };
    let drops = is_planted(Fault::PlannedEpilogue);
    let reduction = arena.reachable(root).into_iter().rfind(is_like_root);
    reduction.filter(|_| drops).unwrap_or(root)
}
