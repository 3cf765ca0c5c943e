//! The simplification of guards.
//!
//! Role: guards are conditions on loads. Padding a view of a padded array accumulates guards;
//! executors only receive guards that no other guard implies.
//! Method: guards whose maps have the same direction (the strides divided by their greatest common
//! divisor) are intervals on one line. Their intersection is one interval on this line; the
//! positions that the loops reach are another. If the loops stay inside the guards' interval, no
//! guard is needed. If the intervals do not overlap, the guards hold nowhere. Otherwise one guard
//! remains.
//!
//! ```text
//! position   0  1  2  3  4  5  6  7  8
//! guard A    [-----------------]
//! guard B          [-----------------]
//! loops         [-----------]
//! remaining        [--------]
//! ```
//! Limits: guards of different directions are not compared.

use std::collections::BTreeMap;

use crate::ir::{Guard, IndexMap};

/// Returns the smallest set of guards, at most one for each direction, that holds at the same
/// points of loops of these sizes. Returns `None` if the guards hold at no point.
pub(super) fn simplest(guards: &[Guard], sizes: &[usize]) -> Option<Vec<Guard>> {
    if guards.is_empty() || sizes.contains(&0) {
        return Some(guards.to_vec());
    }
    let mut lines: BTreeMap<Vec<isize>, Interval> = BTreeMap::new();
    for guard in guards {
        let Some((direction, allowed)) = Interval::allowed(guard) else {
            return Some(guards.to_vec());
        };
        let line = lines
            .entry(direction)
            .or_insert_with_key(|direction| Interval::reached(direction, sizes));
        *line = line.meet(allowed);
    }
    if lines.values().any(|line| line.low > line.high) {
        return None;
    }
    // A guard whose interval contains all positions of the loops always holds.
    let needed = lines
        .iter()
        .filter(|(direction, line)| **line != Interval::reached(direction, sizes));
    let simple: Option<Vec<Guard>> = needed
        .map(|(direction, line)| line.guard(direction))
        .collect();
    Some(simple.unwrap_or_else(|| guards.to_vec()))
}

/// An interval of positions with both ends included. `i128` holds a product of two `isize` values.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Interval {
    low: i128,
    high: i128,
}

impl Interval {
    /// Returns the direction of a guard and the interval where the guard holds; `None` if a stride
    /// is too close to the limits of its type.
    fn allowed(guard: &Guard) -> Option<(Vec<isize>, Self)> {
        let strides = &guard.map.strides;
        // Trailing zeros do not change the direction.
        let used = strides.iter().rposition(|&stride| stride != 0);
        let strides = &strides[..used.map_or(0, |last| last + 1)];
        let common = strides
            .iter()
            .fold(0, |common, stride| gcd(common, stride.unsigned_abs()));
        let common = isize::try_from(common.max(1)).ok()?;
        let forwards = strides.iter().find(|&&stride| stride != 0) > Some(&0);
        // A guard on a negative direction is mirrored, so that both orientations count as one
        // direction.
        let unit = if forwards { common } else { -common };
        let direction: Option<Vec<isize>> = strides
            .iter()
            .map(|stride| stride.checked_div(unit))
            .collect();
        let (offset, common) = (guard.map.offset as i128, common as i128);
        let (low, high) = (-offset, guard.extent as i128 - 1 - offset);
        let (low, high) = if forwards { (low, high) } else { (-high, -low) };
        // Both ends are divided by the common factor: the lower one rounds up, the upper one down.
        let allowed = Self {
            low: -(-low).div_euclid(common),
            high: high.div_euclid(common),
        };
        Some((direction?, allowed))
    }

    /// Returns the interval of positions that loops of these sizes reach.
    fn reached(direction: &[isize], sizes: &[usize]) -> Self {
        let mut reached = Self { low: 0, high: 0 };
        for (&stride, &size) in direction.iter().zip(sizes) {
            let span = stride as i128 * (size as i128 - 1);
            reached.low += span.min(0);
            reached.high += span.max(0);
        }
        reached
    }

