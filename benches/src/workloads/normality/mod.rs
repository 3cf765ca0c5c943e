//! Convergence of the standardised inverse Gaussian distribution to the normal one as `λ/μ` grows,
//! with the figure of the blog note.
//!
//! Role: the workload `ig-normality`: the total variation distance to the normal distribution at
//! ratios from 1 to 10⁶, and its figure. Variants: `quadrature`, the distance between any two
//! distributions by numerical integration; `host`, the closed form. The rival integrates with
//! SciPy.
//! Method: the expected result is the integral of the difference of the densities, by Simpson's
//! rule, in pieces between the points where they cross. The note's own script averages over a grid
//! of 1000 points and computes the integral, which is twice the distance; see the claims ledger.
//! Shapes: one distance per ratio.
//! Source: the blog note "Normality of Inverse Gaussian".

use crate::quadrature::simpson;
use anyhow::Result;
use charts::{Figure, Panel, Series};
use distributions::{Standardized, distance, normality};
use gpu_wgsl::Gpu;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{Extent, OutputElement, Problem, Task, Variant, Work, Workload};
use statrs::distribution::{Continuous, Normal};
use tensor_core::compare::Tolerance;

/// Name of the workload.
pub const NAME: &str = "ig-normality";
/// Number of ratios `λ/μ`, from 1 to 10⁶.
const N_RATIOS: usize = 25;
/// Number of ratios per decade.
const PER_DECADE: f64 = 4.0;
/// Values of `μ/λ` whose densities the note shows.
const SHOWN: [f64; 5] = [0.2, 0.1, 0.05, 0.01, 0.0001];
/// Tolerance in epsilons: 1e-8, ten times the accuracy requested from SciPy.
const BOUND: usize = 45_000_000;
/// Distance from the mean, in standard deviations, beyond which both densities are negligible for
/// ratios of at least 1.
const FAR: f64 = 60.0;

/// Returns the task.
#[must_use]
pub fn task() -> Task {
    Task::new(NAME, "S0", N_RATIOS.to_string(), || {
        Ok(Distances::new(N_RATIOS))
    })
}

/// The ratios with the expected distances.
#[derive(Clone, Debug)]
pub struct Distances {
    ratios: Vec<f32>,
    truth: Vec<f64>,
}

impl Distances {
    /// Computes the expected distance for each of `n_ratios` ratios.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "rivals read f32")]
    pub fn new(n_ratios: usize) -> Self {
        let ratio = |idx: usize| 10_f64.powf(idx as f64 / PER_DECADE) as f32;
        let ratios: Vec<f32> = (0..n_ratios).map(ratio).collect();
        let truth = ratios
            .iter()
            .map(|&ratio| integrated(f64::from(ratio).sqrt()));
        Self {
            truth: truth.collect(),
            ratios,
        }
    }

    /// Returns the square roots of the ratios.
    fn ks(&self) -> impl Iterator<Item = f64> {
        self.ratios.iter().map(|&ratio| f64::from(ratio).sqrt())
    }

    fn extent(&self) -> Extent {
        let len = self.ratios.len();
        let bytes = len * (size_of::<f32>() + size_of::<f64>());
        Extent::new(Work::Values(len as f64), bytes as f64)
    }

