//! Bad input of trainings: options, networks, images and tensors.

use std::ops::ControlFlow;

use crate::digits::{digits, float_net, pool, product, recipe, relu, with_levels};
use quant::layers::{
    ActivationLevels, BatchNorm, Levels, MaxPool, QuantConv2d, QuantLinear, WeightLevels,
};
use quant::train::{
    Images, Loss, Model, Net, NetLayer, Recipe, Schedule, SharedOptimizer, Steps, Training, Update,
};
use quant::{Error, InputImage, Result, Window};
use tensor_core::optim::Sgd;
use tensor_core::{Host, Tensor};

#[test]
fn numbers_that_are_too_large_are_errors() {
    let ([train, _], host) = (digits(), Host::new());
    let many = Recipe {
        n_epochs: usize::MAX,
        batch: 1,
        ..recipe(1)
    };
    let error = Training::new(float_net(), many, &train, &host).unwrap_err();
    assert!(error.to_string().contains("number of epochs"), "{error}");
    let stages = Schedule::Stages(vec![(1, 0.1), (usize::MAX, 0.01)]);
    assert_eq!(stages.rate(9, 10, 3), 0.01);
    for size in [[usize::MAX, 2, 1], [1 << 32, 1 << 32, 1]] {
        let error = Images::new(size, vec![0], vec![0], 1).unwrap_err();
        assert!(matches!(error, Error::Length { actual: 1, .. }), "{error}");
    }
    let error = Images::new([1, 1, 1], vec![0], vec![0], 0).unwrap_err();
    assert!(error.to_string().contains("number of classes"), "{error}");
    for (window, text) in [
        (Window::new([0, 2]), "size of the max-pool is 0"),
        (
            Window::new([2, 2]).with_dilation([1, 2]),
            "dilation of the max-pool is 2",
        ),
        (
            Window::new([2, 2]).with_padding([[2, 0], [0, 0]]),
            "padding of the max-pool is 2",
        ),
    ] {
        let error = MaxPool::new(window).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let layers = || vec![("classes", NetLayer::Linear(QuantLinear::new(2)))];
    for size in [[1, 1, usize::MAX], [0, 1, 1], [1, 1 << 21, 1]] {
        let error = Net::new(InputImage::unit(size), layers()).unwrap_err();
        assert!(error.to_string().contains(" of the input is "), "{error}");
    }
    let mut input = InputImage::unit([2, 2, 3]);
    input.scale.pop();
    let error = Net::new(input, layers()).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Length {
                actual: 2,
                expected: 3,
                ..
            }
        ),
        "{error}"
    );
    // 2^70 weights, of which no slice of memory is long enough.
    let window = Window::new([1 << 15; 2]).with_padding([[1 << 15; 2]; 2]);
    let conv = QuantConv2d::new(1 << 20, window);
    let large = vec![("large", NetLayer::Conv2d(conv))];
    let error = Net::new(InputImage::unit([1, 1, 1 << 20]), large).unwrap_err();
    assert!(error.to_string().contains("number of weights"), "{error}");
    for bases in [0, 9, 33, usize::MAX] {
        let weights = Levels {
            weights: WeightLevels::Abc { bases },
            activations: ActivationLevels::Relu,
        };
        let activations = Levels {
            weights: WeightLevels::Float,
            activations: ActivationLevels::Abc { bases },
        };
        for levels in [weights, activations] {
            assert!(float_net().with_levels(levels).is_err(), "{levels}");
        }
    }
}

#[test]
fn tensors_of_other_numbers_and_shapes_are_errors_of_the_layer() {
    let x = Tensor::from_vec(&[2, 3, 3, 4], vec![1.0_f32; 72]);
    let scalar = Tensor::scalar(1.0_f32);
    let two = [scalar.clone(), scalar.clone()];
    let conv = QuantConv2d::new(2, Window::new([2, 2]));
    let linear = QuantLinear::new(2);
    let norm = BatchNorm::default();
    let levels = ActivationLevels::Lq { bits: 2 };
    for tensors in [&[][..], &two[..1], &two] {
        assert!(conv.apply(&x, tensors, &[]).is_err());
        assert!(linear.apply(&x, tensors, &[]).is_err());
        assert!(norm.apply(&x, tensors, tensors).is_err());
        assert!(levels.apply(&x, &[], tensors).is_err());
    }
    assert!(norm.apply(&scalar, &two, &two).is_err());
    let no_groups = QuantConv2d {
        n_groups: 0,
        ..conv
    };
    assert!(matches!(
        no_groups.apply(&x, &two[..1], &[]),
        Err(Error::Groups { .. })
    ));
    // Steps that are begun again with other tensors.
    let row = |n: usize| Tensor::from_vec(&[n], vec![0.0_f32; n]);
    struct Square;
    impl Model for Square {
        fn loss(&self, parameters: &[Tensor], _: &[Tensor], _: &[Tensor]) -> Result<Loss> {
            Ok(Loss {
                loss: (&parameters[0] * &parameters[0]).sum(..),
                state: Vec::new(),
                are_finite: Vec::new(),
            })
        }
    }
    let sgd = || -> SharedOptimizer { Box::new(Sgd::new(0.1).unwrap()) };
    let mut steps = Steps::new(Square, [sgd(), sgd()], vec![row(3)], vec![]).unwrap();
    for parameters in [vec![], vec![row(4)], vec![row(3), row(3)]] {
        assert!(steps.restart(parameters, vec![]).is_err());
    }
    assert!(steps.step(&Host::new(), &[], f32::NAN).is_err());
    assert_eq!((steps.n_steps(), steps.parameters().len()), (0, 1));
}

