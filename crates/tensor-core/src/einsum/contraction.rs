//! Contractions: specifications resolved against the shapes of their operands.
//!
//! Role: the representation from which every executor starts. Every axis has one label and one
//! size, and ellipses are replaced by labels.
//! Method: the axes under an ellipsis become labels numbered from the last axis, so that ellipses
//! of different ranks align as shapes do in broadcasting. From then on these labels are treated
//! like letters.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::spec::{EinsumSpec, Subscripts};
use crate::error::{EinsumError, Label};

/// An einsum with known shapes: one label for each axis, one size for each label.
///
/// # Examples
/// ```
/// use tensor_core::einsum::{EinsumSpec, Label};
/// let spec = EinsumSpec::parse("...ij,...j->...i")?;
/// let contraction = spec.resolve(&[&[4, 2, 3], &[5, 1, 3]])?;
/// assert_eq!(contraction.out_shape(), [5, 4, 2]);
/// assert_eq!(contraction.summed(), [(Label::Letter('j'), 3)]);
///
/// let error = spec.resolve(&[&[4, 2, 3], &[7, 3]]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "einsum \"...ij,...j->...i\": index '...[-1]' has size 4 in operand 0 of shape [4, 2, 3] \
///      and size 7 in operand 1 of shape [7, 3]"
/// );
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Contraction {
    inputs: Vec<Vec<Label>>,
    shapes: Vec<Vec<usize>>,
    output: Vec<Label>,
    /// The labels with their sizes: output labels first, then the summed labels.
    sizes: Vec<(Label, usize)>,
}

impl EinsumSpec {
    /// Resolves the specification against the shapes of the operands: assigns a label to every axis
    /// and a size to every label.
    ///
    /// An axis of size 1 broadcasts against axes with the same label in other operands, not in the
    /// same operand. The ellipses of the operands are aligned at the last axis; the ellipsis of the
    /// output represents all of their axes. Products of sizes are not checked: the executor has to
    /// check whether the output and the intermediate arrays can be allocated.
    ///
    /// # Errors
    /// [`EinsumError::OperandCount`], [`OperandRank`](EinsumError::OperandRank),
    /// [`EllipsisNotInOutput`](EinsumError::EllipsisNotInOutput) or
    /// [`SizeMismatch`](EinsumError::SizeMismatch).
    pub fn resolve(&self, shapes: &[&[usize]]) -> Result<Contraction, EinsumError> {
        let inputs = self.label_axes(shapes)?;
        let output = self.output.labels(self.ellipsis_rank(shapes)?);
        let mut sizes = self.agree_on_sizes(&inputs, shapes)?;
        // Every output label occurs in an operand. The sort is stable, so the summed labels stay in
        // order of first appearance.
        let places: BTreeMap<Label, usize> = output.iter().copied().zip(0..).collect();
        sizes.sort_by_key(|(label, _)| places.get(label).copied().unwrap_or(usize::MAX));
        Ok(Contraction {
            sizes,
            shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
            inputs,
            output,
        })
    }

    /// Returns the labels of each operand.
    fn label_axes(&self, shapes: &[&[usize]]) -> Result<Vec<Vec<Label>>, EinsumError> {
        let (expected, actual) = (self.inputs.len(), shapes.len());
        if expected != actual {
            return Err(EinsumError::OperandCount {
                spec: self.to_string(),
                expected,
                actual,
            });
        }
        let operands = self.inputs.iter().zip(shapes).enumerate();
        let labels = operands.map(|(operand, (input, shape))| {
            let fits = |rank: &usize| *rank == 0 || input.ellipsis.is_some();
            let rank = input.axes_under_ellipsis(shape).filter(fits);
            let rank = rank.ok_or_else(|| EinsumError::OperandRank {
                spec: self.to_string(),
                operand,
                expected: input.letters.len(),
                ellipsis: input.ellipsis.is_some(),
                shape: shape.to_vec(),
            })?;
            Ok(input.labels(rank))
        });
        labels.collect()
    }

