//! Error analysis of reductions, which an executor may compute in any order and with any
//! bracketing.

use super::magnitudes::Magnitudes;
use super::{
    Approximate, CLEARLY, OPEN_SIGN, OVERFLOWED_SUM, certain_if, largest, open_again, settled,
    spacing, twice_overflows,
};
use crate::dtype::{DType, Scalar};
use crate::exec::accuracy::is_subnormal;
use crate::op::Reduce;

/// The terms of the elements of an array that are sums themselves. An executor may add up all these
/// terms in one sum, whose partial sums differ from those of the separate sums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// A power of two of which every term is a multiple.
    granule: f64,
    /// The largest sum of the magnitudes of the terms of an element.
    size: f64,
    /// The largest error of an element that counts as exact, if one of its partial sums were
    /// rounded.
    rounding: f64,
}

#[cfg(any(test, feature = "random-programs"))]
impl Terms {
    /// Returns the properties that hold for the terms of both.
    pub(crate) fn joined(self, other: Self) -> Self {
        Self {
            granule: self.granule.min(other.granule),
            size: self.size.max(other.size),
            rounding: self.rounding.max(other.rounding),
        }
    }
}

/// The accumulated data for the error bound of a reduction, collected element by element.
#[derive(Debug)]
pub(crate) struct FoldError {
    op: Reduce,
    /// The terms of the elements, if the elements are sums.
    inner: Option<Terms>,
    /// The number of elements.
    n: f64,
    /// The number of elements that count as exact.
    n_exact: f64,
    /// The sum of the errors of the elements, except elements that are surely NaN or infinite.
    errors: f64,
    /// The largest error of an element, except elements that are surely NaN or infinite.
    worst: f64,
    /// The sum of the positive elements.
    up: f64,
    /// The sum of the magnitudes of the negative elements.
    down: f64,
    /// The largest power of two of which every element is a multiple.
    granule: f64,
    /// The nonzero terms of a sum.
    terms: Magnitudes,
    /// The product of the magnitudes.
    product: f64,
    /// The product of the magnitudes, with the error added to each factor.
    product_and_error: f64,
    /// The natural logarithm of the product of the magnitudes, with the error subtracted from each
    /// factor, without factors that may be 0.
    least_exponent: f64,
    /// The largest magnitude that the product of any subset of the elements may have.
    most: f64,
    /// The smallest magnitude that the product of any subset of the elements may have, without
    /// elements that may be 0.
    least: f64,
    /// Whether some element is surely NaN.
    has_nan: bool,
    /// Whether some element is subnormal.
    has_subnormal: bool,
    /// Whether some element is +infinity.
    has_above: bool,
    /// Whether some element is -infinity.
    has_below: bool,
    /// Whether some infinite element is an overflowed product or sum.
    has_overflowed: bool,
    /// Whether it is uncertain for some element if it is 0: its error is positive and at least its
    /// magnitude.
    may_vanish: bool,
    /// Whether some element alone determines the result, for example `false` in `All`.
    is_decided: bool,
}

impl FoldError {
    pub(crate) fn new(op: Reduce) -> Self {
        Self::of_sums(op, None)
    }

    /// Creates the data for a reduction whose elements may be sums of some terms.
    pub(crate) fn of_sums(op: Reduce, inner: Option<Terms>) -> Self {
        Self {
            op,
            inner,
            n: 0.0,
            n_exact: 0.0,
            errors: 0.0,
            worst: 0.0,
            up: 0.0,
            down: 0.0,
            granule: f64::INFINITY,
            terms: Magnitudes::default(),
            product: 1.0,
            product_and_error: 1.0,
            least_exponent: 0.0,
            most: 1.0,
            least: 1.0,
            has_nan: false,
            has_subnormal: false,
            has_above: false,
            has_below: false,
            has_overflowed: false,
            may_vanish: false,
            is_decided: false,
        }
    }

