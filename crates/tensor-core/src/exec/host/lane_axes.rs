//! The choice of the loop axes that SIMD lanes run along.
//!
//! Method: an estimate of the work chooses between three cases:
//! - lanes run along the last axes of the output. Each lane is an output element, and the reduced
//!   axes are loops around the instructions;
//! - lanes run along the last reduced axes, and each output element is the fold of all its lanes;
//! - lanes run along some points of a reduced axis and along the last axes of the output: several
//!   rows of output elements, which are folded into one row after the loops. A sum over the rows of
//!   a narrow matrix reads its elements in the order of memory in this way. These points
//!   become one more output axis, before the lane axes, so the loops run over a changed copy of the
//!   nest. Reductions that can stop early have no rows, because each row would have to be decided.
//!
//! A nest that packs flags into words is a fourth case: its lanes run along the last axes of the
//! output and the bits of a word, so that flags are computed in the order of memory, and 32 lanes
//! are one output element.

use std::borrow::Cow;
use std::ops::Range;

use crate::dtype::DType;
use crate::ir::{Guard, IndexMap, LoopNest, Value, WORD_BITS};

/// The number of lanes of a register if all lanes have at most 4 bytes. Such a register takes 4
/// KiB; a dozen registers fit the first-level cache of current CPUs.
const LANES: usize = 1024;
/// The number of lanes of a register if some lanes have 8 bytes.
const WIDE_LANES: usize = 512;
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
    /// The number of rows of lanes that are folded into one row of output elements: 1, or the size
    /// of the first lane axis, which consists of points of a reduced axis.
    pub(super) n_rows: usize,
}

/// The division of lanes into runs for one map. Neighbouring lanes of a run have equal distances.
/// All runs have one length, and all groups have one number of runs.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    /// The number of lanes of a group: all lanes, or those of one index of the first lane axis.
    pub(super) group_len: usize,
    /// The distance between the positions of groups.
    pub(super) group_stride: isize,
    /// The number of lanes of a run.
    pub(super) run_len: usize,
    /// The distance between the positions of neighbouring lanes of a run.
    pub(super) stride: isize,
    /// The distance of the position of each run of a group from that of the first.
    pub(super) starts: Vec<isize>,
}

impl LaneAxes {
    /// Chooses the axes with the lowest estimated cost. Returns them with the nest of the loops.
    pub(super) fn choose(nest: &LoopNest) -> (Self, Cow<'_, LoopNest>) {
        let (sizes, n_domain) = (nest.sizes(), nest.domain.len());
        let body = nest.body();
        let along_domain = suffixes(&sizes, 0..n_domain, false);
        if nest.packed_flag().is_some() {
            return (Self::along_bits(along_domain, nest), Cow::Borrowed(nest));
        }
        let along_reduced = suffixes(&sizes, n_domain..sizes.len(), true);
        let along_rows = along_domain
            .clone()
            .filter(|_| !nest.can_stop())
            .flat_map(|lanes| lanes.with_rows(nest))
            .map(|(lanes, nest)| (lanes, Cow::Owned(nest)));
        let candidates = along_domain
            .chain(along_reduced.filter(|_| n_domain < sizes.len()))
            .map(|lanes| (lanes, Cow::Borrowed(nest)))
            .chain(along_rows)
            .map(|(lanes, nest)| (lanes.cost_of(&nest, &body), lanes, nest));
        let cheapest = candidates.min_by(|(a, ..), (b, ..)| a.total_cmp(b));
        cheapest.map_or_else(
            || unreachable!("`suffixes` returns at least one candidate"),
            |(_, lanes, nest)| (lanes, nest),
        )
    }

    /// Returns a candidate for each reduced axis of which a block holds several points: its lanes
    /// run along these points and then along the axes of `self`. Each candidate has the nest of its
    /// loops.
    fn with_rows(self, nest: &LoopNest) -> impl Iterator<Item = (Self, LoopNest)> {
        let n_domain = nest.domain.len();
        let most = max_block(nest) / self.len.max(1);
        let axes = n_domain..n_domain + nest.reduce.len();
        axes.filter_map(move |axis| {
            let size = nest.reduce[axis - n_domain];
            let n_rows = (2..=most.min(size))
                .rev()
                .find(|&n| size.is_multiple_of(n))?;
            let lanes = Self {
                sizes: [&[n_rows], &self.sizes[..]].concat(),
                len: n_rows * self.len,
                n_rows,
                ..self
            };
            let mut nest = nest.clone();
            nest.contract = None;
            nest.domain.insert(lanes.first, n_rows);
            nest.reduce[axis - n_domain] /= n_rows;
            for map in nest.values.iter_mut().flat_map(Value::maps_mut) {
                let stride = map.stride(axis);
                map.strides[axis] = stride.wrapping_mul(n_rows.cast_signed());
                map.strides.insert(lanes.first, stride);
            }
            Some((lanes, nest))
        })
    }

