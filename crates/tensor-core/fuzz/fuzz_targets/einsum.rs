//! Any text is an einsum specification or an error; a specification sums ones to the number of its terms.
//!
//! Method: the first byte chooses the sizes, the rest is the text. Every operand is a single one, broadcast
//! to the shape that its indices ask for, so every element of the output must be the product of the sizes
//! that are summed over.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensor_core::View;
use tensor_core::einsum::{EinsumSpec, einsum_views};

/// The most terms that one input may take.
const MAX_TERMS: usize = 1 << 14;

fuzz_target!(|input: (u8, &str)| {
    let (choice, text) = input;
    let Ok(spec) = EinsumSpec::parse(text) else {
        return;
    };
    let normal = EinsumSpec::parse(&spec.to_string());
    assert_eq!(normal.as_ref(), Ok(&spec), "the normal form means the same");
    let size = |label: &char| (u32::from(*label) * u32::from(choice)) as usize % 4;
    let summed: Vec<usize> = spec.summed().iter().map(size).collect();
    let labels = spec.output().iter().map(size).chain(summed.clone());
    // Zeros are left out, since the loop nest has to be countable without them.
    let all = labels
        .filter(|&size| size > 0)
        .try_fold(1_usize, usize::checked_mul);
    if all.is_none_or(|all| all > MAX_TERMS) {
        return;
    }
    let one = View::contiguous(&[]).expect("a scalar is a view");
    let views: Vec<View> = spec
        .inputs()
        .iter()
        .map(|input| input.iter().map(size).collect::<Vec<_>>())
        .filter_map(|shape| one.broadcast_to(&shape).ok())
        .collect();
    if views.len() < spec.inputs().len() {
        return;
    }
    let operands: Vec<(&View, &[f64])> = views.iter().map(|view| (view, &[1.0][..])).collect();
    let n_terms = summed.iter().product::<usize>();
    let sums = einsum_views(&spec, &operands).expect("the shapes fit and the nest is small");
    assert!(
        sums.iter().all(|&sum| sum == n_terms as f64),
        "{spec}: {sums}"
    );
});
