//! Gradients by reverse-mode differentiation of programs.
//!
//! Role: [`grad`] transforms a program into another program, which computes its derivatives.
//! Gradients are therefore planned, fused and run like any other tensors, and can be differentiated
//! again.
//! Method: reverse accumulation (Linnainmaa 1970). Starting at the loss, each node receives its
//! cotangent and passes cotangents to its inputs, by the rule of its operation. The rules of scalar
//! operations are in [`crate::op`], those of views and gathers in `tensor/adjoint`. Repeated
//! elements are summed, elements that a view leaves out are padded, and the cotangent of a gather
//! is a scatter, written as a reduction. Cotangents of `f16` are `f32`.

use std::collections::HashMap;
use std::panic::Location;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::tensor::{Op, Tensor, cotangent_type, hook};

/// Returns the gradient of `loss` with respect to each tensor of `wrt`, with the shape and type of
/// that tensor. Nothing is computed.
///
/// `loss` is a float tensor with one element. A tensor of `wrt` may be any node of the program; it
/// is identified by its handle, and clones are handles on the same node. The gradient of a tensor
/// on which the loss does not depend is zero.
///
/// Integers, `bool`s, comparisons and step functions are treated as constants. The documentation of
/// [`op`](crate::op) states the derivatives at corners and ties: 0 for `abs` and
/// [`relu`](Tensor::relu) at 0, one half each for the `maximum` of equal arguments.
/// [`stop_gradient`](Tensor::stop_gradient) and
/// [`with_surrogate_gradient`](Tensor::with_surrogate_gradient) override the rules.
///
/// To obtain the loss and its gradients, compute them together by [`value_and_grad`],
/// [`Tensor::realize_all`] or a function under [`jit`](crate::jit()). Computing them one after the
/// other takes a second forward pass.
///
/// Cost: a small multiple of the operations of `loss`. For a [`gather`](Tensor::gather) the cost is
/// that of a [`scatter_add`](Tensor::scatter_add): on the host one pass over the elements, on other
/// devices one comparison for each pair of an index and a position.
///
/// # Errors
/// [`Error::NotAScalar`] if the loss does not have exactly one element;
/// [`Error::NotDifferentiable`] if the loss or a tensor of `wrt` does not have a float type; any
/// error of building these tensors.
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
    let caller = Location::caller();
    for tensor in [loss].iter().chain(wrt) {
        let dtype = tensor.dtype()?;
        if !is_continuous(dtype) {
            let operation = "grad";
            return Err(Error::NotDifferentiable { operation, dtype }.at(caller));
        }
    }
    let shape = loss.shape()?;
    if shape.iter().product::<usize>() != 1 {
        let (operation, shape) = ("grad", shape.to_vec());
        return Err(Error::NotAScalar { operation, shape }.at(caller));
    }
    let lazily = hook::pause();
    // Visit the nodes from the loss to the inputs. A node is visited after all of its uses, so its
    // cotangent is complete by then.
    let start = loss.like(1.0).cast(cotangent_type(loss.node().dtype));
    let mut cotangents = HashMap::from([(loss.address(), start)]);
    let nodes = between(wrt, loss);
    for tensor in nodes.iter().rev() {
        let Some(cotangent) = cotangents.get(&tensor.address()).cloned() else {
            continue;
        };
        // Every node in the list depends on a tensor of `wrt`, so an error in its cotangent would
        // be an error in that gradient.
        cotangent.check()?;
        let is_inner = |view: &Tensor| nodes.n_uses(view) == 1;
        for (input, share) in tensor.input_cotangents(&cotangent, is_inner) {
            if is_continuous(input.node().dtype) && nodes.contains(input) {
                let total = match cotangents.remove(&input.address()) {
                    Some(sum) => {
                        #[cfg(test)]
                        let share = crate::tensor::fault::share(share);
                        Tensor::with_line(input.node().location, || sum + share)
                    }
                    None => share,
                };
                cotangents.insert(input.address(), total);
            }
        }
    }
    let gradient = |tensor: &&Tensor| {
        let gradient = Tensor::with_line(caller, || match cotangents.get(&tensor.address()) {
            Some(found) => found.cast(tensor.node().dtype),
            None => tensor.like(0.0),
        });
        gradient.shape().map(drop)?;
        Ok(gradient)
    };
    let gradients: Result<Vec<Tensor>> = wrt.iter().map(gradient).collect();
    drop(lazily);
    hook::after_operations(gradients?).map_err(|error| error.at(caller))
}

/// Computes a loss and its gradients together, and their common parts once.
///
/// Returns the loss and the gradients, in the memory of the executor. Evaluating a loss and the
/// tensors of [`grad()`] one after the other computes the forward pass twice.
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

/// Returns whether derivatives are propagated through a type: floats, and `f16` because conversions
/// to and from it are differentiable.
fn is_continuous(dtype: DType) -> bool {
    dtype.is_float() || dtype == DType::F16
}

/// The nodes on the paths from some tensors to another one, inputs first.
#[derive(Default)]
struct Nodes<'t> {
    order: Vec<&'t Tensor>,
    /// For each visited node, whether it depends on one of the start tensors.
    depends: HashMap<usize, bool>,
    /// The number of times that a node is an operand, plus 1 for a start tensor.
    uses: HashMap<usize, usize>,
}

impl<'t> Nodes<'t> {
    fn contains(&self, tensor: &Tensor) -> bool {
        self.depends.get(&tensor.address()) == Some(&true)
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &&'t Tensor> {
        self.order.iter()
    }

    fn n_uses(&self, tensor: &Tensor) -> usize {
        self.uses.get(&tensor.address()).copied().unwrap_or(0)
    }
}

/// Returns the nodes on the paths from `from` to `to`. The depth-first search uses an explicit
/// stack, because a program may be too deep for recursion.
fn between<'t>(from: &[&'t Tensor], to: &'t Tensor) -> Nodes<'t> {
    let mut nodes = Nodes::default();
    let mut path = vec![(to, false)];
    while let Some((tensor, inputs_done)) = path.pop() {
        if nodes.depends.contains_key(&tensor.address()) {
            continue;
        }
        // A node is pushed twice: first to push its inputs, then to evaluate it once they are done.
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
            for used in inputs.iter().chain(is_one.then_some(tensor)) {
                *nodes.uses.entry(used.address()).or_default() += 1;
            }
        }
    }
    nodes
}

impl Tensor {
    /// Returns the inputs with respect to which the node has derivatives.
    fn differentiated_inputs(&self) -> &[Self] {
        let node = self.node();
        match node.op {
            Op::Surrogate => &node.inputs[1..],
            _ => &node.inputs,
        }
    }
}
