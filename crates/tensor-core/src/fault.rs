//! Deliberate faults for tests: each must be detected by the checks of this crate.
//!
//! Role: the list of faults, and the switch that enables one on a thread. The effect of each fault
//! is implemented where it applies: in `plan/fault`, `tensor/fault`, and the code of the host.

use std::cell::Cell;

/// A deliberate fault in the planner, in the gradient or on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Views with a step read consecutive elements in a planned nest.
    PlannedStride,
    /// The operations that follow a reduction are left out of a planned nest, if the types allow.
    PlannedEpilogue,
    /// `a - b` becomes `b - a` in a planned nest.
    PlannedOperands,
    /// A scan that leaves out the element at its own position includes the element in a planned
    /// nest.
    PlannedScan,
    /// A sort in descending order sorts in ascending order in a planned nest.
    PlannedSort,
    /// The host exchanges the operands of an operation of a chain whose second operand is the value
    /// of the chain.
    ChainedOperands,
    /// The host moves each element of a scatter to the next position.
    ScatteredPosition,
    /// The host does not fill the mirrored half of a symmetric matrix.
    UnmirroredHalf,
    /// A step that reads other rows than its own joins a band.
    BandedRows,
    /// The host begins each piece of a product in a band with the line before the piece.
    BandedLines,
    /// A step that reads other rows than its own runs together with the steps before it.
    RowsTogether,
    /// The cache of plans ignores the values of constants.
    CachedConstant,
    /// The gradient of overlapping windows adds the elements of the wrong positions within the
    /// windows.
    GradientStride,
    /// If a tensor has several uses, only the gradient of one use is counted.
    GradientShare,
    /// The derivatives of `a - b` are those of `b - a`.
    GradientOperands,
}

thread_local! {
    /// The fault of this thread. Plans and gradients are built on the calling thread, so that tests
    /// that run in parallel do not affect each other.
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Runs `f` with the fault enabled on this thread.
pub(crate) fn planted<T>(fault: Fault, f: impl FnOnce() -> T) -> T {
    PLANTED.set(Some(fault));
    let result = f();
    PLANTED.set(None);
    result
}

/// Returns whether the fault is enabled on this thread.
pub(crate) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Returns whether a fault of the planner is enabled on this thread. Its plans are not cached.
pub(crate) fn changes_plans() -> bool {
    use Fault::{
        BandedRows, PlannedEpilogue, PlannedOperands, PlannedScan, PlannedSort, PlannedStride,
    };
    matches!(
        PLANTED.get(),
        Some(
            PlannedStride
                | PlannedEpilogue
                | PlannedOperands
                | PlannedScan
                | PlannedSort
                | BandedRows
        )
    )
}
