//! Bits, errors and sizes of the layers of a quantised network.

use std::fmt;

use tensor_core::{Executor, Tensor};

use crate::error::{Error, Result, check_count};
use crate::network::{Activation, Layer, Network, Weights};

/// The name of the operation in errors.
const OPERATION: &str = "Network::report";

/// The bits of a quantiser, and its error on the numbers that it quantises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantizerReport {
    /// The number of bits of a code.
    pub bits: usize,
    /// The mean square of the difference between a number and its level.
    pub mean_square_error: f64,
    /// The mean square of the numbers.
    pub mean_square: f64,
}

impl QuantizerReport {
    /// Returns the mean square error relative to the mean square; NaN or infinite if all
    /// numbers are 0.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.mean_square_error / self.mean_square
    }
}

/// The quantisers and the sizes of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerReport {
    /// The name of the layer.
    pub name: String,
    /// The quantiser of the weights; `None` for float weights.
    pub weights: Option<QuantizerReport>,
    /// The quantiser of the activations; `None` without levels.
    pub activations: Option<QuantizerReport>,
    /// The number of bytes of the weights and of the normalization as f32.
    pub n_bytes_f32: usize,
    /// The number of bytes of the layer that [`Network::freeze`] packs as bits
    /// ([`FrozenLayer::n_bytes`](crate::FrozenLayer::n_bytes)).
    pub n_bytes_packed: usize,
}

/// The layers of a quantised network, compared with the float network from which the network was
/// quantised.
///
/// The text form is a table; errors are in percent of the mean square.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The layers, in order.
    pub layers: Vec<LayerReport>,
}

impl Network {
    /// Compares this network with the float network from which the network was quantised by
    /// [`quantized`](Self::quantized).
    ///
    /// The error of weights is that of all weights of a layer. The error of activations is the one
    /// that a layer's own levels cause, for the given images `[batch, height, width, channels]`:
    /// errors of the layers before it are not included. Memory: the activations of one layer.
    ///
    /// # Errors
    /// [`Error::Length`] for networks with different numbers of layers or, in [`Error::Layer`],
    /// weights; the errors of [`freeze`](Self::freeze); in [`Error::Layer`],
    /// [`Error::Activation`] if an activation of `float` is a level set, [`Error::ImageShape`] for
    /// images of another size, and [`Error::Tensor`] for an error of the executor.
    pub fn report(&self, float: &Self, images: &Tensor, executor: &dyn Executor) -> Result<Report> {
        check_count(
            OPERATION,
            "layers",
            self.layers().len(),
            float.layers().len(),
        )?;
        let frozen = self.freeze()?;
        let mut x = images.clone();
        let mut layers = Vec::with_capacity(self.layers().len());
        for (number, layer) in self.layers().iter().enumerate() {
            let mut report = || {
                let float = &float.layers()[number];
                let value = layer.values_of(&x, self.image_sizes()[number])?;
                let value = value.realize(executor)?;
                x = layer.activation.apply(&value).realize(executor)?;
                Ok(LayerReport {
                    name: layer.name.clone(),
                    weights: weights_report(layer, float)?,
                    activations: activations_report(layer, float, [&value, &x], executor)?,
                    n_bytes_f32: size_of::<f32>()
                        * (layer.weights.len() + layer.normalization.rows().concat().len()),
                    n_bytes_packed: frozen.layers()[number].n_bytes(),
                })
            };
            let report = report();
            layers.push(report.map_err(|error: Error| error.in_layer(&layer.name))?);
        }
        Ok(Report { layers })
    }
}

fn weights_report(layer: &Layer, float: &Layer) -> Result<Option<QuantizerReport>> {
    let Weights::Levels { quantizer, .. } = &layer.weights else {
        return Ok(None);
    };
    let (levels, numbers) = (layer.weights.values()?, float.weights.values()?);
    check_count(OPERATION, "weights", levels.len(), numbers.len())?;
    let mean = |sum: f64| sum / numbers.len() as f64;
    let square = |x: f32| f64::from(x) * f64::from(x);
    let error = |(x, level): (&f32, &f32)| (f64::from(*x) - f64::from(*level)).powi(2);
    Ok(Some(QuantizerReport {
        bits: quantizer.levels()[0].basis().len(),
        mean_square_error: mean(numbers.iter().zip(&levels).map(error).sum()),
        mean_square: mean(numbers.iter().map(|&x| square(x)).sum()),
    }))
}

/// Compares the levels `x` with the activations that the float layer would compute from the same
/// normalised sums.
fn activations_report(
    layer: &Layer,
    float: &Layer,
    [value, x]: [&Tensor; 2],
    executor: &dyn Executor,
) -> Result<Option<QuantizerReport>> {
    let Activation::Levels(levels) = &layer.activation else {
        return Ok(None);
    };
    if let Activation::Levels(_) = float.activation {
        return Err(Error::Activation {
            operation: OPERATION,
            actual: float.activation.kind(),
            expected: "none or relu",
        });
    }
    let numbers = float.activation.apply(value);
    let mean_square = |x: &Tensor| -> Result<f64> {
        Ok(f64::from(x.square().mean(..).eval::<f32>(executor)?.sum()))
    };
    Ok(Some(QuantizerReport {
        bits: levels.basis().len(),
        mean_square_error: mean_square(&(&numbers - x))?,
        mean_square: mean_square(&numbers)?,
    }))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.layers.iter().map(|layer| layer.name.chars().count());
        let width = names.max().unwrap_or(0).max("layer".len());
        writeln!(
            f,
            "{:width$}  weight bits  error %  activation bits  error %  bytes as f32  bytes packed",
            "layer"
        )?;
        let columns = |quantizer: &Option<QuantizerReport>| match quantizer {
            Some(quantizer) => [
                quantizer.bits.to_string(),
                format!("{:.2}", 100.0 * quantizer.relative_error()),
            ],
            None => ["float".to_owned(), "-".to_owned()],
        };
        for layer in &self.layers {
            let [weight_bits, weight_error] = columns(&layer.weights);
            let [bits, error] = columns(&layer.activations);
            writeln!(
                f,
                "{:width$}  {weight_bits:>11}  {weight_error:>7}  {bits:>15}  {error:>7}  {:>12}  {:>12}",
                layer.name, layer.n_bytes_f32, layer.n_bytes_packed
            )?;
        }
        let total = |of: fn(&LayerReport) -> usize| self.layers.iter().map(of).sum::<usize>();
        write!(
            f,
            "{:width$}  {:>11}  {:>7}  {:>15}  {:>7}  {:>12}  {:>12}",
            "total",
            "",
            "",
            "",
            "",
            total(|layer| layer.n_bytes_f32),
            total(|layer| layer.n_bytes_packed)
        )
    }
}
