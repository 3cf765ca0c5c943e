//! Finds the clock with the least energy per item of work, from a sweep of clocks.
//!
//! Run it with `cargo run -p telemetry --example clocks`. The points are the P100's in Tang et al.
//! 2019, "The impact of GPU DVFS on the energy and performance of deep learning"; the example
//! `sweep` measures points with `telemetry::sweep`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::error::Error;
use telemetry::analysis::{ClockMeasurement, dvfs};

/// The points of the published sweep: clock in MHz, power in W, and throughput in images per
/// second.
const MEASURED: [[f64; 3]; 7] = [
    [544.0, 57.0, 60.0],
    [683.0, 62.0, 75.0],
    [810.0, 65.0, 85.0],
    [936.0, 70.0, 95.0],
    [1063.0, 78.0, 105.0],
    [1202.0, 88.0, 115.0],
    [1328.0, 115.0, 120.0],
];

/// An assumed relative standard error of the energies, which the publication does not state.
const NOISE: f64 = 0.02;

fn main() -> Result<(), Box<dyn Error>> {
    let points = MEASURED.map(|[clock_mhz, watts, rate]| ClockMeasurement {
        clock_mhz,
        watts,
        rate,
        noise: NOISE,
    });
    let curve = dvfs(&points)?;
    for (point, joules) in curve.points.iter().zip(&curve.joules) {
        println!("{:5} MHz: {joules:.3} J per image", point.clock_mhz);
    }
    let best = curve.least_energy;
    println!(
        "least energy at {} MHz: {:.0} % saved, {:.0} % slower",
        best.clock_mhz,
        100.0 * best.saving,
        100.0 * best.slowdown
    );
    let mild = curve.saving_at(0.1);
    println!(
        "at most 10 % slower: {} MHz, {:.0} % saved",
        mild.clock_mhz,
        100.0 * mild.saving
    );
    if let Some(model) = curve.best_physical() {
        println!(
            "P = {:.0} W + c f^{}, explains {:.1} % of power",
            model.static_w,
            model.exponent,
            100.0 * model.power_r_squared
        );
    }
    assert!(best.saving > 0.2);
    Ok(())
}
