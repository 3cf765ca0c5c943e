//! The choice of the loop axes that SIMD lanes run along.
//!
//! Method: lanes run either along the last axes of the output or along the last reduced axes. In
//! the first case each lane is an output element, and the reduced axes are loops around the
//! instructions. In the second case each output element is the fold of all its lanes. An estimate
//! of the work decides. A nest that packs flags into words is a third case: its lanes run along the
//! last axes of the output and the bits of a word, so that flags are computed in the order of
//! memory, and 32 lanes are one output element.

use std::ops::Range;

use crate::ir::{IndexMap, LoopNest, Value, WORD_BITS};

/// The number of lanes of a register if all lanes have at most 4 bytes. Such a register takes 4
/// KiB; a dozen registers fit the first-level cache of current CPUs.
pub(super) const LANES: usize = 1024;
/// The number of lanes of a register if some lanes have 8 bytes.
pub(super) const WIDE_LANES: usize = 512;
/// The cost of starting an instruction, in operations on one lane.
const INSTRUCTION_OVERHEAD: f64 = 250.0;
/// The cost of beginning a run of lanes that are next to each other in memory.
const RUN_OVERHEAD: f64 = 30.0;
/// The additional cost of a lane that is loaded by its own address instead of in a run.
const SCATTERED_COST: f64 = 12.0;

/// The loop axes that lanes run along, flattened in row-major order.
#[derive(Debug, Clone)]
pub(super) struct LaneAxes {
    pub(super) first: usize,
    pub(super) sizes: Vec<usize>,
    pub(super) len: usize,
    /// Whether the axes are reduced axes.
    pub(super) reduced: bool,
    /// The number of lanes that become one output element: 1, or the bits of a word if the last
    /// axis is that of the bits.
    pub(super) per_output: usize,
}

impl LaneAxes {
    /// Chooses the axes with the lowest estimated cost among the suffixes of the output axes and of
    /// the reduced axes.
    pub(super) fn choose(nest: &LoopNest) -> Self {
        let (sizes, n_domain) = (nest.sizes(), nest.domain.len());
        let body = nest.body();
        let cost = |lanes: &Self| lanes.cost_of(nest, &body);
        let along_domain = suffixes(&sizes, 0..n_domain, false);
        let along_reduced = suffixes(&sizes, n_domain..sizes.len(), true);
        if nest.packed_flag().is_some() {
            return Self::along_bits(along_domain, nest);
        }
        let candidates = along_domain.chain(along_reduced.filter(|_| n_domain < sizes.len()));
        let cheapest = candidates.min_by(|a, b| cost(a).total_cmp(&cost(b)));
        cheapest
            .unwrap_or_else(|| unreachable!("the output always has a suffix, if only of no axes"))
    }

    /// Returns the numbers of the axes.
    pub(super) fn axes(&self) -> Range<usize> {
        self.first..self.first + self.sizes.len()
    }

    /// Returns whether the positions of a map are equal in all blocks of at most `block` lanes. If
    /// the lanes fill several blocks, the positions must be equal in all lanes, too.
    pub(super) fn keeps(&self, map: &IndexMap, block: usize) -> bool {
        let lanes = if self.len <= block { self.axes() } else { 0..0 };
        let mut strides = map.strides.iter().enumerate();
        strides.all(|(axis, &stride)| stride == 0 || lanes.contains(&axis))
    }

    /// Returns the number of output elements of all lanes, if the lanes are not reduced.
    pub(super) fn n_outputs(&self) -> usize {
        self.len / self.per_output
    }

    /// Returns the axes with the lowest cost, each candidate followed by the axis of the bits.
    fn along_bits(candidates: impl Iterator<Item = Self>, nest: &LoopNest) -> Self {
        let body = nest.body();
        let with_bits = candidates.map(|lanes| Self {
            sizes: [&lanes.sizes[..], &[WORD_BITS]].concat(),
            len: lanes.len * WORD_BITS,
            per_output: WORD_BITS,
            ..lanes
        });
        let cost = |lanes: &Self| lanes.cost_of(nest, &body);
        let cheapest = with_bits.min_by(|a, b| cost(a).total_cmp(&cost(b)));
        cheapest
            .unwrap_or_else(|| unreachable!("the output always has a suffix, if only of no axes"))
    }

