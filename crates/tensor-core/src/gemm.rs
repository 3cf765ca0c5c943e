//! Matrix products on the CPU.
//!
//! Role: the only interface to the GEMM library; all host code that multiplies matrices calls this
//! module.
//! Method: the library `gemm` 0.19 (`gemm-f32`, `gemm-f64`) with its AVX-512 kernels, selected at
//! run time by the features of the CPU, on rayon's threads. It was the fastest of the measured
//! libraries on square and on tall, narrow products; only on tiny products was its predecessor
//! faster. GFLOP/s on 2 cores of an AMD EPYC (Zen 5), two threads, from one run of
//! `MATMUL_NUM_THREADS=2 cargo bench -p benches --features libraries --bench gemm_libraries`,
//! before long sums were added in blocks:
//!
//! | | 512³ | 1024³ | 2048³ | 50000×784×10 | 5×784×10 |
//! |---|---|---|---|---|---|
//! | `gemm` 0.19, AVX-512 | 547 | 516 | 523 | 165 | 33 |
//! | `gemm` 0.18, AVX2 | 273 | 276 | 276 | 165 | 49 |
//! | `faer` 0.24 | 492 | 505 | 490 | 93 | 6 |
//! | `matrixmultiply` 0.3 | 427 | 421 | 437 | 38 | 17 |
//! | `ndarray` 0.17 (`dot`) | 427 | 415 | 438 | 38 | 17 |
//!
//! Shapes: `a` is `[rows, inner]`, `b` is `[inner, cols]`, the result is `[rows, cols]`; any
//! strides, including zero and negative ones. `lanes` arranges products whose terms are neighbours
//! in memory, such as `x · wᵀ`.
//! Accuracy: each element sums `inner` products in an order that the library chooses, with or
//! without fused multiply-adds. Either way a product is rounded at most `inner` times, so the error
//! is at most `γ · Σ|a·b|` with `γ = inner · u / (1 − inner · u)` and `u = EPSILON / 2`.
//! [`Tolerance`](crate::compare::Tolerance) contains the derivation; tests use the form
//! `Tolerance::relative(inner / 2 + 1)` scaled by [`magnitudes`](Oracle::magnitudes). NaN and
//! infinity propagate as in IEEE arithmetic: `0 · ∞` is NaN. The threads split rows and columns,
//! never a sum. The order of a sum depends on the shape and the strides of the whole product, not
//! on the part that a thread computes. The number of threads therefore does not change the bits.

pub use oracle::{Oracle, oracle};

use crate::{Error, Float, Result, parallel, shape};
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, ShapeBuilder, Slice, s};

mod lanes;
mod library;
mod oracle;

/// Computes `a · b`.
///
/// A sum of no terms is 0. Threads are used if the product is large enough to benefit.
///
/// # Errors
/// [`Error::InnerMismatch`] if the number of columns of `a` differs from the number of rows of `b`;
/// [`Error::TooLarge`] if the result exceeds the address space.
///
/// # Examples
/// ```
/// use tensor_core::{gemm, ndarray::array};
///
/// let c = gemm::matmul(array![[1.0_f32, 2.0]].view(), array![[3.0], [4.0]].view())?;
/// assert_eq!(c, array![[11.0]]);
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn matmul<T: Float>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Result<Array2<T>> {
    let [rows, cols] = [a.nrows(), b.ncols()];
    shape::allocatable_count::<T>("matmul", &[rows, cols])?;
    let mut c = Array2::from_elem((rows, cols), T::ZERO);
    matmul_into(a, b, c.view_mut())?;
    Ok(c)
}

/// Computes `a · b` into `c` and overwrites the old contents of `c`.
///
/// # Errors
/// [`Error::InnerMismatch`] if the number of columns of `a` differs from the number of rows of `b`;
/// [`Error::MatmulMismatch`] if the shape of `c` is not that of the product.
pub fn matmul_into<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    c: ArrayViewMut2<'_, T>,
) -> Result<()> {
    multiply_into(a, b, c, true)
}

