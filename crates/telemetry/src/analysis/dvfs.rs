//! The energy curve of a sweep of clocks: energy per item of work at each clock, and the clock of
//! least energy.
//!
//! Method: the measured minimum is reported with all points whose energy does not differ from it
//! significantly. The difference of two points has the 95 % interval `±√(t₁²s₁² + t₂²s₂²)`, where s
//! are the standard errors of the energies and t the two-sided 95 % quantiles of Student's t
//! distribution for the numbers of runs. Two models are fitted by least squares:
//! - a parabola of energy over clock, which is simple and often a poor fit;
//! - a physical model with time per item `t = a + b/f` and power `P = p0 + c·f^k`, for k = 2, 3 and
//!   4. Its energy per item is `t(f)·P(f)`. [`Curve::best_physical`] returns the model whose k fits
//!   power best.
//!
//! The energy-delay product EDP is energy times time per item; ED²P is energy times time squared.
//! Accuracy: the interval of a difference contains the truth in at least 95 % of cases for normal
//! noise; for few runs it is wide, because their scatter is little known (t is 12.7 for two runs).
//! Source: Banerjee 1960, "Approximate confidence interval for linear functions of means of k
//! populations when the population variances are not equal", Sankhyā 22.
//! Limits: the models are empirical fits. A minimum outside the measured range of clocks is not
//! reported.

use crate::least_squares::{self, Fit};
use crate::{Error, Result};

/// The measurement at one clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockMeasurement {
    /// Clock, in MHz.
    pub clock_mhz: f64,
    /// Mean power, in W.
    pub watts: f64,
    /// Items of work per second.
    pub rate: f64,
    /// Relative standard error of the energy per item; 0 if unknown.
    ///
    /// The error must be known well, as from many runs. [`Self::from_runs`] enlarges an error that
    /// is estimated from few runs.
    pub noise: f64,
}

impl ClockMeasurement {
    /// Averages runs at one clock, each (energy, time) per item, in J and s.
    ///
    /// The noise is the standard error of the mean energy, relative to the mean; 0 for a single
    /// run, and for runs of equal energy. The error is enlarged by the ratio of the 95 % quantiles
    /// of Student's t distribution for the number of runs and of the normal distribution: to 6.5
    /// times the standard error for two runs, and to 1.04 times for 31 or more. Without runs, power
    /// and rate are NaN, which [`dvfs()`] rejects.
    #[must_use]
    pub fn from_runs(clock_mhz: f64, runs: &[(f64, f64)]) -> Self {
        let n = runs.len() as f64;
        let joules = runs.iter().map(|run| run.0).sum::<f64>() / n;
        let seconds = runs.iter().map(|run| run.1).sum::<f64>() / n;
        let squares: f64 = runs.iter().map(|run| (run.0 - joules).powi(2)).sum();
        let noise = if runs.len() > 1 {
            let standard_error = (squares / (n - 1.0) / n).sqrt();
            t_quantile(runs.len() - 1) / CONFIDENCE * standard_error / joules
        } else {
            0.0
        };
        Self {
            clock_mhz,
            watts: joules / seconds,
            rate: 1.0 / seconds,
            noise,
        }
    }
}

/// A point of the curve, compared with the point of the highest clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimum {
    /// Index of the point in [`Curve::points`].
    pub at: usize,
    /// Clock, in MHz.
    pub clock_mhz: f64,
    /// Energy per item, in J.
    pub joules: f64,
    /// Relative saving of energy per item compared with the highest clock; negative if more energy
    /// is used.
    pub saving: f64,
    /// Relative loss of rate compared with the highest clock; negative if the point is faster.
    pub slowdown: f64,
}

/// Energy per item as a parabola of the clock, `c0 + c1·f + c2·f²` (J, MHz).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Polynomial {
    /// The coefficients c0, c1 and c2.
    pub coefficients: [f64; 3],
    /// Clock, in MHz, and energy, in J, of the minimum; none if the parabola opens downwards or
    /// the minimum is outside the measured clocks.
    pub minimum: Option<(f64, f64)>,
    /// Coefficient of determination: the share of the variance of energy that the fit explains.
    pub r_squared: f64,
}

