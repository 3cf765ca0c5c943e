//! Functions of whole slices, in f64 or f32.
//!
//! Role: the batch form of the functions of one number: same bits, a vector at a time; with the feature `rayon` also on
//! all threads, with the same bits again.

use super::quantile::Target;
use super::{Cdf, Hazard, InverseGaussian, LnCdf, LnPdf, LnSf, Pdf, Sf};
use crate::error::{self, Error};
use crate::lanes::{self, Real};

macro_rules! slices {
    ($($into:ident, $par_into:ident: $lane:ident, $one:literal;)+) => {
        impl InverseGaussian {$(
            #[doc = concat!("Writes [`Self::", $one, "`] of each element of `xs` into `out`; in f32 it is computed in f64 and rounded.")]
            ///
            /// # Errors
            /// [`Error::LengthMismatch`]: the slices differ in length.
            pub fn $into<T: Real>(&self, xs: &[T], out: &mut [T]) -> Result<(), Error> {
                lanes::each(stringify!($into), $lane(*self), xs, out)
            }

            #[cfg(feature = "rayon")]
            #[doc = concat!("Does what [`Self::", stringify!($into), "`] does, on all threads.")]
            ///
            /// # Errors
            /// [`Error::LengthMismatch`]: the slices differ in length.
            pub fn $par_into<T: Real>(&self, xs: &[T], out: &mut [T]) -> Result<(), Error> {
                lanes::par_each(stringify!($par_into), $lane(*self), xs, out)
            }
        )+}
    };
}

slices! {
    pdf_into, par_pdf_into: Pdf, "pdf";
    ln_pdf_into, par_ln_pdf_into: LnPdf, "ln_pdf";
    cdf_into, par_cdf_into: Cdf, "cdf";
    sf_into, par_sf_into: Sf, "sf";
    ln_cdf_into, par_ln_cdf_into: LnCdf, "ln_cdf";
    ln_sf_into, par_ln_sf_into: LnSf, "ln_sf";
    hazard_into, par_hazard_into: Hazard, "hazard";
}

macro_rules! quantiles {
    ($($into:ident, $par_into:ident: $one:literal, $target:ident, $is_upper:literal, $check:ident, $error:literal;)+) => {
        impl InverseGaussian {$(
            #[doc = concat!("Writes [`Self::", $one, "`] of each element into `out`; in f32 it is computed in f64 and rounded.")]
            ///
            /// # Errors
            /// - [`Error::LengthMismatch`]: the slices differ in length.
            #[doc = concat!("- [`Error::", $error, "`]: an element is out of range; nothing is written.")]
            pub fn $into<T: Real>(&self, ps: &[T], out: &mut [T]) -> Result<(), Error> {
                lanes::check(stringify!($into), ps, out)?;
                for &p in ps {
                    error::$check(stringify!($into), p.widened())?;
                }
                for (out, &p) in out.iter_mut().zip(ps) {
                    *out = T::narrowed(self.quantile(Target::$target(p.widened(), $is_upper)));
                }
                Ok(())
            }

            #[cfg(feature = "rayon")]
            #[doc = concat!("Does what [`Self::", stringify!($into), "`] does, on all threads.")]
            ///
            /// # Errors
            #[doc = concat!("As [`Self::", stringify!($into), "`].")]
            pub fn $par_into<T: Real>(&self, ps: &[T], out: &mut [T]) -> Result<(), Error> {
                use rayon::prelude::*;
                lanes::check(stringify!($par_into), ps, out)?;
                for &p in ps {
                    error::$check(stringify!($par_into), p.widened())?;
                }
                out.par_iter_mut().zip(ps).for_each(|(out, &p)| {
                    *out = T::narrowed(self.quantile(Target::$target(p.widened(), $is_upper)));
                });
                Ok(())
            }
        )+}
    };
}

quantiles! {
    inverse_cdf_into, par_inverse_cdf_into: "inverse_cdf", of_probability, false, probability, "ProbabilityInvalid";
    inverse_sf_into, par_inverse_sf_into: "inverse_sf", of_probability, true, probability, "ProbabilityInvalid";
    inverse_ln_cdf_into, par_inverse_ln_cdf_into: "inverse_ln_cdf", of_ln_probability, false, ln_probability, "LnProbabilityInvalid";
    inverse_ln_sf_into, par_inverse_ln_sf_into: "inverse_ln_sf", of_ln_probability, true, ln_probability, "LnProbabilityInvalid";
}
