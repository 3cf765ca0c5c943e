//! The tensor: a cheaply cloned handle on a node of a lazy program.
//!
//! Role: the type from which programs are built. Methods describe work and never fail or compute;
//! `plan` turns the nodes of some tensors into steps, and an executor runs these steps.
//! Method: nodes are immutable and shared, so a program is a directed acyclic graph. All views are
//! one kind of node, which stores the affine coordinates at which the source is read. Matrix
//! products, means and softmaxes are composed of a few primitive nodes, so that the planner has to
//! support only about a dozen operations.
//! Errors: an invalid operation becomes an error node, and every later operation on it returns the
//! same error. [`Tensor::shape`], [`Tensor::eval`] and [`Tensor::realize`] return the error with
//! the source line of the operation. The error names the operation on that line, even if the actual
//! fault is in one of the operations of which it is composed.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;

use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::ir::IndexMap;
use crate::op::{Binary, Compare, Reduce, Scan, Sort, Unary};
use crate::storage::{HostStorage, Storage};

pub use axes::{Axes, Axis};
pub use einsum::einsum;
pub use elementwise::Choice;
pub use operand::Operand;
pub use scan::ScanAxis;
pub use sort::SortAxis;

mod adjoint;
pub(crate) use adjoint::cotangent_type;
mod axes;
mod bits;
mod create;
mod einsum;
mod elementwise;
#[cfg(test)]
pub(crate) mod fault;
mod gather;
pub(crate) mod hook;
mod join;
mod near_zero;
mod operand;
mod products;
mod reduce;
mod scan;
mod scatter;
mod sort;
pub(crate) mod stored;
mod triangle;
mod views;

/// Unwraps a `Result`, or returns from the method with an error node. A macro, because a closure
/// would lose the caller's source line.
macro_rules! or_error_node {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Tensor::error(error),
        }
    };
}
use or_error_node;

/// A lazy array: its elements are computed on evaluation.
///
/// An invalid operation returns an *error node*: a tensor from which every later operation creates
/// an error node as well. [`shape`](Tensor::shape), [`eval`](Tensor::eval) and
/// [`realize`](Tensor::realize) return the error, with the source line of the invalid operation.
///
/// A clone is another handle on the same node. `Tensor` implements neither `PartialEq` nor
/// `PartialOrd`: [`eq`](Tensor::eq) and [`lt`](Tensor::lt) are operations whose result is a tensor
/// of `bool`.
///
/// # Examples
/// ```
/// use tensor_core::{Host, Tensor};
/// use tensor_core::ndarray::array;
///
/// let x = Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 4.0]]);
/// let y = (&x * 10.0 + &x.t()).sum(0);
/// assert_eq!(y.eval::<f32>(&Host::new())?, array![43.0, 67.0].into_dyn());
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor(Arc<Node>);

thread_local! {
    /// The source line to record in new nodes, if it is not the caller's.
    static LINE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// A guard that restores the previous source line when it is dropped, also during a panic.
pub(crate) struct LineBefore(Option<&'static Location<'static>>);

impl Drop for LineBefore {
    fn drop(&mut self) {
        LINE.set(self.0);
    }
}

/// A node of a program: one operation and its inputs.
pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
    pub(crate) location: &'static Location<'static>,
}

/// The operation of a node.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// No operation: the node represents an error.
    Error(Arc<Error>),
    /// An array in memory, row-major and contiguous.
    Data(Arc<dyn Storage>),
    /// A constant scalar, without axes.
    Const(Scalar),
    /// The positions `0, 1, …` along one axis, as `u32`.
    Index,
    /// Words `stride * at + first` of random streams with one key. The first input holds `at`, the
    /// others hold the low and the high word of the stream number.
    Random {
        key: [u32; 2],
        stride: u32,
        first: u32,
    },
    /// An elementwise unary operation.
    Unary(Unary),
    /// An elementwise binary operation on two inputs of one shape.
    Binary(Binary),
    /// An elementwise comparison of two inputs of one shape.
    Compare(Compare),
    /// An elementwise selection: condition, then the two choices, all of one shape.
    Select,
    /// An elementwise conversion to the type of the node.
    Cast,
    /// A view: reads the source at affine coordinates, one map per axis of the source.
    View {
        name: &'static str,
        rows: Vec<IndexMap>,
    },
    /// A change of shape that keeps the row-major order of the elements.
    Reshape,
    /// Padding: `before[axis]` elements of `fill` precede the source on each axis; the shape of the
    /// node determines how many follow.
    Pad { before: Vec<usize>, fill: Scalar },
    /// A gather: reads the first input at affine coordinates, one map per axis, where the second
    /// input is added to the coordinate along `axis`.
    Gather { axis: usize, rows: Vec<IndexMap> },
    /// The first input as the value, with the derivative of the second input.
    Surrogate,
    /// A reduction over the last `n_reduced` axes.
    Reduce { op: Reduce, n_reduced: usize },
    /// A scan along an axis.
    Scan(Scan),
    /// A sort along an axis.
    Sort(Sort),
}

