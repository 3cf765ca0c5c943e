//! The side of a product along which the lanes of vectors are, and the copy of its factor.
//!
//! Role: arranges a product so that the library does not copy a factor element by element.
//! Method: the library computes lanes along the side whose results are neighbours in memory, and
//! copies the factor of that side. Such a copy is fast if the elements of the lanes are neighbours.
//! If the terms are neighbours instead, as in `x · wᵀ` with row-major `x` and `w`, copying an
//! element takes as long as a hundred multiply-adds. Here the lanes are along the side for which
//! fewer elements have to be copied, and the factor of that side is transposed in blocks (`plane`).
//! If the results are neighbours along the other side, they are computed in temporary memory and
//! transposed, too.
//!
//! ```text
//! x [100, 1024] · w[512, 1024]ᵀ    lanes along the columns: transposes w, 512 × 1024 elements
//!                                  lanes along the rows: transposes x, 100 × 1024 elements, and
//!                                  the results, 100 × 512 elements
//! ```
//! Accuracy: the bits are those of the product without copies, because the library adds the terms
//! of each element in the same order along both sides.
//! Memory: a copy of a factor, and for lanes along the other side a copy of the result.

use ndarray::{Array2, ArrayView2, ArrayViewMut2, ShapeBuilder};

use super::multiply_as_is;
use crate::level::Level;
use crate::plane::Plane;
use crate::{Float, Result, parallel};

/// The minimum number of multiply-adds of a product that is arranged.
const LEAST_PRODUCTS: usize = 1 << 15;
/// The number of elements that a task transposes: about 10 µs.
const TASK: usize = 1 << 15;

/// Computes `a · b` into `c`, with lanes along the side that is faster.
///
/// The product has several rows and columns, and more results than the library computes as dot
/// products.
pub(super) fn multiply_along_lanes<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    c: ArrayViewMut2<'_, T>,
    parallel: bool,
) -> Result<()> {
    // If the results are neighbours along the rows, the transposed product has neighbours along its
    // columns.
    let (a, b, mut c) = match c.strides()[0].abs() < c.strides()[1].abs() {
        true => (b.reversed_axes(), a.reversed_axes(), c.reversed_axes()),
        false => (a, b, c),
    };
    let ((rows, cols), inner) = (c.dim(), a.ncols());
    let n_products = rows.saturating_mul(cols).saturating_mul(inner);
    if n_products < LEAST_PRODUCTS || b.strides()[1] == 1 {
        return multiply_as_is(a, b, c, parallel);
    }
    let n_of_a = if a.strides()[0] == 1 { 0 } else { rows * inner };
    if inner * cols <= n_of_a + rows * cols {
        let copy = copied(b.t())?;
        let b = copy.as_ref().map_or(b, |copy| copy.t());
        return multiply_as_is(a, b, c, parallel);
    }
    let Some(results) = c.as_slice_mut() else {
        return multiply_as_is(a, b, c, parallel);
    };
    let copy = if n_of_a == 0 { None } else { copied(a)? };
    let a = copy.as_ref().map_or(a, |copy| copy.view());
    let mut lines = Array2::from_elem((rows, cols).f(), T::ZERO);
    multiply_as_is(a, b, lines.view_mut(), parallel)?;
    match lines.as_slice_memory_order() {
        Some(lines) => transpose(lines, [cols, rows], results),
        None => {
            c.assign(&lines);
            Ok(())
        }
    }
}

/// Returns a copy of a matrix whose columns are contiguous. Returns `None` if the matrix is not
/// contiguous row by row.
fn copied<T: Float>(matrix: ArrayView2<'_, T>) -> Result<Option<Array2<T>>> {
    let Some(elements) = matrix.as_slice() else {
        return Ok(None);
    };
    let (rows, cols) = matrix.dim();
    let mut copy = Array2::from_elem((rows, cols).f(), T::ZERO);
    let Some(out) = copy.as_slice_memory_order_mut() else {
        return Ok(None);
    };
    transpose(elements, [rows, cols], out)?;
    Ok(Some(copy))
}

/// Writes the transpose of a row-major matrix to `out`, on all threads.
fn transpose<T: Float>(elements: &[T], [rows, cols]: [usize; 2], out: &mut [T]) -> Result<()> {
    // A task writes some rows of the transpose.
    let n_per_task = (TASK / rows).max(1);
    let tasks = out.chunks_mut(n_per_task * rows).enumerate();
    parallel::for_each(
        tasks,
        || (),
        |(), (number, out)| {
            let plane = Plane {
                len: [out.len() / rows, rows],
                source_stride: cols.cast_signed(),
                out_stride: rows,
            };
            let first = (number * n_per_task).cast_signed();
            Level::best().dispatch(
                #[inline(always)]
                || plane.copy(elements, first, out),
            );
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Tolerance, assert_close};
    use crate::gemm::tests::{in_all_layouts, random};

    #[test]
    fn lanes_along_either_side_have_the_same_bits() {
        for shape in [
            [32, 1000, 70],
            [70, 1000, 32],
            [5, 600, 300],
            [300, 600, 5],
            [90, 64, 90],
            [17, 129, 33],
        ] {
            for [a, b] in in_all_layouts(shape) {
                let sides = (shape[0], shape[2]);
                let mut expected = Array2::from_elem(sides, f32::NAN);
                multiply_as_is(a.view(), b.view(), expected.view_mut(), false).unwrap();
                for parallel in [false, true] {
                    let mut by_rows = Array2::from_elem(sides, f32::NAN);
                    let (rows, cols) = (a.view(), b.view());
                    multiply_along_lanes(rows, cols, by_rows.view_mut(), parallel).unwrap();
                    assert_close(&by_rows, &expected, Tolerance::bits());
                    let mut by_cols = Array2::from_elem(sides.f(), f32::NAN);
                    multiply_along_lanes(rows, cols, by_cols.view_mut(), parallel).unwrap();
                    assert_close(&by_cols, &expected, Tolerance::bits());
                }
            }
        }
    }

    #[test]
    fn transposes_of_any_shape_have_each_element_at_its_place() {
        for [rows, cols] in [
            [1, 1],
            [16, 64],
            [17, 65],
            [3, 40_000],
            [40_000, 3],
            [500, 300],
        ] {
            let matrix = random(rows, cols, 0);
            let copy = copied(matrix.view()).unwrap().unwrap();
            assert_close(&copy, &matrix, Tolerance::exact());
            assert_eq!(copy.strides()[0], 1);
        }
        assert!(copied(random(4, 5, 0).t()).unwrap().is_none());
    }
}