    /// Returns the intersection of two intervals.
    fn meet(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
        }
    }

    /// Returns the guard that holds in the interval, or `None` if a number exceeds `isize`.
    fn guard(self, direction: &[isize]) -> Option<Guard> {
        let map = IndexMap {
            offset: isize::try_from(-self.low).ok()?,
            strides: direction.to_vec(),
        };
        let extent = usize::try_from(self.high - self.low + 1).ok()?;
        Some(Guard { map, extent })
    }
}

/// Returns the greatest common divisor.
pub(crate) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(offset: isize, strides: &[isize], extent: usize) -> Guard {
        let map = IndexMap {
            offset,
            strides: strides.to_vec(),
        };
        Guard { map, extent }
    }

    fn indices(sizes: [usize; 2]) -> impl Iterator<Item = [usize; 2]> {
        (0..sizes[0]).flat_map(move |i| (0..sizes[1]).map(move |j| [i, j]))
    }

    #[test]
    fn what_another_guard_or_the_loops_imply_is_dropped() {
        let sizes = [5, 7];
        let kept = |guards: &[Guard]| simplest(guards, &sizes).unwrap();
        assert_eq!(kept(&[guard(0, &[1, 0], 5), guard(6, &[0, -1, 0], 9)]), []);
        let one = kept(&[guard(-1, &[1], 9)]);
        assert_eq!(one, [guard(-1, &[1], 4)]);
        for implied in [
            guard(-1, &[1, 0], 4),
            guard(0, &[1], 5),
            guard(4, &[-1], 4),
            guard(-2, &[2], 100),
        ] {
            assert_eq!(kept(&[implied, one[0].clone()]), one);
        }
        assert_eq!(kept(&[guard(-1, &[1], 9), guard(0, &[1], 3)]).len(), 1);
        assert_eq!(kept(&[guard(-1, &[1], 9), guard(-1, &[0, 1], 9)]).len(), 2);
    }

    #[test]
    fn guards_that_no_point_meets_differ_from_those_that_hold_everywhere() {
        assert_eq!(simplest(&[guard(-9, &[1], 4)], &[5]), None);
        assert_eq!(
            simplest(&[guard(0, &[1], 2), guard(-2, &[1], 2)], &[4]),
            None
        );
        assert_eq!(simplest(&[guard(-1, &[], 1)], &[]), None);
        assert_eq!(simplest(&[guard(0, &[], 1)], &[]), Some(vec![]));
        let nothing = [guard(-9, &[1], 4)];
        assert_eq!(simplest(&nothing, &[0]), Some(nothing.to_vec()));
    }

    #[test]
    fn numbers_at_the_end_of_their_type_do_not_overflow() {
        let ends = [isize::MIN, isize::MIN + 1, -1, 1, isize::MAX];
        for offset in ends {
            for stride in ends {
                let wild = guard(offset, &[stride, 1], usize::MAX);
                let _ = simplest(&[wild], &[isize::MAX.unsigned_abs(), 1]);
            }
        }
    }

    #[test]
    fn simplest_guards_hold_at_the_same_points() {
        let sizes = [3, 4];
        let numbers = [-2, -1, 0, 1, 3];
        for (offset, other) in numbers.into_iter().flat_map(|a| numbers.map(|b| (a, b))) {
            for strides in indices([5, 5]).map(|at| at.map(|i| numbers[i])) {
                let guards = [guard(offset, &strides, 3), guard(other, &[-2, 0], 4)];
                let holds = |index: &[usize; 2]| guards.iter().all(|guard| guard.holds(index));
                let expected: Vec<_> = indices(sizes).filter(holds).collect();
                let simple = simplest(&guards, &sizes);
                let holds = |index: &[usize; 2]| {
                    let all = |guards: &Vec<Guard>| guards.iter().all(|guard| guard.holds(index));
                    simple.as_ref().is_some_and(all)
                };
                assert!(indices(sizes).filter(holds).eq(expected), "{guards:?}");
            }
        }
    }
}
