//! How far the standardised inverse Gaussian is from the normal law, to the last digits.
//!
//! Role: for `Y = (X - E X)/sqrt(Var X)`, `X` inverse Gaussian with `k = sqrt(λ/μ)`, and `Z` standard normal: five
//! distances that are all of order `1/k` (the divergence of order `1/k²`), their constants and bounds. Since the law of
//! a sum of `n` is that of one with `sqrt(n) k`, they are exact Berry–Esseen defects as well.
//! Method: with `u = ln(1 + y/k)` the log ratio of the densities is `g = k²t³/(2(1 + t)) - 3u/2`, `t = y/k`. It is 0
//! at 0 for every `k`, and once on each side, `y∓`. With `D` the difference of the distribution functions, every distance
//! follows from `D`, `g` and the integral of `D` at such crossings, and each of those is written so that nothing
//! cancels: to leading order they are small differences of numbers near 1, and for `k = 1e6` would lose six digits.
//! Accuracy: 1e-12 relative for `k` from 0.03125 to 1e6, tested against golden values.
//! Source: the limits: Feller 1971, "An introduction to probability theory" II, XVI.4, the Edgeworth expansion; closed
//! forms and bounds: our derivation, checked by quadrature.
//!
//! # Examples
//! ```
//! use distributions::normality;
//!
//! // The distance halves where k doubles.
//! let ratio = normality::total_variation(1e3)? / normality::total_variation(2e3)?;
//! assert!((ratio - 2.0).abs() < 1e-6);
//! # Ok::<(), distributions::Error>(())
//! ```

use crate::Error;
use crate::point::INV_SQRT_2PI;
use crate::quadrature::integrate;
use crate::root::bracketed;
use crate::special::erfcx::{erfcx, slope};
use crate::special::exponential_integral::scaled_e1;
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

/// Relative error asked of quadrature; only that of Hellinger's distance counts.
const TOLERANCE: f64 = 1e-13;
/// Normal numbers beyond this have densities that no sum notices.
const FAR: f64 = 40.0;

/// What `k` may be.
const RATIOS: std::ops::RangeInclusive<f64> = 1e-6..=1e15;

/// The leading constants: a distance is its constant divided by `k`, but for `KL`, which is divided by `k²`.
pub mod constants {
    /// `n(0)/2`, with `n` the normal density.
    pub const KOLMOGOROV: f64 = 0.199_471_140_200_716_35;
    /// `(n(0) + 4 n(√3))/2`, a quarter of `E |Z³ - 3Z|`.
    pub const TOTAL_VARIATION: f64 = 0.377_503_250_032_619_3;
    /// `√3/4`.
    pub const HELLINGER: f64 = 0.433_012_701_892_219_3;
    /// `3/4`.
    pub const KL: f64 = 0.75;
    /// `2 n(1)`.
    pub const WASSERSTEIN1: f64 = 0.483_941_449_038_286_7;
}

/// Gives `sup |F_Y - Φ|`, for `k` from 1e-6 to 1e15.
///
/// From `k = 1.20855…` on the supremum is at 0 and has the closed form `erfcx(√2 k)/2`.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside that, or NaN.
pub fn kolmogorov(k: f64) -> Result<f64, Error> {
    let k = checked("normality::kolmogorov", k)?;
    let [left, right] = density_crossings(k);
    let at_crossings = cdf_difference(k, left)
        .abs()
        .max(cdf_difference(k, right).abs());
    Ok(at_crossings.max(0.5 * erfcx(SQRT_2 * k)))
}

/// Gives bounds of [`kolmogorov`], `c/k (1 - 1/(4k²)) <= d <= c/k` with `c` of [`constants`], for `k >= 1.20856`.
///
/// Each end is rounded: where `k` is so large that the ends meet, `d` may lie an epsilon or two beyond. The lower end is one
/// of [`total_variation`] as well, which is never smaller than `d`. Below 1.20856 no bounds are known to us, and they are 0
/// and 1.
///
/// # Errors
/// As [`kolmogorov`].
pub fn kolmogorov_bounds(k: f64) -> Result<[f64; 2], Error> {
    /// The supremum moves to 0 just before.
    const FROM: f64 = 1.208_56;
    let k = checked("normality::kolmogorov_bounds", k)?;
    let upper = constants::KOLMOGOROV / k;
    Ok(if k >= FROM {
        [upper * (1.0 - 0.25 / k / k), upper]
    } else {
        [0.0, 1.0]
    })
}

/// Gives `sup |P(Y ∈ A) - P(Z ∈ A)|` over all sets, half the integral of the difference of the densities, for `k` from 1e-6 to 1e15.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside that, or NaN.
pub fn total_variation(k: f64) -> Result<f64, Error> {
    let k = checked("normality::total_variation", k)?;
    let [left, right] = density_crossings(k);
    Ok(0.5 * erfcx(SQRT_2 * k) - cdf_difference(k, left) - cdf_difference(k, right))
}

