//! A layer of convolutions: its shape, and its products in plain loops.
//!
//! Role: the oracle and the variant `loops` of the workloads `conv` and `conv-gradients`.
//! Method: the loops visit one element of a kernel at a time. This element is multiplied with a
//! whole row of an image, as far as the row is inside the image. The same loops run in f32, in f64,
//! and on absolute values, whose sums scale the tolerance.

use std::ops::{AddAssign, Mul, Range};
use tensor_core::Tensor;

/// The shape of a layer: images `[batch, channels, height, width]` and kernels `[outputs, channels,
/// taps, taps]`. The kernels are not flipped, as usual in neural nets.
#[derive(Clone, Copy, Debug)]
pub struct ConvLayer {
    /// Batch, channels, height and width of the images.
    pub images: [usize; 4],
    /// Number of kernels.
    pub outputs: usize,
    /// Side of a kernel, at most the side of a padded image.
    pub taps: usize,
    /// Distance from one window to the next, along both axes.
    pub step: usize,
    /// Number of zeros at each side of an image.
    pub padding: usize,
}

/// The products of one kernel element with a row of an image: for `i` in `0..len`, the element `y +
/// i` of the result has the product of the kernel's element `kernel` and the image's element `x + i
/// · step`. All positions are counted in the whole array.
struct RowOfProducts {
    x: usize,
    kernel: usize,
    y: usize,
    len: usize,
}

/// Numbers that can be multiplied and summed.
pub trait Number: Copy + Default + Mul<Output = Self> + AddAssign {}

impl Number for f32 {}
impl Number for f64 {}

impl ConvLayer {
    /// Creates a layer with step 1 and without padding.
    #[must_use]
    pub const fn new(images: [usize; 4], [outputs, taps]: [usize; 2]) -> Self {
        Self {
            images,
            outputs,
            taps,
            step: 1,
            padding: 0,
        }
    }

    /// Returns the size as one word: `8x16x58x58-32x3x3`, with `-s2` for step 2 and `-p1` for
    /// padding 1.
    #[must_use]
    pub fn size(&self) -> String {
        let [batch, channels, height, width] = self.images;
        let Self { outputs, taps, .. } = self;
        let mut size = format!("{batch}x{channels}x{height}x{width}-{outputs}x{taps}x{taps}");
        if self.step != 1 {
            size += &format!("-s{}", self.step);
        }
        if self.padding != 0 {
            size += &format!("-p{}", self.padding);
        }
        size
    }

