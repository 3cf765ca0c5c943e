//! The steps into which a contraction is decomposed, each with one or two operands.
//!
//! Role: an executor needs only two operations, a reduction of one tensor and a batched matrix
//! product of two tensors. This module decomposes a contraction into such steps and determines
//! their order.
//! Method: first each operand is reduced by the parts that no other operand shares: repeated labels
//! (a diagonal), axes of size 1 under a longer label, and summed labels that no other operand has.
//! From then on a label has one size in all tensors, and it is summed as soon as neither the output
//! nor another tensor needs it. So the labels of any pair of tensors fall into the four groups of a
//! batched matrix product. The order of the pairs is determined by `search`.

use std::collections::{BTreeMap, BTreeSet};

use super::contraction::Contraction;
use super::search::Network;
use crate::error::Label;

/// An input tensor of a step, with the labels of its axes.
///
/// The tensors of a contraction are numbered: its operands from 0, then the results of the steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The number of the tensor.
    pub id: usize,
    /// The labels, one per axis.
    pub labels: Vec<Label>,
}

/// A step of [`Contraction::path`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// A reduction `y[output] = Σ x[labels]`: the sum over all labels that `output` lacks.
    ///
    /// A label that repeats in the input selects its diagonal. The output may contain the remaining
    /// labels in any order. The size of a label is that of its axis in `x`, which may be 1 where
    /// the label is longer in other tensors; such a label is never in the output.
    Reduce {
        /// The tensor `x`; its labels may repeat.
        input: Slot,
        /// The labels of the result, without repetition.
        output: Vec<Label>,
    },
    /// A product `z[output] = Σ x[left labels] · y[right labels]`.
    Product(Product),
}

/// A step with two operands, which is always a batched matrix product.
///
/// No label repeats in an operand or in the output. A label has the same size in both operands.
/// Each label is in both operands, or in one operand and the output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Product {
    /// The left tensor.
    pub left: Slot,
    /// The right tensor.
    pub right: Slot,
    /// The labels of the result.
    pub output: Vec<Label>,
}

/// The labels of a [`Product`], grouped by role. With the axes permuted and merged by group the
/// product is `[batch, rows, inner] × [batch, inner, cols] → [batch, rows, cols]`.
///
/// An empty group counts as one axis of size 1. Without `inner` the product sums nothing: it is
/// elementwise with broadcasting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Groups {
    /// The labels in both operands and in the output, in the output's order.
    pub batch: Vec<Label>,
    /// The labels in the left operand and in the output only, in the output's order.
    pub rows: Vec<Label>,
    /// The labels in the right operand and in the output only, in the output's order.
    pub cols: Vec<Label>,
    /// The labels in both operands that are summed over, in the left operand's order.
    pub inner: Vec<Label>,
}

impl Product {
    /// Sorts the labels into the four groups of a batched matrix product.
    #[must_use]
    pub fn groups(&self) -> Groups {
        let set = |labels: &[Label]| -> BTreeSet<Label> { labels.iter().copied().collect() };
        let (left, right) = (set(&self.left.labels), set(&self.right.labels));
        let output = set(&self.output);
        // The output labels that are in the given operands, in output order.
        let kept = |in_left: bool, in_right: bool| -> Vec<Label> {
            let labels = self.output.iter().copied();
            labels
                .filter(|label| {
                    left.contains(label) == in_left && right.contains(label) == in_right
                })
                .collect()
        };
        let inner = self.left.labels.iter().copied();
        Groups {
            batch: kept(true, true),
            rows: kept(true, false),
            cols: kept(false, true),
            inner: inner.filter(|label| !output.contains(label)).collect(),
        }
    }
}

