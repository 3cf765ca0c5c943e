//! Derivatives of programs with hostile arguments: the result is an error or a gradient, never a
//! panic.
//!
//! Method: random operations with axes and sizes up to the limits of their types, on shapes that
//! exceed any memory. Nothing is computed; each gradient must have the shape of its tensor.

use proptest::prelude::*;
use tensor_core::view::Slice;
use tensor_core::{Axes, DType, Error, Tensor, einsum, grad, loss};

/// Builds the gradient of a sum.
fn gradient(y: &Tensor, x: &Tensor) -> Result<Vec<Tensor>, Error> {
    grad(&y.sum(..), &[x])
}

#[test]
fn a_gradient_of_more_positions_than_can_be_counted_is_an_error() {
    let x = Tensor::full(&[1 << 33], 1.0_f32);
    let logits = Tensor::full(&[4, 1 << 40], 1.0_f32);
    let labels = Tensor::from_vec(&[4], vec![1_u32; 4]);
    let cross_entropy = loss::softmax_cross_entropy(&logits, &labels);
    for (y, x) in [
        (x.gather(&Tensor::arange(1 << 31), 0), &x),
        (x.window(0, 1 << 32, 3), &x),
        (cross_entropy, &logits),
    ] {
        let error = gradient(&y, x).unwrap_err();
        assert!(matches!(error.root(), Error::TooLarge { .. }), "{error}");
        assert!(error.location().is_some());
    }
}

/// An operation with arbitrary arguments.
#[derive(Debug, Clone)]
enum Change {
    Slice(isize, Slice),
    Window(isize, usize, usize),
    Pad(isize, usize, usize),
    Flip(isize),
    Gather(isize, usize),
    Take(isize, usize),
    Reshape(Vec<usize>),
    Broadcast(usize),
    Permute(Vec<isize>),
    ExpandDims(isize),
    Squeeze(isize),
    Reduce(usize, isize),
    Softmax(isize),
    Concat(isize),
    Matmul,
    Diagonal,
    Elementwise(usize),
}

/// Returns sizes at the limits of their types, and ordinary sizes.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0_usize..6,
        3 => (0_u32..=63, -1_isize..=1).prop_map(|(bits, more)| (1_usize << bits).wrapping_add_signed(more)),
        1 => any::<usize>(),
    ]
}

fn axis() -> impl Strategy<Value = isize> {
    prop_oneof![
        12 => -3_isize..3,
        1 => prop::sample::select(vec![isize::MIN, isize::MAX, 63, -64]),
    ]
}

fn bound() -> impl Strategy<Value = Option<isize>> {
    prop::option::of(prop_oneof![
        -4_isize..8,
        size().prop_map(usize::cast_signed),
        any::<isize>()
    ])
}

fn change() -> impl Strategy<Value = Change> {
    let slice = (bound(), bound(), prop_oneof![-3_isize..4, any::<isize>()]);
    let slice = slice.prop_map(|(start, stop, step)| Slice { start, stop, step });
    prop_oneof![
        3 => (axis(), slice).prop_map(|(axis, slice)| Change::Slice(axis, slice)),
        4 => (axis(), size(), size()).prop_map(|(axis, size, step)| Change::Window(axis, size, step)),
        2 => (axis(), size(), size()).prop_map(|(axis, before, after)| Change::Pad(axis, before, after)),
        1 => axis().prop_map(Change::Flip),
        4 => (axis(), size()).prop_map(|(axis, len)| Change::Gather(axis, len)),
        2 => (axis(), size()).prop_map(|(axis, len)| Change::Take(axis, len)),
        1 => prop::collection::vec(size(), 0..4).prop_map(Change::Reshape),
        2 => size().prop_map(Change::Broadcast),
        1 => prop::collection::vec(axis(), 0..4).prop_map(Change::Permute),
        1 => axis().prop_map(Change::ExpandDims),
        1 => axis().prop_map(Change::Squeeze),
        2 => (0_usize..5, axis()).prop_map(|(op, axis)| Change::Reduce(op, axis)),
        1 => axis().prop_map(Change::Softmax),
        1 => axis().prop_map(Change::Concat),
        1 => Just(Change::Matmul),
        1 => Just(Change::Diagonal),
        2 => (0_usize..4).prop_map(Change::Elementwise),
    ]
}

fn apply(x: &Tensor, change: &Change) -> Tensor {
    let index = |len: usize| Tensor::full(&[len], 1_u32);
    match change {
        Change::Slice(axis, slice) => x.slice(*axis, *slice),
        Change::Window(axis, size, step) => x.window(*axis, *size, *step),
        Change::Pad(axis, before, after) => x.pad(*axis, *before, *after, 0.5),
        Change::Flip(axis) => x.flip(*axis),
        Change::Gather(axis, len) => x.gather(&index(*len), *axis),
        Change::Take(axis, len) => x.take_along_axis(&index(*len), *axis),
        Change::Reshape(shape) => x.reshape(shape),
        Change::Broadcast(size) => match x.shape() {
            Ok(shape) => x.broadcast_to(&[&[*size], shape].concat()),
            Err(_) => x.clone(),
        },
        Change::Permute(axes) => x.permute(axes),
        Change::ExpandDims(axis) => x.expand_dims(*axis),
        Change::Squeeze(axis) => x.squeeze(*axis),
        Change::Reduce(0, axis) => x.sum(*axis),
        Change::Reduce(1, axis) => x.prod(Axes::keepdims(*axis)),
        Change::Reduce(2, axis) => x.max(*axis),
        Change::Reduce(3, axis) => x.std(*axis, 1),
        Change::Reduce(_, axis) => x.mean(*axis),
        Change::Softmax(axis) => x.softmax(*axis),
        Change::Concat(axis) => Tensor::concat(&[x, &x.exp(), x], *axis),
        Change::Matmul => x.matmul(&x.t()),
        Change::Diagonal => einsum("ii->i", &[x]),
        Change::Elementwise(0) => x.cast(DType::F16).cast(DType::F32),
        Change::Elementwise(1) => x.tanh() * x,
        Change::Elementwise(2) => x.gt(0).select(x, x.sqrt()),
        Change::Elementwise(_) => x.maximum(1.0).pow(x),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn a_gradient_is_built_or_rejected(
        shape in prop::collection::vec(size(), 0..4),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let x = Tensor::full(&shape, 1.5_f32);
        let y = changes.iter().fold(x.clone(), |y, change| {
            let next = apply(&y, change);
            // An operation that fails at once has no gradient.
            if next.shape().is_ok() { next } else { y }
        });
        if let Ok(gradients) = gradient(&y, &x) {
            prop_assert_eq!(gradients[0].shape().unwrap(), x.shape().unwrap());
            let _ = grad(&gradients[0].square().sum(..), &[&x]);
        }
    }
}
