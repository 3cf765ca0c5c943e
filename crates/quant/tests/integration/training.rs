//! Trainings of small networks on the digits that ship: their quality and interruptions.

use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::digits::{digits, float_net, losses, recipe, with_levels};
use quant::layers::{QuantConv2d, QuantLinear};
use quant::train::{Images, Net, NetLayer, Progress, Recipe, Schedule, Training, Update};
use quant::{Error, FrozenNetwork, InputImage, Window};
use tensor_core::{Host, Reference, Tensor};

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

fn file(name: &str) -> PathBuf {
    let name = format!("quant-{}-{name}.safetensors", std::process::id());
    std::env::temp_dir().join(name)
}

#[test]
fn two_bits_learn_the_digits_and_resume_freeze_and_pack() {
    let ([train, test], host) = (digits(), Host::new());
    let mut training = Training::new(float_net(), recipe(4), &train, &host).unwrap();
    losses(&mut training).unwrap();
    let float = training.trained().unwrap();

    let start =
        || Training::from_trained(with_levels("w2a2"), &float, recipe(6), &train, &host).unwrap();
    let mut whole = start();
    let whole_losses = losses(&mut whole).unwrap();
    // The same training, interrupted in the middle of an epoch and resumed from a file.
    let mut first = start();
    let path = file("resumed");
    let mut before = Vec::new();
    first
        .run(|training, progress| {
            before.extend(progress.losses);
            if progress.step < 70 {
                return Ok(ControlFlow::Continue(()));
            }
            training.save(&path)?;
            Ok(ControlFlow::Break(()))
        })
        .unwrap();
    assert!(first.step() < first.n_steps());
    let mut resumed = start();
    resumed.resume(&path).unwrap();
    before.extend(losses(&mut resumed).unwrap());
    assert_eq!(bits(&before), bits(&whole_losses));
    assert_eq!(resumed.trained().unwrap(), whole.trained().unwrap());

    let network = whole.trained().unwrap().network().unwrap();
    let frozen = network.freeze().unwrap();
    frozen.write(&path).unwrap();
    let packed = FrozenNetwork::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let of_floats = test.predictions(&host, |codes| network.outputs_of_codes(codes));
    let of_packed = test.predictions(&host, |codes| packed.outputs_of(codes));
    let (of_floats, of_packed) = (of_floats.unwrap(), of_packed.unwrap());
    let n_different = of_floats
        .iter()
        .zip(&of_packed)
        .filter(|(a, b)| a != b)
        .count();
    assert!(
        n_different <= 1,
        "{n_different} of {} predictions differ",
        test.len()
    );
    let accuracy = test.accuracy(&of_packed).unwrap();
    assert!(accuracy >= 0.9, "{accuracy}");
    // On the reference, all codes of the layers are equal.
    let few = test.first(20);
    let scores = packed.run(few.pixels(), &host).unwrap();
    assert_eq!(scores, packed.run(few.pixels(), &Reference).unwrap());
}

#[test]
fn all_kinds_of_levels_learn() {
    let ([train, test], host) = (digits(), Host::new());
    let mut training = Training::new(float_net(), recipe(3), &train, &host).unwrap();
    losses(&mut training).unwrap();
    let float = training.trained().unwrap();
    for levels in ["w1a1", "u2a2", "d1a2", "abc2a3"] {
        let net = with_levels(levels);
        let mut training = Training::from_trained(net, &float, recipe(4), &train, &host).unwrap();
        losses(&mut training).unwrap();
        let frozen = training
            .trained()
            .unwrap()
            .network()
            .unwrap()
            .freeze()
            .unwrap();
        let predictions = test
            .predictions(&host, |codes| frozen.outputs_of(codes))
            .unwrap();
        let accuracy = test.accuracy(&predictions).unwrap();
        assert!(accuracy >= 0.8, "{levels}: {accuracy}");
    }
}

#[test]
fn the_same_seed_gives_the_same_losses_and_another_seed_others() {
    let ([train, _], host) = (digits(), Host::new());
    let train = train.first(230);
    let run = |recipe: Recipe| {
        let mut training = Training::new(with_levels("w2a2"), recipe, &train, &host).unwrap();
        losses(&mut training).unwrap()
    };
    let first = run(recipe(2));
    // 230 images are 4 batches of 50; the last 30 are left out of the epoch.
    assert_eq!(first.len(), 8);
    assert_eq!(bits(&first), bits(&run(recipe(2))));
    let other = Recipe {
        seed: 1,
        ..recipe(2)
    };
    assert_ne!(bits(&first), bits(&run(other)));
    let adam = Recipe {
        update: Update::Adam,
        schedule: Schedule::Constant(1e-3),
        ..recipe(10)
    };
    let of_adam = run(adam);
    assert!(of_adam[39] < 0.6 * of_adam[0], "{of_adam:?}");
}

