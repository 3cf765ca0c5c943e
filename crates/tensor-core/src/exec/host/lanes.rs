//! Lanes: the form in which the host executor computes on elements, and every operation on each
//! lane type.
//!
//! Method: the lanes of `bool` are `u8` (0 or 1), those of `f16` are `f32`, and all other types are
//! their own lanes. Rare operations evaluate their definition one lane at a time.

use std::hint::select_unpredictable;

use half::f16;

use super::functions;
use super::loops::{FOLDED_LANES, Fold, View, fold, folded, halved, map, map2, rare};
use crate::dtype::{DType, Element, HostData};
use crate::level::Level;
use crate::op::{Binary, Compare, Reduce, Unary, dot4_i8};

/// Folds lanes of the same type as the accumulators.
#[inline(always)]
fn fold_by<T: LaneType>(
    op: Reduce,
    how: Fold,
    d: &mut [T],
    a: View<'_, T>,
    f: impl Fn(T, T) -> T + Copy,
) {
    fold(how, d, a, T::identity(op), f, f);
}

/// Folds floats into accumulators by `full(a, d)`, the maximum or minimum, which is NaN if either
/// operand is NaN. `wins(a, d)` is the comparison that selects `a` if neither operand is NaN.
///
/// Lanes that share accumulators are searched for NaN first, because a loop over the comparison
/// alone takes one instruction for each vector instead of four that wait for each other.
#[inline(always)]
fn fold_extremes<T: LaneType>(
    op: Reduce,
    how: Fold,
    d: &mut [T],
    a: View<'_, T>,
    full: impl Fn(T, T) -> T + Copy,
    wins: impl Fn(T, T) -> bool,
) {
    let identity = T::identity(op);
    if let (Fold::Together(_), View::Lanes(a)) = (how, a) {
        let nans = folded(a, identity, |d, a| select_unpredictable(is_nan(a), a, d));
        if !nans.into_iter().any(is_nan) {
            let totals = folded(a, identity, |d, a| if wins(a, d) { a } else { d });
            d.iter_mut().zip(totals).for_each(|(d, a)| *d = full(a, *d));
            return;
        }
    }
    fold_by(op, how, d, a, |d, a| full(a, d));
}

/// A type of lanes.
pub(super) trait LaneType: bytemuck::Pod + Copy + PartialEq + PartialOrd {
    /// Applies an operation of one operand that keeps the type. Elementary functions run at a
    /// level; all other loops are compiled for the level of the caller.
    fn unary(level: Level, op: Unary, d: &mut [Self], a: &[Self]);
    /// Applies an operation of two operands; the level is that of powers.
    fn binary(level: Level, op: Binary, d: &mut [Self], a: View<'_, Self>, b: View<'_, Self>);
    /// Returns the initial accumulator of a reduction, which is neutral under the reduction.
    fn identity(op: Reduce) -> Self;
    /// Folds lanes into accumulators.
    fn accumulate(op: Reduce, fold: Fold, d: &mut [Self], a: View<'_, Self>);
    /// Returns `a + b`; integers wrap.
    fn plus(self, other: Self) -> Self;
    /// Returns `a * b`; integers wrap.
    fn times(self, other: Self) -> Self;
    /// Returns the sum of the products of the signed bytes of integers.
    fn dot4_i8(self, other: Self) -> Self;
    /// Converts a lane to `f32` as [`Scalar::cast`](crate::Scalar::cast) does; the following
    /// methods convert to other types in the same way.
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn to_i32(self) -> i32;
    fn to_u32(self) -> u32;
    fn to_bool(self) -> u8;
}

/// Folds the accumulators of a reduction into one. On flags, which are 0 or 1, `All` is the smaller
/// and `Any` the larger operand.
#[inline(always)]
pub(super) fn total<T: LaneType>(op: Reduce, lanes: &[T; FOLDED_LANES]) -> T {
    match op {
        Reduce::Sum => halved(lanes, T::plus),
        Reduce::Prod => halved(lanes, T::times),
        Reduce::Max | Reduce::Any => halved(lanes, |a, b| larger(b, a)),
        Reduce::Min | Reduce::All => halved(lanes, |a, b| smaller(b, a)),
    }
}

/// Computes comparisons as 0 or 1; a comparison with NaN is 0, except that `Ne` is 1.
#[inline(always)]
pub(super) fn compare<T: LaneType>(op: Compare, d: &mut [u8], a: View<'_, T>, b: View<'_, T>) {
    match op {
        Compare::Lt => map2(d, a, b, |a, b| u8::from(a < b)),
        Compare::Le => map2(d, a, b, |a, b| u8::from(a <= b)),
        Compare::Eq => map2(d, a, b, |a, b| u8::from(a == b)),
        Compare::Ne => map2(d, a, b, |a, b| u8::from(a != b)),
    }
}

/// Computes `full(a, b)` for each lane: the larger or the smaller operand, or NaN if either operand
/// is NaN. If `b` is one number for all lanes and not NaN, a single comparison is enough: `wins`
/// receives this number and the lane, and returns `true` if the number is the result. It returns
/// `false` for a NaN lane, so the result is NaN, too.
#[inline(always)]
fn extreme<T: LaneType>(
    d: &mut [T],
    a: View<'_, T>,
    b: View<'_, T>,
    full: impl Fn(T, T) -> T,
    wins: impl Fn(T, T) -> bool,
) {
    match (a, b) {
        #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
        (View::Lanes(a), View::Uniform(b)) if b == b => {
            map(d, a, |a| if wins(b, a) { b } else { a });
        }
        _ => map2(d, a, b, full),
    }
}

#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_nan<T: LaneType>(a: T) -> bool {
    a != a
}

