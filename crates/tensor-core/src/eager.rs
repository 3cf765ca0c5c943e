//! Operations that are computed as they are written.
//!
//! Role: [`Eager`] is the other way to run a program: for debugging (an error shows at the operation that meets it, and every
//! intermediate can be looked at), and for an honest comparison with what fuses.
//! Method: while a scope is open, a new node is computed at once and stands for its result; the operation behind it stays known,
//! so that derivatives work. Views stay views. A matrix product and an [`einsum`](crate::einsum()) are one operation each,
//! and [`grad`](crate::grad()) is computed as one program: written out, their products would be far larger than their results.
//! Accuracy: the bits are those that the same program has on the same executor without a scope, but for sums and products of
//! floats over axes and what depends on them: their order depends on the step that they are part of, and so does their last bit.
//! Memory: every result lives as long as anything that was computed from it, since derivatives may need it; one that needs the
//! result of its own operation (that of `exp`, say) computes it again.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::error::Result;
use crate::exec::Executor;
use crate::tensor::{Op, Tensor};

thread_local! {
    /// The executor of the innermost scope, if operations are to be computed at once.
    static SCOPE: RefCell<Option<Arc<dyn Executor>>> = const { RefCell::new(None) };
    /// Whether a function is being traced, whose tensors have no elements.
    static TRACING: Cell<bool> = const { Cell::new(false) };
}

/// Computes every operation of a scope at once, on one executor.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Eager, Host, Tensor, grad};
/// let host = Host::new();
/// let gradient = Eager::new(host.clone()).run(|| {
///     let x = Tensor::from_array(array![1.0_f32, 2.0, 3.0]);
///     let squares = x.square();
///     assert_eq!(host.live_bytes(), 12); // computed already
///     assert_eq!(squares.to_host::<f32>()?, array![1.0, 4.0, 9.0].into_dyn());
///     let gradients = grad(&squares.sum(..), &[&x])?;
///     gradients[0].to_host::<f32>()
/// })?;
/// assert_eq!(gradient, array![2.0, 4.0, 6.0].into_dyn());
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Eager {
    executor: Arc<dyn Executor>,
}

impl Eager {
    /// Scopes on an executor.
    #[must_use]
    pub fn new(executor: impl Executor + 'static) -> Self {
        Self {
            executor: Arc::new(executor),
        }
    }

    /// Runs `f`, with every operation that it writes on this thread computed at once. In a scope within another the inner
    /// executor counts; what [`jit`](crate::jit()) traces is not computed.
    ///
    /// If `f` itself waits for work of a thread pool, what the thread takes up meanwhile is in the scope too.
    ///
    /// An operation that fails when it is computed gives an error node with its line, as one that is wrong when it is written.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        let _before = Before(SCOPE.replace(Some(Arc::clone(&self.executor))));
        f()
    }
}

/// Ends a scope, or a pause, by going back to what was before; a panic on the way does so too.
pub(crate) struct Before(Option<Arc<dyn Executor>>);

impl Drop for Before {
    fn drop(&mut self) {
        SCOPE.replace(self.0.take());
    }
}

/// Lets the nodes that are made while it lives be lazy.
pub(crate) fn pause() -> Before {
    Before(SCOPE.take())
}

/// Lets all nodes be lazy while it lives, also those in scopes that are opened meanwhile.
pub(crate) fn trace() -> Traced {
    Traced(TRACING.replace(true))
}

/// Whether a function is being traced on this thread.
pub(crate) fn is_tracing() -> bool {
    TRACING.get()
}

/// Ends tracing, by going back to what was before.
pub(crate) struct Traced(bool);

impl Drop for Traced {
    fn drop(&mut self) {
        TRACING.set(self.0);
    }
}

fn scope() -> Option<Arc<dyn Executor>> {
    SCOPE.with_borrow(Option::clone).filter(|_| !TRACING.get())
}

/// A new node: in a scope, its result if the node computes something.
pub(crate) fn made(tensor: Tensor) -> Tensor {
    let computes = match tensor.node().op {
        Op::Error(_)
        | Op::Data(_)
        | Op::Const(_)
        | Op::Index
        | Op::Move { .. }
        | Op::Reshape
        | Op::Surrogate => false,
        Op::Random { .. }
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::Select
        | Op::Cast
        | Op::Pad { .. }
        | Op::Gather { .. }
        | Op::Reduce { .. } => true,
    };
    if computes { finished(tensor) } else { tensor }
}

/// The result of an operation that is made of several nodes; in a scope, computed.
pub(crate) fn finished(tensor: Tensor) -> Tensor {
    let computed = all_finished(vec![tensor.clone()]);
    match computed.map(|mut tensors| tensors.pop()) {
        Ok(Some(tensor)) => tensor,
        Ok(None) => tensor,
        Err(error) => Tensor::on_behalf_of(tensor.node().location, || Tensor::error(error)),
    }
}

/// The results of several tensors; in a scope, computed together. An error that no operation is to blame for has no line yet.
pub(crate) fn all_finished(tensors: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let is_done = |tensor: &Tensor| tensor.storage().is_some() || tensor.check().is_err();
    let Some(executor) = scope().filter(|_| !tensors.iter().all(is_done)) else {
        return Ok(tensors);
    };
    let _paused = pause();
    let asked: Vec<&Tensor> = tensors.iter().collect();
    let data = Tensor::realized(&asked, executor.as_ref())?;
    let results = data.into_iter().zip(tensors);
    Ok(results
        .map(|(data, tensor)| {
            Tensor::on_behalf_of(tensor.node().location, || data.standing_for(tensor.clone()))
        })
        .collect())
}
