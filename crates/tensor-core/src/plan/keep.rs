//! The choice between storing a result in memory and computing it again wherever it is read.
//!
//! Role: the cost rule of `lower`.
//! Method: computing an element again is cheap as long as it costs less than writing and reading
//! the element. The number of evaluations is estimated twice. Before the readers of a node are
//! planned, `reads` provides the views through which they read the node
//! ([`Demand`](super::reads::Demand)): elements that a stencil reads at four places would be
//! computed four times, and sixteen times in the next application of the stencil. The operands of a
//! fold over pairs cost one read for each tile of pairs if they are stored. After the steps exist,
//! the evaluations of each node are counted over all steps, because several steps may compute the
//! same node. Nodes that are found too expensive are stored in the next draft of the plan, until no
//! draft finds more. If the plan has bands, further nodes are stored that only a band would read:
//! these arrays need scratch memory for a few rows at a time, which is cheaper than memory.
//! Limits: costs are in additions of the host executor, where writing an element costs about five
//! additions and allocating its memory about as much (10 in [`MEMORY`]), and reading an element
//! costs one to seven (4 in [`MEMORY`]). Only the graph's estimate covers a node that a single step
//! evaluates through several maps.

use std::collections::BTreeSet;

use super::lower::{Lowered, Lowering, len};
use crate::ir::{Value, ValueId};
use crate::tensor::Op;

/// The cost of reading and writing an element of an array, in additions.
pub(super) struct Rates {
    pub(super) read: f64,
    /// The cost of writing an element and allocating its memory.
    pub(super) write: f64,
}

/// The rates of an array in memory.
pub(super) const MEMORY: Rates = Rates {
    read: 4.0,
    write: 10.0,
};

/// The rates of an array of which only the rows of one piece of a band exist, in a cache.
pub(super) const SCRATCH: Rates = Rates {
    read: 2.0,
    write: 2.0,
};

/// The cost of one element.
#[derive(Clone, Copy, Default)]
pub(super) struct Cost {
    /// The operations, in additions.
    operations: f64,
    /// The number of elements that are loaded.
    loads: f64,
}

impl Lowering<'_> {
    /// Returns the cost of computing one element of an array.
    pub(super) fn cost(&self, lowered: &Lowered) -> Cost {
        let points = len(&lowered.reduce) as f64;
        let mut cost = Cost::default();
        for &id in &*self.arena.reached(lowered.value) {
            let value = self.arena.value(id);
            cost.operations += value.cost() as f64 * points;
            if let Value::Load { .. } | Value::Gather { .. } = value {
                cost.loads += points;
            }
        }
        cost
    }

    /// Returns the nodes that the steps evaluate so often that arrays with these rates would be
    /// cheaper, and the nodes that matrix products need in memory. If the computation of one of
    /// these nodes contains others of these nodes, only the outermost node is returned, because
    /// storing the outermost node removes all evaluations of the others.
    pub(super) fn worth_keeping(&self, rates: &Rates) -> BTreeSet<usize> {
        let expensive = |(&node, &evaluations): (&usize, &f64)| {
            let is_new =
                !self.kept.contains(&node) && !self.is_merged(node) && !self.is_plain(node);
            let is_expensive = self.is_expensive(node, evaluations, self.graph.len(node), rates);
            (is_new && is_expensive).then_some(node)
        };
        let mut expensive: BTreeSet<usize> =
            self.evaluations.iter().filter_map(expensive).collect();
        expensive.extend(self.factors.difference(self.kept));
        let mut outermost = BTreeSet::new();
        // Nodes are numbered operands first, so the largest number is an outermost node.
        while let Some(node) = expensive.pop_last() {
            for inner in self.lowered[node].nodes.keys() {
                expensive.remove(inner);
            }
            outermost.insert(node);
        }
        outermost
    }

    /// Marks the computed nodes that the factors of a product view, so that the next draft stores
    /// these nodes. For example, factors that are overlapping windows have more elements than the
    /// viewed array, so the windows themselves are not stored. If the viewed array is stored, the
    /// windows become plain loads, which a matrix product can use.
    pub(super) fn keep_factors(&mut self, product: &Lowered) {
        let graph = self.graph;
        // A sum over results of a product has no factors of its own.
        let is_sum = |node: &usize| {
            matches!(graph.nodes[*node].op, Op::Reduce { .. })
                && !self.is_merged(graph.inputs[*node][0])
        };
        let terms: Vec<usize> = product.nodes.keys().copied().filter(is_sum).collect();
        let factors = terms
            .iter()
            .flat_map(|&sum| &graph.inputs[graph.inputs[sum][0]]);
        for &factor in factors {
            let mut seen = factor;
            while graph.is_view(seen) {
                seen = graph.inputs[seen][0];
            }
            if seen != factor && product.nodes.contains(seen) && !self.grown[seen] {
                self.factors.insert(seen);
            }
        }
    }

    /// Returns `true` if it is cheaper to store a node than to evaluate its elements `evaluations`
    /// times in total. `fetches` is the number of evaluations that load their inputs again.
    fn is_expensive(&self, node: usize, evaluations: f64, fetches: f64, rates: &Rates) -> bool {
        /// The minimum ratio of the estimated savings to the cost of storing, because the estimate
        /// is rough.
        const MARGIN: f64 = 2.0;
        let (elements, cost) = (self.graph.len(node), self.costs[node]);
        // The first evaluation of each element is always needed; only further ones can be saved.
        let saved = cost.operations * (evaluations - elements)
            + cost.loads * rates.read * (fetches - elements).max(0.0);
        // A fold over pairs loads a stored element once for a tile of pairs.
        let reads = if self.reads.is_paired[node] {
            fetches
        } else {
            evaluations
        };
        let price = rates.write * elements + rates.read * reads;
        // An intermediate array that is larger than all its inputs is never stored, whatever its
        // cost.
        saved > MARGIN * price && !self.grown[node]
    }

    /// Returns `true` if a node is a sum of products, or a view of one, whose terms another sum
    /// adds up. Such a node is not evaluated by itself.
    pub(super) fn is_merged(&self, node: usize) -> bool {
        self.target.merges_sums && self.reads.is_summed[node]
    }

    /// Returns `true` if a node that was just lowered should be stored because views repeat its
    /// elements. Either the repeated evaluation is too expensive, or a reader with one copy of the
    /// computation for each view would exceed the target's cap on values, or the reader is a fold
    /// over pairs and the target's loops for such folds read stored elements.
    pub(super) fn is_read_too_often(&self, node: usize) -> bool {
        let demand = self.reads.demands[node];
        let is_left_out = self.graph.is_view(node) || self.is_plain(node) || self.is_merged(node);
        if is_left_out || demand.reads <= self.graph.len(node) {
            return false;
        }
        let values = self.arena.reached(self.lowered[node].value).len();
        let crowds = demand.views > 1 && demand.views * values > self.target.max_values;
        let is_expensive = self.is_expensive(node, demand.reads, demand.fetches, &MEMORY);
        let is_factor = self.reads.is_paired[node] && !self.target.computes_factors;
        is_expensive || ((crowds || is_factor) && !self.grown[node])
    }

    /// Returns `true` if an array of length `len` is larger than all buffers together from which it
    /// is computed. An array that reads no buffer does not count as larger.
    pub(super) fn outgrows(&self, value: ValueId, len: usize) -> bool {
        let read = self.arena.inputs_of(value);
        let read_len: usize = read.iter().map(|&input| self.buffers[input].len()).sum();
        !read.is_empty() && len > read_len
    }
}
