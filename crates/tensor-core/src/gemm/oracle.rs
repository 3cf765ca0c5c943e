//! A simple matrix product in f64, the reference for all other products.

use crate::{Error, Result, shape};
use rayon::prelude::*;

/// A matrix product computed in f64, and the same product of the magnitudes.
#[derive(Clone, Debug, PartialEq)]
pub struct Oracle {
    /// `a · b` in f64, row-major.
    pub product: Vec<f64>,
    /// `|a| · |b|`, row-major. The bound on the rounding error of an element is proportional to
    /// this sum, even if the terms of the element cancel.
    pub magnitudes: Vec<f64>,
}

/// Computes a product with simple loops in f64, as the reference for all other products.
///
/// Shapes: for `shape = [rows, inner, cols]`, `a` is `[rows, inner]` and `b` is `[inner, cols]`,
/// both row-major and contiguous. Products of two f32 are exact in f64, so only the sums are
/// rounded. Rows run in parallel, each from first to last term.
///
/// # Errors
/// [`Error::LengthMismatch`] if the length of a slice differs from the number of elements of its
/// shape; [`Error::TooLarge`] if the result exceeds the address space.
pub fn oracle(a: &[f32], b: &[f32], shape: [usize; 3]) -> Result<Oracle> {
    let [rows, inner, cols] = shape;
    check_len(a, [rows, inner])?;
    check_len(b, [inner, cols])?;
    let len = shape::allocatable_count::<f64>("matmul oracle", &[rows, cols])?;
    let (mut product, mut magnitudes) = (vec![0.0; len], vec![0.0; len]);
    // `chunks` panics on a width of 0; if `cols` is 0, there are no chunks.
    let width = cols.max(1);
    product
        .par_chunks_mut(width)
        .zip(magnitudes.par_chunks_mut(width))
        .enumerate()
        .for_each(|(row, (product, magnitudes))| {
            let left = &a[row * inner..(row + 1) * inner];
            for (&left, right) in left.iter().zip(b.chunks_exact(width)) {
                let sums = product.iter_mut().zip(magnitudes.iter_mut());
                for ((sum, magnitude), &right) in sums.zip(right) {
                    let term = f64::from(left) * f64::from(right);
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

/// Returns an error if a slice does not have as many elements as its shape.
fn check_len(data: &[f32], shape: [usize; 2]) -> Result<()> {
    let operation = "matmul oracle";
    let (expected, actual) = (shape::element_count(operation, &shape)?, data.len());
    if expected == actual {
        return Ok(());
    }
    Err(Error::LengthMismatch {
        operation,
        shape: shape.to_vec(),
        expected,
        actual,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_sums_terms_and_their_magnitudes() {
        let truth = oracle(&[1.0, -2.0, 3.0, 0.5], &[4.0, 5.0, 6.0, -7.0], [2, 2, 2]).unwrap();
        assert_eq!(truth.product, [-8.0, 19.0, 15.0, 11.5]);
        assert_eq!(truth.magnitudes, [16.0, 19.0, 15.0, 18.5]);
    }

    #[test]
    fn sides_of_zero_give_zeros_or_nothing() {
        assert_eq!(oracle(&[], &[], [2, 0, 3]).unwrap().product, [0.0; 6]);
        for shape in [[0, 0, 0], [1 << 40, 0, 0], [0, 0, 1 << 40]] {
            assert!(oracle(&[], &[], shape).unwrap().product.is_empty());
        }
        assert_eq!(oracle(&[1.0; 4], &[], [2, 2, 0]).unwrap().magnitudes, []);
    }

    #[test]
    fn slices_that_do_not_fit_and_shapes_too_large_are_errors() {
        let error = oracle(&[1.0; 5], &[1.0; 6], [2, 3, 2]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "matmul oracle: shape [2, 3] has 6 elements, but the data has 5"
        );
        for shape in [[0, usize::MAX, 0], [1 << 40, 0, 1 << 40]] {
            let error = oracle(&[], &[], shape).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        }
    }
}
