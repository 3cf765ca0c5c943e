//! Trains a classifier of two spirals: a network of two layers, Adam, and one compiled function.
//!
//! Run it with `cargo run -p tensor-core --example train`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::error::Error;
use tensor_core::optim::{Adam, Optimizer};
use tensor_core::rng::Philox;
use tensor_core::{DType, Host, Tensor, grad, init, jit, loss};

const POINTS: usize = 200;
const HIDDEN: usize = 64;
const STEPS: usize = 300;

/// Returns points `[2 * POINTS, 2]` on two spirals, and their labels `[2 * POINTS]`.
fn spirals() -> (Tensor, Tensor) {
    let (mut points, mut labels) = (Vec::new(), Vec::new());
    for label in 0..2_u32 {
        for step in 0..POINTS {
            let t = 3.0 * step as f32 / POINTS as f32;
            let angle = 2.0 * t + std::f32::consts::PI * label as f32;
            points.extend([t * angle.cos(), t * angle.sin()]);
            labels.push(label);
        }
    }
    (
        Tensor::from_vec(&[2 * POINTS, 2], points),
        Tensor::from_vec(&[2 * POINTS], labels),
    )
}

fn logits(parameters: &[Tensor], x: &Tensor) -> Tensor {
    let hidden = (x.matmul(&parameters[0]) + &parameters[1]).tanh();
    hidden.matmul(&parameters[2]) + &parameters[3]
}

fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::new();
    let (x, labels) = spirals();
    let stream = Philox::new(1);
    let mut parameters = vec![
        init::glorot_uniform(stream.stream(0), &[2, HIDDEN], 2, HIDDEN) * 4.0,
        init::glorot_uniform(stream.stream(1), &[HIDDEN], 1, HIDDEN) * 4.0,
        init::glorot_uniform(stream.stream(2), &[HIDDEN, 2], HIDDEN, 2),
        Tensor::zeros(&[2], DType::F32),
    ];
    let adam = Adam::new(0.02)?;
    let mut state = adam.init(&parameters.iter().collect::<Vec<_>>())?;
    let n_parameters = parameters.len();
    // The step is traced once; later calls run the same plan on new parameters.
    let step = jit(|inputs: &[Tensor]| {
        let (parameters, rest) = inputs.split_at(n_parameters);
        let (state, data) = rest.split_at(rest.len() - 2);
        let cost = loss::softmax_cross_entropy(&logits(parameters, &data[0]), &data[1]);
        let wrt: Vec<&Tensor> = parameters.iter().collect();
        let gradients = grad(&cost, &wrt)?;
        let result = adam.step(&wrt, &gradients, state)?;
        Ok([vec![cost], result.parameters, result.state].concat())
    });
    for number in 0..=STEPS {
        let inputs: Vec<&Tensor> = parameters
            .iter()
            .chain(&state)
            .chain([&x, &labels])
            .collect();
        let mut outputs = step.call(&host, &inputs)?.into_iter();
        let cost = outputs.next().ok_or("the step returns the loss first")?;
        parameters = outputs.by_ref().take(n_parameters).collect();
        state = outputs.collect();
        if number % 100 == 0 {
            println!("step {number}: loss {:.4}", cost.item::<f32>(&host)?);
        }
    }
    let accuracy = loss::accuracy(&logits(&parameters, &x), &labels).item::<f32>(&host)?;
    println!(
        "accuracy {:.1} %, {} plan",
        100.0 * accuracy,
        step.counters().misses
    );
    assert!(accuracy > 0.95);
    Ok(())
}
