//! Reference losses of the first steps of a training, in f64, by plain loops.
//!
//! Method: the forward pass stores the result of every layer; the backward pass applies the
//! derivative rules of each layer, written out. No code is shared with the tensors whose training
//! is checked.

use super::layer::Layer;
use super::{Goal, Recipe, Samples};
use anyhow::{Context, Result};

/// Returns the losses of the first `recipe.first_losses.0` steps, or of all steps of the first
/// stage if it has fewer.
///
/// # Errors
/// The recipe has no stage.
pub(super) fn losses(recipe: &Recipe, first: &[Vec<f32>], train: &Samples) -> Result<Vec<f64>> {
    let stage = recipe.stages.first().context("the recipe has no stage")?;
    let wide = |numbers: &[f32]| -> Vec<f64> { numbers.iter().copied().map(f64::from).collect() };
    let mut parameters: Vec<Vec<f64>> = first.iter().map(|own| wide(own)).collect();
    let mut velocities: Vec<Vec<f64>> = first.iter().map(|own| vec![0.0; own.len()]).collect();
    let [inputs, outputs] = recipe.sides()?;
    let width = if recipe.goal == Goal::Targets {
        outputs
    } else {
        1
    };
    let inputs = train.inputs.chunks_exact(recipe.batch * inputs);
    let answers = train.answers.chunks_exact(recipe.batch * width);
    let batches: Vec<(&[f32], &[f32])> = inputs.zip(answers).collect();
    let n_steps = recipe.first_losses.0.min(stage.epochs * batches.len());
    let mut losses = Vec::with_capacity(n_steps);
    for (inputs, answers) in batches.into_iter().cycle().take(n_steps) {
        // `results[i]` is the input of layer `i`; the last entry is the output of the net. `at` is
        // the position of a layer's first parameter array.
        let mut results = vec![wide(inputs)];
        let mut at = 0;
        for layer in &recipe.layers {
            let own = &parameters[at..at + layer.parameters().len()];
            results.push(forward(layer, &results[results.len() - 1], own));
            at += own.len();
        }
        let (loss, mut cotangent) =
            judged(recipe.goal, &results[recipe.layers.len()], answers, outputs);
        losses.push(loss);
        // Backward, from the last layer to the first. `cotangent` is the derivative of the loss
        // with respect to the output of the current layer.
        for (number, layer) in recipe.layers.iter().enumerate().rev() {
            let n_own = layer.parameters().len();
            at -= n_own;
            let own = &parameters[at..at + n_own];
            let (before, gradients) = backward(layer, &results[number], own, &cotangent);
            cotangent = before;
            for (offset, gradient) in gradients.iter().enumerate() {
                let (parameter, velocity) =
                    (&mut parameters[at + offset], &mut velocities[at + offset]);
                for ((p, v), g) in parameter.iter_mut().zip(velocity).zip(gradient) {
                    *v = f64::from(recipe.momentum) * *v + g;
                    *p -= f64::from(stage.rate) * *v;
                }
            }
        }
    }
    Ok(losses)
}

/// Returns the loss of a batch, and its derivative with respect to the outputs.
fn judged(goal: Goal, results: &[f64], answers: &[f32], outputs: usize) -> (f64, Vec<f64>) {
    if goal == Goal::Targets {
        let differences: Vec<f64> = results
            .iter()
            .zip(answers)
            .map(|(y, &t)| y - f64::from(t))
            .collect();
        let loss = differences.iter().map(|d| d * d).sum();
        return (loss, differences.iter().map(|d| 2.0 * d).collect());
    }
    let n = answers.len() as f64;
    let (mut loss, mut cotangent) = (0.0, Vec::with_capacity(results.len()));
    for (row, &answer) in results.chunks_exact(outputs).zip(answers) {
        // Subtracting the largest element keeps `exp` from overflowing and does not change the
        // softmax.
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        for (class, x) in row.iter().enumerate() {
            let is_right = class as f64 == f64::from(answer);
            if is_right {
                loss -= (x - largest - sum.ln()) / n;
            }
            cotangent.push(((x - largest).exp() / sum - f64::from(u8::from(is_right))) / n);
        }
    }
    (loss, cotangent)
}

/// Returns the output of a layer for a batch. `own` holds the layer's weights and biases.
fn forward(layer: &Layer, x: &[f64], own: &[Vec<f64>]) -> Vec<f64> {
    match layer {
        Layer::Relu(_) => return x.iter().map(|x| x.max(0.0)).collect(),
        Layer::Dense { .. } | Layer::Conv { .. } => {}
    }
    let n = x.len() / layer.inputs();
    let mut y = vec![0.0; n * layer.outputs()];
    for sample in 0..n {
        let (x, y) = (
            &x[sample * layer.inputs()..],
            &mut y[sample * layer.outputs()..],
        );
        products(layer, |input, output, weight| {
            y[output] += x[input] * own[0][weight]
        });
        // A bias is shared by all pixels of a filter's output; a dense layer has one output per
        // bias.
        let per_bias = layer.outputs() / own[1].len();
        for (output, y) in y[..layer.outputs()].iter_mut().enumerate() {
            *y += own[1][output / per_bias];
        }
    }
    y
}

