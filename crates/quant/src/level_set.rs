//! The levels of a quantiser, their codes, and the thresholds between them.
//!
//! Role: one type for all quantisers. A level is a sum over a basis: `offset + Σ_j s_j v_j`, where
//! bit `j` of the code determines `s_j`. Fits (`qem`, `abc`) create level sets; quantisation and
//! tensor programs use them.
//! Method: levels are sorted, with a permutation to their codes, because the codes of a basis that
//! does not at least double from number to number are not in the order of the levels. A quantiser
//! counts the thresholds that are below an element, by a branch-free binary search on slices and by
//! comparisons in a tensor program; both return the same code for every element.
//!
//! ```text
//! basis (1/2, 3/4, 1), signs       codes 011 and 100 are out of order
//! level      -9/4   -5/4   -3/4   -1/4    1/4    3/4    5/4    9/4
//! code         0      1      2      4      3      5      6      7
//! threshold       ^      ^      ^      ^      ^      ^      ^
//! ```
//! Source: Zhang, Yang, Ye and Hua 2018, "LQ-Nets: Learned Quantization for Highly Accurate and
//! Compact Deep Neural Networks"; the search is that of the class-project notes.

use tensor_core::{DType, Tensor};

use crate::error::{Error, Result, check, finite, positive};

/// The largest number of basis numbers, so that a code fits a byte.
pub const MAX_BITS: usize = 8;

/// The factors that the bits of a code stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// Bit 0 is -1 and bit 1 is +1, as for weights.
    Signs,
    /// Bit 0 is 0 and bit 1 is 1, as for activations after a `ReLU`.
    Bits,
}

impl Alphabet {
    /// Returns the factor of a bit.
    #[must_use]
    pub fn factor(self, bit: bool) -> f64 {
        match (self, bit) {
            (_, true) => 1.0,
            (Self::Signs, false) => -1.0,
            (Self::Bits, false) => 0.0,
        }
    }

    /// Returns the distance between the factors of the two bits.
    pub(crate) fn factor_distance(self) -> i32 {
        match self {
            Self::Signs => 2,
            Self::Bits => 1,
        }
    }

    /// Returns the factor of bit `j` of a code.
    pub(crate) fn factor_of(self, code: u8, j: usize) -> f64 {
        self.factor(code >> j & 1 == 1)
    }
}

/// The level of an element that is equal to a threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The level below the threshold: an element goes up if `x > t`. The rule of LQ-Nets.
    #[default]
    Down,
    /// The level above the threshold: an element goes up if `x >= t`. The rule of the class-project
    /// notes.
    Up,
}

/// The levels of a quantiser with their codes, and the thresholds between them. The levels ascend,
/// except in activations of ABC-Net with negative factors.
///
/// # Examples
/// ```
/// use quant::LevelSet;
///
/// // Two bits per weight: the levels are -1.75, -0.75, 0.75 and 1.75.
/// let levels = LevelSet::signs(&[0.5, 1.25])?;
/// let (codes, n_nan) = levels.quantize(&[-2.0, -0.1, 0.0, 0.1, 9.0]);
/// assert_eq!((codes.as_slice(), n_nan), ([0, 1, 1, 2, 3].as_slice(), 0));
/// assert_eq!(levels.dequantize(&codes)?, [-1.75, -0.75, -0.75, 0.75, 1.75]);
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LevelSet {
    alphabet: Alphabet,
    basis: Vec<f32>,
    offset: f32,
    /// The code of each level.
    codes: Vec<u8>,
    levels: Vec<f32>,
    /// One less than there are levels.
    thresholds: Vec<f32>,
    ties: Ties,
}

impl LevelSet {
    /// Creates the levels `Σ_j ±v_j` of a basis, as for the weights of LQ-Nets. Thresholds are the
    /// midpoints between neighbouring levels.
    ///
    /// # Errors
    /// [`Error::BitCount`] for an empty basis and for more than [`MAX_BITS`] numbers;
    /// [`Error::InvalidNumber`] for a number that is not finite, or if the sum of all numbers
    /// overflows f32.
    pub fn signs(basis: &[f32]) -> Result<Self> {
        Self::affine("LevelSet::signs", Alphabet::Signs, basis, 0.0)
    }

    /// Creates the levels `Σ_j b_j v_j` with `b_j` 0 or 1, as for the activations of LQ-Nets.
    ///
    /// # Errors
    /// As [`LevelSet::signs`].
    pub fn bits(basis: &[f32]) -> Result<Self> {
        Self::affine("LevelSet::bits", Alphabet::Bits, basis, 0.0)
    }

