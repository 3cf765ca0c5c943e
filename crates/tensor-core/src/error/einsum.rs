//! The errors of einsum.

use std::fmt;

/// An index of a [`Contraction`](crate::einsum::Contraction).
///
/// A label is displayed as its letter, or as `...[-1]` for the last axis under the ellipsis,
/// `...[-2]` for the one before, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// A letter of the specification.
    Letter(char),
    /// An axis under the ellipsis, counted from the last one, which is number 0.
    Ellipsis(usize),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Letter(letter) => write!(f, "{letter}"),
            Self::Ellipsis(from_last) => write!(f, "...[-{}]", from_last.saturating_add(1)),
        }
    }
}

/// An error in an einsum specification, or a mismatch with its operands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EinsumError {
    /// A character is not a letter, a comma, a blank, or part of an allowed `->` or `...`. A
    /// specification may have one `->`, and each operand and the output one `...`.
    #[error("einsum {spec:?}: unexpected {found:?} at character {position}")]
    UnexpectedCharacter {
        /// The specification as passed by the caller.
        spec: String,
        /// The unexpected character.
        found: char,
        /// The position of the character, in characters from zero.
        position: usize,
    },
    /// An output index occurs in no operand.
    #[error("einsum {spec:?}: output index {index:?} occurs in no operand")]
    UnknownOutputIndex {
        /// The specification as passed by the caller.
        spec: String,
        /// The unknown index.
        index: char,
    },
    /// An index occurs twice in the output.
    #[error("einsum {spec:?}: index {index:?} occurs more than once in the output")]
    RepeatedOutputIndex {
        /// The specification as passed by the caller.
        spec: String,
        /// The repeated index.
        index: char,
    },
    /// The number of operands differs from that of the specification.
    #[error("einsum {spec:?}: expected {expected} operands, got {actual}")]
    OperandCount {
        /// The specification in normal form.
        spec: String,
        /// The number of operands in the specification.
        expected: usize,
        /// The number of operands passed.
        actual: usize,
    },
    /// The rank of an operand differs from its number of indices or, for an operand with an
    /// ellipsis, is below that number.
    #[error(
        "einsum {spec:?}: operand {operand} has {expected} indices{}, but its shape is {shape:?}",
        if *.ellipsis { " and an ellipsis" } else { "" }
    )]
    OperandRank {
        /// The specification in normal form.
        spec: String,
        /// The index of the operand, from zero.
        operand: usize,
        /// The number of letters of the operand in the specification.
        expected: usize,
        /// Whether the operand has an ellipsis, which represents all further axes.
        ellipsis: bool,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// The ellipses of the operands represent at least one axis, but the output has no ellipsis.
    #[error(
        "einsum {spec:?}: operand {operand} of shape {shape:?} has {rank} axes under its ellipsis, \
         but the output has no ellipsis"
    )]
    EllipsisNotInOutput {
        /// The specification in normal form.
        spec: String,
        /// The first operand whose ellipsis represents the most axes.
        operand: usize,
        /// The shape of that operand.
        shape: Vec<usize>,
        /// The number of axes under the ellipsis of that operand.
        rank: usize,
    },
    /// An index has two different sizes, of which neither is broadcast.
    #[error(
        "einsum {spec:?}: index '{index}' has size {left} in operand {left_operand} of shape \
         {left_shape:?} and size {right} in operand {right_operand} of shape {right_shape:?}"
    )]
    SizeMismatch {
        /// The specification in normal form.
        spec: String,
        /// The index with two sizes.
        index: Label,
        /// The first size.
        left: usize,
        /// The operand with the first size.
        left_operand: usize,
        /// The shape of that operand.
        left_shape: Box<[usize]>,
        /// The size that differs from `left`.
        right: usize,
        /// The operand with the other size.
        right_operand: usize,
        /// The shape of that operand.
        right_shape: Box<[usize]>,
    },
}
