//! The boxes of the output that have one source each.
//!
//! Method: a condition on one axis, such as the position that separates the pieces of a join,
//! changes at one or two indices of the axis. The output is cut at all of these indices. In each
//! box every such condition is constant, and the selections are resolved.

use std::ops::Range;

use crate::dtype::{DType, Scalar};
use crate::ir::{Guard, IndexMap, LoopNest, Value, ValueId, held};
use crate::op::{Binary, Compare, Unary};

/// The maximum number of boxes; nests with more are not moves.
const MAX_BOXES: usize = 64;

/// A box of the output, and the source of its elements.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) block: Vec<Range<usize>>,
    pub(super) source: Source,
}

/// The source of the elements of a box.
#[derive(Debug)]
pub(super) enum Source {
    /// The same element everywhere.
    Fill(Scalar),
    /// Elements of an input.
    Load(Load),
}

/// Elements of an input at the positions of a map; zeros where a guard fails.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) input: usize,
    pub(super) map: IndexMap,
    pub(super) guards: Vec<Guard>,
    /// The part of the positions that is read from another input.
    pub(super) gathered: Option<Gathered>,
}

/// A position along an axis of size `extent` that is an element of an input.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The input of the indices, and their positions in it.
    pub(super) input: usize,
    pub(super) map: IndexMap,
    /// The distance between neighbouring elements of the axis.
    pub(super) stride: isize,
    pub(super) extent: usize,
}

impl Load {
    /// Returns a load without a gather.
    pub(super) fn plain(input: usize, map: IndexMap, guards: Vec<Guard>) -> Self {
        Self {
            input,
            map,
            guards,
            gathered: None,
        }
    }
}

/// Returns the boxes of a nest that only moves elements; `None` for any other nest.
pub(super) fn regions(nest: &LoopNest) -> Option<Vec<Region>> {
    let is_moved = matches!(
        nest.values[nest.result().0],
        Value::Const(_) | Value::Load { .. } | Value::Gather { .. } | Value::Select(..)
    );
    if !is_moved || !nest.reduce.is_empty() {
        return None;
    }
    // A gather reports an index out of range even where its element is not selected.
    let is_gather =
        |(id, value): (usize, &Value)| value.checked_index().is_some() && id != nest.result().0;
    if nest.values.iter().enumerate().any(is_gather) {
        return None;
    }
    let blocks = cut_at(&nest.domain, &changes(nest))?;
    let region = |block: Vec<Range<usize>>| {
        let source = source(nest, nest.result(), &block)?;
        Some(Region { block, source })
    };
    blocks.into_iter().map(region).collect()
}

/// Returns the indices of each axis at which a condition of a selection may change.
fn changes(nest: &LoopNest) -> Vec<Vec<usize>> {
    let mut changes = vec![Vec::new(); nest.domain.len()];
    let mut add = |map: &IndexMap, extent: usize| {
        let mut axes = (0..nest.domain.len()).filter(|&axis| map.stride(axis) != 0);
        // A condition on several axes changes along no plane. A selection by it is not resolved.
        if let (Some(axis), None) = (axes.next(), axes.next()) {
            let size = nest.domain[axis];
            let held = held(map.offset, map.stride(axis), extent, size);
            let inner = [held.start, held.end].into_iter();
            changes[axis].extend(inner.filter(|&at| at > 0 && at < size));
        }
    };
    for value in &nest.values {
        match value {
            Value::Inside(guards) => guards
                .iter()
                .for_each(|guard| add(&guard.map, guard.extent)),
            Value::Compare(_, a, b) => {
                if let Some((map, bound, _)) = position_and_bound(nest, *a, *b) {
                    // `position < bound` and `position <= bound` change here.
                    add(map, bound);
                    add(map, bound.saturating_add(1));
                }
            }
            _ => {}
        }
    }
    changes
}

/// Returns the parts of a comparison of a position with a constant, and whether the position is the
/// left operand.
fn position_and_bound(nest: &LoopNest, a: ValueId, b: ValueId) -> Option<(&IndexMap, usize, bool)> {
    match (&nest.values[a.0], &nest.values[b.0]) {
        (Value::Index(map), Value::Const(Scalar::U32(bound))) => {
            Some((map, usize::try_from(*bound).ok()?, true))
        }
        (Value::Const(Scalar::U32(bound)), Value::Index(map)) => {
            Some((map, usize::try_from(*bound).ok()?, false))
        }
        _ => None,
    }
}

/// Returns the boxes between the given indices of each axis; `None` if there are too many.
fn cut_at(domain: &[usize], changes: &[Vec<usize>]) -> Option<Vec<Vec<Range<usize>>>> {
    let mut blocks = vec![Vec::new()];
    for (&size, changes) in domain.iter().zip(changes) {
        let mut ends = changes.clone();
        ends.push(size);
        ends.sort_unstable();
        ends.dedup();
        if blocks.len() * ends.len() > MAX_BOXES {
            return None;
        }
        let starts = || std::iter::once(0).chain(ends.iter().copied());
        let segments = || starts().zip(&ends).map(|(start, &end)| start..end);
        let with = |block: &Vec<Range<usize>>| {
            let block = block.clone();
            segments().map(move |segment| [&block[..], &[segment]].concat())
        };
        blocks = blocks.iter().flat_map(with).collect();
    }
    Some(blocks)
}

