//! The arguments of comparisons.

use std::collections::HashSet;
use std::ops::Range;

use ndarray::{ArrayBase, ArrayViewD, Data, Dimension, aview1};

use super::element::Element;

/// A sequence of numbers: a slice, vector, fixed-size array or `ndarray`, by value or by reference.
pub trait Values {
    /// The type of the numbers.
    type Element: Element;
    /// Whether the values have a shape; slices, vectors and fixed-size arrays have only a length.
    const HAS_SHAPE: bool;
    /// Returns a view of the numbers.
    fn values(&self) -> ArrayViewD<'_, Self::Element>;
}

impl<V: Values + ?Sized> Values for &V {
    type Element = V::Element;
    const HAS_SHAPE: bool = V::HAS_SHAPE;
    fn values(&self) -> ArrayViewD<'_, Self::Element> {
        (**self).values()
    }
}

impl<T: Element> Values for [T] {
    type Element = T;
    const HAS_SHAPE: bool = false;
    fn values(&self) -> ArrayViewD<'_, T> {
        aview1(self).into_dyn()
    }
}

impl<T: Element> Values for Vec<T> {
    type Element = T;
    const HAS_SHAPE: bool = false;
    fn values(&self) -> ArrayViewD<'_, T> {
        self.as_slice().values()
    }
}

impl<T: Element, const N: usize> Values for [T; N] {
    type Element = T;
    const HAS_SHAPE: bool = false;
    fn values(&self) -> ArrayViewD<'_, T> {
        aview1(self).into_dyn()
    }
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> Values for ArrayBase<S, D> {
    type Element = T;
    const HAS_SHAPE: bool = true;
    fn values(&self) -> ArrayViewD<'_, T> {
        self.view().into_dyn()
    }
}

/// Returns whether the two views share an element in memory.
pub(super) fn share_memory<A, E>(actual: &ArrayViewD<'_, A>, expected: &ArrayViewD<'_, E>) -> bool {
    let (left, right) = (Footprint::from_view(actual), Footprint::from_view(expected));
    if left.addresses.start >= right.addresses.end || right.addresses.start >= left.addresses.end {
        return false;
    }
    if left.is_dense && right.is_dense {
        return true;
    }
    // The ranges overlap, but the views have gaps: two columns of a matrix interleave without
    // shared elements. So compare each address.
    let addresses: HashSet<usize> = actual
        .iter()
        .map(|x| std::ptr::from_ref(x).addr())
        .collect();
    expected
        .iter()
        .any(|x| addresses.contains(&std::ptr::from_ref(x).addr()))
}

/// The range of addresses of a view.
struct Footprint {
    addresses: Range<usize>,
    is_dense: bool,
}

impl Footprint {
    fn from_view<T>(view: &ArrayViewD<'_, T>) -> Self {
        if let Some(slice) = view.as_slice_memory_order() {
            let range = slice.as_ptr_range();
            return Self {
                addresses: range.start.addr()..range.end.addr(),
                is_dense: true,
            };
        }
        let addresses = || view.iter().map(|x| std::ptr::from_ref(x).addr());
        let (start, end) = (addresses().min(), addresses().max());
        let end = end.map_or(0, |last| last + size_of::<T>());
        Self {
            addresses: start.unwrap_or(0)..end,
            is_dense: false,
        }
    }
}
