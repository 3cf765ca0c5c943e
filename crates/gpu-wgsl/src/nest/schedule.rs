//! How the loops of a nest are dealt out to invocations.
//!
//! Role: the choices that the text of a kernel follows; they depend on the nest and on the device alone, so on one device a nest's
//! results are the same each time.

use tensor_core::ir::{LoopNest, Value};

use super::GROUP;
use super::access::{WORD_BITS, bits};
use super::parts::{self, Parts};
use super::tile::{Block, ENOUGH_BLOCKS, ShapeClass, Tile};
use super::window::{Binding, Window, bytes, is_whole, windows};
use crate::tuning::Tiles;

/// What a device has room for.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) binding: Binding,
    /// Operations of one kernel, and of one submission, after which a watchdog might stop them.
    pub(crate) operations: f64,
    /// Bytes of workgroup memory, and invocations of a workgroup.
    pub(crate) workgroup_bytes: u32,
    pub(crate) invocations: u32,
    /// Whether there is `f64`.
    pub(crate) has_f64: bool,
    /// The fewest elements of an output of which blocks keep the device busy.
    pub(crate) least_outputs: usize,
    /// The fewest rows, and the fewest columns, for which blocks are worth it.
    pub(crate) least_side: usize,
    /// Iterations after which the driver ends a loop in silence.
    pub(crate) loop_iterations: Option<u64>,
    pub(crate) tiles: Tiles,
}

/// How the loops of a nest are dealt out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Schedule {
    /// So many invocations share an output element: a power of two, at most [`GROUP`].
    Lanes(u32),
    /// A workgroup computes a block of the output.
    Blocks(Block),
}

impl Schedule {
    /// Blocks in sizes of one's choice, for a nest whose elements share what they read.
    pub(crate) fn in_blocks(nest: &LoopNest, class: ShapeClass, tile: Tile) -> Option<Self> {
        Block::sized(nest, class, tile).map(Self::Blocks)
    }

    /// Workgroups that compute a nest's output.
    pub(crate) fn n_groups(&self, nest: &LoopNest) -> u64 {
        let n_groups = match self {
            Self::Lanes(lanes) => nest.output_len().div_ceil((GROUP / lanes) as usize),
            Self::Blocks(block) => block.n_blocks(nest),
        };
        n_groups as u64
    }
}

