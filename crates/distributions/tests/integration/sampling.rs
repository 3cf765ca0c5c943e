//! Random draws: fixed values for a seed, validity for all parameters, and the distribution of the
//! draws.

use distributions::InverseGaussian;
use distributions::estimate::GoodnessOfFit;
use rand::distr::Distribution;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tensor_core::compare::{Tolerance, assert_close};

/// Means and shapes at the ends of the supported range of parameters, and beyond.
const EXTREMES: [[f64; 2]; 8] = [
    [1.0, 1e-12],
    [1.0, 1e-8],
    [1e8, 1.0],
    [1e12, 1.0],
    [1e16, 1.0],
    [1e200, 1e-200],
    [1.0, 1e14],
    [1e-140, 1e-132],
];

/// Returns the generator for a seed.
fn generator(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

#[test]
fn the_first_draws_of_a_seed_stay_what_they_are() {
    let distribution = InverseGaussian::new(1.5, 2.0).unwrap();
    let draws: Vec<f64> = distribution.sample_iter(generator(42)).take(10).collect();
    let known = [
        3.0441157883665424,
        0.4730510175379656,
        0.6712599524792258,
        0.48384109624991406,
        0.8900060634418892,
        1.2199811407172416,
        2.2950308534015913,
        1.243584348272926,
        4.291304454631981,
        1.5765725726843824,
    ];
    assert_close(draws, known, Tolerance::relative(4));
}

#[test]
fn a_filled_slice_holds_the_same_draws() {
    let distribution = InverseGaussian::new(1.5, 2.0).unwrap();
    let mut filled = [0.0; 100];
    distribution.sample_into(&mut generator(42), &mut filled);
    let draws: Vec<f64> = distribution.sample_iter(generator(42)).take(100).collect();
    assert_eq!(filled.to_vec(), draws);
}

#[test]
fn no_draw_is_zero_negative_infinite_or_nan() {
    let n_draws = if std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1") {
        10_000_000
    } else {
        100_000
    };
    for [mean, shape] in EXTREMES {
        let distribution = InverseGaussian::new(mean, shape).unwrap();
        let mut rng = generator(7);
        let n_bad = (0..n_draws)
            .map(|_| distribution.sample(&mut rng))
            .filter(|x| !(*x > 0.0 && *x < f64::MAX))
            .count();
        assert_eq!(n_bad, 0, "{distribution:?}");
    }
}

#[test]
fn draws_follow_their_distribution_everywhere() {
    const N: u32 = 20_000;
    // For a correct sampler sqrt(n) D exceeds this value once in 10⁶ samples.
    const WORST: f64 = 2.7;
    let phis = [1e-14, 1e-6, 1e-2, 0.5, 1.0, 30.0, 1e4, 1e8];
    for (seed, phi) in (100..).zip(phis) {
        let distribution = InverseGaussian::new(3.0, 3.0 / phi).unwrap();
        let statistic = kolmogorov(&distribution, &distribution, N, seed);
        assert!(statistic < WORST, "{distribution:?}: {statistic}");
        // The test must be able to detect a wrong distribution.
        let other = InverseGaussian::new(3.0, 4.0 / phi).unwrap();
        let statistic = kolmogorov(&distribution, &other, N, seed);
        assert!(
            statistic > WORST,
            "draws of {distribution:?} are not distinguished from {other:?} ({statistic})"
        );
    }
}

/// Returns `sqrt(n) D` of draws from one distribution against the distribution function of another.
fn kolmogorov(drawn: &InverseGaussian, distribution: &InverseGaussian, n: u32, seed: u64) -> f64 {
    let draws: Vec<f64> = drawn
        .sample_iter(generator(seed))
        .take(n as usize)
        .collect();
    let statistic = GoodnessOfFit::Kolmogorov.statistic(distribution, &draws);
    f64::from(n).sqrt() * statistic.expect("draws are observations")
}

#[test]
fn moments_of_draws_are_those_of_the_distribution() {
    const N: usize = 200_000;
    let distribution = InverseGaussian::new(2.0, 6.0).unwrap();
    let draws: Vec<f64> = generator(5).sample_iter(distribution).take(N).collect();
    let mean = draws.iter().sum::<f64>() / N as f64;
    let variance = draws.iter().map(|x| (x - 2.0).powi(2)).sum::<f64>() / N as f64;
    // Five standard errors.
    let error = 5.0 / (N as f64).sqrt();
    let spread = (distribution.central_moment(4) - distribution.variance().powi(2)).sqrt();
    let within = |allowed| Tolerance::exact().or_absolute(allowed);
    assert_close(
        [mean],
        [distribution.mean()],
        within(error * distribution.std_dev()),
    );
    assert_close(
        [variance],
        [distribution.variance()],
        within(error * spread),
    );
}
