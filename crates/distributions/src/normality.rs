//! Distances between the standardized inverse Gaussian and the normal distribution, in full f64
//! accuracy.
//!
//! Role: for `Y = (X - E X)/sqrt(Var X)`, with `X` inverse Gaussian and `k = sqrt(λ/μ)`, and for a
//! standard normal `Z`: five distances of order `1/k` (order `1/k²` for the divergence), with their
//! constants and bounds. The sum of `n` independent copies of `X` is an inverse Gaussian with
//! `sqrt(n) k` in place of `k`, so the distances are also exact Berry–Esseen errors.
//! Method: with `u = ln(1 + y/k)` and `t = y/k`, the log ratio of the densities is `g = k²t³/(2(1 +
//! t)) - 3u/2`. For every `k` it is 0 at `y = 0` and at one more point on each side. Let `D` be the
//! difference of the distribution functions. Every distance follows from `D`, `g` and the integral
//! of `D` at crossings of the densities or of the distribution functions. To leading order these
//! values are small differences of numbers near 1, which would lose six digits for `k = 1e6`; the
//! formulas here avoid that cancellation.
//! Accuracy: 1e-12 relative for `k` from 0.03125 to 1e6, tested against golden values. The
//! functions support `k` from 1e-6 to 1e15. Beyond the golden values, tests check only that the
//! distances keep their order and decrease with `k`, and the bounds of the Kolmogorov distance.
//! Source: the limits: Feller 1971, "An introduction to probability theory" II, XVI.4, the
//! Edgeworth expansion; closed forms and bounds: our derivation, checked by quadrature.
//!
//! # Examples
//! ```
//! use distributions::normality;
//!
//! // The distance halves when k doubles.
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

/// Relative error requested of the quadrature; it matters only for the Hellinger distance.
const TOLERANCE: f64 = 1e-13;
/// Absolute value of a standard normal variable beyond which its density is negligible in every
/// sum.
const FAR: f64 = 40.0;

/// Supported range of `k`, in which the methods here keep their accuracy.
const RATIOS: std::ops::RangeInclusive<f64> = 1e-6..=1e15;

/// Leading constants: for large `k`, a distance is approximately its constant divided by `k`. `KL`
/// is divided by `k²` instead.
pub mod constants {
    /// Constant of the Kolmogorov distance: `n(0)/2`, with `n` the standard normal density.
    pub const KOLMOGOROV: f64 = 0.199_471_140_200_716_35;
    /// Constant of the total variation distance: `(n(0) + 4 n(√3))/2`, a quarter of `E |Z³ - 3Z|`.
    pub const TOTAL_VARIATION: f64 = 0.377_503_250_032_619_3;
    /// Constant of the Hellinger distance: `√3/4`.
    pub const HELLINGER: f64 = 0.433_012_701_892_219_3;
    /// Constant of the Kullback–Leibler divergence, to be divided by `k²`: `3/4`.
    pub const KL: f64 = 0.75;
    /// Constant of the Wasserstein distance: `2 n(1)`.
    pub const WASSERSTEIN1: f64 = 0.483_941_449_038_286_7;
}

/// Returns the Kolmogorov distance `sup |F_Y - Φ|`, for `k` from 1e-6 to 1e15.
///
/// For `k` of at least 1.20855… the supremum is at 0 and has the closed form `erfcx(√2 k)/2`.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside 1e-6 to 1e15, or NaN.
pub fn kolmogorov(k: f64) -> Result<f64, Error> {
    let k = checked("normality::kolmogorov", k)?;
    let [left, right] = density_crossings(k);
    let at_crossings = cdf_difference(k, left)
        .abs()
        .max(cdf_difference(k, right).abs());
    Ok(at_crossings.max(0.5 * erfcx(SQRT_2 * k)))
}

/// Returns a lower and an upper bound of [`kolmogorov`], `c/k (1 - 1/(4k²)) <= d <= c/k` with `c` =
/// [`constants::KOLMOGOROV`], for `k >= 1.20856`.
///
/// Each bound is rounded to nearest: for `k` so large that the bounds coincide, `d` may be an
/// epsilon or two outside. The lower bound also holds for [`total_variation`], which is never
/// smaller than `d`. For smaller `k` no bounds are known to us, and the result is 0 and 1.
///
/// # Errors
/// As [`kolmogorov`].
pub fn kolmogorov_bounds(k: f64) -> Result<[f64; 2], Error> {
    /// The least `k` for which the bounds hold. At slightly smaller `k` the supremum is no longer
    /// at 0.
    const FROM: f64 = 1.208_56;
    let k = checked("normality::kolmogorov_bounds", k)?;
    let upper = constants::KOLMOGOROV / k;
    Ok(if k >= FROM {
        [upper * (1.0 - 0.25 / k / k), upper]
    } else {
        [0.0, 1.0]
    })
}

/// Returns the total variation distance `sup |P(Y ∈ A) - P(Z ∈ A)|` over all sets `A`, for `k` from
/// 1e-6 to 1e15.
///
/// The distance is half the integral of the absolute difference of the densities.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside 1e-6 to 1e15, or NaN.
pub fn total_variation(k: f64) -> Result<f64, Error> {
    let k = checked("normality::total_variation", k)?;
    let [left, right] = density_crossings(k);
    Ok(0.5 * erfcx(SQRT_2 * k) - cdf_difference(k, left) - cdf_difference(k, right))
}

