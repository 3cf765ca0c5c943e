//! Host arrays: checked construction and broadcasting arithmetic on `ndarray`.
//!
//! Role: returns an error with the operation and the shapes where `ndarray` would panic. Rank 0 and
//! sizes of zero are supported.

use ndarray::{ArrayD, ArrayRef, Dimension, IxDyn, Zip};

use crate::error::{Error, Result};
use crate::shape::{allocatable_count, broadcast, max_count};

/// Creates an array of `shape` from its elements in row-major order.
///
/// # Errors
/// [`Error::TooLarge`] if the shape exceeds the address space; [`Error::LengthMismatch`] if the
/// number of elements in `data` differs from that of `shape`.
///
/// # Examples
/// ```
/// use tensor_core::array::from_vec;
/// assert_eq!(from_vec(&[2, 2], vec![1.0, 2.0, 3.0, 4.0])?[[1, 0]], 3.0);
/// let error = from_vec(&[2, 2], vec![1.0, 2.0]).unwrap_err();
/// assert_eq!(error.to_string(), "from_vec: shape [2, 2] has 4 elements, but the data has 2");
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn from_vec<T>(shape: &[usize], data: Vec<T>) -> Result<ArrayD<T>> {
    let operation = "from_vec";
    let (expected, actual) = (allocatable_count::<T>(operation, shape)?, data.len());
    if expected != actual {
        return Err(Error::LengthMismatch {
            operation,
            shape: shape.to_vec(),
            expected,
            actual,
        });
    }
    from_checked(operation, IxDyn(shape), data)
}

/// Creates an array whose number of elements has been checked by the caller.
pub(crate) fn from_checked<T>(
    operation: &'static str,
    shape: IxDyn,
    data: Vec<T>,
) -> Result<ArrayD<T>> {
    // The number of elements matches, so the only remaining error is a shape that ndarray rejects
    // as too large.
    ArrayD::from_shape_vec(shape.clone(), data).map_err(|_| Error::TooLarge {
        operation,
        shape: shape.slice().to_vec(),
        limit: max_count(size_of::<T>()),
    })
}

/// Applies `f` to the elements of two arrays, broadcast against each other by `NumPy`'s rules.
///
/// `operation` is the name of the operation in errors.
///
/// # Errors
/// [`Error::BroadcastMismatch`] if the shapes do not broadcast; [`Error::TooLarge`] if the result
/// exceeds the address space.
///
/// # Examples
/// ```
/// use tensor_core::array::zip_with;
/// use tensor_core::ndarray::array;
///
/// let m = array![[1., 2., 3.], [4., 5., 6.], [7., 8., 9.]];
/// let c = array![10., 20., 30.];
/// let sum = zip_with("add", &m, &c, |x, y| x + y)?;
/// assert_eq!(sum, array![[11., 22., 33.], [14., 25., 36.], [17., 28., 39.]].into_dyn());
///
/// // The fraction of positions where a < b.
/// let (a, b) = (array![10., 6., -4.], array![2., 8., 7.]);
/// let less = zip_with("lt", &a, &b, |x, y| f64::from(u8::from(x < y)))?;
/// assert_eq!(less.mean(), Some(2.0 / 3.0));
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn zip_with<A, B, C, DA, DB>(
    operation: &'static str,
    a: &ArrayRef<A, DA>,
    b: &ArrayRef<B, DB>,
    f: impl FnMut(&A, &B) -> C,
) -> Result<ArrayD<C>>
where
    DA: Dimension,
    DB: Dimension,
{
    let shape = broadcast(operation, a.shape(), b.shape())?;
    allocatable_count::<C>(operation, &shape)?;
    let too_large = || Error::TooLarge {
        operation,
        shape: shape.clone(),
        limit: max_count(size_of::<A>().max(size_of::<B>())),
    };
    // The shapes broadcast, so ndarray can fail only because a size is too large.
    let left = a.broadcast(IxDyn(&shape)).ok_or_else(too_large)?;
    let right = b.broadcast(IxDyn(&shape)).ok_or_else(too_large)?;
    Ok(Zip::from(left).and(right).map_collect(f))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array1, Array2, arr0, array};

    #[test]
    fn scalars_and_empty_arrays_are_ordinary() {
        assert_eq!(from_vec(&[], vec![7]).unwrap()[[]], 7);
        assert_eq!(from_vec::<f32>(&[3, 0], vec![]).unwrap().shape(), [3, 0]);
        let sum = zip_with("add", &arr0(1), &arr0(2), |x, y| x + y).unwrap();
        assert_eq!(sum, arr0(3).into_dyn());
        let empty = zip_with(
            "add",
            &Array2::<f32>::zeros((0, 3)),
            &Array1::<f32>::zeros(3),
            |x, y| x + y,
        );
        assert_eq!(empty.unwrap().shape(), [0, 3]);
    }

    #[test]
    fn the_element_types_may_differ() {
        let c = array![10., 20., 30.];
        let column = c.view().insert_axis(ndarray::Axis(1));
        let greater = zip_with("gt", &c, &column, |x, y| x > y).unwrap();
        let expected = array![
            [false, true, true],
            [false, false, true],
            [false, false, false]
        ];
        assert_eq!(greater, expected.into_dyn());
    }

    #[test]
    fn shapes_that_disagree_are_named() {
        let error = zip_with("sub", &array![[1, 2, 3]], &array![1, 2], |x, y| x - y).unwrap_err();
        assert!(
            matches!(
                error,
                Error::BroadcastMismatch {
                    operation: "sub",
                    left: 3,
                    right: 2,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_result_that_no_allocation_holds_is_an_error() {
        let one = arr0(1_u8);
        let column = one.broadcast((1 << 40, 1)).unwrap();
        let row = one.broadcast((1, 1 << 40)).unwrap();
        let error = zip_with("add", &column, &row, |x, y| x + y).unwrap_err();
        assert!(
            matches!(
                error,
                Error::TooLarge {
                    operation: "add",
                    ..
                }
            ),
            "{error}"
        );
    }
}