impl Op {
    /// Returns the name of the operation, as in the tensor methods.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::Data(_) => "data",
            Self::Const(_) => "const",
            Self::Index => "arange",
            Self::Random { .. } => "random",
            Self::Unary(op) => op.name(),
            Self::Binary(op) => op.name(),
            Self::Compare(op) => op.name(),
            Self::Select => "select",
            Self::Cast => "cast",
            Self::View { name, .. } => name,
            Self::Reshape => "reshape",
            Self::Pad { .. } => "pad",
            Self::Gather { .. } => "gather",
            Self::Surrogate => "with_surrogate_gradient",
            Self::Reduce { op, .. } => op.name(),
            Self::Scan(scan) => scan.name(),
            Self::Sort(sort) => sort.name(),
        }
    }
}

/// The equality by which the planner merges common subexpressions: arrays in memory and errors are
/// compared by identity, views by their coordinates and not by name.
impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Error(a), Self::Error(b)) => Arc::ptr_eq(a, b),
            (Self::Data(a), Self::Data(b)) => Arc::ptr_eq(a, b),
            (Self::Const(a), Self::Const(b)) => a == b,
            (Self::Index, Self::Index)
            | (Self::Select, Self::Select)
            | (Self::Cast, Self::Cast)
            | (Self::Reshape, Self::Reshape)
            | (Self::Surrogate, Self::Surrogate) => true,
            (
                Self::Random { key, stride, first },
                Self::Random {
                    key: other_key,
                    stride: other_stride,
                    first: other_first,
                },
            ) => (key, stride, first) == (other_key, other_stride, other_first),
            (Self::Unary(a), Self::Unary(b)) => a == b,
            (Self::Binary(a), Self::Binary(b)) => a == b,
            (Self::Compare(a), Self::Compare(b)) => a == b,
            (Self::View { rows: a, .. }, Self::View { rows: b, .. }) => a == b,
            (
                Self::Pad { before, fill },
                Self::Pad {
                    before: other_before,
                    fill: other_fill,
                },
            ) => (before, fill) == (other_before, other_fill),
            (
                Self::Gather { axis, rows },
                Self::Gather {
                    axis: other_axis,
                    rows: other_rows,
                },
            ) => (axis, rows) == (other_axis, other_rows),
            (
                Self::Reduce { op, n_reduced },
                Self::Reduce {
                    op: other_op,
                    n_reduced: other_n,
                },
            ) => (op, n_reduced) == (other_op, other_n),
            (Self::Scan(a), Self::Scan(b)) => a == b,
            (Self::Sort(a), Self::Sort(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Op {}

impl Hash for Op {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Index | Self::Select | Self::Cast | Self::Reshape | Self::Surrogate => {}
            Self::Error(error) => Arc::as_ptr(error).hash(state),
            Self::Data(storage) => Arc::as_ptr(storage).cast::<()>().hash(state),
            Self::Const(scalar) => scalar.hash(state),
            Self::Random { key, stride, first } => (key, stride, first).hash(state),
            Self::Unary(op) => op.hash(state),
            Self::Binary(op) => op.hash(state),
            Self::Compare(op) => op.hash(state),
            Self::View { rows, .. } => rows.hash(state),
            Self::Pad { before, fill } => (before, fill).hash(state),
            Self::Gather { axis, rows } => (axis, rows).hash(state),
            Self::Reduce { op, n_reduced } => (op, n_reduced).hash(state),
            Self::Scan(scan) => scan.hash(state),
            Self::Sort(sort) => sort.hash(state),
        }
    }
}

impl Tensor {
    /// Returns the size of each axis.
    ///
    /// # Errors
    /// The error of any operation on which this tensor depends.
    pub fn shape(&self) -> Result<&[usize]> {
        self.check()?;
        Ok(&self.0.shape)
    }

    /// Returns the type of the elements.
    ///
    /// # Errors
    /// The error of any operation on which this tensor depends.
    pub fn dtype(&self) -> Result<DType> {
        self.check()?;
        Ok(self.0.dtype)
    }

