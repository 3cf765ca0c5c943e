//! Assignment of a nest's loops to invocations.
//!
//! Role: chooses the structure of a kernel. The choice depends only on the nest and the device, so
//! on one device the results of a nest are the same in every run.

use tensor_core::ir::{LoopNest, Value};

use super::GROUP;
use super::access::{WORD_BITS, bits};
use super::blocking::{Block, ENOUGH_BLOCKS, Roles};
use super::lanes::can_use_subgroups;
use super::parts;
use super::passes;
use super::placement::Placement;
use super::sequence::Sequence;
use super::window::{SubNest, bytes, is_whole, windows};
use super::{scan, scan_parts};
use crate::limits::KernelLimits;
use crate::tiles::{ShapeClass, Tile};

/// Minimum number of output elements for which one invocation per element keeps a device busy.
const MANY: usize = 1 << 15;

/// The structure of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Schedule {
    /// This number of invocations shares an output element: a power of two, at most [`GROUP`].
    Lanes(u32),
    /// A workgroup of this number of invocations shares an output element, and its subgroups
    /// combine the partial results.
    Subgroups(u32),
    /// A workgroup computes a block of the output.
    Blocks(Block),
    /// This number of invocations, 1 or [`GROUP`], scans a line of the output.
    Scan(u32),
}

impl Schedule {
    /// Returns a schedule in blocks of the given sizes; `None` if the nest's elements share no
    /// inputs along two axes, if the sizes are invalid, or if the class needs cooperative matrices
    /// that the device lacks or the nest cannot use.
    pub(crate) fn in_blocks(
        nest: &LoopNest,
        class: ShapeClass,
        tile: Tile,
        limits: &KernelLimits,
    ) -> Option<Self> {
        Block::sized(nest, class, tile, limits).map(Self::Blocks)
    }

    /// Returns whether cooperative matrices compute the products.
    pub(crate) fn has_matrices(&self) -> bool {
        matches!(self, Self::Blocks(block) if block.matrices.is_some())
    }

    /// Returns the number of workgroups that compute a nest's output.
    pub(crate) fn n_groups(&self, nest: &LoopNest) -> u64 {
        let n_groups = match self {
            Self::Lanes(lanes) => nest.output_len().div_ceil((GROUP / lanes) as usize),
            Self::Subgroups(_) => nest.output_len(),
            Self::Blocks(block) => block.n_blocks(nest),
            Self::Scan(lanes) => scan::n_lines(nest).div_ceil((GROUP / lanes) as usize),
        };
        n_groups as u64
    }
}

/// Chooses a schedule. A scan has a schedule of its own, [`Schedule::Scan`]. Any other nest has the
/// first of these schedules that applies:
///
/// 1. Blocks, if output elements share inputs along two axes.
/// 2. Several invocations per element, if there are too few elements to keep a device busy, or if
///    the innermost reduced axis is contiguous in memory: neighbouring invocations then read
///    neighbouring addresses. For many terms, with subgroups where the device has them and the
///    table of tiles does not select the tree.
/// 3. Otherwise one invocation per element.
pub(crate) fn schedule(nest: &LoopNest, limits: &KernelLimits) -> Schedule {
    /// Minimum number of terms for each invocation before the tree reduction.
    const LEAST: usize = 4;
    /// Minimum number of invocations of a workgroup with one element. A smaller workgroup would
    /// leave a part of a large subgroup idle.
    const WHOLE: u32 = 64;
    if nest.scan().is_some() {
        return Schedule::Scan(scan::lanes(nest));
    }
    if let Some(block) = Block::new(nest, limits) {
        return Schedule::Blocks(block);
    }
    let most = match bits(nest.dtype()) {
        // A workgroup writes whole words, so it needs at least 32 / `bits` elements.
        Some(bits) => GROUP * bits / WORD_BITS,
        None => GROUP,
    };
    let n_domain = nest.domain.len();
    let last = nest.reduce.len().checked_sub(1);
    // Whether some input has stride 1 along the innermost reduced axis, but not along the last axis
    // of the output. With one invocation per element, the accesses of neighbouring invocations
    // would then be far apart.
    let walks_neighbours = last.is_some_and(|last| {
        let maps = nest.values.iter().filter_map(|value| match value {
            Value::Load { map, .. } | Value::Gather { map, .. } => Some(map),
            _ => None,
        });
        let mut maps = maps.filter(|map| map.stride(n_domain + last).unsigned_abs() == 1);
        maps.any(|map| n_domain == 0 || map.stride(n_domain - 1).unsigned_abs() != 1)
    });
    let enough_outputs = nest.output_len() >= MANY;
    let shared = if enough_outputs && !walks_neighbours {
        1
    } else {
        nest.reduce.iter().max().copied().unwrap_or(1) / LEAST
    };
    let shared = u32::try_from(shared).unwrap_or(u32::MAX).clamp(1, most);
    // Rounds down to a power of two for the tree.
    let lanes = 1 << shared.ilog2();
    if enough_outputs {
        Schedule::Lanes(lanes.min(32))
    } else if lanes >= WHOLE && limits.uses_subgroups && can_use_subgroups(nest) {
        Schedule::Subgroups(lanes)
    } else {
        Schedule::Lanes(lanes)
    }
}

