//! Implementations of the traits of `statrs` and `rand`.

/// Implements the traits that every distribution has: density, distribution function, support,
/// median and sampling.
macro_rules! traits {
    ($distribution:ty $(, where $parameter:ident: $bound:ident)?) => {
        impl$(<$parameter: $bound>)? statrs::distribution::Continuous<f64, f64> for $distribution {
            fn pdf(&self, x: f64) -> f64 {
                self.pdf(x)
            }

            fn ln_pdf(&self, x: f64) -> f64 {
                self.ln_pdf(x)
            }
        }

        impl$(<$parameter: $bound>)? statrs::distribution::ContinuousCDF<f64, f64> for $distribution {
            fn cdf(&self, x: f64) -> f64 {
                self.cdf(x)
            }

            fn sf(&self, x: f64) -> f64 {
                self.sf(x)
            }

            fn inverse_cdf(&self, p: f64) -> f64 {
                self.inverse_cdf(p)
            }

            fn try_inverse_cdf(
                &self,
                p: f64,
            ) -> Result<f64, statrs::distribution::InverseCdfError> {
                self.try_inverse_cdf(p)
                    .map_err(|_| statrs::distribution::InverseCdfError::ArgumentOutOfRange)
            }
        }

        impl$(<$parameter: $bound>)? statrs::statistics::Min<f64> for $distribution {
            fn min(&self) -> f64 {
                crate::distribution::Distribution::low(self)
            }
        }

        impl$(<$parameter: $bound>)? statrs::statistics::Max<f64> for $distribution {
            fn max(&self) -> f64 {
                crate::distribution::Distribution::high(self)
            }
        }

        impl$(<$parameter: $bound>)? statrs::statistics::Median<f64> for $distribution {
            fn median(&self) -> f64 {
                self.median()
            }
        }

        impl$(<$parameter: $bound>)? rand::distr::Distribution<f64> for $distribution {
            fn sample<R: rand::Rng + ?Sized>(&self, rng: &mut R) -> f64 {
                self.sample(rng)
            }
        }
    };
}

/// Implements `Distribution` and `Mode` of `statrs` for a distribution with a mode and the listed
/// moments. Without a list, all moments are implemented.
macro_rules! moments {
    ($distribution:ident) => {
        crate::distribution::moments!($distribution: mean variance std_dev entropy skewness);
    };
    ($distribution:ident: $($moment:ident)+) => {
        impl statrs::statistics::Distribution<f64> for $distribution {$(
            fn $moment(&self) -> Option<f64> {
                Some(self.$moment())
            }
        )+}

        impl statrs::statistics::Mode<Option<f64>> for $distribution {
            fn mode(&self) -> Option<f64> {
                Some(self.mode())
            }
        }
    };
}

pub(crate) use {moments, traits};
