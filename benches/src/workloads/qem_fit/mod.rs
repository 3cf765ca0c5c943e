//! Levels of the weights of a trained convolution: the fits for one to four bits.
//!
//! Role: the workload `qem-fit`: the cost of post-training quantisation of a layer, with a figure
//! of the levels over the histogram of the weights.
//! Method: the net with two convolutions of `train-mnist` is trained on the digits of this project
//! for a few epochs. The levels are fitted to all weights of its second convolution by
//! quantisation error minimisation from several starts.
//! Shapes: `[16, 8, 5, 5]` weights; the result is the mean square error for each number of bits,
//! then the levels of each number of bits in ascending order.
//! Accuracy: the reported errors differ from those of the levels, computed element by element in
//! f64, by at most 1e-4 of the error of one bit, because levels are rounded to f32. No error is
//! above that of the best symmetric uniform levels, of which a grid of steps is tried.
//! Source: Zhang, Yang, Ye and Hua 2018, "LQ-Nets", section 3.3; the class-project notes plot
//! levels over weights.

use crate::training::{Recipe, Stage};
use crate::workloads::train_mnist::Net;
use crate::{level_figure, mnist};
use anyhow::{Result, ensure};
use charts::Figure;
use gpu_wgsl::Gpu;
use harness::implementation::OutputElement;
use harness::workload::{Extent, Problem, Task, Variant, Work, Workload};
use quant::{LevelSet, Qem, Sample};
use tensor_core::compare::{Tolerance, compare};

/// The largest number of bits.
const MAX_BITS: usize = 4;
/// Passes over the 1,500 training images.
const EPOCHS: usize = 8;
const RATE: f32 = 0.05;
/// The index of the second convolution's weights among the net's parameters.
const WEIGHTS: usize = 2;
/// The number of steps of uniform levels that are tried.
const N_STEPS: usize = 400;

/// Returns the task.
#[must_use]
pub fn task() -> Task {
    let size = format!("conv16x8x5x5-k1..{MAX_BITS}");
    Task::new("qem-fit", "S1", size, || Fits::new(trained_weights()?))
}

/// Trains the net and returns the weights of its second convolution.
fn trained_weights() -> Result<Vec<f32>> {
    let images = mnist::digits()?;
    let stage = Stage {
        epochs: EPOCHS,
        rate: RATE,
    };
    let recipe = Recipe {
        stages: vec![stage],
        ..Net::Conv.recipe(false)
    };
    let session = Net::Conv.session_of(recipe, &images)?;
    Ok(session.trained_parameters()?.swap_remove(WEIGHTS))
}

/// Weights, and the errors of uniform levels.
#[derive(Debug)]
pub struct Fits {
    weights: Vec<f32>,
    /// The error of the best uniform levels for each number of bits.
    uniform: Vec<f64>,
}

impl Fits {
    /// Computes the errors of uniform levels of these weights.
    ///
    /// # Errors
    /// There are no weights, or they are all 0.
    pub fn new(weights: Vec<f32>) -> Result<Self> {
        let largest = weights.iter().fold(0.0_f32, |most, w| most.max(w.abs()));
        ensure!(largest > 0.0, "qem-fit: no weight differs from 0");
        let best = |bits: usize| -> Result<f64> {
            let mut least = f64::INFINITY;
            for step in 1..=N_STEPS {
                let step = 2.0 * largest * step as f32 / N_STEPS as f32;
                let levels = LevelSet::uniform(bits, step)?;
                least = least.min(error(&weights, levels.levels()));
            }
            Ok(least)
        };
        Ok(Self {
            uniform: (1..=MAX_BITS).map(best).collect::<Result<_>>()?,
            weights,
        })
    }

    fn fit(&self, result: &mut Vec<f64>) -> Result<()> {
        let sample = Sample::new(&self.weights)?;
        let mut levels = Vec::new();
        result.clear();
        for bits in 1..=MAX_BITS {
            let fit = Qem::signs(bits)?.fit(&sample)?;
            result.push(fit.mean_square_error);
            levels.extend(
                fit.level_set()?
                    .levels()
                    .iter()
                    .map(|&level| f64::from(level)),
            );
        }
        result.extend(levels);
        Ok(())
    }

