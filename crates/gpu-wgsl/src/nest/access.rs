//! WGSL expressions for positions, guards and buffer elements.
//!
//! Method: positions are `i32` with wrap-around. Wrapping is harmless: a position that is used is
//! inside its buffer, so the wrap-arounds of its terms cancel. Guards compare a position as `u32`,
//! so a negative position becomes large and fails. The offset of a map is a parameter of the kernel
//! ([`numbers`]).

use tensor_core::DType;
use tensor_core::ir::{Guard, IndexMap};

use super::numbers;

/// Bits of a word of a buffer.
pub(super) const WORD_BITS: u32 = 32;

/// Returns the bits per element in a buffer for types shorter than a word; `None` for other types.
pub(super) fn bits(dtype: DType) -> Option<u32> {
    match dtype {
        DType::Bool => Some(1),
        DType::F16 => Some(16),
        DType::F32 | DType::F64 | DType::I32 | DType::U32 => None,
    }
}

/// Returns the WGSL type of the words in which a buffer stores elements of this type.
pub(super) fn word(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I32 => "i32",
        DType::U32 | DType::Bool | DType::F16 => "u32",
    }
}

/// Returns the expression of a map's position, for the given names of loop indices.
pub(super) fn position(map: &IndexMap, names: &[String]) -> String {
    let mut text = String::new();
    for (&stride, name) in map.strides.iter().zip(names) {
        // Signs are written as operators, so that no term begins with a minus except the first.
        let stride = wrapped(stride);
        let sign = match (text.is_empty(), stride < 0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        match stride.unsigned_abs() {
            0 => {}
            1 => text.push_str(&format!("{sign}{name}")),
            magnitude => text.push_str(&format!("{sign}{} * {name}", literal(magnitude))),
        }
    }
    match numbers::offset(map) {
        Some(offset) if text.is_empty() => offset,
        Some(offset) => format!("{text} + {offset}"),
        None if text.is_empty() => "0i".to_owned(),
        None => text,
    }
}

/// Returns the expression of a stride, as an `i32`.
pub(super) fn distance(stride: isize) -> String {
    match wrapped(stride) {
        stride if stride < 0 => format!("-{}", literal(stride.unsigned_abs())),
        stride => literal(stride.unsigned_abs()),
    }
}

/// Returns the condition that all guards hold.
pub(super) fn condition(guards: &[Guard], names: &[String]) -> String {
    let holds = |guard: &Guard| {
        let position = position(&guard.map, names);
        format!("bitcast<u32>({position}) < {}u", guard.extent)
    };
    match guards {
        [] => "true".to_owned(),
        [one] => holds(one),
        // `&` instead of `&&`, which becomes a branch in the loops that read the element.
        _ => {
            let all: Vec<String> = guards
                .iter()
                .map(|guard| format!("({})", holds(guard)))
                .collect();
            all.join(" & ")
        }
    }
}

/// Returns the expression of an element of a buffer. `at` is the name of a `u32` variable that
/// contains the position of the element.
pub(super) fn element(dtype: DType, buffer: &str, at: &str) -> String {
    match dtype {
        // 32 booleans per word, the first in the lowest bit.
        DType::Bool => format!("(({buffer}[{at} >> 5u] >> ({at} & 31u)) & 1u) == 1u"),
        // Two halves per word, the first in the low half.
        DType::F16 => format!("unpack2x16float({buffer}[{at} >> 1u])[{at} & 1u]"),
        DType::F32 | DType::F64 | DType::I32 | DType::U32 => format!("{buffer}[{at}]"),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "positions are counted modulo 2^32"
)]
fn wrapped(number: isize) -> i32 {
    number as i32
}

/// Returns the expression of a magnitude as an `i32`. The magnitude 2^31 has no literal of this
/// type, so its bits are converted.
fn literal(magnitude: u32) -> String {
    match i32::try_from(magnitude) {
        Ok(small) => format!("{small}i"),
        Err(_) => format!("bitcast<i32>({magnitude}u)"),
    }
}
