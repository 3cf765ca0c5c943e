//! Shapes: counting elements, row-major strides, broadcasting.
//!
//! Role: the only module that multiplies or aligns unchecked sizes. All code that allocates or
//! indexes uses it, so an overflow is returned as an error and never panics.
//! Shapes: a shape is a slice of sizes, outermost axis first; `[]` is a scalar with one element.
//! Limits: the product of the non-zero sizes must fit `isize`, as `ndarray` requires; where
//! elements are stored, so must their bytes, as in `NumPy`. A zero does not excuse the other sizes:
//! `[0, usize::MAX]` is an error everywhere in this crate, although it has no elements. As a
//! consequence, no product of any subset of the sizes of an accepted shape overflows.

use crate::error::{Error, Result};

/// The largest number of axes of a view or a tensor, as in `NumPy` 2. An operation that temporarily
/// needs one more axis, such as a matrix product, accepts operands with one axis less.
pub const MAX_RANK: usize = 64;

/// Checks that a number of axes is at most [`MAX_RANK`].
///
/// # Errors
/// [`Error::RankTooLarge`] if there are more.
pub fn check_rank(operation: &'static str, rank: usize) -> Result<()> {
    if rank <= MAX_RANK {
        return Ok(());
    }
    Err(Error::RankTooLarge {
        operation,
        rank,
        limit: MAX_RANK,
    })
}

/// Returns the number of elements of `shape`: the product of its sizes, 1 for a scalar.
///
/// # Errors
/// [`Error::TooLarge`] if the product of the non-zero sizes exceeds `isize::MAX`.
pub fn element_count(operation: &'static str, shape: &[usize]) -> Result<usize> {
    bounded_count(operation, shape, 1)
}

/// Returns the number of elements of `shape`, after checking that as many values of type `T` fit
/// into one allocation.
///
/// # Errors
/// [`Error::TooLarge`] if the elements (zero sizes left out) take more than `isize::MAX` bytes.
pub fn allocatable_count<T>(operation: &'static str, shape: &[usize]) -> Result<usize> {
    bounded_count(operation, shape, size_of::<T>().max(1))
}

fn bounded_count(operation: &'static str, shape: &[usize], element_bytes: usize) -> Result<usize> {
    count_in_bytes(shape, element_bytes).ok_or_else(|| Error::TooLarge {
        operation,
        shape: shape.to_vec(),
        limit: max_count(element_bytes),
    })
}

/// Returns the largest number of elements, of `element_bytes` each, that one allocation can hold.
pub(crate) fn max_count(element_bytes: usize) -> usize {
    isize::MAX.unsigned_abs() / element_bytes.max(1)
}

/// Returns the number of elements of `shape`; `None` if the elements, with zero sizes left out,
/// take more than `isize::MAX` bytes.
pub(crate) fn count_in_bytes(shape: &[usize], element_bytes: usize) -> Option<usize> {
    // Sizes of zero are left out of the product, so that they do not hide an overflow of the
    // others.
    let mut sizes = shape.iter().filter(|&&size| size > 0);
    sizes
        .try_fold(element_bytes, |product, &size| product.checked_mul(size))
        .filter(|&bytes| bytes <= isize::MAX.unsigned_abs())
        .map(|bytes| {
            if shape.contains(&0) {
                0
            } else {
                bytes / element_bytes
            }
        })
}

/// Returns the row-major strides of `shape`, in elements; the last axis has stride 1.
///
/// # Errors
/// [`Error::TooLarge`] as [`element_count`].
///
/// # Examples
/// ```
/// let strides = tensor_core::shape::row_major_strides("doc", &[50, 28, 28])?;
/// assert_eq!(strides, [784, 28, 1]);
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn row_major_strides(operation: &'static str, shape: &[usize]) -> Result<Vec<isize>> {
    element_count(operation, shape)?;
    let mut strides = vec![1_isize; shape.len()];
    for axis in (1..shape.len()).rev() {
        let below = shape[axis].max(1).cast_signed();
        strides[axis - 1] = strides[axis] * below;
    }
    Ok(strides)
}

/// Returns the shape to which `a` and `b` broadcast, by `NumPy`'s rules.
///
/// Axes are aligned from the last one. Two sizes are compatible if they are equal or one of them is
/// 1; a missing axis counts as 1. A size of 0 is compatible with 0 and 1, and the result is 0.
///
/// # Errors
/// [`Error::BroadcastMismatch`] if two sizes are incompatible; [`Error::TooLarge`] if the result is
/// too large.
///
/// # Examples
/// ```
/// use tensor_core::shape::broadcast;
/// assert_eq!(broadcast("mul", &[256, 256, 3], &[3])?, [256, 256, 3]);
/// let error = broadcast("add", &[2, 3], &[2]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "add: shapes [[2, 3], [2]] do not broadcast (sizes 3 and 2 on axis 1)"
/// );
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn broadcast(operation: &'static str, a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    broadcast_all(operation, &[a, b])
}

