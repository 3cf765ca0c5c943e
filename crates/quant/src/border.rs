//! Classes of output positions that have the same taps inside of the image.
//!
//! Method: the taps inside of the image are a range of taps along the height and one along the
//! width, so a class is a pair of a class of rows and a class of columns.
//!
//! ```text
//! 3x3 window, padding 1, image 5x5: three classes of rows, three of columns
//! row    0          1  2  3      4
//! taps   .##        ###          ##.
//! ```

use std::ops::Range;

use tensor_core::Tensor;

use crate::window::Window;

/// The classes of output positions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Border {
    /// The number of taps along each axis.
    size: [usize; 2],
    axes: [Classes; 2],
}

/// The classes of the positions along one axis.
#[derive(Clone, Debug, PartialEq)]
struct Classes {
    /// The number of output positions.
    len: usize,
    /// The first output position of each class, which ends where the next class begins.
    starts: Vec<usize>,
    /// The taps of each class that are inside of the image.
    inside: Vec<Range<usize>>,
}

impl Border {
    pub(crate) fn new(window: &Window, image: [usize; 2], output: [usize; 2]) -> Self {
        let axes = [0, 1].map(|axis| {
            let mut classes = Classes {
                len: output[axis],
                starts: Vec::new(),
                inside: Vec::new(),
            };
            let mut position = 0;
            while position < output[axis] {
                let taps = window.taps_inside(axis, image[axis], position);
                // The class of all taps has nearly all positions of a large image.
                let next = if taps == (0..window.size[axis]) {
                    window.first_beyond(axis, image[axis])
                } else {
                    position + 1
                };
                // Classes follow one another along an axis, so only the last one can be equal.
                if classes.inside.last() != Some(&taps) {
                    classes.starts.push(position);
                    classes.inside.push(taps);
                }
                position = next;
            }
            classes
        });
        Self {
            size: window.size,
            axes,
        }
    }

    /// Returns the number of classes.
    pub(crate) fn n_classes(&self) -> usize {
        self.axes.iter().map(|axis| axis.inside.len()).product()
    }

    /// Returns for each class whether each tap, row by row, is inside of the image.
    pub(crate) fn classes(&self) -> impl Iterator<Item = Vec<bool>> {
        let [rows, cols] = &self.axes;
        let [n_y, n_x] = self.size;
        rows.inside.iter().flat_map(move |row| {
            cols.inside.iter().map(move |col| {
                let taps = (0..n_y).flat_map(|y| (0..n_x).map(move |x| (y, x)));
                taps.map(|(y, x)| row.contains(&y) && col.contains(&x))
                    .collect()
            })
        })
    }

    /// Returns the class of each output row, and of each output column.
    pub(crate) fn class_of_axes(&self) -> [Vec<u32>; 2] {
        self.axes.each_ref().map(|axis| {
            let ends = axis.starts.iter().skip(1).chain([&axis.len]);
            // There are at most two classes for each tap, and one more, so a number fits u32.
            let classes = (0_u32..).zip(axis.starts.iter().zip(ends));
            let runs = classes.map(|(class, (start, end))| (class, end - start));
            runs.flat_map(|(class, n)| std::iter::repeat_n(class, n))
                .collect()
        })
    }

    /// Returns the numbers `[class, output]` at each position: `[rows, cols, outputs]`, or
    /// `[outputs]` if all classes have equal numbers.
    pub(crate) fn program(&self, numbers: &[i32], n_outputs: usize) -> Tensor {
        if let Some(numbers) = common(numbers, n_outputs) {
            return Tensor::from_vec(&[n_outputs], numbers.to_vec());
        }
        // [rows, 1] and [cols]: the class of a position is that of its row and its column.
        let [rows, cols] = self.class_of_axes().map(|classes| {
            let n = classes.len();
            Tensor::from_vec(&[n], classes)
        });
        let n_cols = u32::try_from(self.axes[1].inside.len()).unwrap_or(u32::MAX);
        let classes = rows.expand_dims(1) * n_cols + cols;
        let table = Tensor::from_vec(&[self.n_classes(), n_outputs], numbers.to_vec());
        table.gather(&classes, 0)
    }
}

/// Returns the numbers `[output]` of every class if all classes of `[class, output]` have equal
/// numbers, as they do where the padding adds nothing.
pub(crate) fn common(numbers: &[i32], n_outputs: usize) -> Option<&[i32]> {
    let first = numbers.get(..n_outputs)?;
    // Without outputs there are no numbers.
    let mut classes = numbers.chunks(n_outputs.max(1));
    classes.all(|class| class == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_has_the_class_of_its_taps() {
        let mut n_windows = 0;
        for (size, stride) in [(1, 1), (2, 3), (3, 1), (3, 2), (5, 1), (7, 20)] {
            for (dilation, before, after) in [(1, 0, 0), (1, 1, 1), (2, 3, 0), (3, 0, 9), (5, 9, 9)]
            {
                for len in [0, 1, 2, 5, 13, 40] {
                    let window = Window::new([size, 1])
                        .with_stride([stride, 1])
                        .with_dilation([dilation, 1])
                        .with_padding([[before, after], [0, 0]]);
                    let image = [len, 1];
                    let Ok(output) = window.output_size(image) else {
                        continue;
                    };
                    n_windows += 1;
                    let border = Border::new(&window, image, output);
                    let [rows, _] = border.class_of_axes();
                    assert_eq!(rows.len(), output[0]);
                    for (position, &class) in rows.iter().enumerate() {
                        let taps = window.taps_inside(0, len, position);
                        assert_eq!(border.axes[0].inside[class as usize], taps, "{window:?}");
                    }
                    assert!(border.n_classes() <= 2 * size + 1, "{window:?}");
                }
            }
        }
        assert!(n_windows > 100, "{n_windows}");
    }

    #[test]
    fn positions_take_no_memory() {
        let window = Window::new([3, 3]).with_padding([[1, 1], [1, 1]]);
        let border = Border::new(&window, [1 << 40, 4], [1 << 40, 4]);
        assert_eq!(border.axes[0].starts, [0, 1, (1 << 40) - 1]);
        assert_eq!(border.n_classes(), 9);
    }
}
