//! The inner loops of scans.
//!
//! Method: along the last axis, each group of 16 elements is scanned in registers: every element is
//! combined with the one 1, 2, 4 and 8 places before, and then with the result before the group. A
//! scan along another axis combines whole rows. The groups begin at the start of a line, or at its
//! end if the scan is reversed.

use super::super::lanes::{LaneType, larger, smaller, total};
use super::super::loops::FOLDED_LANES;
use super::super::loops::{Fold, View};
use crate::level::Level;
use crate::op::{Reduce, Scan};

/// The number of elements that are scanned in registers.
pub(super) const GROUP: usize = 16;

/// Calls a closure with the function that combines the result so far and the next element, so that
/// each operation has loops of its own.
macro_rules! with_operation {
    ($op:expr, $t:ty, |$f:ident| $body:expr) => {
        match $op {
            Reduce::Sum => {
                let $f = <$t>::plus;
                $body
            }
            Reduce::Prod => {
                let $f = <$t>::times;
                $body
            }
            Reduce::Max => {
                let $f = larger::<$t>;
                $body
            }
            Reduce::Min => {
                let $f = smaller::<$t>;
                $body
            }
            Reduce::All | Reduce::Any => unreachable!("a checked scan folds numbers"),
        }
    };
}

/// Scans lines of `line_len` elements, or some points of one line. `so_far` contains the results
/// before the first point, one for each element of a point, and afterwards those up to the last
/// point. Lines after the first begin with no earlier results.
pub(super) fn run<T: LaneType>(
    level: Level,
    scan: Scan,
    line_len: usize,
    so_far: &mut [T],
    from: &[T],
    to: &mut [T],
) {
    let start = T::identity(scan.op);
    level.dispatch(
        #[inline(always)]
        || {
            let lines = from.chunks(line_len).zip(to.chunks_mut(line_len));
            for (number, (from, to)) in lines.enumerate() {
                if number > 0 {
                    so_far.fill(start);
                }
                with_operation!(scan.op, T, |f| match &mut *so_far {
                    [so_far] if scan.reversed => {
                        run_elements::<T, true>(scan.exclusive, so_far, from, to, f)
                    }
                    [so_far] => run_elements::<T, false>(scan.exclusive, so_far, from, to, f),
                    so_far => run_rows(scan, so_far, from, to, f),
                });
            }
        },
    );
}

/// Combines the results so far with all elements of consecutive points of a line.
pub(super) fn fold<T: LaneType>(level: Level, scan: Scan, so_far: &mut [T], from: &[T]) {
    level.dispatch(
        #[inline(always)]
        || {
            if let ([so_far], Reduce::Prod) = (&mut *so_far, scan.op) {
                // Only neighbours are multiplied: other products may overflow where no product of
                // neighbours does.
                *so_far = so_far.times(product_of_neighbours(from));
                return;
            }
            if let [so_far] = &mut *so_far {
                let mut totals = [T::identity(scan.op); FOLDED_LANES];
                let how = Fold::Together(from.len());
                T::accumulate(scan.op, how, &mut totals, View::Lanes(from));
                let total = total(scan.op, &totals);
                with_operation!(scan.op, T, |f| *so_far = f(*so_far, total));
                return;
            }
            let n = so_far.len();
            for row in in_order(scan.reversed, from.len() / n) {
                let row = &from[row * n..(row + 1) * n];
                T::accumulate(scan.op, Fold::Each, so_far, View::Lanes(row));
            }
        },
    );
}

/// Returns the product of all elements.
#[inline(always)]
fn product_of_neighbours<T: LaneType>(from: &[T]) -> T {
    let (groups, rest) = from.as_chunks::<GROUP>();
    let mut total = T::identity(Reduce::Prod);
    for group in groups {
        let pairs: [T; GROUP / 2] =
            std::array::from_fn(|at| group[2 * at].times(group[2 * at + 1]));
        let fours: [T; GROUP / 4] =
            std::array::from_fn(|at| pairs[2 * at].times(pairs[2 * at + 1]));
        let [a, b, c, d] = fours;
        total = total.times(a.times(b).times(c.times(d)));
    }
    rest.iter().fold(total, |total, &x| total.times(x))
}