    fn check(&self, result: &[f64]) -> Result<()> {
        let (errors, of_bits) = split(result)?;
        let of_levels: Vec<f64> = of_bits
            .iter()
            .map(|levels| {
                let levels: Vec<f32> = levels.iter().map(|&level| rounded(level)).collect();
                error(&self.weights, &levels)
            })
            .collect();
        compare(
            errors,
            &of_levels[..],
            &Tolerance::relative(0).or_absolute(1e-4 * errors[0]),
        )?;
        for (bits, (fitted, uniform)) in (1..).zip(errors.iter().zip(&self.uniform)) {
            ensure!(
                *fitted <= uniform * (1.0 + 1e-6),
                "{bits} bits: the error {fitted} is above {uniform}, that of uniform levels"
            );
        }
        Ok(())
    }

    /// Draws the levels over the histogram, one panel for each number of bits.
    fn figure(&self, result: &[f64]) -> Result<Figure> {
        let (errors, of_bits) = split(result)?;
        let weights: Vec<f64> = self.weights.iter().map(|&w| w.into()).collect();
        let panels = (1..).zip(of_bits.iter().zip(errors));
        let panels = panels.map(|(bits, (levels, error))| {
            let label = format!("weight ({bits}-bit levels, MSE {error:.1e})");
            level_figure::panel(label, &weights, levels)
        });
        Ok(Figure {
            caption: "Levels that are fitted to the weights of a trained convolution, over the histogram of the weights, with the mean square error (MSE).".into(),
            panels: panels.collect(), ..Figure::default() })
    }
}

/// Splits a result into the errors, and the levels of each number of bits.
fn split(result: &[f64]) -> Result<(&[f64], Vec<&[f64]>)> {
    let n_levels = |bits: usize| 1_usize << bits;
    let expected = MAX_BITS + (1..=MAX_BITS).map(n_levels).sum::<usize>();
    ensure!(
        result.len() == expected,
        "qem-fit: the result has {} numbers (expected {expected})",
        result.len()
    );
    let (errors, mut rest) = result.split_at(MAX_BITS);
    let mut of_bits = Vec::new();
    for bits in 1..=MAX_BITS {
        let (levels, others) = rest.split_at(n_levels(bits));
        of_bits.push(levels);
        rest = others;
    }
    Ok((errors, of_bits))
}

/// Returns the mean square distance of numbers from their nearest level.
fn error(numbers: &[f32], levels: &[f32]) -> f64 {
    let square = |&number: &f32| {
        let distances = levels
            .iter()
            .map(|&level| f64::from(number) - f64::from(level));
        distances
            .map(|distance| distance * distance)
            .fold(f64::INFINITY, f64::min)
    };
    numbers.iter().map(square).sum::<f64>() / numbers.len() as f64
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the levels are f32 numbers that were widened"
)]
fn rounded(x: f64) -> f32 {
    x as f32
}

impl Problem for Fits {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let values = (MAX_BITS * self.weights.len()) as f64;
        let bytes = size_of::<f32>() * self.weights.len();
        let whole = Extent::new(Work::Values(values), bytes as f64);
        let fit = |result: &mut Vec<f64>| self.fit(result);
        Workload::new(whole, |result, _| self.check(f64::from_output(result)?))
            .with_variants([Variant::on_cpu("host", whole, 0, fit)])
            .with_figure(|result| self.figure(f64::from_output(result)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_error_or_level_is_reported() {
        let weights: Vec<f32> = (0..300).map(|i| (i as f32 * 0.7).sin().powi(3)).collect();
        let fits = Fits::new(weights).unwrap();
        let mut result = Vec::new();
        fits.fit(&mut result).unwrap();
        fits.check(&result).unwrap();
        for place in [0, 3, MAX_BITS, result.len() - 1] {
            let mut wrong = result.clone();
            wrong[place] += 0.1;
            assert!(fits.check(&wrong).is_err(), "number {place}");
        }
        assert!(fits.check(&result[1..]).is_err());
    }
}
