//! The nodes behind some tensors, each distinct one once.
//!
//! Method: an iterative walk (programs may be deeper than the stack), operands first. Two nodes that do the same to
//! the same inputs become one, so what is written twice is computed once.

use std::collections::HashMap;

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
}

/// What makes two nodes the same.
type Key<'t> = (&'t Op, &'t [usize], DType, Vec<usize>);

impl<'t> Graph<'t> {
    pub(super) fn of(outputs: &'t [&Tensor]) -> Result<Self> {
        let mut graph = Self {
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let mut places: HashMap<usize, usize> = HashMap::new();
        let mut known: HashMap<Key<'t>, usize> = HashMap::new();
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
                    path.extend(node.inputs.iter().map(|input| (input, false)));
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
        Ok(graph)
    }
}