/// The physical model: time per item `t = a + b/f`, power `P = p0 + c·f^k` (s, W, MHz).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhysicalFit {
    /// The time that does not depend on the clock, a, in s.
    pub fixed_s: f64,
    /// The time that falls with the clock, b, in s·MHz.
    pub scaling: f64,
    /// Static power, p0, in W.
    pub static_w: f64,
    /// Dynamic power, c, in W/MHz^k.
    pub dynamic: f64,
    /// The exponent k of the clock: 2, 3 or 4.
    pub exponent: u8,
    /// Coefficient of determination of the time per item.
    pub time_r_squared: f64,
    /// Coefficient of determination of power.
    pub power_r_squared: f64,
    /// Clock of the least energy per item, in MHz; none if the minimum is outside the measured
    /// clocks.
    pub minimum_mhz: Option<f64>,
}

/// The energy curve of a sweep of clocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The measurements, in the order of rising clock.
    pub points: Vec<ClockMeasurement>,
    /// Energy per item of each point, in J.
    pub joules: Vec<f64>,
    /// The point of least energy per item.
    pub least_energy: Optimum,
    /// Indices of the points whose energy does not differ significantly from the least energy
    /// (95 % for normal noise), the point of least energy included.
    pub confidence: Vec<usize>,
    /// Indices of the points for which this cannot be decided, because the noise of the point or
    /// that of the point of least energy is unknown.
    pub undecided: Vec<usize>,
    /// The point of the least product of energy and time per item (EDP).
    pub least_edp: Optimum,
    /// The point of the least product of energy and squared time per item (ED²P).
    pub least_ed2p: Optimum,
    /// Indices of the Pareto-optimal points of time and energy, in the order of rising time.
    pub pareto: Vec<usize>,
    /// The parabola fitted to all points; none if the fit is singular.
    pub parabola: Option<Polynomial>,
    /// The physical models with k = 2, 3 and 4 in this order, without those whose fit is singular.
    pub physical: Vec<PhysicalFit>,
}

/// Number of standard errors up to which a difference of energies is not significant: the two-sided
/// 95 % quantile of the normal distribution.
const CONFIDENCE: f64 = 1.96;
/// Two-sided 95 % quantiles of Student's t distribution with 1, 2, … degrees of freedom.
/// Source: NIST/SEMATECH, "e-Handbook of Statistical Methods", table 1.3.6.7.2.
const T_QUANTILES: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
const OPERATION: &str = "dvfs";

/// Computes the energy curve of a sweep of clocks. `points` are in the order of rising clock.
///
/// A clock may occur only once: average repeated measurements first, and put their scatter into
/// [`ClockMeasurement::noise`].
///
/// # Errors
/// [`Error::ParameterInvalid`] for fewer than three points, for clocks that do not rise from point
/// to point, for a clock, power or rate that is not finite and above 0, and for noise that is not
/// finite and at least 0.
pub fn dvfs(points: &[ClockMeasurement]) -> Result<Curve> {
    checked(points)?;
    let joules: Vec<f64> = points
        .iter()
        .map(|point| point.watts / point.rate)
        .collect();
    let least_by = |cost: &dyn Fn(usize) -> f64| {
        let places = 0..points.len();
        places
            .min_by(|&a, &b| cost(a).total_cmp(&cost(b)))
            .unwrap_or(0)
    };
    let least = least_by(&|i| joules[i]);
    let error = |i: usize| joules[i] * points[i].noise;
    // The noise of two points is independent, so the variances of their energies add up. The least
    // point itself is included even if rounding makes its difference positive.
    let is_same = |&i: &usize| {
        joules[i] - joules[least] <= CONFIDENCE * error(i).hypot(error(least)) || i == least
    };
    let is_known = |i: usize| points[i].noise > 0.0;
    let is_decided = |&i: &usize| i == least || (is_known(i) && is_known(least));
    let (decided, undecided): (Vec<usize>, Vec<usize>) = (0..points.len()).partition(is_decided);
    // Pareto dominance: another point is at least as good in both and better in one of them.
    let is_beaten = |i: usize| {
        (0..points.len()).any(|j| {
            let no_worse = points[j].rate >= points[i].rate && joules[j] <= joules[i];
            no_worse && (points[j].rate > points[i].rate || joules[j] < joules[i])
        })
    };
    let mut pareto: Vec<usize> = (0..points.len()).filter(|&i| !is_beaten(i)).collect();
    // Falling rate is rising time per item.
    pareto.sort_by(|&a, &b| points[b].rate.total_cmp(&points[a].rate));
    let at = |i| optimum(points, &joules, i);
    Ok(Curve {
        points: points.to_vec(),
        least_energy: at(least),
        confidence: decided.into_iter().filter(is_same).collect(),
        undecided,
        least_edp: at(least_by(&|i| joules[i] / points[i].rate)),
        least_ed2p: at(least_by(&|i| joules[i] / points[i].rate.powi(2))),
        pareto,
        parabola: parabola(points, &joules),
        physical: (2..=4).filter_map(|k| physical(points, k)).collect(),
        joules,
    })
}

