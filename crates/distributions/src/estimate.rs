//! Estimation of an inverse Gaussian from data, and tests of whether it fits.
//!
//! Role: [`SufficientStatistic`] accumulates observations, one at a time or by merging parts of a
//! sample. [`Fit`] computes estimates, standard errors and exact confidence intervals from the
//! statistic. [`GoodnessOfFit`] tests whether a sample can come from a given distribution, or from
//! any inverse Gaussian. [`ShiftedFit`] also estimates a shift.
//! Method: the weight `W`, the mean `m` and the dispersion `S = Σ w (1/x - 1/m)` are sufficient for
//! the parameters: the likelihood is largest at `μ = m`, `λ = W/S`. The textbook sum for `S`
//! cancels if `μ/λ` is small. Therefore `S` is accumulated from squares of differences here (see
//! [`SufficientStatistic`]).
//! Source: Tweedie 1957, "Statistical properties of inverse Gaussian distributions I"; Chhikara and
//! Folks 1989, "The inverse Gaussian distribution: theory, methodology and applications".
//!
//! ```
//! use distributions::estimate::{Fit, GoodnessOfFit};
//! use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
//!
//! let times = [0.62, 0.85, 1.31, 0.44, 1.02, 2.37, 0.71, 0.93, 1.58, 0.55];
//! let fit = Fit::from_sample(&times)?;
//! let interval = fit.mean_interval(0.95)?;
//! let mean = fit.distribution().mean();
//! assert!(interval.lower < mean && mean < interval.upper);
//!
//! let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
//! let test = GoodnessOfFit::AndersonDarling.bootstrap(&times, 199, &mut rng)?;
//! assert!(test.p_value > 0.05);
//! # Ok::<(), distributions::Error>(())
//! ```

mod fit;
mod goodness;
mod quantiles;
mod shifted;
mod sufficient;
mod sum;

pub use fit::{Fit, Interval};
pub use goodness::{Bootstrap, GoodnessOfFit, kolmogorov_p_value};
pub use shifted::ShiftedFit;
pub use sufficient::SufficientStatistic;
