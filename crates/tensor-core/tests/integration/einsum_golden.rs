//! Einsum and the steps of its contraction path, compared with `NumPy` on golden cases and with a
//! naive evaluator on random cases.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use ndarray::ArrayD;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::einsum::{Contraction, EinsumSpec, Groups, Label, Product, Step, oracle_views};
use tensor_core::view::View;
use tensor_core::{Executor, Host, Reference, Tensor, array, einsum, ndarray};

/// Returns the operands that `testdata/README.md` describes.
fn operand(number: usize, shape: &[usize]) -> ArrayD<f64> {
    let len = shape.iter().product();
    let value = |i: usize| ((i * 7 + number * 5) % 11) as f64 - 5.0;
    array::from_vec(shape, (0..len).map(value).collect()).unwrap()
}

fn sum_of(spec: &str, operands: &[ArrayD<f64>]) -> ArrayD<f64> {
    let operands: Vec<&dyn einsum::Operand<f64>> = operands.iter().map(|x| x as _).collect();
    einsum::oracle(spec, &operands).unwrap()
}

fn resolve(spec: &EinsumSpec, operands: &[ArrayD<f64>]) -> Contraction {
    let shapes: Vec<&[usize]> = operands.iter().map(ArrayD::shape).collect();
    spec.resolve(&shapes).unwrap()
}

/// Evaluates the contraction as a lazy program.
fn lazily(spec: &str, operands: &[ArrayD<f64>], executor: &dyn Executor) -> ArrayD<f64> {
    let tensors: Vec<Tensor> = operands.iter().cloned().map(Tensor::from_array).collect();
    let result = einsum(spec, &tensors.iter().collect::<Vec<_>>());
    result.eval::<f64>(executor).unwrap()
}

/// Evaluates the steps of the path one by one, as an executor would.
fn stepwise(contraction: &Contraction, operands: &[ArrayD<f64>]) -> ArrayD<f64> {
    let labels = contraction.sizes().iter().map(|&(label, _)| label);
    let letters: BTreeMap<Label, char> = labels.zip(('a'..='z').chain('A'..='Z')).collect();
    let text = |labels: &[Label]| labels.iter().map(|l| letters[l]).collect::<String>();
    let mut tensors = operands.to_vec();
    for step in contraction.path() {
        let result = match &step {
            Step::Reduce { input, output } => {
                let spec = format!("{}->{}", text(&input.labels), text(output));
                sum_of(&spec, &[tensors[input.id].clone()])
            }
            Step::Product(product) => batched_matmul(product, &tensors, &text),
        };
        tensors.push(result);
    }
    tensors.pop().unwrap()
}

/// Computes a product as a batched matrix product with a permutation and a reshape of each operand
/// and of the result.
fn batched_matmul(
    product: &Product,
    tensors: &[ArrayD<f64>],
    text: &impl Fn(&[Label]) -> String,
) -> ArrayD<f64> {
    let Groups {
        batch,
        rows,
        cols,
        inner,
    } = product.groups();
    let mut sizes = BTreeMap::new();
    let mut merged = |slot: &einsum::Slot, groups: [&[Label]; 3]| {
        let tensor = &tensors[slot.id];
        for (&label, &size) in slot.labels.iter().zip(tensor.shape()) {
            assert_eq!(*sizes.entry(label).or_insert(size), size, "{product:?}");
        }
        let order = format!("{}->{}", text(&slot.labels), text(&groups.concat()));
        let shape = groups.map(|group| group.iter().map(|l| sizes[l]).product());
        let permuted = sum_of(&order, std::slice::from_ref(tensor));
        permuted.into_shape_with_order(shape).unwrap().into_dyn()
    };
    let left = merged(&product.left, [&batch, &rows, &inner]);
    let right = merged(&product.right, [&batch, &inner, &cols]);
    let merged = sum_of("bik,bkj->bij", &[left, right]);
    let labels = [batch, rows, cols].concat();
    let shape: Vec<usize> = labels.iter().map(|label| sizes[label]).collect();
    let order = format!("{}->{}", text(&labels), text(&product.output));
    sum_of(&order, &[merged.into_shape_with_order(shape).unwrap()])
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
    for line in include_str!("../../testdata/einsum.txt").lines() {
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
        let exact = Tolerance::exact().allow_empty();
        assert_close(sum_of(spec, &operands), &expected, exact.clone());
        assert_close(
            lazily(spec, &operands, &Host::new()),
            &expected,
            exact.clone(),
        );
        assert_close(
            lazily(spec, &operands, &Reference),
            &expected,
            exact.clone(),
        );
        let contraction = resolve(&EinsumSpec::parse(spec).unwrap(), &operands);
        assert_eq!(contraction.out_shape(), expected.shape(), "{spec:?}");
        assert_close(stepwise(&contraction, &operands), expected, exact);
        n_cases += 1;
    }
    assert_eq!(n_cases, 90);
}