/// Returns NaN if either operand is NaN, otherwise the larger operand.
///
/// A loop that replaces `b` must store every lane: the compiler may turn an `if` into stores of the
/// lanes that change, which are ten times as slow on AMD's CPUs. `select_unpredictable` prevents
/// that.
#[inline(always)]
pub(super) fn larger<T: LaneType>(a: T, b: T) -> T {
    let wins = (a > b) | is_nan(a);
    select_unpredictable(wins, a, b)
}

/// Returns NaN if either operand is NaN, otherwise the smaller operand.
#[inline(always)]
pub(super) fn smaller<T: LaneType>(a: T, b: T) -> T {
    let wins = (a < b) | is_nan(a);
    select_unpredictable(wins, a, b)
}

/// Implements [`LaneType`] for a float type. Each arm is a closure in a generic loop, so the
/// compiler vectorizes each operation separately.
macro_rules! float_lane {
    ($type:ident) => {
        impl LaneType for $type {
            #[inline(always)]
            fn unary(level: Level, op: Unary, d: &mut [Self], a: &[Self]) {
                match op {
                    Unary::Neg => map(d, a, |x| -x),
                    Unary::Abs => map(d, a, Self::abs),
                    Unary::Floor => map(d, a, Self::floor),
                    Unary::Ceil => map(d, a, Self::ceil),
                    Unary::Round => map(d, a, Self::round_ties_even),
                    Unary::Trunc => map(d, a, Self::trunc),
                    Unary::Sqrt => map(d, a, Self::sqrt),
                    Unary::Recip => map(d, a, |x| 1.0 / x),
                    Unary::IsNan | Unary::Not | Unary::CountOnes => {
                        unreachable!("{op:?} does not return a float")
                    }
                    _ => functions::unary(level, op, d, a),
                }
            }

            #[inline(always)]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_lossless,
                reason = "the definition in f64 is rounded to the type"
            )]
            fn binary(
                level: Level,
                op: Binary,
                d: &mut [Self],
                a: View<'_, Self>,
                b: View<'_, Self>,
            ) {
                match op {
                    Binary::Add => map2(d, a, b, |a, b| a + b),
                    Binary::Sub => map2(d, a, b, |a, b| a - b),
                    Binary::Mul => map2(d, a, b, |a, b| a * b),
                    Binary::Div => map2(d, a, b, |a, b| a / b),
                    Binary::Maximum => extreme(d, a, b, larger, |b, a| b >= a),
                    Binary::Minimum => extreme(d, a, b, smaller, |b, a| b <= a),
                    Binary::Pow => functions::pow(level, d, a, b),
                    // Rare operations are defined in f64 and rounded to the type.
                    _ => rare(d, a, b, |a, b| op.on_float(a as f64, b as f64) as Self),
                }
            }

            #[inline(always)]
            fn identity(op: Reduce) -> Self {
                match op {
                    Reduce::Prod => 1.0,
                    Reduce::Max => Self::NEG_INFINITY,
                    Reduce::Min => Self::INFINITY,
                    _ => 0.0,
                }
            }

            #[inline(always)]
            fn accumulate(op: Reduce, fold: Fold, d: &mut [Self], a: View<'_, Self>) {
                match op {
                    Reduce::Sum => fold_by(op, fold, d, a, Self::plus),
                    Reduce::Prod => fold_by(op, fold, d, a, Self::times),
                    Reduce::Max => fold_extremes(op, fold, d, a, larger, |a, d| a > d),
                    Reduce::Min => fold_extremes(op, fold, d, a, smaller, |a, d| a < d),
                    Reduce::All | Reduce::Any => unreachable!("{op:?} does not reduce floats"),
                }
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn dot4_i8(self, _: Self) -> Self {
                unreachable!("dot4_i8 is not defined on floats")
            }

            conversions! { $type, |x| u8::from(x != 0.0) }
        }
    };
}

