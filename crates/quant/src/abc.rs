//! ABC-Net: a sum of shifted signs of the weights.
//!
//! Role: the second kind of learned levels, next to those of `qem`.
//! Method: base `i` of `M` is the sign of `w - mean + u_i σ`, with shifts `u_i` at equal distances
//! from -1 to 1 and the population's standard deviation `σ`; the sign of 0 is +1. The factors of
//! the bases are the least-squares solution. The shifts form a thermometer code: `M` bases have
//! only `M + 1` levels, and the thresholds are at `mean - u_i σ`, not halfway between levels.
//!
//! ```text
//! threshold  mean + σ        mean         mean - σ ...       M = 3, u = -1, 0, 1
//! base 0        ─────────────────────────────────|+         u = -1: + above mean + σ
//! base 1        ───────────────────|++++++++++++++|         u =  0: + above mean
//! base 2        ─────|++++++++++++++++++++++++++++|         u =  1: + above mean - σ
//! code           000        100         110        111      (bit 2 first)
//! ```
//! Source: Lin, Zhao and Pan 2017, "Towards Accurate Binary Convolutional Neural Network". Its
//! formula divides by 0 for one base, which has the shift 0 here.

use crate::error::{Error, Result};
use crate::least_squares::solve;
use crate::level_set::{Alphabet, LevelSet, Ties, check_bits, rounded};
use crate::population::{Population, non_empty};

/// The levels of ABC-Net in f64, and their error.
#[derive(Clone, Debug, PartialEq)]
pub struct Abc {
    /// The factor of each base, the shift -1 first.
    pub factors: Vec<f64>,
    /// The number that is part of every level: the mean if the fit is centred, else 0.
    pub offset: f64,
    /// The threshold of each base, in descending order.
    pub thresholds: Vec<f64>,
    /// The mean square of the difference between an element and its level.
    pub mean_square_error: f64,
}

/// Fits the factors of `n_bases` shifted signs to a population. If `is_centred`, the mean is
/// subtracted first and added to every level, which lowers the error unless the mean is 0.
///
/// # Errors
/// [`Error::BitCount`] unless `n_bases` is 1 to [`MAX_BITS`](crate::MAX_BITS); [`Error::Empty`];
/// [`Error::Singular`] if two neighbouring thresholds have no elements between them, for example
/// with two bases or more if all elements are equal.
///
/// # Examples
/// ```
/// use quant::{Sample, abc};
///
/// let weights = Sample::new(&[-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5])?;
/// let fit = abc(&weights, 3, false)?;
/// assert!((fit.mean_square_error - 0.140_625).abs() < 1e-15);
/// # Ok::<(), quant::Error>(())
/// ```
pub fn abc(population: &impl Population, n_bases: usize, is_centred: bool) -> Result<Abc> {
    let operation = "abc";
    check_bits(operation, n_bases)?;
    let whole = non_empty(operation, population)?;
    let mean = whole.sum / whole.mass;
    let squares = population.sum_of_squares();
    let deviation = (squares / whole.mass - mean * mean).max(0.0).sqrt();
    let thresholds: Vec<f64> = (0..n_bases)
        .map(|base| mean - shift(base, n_bases) * deviation)
        .collect();
    let offset = if is_centred { mean } else { 0.0 };
    // Cell k, from above, is beyond the thresholds of the bases k and later.
    let (mut matrix, mut right) = (vec![0.0; n_bases * n_bases], vec![0.0; n_bases]);
    let mut up_to = f64::INFINITY;
    let mut n_cells = 0;
    for cell_number in 0..=n_bases {
        let above = thresholds
            .get(cell_number)
            .map_or(f64::NEG_INFINITY, |&t| below(t));
        let cell = population.cell(above, up_to);
        up_to = above;
        n_cells += usize::from(cell.mass > 0.0);
        let sign = |base: usize| if base >= cell_number { 1.0 } else { -1.0 };
        for row in 0..n_bases {
            right[row] += sign(row) * (cell.sum - offset * cell.mass);
            for col in 0..n_bases {
                matrix[row * n_bases + col] += sign(row) * sign(col) * cell.mass;
            }
        }
    }
    let factors = solve(&matrix, &right).ok_or(Error::Singular {
        operation,
        n_bases,
        n_cells,
    })?;
    // The sum of squares around the offset, less the part that the least squares explain.
    let around = squares - offset * (2.0 * whole.sum - offset * whole.mass);
    let explained: f64 = factors
        .iter()
        .zip(&right)
        .map(|(factor, h)| factor * h)
        .sum();
    Ok(Abc {
        factors,
        offset,
        thresholds,
        mean_square_error: ((around - explained) / whole.mass).max(0.0),
    })
}

/// Returns the shift of a base, in standard deviations.
pub(crate) fn shift(base: usize, n_bases: usize) -> f64 {
    match n_bases {
        1 => 0.0,
        _ => 2.0 * base as f64 / (n_bases - 1) as f64 - 1.0,
    }
}

/// Returns the largest number below `x`: an element is at least `x` if it is above this number,
/// because the sign of 0 is +1.
fn below(x: f64) -> f64 {
    x.next_down()
}

impl Abc {
    /// Returns the levels and thresholds, rounded to f32. An element at a threshold goes up, as the
    /// sign of 0 is +1.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] if a number overflows f32.
    pub fn level_set(&self) -> Result<LevelSet> {
        let [factors, thresholds] = [&self.factors, &self.thresholds]
            .map(|numbers| numbers.iter().map(|&x| rounded(x)).collect::<Vec<f32>>());
        level_set(&factors, rounded(self.offset), &thresholds)
    }
}

/// Returns the levels of bases with these factors and thresholds, which descend.
pub(crate) fn level_set(factors: &[f32], offset: f32, thresholds: &[f32]) -> Result<LevelSet> {
    let n_bases = factors.len();
    // From the lowest level up, the base of the lowest threshold, which is the last, is the first
    // base that turns positive.
    let codes = (0..=n_bases).map(|n_positive| {
        let bits = (n_bases - n_positive..n_bases).map(|base| 1_u16 << base);
        u8::try_from(bits.sum::<u16>()).unwrap_or(u8::MAX)
    });
    let levels = LevelSet::with_thresholds(
        "Abc::level_set",
        Alphabet::Signs,
        factors,
        offset,
        codes.collect(),
        thresholds.iter().rev().copied().collect(),
    )?;
    Ok(levels.with_ties(Ties::Up))
}
