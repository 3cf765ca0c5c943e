//! Measures the energy of a job at several GPU clocks, and picks a clock for a permitted slowdown.
//!
//! Run it with `cargo run -p telemetry --example sweep`. The GPU is simulated; with permission to
//! set clocks, `Nvml::open` opens a real one.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::env::{self, consts::DLL_PREFIX, consts::DLL_SUFFIX};
use std::error::Error;
use std::time::{Duration, Instant};
use telemetry::nvml::Nvml;
use telemetry::synthetic::{Board, PowerProfile, Scenario};
use telemetry::{Sampler, SweepPlan, analysis, sweep};

/// The environment variable from which the simulated library reads its machine.
const VARIABLE: &str = "FAKE_NVML_SCENARIO";

fn main() -> Result<(), Box<dyn Error>> {
    let mut machine = Scenario::from_boards(&[Board::V100]);
    machine.gpus[0].power = PowerProfile::constant(250.0);
    machine.may_control = true;
    let program = env::current_exe()?;
    if env::var_os(VARIABLE).is_none() {
        // A program cannot safely set its own environment variables, so it starts itself again.
        let mut child = std::process::Command::new(program);
        let status = child.env(VARIABLE, machine.to_json()?).status()?;
        std::process::exit(status.code().unwrap_or(1));
    }
    // Cargo builds the library into the folder `deps` next to the folder of the examples.
    let library = program.with_file_name(format!("../deps/{DLL_PREFIX}fake_nvml{DLL_SUFFIX}"));

    let control = Nvml::open_at(&library)?;
    let sampled = Nvml::open_at(&library)?;
    let running = Sampler::new(sampled).start()?;
    let plan = SweepPlan {
        clocks_mhz: control.sm_clocks(0)?.into_iter().step_by(25).collect(),
        repeats: 2,
        settle: Duration::from_millis(120),
    };
    // Returns the number of items that the simulated GPU finishes in the time of the job.
    let job = |clock_mhz: u32| {
        let start = Instant::now();
        std::thread::sleep(Duration::from_millis(300));
        machine.gpus[0].clocks.speed_per_s(clock_mhz.into()) * start.elapsed().as_secs_f64()
    };
    let clocks = sweep(&control, 0, &running, &plan, || false, job)?;
    let curve = analysis::dvfs_from_runs(&clocks)?;
    for (point, joules) in curve.points.iter().zip(&curve.joules) {
        let (clock_mhz, watts) = (point.clock_mhz, point.watts);
        println!("{clock_mhz:4} MHz: {watts:.0} W, {joules:.2} J per item");
    }
    let best = curve.saving_at(0.4);
    let saving = 100.0 * best.saving;
    println!(
        "at most 40 % slower: {} MHz, {saving:.0} % saved",
        best.clock_mhz
    );
    Ok(())
}
