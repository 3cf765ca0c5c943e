//! The analyses of recorded files: `trace compare` and `trace dvfs`.
//!
//! Role: reads recordings of a job, and prints the results of `analysis::compare_policies` and
//! `analysis::dvfs_from_runs` as text or JSON.

use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use charts::units;
use serde_json::{Value, json};
use telemetry::analysis::{
    ClockRuns, Comparison, Curve, Job, Optimum, Policy, compare_policies, dvfs_from_runs,
};
use telemetry::{Metric, Select, Trace};
use tool_io::output::{self, printable};

use crate::findings::{named, window};
use crate::json;
use crate::recorded;

const PER_CENT: f64 = 100.0;

/// Two recordings of a job, each with its amount of work.
pub(crate) struct Pair {
    pub(crate) files: [PathBuf; 2],
    pub(crate) items: [f64; 2],
}

/// Prints the comparison of two recordings, for each device.
///
/// # Errors
/// A file that cannot be read, other numbers of devices in the two files, and a device without
/// energy.
pub(crate) fn compare(pair: &Pair, select: &Select, is_json: bool) -> Result<()> {
    let [before, after] = &pair.files;
    let traces = [before, after].map(|file| selected(file, select));
    let [old, new] = traces;
    let (old, new) = (old?, new?);
    ensure!(
        old.devices.len() == new.devices.len(),
        "compare: numbers of devices differ ({}: {}, {}: {}); --gpu selects devices",
        before.display(),
        old.devices.len(),
        after.display(),
        new.devices.len()
    );
    let mut compared = vec![];
    for device in 0..old.devices.len() {
        let job = |trace, items| Job {
            trace,
            device,
            window: Some(window(trace, device)),
            items,
        };
        let [old_items, new_items] = pair.items;
        compared.push(compare_policies(
            &job(&old, old_items),
            &job(&new, new_items),
        )?);
    }
    let each = old.devices.iter().zip(&compared);
    if is_json {
        let devices = each.map(|(device, found)| comparison(&named(device), found));
        let result = json!({
            "before": before,
            "after": after,
            "devices": devices.collect::<Vec<_>>(),
        });
        return Ok(output::print_line(result)?);
    }
    for (device, found) in each {
        output::print_line(format_args!("{}: {found}", printable(&named(device))))?;
    }
    Ok(())
}

fn comparison(name: &str, found: &Comparison) -> Value {
    json!({
        "name": name,
        "speedup": found.speedup,
        "energy_ratio": found.energy_ratio,
        "energy_ratio_low": found.energy_ratio_range.0,
        "energy_ratio_high": found.energy_ratio_range.1,
        "before": policy(&found.before),
        "after": policy(&found.after),
    })
}

fn policy(found: &Policy) -> Value {
    let reasons = found.reasons.iter();
    let reasons = reasons.map(|it| json!({ "reason": it.reason.name, "share": it.share }));
    json!({
        "duration_s": found.seconds,
        "items_per_s": found.throughput,
        "energy": json::energy(&found.energy),
        "energy_per_item_j": found.joules_per_item,
        "mean_w": found.mean_w,
        "power_limit_w": found.power_limit_w,
        "sm_clock_mhz": found.sm_clock_mhz,
        "memory_clock_mhz": found.memory_clock_mhz,
        "hottest_c": found.hottest_c,
        "reasons": reasons.collect::<Vec<_>>(),
    })
}

