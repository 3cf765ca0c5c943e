//! Estimates against golden values; merging, weights, and coverage of confidence intervals.

use crate::support::samples::{DEVIATIONS, N_SAMPLES, Sample, check, draws, is_binomial};
use distributions::Error;
use distributions::estimate::{Fit, Interval, SufficientStatistic};
use proptest::prelude::*;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tensor_core::compare::{Tolerance, assert_close};

/// Tolerance of an estimate, in epsilons: below 1e-14. Each rounding is half an epsilon. A term of
/// the dispersion has 12 roundings, which are 6 epsilons. Each update of the running mean has 3
/// roundings. Relative to the mean distance of the observations from the mean, the sizes of the
/// updates for n observations add up to 1 + ln n, which is below 8 here. An error of the mean
/// counts twice in a squared distance, which adds 24 epsilons. The shape has one more rounding, of
/// the quotient.
const ESTIMATE: usize = 40;
/// Tolerance of an end of an interval, in epsilons: 2e-11, the error of the quantiles of χ² and of
/// Student's distribution.
const END: usize = 90_072;

#[test]
fn estimates_meet_their_golden_values() {
    let bound = || Tolerance::relative(ESTIMATE);
    check("mean", bound(), |_, fit| fit.distribution().mean());
    check("dispersion", bound(), |_, fit| fit.statistic().dispersion());
    check("shape", bound(), |_, fit| fit.distribution().shape());
    check("mean_error", bound(), |_, fit| fit.mean_standard_error());
    check("shape_error", bound(), |_, fit| fit.shape_standard_error());
}

#[test]
fn ends_of_intervals_meet_their_golden_values() {
    const LEVEL: f64 = 0.95;
    let bound = || Tolerance::relative(END);
    let shape = |fit: &Fit| fit.shape_interval(LEVEL).unwrap();
    check("shape_lower", bound(), |_, fit| shape(fit).lower);
    check("shape_upper", bound(), |_, fit| shape(fit).upper);
    // The relative error of 1/(1 - c) is that of c times c/(1 - c), which is upper/m - 1. An
    // infinite end has the tolerance 0, so it must be infinite in both.
    let upper = |column: &str| {
        let scale = |sample: &Sample| {
            let upper = sample.number(column);
            upper * (upper / sample.number("mean")).max(1.0)
        };
        let samples = Sample::all();
        let scales = samples.iter().map(scale);
        let finite = scales.map(|scale| if scale < f64::INFINITY { scale } else { 0.0 });
        Tolerance::relative(END).scaled_by(finite)
    };
    let mean = |fit: &Fit| fit.mean_interval(LEVEL).unwrap();
    check("mean_lower", bound(), |_, fit| mean(fit).lower);
    check("mean_upper", upper("mean_upper"), |_, fit| mean(fit).upper);
    let known = |sample: &Sample, fit: &Fit| {
        let shape = sample.number("lambda");
        fit.mean_interval_given_shape(LEVEL, shape).unwrap()
    };
    check("known_lower", bound(), |sample, fit| {
        known(sample, fit).lower
    });
    check("known_upper", upper("known_upper"), |sample, fit| {
        known(sample, fit).upper
    });
}

/// Computes the statistic of a sample by splitting the sample at random, recursively, and merging
/// the statistics of both parts.
fn merged_anyhow(xs: &[f64], rng: &mut Xoshiro256PlusPlus) -> SufficientStatistic {
    if xs.len() < 3 {
        return SufficientStatistic::from_sample(xs)
            .expect("the sample has positive finite numbers");
    }
    let (left, right) = xs.split_at(rng.random_range(1..xs.len()));
    let mut statistic = merged_anyhow(left, rng);
    let other = merged_anyhow(right, rng);
    statistic.merge(&other).expect("sums in range");
    statistic
}

#[test]
fn a_fit_does_not_depend_on_splits_and_order() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for exponent in -14..=6 {
        let mut xs = draws(10.0_f64.powi(exponent), 1000, &mut rng);
        let whole = SufficientStatistic::from_sample(&xs).unwrap();
        for _ in 0..10 {
            xs.shuffle(&mut rng);
            let merged = merged_anyhow(&xs, &mut rng);
            assert_eq!((merged.count(), merged.weight()), (1000, 1000.0));
            let found = [merged.mean(), merged.dispersion()];
            // Both statistics have errors up to `ESTIMATE`.
            assert_close(
                found,
                [whole.mean(), whole.dispersion()],
                Tolerance::relative(2 * ESTIMATE),
            );
        }
    }
}