impl Contraction {
    /// Returns the steps that compute the contraction, in order. The result is the last tensor.
    ///
    /// With `n` operands step `s` creates tensor `n + s`, and every tensor but the last is read
    /// once. One operand takes one [`Step::Reduce`], or no step if it already is the result; its
    /// labels are then those of the output. Several operands take `n - 1` products, preceded by a
    /// reduction for each operand that can be reduced on its own. The last product has the output's
    /// labels in the output's order. The other products have the labels batch, rows, cols of their
    /// [`Groups`], in the order of a matrix product.
    ///
    /// With up to 8 operands the total of all loop iterations and all elements of intermediates is
    /// minimal. With more, the path is greedy: among 64 tensors at a time, the pair whose product
    /// frees the most elements is multiplied first. Finding the path for `n` operands with `l`
    /// labels takes about `3^n · l` operations with up to 8 operands, and `64 · n · (64 + l)` with
    /// more. The same labels and sizes always produce the same steps. A size of zero counts as one.
    ///
    /// The steps sum in another order than [`oracle`](super::oracle), so floats may round
    /// differently. Also, a NaN or an infinity may be multiplied by a zero that it does not meet in
    /// another order.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::einsum::{EinsumSpec, Step};
    /// let spec = EinsumSpec::parse("ij,jk,k->i")?;
    /// let path = spec.resolve(&[&[50, 60], &[60, 70], &[70]])?.path();
    /// let [Step::Product(first), Step::Product(last)] = &path[..] else {
    ///     panic!("three operands need two products");
    /// };
    /// // The vector comes first: tensor 3 is `jk,k->j`, tensor 4 is `ij,j->i`.
    /// assert_eq!((first.left.id, first.right.id), (1, 2));
    /// assert_eq!((last.left.id, last.right.id), (0, 3));
    /// assert_eq!(last.groups().rows, last.output);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> Vec<Step> {
        // Reduce each operand on its own first, then multiply pairs in the order of the search.
        let full = self.full_labels();
        let mut uses = Uses::default();
        uses.add(full.iter().flatten().chain(self.output()));
        let (mut slots, mut steps) = self.reduce_operands(full, &uses);
        let pairs = self.network(&slots).pairs();
        let n_pairs = pairs.len();
        for (at, (left, right)) in pairs.into_iter().enumerate() {
            let (left, right) = (slots[left].clone(), slots[right].clone());
            let output = if at + 1 == n_pairs {
                self.output().to_vec()
            } else {
                uses.multiply(&left.labels, &right.labels)
            };
            slots.push(Slot {
                id: self.inputs().len() + steps.len(),
                labels: output.clone(),
            });
            steps.push(Step::Product(Product {
                left,
                right,
                output,
            }));
        }
        steps
    }

    /// Returns the labels of each operand whose axis has the full size of the label, without
    /// repetition.
    fn full_labels(&self) -> Vec<Vec<Label>> {
        let sizes: BTreeMap<Label, usize> = self.sizes().iter().copied().collect();
        let operands = self.inputs().iter().zip(self.shapes());
        let full = operands.map(|(labels, shape)| {
            let mut seen = BTreeSet::new();
            let axes = labels.iter().zip(shape);
            axes.filter(|(label, size)| sizes.get(label) == Some(size) && seen.insert(**label))
                .map(|(&label, _)| label)
                .collect()
        });
        full.collect()
    }

    /// Reduces each operand to the labels that it shares with another tensor or the output. Returns
    /// the reduced operands and the steps that compute them.
    fn reduce_operands(&self, full: Vec<Vec<Label>>, uses: &Uses) -> (Vec<Slot>, Vec<Step>) {
        let n_operands = full.len();
        let (mut slots, mut steps) = (Vec::with_capacity(n_operands), Vec::new());
        for (id, (mut output, labels)) in full.into_iter().zip(self.inputs()).enumerate() {
            if n_operands == 1 {
                output = self.output().to_vec();
            } else {
                output.retain(|label| uses.size(label) > 1);
            }
            let mut slot = Slot {
                id,
                labels: labels.clone(),
            };
            if slot.labels != output {
                let reduced = Slot {
                    id: n_operands + steps.len(),
                    labels: output.clone(),
                };
                // From here on the reduced tensor replaces the operand.
                let input = std::mem::replace(&mut slot, reduced);
                steps.push(Step::Reduce { input, output });
            }
            slots.push(slot);
        }
        (slots, steps)
    }

    /// Converts the tensors to the form of the search, with numbered labels.
    fn network(&self, slots: &[Slot]) -> Network {
        let (labels, sizes): (Vec<Label>, Vec<usize>) = self.sizes().iter().copied().unzip();
        let places: BTreeMap<Label, usize> = labels.into_iter().zip(0..).collect();
        let tensors = slots.iter();
        let tensors = tensors.map(|slot| slot.labels.iter().map(|label| places[label]).collect());
        Network {
            tensors: tensors.collect(),
            sizes,
            n_out: self.output().len(),
        }
    }
}

/// The number of tensors with each label; the output counts as a tensor.
#[derive(Debug, Default)]
struct Uses(BTreeMap<Label, usize>);

impl Uses {
    fn size(&self, label: &Label) -> usize {
        self.0.get(label).copied().unwrap_or(0)
    }

