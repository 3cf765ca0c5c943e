//! Defines a Weibull distribution, and compares it with an inverse Gaussian distribution.
//!
//! Run it with `cargo run -p distributions --example own_distribution`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use distributions::{Custom, CustomDistribution, InverseGaussian, distance};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

/// The Weibull distribution of the lifetimes of parts that age.
#[derive(Clone, Copy)]
struct Weibull {
    scale: f64,
    shape: f64,
}

impl CustomDistribution for Weibull {
    fn support(&self) -> [f64; 2] {
        [0.0, f64::INFINITY]
    }

    fn ln_pdf(&self, x: f64) -> f64 {
        let ln_ratio = (x / self.scale).ln();
        (self.shape / self.scale).ln() + (self.shape - 1.0) * ln_ratio
            - (self.shape * ln_ratio).exp()
    }

    fn ln_tails(&self, x: f64) -> [f64; 2] {
        let ln_sf = -(x / self.scale).powf(self.shape);
        [(-ln_sf.exp_m1()).ln(), ln_sf]
    }

    fn quantile_guess(&self, ln_p: f64, is_upper: bool) -> f64 {
        let hazard = if is_upper { -ln_p } else { ln_p.exp() };
        self.scale * hazard.powf(1.0 / self.shape)
    }
}

fn main() -> Result<(), distributions::Error> {
    // Lifetimes in years: a mean of 10 and a standard deviation of about 5.2.
    let (scale, shape) = (11.29, 2.0);
    let weibull = Custom::new(Weibull { scale, shape });
    let wald = InverseGaussian::from_mean_variance(10.0, 27.3)?;
    let [in_year_20, longest] = [weibull.hazard(20.0), weibull.inverse_sf(1e-6)];
    println!(
        "Weibull: {in_year_20:.3} failures in year 20, one in a million lives {longest:.1} years"
    );
    let [in_year_20, longest] = [wald.hazard(20.0), wald.inverse_sf(1e-6)];
    println!("inverse Gaussian: {in_year_20:.3} and {longest:.1} years");
    let apart = distance::total_variation(&weibull, &wald)?;
    println!("total variation distance: {:.4}", apart.value);

    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mean = (0..2000).map(|_| weibull.sample(&mut rng)).sum::<f64>() / 2000.0;
    println!("mean of 2000 draws: {mean:.2} years");
    assert!((mean - 10.0).abs() < 0.5);
    Ok(())
}
