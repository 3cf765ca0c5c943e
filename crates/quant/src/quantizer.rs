//! Level sets of the channels of a tensor.

use crate::error::{Error, Result};
use crate::level_set::LevelSet;
use crate::population::Sample;
use crate::qem::Qem;

/// One level set for a tensor, or one for each of its channels.
///
/// Layout: the data is `[channels, elements of a channel]`, row-major, as the weights of a layer
/// with the output channel first.
///
/// # Examples
/// ```
/// use quant::{Qem, Quantizer};
///
/// // Two channels of different size.
/// let weights = [-0.1, 0.3, -0.2, 0.1, 10.0, -20.0, 30.0, -10.0];
/// let quantizer = Quantizer::fit(&Qem::signs(1)?, &weights, 2)?;
/// let (codes, _) = quantizer.quantize(&weights)?;
/// assert_eq!(codes, [0, 1, 0, 1, 1, 0, 1, 0]);
/// let restored = quantizer.dequantize(&codes)?;
/// assert!((restored[0] + 0.175).abs() < 1e-6 && (restored[4] - 17.5).abs() < 1e-5);
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Quantizer {
    levels: Vec<LevelSet>,
}

impl Quantizer {
    /// Creates a quantiser from the level set of each channel, or from a single one for a tensor.
    ///
    /// # Errors
    /// [`Error::Empty`] without a level set.
    pub fn new(levels: Vec<LevelSet>) -> Result<Self> {
        if levels.is_empty() {
            return Err(Error::Empty {
                operation: "Quantizer::new",
            });
        }
        Ok(Self { levels })
    }

    /// Fits the levels of each channel to its data; one channel fits the whole tensor. The feature
    /// `rayon` fits channels in parallel, with the same result.
    ///
    /// # Errors
    /// [`Error::UnevenChannels`] unless the data is divisible into the channels; [`Error::Empty`]
    /// for channels without elements; [`Error::NotANumber`] with the position of the first NaN of a
    /// channel; [`Error::InvalidNumber`] for an infinity; [`Error::Singular`] with ridge 0.
    pub fn fit(qem: &Qem, data: &[f32], n_channels: usize) -> Result<Self> {
        let operation = "Quantizer::fit";
        let len = channel_len(operation, data.len(), n_channels)?;
        if len == 0 {
            return Err(Error::Empty { operation });
        }
        let fit = |(channel, data): (usize, &[f32])| {
            let sample = Sample::new(data).map_err(|error| match error {
                Error::NotANumber { index, .. } => Error::NotANumber {
                    operation,
                    index: channel * len + index,
                },
                other => other,
            })?;
            qem.fit(&sample)?.level_set()
        };
        #[cfg(feature = "rayon")]
        let levels: Vec<Result<LevelSet>> = {
            use rayon::prelude::*;
            data.par_chunks(len).enumerate().map(fit).collect()
        };
        #[cfg(not(feature = "rayon"))]
        let levels = data.chunks(len).enumerate().map(fit);
        Ok(Self {
            levels: levels.into_iter().collect::<Result<_>>()?,
        })
    }

    /// Returns the level set of each channel.
    #[must_use]
    pub fn levels(&self) -> &[LevelSet] {
        &self.levels
    }

    /// Returns the code of each element, and the number of NaNs, which have the code of the lowest
    /// level.
    ///
    /// # Errors
    /// [`Error::UnevenChannels`] unless the data is divisible into the channels.
    pub fn quantize(&self, data: &[f32]) -> Result<(Vec<u8>, usize)> {
        let len = channel_len("Quantizer::quantize", data.len(), self.levels.len())?;
        let (mut codes, mut n_nan) = (Vec::with_capacity(data.len()), 0);
        for (levels, data) in self.levels.iter().zip(data.chunks(len.max(1))) {
            let (of_channel, n) = levels.quantize(data);
            codes.extend(of_channel);
            n_nan += n;
        }
        Ok((codes, n_nan))
    }

    /// Returns the level of each code.
    ///
    /// # Errors
    /// [`Error::UnevenChannels`] unless the codes are divisible into the channels;
    /// [`Error::UnknownCode`] with the position of a code that the channel's level set does not
    /// contain.
    pub fn dequantize(&self, codes: &[u8]) -> Result<Vec<f32>> {
        let operation = "Quantizer::dequantize";
        let len = channel_len(operation, codes.len(), self.levels.len())?;
        let mut restored = Vec::with_capacity(codes.len());
        for (levels, codes) in self.levels.iter().zip(codes.chunks(len.max(1))) {
            let first = restored.len();
            let of_channel = levels.dequantize(codes).map_err(|error| match error {
                Error::UnknownCode {
                    index,
                    code,
                    expected,
                    ..
                } => Error::UnknownCode {
                    operation,
                    index: first + index,
                    code,
                    expected,
                },
                other => other,
            })?;
            restored.extend(of_channel);
        }
        Ok(restored)
    }
}

/// Returns the number of elements of a channel.
pub(crate) fn channel_len(operation: &'static str, len: usize, n_channels: usize) -> Result<usize> {
    if n_channels > 0 && len.is_multiple_of(n_channels) {
        Ok(len / n_channels)
    } else {
        Err(Error::UnevenChannels {
            operation,
            len,
            n_channels,
        })
    }
}