#[test]
fn scores_of_other_images_or_classes_are_an_error() {
    let images = Images::new([1, 1, 1], vec![0; 20], vec![0; 20], 2).unwrap();
    let predictions = |shape: &[usize]| {
        let scores = Tensor::full(shape, 0.0_f32);
        images.predictions(&Host::new(), |_| Ok(scores.clone()))
    };
    assert!(predictions(&[20, 1, 1, 2]).is_ok());
    for shape in [&[40, 2][..], &[3, 2], &[20], &[20, 3], &[20, 2, 2], &[]] {
        let error = predictions(shape).unwrap_err();
        assert!(matches!(error, Error::Shape { .. }), "{shape:?}: {error}");
    }
}

#[test]
fn results_of_a_model_that_do_not_fit_are_errors() {
    /// A model that returns some tensors of state and some flags.
    struct Returning {
        n_state: usize,
        n_flags: usize,
    }
    impl Model for Returning {
        fn loss(&self, parameters: &[Tensor], state: &[Tensor], _: &[Tensor]) -> Result<Loss> {
            Ok(Loss {
                loss: (&parameters[0] * &parameters[0]).sum(..),
                state: vec![state[0].clone(); self.n_state],
                are_finite: vec![Tensor::scalar(true); self.n_flags],
            })
        }

        fn checked_layers(&self) -> Vec<String> {
            vec!["only".to_owned()]
        }
    }
    let row = || Tensor::from_vec(&[3], vec![1.0_f32; 3]);
    for (n_state, n_flags, fits) in [(1, 1, true), (0, 1, false), (2, 1, false), (1, 2, false)] {
        let sgd = || -> SharedOptimizer { Box::new(Sgd::new(0.1).unwrap()) };
        let model = Returning { n_state, n_flags };
        let mut steps = Steps::new(model, [sgd(), sgd()], vec![row()], vec![row()]).unwrap();
        let result = steps.step(&Host::new(), &[], 0.1);
        assert_eq!(result.is_ok(), fits, "{n_state}, {n_flags}: {result:?}");
    }
}

