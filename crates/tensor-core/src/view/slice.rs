//! Slices of one axis, with `NumPy`'s rules.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// The elements `start:stop:step` of an axis.
///
/// Negative bounds count from the end; then they are clamped to the axis. A missing bound is the
/// end of the axis at which a walk in the direction of the step begins or finishes.
///
/// Ranges of `isize`, `usize` and `i32` convert into a slice with step 1. The last element of an
/// inclusive range may also count from the end: `..=-1` is the whole axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The first element.
    pub start: Option<isize>,
    /// The exclusive end of the walk.
    pub stop: Option<isize>,
    /// The distance from one element to the next; must not be zero.
    pub step: isize,
}

impl Slice {
    /// Returns the first element and the number of selected elements of an axis of `len` elements;
    /// `None` if the step is zero.
    pub(super) fn resolve(self, len: usize) -> Option<(usize, usize)> {
        let (len, step) = (len as i128, self.step as i128);
        // A forward walk uses bounds in 0..=len, a backward walk bounds in -1..=len - 1.
        let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
        let place = |bound: isize| {
            let bound = bound as i128;
            (if bound < 0 { bound + len } else { bound }).clamp(low, high)
        };
        let (begin, end) = if step > 0 { (low, high) } else { (high, low) };
        let start = self.start.map_or(begin, place);
        let stop = self.stop.map_or(end, place);
        // The division rounds up, because `stop` may cut the last step short.
        let distance = (stop - start) * step.signum();
        let count = match step.unsigned_abs() {
            0 => return None,
            step => distance.max(0).unsigned_abs().div_ceil(step),
        };
        let fits = "start and count are within the axis";
        let first = if count == 0 {
            0
        } else {
            usize::try_from(start).expect(fits)
        };
        Some((first, usize::try_from(count).expect(fits)))
    }
}

impl Slice {
    fn forwards(start: Option<isize>, stop: Option<isize>) -> Self {
        Self {
            start,
            stop,
            step: 1,
        }
    }
}

/// Returns the exclusive end of a walk whose last element is `last`. For the last element of the
/// axis (-1) the end is `None`, because no number denotes the position after it.
fn after(last: isize) -> Option<isize> {
    (last != -1).then(|| last.saturating_add(1))
}

/// A bound of a range, converted to `isize`. Values beyond the limits of `isize` saturate, because
/// every axis is shorter.
trait SliceEnd: Copy {
    fn place(self) -> isize;
}

impl SliceEnd for isize {
    fn place(self) -> isize {
        self
    }
}

impl SliceEnd for usize {
    fn place(self) -> isize {
        isize::try_from(self).unwrap_or(isize::MAX)
    }
}

impl SliceEnd for i32 {
    fn place(self) -> isize {
        isize::try_from(self).unwrap_or(isize::MAX)
    }
}

macro_rules! ranges {
    ($($type:ty)*) => {$(
        impl From<Range<$type>> for Slice {
            fn from(range: Range<$type>) -> Self {
                Self::forwards(Some(range.start.place()), Some(range.end.place()))
            }
        }

        impl From<RangeInclusive<$type>> for Slice {
            fn from(range: RangeInclusive<$type>) -> Self {
                let (start, last) = range.into_inner();
                Self::forwards(Some(start.place()), after(last.place()))
            }
        }

        impl From<RangeFrom<$type>> for Slice {
            fn from(range: RangeFrom<$type>) -> Self {
                Self::forwards(Some(range.start.place()), None)
            }
        }

        impl From<RangeTo<$type>> for Slice {
            fn from(range: RangeTo<$type>) -> Self {
                Self::forwards(None, Some(range.end.place()))
            }
        }

        impl From<RangeToInclusive<$type>> for Slice {
            fn from(range: RangeToInclusive<$type>) -> Self {
                Self::forwards(None, after(range.end.place()))
            }
        }
    )*};
}
ranges! { isize usize i32 }

impl From<RangeFull> for Slice {
    fn from(_: RangeFull) -> Self {
        Self::forwards(None, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's definition, element by element: `range(*slice(start, stop, step).indices(len))`.
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
    fn ranges_of_all_integers_keep_what_rust_keeps() {
        let numbers: Vec<usize> = (0..7).collect();
        let kept = |slice: Slice| {
            let (first, count) = slice.resolve(numbers.len()).unwrap();
            numbers[first..first + count].to_vec()
        };
        for first in 0..7_usize {
            for last in 0..7_usize {
                let expected = numbers.get(first..=last).unwrap_or_default();
                let (a, b) = (first.cast_signed(), last.cast_signed());
                assert_eq!(kept((first..=last).into()), expected);
                assert_eq!(kept((a..=b).into()), expected);
                assert_eq!(kept((a..=b - 7).into()), expected);
                assert_eq!(kept((first..last + 1).into()), expected);
            }
            assert_eq!(kept((first..).into()), numbers[first..]);
            assert_eq!(kept((..first).into()), numbers[..first]);
            assert_eq!(kept((..=first).into()), numbers[..=first]);
        }
        assert_eq!(kept((1..=2).into()), [1, 2]);
        assert_eq!(kept((..=-1).into()), numbers);
        assert_eq!(kept((3..usize::MAX).into()), numbers[3..]);
        assert_eq!(kept((3..=usize::MAX).into()), numbers[3..]);
        assert_eq!(kept((usize::MAX..).into()), []);
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
