//! The loops that sort one line of items.

use super::TASK;
use super::key::Radix;
use crate::error::Result;
use crate::parallel;

/// The maximum number of items that are sorted by comparisons, which need no counts of bytes.
pub(super) const SHORT: usize = 512;
/// The number of values of a byte.
const N_VALUES: usize = 256;
/// The number of bytes of the longest key.
const MAX_BYTES: usize = 8;

/// Sorts items in ascending order. Items with equal keys must be in the order of their positions,
/// and the sort keeps this order. `spare` has at least as many items.
pub(super) fn sort<I: Radix>(items: &mut [I], spare: &mut [I]) {
    if items.len() <= SHORT {
        // Items with equal keys are equal, or differ in their positions, which are in order.
        items.sort_unstable();
        return;
    }
    let spare = &mut spare[..items.len()];
    let mut counts = [[0_usize; N_VALUES]; MAX_BYTES];
    for item in items.iter() {
        for (number, counts) in counts[..I::BYTES].iter_mut().enumerate() {
            counts[item.byte(number)] += 1;
        }
    }
    let mut is_in_spare = false;
    for (number, counts) in counts[..I::BYTES].iter().enumerate() {
        if counts.contains(&items.len()) {
            continue;
        }
        if is_in_spare {
            distribute(spare, items, number, counts);
        } else {
            distribute(items, spare, number, counts);
        }
        is_in_spare = !is_in_spare;
    }
    if is_in_spare {
        items.copy_from_slice(spare);
    }
}

/// Copies items to `to` in the order of byte `number`, stably; `counts[v]` is the number of items
/// whose byte is `v`.
fn distribute<I: Radix>(from: &[I], to: &mut [I], number: usize, counts: &[usize; N_VALUES]) {
    let mut places = [0; N_VALUES];
    let mut place = 0;
    for (start, count) in places.iter_mut().zip(counts) {
        *start = place;
        place += count;
    }
    for item in from {
        let place = &mut places[item.byte(number)];
        to[*place] = *item;
        *place += 1;
    }
}

/// Merges sorted runs of `run` items, the last of which may be shorter, on several threads. Returns
/// the sorted items, which are in one of the two slices of equal length.
pub(super) fn merge_runs<'i, I: Radix>(
    items: &'i mut [I],
    spare: &'i mut [I],
    mut run: usize,
) -> Result<&'i [I]> {
    let (mut from, mut to) = (items, spare);
    while run < from.len() {
        merge_pairs(from, to, run)?;
        (from, to) = (to, from);
        run *= 2;
    }
    Ok(from)
}

/// Merges each pair of neighbouring runs.
fn merge_pairs<I: Radix>(from: &[I], to: &mut [I], run: usize) -> Result<()> {
    let pairs = from.chunks(2 * run).zip(to.chunks_mut(2 * run));
    let tasks = pairs.flat_map(|(from, to)| {
        let (left, right) = from.split_at(run.min(from.len()));
        let pieces = to.chunks_mut(TASK).enumerate();
        pieces.map(move |(number, to)| (left, right, number * TASK, to))
    });
    parallel::for_each(
        tasks,
        || (),
        |(), (left, right, first, to)| {
            let n_left = taken(left, right, first);
            merge(&left[n_left..], &right[first - n_left..], to);
            Ok(())
        },
    )
}

/// Returns the number of items of `left` among the first `n` items of the merged runs.
fn taken<I: Radix>(left: &[I], right: &[I], n: usize) -> usize {
    let (mut low, mut high) = (n.saturating_sub(right.len()), n.min(left.len()));
    while low < high {
        let middle = low.midpoint(high);
        // Of equal items, those of the left run come first.
        if left[middle] <= right[n - middle - 1] {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Fills `to` with the first items of two merged runs.
fn merge<I: Radix>(left: &[I], right: &[I], to: &mut [I]) {
    let (mut at_left, mut at_right) = (0, 0);
    for to in to.iter_mut() {
        let (Some(&a), Some(&b)) = (left.get(at_left), right.get(at_right)) else {
            break;
        };
        let is_left = a <= b;
        *to = if is_left { a } else { b };
        at_left += usize::from(is_left);
        at_right += usize::from(!is_left);
    }
    // If a run has ended, the other one follows.
    let n = at_left + at_right;
    let n_left = (left.len() - at_left).min(to.len() - n);
    to[n..n + n_left].copy_from_slice(&left[at_left..at_left + n_left]);
    let n = n + n_left;
    let n_right = to.len() - n;
    to[n..].copy_from_slice(&right[at_right..at_right + n_right]);
}
