//! Quantised weights in training.

use std::fmt;

use tensor_core::{Axes, DType, Host, Tensor};

use super::levels::{LearnedLevels, dorefa_step};
use super::{NamedShape, Slot, row};
use crate::abc;
use crate::error::Result;
use crate::level_set::{LevelSet, check_bits, rounded};
use crate::network::Weights;
use crate::population::Sample;
use crate::qem::{Qem, check_step_bits, least_squares_of};
use crate::quantizer::{Quantizer, channel_len};

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
        let len = channel_len("WeightLevels::state", weights.len(), n_outputs)?;
        let channels = weights.chunks(len.max(1));
        let bases = channels.map(|weights| {
            let mut basis = learned.qem.fit(&Sample::new(weights)?)?.basis;
            basis.truncate(learned.qem.basis_len());
            Ok(basis)
        });
        Ok(learned.state(&bases.collect::<Result<Vec<_>>>()?))
    }

    /// Returns the shapes of the tensors of the state.
    pub(crate) fn state_shapes(&self, n_outputs: usize) -> Result<Vec<NamedShape>> {
        let learned = self.learned()?;
        Ok(learned.map_or_else(Vec::new, |learned| learned.state_shapes(n_outputs)))
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
                let levels = AbcFit::new(&weights.stop_gradient(), bases)?.levels()?;
                let surrogate = weights.clone();
                #[cfg(test)]
                let surrogate = {
                    use crate::fault::{Fault, is_enabled};
                    let differentiated = AbcFit::new(weights, bases)?.levels()?;
                    let is_fault = is_enabled(Fault::DifferentiatedFactors);
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
        match *self {
            Self::Float => Ok(Weights::Float(weights)),
            Self::Lq { bits } => {
                // Changing the sign of a basis number does not change the set of levels.
                let bases = state[0].chunks(bits);
                let levels = bases.map(|basis| {
                    let basis: Vec<f32> = basis.iter().map(|number| number.abs()).collect();
                    LevelSet::signs(&basis)
                });
                coded(Quantizer::new(levels.collect::<Result<_>>()?)?, &weights)
            }
            Self::Uniform { bits } => {
                let steps = state[0].iter().map(|number| 2.0 * number.abs());
                // The weights of an output may all be 0.
                let levels = steps.map(|step| match step {
                    0.0 => LevelSet::signs(&vec![0.0; bits]),
                    _ => LevelSet::uniform(bits, step),
                });
                coded(Quantizer::new(levels.collect::<Result<_>>()?)?, &weights)
            }
            Self::DoReFa { bits } => {
                let mapped = mapped_by_dorefa(&row(&weights).expand_dims(0), bits);
                let mapped = mapped.eval::<f32>(&Host::new())?;
                let mapped: Vec<f32> = mapped.into_iter().collect();
                let levels = match bits {
                    1 => {
                        let sum: f64 = weights.iter().map(|&w| f64::from(w.abs())).sum();
                        LevelSet::signs(&[rounded(sum / weights.len() as f64)])?
                    }
                    _ => LevelSet::uniform(bits, dorefa_step(bits, 2.0))?,
                };
                coded(Quantizer::new(vec![levels])?, &mapped)
            }
            Self::Abc { bases } => {
                // The numbers of the program, which has levels for weights of any kind.
                let len = channel_len("WeightLevels::frozen", weights.len(), n_outputs)?;
                let rows = Tensor::from_vec(&[n_outputs, len], weights.clone());
                let fit = AbcFit::new(&rows, bases)?;
                let thresholds = Tensor::concat(&fit.thresholds.iter().collect::<Vec<_>>(), 1);
                let numbers = |tensor: &Tensor| -> Result<Vec<f32>> {
                    Ok(tensor.eval::<f32>(&Host::new())?.into_iter().collect())
                };
                let [factors, thresholds] = [numbers(&fit.factors)?, numbers(&thresholds)?];
                let channels = factors.chunks(bases).zip(thresholds.chunks(bases));
                let levels =
                    channels.map(|(factors, thresholds)| abc::level_set(factors, 0.0, thresholds));
                coded(Quantizer::new(levels.collect::<Result<_>>()?)?, &weights)
            }
        }
    }
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

/// The bases of ABC-Net that are fitted to weights `[outputs, elements]`.
struct AbcFit {
    /// The threshold of each base, `[outputs, 1]`, in descending order.
    thresholds: Vec<Tensor>,
    /// For each base, whether each element is at least as large as the threshold.
    passes: Vec<Tensor>,
    /// The signs of the bases in each cell between thresholds, from below.
    signs: Vec<Vec<f64>>,
    /// The factors of the bases, `[outputs, bases]`.
    factors: Tensor,
}

impl AbcFit {
    fn new(weights: &Tensor, bases: usize) -> Result<Self> {
        /// The weight of the solution 0, in elements. The weight matters only where the data does
        /// not determine the factors, because elsewhere the ridge is far below the rounding errors.
        const RIDGE: f64 = 1e-20;
        let mean = weights.mean(Axes::keepdims(-1));
        let deviation = weights.std(Axes::keepdims(-1), 0);
        let thresholds: Vec<Tensor> = (0..bases)
            .map(|base| &mean - &deviation * abc::shift(base, bases))
            .collect();
        // Bases have descending thresholds, so cell `k` contains the elements that are at least as
        // large as the threshold of base `bases - k`, but not of the base before.
        let passes: Vec<Tensor> = thresholds.iter().map(|t| weights.ge(t)).collect();
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
        let signs: Vec<Vec<f64>> = (0..=bases)
            .map(|cell| {
                let sign = |base: usize| if base + cell >= bases { 1.0 } else { -1.0 };
                (0..bases).map(sign).collect()
            })
            .collect();
        let stacked = |columns: &[Tensor]| Tensor::stack(&columns.iter().collect::<Vec<_>>(), 1);
        Ok(Self {
            factors: least_squares_of(&signs, &stacked(&counts), &stacked(&means), RIDGE)?,
            thresholds,
            passes,
            signs,
        })
    }

    /// Returns the level of each element.
    fn levels(&self) -> Result<Tensor> {
        let bases = self.passes.len();
        let level = |cell: usize| {
            let terms = self.signs[cell].iter().enumerate();
            let terms = terms.map(|(base, &sign)| self.factors.slice(1, base..=base) * sign);
            let sum = terms.reduce(|sum, term| sum + term);
            sum.unwrap_or_else(|| self.factors.clone())
        };
        let lowest = level(0).broadcast_to(self.passes[0].shape()?);
        let levels = (1..=bases).fold(lowest, |lower, cell| {
            self.passes[bases - cell].select(level(cell), lower)
        });
        Ok(levels)
    }
}
