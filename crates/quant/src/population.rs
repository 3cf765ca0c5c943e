//! The numbers that levels are fitted to: a sample, or a distribution.
//!
//! Role: a fit needs only the number and the sum of the elements in each cell between two
//! thresholds, and the sum of all squares. A [`Sample`] computes these from data, [`Normal`] and
//! [`RectifiedNormal`] from their distribution functions.
//! Method: a sample is sorted once; the elements of a cell are then found by binary search, and
//! their sum is the difference of two prefix sums.
//! Accuracy: the prefix sums are f64 sums of f32 numbers, in ascending order.

use libm::erfc;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::error::{Error, Result, finite, positive};

/// The elements between two thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// The number of elements; for a distribution, the probability.
    pub mass: f64,
    /// The sum of the elements; for a distribution, the mean times the probability.
    pub sum: f64,
}

/// A sample or a distribution, as a fit of levels uses it.
pub trait Population {
    /// Returns the elements `x` with `above < x <= up_to`; both ends can be infinite.
    fn cell(&self, above: f64, up_to: f64) -> Cell;

    /// Returns the sum of the squares of all elements; for a distribution, the second moment.
    fn sum_of_squares(&self) -> f64;

    /// Returns all elements.
    fn whole(&self) -> Cell {
        self.cell(f64::NEG_INFINITY, f64::INFINITY)
    }
}

/// Returns all elements.
///
/// # Errors
/// [`Error::Empty`] if there are none.
pub(crate) fn non_empty(operation: &'static str, population: &impl Population) -> Result<Cell> {
    let whole = population.whole();
    if whole.mass > 0.0 {
        Ok(whole)
    } else {
        Err(Error::Empty { operation })
    }
}

/// Finite data, sorted, with prefix sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    sorted: Vec<f32>,
    /// The sum of the first `n` elements, for each `n` from 0.
    sums: Vec<f64>,
    sum_of_squares: f64,
}

impl Sample {
    /// Sorts a copy of the data. Cost: `O(n log n)` time, 12 bytes per element.
    ///
    /// # Errors
    /// [`Error::Empty`]; [`Error::NotANumber`] with the position of the first NaN;
    /// [`Error::InvalidNumber`] for an infinity.
    pub fn new(data: &[f32]) -> Result<Self> {
        let operation = "Sample::new";
        if data.is_empty() {
            return Err(Error::Empty { operation });
        }
        if let Some(index) = data.iter().position(|x| x.is_nan()) {
            return Err(Error::NotANumber { operation, index });
        }
        if let Some(&infinite) = data.iter().find(|x| x.is_infinite()) {
            finite(operation, "element", infinite.into())?;
        }
        let mut sorted = data.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let mut sums = Vec::with_capacity(sorted.len() + 1);
        sums.push(0.0);
        let mut sum = 0.0;
        for &x in &sorted {
            sum += f64::from(x);
            sums.push(sum);
        }
        let sum_of_squares = sorted.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        Ok(Self {
            sorted,
            sums,
            sum_of_squares,
        })
    }

    /// Returns the data in ascending order.
    #[must_use]
    pub fn sorted(&self) -> &[f32] {
        &self.sorted
    }
}

impl Population for Sample {
    fn cell(&self, above: f64, up_to: f64) -> Cell {
        let place = |threshold: f64| self.sorted.partition_point(|&x| f64::from(x) <= threshold);
        let (from, to) = (place(above), place(up_to));
        if from >= to {
            return Cell::default();
        }
        Cell {
            mass: (to - from) as f64,
            sum: self.sums[to] - self.sums[from],
        }
    }

    fn sum_of_squares(&self) -> f64 {
        self.sum_of_squares
    }
}

/// The normal distribution, the usual model of the weights of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    mean: f64,
    deviation: f64,
}

impl Normal {
    /// The standard normal distribution: mean 0, standard deviation 1.
    pub const STANDARD: Self = Self {
        mean: 0.0,
        deviation: 1.0,
    };

    /// Creates a normal distribution.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] unless the mean is finite and the standard deviation is positive
    /// and finite.
    pub fn new(mean: f64, deviation: f64) -> Result<Self> {
        finite("Normal::new", "mean", mean)?;
        positive("Normal::new", "standard deviation", deviation)?;
        Ok(Self { mean, deviation })
    }
}

impl Population for Normal {
    fn cell(&self, above: f64, up_to: f64) -> Cell {
        let [a, b] = [above, up_to].map(|x| (x - self.mean) / self.deviation);
        if a >= b {
            return Cell::default();
        }
        let mass = probability(a, b);
        Cell {
            mass,
            sum: self.mean * mass + self.deviation * (density(a) - density(b)),
        }
    }

    fn sum_of_squares(&self) -> f64 {
        self.mean * self.mean + self.deviation * self.deviation
    }
}

/// `max(x, 0)` of a standard normal `x`, the usual model of activations after a batch norm and a
/// `ReLU`: 0 with probability 1/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RectifiedNormal;

impl Population for RectifiedNormal {
    fn cell(&self, above: f64, up_to: f64) -> Cell {
        if above >= up_to || up_to < 0.0 {
            return Cell::default();
        }
        let at_zero = if above < 0.0 { 0.5 } else { 0.0 };
        let positive = Normal::STANDARD.cell(above.max(0.0), up_to);
        Cell {
            mass: at_zero + positive.mass,
            sum: positive.sum,
        }
    }

    fn sum_of_squares(&self) -> f64 {
        0.5
    }
}

/// The density of the standard normal distribution; 0 at infinity.
fn density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * PI).sqrt()
}

/// The probability of `a < x <= b` under the standard normal distribution.
fn probability(a: f64, b: f64) -> f64 {
    let upper_tail = |x: f64| 0.5 * erfc(x * FRAC_1_SQRT_2);
    // The difference of the tails on the side of the interval, so that a small probability far
    // from 0 does not cancel.
    if a + b > 0.0 || a == f64::NEG_INFINITY && b == f64::INFINITY {
        upper_tail(a) - upper_tail(b)
    } else {
        upper_tail(-b) - upper_tail(-a)
    }
}