/// Computes `a · b` into `c`, on all threads if `parallel` is set. Callers that already run on
/// several threads leave `parallel` unset, and the product uses the current thread alone.
pub(crate) fn multiply_into<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    mut c: ArrayViewMut2<'_, T>,
    parallel: bool,
) -> Result<()> {
    let [rows, inner, cols] = [a.nrows(), a.ncols(), b.ncols()];
    let (left, right) = ([rows, inner], [b.nrows(), cols]);
    if b.nrows() != inner {
        return Err(Error::InnerMismatch {
            operation: "matmul",
            left: left.into(),
            right: right.into(),
        });
    }
    if c.dim() != (rows, cols) {
        return Err(Error::MatmulMismatch {
            left,
            right,
            result: [c.nrows(), c.ncols()],
        });
    }
    if c.is_empty() {
        return Ok(());
    }
    if inner == 0 {
        c.fill(T::ZERO);
        return Ok(());
    }
    let is_single = rows == 1 || cols == 1;
    if is_single || rows.saturating_mul(cols) <= library::MAX_DOTS {
        return multiply_as_is(a, b, c, parallel);
    }
    lanes::multiply_along_lanes(a, b, c, parallel)
}

/// Computes `a · b` into `c` with the given strides. The matrices must not be empty.
fn multiply_as_is<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    c: ArrayViewMut2<'_, T>,
    parallel: bool,
) -> Result<()> {
    if parallel && !parallel::is_in_task() {
        return multiply_on_threads(a, b, c);
    }
    library::multiply(a, b, c, false);
    Ok(())
}

/// Computes some rows or columns of a product into `c` on the current thread. The bits are those of
/// the whole product, whose numbers of rows and columns are `whole`. A product with a single row or
/// column must be computed as a whole, and the strides of the terms must not be negative.
///
/// # Errors
/// As [`matmul_into`].
pub(crate) fn multiply_part_into<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    mut c: ArrayViewMut2<'_, T>,
    whole: [usize; 2],
) -> Result<()> {
    let could_be_dots = are_terms_consecutive(a, b);
    let are_dots =
        |[rows, cols]: [usize; 2]| could_be_dots && rows.saturating_mul(cols) <= library::MAX_DOTS;
    let (rows, cols) = c.dim();
    let is_single = rows == 1 || cols == 1;
    let becomes_dots = are_dots([rows, cols]) && !are_dots(whole);
    if [rows, cols] == whole || !(is_single || becomes_dots) {
        return multiply_into(a, b, c, false);
    }
    // The library may add the sums of this part in another order than those of the whole. So a
    // single row or column is computed twice, and the terms are consecutive in a copy of `b` only
    // if the whole consists of dot products.
    let mut results = Array2::from_elem((rows.max(2), cols.max(2)), T::ZERO);
    let layout = (b.nrows(), results.ncols()).set_f(are_dots(whole));
    let mut copied = Array2::from_elem(layout, T::ZERO);
    let repeated = (
        a.broadcast((results.nrows(), a.ncols())),
        b.broadcast(copied.dim()),
    );
    // Both broadcasts repeat an axis of length 1, or none.
    if let (Some(a), Some(b)) = repeated {
        copied.assign(&b);
        multiply_into(a, copied.view(), results.view_mut(), false)?;
    }
    c.assign(&results.slice(s![..rows, ..cols]));
    Ok(())
}

/// Returns whether the terms of each sum are neighbours in both factors, in the same direction. The
/// library then computes up to [`library::MAX_DOTS`] elements as separate dot products.
fn are_terms_consecutive<T>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> bool {
    let stride = a.strides()[1];
    stride.abs() == 1 && b.strides()[0] == stride
}

