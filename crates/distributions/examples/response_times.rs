//! Fits an inverse Gaussian to response times, tests the fit, and compares it with a normal one.
//!
//! Run it with `cargo run -p distributions --example response_times`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use distributions::InverseGaussian;
use distributions::estimate::{Fit, GoodnessOfFit, ShiftedFit};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // Response times in seconds, here simulated with a non-decision time of 0.2 s.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let truth = InverseGaussian::new(0.45, 1.8)?;
    let times: Vec<f64> = (0..400).map(|_| 0.2 + truth.sample(&mut rng)).collect();

    let fit = Fit::from_sample(&times)?;
    let mean = fit.mean_interval(0.95)?;
    println!(
        "mean {:.3} s, 95 % interval {:.3} to {:.3} s",
        fit.distribution().mean(),
        mean.lower,
        mean.upper
    );

    let shifted = ShiftedFit::from_sample(&times, 0.0)?;
    let found = shifted.distribution();
    println!(
        "shift {:.3} s, mean of the rest {:.3} s, shape {:.2}",
        found.shift(),
        found.unshifted().mean(),
        found.unshifted().shape()
    );
    println!(
        "AIC {:.1} without shift, {:.1} with shift",
        fit.aic(),
        shifted.aic()
    );

    let test = GoodnessOfFit::AndersonDarling.bootstrap(&times, 199, &mut rng)?;
    println!(
        "Anderson-Darling test of the fit without shift: p = {:.3}",
        test.p_value
    );
    println!(
        "99 % of the responses come within {:.2} s",
        found.inverse_cdf(0.99)
    );
    assert!(mean.lower < 0.65 && 0.65 < mean.upper);
    Ok(())
}
