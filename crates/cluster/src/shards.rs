//! Sums over shards in a fixed order.
//!
//! Role: the order of summation, without messages: which partial sums a rank can compute alone, and
//! how partial sums of all ranks are added.
//! Method: a binary tree over the numbers of the shards. A node with `n` shards has the largest
//! power of two below `n` in its left part. A rank holds consecutive shards, and adds those that
//! form whole nodes; the remaining nodes are added later. Each addition has the same operands in
//! any division of the shards among ranks, so the bits depend on the number of shards alone.
//! Accuracy: an element is rounded once in each of `ceil(log2(n_shards))` levels.

use std::iter::Peekable;
use std::ops::{AddAssign, Range};

/// Returns the shards of a rank: consecutive numbers, whose counts differ by at most one among
/// ranks.
pub(crate) fn shards_of(rank: usize, n_ranks: usize, n_shards: usize) -> Range<usize> {
    let (each, rest) = (n_shards / n_ranks, n_shards % n_ranks);
    let first = |rank: usize| rank * each + rank.min(rest);
    first(rank)..first(rank + 1)
}

/// Returns the largest nodes of the tree over `n_shards` shards that contain no shards besides
/// `own`, in ascending order.
pub(crate) fn nodes_of(own: &Range<usize>, n_shards: usize) -> Vec<Range<usize>> {
    let mut nodes = vec![];
    add_nodes(own, 0..n_shards, &mut nodes);
    nodes
}

fn add_nodes(own: &Range<usize>, node: Range<usize>, nodes: &mut Vec<Range<usize>>) {
    if own.start >= node.end || node.start >= own.end {
        return;
    }
    if own.start <= node.start && node.end <= own.end {
        nodes.push(node);
        return;
    }
    let [left, right] = halves(&node);
    add_nodes(own, left, nodes);
    add_nodes(own, right, nodes);
}

/// Splits a node of at least two shards.
fn halves(node: &Range<usize>) -> [Range<usize>; 2] {
    let middle = node.start + node.len().next_power_of_two() / 2;
    [node.start..middle, middle..node.end]
}

/// Returns the sum of a node. `parts` begins with the sums of nodes that together are `node`, in
/// ascending order; the function takes them.
///
/// # Panics
/// If a part is missing, or if the sums have different lengths.
pub(crate) fn sum_node<T: Copy + AddAssign>(
    node: &Range<usize>,
    parts: &mut Peekable<impl Iterator<Item = (Range<usize>, Vec<T>)>>,
) -> Vec<T> {
    if let Some((_, sum)) = parts.next_if(|(part, _)| part == node) {
        return sum;
    }
    assert!(node.len() > 1, "the sum of shard {} is missing", node.start);
    let [left, right] = halves(node);
    let mut total = sum_node(&left, parts);
    let right = sum_node(&right, parts);
    assert_eq!(total.len(), right.len(), "sums have different lengths");
    for (total, right) in total.iter_mut().zip(right) {
        *total += right;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers whose sum depends on the order.
    fn number(shard: usize) -> f32 {
        let x = (shard as f32 * 0.734).sin();
        x * 10.0_f32.powi(i32::try_from(shard % 9).unwrap() - 4)
    }

    #[test]
    fn shards_are_divided_evenly_and_completely() {
        for n_shards in 0..40 {
            for n_ranks in 1..12 {
                let parts: Vec<_> = (0..n_ranks)
                    .map(|rank| shards_of(rank, n_ranks, n_shards))
                    .collect();
                let all: Vec<usize> = parts.iter().cloned().flatten().collect();
                assert!(all.into_iter().eq(0..n_shards));
                let lens = parts.iter().map(Range::len);
                assert!(lens.clone().max().unwrap() - lens.min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn the_bits_of_a_sum_do_not_depend_on_the_ranks_and_differ_from_other_orders() {
        let mut differs = 0;
        for n_shards in 1..70 {
            let whole = 0..n_shards;
            let one_by_one = whole
                .clone()
                .map(|shard| (shard..shard + 1, vec![number(shard)]));
            let expected = sum_node(&whole, &mut one_by_one.clone().peekable());
            let running: f32 = whole.clone().map(number).sum();
            differs += usize::from(running.to_bits() != expected[0].to_bits());
            for n_ranks in 1..n_shards + 3 {
                let mut parts = vec![];
                for rank in 0..n_ranks {
                    let own = shards_of(rank, n_ranks, n_shards);
                    let mut shards = one_by_one
                        .clone()
                        .filter(|(shard, _)| own.contains(&shard.start))
                        .peekable();
                    for node in nodes_of(&own, n_shards) {
                        parts.push((node.clone(), sum_node(&node, &mut shards)));
                    }
                    assert!(shards.next().is_none());
                }
                let total = sum_node(&whole, &mut parts.into_iter().peekable());
                assert_eq!(total[0].to_bits(), expected[0].to_bits());
            }
        }
        assert!(differs > 30, "{differs}");
    }

    #[test]
    fn a_rank_with_an_even_share_holds_one_node() {
        for (n_shards, n_ranks) in [(8, 1), (8, 2), (8, 4), (8, 8), (1024, 64), (3, 1)] {
            for rank in 0..n_ranks {
                let own = shards_of(rank, n_ranks, n_shards);
                assert_eq!(nodes_of(&own, n_shards), [own]);
            }
        }
        assert_eq!(nodes_of(&(3..8), 8), [3..4, 4..8]);
        assert_eq!(nodes_of(&(0..0), 8), []);
    }
}
