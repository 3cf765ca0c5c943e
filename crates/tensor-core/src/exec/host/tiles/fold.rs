//! The terms of a sum, in blocks of the same pattern.
//!
//! Method: a sum over several axes is a sequence of blocks. All blocks have the same distances
//! between their terms, so one table serves all of them. Each block is added up from zero, and the
//! sums of blocks are added in order. The blocks depend on the nest alone, and so do the bits of a
//! sum.

use crate::ir::{Guard, IndexMap};

/// The maximum number of terms of a block. The lanes of a block then stay in a cache.
const BLOCK: usize = 512;
/// The minimum number of terms of a block that is shorter only to leave out padding.
const SHORT_BLOCK: usize = 128;

/// The terms of a sum.
#[derive(Debug)]
pub(super) struct Fold {
    /// The distances of the terms of a block from its first term, in the operand of the rows and in
    /// that of the lanes.
    pub(super) table: Vec<[isize; 2]>,
    pub(super) blocks: Vec<Block>,
    /// The axis that is divided into blocks, and the number of its indices in a block; `None` if
    /// there is one block.
    cut: Option<(usize, usize)>,
    /// The first axis that blocks cover as a whole, or the divided axis if a block has several of
    /// its indices; and the number of terms of an index.
    pub(super) first_axis: usize,
    pub(super) unit: usize,
}

/// A block of terms.
#[derive(Debug)]
pub(super) struct Block {
    /// The distances of the first term of the block from the first term of the sum.
    pub(super) start: [isize; 2],
    /// The number of terms: a prefix of the table.
    pub(super) len: usize,
}

impl Fold {
    /// Divides the reduced axes, which are those from `first` on. `maps` are those of the rows and
    /// of the lanes, and `guards` those of the rows: if one depends on the first axis that blocks
    /// cover as a whole, each block has one index of the axis before, unless blocks would be short.
    pub(super) fn new(
        sizes: &[usize],
        first: usize,
        maps: [&IndexMap; 2],
        guards: &[Guard],
    ) -> Self {
        let strides = |axis: usize| maps.map(|map| map.stride(axis));
        // The last axes that fit into a block as a whole.
        let mut whole = sizes.len();
        let mut len = 1;
        while whole > first && len * sizes[whole - 1] <= BLOCK {
            whole -= 1;
            len *= sizes[whole];
        }
        let mut table = points(whole..sizes.len(), sizes, strides);
        if whole == first {
            let block = Block {
                start: [0; 2],
                len: table.len(),
            };
            return Self {
                cut: None,
                first_axis: first,
                unit: table.len() / sizes.get(first).copied().unwrap_or(1).max(1),
                table,
                blocks: vec![block],
            };
        }
        // A block has several indices of the axis before these.
        let cut = whole - 1;
        // Blocks of about equal length: a last block of a few terms would cost a pass over all
        // tiles.
        let n_blocks = sizes[cut].div_ceil(BLOCK / len);
        let is_guarded = guards.iter().any(|guard| guard.map.stride(whole) != 0);
        let n = if is_guarded && len >= SHORT_BLOCK {
            1
        } else {
            sizes[cut].div_ceil(n_blocks)
        };
        let (first_axis, unit) = match sizes.get(whole) {
            Some(size) if n == 1 => (whole, len / size),
            _ => (cut, len),
        };
        table = steps(n, strides(cut))
            .flat_map(|step| table.iter().map(move |&term| sum(step, term)))
            .collect();
        let outer = points(first..cut, sizes, strides);
        let blocks = outer.iter().flat_map(|&start| {
            (0..sizes[cut]).step_by(n).map(move |index| {
                let [row, lane] =
                    strides(cut).map(|stride| stride.wrapping_mul(index.cast_signed()));
                Block {
                    start: sum(start, [row, lane]),
                    len: n.min(sizes[cut] - index) * len,
                }
            })
        });
        Self {
            blocks: blocks.collect(),
            table,
            cut: Some((cut, n)),
            first_axis,
            unit,
        }
    }

    /// Returns the distance of the first term of each block from the first term of the sum by a
    /// map. `first` is the first reduced axis.
    pub(super) fn starts(&self, sizes: &[usize], first: usize, map: &IndexMap) -> Vec<isize> {
        let Some((cut, n)) = self.cut else {
            return vec![0];
        };
        let outer = points(first..cut, sizes, |axis| [map.stride(axis)]);
        let starts = outer.iter().flat_map(|&[start]| {
            let indices = (0..sizes[cut]).step_by(n);
            indices.map(move |index| {
                start.wrapping_add(map.stride(cut).wrapping_mul(index.cast_signed()))
            })
        });
        starts.collect()
    }

