//! What is computed once and kept in memory, and what is computed again wherever it is read.
//!
//! Role: the cost rule of `lower`. Method: computing an element again is cheap as long as it saves writing and reading it.
//! How often that would happen is asked twice. Before the readers of a node are planned, the graph tells through which
//! views they read it ([`Demand`](super::graph::Demand)): what a stencil reads at four places would be computed four times,
//! and sixteen times in the next round of the stencil. Once there are steps, it is counted how often they evaluate each
//! node: several may compute the same. What is found then is kept in the next draft of the plan, until nothing is.
//! Limits: costs are in additions of the host executor, where an element costs about five of them to write and one to
//! seven to read. What a step evaluates through several maps at once is counted by the graph alone.

use std::collections::BTreeSet;

use super::lower::{Draft, Lowered, len};
use crate::ir::{Value, ValueId};
use crate::tensor::Op;

/// Reading an element of an array in memory, in additions.
const READ: f64 = 4.0;

/// What is spent on one element, in additions.
#[derive(Clone, Copy, Default)]
pub(super) struct Cost {
    operations: f64,
    reads: f64,
}

impl Draft<'_> {
    /// What one element of an array costs to compute.
    pub(super) fn cost(&self, lowered: &Lowered) -> Cost {
        let points = len(&lowered.reduce) as f64;
        let mut cost = Cost::default();
        for &id in &*self.arena.reached(lowered.value) {
            let value = self.arena.value(id);
            cost.operations += value.cost() as f64 * points;
            if let Value::Load { .. } | Value::Gather { .. } = value {
                cost.reads += READ * points;
            }
        }
        cost
    }

    /// Nodes that the steps evaluate so often that memory would have been cheaper, and those that matrix products wait for:
    /// of those of one computation the outermost, since with it in memory nothing within it is evaluated again.
    pub(super) fn worth_keeping(&self) -> BTreeSet<usize> {
        let dear = |(&node, &evaluations): (&usize, &f64)| {
            let is_new = !self.kept.contains(&node);
            let is_dear = self.is_dear(node, evaluations, self.graph.len(node));
            (is_new && is_dear).then_some(node)
        };
        let mut dear: BTreeSet<usize> = self.evaluations.iter().filter_map(dear).collect();
        dear.extend(self.factors.difference(self.kept));
        let mut outermost = BTreeSet::new();
        while let Some(node) = dear.pop_last() {
            for inner in self.lowered[node].nodes.keys() {
                dear.remove(inner);
            }
            outermost.insert(node);
        }
        outermost
    }

    /// Notes what the factors of a product are views of, and compute. Windows that overlap are larger than what they see, so
    /// their elements go into no memory; but with what they see in memory they are plain reads, as a product wants them.
    pub(super) fn keep_factors(&mut self, product: &Lowered) {
        let graph = self.graph;
        let is_sum = |node: &usize| matches!(graph.nodes[*node].op, Op::Reduce { .. });
        let terms = product.nodes.keys().copied().filter(is_sum);
        let factors = terms.flat_map(|sum| &graph.inputs[graph.inputs[sum][0]]);
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

    /// Whether a node is better kept in memory than evaluated so often, with so many fetches of what it reads.
    fn is_dear(&self, node: usize, evaluations: f64, fetches: f64) -> bool {
        /// Writing an element and finding room for it, in additions.
        const WRITE: f64 = 10.0;
        /// How much cheaper memory must look, the estimate being what it is.
        const MARGIN: f64 = 2.0;
        let (elements, cost) = (self.graph.len(node), self.costs[node]);
        let saved =
            cost.operations * (evaluations - elements) + cost.reads * (fetches - elements).max(0.0);
        let price = WRITE * elements + READ * evaluations;
        // An array that only appears on the way stays out of memory at any price.
        saved > MARGIN * price && !self.grown[node]
    }

    /// Whether a node just lowered is read through views that repeat it: more often than is cheap, or more often than
    /// its readers could hold its computation.
    pub(super) fn is_read_too_often(&self, node: usize) -> bool {
        let demand = self.graph.demands[node];
        if self.graph.is_view(node) || self.is_plain(node) || demand.reads <= self.graph.len(node) {
            return false;
        }
        let values = self.arena.reached(self.lowered[node].value).len();
        let crowds = demand.views > 1 && demand.views * values > self.target.max_values;
        let is_dear = self.is_dear(node, demand.reads, demand.fetches);
        is_dear || (crowds && !self.grown[node])
    }

    /// Whether an array is larger than all the buffers that it is computed from; one that reads none is not.
    pub(super) fn outgrows(&self, value: ValueId, len: usize) -> bool {
        let read = self.arena.inputs_of(value);
        let read_len: usize = read.iter().map(|&input| self.buffers[input].len()).sum();
        !read.is_empty() && len > read_len
    }
}
