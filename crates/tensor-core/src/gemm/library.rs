//! The call of the GEMM library.
//!
//! Role: the only place that calls the library; converts array views to the pointers and strides
//! that it expects.
#![expect(
    unsafe_code,
    reason = "the library's interface is raw pointers and strides"
)]

use crate::Float;
use gemm_common::Parallelism;
use ndarray::{ArrayView2, ArrayViewMut2, Axis};

/// The maximum number of terms that one call of the library adds. With more terms, the library
/// divides the sums, at positions that depend on the numbers of rows and columns, and so would the
/// bits. It never divides 512 terms.
const MAX_TERMS: usize = 512;

/// The maximum number of elements that the library computes as separate dot products if the terms
/// of each element are consecutive in both factors. The lanes of a vector then add the terms of one
/// element.
pub(super) const MAX_DOTS: usize = 256;

/// Computes `a · b` into `c` and overwrites the old contents of `c`. No dimension may be zero.
///
/// The order of a sum depends on the number of its terms, and on the kind of the kernel. The
/// library has kernels of their own for [`MAX_DOTS`] or fewer dot products, and for single rows and
/// columns. The latter never divide the sums, but require that the elements of the vector are
/// neighbours. A vector with other strides runs the general kernel, which divides its sums in
/// another way if the result has at most 64 elements.
///
/// # Panics
/// If the shapes do not match or a dimension is zero.
pub(super) fn multiply<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    mut c: ArrayViewMut2<'_, T>,
    parallel: bool,
) {
    let (rows, cols) = c.dim();
    let inner = a.ncols();
    if rows == 1 || cols == 1 || inner <= MAX_TERMS {
        return multiply_block(a, b, c, (false, parallel));
    }
    // Blocks of nearly equal length, because short ones are slow.
    let n_blocks = inner.div_ceil(MAX_TERMS);
    let len = inner.div_ceil(n_blocks);
    let blocks = a.axis_chunks_iter(Axis(1), len);
    let blocks = blocks.zip(b.axis_chunks_iter(Axis(0), len));
    for (number, (a, b)) in blocks.enumerate() {
        multiply_block(a, b, c.view_mut(), (number > 0, parallel));
    }
}

/// Computes `a · b` into `c`, or adds `a · b` to `c` if `adds` is set. No dimension may be zero.
///
/// # Panics
/// If the shapes do not match or a dimension is zero.
fn multiply_block<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    c: ArrayViewMut2<'_, T>,
    (adds, parallel): (bool, bool),
) {
    let ([rows, inner], [b_rows, cols]) = (a.dim().into(), b.dim().into());
    assert_eq!(
        (b_rows, c.dim()),
        (inner, (rows, cols)),
        "gemm: shapes differ"
    );
    assert!(
        rows > 0 && inner > 0 && cols > 0,
        "gemm: a dimension is zero"
    );
    // The kernels store vectors along the columns of `c`, so the transpose is computed if the
    // elements of its rows are neighbours.
    let (mut a, mut b, mut c) = match c.strides()[1].abs() < c.strides()[0].abs() {
        true => (b.reversed_axes(), a.reversed_axes(), c.reversed_axes()),
        false => (a, b, c),
    };
    // The kernels require positive strides of `c` and of the terms of `a`.
    if c.strides()[0] < 0 {
        c.invert_axis(Axis(0));
        a.invert_axis(Axis(0));
    }
    if c.strides()[1] < 0 {
        c.invert_axis(Axis(1));
        b.invert_axis(Axis(1));
    }
    if a.strides()[1] < 0 {
        a.invert_axis(Axis(1));
        b.invert_axis(Axis(0));
    }
    let threads = if parallel {
        Parallelism::Rayon(0)
    } else {
        Parallelism::None
    };
    let product = T::product();
    // SAFETY: each pointer is to the element [0, 0] of a live view, and the strides are the strides
    // of that view. The library reads a[i, k] and b[k, j] and writes c[i, j] for all rows, terms
    // and columns, and also reads c[i, j] if `adds` is set; by the assertions above these are
    // elements of the views. `c` is borrowed mutably, so it overlaps neither input, and no two of
    // its indices share an element.
    unsafe {
        product(
            a.nrows(),
            b.ncols(),
            inner,
            c.as_mut_ptr(),
            c.strides()[1],
            c.strides()[0],
            adds,
            a.as_ptr(),
            a.strides()[1],
            a.strides()[0],
            b.as_ptr(),
            b.strides()[1],
            b.strides()[0],
            if adds { T::ONE } else { T::ZERO },
            T::ONE,
            false,
            false,
            false,
            threads,
        );
    }
}
