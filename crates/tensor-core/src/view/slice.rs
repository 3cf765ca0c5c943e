//! Slices of one axis with `NumPy`'s rules.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

/// Which elements of an axis to keep: `start:stop:step`.
///
/// Bounds below zero count from the end; then they are clamped to the axis. A missing bound is
/// the end at which a walk in the direction of the step begins or finishes. Ranges convert into
/// it with step 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The first element.
    pub start: Option<isize>,
    /// The element before which the walk stops.
    pub stop: Option<isize>,
    /// The distance from one element to the next; not zero.
    pub step: isize,
}

impl Slice {
    /// Gives the first element and the number of elements kept of an axis of `len` elements; `None`
    /// if the step is zero.
    pub(super) fn resolve(self, len: usize) -> Option<(usize, usize)> {
        let (len, step) = (len as i128, self.step as i128);
        // A walk forwards lives in 0..=len, one backwards in -1..=len - 1.
        let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
        let place = |bound: isize| {
            let bound = bound as i128;
            (if bound < 0 { bound + len } else { bound }).clamp(low, high)
        };
        let (begin, end) = if step > 0 { (low, high) } else { (high, low) };
        let start = self.start.map_or(begin, place);
        let stop = self.stop.map_or(end, place);
        // Rounded up: the last step may be cut short by `stop`.
        let distance = (stop - start) * step.signum();
        let count = match step.unsigned_abs() {
            0 => return None,
            step => distance.max(0).unsigned_abs().div_ceil(step),
        };
        let fits = "both lie within the axis";
        let first = if count == 0 {
            0
        } else {
            usize::try_from(start).expect(fits)
        };
        Some((first, usize::try_from(count).expect(fits)))
    }
}

impl From<Range<isize>> for Slice {
    fn from(range: Range<isize>) -> Self {
        Self {
            start: Some(range.start),
            stop: Some(range.end),
            step: 1,
        }
    }
}

impl From<RangeFrom<isize>> for Slice {
    fn from(range: RangeFrom<isize>) -> Self {
        Self {
            start: Some(range.start),
            stop: None,
            step: 1,
        }
    }
}

impl From<RangeTo<isize>> for Slice {
    fn from(range: RangeTo<isize>) -> Self {
        Self {
            start: None,
            stop: Some(range.end),
            step: 1,
        }
    }
}

impl From<RangeFull> for Slice {
    fn from(_: RangeFull) -> Self {
        Self {
            start: None,
            stop: None,
            step: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's own words: `range(*slice(start, stop, step).indices(len))`, element by element.
    fn naive(slice: Slice, len: usize) -> Vec<i128> {
        let len = len as i128;
        let step = slice.step as i128;
        let inside = |at: i128| (0..len).contains(&at);
        let lift = |bound: isize| {
            if bound < 0 {
                bound as i128 + len
            } else {
                bound as i128
            }
        };
        let mut at = slice.start.map_or(if step > 0 { 0 } else { len - 1 }, lift);
        if step > 0 {
            at = at.max(0);
        } else {
            at = at.min(len - 1);
        }
        let stop = slice.stop.map(lift);
        let mut kept = Vec::new();
        while inside(at) && stop.is_none_or(|stop| if step > 0 { at < stop } else { at > stop }) {
            kept.push(at);
            at += step;
        }
        kept
    }

    #[test]
    fn every_small_slice_keeps_what_python_keeps() {
        let bounds: Vec<Option<isize>> = [None]
            .into_iter()
            .chain((-7..=7).map(Some))
            .chain([Some(isize::MIN), Some(isize::MAX)])
            .collect();
        for len in 0..=5 {
            for &start in &bounds {
                for &stop in &bounds {
                    for step in [1, 2, 3, 9, isize::MAX, -1, -2, -3, -9, isize::MIN] {
                        let slice = Slice { start, stop, step };
                        let (first, count) = slice.resolve(len).unwrap();
                        let kept: Vec<i128> = (0..count as i128)
                            .map(|i| first as i128 + i * step as i128)
                            .collect();
                        assert_eq!(kept, naive(slice, len), "{slice:?} of {len}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_step_of_zero_keeps_nothing_it_can_name() {
        assert_eq!(
            Slice {
                start: None,
                stop: None,
                step: 0
            }
            .resolve(3),
            None
        );
    }
}
