//! One step of quantisation error minimisation as a tensor program.
//!
//! Role: [`Qem::step`] for all channels of a tensor at once, so that it can be part of the plan of
//! a training step and runs on any executor.
//! Method: the change of the basis is computed, not the new basis. It solves the least-squares
//! problem with one row per code: factors `c`, weight `n` (the number of elements with this code)
//! and right side `m` (the mean of `x - level` over these elements). The sums of `x - level` are
//! smaller than those of `x`, and so are their rounding errors.
//!
//! ```text
//! minimise  Σ n (c·d - m)² + ε |d|²     rows     columns c    identity    right side
//!                                      codes         C           -            m      weight n
//!                                      ridge         -           I            0      weight ε
//! ```
//! The obvious method, to solve `(G + εI) d = h`, fails in f32: `G + ε` is `G` if there are more
//! than 2000 elements, so a singular `G` stays singular. Instead each column is made orthogonal to
//! the columns before it, twice. The first pass ignores the ridge. A column that depends on others
//! becomes zero up to some roundings, which are set to zero, because times `n` they would exceed
//! the ridge. The second pass includes the ridge, which then determines the directions that the
//! data does not. Both passes apply to the right side what they do to the columns, so that its
//! part in the rows of the ridge becomes `-d`.
//! Levels are not sorted: the neighbours of a level are the extremes over the levels below and
//! above it, and equal levels are in the order of their codes.
//! Shapes: `[channels, elements]` for data, `[channels, level, element]` in folds (never stored),
//! `[channels, column, row]` in the solution.
//! Source: for the orthogonalisation by columns, Björck 1967, "Solving linear least squares
//! problems by Gram-Schmidt orthogonalization".

use tensor_core::{DType, Tensor};

use super::Qem;
use crate::error::{Error, Result, check, check_type};
use crate::level_set::rounded;

/// The result of [`Qem::step_of`]: tensor programs for all channels.
#[derive(Clone, Debug)]
pub struct QemStep {
    /// The new basis, `[channels, bits]`.
    pub basis: Tensor,
    /// The new offset, `[channels]`, if the configuration is affine.
    pub offset: Option<Tensor>,
    /// The nearest level of the old basis for each element, `[channels, elements]`; the lowest
    /// level for NaN.
    pub levels: Tensor,
    /// The mean square error of the old basis, `[channels]`.
    pub mean_square_error: Tensor,
}

impl Qem {
    /// The largest number of bits of [`step_of`](Self::step_of).
    pub const MAX_STEP_BITS: usize = 4;

