//! Sine and cosine.
//!
//! Method: up to a large |x| the functions subtract the nearest multiple `n π/2`, and approximate
//! the sine or cosine of the remainder by a polynomial. π/2 is the sum of three floats, and the
//! remainder that of two (Cody and Waite). Larger arguments are left to other functions.

/// Defines sine and cosine of a float type. The names in capitals, and the functions that are not
/// defined here, are those of the module where the macro is called.
macro_rules! sines {
    ($float:ident) => {
        /// Returns whether an argument is valid for [`sin_of_usual`] and [`cos_of_usual`].
        #[inline(always)]
        pub(super) fn is_usual(x: $float) -> bool {
            x.abs() < LARGE_ANGLE
        }

        /// Returns the sine of `x`, for |x| < `LARGE_ANGLE`.
        #[inline(always)]
        pub(super) fn sin_of_usual(x: $float) -> $float {
            // A sign that is set last keeps that of a zero.
            let sign = x.to_bits() & (-0.0 as $float).to_bits();
            $float::from_bits(sin_ahead(x.abs(), 0).to_bits() ^ sign)
        }

        /// Returns the cosine of `x`, for |x| < `LARGE_ANGLE`.
        #[inline(always)]
        pub(super) fn cos_of_usual(x: $float) -> $float {
            sin_ahead(x.abs(), 1)
        }

        /// Returns the sine of `x + lead π/2`, for 0 ≤ x < `LARGE_ANGLE`.
        #[inline(always)]
        fn sin_ahead(x: $float, lead: Bits) -> $float {
            let (n, r, low) = remainder(x);
            let n = n.wrapping_add(lead);
            let is_odd = n & 1 == 1;
            let size = if is_odd { cos(r, low) } else { sin(r, low) };
            // Half turns change the sign.
            $float::from_bits(size.to_bits() ^ ((n >> 1) << (Bits::BITS - 1)))
        }

        /// Returns a word whose low bits are those of the whole number n next to `2x / π`, and
        /// `x − n π/2` as the sum of two floats, for 0 ≤ x < `LARGE_ANGLE`.
        #[inline(always)]
        fn remainder(x: $float) -> (Bits, $float, $float) {
            let shifted = x.mul_add(std::$float::consts::FRAC_2_PI, ROUND);
            let n = shifted - ROUND;
            // Exact, because `first` is below 1 and a multiple of the last place of x or of the
            // first part.
            let first = n.mul_add(-HALF_PI[0], x);
            // The rounding errors of product and difference are computed exactly. The difference
            // may be much smaller than `first`; its error is exact because `first` is a multiple of
            // the last place of `second` (Dekker).
            let second = n * HALF_PI[1];
            let second_low = n.mul_add(HALF_PI[1], -second);
            let r = first - second;
            let lost = (first - r) - second;
            (
                shifted.to_bits(),
                r,
                n.mul_add(-HALF_PI[2], lost - second_low),
            )
        }

        /// Returns the sine of `r + low`, for |r| up to π/4.
        #[inline(always)]
        fn sin(r: $float, low: $float) -> $float {
            let z = r * r;
            r + (r * z).mul_add(sin_tail(z), low)
        }

        /// Returns the cosine of `r + low`, for |r| up to π/4.
        #[inline(always)]
        fn cos(r: $float, low: $float) -> $float {
            let z = r * r;
            // The rounding error of 1 − r² / 2 is added back. The derivative of the cosine at r is
            // about −r, which is precise enough for `low`.
            let half = 0.5 * z;
            let one = 1.0 - half;
            let lost = (1.0 - one) - half;
            one + (z * z).mul_add(cos_tail(z), r.mul_add(-low, lost))
        }
    };
}
pub(super) use sines;