/// Splits the reduction of a nest into two steps if that is faster, or if the loops would exceed
/// the driver's limit.
fn cut(nest: &LoopNest, limits: &KernelLimits) -> Option<Sequence> {
    /// Number of iterations of an invocation above which a split is considered.
    const LONG: u64 = 1024;
    /// Approximate number of iterations per invocation after a split.
    const LEFT: u64 = 256;
    /// Number of invocations that keeps any device busy.
    const BUSY: u64 = 1 << 17;
    let schedule = schedule(nest, limits);
    let limit = limits.loop_iterations.unwrap_or(u64::MAX);
    let runs = iterations(nest, &schedule);
    let n_passes = n_passes(nest, &schedule);
    let n_groups = schedule.n_groups(nest).max(1);
    // Factor by which the number of workgroups must grow to keep a device busy.
    let idle = match &schedule {
        Schedule::Lanes(_) | Schedule::Subgroups(_) => {
            BUSY.div_ceil(n_groups.saturating_mul(GROUP.into()))
        }
        Schedule::Blocks(_) => (ENOUGH_BLOCKS as u64).div_ceil(n_groups),
        Schedule::Scan(_) => return None,
    };
    if n_passes <= limit && (runs <= LONG || idle <= 1) {
        return None;
    }
    // `few`: number of parts for speed. `needed`: number of parts that brings the loops to half of
    // the driver's limit.
    let few = runs.div_ceil(LEFT).min(idle);
    let needed = n_passes.div_ceil((limit / 2).max(1));
    let longest = nest.reduce.iter().max().copied().unwrap_or(1);
    let n_parts = usize::try_from(few.max(needed)).unwrap_or(usize::MAX);
    parts::cut(nest, n_parts.min(longest / 2))
}

/// The kernels that compute a nest.
#[derive(Debug)]
pub(crate) enum Division {
    /// A single kernel, which binds whole arrays.
    Whole,
    /// Several kernels in sequence, each with a chunk of every array.
    Windows(Vec<SubNest>),
    /// Several nests: partial results and then their combination, or a scan and then the values
    /// after it.
    Parts(Sequence),
}

/// Returns whether a single kernel might run so long that a driver's watchdog stops it.
fn is_long(nest: &LoopNest, limits: &KernelLimits) -> bool {
    nest.operations() > limits.operations
}

/// Chooses how to run a nest whose inputs have these lengths, in elements.
///
/// Returns `None` if no division makes its arrays fit into bindings, keeps its loops within the
/// driver's limit, and needs no larger workgroups than the device supports.
pub(crate) fn divide(nest: &LoopNest, lens: &[usize], limits: &KernelLimits) -> Option<Division> {
    if nest.scan().is_some() {
        return divide_scan(nest, lens, limits);
    }
    choose(nest, lens, limits).filter(|division| fits(nest, lens, division, limits))
}

/// Chooses how to run a scan. A scan is not divided into windows, because a window could cut its
/// lines.
fn divide_scan(nest: &LoopNest, lens: &[usize], limits: &KernelLimits) -> Option<Division> {
    let fit = |division: &Division| fits(nest, lens, division, limits);
    let parts = scan_parts::cut(nest, limits.loop_iterations).map(Division::Parts);
    // A kernel for a scan writes whole words.
    let can_be_whole = || bits(nest.dtype()).is_none() && is_whole(nest, lens, limits.binding);
    let whole = || can_be_whole().then_some(Division::Whole).filter(fit);
    parts.filter(fit).or_else(whole)
}

