//! Levels in f64: the cells of a number line, and least squares over their elements.
//!
//! Role: the code of each value, and the check of a level that a program chose.
//! Method: levels are in the order of the thresholds, and a code is the number of thresholds below
//! the value. A chosen level is right if it is that of the value, and near if the value is within
//! its bound of all thresholds between both levels.

use super::{OracleStep, SAFETY, UNIT};
use crate::least_squares::solve;

/// Levels with their thresholds.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// The levels, in the order of the thresholds.
    levels: Vec<f64>,
    thresholds: Vec<f64>,
    /// Whether a value at a threshold has the level above it.
    ties_go_up: bool,
    /// The bound of the errors of levels and thresholds of an f32 program.
    bound: f64,
    /// The factors of the basis numbers of each level.
    factors: Vec<Vec<f64>>,
}

impl Scale {
    /// Creates the levels of a basis: its sums with the factors of each code. Thresholds are
    /// halfway between neighbours.
    pub(super) fn of_basis(basis: &[f64], factors: &[Vec<f64>]) -> Self {
        let mut levels: Vec<(f64, Vec<f64>)> = factors
            .iter()
            .map(|factors| (dot(factors, basis), factors.clone()))
            .collect();
        levels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let largest = factors
            .iter()
            .map(|factors| factors.iter().zip(basis).map(|(c, v)| (c * v).abs()).sum())
            .fold(0.0, f64::max);
        let (levels, factors): (Vec<f64>, _) = levels.into_iter().unzip();
        let pairs = levels.windows(2);
        Self {
            thresholds: pairs.map(|pair| f64::midpoint(pair[0], pair[1])).collect(),
            ties_go_up: false,
            bound: (2 * basis.len() + 2) as f64 * UNIT * largest,
            levels,
            factors,
        }
    }

    /// Creates levels with other thresholds, in ascending order. `n_terms` is the number of terms
    /// of the sums from which a program computes levels and thresholds.
    pub(super) fn with_thresholds(levels: Vec<f64>, thresholds: Vec<f64>, n_terms: usize) -> Self {
        let numbers = levels.iter().chain(&thresholds);
        let largest = numbers.fold(0.0_f64, |most, number| most.max(number.abs()));
        Self {
            bound: (n_terms + 8) as f64 * UNIT * largest,
            ties_go_up: false,
            factors: Vec::new(),
            levels,
            thresholds,
        }
    }

    /// Returns these levels with the level above a threshold for a value at the threshold.
    pub(super) fn with_ties_up(self) -> Self {
        Self {
            ties_go_up: true,
            ..self
        }
    }

    /// Returns the bound of each level.
    pub(super) fn bound(&self) -> f64 {
        self.bound
    }

    /// Returns the level of a code, and its bound.
    pub(super) fn level(&self, code: usize) -> (f64, f64) {
        (self.levels[code], self.bound)
    }

    /// Returns the code of a value: the number of thresholds below it. A chosen level overrules the
    /// value, and is checked.
    pub(super) fn code(
        &self,
        x: f64,
        bound: f64,
        chosen: Option<f32>,
        step: &mut OracleStep,
    ) -> usize {
        let is_passed = |&&threshold: &&f64| {
            if self.ties_go_up {
                x >= threshold
            } else {
                x > threshold
            }
        };
        let own = self.thresholds.iter().filter(is_passed).count();
        step.n_quantized += 1;
        let Some(chosen) = chosen.map(f64::from) else {
            return own;
        };
        let distance = |code: &usize| (self.levels[*code] - chosen).abs();
        let nearest = (0..self.levels.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let nearest = nearest.unwrap_or(own);
        // Equal levels, of which the first is the nearest, are no difference.
        if self.levels[nearest] == self.levels[own] && distance(&own) <= SAFETY * self.bound {
            return own;
        }
        let (first, last) = (own.min(nearest), own.max(nearest));
        let mut between = self.thresholds[first..last].iter();
        let is_near = between.all(|t| (x - t).abs() <= SAFETY * (bound + self.bound));
        if is_near && distance(&nearest) <= SAFETY * self.bound {
            step.n_near += 1;
        } else {
            step.n_wrong += 1;
        }
        nearest
    }

    /// Returns the basis with the least squares for elements with their codes. `ridge` is the
    /// weight of the old basis.
    pub(super) fn fitted(
        &self,
        old: &[f64],
        elements: impl Iterator<Item = (f64, usize)>,
        ridge: f64,
    ) -> Vec<f64> {
        let n = old.len();
        let (mut matrix, mut right) = (vec![0.0; n * n], vec![0.0; n]);
        let mut cells = vec![(0.0, 0.0); self.levels.len()];
        for (x, code) in elements {
            cells[code].0 += 1.0;
            cells[code].1 += x;
        }
        for ((count, sum), factors) in cells.into_iter().zip(&self.factors) {
            for row in 0..n {
                right[row] += factors[row] * sum;
                for col in 0..n {
                    matrix[row * n + col] += count * factors[row] * factors[col];
                }
            }
        }
        for row in 0..n {
            matrix[row * n + row] += ridge;
            right[row] += ridge * old[row];
        }
        // The ridge makes the matrix positive definite, but for values that are not finite.
        solve(&matrix, &right).unwrap_or_else(|| vec![f64::NAN; n])
    }
}

/// Returns the factors of the basis numbers for each code of a number of bits: 0 or 1 per bit, or
/// -1 or 1 with signs; for levels at equal distances, the single factor of the distance.
pub(super) fn factors(bits: usize, has_signs: bool, is_uniform: bool) -> Vec<Vec<f64>> {
    let codes = 0..1_usize << bits;
    let factors = codes.map(|code| {
        let bit = |place: usize| match (has_signs, code >> place & 1) {
            (_, 1) => 1.0,
            (true, _) => -1.0,
            (false, _) => 0.0,
        };
        if is_uniform {
            let powers = (0..bits).map(|place| bit(place) * (place as f64).exp2());
            vec![powers.sum()]
        } else {
            (0..bits).map(bit).collect()
        }
    });
    factors.collect()
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