/// Prints the energy curve of the runs in recorded files. `max_slowdown_pct` requests the clock of
/// least energy within a loss of speed.
///
/// # Errors
/// A file that cannot be read or has not exactly one device, a run without energy or clock, and
/// fewer than three clocks.
pub(crate) fn energy_curve(
    files: &[PathBuf],
    items: f64,
    max_slowdown_pct: Option<f64>,
    select: &Select,
    is_json: bool,
) -> Result<()> {
    let mut clocks: Vec<ClockRuns> = vec![];
    for file in files {
        for (clock_mhz, run) in runs_of(file, items, select)? {
            match clocks.iter_mut().find(|it| it.clock_mhz == clock_mhz) {
                Some(same) => same.runs.push(run),
                None => clocks.push(ClockRuns {
                    clock_mhz,
                    runs: vec![run],
                }),
            }
        }
    }
    clocks.sort_by(|a, b| a.clock_mhz.total_cmp(&b.clock_mhz));
    let curve = dvfs_from_runs(&clocks)?;
    let limited = max_slowdown_pct.map(|percent| (percent, curve.saving_at(percent / PER_CENT)));
    let n_runs: Vec<usize> = clocks.iter().map(|clock| clock.runs.len()).collect();
    output::print(if is_json {
        format!("{}\n", curve_in_json(&curve, &n_runs, limited))
    } else {
        curve_in_words(&curve, &n_runs, limited)
    })?;
    Ok(())
}

/// Returns the runs of a file: clock in MHz, and (energy, time) per item in J and s.
fn runs_of(file: &Path, items: f64, select: &Select) -> Result<Vec<(f64, (f64, f64))>> {
    let trace = selected(file, select)?;
    let shown = file.display();
    ensure!(
        trace.devices.len() == 1,
        "dvfs: {shown} has {} devices (expected 1; --gpu selects one)",
        trace.devices.len()
    );
    // A nested region is a part of a run.
    let outer = trace.regions.iter().filter(|region| region.depth == 0);
    let mut windows: Vec<_> = outer.map(|region| region.start..region.end).collect();
    if windows.is_empty() {
        windows.push(window(&trace, 0));
    }
    let run = |window: Range<Duration>| {
        let (start, end) = (window.start.as_secs_f64(), window.end.as_secs_f64());
        let at = format!("{shown}, from {start:.3} to {end:.3} s");
        let energy = trace.energy(0, window.clone());
        let energy = energy.with_context(|| format!("dvfs: no energy ({at})"))?;
        let Some(clock_mhz) = clock_mhz(&trace, &window) else {
            bail!("dvfs: no reading of {} ({at})", Metric::SmClock);
        };
        Ok((clock_mhz, (energy.joules / items, (end - start) / items)))
    };
    windows.into_iter().map(run).collect()
}

/// Returns the median of the clock readings in a window, in MHz.
fn clock_mhz(trace: &Trace, window: &Range<Duration>) -> Option<f64> {
    let rows = trace.device_rows(0);
    let rows = rows.filter(|row| window.contains(&row.time));
    let mut clocks: Vec<f64> = rows
        .filter_map(|row| row.values.get(Metric::SmClock))
        .collect();
    clocks.sort_by(f64::total_cmp);
    let middle = [clocks.len().checked_sub(1)? / 2, clocks.len() / 2];
    Some(middle.iter().map(|&at| clocks[at]).sum::<f64>() / 2.0)
}

fn selected(file: &Path, select: &Select) -> Result<Trace> {
    let trace = recorded(file)?.select(select);
    trace.with_context(|| format!("{}", file.display()))
}

