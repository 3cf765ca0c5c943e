//! The functions of f64: those of the standard library and of `libm`, one element at a time.

use super::{CHUNK, Chunks, Math};

impl Math for f64 {
    #[inline(always)]
    fn exp(x: Self) -> Self {
        x.exp()
    }

    #[inline(always)]
    fn exp_m1(x: Self) -> Self {
        x.exp_m1()
    }

    #[inline(always)]
    fn ln(x: Self) -> Self {
        x.ln()
    }

    #[inline(always)]
    fn ln_1p(x: Self) -> Self {
        x.ln_1p()
    }

    #[inline(always)]
    fn tanh(x: Self) -> Self {
        x.tanh()
    }

    #[inline(always)]
    fn sigmoid(x: Self) -> Self {
        // The exponential of −|x| is at most 1, so it does not overflow, and small results keep
        // their accuracy.
        let e = (-x.abs()).exp();
        (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
    }

    #[inline(always)]
    fn erf(x: Self) -> Self {
        libm::erf(x)
    }

    #[inline(always)]
    fn erfc(x: Self) -> Self {
        libm::erfc(x)
    }

    #[inline(always)]
    fn sin(x: Self) -> Self {
        x.sin()
    }

    #[inline(always)]
    fn cos(x: Self) -> Self {
        x.cos()
    }

    #[inline(always)]
    fn pow(x: Self, y: Self) -> Self {
        x.powf(y)
    }
}

impl Chunks for f64 {
    #[inline(always)]
    fn sin_chunk(x: &[Self; CHUNK], sines: &mut [Self; CHUNK]) {
        for_each_lane!(Math::sin, x, sines);
    }

    #[inline(always)]
    fn cos_chunk(x: &[Self; CHUNK], cosines: &mut [Self; CHUNK]) {
        for_each_lane!(Math::cos, x, cosines);
    }

    #[inline(always)]
    fn pow_chunk(x: &[Self; CHUNK], y: &[Self; CHUNK], powers: &mut [Self; CHUNK]) {
        for_each_lane!(Math::pow, x, y, powers);
    }
}