/// Returns the numbers of points in the order of a scan. An iterator that is reversed would have
/// loops of its own, which the compiler might not inline into code for the level.
#[inline(always)]
fn in_order(reversed: bool, n: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |at| if reversed { n - 1 - at } else { at })
}

#[inline(always)]
fn run_rows<T: LaneType>(
    scan: Scan,
    so_far: &mut [T],
    from: &[T],
    to: &mut [T],
    f: impl Fn(T, T) -> T + Copy,
) {
    let n = so_far.len();
    for row in in_order(scan.reversed, from.len() / n) {
        let row = row * n..(row + 1) * n;
        let elements = so_far.iter_mut().zip(&from[row.clone()]).zip(&mut to[row]);
        if scan.exclusive {
            for ((so_far, &element), to) in elements {
                *to = *so_far;
                *so_far = f(*so_far, element);
            }
        } else {
            for ((so_far, &element), to) in elements {
                *so_far = f(*so_far, element);
                *to = *so_far;
            }
        }
    }
}

#[inline(always)]
fn run_elements<T: LaneType, const REVERSED: bool>(
    exclusive: bool,
    so_far: &mut T,
    from: &[T],
    to: &mut [T],
    f: impl Fn(T, T) -> T + Copy,
) {
    let (mut last, len) = (*so_far, from.len());
    let (n_groups, n_rest) = (len / GROUP, len % GROUP);
    for group in in_order(REVERSED, n_groups) {
        let start = group * GROUP + if REVERSED { n_rest } else { 0 };
        let to = &mut to[start..start + GROUP];
        let Some(&group) = from[start..].first_chunk::<GROUP>() else {
            break;
        };
        let results = if REVERSED {
            reversed(scanned(&mut last, reversed(group), exclusive, f))
        } else {
            scanned(&mut last, group, exclusive, f)
        };
        to.copy_from_slice(&results);
    }
    let rest = if REVERSED { 0 } else { len - n_rest };
    for at in in_order(REVERSED, n_rest) {
        let next = f(last, from[rest + at]);
        to[rest + at] = if exclusive { last } else { next };
        last = next;
    }
    *so_far = last;
}

#[inline(always)]
fn reversed<T: LaneType>(group: [T; GROUP]) -> [T; GROUP] {
    std::array::from_fn(|lane| group[GROUP - 1 - lane])
}

/// Returns the results of a group, and moves `last` to the result of its last element.
#[inline(always)]
fn scanned<T: LaneType>(
    last: &mut T,
    group: [T; GROUP],
    exclusive: bool,
    f: impl Fn(T, T) -> T + Copy,
) -> [T; GROUP] {
    let group = with_earlier::<T, 1>(group, f);
    let group = with_earlier::<T, 2>(group, f);
    let group = with_earlier::<T, 4>(group, f);
    let group = with_earlier::<T, 8>(group, f);
    let before = *last;
    let results = group.map(|element| f(before, element));
    *last = results[GROUP - 1];
    if exclusive {
        std::array::from_fn(|at| if at == 0 { before } else { results[at - 1] })
    } else {
        results
    }
}

