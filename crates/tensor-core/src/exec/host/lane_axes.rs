//! Which loops lanes run along.
//!
//! Method: either the last axes of the output (each lane is an output element, the reduced axes are loops around the
//! instructions) or the last reduced axes (each output element folds its lanes in the end); an estimate of the work
//! decides.

use std::ops::Range;

use crate::ir::{IndexMap, LoopNest, Value};

/// Bytes of a register of 4-byte lanes: a dozen of them fit the first-level cache of today's CPUs.
pub(super) const LANES: usize = 1024;
/// Lanes of a register where 8-byte lanes take part.
pub(super) const WIDE_LANES: usize = 512;
/// What starting an instruction costs, in lanes.
const INSTRUCTION_OVERHEAD: f64 = 250.0;
/// What a lane that has to be fetched by its own address costs, in lanes that need not.
const SCATTERED_COST: f64 = 12.0;

/// The loop axes that lanes run along, flattened.
#[derive(Debug, Clone)]
pub(super) struct LaneAxes {
    pub(super) first: usize,
    pub(super) sizes: Vec<usize>,
    pub(super) len: usize,
    /// Whether they are reduced axes.
    pub(super) reduced: bool,
}

impl LaneAxes {
    /// Lanes along the output, or along what is reduced, over one axis or several: whichever the estimate prefers.
    pub(super) fn choose(nest: &LoopNest) -> Self {
        let (sizes, n_domain) = (nest.sizes(), nest.domain.len());
        let body = nest.body();
        let cost = |lanes: &Self| lanes.cost_of(nest, &body);
        let along_domain = suffixes(&sizes, 0..n_domain, false);
        let along_reduced = suffixes(&sizes, n_domain..sizes.len(), true);
        let candidates = along_domain.chain(along_reduced.filter(|_| n_domain < sizes.len()));
        let cheapest = candidates.min_by(|a, b| cost(a).total_cmp(&cost(b)));
        cheapest
            .unwrap_or_else(|| unreachable!("the output always has a suffix, if only of no axes"))
    }

    /// What a block of lanes costs, in operations on a lane of it, if lanes run along these axes.
    fn cost_of(&self, nest: &LoopNest, body: &[bool]) -> f64 {
        let (mut instructions, mut scattered) = (1.0, 0.0);
        for (id, value) in nest.values.iter().enumerate() {
            // Without a reduction everything is computed at each element.
            if !body[id] && !nest.reduce.is_empty() {
                continue;
            }
            let (Value::Load { map, guards, .. } | Value::Gather { map, guards, .. }) = value
            else {
                instructions += 1.0;
                continue;
            };
            let lies_well = matches!(flat_stride(map, self.first, &self.sizes), Some(0 | 1));
            let is_gather = matches!(value, Value::Gather { .. });
            if !lies_well || !guards.is_empty() || is_gather {
                scattered += 1.0;
            }
        }
        let block = self.len.clamp(1, LANES) as f64;
        instructions * (1.0 + INSTRUCTION_OVERHEAD / block) + SCATTERED_COST * scattered
    }
}

/// The stride by which a map walks some axes flattened; `None` if no single one does.
pub(super) fn flat_stride(map: &IndexMap, first: usize, sizes: &[usize]) -> Option<isize> {
    let strides = &map.strides[first..first + sizes.len()];
    let last = *strides.last()?;
    let mut expected = last;
    for (&stride, &size) in strides.iter().zip(sizes).rev() {
        if stride != expected && size != 1 {
            return None;
        }
        expected = stride.wrapping_mul(size.cast_signed());
    }
    Some(last)
}

/// The last axes of `range`, one more each time until they hold a block; at first the least that has any length.
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
        }
    })
}
