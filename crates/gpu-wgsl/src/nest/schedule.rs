//! How the loops of a nest are dealt out to invocations.
//!
//! Role: the choices that the text of a kernel follows; they depend on the nest and on how long the driver
//! lets loops run, so on one device a nest's results are the same each time.

use tensor_core::ir::{LoopNest, Value};

use super::GROUP;
use super::access::{WORD_BITS, bits};
use super::parts::{self, Parts};

/// How the loops of a nest are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Schedule {
    /// How many invocations share an output element: a power of two, at most [`GROUP`].
    pub(crate) lanes: u32,
    /// Two axes of the output; then an invocation computes [`TILE`] elements along each.
    pub(crate) tile: Option<[usize; 2]>,
}

/// Elements of an output along each side of what one invocation computes of it.
pub(crate) const TILE: usize = 4;

/// Chooses a schedule: invocations share an element where there are too few elements to keep a device busy, or where
/// neighbours in memory are folded, which one invocation alone would read far apart from what others read.
pub(crate) fn schedule(nest: &LoopNest) -> Schedule {
    if let Some(tile) = tile(nest) {
        return Schedule {
            lanes: 1,
            tile: Some(tile),
        };
    }
    /// Elements from which on one invocation for each is enough.
    const MANY: usize = 1 << 15;
    /// What is left for each invocation to fold before the tree.
    const LEAST: usize = 4;
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
    Schedule {
        lanes: if enough_outputs { lanes.min(32) } else { lanes },
        tile: None,
    }
}

/// The last axis of an output and another one, where what is folded reads some elements that the one does not change and some
/// that the other does not: an invocation that computes several elements along both reads each of those once.
fn tile(nest: &LoopNest) -> Option<[usize; 2]> {
    /// Outputs from which on there are enough tiles, and what is worth it to fold.
    const MANY: usize = 1 << 12;
    const LONG: usize = 4;
    /// The most values, each of which may be computed for all elements of a tile.
    const MAX_VALUES: usize = 32;
    let is_gather = |value: &Value| matches!(value, Value::Gather { .. });
    if bits(nest.dtype()).is_some()
        || nest.output_len() < MANY
        || nest.reduce_len() < LONG
        || nest.values.len() > MAX_VALUES
        || nest.values.iter().any(is_gather)
    {
        return None;
    }
    let body = nest.body();
    let loads = || {
        let values = nest.values.iter().zip(&body);
        values.filter_map(|(value, in_body)| match value {
            Value::Load { map, .. } if *in_body => Some(map),
            _ => None,
        })
    };
    let reads_along =
        |one: usize, not: usize| loads().any(|map| map.stride(one) != 0 && map.stride(not) == 0);
    let last = nest.domain.len().checked_sub(1)?;
    let large = |axis: usize| nest.domain[axis] >= 2 * TILE;
    let other = (0..last)
        .rev()
        .find(|&axis| large(axis) && reads_along(axis, last) && reads_along(last, axis))?;
    large(last).then_some([other, last])
}

/// How many invocations there are but for those that share an element.
pub(crate) fn n_items(nest: &LoopNest, schedule: Schedule) -> usize {
    (0..nest.domain.len())
        .map(|axis| n_items_along(nest, schedule, axis))
        .product()
}

/// How many of them there are along an axis of the output.
pub(super) fn n_items_along(nest: &LoopNest, schedule: Schedule, axis: usize) -> usize {
    let size = nest.domain[axis];
    let is_tiled = schedule.tile.is_some_and(|tile| tile.contains(&axis));
    if is_tiled { size.div_ceil(TILE) } else { size }
}

/// Cuts the reduction of a nest in two steps where that pays, or where loops would run longer than a driver lets them.
pub(crate) fn cut(nest: &LoopNest, limit: Option<u64>) -> Option<Parts> {
    /// Iterations of one invocation from which on it may pay, and how many are left to each then.
    const LONG: u64 = 1024;
    const LEFT: u64 = 256;
    /// Invocations that keep any device busy.
    const BUSY: u64 = 1 << 17;
    let schedule = schedule(nest);
    let (runs, limit) = (iterations(nest, schedule), limit.unwrap_or(u64::MAX));
    let invocations = (nest.output_len() as u64).saturating_mul(schedule.lanes.into());
    if runs <= LONG.min(limit) || (invocations >= BUSY && runs <= limit) {
        return None;
    }
    let few = runs.div_ceil(LEFT).min(BUSY.div_ceil(invocations.max(1)));
    let needed = runs.div_ceil((limit / 2).max(1));
    let longest = nest.reduce.iter().max().copied().unwrap_or(1);
    let n_parts = usize::try_from(few.max(needed)).unwrap_or(usize::MAX);
    parts::cut(nest, n_parts.min(longest / 2))
}

/// Whether loops stay within a driver's limit, cut or not.
pub(crate) fn fits(nest: &LoopNest, limit: Option<u64>) -> bool {
    let runs = iterations(nest, schedule(nest));
    limit.is_none_or(|most| runs <= most)
        || cut(nest, limit).is_some_and(|parts| {
            let folds = parts.folds.iter().map(|(fold, _)| fold);
            let mut nests = folds.chain([&parts.rest]);
            nests.all(|part| part.reduce != nest.reduce && fits(part, limit))
        })
}

/// How often the loops of one invocation run.
pub(crate) fn iterations(nest: &LoopNest, schedule: Schedule) -> u64 {
    let dealt = dealt_axis(nest, schedule);
    let mut total = 0_u64;
    let mut runs = 1_u64;
    for (axis, &size) in nest.reduce.iter().enumerate() {
        let size = if axis == dealt {
            size.div_ceil(schedule.lanes as usize)
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
pub(super) fn dealt_axis(nest: &LoopNest, schedule: Schedule) -> usize {
    let sizes = &nest.reduce;
    let enough = sizes
        .iter()
        .rposition(|&size| size >= schedule.lanes as usize);
    let largest = || (0..sizes.len()).max_by_key(|&axis| sizes[axis]);
    enough.or_else(largest).unwrap_or(0)
}