#[test]
fn a_weight_counts_as_so_many_equal_observations() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    for phi in [1e-14, 1e-3, 1.0, 1e6] {
        let xs = draws(phi, 50, &mut rng);
        let weights: Vec<u32> = xs.iter().map(|_| rng.random_range(1..9)).collect();
        let pairs: Vec<(f64, f64)> = xs
            .iter()
            .copied()
            .zip(weights.iter().map(|&w| w.into()))
            .collect();
        let repeated: Vec<f64> = xs
            .iter()
            .zip(&weights)
            .flat_map(|(&x, &w)| vec![x; w as usize])
            .collect();
        let weighted = SufficientStatistic::of_weighted(&pairs).unwrap();
        let once = SufficientStatistic::from_sample(&repeated).unwrap();
        assert_eq!((weighted.count(), weighted.weight()), (50, once.weight()));
        let found = [weighted.mean(), weighted.dispersion()];
        assert_close(
            found,
            [once.mean(), once.dispersion()],
            Tolerance::relative(2 * ESTIMATE),
        );
    }
}

#[test]
fn no_sum_is_lost_to_a_heavier_or_larger_one() {
    // An observation of 1, and an observation of 1e-20 with weight 1e30. Starting from the lighter
    // mean, 1, the correction would cancel all digits and the result would be 0.
    let mut found = Vec::new();
    for pairs in [[(1.0, 1.0), (1e-20, 1e30)], [(1e-20, 1e30), (1.0, 1.0)]] {
        let statistic = SufficientStatistic::of_weighted(&pairs).unwrap();
        found.extend([statistic.mean(), statistic.dispersion()]);
    }
    // W m = 1 + 1e10, and S = W_a W_b (1 - 1e-20)² / (1e-20 W m).
    let (mean, dispersion) = (1.000_000_000_1e-20, 1e50 / (1.0 + 1e10));
    assert_close(
        &found,
        [mean, dispersion, mean, dispersion],
        Tolerance::relative(ESTIMATE),
    );
    // Observations at both ends of the supported range of parameters.
    let wide = SufficientStatistic::from_sample(&[1e-140, 1e140]).unwrap();
    assert_close(
        [wide.mean(), wide.dispersion()],
        [0.5e140, 1e140],
        Tolerance::relative(4),
    );
}

#[test]
fn a_bad_observation_is_named_and_changes_nothing() {
    let mut statistic = SufficientStatistic::from_sample(&[1.0, 2.0]).unwrap();
    let before = statistic;
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let is_value = |x: f64| x.to_bits() == value.to_bits();
        let error = statistic.push(value).unwrap_err();
        assert!(
            matches!(error, Error::ObservationInvalid { index: 2, value, .. } if is_value(value)),
            "{error}"
        );
        let error = statistic.push_weighted(1.0, value).unwrap_err();
        assert!(
            matches!(error, Error::WeightInvalid { index: 2, weight, .. } if is_value(weight)),
            "{error}"
        );
        assert_eq!(statistic, before);
    }
    // Sums that overflow f64: of weights, and of 1/x.
    for (x, weight) in [(3.0, f64::MAX), (1e-300, 1e300)] {
        let mut heavy = SufficientStatistic::of_weighted(&[(1.0, f64::MAX)]).unwrap();
        let before = heavy;
        let error = heavy.push_weighted(x, weight).unwrap_err();
        assert!(matches!(error, Error::StatisticInvalid { .. }), "{error}");
        assert!(error.to_string().starts_with("push_weighted: "), "{error}");
        // Numbers are written in their shortest form: 5e-324 must not take 324 digits.
        assert!(error.to_string().len() < 200, "{error}");
        assert_eq!(heavy, before);
    }
}

