//! The public quantile functions of a distribution: for either tail, for probabilities or their
//! logarithms, and for slices.

use crate::distribution::Distribution;
use crate::distribution::quantile_solver::QuantileArgument;
use crate::{Error, Real};

/// Defines the quantile functions of a distribution.
macro_rules! quantiles {
    ($distribution:ty $(, where $parameter:ident: $bound:ident)?) => {
        crate::distribution::quantiles! {$distribution $(, where $parameter: $bound)?;
            inverse_cdf, try_inverse_cdf, inverse_cdf_into, par_inverse_cdf_into:
                false, false, probability, "ProbabilityInvalid", "p", "is outside [0, 1]",
                "Returns the `x` with `P(X <= x) = p`.";
            inverse_sf, try_inverse_sf, inverse_sf_into, par_inverse_sf_into:
                false, true, probability, "ProbabilityInvalid", "p", "is outside [0, 1]",
                "Returns the `x` with `P(X > x) = p`, accurate where `p` is small.";
            inverse_ln_cdf, try_inverse_ln_cdf, inverse_ln_cdf_into, par_inverse_ln_cdf_into:
                true, false, ln_probability, "LnProbabilityInvalid", "ln_p", "is above 0",
                "Returns the `x` with `ln P(X <= x) = ln_p`.";
            inverse_ln_sf, try_inverse_ln_sf, inverse_ln_sf_into, par_inverse_ln_sf_into:
                true, true, ln_probability, "LnProbabilityInvalid", "ln_p", "is above 0",
                "Returns the `x` with `ln P(X > x) = ln_p`.";
        }
    };
    ($distribution:ty $(, where $parameter:ident: $bound:ident)?; $($one:ident, $try_one:ident, $into:ident, $par_into:ident:
        $is_log:literal, $is_upper:literal, $check:ident, $error:literal, $input:literal, $fault:literal, $doc:literal;)+) => {
        impl$(<$parameter: $bound>)? $distribution {$(
            #[doc = $doc]
            ///
            /// If `P(X <= x)` is 0 the result is the lower end of the support, and if it is 1 the
            /// upper end.
            ///
            /// Accuracy: see the documentation of the type and the [front page](crate). Cost:
            /// usually two evaluations of the tail, at most 8 for parameters in the supported
            /// range; for [`crate::Standardized`] up to two more. [`crate::Custom`] has its own
            /// cost.
            ///
            /// # Panics
            #[doc = concat!("If `", $input, "` ", $fault, " or NaN, as in statrs. [`Self::", stringify!($try_one), "`] returns an error instead.")]
            #[must_use]
            #[track_caller]
            pub fn $one(&self, p: f64) -> f64 {
                crate::distribution::expect(self.$try_one(p))
            }

            #[doc = concat!("Returns the quantile of [`Self::", stringify!($one), "`], or an error instead of a panic.")]
            ///
            /// # Errors
            #[doc = concat!("[`crate::Error::", $error, "`]: `", $input, "` ", $fault, " or NaN.")]
            pub fn $try_one(&self, p: f64) -> Result<f64, crate::Error> {
                let p = crate::error::$check(stringify!($one), p)?;
                let argument = crate::distribution::quantile_solver::QuantileArgument { is_upper: $is_upper, is_log: $is_log };
                let [x] = crate::distribution::Distribution::quantiles(self, &[p], argument);
                Ok(x)
            }

            #[doc = concat!("Writes [`Self::", stringify!($one), "`] of each element of `ps` into `out`. For f32, computes in f64 and rounds.")]
            ///
            /// # Errors
            /// - [`crate::Error::LengthMismatch`]: the slices differ in length.
            #[doc = concat!("- [`crate::Error::", $error, "`]: an element is out of range; nothing is written.")]
            pub fn $into<T: crate::Real>(&self, ps: &[T], out: &mut [T]) -> Result<(), crate::Error> {
                crate::lanes::check(stringify!($into), ps, out)?;
                // Check all elements first, so that an error leaves `out` unchanged.
                for &p in ps {
                    crate::error::$check(stringify!($into), p.widened())?;
                }
                let argument = crate::distribution::quantile_solver::QuantileArgument { is_upper: $is_upper, is_log: $is_log };
                crate::distribution::quantiles_into(self, ps, out, argument);
                Ok(())
            }

            #[cfg(feature = "rayon")]
            #[doc = concat!("Writes the results of [`Self::", stringify!($into), "`], computed on all threads.")]
            ///
            /// # Errors
            #[doc = concat!("As [`Self::", stringify!($into), "`].")]
            pub fn $par_into<T: crate::Real>(&self, ps: &[T], out: &mut [T]) -> Result<(), crate::Error> {
                use rayon::prelude::*;
                crate::lanes::check(stringify!($par_into), ps, out)?;
                for &p in ps {
                    crate::error::$check(stringify!($par_into), p.widened())?;
                }
                let pieces = ps.par_chunks(crate::lanes::PIECE).zip(out.par_chunks_mut(crate::lanes::PIECE));
                let argument = crate::distribution::quantile_solver::QuantileArgument { is_upper: $is_upper, is_log: $is_log };
                pieces.for_each(|(ps, out)| crate::distribution::quantiles_into(self, ps, out, argument));
                Ok(())
            }
        )+}
    };
}

pub(crate) use quantiles;

/// The number of quantiles that one call searches side by side in SIMD lanes.
const N_SEARCHES: usize = 32;

/// Writes the quantile of each probability of `ps` into `out`, which has the same length.
pub(crate) fn quantiles_into<T: Real>(
    distribution: &impl Distribution,
    ps: &[T],
    out: &mut [T],
    argument: QuantileArgument,
) {
    // Whole chunks are searched in lanes; the remaining elements one by one.
    let (chunks, rest) = ps.as_chunks::<N_SEARCHES>();
    let (outs, out_rest) = out.as_chunks_mut::<N_SEARCHES>();
    for (out, ps) in outs.iter_mut().zip(chunks) {
        *out = distribution
            .quantiles(&ps.map(T::widened), argument)
            .map(T::narrowed);
    }
    for (out, &p) in out_rest.iter_mut().zip(rest) {
        *out = distribution
            .quantiles(&[p.widened()], argument)
            .map(T::narrowed)[0];
    }
}

/// Returns the quantile.
///
/// # Panics
/// If `quantile` is an error, as the functions of statrs do.
#[track_caller]
#[expect(
    clippy::panic,
    reason = "the documented contract of statrs' inverse functions"
)]
pub(crate) fn expect(quantile: Result<f64, Error>) -> f64 {
    match quantile {
        Ok(x) => x,
        Err(error) => panic!("{error}"),
    }
}