/// Chooses a division by the sizes of arrays and the number of operations.
fn choose(nest: &LoopNest, lens: &[usize], limits: &KernelLimits) -> Option<Division> {
    if let Some(parts) = cut(nest, limits) {
        return Some(Division::Parts(parts));
    }
    let (is_whole, is_long) = (is_whole(nest, lens, limits.binding), is_long(nest, limits));
    if is_whole && !is_long {
        return Some(Division::Whole);
    }
    // The limit on operations is a guess, so it is dropped if no window satisfies it.
    for operations in [limits.operations, f64::INFINITY] {
        if let Some(windows) = windows(nest, lens, limits.binding, operations) {
            return Some(Division::Windows(windows));
        }
    }
    if is_whole {
        return Some(Division::Whole);
    }
    // Splits the reduced axis so that each part reads well below the limit of a binding.
    let inputs = nest.inputs.iter().zip(lens);
    let longest = inputs.map(|(&dtype, &len)| bytes(dtype, len)).max()?;
    let n_parts = usize::try_from(longest.div_ceil(limits.binding.bytes / 4)).ok()?;
    parts::cut(nest, n_parts).map(Division::Parts)
}

/// Returns whether no kernel's loops exceed the driver's maximum number of iterations, and every
/// workgroup fits the device's limits on invocations and memory.
fn fits(nest: &LoopNest, lens: &[usize], division: &Division, limits: &KernelLimits) -> bool {
    let ends = |nest: &LoopNest| {
        let schedule = schedule(nest, limits);
        let n_passes = n_passes(nest, &schedule);
        limits.loop_iterations.is_none_or(|most| n_passes <= most)
            && fits_in_workgroup(nest, &schedule, limits)
    };
    match division {
        Division::Whole => ends(nest),
        Division::Windows(windows) => windows.iter().all(|window| ends(&window.nest)),
        Division::Parts(parts) => {
            // A part with the same reduction as the nest would be split forever. The parts of a
            // scan have shorter lines or results of whole words.
            let is_less = |part: &LoopNest| nest.scan().is_some() || part.reduce != nest.reduce;
            let mut nests = parts.with_lens(lens).into_iter();
            nests.all(|(part, lens)| is_less(part) && divide(part, &lens, limits).is_some())
        }
    }
}

/// Returns whether a workgroup has enough invocations and memory for a schedule. Blocks are chosen
/// within these limits, so they are not checked.
fn fits_in_workgroup(nest: &LoopNest, schedule: &Schedule, limits: &KernelLimits) -> bool {
    /// Bytes of the widest accumulator (`f64`).
    const WIDEST: u32 = 8;
    let lanes = match schedule {
        Schedule::Lanes(lanes) | Schedule::Subgroups(lanes) => lanes,
        Schedule::Blocks(_) => return true,
        Schedule::Scan(lanes) => {
            let bytes = if *lanes > 1 { GROUP * WIDEST } else { 0 };
            return GROUP <= limits.invocations && bytes <= limits.workgroup_bytes;
        }
    };
    let values = nest.values.iter();
    let n_totals = values
        .filter(|value| matches!(value, Value::Reduced(..)))
        .count();
    let n_totals = if *lanes > 1 {
        u32::try_from(n_totals).unwrap_or(u32::MAX)
    } else {
        0
    };
    // One `u32` of packed bits per invocation.
    let packed = bits(nest.dtype()).map_or(0, |_| GROUP * WORD_BITS / 8);
    let bytes = n_totals
        .saturating_mul(GROUP * WIDEST)
        .saturating_add(packed);
    GROUP <= limits.invocations && bytes <= limits.workgroup_bytes
}

/// Returns the number of loop iterations in which one invocation reduces its terms, as an estimate
/// of its time.
fn iterations(nest: &LoopNest, schedule: &Schedule) -> u64 {
    match schedule {
        Schedule::Lanes(lanes) | Schedule::Subgroups(lanes) => {
            let total = loop_iterations(nest, *lanes).fold(0, u64::saturating_add);
            // The loop that combines partial results, which is long only without full subgroups,
            // and the loop that packs short elements.
            let combination = match schedule {
                Schedule::Subgroups(lanes) => *lanes,
                _ => GROUP.ilog2(),
            };
            total.saturating_add(u64::from(WORD_BITS + combination))
        }
        Schedule::Blocks(block) => {
            let terms = nest.reduce_len() as u64;
            // One iteration per term, one per stage, and the loop that packs short elements.
            terms + terms.div_ceil(block.tile.block_inner.into()) + u64::from(GROUP)
        }
        Schedule::Scan(lanes) => scan::n_passes(nest, *lanes),
    }
}

