//! The nodes behind some tensors, deduplicated (common subexpressions are merged).
//!
//! Method: an iterative walk that visits operands first; it is not recursive because programs may
//! be deeper than the stack. Two nodes with equal operations and inputs become one, so a
//! computation that is written twice runs once. A second walk, readers first, counts how often the
//! elements of each node are read.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::hash::HashMap;
use crate::op::{Binary, Reduce};
use crate::tensor::{Node, Op, Tensor};

/// The distinct nodes of a program, operands first.
pub(super) struct Graph<'t> {
    pub(super) nodes: Vec<&'t Node>,
    /// The numbers of each node's inputs.
    pub(super) inputs: Vec<Vec<usize>>,
    /// The requested nodes, in the order of the request.
    pub(super) outputs: Vec<usize>,
    /// The number of reads of each node.
    pub(super) demands: Vec<Demand>,
    /// For each node, whether a fold over pairs combines each of its elements with many others.
    pub(super) is_paired: Vec<bool>,
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

/// The key of a node: nodes with equal keys are merged.
type Key<'t> = (&'t Op, &'t [usize], DType, Vec<usize>);

/// Returns the inputs that a node is computed from. A surrogate is computed from its first input;
/// the other inputs only define its derivative.
fn computed(node: &Node) -> &[Tensor] {
    match node.op {
        Op::Surrogate => &node.inputs[..1],
        _ => &node.inputs,
    }
}

impl<'t> Graph<'t> {
    pub(super) fn from_outputs(outputs: &'t [&Tensor]) -> Result<Self> {
        let mut graph = Self {
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            demands: Vec::new(),
            is_paired: Vec::new(),
        };
        // `places` maps the address of a visited tensor to its node's number; `known` finds an
        // equal node.
        let mut places: HashMap<usize, usize> = HashMap::default();
        let mut known: HashMap<Key<'t>, usize> = HashMap::default();
        for &output in outputs {
            // A depth-first walk with an explicit stack. Each tensor is pushed a second time with
            // `true`, to be handled after its inputs.
            let mut path = vec![(output, false)];
            while let Some((tensor, inputs_done)) = path.pop() {
                if places.contains_key(&tensor.address()) {
                    continue;
                }
                let node = tensor.node();
                if let Op::Error(error) = &node.op {
                    return Err(Error::clone(error));
                }
                if !inputs_done {
                    path.push((tensor, true));
                    path.extend(computed(node).iter().map(|input| (input, false)));
                    continue;
                }
                if let Op::Surrogate = node.op {
                    // A surrogate is replaced by its first input.
                    places.insert(tensor.address(), places[&node.inputs[0].address()]);
                    continue;
                }
                let inputs: Vec<usize> = node
                    .inputs
                    .iter()
                    .map(|input| places[&input.address()])
                    .collect();
                // Common subexpressions: an equal node that was visited before is reused.
                let key = (&node.op, &node.shape[..], node.dtype, inputs.clone());
                let place = *known.entry(key).or_insert_with(|| {
                    graph.nodes.push(node);
                    graph.inputs.push(inputs);
                    graph.nodes.len() - 1
                });
                places.insert(tensor.address(), place);
            }
            graph.outputs.push(places[&output.address()]);
        }
        graph.demands = graph.demands();
        graph.is_paired = graph.paired();
        Ok(graph)
    }

    /// Returns the number of elements of a node.
    pub(super) fn len(&self, node: usize) -> f64 {
        self.nodes[node].shape.iter().product::<usize>() as f64
    }

    /// Returns `true` if a node only moves elements.
    pub(super) fn is_view(&self, node: usize) -> bool {
        matches!(
            self.nodes[node].op,
            Op::View { .. } | Op::Pad { .. } | Op::Reshape
        )
    }

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
    /// which is repeated along axes of the other. Float products are left out, because a GEMM
    /// library computes its factors while it packs them.
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

    /// Returns the operation on two computed operands from which a node is computed by views and
    /// functions of one operand; a constant is no operand.
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

    /// Computes the number of reads of each node, from the outputs to the inputs.
    fn demands(&self) -> Vec<Demand> {
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
                if self.is_view(node) {
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