    /// Returns the axes of the images.
    #[must_use]
    pub fn image_axes(&self) -> [(&'static str, usize); 4] {
        let [batch, channels, height, width] = self.images;
        [
            ("batch", batch),
            ("channels", channels),
            ("height", height),
            ("width", width),
        ]
    }

    /// Returns the axes of the kernels.
    #[must_use]
    pub fn kernel_axes(&self) -> [(&'static str, usize); 4] {
        let taps = ("taps", self.taps);
        [
            ("outputs", self.outputs),
            ("channels", self.images[1]),
            taps,
            taps,
        ]
    }

    /// Returns the axes of the result.
    #[must_use]
    pub fn result_axes(&self) -> [(&'static str, usize); 4] {
        let [batch, _, height, width] = self.images;
        [
            ("batch", batch),
            ("outputs", self.outputs),
            ("rows", self.n_windows(height)),
            ("cols", self.n_windows(width)),
        ]
    }

    /// Returns the number of operations of the layer, or of one of its gradients. Products with the
    /// padding count.
    #[must_use]
    pub fn operations(&self) -> f64 {
        let kernel_len = self.images[1] * self.taps * self.taps;
        2.0 * (len(&self.result_axes()) * kernel_len) as f64
    }

    /// Returns the windows `[batch, channels, row, column, tap, tap]` of the images, as views.
    #[must_use]
    pub fn windows(&self, x: &Tensor) -> Tensor {
        let Self {
            taps,
            step,
            padding,
            ..
        } = *self;
        let x = x
            .pad(2, padding, padding, 0.0)
            .pad(3, padding, padding, 0.0);
        x.window(2, taps, step).window(3, taps, step)
    }

    /// Computes the result `y` of the layer.
    pub fn convolve<T: Number>(&self, x: &[T], kernels: &[T], y: &mut [T]) {
        y.fill(T::default());
        self.for_each_row(|row| {
            let (kernel, y) = (kernels[row.kernel], &mut y[row.y..][..row.len]);
            // With step 1, a loop of its own is vectorized.
            if self.step == 1 {
                y.iter_mut()
                    .zip(&x[row.x..])
                    .for_each(|(y, &x)| *y += kernel * x);
            } else {
                let x = x[row.x..].iter().step_by(self.step);
                y.iter_mut().zip(x).for_each(|(y, &x)| *y += kernel * x);
            }
        });
    }

    /// Computes the gradient of `Σ y · cotangent` by the kernels, for the result `y` of the layer.
    pub fn differentiate_by_kernels<T: Number>(
        &self,
        x: &[T],
        cotangent: &[T],
        gradient: &mut [T],
    ) {
        gradient.fill(T::default());
        self.for_each_row(|row| {
            let x = x[row.x..].iter().step_by(self.step);
            for (&x, &cotangent) in x.zip(&cotangent[row.y..][..row.len]) {
                gradient[row.kernel] += x * cotangent;
            }
        });
    }

    /// Computes the gradient of `Σ y · cotangent` by the images, for the result `y` of the layer.
    pub fn differentiate_by_images<T: Number>(
        &self,
        kernels: &[T],
        cotangent: &[T],
        gradient: &mut [T],
    ) {
        gradient.fill(T::default());
        self.for_each_row(|row| {
            let gradient = gradient[row.x..].iter_mut().step_by(self.step);
            for (sum, &cotangent) in gradient.zip(&cotangent[row.y..][..row.len]) {
                *sum += kernels[row.kernel] * cotangent;
            }
        });
    }

    /// Returns the number of windows along an axis of the images.
    fn n_windows(&self, side: usize) -> usize {
        (side + 2 * self.padding - self.taps) / self.step + 1
    }

    /// Visits all products.
    fn for_each_row(&self, mut visit: impl FnMut(RowOfProducts)) {
        let [batch, channels, height, width] = self.images;
        let [_, _, (_, rows), (_, cols)] = self.result_axes();
        let kernel_len = channels * self.taps * self.taps;
        for plane in 0..batch * self.outputs {
            let (image, output) = (plane / self.outputs, plane % self.outputs);
            for tap in 0..kernel_len {
                let (channel, tap_row) = (tap / self.taps / self.taps, tap / self.taps % self.taps);
                let inside = self.windows_inside(tap % self.taps, width, cols);
                for row in self.windows_inside(tap_row, height, rows) {
                    let x_row = self.position(row, tap_row);
                    let x_col = self.position(inside.start, tap % self.taps);
                    visit(RowOfProducts {
                        x: ((image * channels + channel) * height + x_row) * width + x_col,
                        kernel: output * kernel_len + tap,
                        y: (plane * rows + row) * cols + inside.start,
                        len: inside.len(),
                    });
                }
            }
        }
    }

    /// Returns the position in the image of a tap of a window, along one axis.
    fn position(&self, window: usize, tap: usize) -> usize {
        window * self.step + tap - self.padding
    }

    /// Returns the windows whose tap is inside the image, along an axis with `side` pixels and
    /// `n_windows` windows: those for which `0 <= window · step + tap - padding < side`.
    fn windows_inside(&self, tap: usize, side: usize, n_windows: usize) -> Range<usize> {
        let start = self.padding.saturating_sub(tap).div_ceil(self.step);
        let end = (side + self.padding)
            .saturating_sub(tap)
            .div_ceil(self.step);
        start..end.min(n_windows).max(start)
    }
}

/// Returns the number of elements of an array with these axes.
#[must_use]
pub fn len(axes: &[(&str, usize)]) -> usize {
    axes.iter().map(|(_, len)| len).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: [f64; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    const KERNEL: [f64; 4] = [1.0, -1.0, 10.0, 100.0];

    fn result(layer: &ConvLayer, x: &[f64], kernels: &[f64]) -> Vec<f64> {
        let mut y = vec![f64::NAN; len(&layer.result_axes())];
        layer.convolve(x, kernels, &mut y);
        y
    }

    /// Returns the gradients by the kernels and by the images.
    fn gradients(
        layer: &ConvLayer,
        x: &[f64],
        kernels: &[f64],
        cotangent: &[f64],
    ) -> [Vec<f64>; 2] {
        let mut by_kernels = vec![f64::NAN; kernels.len()];
        let mut by_images = vec![f64::NAN; x.len()];
        layer.differentiate_by_kernels(x, cotangent, &mut by_kernels);
        layer.differentiate_by_images(kernels, cotangent, &mut by_images);
        [by_kernels, by_images]
    }

    #[test]
    fn two_windows_of_a_small_image_are_summed_by_hand() {
        let layer = ConvLayer::new([1, 1, 2, 3], [1, 2]);
        // 1 - 2 + 40 + 500 and 2 - 3 + 50 + 600.
        assert_eq!(result(&layer, &X, &KERNEL), [539.0, 649.0]);
    }

    #[test]
    fn steps_and_padding_are_summed_by_hand() {
        let layer = ConvLayer {
            step: 2,
            padding: 1,
            ..ConvLayer::new([1, 1, 2, 3], [1, 2])
        };
        assert_eq!(layer.size(), "1x1x2x3-1x2x2-s2-p1");
        // Windows start in rows 0 and 2 and in columns 0 and 2 of the padded image:
        //   0 0 0 0 0
        //   0 1 2 3 0
        //   0 4 5 6 0
        //   0 0 0 0 0
        let expected = [100.0, 20.0 + 300.0, -4.0, 5.0 - 6.0];
        assert_eq!(result(&layer, &X, &KERNEL), expected);
    }

    #[test]
    fn gradients_of_two_windows_are_summed_by_hand() {
        let layer = ConvLayer::new([1, 1, 2, 3], [1, 2]);
        let [by_kernels, by_images] = gradients(&layer, &X, &KERNEL, &[1.0, 10.0]);
        // An element of the kernel meets one pixel of each window.
        assert_eq!(by_kernels, [21.0, 32.0, 54.0, 65.0]);
        // A pixel meets an element of the kernel in the first window, in the second, or in both.
        let expected = [1.0, -1.0 + 10.0, -10.0, 10.0, 100.0 + 100.0, 1000.0];
        assert_eq!(by_images, expected);
    }

    #[test]
    fn gradients_with_steps_and_padding_are_adjoint_to_the_layer() {
        let layer = ConvLayer {
            step: 2,
            padding: 1,
            ..ConvLayer::new([2, 2, 5, 4], [3, 3])
        };
        let numbers = |n: usize, factor: usize| -> Vec<f64> {
            (0..n).map(|at| (at * factor % 11) as f64 - 5.0).collect()
        };
        let (x, kernels) = (numbers(80, 3), numbers(54, 7));
        let y = result(&layer, &x, &kernels);
        let cotangent = numbers(y.len(), 5);
        let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let [by_kernels, by_images] = gradients(&layer, &x, &kernels, &cotangent);
        // The numbers are small integers, so all sums are exact.
        let expected = product(&y, &cotangent);
        assert_eq!(product(&by_kernels, &kernels), expected);
        assert_eq!(product(&by_images, &x), expected);
    }
}
