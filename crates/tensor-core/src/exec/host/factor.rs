//! The factors of a matrix product as they lie in memory.

use ndarray::{ArrayView2, ShapeBuilder};

use crate::dtype::{Element, HostData};
use crate::ir::{Guard, IndexMap, LoopNest, Value, ValueId};

/// A factor that is read from memory.
pub(super) struct Factor<'a, T> {
    pub(super) data: &'a HostData,
    pub(super) elements: &'a [T],
    pub(super) map: &'a IndexMap,
    pub(super) guards: &'a [Guard],
}

impl<'a, T: Element> Factor<'a, T> {
    pub(super) fn of(nest: &'a LoopNest, value: ValueId, inputs: &[&'a HostData]) -> Self {
        let Value::Load { input, map, guards } = &nest.values[value.0] else {
            unreachable!("the target asks for plain factors");
        };
        Self {
            data: inputs[*input],
            elements: T::slice(inputs[*input]).unwrap_or_default(),
            map,
            guards,
        }
    }
}

/// The stride by which a map walks some loop axes flattened, in the order given; `None` if no single one does.
pub(super) fn stride_over(map: &IndexMap, axes: &[usize], sizes: &[usize]) -> Option<usize> {
    let Some(&last) = axes.last() else {
        return Some(0);
    };
    let stride = map.strides[last];
    let mut expected = stride;
    for &axis in axes.iter().rev() {
        if map.strides[axis] != expected {
            return None;
        }
        expected = expected.wrapping_mul(sizes[axis].cast_signed());
    }
    usize::try_from(stride).ok()
}

pub(super) fn len_of(axes: &[usize], sizes: &[usize]) -> usize {
    axes.iter().map(|&axis| sizes[axis]).product()
}

/// The index of some axes that is number `flat` in row-major order.
pub(super) fn set_index(index: &mut [usize], axes: &[usize], sizes: &[usize], mut flat: usize) {
    for &axis in axes.iter().rev() {
        index[axis] = flat % sizes[axis];
        flat /= sizes[axis];
    }
}

/// A matrix in memory that begins at an offset; `None` if it does not lie within.
pub(super) fn matrix<T>(
    data: &[T],
    offset: isize,
    shape: [usize; 2],
    strides: [usize; 2],
) -> Option<ArrayView2<'_, T>> {
    let data = data.get(usize::try_from(offset).ok()?..)?;
    ArrayView2::from_shape(shape.strides(strides), data).ok()
}