    /// Returns the levels shifted by `offset`: the additional constant bit of the class-project
    /// notes. Thresholds are shifted by as much.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] if the offset or a shifted level is not finite.
    pub fn with_offset(self, offset: f32) -> Result<Self> {
        let operation = "LevelSet::with_offset";
        finite(operation, "offset", offset.into())?;
        let shifted = |threshold: &f32| rounded(f64::from(*threshold) + f64::from(offset));
        let thresholds = self.thresholds.iter().map(shifted).collect();
        let offset = self.offset + offset;
        let set = Self::with_thresholds(
            operation,
            self.alphabet,
            &self.basis,
            offset,
            self.codes,
            thresholds,
        )?;
        Ok(set.with_ties(self.ties))
    }

    /// Creates the levels `-scale` and `scale`, with the threshold 0.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] unless the scale is positive and finite.
    pub fn binary(scale: f32) -> Result<Self> {
        let operation = "LevelSet::binary";
        positive(operation, "scale", scale.into())?;
        Self::affine(operation, Alphabet::Signs, &[scale], 0.0)
    }

    /// Creates the levels `-scale`, 0 and `scale`, with the thresholds `±scale / 2`. The level 0
    /// has code `0b01`; code `0b10` does not occur.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] unless the scale is positive and finite, and half of the scale
    /// is not 0.
    pub fn ternary(scale: f32) -> Result<Self> {
        let operation = "LevelSet::ternary";
        let half = half_of(operation, "scale", scale)?;
        Self::from_codes(
            operation,
            Alphabet::Signs,
            &[half; 2],
            0.0,
            vec![0b00, 0b01, 0b11],
        )
    }

    /// Creates `2^bits` levels at distances of `step`, symmetric around 0.
    ///
    /// # Errors
    /// [`Error::BitCount`] unless `bits` is 1 to [`MAX_BITS`]; [`Error::InvalidNumber`] unless the
    /// step is positive, half of the step is not 0, and the levels are finite.
    pub fn uniform(bits: usize, step: f32) -> Result<Self> {
        let operation = "LevelSet::uniform";
        let basis = powers(operation, bits, half_of(operation, "step", step)?)?;
        Self::affine(operation, Alphabet::Signs, &basis, 0.0)
    }

    /// Creates the levels `0, step, …, (2^bits - 1) step`.
    ///
    /// # Errors
    /// [`Error::BitCount`] unless `bits` is 1 to [`MAX_BITS`]; [`Error::InvalidNumber`] unless the
    /// step is positive and the levels are finite.
    pub fn uniform_from_zero(bits: usize, step: f32) -> Result<Self> {
        let operation = "LevelSet::uniform_from_zero";
        positive(operation, "step", step.into())?;
        let basis = powers(operation, bits, step)?;
        Self::affine(operation, Alphabet::Bits, &basis, 0.0)
    }

    /// Creates the levels of all codes of a basis.
    pub(crate) fn affine(
        operation: &'static str,
        alphabet: Alphabet,
        basis: &[f32],
        offset: f32,
    ) -> Result<Self> {
        check_bits(operation, basis.len())?;
        let codes = (0..=u8::MAX).take(1 << basis.len()).collect();
        Self::from_codes(operation, alphabet, basis, offset, codes)
    }

    /// Creates the levels of some codes, with thresholds at the midpoints.
    fn from_codes(
        operation: &'static str,
        alphabet: Alphabet,
        basis: &[f32],
        offset: f32,
        mut codes: Vec<u8>,
    ) -> Result<Self> {
        finite(operation, "offset", offset.into())?;
        for &number in basis {
            finite(operation, "basis number", number.into())?;
        }
        let level = |code: u8| {
            let terms = basis.iter().enumerate();
            let sum: f64 = terms
                .map(|(j, &number)| alphabet.factor_of(code, j) * f64::from(number))
                .sum();
            f64::from(offset) + sum
        };
        // Equal levels are in the order of their codes, because the sort is stable.
        codes.sort_by(|&a, &b| level(a).total_cmp(&level(b)));
        let exact: Vec<f64> = codes.iter().map(|&code| level(code)).collect();
        let midpoint = |pair: &[f64]| rounded((pair[0] + pair[1]) / 2.0);
        let set = Self {
            alphabet,
            basis: basis.to_vec(),
            offset,
            thresholds: exact.windows(2).map(midpoint).collect(),
            levels: exact.into_iter().map(rounded).collect(),
            codes,
            ties: Ties::Down,
        };
        for &level in &set.levels {
            finite(operation, "level", level.into())?;
        }
        Ok(set)
    }