impl Curve {
    /// Returns the point of least energy among the points whose rate is at least
    /// `1 - max_slowdown` of the highest rate. A negative `max_slowdown` counts as 0.
    #[must_use]
    pub fn saving_at(&self, max_slowdown: f64) -> Optimum {
        let fastest = self
            .points
            .iter()
            .map(|point| point.rate)
            .fold(0.0, f64::max);
        let is_fast = |&i: &usize| self.points[i].rate >= fastest * (1.0 - max_slowdown.max(0.0));
        let places = (0..self.points.len()).filter(is_fast);
        let least = places.min_by(|&a, &b| self.joules[a].total_cmp(&self.joules[b]));
        optimum(
            &self.points,
            &self.joules,
            least.unwrap_or(self.points.len() - 1),
        )
    }

    /// Returns the physical model with the highest [`PhysicalFit::power_r_squared`]; none if no
    /// model was fitted.
    #[must_use]
    pub fn best_physical(&self) -> Option<&PhysicalFit> {
        let by_power =
            |a: &&PhysicalFit, b: &&PhysicalFit| a.power_r_squared.total_cmp(&b.power_r_squared);
        self.physical.iter().max_by(by_power)
    }
}

/// Returns the two-sided 95 % quantile of Student's t distribution; for more degrees of freedom
/// than the table has, the last quantile, which is at most 4 % too large.
fn t_quantile(n_degrees: usize) -> f64 {
    T_QUANTILES[n_degrees.clamp(1, T_QUANTILES.len()) - 1]
}

fn checked(points: &[ClockMeasurement]) -> Result<()> {
    let invalid = |parameter, value, must| {
        Err(Error::ParameterInvalid {
            operation: OPERATION,
            parameter,
            value,
            must,
        })
    };
    if points.len() < 3 {
        #[expect(clippy::cast_precision_loss, reason = "fewer than three")]
        return invalid("number of points", points.len() as f64, "at least 3");
    }
    for point in points {
        for (parameter, value) in [
            ("clock_mhz", point.clock_mhz),
            ("watts", point.watts),
            ("rate", point.rate),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return invalid(parameter, value, "finite and above 0");
            }
        }
        if !(point.noise >= 0.0 && point.noise.is_finite()) {
            return invalid("noise", point.noise, "finite and at least 0");
        }
    }
    for pair in points.windows(2) {
        if pair[1].clock_mhz <= pair[0].clock_mhz {
            return invalid(
                "clock_mhz",
                pair[1].clock_mhz,
                "above that of the point before",
            );
        }
    }
    Ok(())
}

/// Compares a point with the point of the highest clock.
fn optimum(points: &[ClockMeasurement], joules: &[f64], at: usize) -> Optimum {
    let last = points.len() - 1;
    Optimum {
        at,
        clock_mhz: points[at].clock_mhz,
        joules: joules[at],
        saving: 1.0 - joules[at] / joules[last],
        slowdown: 1.0 - points[at].rate / points[last].rate,
    }
}

/// Fits `y` by a linear combination of functions of the clock; returns none for a singular system.
fn fit(points: &[ClockMeasurement], basis: &[&dyn Fn(f64) -> f64], y: &[f64]) -> Option<Fit> {
    let column = |f: &&dyn Fn(f64) -> f64| points.iter().map(|p| f(p.clock_mhz)).collect();
    least_squares::fit(&basis.iter().map(column).collect::<Vec<_>>(), y)
}

