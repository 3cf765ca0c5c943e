//! Quantisation error minimisation (QEM): the basis with the smallest mean square error.
//!
//! Role: fits the levels of LQ-Nets to a [`Population`].
//! Method: alternates two steps, of which neither raises the error. Each element takes the nearest
//! level of the current basis; then the basis becomes the least-squares solution for these codes.
//! Only the number `n` and the sum `S` of the elements of each level enter: `G v = h` with `G = Σ n
//! c cᵀ` and `h = Σ S c`, where `c` are the factors of the level's code. A ridge toward the old
//! basis makes the equations regular if levels have no elements: `(G + εI) v = h + ε v_old`. The
//! iteration has several fixed points from 3 bits on, so [`Qem::fit`] runs from several starts and
//! returns the best result.
//! Accuracy: f64. The error is a difference, `Σx² - 2 hᵀv + vᵀGv`, so its absolute error is some
//! epsilons of `Σx²`.
//! Source: Zhang, Yang, Ye and Hua 2018, "LQ-Nets", section 3.3; the ridge is that of their
//! published code, the starts are our own.

use crate::error::{Error, Result, check, finite};
use crate::least_squares::solve;
use crate::level_set::{Alphabet, LevelSet, check_bits, rounded};
use crate::population::{Cell, Population, non_empty};

mod program;
mod starts;

pub use program::QemStep;
pub(crate) use program::check_step_bits;
pub(crate) use program::least_squares_of;

/// The default ridge: the weight of the old basis, in elements.
const RIDGE: f64 = 1e-4;
/// The default maximum number of iterations of a start.
const MAX_ITERATIONS: usize = 2000;
/// The relative change of the basis at which a start ends.
const TOLERANCE: f64 = 1e-12;

/// The configuration of a fit.
///
/// # Examples
/// ```
/// use quant::{Normal, Qem};
///
/// // The best levels of two bits for normally distributed weights.
/// let fit = Qem::signs(2)?.fit(&Normal::STANDARD)?;
/// assert!((fit.mean_square_error - 0.117_481_85).abs() < 1e-7);
/// let levels = fit.level_set()?;
/// assert_eq!(levels.basis().len(), 2);
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Qem {
    alphabet: Alphabet,
    bits: usize,
    is_affine: bool,
    is_uniform: bool,
    ridge: f64,
    max_iterations: usize,
}

/// A basis in f64, and its error.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The factors that the bits of a code stand for.
    pub alphabet: Alphabet,
    /// The basis, in ascending order. Its numbers are not negative, except that bits without an
    /// offset have negative numbers for negative data.
    pub basis: Vec<f64>,
    /// The number that is part of every level; 0 unless the fit is affine.
    pub offset: f64,
    /// The mean square of the difference between an element and its level.
    pub mean_square_error: f64,
    /// The number of iterations of the start that led to this basis.
    pub n_iterations: usize,
    /// Whether the basis stopped changing within the maximum number of iterations.
    pub has_converged: bool,
}

impl Fit {
    /// Returns the levels of the fit, rounded to f32.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] if a level overflows f32.
    pub fn level_set(&self) -> Result<LevelSet> {
        let basis: Vec<f32> = self.basis.iter().map(|&number| rounded(number)).collect();
        LevelSet::affine(
            "Fit::level_set",
            self.alphabet,
            &basis,
            rounded(self.offset),
        )
    }
}

impl Qem {
    /// Returns the configuration for the levels `Σ ±v_j`, as for weights.
    ///
    /// # Errors
    /// [`Error::BitCount`] unless `bits` is 1 to [`MAX_BITS`](crate::MAX_BITS).
    pub fn signs(bits: usize) -> Result<Self> {
        Self::new("Qem::signs", Alphabet::Signs, bits)
    }

    /// Returns the configuration for the levels `Σ b_j v_j` with `b_j` 0 or 1, as for activations.
    ///
    /// # Errors
    /// As [`Qem::signs`].
    pub fn bits(bits: usize) -> Result<Self> {
        Self::new("Qem::bits", Alphabet::Bits, bits)
    }

    fn new(operation: &'static str, alphabet: Alphabet, bits: usize) -> Result<Self> {
        check_bits(operation, bits)?;
        Ok(Self {
            alphabet,
            bits,
            is_affine: false,
            is_uniform: false,
            ridge: RIDGE,
            max_iterations: MAX_ITERATIONS,
        })
    }

