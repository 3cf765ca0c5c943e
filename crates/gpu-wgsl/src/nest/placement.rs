//! What changes a value: which loops, and which elements of a tile.

use tensor_core::ir::{IndexMap, LoopNest, Value};

/// For each value the innermost reduced axis that changes it, counted from 1; 0 if none does.
pub(super) fn levels(nest: &LoopNest) -> Vec<usize> {
    let n_domain = nest.domain.len();
    let mut levels: Vec<usize> = Vec::with_capacity(nest.values.len());
    for value in &nest.values {
        let innermost = |map: &IndexMap| {
            map.strides[n_domain..]
                .iter()
                .rposition(|&stride| stride != 0)
        };
        let own = value
            .maps()
            .filter_map(innermost)
            .map(|axis| axis + 1)
            .max();
        let handed = value.operands().map(|operand| levels[operand.0]).max();
        levels.push(match value {
            Value::Reduced(..) => 0,
            _ => own.max(handed).unwrap_or(0),
        });
    }
    levels
}

/// For each value whether it differs along each axis of a tile.
pub(super) fn spread(nest: &LoopNest, tile: Option<[usize; 2]>) -> Vec<[bool; 2]> {
    let mut spread: Vec<[bool; 2]> = Vec::with_capacity(nest.values.len());
    for value in &nest.values {
        let along = |side: usize| {
            let own = |axis: usize| value.maps().any(|map| map.stride(axis) != 0);
            let mut operands = value.operands();
            tile.is_some_and(|tile| own(tile[side]))
                || operands.any(|operand| spread[operand.0][side])
        };
        let sides = [along(0), along(1)];
        spread.push(sides);
    }
    spread
}
