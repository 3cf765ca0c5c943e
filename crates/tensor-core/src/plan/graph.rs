//! The nodes behind some tensors, each distinct one once.
//!
//! Method: an iterative walk (programs may be deeper than the stack), operands first. Two nodes that do the same to
//! the same inputs become one, so what is written twice is computed once. A second walk, readers first, counts how often
//! the elements of each node will be wanted.

use super::HashMap;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{Node, Op, Tensor};

/// The distinct nodes of a program, operands first.
pub(super) struct Graph<'t> {
    pub(super) nodes: Vec<&'t Node>,
    /// The inputs of each node.
    pub(super) inputs: Vec<Vec<usize>>,
    /// The nodes asked for, in the order asked.
    pub(super) outputs: Vec<usize>,
    /// How each node is read.
    pub(super) demands: Vec<Demand>,
}

/// How a node is read, if none of its readers is computed twice: by operations, directly and through views of it.
///
/// What reads through one view counts once, since it can share what it reads; what reads through several does not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Demand {
    /// Elements that are read. A view that repeats some counts each time, one that skips some counts what it takes.
    pub(super) reads: f64,
    /// The same, but what a broadcast repeats counts once: it is at hand.
    pub(super) fetches: f64,
    /// Views through which operations read, the node itself included.
    pub(super) views: usize,
}

/// What makes two nodes the same.
type Key<'t> = (&'t Op, &'t [usize], DType, Vec<usize>);

/// The inputs that a node is computed from: a surrogate is there for derivatives alone.
fn computed(node: &Node) -> &[Tensor] {
    match node.op {
        Op::Surrogate => &node.inputs[..1],
        _ => &node.inputs,
    }
}

impl<'t> Graph<'t> {
    pub(super) fn of(outputs: &'t [&Tensor]) -> Result<Self> {
        let mut graph = Self {
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            demands: Vec::new(),
        };
        let mut places: HashMap<usize, usize> = HashMap::default();
        let mut known: HashMap<Key<'t>, usize> = HashMap::default();
        for &output in outputs {
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
                    places.insert(tensor.address(), places[&node.inputs[0].address()]);
                    continue;
                }
                let inputs: Vec<usize> = node
                    .inputs
                    .iter()
                    .map(|input| places[&input.address()])
                    .collect();
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
        Ok(graph)
    }

    /// The number of elements of a node.
    pub(super) fn len(&self, node: usize) -> f64 {
        self.nodes[node].shape.iter().product::<usize>() as f64
    }

    /// Whether a node only moves elements.
    pub(super) fn is_view(&self, node: usize) -> bool {
        matches!(
            self.nodes[node].op,
            Op::Move { .. } | Op::Pad { .. } | Op::Reshape
        )
    }

    /// The share of the elements of a view that is left without what only a broadcast repeats.
    fn distinct_share(&self, view: usize) -> f64 {
        let Op::Move { rows, .. } = &self.nodes[view].op else {
            return 1.0;
        };
        let is_repeated = |axis: usize| rows.iter().all(|row| row.stride(axis) == 0);
        let sizes = self.nodes[view].shape.iter().enumerate();
        let repeats = sizes.filter(|&(axis, &size)| size > 1 && is_repeated(axis));
        repeats.map(|(_, &size)| 1.0 / size as f64).product()
    }

    fn demands(&self) -> Vec<Demand> {
        let mut demands = vec![Demand::default(); self.nodes.len()];
        // What operations read of each node as it is.
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
                    let folded = (self.len(input) / self.len(node).max(1.0)).max(1.0);
                    direct[input] += self.len(node).min(demand.reads) * folded;
                }
            }
        }
        demands
    }
}
