//! Levels without a basis that are locally optimal, to compare a basis with.

use crate::error::{Error, Result, finite};
use crate::population::{Cell, Population, non_empty};

/// The maximum number of iterations.
const MAX_ITERATIONS: usize = 1_000_000;
/// The change of a level, relative to the largest level, at which the iteration ends.
const TOLERANCE: f64 = 1e-13;

/// Levels without a basis, and their error.
#[derive(Clone, Debug, PartialEq)]
pub struct LloydMax {
    /// The levels in ascending order.
    pub levels: Vec<f64>,
    /// The mean square of the difference between an element and its level.
    pub mean_square_error: f64,
}

/// Computes the levels with a locally minimal mean square error, starting from the given levels:
/// alternates between the midpoints of neighbouring levels as thresholds, and the means of the
/// cells as levels. The level of a cell without elements stays.
///
/// Cost: convergence is linear and slow; 16 levels of the normal distribution take some thousands
/// of iterations. The result depends on the start. From the levels of a basis, the error is at most
/// that of the basis.
///
/// # Errors
/// [`Error::Empty`] without levels or without elements; [`Error::NotANumber`] for a level that is
/// NaN; [`Error::InvalidNumber`] for an infinite one.
///
/// # Source
/// Max 1960, "Quantizing for minimum distortion"; Lloyd 1982, "Least squares quantization in PCM".
///
/// # Examples
/// ```
/// use quant::{Normal, lloyd_max};
///
/// let best = lloyd_max(&Normal::STANDARD, &[-1.0, 1.0])?;
/// assert!((best.levels[1] - 0.797_884_56).abs() < 1e-8);
/// # Ok::<(), quant::Error>(())
/// ```
pub fn lloyd_max(population: &impl Population, start: &[f64]) -> Result<LloydMax> {
    let operation = "lloyd_max";
    let whole = non_empty(operation, population)?;
    if start.is_empty() {
        return Err(Error::Empty { operation });
    }
    if let Some(index) = start.iter().position(|level| level.is_nan()) {
        return Err(Error::NotANumber { operation, index });
    }
    let mut levels = start.to_vec();
    levels.sort_by(f64::total_cmp);
    for &level in &levels {
        finite(operation, "level", level)?;
    }
    for _ in 0..MAX_ITERATIONS {
        let next = cells(population, &levels)
            .map(|(level, cell)| {
                if cell.mass > 0.0 {
                    cell.sum / cell.mass
                } else {
                    level
                }
            })
            .collect::<Vec<f64>>();
        let size = next.iter().fold(0.0, |size: f64, x| size.max(x.abs()));
        let pairs = next.iter().zip(&levels);
        let change = pairs.fold(0.0, |change: f64, (new, old)| change.max((new - old).abs()));
        levels = next;
        if change <= TOLERANCE * size {
            break;
        }
    }
    // Σ(x - l)² = Σx² - 2 Σ l S + Σ l² n.
    let explained: f64 = cells(population, &levels)
        .map(|(level, cell)| level * (2.0 * cell.sum - level * cell.mass))
        .sum();
    Ok(LloydMax {
        levels,
        mean_square_error: ((population.sum_of_squares() - explained) / whole.mass).max(0.0),
    })
}

/// Returns each level with the elements that are nearest to it.
fn cells<'a>(
    population: &'a impl Population,
    levels: &'a [f64],
) -> impl Iterator<Item = (f64, Cell)> + 'a {
    let midpoint = |pair: &[f64]| (pair[0] + pair[1]) / 2.0;
    let ends = levels.windows(2).map(midpoint).chain([f64::INFINITY]);
    levels
        .iter()
        .zip(ends)
        .scan(f64::NEG_INFINITY, |above, (&level, up_to)| {
            let cell = population.cell(*above, up_to);
            *above = up_to;
            Some((level, cell))
        })
}