    fn variant<'a>(
        &'a self,
        name: &'static str,
        distance: impl Fn(f64) -> Result<f64> + 'a,
    ) -> Variant<'a> {
        let work = move |out: &mut Vec<f64>| {
            for (out, k) in out.iter_mut().zip(self.ks()) {
                *out = distance(k)?;
            }
            Ok(())
        };
        Variant::on_cpu(name, self.extent(), self.ratios.len(), work)
    }

    /// Draws the two panels of the note's figure.
    fn figure(&self, distances: &[f64]) -> Result<Figure> {
        const WIDTH: f64 = 5.0;
        const POINTS: u32 = 240;
        let places =
            || (0..=POINTS).map(|i| WIDTH * (2.0 * f64::from(i) / f64::from(POINTS) - 1.0));
        let normal = Normal::standard();
        let mut densities = Vec::new();
        for phi in SHOWN {
            let distribution = Standardized::new(phi.recip().sqrt())?;
            densities.push(Series::new(
                format!("λ/μ = {}", phi.recip().round()),
                places(),
                |y| distribution.pdf(y),
            ));
        }
        densities.push(Series::new("normal", places(), |y| normal.pdf(y)).as_reference());
        let ratios = || self.ratios.iter().map(|&ratio| f64::from(ratio));
        let measured = ratios().zip(distances.iter().copied());
        let asymptote = |ratio: f64| normality::constants::TOTAL_VARIATION / ratio.sqrt();
        Ok(Figure {
            caption: "Left: densities of the standardised distribution. Right: its total variation distance from the normal \
                distribution, and the asymptote of slope −½ in λ/μ."
                .to_owned(),
            panels: vec![
                Panel {
                    x: "standard deviations from the mean".to_owned(),
                    y: "density".to_owned(),
                    is_log: false,
                    lines: densities,
                    ..Panel::default()
                },
                Panel {
                    x: "λ/μ".to_owned(),
                    y: "total variation distance".to_owned(),
                    is_log: true,
                    lines: vec![
                        Series::through("measured", measured),
                        Series::new("0.3775 (λ/μ)^−½", ratios(), asymptote).as_reference(),
                    ],
                    ..Panel::default()
                },
            ], ..Figure::default() })
    }
}

/// Returns the total variation distance for `k = sqrt(λ/μ)`: half the integral of the absolute
/// difference of the densities, by Simpson's rule in pieces between the points where the densities
/// cross.
fn integrated(k: f64) -> f64 {
    let density = |y: f64| {
        let r = 1.0 + y / k;
        if r > 0.0 {
            (-0.5 * y * y / r - 1.5 * r.ln()).exp()
        } else {
            0.0
        }
    };
    let difference = |y: f64| density(y) - (-0.5 * y * y).exp();
    // The densities cross at 0 and once on each side of 0.
    let crossing = |inner: f64, outer: f64| bisected(inner, outer, difference);
    let left_end = (-k).max(-FAR);
    let (left, right) = (crossing(-0.3, (-k).max(-4.0)), crossing(0.3, 4.0));
    let pieces = [left_end, left, 0.0, right, 6.0, FAR];
    let total: f64 = pieces
        .windows(2)
        .map(|ends| simpson(ends[0], ends[1], difference).abs())
        .sum();
    // Part of the normal density to the left of -k, where the other density is 0.
    let beyond = 0.5 * puruspe::erfc(-left_end / std::f64::consts::SQRT_2);
    0.5 * (total / (2.0 * std::f64::consts::PI).sqrt() + beyond)
}

/// Returns the point between `one` and `other` at which `f` changes its sign, by bisection to the
/// last bit.
fn bisected(mut one: f64, mut other: f64, f: impl Fn(f64) -> f64) -> f64 {
    const HALVINGS: u32 = 100;
    let is_above = f(other) > 0.0;
    for _ in 0..HALVINGS {
        let middle = 0.5 * (one + other);
        if (f(middle) > 0.0) == is_above {
            other = middle;
        } else {
            one = middle;
        }
    }
    one
}

impl Problem for Distances {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let by_quadrature = |k: f64| {
            let found = distance::total_variation(&Standardized::new(k)?, &Normal::standard())?;
            Ok(found.value)
        };
        let tolerance = Tolerance::relative(BOUND);
        Workload::with_expected::<f64>(self.extent(), &self.truth, tolerance)
            .with_variants([
                self.variant("quadrature", by_quadrature),
                self.variant("host", |k| Ok(normality::total_variation(k)?)),
            ])
            .with_figure(|result| self.figure(f64::from_output(result)?))
            .with_rivals(BaselineArguments::each(
                &["scipy"],
                script!("ig_normality.py"),
                &[("n", self.ratios.len())],
                &[("ratios", &self.ratios)],
            ))
    }
}
