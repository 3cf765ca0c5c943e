//! The nodes behind some tensors, deduplicated (common subexpressions are merged).
//!
//! Method: an iterative walk that visits operands first; it is not recursive because programs may
//! be deeper than the stack. Two nodes with equal operations and inputs become one, so a
//! computation that is written twice runs once.

use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::hash::HashMap;
use crate::storage::Storage;
use crate::tensor::{Node, Op, Tensor};

/// The distinct nodes of a program, operands first.
pub(super) struct Graph<'t> {
    pub(super) nodes: Vec<&'t Node>,
    /// The numbers of each node's inputs.
    pub(super) inputs: Vec<Vec<usize>>,
    /// The requested nodes, in the order of the request.
    pub(super) outputs: Vec<usize>,
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
        Ok(graph)
    }

    /// Returns the data of the arrays in memory, in the order of the nodes.
    pub(super) fn data(&self) -> Vec<Arc<dyn Storage>> {
        let data = self.nodes.iter().filter_map(|node| match &node.op {
            Op::Data(storage) => Some(Arc::clone(storage)),
            _ => None,
        });
        data.collect()
    }

    /// Returns the number of elements of a node.
    pub(super) fn len(&self, node: usize) -> f64 {
        self.nodes[node].shape.iter().product::<usize>() as f64
    }

    /// Returns `true` if a node is an output, or if an output is a view of the node.
    pub(super) fn is_viewed_by_output(&self, node: usize) -> bool {
        self.outputs.iter().any(|&output| {
            let mut source = output;
            while source != node && self.is_view(source) {
                source = self.inputs[source][0];
            }
            source == node
        })
    }

    /// Returns `true` if a node only moves elements.
    pub(super) fn is_view(&self, node: usize) -> bool {
        matches!(
            self.nodes[node].op,
            Op::View { .. } | Op::Pad { .. } | Op::Reshape
        )
    }
}
