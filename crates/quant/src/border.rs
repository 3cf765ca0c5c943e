//! The classes of output positions: two positions are in one class if the same taps are inside of
//! the image.
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
    /// The class of each output position.
    class_of: Vec<usize>,
    /// The taps of each class that are inside of the image.
    inside: Vec<Range<usize>>,
}

impl Border {
    pub(crate) fn new(window: &Window, image: [usize; 2], output: [usize; 2]) -> Self {
        let axes = [0, 1].map(|axis| {
            let mut classes = Classes {
                class_of: Vec::with_capacity(output[axis]),
                inside: Vec::new(),
            };
            for position in 0..output[axis] {
                let taps = window.taps_inside(axis, image[axis], position);
                // Classes follow one another along an axis, so only the last one can be equal.
                if classes.inside.last() != Some(&taps) {
                    classes.inside.push(taps);
                }
                classes.class_of.push(classes.inside.len() - 1);
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
        // Fewer classes than rows or columns of an image, so a number fits u32.
        let class = |&class: &usize| u32::try_from(class).unwrap_or(u32::MAX);
        let axes = self.axes.each_ref();
        axes.map(|axis| axis.class_of.iter().map(class).collect())
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
    let mut classes = numbers.chunks(n_outputs.max(1));
    classes.all(|class| class == first).then_some(first)
}
