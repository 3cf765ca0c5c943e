//! Quantised weights in training.

use std::fmt;

use tensor_core::{Axes, DType, Host, Tensor};

use super::levels::LearnedLevels;
use super::{Slot, row};
use crate::abc::{abc, shift};
use crate::error::{Error, Result};
use crate::level_set::{LevelSet, check_bits, rounded};
use crate::network::Weights;
use crate::population::Sample;
use crate::qem::{Qem, least_squares_of};
use crate::quantizer::Quantizer;

/// The levels of the weights of a layer. Backward, the derivative with respect to a weight is the
/// derivative with respect to its level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightLevels {
    /// Floats.
    #[default]
    Float,
    /// LQ-Nets: a basis for each output channel. Each step averages the basis with the one that
    /// fits the weights better. State: the basis and its average.
    Lq {
        /// The number of bits, 1 to [`Qem::MAX_STEP_BITS`].
        bits: usize,
    },
    /// Levels at equal distances, symmetric around 0: as `Lq`, with one number for each output
    /// channel instead of a basis.
    Uniform {
        /// The number of bits, 1 to [`Qem::MAX_STEP_BITS`].
        bits: usize,
    },
    /// DoReFa-Net. With one bit, the levels are ± the mean absolute value of all weights of the
    /// layer. With more bits, the weights are mapped to [-1, 1] by `tanh(w) / max |tanh(w)|` and
    /// rounded to levels at equal distances from -1 to 1; backward, the maximum is a constant.
    DoReFa {
        /// The number of bits, 1 to [`MAX_BITS`](crate::MAX_BITS).
        bits: usize,
    },
    /// ABC-Net: signs of the shifted weights of each output channel, with the factors that minimise
    /// the mean square error, as [`abc()`](crate::abc()) fits them. The factors are constants
    /// backward. In the paper the derivatives are multiplied by the sum of the factors (1.525
    /// standard deviations for two bases or more and normally distributed weights); here by 1.
    Abc {
        /// The number of bases, 1 to [`MAX_BITS`](crate::MAX_BITS).
        bases: usize,
    },
}

/// Writes the kind and the number of bits or bases, for example `lq 2`.
impl fmt::Display for WeightLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float => f.write_str("float"),
            Self::Lq { bits } => write!(f, "lq {bits}"),
            Self::Uniform { bits } => write!(f, "uniform {bits}"),
            Self::DoReFa { bits } => write!(f, "dorefa {bits}"),
            Self::Abc { bases } => write!(f, "abc {bases}"),
        }
    }
}

impl WeightLevels {
    /// Checks the number of bits or bases.
    pub(crate) fn check(&self, operation: &'static str) -> Result<()> {
        match *self {
            Self::Float => Ok(()),
            Self::Lq { bits } | Self::Uniform { bits } => check_step_bits(operation, bits),
            Self::DoReFa { bits } | Self::Abc { bases: bits } => check_bits(operation, bits),
        }
    }