#[test]
fn tensors_of_other_lengths_are_errors_of_the_export() {
    let net = float_net().with_levels("w2a2".parse().unwrap()).unwrap();
    let parameters: Vec<Vec<f32>> = net
        .parameters()
        .iter()
        .map(|(_, slot)| vec![0.5; slot.shape.iter().product()])
        .collect();
    let state = net.state(&parameters).unwrap();
    let state: Vec<Vec<f32>> = state
        .iter()
        .map(|slot| vec![0.5; slot.shape.iter().product()])
        .collect();
    assert!(net.network(&parameters, &state).is_ok());
    for n in [0, 1, 3] {
        for place in 0..parameters.len() + state.len() {
            let [mut parameters, mut state] = [parameters.clone(), state.clone()];
            let numbers = match place.checked_sub(parameters.len()) {
                Some(place) => &mut state[place],
                None => &mut parameters[place],
            };
            if numbers.len() == n {
                continue;
            }
            numbers.resize(n, 0.5);
            let error = net.network(&parameters, &state).unwrap_err();
            assert!(matches!(error, Error::Layer { .. }), "{place}: {error}");
        }
    }
    // A batch without labels.
    let images = Tensor::full(&[1, 28, 28, 1], 0.5_f32);
    let error = Model::loss(&net, &[], &[], &[images])
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Length {
                quantity: "batch",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn bad_options_are_errors_with_their_values() {
    let ([train, _], host) = (digits(), Host::new());
    let train = train.first(100);
    let start =
        |recipe: Recipe| Training::new(with_levels("w2a2"), recipe, &train, &host).map(drop);
    let rate = |rate: f32| Recipe {
        schedule: Schedule::Constant(rate),
        ..recipe(1)
    };
    let batch = |batch: usize| Recipe { batch, ..recipe(1) };
    for (recipe, text) in [
        (rate(f32::NAN), "learning rate is NaN"),
        (rate(f32::INFINITY), "learning rate is inf"),
        (rate(-0.1), "learning rate is -0.1"),
        (
            Recipe {
                schedule: Schedule::Stages(Vec::new()),
                ..recipe(1)
            },
            "number of rates is 0",
        ),
        (batch(0), "batch is 0"),
        (batch(101), "batch is 101"),
        (
            Recipe {
                read_every: 0,
                ..recipe(1)
            },
            "read_every is 0",
        ),
        (
            Recipe {
                weight_decay: f64::NAN,
                ..recipe(1)
            },
            "weight decay",
        ),
        (
            Recipe {
                update: Update::Sgd { momentum: 1.0 },
                ..recipe(1)
            },
            "momentum",
        ),
    ] {
        let error = start(recipe).unwrap_err().to_string();
        assert!(error.contains(text), "{error} ({text})");
    }
    // No epochs are no steps.
    let mut training = Training::new(with_levels("w2a2"), recipe(0), &train, &host).unwrap();
    training.run(|_, _| Ok(ControlFlow::Break(()))).unwrap();
    assert_eq!((training.step(), training.n_steps()), (0, 0));
    // Images of another size, and another number of classes.
    let other = Images::new([2, 2, 1], vec![0; 400], vec![1; 100], 10).unwrap();
    let error = Training::new(with_levels("w2a2"), recipe(1), &other, &host).unwrap_err();
    assert!(matches!(error, Error::ImageShape { .. }), "{error}");
    let other = Images::new([8, 8, 1], vec![0; 6400], vec![0; 100], 11).unwrap();
    let error = Training::new(with_levels("w2a2"), recipe(1), &other, &host).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Length {
                actual: 10,
                expected: 11,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn bad_nets_are_errors_with_the_layer() {
    let input = || InputImage::unit([8, 8, 1]);
    let error = |layers: Vec<(&str, NetLayer)>| Net::new(input(), layers).unwrap_err().to_string();
    assert!(error(Vec::new()).contains("empty"));
    let twice = error(vec![("a", product(2, 3)), ("a", product(2, 3))]);
    assert!(twice.contains("two layers have the name \"a\""), "{twice}");
    let wide = error(vec![("a", product(2, 3)), ("b", product(2, 9))]);
    assert!(
        wide.contains("layer \"b\"") && wide.contains("[6, 6]"),
        "{wide}"
    );
    let grouped = QuantConv2d {
        n_groups: 3,
        ..QuantConv2d::new(6, Window::new([3, 3]))
    };
    let grouped = error(vec![("a", NetLayer::Conv2d(grouped))]);
    assert!(
        grouped.contains("1 channels") && grouped.contains("3 groups"),
        "{grouped}"
    );
    for n_outputs in [0, 1 << 21] {
        let none = error(vec![("a", NetLayer::Linear(QuantLinear::new(n_outputs)))]);
        assert!(none.contains("layer \"a\""), "{none}");
    }
    for bits in [0, 5, 9] {
        let levels = ActivationLevels::Lq { bits };
        let many = error(vec![("a", NetLayer::Activation(levels))]);
        assert!(many.contains("number of bits"), "{many}");
    }
    let nan = InputImage {
        scale: vec![f32::NAN],
        ..input()
    };
    assert!(Net::new(nan, vec![("a", product(2, 3))]).is_err());
    // Orders that cannot be exported can be trained.
    let net = Net::new(
        input(),
        vec![
            ("a", product(2, 3)),
            ("first", pool()),
            ("act", relu()),
            ("pool", pool()),
        ],
    );
    let net = net.unwrap();
    let parameters: Vec<Vec<f32>> = net
        .parameters()
        .iter()
        .map(|(_, slot)| vec![0.5; slot.shape.iter().product()])
        .collect();
    let error = net.network(&parameters, &[]).unwrap_err().to_string();
    assert!(
        error.contains("layer \"pool\"") && error.contains("wrong place"),
        "{error}"
    );
    let error = net.network(&parameters[1..], &[]).unwrap_err();
    assert!(matches!(error, Error::Length { .. }), "{error}");
}

#[test]
fn bad_images_are_errors() {
    let new = |len: usize, labels: Vec<u32>| Images::new([2, 2, 1], vec![0; len], labels, 3);
    assert!(matches!(
        new(8, vec![0, 3]).unwrap_err(),
        Error::Label {
            index: 1,
            label: 3,
            ..
        }
    ));
    assert!(matches!(
        new(7, vec![0, 1]).unwrap_err(),
        Error::Length { .. }
    ));
    assert!(matches!(
        new(0, Vec::new()).unwrap_err(),
        Error::Empty { .. }
    ));
    let images = new(8, vec![0, 2]).unwrap();
    assert!(images.split_at(0).is_err() && images.split_at(2).is_err());
    assert!(images.accuracy(&[0]).is_err());
    assert!((images.accuracy(&[1, 2]).unwrap() - 0.5).abs() < f64::EPSILON);
    assert!(Images::read_idx("no-such-file", "no-such-file", 10).is_err());
}

#[test]
fn parameters_of_unchecked_layers_do_not_overflow() {
    let max = usize::MAX;
    let conv = QuantConv2d::new(max, Window::new([max; 2]));
    assert_eq!(conv.parameters([1, 1, max])[0].shape, [max; 4]);
    let linear = QuantLinear::new(2);
    assert_eq!(linear.parameters([max; 3])[0].shape, [2, max]);
    let levels = ActivationLevels::Abc { bases: max };
    assert_eq!(levels.parameters()[0].shape, [8]);
}