    pub(crate) fn push(&mut self, x: Approximate) {
        // The sign of a zero does not matter to a fold: `finish` decides on the sign of the result.
        let (x, number) = (x.signed(), x.float());
        self.n += 1.0;
        self.has_subnormal |= is_subnormal(x.value);
        if x.is_surely_special() {
            self.has_nan |= number.is_nan();
            self.has_above |= number == f64::INFINITY;
            self.has_below |= number == f64::NEG_INFINITY;
            self.has_overflowed |= x.error > 0.0;
            return;
        }
        // A single open element makes this sum infinite, and so the result open.
        self.errors += x.error;
        self.n_exact += f64::from(u8::from(x.error == 0.0));
        self.worst = self.worst.max(x.error);
        if x.is_open() {
            return;
        }
        if let Scalar::Bool(value) = x.value {
            self.is_decided |= self.op.annihilator() == Some(value);
            return;
        }
        match self.op {
            Reduce::Sum => self.add(number),
            Reduce::Prod => self.multiply(number.abs(), x.error),
            // The error of a maximum or minimum is at most `worst`.
            _ => {}
        }
    }

    fn add(&mut self, number: f64) {
        // Positive and negative terms apart: their sums bound every partial sum in any order.
        self.up += number.max(0.0);
        self.down -= number.min(0.0);
        if number != 0.0 {
            self.granule = self.granule.min(granule(number.abs()));
            self.terms.push(number);
        }
    }

    fn multiply(&mut self, size: f64, error: f64) {
        self.product *= size;
        self.product_and_error *= size + error;
        self.most *= (size + error).max(1.0);
        // A factor that may be 0 is left out: `may_vanish` keeps products with it open.
        if size > error {
            self.least *= (size - error).min(1.0);
            self.least_exponent += (size - error).ln();
        } else {
            self.may_vanish |= error > 0.0;
        }
    }

    /// Returns `true` if some element is subnormal.
    pub(crate) fn has_subnormal(&self) -> bool {
        self.has_subnormal
    }

    /// Returns a bound on the error that an executor adds to [`Self::finish`] if it flushes
    /// subnormal partial results to zero.
    pub(crate) fn flushed(&self, result: Scalar) -> f64 {
        let smallest = match result.dtype() {
            DType::F64 => f64::MIN_POSITIVE,
            _ => f64::from(f32::MIN_POSITIVE),
        };
        let may_flush = match self.op {
            Reduce::Sum => self.granule < smallest,
            Reduce::Prod => self.least < smallest,
            Reduce::Max | Reduce::Min | Reduce::All | Reduce::Any => false,
        };
        match (may_flush, result.to_f64().is_finite()) {
            (false, _) => 0.0,
            (true, true) => (self.n + 1.0) * smallest * self.most,
            (true, false) => f64::INFINITY,
        }
    }

    /// Returns a bound on the error of the reduction of the elements so far, whose computed value
    /// is `result`.
    pub(crate) fn finish(&mut self, result: Scalar) -> f64 {
        if !result.dtype().is_float() {
            return certain_if(self.errors == 0.0 || self.is_decided);
        }
        if self.has_nan {
            return 0.0;
        }
        if self.errors.is_infinite() {
            return f64::INFINITY;
        }
        match self.op {
            Reduce::Sum if self.has_above || self.has_below => {
                let is_overflowed = self.has_overflowed && !result.to_f64().is_nan();
                match self.keeps_infinity(result.dtype()) {
                    true if is_overflowed => OVERFLOWED_SUM,
                    certain => certain_if(certain),
                }
            }
            Reduce::Sum => match settled(result, self.of_sum(result)) {
                0.0 if result.to_f64().is_infinite() => OVERFLOWED_SUM,
                error => error,
            },
            Reduce::Prod if self.has_above || self.has_below => {
                certain_if(self.never_vanishes(result.dtype()))
            }
            Reduce::Prod => settled(result, self.of_product(result)),
            _ if result.to_f64().is_infinite() => 0.0,
            _ => open_again(result, self.worst),
        }
    }

    /// Returns `true` if a sum with infinite elements is the same in any order: it is surely NaN,
    /// or no partial sum reaches the opposite infinity.
    fn keeps_infinity(&self, dtype: DType) -> bool {
        if self.has_above && self.has_below {
            return !self.has_overflowed;
        }
        // The finite terms of the opposite sign, which could overflow to the opposite infinity.
        let against = if self.has_above { self.down } else { self.up };
        let room = if self.has_overflowed {
            CLEARLY / 2.0
        } else {
            0.5
        };
        against + self.errors <= room * largest(dtype)
    }