    /// Fits an offset as well: the additional constant bit of the class-project notes.
    #[must_use]
    pub fn affine(self) -> Self {
        Self {
            is_affine: true,
            ..self
        }
    }

    /// Restricts the levels to equal distances: the basis is 1, 2, 4, … times a single number,
    /// which is the whole basis in [`fit_from`](Self::fit_from), [`step`](Self::step),
    /// [`error`](Self::error) and [`step_of`](Self::step_of). The basis of a [`Fit`] has all
    /// numbers.
    ///
    /// # Examples
    /// ```
    /// use quant::{Normal, Qem};
    ///
    /// let fit = Qem::signs(2)?.uniform().fit(&Normal::STANDARD)?;
    /// assert!((fit.mean_square_error - 0.118_846_05).abs() < 1e-7);
    /// assert_eq!(fit.basis[1], 2.0 * fit.basis[0]);
    /// # Ok::<(), quant::Error>(())
    /// ```
    #[must_use]
    pub fn uniform(self) -> Self {
        Self {
            is_uniform: true,
            ..self
        }
    }

    /// Sets the weight of the old basis in each step, in elements (default: 1e-4). With the
    /// weight 0, a step returns [`Error::Singular`] if the elements do not determine the basis.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] unless the weight is finite and at least 0.
    pub fn ridge(self, ridge: f64) -> Result<Self> {
        let is_valid = ridge >= 0.0 && ridge.is_finite();
        check(
            "Qem::ridge",
            "ridge",
            ridge,
            is_valid,
            "a finite number of at least 0",
        )?;
        Ok(Self { ridge, ..self })
    }

    /// Sets the maximum number of iterations of each start (default: 2000).
    #[must_use]
    pub fn max_iterations(self, max_iterations: usize) -> Self {
        Self {
            max_iterations,
            ..self
        }
    }

    /// Fits a basis from several starts and returns the result with the smallest error. On the
    /// normal distribution, the published start alone leads to an error that is 5 % larger with 3
    /// bits and 16 % larger with 4.
    ///
    /// # Errors
    /// [`Error::Empty`] for a population without elements; [`Error::Singular`] with ridge 0;
    /// [`Error::InvalidNumber`] if squares of the elements overflow.
    pub fn fit(&self, population: &impl Population) -> Result<Fit> {
        let mut best: Option<Fit> = None;
        let whole = non_empty("Qem::fit", population)?;
        let mean = whole.sum / whole.mass;
        let mean_square = population.sum_of_squares() / whole.mass;
        for (basis, offset) in starts::bases(self, mean, mean_square) {
            let fit = self.fit_from(population, &basis, offset)?;
            let is_better = |best: &Fit| fit.mean_square_error < best.mean_square_error;
            if best.as_ref().is_none_or(is_better) {
                best = Some(fit);
            }
        }
        best.ok_or(Error::Empty {
            operation: "Qem::fit",
        })
    }

    /// Fits a basis from one start.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless the basis has as many numbers as there are bits;
    /// [`Error::InvalidNumber`] for a number that is not finite, for an offset of a fit that is not
    /// affine, or if a step overflows;
    /// [`Error::Empty`]; [`Error::Singular`] with ridge 0.
    pub fn fit_from(
        &self,
        population: &impl Population,
        basis: &[f64],
        offset: f64,
    ) -> Result<Fit> {
        let operation = "Qem::fit_from";
        let mut state = self.state(operation, basis, offset)?;
        let mut has_converged = false;
        let mut n_iterations = 0;
        while n_iterations < self.max_iterations && !has_converged {
            let next = self.advanced(operation, population, &state)?;
            let size = next.iter().fold(0.0, |size: f64, x| size.max(x.abs()));
            let change = next
                .iter()
                .zip(&state)
                .fold(0.0, |change: f64, (new, old)| change.max((new - old).abs()));
            has_converged = change <= TOLERANCE * size;
            state = next;
            n_iterations += 1;
        }
        let (equations, squares) = self.equations(operation, population, &state)?;
        let error = equations.error(&state, squares);
        let (basis, offset) = self.canonical(&state);
        Ok(Fit {
            alphabet: self.alphabet,
            basis,
            offset,
            mean_square_error: error,
            n_iterations,
            has_converged,
        })
    }

