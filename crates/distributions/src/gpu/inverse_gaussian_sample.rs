//! Wrapper of the kernel `inverse_gaussian_sample`.

use super::{Batch, CHUNK_LEN};
use gpu_wgsl::{Buffer, Result};
use shaders::layout;
use shaders::params::InverseGaussianSampleParams;
use std::ops::Range;

impl Batch<'_> {
    /// Draws random numbers, which are positive and finite: the draws with the indices `draws` of a
    /// stream under a key.
    ///
    /// Draw `i` depends only on the distribution, the key, the stream and `i`. It uses block `i` of
    /// the stream of Philox4x32-10; `tensor_core::rng::Philox` generates the same words. Use a
    /// separate stream for each purpose. The draws on different devices agree up to rounding,
    /// except for about one draw in a million, for which rounding decides between the two
    /// candidates of the draw. A range that ends before its start is empty.
    ///
    /// # Errors
    /// An error of [`gpu_wgsl`], for example [`gpu_wgsl::Error::OutOfMemory`] or
    /// [`gpu_wgsl::Error::Lost`].
    pub fn sample(&self, key: u64, stream: u64, draws: Range<u32>) -> Result<Vec<f32>> {
        let mut made = Vec::with_capacity(draws.len());
        let mut next = draws.start;
        while next < draws.end {
            let end = next.saturating_add(CHUNK_LEN).min(draws.end);
            made.extend(
                self.gpu
                    .read(&self.sample_buffer(key, stream, next..end)?)?,
            );
            next = end;
        }
        Ok(made)
    }

    /// Draws the numbers of [`Self::sample`] into a new buffer, which stays on the device.
    ///
    /// # Errors
    /// As [`Self::sample`], and [`gpu_wgsl::Error::TooLarge`]: one dispatch does not support as
    /// many draws.
    pub fn sample_buffer(&self, key: u64, stream: u64, draws: Range<u32>) -> Result<Buffer<f32>> {
        let buffer = self.gpu.alloc("draws", &[draws.len()])?;
        let (mean, shape) = (self.distribution.mean(), self.distribution.shape());
        let params = InverseGaussianSampleParams::new(mean, shape, key, stream, draws);
        self.gpu
            .dispatch(&layout::INVERSE_GAUSSIAN_SAMPLE, &params, &[&buffer])?;
        Ok(buffer)
    }
}
