//! The hook that eager evaluation installs: it receives the result of every operation on a thread.
//!
//! Role: keeps tensors independent of executors. Operations pass new nodes through [`after_node`]
//! or [`after_operation`]; outside an [`Eager`](crate::Eager) scope both return their argument.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{Op, Tensor};
use crate::error::Result;

/// A function that replaces the results of an operation, for example by their values.
type Hook = Rc<dyn Fn(Vec<Tensor>) -> Result<Vec<Tensor>>>;

thread_local! {
    /// The hook of the innermost scope; `None` outside a scope.
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    /// Whether a function is being traced, whose tensors have no data.
    static TRACING: Cell<bool> = const { Cell::new(false) };
}

/// A guard that restores the previous hook when it is dropped, also during a panic.
pub(crate) struct Before(Option<Hook>);

impl Drop for Before {
    fn drop(&mut self) {
        HOOK.replace(self.0.take());
    }
}

/// Installs a hook on this thread until the returned guard is dropped.
pub(crate) fn install(hook: impl Fn(Vec<Tensor>) -> Result<Vec<Tensor>> + 'static) -> Before {
    Before(HOOK.replace(Some(Rc::new(hook))))
}

/// Disables the hook of this thread until the returned guard is dropped.
pub(crate) fn pause() -> Before {
    Before(HOOK.take())
}

/// Disables hooks on this thread until the returned guard is dropped, even those that are installed
/// meanwhile. Used for tracing.
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

/// Processes a new node: inside a scope, returns the result of the hook if the node computes
/// something.
pub(crate) fn after_node(tensor: Tensor) -> Tensor {
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
        | Op::Reduce { .. }
        | Op::Scan(_)
        | Op::Sort(_) => true,
    };
    if computes {
        after_operation(tensor)
    } else {
        tensor
    }
}

/// Processes the result of an operation that consists of several nodes: inside a scope, returns
/// the result of the hook.
pub(crate) fn after_operation(tensor: Tensor) -> Tensor {
    let computed = after_operations(vec![tensor.clone()]);
    match computed.map(|mut tensors| tensors.pop()) {
        Ok(Some(tensor)) => tensor,
        Ok(None) => tensor,
        Err(error) => Tensor::with_line(tensor.node().location, || Tensor::error(error)),
    }
}

/// Processes several results: inside a scope, returns the results of one call of the hook. An error
/// that belongs to no operation does not have a source line yet.
pub(crate) fn after_operations(tensors: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let is_done = |tensor: &Tensor| tensor.storage().is_some() || tensor.check().is_err();
    let hook = HOOK.with_borrow(Option::clone).filter(|_| !TRACING.get());
    let Some(hook) = hook.filter(|_| !tensors.iter().all(is_done)) else {
        return Ok(tensors);
    };
    let _paused = pause();
    hook(tensors)
}