/// Returns the number of iterations of each loop over a reduced axis, in all its executions by an
/// invocation: a, ab, abc for axes of sizes a, b, c. `lanes` invocations divide an axis.
fn loop_iterations(nest: &LoopNest, lanes: u32) -> impl Iterator<Item = u64> {
    let dealt = dealt_axis(nest, lanes);
    let sizes = nest.reduce.iter().enumerate();
    sizes.scan(1_u64, move |runs, (axis, &size)| {
        let size = match axis == dealt {
            true => size.div_ceil(lanes as usize),
            false => size,
        };
        *runs = runs.saturating_mul(size as u64);
        Some(*runs)
    })
}

/// Returns the largest number of iterations of all loops of an invocation together, with one more
/// for each execution of a loop. Drivers that end loops count in this way.
pub(super) fn n_passes(nest: &LoopNest, schedule: &Schedule) -> u64 {
    match schedule {
        Schedule::Lanes(lanes) | Schedule::Subgroups(lanes) => {
            let values = [nest.body(), nest.epilogue()];
            let [body, epilogue] = values.map(|which| passes::of_calls(nest, &which));
            // A loop is executed once in each iteration of the loop outside of it.
            let (mut total, mut runs) = (0_u64, 1);
            for iterations in loop_iterations(nest, *lanes) {
                total = total.saturating_add(runs).saturating_add(iterations);
                runs = iterations;
            }
            // The loops that combine partial results, and the loop that packs short elements.
            let by_tree = GROUP.ilog2() + 1;
            let combination = match schedule {
                Schedule::Subgroups(lanes) => by_tree + *lanes,
                _ => by_tree,
            };
            let after = u64::from(WORD_BITS + 1 + combination);
            // Values outside of all loops are computed once, even if an axis is empty.
            let of_terms = body.saturating_mul(runs.max(1));
            total
                .saturating_add(of_terms)
                .saturating_add(after + epilogue)
        }
        Schedule::Blocks(block) => n_passes_of_block(nest, block),
        Schedule::Scan(lanes) => scan::n_passes(nest, *lanes),
    }
}

/// Returns the passes of [`n_passes`] for a kernel in blocks.
fn n_passes_of_block(nest: &LoopNest, block: &Block) -> u64 {
    let tile = block.tile;
    let roles = Roles::new(nest, &Placement::new(nest, &block.sides));
    let of_calls = |which: &[bool]| passes::of_calls(nest, which);
    let terms = nest.reduce_len() as u64;
    let stages = terms.div_ceil(tile.block_inner.into());
    let elements = tile.thread().map(u64::from).into_iter().product::<u64>();
    // An invocation computes several vectors of staged values for each side.
    let of_side = |side: usize| {
        let vector = tile.vector(side);
        let slots = tile.block_inner * (tile.block()[side] / vector);
        let n_staged = slots.div_ceil(tile.invocations().max(1)) * vector;
        u64::from(n_staged) * of_calls(&roles.before[side])
    };
    let of_terms = u64::from(tile.block_inner) * elements * of_calls(&roles.inner);
    let of_stage = of_side(0) + of_side(1) + of_terms;
    let of_elements = elements * (of_calls(&roles.outer) + of_calls(&nest.epilogue()));
    // The loop over stages, a loop over terms in each, and the loop that packs short elements.
    let loops = terms.saturating_add(2 * stages + 1 + u64::from(GROUP));
    loops
        .saturating_add(stages.saturating_mul(of_stage))
        .saturating_add(of_elements)
}

