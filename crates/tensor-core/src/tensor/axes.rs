//! Axis arguments of operations and reductions.

use std::ops::RangeFull;

use crate::error::{Error, Result};
use crate::shape::resolve_axis;

/// An axis, counted from the first one, or from the end if negative. Conversions exist from
/// `isize`, `usize` and `i32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Axis(isize);

impl Axis {
    /// Returns the axis as a number, negative if counted from the end.
    #[must_use]
    pub fn number(self) -> isize {
        self.0
    }
}

impl From<isize> for Axis {
    fn from(axis: isize) -> Self {
        Self(axis)
    }
}

impl From<usize> for Axis {
    fn from(axis: usize) -> Self {
        // No shape has so many axes, so a saturated number stays out of range.
        Self(isize::try_from(axis).unwrap_or(isize::MAX))
    }
}

impl From<i32> for Axis {
    fn from(axis: i32) -> Self {
        Self(isize::try_from(axis).unwrap_or(isize::MAX))
    }
}

/// The axes of a reduction: one (`1`, `-1`), several (`[0, 2]`, `&[0, 2]`, `vec![0, 2]`) or all
/// (`..`). By default the reduced axes are removed; [`Axes::keepdims`] keeps them with size 1.
///
/// # Examples
/// ```
/// use tensor_core::{Axes, Tensor};
/// let x = Tensor::from_vec(&[2, 3, 4], vec![1.0_f32; 24]);
/// assert_eq!(x.sum(1).shape()?, [2, 4]);
/// assert_eq!(x.sum([0, -1]).shape()?, [3]);
/// assert_eq!(x.sum(..).shape()?, [0_usize; 0]);
/// let rank = x.shape()?.len();
/// assert_eq!(x.sum(rank - 1).shape()?, [2, 3]);
/// assert_eq!(x.max(Axes::keepdims(1)).shape()?, [2, 1, 4]);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes {
    /// The axes, counted from the end if negative; `None` for all axes.
    which: Option<Vec<isize>>,
    keep: bool,
}

impl Axes {
    /// Keeps the reduced axes with size 1, so that the result broadcasts against the operand.
    #[must_use]
    pub fn keepdims(axes: impl Into<Self>) -> Self {
        Self {
            keep: true,
            ..axes.into()
        }
    }

    pub(super) fn keeps_dims(&self) -> bool {
        self.keep
    }

    /// Returns the axes in ascending order, without negative numbers.
    pub(super) fn resolve(&self, operation: &'static str, shape: &[usize]) -> Result<Vec<usize>> {
        let Some(which) = &self.which else {
            return Ok((0..shape.len()).collect());
        };
        let mut axes = Vec::with_capacity(which.len());
        for &axis in which {
            axes.push(resolve_axis(operation, axis, shape)?);
        }
        // Sorted, so that duplicates are adjacent; `1` and `-1` may denote the same axis.
        axes.sort_unstable();
        if axes.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::RepeatedAxis {
                operation,
                axes: which.clone(),
                shape: shape.to_vec(),
            });
        }
        Ok(axes)
    }
}

macro_rules! single_axes {
    ($($type:ty)*) => {$(
        impl From<$type> for Axes {
            fn from(axis: $type) -> Self {
                Self::from([axis])
            }
        }
    )*};
}
single_axes! { isize usize i32 Axis }

impl<A: Copy + Into<Axis>, const N: usize> From<[A; N]> for Axes {
    fn from(axes: [A; N]) -> Self {
        Self::from(&axes[..])
    }
}

impl<A: Copy + Into<Axis>, const N: usize> From<&[A; N]> for Axes {
    fn from(axes: &[A; N]) -> Self {
        Self::from(&axes[..])
    }
}

impl<A: Copy + Into<Axis>> From<Vec<A>> for Axes {
    fn from(axes: Vec<A>) -> Self {
        Self::from(&axes[..])
    }
}

impl<A: Copy + Into<Axis>> From<&Vec<A>> for Axes {
    fn from(axes: &Vec<A>) -> Self {
        Self::from(&axes[..])
    }
}

impl<A: Copy + Into<Axis>> From<&[A]> for Axes {
    fn from(axes: &[A]) -> Self {
        Self {
            which: Some(axes.iter().map(|&axis| axis.into().number()).collect()),
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