/// Returns the Hellinger distance `sqrt(1 - ∫ sqrt(f_Y f_Z))`, for `k` from 1e-6 to 1e15.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside 1e-6 to 1e15, or NaN.
pub fn hellinger(k: f64) -> Result<f64, Error> {
    let k = checked("normality::hellinger", k)?;
    // Integrate (√f_Y - √f_Z)²/2 in the variable u, factoring out the larger density so that
    // nothing cancels.
    let integrand = |u: f64| {
        let at = At::new(k, u);
        let (larger, drop) = if at.g > 0.0 {
            (at.density(k), -at.g)
        } else {
            (normal_pdf(at.y), at.g)
        };
        0.5 * larger * (0.5 * drop).exp_m1().powi(2) * k * u.exp()
    };
    // Left of -FAR both densities are negligible. For small k the range ends at a finite u next to
    // y = -k, and the remainder is below rounding.
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
    // Left of -k only the normal distribution has probability.
    let beyond = 0.25 * (-0.5 * k * k).exp() * erfcx(k * FRAC_1_SQRT_2);
    Ok((square + beyond).sqrt())
}

/// Returns the Kullback–Leibler divergence `∫ f_Y ln(f_Y/f_Z)` in nats, `(3/2) exp(2k²) E1(2k²)`,
/// for `k` from 1e-6 to 1e15.
///
/// The divergence in the other direction is infinite, because `Y` has no values below `-k`.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside 1e-6 to 1e15, or NaN.
pub fn kl(k: f64) -> Result<f64, Error> {
    let k = checked("normality::kl", k)?;
    let x = 2.0 * k * k;
    Ok(1.5 * scaled_e1(x, x.ln()))
}

/// Returns the Wasserstein distance of order 1, `∫ |F_Y - Φ|`, for `k` from 1e-6 to 1e15.
///
/// # Errors
/// [`Error::RatioInvalid`]: `k` is outside 1e-6 to 1e15, or NaN.
pub fn wasserstein1(k: f64) -> Result<f64, Error> {
    let k = checked("normality::wasserstein1", k)?;
    // D is negative, positive and negative again. The integral of D over the line is 0 because the
    // means are equal, so its values at the two zeros determine the integral of |D|.
    let [left, right] = density_crossings(k);
    let first = bracketed(|y| cdf_difference(k, y), left, 0.0);
    let second = bracketed(|y| cdf_difference(k, y), 0.0, right);
    Ok(2.0 * (integral_of_difference(k, second) - integral_of_difference(k, first)))
}

/// Returns `k` if it is in the supported range, and an error otherwise.
fn checked(operation: &'static str, k: f64) -> Result<f64, Error> {
    if RATIOS.contains(&k) {
        Ok(k)
    } else {
        Err(Error::RatioInvalid { operation, k })
    }
}

/// A value `y` of `Y`, parametrized by `u = ln(1 + y/k)`.
struct At {
    y: f64,
    u: f64,
    /// The term `k²t³/(2(1 + t))`, which equals `(y² - w²)/2` with `w = 2k sinh(u/2)`.
    cube: f64,
    /// Logarithm of the ratio of the densities.
    g: f64,
}

impl At {
    fn new(k: f64, u: f64) -> Self {
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

    /// Returns the density of `Y`, computed from its signed root `w = 2k sinh(u/2)`.
    fn density(&self, k: f64) -> f64 {
        normal_pdf(2.0 * k * (0.5 * self.u).sinh()) * (-1.5 * self.u).exp()
    }
}

/// Returns the two points other than 0 at which the densities are equal.
fn density_crossings(k: f64) -> [f64; 2] {
    // The ratio g/t is -3/2 at 0 and changes its sign once on each side.
    let ratio = |u: f64| {
        let root = 2.0 * k * (0.5 * u).sinh();
        0.5 * root * root - 1.5 * if u == 0.0 { 1.0 } else { u / u.exp_m1() }
    };
    [-1.0, 1.0].map(|side| {
        // At this distance the first term is small for every k.
        let mut far = side * 0.1 / k.max(1.0);
        while ratio(far) < 0.0 {
            far *= 2.0;
        }
        k * bracketed(ratio, 0.5 * far, far).exp_m1()
    })
}

/// Returns `D(y) = F_Y(y) - Φ(y)` for `y > -k`.
fn cdf_difference(k: f64, y: f64) -> f64 {
    let root = (1.0 + y / k).sqrt();
    // Compute w - y without cancellation.
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

/// Returns the integral of `D` from `-∞` to `a`.
fn integral_of_difference(k: f64, a: f64) -> f64 {
    let at = At::new(k, (a / k).ln_1p());
    let b = (k + (k + a)) / (1.0 + a / k).sqrt() * FRAC_1_SQRT_2;
    // The integral is a Φ(w) + √r n(w) √π b erfcx(b) minus a Φ(a) + n(a), with n(w)/n(a) =
    // exp(cube) and √π b erfcx(b) = 1 - rest.
    let rest = 0.5 * PI.sqrt() * slope(b, b);
    let growth = at.cube + 0.5 * at.u;
    let by_root = normal_pdf(a) * (growth.exp_m1() - growth.exp() * rest);
    let second = 0.5 * (-0.5 * a * a + at.cube).exp() * erfcx(b);
    a * (cdf_difference(k, a) - second) + by_root
}

fn normal_pdf(x: f64) -> f64 {
    INV_SQRT_2PI * (-0.5 * x * x).exp()
}
