//! Activations and their levels in training.

use std::fmt;

use tensor_core::Tensor;

use super::levels::{LearnedLevels, dorefa_step};
use super::{Applied, NamedShape, Slot, Start, check_tensors};
use crate::error::{Result, check, finite};
use crate::level_set::{Alphabet, LevelSet, MAX_BITS, Ties, check_bits, rounded};
use crate::network::Activation;
use crate::population::RectifiedNormal;
use crate::qem::{Qem, check_step_bits};

/// The threshold of the bases of ABC-Net, on the shifted activation.
const ABC_THRESHOLD: f32 = 0.5;

/// The function after a normalization: a `ReLU`, or a `ReLU` and levels.
///
/// Backward, levels of `Lq` and `Uniform` have the derivative 1 for `0 < x <= l`, where `l` is the
/// highest level, and 0 elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActivationLevels {
    /// `max(x, 0)`.
    #[default]
    Relu,
    /// LQ-Nets: levels `Σ b_j v_j` with `b_j` 0 or 1 and one basis `v` for the layer. Each step
    /// averages the basis with a basis that fits the batch better. State: the basis and its
    /// average.
    Lq {
        /// The number of bits, 1 to [`Qem::MAX_STEP_BITS`].
        bits: usize,
    },
    /// Levels at equal distances from 0: as `Lq`, with a single number instead of a basis.
    Uniform {
        /// The number of bits, 1 to [`Qem::MAX_STEP_BITS`].
        bits: usize,
    },
    /// DoReFa-Net: levels at equal distances from 0 to 1. Backward, the derivative is 1 from 0 to
    /// 1, both included.
    DoReFa {
        /// The number of bits, 1 to [`MAX_BITS`](crate::MAX_BITS).
        bits: usize,
    },
    /// ABC-Net: `Σ_n β_n a_n` with `a_n = 1` for `x + v_n >= 1/2` and -1 otherwise. The shifts `v`
    /// and the factors `β` are parameters. Backward, `a_n` has the derivative 1 for
    /// `0 <= x + v_n <= 1`, with respect to `x` and to `v_n`.
    Abc {
        /// The number of bases, 1 to [`MAX_BITS`](crate::MAX_BITS).
        bases: usize,
    },
}

/// Writes the kind and the number of bits or bases, for example `lq 2`.
impl fmt::Display for ActivationLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relu => f.write_str("relu"),
            Self::Lq { bits } => write!(f, "lq {bits}"),
            Self::Uniform { bits } => write!(f, "uniform {bits}"),
            Self::DoReFa { bits } => write!(f, "dorefa {bits}"),
            Self::Abc { bases } => write!(f, "abc {bases}"),
        }
    }
}

