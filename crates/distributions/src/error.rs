//! The error type of the crate, and the functions that validate arguments.

use thiserror::Error;

/// An error caused by invalid arguments, or by a computation that missed its accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A mean is zero, negative, infinite or NaN.
    #[error("{distribution}: mean is invalid ({mean:?}; expected positive and finite)")]
    MeanInvalid {
        /// The name of the distribution.
        distribution: &'static str,
        /// The invalid mean.
        mean: f64,
    },
    /// A shape is zero, negative, infinite or NaN.
    #[error("{distribution}: shape is invalid ({shape:?}; expected positive and finite)")]
    ShapeInvalid {
        /// The name of the distribution.
        distribution: &'static str,
        /// The invalid shape.
        shape: f64,
    },
    /// A parameter other than a mean or a shape is outside its range.
    #[error("{distribution}: {parameter} is invalid ({value:?}; expected {must})")]
    ParameterInvalid {
        /// The name of the distribution or test.
        distribution: &'static str,
        /// The name of the parameter.
        parameter: &'static str,
        /// The invalid value of the parameter.
        value: f64,
        /// The condition that the value must meet, such as "positive and finite".
        must: &'static str,
    },
    /// A probability is outside [0, 1] or NaN.
    #[error("{operation}: probability is invalid ({p:?}; expected from 0 to 1)")]
    ProbabilityInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The invalid probability.
        p: f64,
    },
    /// The logarithm of a probability is above 0 or NaN.
    #[error("{operation}: logarithm of a probability is invalid ({ln_p:?}; expected at most 0)")]
    LnProbabilityInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The invalid logarithm of a probability.
        ln_p: f64,
    },
    /// A ratio of parameters is zero, negative, infinite or NaN, or outside the range
    /// for which a distance is computed.
    #[error(
        "{operation}: k is invalid ({k:?}; expected positive and finite, and from 1e-6 to 1e15 for distances)"
    )]
    RatioInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The invalid ratio.
        k: f64,
    },
    /// A result misses its documented tolerance, or a function returned NaN during the computation.
    #[error(
        "{operation}: no convergence (result {value:?}, estimated error {error:?}; expected an error within the documented tolerance)"
    )]
    NotConverged {
        /// The function that was called.
        operation: &'static str,
        /// The best result found.
        value: f64,
        /// The estimated error of the result.
        error: f64,
    },
    /// A constant of a distribution is outside the range in which f32 represents it with full
    /// precision.
    #[error(
        "{distribution}: {quantity} is out of range for f32 ({value:e}; expected {low:e} to {high:e})"
    )]
    OutsideF32 {
        /// The name of the distribution.
        distribution: &'static str,
        /// The name of the constant that is too large or too small.
        quantity: &'static str,
        /// The value of the constant.
        value: f64,
        /// The smallest supported value.
        low: f64,
        /// The largest supported value.
        high: f64,
    },
    /// An output slice is not as long as its input.
    #[error("{operation}: lengths differ (input {input}, output {output})")]
    LengthMismatch {
        /// The function that was called.
        operation: &'static str,
        /// The number of elements of the input.
        input: usize,
        /// The number of elements of the output.
        output: usize,
    },
    /// An observation is infinite or NaN or, for distributions on positive numbers, zero or
    /// negative.
    #[error("{operation}: observation {index} is invalid ({value:?}; expected {must})")]
    ObservationInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The zero-based index of the observation.
        index: u64,
        /// The invalid observation.
        value: f64,
        /// The condition that the observation must meet, such as "positive and finite".
        must: &'static str,
    },
    /// The weight of an observation is zero, negative, infinite or NaN.
    #[error("{operation}: weight {index} is invalid ({weight:?}; expected positive and finite)")]
    WeightInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The zero-based index of the observation.
        index: u64,
        /// The invalid weight.
        weight: f64,
    },
    /// A sample is too small for the requested operation.
    #[error("{operation}: sample is too small (total weight {weight:?}; expected above {above:?})")]
    TooFewObservations {
        /// The function that was called.
        operation: &'static str,
        /// The total weight of the observations; without weights, the number of observations.
        weight: f64,
        /// The limit that the total weight must exceed.
        above: f64,
    },
    /// All observations are equal, or so close that their dispersion underflows.
    #[error(
        "{operation}: observations do not determine a shape (all are {value:?}; expected different values)"
    )]
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
    /// A sufficient statistic is outside f64's range, or does not belong to any possible sample.
    #[error(
        "{operation}: statistic is impossible or outside the range of f64 (count {count}, \
         weight {weight:?}, mean {mean:?}, dispersion {dispersion:?})"
    )]
    StatisticInvalid {
        /// The function that was called.
        operation: &'static str,
        /// Number of observations.
        count: u64,
        /// The total weight of the observations.
        weight: f64,
        /// The mean of the observations.
        mean: f64,
        /// The dispersion of the observations.
        dispersion: f64,
    },
}

