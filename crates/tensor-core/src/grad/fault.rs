//! What the faults planted in gradients do.

use crate::fault::{Fault, is_planted};
use crate::op::Binary;
use crate::tensor::Tensor;

/// How far apart within themselves overlapping windows hold one element.
pub(crate) fn step(step: isize) -> isize {
    let is_lost = is_planted(Fault::GradientStride);
    if is_lost { 0 } else { step }
}

/// What another reader adds to what a tensor was handed.
pub(super) fn share(share: Tensor) -> Tensor {
    let is_dropped = is_planted(Fault::GradientShare);
    if is_dropped { share.like(0.0) } else { share }
}

/// The derivatives of an operation by its arguments.
pub(crate) fn derivatives<V>(op: Binary, [by_a, by_b]: [V; 2]) -> [V; 2] {
    let is_swapped = is_planted(Fault::GradientOperands) && op == Binary::Sub;
    if is_swapped {
        [by_b, by_a]
    } else {
        [by_a, by_b]
    }
}