/// Evaluates the definition: every combination of indices adds one product to its output element.
fn naive(contraction: &Contraction, operands: &[ArrayD<f64>]) -> ArrayD<f64> {
    let labels = contraction.sizes();
    let mut out = ArrayD::zeros(contraction.out_shape());
    let all: Vec<usize> = labels.iter().map(|(_, size)| *size).collect();
    for index in ndarray::indices(all) {
        let at = |label: &Label| index[labels.iter().position(|(l, _)| l == label).unwrap()];
        let mut product = 1.0;
        for (input, operand) in contraction.inputs().iter().zip(operands) {
            let place: Vec<usize> = input
                .iter()
                .zip(operand.shape())
                .map(|(l, &size)| at(l).min(size - 1))
                .collect();
            product *= operand[&place[..]];
        }
        let place: Vec<usize> = contraction.output().iter().map(at).collect();
        out[&place[..]] += product;
    }
    out
}

/// A random operand: its letters, the position of its ellipsis and the number of axes under the
/// ellipsis, and a bit mask of the labels that have size 1 in this operand only.
type RandomOperand = (Vec<char>, Option<(usize, usize)>, u8);

/// Returns a specification and the shapes of its operands: one to ten operands over up to five
/// letters and up to two axes under an ellipsis, and an output with some of the letters.
fn random_case() -> impl Strategy<Value = (String, Vec<Vec<usize>>)> {
    let letter = prop::sample::select(vec!['a', 'b', 'c', 'X', 'y']);
    let ellipsis = prop::option::of((0_usize..4, 0_usize..3));
    let operand = (prop::collection::vec(letter, 0..4), ellipsis, any::<u8>());
    let sizes = prop::collection::vec(prop_oneof![1 => 0_usize..2, 4 => 2_usize..5], 7);
    (
        prop::collection::vec(operand, 1..11),
        sizes,
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(operands, sizes, choice, implicit)| {
            let inputs: Vec<String> = operands
                .iter()
                .map(|(letters, dots, _)| written(letters, *dots))
                .collect();
            let shapes = operands
                .iter()
                .map(|operand| shape_of(operand, &sizes))
                .collect();
            let mut used: Vec<char> = operands
                .iter()
                .flat_map(|(letters, ..)| letters.clone())
                .collect();
            used.sort_by_key(|letter| ((choice >> (u32::from(*letter) % 60)) & 7, *letter));
            used.dedup();
            let kept: Vec<char> = used
                .into_iter()
                .enumerate()
                .filter(|(at, _)| choice >> at & 1 == 1)
                .map(|(_, l)| l)
                .collect();
            let dots = (choice >> 40) as usize % (kept.len() + 1);
            let has_dots = operands.iter().any(|(_, dots, _)| dots.is_some());
            let output = written(&kept, has_dots.then_some((dots, 0)));
            let arrow = if implicit {
                String::new()
            } else {
                format!(" -> {output}")
            };
            (format!("{}{arrow}", inputs.join(", ")), shapes)
        })
}

/// Returns the letters with an ellipsis inserted after the first few.
fn written(letters: &[char], dots: Option<(usize, usize)>) -> String {
    let before = dots.map_or(0, |(before, _)| before.min(letters.len()));
    let (left, right) = letters.split_at(before);
    let dots = dots.map_or("", |_| "...");
    format!(
        "{}{dots}{}",
        String::from_iter(left),
        String::from_iter(right)
    )
}