    fn add<'a>(&mut self, labels: impl IntoIterator<Item = &'a Label>) {
        for &label in labels {
            *self.0.entry(label).or_default() += 1;
        }
    }

    /// Replaces two tensors by their product. Returns the labels of the product: batch, rows, cols.
    fn multiply(&mut self, left: &[Label], right: &[Label]) -> Vec<Label> {
        // Both factors disappear. A label without a further use is summed by this product.
        for label in left.iter().chain(right) {
            self.0.entry(*label).and_modify(|uses| *uses -= 1);
        }
        let in_left: BTreeSet<&Label> = left.iter().collect();
        let in_right: BTreeSet<&Label> = right.iter().collect();
        let batch = left.iter().filter(|label| in_right.contains(label));
        let rows = left.iter().filter(|label| !in_right.contains(label));
        let cols = right.iter().filter(|label| !in_left.contains(label));
        let all = batch.chain(rows).chain(cols);
        let kept: Vec<Label> = all.filter(|label| self.size(label) > 0).copied().collect();
        self.add(&kept);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::einsum::EinsumSpec;

    /// Returns the steps as text in the form `ids:labels->labels`; letters only.
    fn path(spec: &str, shapes: &[&[usize]]) -> Vec<String> {
        let contraction = EinsumSpec::parse(spec).unwrap().resolve(shapes).unwrap();
        let text = |labels: &[Label]| labels.iter().map(Label::to_string).collect::<String>();
        let slot = |slot: &Slot| format!("{}:{}", slot.id, text(&slot.labels));
        let steps = contraction.path().into_iter().map(|step| match step {
            Step::Reduce { input, output } => format!("{}->{}", slot(&input), text(&output)),
            Step::Product(Product {
                left,
                right,
                output,
            }) => format!("{},{}->{}", slot(&left), slot(&right), text(&output)),
        });
        steps.collect()
    }

    #[test]
    fn one_operand_takes_at_most_one_step() {
        assert!(path("ij->ij", &[&[2, 3]]).is_empty());
        assert!(path("...", &[&[2, 3]]).is_empty());
        assert_eq!(path("ij->ji", &[&[2, 3]]), ["0:ij->ji"]);
        assert_eq!(path("ii", &[&[3, 3]]), ["0:ii->"]);
        assert_eq!(path("iji->ji", &[&[3, 2, 3]]), ["0:iji->ji"]);
    }

    #[test]
    fn two_operands_are_one_product_after_they_lost_what_only_they_have() {
        assert_eq!(path("ik,kj->ji", &[&[2, 3], &[3, 4]]), ["0:ik,1:kj->ji"]);
        // A diagonal, a sum, and an axis of size 1 under a longer label.
        assert_eq!(
            path("iik,kjx->i", &[&[2, 2, 3], &[3, 4, 5]]),
            ["0:iik->ik", "1:kjx->k", "2:ik,3:k->i"]
        );
        assert_eq!(
            path("ij,ij->ij", &[&[1, 3], &[2, 3]]),
            ["0:ij->j", "2:j,1:ij->ij"]
        );
        // A label of size 1 in all tensors is kept.
        assert_eq!(path("ij,ij->ij", &[&[1, 3], &[1, 3]]), ["0:ij,1:ij->ij"]);
        // The left axis of size 1 is dropped, so only the right operand has k.
        assert_eq!(
            path("ik,kj->ij", &[&[2, 1], &[3, 4]]),
            ["0:ik->i", "1:kj->j", "2:i,3:j->ij"]
        );
        assert_eq!(path(",", &[&[], &[]]), ["0:,1:->"]);
    }

    #[test]
    fn intermediates_are_small_and_in_the_order_of_a_matrix_product() {
        assert_eq!(
            path("ab,bc,cd->da", &[&[2, 9], &[9, 9], &[9, 8]]),
            ["0:ab,1:bc->ac", "3:ac,2:cd->da"]
        );
        assert_eq!(
            path("i,ij,j->", &[&[7], &[7, 8], &[8]]),
            ["1:ij,2:j->i", "0:i,3:i->"]
        );
        assert_eq!(
            path("bkx,bky,b,b->bxy", &[&[2, 9, 3], &[2, 9, 4], &[2], &[2]]),
            ["0:bkx,1:bky->bxy", "2:b,3:b->b", "4:bxy,5:b->bxy"]
        );
    }

    #[test]
    fn labels_are_grouped_as_a_batched_matrix_product() {
        let spec = EinsumSpec::parse("...hqd,...khd->...hkq").unwrap();
        let contraction = spec.resolve(&[&[5, 2, 3, 4], &[6, 2, 4]]).unwrap();
        // The right operand has no axis under the ellipsis, so the ellipsis belongs to the rows.
        let [Step::Product(product)] = &contraction.path()[..] else {
            panic!("one product: {:?}", contraction.path());
        };
        let letters = |text: &str| text.chars().map(Label::Letter).collect::<Vec<_>>();
        assert_eq!(
            product.groups(),
            Groups {
                batch: letters("h"),
                rows: [vec![Label::Ellipsis(0)], letters("q")].concat(),
                cols: letters("k"),
                inner: letters("d"),
            }
        );
    }

    #[test]
    fn many_operands_and_many_axes_take_little_time() {
        let n = 5_000;
        let commas = ",".repeat(n - 1);
        assert_eq!(path(&commas, &vec![&[][..]; n]).len(), n - 1);
        let chain: Vec<String> = (0..n).map(chain_part).collect();
        assert_eq!(path(&chain.join(","), &vec![&[2, 2][..]; n]).len(), n - 1);
        // Letters repeat along the chain, so all tensors are connected. The ranks exceed those of
        // any real array.
        let ones = vec![1; 2_000];
        let wide = ["...a"; 12].join(",");
        assert_eq!(path(&wide, &[&ones[..]; 12]).len(), 11);
        let few = ["...a"; 8].join(",");
        assert_eq!(path(&few, &[&ones[..]; 8]).len(), 7);
    }

    fn chain_part(at: usize) -> String {
        let letter = |at: usize| {
            char::from(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[at % 52])
        };
        [letter(at), letter(at + 1)].iter().collect()
    }
}
