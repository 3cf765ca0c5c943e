//! Wrapper of the kernel `inverse_gaussian_sample`.

use super::{Batch, PART};
use gpu_wgsl::{Buffer, Result};
use shaders::layout;
use shaders::params::InverseGaussianSampleParams;
use std::ops::Range;

impl Batch<'_> {
    /// Gives draws of the law, all positive and finite: those with these numbers, of a stream under a key.
    ///
    /// Draw `i` depends on the law, key, stream and `i` alone, and is made of block `i` of the stream of Philox4x32-10
    /// (`tensor_core::rng::Philox` gives the same words); a use of its own should have a stream of its own. Devices agree
    /// up to rounding, but for a draw in a million or so, where rounding decides between its two candidates. A range that
    /// ends before it starts is empty.
    ///
    /// # Errors
    /// Those of [`gpu_wgsl`]: the device has no room, was lost, or refuses the kernel.
    pub fn sample(&self, key: u64, stream: u64, draws: Range<u32>) -> Result<Vec<f32>> {
        let mut made = Vec::with_capacity(draws.len());
        let mut next = draws.start;
        while next < draws.end {
            let end = next.saturating_add(PART).min(draws.end);
            made.extend(
                self.gpu
                    .read(&self.sample_buffer(key, stream, next..end)?)?,
            );
            next = end;
        }
        Ok(made)
    }

    /// Does what [`Self::sample`] does, on the device alone.
    ///
    /// # Errors
    /// Those of [`gpu_wgsl`]: beside those of [`Self::sample`] there may be more draws than a kernel can make at once.
    pub fn sample_buffer(&self, key: u64, stream: u64, draws: Range<u32>) -> Result<Buffer<f32>> {
        let buffer = self.gpu.alloc("draws", &[draws.len()])?;
        let (mean, shape) = (self.law.mean(), self.law.shape());
        let params = InverseGaussianSampleParams::new(mean, shape, key, stream, draws);
        self.gpu
            .dispatch(&layout::INVERSE_GAUSSIAN_SAMPLE, &params, &[&buffer])?;
        Ok(buffer)
    }
}
