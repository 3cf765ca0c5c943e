//! Training steps on the adapters of the machine in turn, compared with the reference executor.
#![cfg(feature = "gpu")]
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod digits;

use std::ops::ControlFlow;

use digits::{digits, losses, recipe, with_levels};
use gpu_wgsl::check::{adapter_of_the_day, compare_steps, on_adapters_in_turn};
use quant::layers::{ActivationLevels, QuantConv2d, QuantLinear};
use quant::train::{Net, NetLayer, Recipe, Schedule, Shards, Training};
use quant::{Error, InputImage, Window};
use tensor_core::Tensor;
use tensor_core::exec::Coverage;

/// A network that the reference executor trains in seconds.
fn small_net(levels: &str) -> Net {
    let activation = || NetLayer::Activation(ActivationLevels::Relu);
    let layers = vec![
        (
            "conv1",
            NetLayer::Conv2d(QuantConv2d::new(4, Window::new([3, 3]))),
        ),
        ("pool1", digits::pool()),
        ("norm1", digits::norm()),
        ("act1", activation()),
        (
            "conv2",
            NetLayer::Conv2d(QuantConv2d::new(6, Window::new([2, 2]))),
        ),
        ("norm2", digits::norm()),
        ("act2", activation()),
        (
            "classes",
            NetLayer::Linear(QuantLinear::new(10).with_bias()),
        ),
    ];
    let net = Net::new(InputImage::unit([8, 8, 1]), layers).unwrap();
    net.with_levels(levels.parse().unwrap()).unwrap()
}

#[test]
fn the_first_steps_are_those_of_the_reference() {
    let [train, _] = digits();
    let recipe = Recipe {
        batch: 4,
        read_every: 1,
        ..recipe(1)
    };
    for (gpu, (levels, n_steps)) in on_adapters_in_turn([("w2a2", 20), ("abc2a2", 2)]) {
        let net = small_net(levels);
        let mut training = Training::new(net, recipe.clone(), &train, gpu).unwrap();
        let mut coverage = Coverage::default();
        for _ in 0..n_steps {
            let programs = training.programs().unwrap();
            let programs: Vec<_> = programs.iter().collect();
            match compare_steps(gpu, &programs) {
                Ok(of_step) => coverage += of_step,
                Err(error) => panic!("{}: {error}", gpu.adapter().name),
            }
            training.run(|_, _| Ok(ControlFlow::Break(()))).unwrap();
        }
        assert!(coverage.n_elements > 1000, "{coverage:?}");
        assert!(coverage.share_undecided() <= 0.01, "{levels}: {coverage:?}");
        assert!(gpu.fallbacks().is_empty(), "{:?}", gpu.fallbacks());
    }
}

#[test]
fn values_that_are_not_finite_name_the_first_layer_on_a_device_too() {
    let [train, _] = digits();
    // Three steps with a usual rate, then steps with an enormous rate.
    let recipe = Recipe {
        batch: 500,
        schedule: Schedule::Stages(vec![(1, 0.01), (1, 3e38)]),
        ..recipe(3)
    };
    if let Some(gpu) = adapter_of_the_day() {
        let mut training = Training::new(small_net("float"), recipe.clone(), &train, gpu).unwrap();
        let error = training.run(|_, _| Ok(ControlFlow::Continue(())));
        let error = error.unwrap_err();
        let Error::NotFinite { step, ref layer } = error else {
            panic!("{}: {error}", gpu.adapter().name)
        };
        assert!(
            step == 4 && layer == "conv1",
            "{}: {error}",
            gpu.adapter().name
        );
    }
}

#[test]
fn finite_layers_of_many_shards_are_no_error_on_a_device() {
    let [train, _] = digits();
    let layers = vec![(
        "classes",
        NetLayer::Linear(QuantLinear::new(10).with_bias()),
    )];
    let net = Net::new(InputImage::unit([8, 8, 1]), layers).unwrap();
    // Counts whose reciprocals are rounded such that `n * (1 / n)` is not 1 in f32.
    for (gpu, n_shards) in on_adapters_in_turn([41, 47, 55, 61, 82]) {
        let images = train.first(n_shards);
        let recipe = Recipe {
            batch: n_shards,
            ..recipe(1)
        };
        let training = Training::new(net.clone(), recipe, &images, gpu).unwrap();
        let sum = |shards: &[Vec<Tensor>]| {
            let columns = (0..shards[0].len()).map(|n| {
                let terms = shards.iter().map(|shard| shard[n].clone());
                terms.reduce(|sum, term| sum + term).unwrap()
            });
            Tensor::realize_all(&columns.collect::<Vec<_>>(), gpu).map_err(|e| e.to_string())
        };
        let shards = Shards::new(n_shards, 0..n_shards, Box::new(sum)).unwrap();
        let mut training = training.with_shards(shards).unwrap();
        let losses = losses(&mut training);
        assert!(losses.is_ok_and(|losses| losses.len() == 1), "{n_shards}");
    }
}

#[test]
fn a_training_on_a_device_learns_and_resumes_to_the_same_bits() {
    let [train, test] = digits();
    if let Some(gpu) = adapter_of_the_day() {
        let start = || Training::new(with_levels("w2a2"), recipe(2), &train, gpu).unwrap();
        let mut whole = start();
        let mut losses = Vec::new();
        whole
            .run(|_, progress| {
                losses.extend(progress.losses);
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        let path = std::env::temp_dir().join(format!("quant-gpu-{}", std::process::id()));
        let mut first = start();
        let stop = |training: &mut Training<'_>, _| {
            training.save(&path)?;
            Ok(ControlFlow::Break(()))
        };
        first.run(stop).unwrap();
        let mut resumed = start();
        resumed.resume(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut after = Vec::new();
        resumed
            .run(|_, progress| {
                after.extend(progress.losses);
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        let skipped = losses.len() - after.len();
        assert!(skipped > 0);
        let bits = |losses: &[f32]| losses.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&losses[skipped..]), bits(&after));
        let frozen = whole
            .trained()
            .unwrap()
            .network()
            .unwrap()
            .freeze()
            .unwrap();
        let of_device = test
            .predictions(gpu, |codes| frozen.outputs_of(codes))
            .unwrap();
        let host = tensor_core::Host::new();
        let of_host = test
            .predictions(&host, |codes| frozen.outputs_of(codes))
            .unwrap();
        assert_eq!(of_device, of_host);
        assert!(test.accuracy(&of_host).unwrap() > 0.7);
    }
}