    /// Returns [`step`](Self::step) as tensor programs, for all channels at once. The data `x` is
    /// `[channels, elements]`, the basis `[channels, bits]`, and the offset, which an affine
    /// configuration needs, `[channels]`; all are f32, or all f64. For `grad`, the results are
    /// constants. A [`uniform`](Self::uniform) configuration has one number per basis instead of
    /// `bits`.
    ///
    /// A channel that contains a NaN or an infinity has a new basis, an offset and an error that
    /// are not finite; other channels are not affected. Memory: some numbers per level and channel;
    /// the data is read twice for each level.
    ///
    /// Accuracy: let `u` be the unit roundoff of the type, `s` the largest `|x - level|`, `v` the
    /// old basis with the offset, and `κ²` the ratio of the largest to the smallest nonzero
    /// eigenvalue of `G = Σ c cᵀ`, the sum over all elements with the factors `c` of their levels.
    /// If no element is within `5 u Σ|v|` of a threshold, so that each has the level of exact
    /// arithmetic, the result differs from that of exact arithmetic by at most
    /// `κ (elements + 64) u s + 5 u Σ|v|`, however few levels have elements. The errors of sums
    /// grow more slowly than the number of elements in practice, because executors add in blocks.
    ///
    /// # Errors
    /// [`Error::BitCount`] for more than [`MAX_STEP_BITS`](Self::MAX_STEP_BITS) bits;
    /// [`Error::Shape`] for a shape that does not match; [`Error::Empty`] for data without
    /// elements; [`Error::InvalidNumber`] for a ridge of 0 or one that is subnormal in the type of
    /// the data, because a program cannot report a singular channel; [`Error::Type`] if the basis
    /// or the offset has another type than the data; [`Error::Tensor`] for data of a type other
    /// than f32 and f64, and for an error of an operand.
    ///
    /// # Examples
    /// ```
    /// use quant::Qem;
    /// use tensor_core::{Host, Tensor};
    ///
    /// let x = [-3.0_f32, -1.5, -0.5, 0.25, 1.0, 1.25, 2.5, 4.0];
    /// let x = Tensor::from_vec(&[1, 8], x.to_vec());
    /// let basis = Tensor::from_vec(&[1, 2], vec![1.0_f32, 2.0]);
    /// let step = Qem::signs(2)?.step_of(&x, &basis, None)?;
    /// let basis = step.basis.eval::<f32>(&Host::new())?;
    /// assert!((basis[[0, 0]] - 1.133_331_4).abs() < 1e-6);
    /// assert!((basis[[0, 1]] - 2.033_332_4).abs() < 1e-6);
    /// # Ok::<(), quant::Error>(())
    /// ```
    pub fn step_of(&self, x: &Tensor, basis: &Tensor, offset: Option<&Tensor>) -> Result<QemStep> {
        let n_elements = self.check_step(x, basis, offset)?;
        let [x, basis] = [x, basis].map(Tensor::stop_gradient);
        let offset = offset.map(Tensor::stop_gradient);
        let levels = self.levels_of_step(&basis, offset.as_ref());
        let cells = Cells::new(&levels);
        let is_inside = cells.contain(&x);
        let distances = x.expand_dims(1) - levels.expand_dims(2);
        let counts = is_inside.sum(-1).cast(x.dtype()?);
        let sums = is_inside.select(&distances, 0.0).sum(-1);
        let squares = is_inside.select(distances.square(), 0.0).sum([1, 2]);
        let means = &sums / counts.maximum(1.0);
        let codes = (0..=u8::MAX).take(1 << self.bits);
        let factors: Vec<Vec<f64>> = codes.map(|code| self.factors(code)).collect();
        let changes = least_squares_of(&factors, &counts, &means, self.ridge)?;
        Ok(QemStep {
            basis: &basis + changes.slice(1, ..self.basis_len()),
            offset: offset.map(|offset| offset + changes.slice(1, self.basis_len()..).squeeze(1)),
            levels: cells.levels_of(&x, &levels),
            mean_square_error: squares / n_elements,
        })
    }

    /// Checks the operands, and returns the number of elements of a channel.
    fn check_step(&self, x: &Tensor, basis: &Tensor, offset: Option<&Tensor>) -> Result<usize> {
        let operation = "Qem::step_of";
        check_step_bits(operation, self.bits)?;
        let dtype = x.dtype()?;
        let normal = match dtype {
            DType::F32 => f32::MIN_POSITIVE.into()..=f32::MAX.into(),
            DType::F64 => f64::MIN_POSITIVE..=f64::MAX,
            _ => return Err(tensor_core::Error::DTypeUnsupported { operation, dtype }.into()),
        };
        check(
            operation,
            "ridge",
            self.ridge,
            normal.contains(&self.ridge),
            "a positive normal number of the type of the data",
        )?;
        let wrong = |quantity, actual: &[usize], expected: String| {
            Err(Error::Shape {
                operation,
                quantity,
                actual: actual.to_vec(),
                expected,
            })
        };
        let &[n_channels, n_elements] = x.shape()? else {
            return wrong("data", x.shape()?, "[channels, elements]".to_owned());
        };
        if n_channels == 0 || n_elements == 0 {
            return Err(Error::Empty { operation });
        }
        check_type(operation, "basis", basis, dtype)?;
        if let Some(offset) = offset {
            check_type(operation, "offset", offset, dtype)?;
        }
        if basis.shape()? != [n_channels, self.basis_len()] {
            let expected = format!("[{n_channels}, {}]", self.basis_len());
            return wrong("basis", basis.shape()?, expected);
        }
        let offset_shape = offset.map(Tensor::shape).transpose()?;
        match (self.is_affine, offset_shape) {
            (false, None) => Ok(n_elements),
            (true, Some(&[n])) if n == n_channels => Ok(n_elements),
            (true, None) => Err(Error::OffsetMissing {
                operation,
                n_channels,
            }),
            (true, Some(shape)) => wrong("offset", shape, format!("[{n_channels}]")),
            (false, Some(shape)) => wrong("offset", shape, "none without affine()".to_owned()),
        }
    }