    /// Returns the error if this is an error node, otherwise `Ok`.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.0.op {
            Op::Error(error) => Err(Error::clone(error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.0
    }

    /// Returns the address of the node, which identifies the node as long as it exists.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Creates a node. If an input is an error node, returns the first such input instead.
    #[track_caller]
    pub(crate) fn new(op: Op, inputs: Vec<Self>, shape: Vec<usize>, dtype: DType) -> Self {
        if let Some(error) = inputs.iter().find(|input| input.check().is_err()) {
            return error.clone();
        }
        hook::after_node(Self(Arc::new(Node {
            op,
            inputs,
            shape,
            dtype,
            location: LINE.get().unwrap_or(Location::caller()),
        })))
    }

    /// Runs a closure in which all new nodes record the given source line. Used for nodes that are
    /// derived from another node, such as its gradient.
    pub(crate) fn with_line<T>(
        location: &'static Location<'static>,
        make: impl FnOnce() -> T,
    ) -> T {
        let _before = LineBefore(LINE.replace(Some(location)));
        make()
    }

    /// Restores the default, by which new nodes record their callers, until the guard is dropped.
    /// Used when a waiting thread executes unrelated work.
    pub(crate) fn with_caller_lines() -> LineBefore {
        LineBefore(LINE.take())
    }

    /// Runs a closure in which all new nodes record the caller of this function; by default they
    /// would record the closure.
    #[track_caller]
    pub(crate) fn by_caller<T>(make: impl FnOnce() -> T) -> T {
        Self::with_line(LINE.get().unwrap_or(Location::caller()), make)
    }

    /// Creates an error node.
    #[track_caller]
    pub(crate) fn error(error: Error) -> Self {
        let location = LINE.get().unwrap_or(Location::caller());
        Self(Arc::new(Node {
            op: Op::Error(Arc::new(error.at(location))),
            inputs: Vec::new(),
            shape: Vec::new(),
            dtype: DType::F32,
            location,
        }))
    }

    /// Returns the result of a composed operation. If an error occurred in one of its parts, and
    /// not in an input, the error is renamed to the operation that the caller wrote.
    #[track_caller]
    pub(crate) fn composed(self, operation: &'static str, inputs: &[&Self]) -> Self {
        match self.check() {
            Err(error) if inputs.iter().all(|input| input.check().is_ok()) => {
                Self::error(error.renamed(operation))
            }
            _ => self,
        }
    }
}

/// The largest number of elements in the `Debug` output of a tensor.
const SHOWN: usize = 8;

/// Writes the operation, type and shape, and the first elements, in row-major order, if they are in
/// host memory. Nothing is computed.
impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.op {
            Op::Error(error) => write!(f, "Tensor(error: {error})"),
            op => {
                let (dtype, shape) = (self.0.dtype, &self.0.shape);
                write!(f, "Tensor({} {dtype} {shape:?}", op.name())?;
                if let Some(data) = self
                    .storage()
                    .and_then(|storage| HostStorage::downcast(&**storage))
                {
                    let elements = (0..data.len().min(SHOWN)).filter_map(|at| data.get(at));
                    let words: Vec<String> = elements.map(|element| element.to_string()).collect();
                    let more = if data.len() > SHOWN { ", …" } else { "" };
                    write!(f, " [{}{more}]", words.join(", "))?;
                }
                f.write_str(")")
            }
        }
    }
}

impl Drop for Node {
    /// Drops a long chain of nodes in a loop, because the default drop is recursive and could
    /// overflow the stack.
    fn drop(&mut self) {
        // Only a node without other handles is taken apart; a shared node survives.
        let mut orphans = std::mem::take(&mut self.inputs);
        while let Some(tensor) = orphans.pop() {
            if let Some(mut node) = Arc::into_inner(tensor.0) {
                orphans.append(&mut node.inputs);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_a_hundred_thousand_nodes_is_dropped_without_recursion() {
        let mut x = Tensor::scalar(1.0_f32);
        for _ in 0..100_000 {
            x += 1.0;
        }
        drop(x);
    }

    #[test]
    fn debug_shows_the_first_elements_in_host_memory_and_computes_nothing() {
        let shown = |tensor: &Tensor| format!("{tensor:?}");
        let x = Tensor::from_vec(&[2, 2], vec![1.0_f32, -0.5, f32::NAN, 4.0]);
        assert_eq!(shown(&x), "Tensor(data f32 [2, 2] [1.0, -0.5, NaN, 4.0])");
        assert_eq!(shown(&(&x + 1.0)), "Tensor(add f32 [2, 2])");
        let host = crate::Host::new();
        let long = Tensor::arange(1000).realize(&host).unwrap();
        assert_eq!(
            shown(&long),
            "Tensor(data i32 [1000] [0, 1, 2, 3, 4, 5, 6, 7, …])"
        );
        let empty = Tensor::from_vec(&[0, 3], Vec::<bool>::new());
        assert_eq!(shown(&empty), "Tensor(data bool [0, 3] [])");
        let traced = crate::jit(|args: &[Tensor]| {
            assert_eq!(format!("{:?}", args[0]), "Tensor(data f32 [2, 2])");
            Ok(vec![args[0].exp()])
        });
        traced.call(&host, &[&x]).unwrap();
    }

    #[test]
    fn an_error_node_says_what_and_where_and_is_handed_on() {
        let x = Tensor::from_vec(&[2, 3], vec![0.0_f32; 6]);
        let line = line!() + 1;
        let bad = &x + &x.t();
        let error = (bad.exp() * 2.0).sum(..).shape().unwrap_err();
        assert!(
            matches!(
                error.root(),
                Error::BroadcastMismatch {
                    operation: "add",
                    ..
                }
            ),
            "{error}"
        );
        let location = error.location().unwrap();
        assert_eq!((location.file(), location.line()), (file!(), line));
    }
}