/// Combines each element with the one `DISTANCE` places before.
#[inline(always)]
fn with_earlier<T: LaneType, const DISTANCE: usize>(
    group: [T; GROUP],
    f: impl Fn(T, T) -> T,
) -> [T; GROUP] {
    std::array::from_fn(|at| match at.checked_sub(DISTANCE) {
        Some(earlier) => f(group[earlier], group[at]),
        None => group[at],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPS: [Reduce; 4] = [Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::Min];

    /// Calls `check` with every scan along axis 0.
    fn all_scans(check: impl Fn(Scan)) {
        for op in OPS {
            for [reversed, exclusive] in
                [[false, false], [false, true], [true, false], [true, true]]
            {
                check(Scan {
                    op,
                    axis: 0,
                    reversed,
                    exclusive,
                });
            }
        }
    }

    /// Returns the results of a scan of rows, and the last results, one element after the other.
    fn expected<T: LaneType>(scan: Scan, start: &[T], from: &[T]) -> (Vec<T>, Vec<T>) {
        let (n, mut so_far, mut to) = (start.len(), start.to_vec(), from.to_vec());
        let n_rows = from.len() / n;
        for step in 0..n_rows {
            let row = if scan.reversed {
                n_rows - 1 - step
            } else {
                step
            };
            for (col, so_far) in so_far.iter_mut().enumerate() {
                let (at, before) = (row * n + col, *so_far);
                *so_far = match scan.op {
                    Reduce::Sum => before.plus(from[at]),
                    Reduce::Prod => before.times(from[at]),
                    Reduce::Max => larger(before, from[at]),
                    _ => smaller(before, from[at]),
                };
                to[at] = if scan.exclusive { before } else { *so_far };
            }
        }
        (to, so_far)
    }

    /// Compares lines of many lengths, at every level, with the definition; `element` returns
    /// numbers whose sums and products are exact.
    fn check_lines<T: LaneType + std::fmt::Debug>(sentinel: T, element: impl Fn(usize) -> T) {
        let levels: Vec<Level> = Level::all().into_iter().filter_map(|it| it.1).collect();
        all_scans(|scan| {
            for width in [1, 2, 3, 16, 17] {
                for n_rows in [0, 1, 2, 15, 16, 17, 31, 32, 33, 100] {
                    let from: Vec<T> = (0..n_rows * width).map(&element).collect();
                    let start: Vec<T> = (7..7 + width).map(&element).collect();
                    let (results, last) = expected(scan, &start, &from);
                    for &level in &levels {
                        let (mut so_far, mut to) = (start.clone(), vec![sentinel; from.len()]);
                        run(level, scan, from.len().max(1), &mut so_far, &from, &mut to);
                        assert_eq!(
                            (&to, &so_far),
                            (&results, &last),
                            "{scan:?}, {n_rows}×{width}"
                        );
                        let mut total = start.clone();
                        fold(level, scan, &mut total, &from);
                        assert_eq!(total, last, "{scan:?}, {n_rows}×{width}");
                    }
                }
            }
        });
    }

    #[test]
    fn lines_of_every_length_have_the_results_of_the_definition() {
        // Products of these numbers stay powers of two near 1.
        let power = |at: usize| [1.0_f32, 2.0, 0.5, -1.0, 4.0, 0.25][at * 7 % 6];
        check_lines(77.0_f32, power);
        check_lines(77.0_f64, |at| power(at).into());
        check_lines(77_i32, |at| [3, -1, 7, i32::MAX, 2][at * 3 % 5]);
        check_lines(77_u32, |at| [3, 9, 7, u32::MAX, 2][at * 3 % 5]);
    }

    #[test]
    fn lines_begin_with_no_earlier_results() {
        all_scans(|scan| {
            for (width, n_points) in [(1, 1), (1, 3), (1, 16), (1, 20), (2, 3), (3, 1)] {
                let line_len = width * n_points;
                let numbers = (0..).map(|at: i32| at % 7 - 3);
                let from: Vec<i32> = numbers.take(line_len * 5).collect();
                let start = vec![i32::identity(scan.op); width];
                let lines = from.chunks(line_len);
                let expected: Vec<i32> = lines
                    .flat_map(|line| expected(scan, &start, line).0)
                    .collect();
                let (mut so_far, mut to) = (start.clone(), vec![77; from.len()]);
                run(Level::best(), scan, line_len, &mut so_far, &from, &mut to);
                assert_eq!(to, expected, "{scan:?}, {n_points}×{width}");
            }
        });
    }

    #[test]
    fn results_are_nan_from_the_first_nan_on() {
        all_scans(|scan| {
            for place in [0, 1, 15, 16, 40] {
                let mut from = [1.0_f32; 41];
                from[place] = f32::NAN;
                let (mut so_far, mut to) = ([1.0], [77.0; 41]);
                run(Level::best(), scan, 41, &mut so_far, &from, &mut to);
                for (at, result) in to.iter().enumerate() {
                    let covers = match (scan.reversed, scan.exclusive) {
                        (false, false) => at >= place,
                        (false, true) => at > place,
                        (true, false) => at <= place,
                        (true, true) => at < place,
                    };
                    assert_eq!(result.is_nan(), covers, "{scan:?}, {at}, {place}");
                }
                assert!(so_far[0].is_nan());
            }
        });
    }
}