    /// Returns the names of the tensors of the state.
    pub(crate) fn state_names(&self) -> &'static [&'static str] {
        match self {
            Self::Lq { .. } | Self::Uniform { .. } => &LearnedLevels::STATE,
            _ => &[],
        }
    }

    fn learned(&self) -> Result<Option<LearnedLevels>> {
        Ok(match *self {
            Self::Lq { bits } => Some(LearnedLevels {
                qem: Qem::signs(bits)?,
            }),
            Self::Uniform { bits } => Some(LearnedLevels {
                qem: Qem::signs(bits)?.uniform(),
            }),
            _ => None,
        })
    }

    /// Returns the state before the first step with these weights, to which the levels are fitted.
    pub(super) fn state(&self, weights: &[f32], n_outputs: usize) -> Result<Vec<Slot>> {
        let Some(learned) = self.learned()? else {
            return Ok(Vec::new());
        };
        let channels = weights.chunks(weights.len().div_ceil(n_outputs.max(1)).max(1));
        let bases = channels.map(|weights| {
            let mut basis = learned.qem.fit(&Sample::new(weights)?)?.basis;
            basis.truncate(learned.qem.basis_len());
            Ok(basis)
        });
        Ok(learned.state(&bases.collect::<Result<Vec<_>>>()?))
    }

    /// Returns the quantised weights `[outputs, elements]` and the next state.
    pub(crate) fn apply(
        &self,
        weights: &Tensor,
        state: &[Tensor],
    ) -> Result<(Tensor, Vec<Tensor>)> {
        if let Some(learned) = self.learned()? {
            let quantized = learned.apply(weights, state)?;
            let levels = quantized.levels.with_surrogate_gradient(weights);
            return Ok((levels, quantized.state));
        }
        let levels = match *self {
            Self::DoReFa { bits } => {
                let mapped = mapped_by_dorefa(weights, bits);
                dorefa_levels(&mapped, bits)?.with_surrogate_gradient(&mapped)
            }
            Self::Abc { bases } => {
                let levels = abc_levels(&weights.stop_gradient(), bases)?;
                let surrogate = weights.clone();
                #[cfg(test)]
                let surrogate = {
                    use crate::fault::{Fault, is_planted};
                    let differentiated = abc_levels(weights, bases)?;
                    let is_fault = is_planted(Fault::DifferentiatedFactors);
                    if is_fault {
                        surrogate + differentiated
                    } else {
                        surrogate
                    }
                };
                levels.with_surrogate_gradient(&surrogate)
            }
            _ => weights.clone(),
        };
        Ok((levels, Vec::new()))
    }

    /// Returns the weights of a trained layer.
    pub(super) fn frozen(
        &self,
        weights: Vec<f32>,
        n_outputs: usize,
        state: &[Vec<f32>],
    ) -> Result<Weights> {
        let coded = |quantizer: Quantizer, weights: &[f32]| {
            let (codes, _) = quantizer.quantize(weights)?;
            Ok(Weights::Levels { quantizer, codes })
        };
        let channel_len = weights.len().div_ceil(n_outputs.max(1)).max(1);
        match *self {
            Self::Float => Ok(Weights::Float(weights)),
            Self::Lq { bits } => {
                // The same levels have positive numbers.
                let bases = state[0].chunks(bits);
                let levels = bases.map(|basis| {
                    let basis: Vec<f32> = basis.iter().map(|number| number.abs()).collect();
                    LevelSet::signs(&basis)
                });
                coded(Quantizer::new(levels.collect::<Result<_>>()?)?, &weights)
            }
            Self::Uniform { bits } => {
                let steps = state[0].iter().map(|number| 2.0 * number.abs());
                let levels = steps.map(|step| LevelSet::uniform(bits, step));
                coded(Quantizer::new(levels.collect::<Result<_>>()?)?, &weights)
            }
            Self::DoReFa { bits } => {
                let mapped = mapped_by_dorefa(&row(&weights).expand_dims(0), bits);
                let mapped = mapped.eval::<f32>(&Host::new())?;
                let mapped: Vec<f32> = mapped.into_iter().collect();
                let levels = match bits {
                    1 => {
                        let sum: f64 = weights.iter().map(|&w| f64::from(w.abs())).sum();
                        LevelSet::binary(rounded(sum / weights.len() as f64))?
                    }
                    _ => LevelSet::uniform(bits, dorefa_step(bits, 2.0))?,
                };
                coded(Quantizer::new(vec![levels])?, &mapped)
            }
            Self::Abc { bases } => {
                let channels = weights.chunks(channel_len);
                let levels =
                    channels.map(|weights| abc(&Sample::new(weights)?, bases, false)?.level_set());
                coded(Quantizer::new(levels.collect::<Result<_>>()?)?, &weights)
            }
        }
    }
}