    /// Returns the number of axes under the ellipsis of the output. As in `NumPy`, the output must
    /// have an ellipsis if that number is not 0.
    fn ellipsis_rank(&self, shapes: &[&[usize]]) -> Result<usize, EinsumError> {
        let operands = self.inputs.iter().zip(shapes).enumerate();
        let ranks = operands.map(|(operand, (input, shape))| {
            (input.axes_under_ellipsis(shape).unwrap_or(0), operand)
        });
        let first_longest = |a: (usize, usize), b: (usize, usize)| if b.0 > a.0 { b } else { a };
        let (rank, operand) = ranks.reduce(first_longest).unwrap_or((0, 0));
        if rank > 0 && self.output.ellipsis.is_none() {
            return Err(EinsumError::EllipsisNotInOutput {
                spec: self.to_string(),
                operand,
                shape: shapes[operand].to_vec(),
                rank,
            });
        }
        Ok(rank)
    }

    /// Returns all labels in order of first appearance, with their sizes.
    fn agree_on_sizes(
        &self,
        inputs: &[Vec<Label>],
        shapes: &[&[usize]],
    ) -> Result<Vec<(Label, usize)>, EinsumError> {
        let mismatch = |index, (left_operand, left): (usize, _), (right_operand, right)| {
            EinsumError::SizeMismatch {
                spec: self.to_string(),
                index,
                left,
                left_operand,
                left_shape: shapes[left_operand].into(),
                right,
                right_operand,
                right_shape: shapes[right_operand].into(),
            }
        };
        // Two maps: `own` checks that a label has one size within an operand, `agreed` broadcasts
        // sizes of 1 between operands.
        let (mut order, mut agreed) = (Vec::new(), BTreeMap::new());
        for (operand, (input, shape)) in inputs.iter().zip(shapes).enumerate() {
            let mut own = BTreeMap::new();
            for (&label, &size) in input.iter().zip(*shape) {
                let here = (operand, size);
                let first = *own.entry(label).or_insert(here);
                if first != here {
                    return Err(mismatch(label, first, here));
                }
                match agreed.entry(label) {
                    Entry::Vacant(vacant) => {
                        order.push(label);
                        vacant.insert(here);
                    }
                    Entry::Occupied(mut so_far) => match so_far.get().1 {
                        1 => *so_far.get_mut() = here,
                        other if size != 1 && size != other => {
                            return Err(mismatch(label, *so_far.get(), here));
                        }
                        _ => {}
                    },
                }
            }
        }
        let sized = order.into_iter().map(|label| (label, agreed[&label].1));
        Ok(sized.collect())
    }
}

impl Subscripts {
    /// Returns the number of axes of `shape` without a letter; `None` if there are more letters
    /// than axes.
    fn axes_under_ellipsis(&self, shape: &[usize]) -> Option<usize> {
        shape.len().checked_sub(self.letters.len())
    }

    /// Returns the labels with the ellipsis expanded to `rank` axes.
    fn labels(&self, rank: usize) -> Vec<Label> {
        let (left, right) = self
            .letters
            .split_at(self.ellipsis.unwrap_or(self.letters.len()));
        let rank = self.ellipsis.map_or(0, |_| rank);
        let left = left.iter().copied().map(Label::Letter);
        let right = right.iter().copied().map(Label::Letter);
        let ellipsis = (0..rank).rev().map(Label::Ellipsis);
        left.chain(ellipsis).chain(right).collect()
    }
}

impl Contraction {
    /// Returns the labels of each operand, one per axis; a label may repeat.
    #[must_use]
    pub fn inputs(&self) -> &[Vec<Label>] {
        &self.inputs
    }

    /// Returns the shape of each operand. An axis of size 1 is broadcast if its label has a larger
    /// size.
    #[must_use]
    pub fn shapes(&self) -> &[Vec<usize>] {
        &self.shapes
    }

    /// Returns the labels of the output, one per axis, without repetition.
    #[must_use]
    pub fn output(&self) -> &[Label] {
        &self.output
    }