    /// Returns the level of each code, `[channels, code]`.
    fn levels_of_step(&self, basis: &Tensor, offset: Option<&Tensor>) -> Tensor {
        let codes = (0..=u8::MAX).take(1 << self.bits);
        let terms = (0..self.basis_len()).map(|j| {
            let factors = codes.clone().map(|code| self.factors(code)[j]);
            basis.slice(1, j..=j) * constant_row(factors, basis)
        });
        // Elementwise sums are rounded alike on every executor, so that codes are equal.
        let sum = terms.reduce(|sum, term| sum + term);
        let sum = sum.unwrap_or_else(|| basis.clone());
        match offset {
            Some(offset) => sum + offset.expand_dims(1),
            None => sum,
        }
    }
}

/// Returns the changes `d` of the unknowns, `[channels, unknown]`, which minimise
/// `Σ n (c·d - m)² + ridge |d|²`: `factors` are the `c` of each code, and `counts` and `means`,
/// both `[channels, code]`, the `n` and `m`.
pub(crate) fn least_squares_of(
    factors: &[Vec<f64>],
    counts: &Tensor,
    means: &Tensor,
    ridge: f64,
) -> Result<Tensor> {
    let n_codes = factors.len();
    let n_unknowns = factors.first().map_or(0, Vec::len);
    let n_rows = n_codes + n_unknowns;
    // The columns of `C` over those of the identity, and the right side over zeros.
    let column = |unknown: usize| {
        let identity = (0..n_unknowns).map(move |row| f64::from(u8::from(row == unknown)));
        let codes = factors.iter().map(move |factors| factors[unknown]);
        codes.chain(identity)
    };
    let columns = constant_row((0..n_unknowns).flat_map(column), counts);
    let n_channels = counts.shape()?[0];
    let columns = columns
        .reshape(&[1, n_unknowns, n_rows])
        .broadcast_to(&[n_channels, n_unknowns, n_rows]);
    let right = means.pad(1, 0, n_unknowns, 0.0).expand_dims(1);
    let mut system = Tensor::concat(&[&columns, &right], 1);
    // A dependent column is zero up to the errors of at most 5 quotients, products and sums of
    // numbers up to the largest factor.
    let largest = factors
        .iter()
        .flatten()
        .fold(1.0, |most: f64, factor| most.max(factor.abs()));
    let negligible = [8.0 * largest * epsilon_of(counts.dtype()?), 0.0];
    for (ridge, negligible) in [0.0, ridge].into_iter().zip(negligible) {
        let weights = counts.pad(1, 0, n_unknowns, ridge).expand_dims(1);
        system = orthogonalized(&system, n_unknowns, &weights, negligible);
    }
    let right = system.slice(1, n_unknowns..).squeeze(1);
    Ok(-right.slice(1, n_codes..))
}

/// The elements of each level: `above < x <= up_to`.
struct Cells {
    /// `[channels, level]`, minus infinity for the lowest level.
    above: Tensor,
    /// `[channels, level]`, infinity for the highest level.
    up_to: Tensor,
}