impl ActivationLevels {
    /// Checks the number of bits or bases.
    pub(crate) fn check(&self, operation: &'static str) -> Result<()> {
        match *self {
            Self::Relu => Ok(()),
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

    /// Returns the shapes of the tensors of the state.
    pub(crate) fn state_shapes(&self) -> Result<Vec<NamedShape>> {
        let learned = self.learned()?;
        Ok(learned.map_or_else(Vec::new, |learned| learned.state_shapes(1)))
    }

    fn learned(&self) -> Result<Option<LearnedLevels>> {
        Ok(match *self {
            Self::Lq { bits } => Some(LearnedLevels {
                qem: Qem::bits(bits)?,
            }),
            Self::Uniform { bits } => Some(LearnedLevels {
                qem: Qem::bits(bits)?.uniform(),
            }),
            _ => None,
        })
    }

    /// Returns the parameters: `shift` and `factor`, `[bases]`, for ABC-Net; none otherwise. A
    /// number of bases above [`MAX_BITS`](crate::MAX_BITS), which all other functions reject,
    /// counts as `MAX_BITS`.
    #[must_use]
    pub fn parameters(&self) -> Vec<Slot> {
        /// The last threshold is below this number of standard deviations.
        const RANGE: f64 = 1.5;
        let Self::Abc { bases } = *self else {
            return Vec::new();
        };
        let bases = bases.min(MAX_BITS);
        let threshold = |base: usize| RANGE * (base as f64 + 0.5) / bases as f64;
        let shifts = (0..bases).map(|base| ABC_THRESHOLD - rounded(threshold(base)));
        vec![
            Slot::new("shift", &[bases], Start::Numbers(shifts.collect())),
            Slot::new(
                "factor",
                &[bases],
                Start::Constant(rounded(RANGE / 2.0 / bases as f64)),
            ),
        ]
    }

    /// Returns the state: for learned levels, the basis that is best for positive parts of normally
    /// distributed numbers with variance 1, and its average.
    ///
    /// # Errors
    /// [`Error::BitCount`](crate::Error::BitCount) for an unsupported number of bits.
    pub fn state(&self) -> Result<Vec<Slot>> {
        let Some(learned) = self.learned()? else {
            return Ok(Vec::new());
        };
        let mut basis = learned.qem.fit(&RectifiedNormal)?.basis;
        basis.truncate(learned.qem.basis_len());
        Ok(learned.state(&[basis]))
    }

    /// Returns the output, of the shape of `x`, and the next state.
    ///
    /// # Errors
    /// [`Error::BitCount`](crate::Error::BitCount) for an unsupported number of bits or bases;
    /// [`Error::Length`](crate::Error::Length) and [`Error::Shape`](crate::Error::Shape) for other
    /// numbers or shapes of tensors; [`Error::Tensor`](crate::Error::Tensor) for an error of a
    /// tensor.
    pub fn apply(&self, x: &Tensor, parameters: &[Tensor], state: &[Tensor]) -> Result<Applied> {
        let operation = "ActivationLevels::apply";
        let shape = x.shape()?.to_vec();
        self.check(operation)?;
        let shapes = self.state_shapes()?;
        check_tensors(operation, &self.parameters(), parameters, &shapes, state)?;
        if let Some(learned) = self.learned()? {
            let rectified = x.relu();
            let rows = rectified.reshape(&[1, shape.iter().product()]);
            let quantized = learned.apply(&rows, state)?;
            let highest = highest_level(&learned.qem, &state[0]);
            let surrogate = x.le(&highest).select(&rectified, &highest);
            #[cfg(test)]
            let surrogate = if crate::fault::is_enabled(crate::fault::Fault::UnclippedGradient) {
                rectified
            } else {
                surrogate
            };
            let levels = quantized.levels.reshape(&shape);
            return Ok(Applied {
                output: levels.with_surrogate_gradient(&surrogate),
                state: quantized.state,
            });
        }
        let output = match *self {
            Self::DoReFa { bits } => {
                let levels = LevelSet::uniform_from_zero(bits, dorefa_step(bits, 1.0))?;
                let is_inside = x.ge(0.0) & x.le(1.0);
                let surrogate = is_inside.select(x, 0.0);
                levels.levels_of(x).with_surrogate_gradient(&surrogate)
            }
            Self::Abc { bases } => {
                let terms = (0..bases).map(|base| {
                    let [shift, factor] = [0, 1].map(|number| {
                        let number: &Tensor = &parameters[number];
                        number.slice(0, base..=base)
                    });
                    let shifted = x + &shift;
                    let is_inside = shifted.ge(0.0) & shifted.le(1.0);
                    let surrogate = is_inside.select(&shifted, 0.0);
                    // Compares with the threshold on `x`, as the exported levels do.
                    let sign = x
                        .ge(f64::from(ABC_THRESHOLD) - &shift)
                        .select(1.0_f32, -1.0_f32);
                    sign.with_surrogate_gradient(&surrogate) * factor
                });
                let sum = terms.reduce(|sum, term| sum + term);
                sum.unwrap_or_else(|| x.clone())
            }
            _ => x.relu(),
        };
        Ok(Applied {
            output,
            state: Vec::new(),
        })
    }

    /// Returns the activation of a trained layer.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`](crate::Error::InvalidNumber) for numbers that are not finite, and
    /// for a negative number of a basis.
    pub(crate) fn frozen(&self, parameters: &[Vec<f32>], state: &[Vec<f32>]) -> Result<Activation> {
        let operation = "ActivationLevels";
        let levels = match *self {
            Self::Relu => return Ok(Activation::Relu),
            Self::Lq { .. } | Self::Uniform { .. } => {
                for &number in &state[0] {
                    let expected = "a finite number of at least 0";
                    let is_valid = number >= 0.0 && number.is_finite();
                    check(operation, "basis number", number.into(), is_valid, expected)?;
                }
                match *self {
                    Self::Uniform { bits } if state[0][0] > 0.0 => {
                        LevelSet::uniform_from_zero(bits, state[0][0])?
                    }
                    Self::Uniform { bits } => LevelSet::bits(&vec![0.0; bits])?,
                    _ => LevelSet::bits(&state[0])?,
                }
            }
            Self::DoReFa { bits } => LevelSet::uniform_from_zero(bits, dorefa_step(bits, 1.0))?,
            Self::Abc { .. } => abc_levels(&parameters[0], &parameters[1])?,
        };
        Ok(Activation::Levels(levels))
    }
}

/// Returns the highest level of a basis `[1, number]`, as the levels of the program are computed.
fn highest_level(qem: &Qem, basis: &Tensor) -> Tensor {
    let factors = qem.highest_factors();
    let terms = factors
        .into_iter()
        .enumerate()
        .map(|(number, factor)| basis.slice(1, number..=number).maximum(0.0).reshape(&[]) * factor);
    let sum = terms.reduce(|sum, term| sum + term);
    sum.unwrap_or_else(|| basis.clone())
}

/// Returns the levels of ABC-Net's activations. The base with the lowest threshold, which has the
/// largest shift, is the first one that turns positive.
fn abc_levels(shifts: &[f32], factors: &[f32]) -> Result<LevelSet> {
    let operation = "ActivationLevels::Abc";
    let mut order: Vec<usize> = (0..shifts.len()).collect();
    order.sort_by(|&a, &b| shifts[b].total_cmp(&shifts[a]));
    let mut code = 0_u16;
    let mut codes = vec![0];
    for &base in &order {
        code |= 1 << base;
        codes.push(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let thresholds: Vec<f32> = order
        .iter()
        .map(|&base| ABC_THRESHOLD - shifts[base])
        .collect();
    for &threshold in &thresholds {
        finite(operation, "threshold", threshold.into())?;
    }
    let levels =
        LevelSet::with_thresholds(operation, Alphabet::Signs, factors, 0.0, codes, thresholds)?;
    Ok(levels.with_ties(Ties::Up))
}
