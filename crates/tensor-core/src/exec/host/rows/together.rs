//! Several nests on the same rows, computed together.
//!
//! Role: runs consecutive steps of a band if each of them is a chain on rows, such as the four
//! steps of a softmax.
//! Method: all nests are computed for a block of rows, then for the next block. The rows stay in
//! the first-level cache, and a result that only these nests read takes the memory of one block.
//! In a block of several short rows, the CPU begins a row while it waits for the last results of
//! the row before. Each row of each nest is computed by the code that computes the nest alone, so
//! the results have the same bits.

use std::ops::Range;

use super::{BLOCK_LANES, ChainRows, Epilogue, RowInput, run_rows};
use crate::exec::host::chain::{Link, OperandSource, Results};
use crate::exec::host::chain_loops::RowChain;
use crate::exec::host::vector::FloatVector;
use crate::math::Chunks;

/// A nest that is computed together with others.
pub(in crate::exec::host) struct Member<'a> {
    pub(in crate::exec::host) nest: &'a ChainRows,
    pub(in crate::exec::host) inputs: Vec<RowInput<'a>>,
}

impl ChainRows {
    /// Returns the number of rows.
    pub(in crate::exec::host) fn n_rows(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Returns whether the nest supports [`fill`].
    pub(in crate::exec::host) fn can_join(&self) -> bool {
        !self.has_long_folds() && !matches!(self.epilogue, Epilogue::Program(_))
    }

    /// Returns whether each row reads only the row of the same number of an input, whose rows have
    /// `row_len` elements.
    pub(in crate::exec::host) fn stays_in_rows(&self, input: usize, row_len: usize) -> bool {
        let of_epilogue = self.epilogue.links().iter().filter_map(Link::operand);
        let mut operands = self.chain.operands().chain(of_epilogue);
        operands.all(|source| {
            let (map, len) = match source {
                OperandSource::Row(number, map) if *number == input => (map, 1),
                OperandSource::Lanes(number, map) if *number == input => (map, self.len),
                _ => return true,
            };
            let mut expected = row_len.cast_signed();
            let mut axes = self.sizes.iter().zip(&map.strides).rev();
            let is_in_order = axes.all(|(&size, &stride)| {
                let is_expected = size == 1 || stride == expected;
                expected = expected.saturating_mul(size.cast_signed());
                is_expected
            });
            let start = usize::try_from(map.offset).unwrap_or(usize::MAX);
            is_in_order && start.saturating_add(len) <= row_len
        })
    }
}

/// Returns the number of rows of a block, a power of 2, for nests that are computed together.
pub(in crate::exec::host) fn n_block_rows<'a>(nests: impl Iterator<Item = &'a ChainRows>) -> usize {
    let len = nests.map(|nest| nest.len).fold(1, usize::max);
    let n_rows = (BLOCK_LANES / len).max(1);
    1 << n_rows.ilog2()
}

/// Computes consecutive rows of several nests on the calling thread, in blocks of rows. The nests
/// have equally many rows, and an input that is the result of an earlier nest is read row by row
/// ([`ChainRows::stays_in_rows`]).
pub(in crate::exec::host) fn fill<'a, T: FloatVector + Chunks>(
    members: &[Member<'a>],
    results: &mut [Results<'_, T>],
    rows: Range<usize>,
    n_block_rows: usize,
) {
    let Some(level) = members.first().map(|member| member.nest.level) else {
        return;
    };
    let mut row = rows.start;
    while row < rows.end {
        let n_together = members.iter().map(|member| member.nest.n_together(row));
        let n_rows = n_together.fold(rows.end - row, usize::min);
        let chain = |member: &Member<'a>| {
            let input = |input: usize| member.inputs[input];
            member.nest.row_chain((row, 0), member.nest.len, &input)
        };
        let chains: Vec<RowChain<'a, T>> = members.iter().map(chain).collect();
        let rest = |results| Results::skip_rows(results, row - rows.start);
        let mut rest: Vec<Results<'_, T>> = results.iter_mut().map(rest).collect();
        run_rows(level, &chains, &mut rest, [n_rows, n_block_rows]);
        row += n_rows;
    }
}