    /// Returns the properties of the terms of this sum, those of inner sums included.
    fn all_terms(&mut self, dtype: DType) -> Terms {
        let own = Terms {
            granule: self.granule,
            size: self.up + self.down,
            rounding: self.rounding(dtype),
        };
        // The error of an element that is not exact contains the rounding of its partial sums.
        self.inner.map_or(own, |inner| Terms {
            granule: inner.granule.min(own.granule),
            size: own.size.max(self.n * inner.size),
            rounding: own.rounding + self.n_exact * inner.rounding,
        })
    }

    /// Returns the properties of the terms of this sum, whose error is `error`, for a sum over it.
    #[cfg(any(test, feature = "random-programs"))]
    pub(crate) fn terms(&mut self, dtype: DType, error: f64) -> Terms {
        let all = self.all_terms(dtype);
        Terms {
            rounding: if error == 0.0 { all.rounding } else { 0.0 },
            ..all
        }
    }

    /// Returns the rounding error of n additions: relative errors of the additions, and an absolute
    /// error for results in the subnormal range.
    fn rounding(&mut self, dtype: DType) -> f64 {
        let size = self.up + self.down + self.errors;
        self.roundings(dtype) * spacing(dtype, 1.0) * size + (self.n + 1.0) * spacing(dtype, 0.0)
    }

    /// Returns the error of n additions in any order. Includes one rounding of each term, because
    /// an executor may round a product before the addition or fuse both.
    fn of_sum(&mut self, result: Scalar) -> f64 {
        let dtype = result.dtype();
        let sum = self.up + self.down;
        let (size, terms) = (sum + self.errors, self.all_terms(dtype));
        let rounding = terms.rounding;
        if size > largest(dtype) {
            // The sum is infinite in any order if no partial sum reaches the opposite infinity. If
            // the result is f64, `size` itself may overflow.
            let against = self.up.min(self.down) + self.errors;
            let half = 0.5 * (self.up.max(self.down) - against - rounding);
            let one_sided = against <= largest(dtype) * CLEARLY / 2.0;
            return certain_if(one_sided && size.is_finite() && twice_overflows(half, dtype));
        }
        // No partial sum needs more digits than the type has, so nothing is rounded.
        if self.errors == 0.0 && terms.size * spacing(dtype, 1.0) <= 2.0 * terms.granule {
            return if sum > 0.0 { 0.0 } else { OPEN_SIGN };
        }
        self.errors + rounding
    }

    /// Returns the rounding error of the additions of a sum, in units in the last place: half a
    /// unit each, but at most six standard deviations of independent errors (Higham and Mary 2019,
    /// "A new approach to probabilistic rounding error analysis"). Equal terms have equal rounding
    /// errors, so only the errors of different terms count as independent. Errors do not count as
    /// independent either where many terms are near the last place of a partial sum.
    fn roundings(&mut self, dtype: DType) -> f64 {
        let likely = if self.is_coarse(dtype) {
            self.n / 2.0
        } else {
            // Six deviations of half a unit. A group of n equal terms has the variance n^2, not n.
            3.0 * self.terms.squares().sqrt()
        };
        // The reference executor adds in f64, too: for an f64 sum its rounding error is added to
        // the bound.
        let of_oracle = if dtype == DType::F64 { 2.0 } else { 1.0 };
        of_oracle * ((self.n / 2.0).min(likely) + 2.0)
    }

    /// Returns `true` if half the terms are so small relative to the sum that a partial sum may
    /// round away most of their digits.
    fn is_coarse(&mut self, dtype: DType) -> bool {
        /// The size below which a term counts as small, in units in the last place of the sum.
        const SMALL: f64 = 16.0;
        let small = SMALL * spacing(dtype, 1.0) * (self.up + self.down);
        2 * self.terms.n_below(small) > self.terms.len()
    }