/// Computes `a · b` into `c` on all threads. The matrices must not be empty.
///
/// The library divides large products itself and packs each factor once for all threads. It enters
/// rayon's pool for that, so smaller products, for which entering takes too long, are divided here.
/// The bits of the result are equal in each case, because the order of a sum does not depend on the
/// part of the product that a thread computes.
fn multiply_on_threads<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    mut c: ArrayViewMut2<'_, T>,
) -> Result<()> {
    /// The minimum number of multiply-adds of each thread. They take a few microseconds, longer
    /// than waking the thread.
    const FEW: usize = 1 << 18;
    /// The number of multiply-adds of one thread from which on the library divides the product:
    /// about a millisecond.
    const MANY: usize = 1 << 26;
    /// The number of rows or columns that the library's kernels compute at a time, or a multiple.
    const TILE: usize = 16;
    let (rows, cols) = c.dim();
    // The minimum number of rows or columns of one thread. A cut at a multiple of `TILE` makes a
    // part up to `TILE` shorter. The part must still run the kernels of the whole: it needs several
    // rows and columns, and more elements than the library computes as dot products. The same limit
    // serves a single row or column, whose sums the library divides in another way if it has up to
    // 64 elements that are not neighbours.
    let is_single = rows == 1 || cols == 1;
    let n_others = if is_single || are_terms_consecutive(a, b) {
        library::MAX_DOTS
    } else {
        0
    };
    let min_side = 2 * TILE + n_others / rows.min(cols);
    let n_products = rows.saturating_mul(cols).saturating_mul(a.ncols());
    let n_threads = rayon::current_num_threads();
    if n_threads > 1 && n_products / n_threads >= MANY {
        rayon::scope(|_| library::multiply(a, b, c, true));
        return Ok(());
    }
    let axis = if rows >= cols { Axis(0) } else { Axis(1) };
    let side = c.len_of(axis);
    let n_parts = n_threads.min(n_products / FEW).min(side / min_side).max(1);
    let cut = |part: usize| side * part / n_parts / TILE * TILE;
    let mut parts = Vec::with_capacity(n_parts);
    for part in (1..n_parts).rev() {
        let (before, last) = c.split_at(axis, cut(part));
        parts.push((cut(part), last));
        c = before;
    }
    parts.push((0, c));
    parallel::for_each(
        parts.into_iter(),
        || (),
        |(), (first, c)| {
            let range = Slice::from(first..first + c.len_of(axis));
            match axis {
                Axis(0) => library::multiply(a.slice_axis(axis, range), b, c, false),
                _ => library::multiply(a, b.slice_axis(axis, range), c, false),
            }
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Tolerance, assert_close};
    use crate::rng::Philox;
    use ndarray::{Array, Array1, Axis};

    pub(super) fn random(rows: usize, cols: usize, stream: u64) -> Array2<f32> {
        let random = Philox::new(3).stream(stream);
        Array::from_shape_fn((rows, cols), |(i, j)| {
            random.uniform_f32((i * cols + j) as u64) - 0.5
        })
    }

    /// Checks a product against sums in f64, relative to the sums of magnitudes.
    fn check(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) {
        let c = matmul(a, b).unwrap();
        let wide = |m: ArrayView2<'_, f32>| m.mapv(f64::from);
        let (a64, b64) = (wide(a), wide(b));
        let magnitudes = a64.mapv(f64::abs).dot(&b64.mapv(f64::abs));
        let bound = Tolerance::relative(a.ncols() / 2 + 1).scaled_by(magnitudes.iter().copied());
        assert_close(&c, a64.dot(&b64), bound.allow_empty());
    }

    #[test]
    fn every_shape_matches_f64() {
        for [rows, inner, cols] in [
            [0, 3, 2],
            [3, 0, 2],
            [3, 2, 0],
            [1, 1, 1],
            [5, 784, 10],
            [63, 65, 64],
            [300, 257, 129],
            [1, 999, 1],
            [999, 1, 999],
        ] {
            check(random(rows, inner, 0).view(), random(inner, cols, 1).view());
        }
    }

    #[test]
    fn transposed_reversed_and_broadcast_views_match_f64() {
        let (a, b) = (random(70, 50, 0), random(70, 40, 1));
        check(a.t(), b.view());
        check(
            a.slice(s![..;-1, ..;-1]).reversed_axes(),
            b.slice(s![.., ..;2]),
        );
        let row = Array1::from_iter((0..50_u8).map(f32::from));
        check(row.broadcast((30, 50)).unwrap(), a.t().view());
        let mut one_row = a.view();
        one_row.collapse_axis(Axis(0), 3);
        check(one_row, a.t().view());
    }

    #[test]
    fn results_of_any_strides_are_written_where_they_belong() {
        let (a, b) = (random(37, 41, 0), random(41, 29, 1));
        let truth = oracle(a.as_slice().unwrap(), b.as_slice().unwrap(), [37, 41, 29]).unwrap();
        let bound = Tolerance::relative(41 / 2 + 1).scaled_by(truth.magnitudes);
        let mut buffer = Array2::from_elem((74, 58), 7.0_f32);
        for columns in [false, true] {
            let part = if columns {
                buffer.slice_mut(s![..58, ..37]).reversed_axes()
            } else {
                buffer.slice_mut(s![..37, ..58])
            };
            let mut c = part.slice_move(s![..;-1, ..;-2]);
            matmul_into(a.view(), b.view(), c.view_mut()).unwrap();
            assert_close(&c, &truth.product, bound.clone());
            c.fill(7.0);
            assert!(
                buffer.iter().all(|&x| x == 7.0),
                "elements outside the result changed"
            );
        }
    }

    #[test]
    fn products_of_small_integers_are_exact_in_both_types() {
        let integer = |(i, j): (usize, usize)| i8::try_from((i * 7 + j * 5) % 11).unwrap() - 5;
        let a = Array2::from_shape_fn((33, 70), integer);
        let b = Array2::from_shape_fn((70, 65), integer);
        let (a64, b64) = (a.mapv(f64::from), b.mapv(f64::from));
        let expected = crate::einsum::oracle("ik,kj->ij", &[&a64, &b64]).unwrap();
        let doubles = matmul(a64.view(), b64.view()).unwrap();
        assert_close(doubles.into_dyn(), &expected, Tolerance::exact());
        let (a32, b32) = (a.mapv(f32::from), b.mapv(f32::from));
        let singles = matmul(a32.view(), b32.view()).unwrap();
        assert_close(singles.into_dyn(), &expected, Tolerance::exact());
    }

    #[test]
    fn the_number_of_threads_does_not_change_the_bits() {
        let pools = [1, 3, 8].map(|n_threads| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
            builder.build().unwrap()
        });
        for [rows, inner, cols] in [
            [5, 784, 10],
            [1000, 784, 10],
            [257, 1001, 129],
            [1, 5000, 700],
            [700, 5000, 1],
            [3, 20_000, 3],
            [400, 300, 500],
            [900, 2, 900],
            [4099, 64, 40],
            [33, 4096, 2001],
            [100, 20_000, 50],
            [130, 1000, 40],
            [40, 1025, 300],
            [64, 20_000, 5],
            [100, 784, 10],
            [784, 100, 10],
            [40, 4000, 9],
            [400, 20_000, 1],
            [520, 1000, 1100],
        ] {
            let layouts = in_all_layouts([rows, inner, cols]);
            let rows_by_rows = layouts[1].clone();
            for [a, b] in layouts.into_iter().chain([reversed(rows_by_rows)]) {
                let (a64, b64) = (a.mapv(f64::from), b.mapv(f64::from));
                let [one, others @ ..] = pools.each_ref().map(|pool| {
                    let both = || {
                        (
                            matmul(a.view(), b.view()).unwrap(),
                            matmul(a64.view(), b64.view()).unwrap(),
                        )
                    };
                    pool.install(both)
                });
                for other in others {
                    assert_close(&one.0, other.0, Tolerance::bits());
                    assert_close(&one.1, other.1, Tolerance::bits());
                }
            }
        }
    }

    /// Returns factors of the product with the given rows, inner dimension and columns, once for
    /// each combination of row-major and column-major factors.
    pub(super) fn in_all_layouts([rows, inner, cols]: [usize; 3]) -> [[Array2<f32>; 2]; 4] {
        let factor = |[rows, cols]: [usize; 2], stream, is_row_major| match is_row_major {
            true => random(rows, cols, stream),
            false => random(cols, rows, stream).reversed_axes(),
        };
        [(true, true), (true, false), (false, true), (false, false)]
            .map(|(a, b)| [factor([rows, inner], 0, a), factor([inner, cols], 1, b)])
    }

    /// The library's kernels for vectors do not support these strides.
    #[test]
    fn the_number_of_threads_does_not_change_the_bits_of_products_by_a_strided_vector() {
        let matrix = random(96, 9000, 0);
        let vectors = random(9000, 8, 1);
        let column = vectors.slice(s![.., 3..4]);
        let [one, others @ ..] = [1, 2, 3, 8].map(|n_threads| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
            builder.build().unwrap().install(|| {
                let product = matmul(matrix.view(), column).unwrap();
                (product, matmul(column.t(), matrix.t()).unwrap())
            })
        });
        for other in others {
            assert_close(&one.0, other.0, Tolerance::bits());
            assert_close(&one.1, other.1, Tolerance::bits());
        }
    }

    /// Returns the factors with their terms in reversed order, by negative strides.
    fn reversed([mut a, mut b]: [Array2<f32>; 2]) -> [Array2<f32>; 2] {
        a.invert_axis(Axis(1));
        b.invert_axis(Axis(0));
        [a, b]
    }

    #[test]
    fn parts_of_a_product_have_the_bits_of_the_whole() {
        for shape in [
            [130, 1000, 40],
            [40, 513, 130],
            [70, 64, 70],
            [280, 600, 5],
            [5, 1, 5],
            [90, 2, 30],
            [9, 2, 3],
            [3, 5000, 2],
        ] {
            for [a, b] in in_all_layouts(shape) {
                has_the_bits_of_its_parts(a.view(), b.view());
            }
        }
    }

    #[track_caller]
    fn has_the_bits_of_its_parts(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) {
        let [rows, cols] = [a.nrows(), b.ncols()];
        let whole = matmul(a, b).unwrap();
        for step in [1, 2, 33, 64, 65] {
            let mut by_rows = Array2::from_elem((rows, cols), f32::NAN);
            for first in (0..rows).step_by(step) {
                let range = s![first..rows.min(first + step), ..];
                let c = by_rows.slice_mut(range);
                multiply_part_into(a.slice(range), b, c, [rows, cols]).unwrap();
            }
            assert_close(&by_rows, &whole, Tolerance::bits());
            let mut by_cols = Array2::from_elem((rows, cols), f32::NAN);
            for first in (0..cols).step_by(step) {
                let range = s![.., first..cols.min(first + step)];
                let c = by_cols.slice_mut(range);
                multiply_part_into(a, b.slice(range), c, [rows, cols]).unwrap();
            }
            assert_close(&by_cols, &whole, Tolerance::bits());
        }
    }

    #[test]
    fn the_result_overwrites_what_was_there_even_nan() {
        let mut c = Array2::from_elem((2, 2), f32::NAN);
        matmul_into(random(2, 3, 0).view(), random(3, 2, 1).view(), c.view_mut()).unwrap();
        assert!(c.iter().all(|x| x.is_finite()));
        c.fill(f32::NAN);
        matmul_into(
            Array2::zeros((2, 0)).view(),
            Array2::zeros((0, 2)).view(),
            c.view_mut(),
        )
        .unwrap();
        assert_eq!(c, Array2::zeros((2, 2)));
    }

    #[test]
    fn nan_and_infinity_reach_the_rows_and_columns_they_belong_to() {
        let mut a = Array2::<f32>::zeros((40, 30));
        a[[7, 3]] = f32::NAN;
        a[[9, 4]] = f32::INFINITY;
        let c = matmul(a.view(), Array2::ones((30, 20)).view()).unwrap();
        for ((row, _), x) in c.indexed_iter() {
            match row {
                7 => assert!(x.is_nan()),
                9 => assert_eq!(*x, f32::INFINITY),
                _ => assert_eq!(*x, 0.0),
            }
        }
    }

    #[test]
    fn sides_of_zero_make_no_size_too_large_by_themselves() {
        let empty = |rows, cols| Array2::<f32>::zeros((rows, cols));
        let long = 1 << 40;
        let c = matmul(empty(long, 0).view(), empty(0, 0).view()).unwrap();
        assert_eq!(c.dim(), (long, 0));
        let c = matmul(empty(0, long).view(), empty(long, 0).view()).unwrap();
        assert_eq!(c.dim(), (0, 0));
        let error = matmul(empty(long, 0).view(), empty(0, long).view()).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }

    #[test]
    fn shapes_that_do_not_multiply_are_named() {
        let error = matmul(
            Array2::<f32>::zeros((2, 3)).view(),
            Array2::zeros((4, 5)).view(),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "matmul: inner dimensions differ (left [2, 3], right [4, 5])"
        );
        let mut transposed = Array2::<f32>::zeros((5, 2));
        let error = matmul_into(
            Array2::zeros((2, 3)).view(),
            Array2::zeros((3, 5)).view(),
            transposed.view_mut(),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "matmul: the result has shape [5, 2] (expected that of the product of [2, 3] and [3, 5])"
        );
    }
}
