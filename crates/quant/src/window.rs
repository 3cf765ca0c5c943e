//! Windows that slide over the height and the width of images, for convolutions and pooling.

use std::ops::Range;

use tensor_core::view::Slice;
use tensor_core::{Operand, Tensor};

use crate::error::{Error, MAX_WINDOW, Result};

/// A window over the two axes (height, width) of an image.
///
/// ```text
/// tap t of output position i reads input position   i * stride + t * dilation - padding before
/// ```
///
/// # Examples
/// ```
/// use quant::Window;
///
/// let window = Window::new([3, 3]).with_padding([[1, 1], [1, 1]]);
/// assert_eq!(window.output_size([28, 28])?, [28, 28]);
/// assert_eq!(window.with_stride([2, 2]).output_size([28, 28])?, [14, 14]);
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The number of taps along each axis.
    pub size: [usize; 2],
    /// The distance between the windows of neighbouring outputs.
    pub stride: [usize; 2],
    /// The distance between neighbouring taps.
    pub dilation: [usize; 2],
    /// The number of positions before and after the image, along each axis.
    pub padding: [[usize; 2]; 2],
}

impl Window {
    /// The largest number in a window.
    pub const MAX: usize = MAX_WINDOW;

    /// Creates a window with stride 1 and dilation 1, without padding.
    #[must_use]
    pub const fn new(size: [usize; 2]) -> Self {
        Self {
            size,
            stride: [1; 2],
            dilation: [1; 2],
            padding: [[0; 2]; 2],
        }
    }

    /// Returns the window with another stride.
    #[must_use]
    pub const fn with_stride(self, stride: [usize; 2]) -> Self {
        Self { stride, ..self }
    }

    /// Returns the window with another dilation.
    #[must_use]
    pub const fn with_dilation(self, dilation: [usize; 2]) -> Self {
        Self { dilation, ..self }
    }

    /// Returns the window with padding: top and bottom, then left and right.
    #[must_use]
    pub const fn with_padding(self, padding: [[usize; 2]; 2]) -> Self {
        Self { padding, ..self }
    }

    /// Returns whether each output of the window is an element of the image, in the same place.
    pub(crate) fn is_identity(&self) -> bool {
        // A single tap has no neighbours, so the dilation has no effect.
        (self.size, self.stride, self.padding) == ([1; 2], [1; 2], [[0; 2]; 2])
    }

    /// Returns the number of taps, or the largest `usize` if it is larger.
    #[must_use]
    pub fn n_taps(&self) -> usize {
        self.size[0].saturating_mul(self.size[1])
    }

    /// Returns the number of output positions along each axis of an image.
    ///
    /// # Errors
    /// [`Error::Window`] for a size, stride or dilation of 0, for a number above [`Window::MAX`],
    /// and if the window is larger than the padded image.
    pub fn output_size(&self, image: [usize; 2]) -> Result<[usize; 2]> {
        let error = || Error::Window {
            image,
            size: self.size,
            stride: self.stride,
            dilation: self.dilation,
            padding: self.padding,
        };
        let mut output = [0; 2];
        for axis in 0..2 {
            let (size, stride) = (self.size[axis], self.stride[axis]);
            let (dilation, [before, after]) = (self.dilation[axis], self.padding[axis]);
            let steps = [size, stride, dilation];
            let is_valid = steps.iter().all(|n| (1..=Self::MAX).contains(n))
                && [before, after].iter().all(|&n| n <= Self::MAX);
            if !is_valid {
                return Err(error());
            }
            let span = (size - 1) * dilation + 1;
            let padded = image[axis].checked_add(before + after);
            let free = padded.and_then(|padded| padded.checked_sub(span));
            output[axis] = free.ok_or_else(error)? / stride + 1;
        }
        Ok(output)
    }

    /// Returns the taps along an axis that are inside of an image of `len` positions, for an output
    /// position.
    pub(crate) fn taps_inside(&self, axis: usize, len: usize, output: usize) -> Range<usize> {
        let (start, dilation) = (output * self.stride[axis], self.dilation[axis]);
        let before = self.padding[axis][0];
        // The number of taps before the position `end` of the padded image.
        let before_end = |end: usize| {
            let free = end.saturating_sub(start);
            free.div_ceil(dilation).min(self.size[axis])
        };
        before_end(before)..before_end(before.saturating_add(len))
    }

    /// Returns the first output position whose last tap is beyond an image of `len` positions, if
    /// there is a position all of whose taps are inside.
    pub(crate) fn first_beyond(&self, axis: usize, len: usize) -> usize {
        let end = self.padding[axis][0].saturating_add(len);
        let span = (self.size[axis] - 1) * self.dilation[axis];
        end.saturating_sub(span).div_ceil(self.stride[axis])
    }

    /// Returns the maximum of each window over the axes 1 and 2 of a tensor. The padding has the
    /// value `lowest`.
    pub(crate) fn maxima(&self, x: &Tensor, lowest: impl Operand + Copy) -> Tensor {
        if self.is_identity() {
            return x.clone();
        }
        self.views(x, lowest).max([-1, -2])
    }

    /// Returns the windows over the axes 1 and 2 of a tensor as two new last axes. The padding has
    /// the value `fill`.
    pub(crate) fn views(&self, x: &Tensor, fill: impl Operand + Copy) -> Tensor {
        let mut views = x.clone();
        for (axis, [before, after]) in [1, 2].into_iter().zip(self.padding) {
            views = views.pad(axis, before, after, fill);
        }
        for (place, axis) in [1, 2].into_iter().enumerate() {
            let span = (self.size[place] - 1) * self.dilation[place] + 1;
            let every = Slice {
                start: None,
                stop: None,
                step: self.dilation[place].cast_signed(),
            };
            views = views
                .window(axis, span, self.stride[place])
                .slice(-1, every);
        }
        views
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_tap_is_an_identity_with_any_dilation() {
        let one = Window::new([1, 1]);
        assert!(one.is_identity());
        assert!(one.with_dilation([2, 3]).is_identity());
        for other in [
            Window::new([1, 2]),
            one.with_stride([2, 1]),
            one.with_padding([[0, 0], [0, 1]]),
        ] {
            assert!(!other.is_identity(), "{other:?}");
        }
    }
}
