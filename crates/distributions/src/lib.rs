//! The inverse Gaussian law to the last digit, everywhere; its relatives, its estimation, and distances between laws.
//!
//! Role: a law for people who need its tails: waiting times, reaction times, degradation, hydrology, multiple testing.
//! Peers lose the upper tail, overflow for small variation, or hang in the quantile; here every function is accurate on
//! the whole plane of parameters, and the table below is measured, not promised.
//!
//! ```
//! use distributions::InverseGaussian;
//!
//! let law = InverseGaussian::new(1.0, 3.0)?;
//! let rare = law.inverse_sf(1e-300);
//! assert!((law.ln_sf(rare) - 1e-300_f64.ln()).abs() < 1e-12);
//! # Ok::<(), distributions::Error>(())
//! ```
#![doc = include_str!("accuracy.md")]
#![doc = include_str!("accuracy_relatives.md")]

pub mod distance;
mod error;
pub mod estimate;
mod first_passage;
#[cfg(feature = "gpu")]
pub mod gpu;
mod inverse_gaussian;
mod lanes;
mod law;
mod levy;
pub mod normality;
mod point;
mod quadrature;
mod quantile;
mod reciprocal;
mod root;
mod shifted;
mod special;
mod sprt;
mod standardized;

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
