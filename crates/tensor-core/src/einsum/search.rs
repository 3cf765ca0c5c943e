//! The order in which the tensors of a contraction are multiplied.
//!
//! Method: with few tensors dynamic programming over their subsets, since the labels that are left
//! of a subset do not depend on the order within it; with more, greedily the pair whose product frees
//! the most elements, the cost of `opt_einsum`'s greedy path. Counts are integers that saturate, and
//! ties go to the pair named first, so the order depends on the labels and sizes alone. The crate
//! `opt-einsum-path` 0.2 was measured and left out: 15 more dependencies, costs in f64 that become NaN
//! for huge sizes (and then an empty path), and 14 s for 2000 tensors of which many share a label.
//! Source: Pfeifer, Haegeman and Verstraete 2014, "Faster identification of optimal contraction
//! sequences for tensor networks"; Smith and Gray 2018, "`opt_einsum`".
//! Limits: the greedy order looks at [`WINDOW`] tensors at a time, so that time grows linearly with
//! their number; it is rarely the best order, never a wrong one.

use std::collections::{BTreeMap, BTreeSet};

/// The most tensors for which every order is considered; that takes about `3^n` steps.
const MAX_EXACT: usize = 8;

/// How many tensors the greedy order chooses a pair from.
const WINDOW: usize = 64;

/// A number of elements or of loop iterations, or a difference of such.
type Count = i128;

/// Which tensor has which labels; labels are numbered, those of the output first.
#[derive(Debug, Clone)]
pub(super) struct Network {
    /// The labels of each tensor, from `0..sizes.len()`. Each label is in two tensors or the output.
    pub(super) tensors: Vec<BTreeSet<usize>>,
    pub(super) sizes: Vec<usize>,
    /// How many labels are in the output.
    pub(super) n_out: usize,
}

/// Two tensors that the greedy order may multiply next; the smallest is chosen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Whether they share no label: an outer product can nearly always wait.
    disjoint: bool,
    /// The elements of the product less those of both tensors.
    growth: Count,
    left: usize,
    right: usize,
}

impl Network {
    /// The pairs to multiply, in order; tensor `tensors.len() + i` is the product of pair `i`.
    pub(super) fn pairs(&self) -> Vec<(usize, usize)> {
        if self.tensors.len() <= MAX_EXACT {
            self.exact()
        } else {
            self.greedy()
        }
    }

    /// The product of the sizes of some labels. A zero counts as one: it tells nothing of the others.
    fn count(&self, labels: impl Iterator<Item = usize>) -> Count {
        let sizes = labels.map(|label| self.sizes[label].max(1) as Count);
        sizes.fold(1, Count::saturating_mul)
    }

    fn exact(&self) -> Vec<(usize, usize)> {
        let n_labels = self.sizes.len();
        let mut holders = vec![0_usize; n_labels];
        for (at, labels) in self.tensors.iter().enumerate() {
            labels.iter().for_each(|&label| holders[label] |= 1 << at);
        }
        // Tensors are bits of a set. What is left of a set has the labels still needed outside.
        let has = |set: usize, label: usize| {
            let held = holders[label];
            held & set != 0 && (label < self.n_out || held & !set != 0)
        };
        let everything = (1_usize << self.tensors.len()) - 1;
        // For each set the least cost and the part of it that is one side of its last product.
        let mut best = vec![(0, 0); everything + 1];
        for set in (1..=everything).filter(|set| !set.is_power_of_two()) {
            let (mut least, mut side) = (Count::MAX, 0);
            let mut part = (set - 1) & set;
            while part > 0 {
                let rest = set ^ part;
                // Each split once, the side with the first tensor on the left.
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

    /// Writes down the products that make a set, and gives the number of the last one.
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

    fn greedy(&self) -> Vec<(usize, usize)> {
        let n_tensors = self.tensors.len();
        // How many tensors have a label; the output counts as one of them.
        let mut uses = vec![0_usize; self.sizes.len()];
        uses[..self.n_out].fill(1);
        for &label in self.tensors.iter().flatten() {
            uses[label] += 1;
        }
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

    /// Lets a tensor into the window, beside a candidate with each tensor there. The candidates stay
    /// right while both of theirs are there: other products take no label that one of them needs.
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

/// The labels of the product of two tensors: those that a third one or the output has.
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

    /// The cost that `exact` minimises: loop iterations, and elements of every product.
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
        assert_eq!(tensors.iter().flatten().count(), 1, "one tensor is left");
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

    /// The least cost of any order, by trying all of them.
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