    /// Returns the shape of the output.
    #[must_use]
    pub fn out_shape(&self) -> Vec<usize> {
        let output = &self.sizes[..self.output.len()];
        output.iter().map(|&(_, size)| size).collect()
    }

    /// Returns every label with its size: the output labels in output order, then the summed
    /// labels.
    #[must_use]
    pub fn sizes(&self) -> &[(Label, usize)] {
        &self.sizes
    }

    /// Returns the summed labels with their sizes, in order of first appearance.
    #[must_use]
    pub fn summed(&self) -> &[(Label, usize)] {
        &self.sizes[self.output.len()..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(spec: &str, shapes: &[&[usize]]) -> Result<Contraction, EinsumError> {
        EinsumSpec::parse(spec).unwrap().resolve(shapes)
    }

    #[test]
    fn output_labels_come_first_and_summed_ones_as_they_appear() {
        use Label::Letter;
        let product = resolve("zk,kj->j", &[&[2, 3], &[3, 4]]).unwrap();
        let (j, z, k) = (Letter('j'), Letter('z'), Letter('k'));
        assert_eq!(product.sizes(), [(j, 4), (z, 2), (k, 3)]);
        assert_eq!(product.inputs(), [vec![z, k], vec![k, j]]);
        assert_eq!(product.summed(), [(z, 2), (k, 3)]);
    }

    #[test]
    fn ellipses_line_up_from_the_last_axis() {
        use Label::{Ellipsis, Letter};
        let product = resolve("i...,...i", &[&[2, 7, 3], &[5, 1, 3, 2]]).unwrap();
        assert_eq!(product.out_shape(), [5, 7, 3]);
        assert_eq!(product.output(), [Ellipsis(2), Ellipsis(1), Ellipsis(0)]);
        assert_eq!(product.inputs()[0], [Letter('i'), Ellipsis(1), Ellipsis(0)]);
        assert_eq!(product.summed(), [(Letter('i'), 2)]);
        let none = resolve("...i->i...", &[&[3]]).unwrap();
        assert_eq!(none.out_shape(), [3]);
    }

    #[test]
    fn an_output_may_lack_the_ellipsis_only_if_that_stands_for_nothing() {
        assert!(resolve("...i->i", &[&[3]]).is_ok());
        assert!(resolve("...,i->i", &[&[], &[4]]).is_ok());
        let error = resolve("...,...i->i", &[&[1], &[1, 4]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "einsum \"...,...i->i\": operand 0 of shape [1] has 1 axes under its ellipsis, \
             but the output has no ellipsis"
        );
    }

    #[test]
    fn operands_that_do_not_fit_are_named() {
        let count = resolve("ik,kj->ij", &[&[2, 3]]).unwrap_err();
        assert_eq!(
            count.to_string(),
            "einsum \"ik,kj->ij\": expected 2 operands, got 1"
        );
        let rank = resolve("ik,kj->ij", &[&[2, 3], &[3]]).unwrap_err();
        assert_eq!(
            rank.to_string(),
            "einsum \"ik,kj->ij\": operand 1 has 2 indices, but its shape is [3]"
        );
        let rank = resolve("...ij", &[&[3]]).unwrap_err();
        assert_eq!(
            rank.to_string(),
            "einsum \"...ij->...ij\": operand 0 has 2 indices and an ellipsis, but its shape is [3]"
        );
        assert!(resolve("i", &[&[3, 4]]).is_err());
        let size = resolve("ik,kj->ij", &[&[2, 3], &[4, 5]]).unwrap_err();
        assert!(
            matches!(
                size,
                EinsumError::SizeMismatch {
                    index: Label::Letter('k'),
                    left: 3,
                    right: 4,
                    ..
                }
            ),
            "{size}"
        );
        let own = resolve("ii", &[&[1, 3]]).unwrap_err();
        assert!(own.to_string().contains("index 'i' has size 1"), "{own}");
    }
}