/// Returns the shape to which any number of shapes broadcast; the shape of a scalar for no shapes.
///
/// # Errors
/// As [`broadcast`].
pub fn broadcast_all(operation: &'static str, shapes: &[&[usize]]) -> Result<Vec<usize>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut result = vec![1; rank];
    // Fold the shapes into the result one at a time, each aligned at the last axis.
    for shape in shapes {
        let first = rank - shape.len();
        for (axis, &right) in (first..).zip(*shape) {
            let left = result[axis];
            if left == 1 {
                result[axis] = right;
            } else if right != 1 && right != left {
                let shapes = shapes.iter().map(|shape| shape.to_vec()).collect();
                return Err(Error::BroadcastMismatch {
                    operation,
                    shapes,
                    axis,
                    left,
                    right,
                });
            }
        }
    }
    element_count(operation, &result)?;
    Ok(result)
}

/// Converts an axis in `-rank..rank` to an axis in `0..rank`; negative axes count from the end.
///
/// # Errors
/// [`Error::AxisOutOfRange`] for any other axis.
pub fn resolve_axis(operation: &'static str, axis: isize, shape: &[usize]) -> Result<usize> {
    axis_below(axis, shape.len()).ok_or_else(|| Error::AxisOutOfRange {
        operation,
        axis,
        shape: shape.to_vec(),
    })
}

/// Converts an axis in `-rank..rank` to an axis in `0..rank`; `None` if it is out of range. Unlike
/// [`resolve_axis`] it takes the rank of a shape that does not exist yet.
pub(crate) fn axis_below(axis: isize, rank: usize) -> Option<usize> {
    let resolved = if axis < 0 {
        rank.checked_sub(axis.unsigned_abs())
    } else {
        Some(axis.unsigned_abs())
    };
    resolved.filter(|&axis| axis < rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_include_scalars_and_empty_shapes() {
        assert_eq!(element_count("count", &[]).unwrap(), 1);
        assert_eq!(element_count("count", &[2, 0, 3]).unwrap(), 0);
        assert_eq!(allocatable_count::<f64>("count", &[2, 3]).unwrap(), 6);
        assert_eq!(allocatable_count::<()>("count", &[2, 3]).unwrap(), 6);
    }

    #[test]
    fn products_that_overflow_are_errors_even_next_to_a_zero() {
        for shape in [
            &[usize::MAX, 2][..],
            &[usize::MAX],
            &[0, usize::MAX, 2],
            &[1 << 32; 2],
        ] {
            let error = element_count("zeros", shape).unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::TooLarge {
                        operation: "zeros",
                        ..
                    }
                ),
                "{error}"
            );
            assert!(row_major_strides("zeros", shape).is_err());
        }
    }

    #[test]
    fn bytes_are_limited_where_elements_are_not() {
        let shape = [isize::MAX.unsigned_abs() / 4];
        assert!(element_count("zeros", &shape).is_ok());
        assert!(allocatable_count::<f32>("zeros", &shape).is_ok());
        assert!(allocatable_count::<f64>("zeros", &shape).is_err());
    }

    #[test]
    fn broadcasting_follows_numpy() {
        let cases: [(&[usize], &[usize], &[usize]); 7] = [
            (&[], &[], &[]),
            (&[3], &[], &[3]),
            (&[3, 1], &[1, 4], &[3, 4]),
            (&[8, 1, 6, 1], &[7, 1, 5], &[8, 7, 6, 5]),
            (&[0], &[1], &[0]),
            (&[2, 0], &[1, 1], &[2, 0]),
            (&[784, 1], &[784, 10], &[784, 10]),
        ];
        for (a, b, expected) in cases {
            assert_eq!(broadcast("add", a, b).unwrap(), expected);
            assert_eq!(broadcast("add", b, a).unwrap(), expected);
        }
        assert!(broadcast("add", &[0], &[2]).is_err());
        assert_eq!(broadcast_all("stack", &[]).unwrap(), [0_usize; 0]);
        assert_eq!(
            broadcast_all("stack", &[&[3, 1], &[4], &[2, 1, 1]]).unwrap(),
            [2, 3, 4]
        );
    }

    #[test]
    fn a_broadcast_that_overflows_is_an_error() {
        let error = broadcast("mul", &[1 << 40, 1], &[1, 1 << 40]).unwrap_err();
        assert!(
            matches!(
                error,
                Error::TooLarge {
                    operation: "mul",
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn negative_axes_count_from_the_end() {
        assert_eq!(resolve_axis("sum", -1, &[2, 3]).unwrap(), 1);
        for axis in [2, -3, isize::MIN, isize::MAX] {
            assert!(resolve_axis("sum", axis, &[2, 3]).is_err());
        }
        assert!(resolve_axis("sum", 0, &[]).is_err());
    }
}