    /// Returns whether the lanes of a block evict each other from the first-level cache: a set of
    /// the cache has more lines than it holds, and more than twice as many as the sets have on
    /// average. Strides of large powers of two do that. `n_lanes` is the number of adjacent lanes.
    pub(super) fn crowds(&self, element_bytes: usize, n_lanes: usize) -> bool {
        /// The usual length of a line in bytes, and numbers of sets and of lines of a set.
        const LINE: isize = 64;
        const SETS: isize = 64;
        const WAYS: usize = 8;
        let line = |lane: isize| {
            let bytes = lane.wrapping_mul(element_bytes.cast_signed());
            bytes.div_euclid(LINE)
        };
        let terms = self.table.iter();
        let mut lines: Vec<isize> = terms
            .flat_map(|&[_, lane]| {
                let last = lane.wrapping_add_unsigned(n_lanes.saturating_sub(1));
                line(lane)..=line(last)
            })
            .collect();
        lines.sort_unstable();
        lines.dedup();
        let mut n_lines = [0; SETS.unsigned_abs()];
        for &line in &lines {
            n_lines[line.rem_euclid(SETS).unsigned_abs()] += 1;
        }
        let average = lines.len().div_ceil(n_lines.len());
        n_lines.into_iter().any(|n| n > WAYS.max(2 * average))
    }
}

/// Returns the distances of all points of some axes from the first point, in row-major order.
pub(in crate::exec::host) fn points<const N: usize>(
    axes: impl DoubleEndedIterator<Item = usize>,
    sizes: &[usize],
    strides: impl Fn(usize) -> [isize; N],
) -> Vec<[isize; N]> {
    let mut points = vec![[0; N]];
    for axis in axes {
        let along = strides(axis);
        points = points
            .iter()
            .flat_map(|&point| steps(sizes[axis], along).map(move |step| sum(point, step)))
            .collect();
    }
    points
}

fn steps<const N: usize>(n: usize, stride: [isize; N]) -> impl Iterator<Item = [isize; N]> {
    (0..n.cast_signed()).map(move |index| stride.map(|stride| stride.wrapping_mul(index)))
}

fn sum<const N: usize>(a: [isize; N], b: [isize; N]) -> [isize; N] {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_crowd_if_few_sets_of_a_cache_have_most_of_their_lines() {
        let crowds = |stride: isize, n_lanes: usize| {
            let map = |stride| IndexMap {
                offset: 0,
                strides: vec![stride],
            };
            Fold::new(&[512], 0, [&map(1), &map(stride)], &[]).crowds(4, n_lanes)
        };
        // Dense rows fill all sets equally, although 512 rows are larger than the cache.
        assert!(!crowds(16, 16));
        assert!(!crowds(64, 64));
        assert!(!crowds(80, 64));
        // Rows of 4 KiB begin in the same set, and each of their lines has 512 others in its set.
        assert!(crowds(1024, 16));
        assert!(crowds(1024, 64));
        // Windows overlap.
        assert!(!crowds(1, 64));
        assert!(!crowds(0, 64));
    }

    #[test]
    fn guards_divide_long_blocks_and_leave_short_ones_whole() {
        // Channels, and the taps of a filter, one of which has a guard.
        let lens = |sizes: &[usize], guarded: usize| -> Vec<usize> {
            let map = IndexMap::in_order(sizes);
            let mut strides = vec![0; sizes.len()];
            strides[guarded] = 1;
            let guard = Guard {
                map: IndexMap { offset: 0, strides },
                extent: 2,
            };
            let fold = Fold::new(sizes, 0, [&map, &map], &[guard]);
            let starts: Vec<isize> = fold.blocks.iter().map(|block| block.start[0]).collect();
            assert_eq!(fold.starts(sizes, 0, &map), starts);
            fold.blocks.iter().map(|block| block.len).collect()
        };
        assert_eq!(lens(&[3, 3, 64], 1), [192; 3]);
        assert_eq!(lens(&[3, 3, 64], 0), [384, 192]);
        assert_eq!(lens(&[300, 3, 3], 1), [450; 6]);
    }
}
