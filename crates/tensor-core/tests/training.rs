//! Losses and optimisers: against PyTorch, against central differences, and through `jit`.
#![expect(
    clippy::unwrap_used,
    reason = "a setup that fails is a test that fails"
)]

use tensor_core::compare::{Bound, assert_close, compare};
use tensor_core::ndarray::array;
use tensor_core::optim::{Adam, Optimizer, Sgd};
use tensor_core::plan::Plan;
use tensor_core::rng::Philox;
use tensor_core::{DType, Error, Executor, Host, Reference, Tensor, grad, jit, loss};

/// The numbers of a case that `testdata/training.py` has computed with PyTorch.
fn golden(case: &str) -> Vec<f64> {
    let lines = include_str!("../testdata/training.txt").lines();
    let mut found = lines.filter_map(|line| line.strip_prefix(case)?.strip_prefix(' '));
    let numbers = found.next().unwrap().split(' ');
    numbers.map(|number| number.parse().unwrap()).collect()
}

/// The inputs of those cases, by the same rule.
fn numbers(shape: &[usize], factor: i32, modulus: i32, divisor: f64) -> Tensor {
    let count = i32::try_from(shape.iter().product::<usize>()).unwrap();
    let value = |i: i32| f64::from(i * factor % modulus - modulus / 2) / divisor;
    Tensor::from_vec(shape, (0..count).map(value).collect())
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let wide = tensor.cast(DType::F64).eval::<f64>(&Host::new()).unwrap();
    wide.into_iter().collect()
}

/// Compares with PyTorch: to 2^-40 (9e-13) in f64, to 2^-20 (9.5e-7) in f32, and as much of 0.1 for numbers near zero.
#[track_caller]
fn assert_like_torch(actual: &[f64], case: &str) {
    let bits = if case.ends_with("f64") { 12 } else { 32 };
    let bound = Bound::relative(1 << bits).or_absolute(0.1 * f64::EPSILON * (1_u64 << bits) as f64);
    if let Err(mismatch) = compare(actual, &golden(case)[..], &bound) {
        panic!("{case}: {mismatch}");
    }
}

/// The loss and the parameters of five steps, each step a call of one compiled function.
fn five_steps(optimizer: &dyn Optimizer, dtype: DType) -> Vec<f64> {
    let host = Host::new();
    let x = numbers(&[4, 3], 7, 11, 4.0).cast(dtype);
    let y = numbers(&[4, 2], 5, 7, 2.0).cast(dtype);
    let w = numbers(&[3, 2], 3, 5, 8.0).cast(dtype);
    let b = numbers(&[2], 2, 3, 4.0).cast(dtype);
    let step = jit(|args: &[Tensor]| {
        let [x, y, w, b, state @ ..] = args else {
            unreachable!("there are at least four")
        };
        let loss = loss::mean_squared_error(&(x.matmul(w) + b), y);
        let next = optimizer.step(&[w, b], &grad(&loss, &[w, b])?, state)?;
        Ok([vec![loss], next.parameters, next.state].concat())
    });
    let mut at = vec![w, b];
    at.extend(optimizer.start(&[&at[0], &at[1]]).unwrap());
    let mut trace = Vec::new();
    for _ in 0..5 {
        let args: Vec<&Tensor> = [&x, &y].into_iter().chain(&at).collect();
        let results = step.call(&host, &args).unwrap();
        trace.extend(results[..3].iter().flat_map(values));
        at = results[1..].to_vec();
    }
    assert_eq!(step.counters().misses, 1);
    trace
}