    /// Returns the numbers of the axes.
    pub(super) fn axes(&self) -> Range<usize> {
        self.first..self.first + self.sizes.len()
    }

    /// Returns whether all blocks of at most `block` lanes have the same positions by a map. Lanes
    /// that fill several blocks must have equal positions, too.
    pub(super) fn has_equal_positions(&self, map: &IndexMap, block: usize) -> bool {
        let lanes = if self.len <= block { self.axes() } else { 0..0 };
        let mut strides = map.strides.iter().enumerate();
        strides.all(|(axis, &stride)| stride == 0 || lanes.contains(&axis))
    }

    /// Returns the runs of neighbouring lanes for a map. Returns `None` if a guard depends on the
    /// lane.
    pub(super) fn runs(&self, map: &IndexMap, guards: &[Guard]) -> Option<Runs> {
        let stays = |guard: &Guard| flat_stride(&guard.map, self.first, &self.sizes) == Some(0);
        if !guards.iter().all(stays) {
            return None;
        }
        // The last axes that one run covers.
        let n_axes = self.sizes.len();
        let covers = |&n: &usize| {
            let first = n_axes - n;
            flat_stride(map, self.first + first, &self.sizes[first..]).is_some()
        };
        let n_covered = (1..=n_axes).take_while(covers).last().unwrap_or(0);
        let (outer, covered) = self.sizes.split_at(n_axes - n_covered);
        let stride = flat_stride(map, self.first + outer.len(), covered).unwrap_or(0);
        // One group covers all axes, unless a table would have too many runs. The axes after the
        // first have fewer than `WIDE_LANES` lanes, so the table of a group is short.
        let is_group = self.len <= LANES || outer.is_empty();
        let first = usize::from(!is_group);
        let mut starts = vec![0_isize];
        for (axis, &size) in outer.iter().enumerate().skip(first) {
            let stride = map.stride(self.first + axis);
            let steps = 0..size.cast_signed();
            let axis = |&start: &isize| {
                let steps = steps.clone();
                steps.map(move |step| start.wrapping_add(stride.wrapping_mul(step)))
            };
            starts = starts.iter().flat_map(axis).collect();
        }
        let run_len = covered.iter().product::<usize>().max(1);
        Some(Runs {
            group_len: run_len * starts.len(),
            group_stride: map.stride(self.first),
            run_len,
            stride,
            starts,
        })
    }

    /// Returns the number of output elements of all lanes, if the lanes are not reduced.
    pub(super) fn n_outputs(&self) -> usize {
        self.len / self.per_output / self.n_rows
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
        cheapest.unwrap_or_else(|| unreachable!("`suffixes` returns at least one candidate"))
    }

