//! The inverse Gaussian distribution and its relatives, accurate in both tails; estimation of their
//! parameters, sequential tests, and distances between distributions.
//!
//! Role: distribution functions for work that needs tail probabilities: waiting times, reaction
//! times, degradation, hydrology, multiple testing. Other libraries lose digits in the upper tail,
//! overflow for a small variance, or do not terminate in the quantile function. Here every function
//! is accurate for all parameters in the supported range; the tables below contain measured errors.
//! [`Custom`] adds the same functions to a distribution that a user defines by a density and two
//! tails.
//!
//! ```
//! use distributions::InverseGaussian;
//!
//! let distribution = InverseGaussian::new(1.0, 3.0)?;
//! let rare = distribution.inverse_sf(1e-300);
//! assert!((distribution.ln_sf(rare) - 1e-300_f64.ln()).abs() < 1e-12);
//! # Ok::<(), distributions::Error>(())
//! ```
#![doc = include_str!("accuracy.md")]
#![doc = include_str!("accuracy_relatives.md")]

mod custom;
pub mod distance;
mod distribution;
mod error;
pub mod estimate;
mod first_passage;
#[cfg(feature = "gpu")]
pub mod gpu;
mod inverse_gaussian;
mod lanes;
mod levy;
pub mod normality;
mod point;
mod quadrature;
mod reciprocal;
mod root;
mod shifted;
mod special;
mod sprt;
mod standardized;

pub use custom::{Custom, CustomDistribution};
pub use error::Error;
pub use first_passage::FirstPassage;
pub use inverse_gaussian::InverseGaussian;
pub use lanes::Real;
pub use levy::Levy;
pub use quadrature::Estimate;
pub use reciprocal::ReciprocalInverseGaussian;
pub use shifted::ShiftedInverseGaussian;
pub use sprt::{Decision, Sprt};
pub use standardized::Standardized;
