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

use std::sync::Arc;

use crate::error::Result;
use crate::exec::{Executor, realized};
use crate::tensor::{Tensor, hook};

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

    /// Runs `f` and computes each of its operations on this thread immediately. Nested scopes use
    /// the executor of the innermost scope. Functions that [`jit`](crate::jit()) traces stay lazy.
    ///
    /// If `f` waits for a thread pool, other tasks that this thread executes meanwhile run inside
    /// the scope as well.
    ///
    /// An operation that fails on evaluation becomes an error node with its source line, like an
    /// invalid operation.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        let executor = Arc::clone(&self.executor);
        let _before = hook::install(move |tensors| compute(tensors, executor.as_ref()));
        f()
    }
}

/// Computes tensors together. Each result keeps a reference to its operation, so that derivatives
/// work.
fn compute(tensors: Vec<Tensor>, executor: &dyn Executor) -> Result<Vec<Tensor>> {
    let data = realized(&tensors.iter().collect::<Vec<_>>(), executor)?;
    let results = data.into_iter().zip(tensors);
    Ok(results
        .map(|(data, tensor)| {
            Tensor::with_line(tensor.node().location, || data.standing_for(tensor.clone()))
        })
        .collect())
}