#[test]
fn optimisers_move_as_those_of_pytorch() {
    let sgd = Sgd::new(0.1).unwrap();
    let adam = Adam::new(0.01).unwrap();
    let settings = Adam::new(0.2).unwrap().with_betas(0.5, 0.75).unwrap();
    let nesterov = sgd.with_nesterov_momentum(0.8).unwrap();
    let cases: [(&str, Box<dyn Optimizer>); 9] = [
        ("sgd", Box::new(sgd)),
        ("sgd-decay", Box::new(sgd.with_weight_decay(0.05).unwrap())),
        ("sgd-momentum", Box::new(sgd.with_momentum(0.9).unwrap())),
        (
            "sgd-momentum-decay",
            Box::new(
                sgd.with_weight_decay(0.05)
                    .unwrap()
                    .with_momentum(0.9)
                    .unwrap(),
            ),
        ),
        (
            "sgd-nesterov-decay",
            Box::new(nesterov.with_weight_decay(0.05).unwrap()),
        ),
        ("adam", Box::new(adam)),
        (
            "adam-decay",
            Box::new(adam.with_weight_decay(0.05).unwrap()),
        ),
        (
            "adam-settings",
            Box::new(settings.with_epsilon(0.125).unwrap()),
        ),
        (
            "adamw",
            Box::new(adam.with_decoupled_weight_decay(0.05).unwrap()),
        ),
    ];
    for (name, optimizer) in cases {
        for dtype in [DType::F64, DType::F32] {
            assert_like_torch(
                &five_steps(&*optimizer, dtype),
                &format!("optim {name} {dtype}"),
            );
        }
    }
}

#[test]
fn losses_and_their_gradients_are_those_of_pytorch() {
    let labels = Tensor::from_array(array![0_u32, 3, 1, 2, 3]);
    for dtype in [DType::F64, DType::F32] {
        let check = |name: &str, loss: &Tensor, at: &Tensor| {
            let gradient = &grad(loss, &[at]).unwrap()[0];
            let both = [values(loss), values(gradient)].concat();
            assert_like_torch(&both, &format!("loss {name} {dtype}"));
        };
        let prediction = numbers(&[3, 2], 3, 5, 8.0).cast(dtype);
        let target = numbers(&[3, 2], 5, 7, 2.0).cast(dtype);
        check(
            "squares",
            &loss::mean_squared_error(&prediction, &target),
            &prediction,
        );
        for (name, scale) in [("entropy", 1.0), ("entropy-large", 8192.0)] {
            let logits = (numbers(&[5, 4], 7, 11, 4.0) * scale).cast(dtype);
            check(
                name,
                &loss::softmax_cross_entropy(&logits, &labels),
                &logits,
            );
            let signed = labels.cast(DType::I32);
            check(
                name,
                &loss::softmax_cross_entropy(&logits, &signed),
                &logits,
            );
        }
    }
}

#[test]
fn gradients_of_losses_are_central_differences() {
    const STEP: f64 = 1.0 / 65536.0;
    let host = Host::new();
    let labels = Tensor::from_array(array![[2_u32, 0], [1, 2], [0, 0]]);
    let target = numbers(&[3, 2, 3], 5, 7, 2.0);
    let entropy = |x: &Tensor| loss::softmax_cross_entropy(x, &labels);
    let squares = |x: &Tensor| loss::mean_squared_error(x, &target);
    let losses: [&dyn Fn(&Tensor) -> Tensor; 2] = [&entropy, &squares];
    for loss in losses {
        let x = numbers(&[3, 2, 3], 7, 11, 4.0);
        let at = |element: usize, by: f64| {
            let mut moved = x.eval::<f64>(&host).unwrap();
            *moved.iter_mut().nth(element).unwrap() += by;
            values(&loss(&Tensor::from_array(moved)))[0]
        };
        let slopes: Vec<f64> = (0..18)
            .map(|element| (at(element, STEP) - at(element, -STEP)) / (2.0 * STEP))
            .collect();
        let gradient = values(&grad(&loss(&x), &[&x]).unwrap()[0]);
        let bound = Bound::relative(1 << 26).or_absolute(1e-8);
        assert_close(&gradient[..], &slopes[..], bound);
    }
}

#[test]
fn the_gradient_of_cross_entropy_is_softmax_minus_one_hot() {
    let logits = Tensor::randn(Philox::new(5), &[64, 10]) * 3.0;
    let labels = Tensor::arange(64) % 10;
    let one_hot = labels
        .expand_dims(-1)
        .eq(Tensor::arange(10))
        .cast(DType::F32);
    let expected = values(&((logits.softmax(-1) - one_hot) / 64.0));
    let loss = loss::softmax_cross_entropy(&logits, &labels);
    let gradient = values(&grad(&loss, &[&logits]).unwrap()[0]);
    let bound = f64::from(4.0 * f32::EPSILON / 64.0);
    let errors = gradient.iter().zip(&expected).map(|(a, b)| (a - b).abs());
    let worst = errors.fold(0.0, f64::max);
    assert!(worst <= bound, "{worst}");
    let accuracy = loss::accuracy(&one_hot_logits(&labels), &labels);
    assert_eq!(values(&accuracy), [1.0]);
}

