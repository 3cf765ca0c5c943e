//! Elements of tensors that readers return, and their types.

use tensor_core::{DType, Host, Tensor};

/// All element types. The order is part of the meaning of the inputs in the corpus.
pub(crate) const TYPES: [DType; 6] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::I32,
    DType::U32,
    DType::Bool,
];

/// Returns the elements of a tensor as f64, which represents every element type exactly.
///
/// # Panics
/// If the tensor cannot be evaluated.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    let shape = tensor.shape().expect("a tensor in memory has a shape");
    // The shape of an empty tensor may be too large for f64, and its product for `usize`.
    let len = match shape.contains(&0) {
        true => 0,
        false => shape.iter().product(),
    };
    let numbers = tensor.reshape(&[len]).cast(DType::F64);
    let numbers = numbers.eval::<f64>(&Host::new());
    numbers
        .expect("a tensor in memory can be evaluated")
        .into_iter()
        .collect()
}

/// Panics unless a converted tensor has the elements of the original; all NaN values are equal.
pub(crate) fn assert_same_numbers(converted: &Tensor, original: &Tensor) {
    assert_eq!(converted.shape().ok(), original.shape().ok());
    let (converted, original) = (numbers(converted), numbers(original));
    let is_same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    assert!(
        converted.iter().zip(&original).all(is_same),
        "a conversion changed a value: {original:?} became {converted:?}"
    );
}
