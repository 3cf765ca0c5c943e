//! The public functions of a law at an `x`: of one number, and of slices in f64 or f32.
//!
//! Role: slices get the bits of single numbers, a vector at a time; with the feature `rayon` also on all threads, with
//! the same bits again.

/// Writes a law's functions at an `x`; takes what `cdf`, `sf` and `hazard` are at ∞, for the documentation.
macro_rules! functions {
    ($law:ident, at infinity: $cdf:literal, $sf:literal, $hazard:literal) => {
        crate::law::functions! {$law,
            pdf, pdf_into, par_pdf_into: Pdf,
                "Gives the density `f(x)`, whose formula the law's description has: 0 outside the support, NaN for NaN.";
            ln_pdf, ln_pdf_into, par_ln_pdf_into: LnPdf,
                "Gives `ln f(x)` with the density `f`, finite where `pdf` is below f64's range: -∞ outside the support, NaN for NaN.";
            cdf, cdf_into, par_cdf_into: Cdf,
                concat!("Gives `P(X <= x)`, the integral of the density up to `x`, by the form that the law's description ",
                    "has: 0 up to the support, ", $cdf, " at ∞, NaN for NaN.");
            sf, sf_into, par_sf_into: Sf,
                concat!("Gives the survival function `P(X > x) = 1 - P(X <= x)`, accurate where it is small: 1 up to the ",
                    "support, ", $sf, " at ∞, NaN for NaN.");
            ln_cdf, ln_cdf_into, par_ln_cdf_into: LnCdf,
                "Gives `ln P(X <= x)`, finite where `cdf` is below f64's range: the logarithm of its limits, NaN for NaN.";
            ln_sf, ln_sf_into, par_ln_sf_into: LnSf,
                "Gives `ln P(X > x)`, finite where `sf` is below f64's range: the logarithm of its limits, NaN for NaN.";
            hazard, hazard_into, par_hazard_into: Hazard,
                concat!("Gives the hazard rate `f(x) / P(X > x)`: 0 up to the support, ", $hazard, " at ∞, NaN for NaN.\n\n",
                    "Where the upper tail is small no exponential is left in it, so it is accurate where both parts are ",
                    "below f64's range.");
        }
    };
    ($law:ident, $($one:ident, $into:ident, $par_into:ident: $lane:ident, $doc:expr;)+) => {
        impl $law {$(
            #[doc = $doc]
            ///
            /// Accuracy: the law's description and the [front page](crate) say it.
            #[must_use]
            pub fn $one(&self, x: f64) -> f64 {
                crate::lanes::one(crate::law::$lane(*self), x)
            }

            #[doc = concat!("Writes [`Self::", stringify!($one), "`] of each element of `xs` into `out`; in f32 it is computed in f64 and rounded.")]
            ///
            /// # Errors
            /// [`crate::Error::LengthMismatch`]: the slices differ in length.
            pub fn $into<T: crate::Real>(&self, xs: &[T], out: &mut [T]) -> Result<(), crate::Error> {
                crate::lanes::each(stringify!($into), crate::law::$lane(*self), xs, out)
            }

            #[cfg(feature = "rayon")]
            #[doc = concat!("Does what [`Self::", stringify!($into), "`] does, on all threads.")]
            ///
            /// # Errors
            /// [`crate::Error::LengthMismatch`]: the slices differ in length.
            pub fn $par_into<T: crate::Real>(&self, xs: &[T], out: &mut [T]) -> Result<(), crate::Error> {
                crate::lanes::par_each(stringify!($par_into), crate::law::$lane(*self), xs, out)
            }
        )+}
    };
}

pub(crate) use functions;
