//! The search for the order in which the tensors of a contraction are multiplied.
//!
//! Method: for few tensors, dynamic programming over their subsets, which works because the labels
//! of the product of a subset do not depend on the order within the subset. For more tensors, a
//! greedy search for the pair whose product frees the most elements, the cost of `opt_einsum`'s
//! greedy path. Counts are saturating integers, and ties go to the pair with the lower numbers, so
//! the order depends only on the labels and sizes. The crate `opt-einsum-path` 0.2 was measured and
//! not used: it adds 15 dependencies, its costs in f64 become NaN for huge sizes (and then the path
//! is empty), and it takes 14 s for 2000 tensors of which many share a label.
//! Source: Pfeifer, Haegeman and Verstraete 2014, "Faster identification of optimal contraction
//! sequences for tensor networks"; Smith and Gray 2018, "`opt_einsum`".
//! Limits: the greedy search considers [`WINDOW`] tensors at a time, so that its time is linear in
//! their number. Its order is always valid but rarely optimal.

use std::collections::{BTreeMap, BTreeSet};

/// The largest number of tensors for which every order is considered, in about `3^n` steps.
const MAX_EXACT: usize = 8;

/// The number of tensors from which the greedy search chooses a pair.
const WINDOW: usize = 64;

/// A number of elements or of loop iterations, or the difference of two such numbers.
type Count = i128;

/// The tensors of a contraction as sets of numbered labels; the labels of the output come first.
#[derive(Debug, Clone)]
pub(super) struct Network {
    /// The labels of each tensor, in `0..sizes.len()`. Each label is in two tensors or in the
    /// output.
    pub(super) tensors: Vec<BTreeSet<usize>>,
    pub(super) sizes: Vec<usize>,
    /// The number of labels in the output.
    pub(super) n_out: usize,
}

/// A pair of tensors that the greedy search may multiply next. The smallest candidate is chosen, so
/// the order of the fields matters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Whether the tensors share no label. Outer products are chosen last, because they can nearly
    /// always wait.
    disjoint: bool,
    /// The number of elements of the product less those of both tensors.
    growth: Count,
    left: usize,
    right: usize,
}

impl Network {
    /// Returns the pairs to multiply, in order. Tensor `tensors.len() + i` is the product of pair
    /// `i`.
    pub(super) fn pairs(&self) -> Vec<(usize, usize)> {
        if self.tensors.len() <= MAX_EXACT {
            self.exact()
        } else {
            self.greedy()
        }
    }

    /// Returns the product of the sizes of some labels. A size of zero counts as one, so that it
    /// does not hide the cost of the other labels.
    fn count(&self, labels: impl Iterator<Item = usize>) -> Count {
        let sizes = labels.map(|label| self.sizes[label].max(1) as Count);
        sizes.fold(1, Count::saturating_mul)
    }

    /// Finds the cheapest order by dynamic programming over subsets of tensors.
    fn exact(&self) -> Vec<(usize, usize)> {
        let n_labels = self.sizes.len();
        let mut holders = vec![0_usize; n_labels];
        for (at, labels) in self.tensors.iter().enumerate() {
            labels.iter().for_each(|&label| holders[label] |= 1 << at);
        }
        // A set of tensors is a bit mask. The product of a set has the labels that are in the set
        // and also needed outside: by the output or by another tensor.
        let has = |set: usize, label: usize| {
            let held = holders[label];
            held & set != 0 && (label < self.n_out || held & !set != 0)
        };
        let everything = (1_usize << self.tensors.len()) - 1;
        // For each set, the least cost, and the subset that is one operand of its last product.
        let mut best = vec![(0, 0); everything + 1];
        for set in (1..=everything).filter(|set| !set.is_power_of_two()) {
            let (mut least, mut side) = (Count::MAX, 0);
            // Enumerate all non-empty proper subsets of `set`: `(part - 1) & set` is the next
            // smaller one.
            let mut part = (set - 1) & set;
            while part > 0 {
                let rest = set ^ part;
                // Consider each split only once, with the lowest tensor on the left.
                if part.trailing_zeros() < rest.trailing_zeros() {
                    let both = (0..n_labels).filter(|&label| has(part, label) || has(rest, label));
                    let below: Count = best[part].0;
                    let cost = below
                        .saturating_add(best[rest].0)
                        .saturating_add(self.count(both));
                    if side == 0 || cost < least {
                        (least, side) = (cost, part);
                    }
                }
                part = (part - 1) & set;
            }
            let left = (0..n_labels).filter(|&label| has(set, label));
            best[set] = (least.saturating_add(self.count(left)), side);
        }
        let mut pairs = Vec::new();
        self.unwind(&best, everything, &mut pairs);
        pairs
    }

