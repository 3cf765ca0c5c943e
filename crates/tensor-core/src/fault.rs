//! Faults planted in this crate, for the tests that must find them.
//!
//! Role: what is planted and for how long; what a fault does stands where it strikes, in `plan/fault` and `grad/fault`.

use std::cell::Cell;

/// What a planner or a gradient that is wrong might do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Planned views that skip elements read neighbours.
    PlannedStride,
    /// What follows a planned reduction is left out where the types allow.
    PlannedEpilogue,
    /// A planned `a - b` becomes `b - a`.
    PlannedOperands,
    /// The gradient reads windows that overlap back at their first positions.
    GradientStride,
    /// Of two readers of a tensor only one hands a gradient on.
    GradientShare,
    /// The derivatives of `a - b` are those of `b - a`.
    GradientOperands,
}

thread_local! {
    /// Plans and gradients are made on the thread that asks for them.
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Runs `f` with the fault.
pub(crate) fn planted<T>(fault: Fault, f: impl FnOnce() -> T) -> T {
    PLANTED.set(Some(fault));
    let result = f();
    PLANTED.set(None);
    result
}

/// Whether a fault is planted here and now.
pub(crate) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}
