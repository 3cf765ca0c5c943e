//! Eager evaluation: operations that are computed immediately.
//!
//! Role: [`Eager`] is an alternative to lazy evaluation: for debugging, because an error appears at
//! its operation and every intermediate result can be inspected, and as a baseline for measuring
//! the benefit of fusion.
//! Method: inside a scope a new node is computed immediately and replaced by its result. The result
//! keeps a reference to the operation, so that derivatives work. Views stay views. A matrix product
//! and an [`einsum`](crate::einsum()) are computed as one operation each, and a call of
//! [`grad`](crate::grad()) as one program, because their intermediate products would be far larger
//! than their results.
//! Accuracy: the results have the same bits as those of the same program on the same executor
//! without a scope, with one exception: the order of additions in float sums and products over axes
//! depends on the step that contains the sum. Therefore the last bits of sums and products, and of
//! values that depend on them, may differ.
//! Memory: every result lives as long as any result that was computed from it, because derivatives
//! may need it. A derivative that uses the result of its own operation (such as `exp`) computes
//! that result again.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::error::Result;
use crate::exec::Executor;
use crate::tensor::{Op, Tensor};

thread_local! {
    /// The executor of the innermost scope; `None` outside a scope.
    static SCOPE: RefCell<Option<Arc<dyn Executor>>> = const { RefCell::new(None) };
    /// Whether a function is being traced, whose tensors have no data.
    static TRACING: Cell<bool> = const { Cell::new(false) };
}

/// A scope in which every operation is computed immediately, on one executor.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Eager, Host, Tensor, grad};
/// let host = Host::new();
/// let gradient = Eager::new(host.clone()).run(|| {
///     let x = Tensor::from_array(array![1.0_f32, 2.0, 3.0]);
///     let squares = x.square();
///     assert_eq!(host.live_bytes(), 12); // the square is already computed
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
    /// Creates scopes that use an executor.
    #[must_use]
    pub fn new(executor: impl Executor + 'static) -> Self {
        Self {
            executor: Arc::new(executor),
        }
    }

    /// Runs `f` and computes each of its operations on this thread immediately. In nested scopes
    /// the innermost executor is used. Functions that [`jit`](crate::jit()) traces stay lazy.
    ///
    /// If `f` waits for a thread pool, other tasks that this thread executes meanwhile run inside
    /// the scope as well.
    ///
    /// An operation that fails on evaluation becomes an error node with its source line, like an
    /// invalid operation.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        let _before = Before(SCOPE.replace(Some(Arc::clone(&self.executor))));
        f()
    }
}

/// A guard that restores the previous scope when it is dropped, also during a panic.
pub(crate) struct Before(Option<Arc<dyn Executor>>);

impl Drop for Before {
    fn drop(&mut self) {
        SCOPE.replace(self.0.take());
    }
}

/// Disables eager evaluation on this thread until the returned guard is dropped.
pub(crate) fn pause() -> Before {
    Before(SCOPE.take())
}

/// Disables eager evaluation on this thread until the returned guard is dropped, even in scopes
/// that are opened meanwhile. Used for tracing.
pub(crate) fn trace() -> Traced {
    Traced(TRACING.replace(true))
}

/// Returns whether a function is being traced on this thread.
pub(crate) fn is_tracing() -> bool {
    TRACING.get()
}

/// A guard that restores the previous tracing state when it is dropped.
pub(crate) struct Traced(bool);

impl Drop for Traced {
    fn drop(&mut self) {
        TRACING.set(self.0);
    }
}

/// Returns the executor of the innermost scope, unless a function is being traced.
fn scope() -> Option<Arc<dyn Executor>> {
    SCOPE.with_borrow(Option::clone).filter(|_| !TRACING.get())
}

/// Processes a new node: inside a scope, returns the result if the node computes something.
pub(crate) fn made(tensor: Tensor) -> Tensor {
    let computes = match tensor.node().op {
        Op::Error(_)
        | Op::Data(_)
        | Op::Const(_)
        | Op::Index
        | Op::View { .. }
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

/// Processes the result of an operation that consists of several nodes: inside a scope, computes
/// the result.
pub(crate) fn finished(tensor: Tensor) -> Tensor {
    let computed = all_finished(vec![tensor.clone()]);
    match computed.map(|mut tensors| tensors.pop()) {
        Ok(Some(tensor)) => tensor,
        Ok(None) => tensor,
        Err(error) => Tensor::on_behalf_of(tensor.node().location, || Tensor::error(error)),
    }
}

/// Processes several results: inside a scope, computes them together. An error that belongs to no
/// operation does not have a source line yet.
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