#[test]
fn a_sample_too_small_or_without_spread_has_no_fit() {
    for xs in [&[][..], &[2.0][..]] {
        let error = Fit::from_sample(xs).unwrap_err();
        assert!(
            matches!(error, Error::TooFewObservations { above: 1.0, .. }),
            "{error}"
        );
    }
    let error = Fit::from_sample(&[0.1; 5]).unwrap_err();
    assert_eq!(
        error,
        Error::ObservationsEqual {
            operation: "fit",
            value: 0.1
        }
    );
    // An observation of weight 3 counts as three equal observations.
    let error = SufficientStatistic::of_weighted(&[(0.1, 3.0)])
        .unwrap()
        .fit()
        .unwrap_err();
    assert!(matches!(error, Error::ObservationsEqual { .. }), "{error}");
    let error = Fit::from_sample(&[1.0, 2.0, 3.0])
        .unwrap()
        .unbiased_shape()
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooFewObservations {
                weight: 3.0,
                above: 3.0,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn intervals_reject_invalid_levels_and_are_exact_at_levels_0_and_1() {
    let fit = Fit::from_sample(&[1.0, 2.0, 4.0]).unwrap();
    for level in [-0.1, 1.1, f64::NAN] {
        for result in [
            fit.shape_interval(level),
            fit.mean_interval(level),
            fit.mean_interval_given_shape(level, 1.0),
        ] {
            assert!(matches!(result, Err(Error::ProbabilityInvalid { .. })));
        }
    }
    assert!(matches!(
        fit.mean_interval_given_shape(0.9, 0.0),
        Err(Error::ShapeInvalid { .. })
    ));
    let all = Interval {
        lower: 0.0,
        upper: f64::INFINITY,
    };
    assert_eq!(fit.shape_interval(1.0), Ok(all));
    assert_eq!(fit.mean_interval(1.0), Ok(all));
    let mean = fit.distribution().mean();
    assert_eq!(
        fit.mean_interval(0.0),
        Ok(Interval {
            lower: mean,
            upper: mean
        })
    );
}

#[test]
fn the_ends_of_the_interval_of_a_shape_meet_at_level_0() {
    for n in 2..100_u32 {
        let sample: Vec<f64> = (1..=n).map(f64::from).collect();
        let fit = Fit::from_sample(&sample).unwrap();
        for level in [0.0, 1e-16, 1e-15] {
            let Interval { lower, upper } = fit.shape_interval(level).unwrap();
            assert!(lower <= upper, "{n} {level}: {lower} {upper}");
            assert_close([lower], [upper], Tolerance::relative(64));
        }
    }
}

#[test]
fn exact_intervals_cover_as_often_as_they_say() {
    const LEVEL: f64 = 0.9;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
    // Small samples with small, medium and large variation, for which the usual intervals for large
    // samples are wrong.
    for (phi, n) in [(1e-6, 3), (0.5, 4), (3.0, 8), (1e3, 5)] {
        let shape = 1.0 / phi;
        let mut covered = [0; 3];
        for _ in 0..N_SAMPLES {
            let fit = Fit::from_sample(&draws(phi, n, &mut rng)).unwrap();
            let intervals = [
                (fit.shape_interval(LEVEL).unwrap(), shape),
                (fit.mean_interval(LEVEL).unwrap(), 1.0),
                (fit.mean_interval_given_shape(LEVEL, shape).unwrap(), 1.0),
            ];
            for (covered, (interval, truth)) in covered.iter_mut().zip(intervals) {
                *covered += u32::from(interval.lower <= truth && truth <= interval.upper);
            }
        }
        assert!(
            covered
                .iter()
                .all(|&count| is_binomial(count, N_SAMPLES, LEVEL)),
            "{phi} {n} {covered:?}"
        );
    }
}

#[test]
fn unbiased_estimates_are_right_on_average() {
    const SHAPE: f64 = 2.0;
    const N: usize = 9;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let (mut shapes, mut inverses) = (0.0, 0.0);
    for _ in 0..N_SAMPLES {
        let fit = Fit::from_sample(&draws(1.0 / SHAPE, N, &mut rng)).unwrap();
        shapes += fit.unbiased_shape().unwrap() / f64::from(N_SAMPLES);
        inverses += fit.unbiased_inverse_shape() / f64::from(N_SAMPLES);
    }
    // Variances: 2 λ²/(n - 5) and 2/(λ² (n - 1)).
    let count = f64::from(N_SAMPLES);
    let allowed = DEVIATIONS * SHAPE * (2.0 / 4.0 / count).sqrt();
    assert_close([shapes], [SHAPE], Tolerance::exact().or_absolute(allowed));
    let allowed = DEVIATIONS / SHAPE * (2.0 / 8.0 / count).sqrt();
    assert_close(
        [inverses],
        [1.0 / SHAPE],
        Tolerance::exact().or_absolute(allowed),
    );
    // The test would detect the biased estimate, which is too large by n/(n - 3) = 1.5.
}

proptest! {
    #[test]
    fn fits_scale_with_their_data(xs in prop::collection::vec(0.01..100.0_f64, 3..40), exponent in -400..400_i32) {
        prop_assume!(xs.iter().any(|&x| x != xs[0]));
        // Scaling by a power of two changes no digit.
        let scale = 2.0_f64.powi(exponent);
        let scaled: Vec<f64> = xs.iter().map(|x| x * scale).collect();
        let (fit, other) = (Fit::from_sample(&xs).unwrap().distribution(), Fit::from_sample(&scaled).unwrap().distribution());
        prop_assert_eq!([other.mean(), other.shape()], [fit.mean() * scale, fit.shape() * scale]);
    }

    #[test]
    fn merging_commutes(
        a in prop::collection::vec(0.01..100.0_f64, 0..20),
        b in prop::collection::vec(0.01..100.0_f64, 0..20),
    ) {
        let [a, b] = [a, b].map(|xs| SufficientStatistic::from_sample(&xs).unwrap());
        let (mut ab, mut ba) = (a, b);
        ab.merge(&b).unwrap();
        ba.merge(&a).unwrap();
        let [found, expected] = [ab, ba].map(|of| [of.weight(), of.mean(), of.dispersion()]);
        // `merge` starts from the heavier part for both orders. Two parts of equal weight may be
        // rounded differently.
        assert_close(found, expected, Tolerance::relative(4).or_absolute(f64::MIN_POSITIVE));
    }
}

#[test]
fn the_likelihood_of_a_fit_is_the_sum_of_its_densities() {
    for sample in Sample::all() {
        let fit = Fit::from_sample(&sample.xs).unwrap();
        let ln_pdfs = sample.xs.iter().map(|&x| fit.distribution().ln_pdf(x));
        let n = fit.statistic().weight();
        let of_x = sample.xs.iter().map(|x| x.ln().abs()).sum::<f64>() / n;
        let scale = n * (1.0 + fit.distribution().shape().ln().abs() + of_x);
        // Rounding errors of the parameters change the log-densities by `sqrt(λ/μ)` epsilons.
        let steep =
            1.0 + (fit.distribution().shape() / fit.distribution().mean()).sqrt() * f64::EPSILON;
        let bound = Tolerance::relative(16).scaled_by([scale * steep]);
        assert_close([fit.ln_likelihood()], [ln_pdfs.sum::<f64>()], bound);
    }
    let weighted = [(0.5, 2.0), (1.5, 3.0), (4.0, 1.0)];
    let repeated = [0.5, 0.5, 1.5, 1.5, 1.5, 4.0];
    let weighted = SufficientStatistic::of_weighted(&weighted)
        .unwrap()
        .fit()
        .unwrap();
    let repeated = Fit::from_sample(&repeated).unwrap();
    let found = [weighted.ln_likelihood(), weighted.aic()];
    let expected = [
        repeated.ln_likelihood(),
        4.0 - 2.0 * repeated.ln_likelihood(),
    ];
    assert_close(found, expected, Tolerance::relative(16));
}

#[cfg(feature = "serde")]
#[test]
fn a_statistic_is_read_back_whole_and_a_made_up_one_rejected() {
    let read = serde_json::from_value::<SufficientStatistic>;
    let statistic = SufficientStatistic::from_sample(&[1.0, 1.0 + 1e-15, 3.0]).unwrap();
    for statistic in [statistic, SufficientStatistic::new()] {
        let value = serde_json::to_value(statistic).unwrap();
        assert_eq!(read(value).unwrap(), statistic);
    }
    for (sum, part, number) in [
        ("weight", "high", 0.0),
        ("mean", "high", -1.0),
        ("mean", "low", 0.1),
        ("dispersion", "high", -1e-9),
    ] {
        let mut value = serde_json::to_value(statistic).unwrap();
        value[sum][part] = number.into();
        let error = read(value).unwrap_err().to_string();
        assert!(
            error.starts_with("deserialize: statistic is impossible"),
            "{error}"
        );
    }
}

#[cfg(feature = "serde")]
#[test]
fn results_are_read_back_whole() {
    use distributions::estimate::GoodnessOfFit;
    use distributions::{Decision, InverseGaussian, distance};
    fn is_read_back<T>(value: T)
    where
        T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let tree = serde_json::to_value(&value).unwrap();
        assert_eq!(serde_json::from_value::<T>(tree).unwrap(), value);
    }
    let xs = [1.0, 2.0, 4.0, 5.0];
    let fit = Fit::from_sample(&xs).unwrap();
    is_read_back(fit);
    is_read_back(fit.shape_interval(0.9).unwrap());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    is_read_back(
        GoodnessOfFit::Kolmogorov
            .bootstrap(&xs, 9, &mut rng)
            .unwrap(),
    );
    is_read_back(
        distance::kolmogorov(
            &fit.distribution(),
            &InverseGaussian::new(1.0, 1.0).unwrap(),
        )
        .unwrap(),
    );
    is_read_back([
        Decision::Continue,
        Decision::AcceptNull,
        Decision::AcceptAlternative,
    ]);
    let statistic = serde_json::json!({"count": 0});
    assert!(serde_json::from_value::<Fit>(statistic).is_err());
}
