//! Functions that are planned once: the cost of later calls, and error messages.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::plan::Plan;
use tensor_core::rng::Philox;
use tensor_core::{Axes, Error, Executor, Host, Reference, Result, Tensor, grad, jit};

/// Computes a training step of a small net: takes parameters and data, returns parameters and loss.
fn step(args: &[Tensor]) -> Result<Vec<Tensor>> {
    let (w1, w2, x, y) = (&args[0], &args[1], &args[2], &args[3]);
    let hidden = x.matmul(w1).relu();
    let scores = hidden.matmul(w2);
    let shifted = &scores - scores.max(Axes::keepdims(1));
    let losses = shifted.exp().sum(1).ln() - (&shifted * y).sum(1);
    let loss = losses.mean(..);
    let gradients = grad(&loss, &[w1, w2])?;
    Ok(vec![
        w1 - &gradients[0] * 0.1,
        w2 - &gradients[1] * 0.1,
        loss,
    ])
}

fn arguments(host: &Host) -> Vec<Tensor> {
    let shapes = [[300, 40], [40, 10], [64, 300], [64, 10]];
    let random = |(key, shape): (u64, &[usize; 2])| Tensor::randn(Philox::new(key), shape) * 0.1;
    let tensors = (0..).zip(&shapes).map(random);
    tensors
        .map(|tensor| tensor.realize(host).unwrap())
        .collect()
}

#[test]
fn a_call_that_was_made_before_allocates_nothing_but_outputs() {
    let host = Host::new();
    let mut args = arguments(&host);
    let compiled = jit(step);
    let run = |args: &mut Vec<Tensor>| {
        let results = compiled
            .call(&host, &args.iter().collect::<Vec<_>>())
            .unwrap();
        args[..2].clone_from_slice(&results[..2]);
    };
    run(&mut args);
    run(&mut args);
    let (before, live) = (host.n_allocations(), host.live_bytes());
    for _ in 0..20 {
        run(&mut args);
        assert_eq!(host.live_bytes(), live);
        assert!(host.cached_bytes() <= host.peak_bytes());
    }
    // Outputs need no allocation either, because the outputs of the previous call were dropped.
    assert_eq!(host.n_allocations(), before);

    let kept: Vec<Vec<Tensor>> = (0..5)
        .map(|_| {
            compiled
                .call(&host, &args.iter().collect::<Vec<_>>())
                .unwrap()
        })
        .collect();
    assert_eq!(host.n_allocations() - before, 5 * 3 - 3, "{kept:?}");
}

#[test]
fn one_plan_returns_the_bits_of_each_evaluation() {
    let host = Host::new();
    let mut args = arguments(&host);
    let compiled = jit(step);
    for _ in 0..3 {
        let again = step(&args).unwrap();
        let results = compiled
            .call(&host, &args.iter().collect::<Vec<_>>())
            .unwrap();
        for (result, again) in results.iter().zip(&again) {
            assert_eq!(
                result.to_host::<f32>().unwrap(),
                again.eval::<f32>(&host).unwrap()
            );
        }
        args[..2].clone_from_slice(&results[..2]);
    }
    assert_eq!(
        (compiled.counters().misses, compiled.counters().hits),
        (1, 2)
    );
}

#[test]
fn other_shapes_types_and_targets_have_plans_of_their_own() {
    let compiled = jit(|args: &[Tensor]| Ok(vec![(&args[0] * 2).sum(..)]));
    let host = Host::new();
    let call = |executor: &dyn Executor, tensor: &Tensor| {
        compiled.call(executor, &[tensor]).unwrap().remove(0)
    };
    for len in [0, 1, 5, 5, 1] {
        let sum = call(&host, &Tensor::arange(len)).to_host::<i32>().unwrap();
        let len = i32::try_from(len).unwrap();
        assert_eq!(sum.first(), Some(&(len * (len - 1))));
    }
    call(&host, &Tensor::from_vec(&[5], vec![1.0_f32; 5]));
    call(&Reference, &Tensor::arange(5));
    assert_eq!(
        (compiled.counters().misses, compiled.counters().hits),
        (5, 2)
    );
    compiled.clear();
    call(&host, &Tensor::arange(5));
    assert_eq!(compiled.counters().misses, 6);
}

#[test]
fn a_nest_is_checked_again_for_inputs_of_another_length() {
    let host = Host::new();
    let first_three = |len: usize| Tensor::arange(len).realize(&host).unwrap().slice(0, ..3);
    let (plan, data) = Plan::new(&[&(first_three(5) + 1)], &host.target()).unwrap();
    let step = &plan.steps[0];
    for len in [5, 4, 3] {
        let data = tensor_core::HostData::I32((0..len).collect());
        let input = host.upload(data).unwrap();
        assert_eq!(host.run(step, &[input]).unwrap().len(), 3);
    }
    for data in [
        tensor_core::HostData::I32(vec![0, 1]),
        tensor_core::HostData::U32(vec![0; 5]),
    ] {
        let error = host.run(step, &[host.upload(data).unwrap()]).unwrap_err();
        let wrong = matches!(error, Error::BadStep { .. });
        assert!(wrong, "{error}");
    }
    assert_eq!(host.run(step, &data).unwrap().len(), 3);
}

