//! The planner's deliberate faults, which tests activate to check the comparisons.

use super::arena::ExprArena;
use crate::fault::{Fault, is_planted};
use crate::ir::{IndexMap, Value, ValueId};
use crate::op::{Binary, Scan, Sort};

/// Returns the maps of a view. Replaces each stride by its sign if the fault `PlannedStride` is
/// active.
pub(super) fn rows(rows: &[IndexMap]) -> Vec<IndexMap> {
    let mut rows = rows.to_vec();
    if is_planted(Fault::PlannedStride) {
        for stride in rows.iter_mut().flat_map(|row| &mut row.strides) {
            *stride = stride.signum();
        }
    }
    rows
}

/// Returns the operands of an operation. Swaps the operands of a subtraction if the fault
/// `PlannedOperands` is active.
pub(super) fn operands(op: Binary, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
    let swapped = is_planted(Fault::PlannedOperands) && op == Binary::Sub;
    if swapped { (b, a) } else { (a, b) }
}

/// Returns the scan that a step computes. Includes the element at each result's own position if the
/// fault `PlannedScan` is active.
pub(super) fn scan(scan: Scan) -> Scan {
    Scan {
        exclusive: scan.exclusive && !is_planted(Fault::PlannedScan),
        ..scan
    }
}

/// Returns the sort that a step computes. Sorts in ascending order if the fault `PlannedSort` is
/// active.
pub(super) fn sort(sort: Sort) -> Sort {
    Sort {
        descending: sort.descending && !is_planted(Fault::PlannedSort),
        ..sort
    }
}

/// Returns whether steps join a band whatever rows they read: the fault `BandedRows`.
pub(super) fn ignores_rows() -> bool {
    is_planted(Fault::BandedRows)
}

/// Returns the value that a step computes. Returns the last reduction instead of the result if the
/// fault `PlannedEpilogue` is active.
pub(super) fn result(arena: &ExprArena, root: ValueId) -> ValueId {
    let is_like_root = |id: &ValueId| {
        matches!(arena.value(*id), Value::Reduced(..)) && arena.dtype(*id) == arena.dtype(root)
    };
    let drops = is_planted(Fault::PlannedEpilogue);
    let reduction = arena.reachable(root).into_iter().rfind(is_like_root);
    reduction.filter(|_| drops).unwrap_or(root)
}
