//! Distances from the normal distribution against golden values, identities and limits.

#![expect(
    clippy::print_stdout,
    reason = "measured errors are printed for `--nocapture`"
)]

use crate::support::table;
use distributions::normality::{self, constants};
use distributions::{Error, InverseGaussian};
use tensor_core::compare::{Tolerance, assert_close, compare};

type Distance = fn(f64) -> Result<f64, Error>;

/// Each distance with the name of its column in the golden tables.
const DISTANCES: [(&str, Distance); 5] = [
    ("ks", normality::kolmogorov),
    ("tv", normality::total_variation),
    ("hellinger", normality::hellinger),
    ("kl_ig_n", normality::kl),
    ("wasserstein1", normality::wasserstein1),
];
/// Tolerance in epsilons: 1e-12.
const GATE: usize = 4500;

#[test]
fn distances_are_those_of_the_golden_tables() {
    for file in ["ig-distances.csv", "distances.csv"] {
        let rows = table(file);
        assert!(rows.len() >= 10);
        for (column, distance) in DISTANCES {
            let found: Vec<f64> = rows
                .iter()
                .map(|row| distance(row.number("k")).unwrap())
                .collect();
            let truth: Vec<f64> = rows.iter().map(|row| row.number(column)).collect();
            let summary = compare(found, truth, &Tolerance::relative(GATE))
                .unwrap_or_else(|mismatch| panic!("{column} of {file}: {mismatch}"));
            let error = summary.max_share * GATE as f64 * f64::EPSILON;
            println!("{column} of {file}: {error:.1e}");
        }
    }
}

#[test]
fn bounds_of_kolmogorov_hold_to_a_rounding_for_large_k() {
    for k in [1e5, 1e7, 1e9, 3e12] {
        let found = normality::kolmogorov(k).unwrap();
        let [low, high] = normality::kolmogorov_bounds(k).unwrap();
        assert_close(
            [found, found],
            [low, high],
            Tolerance::relative(2).or_absolute(high - low),
        );
    }
}

#[test]
fn the_constants_are_the_limits() {
    let limits = [
        constants::KOLMOGOROV,
        constants::TOTAL_VARIATION,
        constants::HELLINGER,
        constants::KL,
        constants::WASSERSTEIN1,
    ];
    for ((name, distance), limit) in DISTANCES.into_iter().zip(limits) {
        let scaled = |k: f64| {
            let power = if name == "kl_ig_n" { k * k } else { k };
            distance(k).unwrap() * power
        };
        // The next term is of order 1/k², and Richardson extrapolation removes this term.
        let extrapolated = (4.0 * scaled(2e4) - scaled(1e4)) / 3.0;
        assert_close([extrapolated], [limit], Tolerance::relative(GATE));
    }
    let normal = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let formulas = [
        normal(0.0) / 2.0,
        (normal(0.0) + 4.0 * normal(3_f64.sqrt())) / 2.0,
        3_f64.sqrt() / 4.0,
        0.75,
        2.0 * normal(1.0),
    ];
    assert_close(limits, formulas, Tolerance::relative(2));
}

#[test]
fn the_closed_form_of_kolmogorov_holds_from_its_threshold_on() {
    let closed = |k: f64| 0.5 * puruspe::error::erfcx(std::f64::consts::SQRT_2 * k);
    for k in [1.208_56, 2.0, 30.0, 1e3] {
        let found = normality::kolmogorov(k).unwrap();
        assert_close([found], [closed(k)], Tolerance::relative(10));
        let [low, high] = normality::kolmogorov_bounds(k).unwrap();
        assert!(low < found && found < high, "{k}");
        assert!(normality::total_variation(k).unwrap() >= low);
    }
    assert!(normality::kolmogorov(1.208_55).unwrap() > closed(1.208_55));
    assert!(normality::kolmogorov(1.0).unwrap() > 1.05 * closed(1.0));
}

#[test]
fn kolmogorov_is_the_difference_at_the_mean() {
    let k = 3.0;
    let distribution = InverseGaussian::new(1.0, k * k).unwrap();
    let found = normality::kolmogorov(k).unwrap();
    assert_close(
        [found],
        [distribution.cdf(1.0) - 0.5],
        Tolerance::relative(20),
    );
}

#[test]
fn distances_fall_with_k_and_stay_in_their_order() {
    let mut before = [f64::INFINITY; 5];
    for step in -19..40 {
        let k = 2_f64.powi(step);
        let now = DISTANCES.map(|(_, distance)| distance(k).unwrap());
        // For small k nearly all probability of Y is at -k, and the Wasserstein distance increases
        // with k from E |Z|. The other distances decrease everywhere.
        let n_falling = if k < 0.1 { 4 } else { 5 };
        let pairs = now.iter().zip(before).take(n_falling);
        assert!(
            pairs.into_iter().all(|(now, before)| *now < before),
            "{k} {now:?}"
        );
        let [ks, tv, hellinger, kl, _] = now;
        assert!(ks <= tv && tv <= hellinger * 2_f64.sqrt() && hellinger * hellinger <= tv);
        assert!(2.0 * tv * tv <= kl, "Pinsker at {k}");
        before = now;
    }
}

#[test]
fn a_ratio_that_is_none_is_rejected() {
    for (_, distance) in DISTANCES {
        for k in [0.0, -1.0, f64::NAN, f64::INFINITY, 9e-7, 2e15] {
            assert!(
                matches!(distance(k), Err(Error::RatioInvalid { .. })),
                "{k}"
            );
        }
    }
}