    /// Appends the products that multiply the tensors of `set`, in the order that `best` contains.
    /// Returns the number of the resulting tensor.
    fn unwind(
        &self,
        best: &[(Count, usize)],
        set: usize,
        pairs: &mut Vec<(usize, usize)>,
    ) -> usize {
        let side = best[set].1;
        if side == 0 {
            return set.trailing_zeros() as usize;
        }
        let left = self.unwind(best, side, pairs);
        let right = self.unwind(best, set ^ side, pairs);
        pairs.push((left, right));
        self.tensors.len() + pairs.len() - 1
    }

    /// Finds an order by repeatedly multiplying the best pair within a window of tensors.
    fn greedy(&self) -> Vec<(usize, usize)> {
        let n_tensors = self.tensors.len();
        // The number of tensors with each label; the output counts as a tensor.
        let mut uses = vec![0_usize; self.sizes.len()];
        uses[..self.n_out].fill(1);
        for &label in self.tensors.iter().flatten() {
            uses[label] += 1;
        }
        // Tensors enter the window in order, as long as it has room.
        let mut waiting = self.tensors.iter().cloned().enumerate();
        let (mut window, mut candidates) = (BTreeMap::new(), Vec::new());
        let mut pairs = Vec::with_capacity(n_tensors);
        loop {
            while window.len() < WINDOW
                && let Some((id, labels)) = waiting.next()
            {
                self.enter(id, labels, &uses, &mut window, &mut candidates);
            }
            let Some(&Candidate { left, right, .. }) = candidates.iter().min() else {
                return pairs;
            };
            // Remove all candidates with one of the two tensors, which are replaced by their
            // product.
            candidates.retain(|c| {
                ![c.left, c.right]
                    .iter()
                    .any(|id| [left, right].contains(id))
            });
            let (Some(a), Some(b)) = (window.remove(&left), window.remove(&right)) else {
                return pairs;
            };
            let product = product(&a, &b, &uses);
            for &label in a.iter().chain(&b) {
                uses[label] -= 1;
            }
            for &label in &product {
                uses[label] += 1;
            }
            let id = n_tensors + pairs.len();
            pairs.push((left, right));
            self.enter(id, product, &uses, &mut window, &mut candidates);
        }
    }

    /// Adds a tensor to the window, with a candidate for each pair of this tensor and a tensor in
    /// the window. A candidate stays valid as long as both of its tensors are in the window,
    /// because other products do not remove labels that one of them needs.
    fn enter(
        &self,
        id: usize,
        labels: BTreeSet<usize>,
        uses: &[usize],
        window: &mut BTreeMap<usize, BTreeSet<usize>>,
        candidates: &mut Vec<Candidate>,
    ) {
        let size = self.count(labels.iter().copied());
        for (&other_id, other) in &*window {
            let product = product(&labels, other, uses);
            let growth = self.count(product.into_iter()).saturating_sub(size);
            candidates.push(Candidate {
                disjoint: labels.is_disjoint(other),
                growth: growth.saturating_sub(self.count(other.iter().copied())),
                left: id.min(other_id),
                right: id.max(other_id),
            });
        }
        window.insert(id, labels);
    }
}

