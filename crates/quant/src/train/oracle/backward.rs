//! The backward pass of each layer in f64.
//!
//! Role: the derivatives of the loss, from the outputs of a layer to its inputs and parameters.
//! Method: the derivatives of each layer are written out; those of levels are the ones that
//! [`layers`](crate::layers) defines. A result is marked as uncertain if a derivative jumps within
//! the bound of an input.

use super::forward::{Stored, as_conv, mean_and_scale, products, windows};
use super::{ABC_THRESHOLD, SAFETY, UNIT, Values};
use crate::error::Result;
use crate::layers::{ActivationLevels, BatchNorm, QuantConv2d};
use crate::train::net::{NetLayer, Place};

/// The derivatives of the loss with respect to the inputs and the parameters of a layer.
#[derive(Debug, Default)]
pub(super) struct Back {
    pub(super) by_input: Vec<f64>,
    pub(super) gradients: Vec<Vec<f64>>,
    /// Whether the derivative of the layer jumps within the bound of an input.
    pub(super) is_uncertain: bool,
}

/// Returns the derivatives of a layer, given those with respect to its outputs.
pub(super) fn backward(
    &Place { layer, image, .. }: &Place<'_>,
    input: &Values,
    stored: &Stored,
    own: &[Vec<f64>],
    by_output: &[f64],
) -> Result<Back> {
    match layer {
        NetLayer::Conv2d(_) | NetLayer::Linear(_) => {
            let conv = as_conv(layer, image).unwrap_or_else(|| unreachable!("a product"));
            by_product(&conv, image, input, stored, by_output)
        }
        NetLayer::MaxPool(layer) => {
            let n_images = input.x.len() / image.iter().product::<usize>();
            let mut back = Back {
                by_input: vec![0.0; input.x.len()],
                ..Back::default()
            };
            windows(&layer.window(), image, n_images, |output, places| {
                // Equal maxima share the derivative.
                let is_largest = |&&at: &&usize| input.x[at] == stored.maxima[output];
                let n_largest = places.iter().filter(is_largest).count() as f64;
                for &at in places.iter().filter(is_largest) {
                    back.by_input[at] += by_output[output] / n_largest;
                }
                let largest_bound = places.iter().map(|&at| input.bounds[at]);
                let largest_bound = largest_bound.fold(0.0, f64::max);
                let is_near = |&&at: &&usize| {
                    stored.maxima[output] - input.x[at] <= input.bounds[at] + largest_bound
                };
                let is_exact = largest_bound == 0.0;
                back.is_uncertain |= !is_exact && places.iter().filter(is_near).count() > 1;
            })?;
            Ok(back)
        }
        NetLayer::BatchNorm(layer) => Ok(by_norm(layer, image[2], input, own, by_output)),
        NetLayer::Activation(levels) => Ok(by_activation(levels, input, stored, own, by_output)),
    }
}

fn by_product(
    conv: &QuantConv2d,
    image: [usize; 3],
    input: &Values,
    stored: &Stored,
    by_output: &[f64],
) -> Result<Back> {
    let input_len: usize = image.iter().product();
    let output_len: usize = conv.output_size(image)?.iter().product();
    let padding = f64::from(conv.padding_value);
    let mut by_input = vec![0.0; input.x.len()];
    let mut by_weight = vec![0.0; stored.weights.len()];
    let batches = input.x.chunks(input_len).zip(by_output.chunks(output_len));
    for ((x, by_output), by_input) in batches.zip(by_input.chunks_mut(input_len)) {
        products(conv, image, |input, output, weight| {
            let by = by_output[output];
            by_weight[weight] += by * input.map_or(padding, |input| x[input]);
            if let Some(input) = input {
                by_input[input] += by * stored.weights[weight];
            }
        })?;
    }
    for (by, slope) in by_weight.iter_mut().zip(&stored.by_weight) {
        *by *= slope;
    }
    let mut gradients = vec![by_weight];
    if conv.has_bias {
        let mut by_bias = vec![0.0; conv.n_outputs];
        for (at, by) in by_output.iter().enumerate() {
            by_bias[at % conv.n_outputs] += by;
        }
        gradients.push(by_bias);
    }
    Ok(Back {
        by_input,
        gradients,
        is_uncertain: false,
    })
}

