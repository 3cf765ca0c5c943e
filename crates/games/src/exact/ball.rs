//! Floats with an error bound (ball arithmetic).
//!
//! Role: decides most signs of a vertex enumeration with a few float operations. Signs that a ball
//! cannot decide are computed in integers, so no decision depends on rounding.
//! Method: a ball is a middle and a radius, and contains the exact number. Each operation adds to
//! the radius the uncertainty of its operands, a bound of its own rounding error, the rounding
//! error of the radius itself (its few terms are nonnegative, so its relative error is a few units
//! of roundoff), and the least normal number where a product may underflow. An overflow makes the
//! radius infinite or NaN, and the sign stays undecided.
//! Source: Rump 1999, "Fast and parallel interval arithmetic"; van der Hoeven 2009, "Ball
//! arithmetic".

use super::integer::TableauNumber;
use crate::Rational;
use crate::number::nearest;
use num_bigint::BigInt;
use std::cmp::Ordering;

/// Factor above the relative error of the dozen additions and products that compute a radius.
const INFLATION: f64 = 1.0 + 16.0 * f64::EPSILON;

/// A number within `radius` of `middle`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ball {
    middle: f64,
    radius: f64,
}

impl Ball {
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let middle = self.middle * other.middle;
        let open = self.middle.abs() * other.radius
            + self.radius * (other.middle.abs() + other.radius)
            + middle.abs() * f64::EPSILON;
        Self {
            middle,
            radius: open * INFLATION + f64::MIN_POSITIVE,
        }
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        let middle = self.middle - other.middle;
        let open = self.radius + other.radius + middle.abs() * f64::EPSILON;
        Self {
            middle,
            radius: open * INFLATION,
        }
    }

    /// Divides; the result is unbounded if the divisor may be 0.
    ///
    /// `a/b − m/n = (a − m/n b)/b` for middles m and n, at most `(radius of a + |m/n| radius of b)
    /// / (|n| − radius of b)`.
    #[inline(always)]
    fn over(self, other: Self) -> Self {
        let middle = self.middle / other.middle;
        let least = other.middle.abs() - other.radius * INFLATION;
        let above = self.radius + middle.abs() * other.radius + f64::MIN_POSITIVE;
        let open = above / (least / INFLATION);
        let radius = if least > f64::MIN_POSITIVE {
            (open + middle.abs() * f64::EPSILON) * INFLATION + f64::MIN_POSITIVE
        } else {
            f64::INFINITY
        };
        Self { middle, radius }
    }
}

impl TableauNumber for Ball {
    /// Converts `integer / 2^bits`, which is at most 1, so that determinants stay in range.
    fn from_big(integer: &BigInt, bits: u64) -> Option<Self> {
        let middle = nearest(&Rational::new(integer.clone(), BigInt::from(1) << bits));
        let radius = middle.abs() * f64::EPSILON + f64::MIN_POSITIVE;
        Some(Self { middle, radius })
    }

    fn one() -> Self {
        Self {
            middle: 1.0,
            radius: 0.0,
        }
    }

    fn negated(&self) -> Option<Self> {
        Some(Self {
            middle: -self.middle,
            radius: self.radius,
        })
    }

    fn sign(&self) -> Option<Ordering> {
        if self.middle > self.radius {
            Some(Ordering::Greater)
        } else if -self.middle > self.radius {
            Some(Ordering::Less)
        } else {
            None
        }
    }

    fn compare_products(a: &Self, b: &Self, c: &Self, d: &Self) -> Option<Ordering> {
        a.times(*b).minus(c.times(*d)).sign()
    }

    fn eliminate(
        row: &mut [Self],
        pivot_row: &[Self],
        pivot: &Self,
        factor: &Self,
        divisor: &Self,
    ) -> bool {
        // The division comes first: it needs one quotient per row, and no product of two
        // determinants can overflow.
        let (pivot, factor) = (pivot.over(*divisor), factor.over(*divisor));
        for (entry, across) in row.iter_mut().zip(pivot_row) {
            *entry = entry.times(pivot).minus(factor.times(*across));
        }
        true
    }

    fn size(&self) -> f64 {
        self.middle.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::exact_float;
    use num_traits::{Signed, Zero};
    use tensor_core::rng::Philox;

    fn holds(ball: Ball, number: &Rational) -> bool {
        let is_open = !ball.radius.is_finite();
        let off = (number - exact_float(ball.middle)).abs();
        is_open || off <= exact_float(ball.radius)
    }

    /// Compares chains of operations on numbers of all sizes, including differences of equal
    /// numbers, with the results in fractions.
    #[test]
    fn balls_hold_the_exact_number() {
        let mut n_decided = 0;
        for chain in 0..300 {
            let random = Philox::new(11).stream(chain);
            let bits = 1 + u64::from(random.word(0) % 200);
            let mut numbers: Vec<(Ball, Rational)> = Vec::new();
            for at in 1..5 {
                let words = random.block(at).map(BigInt::from);
                let integer = words
                    .into_iter()
                    .fold(BigInt::ZERO, |all, word| (all << 32) + word);
                let integer = integer >> (128 - bits.min(128));
                let exact = Rational::new(integer.clone(), BigInt::from(1) << bits);
                numbers.push((Ball::from_big(&integer, bits).unwrap(), exact));
                // A float is exact (radius 0), so only the operation's own rounding must be
                // covered.
                let (middle, radius) = (random.normal(at), 0.0);
                numbers.push((Ball { middle, radius }, exact_float(middle)));
                // A number at the edge of its ball needs the whole radius.
                let edge = exact_float(middle) + exact_float(0.25);
                let radius = 0.25;
                numbers.push((Ball { middle, radius }, edge));
            }
            for step in 100..130 {
                let pick = |at| random.word(at) as usize % numbers.len();
                let (a, x) = numbers[pick(3 * step)].clone();
                let (b, y) = numbers[pick(3 * step + 1)].clone();
                let (ball, exact) = match random.word(3 * step + 2) % 4 {
                    0 if !y.is_zero() => (a.over(b), x / y),
                    1 => (a.times(b), x * y),
                    _ => (a.minus(b), x - y),
                };
                assert!(holds(ball, &exact), "{ball:?} {exact}");
                assert!(
                    ball.sign()
                        .is_none_or(|sign| sign == exact.cmp(&Rational::zero()))
                );
                n_decided += usize::from(ball.sign().is_some());
                if exact.numer().bits() < 5000 {
                    numbers.push((ball, exact));
                }
            }
        }
        assert!(n_decided > 3000, "{n_decided}");
    }

    #[test]
    fn what_leaves_the_range_of_floats_decides_nothing() {
        let huge = Ball {
            middle: f64::MAX,
            radius: 0.0,
        };
        let tiny = Ball {
            middle: f64::MIN_POSITIVE,
            radius: 0.0,
        };
        let zero = Ball {
            middle: 0.0,
            radius: 0.0,
        };
        for open in [
            huge.times(huge),
            tiny.times(tiny),
            huge.over(tiny),
            Ball::one().over(zero),
        ] {
            assert_eq!(open.sign(), None, "{open:?}");
        }
        assert_eq!(huge.times(huge).minus(huge.times(huge)).sign(), None);
    }
}