/// Returns the labels of the product of two tensors: those that a third tensor or the output has.
fn product(a: &BTreeSet<usize>, b: &BTreeSet<usize>, uses: &[usize]) -> BTreeSet<usize> {
    let needed = |label: &usize| {
        let own = usize::from(a.contains(label)) + usize::from(b.contains(label));
        uses[*label] > own
    };
    a.union(b).copied().filter(needed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Philox;

    /// Returns the cost that `exact` minimizes: loop iterations plus elements of every product.
    fn cost(network: &Network, pairs: &[(usize, usize)]) -> Count {
        let mut uses = vec![0; network.sizes.len()];
        uses[..network.n_out].fill(1);
        for &label in network.tensors.iter().flatten() {
            uses[label] += 1;
        }
        let mut tensors: Vec<Option<BTreeSet<usize>>> =
            network.tensors.iter().cloned().map(Some).collect();
        let mut total: Count = 0;
        for &(left, right) in pairs {
            let (a, b) = (
                tensors[left].take().unwrap(),
                tensors[right].take().unwrap(),
            );
            let product = product(&a, &b, &uses);
            total += network.count(a.union(&b).copied());
            total += network.count(product.iter().copied());
            a.iter().chain(&b).for_each(|&label| uses[label] -= 1);
            product.iter().for_each(|&label| uses[label] += 1);
            tensors.push(Some(product));
        }
        assert_eq!(
            tensors.iter().flatten().count(),
            1,
            "exactly one tensor remains"
        );
        total
    }

    fn random_network(random: &mut impl FnMut(usize) -> usize, n_tensors: usize) -> Network {
        let (n_labels, n_out) = (n_tensors + 1, random(n_tensors));
        let mut tensors = vec![BTreeSet::new(); n_tensors];
        for label in 0..n_labels {
            let first = random(n_tensors);
            let least = usize::from(label >= n_out);
            for step in 0..=least + random(2) {
                tensors[(first + step) % n_tensors].insert(label);
            }
        }
        Network {
            tensors,
            sizes: (0..n_labels).map(|_| random(6)).collect(),
            n_out,
        }
    }

    /// Returns the least cost of any order, by trying all orders.
    fn least(network: &Network, live: &[usize], pairs: &mut Vec<(usize, usize)>) -> Count {
        if live.len() < 2 {
            return cost(network, pairs);
        }
        let mut best = Count::MAX;
        for (at, &left) in live.iter().enumerate() {
            for &right in &live[at + 1..] {
                let product = network.tensors.len() + pairs.len();
                let others = live
                    .iter()
                    .copied()
                    .filter(|id| ![left, right].contains(id));
                let rest: Vec<usize> = others.chain([product]).collect();
                pairs.push((left, right));
                best = best.min(least(network, &rest, pairs));
                pairs.pop();
            }
        }
        best
    }

    fn generator(seed: u64) -> impl FnMut(usize) -> usize {
        let random = Philox::new(seed);
        let mut at = 0;
        move |below| {
            let mut value = [0.0_f32];
            random.fill_uniform_f32(at, &mut value);
            at += 1;
            (0..below)
                .rev()
                .find(|&i| value[0] * below as f32 >= i as f32)
                .unwrap_or(0)
        }
    }

    #[test]
    fn few_tensors_take_the_cheapest_order_there_is() {
        let mut random = generator(11);
        for case in 0..60 {
            let network = random_network(&mut random, 2 + case % 4);
            let live: Vec<usize> = (0..network.tensors.len()).collect();
            let expected = least(&network, &live, &mut Vec::new());
            assert_eq!(cost(&network, &network.exact()), expected, "{network:?}");
        }
    }

    #[test]
    fn the_greedy_order_is_complete_repeatable_and_no_cheaper_than_the_best() {
        let mut random = generator(12);
        for case in 0..60 {
            let network = random_network(&mut random, 2 + case % (MAX_EXACT - 1));
            let greedy = network.greedy();
            assert_eq!(greedy, network.greedy());
            assert!(cost(&network, &greedy) >= cost(&network, &network.exact()));
            let large = random_network(&mut random, 60 + case);
            assert_eq!(large.greedy().len(), large.tensors.len() - 1);
        }
    }

    #[test]
    fn counts_that_no_integer_holds_still_give_an_order() {
        for n_tensors in [MAX_EXACT, MAX_EXACT + 1, WINDOW + 1] {
            let network = Network {
                tensors: (0..n_tensors).map(|at| (at..at + 40).collect()).collect(),
                sizes: vec![usize::MAX; n_tensors + 40],
                n_out: 7,
            };
            assert_eq!(network.pairs().len(), n_tensors - 1);
        }
    }
}