#[test]
fn errors_from_inside_name_the_line_of_the_user() {
    let host = Host::new();
    let table = Tensor::from_vec(&[3], vec![1.0_f32, 2.0, 3.0]);
    let line = line!() + 1;
    let looked_up = jit(move |args: &[Tensor]| Ok(vec![table.gather(&args[0], 0)]));
    assert!(looked_up.call(&host, &[&Tensor::arange(3)]).is_ok());
    let error = looked_up
        .call(&host, &[&(Tensor::arange(3) + 1)])
        .unwrap_err();
    let location = error.location().unwrap();
    assert!(location.file().ends_with("jit.rs"), "{error}");
    assert_eq!(location.line(), line, "{error}");

    let line = line!() + 1;
    let wrong = jit(|args: &[Tensor]| Ok(vec![args[0].matmul(&args[0])]));
    let error = wrong.call(&host, &[&Tensor::arange(6).reshape(&[2, 3])]);
    assert_eq!(error.unwrap_err().location().unwrap().line(), line);
}

#[test]
fn data_that_a_traced_function_asks_for_is_an_error_in_the_line_that_asks() {
    let host = Host::new();
    let first = line!() + 2;
    let asks: [fn(&Tensor, &Host) -> Result<Tensor>; 3] = [
        |x, _| x.to_host::<i32>().map(|_| x.clone()),
        |x, host| (x + 1).eval::<i32>(host).map(|_| x.clone()),
        |x, host| (x + 1).realize(host),
    ];
    for (line, ask) in (first..).zip(asks) {
        let function = jit(|args: &[Tensor]| Ok(vec![ask(&args[0], &Host::new())?]));
        let error = function.call(&host, &[&Tensor::arange(3)]).unwrap_err();
        assert!(matches!(error.root(), Error::NoData), "{error}");
        assert_eq!(error.location().unwrap().line(), line);
    }
}

#[test]
fn what_no_memory_holds_is_an_error_in_the_line_that_asks_for_it() {
    let host = Host::new();
    let huge = Tensor::full(&[1 << 30, 1 << 30], 1.0_f32);
    let fills = jit(|args: &[Tensor]| Ok(vec![args[0].broadcast_to(&[1 << 30, 1 << 30])]));
    let asked = line!() + 2;
    let errors = [
        huge.realize(&host).unwrap_err(),
        huge.eval::<f32>(&host).unwrap_err(),
        fills.call(&host, &[&Tensor::scalar(1.0_f32)]).unwrap_err(),
    ];
    for (line, error) in (asked..).zip(errors) {
        assert!(matches!(error.root(), Error::OutOfMemory { .. }), "{error}");
        assert_eq!(error.location().unwrap().line(), line, "{error}");
    }
}

#[test]
fn a_compiled_function_called_by_another_one_is_inlined() {
    let host = Host::new();
    let layer = jit(|args: &[Tensor]| Ok(vec![(args[0].matmul(&args[1]) + 1.0).tanh()]));
    let inner = &layer;
    let loss = jit(move |args: &[Tensor]| {
        let hidden = inner.call(&Reference, &[&args[0], &args[1]])?.remove(0);
        let scores = inner.call(&Reference, &[&hidden, &args[2]])?.remove(0);
        let loss = scores.square().sum(..);
        let mut outputs = grad(&loss, &[&args[1], &args[2]])?;
        outputs.push(loss);
        Ok(outputs)
    });
    let args: Vec<Tensor> = (0..3)
        .map(|key| {
            Tensor::randn(Philox::new(key), &[4, 4])
                .realize(&host)
                .unwrap()
        })
        .collect();
    let args: Vec<&Tensor> = args.iter().collect();
    let plain = {
        let layer = |x: &Tensor, w: &Tensor| (x.matmul(w) + 1.0).tanh();
        let loss = layer(&layer(args[0], args[1]), args[2]).square().sum(..);
        let mut outputs = grad(&loss, &[args[1], args[2]]).unwrap();
        outputs.push(loss);
        outputs
    };
    let (expected, _) = Plan::new(&plain.iter().collect::<Vec<_>>(), &host.target()).unwrap();
    let actual = loss.plan(&host, &args).unwrap();
    assert_eq!(actual.steps.len(), expected.steps.len());
    for (output, plain) in loss.call(&host, &args).unwrap().iter().zip(&plain) {
        let expected = plain.eval::<f32>(&host).unwrap();
        assert_close(
            output.to_host::<f32>().unwrap(),
            expected,
            Tolerance::bits(),
        );
    }
    // The inner function was neither planned nor counted, and still works on its own.
    assert_eq!((layer.counters().misses, layer.counters().hits), (0, 0));
    let alone = layer.call(&host, &args[..2]).unwrap().remove(0);
    assert!(alone.to_host::<f32>().is_ok());
    assert_eq!(layer.counters().misses, 1);
}

#[test]
fn what_is_wrong_in_an_inlined_function_has_its_line() {
    let host = Host::new();
    let x = Tensor::from_vec(&[2], vec![1.0_f32, 2.0]);
    let elements = jit(|args: &[Tensor]| args[0].to_host::<f32>().map(|_| Vec::new()));
    let outer = jit(|args: &[Tensor]| elements.call(&host, &[&args[0]]));
    let error = outer.call(&host, &[&x]).unwrap_err();
    assert!(matches!(error.root(), Error::NoData), "{error}");
    assert_eq!(error.location().unwrap().file(), file!());
}
