//! The training curve of a result: losses per step, and the accuracy on test data.
//!
//! Role: defines where losses and accuracy are in a result and how many of them a record stores.
//! Limits: a record stores at most [`MOST_LOSSES`] losses. Of a longer curve it stores every k-th
//! loss, beginning with the first, for the smallest sufficient k, together with k; the last step
//! may then be missing. The curve ends before the first loss that is not finite, because JSON
//! cannot represent such numbers.

use crate::workload::Output;

/// Maximum number of losses that a record stores per contestant; a chart has fewer pixels.
pub const MOST_LOSSES: usize = 250;

/// The losses of a training as a record stores them, and its accuracy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Losses of the steps 0, k, 2 k, …, where k is the stride; empty without a training.
    pub losses: Vec<f32>,
    /// Steps between stored losses; `None` if every step is stored.
    pub stride: Option<usize>,
    /// Fraction of the test data that the trained net classifies correctly, if it was tested.
    pub accuracy: Option<f32>,
}

impl Curve {
    /// Extracts the curve from a result whose first `n_losses` elements are losses, followed by an
    /// optional accuracy. The curve is empty without losses and for results that are not f32.
    #[must_use]
    pub fn from_output(result: &Output, n_losses: usize) -> Self {
        let Output::F32(elements) = result else {
            return Self::default();
        };
        if n_losses == 0 {
            return Self::default();
        }
        let stride = n_losses.div_ceil(MOST_LOSSES);
        let losses = elements.iter().take(n_losses).copied();
        Self {
            losses: losses
                .take_while(|loss| loss.is_finite())
                .step_by(stride)
                .collect(),
            stride: (stride > 1).then_some(stride),
            accuracy: elements
                .get(n_losses)
                .copied()
                .filter(|accuracy| accuracy.is_finite()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_stand_first_and_the_accuracy_after_them() {
        let result = Output::F32(vec![3.0, 2.0, 1.0, 0.75]);
        let curve = |n_losses| Curve::from_output(&result, n_losses);
        assert_eq!(curve(3).losses, [3.0, 2.0, 1.0]);
        assert_eq!((curve(3).stride, curve(3).accuracy), (None, Some(0.75)));
        assert_eq!((curve(4).losses.len(), curve(4).accuracy), (4, None));
        assert_eq!(curve(0), Curve::default());
        assert_eq!(
            Curve::from_output(&Output::U32(vec![1]), 1),
            Curve::default()
        );
    }

    #[test]
    fn long_curves_keep_every_kth_loss() {
        for (n_losses, stride, kept) in [
            (MOST_LOSSES, None, MOST_LOSSES),
            (MOST_LOSSES + 1, Some(2), 126),
            (4690, Some(19), 247),
        ] {
            let steps: Vec<f32> = (0..n_losses).map(|step| step as f32).collect();
            let curve = Curve::from_output(&Output::F32(steps), n_losses);
            assert_eq!((curve.stride, curve.losses.len()), (stride, kept));
            let every = stride.unwrap_or(1);
            let all_right = |(at, loss): (usize, &f32)| *loss == (at * every) as f32;
            assert!(curve.losses.iter().enumerate().all(all_right));
        }
    }

    #[test]
    fn a_loss_that_is_not_finite_ends_the_curve() {
        let result = Output::F32(vec![2.0, f32::NAN, 1.0, f32::INFINITY]);
        let curve = Curve::from_output(&result, 3);
        assert_eq!((curve.losses, curve.accuracy), (vec![2.0], None));
    }
}
