//! The forward pass of each layer in f64, with bounds on the errors of an f32 program.
//!
//! Role: outputs, next state and stored values of each layer.
//! Method: plain loops. A bound grows with each rounding: half an epsilon of the result of an
//! operation, `n` times that for a sum of `n` terms in any order, plus the bounds of the operands
//! times the derivatives of the operation.
//! Limits: the bounds of ABC-Net's factors do not include the condition of their equations, which
//! is small unless a cell between two thresholds has few elements.
//! Source: for the bounds of sums, Higham 2002, "Accuracy and Stability of Numerical Algorithms",
//! section 4.2.

use super::scale::{Scale, dot, factors};
use super::{ABC_THRESHOLD, OracleStep, UNIT, Values};
use crate::abc::{abc, shift};
use crate::error::{Result, check_count};
use crate::layers::{ActivationLevels, BatchNorm, QuantConv2d, WeightLevels};
use crate::population::Sample;
use crate::train::net::{NetLayer, Place};
use crate::window::Window;

/// The weight of the old average of a basis.
const DECAY: f64 = 0.9;
/// The weight of the old basis in a fit, in elements.
const RIDGE: f64 = 1e-4;

/// The results of a forward pass that the backward pass needs.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// The weights of a product that were multiplied.
    pub(super) weights: Vec<f64>,
    /// The derivative of each rounded number with respect to its weight; empty if all are 1.
    pub(super) by_weight: Vec<f64>,
    /// The highest level of an activation, with its bound.
    pub(super) highest: (f64, f64),
    /// The outputs of a max-pool.
    pub(super) maxima: Vec<f64>,
}

/// Returns output, stored values and next state of a layer.
pub(super) fn forward(
    &Place { layer, image, .. }: &Place<'_>,
    input: &Values,
    own: &[Vec<f64>],
    state: &[Vec<f64>],
    chosen: Option<&[f32]>,
    step: &mut OracleStep,
) -> Result<(Values, Stored, Vec<Vec<f64>>)> {
    match layer {
        NetLayer::Conv2d(_) | NetLayer::Linear(_) => {
            let conv = as_conv(layer, image).unwrap_or_else(|| unreachable!("a product"));
            let weights = quantized_weights(&conv, &own[0], state, chosen, step)?;
            let output = product(&conv, image, input, &weights, own.get(1))?;
            let stored = Stored {
                weights: weights.numbers,
                by_weight: weights.by_weight,
                ..Stored::default()
            };
            Ok((output, stored, weights.state))
        }
        NetLayer::MaxPool(layer) => {
            let output = pooled(&layer.window(), image, input)?;
            let stored = Stored {
                maxima: output.x.clone(),
                ..Stored::default()
            };
            Ok((output, stored, Vec::new()))
        }
        NetLayer::BatchNorm(layer) => {
            let (output, state) = normalized(layer, image[2], input, own, state);
            Ok((output, Stored::default(), state))
        }
        NetLayer::Activation(levels) => activated(levels, input, own, state, chosen, step),
    }
}

/// Returns a product as a convolution: a linear layer has a window as large as the image.
pub(super) fn as_conv(layer: &NetLayer, [height, width, _]: [usize; 3]) -> Option<QuantConv2d> {
    match layer {
        NetLayer::Conv2d(layer) => Some(layer.clone()),
        NetLayer::Linear(layer) => Some(QuantConv2d {
            levels: layer.levels,
            has_bias: layer.has_bias,
            ..QuantConv2d::new(layer.n_outputs, Window::new([height, width]))
        }),
        _ => None,
    }
}

/// Calls `term` for each product of an image with its places: input, output and weight. The input
/// is `None` outside of the image.
pub(super) fn products(
    conv: &QuantConv2d,
    image: [usize; 3],
    mut term: impl FnMut(Option<usize>, usize, usize),
) -> Result<()> {
    let [height, width, n_channels] = image;
    let [rows, cols, n_outputs] = conv.output_size(image)?;
    let (per_group, outputs_per_group) = (n_channels / conv.n_groups, n_outputs / conv.n_groups);
    let [taps_y, taps_x] = conv.window.size;
    for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
        for (tap_y, tap_x) in (0..taps_y).flat_map(|y| (0..taps_x).map(move |x| (y, x))) {
            let y = place(&conv.window, 0, height, row, tap_y);
            let x = place(&conv.window, 1, width, col, tap_x);
            let pixel = y.zip(x).map(|(y, x)| (y * width + x) * n_channels);
            for output in 0..n_outputs {
                let first = output / outputs_per_group * per_group;
                let at = (row * cols + col) * n_outputs + output;
                let weight = ((output * taps_y + tap_y) * taps_x + tap_x) * per_group;
                for channel in 0..per_group {
                    let input = pixel.map(|pixel| pixel + first + channel);
                    term(input, at, weight + channel);
                }
            }
        }
    }
    Ok(())
}

