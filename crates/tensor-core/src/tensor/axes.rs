//! Which axes a reduction folds.

use std::ops::RangeFull;

use crate::error::{Error, Result};
use crate::shape::resolve_axis;

/// The axes of a reduction: one (`1`, `-1`), several (`[0, 2]`) or all (`..`), and whether they stay as axes of size 1.
///
/// # Examples
/// ```
/// use tensor_core::{Axes, Tensor};
/// let x = Tensor::from_vec(&[2, 3, 4], vec![1.0_f32; 24]);
/// assert_eq!(x.sum(1).shape()?, [2, 4]);
/// assert_eq!(x.sum([0, -1]).shape()?, [3]);
/// assert_eq!(x.sum(..).shape()?, [0_usize; 0]);
/// assert_eq!(x.max(Axes::keep(1)).shape()?, [2, 1, 4]);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes {
    /// The axes, negative ones counted from the end; `None` for all.
    which: Option<Vec<isize>>,
    keep: bool,
}

impl Axes {
    /// The same axes, kept with size 1, so that the result broadcasts against what was reduced.
    #[must_use]
    pub fn keep(axes: impl Into<Self>) -> Self {
        Self {
            keep: true,
            ..axes.into()
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.keep
    }

    /// The axes in ascending order.
    pub(super) fn resolve(&self, op: &'static str, shape: &[usize]) -> Result<Vec<usize>> {
        let Some(which) = &self.which else {
            return Ok((0..shape.len()).collect());
        };
        let mut axes = Vec::with_capacity(which.len());
        for &axis in which {
            axes.push(resolve_axis(op, axis, shape)?);
        }
        axes.sort_unstable();
        if axes.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::RepeatedAxis {
                op,
                axes: which.clone(),
                shape: shape.to_vec(),
            });
        }
        Ok(axes)
    }
}

impl From<isize> for Axes {
    fn from(axis: isize) -> Self {
        Self::from([axis])
    }
}

impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Self {
        Self::from(&axes[..])
    }
}

impl From<&[isize]> for Axes {
    fn from(axes: &[isize]) -> Self {
        Self {
            which: Some(axes.to_vec()),
            keep: false,
        }
    }
}

impl From<RangeFull> for Axes {
    fn from(_: RangeFull) -> Self {
        Self {
            which: None,
            keep: false,
        }
    }
}
