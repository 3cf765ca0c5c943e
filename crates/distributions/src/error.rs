//! What can be wrong with what a caller gives.

use thiserror::Error;

/// Input that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A mean is zero, negative, infinite or NaN.
    #[error("{law}: mean is {mean:?}, it must be positive and finite")]
    MeanInvalid {
        /// The law that was to be made.
        law: &'static str,
        /// The mean given.
        mean: f64,
    },
    /// A shape is zero, negative, infinite or NaN.
    #[error("{law}: shape is {shape:?}, it must be positive and finite")]
    ShapeInvalid {
        /// The law that was to be made.
        law: &'static str,
        /// The shape given.
        shape: f64,
    },
    /// A parameter with another name is out of its range.
    #[error("{law}: {parameter} is {value:?}, it must be {must}")]
    ParameterInvalid {
        /// The law or test that was to be made.
        law: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        must: &'static str,
    },
    /// A probability is outside [0, 1] or NaN.
    #[error("{operation}: probability is {p:?}, it must be from 0 to 1")]
    ProbabilityInvalid {
        /// The function that was called.
        operation: &'static str,
        /// What it was given.
        p: f64,
    },
    /// The logarithm of a probability is above 0 or NaN.
    #[error("{operation}: logarithm of a probability is {ln_p:?}, it must be at most 0")]
    LnProbabilityInvalid {
        /// The function that was called.
        operation: &'static str,
        /// What it was given.
        ln_p: f64,
    },
    /// A ratio of parameters is zero, negative, infinite or NaN, or outside what a distance is computed for.
    #[error(
        "{operation}: k is {k:?}, it must be positive and finite; for a distance from 1e-6 to 1e15"
    )]
    RatioInvalid {
        /// The function that was called.
        operation: &'static str,
        /// What it was given.
        k: f64,
    },
    /// A number was not found with the promised error, or a law gave NaN on the way.
    #[error(
        "{operation}: found {value:?} with an estimated error of {error:?}, which is more than promised"
    )]
    NotConverged {
        /// The function that was called.
        operation: &'static str,
        /// The best number found.
        value: f64,
        /// Its estimated error.
        error: f64,
    },
    /// A law whose constants f32 cannot hold with all their digits.
    #[error("{law}: {quantity} is {value:e}, in f32 it must be from {low:e} to {high:e}")]
    OutsideF32 {
        /// The law that was to be computed in f32.
        law: &'static str,
        /// What of it is too large or too small.
        quantity: &'static str,
        /// Its value.
        value: f64,
        /// The least that is taken.
        low: f64,
        /// The most that is taken.
        high: f64,
    },
    /// An output slice is not as long as its input.
    #[error("{operation}: input has {input} elements, output {output}")]
    LengthMismatch {
        /// The function that was called.
        operation: &'static str,
        /// Elements of the input.
        input: usize,
        /// Elements of the output.
        output: usize,
    },
    /// An observation is zero, negative, infinite or NaN.
    #[error("{operation}: observation {index} is {value:?}, it must be positive and finite")]
    ObservationInvalid {
        /// The function that was called.
        operation: &'static str,
        /// How many observations came before it.
        index: u64,
        /// The observation.
        value: f64,
    },
    /// The weight of an observation is zero, negative, infinite or NaN.
    #[error("{operation}: weight {index} is {weight:?}, it must be positive and finite")]
    WeightInvalid {
        /// The function that was called.
        operation: &'static str,
        /// How many observations came before it.
        index: u64,
        /// The weight.
        weight: f64,
    },
    /// A sample is too small for what is asked of it.
    #[error(
        "{operation}: the total weight of the sample is {weight:?}, it must be above {above:?}"
    )]
    TooFewObservations {
        /// The function that was called.
        operation: &'static str,
        /// Total weight of the observations: their number, unless they have weights.
        weight: f64,
        /// What it must exceed.
        above: f64,
    },
    /// All observations are equal, or so near that their dispersion is below f64's range.
    #[error("{operation}: all observations are {value:?}, so the shape has no bound")]
    ObservationsEqual {
        /// The function that was called.
        operation: &'static str,
        /// The value of all observations.
        value: f64,
    },
    /// The likelihood of a shift grows without bound towards the smallest observation.
    #[error(
        "{operation}: likelihood has no maximum ({n_equal} of {n_observations} observations are at or next to the smallest, \
         {smallest:?}; expected fewer than a third)"
    )]
    LikelihoodUnbounded {
        /// The function that was called.
        operation: &'static str,
        /// The smallest observation.
        smallest: f64,
        /// Number of observations that equal the smallest or nearly do.
        n_equal: usize,
        /// Number of observations.
        n_observations: usize,
    },
    /// A sufficient statistic is one that no observations have, or outside f64's range.
    #[error(
        "{operation}: {count} observations of total weight {weight:?}, mean {mean:?} and dispersion \
         {dispersion:?} are impossible or outside the range of f64"
    )]
    StatisticInvalid {
        /// The function that was called.
        operation: &'static str,
        /// Number of observations.
        count: u64,
        /// Their total weight.
        weight: f64,
        /// Their mean.
        mean: f64,
        /// Their dispersion.
        dispersion: f64,
    },
}