fn by_norm(
    layer: &BatchNorm,
    n_channels: usize,
    input: &Values,
    own: &[Vec<f64>],
    by_output: &[f64],
) -> Back {
    let n = (input.x.len() / n_channels) as f64;
    let channels = mean_and_scale(layer, n_channels, input);
    let normal = |at: usize| {
        let (mean, scale) = channels[at % n_channels];
        (input.x[at] - mean) * scale
    };
    let (mut by_gamma, mut by_beta) = (vec![0.0; n_channels], vec![0.0; n_channels]);
    for (at, by) in by_output.iter().enumerate() {
        by_gamma[at % n_channels] += by * normal(at);
        by_beta[at % n_channels] += by;
    }
    // The mean and the variance depend on all elements of a channel.
    let by_input = by_output.iter().enumerate().map(|(at, by)| {
        let channel = at % n_channels;
        let centred = by - by_beta[channel] / n - normal(at) * by_gamma[channel] / n;
        own[0][channel] * channels[channel].1 * centred
    });
    Back {
        by_input: by_input.collect(),
        gradients: vec![by_gamma, by_beta],
        is_uncertain: false,
    }
}

fn by_activation(
    levels: &ActivationLevels,
    input: &Values,
    stored: &Stored,
    own: &[Vec<f64>],
    by_output: &[f64],
) -> Back {
    // An edge has a bound of its own; inputs that are exact are not near an edge.
    let is_near = |&(edge, edge_bound): &(f64, f64)| {
        let mut pairs = input.x.iter().zip(&input.bounds);
        let near = |x: f64, bound: f64| (x - edge).abs() <= SAFETY * (bound + edge_bound);
        pairs.any(|(&x, &bound)| bound > 0.0 && near(x, bound))
    };
    // The derivative is 1 between the edges.
    let between = |edges: &[(f64, f64)], is_inside: &dyn Fn(f64) -> bool| {
        let pairs = input.x.iter().zip(by_output);
        let by_input = pairs.map(|(&x, &by)| if is_inside(x) { by } else { 0.0 });
        Back {
            by_input: by_input.collect(),
            gradients: Vec::new(),
            is_uncertain: edges.iter().any(is_near),
        }
    };
    match levels {
        ActivationLevels::Relu => between(&[(0.0, 0.0)], &|x| x > 0.0),
        ActivationLevels::Lq { .. } | ActivationLevels::Uniform { .. } => {
            let highest = stored.highest.0;
            between(&[(0.0, 0.0), stored.highest], &|x| x > 0.0 && x <= highest)
        }
        ActivationLevels::DoReFa { .. } => {
            between(&[(0.0, 0.0), (1.0, 0.0)], &|x| (0.0..=1.0).contains(&x))
        }
        ActivationLevels::Abc { bases } => {
            let (shifts, betas) = (&own[0], &own[1]);
            let mut by_input = vec![0.0; input.x.len()];
            let (mut by_shift, mut by_beta) = (vec![0.0; *bases], vec![0.0; *bases]);
            for ((x, by), by_input) in input.x.iter().zip(by_output).zip(&mut by_input) {
                for base in 0..*bases {
                    let is_above = *x >= ABC_THRESHOLD - shifts[base];
                    by_beta[base] += if is_above { *by } else { -by };
                    if (0.0..=1.0).contains(&(x + shifts[base])) {
                        by_shift[base] += by * betas[base];
                        *by_input += by * betas[base];
                    }
                }
            }
            let edges = shifts.iter().flat_map(|v| [-v, ABC_THRESHOLD - v, 1.0 - v]);
            let mut edges = edges.map(|edge| (edge, UNIT * edge.abs()));
            Back {
                by_input,
                gradients: vec![by_shift, by_beta],
                is_uncertain: edges.any(|edge| is_near(&edge)),
            }
        }
    }
}