/// Returns the reduced axis that is divided among the invocations of one element: the last axis
/// with at least `lanes` elements, or the longest axis.
pub(super) fn dealt_axis(nest: &LoopNest, lanes: u32) -> usize {
    let sizes = &nest.reduce;
    let enough = sizes.iter().rposition(|&size| size >= lanes as usize);
    let largest = || (0..sizes.len()).max_by_key(|&axis| sizes[axis]);
    enough.or_else(largest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use tensor_core::{DType, Tensor};

    use super::super::tests::{nests, schedule_limits};
    use super::*;
    use crate::limits::Binding;

    #[test]
    fn the_totals_of_a_sum_may_fill_the_memory_of_a_workgroup() {
        let x = Tensor::arange(1 << 16).cast(DType::F32);
        let nests = nests(&(&x * &x).sum(..));
        let fits = |workgroup_bytes| {
            let limits = KernelLimits {
                workgroup_bytes,
                ..schedule_limits()
            };
            let schedule = schedule(&nests[0], &limits);
            assert!(matches!(schedule, Schedule::Lanes(2..)), "{schedule:?}");
            fits_in_workgroup(&nests[0], &schedule, &limits)
        };
        // Eight bytes for each invocation.
        assert!(fits(GROUP * 8) && !fits(GROUP * 8 - 1));
    }

    #[test]
    fn invocations_share_elements_if_terms_are_neighbours_in_memory() {
        let of = |shape: [usize; 2], axis: usize| {
            let x = Tensor::from_vec(&shape, vec![0.0_f32; shape[0] * shape[1]]);
            // The nest has the index of each term, too, which is no access to memory.
            let nests = nests(&x.argmax(axis));
            schedule(&nests[0], &schedule_limits())
        };
        assert_eq!(of([64, MANY], 0), Schedule::Lanes(1));
        assert!(matches!(of([MANY, 64], 1), Schedule::Lanes(2..)));
    }

    #[test]
    fn every_window_must_fit_into_a_workgroup() {
        let terms = Tensor::arange(8).cast(DType::F32).expand_dims(1);
        let divided = |n_outputs: usize, workgroup_bytes| {
            let x = Tensor::from_vec(&[n_outputs], vec![0.0_f32; n_outputs]);
            let limits = KernelLimits {
                workgroup_bytes,
                binding: Binding {
                    bytes: 4 * MANY as u64,
                    alignment: 256,
                },
                ..schedule_limits()
            };
            let nest = nests(&(&terms * &x).sum(0)).remove(0);
            let lens = vec![n_outputs; nest.inputs.len()];
            match divide(&nest, &lens, &limits) {
                None => 0,
                Some(Division::Windows(windows)) => windows.len(),
                Some(other) => panic!("{other:?}"),
            }
        };
        // Two windows of `MANY` elements need no workgroup memory. With an element less in the
        // second window, two invocations share each of its elements.
        assert_eq!(
            [2 * MANY, 2 * MANY - 1].map(|n| divided(n, 1 << 10)),
            [2, 0]
        );
        assert_eq!(
            [2 * MANY, 2 * MANY - 1].map(|n| divided(n, 1 << 14)),
            [2, 2]
        );
    }

    #[test]
    fn passes_count_each_iteration_and_each_end_of_a_loop() {
        let x = Tensor::from_vec(&[3, 5, 7], vec![0.0_f32; 3 * 5 * 7]);
        let passes = |tensor: &Tensor| {
            let nest = &nests(tensor)[0];
            n_passes(nest, &Schedule::Lanes(1))
        };
        // A loop that packs elements, and one that combines partial results of a workgroup.
        let after = u64::from((WORD_BITS + 1) + (GROUP.ilog2() + 1));
        assert_eq!(passes(&(&x + 1.0)), after);
        assert_eq!(passes(&x.sum(2)), (7 + 1) + after);
        // The inner loop is executed three times.
        assert_eq!(passes(&x.sum([0, 2])), (3 + 1) + 3 * (7 + 1) + after);
        // A remainder contains a loop of up to 32 passes.
        assert_eq!(passes(&x.rem(7.0)), 32 + after);
    }

    #[test]
    fn passes_of_a_product_contain_the_calls_of_both_factors() {
        let [x, y] = [3.0_f32, 5.0].map(|value| Tensor::from_vec(&[96, 96], vec![value; 96 * 96]));
        let passes = |x: &Tensor, y: &Tensor| {
            let nests = nests(&x.matmul(y));
            assert_eq!(nests.len(), 1);
            let schedule = schedule(&nests[0], &schedule_limits());
            assert!(matches!(schedule, Schedule::Blocks(_)), "{schedule:?}");
            n_passes(&nests[0], &schedule)
        };
        let plain = passes(&x, &y);
        let [left, right] = [passes(&x.rem(7.0), &y), passes(&x, &y.rem(7.0))];
        assert!(plain < left && plain < right, "{plain} {left} {right}");
        assert_eq!(passes(&x.rem(7.0), &y.rem(7.0)), left + right - plain);
    }
}