/// Returns the source of a value's elements in a box; `None` if the value is computed, or if its
/// source varies within the box.
fn source(nest: &LoopNest, id: ValueId, block: &[Range<usize>]) -> Option<Source> {
    let zero = || Source::Fill(Scalar::zero(nest.dtypes[id.0]));
    match &nest.values[id.0] {
        Value::Const(scalar) => Some(Source::Fill(*scalar)),
        Value::Load { input, map, guards } => Some(match open_guards(guards, block) {
            Some(guards) => Source::Load(Load::plain(*input, map.clone(), guards)),
            None => zero(),
        }),
        Value::Gather {
            input,
            map,
            guards,
            at,
            stride,
            extent,
        } => {
            let Value::Load {
                input: index,
                map: index_map,
                guards: index_guards,
            } = &nest.values[at.0]
            else {
                return None;
            };
            let is_integer = matches!(nest.dtypes[at.0], DType::I32 | DType::U32);
            // Where a guard of the index fails, no element may be read.
            if !is_integer || !index_guards.iter().all(|guard| guards.contains(guard)) {
                return None;
            }
            let Some(guards) = open_guards(guards, block) else {
                return Some(zero());
            };
            Some(Source::Load(Load {
                gathered: Some(Gathered {
                    input: *index,
                    map: index_map.clone(),
                    stride: *stride,
                    extent: *extent,
                }),
                ..Load::plain(*input, map.clone(), guards)
            }))
        }
        Value::Select(condition, yes, no) => {
            let chosen = if truth(nest, *condition, block)? {
                yes
            } else {
                no
            };
            source(nest, *chosen, block)
        }
        _ => None,
    }
}

/// Returns the guards that hold in a part of a box only; `None` if a guard holds nowhere.
fn open_guards(guards: &[Guard], block: &[Range<usize>]) -> Option<Vec<Guard>> {
    let mut open = Vec::new();
    for guard in guards {
        match holds(guard, block) {
            Some(true) => {}
            Some(false) => return None,
            None => open.push(guard.clone()),
        }
    }
    Some(open)
}

/// Returns whether a guard holds in a box; `None` if it holds in a part of the box.
fn holds(guard: &Guard, block: &[Range<usize>]) -> Option<bool> {
    let [low, high] = reach(&guard.map, block);
    let is_inside = |at: i128| 0 <= at && at < guard.extent as i128;
    if is_inside(low) && is_inside(high) {
        return Some(true);
    }
    (high < 0 || low >= guard.extent as i128).then_some(false)
}

/// Returns the lowest and the highest position of a map in a box. `i128` holds a sum of products of
/// two `isize` values.
fn reach(map: &IndexMap, block: &[Range<usize>]) -> [i128; 2] {
    let mut reach = [map.offset as i128; 2];
    for (&stride, range) in map.strides.iter().zip(block) {
        let ends = [range.start, range.end.saturating_sub(1)];
        let ends = ends.map(|at| stride as i128 * at as i128);
        reach[0] += ends[0].min(ends[1]);
        reach[1] += ends[0].max(ends[1]);
    }
    reach
}

/// Returns whether a condition is true in a box; `None` if it varies or is not known.
fn truth(nest: &LoopNest, id: ValueId, block: &[Range<usize>]) -> Option<bool> {
    match &nest.values[id.0] {
        Value::Const(Scalar::Bool(truth)) => Some(*truth),
        Value::Inside(guards) => {
            let mut held = guards.iter().map(|guard| holds(guard, block));
            if held.clone().any(|held| held == Some(false)) {
                return Some(false);
            }
            held.all(|held| held == Some(true)).then_some(true)
        }
        Value::Unary(Unary::Not, a) => truth(nest, *a, block).map(|truth| !truth),
        Value::Binary(op @ (Binary::And | Binary::Or), a, b) => {
            let [a, b] = [a, b].map(|id| truth(nest, *id, block));
            let decides = *op == Binary::Or;
            if a == Some(decides) || b == Some(decides) {
                return Some(decides);
            }
            (a.is_some() && b.is_some()).then_some(!decides)
        }
        Value::Compare(op, a, b) => {
            let (map, bound, is_left) = position_and_bound(nest, *a, *b)?;
            let [low, high] = reach(map, block);
            // Positions are compared modulo 2^32.
            if low < 0 || high > u32::MAX.into() {
                return None;
            }
            let bound = bound as i128;
            let always = |holds: fn(i128, i128) -> bool| {
                let ends = [low, high].map(|at| match is_left {
                    true => holds(at, bound),
                    false => holds(bound, at),
                });
                (ends[0] == ends[1]).then_some(ends[0])
            };
            match op {
                Compare::Lt => always(|a, b| a < b),
                Compare::Le => always(|a, b| a <= b),
                // Equal in a whole box, or outside of the box's positions.
                Compare::Eq | Compare::Ne => {
                    let equal = match (low == bound, high == bound) {
                        (true, true) => true,
                        _ if bound < low || bound > high => false,
                        _ => return None,
                    };
                    Some(equal == (*op == Compare::Eq))
                }
            }
        }
        _ => None,
    }
}
