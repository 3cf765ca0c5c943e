//! Gradients, from graph to graph.
//!
//! Role: [`grad`] makes of a program another one, which computes its derivatives; so gradients are planned, fused and run
//! like anything else, and have gradients themselves.
//! Method: reverse accumulation (Linnainmaa 1970). From the loss backwards, each node hands on to its inputs what it was
//! handed, its cotangent, by the rule of its operation: those of scalar operations stand in [`crate::op`], those of views and
//! gathers in `tensor/adjoint`. Nothing scatters: what a view repeats is summed, what it leaves out is padded.

use std::collections::HashMap;
use std::panic::Location;

use crate::dtype::DType;
use crate::eager;
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::tensor::{Op, Tensor};

#[cfg(test)]
pub(crate) mod fault;

/// The gradient of `loss` with respect to each tensor of `wrt`, in their shapes and types.
///
/// `loss` is a float tensor with one element. A tensor of `wrt` may stand anywhere in the program; it is told by its
/// handle, of which clones are the same. One that the loss does not depend on has zeros. Nothing is computed.
///
/// What flows through integers and `bool`s, comparisons and steps is constant. At corners and ties the docs of
/// [`op`](crate::op) say what is taken: 0 for `abs` and [`relu`](Tensor::relu) at 0, halves for `maximum` of equals.
/// [`stop_gradient`](Tensor::stop_gradient) and [`with_gradient_of`](Tensor::with_gradient_of) change the rules.
///
/// A step that needs the loss and its gradients computes them together, by [`value_and_grad`],
/// [`Tensor::realize_all`] or a function under [`jit`](crate::jit()); one after the other they take
/// a second forward pass.
///
/// Cost: a small multiple of the operations of `loss`; for a [`gather`](Tensor::gather), one comparison for each pair of an
/// index and a place in the table.
///
/// # Errors
/// [`Error::NotAScalar`] if the loss has not exactly one element; [`Error::NotDifferentiable`] if it or one of `wrt` is not
/// of a float type; whatever went wrong while they were built.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, Tensor, grad};
/// let host = Host::new();
/// let w = Tensor::from_array(array![1.0_f64, 2.0, 3.0]);
/// let loss = (w.square() * 0.5 + w.exp()).sum(..);
/// let gradient = &grad(&loss, &[&w])?[0];
/// let expected = (&w + w.exp()).eval::<f64>(&host)?;
/// assert_eq!(gradient.eval::<f64>(&host)?, expected);
///
/// // A gradient is a program: here the diagonal of the second derivative.
/// let second = &grad(&gradient.sum(..), &[&w])?[0];
/// assert_eq!(second.eval::<f64>(&host)?, (w.exp() + 1.0).eval::<f64>(&host)?);
/// # Ok::<(), tensor_core::Error>(())
/// ```
///
/// # Source
/// Linnainmaa 1970; Griewank and Walther 2008, "Evaluating Derivatives", 2nd edition.
#[track_caller]
pub fn grad(loss: &Tensor, wrt: &[&Tensor]) -> Result<Vec<Tensor>> {
    for tensor in [loss].iter().chain(wrt) {
        let dtype = tensor.dtype()?;
        if !is_continuous(dtype) {
            return Err(Error::NotDifferentiable { op: "grad", dtype });
        }
    }
    let caller = Location::caller();
    let shape = loss.shape()?;
    if shape.iter().product::<usize>() != 1 {
        return Err(Error::NotAScalar {
            op: "grad",
            shape: shape.to_vec(),
        });
    }
    let lazily = eager::pause();
    let mut cotangents = HashMap::from([(loss.address(), loss.like(1.0))]);
    let nodes = between(wrt, loss);
    for tensor in nodes.iter().rev() {
        let Some(cotangent) = cotangents.get(&tensor.address()).cloned() else {
            continue;
        };
        // Each node here leads to one of `wrt`, whose gradient would be this error.
        cotangent.check()?;
        let inputs = &tensor.node().inputs;
        for (input, share) in inputs.iter().zip(tensor.handed_on(&cotangent)) {
            let is_wanted = is_continuous(input.node().dtype) && nodes.contains(input);
            if let (Some(share), true) = (share, is_wanted) {
                let total = match cotangents.remove(&input.address()) {
                    Some(sum) => {
                        #[cfg(test)]
                        let share = fault::share(share);
                        Tensor::on_behalf_of(input.node().location, || sum + share)
                    }
                    None => share,
                };
                cotangents.insert(input.address(), total);
            }
        }
    }
    let gradient = |tensor: &&Tensor| {
        let zeros = || tensor.like(0.0);
        let found = cotangents.get(&tensor.address());
        let gradient = found.cloned().unwrap_or_else(zeros);
        gradient.shape().map(drop)?;
        Ok(gradient)
    };
    let gradients: Result<Vec<Tensor>> = wrt.iter().map(gradient).collect();
    drop(lazily);
    eager::all_finished(gradients?).map_err(|error| error.at(caller))
}

