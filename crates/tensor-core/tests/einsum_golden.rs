//! Einsum against `NumPy` on golden cases, and against a naive evaluator on random ones.
#![expect(
    clippy::unwrap_used,
    reason = "a setup that fails is a test that fails"
)]

use ndarray::ArrayD;
use proptest::prelude::*;
use tensor_core::compare::{Bound, assert_close};
use tensor_core::einsum::{EinsumSpec, einsum_views};
use tensor_core::view::View;
use tensor_core::{array, einsum, ndarray};

/// The operands that `testdata/README.md` describes.
fn operand(number: usize, shape: &[usize]) -> ArrayD<f64> {
    let len = shape.iter().product();
    let value = |i: usize| ((i * 7 + number * 5) % 11) as f64 - 5.0;
    array::from_vec(shape, (0..len).map(value).collect()).unwrap()
}

fn sum_of(spec: &str, operands: &[ArrayD<f64>]) -> ArrayD<f64> {
    let operands: Vec<&dyn einsum::Operand<f64>> = operands.iter().map(|x| x as _).collect();
    einsum(spec, &operands).unwrap()
}

fn sizes(words: &str) -> Vec<usize> {
    words
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}

#[test]
fn numpy_gives_the_same() {
    let mut n_cases = 0;
    for line in include_str!("../testdata/einsum.txt").lines() {
        let [spec, shapes, out_shape, values] = line.split(';').collect::<Vec<_>>()[..] else {
            panic!("a case has four parts: {line:?}");
        };
        let operands: Vec<_> = shapes
            .split('/')
            .enumerate()
            .map(|(n, shape)| operand(n, &sizes(shape)))
            .collect();
        let values: Vec<f64> = values
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let expected = array::from_vec(&sizes(out_shape), values).unwrap();
        assert_close(
            sum_of(spec, &operands),
            expected,
            Bound::exact().allow_empty(),
        );
        n_cases += 1;
    }
    assert_eq!(n_cases, 38);
}

/// The definition, one product at a time: every index combination adds to its output element.
fn naive(spec: &EinsumSpec, labels: &[(char, usize)], operands: &[ArrayD<f64>]) -> ArrayD<f64> {
    let size = |label: &char| labels.iter().find(|(l, _)| l == label).unwrap().1;
    let out_shape: Vec<usize> = spec.output().iter().map(size).collect();
    let mut out = ArrayD::zeros(out_shape);
    let all: Vec<usize> = labels.iter().map(|(_, size)| *size).collect();
    for index in ndarray::indices(all) {
        let at = |label: &char| index[labels.iter().position(|(l, _)| l == label).unwrap()];
        let mut product = 1.0;
        for (input, operand) in spec.inputs().iter().zip(operands) {
            let place: Vec<usize> = input
                .iter()
                .zip(operand.shape())
                .map(|(l, &size)| at(l).min(size - 1))
                .collect();
            product *= operand[&place[..]];
        }
        let place: Vec<usize> = spec.output().iter().map(at).collect();
        out[&place[..]] += product;
    }
    out
}

/// Up to three operands over up to five labels, and an output that keeps some of those used.
fn random_case() -> impl Strategy<Value = (String, Vec<(char, usize)>)> {
    let label = prop::sample::select(vec!['a', 'b', 'c', 'X', 'y']);
    let inputs = prop::collection::vec(prop::collection::vec(label, 0..4), 1..4);
    let sizes = prop::collection::vec(0_usize..6, 5);
    (inputs, sizes, any::<u64>()).prop_map(|(inputs, sizes, choice)| {
        let mut used: Vec<char> = inputs.iter().flatten().copied().collect();
        used.sort_by_key(|label| (choice >> (u32::from(*label) % 60)) & 7);
        used.dedup();
        let mut output: Vec<char> = Vec::new();
        for (at, &label) in used.iter().enumerate() {
            if choice >> at & 1 == 1 && !output.contains(&label) {
                output.push(label);
            }
        }
        let inputs: Vec<String> = inputs.iter().map(String::from_iter).collect();
        let spec = format!("{}->{}", inputs.join(", "), String::from_iter(output));
        (
            spec,
            ['a', 'b', 'c', 'X', 'y'].into_iter().zip(sizes).collect(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_specifications_follow_the_definition((text, sizes) in random_case(), flip in any::<bool>()) {
        let spec = EinsumSpec::parse(&text).unwrap();
        let size = |label: &char| sizes.iter().find(|(l, _)| l == label).unwrap().1;
        let operands: Vec<ArrayD<f64>> = spec.inputs().iter().enumerate().map(|(n, input)| {
            let mut array = operand(n, &input.iter().map(size).collect::<Vec<_>>());
            if flip && array.ndim() > 0 {
                array.invert_axis(ndarray::Axis(0));
            }
            array.reversed_axes().as_standard_layout().into_owned().reversed_axes()
        }).collect();
        let shapes: Vec<&[usize]> = operands.iter().map(ArrayD::shape).collect();
        let labels = spec.sizes(&shapes).unwrap();
        let expected = naive(&spec, &labels, &operands);
        assert_close(sum_of(&text, &operands), expected, Bound::exact().allow_empty());
    }

    #[test]
    fn any_text_is_refused_or_has_a_normal_form(
        text in prop_oneof![any::<String>(), "[a-cA. ,>→-]{0,40}", "[a-cA-C,]{0,60}(->[a-cA-C]{0,4})?"],
    ) {
        if let Ok(spec) = EinsumSpec::parse(&text) {
            prop_assert_eq!(&EinsumSpec::parse(&spec.to_string()).unwrap(), &spec);
            let n_labels = spec.output().len() + spec.summed().len();
            prop_assert_eq!(spec.sizes(&vec![&[][..]; spec.inputs().len()]).is_ok(), n_labels == 0);
        }
    }
}

#[test]
fn views_of_a_buffer_are_summed_without_a_copy() {
    // A convolution: windows of a signal against a kernel.
    let signal = [1.0, 2.0, 4.0, 8.0, 16.0_f32];
    let windows = View::contiguous(&[5]).unwrap().window(0, 3, 1).unwrap();
    let kernel = View::contiguous(&[3]).unwrap().flip(0).unwrap();
    let spec = EinsumSpec::parse("ik,k->i").unwrap();
    let out = einsum_views(
        &spec,
        &[(&windows, &signal), (&kernel, &[1.0, 10.0, 100.0])],
    )
    .unwrap();
    assert_close(out, [124.0, 248.0, 496.0], Bound::exact());
    let error = einsum_views(&spec, &[(&windows, &signal[..4]), (&kernel, &[1.0; 3])]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("reaches offsets 0 to 4 of a buffer of 4"),
        "{error}"
    );
}