/// Returns the row or column of a tap, if it is inside the image.
fn place(window: &Window, axis: usize, len: usize, output: usize, tap: usize) -> Option<usize> {
    let padded = output * window.stride[axis] + tap * window.dilation[axis];
    padded
        .checked_sub(window.padding[axis][0])
        .filter(|&place| place < len)
}

/// The weights that are multiplied, with the bounds of their errors.
struct Weights {
    numbers: Vec<f64>,
    bounds: Vec<f64>,
    by_weight: Vec<f64>,
    state: Vec<Vec<f64>>,
}

fn quantized_weights(
    conv: &QuantConv2d,
    weights: &[f64],
    state: &[Vec<f64>],
    chosen: Option<&[f32]>,
    step: &mut OracleStep,
) -> Result<Weights> {
    let len = weights.len() / conv.n_outputs;
    check_chosen(chosen, weights.len())?;
    let (scales, mapped, by_weight): (Vec<Scale>, Vec<f64>, Vec<f64>) = match conv.levels {
        WeightLevels::Float => {
            return Ok(Weights {
                numbers: weights.to_vec(),
                bounds: vec![0.0; weights.len()],
                by_weight: Vec::new(),
                state: Vec::new(),
            });
        }
        WeightLevels::Lq { bits } | WeightLevels::Uniform { bits } => {
            let is_uniform = matches!(conv.levels, WeightLevels::Uniform { .. });
            let factors = factors(bits, true, is_uniform);
            let bases = state[0].chunks(state[0].len() / conv.n_outputs);
            let scales = bases.map(|basis| Scale::of_basis(basis, &factors));
            (scales.collect(), weights.to_vec(), Vec::new())
        }
        WeightLevels::DoReFa { bits: 1 } => {
            let mean = weights.iter().map(|w| w.abs()).sum::<f64>() / weights.len() as f64;
            // A program computes the levels ± mean from a sum over all weights.
            let scale = Scale::with_thresholds(vec![-mean, mean], vec![0.0], weights.len());
            (vec![scale; conv.n_outputs], weights.to_vec(), Vec::new())
        }
        WeightLevels::DoReFa { bits } => {
            let tanh: Vec<f64> = weights.iter().map(|&w| libm::tanh(w)).collect();
            let largest = tanh.iter().fold(0.0_f64, |most, t| most.max(t.abs()));
            let largest = if largest > 0.0 { largest } else { 1.0 };
            let n_levels = (bits as f64).exp2();
            let step = 2.0 / (n_levels - 1.0);
            let scale = Scale::of_basis(&[step / 2.0], &factors(bits, true, true));
            let by_weight = tanh.iter().map(|t| (1.0 - t * t) / largest);
            let mapped = tanh.iter().map(|t| t / largest);
            (
                vec![scale; conv.n_outputs],
                mapped.collect(),
                by_weight.collect(),
            )
        }
        WeightLevels::Abc { bases } => {
            let scales = weights.chunks(len).map(|weights| abc_scale(weights, bases));
            (scales.collect::<Result<_>>()?, weights.to_vec(), Vec::new())
        }
    };
    // The mapped weights of DoReFa-Net have the error of a tangent and a quotient.
    let bound = if by_weight.is_empty() {
        0.0
    } else {
        16.0 * UNIT
    };
    let codes: Vec<usize> = mapped
        .iter()
        .enumerate()
        .map(|(at, &w)| scales[at / len].code(w, bound, chosen.map(|chosen| chosen[at]), step))
        .collect();
    let levels = codes
        .iter()
        .enumerate()
        .map(|(at, &code)| scales[at / len].level(code));
    let (numbers, bounds) = levels.unzip();
    let next = match conv.levels {
        WeightLevels::Lq { .. } | WeightLevels::Uniform { .. } => {
            let bases = state[0]
                .chunks(state[0].len() / conv.n_outputs)
                .zip(&scales);
            let channels = weights.chunks(len).zip(codes.chunks(len)).zip(bases);
            let fitted = channels.flat_map(|((weights, codes), (basis, scale))| {
                let elements = weights.iter().copied().zip(codes.iter().copied());
                scale.fitted(basis, elements, RIDGE)
            });
            averaged(state, &fitted.collect::<Vec<_>>())
        }
        _ => Vec::new(),
    };
    Ok(Weights {
        numbers,
        bounds,
        by_weight,
        state: next,
    })
}