impl Cells {
    /// Returns the cells of levels `[channels, level]` in any order.
    fn new(levels: &Tensor) -> Self {
        let n_levels = levels.shape().map_or(0, |shape| shape[1]);
        let number = Tensor::arange(n_levels);
        let is_earlier = number.lt(number.expand_dims(1));
        let is_later = number.gt(number.expand_dims(1));
        let (other, level) = (levels.expand_dims(1), levels.expand_dims(2));
        let is_equal = other.eq(&level);
        let is_below = other.lt(&level) | (&is_equal & is_earlier);
        let is_above = other.gt(&level) | (&is_equal & is_later);
        let below = is_below.select(&other, f64::NEG_INFINITY).max(-1);
        let above = is_above.select(&other, f64::INFINITY).min(-1);
        Self {
            above: (levels + below) * 0.5,
            up_to: (levels + above) * 0.5,
        }
    }

    /// Returns whether each cell contains each element of `[channels, element]`, as
    /// `[channels, level, element]`. A NaN is in all cells, and the infinities are in those at the
    /// ends, so that no element is ignored.
    fn contain(&self, x: &Tensor) -> Tensor {
        let (above, up_to) = (self.above.expand_dims(2), self.up_to.expand_dims(2));
        let x = x.expand_dims(1);
        let has_lower = above.gt(f64::NEG_INFINITY);
        !(x.gt(&up_to) | (x.le(&above) & has_lower))
    }

    /// Returns the level of each element: the highest one whose lower threshold is below the
    /// element. A NaN has the lowest level.
    fn levels_of(&self, x: &Tensor, levels: &Tensor) -> Tensor {
        let above = self.above.expand_dims(1);
        let is_lowest = !above.gt(f64::NEG_INFINITY);
        let is_passed = x.expand_dims(2).gt(&above) | is_lowest;
        let passed = is_passed.select(levels.expand_dims(1), f64::NEG_INFINITY);
        passed.max(-1)
    }
}

/// Subtracts from each column of `[channels, column, row]` its projections on the first `n_pivots`
/// columns before it, in the inner product with the weights `[channels, 1, row]`. Entries of the
/// first `n_pivots` columns below `negligible` become zero.
fn orthogonalized(columns: &Tensor, n_pivots: usize, weights: &Tensor, negligible: f64) -> Tensor {
    let mut columns = columns.clone();
    let number = Tensor::arange(n_pivots + 1).expand_dims(1);
    for pivot in 0..n_pivots {
        let column = columns.slice(1, pivot..=pivot);
        let products = (&columns * &column * weights).sum(-1).expand_dims(-1);
        let square = products.slice(1, pivot..=pivot);
        // A column that is zero in all rows with a weight has no projections.
        let ratios = &products / square.gt(0.0).select(&square, 1.0);
        let ratios = number.gt(pivot).select(&ratios, 0.0);
        columns = &columns - ratios * column;
        if negligible > 0.0 {
            let is_noise = columns.abs().lt(negligible) & number.lt(n_pivots);
            columns = is_noise.select(0.0, &columns);
        }
    }
    columns
}

/// Returns small integers as a row of the type of `other`.
fn constant_row(numbers: impl Iterator<Item = f64>, other: &Tensor) -> Tensor {
    let numbers: Vec<f32> = numbers.map(rounded).collect();
    let dtype = other.dtype().unwrap_or(DType::F32);
    // Not from f64, which some devices do not support.
    Tensor::from_vec(&[numbers.len()], numbers).cast(dtype)
}

/// Returns the distance from 1 to the next number of a type.
fn epsilon_of(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        _ => f32::EPSILON.into(),
    }
}

/// Checks a number of bits of levels that are fitted in a step.
pub(crate) fn check_step_bits(operation: &'static str, bits: usize) -> Result<()> {
    let limit = Qem::MAX_STEP_BITS;
    if (1..=limit).contains(&bits) {
        return Ok(());
    }
    Err(Error::BitCount {
        operation,
        bits,
        limit,
    })
}
