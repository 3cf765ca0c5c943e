//! Claims of the blog note "Normality of Inverse Gaussian", step by step.
//!
//! Method: the note uses `k = sqrt(λ/μ)` and `h(x) = 1 - sqrt(1 - 2ix) - ix + x²/2`, which is
//! computed here without cancellation. `X` is the inverse Gaussian variable and `Y` the
//! standardised one, with characteristic functions `φ_X` and `φ_Y`; `φ` is that of the standard
//! normal distribution. For a claim `O(k^p)` or `Θ(k^p)`, the claimed number is the exponent `p`,
//! and the measured number is the slope between two values of `k` on logarithmic scales.

use super::{Claim, Correction, Reading, Verdict};
use crate::quadrature::simpson;
use anyhow::Result;
use distributions::{FirstPassage, InverseGaussian, Standardized, normality};
use num_complex::Complex64;
use statrs::distribution::{Continuous, Normal};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s0.ig.density",
        claim: "the printed formula for the density of Y: largest relative error at k = 0.5, 3 and 50",
        claimed: &[1e-13],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let mut worst = 0.0_f64;
            for k in [0.5_f64, 3.0, 50.0] {
                let distribution = Standardized::new(k)?;
                for y in grid(-0.9 * k.min(5.0), 5.0) {
                    let printed = (k / (k + y)).powf(1.5) * (-k * y * y / (2.0 * (k + y))).exp();
                    let printed = printed / (2.0 * std::f64::consts::PI).sqrt();
                    worst = largest([worst, (distribution.pdf(y) / printed - 1.0).abs()]);
                }
            }
            Ok(Some(vec![worst]))
        },
    },
    Claim {
        id: "s0.ig.characteristic-function",
        claim: "the printed formula for the characteristic function of X: largest error",
        claimed: &[1e-13],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (mean, shape) = (0.7, 2.0);
            let distribution = InverseGaussian::new(mean, shape)?;
            let difference = |t: f64| {
                let root = Complex64::new(1.0, -2.0 * mean * mean * t / shape).sqrt();
                let printed = ((1.0 - root) * shape / mean).exp();
                (distribution.characteristic_function(t) - printed).norm()
            };
            Ok(Some(vec![largest(grid(-20.0, 20.0).map(difference))]))
        },
    },
    Claim {
        id: "s0.ig.kolmogorov",
        claim: "the Kolmogorov distance to the normal distribution is O(1/k): exponent",
        claimed: &[-1.0],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: || exponent(normality::kolmogorov),
    },
    Claim {
        id: "s0.ig.total-variation",
        claim: "the total variation distance is Θ(1/k): exponent, and the constant computed here",
        claimed: &[-1.0, 0.3775],
        reading: Reading::Printed(4),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let exponent = slope(FAR, |k| Ok(normality::total_variation(k)?))?;
            Ok(Some(vec![
                exponent,
                FAR[1] * normality::total_variation(FAR[1])?,
            ]))
        },
    },
    Claim {
        id: "s0.ig.moments",
        claim: "mean and variance of X are μ and μ³/λ: for μ = 0.7 and λ = 2, from the derivatives of the logarithm of the characteristic function",
        claimed: &[0.7, 0.1715],
        reading: Reading::Printed(6),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            const STEP: f64 = 1e-3;
            let at = InverseGaussian::new(0.7, 2.0)?.ln_characteristic_function(STEP);
            Ok(Some(vec![at.im / STEP, -2.0 * at.re / (STEP * STEP)]))
        },
    },
    Claim {
        id: "s0.ig.standardised-characteristic-function",
        claim: "the printed formula for the characteristic function of Y: largest error compared with that of X, shifted and scaled, at k = 3",
        claimed: &[1e-13],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (k, i) = (3.0, Complex64::i());
            let distribution = InverseGaussian::new(k, k * k * k)?;
            let difference = |t: f64| {
                let printed = (k * k * (1.0 - (1.0 - 2.0 * i * t / k).sqrt()) - i * k * t).exp();
                (distribution.characteristic_function(t) * (-i * k * t).exp() - printed).norm()
            };
            Ok(Some(vec![largest(grid(-20.0, 20.0).map(difference))]))
        },
    },
    Claim {
        id: "s0.ig.rate",
        claim: "the distance is O(sqrt(μ/λ)): exponent of the total variation distance in λ/μ",
        claimed: &[-0.5],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: slope_in_ratio,
    },
    Claim {
        id: "s0.ig.k",
        claim: "the density of Y converges as k = λ/μ grows, with the k of the printed density: difference between the printed \
            density at y = 1 for λ/μ = 9 and the true one",
        claimed: &[0.0],
        reading: Reading::Printed(3),
        correction: Some(Correction {
            claim: "k is the square root of λ/μ, as defined elsewhere in the note: the same difference",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[0.0],
            reading: Reading::Printed(12),
            measure: || printed_density(3.0),
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || printed_density(9.0),
    },
    Claim {
        id: "s0.ig.passage",
        claim: "the distribution arises as passage times of random walks: Kolmogorov distance between the passage time to level \
            10 of a walk with steps ±1, up with probability 0.6, and the distribution with the same mean and variance",
        claimed: &[0.0],
        reading: Reading::Printed(3),
        correction: Some(Correction {
            claim: "only in the limit of many steps, with the distance falling as the level to the power -1/2: exponent between levels 100 and 400",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[-0.5],
            reading: Reading::Printed(1),
            measure: || Ok(Some(vec![slope([100.0, 400.0], walk)?])),
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || Ok(Some(vec![walk(10.0)?])),
    },
    Claim {
        id: "s0.ig.series",
        claim: "h(x) is a convergent power series for |x| < 1/2: difference between its first 60 terms and h, at x = 0.4",
        claimed: &[1e-6],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            // -sqrt(1 - z) = Σ C(2n, n)/((2n - 1) 4^n) z^n with z = 2ix; the terms up to n = 2
            // cancel in h.
            let z = Complex64::new(0.0, 0.8);
            let (mut power, mut coefficient) = (z * z, 0.125);
            let mut sum = Complex64::new(0.0, 0.0);
            for n in 3..60_u32 {
                power *= z;
                coefficient *= f64::from(2 * n - 3) / f64::from(2 * n);
                sum += power * coefficient;
            }
            Ok(Some(vec![(sum - h(0.4)).norm()]))
        },
    },
    Claim {
        id: "s0.ig.real-part",
        claim: "the real part of h(x) is Θ(x⁴): exponent between x = 0.01 and 0.02",
        claimed: &[4.0],
        reading: Reading::Printed(2),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let exponent = slope([0.01, 0.02], |x| Ok(h(x).re))?;
            Ok(Some(vec![exponent]))
        },
    },
    Claim {
        id: "s0.ig.bounded",
        claim: "|k² h(t/k)| is O(1) for |t| up to sqrt(k): exponent in k at that end",
        claimed: &[0.0],
        reading: Reading::Printed(2),
        correction: Some(Correction {
            claim: "for |t| up to the cube root of k: exponent",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[0.0],
            reading: Reading::Printed(2),
            measure: || at_power(1.0 / 3.0),
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || at_power(0.5),
    },
    Claim {
        id: "s0.ig.modulus",
        claim: "|exp(k² h(t/k)) - 1| is Θ(t³/k) for |t| up to sqrt(k): exponent in k of the ratio at that end",
        claimed: &[0.0],
        reading: Reading::Printed(2),
        correction: Some(Correction {
            claim: "O(t³/k): the ratio stays below 0.95",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[0.95],
            reading: Reading::Below,
            measure: || {
                let ks = [4.0_f64, 16.0, 64.0, 1e3, 1e6];
                let ratios = ks
                    .iter()
                    .flat_map(|&k| grid(0.01, 1.0).map(move |s| modulus(k, s * k.sqrt())));
                Ok(Some(vec![largest(ratios)]))
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || {
            let exponent = slope([1e3, 1e5], |k| Ok(modulus(k, k.sqrt())))?;
            Ok(Some(vec![exponent]))
        },
    },
    Claim {
        id: "s0.ig.integral",
        claim: "the integral of |φ_Y - φ|/|t| over |t| <= sqrt(k) is Θ(1/k): exponent",
        claimed: &[-1.0],
        reading: Reading::Printed(2),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let integral = |k: f64| {
                let (normal, end) = (|t: f64| (-0.5 * t * t).exp(), k.sqrt());
                Ok(2.0 * simpson(0.0, end, |t| normal(t) * modulus(k, t) * t * t / k))
            };
            Ok(Some(vec![slope([256.0, 1024.0], integral)?]))
        },
    },
    Claim {
        id: "s0.ig.middle",
        claim: "|exp(k² h(t/k))| is exp(Θ(1)) for |t| up to k/2: exponent in k of its logarithm at that end",
        claimed: &[0.0],
        reading: Reading::Printed(2),
        correction: Some(Correction {
            claim: "|φ_Y| = exp(-t² g) with g of at least 0.3947 there, which is sufficient: least g",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[0.3947],
            reading: Reading::Printed(4),
            measure: || Ok(Some(vec![least(grid(1e-3, 0.5).map(decay))])),
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || {
            let exponent = slope([64.0, 128.0], |k| Ok(k * k * h(0.5).re))?;
            Ok(Some(vec![exponent]))
        },
    },
    Claim {
        id: "s0.ig.middle-integral",
        claim: "the integral of |φ_Y - φ|/|t| over sqrt(k) < |t| <= k/2 is o(1/k): the integral times k at k = 64, divided by the same at k = 16",
        claimed: &[0.05],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let middle = |k: f64| {
                let of = |t: f64| (-0.5 * t * t).exp() * modulus(k, t) * t * t / k;
                2.0 * k * simpson(k.sqrt(), 0.5 * k, of)
            };
            Ok(Some(vec![middle(64.0) / middle(16.0)]))
        },
    },
    Claim {
        id: "s0.ig.ratio",
        claim: "the ratio of the densities is 1 - Θ(y/k) for |y| up to the cube root of k: sign of 1 - ratio at y = 0.5 and 2.5, k = 1000",
        claimed: &[1.0, 1.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "the ratio is 1 + (y³ - 3y)/(2k) + O(1/k²): exponent of the remainder at y = 0.5",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[-2.0],
            reading: Reading::Printed(1),
            measure: || {
                let y = 0.5_f64;
                let rest = |k: f64| {
                    Ok((ln_ratio(k, y).exp_m1() - (y.powi(3) - 3.0 * y) / (2.0 * k)).abs())
                };
                Ok(Some(vec![slope([1e3, 2e3], rest)?]))
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || {
            let sign = |y: f64| (-ln_ratio(1e3, y)).signum();
            Ok(Some(vec![sign(0.5), sign(2.5)]))
        },
    },
    Claim {
        id: "s0.ig.derivatives",
        claim: "the printed formulas for the derivatives of the ratio by y and by k: largest relative differences from central \
            differences, for k = 8, 27 and 100 and y from -5 to 5",
        claimed: &[1e-5, 1e-5],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            const STEP: f64 = 1e-5;
            let ratio = |k: f64, y: f64| ln_ratio(k, y).exp();
            let differences = |(k, y): (f64, f64)| {
                let factor = (y.powi(3) / (2.0 * (k + y))).exp() / (2.0 * (k + y).powf(3.5));
                let by_y =
                    k.powf(1.5) * (-3.0 * k + y * y * (3.0 * k + 2.0 * y) - 3.0 * y) * factor;
                let by_k = -k.sqrt() * y * (k * y * y - 3.0 * k - 3.0 * y) * factor;
                let central_y = (ratio(k, y + STEP) - ratio(k, y - STEP)) / (2.0 * STEP);
                let central_k = (ratio(k + STEP, y) - ratio(k - STEP, y)) / (2.0 * STEP);
                // The derivatives have zeros, so differences are relative to the larger of the
                // derivative and its typical size.
                let size = ratio(k, y) / k;
                [
                    (by_y - central_y) / size.max(by_y.abs()),
                    (by_k - central_k) / (size / k).max(by_k.abs()),
                ]
            };
            let points = [8.0, 27.0, 100.0]
                .into_iter()
                .flat_map(|k| grid(-5.0, 5.0).map(move |y| (k, y)));
            let differences: Vec<[f64; 2]> = points.map(differences).collect();
            let worst = |by: usize| largest(differences.iter().map(|both| both[by]));
            Ok(Some(vec![worst(0), worst(1)]))
        },
    },
    Claim {
        id: "s0.ig.increasing",
        claim: "beyond the cube root of k the ratio increases in y, on both sides: minus the least slope of its logarithm, for k = 8, 27 and 1000",
        claimed: &[0.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let slope = |k: f64, y: f64| {
                let u = k + y;
                (3.0 * y * y * u - y * y * y) / (2.0 * u * u) - 1.5 / u
            };
            let sides = |k: f64| {
                let right = grid(k.cbrt(), 40.0).map(move |y| slope(k, y));
                right.chain(grid(-0.99 * k, -k.cbrt()).map(move |y| slope(k, y)))
            };
            let slopes = [8.0, 27.0, 1e3].into_iter().flat_map(sides);
            Ok(Some(vec![-least(slopes)]))
        },
    },
    Claim {
        id: "s0.ig.monotone",
        claim: "beyond the cube root of k the ratio decreases in k, on both sides: sign of its derivative at k = 27, y = -4 and 4",
        claimed: &[-1.0, -1.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "only on the right; on the left it increases in k: the same signs",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[1.0, -1.0],
            reading: Reading::Printed(0),
            measure: signs_in_k,
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: signs_in_k,
    },
    Claim {
        id: "s0.ig.sides",
        claim: "for k >= 8 the ratio is above 1 right of the cube root of k, and below 1 left of its negative: largest ratio on the left, and largest inverse ratio on the right",
        claimed: &[1.0, 1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let ks = || [8.0_f64, 27.0, 1e3, 1e6].into_iter();
            let left = ks().map(|k| ln_ratio(k, -k.cbrt()).exp());
            let right = ks().map(|k| (-ln_ratio(k, k.cbrt())).exp());
            Ok(Some(vec![largest(left), largest(right)]))
        },
    },
    Claim {
        id: "s0.ig.bound",
        claim: "the total variation distance is at most O(1/k) ∫ |y| φ over |y| < k^(1/3) plus 2 Φ(-k^(1/3)): distance divided \
            by this limit with constant 1/k, at k = 8, 64 and 1000",
        claimed: &[1.0, 1.0, 1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let ratio = |k: f64| {
                let end = k.cbrt();
                let middle = simpson(0.0, end, |y| 2.0 * y * normal_pdf(y)) / k;
                let tails = 2.0 * simpson(end, end + 12.0, normal_pdf);
                Ok(normality::total_variation(k)? / (middle + tails))
            };
            [8.0, 64.0, 1e3]
                .into_iter()
                .map(ratio)
                .collect::<Result<_>>()
                .map(Some)
        },
    },
    Claim {
        id: "s0.ig.grid",
        claim: "the plot shows a rate over λ/μ from 2 to 10⁵: number of its 100 points with λ/μ below 10, and above 100",
        claimed: &[80.0, 2.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let mus = (0..100).map(|i| 0.5 + (1e-5 - 0.5) * f64::from(i) / 99.0);
            let ratios: Vec<f64> = mus.map(f64::recip).collect();
            let count =
                |is_in: fn(f64) -> bool| ratios.iter().filter(|r| is_in(**r)).count() as f64;
            Ok(Some(vec![count(|r| r < 10.0), count(|r| r > 100.0)]))
        },
    },
    Claim {
        id: "s0.ig.script",
        claim: "the script computes the total variation distance: its result divided by the distance at μ = 0.5, 0.25 and 0.005",
        claimed: &[1.0, 1.0, 1.0],
        reading: Reading::Printed(2),
        correction: Some(Correction {
            claim: "it computes the integral, which is twice the distance, and its grid loses one thousandth: its result divided by twice the distance",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[0.999, 0.999, 0.999],
            reading: Reading::Printed(3),
            measure: || script(2.0),
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || script(1.0),
    },
];

/// Values of `k` between which exponents are measured.
const FAR: [f64; 2] = [1e4, 1e5];

/// Returns the slope of `f` between two arguments, on logarithmic scales.
fn slope([low, high]: [f64; 2], f: impl Fn(f64) -> Result<f64>) -> Result<f64> {
    Ok((f(high)? / f(low)?).ln() / (high / low).ln())
}

fn exponent(distance: fn(f64) -> Result<f64, distributions::Error>) -> Result<Option<Vec<f64>>> {
    Ok(Some(vec![slope(FAR, |k| Ok(distance(k)?))?]))
}

fn slope_in_ratio() -> Result<Option<Vec<f64>>> {
    let in_ratio = |ratio: f64| Ok(normality::total_variation(ratio.sqrt())?);
    Ok(Some(vec![slope([1e8, 1e10], in_ratio)?]))
}

/// Returns `h(x)` without cancellation; its leading terms are `-i x³/2 + 5x⁴/8`.
fn h(x: f64) -> Complex64 {
    let ix = Complex64::new(0.0, x);
    // With q = 1 + sqrt(1 - 2ix): 1 - sqrt(1 - 2ix) = 2ix/q and 2 - q = 2ix/q, so h = x²/2 - 2x²/q²
    // = x² (q² - 4)/(2q²).
    let q = 1.0 + (1.0 - 2.0 * ix).sqrt();
    x * x * (-2.0 * ix / q) * (q + 2.0) / (2.0 * q * q)
}

/// Returns the exponent in k of `|k² h(t/k)|` at `t = k^power`.
fn at_power(power: f64) -> Result<Option<Vec<f64>>> {
    let size = |k: f64| Ok((k * k * h(k.powf(power) / k)).norm());
    Ok(Some(vec![slope([1e6, 1e8], size)?]))
}

/// Returns `|exp(k² h(t/k)) - 1| / (t³/k)`.
fn modulus(k: f64, t: f64) -> f64 {
    if t == 0.0 {
        // The limit for t → 0.
        return 0.5;
    }
    let z = k * k * h(t / k);
    // exp(z) - 1 without cancellation: its real part is expm1(re) + exp(re) (cos(im) - 1).
    let (sin, cos_less_1) = (z.im.sin(), -2.0 * (0.5 * z.im).sin().powi(2));
    let growth = z.re.exp();
    let difference = Complex64::new(z.re.exp_m1() + growth * cos_less_1, growth * sin);
    difference.norm() / (t.powi(3) / k)
}

/// Returns `-ln |φ_Y(t)| / t²` at `x = t/k`.
fn decay(x: f64) -> f64 {
    let q = 1.0 + Complex64::new(1.0, -2.0 * x).sqrt();
    (2.0 / (q * q)).re
}

/// Returns the logarithm of the density of `Y` divided by the normal density, both at `y`.
fn ln_ratio(k: f64, y: f64) -> f64 {
    y.powi(3) / (2.0 * (k + y)) - 1.5 * (y / k).ln_1p()
}

fn signs_in_k() -> Result<Option<Vec<f64>>> {
    const STEP: f64 = 1e-3;
    let sign = |y: f64| (ln_ratio(27.0 + STEP, y) - ln_ratio(27.0 - STEP, y)).signum();
    Ok(Some(vec![sign(-4.0), sign(4.0)]))
}

/// Returns the result of the note's script for three values of μ, each divided by `factor` times
/// the total variation distance. The script averages the absolute difference of the densities over
/// 1000 points from -10 to 10 and multiplies by 20, the length of the interval.
fn script(factor: f64) -> Result<Option<Vec<f64>>> {
    const POINTS: u32 = 1000;
    let ratio = |mu: f64| {
        let k = mu.recip().sqrt();
        let distribution = Standardized::new(k)?;
        let places = (0..POINTS).map(|i| 20.0 * f64::from(i) / f64::from(POINTS - 1) - 10.0);
        let sum: f64 = places
            .map(|y| (distribution.pdf(y) - normal_pdf(y)).abs())
            .sum();
        let metric = sum / f64::from(POINTS) * 20.0;
        Ok(metric / (factor * normality::total_variation(k)?))
    };
    [0.5, 0.25, 0.005]
        .into_iter()
        .map(ratio)
        .collect::<Result<_>>()
        .map(Some)
}

fn grid(low: f64, high: f64) -> impl Iterator<Item = f64> {
    const POINTS: u32 = 200;
    (0..=POINTS).map(move |i| low + (high - low) * f64::from(i) / f64::from(POINTS))
}

/// Returns the largest absolute value; NaN without values, or if one of them is NaN.
fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    let sizes = values.into_iter().map(f64::abs);
    sizes.max_by(f64::total_cmp).unwrap_or(f64::NAN)
}

/// Returns the least number; NaN if there is none or if one of them is NaN. `f64::min` ignores NaN.
fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    let least = values.into_iter().reduce(|least, value| {
        if value < least || value.is_nan() {
            value
        } else {
            least
        }
    });
    least.unwrap_or(f64::NAN)
}

/// Returns the difference between the printed density at y = 1 with this k and the true density for
/// λ/μ = 9.
fn printed_density(k: f64) -> Result<Option<Vec<f64>>> {
    let printed = (k / (k + 1.0)).powf(1.5) * (-k / (2.0 * (k + 1.0))).exp();
    let distribution = InverseGaussian::new(1.0, 9.0)?.standardized();
    Ok(Some(vec![
        printed / (2.0 * std::f64::consts::PI).sqrt() - distribution.pdf(1.0),
    ]))
}

/// Returns the Kolmogorov distance between the time at which a random walk first reaches a level
/// and the inverse Gaussian distribution with the same mean and variance.
fn walk(level: f64) -> Result<f64> {
    const UP: f64 = 0.6;
    let drift = 2.0 * UP - 1.0;
    let volatility = (4.0 * UP * (1.0 - UP)).sqrt();
    let distribution = FirstPassage::new(level, drift, volatility)?;
    // P(T = level + 2n) = level/(level + 2n) C(level + 2n, n) up^(level + n) down^n, by the ballot
    // theorem; each term is computed from the previous one.
    let (mut n, mut sum, mut worst) = (0.0, 0.0, 0.0_f64);
    let mut term = (level * UP.ln()).exp();
    while sum < 1.0 - 1e-9 {
        let time = level + 2.0 * n;
        worst = largest([worst, (distribution.cdf(time) - sum).abs()]);
        sum += term;
        worst = largest([worst, (distribution.cdf(time) - sum).abs()]);
        let growth = (level + 2.0 * n) * (level + 2.0 * n + 1.0) / ((n + 1.0) * (level + n + 1.0));
        term *= growth * UP * (1.0 - UP);
        n += 1.0;
    }
    Ok(worst)
}

fn normal_pdf(x: f64) -> f64 {
    Normal::standard().pdf(x)
}