fn one_hot_logits(labels: &Tensor) -> Tensor {
    labels
        .expand_dims(-1)
        .eq(Tensor::arange(10))
        .select(1.0, 0.0)
}

#[test]
fn the_largest_logits_give_their_losses_and_finite_gradients() {
    for (logits, expected) in [
        (array![[1e4_f32, -1e4]], 0.0),
        (array![[-1e4, 1e4]], 2e4),
        (array![[-1e4, -1e4]], 2.0_f32.ln()),
        (array![[1e38, -1e38]], 0.0),
        (array![[0.0, f32::NEG_INFINITY]], 0.0),
        (array![[f32::NEG_INFINITY, 0.0]], f32::INFINITY),
    ] {
        let logits = Tensor::from_array(logits);
        let loss = loss::softmax_cross_entropy(&logits, &Tensor::from_array(array![0_u32]));
        assert_eq!(values(&loss), [f64::from(expected)]);
        let gradient = values(&grad(&loss, &[&logits]).unwrap()[0]);
        assert!(gradient.iter().all(|x| x.abs() <= 1.0), "{gradient:?}");
        assert!(gradient.iter().sum::<f64>().abs() < 1e-6, "{gradient:?}");
    }
}

#[test]
fn a_label_that_is_no_class_is_found_when_the_loss_is_computed() {
    let logits = Tensor::from_array(array![[0.0_f32, 1.0, 2.0], [3.0, 4.0, 5.0]]);
    for (labels, index) in [(array![0, 3], 3.0), (array![-1, 0], f64::from(u32::MAX))] {
        let labels = Tensor::from_array(labels);
        let loss = loss::softmax_cross_entropy(&logits, &labels);
        for executor in [&Host::new() as &dyn Executor, &Reference] {
            let error = loss.eval::<f32>(executor).unwrap_err();
            let root = error.root();
            assert!(
                matches!(root, Error::IndexOutOfRange { index: found, extent: 3 } if *found == index),
                "{error}"
            );
        }
        assert!(values(&loss::accuracy(&logits, &labels))[0] < 1.0);
    }
}

#[test]
fn losses_refuse_what_does_not_belong_together() {
    let logits = Tensor::from_vec(&[4, 3], vec![0.0_f32; 12]);
    let column = Tensor::from_vec(&[4, 1], vec![0.0_f32; 4]);
    let row = column.reshape(&[4]);
    let labels = Tensor::arange(4);
    let whole = logits.cast(DType::I32);
    let message = |tensor: Tensor| tensor.shape().unwrap_err().root().to_string();
    for (tensor, expected) in [
        (
            loss::mean_squared_error(&column, &row),
            "mean_squared_error: shape [4] does not broadcast to [4, 1]",
        ),
        (
            loss::mean_squared_error(&row, &column),
            "mean_squared_error: shape [4, 1] does not broadcast to [4]",
        ),
        (
            loss::mean_squared_error(&row, &row.cast(DType::F64)),
            "mean_squared_error: types f32 and f64 differ",
        ),
        (
            loss::mean_squared_error(&whole, &whole),
            "mean_squared_error: not defined on i32",
        ),
        (
            loss::softmax_cross_entropy(&logits, &labels.expand_dims(1)),
            "softmax_cross_entropy: shape [4, 1] does not broadcast to [4]",
        ),
        (
            loss::softmax_cross_entropy(&logits, &row),
            "softmax_cross_entropy: not defined on f32",
        ),
        (
            loss::softmax_cross_entropy(&whole, &labels),
            "softmax_cross_entropy: not defined on i32",
        ),
        (
            loss::softmax_cross_entropy(&Tensor::scalar(1.0_f32), &labels),
            "softmax_cross_entropy: axis -1 is out of range for shape []",
        ),
        (
            loss::accuracy(&logits, &row),
            "accuracy: not defined on f32",
        ),
        (
            loss::accuracy(&logits, &Tensor::arange(3)),
            "accuracy: shape [3] does not broadcast to [4]",
        ),
    ] {
        assert_eq!(message(tensor), expected);
    }
}