/// Checks a number of bits of levels that are fitted in a step.
pub(super) fn check_step_bits(operation: &'static str, bits: usize) -> Result<()> {
    let limit = Qem::MAX_STEP_BITS;
    if (1..=limit).contains(&bits) {
        return Ok(());
    }
    Err(Error::BitCount {
        operation,
        bits,
        limit,
    })
}

/// Returns the distance of `2^bits` levels in a range.
pub(super) fn dorefa_step(bits: usize, range: f64) -> f32 {
    rounded(range / ((bits as f64).exp2() - 1.0))
}

/// Returns the weights that are rounded to levels: themselves with one bit, else in [-1, 1].
fn mapped_by_dorefa(weights: &Tensor, bits: usize) -> Tensor {
    if bits == 1 {
        return weights.clone();
    }
    let mapped = weights.tanh();
    let largest = mapped.abs().max(..).stop_gradient();
    // Weights that are all 0 stay 0.
    &mapped / largest.gt(0.0).select(&largest, 1.0)
}

/// Returns the levels of mapped weights.
fn dorefa_levels(mapped: &Tensor, bits: usize) -> Result<Tensor> {
    if bits == 1 {
        let scale = mapped.abs().mean(..).stop_gradient();
        return Ok(mapped.gt(0.0).select(&scale, -&scale));
    }
    let levels = LevelSet::uniform(bits, dorefa_step(bits, 2.0))?;
    Ok(levels.levels_of(mapped))
}

/// Returns the ABC-Net levels of `[outputs, elements]`.
fn abc_levels(weights: &Tensor, bases: usize) -> Result<Tensor> {
    /// The weight of the solution 0, in elements. The weight matters only where the data does not
    /// determine the factors, because elsewhere the ridge is far below the rounding errors.
    const RIDGE: f64 = 1e-20;
    let mean = weights.mean(Axes::keepdims(-1));
    let deviation = weights.std(Axes::keepdims(-1), 0);
    // Bases have descending thresholds, so cell `k` contains the elements that are at least as
    // large as the threshold of base `bases - k`, but not of the base before.
    let passes: Vec<Tensor> = (0..bases)
        .map(|base| weights.ge(&mean - &deviation * shift(base, bases)))
        .collect();
    let cells: Vec<Tensor> = (0..=bases)
        .map(|cell| match bases - cell {
            0 => passes[0].clone(),
            next if cell == 0 => !&passes[next - 1],
            next => &passes[next] & !&passes[next - 1],
        })
        .collect();
    let counts: Vec<Tensor> = cells
        .iter()
        .map(|cell| cell.sum(-1).cast(DType::F32))
        .collect();
    let sums = cells.iter().map(|cell| cell.select(weights, 0.0).sum(-1));
    let means: Vec<Tensor> = sums
        .zip(&counts)
        .map(|(sum, count)| sum / count.maximum(1.0))
        .collect();
    let factors: Vec<Vec<f64>> = (0..=bases)
        .map(|cell| {
            let sign = |base: usize| if base + cell >= bases { 1.0 } else { -1.0 };
            (0..bases).map(sign).collect()
        })
        .collect();
    let stacked = |columns: &[Tensor]| Tensor::stack(&columns.iter().collect::<Vec<_>>(), 1);
    let alpha = least_squares_of(&factors, &stacked(&counts), &stacked(&means), RIDGE)?;
    let level = |cell: usize| {
        let terms = factors[cell].iter().enumerate();
        let terms = terms.map(|(base, &factor)| alpha.slice(1, base..=base) * factor);
        let sum = terms.reduce(|sum, term| sum + term);
        sum.unwrap_or_else(|| alpha.clone())
    };
    let lowest = level(0).broadcast_to(weights.shape()?);
    let levels = (1..=bases).fold(lowest, |lower, cell| {
        passes[bases - cell].select(level(cell), lower)
    });
    Ok(levels)
}
