//! Decides between two means with as few observations as possible.
//!
//! Run it with `cargo run -p distributions --example sequential_test`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use distributions::{Decision, Sprt};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, Normal};
use std::error::Error;

const RUNS: u32 = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    // Mean 0 against mean 0.5, standard deviation 1, error probabilities 5 % and 10 %.
    let test = Sprt::new(0.0, 0.5, 1.0, 0.05, 0.1)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for mean in [0.0, 0.25, 0.5] {
        let observations = Normal::new(mean, 1.0).expect("a valid standard deviation");
        let (mut rejected, mut taken) = (0_u32, 0_u32);
        for _ in 0..RUNS {
            let mut ratio = 0.0;
            while test.decision(ratio) == Decision::Continue {
                ratio += test.increment(observations.sample(&mut rng));
                taken += 1;
            }
            rejected += u32::from(test.decision(ratio) == Decision::AcceptAlternative);
        }
        println!(
            "mean {mean}: rejects in {:.1} % of the runs (formula {:.1} %), {:.1} observations (formula {:.1})",
            100.0 * f64::from(rejected) / f64::from(RUNS),
            100.0 * test.power(mean),
            f64::from(taken) / f64::from(RUNS),
            test.expected_sample_size(mean),
        );
    }
    Ok(())
}
