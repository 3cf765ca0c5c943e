//! Sorts: the elements of each line along an axis in ascending or descending order.

use std::cmp::Ordering;

use crate::dtype::{DType, Scalar};

/// The maximum size of an axis whose positions are `u32`s: 2³², or the largest `usize` of a 32-bit
/// system.
pub(crate) const MAX_POSITIONS: usize = (u32::MAX as usize).saturating_add(1);

/// A stable sort along one axis: equal elements keep their order. NaN is last in both directions,
/// and -0.0 equals 0.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sort {
    /// The axis along which elements are sorted.
    pub axis: usize,
    /// Whether the largest element is first.
    pub descending: bool,
    /// The results of the sort.
    pub result: Sorted,
}

/// The results of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sorted {
    /// The elements in their new order.
    Elements,
    /// The position of each of these elements on the unsorted axis, as `u32`.
    Positions,
}

impl Sort {
    /// Returns the name of the tensor method that applies the sort.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.result {
            Sorted::Elements => "sort",
            Sorted::Positions => "argsort",
        }
    }

    /// Returns whether the sort is defined on a type. `bool`s are converted to integers before they
    /// are sorted.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        dtype.is_float() || dtype.is_integer()
    }

    /// Returns the type of the results.
    #[must_use]
    pub fn dtype(self, elements: DType) -> DType {
        match self.result {
            Sorted::Elements => elements,
            Sorted::Positions => DType::U32,
        }
    }

    /// Compares two elements of one type: `Less` if `a` comes before `b`, and `Equal` if the
    /// elements keep their order.
    #[must_use]
    pub fn compare(self, a: Scalar, b: Scalar) -> Ordering {
        // All accepted types are exact in f64.
        let (a, b) = (a.to_f64(), b.to_f64());
        let ascending = a.partial_cmp(&b);
        match ascending {
            Some(order) if self.descending => order.reverse(),
            Some(order) => order,
            None => a.is_nan().cmp(&b.is_nan()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_last_in_both_directions_and_equals_itself() {
        for descending in [false, true] {
            let sort = Sort {
                axis: 0,
                descending,
                result: Sorted::Elements,
            };
            let [nan, infinity] = [f64::NAN, f64::INFINITY].map(Scalar::F64);
            assert_eq!(sort.compare(nan, infinity), Ordering::Greater);
            assert_eq!(sort.compare(infinity, nan), Ordering::Less);
            assert_eq!(sort.compare(nan, nan), Ordering::Equal);
            let zeros = [-0.0, 0.0].map(Scalar::F64);
            assert_eq!(sort.compare(zeros[0], zeros[1]), Ordering::Equal);
        }
    }
}
