//! The energy curve of a sweep of clocks: energy per item of work at each clock, and the clock of
//! least energy.
//!
//! Method: the measured minimum is reported with all points whose energy does not differ from it
//! significantly. The difference of two points is significant outside `±√(t₁²s₁² + t₂²s₂²)`, where
//! s are the standard errors of the energies and t are two-sided quantiles of Student's t
//! distribution for the numbers of runs. The point of least energy is selected from the same data,
//! so it may be any of the k points of known noise, and the probability of 5 % is divided by the
//! number of pairs, k(k - 1)/2. Two models are fitted by least squares:
//! - a parabola of energy over clock, which is simple and often a poor fit;
//! - a physical model with time per item `t = a + b/f` and power `P = p0 + c·f^k`, for k = 2, 3 and
//!   4. Its energy per item is `t(f)·P(f)`. [`Curve::best_physical`] returns the model whose k fits
//!   power best.
//!
//! The energy-delay product EDP is energy times time per item; ED²P is energy times time squared.
//! Accuracy: for normal noise, at most 5 % of sweeps report any significant difference between
//! clocks of equal energy. With few runs, large differences are not significant either, because the
//! scatter of the runs is little known: for 7 clocks, t is 267 with two runs, 20.5 with three, 6.8
//! with five and 4.2 with ten.
//! Source: Banerjee 1960, "Approximate confidence interval for linear functions of means of k
//! populations when the population variances are not equal", Sankhyā 22, for the difference; Dunn
//! 1961, "Multiple comparisons among means", Journal of the American Statistical Association 56,
//! for the number of pairs.
//! Limits: the models are empirical fits. A minimum outside the measured range of clocks is not
//! reported.

use super::student::{MAX_DEGREES, t_quantile};
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
    pub noise: f64,
}

/// The runs of a job at one clock.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockRuns {
    /// Clock, in MHz.
    pub clock_mhz: f64,
    /// Energy, in J, and time, in s, per item of work, for each run.
    pub runs: Vec<(f64, f64)>,
}

