//! Faults planted in the planner, for the test that must find them.

use std::cell::Cell;

use super::arena::Arena;
use crate::ir::{Value, ValueId};
use crate::op::Binary;

/// What a planner that is wrong might do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Views that skip elements read neighbours.
    Stride,
    /// What follows a reduction is left out where the types allow.
    Epilogue,
    /// `a - b` becomes `b - a`.
    Operands,
}

thread_local! {
    /// Plans are made on the thread that asks for them.
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Runs `f` with a planner that has the fault.
pub(crate) fn planted<T>(fault: Fault, f: impl FnOnce() -> T) -> T {
    PLANTED.set(Some(fault));
    let result = f();
    PLANTED.set(None);
    result
}

/// The step of a view along an axis.
pub(super) fn step(step: isize) -> isize {
    if PLANTED.get() == Some(Fault::Stride) {
        step.signum()
    } else {
        step
    }
}

/// The operands of an operation.
pub(super) fn operands(op: Binary, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
    let swapped = PLANTED.get() == Some(Fault::Operands) && op == Binary::Sub;
    if swapped { (b, a) } else { (a, b) }
}

/// The value that a step computes.
pub(super) fn result(arena: &Arena, root: ValueId) -> ValueId {
    let is_like_root = |id: &ValueId| {
        matches!(arena.value(*id), Value::Reduced(..)) && arena.dtype(*id) == arena.dtype(root)
    };
    let drops = PLANTED.get() == Some(Fault::Epilogue);
    let reduction = arena.reachable(root).into_iter().rfind(is_like_root);
    reduction.filter(|_| drops).unwrap_or(root)
}