fn check_chosen(chosen: Option<&[f32]>, expected: usize) -> Result<()> {
    match chosen {
        Some(chosen) => check_count("Oracle::step_with", "levels", chosen.len(), expected),
        None => Ok(()),
    }
}

/// Returns the levels of ABC-Net for the weights of an output channel.
fn abc_scale(weights: &[f64], bases: usize) -> Result<Scale> {
    let narrow: Vec<f32> = weights
        .iter()
        .map(|&w| crate::level_set::rounded(w))
        .collect();
    let fit = abc(&Sample::new(&narrow)?, bases, false)?;
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let square = |w: &f64| (w - mean) * (w - mean);
    let variance = weights.iter().map(square).sum::<f64>() / weights.len() as f64;
    let thresholds = (0..bases)
        .rev()
        .map(|base| mean - shift(base, bases) * variance.sqrt());
    let levels = (0..=bases).map(|n_positive| {
        let sign = |base: usize| {
            if base + n_positive >= bases {
                1.0
            } else {
                -1.0
            }
        };
        let factors = fit.factors.iter().enumerate();
        factors.map(|(base, factor)| sign(base) * factor).sum()
    });
    Ok(
        Scale::with_thresholds(levels.collect(), thresholds.collect(), weights.len())
            .with_ties_up(),
    )
}

/// Returns the next state of a basis: the average without bias, its sum, and its bias.
fn averaged(state: &[Vec<f64>], fitted: &[f64]) -> Vec<Vec<f64>> {
    let bias = state[2][0] * DECAY;
    let sums = state[1].iter().zip(fitted);
    let sums: Vec<f64> = sums
        .map(|(sum, new)| DECAY * sum + (1.0 - DECAY) * new)
        .collect();
    let basis = sums.iter().map(|sum| sum / (1.0 - bias));
    vec![basis.collect(), sums, vec![bias]]
}

/// Returns the sums of products of a convolution.
fn product(
    conv: &QuantConv2d,
    image: [usize; 3],
    input: &Values,
    weights: &Weights,
    bias: Option<&Vec<f64>>,
) -> Result<Values> {
    let input_len: usize = image.iter().product();
    let output_len: usize = conv.output_size(image)?.iter().product();
    let n_images = input.x.len() / input_len;
    let mut output = Values {
        x: vec![0.0; n_images * output_len],
        bounds: vec![0.0; n_images * output_len],
    };
    // Each term has a rounding of the product, and one per sum.
    let n_terms = weights.numbers.len() / conv.n_outputs;
    let n_roundings = (n_terms + 1) as f64;
    let padding = f64::from(conv.padding_value);
    for image_number in 0..n_images {
        let x = &input.x[image_number * input_len..][..input_len];
        let bounds = &input.bounds[image_number * input_len..][..input_len];
        let y = &mut output.x[image_number * output_len..][..output_len];
        let y_bounds = &mut output.bounds[image_number * output_len..][..output_len];
        products(conv, image, |input, output, weight| {
            let (w, w_bound) = (weights.numbers[weight], weights.bounds[weight]);
            let (x, bound) = input.map_or((padding, 0.0), |input| (x[input], bounds[input]));
            y[output] += w * x;
            let of_factors = w.abs() * bound + w_bound * (x.abs() + bound);
            y_bounds[output] += (w * x).abs() * n_roundings * UNIT + of_factors;
        })?;
        for (at, (y, y_bound)) in y.iter_mut().zip(y_bounds).enumerate() {
            let bias = bias.map_or(0.0, |bias| bias[at % conv.n_outputs]);
            *y += bias;
            *y_bound += (bias.abs() + y.abs()) * UNIT;
        }
    }
    Ok(output)
}