impl ClockRuns {
    /// Averages the runs.
    ///
    /// The noise is the standard error of the mean energy, relative to the mean; 0 for a single
    /// run, and for runs of equal energy. Without runs, power and rate are NaN, which
    /// [`dvfs_from_runs`] rejects.
    #[must_use]
    pub fn mean(&self) -> ClockMeasurement {
        let n = self.runs.len() as f64;
        // Differences from the first run, so that runs of equal energy have that energy as mean.
        let first = self.runs.first().map_or(f64::NAN, |run| run.0);
        let joules = first + self.runs.iter().map(|run| run.0 - first).sum::<f64>() / n;
        let seconds = self.runs.iter().map(|run| run.1).sum::<f64>() / n;
        let squares: f64 = self.runs.iter().map(|run| (run.0 - joules).powi(2)).sum();
        let noise = if self.runs.len() > 1 {
            (squares / (n - 1.0) / n).sqrt() / joules
        } else {
            0.0
        };
        ClockMeasurement {
            clock_mhz: self.clock_mhz,
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
    /// Indices of the points whose energy does not differ significantly from the least energy, the
    /// point of least energy included.
    ///
    /// For normal noise, at most 5 % of sweeps leave out any clock because of noise alone.
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

/// Probability that noise alone makes any of the differences of a sweep significant.
const FALSE_ALARM: f64 = 0.05;
const OPERATION: &str = "dvfs";

/// Computes the energy curve of a sweep of clocks. `points` are in the order of rising clock.
///
/// The noise of each point counts as known well. [`dvfs_from_runs`] estimates the noise from the
/// runs at each clock, and accounts for their number.
///
/// # Errors
/// [`Error::ParameterInvalid`] for fewer than three points, for clocks that do not rise from point
/// to point, for a clock, power or rate that is not finite and above 0, and for noise that is not
/// finite and at least 0.
pub fn dvfs(points: &[ClockMeasurement]) -> Result<Curve> {
    curve(points, &vec![MAX_DEGREES; points.len()])
}

/// Computes the energy curve of a sweep of clocks from the runs at each clock. `clocks` are in the
/// order of rising clock.
///
/// # Errors
/// The errors of [`dvfs()`] for the means of the runs; a clock without runs has a mean of NaN.
pub fn dvfs_from_runs(clocks: &[ClockRuns]) -> Result<Curve> {
    let points: Vec<_> = clocks.iter().map(ClockRuns::mean).collect();
    let n_degrees = clocks
        .iter()
        .map(|clock| clock.runs.len().saturating_sub(1));
    curve(&points, &n_degrees.collect::<Vec<_>>())
}

/// Computes the curve of points, each with the number of degrees of freedom of its noise.
fn curve(points: &[ClockMeasurement], n_degrees: &[usize]) -> Result<Curve> {
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
    // Only points of known noise are compared.
    let is_known = |i: usize| points[i].noise > 0.0;
    let n_known = (0..points.len()).filter(|&i| is_known(i)).count();
    let n_pairs = n_known * n_known.saturating_sub(1) / 2;
    let risk = FALSE_ALARM / n_pairs.max(1) as f64;
    let margin = |i: usize| t_quantile(n_degrees[i], risk) * joules[i] * points[i].noise;
    // The noise of two points is independent, so the squares of their margins add up. The least
    // point itself is included even if rounding makes its difference positive.
    let is_same =
        |&i: &usize| joules[i] - joules[least] <= margin(i).hypot(margin(least)) || i == least;
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
        // With 21 pairs, t is 3.05, and differences of more than 4.4 % are significant.
        let same = vec![2, 3, 4, 5];
        assert_eq!((curve.confidence, curve.undecided), (same, vec![]));
        // A point of unknown noise is undecided, and so are all others if the least is unknown.
        points[4].noise = 0.0;
        let curve = dvfs(&points).unwrap();
        assert_eq!(
            (curve.confidence, curve.undecided),
            (vec![2, 3, 5], vec![4])
        );
        points[3].noise = 0.0;
        let curve = dvfs(&points).unwrap();
        let others = vec![0, 1, 2, 4, 5, 6];
        assert_eq!((curve.confidence, curve.undecided), (vec![3], others));
    }

    #[test]
    fn the_quantiles_of_the_header_are_those_of_seven_clocks() {
        for (n_runs, t, half_digit) in [
            (2, 267.0, 0.5),
            (3, 20.5, 0.05),
            (5, 6.8, 0.05),
            (10, 4.2, 0.05),
        ] {
            let off = t_quantile(n_runs - 1, FALSE_ALARM / 21.0) - t;
            assert!(off.abs() < half_digit, "{n_runs}: {off}");
        }
    }

    #[test]
    fn the_noise_of_runs_is_the_standard_error_of_their_mean() {
        let clock = ClockRuns {
            clock_mhz: 900.0,
            runs: vec![(100.0, 1.0), (102.0, 1.0)],
        };
        // The standard deviation of 100 and 102 is √2, and the standard error of their mean is 1.
        assert!((clock.mean().noise - 1.0 / 101.0).abs() < 1e-12);
        // Three times 0.1 is not 0.3 in f64.
        let equal = ClockRuns {
            runs: vec![(0.1, 1.0); 3],
            ..clock
        };
        assert_eq!(equal.mean().noise.to_bits(), 0);
    }

    /// Simulates runs of one second with a relative standard deviation of 1 %, at clocks whose
    /// energies are given in J.
    fn simulated(random: &mut Random, energies: &[f64], n_runs: usize) -> Vec<ClockRuns> {
        let mut clock_mhz = 500.0;
        let clock = |&joules: &f64| {
            clock_mhz += 100.0;
            let run = |_| (joules * (1.0 + 0.01 * random.normal()), 1.0);
            ClockRuns {
                clock_mhz,
                runs: (0..n_runs).map(run).collect(),
            }
        };
        energies.iter().map(clock).collect()
    }

    #[test]
    fn equal_energies_seldom_differ_significantly_however_few_runs_there_are() {
        const N_TRIALS: u32 = 2000;
        for energies in [[100.0, 100.0, 1e4].as_slice(), &[100.0; 7]] {
            for n_runs in [2, 3, 5, 10, 31] {
                let mut random = Random(n_runs as u64);
                let n_equal = energies.iter().filter(|&&joules| joules == 100.0).count();
                let mut n_significant = 0;
                for _ in 0..N_TRIALS {
                    let clocks = simulated(&mut random, energies, n_runs);
                    let curve = dvfs_from_runs(&clocks).unwrap();
                    assert!(curve.undecided.is_empty());
                    let are_same = (0..n_equal).all(|i| curve.confidence.contains(&i));
                    n_significant += u32::from(!are_same);
                }
                let share = f64::from(n_significant) / f64::from(N_TRIALS);
                assert!(share < 0.05, "{n_equal} clocks, {n_runs} runs: {share}");
            }
        }
    }

    #[test]
    fn differences_of_ten_times_the_noise_are_significant_with_five_runs() {
        const N_TRIALS: u32 = 500;
        let energies = [140.0, 125.0, 110.0, 100.0, 110.0, 125.0, 140.0];
        let mut random = Random(1);
        let mut n_found = 0;
        for _ in 0..N_TRIALS {
            let clocks = simulated(&mut random, &energies, 5);
            n_found += u32::from(dvfs_from_runs(&clocks).unwrap().confidence == [3]);
        }
        let share = f64::from(n_found) / f64::from(N_TRIALS);
        assert!(share > 0.95, "{share}");
    }

    #[test]
    fn bad_points_are_rejected_by_name() {
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