/// Chooses a schedule: blocks where elements share what they read; else invocations share an element where there are too few
/// elements to keep a device busy, or where neighbours in memory are folded, which one invocation alone would read far apart from
/// what others read.
pub(crate) fn schedule(nest: &LoopNest, room: &Room) -> Schedule {
    /// Elements from which on one invocation for each is enough.
    const MANY: usize = 1 << 15;
    /// What is left for each invocation to fold before the tree.
    const LEAST: usize = 4;
    if let Some(block) = Block::of(nest, room) {
        return Schedule::Blocks(block);
    }
    let most = match bits(nest.dtype()) {
        // A workgroup writes whole words.
        Some(bits) => GROUP * bits / WORD_BITS,
        None => GROUP,
    };
    let n_domain = nest.domain.len();
    let last = nest.reduce.len().checked_sub(1);
    let walks_neighbours = last.is_some_and(|last| {
        let maps = nest.values.iter().flat_map(|value| value.maps().take(1));
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
    let lanes = 1 << shared.ilog2();
    Schedule::Lanes(if enough_outputs { lanes.min(32) } else { lanes })
}

/// Cuts the reduction of a nest in two steps where that pays, or where loops would run longer than a driver lets them.
fn cut(nest: &LoopNest, room: &Room) -> Option<Parts> {
    /// Iterations of one invocation from which on it may pay, and how many are left to each then.
    const LONG: u64 = 1024;
    const LEFT: u64 = 256;
    /// Invocations that keep any device busy.
    const BUSY: u64 = 1 << 17;
    let schedule = schedule(nest, room);
    let limit = room.loop_iterations.unwrap_or(u64::MAX);
    let runs = iterations(nest, &schedule);
    let n_groups = schedule.n_groups(nest).max(1);
    // How many times as many workgroups would keep a device busy.
    let idle = match &schedule {
        Schedule::Lanes(_) => BUSY.div_ceil(n_groups.saturating_mul(GROUP.into())),
        Schedule::Blocks(_) => (ENOUGH_BLOCKS as u64).div_ceil(n_groups),
    };
    if runs <= LONG.min(limit) || (idle <= 1 && runs <= limit) {
        return None;
    }
    let few = runs.div_ceil(LEFT).min(idle);
    let needed = runs.div_ceil((limit / 2).max(1));
    let longest = nest.reduce.iter().max().copied().unwrap_or(1);
    let n_parts = usize::try_from(few.max(needed)).unwrap_or(usize::MAX);
    parts::cut(nest, n_parts.min(longest / 2))
}

/// How a nest runs.
#[derive(Debug)]
pub(crate) enum Division {
    /// In one kernel, which is given whole arrays.
    Whole,
    /// In one kernel after the other, each given a stretch of every array.
    Windows(Vec<Window>),
    /// In two steps.
    Parts(Parts),
}

/// Whether a kernel might take too long.
fn is_long(nest: &LoopNest, room: &Room) -> bool {
    nest.operations() > room.operations
}

/// Divides a nest whose inputs have these lengths; `None` if no division makes its arrays fit.
pub(crate) fn division(nest: &LoopNest, lens: &[usize], room: &Room) -> Option<Division> {
    if let Some(parts) = cut(nest, room) {
        return Some(Division::Parts(parts));
    }
    let (is_whole, is_long) = (is_whole(nest, lens, room.binding), is_long(nest, room));
    if is_whole && !is_long {
        return Some(Division::Whole);
    }
    for operations in [room.operations, f64::INFINITY] {
        if let Some(windows) = windows(nest, lens, room.binding, operations) {
            return Some(Division::Windows(windows));
        }
    }
    if is_whole {
        return Some(Division::Whole);
    }
    // Whatever is folded is read in pieces of which each fits well.
    let inputs = nest.inputs.iter().zip(lens);
    let longest = inputs.map(|(&dtype, &len)| bytes(dtype, len)).max()?;
    let n_parts = usize::try_from(longest.div_ceil(room.binding.bytes / 4)).ok()?;
    parts::cut(nest, n_parts).map(Division::Parts)
}

/// Whether a nest can run: loops stay within a driver's limit, and arrays within what can be bound, divided or not.
pub(crate) fn fits(nest: &LoopNest, lens: &[usize], room: &Room) -> bool {
    let ends = |nest: &LoopNest| {
        let schedule = schedule(nest, room);
        let runs = iterations(nest, &schedule);
        room.loop_iterations.is_none_or(|most| runs <= most) && has_room(nest, &schedule, room)
    };
    match division(nest, lens, room) {
        None => false,
        Some(Division::Whole) => ends(nest),
        Some(Division::Windows(windows)) => windows.iter().all(|window| ends(&window.nest)),
        Some(Division::Parts(parts)) => {
            let at = |places: &[usize]| -> Vec<usize> {
                places.iter().map(|&place| lens[place]).collect()
            };
            let partials = parts.folds.iter().map(|(fold, _)| fold.output_len());
            let rest: Vec<usize> = at(&parts.rest_inputs).into_iter().chain(partials).collect();
            let is_less = |part: &LoopNest| part.reduce != nest.reduce;
            let mut folds = parts.folds.iter();
            folds.all(|(fold, inputs)| is_less(fold) && fits(fold, &at(inputs), room))
                && is_less(&parts.rest)
                && fits(&parts.rest, &rest, room)
        }
    }
}

/// Whether a workgroup has the invocations and the memory that a schedule takes; blocks were chosen so.
fn has_room(nest: &LoopNest, schedule: &Schedule, room: &Room) -> bool {
    /// Of the widest total, and of packed bits.
    const WIDEST: u32 = 8;
    let Schedule::Lanes(lanes) = schedule else {
        return true;
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
    let packed = bits(nest.dtype()).map_or(0, |_| GROUP * WORD_BITS / 8);
    let bytes = n_totals
        .saturating_mul(GROUP * WIDEST)
        .saturating_add(packed);
    GROUP <= room.invocations && bytes <= room.workgroup_bytes
}

/// How often the loops of one invocation run.
pub(crate) fn iterations(nest: &LoopNest, schedule: &Schedule) -> u64 {
    let lanes = match schedule {
        Schedule::Lanes(lanes) => *lanes,
        Schedule::Blocks(block) => {
            let terms = nest.reduce_len() as u64;
            // Those of the loop over stages, and what packs short elements.
            return terms + terms.div_ceil(block.tile.block_inner.into()) + u64::from(GROUP);
        }
    };
    let dealt = dealt_axis(nest, lanes);
    let mut total = 0_u64;
    let mut runs = 1_u64;
    for (axis, &size) in nest.reduce.iter().enumerate() {
        let size = if axis == dealt {
            size.div_ceil(lanes as usize)
        } else {
            size
        };
        runs = runs.saturating_mul(size as u64);
        total = total.saturating_add(runs);
    }
    // The tree, and the words of short elements.
    total.saturating_add(u64::from(WORD_BITS + GROUP.ilog2()))
}

/// The reduced axis that the invocations of one element share: the last that gives each of them something to do.
pub(super) fn dealt_axis(nest: &LoopNest, lanes: u32) -> usize {
    let sizes = &nest.reduce;
    let enough = sizes.iter().rposition(|&size| size >= lanes as usize);
    let largest = || (0..sizes.len()).max_by_key(|&axis| sizes[axis]);
    enough.or_else(largest).unwrap_or(0)
}