/// Calls `visit` for each output of a max-pool with the places of its inputs.
pub(super) fn windows(
    window: &Window,
    [height, width, n_channels]: [usize; 3],
    n_images: usize,
    mut visit: impl FnMut(usize, &[usize]),
) -> Result<()> {
    let [rows, cols] = window.output_size([height, width])?;
    let n_outputs = rows * cols * n_channels;
    let mut places = Vec::with_capacity(window.n_taps());
    for output in 0..n_images * n_outputs {
        let (image, at) = (output / n_outputs, output % n_outputs);
        let (row, col) = (at / n_channels / cols, at / n_channels % cols);
        places.clear();
        for tap in 0..window.n_taps() {
            let (tap_y, tap_x) = (tap / window.size[1], tap % window.size[1]);
            let y = place(window, 0, height, row, tap_y);
            let x = place(window, 1, width, col, tap_x);
            if let Some((y, x)) = y.zip(x) {
                places.push(((image * height + y) * width + x) * n_channels + at % n_channels);
            }
        }
        visit(output, &places);
    }
    Ok(())
}

fn pooled(window: &Window, image: [usize; 3], input: &Values) -> Result<Values> {
    let n_images = input.x.len() / image.iter().product::<usize>();
    let mut output = Values::default();
    windows(window, image, n_images, |_, places| {
        let largest = |numbers: &[f64], start| {
            places
                .iter()
                .fold(start, |most: f64, &at| most.max(numbers[at]))
        };
        output.x.push(largest(&input.x, f64::NEG_INFINITY));
        output.bounds.push(largest(&input.bounds, 0.0));
    })?;
    Ok(output)
}

/// The mean and variance of a channel, with bounds of their errors.
struct Moments {
    mean: f64,
    mean_bound: f64,
    variance: f64,
    variance_bound: f64,
}

/// Returns the moments of each channel of a batch.
fn moments(input: &Values, n_channels: usize) -> Vec<Moments> {
    let n = (input.x.len() / n_channels) as f64;
    let channels = (0..n_channels).map(|channel| {
        let elements = || {
            let x = input.x.iter().skip(channel).step_by(n_channels);
            x.zip(input.bounds.iter().skip(channel).step_by(n_channels))
        };
        let mean = elements().map(|(x, _)| x).sum::<f64>() / n;
        // A sum of n terms and a quotient.
        let mean_bound = elements()
            .map(|(x, bound)| bound + n * UNIT * x.abs())
            .sum::<f64>()
            / n;
        let (mut variance, mut variance_bound) = (0.0, 0.0);
        for (x, bound) in elements() {
            let distance = x - mean;
            let distance_bound = bound + mean_bound + distance.abs() * UNIT;
            variance += distance * distance / n;
            variance_bound += (2.0 * distance.abs() + distance_bound) * distance_bound / n;
        }
        variance_bound += (n + 2.0) * UNIT * variance;
        Moments {
            mean,
            mean_bound,
            variance,
            variance_bound,
        }
    });
    channels.collect()
}

/// The mean and `1 / √(variance + ε)` of each channel, for the backward pass.
pub(super) fn mean_and_scale(
    layer: &BatchNorm,
    n_channels: usize,
    input: &Values,
) -> Vec<(f64, f64)> {
    let scale = |moments: &Moments| 1.0 / (moments.variance + f64::from(layer.epsilon())).sqrt();
    let moments = moments(input, n_channels);
    moments
        .iter()
        .map(|moments| (moments.mean, scale(moments)))
        .collect()
}

