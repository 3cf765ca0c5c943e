//! The errors of einsum.

use super::contraction::Label;

/// Why an einsum specification is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EinsumError {
    /// A character is neither a letter, a comma, a blank nor part of the one `->` or of the one `...`
    /// that each operand and the output may have.
    #[error("einsum {spec:?}: unexpected {found:?} at character {position}")]
    UnexpectedCharacter {
        /// The specification as given.
        spec: String,
        /// The character that does not belong there.
        found: char,
        /// Its place, counted in characters from zero.
        position: usize,
    },
    /// An output index occurs in no operand.
    #[error("einsum {spec:?}: output index {index:?} occurs in no operand")]
    UnknownOutputIndex {
        /// The specification as given.
        spec: String,
        /// The index.
        index: char,
    },
    /// An index occurs twice in the output.
    #[error("einsum {spec:?}: index {index:?} occurs more than once in the output")]
    RepeatedOutputIndex {
        /// The specification as given.
        spec: String,
        /// The index.
        index: char,
    },
    /// The specification is for another number of operands.
    #[error("einsum {spec:?}: the specification has {expected} operands, the call {actual}")]
    OperandCount {
        /// The specification in normal form.
        spec: String,
        /// How many operands the specification names.
        expected: usize,
        /// How many were given.
        actual: usize,
    },
    /// An operand does not have one axis for each of its indices, or has more without an ellipsis.
    #[error(
        "einsum {spec:?}: operand {operand} has {expected} indices{}, its shape is {shape:?}",
        if *.ellipsis { " and an ellipsis" } else { "" }
    )]
    OperandRank {
        /// The specification in normal form.
        spec: String,
        /// Which operand, counted from zero.
        operand: usize,
        /// How many letters the specification gives it.
        expected: usize,
        /// Whether an ellipsis takes the axes beyond those.
        ellipsis: bool,
        /// The shape that it has.
        shape: Vec<usize>,
    },
    /// The ellipses stand for axes, and the output has no ellipsis to take them.
    #[error(
        "einsum {spec:?}: operand {operand} of shape {shape:?} has {rank} axes under its ellipsis, \
         the output has no ellipsis"
    )]
    EllipsisNotInOutput {
        /// The specification in normal form.
        spec: String,
        /// The first operand whose ellipsis stands for the most axes.
        operand: usize,
        /// The shape of that operand.
        shape: Vec<usize>,
        /// For how many axes its ellipsis stands.
        rank: usize,
    },
    /// One index stands for two sizes.
    #[error(
        "einsum {spec:?}: index '{index}' has size {left} in operand {left_operand} of shape \
         {left_shape:?} and size {right} in operand {right_operand} of shape {right_shape:?}"
    )]
    SizeMismatch {
        /// The specification in normal form.
        spec: String,
        /// The index.
        index: Label,
        /// The size met first.
        left: usize,
        /// The operand that has it.
        left_operand: usize,
        /// The shape of that operand.
        left_shape: Box<[usize]>,
        /// The size that does not fit.
        right: usize,
        /// The operand that has it.
        right_operand: usize,
        /// The shape of that operand.
        right_shape: Box<[usize]>,
    },
}
