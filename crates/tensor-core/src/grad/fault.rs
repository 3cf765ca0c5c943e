//! Faults planted in gradients, for the test that must find them.

use std::cell::Cell;

use crate::op::Binary;
use crate::tensor::Tensor;

/// What gradients that are wrong might do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Windows that overlap are all read back at their first positions.
    Stride,
    /// Of two readers of a tensor only one hands anything on.
    Share,
    /// The derivatives of `a - b` are those of `b - a`.
    Operands,
}

thread_local! {
    /// Gradients are made on the thread that asks for them.
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Runs `f` with gradients that have the fault.
pub(crate) fn planted<T>(fault: Fault, f: impl FnOnce() -> T) -> T {
    PLANTED.set(Some(fault));
    let result = f();
    PLANTED.set(None);
    result
}

/// How far apart within themselves overlapping windows hold one element.
pub(crate) fn step(step: isize) -> isize {
    let is_lost = PLANTED.get() == Some(Fault::Stride);
    if is_lost { 0 } else { step }
}

/// What another reader adds to what a tensor was handed.
pub(super) fn share(share: Tensor) -> Tensor {
    let is_dropped = PLANTED.get() == Some(Fault::Share);
    if is_dropped { share.like(0.0) } else { share }
}

/// The derivatives of an operation by its arguments.
pub(crate) fn derivatives<V>(op: Binary, [by_a, by_b]: [V; 2]) -> [V; 2] {
    let is_swapped = PLANTED.get() == Some(Fault::Operands) && op == Binary::Sub;
    if is_swapped {
        [by_b, by_a]
    } else {
        [by_a, by_b]
    }
}