fn normalized(
    layer: &BatchNorm,
    n_channels: usize,
    input: &Values,
    own: &[Vec<f64>],
    state: &[Vec<f64>],
) -> (Values, Vec<Vec<f64>>) {
    let n = input.x.len() / n_channels;
    let moments = moments(input, n_channels);
    let epsilon = f64::from(layer.epsilon());
    let mut output = Values::default();
    for (at, (&x, &bound)) in input.x.iter().zip(&input.bounds).enumerate() {
        let channel = at % n_channels;
        let (moments, gamma, beta) = (&moments[channel], own[0][channel], own[1][channel]);
        let scale = 1.0 / (moments.variance + epsilon).sqrt();
        let distance = x - moments.mean;
        let distance_bound = bound + moments.mean_bound + distance.abs() * UNIT;
        // The root halves a relative error; the sum, the root, the quotient and the product round.
        let relative = 0.5 * moments.variance_bound / (moments.variance + epsilon) + 4.0 * UNIT;
        let product = gamma * distance * scale;
        let y = product + beta;
        output.x.push(y);
        let bound = (gamma * scale).abs() * distance_bound + product.abs() * relative;
        output.bounds.push(bound + y.abs() * UNIT);
    }
    let decay = f64::from(layer.decay());
    let unbiased = n as f64 / n.saturating_sub(1).max(1) as f64;
    let average = |old: f64, new: f64| decay * old + (1.0 - decay) * new;
    let means = state[0]
        .iter()
        .zip(&moments)
        .map(|(&old, new)| average(old, new.mean));
    let variances = state[1].iter().zip(&moments);
    let variances = variances.map(|(&old, new)| average(old, new.variance * unbiased));
    let next = vec![means.collect(), variances.collect()];
    (output, next)
}

fn activated(
    levels: &ActivationLevels,
    input: &Values,
    own: &[Vec<f64>],
    state: &[Vec<f64>],
    chosen: Option<&[f32]>,
    step: &mut OracleStep,
) -> Result<(Values, Stored, Vec<Vec<f64>>)> {
    check_chosen(chosen, input.x.len())?;
    let rectified: Vec<f64> = input.x.iter().map(|x| x.max(0.0)).collect();
    let mut stored = Stored::default();
    let scale = match *levels {
        ActivationLevels::Relu => {
            let output = Values {
                x: rectified,
                bounds: input.bounds.clone(),
            };
            return Ok((output, stored, Vec::new()));
        }
        ActivationLevels::Lq { bits } | ActivationLevels::Uniform { bits } => {
            let is_uniform = matches!(levels, ActivationLevels::Uniform { .. });
            let scale = Scale::of_basis(&state[0], &factors(bits, false, is_uniform));
            let positive: Vec<f64> = state[0].iter().map(|number| number.max(0.0)).collect();
            let all = factors(bits, false, is_uniform);
            let highest = all.last().map_or(0.0, |factors| dot(factors, &positive));
            stored.highest = (highest, scale.bound());
            scale
        }
        ActivationLevels::DoReFa { bits } => {
            let step = 1.0 / ((bits as f64).exp2() - 1.0);
            Scale::of_basis(&[step], &factors(bits, false, true))
        }
        ActivationLevels::Abc { .. } => abc_activation(&own[0], &own[1]),
    };
    let is_rectified = !matches!(levels, ActivationLevels::Abc { .. });
    let mut output = Values::default();
    let mut codes = Vec::with_capacity(rectified.len());
    for (at, (&x, &bound)) in input.x.iter().zip(&input.bounds).enumerate() {
        let x = if is_rectified { x.max(0.0) } else { x };
        let code = scale.code(x, bound, chosen.map(|chosen| chosen[at]), step);
        let (level, bound) = scale.level(code);
        output.x.push(level);
        output.bounds.push(bound);
        codes.push(code);
    }
    let next = match levels {
        ActivationLevels::Lq { .. } | ActivationLevels::Uniform { .. } => {
            let elements = rectified.into_iter().zip(codes);
            averaged(state, &scale.fitted(&state[0], elements, RIDGE))
        }
        _ => Vec::new(),
    };
    Ok((output, stored, next))
}

/// Returns the levels `Σ ± factor` of ABC-Net's activations, the sign of a base being that of the
/// distance from its threshold.
fn abc_activation(shifts: &[f64], betas: &[f64]) -> Scale {
    let mut thresholds: Vec<f64> = shifts.iter().map(|shift| ABC_THRESHOLD - shift).collect();
    thresholds.sort_by(f64::total_cmp);
    let above =
        |n_passed: usize, shift: f64| thresholds[..n_passed].contains(&(ABC_THRESHOLD - shift));
    let levels = (0..=thresholds.len()).map(|n_passed| {
        let sign = |shift| if above(n_passed, shift) { 1.0 } else { -1.0 };
        let terms = shifts.iter().zip(betas);
        terms.map(|(&shift, beta)| sign(shift) * beta).sum()
    });
    let levels = levels.collect();
    Scale::with_thresholds(levels, thresholds, shifts.len()).with_ties_up()
}