    /// Returns the estimated cost of one lane, in operations on one lane, if lanes run along these
    /// axes.
    fn cost_of(&self, nest: &LoopNest, body: &[bool]) -> f64 {
        let (mut instructions, mut loads) = (1.0, 0.0);
        for (id, value) in nest.values.iter().enumerate() {
            // With a reduction, setup and epilogue run less often than the body.
            let weight = if body[id] || nest.reduce.is_empty() {
                1.0
            } else {
                1.0 / nest.reduce_len() as f64
            };
            if value.maps().next().is_some() && value.maps().all(|map| self.keeps(map, LANES)) {
                continue;
            }
            let (Value::Load { map, guards, .. } | Value::Gather { map, guards, .. }) = value
            else {
                instructions += weight;
                continue;
            };
            // Stride 1 is a contiguous load and stride 0 a constant for the whole block.
            let lies_well = matches!(flat_stride(map, self.first, &self.sizes), Some(0 | 1));
            let is_gather = matches!(value, Value::Gather { .. });
            if !lies_well || !guards.is_empty() || is_gather {
                loads += weight * self.load_cost(map, is_gather);
            }
        }
        // The cost of starting an instruction is shared by the lanes of a block.
        let block = self.len.clamp(1, LANES) as f64;
        instructions * (1.0 + INSTRUCTION_OVERHEAD / block) + loads
    }

    /// Returns the estimated cost of a lane that is loaded in runs along the last axis.
    fn load_cost(&self, map: &IndexMap, is_gather: bool) -> f64 {
        let last = self.axes().last();
        let run = self.sizes.last().copied().unwrap_or(1).clamp(1, LANES);
        let are_neighbours = matches!(last.map(|axis| map.stride(axis)), Some(0 | 1));
        let lane = if are_neighbours && !is_gather {
            1.0
        } else {
            SCATTERED_COST
        };
        lane + RUN_OVERHEAD / run as f64
    }
}

/// Returns the distance between the positions of neighbouring lanes if lanes run along the axes
/// from `first` on, which have these sizes. Returns `None` if the distance varies.
pub(super) fn flat_stride(map: &IndexMap, first: usize, sizes: &[usize]) -> Option<isize> {
    let strides = &map.strides[first..first + sizes.len()];
    // The index of an axis of size 1 is always 0, whatever the stride is.
    let longer = strides.iter().zip(sizes).filter(|(_, size)| **size != 1);
    let mut last = None;
    let mut expected = 0;
    for (&stride, &size) in longer.rev() {
        if last.is_some() && stride != expected {
            return None;
        }
        last = last.or(Some(stride));
        expected = stride.wrapping_mul(size.cast_signed());
    }
    last.or_else(|| strides.last().copied())
}

/// Returns suffixes of the axes in `range`, from the last axis alone to more and more axes, up to
/// the first suffix with at least [`WIDE_LANES`] lanes.
fn suffixes(sizes: &[usize], range: Range<usize>, reduced: bool) -> impl Iterator<Item = LaneAxes> {
    let last = range.end.saturating_sub(1).max(range.start);
    let mut wide_enough = false;
    let firsts = (range.start..=last).rev().take_while(move |&first| {
        let before = wide_enough;
        wide_enough = sizes[first..range.end].iter().product::<usize>() >= WIDE_LANES;
        !before
    });
    firsts.map(move |first| {
        let sizes = &sizes[first.min(range.end)..range.end];
        LaneAxes {
            first,
            sizes: sizes.to_vec(),
            len: sizes.iter().product(),
            reduced,
            per_output: 1,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_one_element_do_not_join_axes_that_are_apart() {
        let flat = |strides: &[isize], sizes: &[usize]| {
            let strides = strides.to_vec();
            flat_stride(&IndexMap { offset: 0, strides }, 0, sizes)
        };
        assert_eq!(flat(&[6, 3, 1], &[2, 2, 3]), Some(1));
        assert_eq!(flat(&[6, 77, 2], &[2, 1, 3]), Some(2));
        assert_eq!(flat(&[3, 1, 77], &[2, 3, 1]), Some(1));
        assert_eq!(flat(&[1, 1, 0], &[2, 1, 2]), None);
        assert_eq!(flat(&[4, 4, 1], &[2, 1, 3]), None);
        assert_eq!(flat(&[5], &[1]), Some(5));
        assert_eq!(flat(&[], &[]), None);
    }
}