    /// Creates levels with thresholds of their own, which must be in ascending order.
    pub(crate) fn with_thresholds(
        operation: &'static str,
        alphabet: Alphabet,
        basis: &[f32],
        offset: f32,
        codes: Vec<u8>,
        thresholds: Vec<f32>,
    ) -> Result<Self> {
        let set = Self::from_codes(operation, alphabet, basis, offset, codes.clone())?;
        for &threshold in &thresholds {
            finite(operation, "threshold", threshold.into())?;
        }
        let levels = codes.iter().map(|code| {
            let place = set.codes.iter().position(|other| other == code);
            set.levels[place.unwrap_or_default()]
        });
        Ok(Self {
            levels: levels.collect(),
            codes,
            thresholds,
            ..set
        })
    }

    /// Returns the level set with a rule for elements that are equal to a threshold.
    #[must_use]
    pub fn with_ties(self, ties: Ties) -> Self {
        Self { ties, ..self }
    }

    /// Returns the factors that the bits of a code stand for.
    #[must_use]
    pub fn alphabet(&self) -> Alphabet {
        self.alphabet
    }

    /// Returns the basis: the number of bit 0 first.
    #[must_use]
    pub fn basis(&self) -> &[f32] {
        &self.basis
    }

    /// Returns the number that is part of every level.
    #[must_use]
    pub fn offset(&self) -> f32 {
        self.offset
    }

    /// Returns the levels in the order of the thresholds: ascending, unless the thresholds do not
    /// follow from the levels, as in the activations of ABC-Net with negative factors.
    #[must_use]
    pub fn levels(&self) -> &[f32] {
        &self.levels
    }

    /// Returns the code of each level, in the order of the levels.
    #[must_use]
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// Returns the code of the opposite of each level, in the order of the levels; `None` unless
    /// the levels are symmetric about 0.
    pub(crate) fn opposite_codes(&self) -> Option<Vec<u8>> {
        let mut pairs = self.levels.iter().zip(self.levels.iter().rev());
        let is_symmetric = pairs.all(|(level, other)| *level == -*other);
        is_symmetric.then(|| self.codes.iter().rev().copied().collect())
    }

