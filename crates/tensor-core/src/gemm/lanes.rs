//! The choice of the side along which the lanes of vectors run, and the copy of the factor of that
//! side.
//!
//! Role: arranges a product so that the GEMM library does not copy a factor element by element.
//! Method: the library computes lanes along the side whose results are neighbours in memory, and
//! copies the factor of that side. Such a copy is fast if the elements of the lanes are neighbours.
//! If the terms are neighbours instead, as in `x · wᵀ` with row-major `x` and `w`, copying an
//! element takes as long as about two hundred multiply-adds. Here the lanes are along the side for
//! which fewer elements have to be copied, and the factor of that side is transposed in blocks
//! (`plane`). If the results are neighbours along the other side, the results are computed in
//! temporary memory and transposed, too.
//!
//! ```text
//! x [100, 1024] · w[512, 1024]ᵀ    lanes along the columns: transposes w, 512 × 1024 elements
//!                                  lanes along the rows: transposes x, 100 × 1024 elements, and
//!                                  the results, 100 × 512 elements
//! ```
//! Accuracy: the bits are those of the product without copies, because the library adds the terms
//! of each element in the same order along both sides. It adds the terms in the opposite order if
//! their stride is negative; such products are not arranged.
//! Memory: a copy of a factor, and for lanes along the other side a copy of the result; both are
//! allocated for each product, outside of the executor's pool.
//! Limits: only factors without gaps between their rows are transposed.

use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};

use super::multiply_as_is;
use crate::level::Level;
use crate::plane::{self, Plane};
use crate::storage::zeros;
use crate::{Float, Result, parallel};

/// The minimum number of multiply-adds of a product that is arranged.
const LEAST_PRODUCTS: usize = 1 << 15;
/// The maximum number of multiply-adds for each element that the library copies: with more
/// multiply-adds, the copy takes less than a tenth of the time.
const MOST_USES: usize = 2048;
/// The time that the library takes to copy an element, in elements that are transposed in blocks.
const BY_LIBRARY: usize = 8;
/// The number of elements that a task transposes: about 10 µs.
const TASK: usize = 1 << 15;
/// The name of the executor in errors.
const EXECUTOR: &str = "host";
/// The reason why a matrix of new memory always has its shape.
const FITS: &str = "the number of elements is that of the shape";

/// Computes `a · b` into `c`, with lanes along the side that takes less time.
///
/// The product must have several rows and columns, and more results than the library computes as
/// dot products.
pub(super) fn multiply_along_lanes<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    c: ArrayViewMut2<'_, T>,
    parallel: bool,
) -> Result<()> {
    let is_reversed = a.strides()[1] < 0 || b.strides()[0] < 0;
    let n_products = a.len().saturating_mul(b.ncols());
    if is_reversed || n_products < LEAST_PRODUCTS {
        return multiply_as_is(a, b, c, parallel);
    }
    // If the results of a column are neighbours in memory, the transposed product is computed, so
    // that the results of a row are neighbours.
    let (a, b, mut c) = match c.strides()[0].abs() < c.strides()[1].abs() {
        true => (b.reversed_axes(), a.reversed_axes(), c.reversed_axes()),
        false => (a, b, c),
    };
    if b.strides()[1] == 1 || c.nrows() > MOST_USES {
        return multiply_as_is(a, b, c, parallel);
    }
    let ((rows, cols), inner) = (c.dim(), a.ncols());
    let (can_copy_a, can_copy_b) = (a.is_standard_layout(), b.t().is_standard_layout());
    let as_is = BY_LIBRARY.saturating_mul(b.len());
    let along_columns = if can_copy_b { b.len() } else { usize::MAX };
    let of_a = match (a.strides()[0], can_copy_a) {
        (1, _) => 0,
        (_, true) => a.len(),
        (_, false) => BY_LIBRARY.saturating_mul(a.len()),
    };
    let along_rows = match c.is_standard_layout() {
        true => of_a.saturating_add(c.len()),
        false => usize::MAX,
    };
    if as_is <= along_columns.min(along_rows) {
        return multiply_as_is(a, b, c, parallel);
    }
    if along_columns <= along_rows {
        let columns = transposed(b.t(), parallel)?;
        let b = column_major((cols, inner), &columns).reversed_axes();
        return multiply_as_is(a, b, c, parallel);
    }
    let columns = match can_copy_a && a.strides()[0] != 1 {
        true => transposed(a, parallel)?,
        false => Vec::new(),
    };
    let a = match columns.is_empty() {
        true => a,
        false => column_major((rows, inner), &columns),
    };
    let mut results = zeros(EXECUTOR, rows * cols)?;
    let by_columns = ArrayViewMut2::from_shape((rows, cols).f(), &mut results).expect(FITS);
    multiply_as_is(a, b, by_columns, parallel)?;
    match c.as_slice_mut() {
        Some(c) => transpose(&results, [cols, rows], c, parallel),
        None => unreachable!("lanes are along rows only if the result is contiguous"),
    }
}