    /// Returns the basis and offset after one step: each element takes its nearest level, then the
    /// basis is the least-squares solution with the ridge. The numbers are neither sorted nor made
    /// positive, because a moving average of training needs each number in its place.
    ///
    /// # Errors
    /// As [`fit_from`](Self::fit_from).
    pub fn step(
        &self,
        population: &impl Population,
        basis: &[f64],
        offset: f64,
    ) -> Result<(Vec<f64>, f64)> {
        let operation = "Qem::step";
        let state = self.state(operation, basis, offset)?;
        let next = self.advanced(operation, population, &state)?;
        Ok(self.split(&next))
    }

    /// Returns the mean square error of a basis: of each element's distance from its nearest level.
    ///
    /// # Errors
    /// As [`fit_from`](Self::fit_from), except [`Error::Singular`].
    pub fn error(&self, population: &impl Population, basis: &[f64], offset: f64) -> Result<f64> {
        let operation = "Qem::error";
        let state = self.state(operation, basis, offset)?;
        let (equations, squares) = self.equations(operation, population, &state)?;
        Ok(equations.error(&state, squares))
    }

    /// Returns the unknowns: the basis and, if the fit is affine, the offset.
    fn state(&self, operation: &'static str, basis: &[f64], offset: f64) -> Result<Vec<f64>> {
        if basis.len() != self.basis_len() {
            return Err(Error::LengthMismatch {
                operation,
                left: basis.len(),
                right: self.basis_len(),
            });
        }
        for &number in basis {
            finite(operation, "basis number", number)?;
        }
        finite(operation, "offset", offset)?;
        check(
            operation,
            "offset",
            offset,
            self.is_affine || offset == 0.0,
            "0 unless the fit is affine",
        )?;
        let offset = self.is_affine.then_some(offset);
        Ok(basis.iter().copied().chain(offset).collect())
    }

    fn split(&self, state: &[f64]) -> (Vec<f64>, f64) {
        let (basis, offset) = state.split_at(self.basis_len());
        (basis.to_vec(), offset.first().copied().unwrap_or(0.0))
    }

    /// Returns the number of numbers in a basis.
    pub(crate) fn basis_len(&self) -> usize {
        if self.is_uniform { 1 } else { self.bits }
    }

    /// Returns the factors of a basis of positive numbers in the highest level.
    pub(crate) fn highest_factors(&self) -> Vec<f64> {
        let highest = u8::try_from((1_u16 << self.bits) - 1).unwrap_or(u8::MAX);
        let mut factors = self.factors(highest);
        factors.truncate(self.basis_len());
        factors
    }

    /// Returns the factors of the unknowns in the level of a code.
    fn factors(&self, code: u8) -> Vec<f64> {
        let bits = (0..self.bits).map(|j| self.alphabet.factor_of(code, j));
        let constant = self.is_affine.then_some(1.0);
        if self.is_uniform {
            let level = bits
                .enumerate()
                .map(|(j, factor)| factor * (j as f64).exp2());
            [level.sum()].into_iter().chain(constant).collect()
        } else {
            bits.chain(constant).collect()
        }
    }

    /// Returns the least-squares equations for the codes of the current basis, and the sum of all
    /// squares.
    fn equations(
        &self,
        operation: &'static str,
        population: &impl Population,
        state: &[f64],
    ) -> Result<(Equations, f64)> {
        let level = |factors: &[f64]| -> f64 {
            let terms = factors.iter().zip(state).map(|(factor, x)| factor * x);
            // A positive zero, because the order below distinguishes zeros.
            terms.sum::<f64>() + 0.0
        };
        let codes = (0..=u8::MAX).take(1 << self.bits);
        let mut levels: Vec<(f64, Vec<f64>)> = codes
            .map(|code| {
                let factors = self.factors(code);
                (level(&factors), factors)
            })
            .collect();
        levels.sort_by(|a, b| a.0.total_cmp(&b.0));
        non_empty(operation, population)?;
        let mut equations = Equations::new(state.len());
        let mut above = f64::NEG_INFINITY;
        for (place, (level, factors)) in levels.iter().enumerate() {
            let up_to = match levels.get(place + 1) {
                Some((next, _)) => (level + next) / 2.0,
                None => f64::INFINITY,
            };
            equations.add(population.cell(above, up_to), factors);
            above = up_to;
        }
        Ok((equations, population.sum_of_squares()))
    }