/// Returns whether a clock is between the lowest and the highest measured clock.
fn within(points: &[ClockMeasurement], clock_mhz: f64) -> bool {
    (points[0].clock_mhz..=points[points.len() - 1].clock_mhz).contains(&clock_mhz)
}

/// Fits a parabola to the energy per item.
fn parabola(points: &[ClockMeasurement], joules: &[f64]) -> Option<Polynomial> {
    let found = fit(points, &[&|_| 1.0, &|f| f, &|f| f * f], joules)?;
    let (c0, c1, c2) = (
        found.coefficients[0],
        found.coefficients[1],
        found.coefficients[2],
    );
    // The vertex. At f = -c1 / (2 c2) the sum c1·f + c2·f² is c1·f / 2.
    let vertex_mhz = -c1 / (2.0 * c2);
    let has_minimum = c2 > 0.0 && within(points, vertex_mhz);
    Some(Polynomial {
        coefficients: [c0, c1, c2],
        minimum: has_minimum.then_some((vertex_mhz, c0 + 0.5 * c1 * vertex_mhz)),
        r_squared: found.r_squared,
    })
}

/// Fits time per item as a linear function of 1/f, and power as a linear function of f^k.
fn physical(points: &[ClockMeasurement], exponent: u8) -> Option<PhysicalFit> {
    let k = i32::from(exponent);
    let times: Vec<f64> = points.iter().map(|point| 1.0 / point.rate).collect();
    let powers: Vec<f64> = points.iter().map(|point| point.watts).collect();
    let time = fit(points, &[&|_| 1.0, &|f| 1.0 / f], &times)?;
    let power = fit(points, &[&|_| 1.0, &|f| f.powi(k)], &powers)?;
    let (a, b) = (time.coefficients[0], time.coefficients[1]);
    let (p0, c) = (power.coefficients[0], power.coefficients[1]);
    Some(PhysicalFit {
        fixed_s: a,
        scaling: b,
        static_w: p0,
        dynamic: c,
        exponent,
        time_r_squared: time.r_squared,
        power_r_squared: power.r_squared,
        minimum_mhz: stationary(points, (a, b), (p0, c), k),
    })
}