/// Computes a loss and its gradients together, so that the parts that they share are computed once.
///
/// Returns the loss and the gradients, in memory, where the executor has them. Evaluating a loss
/// and the tensors of [`grad()`] one after the other computes the forward pass twice.
///
/// # Errors
/// As [`grad()`] and [`Tensor::eval`].
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, Tensor, value_and_grad};
/// let host = Host::new();
/// let w = Tensor::from_array(array![1.0_f32, 2.0]);
/// let (loss, gradients) = value_and_grad(&w.square().sum(..), &[&w], &host)?;
/// assert_eq!(loss.item::<f32>(&host)?, 5.0);
/// assert_eq!(gradients[0].to_host::<f32>()?, array![2.0, 4.0].into_dyn());
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[track_caller]
pub fn value_and_grad(
    loss: &Tensor,
    wrt: &[&Tensor],
    executor: &dyn Executor,
) -> Result<(Tensor, Vec<Tensor>)> {
    let gradients = grad(loss, wrt)?;
    let all: Vec<&Tensor> = [loss].into_iter().chain(&gradients).collect();
    let mut realized = Tensor::realize_all(&all, executor)?;
    let loss = realized.remove(0);
    Ok((loss, realized))
}

/// Whether a type holds numbers that derivatives flow through; `f16` does so where it is converted.
fn is_continuous(dtype: DType) -> bool {
    dtype.is_float() || dtype == DType::F16
}

/// The nodes on the ways from some tensors to another, inputs first.
#[derive(Default)]
struct Nodes<'t> {
    order: Vec<&'t Tensor>,
    /// For each node seen whether it depends on one of those tensors.
    depends: HashMap<usize, bool>,
}

impl<'t> Nodes<'t> {
    fn contains(&self, tensor: &Tensor) -> bool {
        self.depends.get(&tensor.address()) == Some(&true)
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &&'t Tensor> {
        self.order.iter()
    }
}

/// Walks without recursion: programs may be deeper than the stack.
fn between<'t>(from: &[&'t Tensor], to: &'t Tensor) -> Nodes<'t> {
    let mut nodes = Nodes::default();
    let mut path = vec![(to, false)];
    while let Some((tensor, inputs_done)) = path.pop() {
        if nodes.depends.contains_key(&tensor.address()) {
            continue;
        }
        let inputs = tensor.differentiated_inputs();
        if !inputs_done {
            path.push((tensor, true));
            path.extend(inputs.iter().map(|input| (input, false)));
            continue;
        }
        let is_one = from.iter().any(|one| one.address() == tensor.address());
        let depends = is_one || inputs.iter().any(|input| nodes.contains(input));
        nodes.depends.insert(tensor.address(), depends);
        if depends {
            nodes.order.push(tensor);
        }
    }
    nodes
}

impl Tensor {
    /// The inputs that derivatives may flow to.
    fn differentiated_inputs(&self) -> &[Self] {
        let node = self.node();
        match node.op {
            Op::Surrogate => &node.inputs[1..],
            _ => &node.inputs,
        }
    }
}
