//! Evaluation and sampling of the inverse Gaussian on a GPU, in f32 (feature `gpu`).
//!
//! Role: wraps the kernels `inverse_gaussian_eval` and `inverse_gaussian_sample`. No other module
//! of the crate uses a device.
//! Method: the constants of the distribution are computed in f64 and each is split into two f32.
//! The kernels use the same formulas as the f64 functions, with the exponent in two parts. The
//! headers of `shaders::twin::inverse_gaussian_eval` and `shaders::twin::inverse_gaussian_sample`
//! describe the details.
//! Accuracy: the error is below [`max_epsilons`] epsilons of f32, for every distribution that
//! [`Batch::new`] accepts and every `x`. It is relative to the value; for `ln_pdf` it is relative
//! to the larger of 1 and the size of the value, and below the smallest normal number it is
//! absolute. The tests check this tolerance for the CPU twins of the kernels and for the kernels on
//! every adapter that they find.
//! Limits: the shader compiler of a device must not reassociate sums of three numbers; the tests on
//! adapters would detect this. It may fuse products and sums and cancel `(a + b) - b`. Divisions
//! and square roots may be as inaccurate as WGSL allows. A device that replaces subnormal numbers
//! by 0, as `SwiftShader` does, keeps the accuracy for `x` from 1e-33 to 1e33: beyond, the
//! remainder of `x` or of `1 / x` is subnormal, and the error of the exponent reaches 1e-3.

mod inverse_gaussian_eval;
mod inverse_gaussian_sample;

pub use shaders::params::InverseGaussianFunction as Function;
pub use shaders::twin::inverse_gaussian_eval::max_epsilons;

use crate::{Error, InverseGaussian};
use gpu_wgsl::Gpu;

/// The name of the distribution in errors.
const NAME: &str = "inverse Gaussian";
/// Supported range of the mean, the shape and `λ/μ²`, in which the second f32 part of each constant
/// is still a normal number.
const CONSTANTS: [f64; 2] = [1e-30, 1e30];
/// Supported range of `λ/μ`. Above it, neighbouring f32 numbers are further apart than the
/// distribution is wide; below it, the choice between the two candidates of a draw has too few
/// random bits.
const RATIOS: [f64; 2] = [1e-12, 1e12];

/// Number of elements per transfer of a slice: 4 MiB, which every device can bind.
const CHUNK_LEN: u32 = 1 << 20;

/// An inverse Gaussian distribution whose functions are computed on a device.
///
/// Functions of slices upload the input and read the results back. Functions whose name ends in
/// `_buffer` leave input and results on the device and only record the work, which runs when a
/// result is read.
///
/// Numbers below the smallest normal f32 count as left of the support. There and for ∞ the results
/// are the limits that [`InverseGaussian`] returns. The result for NaN depends on the device,
/// because WGSL does not define it; it is usually NaN. Logarithms below -2^122 may be -∞.
///
/// # Examples
/// ```
/// use distributions::{InverseGaussian, gpu::Batch};
/// use gpu_wgsl::{Error, Gpu, Select};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gpu = match Gpu::open(Select::Best) {
///     // Without a GPU, use the functions of slices of `InverseGaussian`.
///     Err(Error::NoAdapter { .. }) => return Ok(()),
///     other => other?,
/// };
/// let distribution = InverseGaussian::new(1.0, 2.0)?;
/// let batch = Batch::new(&gpu, distribution)?;
/// let sf = batch.sf(&[0.5, 60.0])?;
/// // Here 1 - cdf would be 0.
/// assert!((f64::from(sf[1]) / distribution.sf(60.0) - 1.0).abs() < 1e-6);
/// let draws = batch.sample(7, 0, 0..1000)?;
/// assert!(draws.iter().all(|x| *x > 0.0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    gpu: &'a Gpu,
    distribution: InverseGaussian,
}

impl<'a> Batch<'a> {
    /// Creates a batch evaluator of a distribution on a device.
    ///
    /// # Errors
    /// [`Error::OutsideF32`]: mean, shape or shape/mean² is outside [1e-30, 1e30], or shape/mean is
    /// outside [1e-12, 1e12].
    pub fn new(gpu: &'a Gpu, distribution: InverseGaussian) -> Result<Self, Error> {
        let (mean, shape) = (distribution.mean(), distribution.shape());
        check_range("mean", mean, CONSTANTS)?;
        check_range("shape", shape, CONSTANTS)?;
        check_range("shape/mean", shape / mean, RATIOS)?;
        check_range("shape/mean^2", shape / mean / mean, CONSTANTS)?;
        Ok(Self { gpu, distribution })
    }

    /// Returns the distribution.
    #[must_use]
    pub fn distribution(&self) -> InverseGaussian {
        self.distribution
    }
}

/// Returns an error if a quantity is outside its supported range.
fn check_range(quantity: &'static str, value: f64, [low, high]: [f64; 2]) -> Result<(), Error> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::OutsideF32 {
            distribution: NAME,
            quantity,
            value,
            low,
            high,
        })
    }
}