#[test]
fn settings_out_of_range_are_errors() {
    let sgd = Sgd::new(0.1).unwrap();
    let adam = Adam::new(0.1).unwrap();
    for (error, expected) in [
        (
            Sgd::new(f64::NAN).err(),
            "sgd: invalid rate (NaN; expected a number from 0 to 1e18)",
        ),
        (
            Sgd::new(-1.0).err(),
            "sgd: invalid rate (-1; expected a number from 0 to 1e18)",
        ),
        (
            sgd.with_momentum(1.0).err(),
            "sgd: invalid momentum (1; expected a number in 0..1)",
        ),
        (
            sgd.with_nesterov_momentum(f64::NAN).err(),
            "sgd: invalid momentum (NaN; expected a number in 0..1)",
        ),
        (
            sgd.with_weight_decay(f64::INFINITY).err(),
            "sgd: invalid weight decay (inf; expected a number from 0 to 1e18)",
        ),
        (
            Adam::new(f64::INFINITY).err(),
            "adam: invalid rate (inf; expected a number from 0 to 1e18)",
        ),
        (
            adam.with_betas(0.9, 1.0).err(),
            "adam: invalid beta2 (1; expected a number in 0..1)",
        ),
        (
            adam.with_betas(-0.1, 0.5).err(),
            "adam: invalid beta1 (-0.1; expected a number in 0..1)",
        ),
        (
            adam.with_epsilon(0.0).err(),
            "adam: invalid epsilon (0; expected a number from 1.2e-38, the smallest normal f32, to 1e18)",
        ),
        (
            adam.with_epsilon(1e-46).err(),
            "adam: invalid epsilon (0.0000000000000000000000000000000000000000000001; expected a number from 1.2e-38, the smallest normal f32, to 1e18)",
        ),
        (
            Sgd::new(1e39).err(),
            "sgd: invalid rate (1000000000000000000000000000000000000000; expected a number from 0 to 1e18)",
        ),
        (
            adam.with_decoupled_weight_decay(-0.0001).err(),
            "adam: invalid weight decay (-0.0001; expected a number from 0 to 1e18)",
        ),
    ] {
        let error = error.unwrap();
        assert_eq!(error.root().to_string(), expected);
        assert_eq!(error.location().unwrap().file(), file!());
    }
}

#[test]
fn lists_that_do_not_belong_together_are_errors_with_the_callers_line() {
    let sgd = Sgd::new(0.1).unwrap().with_momentum(0.9).unwrap();
    let adam = Adam::new(0.1).unwrap();
    let (a, b) = (Tensor::full(&[2, 3], 1.0_f32), Tensor::full(&[3], 1.0_f64));
    let parameters = [&a, &b];
    let gradients = [a.clone(), b.clone()];
    let state = adam.start(&parameters).unwrap();
    let wrong_count = [vec![Tensor::scalar(0)], state[1..].to_vec()].concat();
    let swapped = [&gradients[1], &gradients[0]].map(Tensor::clone);
    for (result, expected) in [
        (
            sgd.step(&parameters, &gradients[..1], &[]),
            "sgd: wrong number of gradients for 2 parameters (got 1, expected 2)",
        ),
        (
            sgd.step(&parameters, &gradients, &[]),
            "sgd: wrong number of tensors of state for 2 parameters (got 0, expected 2)",
        ),
        (
            sgd.step(&parameters, &swapped, &[]),
            "sgd: gradient 0 has the wrong type or shape (got f64 [3], expected f32 [2, 3])",
        ),
        (
            sgd.step(&parameters, &gradients, &swapped),
            "sgd: velocity 0 has the wrong type or shape (got f64 [3], expected f32 [2, 3])",
        ),
        (
            adam.step(&parameters, &gradients, &state[1..]),
            "adam: wrong number of tensors of state for 2 parameters (got 4, expected 5)",
        ),
        (
            adam.step(&parameters, &gradients, &wrong_count),
            "adam: tensor of state 0 has the wrong type or shape (got i32 [], expected u32 [])",
        ),
        (
            adam.step(&parameters, &[a.clone(), b.cast(DType::F32)], &state),
            "adam: gradient 1 has the wrong type or shape (got f32 [3], expected f64 [3])",
        ),
        (
            adam.step(&[&a, &Tensor::arange(3)], &gradients, &state),
            "adam: parameter 1 has type i32 (expected f32 or f64)",
        ),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.root().to_string(), expected);
        assert_eq!(error.location().unwrap().file(), file!());
    }
    let error = adam.start(&[&a.cast(DType::F16)]).unwrap_err();
    let expected = "adam: parameter 0 has type f16 (expected f32 or f64)";
    assert_eq!(error.root().to_string(), expected);
    assert_eq!(error.location().unwrap().line(), line!() - 3);
    let huge = Tensor::full(&[1 << 30, 1 << 30], 1.0_f32);
    let error = adam.start(&[&huge]).unwrap_err();
    assert!(matches!(error.root(), Error::OutOfMemory { .. }), "{error}");
    assert_eq!(error.location().unwrap().line(), line!() - 2);
}

