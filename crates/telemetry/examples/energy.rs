//! Measures the energy of a function, with its error interval, and the energy wasted while idle.
//!
//! Run it with `cargo run -p telemetry --example energy`. It uses NVIDIA's GPUs or the CPU's RAPL
//! counters if they report energy, otherwise a simulated GPU.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::error::Error;
use std::time::{Duration, Instant};
use telemetry::synthetic::{PowerProfile, Synthetic};
use telemetry::{Sampler, analysis, measure_by};

/// Opens the sensors of this machine, or a simulated GPU if no sensor reports energy.
fn sampler() -> telemetry::Result<Sampler> {
    Sampler::open_with_energy().or_else(|error| {
        println!("{error}: a simulated GPU, busy for 0.3 s of each second");
        let power = PowerProfile::square(30.0, 200.0, 1.0, 0.3);
        Ok(Sampler::new(Synthetic::from_power(power)?))
    })
}

fn work() -> u64 {
    let start = Instant::now();
    let mut sum = 0_u64;
    while start.elapsed() < Duration::from_secs(2) {
        sum = (0..10_000).fold(sum, |sum: u64, i| sum.wrapping_mul(31).wrapping_add(i));
    }
    sum
}

fn main() -> Result<(), Box<dyn Error>> {
    let interval = Duration::from_millis(20);
    let (_, report) = measure_by(sampler()?.interval(interval), work)?;
    println!("{:.2} s", report.duration().as_secs_f64());
    for (device, energy) in &report.devices {
        match energy {
            Some(energy) => println!("{}: {energy}", device.name),
            None => println!("{}: no energy", device.name),
        }
    }

    // A longer trace shows whether a device waits for input.
    let running = sampler()?.interval(interval).start()?;
    std::thread::sleep(Duration::from_secs(4));
    let trace = running.stop().trace;
    println!(
        "{}",
        analysis::idle_periods(&trace, 0)
            .map_or_else(|error| error.to_string(), |found| found.to_string())
    );
    Ok(())
}
