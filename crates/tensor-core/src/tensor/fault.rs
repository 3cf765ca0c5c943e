//! The implementation of the deliberate faults in gradients.

use super::Tensor;
use crate::fault::{Fault, is_planted};
use crate::op::Binary;

/// Returns the distance of the inner positions of overlapping windows that read the same element.
pub(crate) fn step(step: isize) -> isize {
    let is_lost = is_planted(Fault::GradientStride);
    if is_lost { 0 } else { step }
}

/// Returns the cotangent that a further use of a tensor adds to its total.
pub(crate) fn share(share: Tensor) -> Tensor {
    let is_dropped = is_planted(Fault::GradientShare);
    if is_dropped { share.like(0.0) } else { share }
}

/// Returns the derivatives of an operation with respect to its arguments.
pub(crate) fn derivatives<V>(op: Binary, [by_a, by_b]: [V; 2]) -> [V; 2] {
    let is_swapped = is_planted(Fault::GradientOperands) && op == Binary::Sub;
    if is_swapped {
        [by_b, by_a]
    } else {
        [by_a, by_b]
    }
}
