//! The call of the GEMM library.
//!
//! Role: the only place that calls the library; converts array views to the pointers and strides
//! that it expects.
#![expect(
    unsafe_code,
    reason = "the library's interface is raw pointers and strides"
)]

use crate::Float;
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
    mut c: ArrayViewMut2<'_, T>,
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
    let [a_row, a_col] = [a.strides()[0], a.strides()[1]];
    let [b_row, b_col] = [b.strides()[0], b.strides()[1]];
    let [c_row, c_col] = [c.strides()[0], c.strides()[1]];
    let threads = if parallel {
        gemm::Parallelism::Rayon(0)
    } else {
        gemm::Parallelism::None
    };
    // SAFETY: each pointer is to the element [0, 0] of a live view, and the strides are the strides
    // of that view. The library reads a[i, k] and b[k, j] and writes c[i, j] for i < rows, k <
    // inner and j < cols, and also reads c[i, j] if `adds` is set; by the assertions above these
    // are elements of the views. `c` is borrowed mutably, so it overlaps neither input, and no two
    // of its indices share an element. `T` is f32 or f64, for which the library has kernels;
    // `Float` is sealed, so no other type can follow.
    unsafe {
        gemm::gemm(
            rows,
            cols,
            inner,
            c.as_mut_ptr(),
            c_col,
            c_row,
            adds,
            a.as_ptr(),
            a_col,
            a_row,
            b.as_ptr(),
            b_col,
            b_row,
            if adds { T::ONE } else { T::ZERO },
            T::ONE,
            false,
            false,
            false,
            threads,
        );
    }
}