fn curve_in_json(curve: &Curve, n_runs: &[usize], limited: Option<(f64, Optimum)>) -> Value {
    let points = curve.points.iter().zip(&curve.joules).zip(n_runs);
    let points = points.map(|((point, joules), n_runs)| {
        json!({
            "clock_mhz": point.clock_mhz,
            "mean_w": point.watts,
            "items_per_s": point.rate,
            "energy_per_item_j": joules,
            "relative_noise": point.noise,
            "n_runs": n_runs,
        })
    });
    let optimum = |it: &Optimum| {
        json!({
            "clock_mhz": it.clock_mhz,
            "energy_per_item_j": it.joules,
            "saving": it.saving,
            "slowdown": it.slowdown,
        })
    };
    let clocks = |places: &[usize]| -> Vec<f64> {
        places
            .iter()
            .map(|&at| curve.points[at].clock_mhz)
            .collect()
    };
    let parabola = curve.parabola.map(|it| {
        json!({
            "coefficients": it.coefficients,
            "minimum_mhz": it.minimum.map(|(clock_mhz, _)| clock_mhz),
            "minimum_energy_per_item_j": it.minimum.map(|(_, joules)| joules),
            "r_squared": it.r_squared,
        })
    });
    let physical = curve.best_physical().map(|it| {
        json!({
            "exponent": it.exponent,
            "fixed_s": it.fixed_s,
            "scaling_s_mhz": it.scaling,
            "static_w": it.static_w,
            "dynamic_w_per_mhz_k": it.dynamic,
            "minimum_mhz": it.minimum_mhz,
            "time_r_squared": it.time_r_squared,
            "power_r_squared": it.power_r_squared,
        })
    });
    json!({
        "points": points.collect::<Vec<_>>(),
        "least_energy": optimum(&curve.least_energy),
        "least_energy_clocks_mhz": clocks(&curve.confidence),
        "undecided_clocks_mhz": clocks(&curve.undecided),
        "least_edp": optimum(&curve.least_edp),
        "least_ed2p": optimum(&curve.least_ed2p),
        "pareto_clocks_mhz": clocks(&curve.pareto),
        "parabola": parabola,
        "physical": physical,
        "max_slowdown_pct": limited.map(|(percent, _)| percent),
        "within_max_slowdown": limited.as_ref().map(|(_, it)| optimum(it)),
    })
}

fn curve_in_words(curve: &Curve, n_runs: &[usize], limited: Option<(f64, Optimum)>) -> String {
    let mut said = String::from(" clock (MHz)  power (W)  items/s  J/item  noise (%)  runs\n");
    let points = curve.points.iter().zip(&curve.joules).zip(n_runs);
    for ((point, joules), n_runs) in points {
        let [watts, rate, joules] = [point.watts, point.rate, *joules].map(units::digits);
        let noise = match n_runs {
            1 => "–".to_owned(),
            _ => units::digits(point.noise * PER_CENT),
        };
        let clock = format!("{:.0}", point.clock_mhz);
        let _ = writeln!(
            said,
            "{clock:>12}  {watts:>9}  {rate:>7}  {joules:>6}  {noise:>9}  {n_runs:>4}"
        );
    }
    let mut optimum = |name: &str, it: &Optimum| {
        let _ = writeln!(
            said,
            "{name}: {:.0} MHz, {} J per item; compared with the highest clock, {:+.1} % energy \
             and {:+.1} % speed",
            it.clock_mhz,
            units::digits(it.joules),
            // Adding 0 makes a negative zero positive.
            -PER_CENT * it.saving + 0.0,
            -PER_CENT * it.slowdown + 0.0,
        );
    };
    optimum("least energy", &curve.least_energy);
    optimum("least energy times time (EDP)", &curve.least_edp);
    optimum("least energy times squared time (ED²P)", &curve.least_ed2p);
    if let Some((percent, it)) = &limited {
        optimum(&format!("least energy, at most {percent} % slower"), it);
    }
    for (name, places) in [
        ("not significantly worse", &curve.confidence),
        (
            "unknown whether worse (fewer than two different runs)",
            &curve.undecided,
        ),
    ] {
        let others = places.iter().filter(|&&at| at != curve.least_energy.at);
        let clocks = others.map(|&at| format!("{:.0}", curve.points[at].clock_mhz));
        let clocks: Vec<String> = clocks.collect();
        if !clocks.is_empty() {
            let _ = writeln!(said, "{name}: {} MHz", clocks.join(", "));
        }
    }
    if let Some(fit) = curve.best_physical() {
        let minimum = fit.minimum_mhz.map_or_else(
            || "no minimum in the measured range".to_owned(),
            |clock_mhz| format!("minimum at {clock_mhz:.0} MHz"),
        );
        let _ = writeln!(
            said,
            "model with power as {} W + c·f^{}: {minimum}, R² of power {:.3}",
            units::digits(fit.static_w),
            fit.exponent,
            fit.power_r_squared
        );
    }
    said
}
