//! Trainings whose batches are divided among processes, here among threads.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::ops::Range;
use std::sync::mpsc::channel;
use std::thread;

use crate::digits::{digits, losses, recipe, with_levels};
use quant::train::{Images, Net, NetLayer, Recipe, Shards, Training};
use quant::{Error, Result, layers::BatchNorm, layers::QuantLinear};
use tensor_core::compare::{Tolerance, compare};
use tensor_core::{Host, Tensor};

const N_SHARDS: usize = 4;

fn add(left: &[Tensor], right: &[Tensor]) -> Vec<Tensor> {
    let host = Host::new();
    let pairs = left.iter().zip(right);
    let sums = pairs.map(|(left, right)| (left + right).realize(&host));
    sums.collect::<tensor_core::Result<_>>().unwrap()
}

/// Adds neighbours, then the sums of neighbours.
fn sum(shards: &[Vec<Tensor>]) -> Vec<Tensor> {
    match shards {
        [one] => one.clone(),
        _ => {
            let (left, right) = shards.split_at(shards.len() / 2);
            add(&sum(left), &sum(right))
        }
    }
}

fn short_recipe() -> Recipe {
    Recipe {
        batch: 40,
        ..recipe(1)
    }
}

/// Returns the losses and the parameters of a training whose process computes the shards `own`.
fn trained(
    net: &Net,
    images: &Images,
    own: Range<usize>,
    all: impl FnMut(&[Vec<Tensor>]) -> Result<Vec<Tensor>, String>,
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let host = Host::new();
    let training = Training::new(net.clone(), short_recipe(), images, &host).unwrap();
    let shards = Shards::new(N_SHARDS, own, Box::new(all)).unwrap();
    let mut training = training.with_shards(shards).unwrap();
    let losses = losses(&mut training).unwrap();
    (losses, training.trained().unwrap().parameters().to_vec())
}

#[test]
fn the_number_of_processes_does_not_change_the_bits() {
    let [images, _] = digits();
    let images = images.first(400);
    let net = with_levels("w2a2");
    let one = trained(&net, &images, 0..N_SHARDS, |shards| Ok(sum(shards)));
    assert_eq!(one.0.len(), 10);
    // Two threads exchange the sums of their shards.
    let (to_second, of_first) = channel::<Vec<Tensor>>();
    let (to_first, of_second) = channel::<Vec<Tensor>>();
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(|| {
            trained(&net, &images, 2..4, move |shards| {
                let own = sum(shards);
                to_first.send(own.clone()).unwrap();
                Ok(add(&of_first.recv().unwrap(), &own))
            })
        });
        let first = trained(&net, &images, 0..2, move |shards| {
            let own = sum(shards);
            to_second.send(own.clone()).unwrap();
            Ok(add(&own, &of_second.recv().unwrap()))
        });
        (first, second.join().unwrap())
    });
    assert_eq!(first, one);
    assert_eq!(second, one);
}

#[test]
fn shards_change_losses_by_roundings_only_without_batch_normalization() {
    let [images, _] = digits();
    let images = images.first(400);
    let layers = vec![(
        "classes",
        NetLayer::Linear(QuantLinear::new(10).with_bias()),
    )];
    let input = with_levels("w2a2").input().clone();
    let net = Net::new(input.clone(), layers.clone()).unwrap();
    let host = Host::new();
    let whole = Training::new(net.clone(), short_recipe(), &images, &host);
    let whole = losses(&mut whole.unwrap()).unwrap();
    let (parts, _) = trained(&net, &images, 0..N_SHARDS, |shards| Ok(sum(shards)));
    // Ten steps, whose sums over shards have other roundings.
    let near = |a: &[f32], b: &[f32]| compare(a, b, &Tolerance::relative(100)).is_ok();
    assert!(near(&parts, &whole), "{whole:?} {parts:?}");
    // A shard has other means than the batch, so the comparison above can fail.
    let normalized = [
        vec![("norm", NetLayer::BatchNorm(BatchNorm::default()))],
        layers,
    ]
    .concat();
    let net = Net::new(input, normalized).unwrap();
    let whole = Training::new(net.clone(), short_recipe(), &images, &host);
    let whole = losses(&mut whole.unwrap()).unwrap();
    let (parts, _) = trained(&net, &images, 0..N_SHARDS, |shards| Ok(sum(shards)));
    assert!(!near(&parts, &whole));
}

#[test]
fn wrong_divisions_and_failed_sums_are_errors() {
    let [images, _] = digits();
    let host = Host::new();
    let start = || Training::new(with_levels("w2a2"), short_recipe(), &images, &host).unwrap();
    let fails = || Box::new(|_: &[Vec<Tensor>]| Err("a rank is lost".to_owned()));
    for (n_shards, own) in [(0, 0..0), (4, 3..5)] {
        let error = Shards::new(n_shards, own, fails()).unwrap_err();
        assert!(matches!(error, Error::InvalidNumber { .. }), "{error}");
    }
    // The batch of 40 is no multiple of 3.
    let error = start().with_shards(Shards::new(3, 0..3, fails()).unwrap());
    let error = error.unwrap_err();
    assert!(matches!(error, Error::InvalidNumber { .. }), "{error}");
    let with_shards = |n| {
        start()
            .with_shards(Shards::new(n, 0..n, fails()).unwrap())
            .unwrap()
    };
    let error = losses(&mut with_shards(4)).unwrap_err();
    let text = "training: the sum over shards failed: a rank is lost";
    assert_eq!(error.to_string(), text);
    // Too few sums.
    let few = Shards::new(4, 0..4, Box::new(|_| Ok(vec![]))).unwrap();
    let error = losses(&mut start().with_shards(few).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Length { .. }), "{error}");
    // A checkpoint of another number of shards.
    let file = format!("quant-shards-{}.safetensors", std::process::id());
    let path = std::env::temp_dir().join(file);
    with_shards(4).save(&path).unwrap();
    with_shards(4).resume(&path).unwrap();
    for mut other in [with_shards(8), start()] {
        let error = other.resume(&path).unwrap_err();
        assert!(error.to_string().contains("recipe"), "{error}");
    }
    std::fs::remove_file(path).unwrap();
}
