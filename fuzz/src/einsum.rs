//! Einsum specifications: any text is a specification or an error, and a specification sums ones to
//! the number of its terms.
//!
//! Method: the first byte chooses the sizes, the second the number of axes of an ellipsis, the rest
//! is the text. Every operand is a single 1, broadcast to the shape of its indices, so every
//! element of the output must be the product of the sizes of the summed axes. The path is only
//! requested.

use tensor_core::View;
use tensor_core::einsum::{EinsumSpec, Label, oracle_views};

/// Maximum number of terms of a loop nest that is evaluated.
const MAX_TERMS: usize = 1 << 14;

/// Checks the parser, the path and the evaluation of einsum specifications.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let &[choice, rank, ref text @ ..] = bytes else {
        return;
    };
    let Ok(text) = str::from_utf8(text) else {
        return;
    };
    let Ok(spec) = EinsumSpec::parse(text) else {
        return;
    };
    let normal = spec.to_string();
    assert_eq!(
        EinsumSpec::parse(&normal).as_ref(),
        Ok(&spec),
        "the normal form has the same meaning"
    );
    let (inputs, output) = normal
        .split_once("->")
        .expect("the normal form is explicit");
    let size = |letter: char| (u32::from(letter) * u32::from(choice)) as usize % 4;
    let shape = |input: &str| -> Vec<usize> {
        let dots = if input.contains('.') {
            usize::from(rank % 4)
        } else {
            0
        };
        let (left, right) = input.split_once("...").unwrap_or((input, ""));
        let dots = std::iter::repeat_n(size('.'), dots);
        left.chars()
            .map(size)
            .chain(dots)
            .chain(right.chars().map(size))
            .collect()
    };
    let shapes: Vec<Vec<usize>> = inputs.split(',').map(shape).collect();
    let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let Ok(contraction) = spec.resolve(&shapes) else {
        let lost = rank % 4 > 0 && inputs.contains('.') && !output.contains('.');
        assert!(
            lost,
            "{spec}: only an ellipsis without a place in the output is an error"
        );
        return;
    };
    let n_steps = contraction.path().len();
    assert!(n_steps < 2 * shapes.len(), "{spec}: {n_steps} steps");
    // Sizes of zero are left out, because the number of terms without them must be representable.
    let mut sizes = contraction.sizes().iter().filter(|(_, size)| *size > 0);
    let all = sizes.try_fold(1_usize, |n, (_, size)| n.checked_mul(*size));
    if all.is_none_or(|all| all > MAX_TERMS) {
        return;
    }
    let one = View::contiguous(&[]).expect("the view of a scalar is valid");
    let views: Vec<View> = shapes
        .iter()
        .filter_map(|shape| one.broadcast_to(shape).ok())
        .collect();
    if views.len() < shapes.len() {
        return;
    }
    let operands: Vec<(&View, &[f64])> = views.iter().map(|view| (view, &[1.0][..])).collect();
    let n_terms = contraction
        .summed()
        .iter()
        .map(|(_, size)| size)
        .product::<usize>();
    let sums = oracle_views(&spec, &operands).expect("the shapes fit and the nest is small");
    assert!(
        sums.iter().all(|&sum| sum == n_terms as f64),
        "{spec}: {sums}"
    );
    assert!(
        contraction
            .summed()
            .iter()
            .all(|(label, _)| matches!(label, Label::Letter(_)))
    );
}
