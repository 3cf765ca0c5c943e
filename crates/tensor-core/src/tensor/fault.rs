//! The implementation of the deliberate faults in gradients.

use super::Tensor;
use crate::fault::{Fault, is_planted};
use crate::op::Binary;

/// Returns `step`, the distance between the inner positions at which neighbouring windows read the
/// same element; 0 under [`Fault::GradientStride`].
pub(crate) fn step(step: isize) -> isize {
    let is_lost = is_planted(Fault::GradientStride);
    if is_lost { 0 } else { step }
}

/// Returns `share`, the cotangent that a further use of a tensor adds to its total; zeros under
/// [`Fault::GradientShare`].
pub(crate) fn share(share: Tensor) -> Tensor {
    let is_dropped = is_planted(Fault::GradientShare);
    if is_dropped { share.like(0.0) } else { share }
}

/// Returns the derivatives of an operation with respect to its two arguments. Under
/// [`Fault::GradientOperands`] the two derivatives of a subtraction are exchanged.
pub(crate) fn derivatives<V>(op: Binary, [by_a, by_b]: [V; 2]) -> [V; 2] {
    let is_swapped = is_planted(Fault::GradientOperands) && op == Binary::Sub;
    if is_swapped {
        [by_b, by_a]
    } else {
        [by_a, by_b]
    }
}
