//! Wrapper of the kernel `inverse_gaussian_eval`.

use super::{Batch, CHUNK_LEN, Function};
use gpu_wgsl::{Buffer, Error, Result};
use shaders::layout;
use shaders::params::InverseGaussianEvalParams;

macro_rules! functions {
    ($($name:ident, $buffer:ident: $function:ident;)+) => {
        impl Batch<'_> {$(
            #[doc = concat!("Computes [`InverseGaussian::", stringify!($name), "`](crate::InverseGaussian::", stringify!($name), ") of each element of `xs`.")]
            ///
            /// # Errors
            /// As [`Self::eval`].
            pub fn $name(&self, xs: &[f32]) -> Result<Vec<f32>> {
                self.eval(Function::$function, xs)
            }

            #[doc = concat!("Computes [`Self::", stringify!($name), "`] of each element of a buffer, into a new buffer of the same shape.")]
            ///
            /// # Errors
            /// As [`Self::eval_buffer`].
            pub fn $buffer(&self, xs: &Buffer<f32>) -> Result<Buffer<f32>> {
                self.eval_buffer(Function::$function, xs)
            }
        )+}
    };
}

functions! {
    pdf, pdf_buffer: Pdf;
    ln_pdf, ln_pdf_buffer: LnPdf;
    cdf, cdf_buffer: Cdf;
    sf, sf_buffer: Sf;
    ln_cdf, ln_cdf_buffer: LnCdf;
    ln_sf, ln_sf_buffer: LnSf;
}

impl Batch<'_> {
    /// Computes a function of the distribution at each element of `xs`.
    ///
    /// `xs` may have any length, including 0. Long slices are processed in chunks of 4 MiB.
    ///
    /// # Errors
    /// An error of [`gpu_wgsl`], for example [`Error::OutOfMemory`] or [`Error::Lost`].
    pub fn eval(&self, function: Function, xs: &[f32]) -> Result<Vec<f32>> {
        let mut ys = Vec::with_capacity(xs.len());
        for part in xs.chunks(CHUNK_LEN as usize) {
            let part = self.gpu.upload("xs", &[part.len()], part)?;
            ys.extend(self.gpu.read(&self.eval_buffer(function, &part)?)?);
        }
        Ok(ys)
    }

    /// Computes a function of the distribution at each element of a buffer, into a new buffer of
    /// the same shape.
    ///
    /// The results stay on the device.
    ///
    /// # Errors
    /// As [`Self::eval`], and:
    /// - [`Error::ForeignBuffer`]: the buffer belongs to another device.
    /// - [`Error::TooLarge`]: the buffer is longer than one dispatch supports.
    pub fn eval_buffer(&self, function: Function, xs: &Buffer<f32>) -> Result<Buffer<f32>> {
        let n = u32::try_from(xs.len()).map_err(|_| Error::TooLarge {
            operation: "inverse_gaussian_eval",
            name: xs.name().to_owned(),
            shape: xs.shape().iter().map(|&side| side as u64).collect(),
            needed: xs.len() as u64,
            unit: "elements",
            limit_name: "count of 32 bits",
            limit: u32::MAX.into(),
        })?;
        let ys = self.gpu.alloc("ys", xs.shape())?;
        let params = InverseGaussianEvalParams::new(
            function,
            self.distribution.mean(),
            self.distribution.shape(),
            n,
        );
        self.gpu
            .dispatch(&layout::INVERSE_GAUSSIAN_EVAL, &params, &[xs, &ys])?;
        Ok(ys)
    }
}
