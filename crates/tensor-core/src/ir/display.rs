//! The text forms of values and index maps.

use std::fmt;

use super::{Guard, IndexMap, Value, ValueId};

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// Returns the name of an axis as in formulas: i, j, k, …, p for the first eight, then i8, i9, …
fn axis_name(axis: usize) -> String {
    const LETTERS: &[u8] = b"ijklmnop";
    LETTERS.get(axis).map_or_else(
        || format!("i{axis}"),
        |&letter| char::from(letter).to_string(),
    )
}

impl fmt::Display for IndexMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms: Vec<String> = Vec::new();
        for (axis, &stride) in self.strides.iter().enumerate() {
            match stride {
                0 => {}
                1 => terms.push(axis_name(axis)),
                stride => terms.push(format!("{stride}{}", axis_name(axis))),
            }
        }
        if self.offset != 0 || terms.is_empty() {
            // A map without terms is written as its offset, even if the offset is 0.
            terms.push(self.offset.to_string());
        }
        f.write_str(&terms.join(" + ").replace("+ -", "- "))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = |guards: &[Guard]| {
            let conditions: Vec<String> = guards
                .iter()
                .map(|guard| format!("0 <= {} < {}", guard.map, guard.extent))
                .collect();
            conditions.join(" and ")
        };
        match self {
            Self::Const(scalar) => write!(f, "{scalar}"),
            Self::Index(map) => write!(f, "{map}"),
            Self::Inside(guards) => f.write_str(&when(guards)),
            Self::Load { input, map, guards } if guards.is_empty() => write!(f, "in{input}[{map}]"),
            Self::Load { input, map, guards } => write!(f, "in{input}[{map}] if {}", when(guards)),
            Self::Gather {
                input,
                map,
                at,
                stride,
                ..
            } => {
                write!(f, "in{input}[{map} + {stride} * {at}]")
            }
            Self::Position { at, extent, .. } => write!(f, "position({at}, {extent})"),
            Self::Random {
                stream: [low, high],
                at,
                stride,
                first,
                ..
            } => match (stride, first) {
                (1, 0) => write!(f, "random({at}, {low}, {high})"),
                _ => write!(f, "random({stride} * {at} + {first}, {low}, {high})"),
            },
            Self::Unary(op, a) => write!(f, "{}({a})", op.name()),
            Self::Binary(op, a, b) => write!(f, "{}({a}, {b})", op.name()),
            Self::Compare(op, a, b) => write!(f, "{}({a}, {b})", op.name()),
            Self::Select(condition, a, b) => write!(f, "select({condition}, {a}, {b})"),
            Self::Cast(to, a) => write!(f, "{to}({a})"),
            Self::Reduced(op, a) => write!(f, "{} of {a}", op.name()),
            Self::Scanned(scan, a) => {
                write!(f, "{} of {a} along {}", scan.name(), axis_name(scan.axis))?;
                f.write_str(if scan.reversed { ", reversed" } else { "" })?;
                f.write_str(if scan.exclusive { ", exclusive" } else { "" })
            }
            Self::Sorted(sort, a) => {
                write!(f, "{} of {a} along {}", sort.name(), axis_name(sort.axis))?;
                f.write_str(if sort.descending { ", descending" } else { "" })
            }
        }
    }
}