#[test]
fn a_batch_of_one_and_a_rate_of_zero_are_trained() {
    let ([train, _], host) = (digits(), Host::new());
    let recipe = Recipe {
        batch: 1,
        schedule: Schedule::Constant(0.0),
        weight_decay: 0.0,
        ..recipe(1)
    };
    let mut training = Training::new(with_levels("w1a1"), recipe, &train.first(3), &host).unwrap();
    let before = training.trained().unwrap();
    assert_eq!(losses(&mut training).unwrap().len(), 3);
    assert_eq!(
        training.trained().unwrap().parameters(),
        before.parameters()
    );
}

#[test]
fn values_that_are_not_finite_name_the_first_step_and_layer_and_keep_the_checkpoint() {
    let ([train, _], host) = (digits(), Host::new());
    // The first two steps have a usual rate, the next one an enormous rate.
    let recipe = Recipe {
        batch: 500,
        schedule: Schedule::Stages(vec![(1, 0.01), (1, 3e38)]),
        ..recipe(3)
    };
    let path = file("kept");
    let mut training = Training::new(float_net(), recipe.clone(), &train, &host).unwrap();
    let mut n_saved = 0;
    let error = training.run(|training, progress: Progress| {
        if progress.n_epochs == 1 {
            training.save(&path)?;
            n_saved = progress.step;
        }
        Ok(ControlFlow::Continue(()))
    });
    let error = error.unwrap_err();
    // Step 3 is the first one with the enormous rate, and step 4 the first one with its result.
    let Error::NotFinite { step, ref layer } = error else {
        panic!("{error}")
    };
    assert!(step == 4 && layer == "conv1", "{error}");
    assert!(matches!(training.save(&path), Err(Error::NotFinite { .. })));
    assert!(matches!(training.trained(), Err(Error::NotFinite { .. })));
    let mut resumed = Training::new(float_net(), recipe, &train, &host).unwrap();
    resumed.resume(&path).unwrap();
    assert_eq!((n_saved, resumed.step()), (3, 3));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn parameters_that_the_last_step_made_infinite_are_neither_saved_nor_exported() {
    let ([train, _], host) = (digits(), Host::new());
    let recipe = Recipe {
        batch: 500,
        schedule: Schedule::Constant(f32::MAX),
        read_every: 1,
        ..recipe(1)
    };
    let path = file("infinite");
    // Large inputs have gradients above 1.
    let input = InputImage {
        scale: vec![100.0],
        ..InputImage::unit([8, 8, 1])
    };
    let layers = vec![("classes", NetLayer::Linear(QuantLinear::new(10)))];
    let net = Net::new(input, layers).unwrap();
    let mut training = Training::new(net, recipe, &train, &host).unwrap();
    training.save(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    // The loss and all outputs of the first step are finite; its update is not.
    training.run(|_, _| Ok(ControlFlow::Break(()))).unwrap();
    for error in [
        training.save(&path).unwrap_err(),
        training.trained().unwrap_err(),
    ] {
        assert!(matches!(error, Error::NotFinite { step: 0, .. }), "{error}");
        assert!(error.to_string().contains("weight"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::remove_file(&path).unwrap();
}

/// Returns the key of a model file's text or tensor that is wrong.
fn wrong_key(error: &Error) -> &str {
    match error {
        Error::File { source, .. } => wrong_key(source),
        Error::ModelFile { key, .. } => key,
        other => panic!("{other}"),
    }
}

#[test]
fn a_checkpoint_of_other_images_or_another_start_is_an_error() {
    let ([train, other], host) = (digits(), Host::new());
    let (train, other) = (train.first(100), other.first(100));
    let path = file("start");
    let new = |images| Training::new(float_net(), recipe(1), images, &host).unwrap();
    new(&train).save(&path).unwrap();
    assert_eq!(wrong_key(&new(&other).resume(&path).unwrap_err()), "images");
    let mut labels = train.labels().to_vec();
    labels.swap(0, 1);
    let swapped = Images::new(train.size(), train.pixels().to_vec(), labels, 10).unwrap();
    assert_eq!(
        wrong_key(&new(&swapped).resume(&path).unwrap_err()),
        "images"
    );
    // The training of levels depends on the training of floats that it starts from.
    let mut floats = new(&train);
    let before = floats.trained().unwrap();
    losses(&mut floats).unwrap();
    let after = floats.trained().unwrap();
    let switched = |floats| {
        Training::from_trained(with_levels("w2a2"), floats, recipe(1), &train, &host).unwrap()
    };
    switched(&before).save(&path).unwrap();
    assert_eq!(
        wrong_key(&switched(&after).resume(&path).unwrap_err()),
        "start"
    );
    switched(&before).resume(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_changed_bit_of_a_checkpoint_is_an_error() {
    let ([train, _], host) = (digits(), Host::new());
    let train = train.first(100);
    let path = file("bits");
    let mut training = Training::new(float_net(), recipe(1), &train, &host).unwrap();
    training.save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    // A bit in each of 200 places of the header and the tensors.
    for place in (0..200).map(|number| number * (whole.len() - 1) / 199) {
        let mut changed = whole.clone();
        changed[place] ^= 1 << (place % 8);
        std::fs::write(&path, &changed).unwrap();
        assert!(training.resume(&path).is_err(), "byte {place}");
    }
    // A step after the last one, in a file that is whole otherwise.
    let text = b"\"step\":\"0\"";
    let at = whole
        .windows(text.len())
        .position(|bytes| bytes == text)
        .unwrap();
    let mut changed = whole;
    changed[at + text.len() - 2] = b'9';
    std::fs::write(&path, &changed).unwrap();
    assert_eq!(wrong_key(&training.resume(&path).unwrap_err()), "step");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn parameters_of_equal_length_and_another_shape_are_not_copied() {
    let host = Host::new();
    let images = Images::new([4, 9, 1], (0..72).collect(), vec![0, 1], 2).unwrap();
    let net = |n_outputs, window| {
        let conv = QuantConv2d::new(n_outputs, Window::new(window));
        let layers = vec![
            ("conv", NetLayer::Conv2d(conv)),
            ("classes", NetLayer::Linear(QuantLinear::new(2))),
        ];
        Net::new(InputImage::unit([4, 9, 1]), layers).unwrap()
    };
    let recipe = Recipe {
        batch: 2,
        ..recipe(1)
    };
    let new = |net| Training::new(net, recipe.clone(), &images, &host).unwrap();
    let trained = new(net(2, [2, 9])).trained().unwrap();
    let other = net(9, [2, 2]);
    let switched = Training::from_trained(other.clone(), &trained, recipe.clone(), &images, &host);
    let switched = switched.unwrap().trained().unwrap();
    assert_eq!(
        switched.parameters(),
        new(other).trained().unwrap().parameters()
    );
    assert_eq!(
        trained.parameters()[0].len(),
        switched.parameters()[0].len()
    );
}

#[test]
fn a_checkpoint_of_another_net_or_recipe_or_cut_short_is_an_error() {
    let ([train, _], host) = (digits(), Host::new());
    let train = train.first(100);
    let path = file("other");
    Training::new(with_levels("w2a2"), recipe(1), &train, &host)
        .unwrap()
        .save(&path)
        .unwrap();
    let resume = |net: Net, recipe: Recipe| {
        let mut training = Training::new(net, recipe, &train, &host).unwrap();
        training.resume(&path).map(|()| training.step())
    };
    assert_eq!(resume(with_levels("w2a2"), recipe(1)).unwrap(), 0);
    for (net, recipe, key) in [
        (with_levels("w1a1"), recipe(1), "net"),
        (float_net(), recipe(1), "net"),
        (with_levels("w2a2"), recipe(2), "recipe"),
    ] {
        assert_eq!(wrong_key(&resume(net, recipe).unwrap_err()), key);
    }
    let whole = std::fs::read(&path).unwrap();
    for len in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..len]).unwrap();
        let error = resume(with_levels("w2a2"), recipe(1)).unwrap_err();
        assert!(matches!(error, Error::Tensor(_)), "{len} bytes: {error}");
    }
    std::fs::remove_file(&path).unwrap();
    let error = resume(with_levels("w2a2"), recipe(1)).unwrap_err();
    assert!(error.to_string().contains("safetensors"), "{error}");
    // A folder that does not exist.
    let mut training = Training::new(with_levels("w2a2"), recipe(1), &train, &host).unwrap();
    assert!(training.save(path.join("missing").join("file")).is_err());
}

#[test]
fn a_standardized_input_has_mean_zero_and_variance_one() {
    let images = Images::new(
        [1, 2, 2],
        vec![0, 10, 250, 40, 30, 30, 90, 255],
        vec![0, 1],
        2,
    );
    let images = images.unwrap();
    let input = images.standardized_input().unwrap();
    let codes = images
        .pixels()
        .iter()
        .map(|&pixel| i32::from(pixel))
        .collect();
    let codes = Tensor::from_vec(&[2, 1, 2, 2], codes);
    let values = input.values_of(&codes).eval::<f32>(&Host::new()).unwrap();
    let mean = values.iter().sum::<f32>() / 8.0;
    let variance = values.iter().map(|x| x * x).sum::<f32>() / 8.0;
    assert!(
        mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-6,
        "{mean}, {variance}"
    );
    let grey = Images::new([1, 1, 1], vec![7, 7], vec![0, 0], 1).unwrap();
    assert!(grey.standardized_input().unwrap().offset[0].is_finite());
}

#[test]
fn schedules_have_the_rates_of_their_definitions() {
    let cosine = Schedule::Cosine {
        first: 1.0,
        last: 0.5,
    };
    let rates: Vec<f32> = [0, 50, 100]
        .iter()
        .map(|&step| cosine.rate(step, 100, 10))
        .collect();
    assert_eq!(rates, [1.0, 0.75, 0.5]);
    let stages = Schedule::Stages(vec![(2, 0.5), (1, 0.25)]);
    let rates: Vec<f32> = [0, 19, 20, 29, 30, 99]
        .iter()
        .map(|&s| stages.rate(s, 100, 10))
        .collect();
    assert_eq!(rates, [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]);
    assert_eq!(Schedule::Constant(0.125).rate(7, 100, 10), 0.125);
}
