//! Powers.
//!
//! Method: `x^y = e^(y ln x)`. The absolute error of `y ln x` becomes the relative error of the
//! power, so `ln x` needs a relative error far below that of a float. It is computed as the sum of
//! two floats: `x = 2^k m` with m in [√½, √2), `s = (m − 1) / (m + 1)`, and
//! ```text
//! ln m = 2 atanh s = s (2 + s² (2/3 + Q(s²)))
//! ```
//! where s, 2/3 s² and the products with s are sums of two floats. The second float of such a sum
//! is not always below the last place of the first; the sums are normalized once, after the product
//! with y.
//! Source: the error-free sums and products are those of Dekker 1971, with fused products.

/// Defines the functions of powers for a float type. The names in capitals, and the functions that
/// are not defined here, are those of the module where the macro is called.
macro_rules! powers {
    ($float:ident) => {
        /// Returns whether the arguments are valid for [`of_usual`].
        #[inline(always)]
        pub(super) fn is_usual(x: $float, y: $float) -> bool {
            /// The number of bit patterns from the smallest normal number to infinity.
            const NORMAL: Bits = $float::INFINITY.to_bits() - $float::MIN_POSITIVE.to_bits();
            let place = x.to_bits().wrapping_sub($float::MIN_POSITIVE.to_bits());
            (place < NORMAL) & (y.abs() <= LARGEST_EXPONENT)
        }

        /// Returns `x` to the power of `y`, for a positive, normal and finite `x`, and |y| up to
        /// `LARGEST_EXPONENT`.
        #[inline(always)]
        pub(super) fn of_usual(x: $float, y: $float) -> $float {
            power(ln(x, 0.0), y)
        }

        /// Returns `x` to the power of `y`, for any arguments.
        ///
        /// The conditions are combined by `&` and `|` instead of `&&` and `||`: both sides are
        /// evaluated, so no branch remains.
        #[inline(always)]
        pub(super) fn of_any(x: $float, y: $float) -> $float {
            let size = x.abs();
            let (normal, lifted) = lift(size);
            let exponent = y.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT);
            let result = power(ln(normal, lifted), exponent);
            // The logarithms of 0 and infinity are infinite, and the sums above are invalid.
            let grows = (size == 0.0) == (y < 0.0);
            let limit = if grows { $float::INFINITY } else { 0.0 };
            let has_limit = (size == 0.0) | (size == $float::INFINITY);
            let result = if has_limit { limit } else { result };

            // A negative number has only whole powers, and its odd powers are negative; −0 and −∞
            // have all powers.
            let is_whole = y.trunc() == y;
            let is_odd = is_whole & ((0.5 * y).trunc() != 0.5 * y);
            let exists = (x >= 0.0) | is_whole | has_limit;
            let is_nan = x.is_nan() | y.is_nan() | !exists;
            let result = if is_nan { $float::NAN } else { result };
            let is_one = (y == 0.0) | (x == 1.0);
            let result = if is_one { 1.0 } else { result };
            if is_odd & x.is_sign_negative() {
                -result
            } else {
                result
            }
        }

        /// Returns the natural logarithm of `x / 2^lifted` as the sum of two floats, for a
        /// positive, normal and finite `x`.
        #[inline(always)]
        fn ln(x: $float, lifted: $float) -> [$float; 2] {
            /// The first coefficients of the series, as floats.
            const TWO_THIRDS: $float = 2.0 / 3.0;
            const TWO_FIFTHS: $float = 0.4;

            let (k, m) = split(x, std::$float::consts::FRAC_1_SQRT_2);
            // The sum m + 1 may lose the last bit of m.
            let f = m - 1.0;
            let sum = m + 1.0;
            let sum_low = m - (sum - 1.0);
            let reciprocal = 1.0 / sum;
            let s = f * reciprocal;
            let s_low = s.mul_add(-sum_low, s.mul_add(-sum, f)) * reciprocal;

            // The small terms are added first, so that few operations depend on the polynomial.
            let z = s * s;
            let z_low = (s + s).mul_add(s_low, s.mul_add(s, -z));
            let t = z.mul_add(TWO_FIFTHS, TWO_THIRDS);
            let t_low = z.mul_add(TWO_FIFTHS, TWO_THIRDS - t) + TWO_THIRDS_LOW;
            let a = z * t;
            let a_low = z_low.mul_add(t, z.mul_add(t, -a));
            let b = 2.0 + a;
            let tail = (z * z).mul_add(ln_tail(z), t_low);
            let b_low = z.mul_add(tail, ((2.0 - b) + a) + a_low);
            let c = s * b;
            let c_low = s_low.mul_add(b, s.mul_add(b, -c));
            let d = k - lifted;
            let high = d * LN_2_HIGH;
            let total = high + c;
            let total_low = (c - (total - high)) + d.mul_add(LN_2_LOW, c_low);
            [total, s.mul_add(b_low, total_low)]
        }

        /// Returns e to the power of `y (high + low)`, for |y| up to `LARGEST_EXPONENT` or NaN, and
        /// |low| ≤ 2^-17 |high|.
        #[inline(always)]
        fn power([high, low]: [$float; 2], y: $float) -> $float {
            let z = y * high;
            let z_low = y.mul_add(high, -z);
            // Beyond the limits the result is 0 or infinite. `clamp` returns NaN for NaN.
            let within = z.clamp(LEAST_LN, LARGEST_LN);
            let (exponent, n) = nearest_exponent(within);
            let r = n.mul_add(-LN_2_HIGH, within);
            let r_low = y.mul_add(low, n.mul_add(-LN_2_LOW, z_low));
            exp_of_sum(exponent, r, if within == z { r_low } else { 0.0 })
        }

        /// Returns `2^n e^(r + low)`, for a word whose low bits represent n, |r| up to about
        /// ln 2 / 2, and a small `low`.
        #[inline(always)]
        pub(super) fn exp_of_sum(exponent: Bits, r: $float, low: $float) -> $float {
            let sum = r + low;
            let sum_low = (r - sum) + low;
            // e^r is the sum of 1 + r, whose rounding error is added back, and the tail.
            let one = 1.0 + sum;
            let one_low = (1.0 - one) + sum;
            let tail = (sum * sum).mul_add(exp_tail(sum), sum_low);
            let [first, second] = factors(exponent);
            (one + (one_low + tail)) * first * second
        }
    };
}
pub(super) use powers;
