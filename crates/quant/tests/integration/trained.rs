//! The trained networks of `testdata`, tested on the digits of `testdata`.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use crate::digits;
use quant::FrozenNetwork;
use quant::train::Images;
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::{Executor, Host, Reference, Tensor};

/// The networks of `testdata/README.md`, with the number of the 1,797 digits that they recognise.
/// They were trained on MNIST, whose digits are smoother.
const NETWORKS: [(&str, &[u8], usize); 2] = [
    (
        "w1a1",
        include_bytes!("../../testdata/mnist-w1a1.safetensors"),
        1488,
    ),
    (
        "w2a2",
        include_bytes!("../../testdata/mnist-w2a2.safetensors"),
        1539,
    ),
];

/// Returns the digits in MNIST's format: 20 × 20 pixels in the middle of 28 × 28.
fn enlarged() -> Images {
    const SIDE: usize = 28;
    const BORDER: usize = 4;
    let [train, test] = digits::digits();
    let small = [train.pixels(), test.pixels()].concat();
    let labels = [train.labels(), test.labels()].concat();
    let inside = |place: usize| (BORDER..SIDE - BORDER).contains(&place);
    let pixel = |at: usize| {
        let (image, row, col) = (at / SIDE / SIDE, at / SIDE % SIDE, at % SIDE);
        if !inside(row) || !inside(col) {
            return 0;
        }
        let [row, col] = [row, col].map(|place| (place - BORDER) * 8 / (SIDE - 2 * BORDER));
        small[image * 64 + row * 8 + col].saturating_mul(16)
    };
    let pixels = (0..labels.len() * SIDE * SIDE).map(pixel).collect();
    Images::new([SIDE, SIDE, 1], pixels, labels, 10).unwrap()
}

/// Returns the outputs of all layers but the last as words, and the scores.
fn outputs(
    network: &FrozenNetwork,
    codes: &Tensor,
    executor: &dyn Executor,
) -> (Vec<Vec<u32>>, Vec<f32>) {
    let outputs = network.layers_of(codes).unwrap();
    let outputs = Tensor::realize_all(&outputs.iter().collect::<Vec<_>>(), executor).unwrap();
    let (scores, words) = outputs.split_last().unwrap();
    let words = words
        .iter()
        .map(|words| words.to_host::<u32>().unwrap().into_iter().collect());
    (
        words.collect(),
        scores.to_host::<f32>().unwrap().into_iter().collect(),
    )
}

#[test]
fn the_networks_that_ship_recognise_digits() {
    let images = enlarged();
    for (name, bytes, expected) in NETWORKS {
        let network = FrozenNetwork::from_bytes(bytes).unwrap();
        let host = Host::new();
        let classes = images
            .predictions(&host, |codes| network.outputs_of(codes))
            .unwrap();
        let right = images
            .labels()
            .iter()
            .zip(&classes)
            .filter(|(a, b)| a == b)
            .count();
        assert_eq!(right, expected, "{name}");
    }
}

/// Returns the tolerance of scores. A score is an exact sum of integers, of which the last layer
/// computes a float: a product, a bias, a mean, a factor and a shift, each of which may round a
/// number of up to 64.
fn score_tolerance() -> Tolerance {
    Tolerance::relative(5).or_absolute(5.0 * 64.0 * f64::from(f32::EPSILON))
}

#[test]
fn the_reference_computes_the_same_codes_as_the_host() {
    const N_IMAGES: usize = 20;
    let images = enlarged().first(N_IMAGES);
    for (name, bytes, _) in NETWORKS {
        let network = FrozenNetwork::from_bytes(bytes).unwrap();
        let codes = network.codes(images.pixels()).unwrap();
        let (words, scores) = outputs(&network, &codes, &Host::new());
        let (of_reference, scores_of_reference) = outputs(&network, &codes, &Reference);
        assert!(words == of_reference, "{name}");
        assert_close(&scores[..], &scores_of_reference[..], score_tolerance());
    }
}

#[cfg(feature = "gpu")]
#[test]
fn adapters_compute_the_same_codes_as_the_host() {
    let images = enlarged().first(200);
    for (gpu, (name, bytes, _)) in gpu_wgsl::check::on_adapters_in_turn(NETWORKS) {
        let network = FrozenNetwork::from_bytes(bytes).unwrap();
        let codes = network.codes(images.pixels()).unwrap();
        let (words, _) = outputs(&network, &codes, &Host::new());
        let (on_device, _) = outputs(&network, &codes.realize(gpu).unwrap(), gpu);
        assert!(words == on_device, "{name} on {}", gpu.adapter().name);
        let uploaded = network.upload(gpu).unwrap();
        let scores = uploaded.run(images.pixels()).unwrap();
        let of_host = network.run(images.pixels(), &Host::new()).unwrap();
        assert_close(&scores, &of_host, score_tolerance());
    }
}
