//! Affine maps from loop indices to positions, and conditions on them.

use crate::shape::row_major_strides;

/// An affine map from loop indices to a position: `offset + Σ strides[axis] * index[axis]`.
///
/// Stride 0 means broadcasting and a negative stride a reversed axis; strides that reach a position
/// more than once describe overlapping windows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct IndexMap {
    /// The position at which all indices are 0. This position may be outside the input if guards
    /// exclude it.
    pub offset: isize,
    /// The strides, one per loop axis, domain axes first.
    pub strides: Vec<isize>,
}

/// A condition on loop indices: `0 <= map(index) < extent`.
///
/// Padding is expressed by guards. The comparison is on unbounded integers; [`IndexMap::range`]
/// returns the range from which an executor can choose an integer width. Where a guard fails, the
/// guarded element is not read; an executor may read a clamped position instead and discard the
/// element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The position to compare.
    pub map: IndexMap,
    /// The exclusive upper limit of the position.
    pub extent: usize,
}

impl IndexMap {
    /// Returns the map of a whole array in row-major order.
    pub(crate) fn in_order(shape: &[usize]) -> Self {
        Self {
            offset: 0,
            strides: row_major_strides("plan", shape).unwrap_or_default(),
        }
    }

    /// Returns the position at a loop index; missing strides count as 0.
    #[must_use]
    pub fn at(&self, index: &[usize]) -> isize {
        // The oracles call this function for every element. A plain loop, because calls of iterator
        // adapters are not inlined at the optimisation level of tests.
        let mut at = self.offset;
        for (axis, stride) in self.strides.iter().enumerate() {
            let Some(&index) = index.get(axis) else {
                break;
            };
            at = at.wrapping_add(stride.wrapping_mul(index.cast_signed()));
        }
        at
    }

    /// Returns the map composed with a view: coordinate `a` of the array is `rows[a]` applied to
    /// the view's index of `rank` axes. Axes after the array's own axes stay unchanged.
    pub(crate) fn through_view(&self, rows: &[Self], rank: usize) -> Self {
        let mut composed = Self {
            offset: self.offset,
            strides: vec![0; rank],
        };
        // Positions that guards exclude may overflow, so the arithmetic wraps; positions that are
        // read never overflow.
        for (axis, row) in rows.iter().enumerate() {
            let stride = self.stride(axis);
            composed.offset = composed
                .offset
                .wrapping_add(stride.wrapping_mul(row.offset));
            for (sum, &step) in composed.strides.iter_mut().zip(&row.strides) {
                *sum = sum.wrapping_add(stride.wrapping_mul(step));
            }
        }
        composed
            .strides
            .extend(self.strides.iter().skip(rows.len()));
        composed
    }

    /// Returns the stride on an axis; 0 for an axis past the end of `strides`.
    #[must_use]
    pub fn stride(&self, axis: usize) -> isize {
        self.strides.get(axis).copied().unwrap_or(0)
    }

    /// Returns whether the position is the index along one axis.
    pub(crate) fn is_coordinate(&self, axis: usize) -> bool {
        let mut strides = self.strides.iter().enumerate();
        self.offset == 0
            && axis < self.strides.len()
            && strides.all(|(of, &stride)| stride == isize::from(of == axis))
    }

    /// Returns the smallest and the largest position over loops of the given sizes, none of which
    /// may be 0. Saturates at the limits of `isize`.
    #[must_use]
    pub fn range(&self, sizes: &[usize]) -> (isize, isize) {
        let (mut low, mut high) = (self.offset, self.offset);
        for (&stride, &size) in self.strides.iter().zip(sizes) {
            let span = stride.saturating_mul((size - 1).cast_signed());
            low = low.saturating_add(span.min(0));
            high = high.saturating_add(span.max(0));
        }
        (low, high)
    }
}

impl Guard {
    /// Returns whether the guard holds at a loop index.
    #[must_use]
    pub fn holds(&self, index: &[usize]) -> bool {
        let position = self.map.at(index);
        position >= 0 && position.unsigned_abs() < self.extent
    }
}

/// Converts a position to the `u32` of a [`Value::Index`](super::Value::Index): the position modulo
/// 2^32.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions are u32 modulo 2^32 by definition"
)]
pub(crate) fn low_bits(position: isize) -> u32 {
    position as u32
}