#[test]
fn errors_inside_of_a_compiled_step_name_the_line() {
    let (host, sgd) = (Host::new(), Sgd::new(0.1).unwrap());
    let w = Tensor::full(&[3], 1.0_f32);
    let wrong_shape = jit(|args: &[Tensor]| {
        let loss = loss::mean_squared_error(&args[0], &Tensor::full(&[2], 0.0_f32)); // here
        let gradients = grad(&loss, &[&args[0]])?;
        Ok(sgd.step(&[&args[0]], &gradients, &[])?.parameters)
    });
    let wrong_list = jit(|args: &[Tensor]| {
        Ok(sgd.step(&[&args[0]], &[], &[])?.parameters) // there
    });
    let line_of = |mark: &str| {
        let lines = include_str!("training.rs").lines().zip(1_u32..);
        lines
            .filter(|(line, _)| line.ends_with(mark))
            .map(|(_, number)| number)
            .next()
            .unwrap()
    };
    for (error, mark) in [
        (wrong_shape.call(&host, &[&w]).unwrap_err(), "; // here"),
        (wrong_list.call(&host, &[&w]).unwrap_err(), ") // there"),
    ] {
        let location = error.location().unwrap();
        assert_eq!(
            (location.file(), location.line()),
            (file!(), line_of(mark)),
            "{error}"
        );
    }
}

#[test]
fn an_update_is_fused_with_what_it_reads() {
    let target = Host::new().target();
    let steps = |tensors: &[Tensor]| {
        let (plan, _) = Plan::of(&tensors.iter().collect::<Vec<_>>(), &target).unwrap();
        plan.steps.len()
    };
    let x = numbers(&[40, 3], 7, 11, 4.0);
    let (w, b) = (numbers(&[3, 20], 3, 5, 8.0), numbers(&[20], 2, 3, 4.0));
    let labels = Tensor::from_vec(&[40], vec![7_u32; 40]);
    let loss = loss::softmax_cross_entropy(&(x.matmul(&w) + &b), &labels);
    let gradients = grad(&loss, &[&w, &b]).unwrap();
    let n_gradients = steps(&gradients);
    // Logits; maxima; sums; their gradient; that of the weight; that of the bias.
    assert_eq!(n_gradients, 6);
    let n_with = |optimizer: &dyn Optimizer| {
        let parameters = [&w, &b];
        let state = optimizer.start(&parameters).unwrap();
        let next = optimizer.step(&parameters, &gradients, &state).unwrap();
        steps(&[next.parameters, next.state].concat())
    };
    let sgd = Sgd::new(0.1).unwrap();
    let adam = Adam::new(0.1).unwrap();
    assert_eq!(n_with(&sgd), n_gradients);
    assert_eq!(n_with(&sgd.with_momentum(0.9).unwrap()), n_gradients + 2);
    // For each parameter its two moments and itself; the number of steps and its two corrections, once.
    assert_eq!(n_with(&adam), n_gradients + 2 * 3 + 3);
}