    fn advanced(
        &self,
        operation: &'static str,
        population: &impl Population,
        state: &[f64],
    ) -> Result<Vec<f64>> {
        let (mut equations, _) = self.equations(operation, population, state)?;
        let n = state.len();
        for (row, old) in state.iter().enumerate() {
            equations.matrix[row * n + row] += self.ridge;
            equations.right[row] += self.ridge * old;
        }
        let next = solve(&equations.matrix, &equations.right).ok_or(Error::Singular {
            operation,
            n_bases: n,
            n_cells: equations.n_cells,
        })?;
        for &number in &next {
            finite(operation, "new basis number", number)?;
        }
        Ok(next)
    }

    /// Returns the whole basis and the offset of the same levels with positive numbers in ascending
    /// order. The negation of a number permutes the codes of signs; with bits 0 and 1 it also
    /// shifts the offset, so there only an affine fit can be changed.
    fn canonical(&self, state: &[f64]) -> (Vec<f64>, f64) {
        let (mut basis, mut offset) = self.split(state);
        if self.is_uniform {
            let single = basis[0];
            basis = (0..self.bits).map(|j| single * (j as f64).exp2()).collect();
        }
        for number in &mut basis {
            if *number < 0.0 && (self.alphabet == Alphabet::Signs || self.is_affine) {
                if self.alphabet == Alphabet::Bits {
                    offset += *number;
                }
                *number = -*number;
            }
        }
        basis.sort_by(f64::total_cmp);
        (basis, offset)
    }
}

/// The normal equations `G v = h` of a least-squares problem over cells.
struct Equations {
    /// `G`, row-major.
    matrix: Vec<f64>,
    /// `h`.
    right: Vec<f64>,
    mass: f64,
    n_cells: usize,
}

impl Equations {
    fn new(n: usize) -> Self {
        Self {
            matrix: vec![0.0; n * n],
            right: vec![0.0; n],
            mass: 0.0,
            n_cells: 0,
        }
    }

    /// Adds the elements of a cell, whose level is the sum of the unknowns times `factors`.
    fn add(&mut self, cell: Cell, factors: &[f64]) {
        let n = self.right.len();
        for (row, &factor) in factors.iter().enumerate() {
            self.right[row] += cell.sum * factor;
            for (col, &other) in factors.iter().enumerate() {
                self.matrix[row * n + col] += cell.mass * factor * other;
            }
        }
        self.mass += cell.mass;
        self.n_cells += usize::from(cell.mass > 0.0);
    }

    /// Returns the mean square error `(Σx² - 2 hᵀv + vᵀGv) / n`, at least 0; infinite if it
    /// overflows.
    fn error(&self, v: &[f64], squares: f64) -> f64 {
        let n = v.len();
        let linear: f64 = self.right.iter().zip(v).map(|(h, v)| h * v).sum();
        let quadratic: f64 = (0..n * n)
            .map(|place| self.matrix[place] * v[place / n] * v[place % n])
            .sum();
        let error = (squares - 2.0 * linear + quadratic) / self.mass;
        // The difference of two infinities, if squares of the basis overflow.
        if error.is_nan() {
            f64::INFINITY
        } else {
            error.max(0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_basis_is_made_positive_where_the_levels_stay_the_same() {
        let [signs, bits] = [Qem::signs(2).unwrap(), Qem::bits(2).unwrap()];
        let state = [-1.0, 0.5, 2.0];
        assert_eq!(signs.canonical(&state[..2]), (vec![0.5, 1.0], 0.0));
        assert_eq!(bits.canonical(&state[..2]), (vec![-1.0, 0.5], 0.0));
        assert_eq!(signs.affine().canonical(&state), (vec![0.5, 1.0], 2.0));
        assert_eq!(bits.affine().canonical(&state), (vec![0.5, 1.0], 1.0));
        let uniform = Qem::bits(3).unwrap().uniform();
        let falling = (vec![-4.0, -2.0, -1.0], 0.0);
        assert_eq!(uniform.canonical(&[-1.0]), falling);
        // The levels are 2, 1, …, -5.
        let rising = (vec![1.0, 2.0, 4.0], -5.0);
        assert_eq!(uniform.affine().canonical(&[-1.0, 2.0]), rising);
    }
}