/// Returns a matrix whose columns are contiguous.
fn column_major<T>(sides: (usize, usize), elements: &[T]) -> ArrayView2<'_, T> {
    ArrayView2::from_shape(sides.f(), elements).expect(FITS)
}

/// Returns the transpose, row by row, of a matrix whose rows are contiguous and without gaps.
fn transposed<T: Float>(matrix: ArrayView2<'_, T>, parallel: bool) -> Result<Vec<T>> {
    let mut out = zeros(EXECUTOR, matrix.len())?;
    if let Some(elements) = matrix.as_slice() {
        transpose(elements, matrix.dim().into(), &mut out, parallel)?;
    }
    Ok(out)
}

/// Writes the transpose of a row-major matrix to `out`.
fn transpose<T: Float>(
    elements: &[T],
    [rows, cols]: [usize; 2],
    out: &mut [T],
    parallel: bool,
) -> Result<()> {
    // A task writes some rows of the transpose, whole blocks of them.
    let n_per_task = match parallel {
        true => (TASK / rows).max(1).next_multiple_of(plane::SIDE),
        false => cols,
    };
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
    use ndarray::{Array2, Axis, s};

    /// Checks that arrangements of a product have the bits of the product as it is.
    #[track_caller]
    fn check<T: Float>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, wide: fn(T) -> f64) {
        let sides = (a.nrows(), b.ncols());
        for layout in [sides.set_f(false), sides.f()] {
            let mut expected = Array2::from_elem(layout, T::ZERO);
            multiply_as_is(a, b, expected.view_mut(), false).unwrap();
            for parallel in [false, true] {
                let mut actual = Array2::from_elem(layout, T::ONE);
                multiply_along_lanes(a, b, actual.view_mut(), parallel).unwrap();
                let [actual, expected] = [&actual, &expected].map(|matrix| matrix.mapv(wide));
                assert_close(&actual, &expected, Tolerance::bits());
            }
        }
    }

    #[test]
    fn lanes_along_either_side_have_the_same_bits() {
        for shape in [
            [32, 1000, 70],
            [70, 1000, 32],
            [5, 600, 300],
            [300, 600, 5],
            [90, 64, 90],
            [17, 129, 33],
            [20, 30, 2500],
        ] {
            for [a, b] in in_all_layouts(shape) {
                check(a.view(), b.view(), f64::from);
                check(a.mapv(f64::from).view(), b.mapv(f64::from).view(), |x| x);
                // Only some terms of each row, and terms in opposite directions.
                let terms = s![.., ..shape[1] - 5];
                check(a.slice(terms), b.t().slice(terms).t(), f64::from);
                let mut reversed = a.clone();
                reversed.invert_axis(Axis(1));
                check(reversed.view(), b.view(), f64::from);
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
            for parallel in [false, true] {
                let out = transposed(matrix.view(), parallel).unwrap();
                let copy = column_major((rows, cols), &out);
                assert_close(copy, &matrix, Tolerance::exact());
            }
        }
    }
}
