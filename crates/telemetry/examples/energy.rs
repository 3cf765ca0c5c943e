//! Measures the energy of a function, with its error interval, and the energy wasted while idle.
//!
//! Run it with `cargo run -p telemetry --example energy`. It uses NVIDIA's GPUs or the CPU's RAPL
//! counters if they report energy, otherwise a simulated GPU.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::error::Error;
use std::time::{Duration, Instant};
use telemetry::nvml::Nvml;
use telemetry::rapl::Rapl;
use telemetry::synthetic::{PowerProfile, Synthetic};
use telemetry::{Device, Sampler, Source, analysis, measure_by};

/// Opens the first source that reports energy: NVML, else RAPL, else a simulated GPU.
fn source() -> telemetry::Result<Box<dyn Source>> {
    // A driver without GPUs and counters that only root may read can be opened, too.
    let reports_energy = |source: &dyn Source| source.devices().iter().any(Device::reports_energy);
    if let Some(nvml) = Nvml::open().ok().filter(|nvml| reports_energy(nvml)) {
        return Ok(Box::new(nvml));
    }
    if let Some(rapl) = Rapl::open().ok().filter(|rapl| reports_energy(rapl)) {
        return Ok(Box::new(rapl));
    }
    println!("no sensor: a simulated GPU, busy for 0.3 s of each second");
    Ok(Box::new(Synthetic::from_power(PowerProfile::square(
        30.0, 200.0, 1.0, 0.3,
    ))?))
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
    let sampler = Sampler::new(source()?).interval(Duration::from_millis(20));
    let (_, report) = measure_by(sampler, work)?;
    println!("{:.2} s", report.duration().as_secs_f64());
    for (device, energy) in &report.devices {
        match energy {
            Some(energy) => println!("{}: {energy}", device.name),
            None => println!("{}: no energy", device.name),
        }
    }

    // A longer trace shows whether a device waits for input.
    let trace = Sampler::new(source()?)
        .interval(Duration::from_millis(20))
        .record(Duration::from_secs(4))?;
    println!(
        "{}",
        analysis::idle_periods(&trace, 0)
            .map_or_else(|error| error.to_string(), |found| found.to_string())
    );
    Ok(())
}