/// Finds the clock that minimises `(a + b/f)(p0 + c·f^k)` by bisection; returns none if the minimum
/// is outside the measured clocks.
///
/// The derivative, multiplied by f², is `c·(a·k·f^(k+1) + b·(k−1)·f^k) − b·p0`. The expression
/// rises with f if all constants are above 0, so it has at most one root above 0.
fn stationary(
    points: &[ClockMeasurement],
    (a, b): (f64, f64),
    (p0, c): (f64, f64),
    k: i32,
) -> Option<f64> {
    let slope =
        |f: f64| c * (a * f64::from(k) * f.powi(k + 1) + b * f64::from(k - 1) * f.powi(k)) - b * p0;
    let (mut low, mut high) = (points[0].clock_mhz, points[points.len() - 1].clock_mhz);
    // The slope must change sign in the measured range; the negated form also rejects NaN.
    if !(slope(low) <= 0.0 && slope(high) >= 0.0) {
        return None;
    }
    // One bisection for each bit of the mantissa narrows the interval to the precision of f64.
    for _ in 0..f64::MANTISSA_DIGITS {
        let middle = 0.5 * (low + high);
        if slope(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(0.5 * (low + high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata::Random;
    use proptest::prelude::*;

    /// The reference sweep: clocks in MHz, powers in W, rates in items/s.
    fn table() -> Vec<ClockMeasurement> {
        let rows = [
            (544.0, 57.0, 60.0),
            (683.0, 62.0, 75.0),
            (810.0, 65.0, 85.0),
            (936.0, 70.0, 95.0),
            (1063.0, 78.0, 105.0),
            (1202.0, 88.0, 115.0),
            (1328.0, 115.0, 120.0),
        ];
        let point = |(clock_mhz, watts, rate)| ClockMeasurement {
            clock_mhz,
            watts,
            rate,
            noise: 0.0,
        };
        rows.map(point).to_vec()
    }

    fn close(value: f64, expected: f64, digits: i32) {
        let off = (value / expected - 1.0).abs();
        assert!(
            off < 0.5 * 10.0_f64.powi(1 - digits),
            "{value} is not {expected}"
        );
    }

    #[test]
    fn the_least_energy_of_the_table_is_at_936_mhz() {
        let curve = dvfs(&table()).unwrap();
        assert_eq!(curve.least_energy.clock_mhz, 936.0);
        close(curve.least_energy.joules, 0.7368, 4);
        close(curve.least_energy.saving, 0.231, 3);
        close(curve.least_energy.slowdown, 0.208, 3);
        assert_eq!(curve.confidence, [3]);
        assert_eq!(curve.undecided, [0, 1, 2, 4, 5, 6]);
        assert_eq!(curve.least_edp.clock_mhz, 1202.0);
        assert_eq!(curve.least_ed2p.clock_mhz, 1202.0);
        close(curve.least_edp.joules / 115.0, 0.006654, 4);
        close(curve.least_ed2p.joules / 115.0 / 115.0, 5.786e-5, 4);
        assert_eq!(curve.pareto, [6, 5, 4, 3]);
    }

    #[test]
    fn models_of_the_table_have_their_known_minima() {
        let curve = dvfs(&table()).unwrap();
        let parabola = curve.parabola.unwrap();
        for (found, expected) in
            parabola
                .coefficients
                .iter()
                .zip([2.014466, -2.719328e-3, 1.432007e-6])
        {
            close(*found, expected, 7);
        }
        let (vertex_mhz, joules) = parabola.minimum.unwrap();
        close(vertex_mhz, 949.48, 5);
        close(joules, 0.7235, 4);
        close(parabola.r_squared, 0.931, 3);
        for (fit, (minimum_mhz, r_squared)) in
            curve
                .physical
                .iter()
                .zip([(875.4, 0.920), (905.5, 0.960), (934.8, 0.980)])
        {
            close(fit.minimum_mhz.unwrap(), minimum_mhz, 4);
            close(fit.power_r_squared, r_squared, 3);
            close(fit.fixed_s, 2.346e-3, 4);
            close(fit.scaling, 7.677, 4);
        }
        let best = curve.best_physical().unwrap();
        assert_eq!(best.exponent, 4);
        close(best.static_w, 56.18, 4);
        close(best.dynamic, 1.776e-11, 4);
    }

    #[test]
    fn savings_come_at_a_price_in_speed() {
        let curve = dvfs(&table()).unwrap();
        for (max_slowdown, clock_mhz) in
            [(0.0, 1328.0), (0.05, 1202.0), (0.125, 1063.0), (0.5, 936.0)]
        {
            assert_eq!(
                curve.saving_at(max_slowdown).clock_mhz,
                clock_mhz,
                "{max_slowdown}"
            );
        }
        close(curve.saving_at(0.05).saving, 0.202, 3);
        close(curve.saving_at(0.05).slowdown, 0.0417, 3);
    }

    #[test]
    fn noise_makes_neighbours_equal() {
        let noisy = table().into_iter().map(|point| ClockMeasurement {
            noise: 0.01,
            ..point
        });
        let mut points: Vec<_> = noisy.collect();
        let curve = dvfs(&points).unwrap();
        assert_eq!((curve.confidence, curve.undecided), (vec![3, 4], vec![]));
        // A point of unknown noise is undecided, and so are all others if the least is unknown.
        points[4].noise = 0.0;
        let curve = dvfs(&points).unwrap();
        assert_eq!((curve.confidence, curve.undecided), (vec![3], vec![4]));
        points[3].noise = 0.0;
        let curve = dvfs(&points).unwrap();
        let others = vec![0, 1, 2, 4, 5, 6];
        assert_eq!((curve.confidence, curve.undecided), (vec![3], others));
    }

    #[test]
    fn quantiles_are_those_of_student() {
        // Expansion of the quantile in powers of 1/ν (Abramowitz and Stegun 1964, "Handbook of
        // Mathematical Functions", 26.7.5), which is accurate to 1e-3 from ν = 6 on.
        let z = 1.959_964_f64;
        let terms = [
            (z.powi(3) + z) / 4.0,
            (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
            (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
        ];
        for n_degrees in 6..=30 {
            let nu = f64::from(u32::try_from(n_degrees).unwrap());
            let t = z + terms[0] / nu + terms[1] / nu.powi(2) + terms[2] / nu.powi(3);
            let off = (t_quantile(n_degrees) - t).abs();
            assert!(off < 2e-3, "{n_degrees}: {t}");
        }
        // The distribution with one degree of freedom is Cauchy's; the one with two has the
        // quantile p·√(2 / (1 − p²)).
        let p = 0.95_f64;
        let one = (0.5 * std::f64::consts::PI * p).tan();
        let two = p * (2.0 / (1.0 - p * p)).sqrt();
        assert!((t_quantile(1) - one).abs() < 1e-3 && (t_quantile(2) - two).abs() < 1e-3);
        assert_eq!(t_quantile(1000), t_quantile(30));
    }

    #[test]
    fn equal_energies_seldom_differ_significantly_however_few_runs_there_are() {
        const N_TRIALS: u32 = 4000;
        for n_runs in [2, 3, 5] {
            let mut random = Random(n_runs);
            let mut measured = |clock_mhz, joules: f64| {
                let run = |_| (joules * (1.0 + 0.01 * random.normal()), 1.0);
                let runs: Vec<_> = (0..n_runs).map(run).collect();
                ClockMeasurement::from_runs(clock_mhz, &runs)
            };
            let mut n_significant = 0;
            for _ in 0..N_TRIALS {
                // The third point has far more energy.
                let points = [(600.0, 100.0), (900.0, 100.0), (1200.0, 1e4)];
                let points = points.map(|(clock_mhz, joules)| measured(clock_mhz, joules));
                let curve = dvfs(&points).unwrap();
                assert!(curve.undecided.is_empty());
                n_significant +=
                    u32::from(!(curve.confidence.contains(&0) && curve.confidence.contains(&1)));
            }
            let share = f64::from(n_significant) / f64::from(N_TRIALS);
            assert!(share < 0.05, "{n_runs} runs: {share}");
        }
    }

    #[test]
    fn bad_points_are_refused_by_name() {
        let broken = |at: usize, change: &dyn Fn(&mut ClockMeasurement)| {
            let mut points = table();
            change(&mut points[at]);
            dvfs(&points).unwrap_err().to_string()
        };
        let message = dvfs(&table()[..2]).unwrap_err().to_string();
        assert_eq!(message, "dvfs: number of points is 2 (must be at least 3)");
        for (message, expected) in [
            (broken(1, &|p| p.watts = f64::NAN), "watts is NaN"),
            (broken(1, &|p| p.rate = 0.0), "rate is 0"),
            (
                broken(0, &|p| p.clock_mhz = f64::INFINITY),
                "clock_mhz is inf",
            ),
            (broken(2, &|p| p.noise = -0.1), "noise is -0.1"),
            (
                broken(2, &|p| p.clock_mhz = 683.0),
                "clock_mhz is 683 (must be above",
            ),
            (
                broken(2, &|p| p.clock_mhz = 600.0),
                "clock_mhz is 600 (must be above",
            ),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }

    proptest! {
        #[test]
        fn a_device_that_follows_the_model_gives_its_minimum(
            fixed_s in 1e-4..5e-3_f64,
            scaling in 1.0..10.0_f64,
            static_w in 20.0..60.0_f64,
            share in 0.3..2.0_f64,
        ) {
            let dynamic = share * static_w / 1000.0_f64.powi(3);
            let point = |i: i32| {
                let f = 300.0 + 100.0 * f64::from(i);
                let rate = 1.0 / (fixed_s + scaling / f);
                ClockMeasurement { clock_mhz: f, watts: static_w + dynamic * f.powi(3), rate, noise: 0.0 }
            };
            let points: Vec<ClockMeasurement> = (0..14).map(point).collect();
            let curve = dvfs(&points).unwrap();
            let best = curve.best_physical().unwrap();
            prop_assert_eq!(best.exponent, 3);
            prop_assert!((best.power_r_squared - 1.0).abs() < 1e-9);
            if let Some(minimum_mhz) = best.minimum_mhz {
                prop_assert!((minimum_mhz - curve.least_energy.clock_mhz).abs() < 101.0);
            }
            prop_assert!(curve.pareto.contains(&curve.least_energy.at));
            prop_assert_eq!(curve.saving_at(1.0).at, curve.least_energy.at);
        }
    }
}
