//! The part of a line of elements for which a guard holds.

use std::ops::Range;

/// Returns the indices in `0..len` for which `0 <= position + stride * index < extent`. The indices
/// are consecutive, because positions grow or fall steadily.
///
/// All positions of the line must be within the limits of `isize`, as those of a valid nest are. An
/// extent may exceed these limits; it then excludes no position.
pub(crate) fn held(position: isize, stride: isize, extent: usize, len: usize) -> Range<usize> {
    let extent = isize::try_from(extent).unwrap_or(isize::MAX);
    let (low, high) = match stride {
        0 if (0..extent).contains(&position) => return 0..len,
        0 => return 0..0,
        // The usual stride needs no division.
        1 => (position.saturating_neg(), extent.saturating_sub(position)),
        2.. => (
            ceil_div(position.saturating_neg(), stride),
            ceil_div(extent.saturating_sub(position), stride),
        ),
        // Mirrored: 0 <= (extent - 1 - position) + |stride| * index < extent.
        _ => {
            let mirrored = (extent - 1).saturating_sub(position);
            let stride = stride.saturating_neg();
            (
                ceil_div(mirrored.saturating_neg(), stride),
                ceil_div(extent.saturating_sub(mirrored), stride),
            )
        }
    };
    let clamp = |index: isize| usize::try_from(index).unwrap_or(0).min(len);
    let (low, high) = (clamp(low), clamp(high));
    low..high.max(low)
}

/// Returns `a / b` rounded up, for a positive `b`.
fn ceil_div(a: isize, b: isize) -> isize {
    a.div_euclid(b) + isize::from(a.rem_euclid(b) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_holds_where_each_index_says_so() {
        let numbers = [-1 << 58, -9, -3, -2, -1, 0, 1, 2, 3, 7, 100, 1 << 58];
        let extents = [0, 1, 2, 5, 8, usize::MAX];
        for (position, stride) in numbers.into_iter().flat_map(|p| numbers.map(|s| (p, s))) {
            for extent in extents {
                let holds = |index: &usize| {
                    let at = position as i128 + stride as i128 * *index as i128;
                    0 <= at && at < extent as i128
                };
                let expected: Vec<usize> = (0..12).filter(holds).collect();
                let actual = held(position, stride, extent, 12);
                assert!(
                    actual.clone().eq(expected.iter().copied()),
                    "{position} + {stride} i < {extent}: {actual:?}, expected {expected:?}"
                );
            }
        }
    }
}