/// The conversions of a lane. `as` rounds, truncates, saturates, wraps between integers, and
/// converts NaN to 0.
macro_rules! conversions {
    ($type:ident, $to_bool:expr) => {
        #[inline(always)]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_lossless,
            reason = "this is the conversion"
        )]
        fn to_f32(self) -> f32 {
            self as f32
        }
        #[inline(always)]
        #[allow(clippy::cast_lossless, reason = "this is the conversion")]
        fn to_f64(self) -> f64 {
            self as f64
        }
        #[inline(always)]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_lossless,
            reason = "this is the conversion"
        )]
        fn to_i32(self) -> i32 {
            self as i32
        }
        #[inline(always)]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_lossless,
            reason = "this is the conversion"
        )]
        fn to_u32(self) -> u32 {
            self as u32
        }
        #[inline(always)]
        fn to_bool(self) -> u8 {
            let f: fn($type) -> u8 = $to_bool;
            f(self)
        }
    };
}

float_lane! { f32 }
float_lane! { f64 }

/// Implements [`LaneType`] for an integer type; `$definition` evaluates the rare operations.
macro_rules! integer_lane {
    ($type:ident, $definition:ident, $negate:expr, $abs:expr, $count_ones:expr, $dot4_i8:expr) => {
        impl LaneType for $type {
            #[inline(always)]
            fn unary(_: Level, op: Unary, d: &mut [Self], a: &[Self]) {
                match op {
                    Unary::Neg => map(d, a, $negate),
                    Unary::Abs => map(d, a, $abs),
                    Unary::Not => map(d, a, |x| !x),
                    Unary::CountOnes => map(d, a, $count_ones),
                    _ => unreachable!("{op:?} is not defined on integers"),
                }
            }

            #[inline(always)]
            fn binary(_: Level, op: Binary, d: &mut [Self], a: View<'_, Self>, b: View<'_, Self>) {
                match op {
                    Binary::Add => map2(d, a, b, Self::wrapping_add),
                    Binary::Sub => map2(d, a, b, Self::wrapping_sub),
                    Binary::Mul => map2(d, a, b, Self::wrapping_mul),
                    Binary::Maximum => map2(d, a, b, larger),
                    Binary::Minimum => map2(d, a, b, smaller),
                    Binary::And => map2(d, a, b, |a, b| a & b),
                    Binary::Or => map2(d, a, b, |a, b| a | b),
                    Binary::Xor => map2(d, a, b, |a, b| a ^ b),
                    Binary::Shl => map2(d, a, b, |a, b| Binary::Shl.$definition(a, b)),
                    Binary::Shr => map2(d, a, b, |a, b| Binary::Shr.$definition(a, b)),
                    Binary::Dot4I8 => map2(d, a, b, Self::dot4_i8),
                    _ => rare(d, a, b, |a, b| op.$definition(a, b)),
                }
            }

            #[inline(always)]
            fn identity(op: Reduce) -> Self {
                match op {
                    Reduce::Prod => 1,
                    Reduce::Max => Self::MIN,
                    Reduce::Min => Self::MAX,
                    _ => 0,
                }
            }

            #[inline(always)]
            fn accumulate(op: Reduce, fold: Fold, d: &mut [Self], a: View<'_, Self>) {
                match op {
                    Reduce::Sum => fold_by(op, fold, d, a, Self::plus),
                    Reduce::Prod => fold_by(op, fold, d, a, Self::times),
                    Reduce::Max => fold_by(op, fold, d, a, |d, a| larger(a, d)),
                    Reduce::Min => fold_by(op, fold, d, a, |d, a| smaller(a, d)),
                    Reduce::All | Reduce::Any => unreachable!("{op:?} does not reduce integers"),
                }
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn dot4_i8(self, other: Self) -> Self {
                let dot4_i8: fn(Self, Self) -> Self = $dot4_i8;
                dot4_i8(self, other)
            }

            conversions! { $type, |x| u8::from(x != 0) }
        }
    };
}
integer_lane! {
    i32, on_i32, i32::wrapping_neg, i32::wrapping_abs, |x| x.count_ones().cast_signed(), dot4_i8
}
integer_lane! {
    u32, on_u32, u32::wrapping_neg, |x| x, u32::count_ones,
    |a, b| dot4_i8(a.cast_signed(), b.cast_signed()).cast_unsigned()
}

impl LaneType for u8 {
    #[inline(always)]
    fn unary(_: Level, op: Unary, d: &mut [Self], a: &[Self]) {
        match op {
            Unary::Not => map(d, a, |x| x ^ 1),
            _ => unreachable!("{op:?} is not defined on bool"),
        }
    }

    #[inline(always)]
    fn binary(_: Level, op: Binary, d: &mut [Self], a: View<'_, Self>, b: View<'_, Self>) {
        match op {
            Binary::And => map2(d, a, b, |a, b| a & b),
            Binary::Or => map2(d, a, b, |a, b| a | b),
            Binary::Xor => map2(d, a, b, |a, b| a ^ b),
            _ => unreachable!("{op:?} is not defined on bool"),
        }
    }

    #[inline(always)]
    fn identity(op: Reduce) -> Self {
        // `All` starts with true, `Any` with false.
        Self::from(op == Reduce::All)
    }

    #[inline(always)]
    fn accumulate(op: Reduce, fold: Fold, d: &mut [Self], a: View<'_, Self>) {
        match op {
            Reduce::All => fold_by(op, fold, d, a, |d, a| d & a),
            Reduce::Any => fold_by(op, fold, d, a, |d, a| d | a),
            _ => unreachable!("{op:?} does not reduce bool"),
        }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn dot4_i8(self, _: Self) -> Self {
        unreachable!("dot4_i8 is not defined on bool")
    }

    conversions! { u8, |x| x }
}

/// An element type with its lane type.
pub(super) trait Stored: Element {
    /// The lane type of the elements.
    type Lane: LaneType;
    /// Returns the lane of an element.
    fn load(self) -> Self::Lane;
    /// Returns the element of a lane.
    fn store(lane: Self::Lane) -> Self;
    /// Returns elements as lanes without conversion, or `None` if each element must be converted.
    fn as_lanes(data: &[Self]) -> Option<&[Self::Lane]>;
    /// Returns the bytes of elements to which lanes may be written without conversion, or `None` if
    /// each lane must be converted.
    fn as_bytes_mut(data: &mut [Self]) -> Option<&mut [u8]>;
}

/// Runs `$body` with `$out` defined as the same elements, which are floats, as elements of their
/// own type.
macro_rules! with_floats {
    ($elements:expr, $out:ident => $body:expr) => {{
        let dtype = crate::exec::host::lanes::element_type($elements);
        let Some(bytes) = crate::exec::host::lanes::Stored::as_bytes_mut($elements) else {
            unreachable!("f32 and f64 are their own lanes");
        };
        match dtype {
            crate::DType::F64 => {
                let $out: &mut [f64] = bytemuck::cast_slice_mut(bytes);
                $body
            }
            _ => {
                let $out: &mut [f32] = bytemuck::cast_slice_mut(bytes);
                $body
            }
        }
    }};
}
pub(super) use with_floats;

/// Returns the type of elements.
pub(super) fn element_type<T: Stored>(_: &[T]) -> DType {
    T::DTYPE
}

/// Implements [`Stored`] for types whose elements are their own lanes.
macro_rules! stored_as_is {
    ($($type:ident)*) => {$(
        impl Stored for $type {
            type Lane = Self;
            #[inline(always)]
            fn load(self) -> Self {
                self
            }
            #[inline(always)]
            fn store(lane: Self) -> Self {
                lane
            }
            #[inline(always)]
            fn as_lanes(data: &[Self]) -> Option<&[Self]> {
                Some(data)
            }
            #[inline(always)]
            fn as_bytes_mut(data: &mut [Self]) -> Option<&mut [u8]> {
                Some(bytemuck::cast_slice_mut(data))
            }
        }
    )*};
}
stored_as_is! { f32 f64 i32 u32 }

impl Stored for bool {
    type Lane = u8;
    #[inline(always)]
    fn load(self) -> u8 {
        u8::from(self)
    }
    #[inline(always)]
    fn store(lane: u8) -> Self {
        // A `bool` must be exactly 0 or 1, so lanes are converted when they are stored.
        lane != 0
    }
    #[inline(always)]
    fn as_lanes(data: &[Self]) -> Option<&[u8]> {
        Some(bytemuck::cast_slice(data))
    }
    #[inline(always)]
    fn as_bytes_mut(_: &mut [Self]) -> Option<&mut [u8]> {
        None
    }
}

impl Stored for f16 {
    type Lane = f32;
    #[inline(always)]
    fn load(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn store(lane: f32) -> Self {
        Self::from_f32(lane)
    }
    #[inline(always)]
    fn as_lanes(_: &[Self]) -> Option<&[f32]> {
        None
    }
    #[inline(always)]
    fn as_bytes_mut(_: &mut [Self]) -> Option<&mut [u8]> {
        None
    }
}

/// Returns elements as lanes without conversion, or `None` if that is not possible.
#[inline(always)]
pub(super) fn lanes_of<T: Stored>(data: &HostData) -> Option<&[T::Lane]> {
    T::as_lanes(T::slice(data)?)
}

/// Returns `true` if elements of a type are lanes without conversion.
pub(super) fn are_lanes(dtype: DType) -> bool {
    dtype != DType::F16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the maximum or minimum of two blocks of lanes that share accumulators.
    fn extreme_of<T: LaneType>(level: Level, op: Reduce, blocks: [&[T]; 2]) -> T {
        let mut accumulators = [T::identity(op); FOLDED_LANES];
        for block in blocks {
            let how = Fold::Together(block.len());
            level.dispatch(|| T::accumulate(op, how, &mut accumulators, View::Lanes(block)));
        }
        total(op, &accumulators)
    }

    #[test]
    fn the_extreme_of_blocks_is_that_of_their_numbers_or_nan() {
        let levels: Vec<Level> = Level::all().into_iter().filter_map(|it| it.1).collect();
        for (len, special) in [1, 2, 31, 32, 33, 63, 64, 65, 100]
            .into_iter()
            .flat_map(|len| {
                let specials = [9.0, -9.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
                specials.map(|special| (len, special))
            })
        {
            for place in 0..len {
                let mut numbers: Vec<f32> = (0..len).map(|at| (at as f32 * 7.7).sin()).collect();
                numbers[place] = special;
                check_extremes(&levels, &numbers, &format!("{special} at {place} of {len}"));
            }
        }
    }

    /// Compares extremes at each level and of both types with the definition, on the block before
    /// and after another block.
    fn check_extremes(levels: &[Level], block: &[f32], case: &str) {
        const OTHER: [f32; 3] = [0.25, -0.5, 0.75];
        let wide: Vec<f64> = block.iter().map(|&x| x.into()).collect();
        let wide_other = OTHER.map(f64::from);
        for op in [Reduce::Max, Reduce::Min] {
            let better = |a: f32, b: f32| if (a > b) == (op == Reduce::Max) { a } else { b };
            let has_nan = block.iter().any(|x| x.is_nan());
            let expected = block.iter().copied().fold(OTHER[0], better);
            let expected = OTHER.into_iter().fold(expected, better);
            let expected = if has_nan { f32::NAN } else { expected };
            for &level in levels {
                for blocks in [[block, &OTHER], [&OTHER, block]] {
                    let actual = extreme_of(level, op, blocks);
                    assert_eq!(actual.to_string(), expected.to_string(), "{op:?}, {case}");
                }
                for blocks in [[&wide[..], &wide_other], [&wide_other, &wide]] {
                    let actual = extreme_of(level, op, blocks);
                    let expected = f64::from(expected).to_string();
                    assert_eq!(actual.to_string(), expected, "f64 {op:?}, {case}");
                }
            }
        }
    }
}
