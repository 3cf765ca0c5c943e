//! The reads of each node, estimated before the steps of a plan exist.
//!
//! Method: a walk over the graph, readers first, counts how often the elements of each node are
//! read, directly and through views.

use super::graph::Graph;
use super::keep::MEMORY;
use crate::dtype::Scalar;
use crate::ir::IndexMap;
use crate::op::{Binary, Reduce};
use crate::tensor::Op;
use crate::view::reshaped_strides;

/// The reads of all nodes of a graph.
pub(super) struct Reads {
    /// The number of reads of each node.
    pub(super) demands: Vec<Demand>,
    /// For each node, whether a fold over pairs combines each of its elements with many others.
    pub(super) is_paired: Vec<bool>,
    /// For each sum of products, and for its views, `true` if another sum is the only reader and
    /// should add up all terms itself.
    pub(super) is_summed: Vec<bool>,
}

/// The reads of a node by operations, directly and through views, under the assumption that no
/// reader is computed twice.
///
/// All readers through one view count once, because they can share the loaded elements. Readers
/// through several views count once for each view.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Demand {
    /// The number of elements that are read. A view that repeats elements counts each repetition; a
    /// view that skips elements counts only the elements that it takes.
    pub(super) reads: f64,
    /// The number of elements that are read, but with repetitions by a broadcast counted once,
    /// because a repeated element is still in a register.
    pub(super) fetches: f64,
    /// The number of views through which operations read; direct reads count as one more view.
    pub(super) views: usize,
}

impl Reads {
    /// Counts the reads of all nodes.
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        Self {
            demands: graph.demands(),
            is_paired: graph.paired(),
            is_summed: graph.summed(),
        }
    }
}