/// Returns whether a number is positive and finite; `false` for NaN.
pub(crate) fn is_positive(x: f64) -> bool {
    x > 0.0 && x <= f64::MAX
}

/// Returns `mean` if it is positive and finite, otherwise [`Error::MeanInvalid`].
pub(crate) fn mean(distribution: &'static str, mean: f64) -> Result<f64, Error> {
    if is_positive(mean) {
        Ok(mean)
    } else {
        Err(Error::MeanInvalid { distribution, mean })
    }
}

/// Returns `shape` if it is positive and finite, otherwise [`Error::ShapeInvalid`].
pub(crate) fn shape(distribution: &'static str, shape: f64) -> Result<f64, Error> {
    if is_positive(shape) {
        Ok(shape)
    } else {
        Err(Error::ShapeInvalid {
            distribution,
            shape,
        })
    }
}

/// Returns `k` if it is positive and finite, otherwise [`Error::RatioInvalid`].
pub(crate) fn ratio(operation: &'static str, k: f64) -> Result<f64, Error> {
    if is_positive(k) {
        Ok(k)
    } else {
        Err(Error::RatioInvalid { operation, k })
    }
}

/// Returns `value` if it is positive and finite, otherwise [`Error::ParameterInvalid`].
pub(crate) fn positive(
    distribution: &'static str,
    parameter: &'static str,
    value: f64,
) -> Result<f64, Error> {
    parameter_that(
        is_positive(value),
        (distribution, parameter),
        value,
        "positive and finite",
    )
}

/// Returns `value` if it is finite, otherwise [`Error::ParameterInvalid`].
pub(crate) fn finite(
    distribution: &'static str,
    parameter: &'static str,
    value: f64,
) -> Result<f64, Error> {
    parameter_that(
        value.is_finite(),
        (distribution, parameter),
        value,
        "finite",
    )
}

/// Returns `value` if `is_good`, otherwise [`Error::ParameterInvalid`] with the condition `must`.
pub(crate) fn parameter_that(
    is_good: bool,
    (distribution, parameter): (&'static str, &'static str),
    value: f64,
    must: &'static str,
) -> Result<f64, Error> {
    if is_good {
        Ok(value)
    } else {
        Err(Error::ParameterInvalid {
            distribution,
            parameter,
            value,
            must,
        })
    }
}

/// Returns `p` if it is from 0 to 1, otherwise [`Error::ProbabilityInvalid`].
pub(crate) fn probability(operation: &'static str, p: f64) -> Result<f64, Error> {
    if (0.0..=1.0).contains(&p) {
        Ok(p)
    } else {
        Err(Error::ProbabilityInvalid { operation, p })
    }
}

/// Returns `ln_p` if it is at most 0, otherwise [`Error::LnProbabilityInvalid`].
pub(crate) fn ln_probability(operation: &'static str, ln_p: f64) -> Result<f64, Error> {
    if ln_p <= 0.0 {
        Ok(ln_p)
    } else {
        Err(Error::LnProbabilityInvalid { operation, ln_p })
    }
}

/// Returns `value` if it is positive and finite, otherwise [`Error::ObservationInvalid`].
pub(crate) fn observation(operation: &'static str, index: u64, value: f64) -> Result<f64, Error> {
    if is_positive(value) {
        Ok(value)
    } else {
        Err(Error::ObservationInvalid {
            operation,
            index,
            value,
            must: "positive and finite",
        })
    }
}

/// Returns `weight` if it is positive and finite, otherwise [`Error::WeightInvalid`].
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