/// Whether a number is above 0 and finite.
pub(crate) fn is_positive(x: f64) -> bool {
    x > 0.0 && x <= f64::MAX
}

/// Gives a mean back if a law may have it.
pub(crate) fn mean(law: &'static str, mean: f64) -> Result<f64, Error> {
    if is_positive(mean) {
        Ok(mean)
    } else {
        Err(Error::MeanInvalid { law, mean })
    }
}

/// Gives a shape back if a law may have it.
pub(crate) fn shape(law: &'static str, shape: f64) -> Result<f64, Error> {
    if is_positive(shape) {
        Ok(shape)
    } else {
        Err(Error::ShapeInvalid { law, shape })
    }
}

/// Gives a ratio of parameters back if it can be one.
pub(crate) fn ratio(operation: &'static str, k: f64) -> Result<f64, Error> {
    if is_positive(k) {
        Ok(k)
    } else {
        Err(Error::RatioInvalid { operation, k })
    }
}

/// Gives a parameter back if it is positive and finite.
pub(crate) fn positive(
    law: &'static str,
    parameter: &'static str,
    value: f64,
) -> Result<f64, Error> {
    parameter_that(
        is_positive(value),
        (law, parameter),
        value,
        "positive and finite",
    )
}

/// Gives a parameter back if it is finite.
pub(crate) fn finite(law: &'static str, parameter: &'static str, value: f64) -> Result<f64, Error> {
    parameter_that(value.is_finite(), (law, parameter), value, "finite")
}

/// Gives a parameter back if it is good.
pub(crate) fn parameter_that(
    is_good: bool,
    (law, parameter): (&'static str, &'static str),
    value: f64,
    must: &'static str,
) -> Result<f64, Error> {
    if is_good {
        Ok(value)
    } else {
        Err(Error::ParameterInvalid {
            law,
            parameter,
            value,
            must,
        })
    }
}

/// Gives a probability back if it is one.
pub(crate) fn probability(operation: &'static str, p: f64) -> Result<f64, Error> {
    if (0.0..=1.0).contains(&p) {
        Ok(p)
    } else {
        Err(Error::ProbabilityInvalid { operation, p })
    }
}

/// Gives the logarithm of a probability back if it is one.
pub(crate) fn ln_probability(operation: &'static str, ln_p: f64) -> Result<f64, Error> {
    if ln_p <= 0.0 {
        Ok(ln_p)
    } else {
        Err(Error::LnProbabilityInvalid { operation, ln_p })
    }
}

/// Gives an observation back if a sample may have it.
pub(crate) fn observation(operation: &'static str, index: u64, value: f64) -> Result<f64, Error> {
    if is_positive(value) {
        Ok(value)
    } else {
        Err(Error::ObservationInvalid {
            operation,
            index,
            value,
        })
    }
}

/// Gives the weight of an observation back if it may have it.
pub(crate) fn weight(operation: &'static str, index: u64, weight: f64) -> Result<f64, Error> {
    if is_positive(weight) {
        Ok(weight)
    } else {
        Err(Error::WeightInvalid {
            operation,
            index,
            weight,
        })
    }
}