    /// Returns the error of n multiplications in any order. A partial product that underflows loses
    /// `tiny`, and later factors may multiply this loss by at most `most`.
    fn of_product(&self, result: Scalar) -> f64 {
        let dtype = result.dtype();
        let (unit, tiny) = (spacing(dtype, 1.0), spacing(dtype, 0.0));
        if result.to_f64().is_infinite() {
            // The smallest possible product, in logarithms, has to overflow even after all
            // roundings.
            let exponent = self.least_exponent - self.n * unit;
            let overflows = exponent > largest(dtype).ln() + 2.0 * CLEARLY;
            return certain_if(overflows && self.never_vanishes(dtype));
        }
        if self.most > largest(dtype) {
            return f64::INFINITY;
        }
        let size = self.product_and_error;
        size - self.product + (self.n + 1.0) * (unit * size + tiny * self.most)
    }

    /// Returns `true` if no element may be 0 and no product of a subset underflows. Otherwise 0
    /// times an infinity could be NaN in another order.
    fn never_vanishes(&self, dtype: DType) -> bool {
        !self.may_vanish && self.least * spacing(dtype, 1.0) > spacing(dtype, 0.0)
    }
}

/// Returns the value of the last nonzero binary digit of a positive float, a power of two; 0 for 0.
fn granule(x: f64) -> f64 {
    // The last nonzero digit: the unit in the last place times 2 for each trailing zero bit.
    let digits = f64::MANTISSA_DIGITS - 1;
    let (exponent, fraction) = (x.to_bits() >> digits, x.to_bits() & ((1 << digits) - 1));
    let last = fraction.trailing_zeros().min(digits);
    // A subnormal float has no implicit leading 1, and the same unit as the exponent 1.
    let unit = f64::from_bits(exponent.max(1) << digits) * f64::EPSILON;
    if exponent == 0 && fraction == 0 {
        0.0
    } else {
        unit * f64::powi(2.0, last.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::super::OVERFLOWED;
    use super::*;

    #[test]
    fn flushed_partial_results_are_allowed_for() {
        let flushed = |op: Reduce, elements: &[f32], result: f32| {
            let mut fold = FoldError::new(op);
            for &element in elements {
                fold.push(Approximate {
                    value: Scalar::F32(element),
                    error: 0.0,
                });
            }
            let is_subnormal = |element: &f32| element.is_subnormal();
            assert_eq!(fold.has_subnormal(), elements.iter().any(is_subnormal));
            fold.flushed(Scalar::F32(result))
        };
        let [small, large] = [1e-20, 1e20];
        // The product of the first two is flushed to 0.
        assert!(flushed(Reduce::Prod, &[small, small, large, large], 1.0) >= 1.0);
        assert_eq!(flushed(Reduce::Prod, &[small, large], 1.0), 0.0);
        let least = f32::MIN_POSITIVE;
        // The difference of two normal numbers is subnormal.
        assert!(flushed(Reduce::Sum, &[1.5 * least, -least], 0.5 * least) >= f64::from(least));
        assert_eq!(flushed(Reduce::Sum, &[1.5, -1.0], 0.5), 0.0);
        // Each of three subnormal elements may be flushed.
        let subnormal = 0.9 * least;
        let lost = 3.0 * f64::from(subnormal);
        assert!(flushed(Reduce::Sum, &[subnormal; 3], 3.0 * subnormal) >= lost);
    }

    #[test]
    fn a_sum_over_exact_sums_may_round_its_partial_sums() {
        let sum = |inner, elements: &[f32]| {
            let mut fold = FoldError::of_sums(Reduce::Sum, inner);
            for &element in elements {
                fold.push(approximate(element, 0.0));
            }
            let total: f32 = elements.iter().sum();
            let error = fold.finish(Scalar::F32(total));
            (total, error, fold.terms(DType::F32, error))
        };
        let of_sums = |lines: [[f32; 2]; 2]| {
            let [(a, error_a, terms_a), (b, error_b, terms_b)] = lines.map(|line| sum(None, &line));
            assert_eq!([error_a, error_b], [0.0; 2]);
            let [apart, together] =
                [None, Some(terms_a.joined(terms_b))].map(|terms| sum(terms, &[a, b]).1);
            assert_eq!(apart, 0.0);
            together
        };
        // Each of the three sums is exact, but the sum of the first three terms is rounded.
        let lines = [[0.237_181_01, 0.314_267_28], [0.547_413_35, -0.938_884]];
        let one_by_one = lines.as_flattened().iter().sum::<f32>();
        let exact = lines
            .as_flattened()
            .iter()
            .copied()
            .map(f64::from)
            .sum::<f64>();
        let error = (f64::from(one_by_one) - exact).abs();
        assert!(error > 0.0 && of_sums(lines) >= error);
        assert_eq!(of_sums([[0.25, -0.75], [1000.0, 0.5]]), 0.0);
    }

    #[test]
    fn a_product_that_overflows_after_many_small_factors_is_certain() {
        let mut fold = FoldError::new(Reduce::Prod);
        for _ in 0..100 {
            fold.push(approximate(3.0, 0.0));
        }
        // ln(3^100) is 110, and the logarithm of the largest f32 is 89.
        assert_eq!(fold.finish(Scalar::F32(f32::INFINITY)), 0.0);
    }

    const OPEN: f64 = f64::INFINITY;
    const MAX: f32 = f32::MAX;
    const INF: f32 = f32::INFINITY;

    fn approximate(value: f32, error: f64) -> Approximate {
        Approximate {
            value: Scalar::F32(value),
            error,
        }
    }

    fn of_fold(op: Reduce, elements: &[f32], result: f32) -> f64 {
        let mut fold = FoldError::new(op);
        for &element in elements {
            fold.push(approximate(element, 0.0));
        }
        fold.finish(Scalar::F32(result))
    }

    #[test]
    fn sums_that_need_no_rounding_have_no_error() {
        assert_eq!(of_fold(Reduce::Sum, &[0.25, -3.5, 1000.0], 996.75), 0.0);
        assert!(of_fold(Reduce::Sum, &[0.25, 16_777_216.0], 16_777_216.0) > 0.0);
        assert_eq!(granule(0.75), 0.25);
        assert_eq!(granule(96.0), 32.0);
        assert_eq!(granule(f64::from_bits(6)), f64::from_bits(2));
    }

    #[test]
    fn equal_terms_are_rounded_alike_and_different_ones_likely_not() {
        let n = 5000;
        let alike = vec![0.7_f32; n];
        let different: Vec<f32> = (0..5000_u16).map(|i| 0.7 + f32::from(i) * 1e-5).collect();
        let bound = |terms: &[f32]| {
            let total = terms.iter().sum::<f32>();
            let exact = terms.iter().copied().map(f64::from).sum::<f64>();
            let bound = of_fold(Reduce::Sum, terms, total);
            assert!((f64::from(total) - exact).abs() < bound, "{bound}");
            bound / exact
        };
        assert!(bound(&alike) > 5.0 * bound(&different));
    }

    #[test]
    fn folds_are_surely_infinite_only_if_they_are_in_every_order() {
        let sum = |elements: &[f32]| of_fold(Reduce::Sum, elements, elements.iter().sum());
        let overflowing = [sum(&[3e38, 3e38]), sum(&[-3e38, -1.0, -3e38])];
        assert_eq!(overflowing, [OVERFLOWED_SUM; 2]);
        assert_eq!([sum(&[3e38, 3e38, -3e38]), sum(&[MAX, 3e31])], [OPEN; 2]);
        assert_eq!([sum(&[INF, 1.1, -3e37]), sum(&[INF, -INF])], [0.0; 2]);
        assert_eq!(sum(&[INF, -3e38, -3e38]), OPEN);
        assert_eq!(sum(&[f32::NAN, 3e38, 3e38, -3e38]), 0.0);
        let with_product = |other: f32| {
            let mut fold = FoldError::new(Reduce::Sum);
            fold.push(approximate(INF, OVERFLOWED));
            fold.push(approximate(other, 0.0));
            fold.finish(Scalar::F32(INF + other))
        };
        assert_eq!([-1.0, 3e38, INF].map(with_product), [OVERFLOWED_SUM; 3]);
        assert_eq!([-3e38, -INF].map(with_product), [OPEN; 2]);
        // One sum over the terms of both sums adds finite numbers of both signs.
        let of_sums = |signs: [f32; 2]| {
            let mut fold = FoldError::new(Reduce::Sum);
            for sign in signs {
                fold.push(approximate(sign * INF, OVERFLOWED_SUM));
            }
            fold.finish(Scalar::F32(signs[0] * INF + signs[1] * INF))
        };
        assert_eq!(of_sums([1.0, 1.0]), OVERFLOWED_SUM);
        assert_eq!(of_sums([1.0, -1.0]), OPEN);
        let product = |elements: &[f32], result| of_fold(Reduce::Prod, elements, result);
        assert_eq!(
            [product(&[1e30, -1e30], -INF), product(&[INF, 0.5], INF)],
            [0.0; 2]
        );
        assert_eq!(product(&[1e30, 1e30, 1e-30], 1e30), OPEN);
        assert_eq!(product(&[1e30, 1e30, 1e30, 1e-30, 1e-30], INF), OPEN);
        assert_eq!(product(&[INF, 1e-30, 1e-30], INF), OPEN);
        assert_eq!(of_fold(Reduce::Max, &[INF, 1.0, -INF], INF), 0.0);
        let mut least = FoldError::new(Reduce::Min);
        least.push(approximate(INF, OVERFLOWED));
        least.push(approximate(1.0, 0.25));
        assert_eq!(least.finish(Scalar::F32(1.0)), 0.25);
    }

    #[test]
    fn the_margins_of_infinite_sums_are_as_wide_as_documented() {
        let sum = |elements: &[f32]| of_fold(Reduce::Sum, elements, elements.iter().sum());
        let [below, above] = [f32::powi(2.0, -12), f32::powi(2.0, -10)];
        assert!(f64::from(2.0 * below) == CLEARLY / 2.0 && f64::from(above) == CLEARLY);
        // An infinite element needs room for the terms of the other sign: half of the range, or
        // half of the margin if the element is an overflowed product.
        assert_eq!(sum(&[INF, -0.4 * MAX]), 0.0);
        assert_eq!(sum(&[INF, -0.6 * MAX]), OPEN);
        let with_product = |other: f32| {
            let mut fold = FoldError::new(Reduce::Sum);
            fold.push(approximate(INF, OVERFLOWED));
            fold.push(approximate(other, 0.0));
            fold.finish(Scalar::F32(INF))
        };
        assert_eq!(with_product(-below * MAX), OVERFLOWED_SUM);
        assert_eq!(with_product(-above * MAX), OPEN);
        // The same room is needed if the finite terms alone overflow.
        assert_eq!(sum(&[MAX, MAX, -below * MAX]), OVERFLOWED_SUM);
        assert_eq!(sum(&[MAX, MAX, -above * MAX]), OPEN);
        // A sum that exceeds the margin by less than its rounding error is open.
        let beyond = |part: f32| sum(&[MAX, above * MAX * (1.0 + part)]);
        assert_eq!([1e-3, 1e-5].map(beyond), [OVERFLOWED_SUM, OPEN]);
    }

    #[test]
    fn a_sum_of_two_terms_may_have_three_units_of_error() {
        let bound = |one: Scalar, small: Scalar| {
            let mut fold = FoldError::new(Reduce::Sum);
            for value in [one, small] {
                fold.push(Approximate { value, error: 0.0 });
            }
            fold.finish(one) / spacing(one.dtype(), 1.0)
        };
        let of_f32 = bound(Scalar::F32(1.0), Scalar::F32(1e-8));
        assert!((of_f32 - 3.0).abs() < 1e-6, "{of_f32}");
        // The reference executor rounds the sum, too.
        let of_f64 = bound(Scalar::F64(1.0), Scalar::F64(1e-17));
        assert!((of_f64 - 6.0).abs() < 1e-6, "{of_f64}");
    }

    #[test]
    fn one_sure_answer_settles_a_fold_of_doubtful_ones() {
        let fold = |op: Reduce, sure: bool| {
            let mut fold = FoldError::new(op);
            for (value, error) in [(sure, 0.0), (true, OPEN), (false, OPEN)] {
                let value = Scalar::Bool(value);
                fold.push(Approximate { value, error });
            }
            fold.finish(Scalar::Bool(op == Reduce::Any))
        };
        assert_eq!(
            [fold(Reduce::All, false), fold(Reduce::Any, true)],
            [0.0; 2]
        );
        assert_eq!(
            [fold(Reduce::All, true), fold(Reduce::Any, false)],
            [OPEN; 2]
        );
    }
}
