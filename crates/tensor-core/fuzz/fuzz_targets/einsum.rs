//! Any text is an einsum specification or an error; a specification sums ones to the number of its
//! terms.
//!
//! Method: the first byte chooses the sizes, the second how many axes are under an ellipsis, the
//! rest is the text. Every operand is a single one, broadcast to the shape that its indices ask
//! for, so every element of the output must be the product of the sizes that are summed over. The
//! path is only asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensor_core::View;
use tensor_core::einsum::{EinsumSpec, Label, oracle_views};

/// The most terms that one input may take.
const MAX_TERMS: usize = 1 << 14;

fuzz_target!(|input: (u8, u8, &str)| {
    let (choice, rank, text) = input;
    let Ok(spec) = EinsumSpec::parse(text) else {
        return;
    };
    let normal = spec.to_string();
    assert_eq!(
        EinsumSpec::parse(&normal).as_ref(),
        Ok(&spec),
        "the normal form means the same"
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
            "{spec}: only an ellipsis that the output lacks is refused"
        );
        return;
    };
    let n_steps = contraction.path().len();
    assert!(n_steps < 2 * shapes.len(), "{spec}: {n_steps} steps");
    // Zeros are left out, since the loop nest has to be countable without them.
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
});