impl Graph<'_> {
    /// Returns the share of a view's elements that is left if each repetition by a broadcast counts
    /// once.
    fn distinct_share(&self, view: usize) -> f64 {
        let Op::View { rows, .. } = &self.nodes[view].op else {
            return 1.0;
        };
        // An axis is repeated if no row of the view depends on it.
        let is_repeated = |axis: usize| rows.iter().all(|row| row.stride(axis) == 0);
        let sizes = self.nodes[view].shape.iter().enumerate();
        let repeats = sizes.filter(|&(axis, &size)| size > 1 && is_repeated(axis));
        repeats.map(|(_, &size)| 1.0 / size as f64).product()
    }

    /// Finds the nodes that folds over pairs read: folds of a function of two operands, each of
    /// which is repeated along axes of the other. Float products are left out, because `emit`
    /// decides whether their factors are stored.
    fn paired(&self) -> Vec<bool> {
        let mut is_paired = vec![false; self.nodes.len()];
        for (node, &reduction) in self.nodes.iter().enumerate() {
            let Op::Reduce { op, .. } = &reduction.op else {
                continue;
            };
            let Some(function) = self.function_of_two(self.inputs[node][0]) else {
                continue;
            };
            let is_product = *op == Reduce::Sum
                && self.nodes[function].op == Op::Binary(Binary::Mul)
                && self.nodes[function].dtype.is_float();
            let operands = self.inputs[function].iter();
            let sources: Vec<(usize, f64)> = operands.map(|&input| self.viewed(input)).collect();
            if !is_product && sources.iter().all(|&(_, share)| share < 1.0) {
                for (source, _) in sources {
                    is_paired[source] = true;
                }
            }
        }
        is_paired
    }

    /// Finds the sums of products that are read by another sum alone, and the views between both,
    /// if adding up all terms in the other sum costs less.
    fn summed(&self) -> Vec<bool> {
        /// The cost of a term of a product, in additions; a tile adds many terms at a time.
        const TERM: f64 = 0.125;
        let mut n_readers = vec![0; self.nodes.len()];
        let read = self.inputs.iter().flatten().chain(&self.outputs);
        read.for_each(|&node| n_readers[node] += 1);
        let mut is_summed = vec![false; self.nodes.len()];
        // The number of terms of each result of a sum of products; 0 for other nodes.
        let mut n_terms = vec![0.0; self.nodes.len()];
        for (node, outer) in self.nodes.iter().enumerate() {
            let Op::Reduce {
                op: Reduce::Sum, ..
            } = outer.op
            else {
                continue;
            };
            if !outer.dtype.is_float() {
                continue;
            }
            let input = self.inputs[node][0];
            let n_folded = self.len(input) / self.len(node).max(1.0);
            let (source, _) = self.viewed(input);
            if self.nodes[source].op == Op::Binary(Binary::Mul) {
                n_terms[node] = n_folded;
                continue;
            }
            let mut views = vec![input];
            while self.is_view(views[views.len() - 1]) {
                views.push(self.inputs[views[views.len() - 1]][0]);
            }
            let is_free = |&view: &usize| {
                let pads = match &self.nodes[view].op {
                    Op::Pad { fill, .. } => *fill == Scalar::zero(fill.dtype()),
                    _ => true,
                };
                n_readers[view] == 1 && pads
            };
            if n_terms[source] == 0.0 || !views.iter().all(is_free) {
                continue;
            }
            // Tiles leave out the terms of padding.
            let merged = self.real_len(source, &views) * n_terms[source] * TERM;
            let apart = self.len(source) * (n_terms[source] * TERM + MEMORY.write)
                + self.len(input) * MEMORY.read;
            if merged <= apart {
                n_terms[node] = n_folded * n_terms[source];
                for view in views {
                    is_summed[view] = true;
                }
            }
        }
        is_summed
    }

    /// Returns an estimate of the number of elements that are not padding in a view of a node.
    /// `views` are the views, the outermost first; the last is the node.
    fn real_len(&self, node: usize, views: &[usize]) -> f64 {
        views.iter().rev().fold(self.len(node), |len, &view| {
            let repeats = match self.nodes[view].op {
                Op::View { .. } => self.len(view) / self.len(self.inputs[view][0]).max(1.0),
                _ => 1.0,
            };
            (len * repeats.max(1.0)).min(self.len(view))
        })
    }

    /// Returns the operation on two computed operands from which a node is computed by views and
    /// functions of one operand; constants do not count.
    fn function_of_two(&self, mut node: usize) -> Option<usize> {
        loop {
            let inputs = &self.inputs[node];
            node = match self.nodes[node].op {
                Op::Unary(_) | Op::Cast | Op::View { .. } | Op::Reshape => inputs[0],
                Op::Binary(_) | Op::Compare(_) => {
                    let is_constant = |&input: &usize| {
                        matches!(self.nodes[self.viewed(input).0].op, Op::Const(_))
                    };
                    match inputs.iter().position(is_constant) {
                        Some(constant) => inputs[1 - constant],
                        None => return Some(node),
                    }
                }
                _ => return None,
            };
        }
    }

    /// Returns the node that a node reads through views, and the share of elements that is left if
    /// each repetition by a broadcast counts once.
    fn viewed(&self, mut node: usize) -> (usize, f64) {
        let mut share = 1.0;
        while self.is_view(node) {
            share *= self.distinct_share(node);
            node = self.inputs[node][0];
        }
        (node, share)
    }

    /// Finds the reshapes that have to copy the array that they view, because strides cannot
    /// express their result.
    fn copies(&self) -> Vec<bool> {
        let mut is_copy = vec![false; self.nodes.len()];
        // The position of each element of a node in the array that the node views.
        let mut maps: Vec<IndexMap> = Vec::with_capacity(self.nodes.len());
        for (node, viewed) in self.nodes.iter().enumerate() {
            let of_input = |place: usize| &maps[self.inputs[node][place]];
            let map = match &viewed.op {
                Op::View { rows, .. } => Some(of_input(0).through_view(rows, viewed.shape.len())),
                // Padding leaves the distances of the elements as they are.
                Op::Pad { .. } => Some(of_input(0).clone()),
                Op::Reshape => {
                    let from = &self.nodes[self.inputs[node][0]].shape;
                    let strides = reshaped_strides(from, &of_input(0).strides, &viewed.shape);
                    is_copy[node] = strides.is_none();
                    let offset = of_input(0).offset;
                    strides.map(|strides| IndexMap { offset, strides })
                }
                _ => None,
            };
            maps.push(map.unwrap_or_else(|| IndexMap::in_order(&viewed.shape)));
        }
        is_copy
    }

    /// Computes the number of reads of each node, from the outputs to the inputs.
    fn demands(&self) -> Vec<Demand> {
        let is_copy = self.copies();
        let mut demands = vec![Demand::default(); self.nodes.len()];
        // The number of elements of each node that operations read without a view.
        let mut direct = vec![0.0; self.nodes.len()];
        for &output in &self.outputs {
            direct[output] = self.len(output);
        }
        for node in (0..self.nodes.len()).rev() {
            if direct[node] > 0.0 {
                let reads = self.len(node).min(direct[node]);
                demands[node].reads += reads;
                demands[node].fetches += reads;
                demands[node].views += 1;
            }
            let demand = demands[node];
            for &input in &self.inputs[node] {
                if is_copy[node] {
                    direct[input] += self.len(input);
                } else if self.is_view(node) {
                    demands[input].reads += demand.reads;
                    demands[input].fetches += demand.fetches * self.distinct_share(node);
                    demands[input].views += demand.views;
                } else {
                    // An operation reads as many elements as are demanded of it; a reduction reads
                    // `folded` input elements for each.
                    let folded = (self.len(input) / self.len(node).max(1.0)).max(1.0);
                    direct[input] += self.len(node).min(demand.reads) * folded;
                }
            }
        }
        demands
    }
}
