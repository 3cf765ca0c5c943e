//! The inverse Gaussian in batches on a GPU, in f32 (feature `gpu`).
//!
//! Role: wraps the kernels `inverse_gaussian_eval` and `inverse_gaussian_sample`; the only place of
//! the crate that knows a device.
//! Method: constants of the law are prepared in f64 and split into two f32 each; the kernels follow
//! the f64 functions, with their exponent in two parts. The headers of
//! `shaders::twin::inverse_gaussian_eval` and `…_sample` have the details.
//! Accuracy: below [`max_epsilons`] epsilons of f32, for every law that [`Batch::new`] takes and
//! every number; relative to the value, for `ln_pdf` to the larger of 1 and its size, and absolute
//! below the smallest normal number. The tests hold the twins to it everywhere, and the kernels on
//! every adapter of the machine that runs them, which they name.
//! Limits: assumes of a device's compiler that it brackets no sum of three numbers anew, which the
//! same tests would show. It may fuse products and sums and cancel what is added and subtracted
//! again, and its quotients and roots may be as inaccurate as WGSL allows.

mod inverse_gaussian_eval;
mod inverse_gaussian_sample;

pub use shaders::params::InverseGaussianFunction as Function;
pub use shaders::twin::inverse_gaussian_eval::max_epsilons;

use crate::{Error, InverseGaussian};
use gpu_wgsl::Gpu;

/// The name of the distribution in errors.
const LAW: &str = "inverse Gaussian";
/// What the mean, the shape and `λ/μ²` may be: the second part of each is still a normal number.
const CONSTANTS: [f64; 2] = [1e-30, 1e30];
/// What `λ/μ` may be: beyond, neighbouring f32 are further apart than the law is wide, or a draw's
/// choice has too few bits.
const RATIOS: [f64; 2] = [1e-12, 1e12];

/// Elements that slices send and fetch at a time, 4 MiB: any device binds as much at once.
const PART: u32 = 1 << 20;

/// An inverse Gaussian distribution whose functions are computed on a device.
///
/// Functions of slices move them to the device and back; those that end in `_buffer` leave
/// everything there and only record work, which runs when a result is read. Left of the support lie
/// all numbers below the smallest normal f32; at the ends, and for ∞, results are those of
/// [`InverseGaussian`]. What a device makes of NaN WGSL leaves open; it is usually NaN. Logarithms
/// below -2^122 may be -∞.
///
/// # Examples
/// ```
/// use distributions::{InverseGaussian, gpu::Batch};
/// use gpu_wgsl::{Error, Gpu, Select};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gpu = match Gpu::open(Select::Best) {
///     Err(Error::NoAdapter { .. }) => return Ok(()), // this machine has none; slices on the CPU still work
///     other => other?,
/// };
/// let law = InverseGaussian::new(1.0, 2.0)?;
/// let batch = Batch::new(&gpu, law)?;
/// let sf = batch.sf(&[0.5, 60.0])?;
/// // Here 1 - cdf would be 0.
/// assert!((f64::from(sf[1]) / law.sf(60.0) - 1.0).abs() < 1e-6);
/// let draws = batch.sample(7, 0, 0..1000)?;
/// assert!(draws.iter().all(|x| *x > 0.0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    gpu: &'a Gpu,
    law: InverseGaussian,
}

impl<'a> Batch<'a> {
    /// Creates a batch evaluator of a distribution on a device.
    ///
    /// # Errors
    /// [`Error::OutsideF32`]: mean, shape or shape/mean² is outside [1e-30, 1e30], or shape/mean
    /// outside [1e-12, 1e12].
    pub fn new(gpu: &'a Gpu, law: InverseGaussian) -> Result<Self, Error> {
        let (mean, shape) = (law.mean(), law.shape());
        held("mean", mean, CONSTANTS)?;
        held("shape", shape, CONSTANTS)?;
        held("shape/mean", shape / mean, RATIOS)?;
        held("shape/mean^2", shape / mean / mean, CONSTANTS)?;
        Ok(Self { gpu, law })
    }

    /// Returns the distribution.
    #[must_use]
    pub fn law(&self) -> InverseGaussian {
        self.law
    }
}

/// Returns an error if a constant is outside the supported range of f32 values.
fn held(quantity: &'static str, value: f64, [low, high]: [f64; 2]) -> Result<(), Error> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::OutsideF32 {
            law: LAW,
            quantity,
            value,
            low,
            high,
        })
    }
}