    /// Returns the estimated cost of one lane, in operations on one lane, if lanes run along these
    /// axes.
    fn cost_of(&self, nest: &LoopNest, body: &[bool]) -> f64 {
        let max_block = max_block(nest);
        let (mut instructions, mut loads) = (1.0, 0.0);
        // The number of values that are reduced to one output element.
        let n_reduced = (nest.reduce_len() * self.n_rows) as f64;
        for (id, value) in nest.values.iter().enumerate() {
            // With a reduction, setup and epilogue run less often than the body.
            let weight = if body[id] || nest.reduce.is_empty() {
                1.0
            } else {
                1.0 / n_reduced
            };
            // Rows are folded once after the loops.
            if self.n_rows > 1 && matches!(value, Value::Reduced(..)) {
                instructions += 1.0 / nest.reduce_len() as f64;
            }
            let is_equal = |map| self.has_equal_positions(map, max_block);
            if value.maps().next().is_some() && value.maps().all(is_equal) {
                continue;
            }
            let (Value::Load { map, guards, .. } | Value::Gather { map, guards, .. }) = value
            else {
                instructions += weight;
                continue;
            };
            // Stride 1 is a contiguous load and stride 0 a constant for the whole block.
            let is_dense = matches!(flat_stride(map, self.first, &self.sizes), Some(0 | 1));
            let is_gather = matches!(value, Value::Gather { .. });
            if !is_dense || !guards.is_empty() || is_gather {
                loads += weight * self.load_cost(map, is_gather);
            }
        }
        // The cost of starting an instruction is shared by the lanes of a block.
        let block = self.len.clamp(1, max_block) as f64;
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

/// Returns the maximum number of lanes of a block of the nest. Lanes of 8 bytes halve the number,
/// so that all registers have the same size in bytes.
pub(super) fn max_block(nest: &LoopNest) -> usize {
    let is_wide = nest.dtypes.contains(&DType::F64) || nest.inputs.contains(&DType::F64);
    if is_wide { WIDE_LANES } else { LANES }
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
fn suffixes(
    sizes: &[usize],
    range: Range<usize>,
    reduced: bool,
) -> impl Iterator<Item = LaneAxes> + Clone {
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
            n_rows: 1,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::factor::set_index;
    use super::*;
    use crate::Tensor;
    use crate::exec::{Executor, Host};
    use crate::plan::Plan;

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

    /// Returns the nest of the only step of a program on the host.
    fn nest_of(program: &Tensor) -> Arc<LoopNest> {
        let (plan, _) = Plan::new(&[program], &Host::new().target()).unwrap();
        let [step] = &plan.steps[..] else {
            panic!("{}", plan.explain());
        };
        Arc::clone(&step.nest)
    }

    #[test]
    fn sums_over_the_rows_of_narrow_matrices_have_lanes_along_rows() {
        let x = |shape: &[usize]| Tensor::full(shape, 1.0_f32);
        let x = |shape: &[usize]| x(shape).realize(&Host::new()).unwrap();
        for (name, program, n_rows) in [
            ("narrow", x(&[14400, 32]).sum(0), 32),
            ("a size that nothing divides", x(&[1009, 32]).sum(0), 1),
            ("wide", x(&[100, 4096]).sum(0), 1),
            ("64-bit lanes", x(&[1600, 32]).cast(DType::F64).sum(0), 16),
            ("rows of a matrix", x(&[32, 14400]).sum(1), 1),
        ] {
            let nest = nest_of(&program);
            let (lanes, loops) = LaneAxes::choose(&nest);
            assert_eq!(lanes.n_rows, n_rows, "{name}: {lanes:?}");
            assert_eq!(
                loops.output_len() * loops.reduce_len(),
                nest.output_len() * nest.reduce_len(),
                "{name}"
            );
            assert!(lanes.len <= LANES || n_rows == 1, "{name}: {lanes:?}");
        }
    }

    #[test]
    fn runs_contain_the_positions_of_all_lanes() {
        // The sizes of the lane axes, and the strides of a map along them.
        let cases: [(&[usize], &[isize]); 9] = [
            (&[5], &[1]),
            (&[2, 3, 4], &[12, 4, 1]),
            (&[2, 3, 4], &[100, 4, 1]),
            (&[2, 3, 4], &[0, 1, 0]),
            (&[2, 3, 4], &[7, -4, 2]),
            (&[2, 1, 4], &[9, 5, 1]),
            (&[3, 2, 600], &[5000, 700, 1]),
            (&[40, 12, 32], &[64, 5000, 1]),
            (&[2000, 2], &[3, 1]),
        ];
        for (sizes, strides) in cases {
            // One axis precedes the lanes.
            let lanes = LaneAxes {
                first: 1,
                sizes: sizes.to_vec(),
                len: sizes.iter().product(),
                reduced: false,
                per_output: 1,
                n_rows: 1,
            };
            let map = IndexMap {
                offset: 0,
                strides: [&[1 << 20], strides].concat(),
            };
            let runs = lanes.runs(&map, &[]).unwrap();
            let mut index = vec![0; sizes.len() + 1];
            let axes: Vec<usize> = (1..=sizes.len()).collect();
            for lane in 0..lanes.len {
                set_index(&mut index, &axes, &[&[1], sizes].concat(), lane);
                let (group, place) = (lane / runs.group_len, lane % runs.group_len);
                let position = runs.group_stride * group.cast_signed()
                    + runs.starts[place / runs.run_len]
                    + runs.stride * (place % runs.run_len).cast_signed();
                assert_eq!(
                    position,
                    map.at(&index),
                    "{sizes:?} {strides:?}, lane {lane}"
                );
            }
            assert!(runs.starts.len() <= LANES, "{sizes:?} {strides:?}");
        }
    }

    #[test]
    fn loads_have_runs_unless_a_guard_depends_on_the_lane() {
        let lanes = LaneAxes {
            first: 1,
            sizes: vec![3, 4],
            len: 12,
            reduced: false,
            per_output: 1,
            n_rows: 1,
        };
        let map = |strides: [isize; 3]| IndexMap {
            offset: 0,
            strides: strides.to_vec(),
        };
        let guard = |strides| Guard {
            map: map(strides),
            extent: 2,
        };
        let x = map([12, 4, 1]);
        assert!(lanes.runs(&x, &[guard([1, 0, 0])]).is_some());
        assert!(
            lanes
                .runs(&x, &[guard([1, 0, 0]), guard([0, 1, 0])])
                .is_none()
        );
        assert!(lanes.runs(&x, &[guard([0, 0, 1])]).is_none());
    }
}
