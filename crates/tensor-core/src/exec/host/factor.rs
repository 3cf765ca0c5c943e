//! The factors of a matrix product and their layout in memory.

use ndarray::{ArrayView2, ShapeBuilder};

use crate::dtype::{Element, HostData};
use crate::ir::{IndexMap, LoopNest, Value, ValueId};

/// A factor that is loaded from an input.
pub(super) struct Factor<'a, T> {
    /// The number of the input.
    pub(super) input: usize,
    pub(super) elements: &'a [T],
    pub(super) map: &'a IndexMap,
}

impl<'a, T: Element> Factor<'a, T> {
    /// Returns the factor that a value of the nest loads.
    pub(super) fn new(nest: &'a LoopNest, value: ValueId, inputs: &[&'a HostData]) -> Self {
        let Value::Load { input, map, .. } = &nest.values[value.0] else {
            unreachable!("the factors of `Pairs` are loads");
        };
        Self {
            input: *input,
            elements: T::slice(inputs[*input]).unwrap_or_default(),
            map,
        }
    }
}

/// Returns the product of the sizes of some axes.
pub(super) fn len_of(axes: &[usize], sizes: &[usize]) -> usize {
    axes.iter().map(|&axis| sizes[axis]).product()
}

/// Sets the indices of some axes to those at the row-major position `flat`.
pub(super) fn set_index(index: &mut [usize], axes: &[usize], sizes: &[usize], mut flat: usize) {
    for &axis in axes.iter().rev() {
        index[axis] = flat % sizes[axis];
        flat /= sizes[axis];
    }
}

/// Returns a matrix view that begins at an offset, or `None` if the matrix does not fit within
/// `data`.
pub(super) fn matrix<T>(
    data: &[T],
    offset: isize,
    shape: [usize; 2],
    strides: [usize; 2],
) -> Option<ArrayView2<'_, T>> {
    let data = data.get(usize::try_from(offset).ok()?..)?;
    ArrayView2::from_shape(shape.strides(strides), data).ok()
}