    /// Returns a unit, and each level as a multiple of the unit, rounded to an integer from -127 to
    /// 127. If `m` is the largest absolute value of a level, the unit is `m / 127` and the error of
    /// a level is at most `m / 254`. If all levels are 0, the unit is 1.
    ///
    /// # Examples
    /// ```
    /// use quant::LevelSet;
    ///
    /// let (unit, bytes) = LevelSet::bits(&[0.5, 1.5])?.to_bytes();
    /// assert_eq!((unit, bytes.as_slice()), (2.0 / 127.0, [0, 32, 95, 127].as_slice()));
    /// # Ok::<(), quant::Error>(())
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> (f64, Vec<i8>) {
        let levels = self.levels.iter().map(|&level| f64::from(level));
        let largest = levels.clone().fold(0.0, |most: f64, x| most.max(x.abs()));
        let unit = if largest > 0.0 {
            largest / f64::from(i8::MAX)
        } else {
            1.0
        };
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a quotient is at most 127, up to the rounding of the unit"
        )]
        let byte = |level: f64| (level / unit).round() as i8;
        (unit, levels.map(byte).collect())
    }

    /// Returns the thresholds between neighbouring levels, in ascending order.
    #[must_use]
    pub fn thresholds(&self) -> &[f32] {
        &self.thresholds
    }

    /// Returns the rule for elements that are equal to a threshold.
    #[must_use]
    pub fn ties(&self) -> Ties {
        self.ties
    }

    /// Returns the code of each element, and the number of NaNs. A NaN has the code of the lowest
    /// level; infinities have the codes of the lowest and the highest level.
    #[must_use]
    pub fn quantize(&self, xs: &[f32]) -> (Vec<u8>, usize) {
        let codes = xs.iter().map(|&x| self.codes[self.index(x)]).collect();
        (codes, xs.iter().filter(|x| x.is_nan()).count())
    }

    /// Returns the code of each element.
    ///
    /// # Errors
    /// [`Error::NotANumber`] with the position of the first NaN.
    pub fn quantize_strict(&self, xs: &[f32]) -> Result<Vec<u8>> {
        match xs.iter().position(|x| x.is_nan()) {
            None => Ok(self.quantize(xs).0),
            Some(index) => Err(Error::NotANumber {
                operation: "LevelSet::quantize_strict",
                index,
            }),
        }
    }

    /// Returns the level of each code.
    ///
    /// # Errors
    /// [`Error::UnknownCode`] for a code that no level has.
    pub fn dequantize(&self, codes: &[u8]) -> Result<Vec<f32>> {
        let mut levels = [None; 1 << MAX_BITS];
        for (&code, &level) in self.codes.iter().zip(&self.levels) {
            levels[usize::from(code)] = Some(level);
        }
        let places = codes.iter().enumerate();
        places
            .map(|(index, &code)| {
                levels[usize::from(code)].ok_or_else(|| Error::UnknownCode {
                    operation: "LevelSet::dequantize",
                    index,
                    code,
                    expected: "a code of the level set".to_owned(),
                })
            })
            .collect()
    }

    /// Returns the number of thresholds below an element: the position of its level.
    ///
    /// Method: a binary search with a fixed number of steps and without branches. Each step skips
    /// half of the remaining thresholds if the element is beyond the last one of that half.
    ///
    /// ```text
    /// thresholds   t0  t1  t2  t3  t4  t5  t6      8 levels: steps of 4, 2 and 1
    /// step 4                   ^                   x > t3: position 4, else 0
    /// step 2               (at 4)      ^           x > t5: position 6, else 4
    /// ```
    pub(crate) fn index(&self, x: f32) -> usize {
        let mut index = 0;
        let mut step = self.levels.len().next_power_of_two() / 2;
        while step > 0 {
            // If the number of levels is no power of two, some thresholds of the search do not
            // exist. No element is beyond these.
            let threshold = self.thresholds.get(index + step - 1);
            let is_beyond = threshold.is_some_and(|&t| match self.ties {
                Ties::Down => x > t,
                Ties::Up => x >= t,
            });
            index += if is_beyond { step } else { 0 };
            step /= 2;
        }
        index
    }

    /// Returns the codes of a tensor of f32, as `u32`. The codes are equal to those of
    /// [`quantize`](Self::quantize), except that a device may take a subnormal element for 0; a NaN
    /// has the code of the lowest level.
    ///
    /// The result is a tensor program: it is fused with its neighbours and runs on any executor.
    /// Errors of `x` are returned when the result is evaluated.
    #[must_use]
    pub fn codes_of(&self, x: &Tensor) -> Tensor {
        let index = self.indices_of(x);
        let mut numbered = self.codes.iter().enumerate();
        let is_in_order = numbered.all(|(n, &code)| usize::from(code) == n);
        if is_in_order {
            return index;
        }
        let codes = self.codes.iter().map(|&code| u32::from(code)).collect();
        Tensor::from_vec(&[self.codes.len()], codes).gather(&index, 0)
    }

    /// Returns the level of each element of a tensor of f32, as a tensor program. The
    /// levels are equal to those of [`quantize`](Self::quantize) and
    /// [`dequantize`](Self::dequantize), with the exception of [`codes_of`](Self::codes_of).
    #[must_use]
    pub fn levels_of(&self, x: &Tensor) -> Tensor {
        let levels = Tensor::from_vec(&[self.levels.len()], self.levels.clone());
        levels.gather(&self.indices_of(x), 0)
    }

    /// Returns the number of thresholds below each element.
    fn indices_of(&self, x: &Tensor) -> Tensor {
        self.passed_of(x).sum(-1).cast(DType::U32)
    }

    /// Returns whether each element of `x` is beyond each threshold, with the thresholds as a new
    /// last axis.
    pub(crate) fn passed_of(&self, x: &Tensor) -> Tensor {
        let thresholds = Tensor::from_vec(&[self.thresholds.len()], self.thresholds.clone());
        let x = x.expand_dims(-1);
        match self.ties {
            Ties::Down => x.gt(&thresholds),
            Ties::Up => x.ge(&thresholds),
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is intended; an overflow is infinite, which is checked"
)]
pub(crate) fn rounded(x: f64) -> f32 {
    x as f32
}

pub(crate) fn check_bits(operation: &'static str, bits: usize) -> Result<()> {
    if (1..=MAX_BITS).contains(&bits) {
        Ok(())
    } else {
        Err(Error::BitCount {
            operation,
            bits,
            limit: MAX_BITS,
        })
    }
}

/// Returns half of a positive finite number.
fn half_of(operation: &'static str, quantity: &'static str, number: f32) -> Result<f32> {
    positive(operation, quantity, number.into())?;
    let half = number / 2.0;
    // Half of the smallest subnormal number is rounded to 0.
    let expected = "a number whose half is not 0 in f32";
    check(operation, quantity, number.into(), half > 0.0, expected)?;
    Ok(half)
}

/// Returns `first, 2 first, 4 first, …`, as many numbers as there are bits.
fn powers(operation: &'static str, bits: usize, first: f32) -> Result<Vec<f32>> {
    check_bits(operation, bits)?;
    Ok(
        std::iter::successors(Some(first), |number| Some(2.0 * number))
            .take(bits)
            .collect(),
    )
}