fn shape_of((letters, dots, ones): &RandomOperand, sizes: &[usize]) -> Vec<usize> {
    let place = |letter: &char| "abcXy".find(*letter).unwrap();
    let (before, rank) = dots.unwrap_or_default();
    let (left, right) = letters.split_at(before.min(letters.len()));
    let places = left
        .iter()
        .map(place)
        .chain((5..7).rev().skip(2 - rank))
        .chain(right.iter().map(place));
    places
        .map(|at| {
            if ones >> at & 1 == 1 && ones >> 7 == 1 {
                1
            } else {
                sizes[at]
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn random_specifications_and_their_paths_follow_the_definition((text, shapes) in random_case(), flip in any::<bool>()) {
        let spec = EinsumSpec::parse(&text).unwrap();
        let operands: Vec<ArrayD<f64>> = shapes.iter().enumerate().map(|(n, shape)| {
            let mut array = operand(n, shape);
            if flip && array.ndim() > 0 {
                array.invert_axis(ndarray::Axis(0));
            }
            array.reversed_axes().as_standard_layout().into_owned().reversed_axes()
        }).collect();
        let contraction = resolve(&spec, &operands);
        let expected = naive(&contraction, &operands);
        let exact = Tolerance::exact().allow_empty();
        assert_close(sum_of(&text, &operands), &expected, exact.clone());
        assert_close(lazily(&text, &operands, &Host::new()), &expected, exact.clone());
        assert_close(stepwise(&contraction, &operands), expected, exact);
    }

    #[test]
    fn any_text_is_rejected_or_has_a_normal_form_and_any_shapes_are_rejected_or_have_a_path(
        text in prop_oneof![any::<String>(), "[a-cA. ,>→-]{0,40}", "[a-cA-C,]{0,60}(->[a-cA-C]{0,4})?", "([ab]{0,2}(\\.\\.\\.)?[ab]?,?){1,12}(->[ab]?(\\.\\.\\.)?)?"],
        shapes in prop::collection::vec(prop::collection::vec(prop_oneof![0_usize..3, any::<usize>()], 0..5), 12),
    ) {
        if let Ok(spec) = EinsumSpec::parse(&text) {
            prop_assert_eq!(&EinsumSpec::parse(&spec.to_string()).unwrap(), &spec);
            let n = spec.n_operands();
            let shapes: Vec<&[usize]> = shapes.iter().cycle().take(n).map(Vec::as_slice).collect();
            prop_assert!(spec.resolve(&shapes[1..]).is_err());
            let equal = vec![&[2, 2][..]; n];
            for shapes in [shapes, equal, vec![&[][..]; n]] {
                if let Ok(contraction) = spec.resolve(&shapes) {
                    let path = contraction.path();
                    prop_assert_eq!(&path, &contraction.path());
                    let products = path.iter().filter(|step| matches!(step, Step::Product(_)));
                    prop_assert_eq!(products.count(), n - 1);
                }
            }
        }
    }
}

#[test]
fn views_of_a_buffer_are_summed_without_a_copy() {
    // A convolution: windows of a signal times a kernel.
    let signal = [1.0, 2.0, 4.0, 8.0, 16.0_f32];
    let windows = View::contiguous(&[5]).unwrap().window(0, 3, 1).unwrap();
    let kernel = View::contiguous(&[3]).unwrap().flip(0).unwrap();
    let spec = EinsumSpec::parse("ik,k->i").unwrap();
    let out = oracle_views(
        &spec,
        &[(&windows, &signal), (&kernel, &[1.0, 10.0, 100.0])],
    )
    .unwrap();
    assert_close(out, [124.0, 248.0, 496.0], Tolerance::exact());
    let error = oracle_views(&spec, &[(&windows, &signal[..4]), (&kernel, &[1.0; 3])]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("reads offsets 0 to 4 of a buffer of 4"),
        "{error}"
    );
}
