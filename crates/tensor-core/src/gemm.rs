//! Matrix product on the CPU.
//!
//! Role: the one door to the GEMM library; everything that multiplies matrices on the host comes through here.
//! Method: `gemm` 0.19 with its AVX-512 kernels, chosen at run time by what the CPU has, on rayon's threads. It was
//! the fastest of the libraries measured on square and on tall, narrow products (figures in ARCHITECTURE.md).
//! Shapes: `a` `[rows, inner]`, `b` `[inner, cols]`, result `[rows, cols]`; any strides, also zero and negative.
//! Accuracy: each element sums `inner` products in an order that the library chooses; its error is at most
//! `(inner + 1) · EPSILON · Σ|a·b|`. NaN and infinity go through as in IEEE arithmetic: `0 · ∞` is NaN.
#![expect(
    unsafe_code,
    reason = "the library's interface is raw pointers and strides"
)]

use crate::{Error, Float, Result, shape};
use ndarray::{Array2, ArrayView2, ArrayViewMut2};
use rayon::prelude::*;

/// Computes `a · b`.
///
/// A sum of no terms is 0. Threads are used where the product is large enough to gain by them.
///
/// # Errors
/// [`Error::MatmulMismatch`] where the columns of `a` are not as many as the rows of `b`; [`Error::TooLarge`] where
/// the result exceeds the address space.
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

/// Computes `a · b` into `c`, whatever it held.
///
/// # Errors
/// [`Error::MatmulMismatch`] where `a` and `b` do not multiply or `c` has not the shape of their product.
pub fn matmul_into<T: Float>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    mut c: ArrayViewMut2<'_, T>,
) -> Result<()> {
    let [rows, inner, cols] = [a.nrows(), a.ncols(), b.ncols()];
    if b.nrows() != inner || c.dim() != (rows, cols) {
        return Err(Error::MatmulMismatch {
            left: [rows, inner],
            right: [b.nrows(), cols],
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
    let [a_strides, b_strides, c_strides] = [a.strides(), b.strides(), c.strides()];
    let [(a_row, a_col), (b_row, b_col), (c_row, c_col)] =
        [a_strides, b_strides, c_strides].map(|strides| (strides[0], strides[1]));
    // SAFETY: the three pointers and stride pairs come from live array views whose dimensions were just compared, so
    // every address that the library forms for rows < rows, k < inner and cols < cols is an element of its view;
    // `c` is borrowed mutably, hence aliases neither input; `T` is f32 or f64, which the library accepts.
    unsafe {
        gemm::gemm(
            rows,
            cols,
            inner,
            c.as_mut_ptr(),
            c_col,
            c_row,
            false,
            a.as_ptr(),
            a_col,
            a_row,
            b.as_ptr(),
            b_col,
            b_row,
            T::ZERO,
            T::ONE,
            false,
            false,
            false,
            gemm::Parallelism::Rayon(0),
        );
    }
    Ok(())
}

/// The truth about a product: what it is, and how large the terms were that it sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Oracle {
    /// `a · b` in f64, row-major.
    pub product: Vec<f64>,
    /// `|a| · |b|`: what rounding errors of each element are relative to, also where the sum cancels.
    pub magnitudes: Vec<f64>,
}

/// Computes a product plainly in f64, for every other product to be compared with.
///
/// Shapes: `a` `[rows, inner]`, `b` `[inner, cols]` for `shape = [rows, inner, cols]`, row-major, contiguous.
/// Products of two f32 are exact in f64, so only the sums round. Rows run in parallel.
///
/// # Errors
/// [`Error::LengthMismatch`] where a slice does not hold as many elements as its shape, [`Error::TooLarge`].
pub fn oracle(a: &[f32], b: &[f32], shape: [usize; 3]) -> Result<Oracle> {
    let [rows, inner, cols] = shape;
    for (data, shape) in [(a, [rows, inner]), (b, [inner, cols])] {
        let expected = shape::element_count("matmul oracle", &shape)?;
        if data.len() != expected {
            let shape = shape.to_vec();
            return Err(Error::LengthMismatch {
                op: "matmul oracle",
                shape,
                expected,
                actual: data.len(),
            });
        }
    }
    let len = shape::allocatable_count::<f64>("matmul oracle", &[rows, cols])?;
    let (mut product, mut magnitudes) = (vec![0.0; len], vec![0.0; len]);
    let width = cols.max(1);
    product
        .par_chunks_mut(width)
        .zip(magnitudes.par_chunks_mut(width))
        .enumerate()
        .for_each(|(row, (product, magnitudes))| {
            for (k, &left) in a[row * inner..(row + 1) * inner].iter().enumerate() {
                let left = f64::from(left);
                let terms = b[k * cols..(k + 1) * cols]
                    .iter()
                    .map(|&right| left * f64::from(right));
                for ((sum, magnitude), term) in
                    product.iter_mut().zip(magnitudes.iter_mut()).zip(terms)
                {
                    *sum += term;
                    *magnitude += term.abs();
                }
            }
        });
    Ok(Oracle {
        product,
        magnitudes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Bound, assert_close};
    use crate::rng::Philox;
    use ndarray::{Array, Array1, Axis, s};

    fn random(rows: usize, cols: usize, stream: u64) -> Array2<f32> {
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
        let bound = Bound::relative(a.ncols() + 1).scaled_by(magnitudes.iter().copied());
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
    fn shapes_that_do_not_multiply_are_named() {
        let error = matmul(
            Array2::<f32>::zeros((2, 3)).view(),
            Array2::zeros((4, 5)).view(),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "matmul: [2, 3] times [4, 5] into [2, 5] does not fit"
        );
    }
}
