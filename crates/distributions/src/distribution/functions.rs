//! The public functions of a distribution at an `x`: of one number, and of slices in f64 or f32.
//!
//! Role: slices are computed in SIMD lanes and, with the feature `rayon`, optionally on all
//! threads. Each element has the same bits as the result of the function of a single number.

/// Defines the public functions of a distribution at an `x`. The literals are the values of `cdf`,
/// `sf` and `hazard` at ∞, for the doc comments.
macro_rules! functions {
    ($distribution:ty $(, where $parameter:ident: $bound:ident)?, at infinity: $cdf:literal, $sf:literal, $hazard:literal) => {
        crate::distribution::functions! {$distribution $(, where $parameter: $bound)?;
            pdf, pdf_into, par_pdf_into: Pdf,
                "Returns the density `f(x)`: 0 outside the support, NaN for NaN. The documentation of the type \
                has the formula.";
            ln_pdf, ln_pdf_into, par_ln_pdf_into: LnPdf,
                "Returns `ln f(x)` with the density `f`, finite where `pdf` underflows: -∞ outside the support, \
                NaN for NaN.";
            cdf, cdf_into, par_cdf_into: Cdf,
                concat!("Returns `P(X <= x)`, the integral of the density up to `x`: ",
                    "0 up to the lower end of the support, ", $cdf, " at ∞, NaN for NaN.");
            sf, sf_into, par_sf_into: Sf,
                concat!("Returns the survival function `P(X > x) = 1 - P(X <= x)`, accurate where it is small: ",
                    "1 up to the lower end of the support, ", $sf, " at ∞, NaN for NaN.");
            ln_cdf, ln_cdf_into, par_ln_cdf_into: LnCdf,
                "Returns `ln P(X <= x)`, finite where `cdf` underflows: -∞ up to the lower end of the support, \
                the logarithm of the limit of `cdf` at ∞, NaN for NaN.";
            ln_sf, ln_sf_into, par_ln_sf_into: LnSf,
                "Returns `ln P(X > x)`, finite where `sf` underflows: 0 up to the lower end of the support, \
                the logarithm of the limit of `sf` at ∞, NaN for NaN.";
            hazard, hazard_into, par_hazard_into: Hazard,
                concat!("Returns the hazard rate `f(x) / P(X > x)`: 0 up to the lower end of the support, ", $hazard,
                    " at ∞, NaN for NaN.\n\n",
                    "Where the upper tail is small, the exponential factors of density and tail cancel ",
                    "analytically. The hazard is therefore accurate even where both underflow.");
        }
    };
    ($distribution:ty $(, where $parameter:ident: $bound:ident)?; $($one:ident, $into:ident, $par_into:ident: $lane:ident, $doc:expr;)+) => {
        impl$(<$parameter: $bound>)? $distribution {$(
            #[doc = $doc]
            ///
            /// Accuracy: see the documentation of the type and the [front page](crate).
            #[must_use]
            pub fn $one(&self, x: f64) -> f64 {
                crate::lanes::eval(crate::distribution::$lane(*self), x)
            }

            #[doc = concat!("Writes [`Self::", stringify!($one), "`] of each element of `xs` into `out`. For f32, computes in f64 and rounds.")]
            ///
            /// # Errors
            /// [`crate::Error::LengthMismatch`]: the slices differ in length.
            pub fn $into<T: crate::Real>(&self, xs: &[T], out: &mut [T]) -> Result<(), crate::Error> {
                crate::lanes::eval_slice(stringify!($into), crate::distribution::$lane(*self), xs, out)
            }

            #[cfg(feature = "rayon")]
            #[doc = concat!("Writes the results of [`Self::", stringify!($into), "`], computed on all threads.")]
            ///
            /// # Errors
            /// [`crate::Error::LengthMismatch`]: the slices differ in length.
            pub fn $par_into<T: crate::Real>(&self, xs: &[T], out: &mut [T]) -> Result<(), crate::Error> {
                crate::lanes::par_each(stringify!($par_into), crate::distribution::$lane(*self), xs, out)
            }
        )+}
    };
}

pub(crate) use functions;