/// Gives `sqrt(1 - ∫ sqrt(f_Y f_Z))`, for `k` from 1e-6 to 1e15.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside that, or NaN.
pub fn hellinger(k: f64) -> Result<f64, Error> {
    let k = checked("normality::hellinger", k)?;
    // Half the integral of (√f_Y - √f_Z)², in u.
    let integrand = |u: f64| {
        let at = At::of(k, u);
        let (larger, drop) = if at.g > 0.0 {
            (at.density(k), -at.g)
        } else {
            (normal_pdf(at.y), at.g)
        };
        0.5 * larger * (0.5 * drop).exp_m1().powi(2) * k * u.exp()
    };
    // Left of -FAR neither density counts; what u leaves out near -k is below rounding.
    let low = if k > 2.0 * FAR {
        (-FAR / k).ln_1p()
    } else {
        -2.0 * FAR
    };
    let high = 2.0 * (0.5 * FAR / k).asinh();
    let [left, right] = density_crossings(k).map(|y| (y / k).ln_1p());
    let pieces = [low, 0.5 * low, left, 0.0, right, 0.5 * (right + high), high];
    let mut points = pieces.to_vec();
    points.sort_by(f64::total_cmp);
    let square = integrate(integrand, &points, TOLERANCE).value;
    // Left of -k there are normal numbers only.
    let beyond = 0.25 * (-0.5 * k * k).exp() * erfcx(k * FRAC_1_SQRT_2);
    Ok((square + beyond).sqrt())
}

/// Gives the Kullback–Leibler divergence `∫ f_Y ln(f_Y/f_Z)` in nats, `(3/2) exp(2k²) E1(2k²)`, for `k` from 1e-6 to 1e15.
///
/// The other direction is infinite, since `Y` has no values below `-k`.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside that, or NaN.
pub fn kl(k: f64) -> Result<f64, Error> {
    let k = checked("normality::kl", k)?;
    let x = 2.0 * k * k;
    Ok(1.5 * scaled_e1(x, x.ln()))
}

/// Gives the Wasserstein distance of order 1, `∫ |F_Y - Φ|`, for `k` from 1e-6 to 1e15.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside that, or NaN.
pub fn wasserstein1(k: f64) -> Result<f64, Error> {
    let k = checked("normality::wasserstein1", k)?;
    // D is negative, positive and negative again; its integral is 0, since the means are equal.
    let [left, right] = density_crossings(k);
    let first = bracketed(|y| cdf_difference(k, y), left, 0.0);
    let second = bracketed(|y| cdf_difference(k, y), 0.0, right);
    Ok(2.0 * (integral_of_difference(k, second) - integral_of_difference(k, first)))
}

/// Gives `k` back if it is one for which the methods here hold their digits.
fn checked(operation: &'static str, k: f64) -> Result<f64, Error> {
    if RATIOS.contains(&k) {
        Ok(k)
    } else {
        Err(Error::RatioInvalid { operation, k })
    }
}

/// A point of `Y`, from `u = ln(1 + y/k)`.
struct At {
    y: f64,
    u: f64,
    /// `k²t³/(2(1 + t))`, which is `(y² - w²)/2`.
    cube: f64,
    /// Logarithm of the ratio of the densities.
    g: f64,
}

impl At {
    fn of(k: f64, u: f64) -> Self {
        let t = u.exp_m1();
        // t²/(1 + t) = 4 sinh²(u/2).
        let root = 2.0 * k * (0.5 * u).sinh();
        let cube = 0.5 * t * root * root;
        Self {
            y: k * t,
            u,
            cube,
            g: cube - 1.5 * u,
        }
    }

    /// Gives the density of `Y`, by its signed root `w = 2k sinh(u/2)`.
    fn density(&self, k: f64) -> f64 {
        normal_pdf(2.0 * k * (0.5 * self.u).sinh()) * (-1.5 * self.u).exp()
    }
}

/// Gives the two points besides 0 at which the densities are equal.
fn density_crossings(k: f64) -> [f64; 2] {
    // g/t, which is -3/2 at 0 and changes its sign once on each side.
    let ratio = |u: f64| {
        let root = 2.0 * k * (0.5 * u).sinh();
        0.5 * root * root - 1.5 * if u == 0.0 { 1.0 } else { u / u.exp_m1() }
    };
    [-1.0, 1.0].map(|side| {
        // At this distance the first term is small, whatever k is.
        let mut far = side * 0.1 / k.max(1.0);
        while ratio(far) < 0.0 {
            far *= 2.0;
        }
        k * bracketed(ratio, 0.5 * far, far).exp_m1()
    })
}

/// Gives `D(y) = F_Y(y) - Φ(y)` for `y > -k`.
fn cdf_difference(k: f64, y: f64) -> f64 {
    let root = (1.0 + y / k).sqrt();
    // w - y, without subtracting them.
    let shift = -y * (y / k) / (root * (1.0 + root));
    let w = y / root;
    let moved = integrate(
        |s| shift * normal_pdf(y + s * shift),
        &[0.0, 1.0],
        TOLERANCE,
    )
    .value;
    let v = (k + (k + y)) / root;
    moved + 0.5 * (-0.5 * w * w).exp() * erfcx(v * FRAC_1_SQRT_2)
}

/// Gives the integral of `D` up to `a`.
fn integral_of_difference(k: f64, a: f64) -> f64 {
    let at = At::of(k, (a / k).ln_1p());
    let b = (k + (k + a)) / (1.0 + a / k).sqrt() * FRAC_1_SQRT_2;
    // a Φ(w) + √r n(w) √π b erfcx(b) less a Φ(a) + n(a), with n(w)/n(a) = exp(cube) and √π b erfcx(b) = 1 - rest.
    let rest = 0.5 * PI.sqrt() * slope(b, b);
    let growth = at.cube + 0.5 * at.u;
    let by_root = normal_pdf(a) * (growth.exp_m1() - growth.exp() * rest);
    let second = 0.5 * (-0.5 * a * a + at.cube).exp() * erfcx(b);
    a * (cdf_difference(k, a) - second) + by_root
}

fn normal_pdf(x: f64) -> f64 {
    INV_SQRT_2PI * (-0.5 * x * x).exp()
}