/// Returns the derivatives of the loss with respect to a layer's inputs `x`, and those with respect
/// to its weights and biases, given the derivatives `by_y` with respect to its outputs.
fn backward(layer: &Layer, x: &[f64], own: &[Vec<f64>], by_y: &[f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
    match layer {
        Layer::Relu(_) => {
            let passes = x
                .iter()
                .zip(by_y)
                .map(|(&x, &by)| if x > 0.0 { by } else { 0.0 });
            return (passes.collect(), Vec::new());
        }
        Layer::Dense { .. } | Layer::Conv { .. } => {}
    }
    let mut by_x = vec![0.0; x.len()];
    let (mut by_weight, mut by_bias) = (vec![0.0; own[0].len()], vec![0.0; own[1].len()]);
    for sample in 0..x.len() / layer.inputs() {
        let (from, to) = (sample * layer.inputs(), sample * layer.outputs());
        products(layer, |input, output, weight| {
            by_x[from + input] += by_y[to + output] * own[0][weight];
            by_weight[weight] += by_y[to + output] * x[from + input];
        });
        let per_bias = layer.outputs() / own[1].len();
        for (output, by) in by_y[to..to + layer.outputs()].iter().enumerate() {
            by_bias[output / per_bias] += by;
        }
    }
    (by_x, vec![by_weight, by_bias])
}

/// Calls `term` for each product in the sums of one sample's outputs, with the indices of input,
/// output and weight.
fn products(layer: &Layer, mut term: impl FnMut(usize, usize, usize)) {
    match *layer {
        Layer::Relu(_) => {}
        Layer::Dense { inputs, outputs } => {
            for input in 0..inputs {
                (0..outputs).for_each(|output| term(input, output, input * outputs + output));
            }
        }
        Layer::Conv {
            inputs,
            outputs,
            side,
            taps,
            step,
        } => {
            // Row-major layouts: image `[inputs, side, side]`, output `[outputs, after, after]`,
            // weights `[outputs, inputs, taps, taps]`.
            let after = Layer::side_after(side, taps, step);
            for (output, row, col) in indices([outputs, after, after]) {
                for (input, down, right) in indices([inputs, taps, taps]) {
                    let pixel = (input * side + row * step + down) * side + col * step + right;
                    let weight = ((output * inputs + input) * taps + down) * taps + right;
                    term(pixel, (output * after + row) * after + col, weight);
                }
            }
        }
    }
}

fn indices([a, b, c]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the derivatives of one small layer of each kind with difference quotients.
    #[test]
    fn derivatives_are_what_differences_tell() {
        let conv = Layer::Conv {
            inputs: 2,
            outputs: 3,
            side: 5,
            taps: 3,
            step: 2,
        };
        let dense = Layer::Dense {
            inputs: 12,
            outputs: 4,
        };
        for layer in [conv, dense, Layer::Relu(6)] {
            let number = |at: usize| ((at * 7919 + 13) % 101) as f64 / 50.0 - 1.01;
            let shapes = layer.parameters();
            let own: Vec<Vec<f64>> = shapes
                .iter()
                .map(|(shape, _)| (0..shape.iter().product()).map(number).collect())
                .collect();
            let x: Vec<f64> = (0..2 * layer.inputs()).map(|at| number(at + 5)).collect();
            let weights: Vec<f64> = (0..2 * layer.outputs()).map(|at| number(at + 77)).collect();
            let value = |x: &[f64], own: &[Vec<f64>]| -> f64 {
                forward(&layer, x, own)
                    .iter()
                    .zip(&weights)
                    .map(|(y, w)| y * w)
                    .sum()
            };
            let (by_x, by_own) = backward(&layer, &x, &own, &weights);
            let step = 1e-6;
            let agree = |by: f64, more: f64, less: f64| {
                assert!(
                    (by - (more - less) / (2.0 * step)).abs() < 1e-6,
                    "{layer:?}: {by}"
                );
            };
            for at in 0..x.len() {
                let moved = |by: f64| {
                    let mut x = x.clone();
                    x[at] += by;
                    value(&x, &own)
                };
                agree(by_x[at], moved(step), moved(-step));
            }
            for (number, by) in by_own.iter().enumerate() {
                for at in 0..by.len() {
                    let moved = |d: f64| {
                        let mut own = own.clone();
                        own[number][at] += d;
                        value(&x, &own)
                    };
                    agree(by[at], moved(step), moved(-step));
                }
            }
        }
    }
}
