//! The result of a trace as JSON.
//!
//! Method: every key of a number with a unit ends with the unit: `_s`, `_j`, `_w`, `_pct`. Shares
//! are from 0 to 1. An estimate is an object with `value`, `low` and `high`. A quantity that the
//! device does not report is null.

use std::path::Path;

use serde_json::{Value, json};
use telemetry::analysis::Bottleneck;
use telemetry::{Energy, Interval, SpanReport, TotalEnergy};

use crate::conclusion::Ending;
use crate::findings::{DeviceFindings, FaultGroup, Findings, Gap, Sensor};

/// Returns the result of a trace.
pub(crate) fn in_json(found: &Findings<'_>, ending: &Ending<'_>, page: &Path) -> Value {
    let trace = found.trace;
    let devices = found.each().map(|(about, found)| device(about, found));
    let overhead = trace.overhead.map(|overhead| {
        json!({
            "cpu_s": overhead.cpu.map(|cpu| cpu.as_secs_f64()),
            "wall_s": overhead.wall.as_secs_f64(),
            "n_rounds": overhead.ticks,
            "n_skipped_rounds": overhead.missed,
            "longest_delay_s": overhead.latest.as_secs_f64(),
            "longest_round_s": overhead.longest.as_secs_f64(),
        })
    });
    json!({
        "source": trace.source,
        "began_unix_ns": trace.began_unix_ns,
        "interval_s": trace.interval.as_secs_f64(),
        "duration_s": trace.duration().as_secs_f64(),
        "rows_in_memory": trace.rows.len(),
        "out": ending.rows,
        "report": page,
        "has_command_ended": ending.has_command_ended,
        "total": found.total.as_ref().map(total),
        "regions": found.regions.iter().map(region).collect::<Vec<_>>(),
        "n_regions_left_out": trace.n_regions_left_out,
        "overhead": overhead,
        "devices": devices.collect::<Vec<_>>(),
    })
}

fn total(total: &TotalEnergy) -> Value {
    json!({
        "energy_j": total.joules,
        "interval": interval(&total.interval),
        "is_complete": total.is_complete(),
        "devices_without_energy": total.missing,
    })
}

fn region(region: &SpanReport) -> Value {
    json!({
        "name": region.name,
        "start_s": region.window.start.as_secs_f64(),
        "end_s": region.window.end.as_secs_f64(),
        "total": region.total().as_ref().map(total),
    })
}

fn interval(interval: &Interval) -> Value {
    json!({ "low_j": interval.low_j, "high_j": interval.high_j })
}

fn device(about: &telemetry::Device, found: &DeviceFindings) -> Value {
    let faults = found.faults.iter().map(fault);
    json!({
        "device": about,
        "energy": found.energy.as_ref().map(energy),
        "verdict": found.verdict(),
        "idle": found.idle.as_ref().ok().map(idle),
        "sensors": found.sensors.iter().map(sensor).collect::<Vec<_>>(),
        "gaps": found.gaps.iter().map(gap).collect::<Vec<_>>(),
        "lost_since_s": found.lost_since().map(|gap| gap.start.as_secs_f64()),
        "faults": faults.collect::<Vec<_>>(),
    })
}

/// Returns an energy with its intervals and the result of the second method.
pub(crate) fn energy(energy: &Energy) -> Value {
    let check = energy.check.as_ref().map(|check| {
        json!({
            "energy_j": check.joules,
            "interval": interval(&check.interval),
            "method": check.method,
            "metric": check.metric,
        })
    });
    json!({
        "energy_j": energy.joules,
        "interval": interval(&energy.interval),
        "sampling": interval(&energy.sampling),
        "likely": interval(&energy.likely),
        "mean_w": energy.mean_w(),
        "method": energy.method,
        "metric": energy.metric,
        "field": energy.field,
        "sensor_class": energy.class,
        "start_s": energy.window.start.as_secs_f64(),
        "end_s": energy.window.end.as_secs_f64(),
        "n_updates": energy.n_updates,
        "check": check,
    })
}

fn idle(found: &Bottleneck) -> Value {
    let period = found.periodicity.map(|period| {
        json!({
            "period_s": period.period_s,
            "high_share": period.duty,
            "low_w": period.levels_w.0,
            "high_w": period.levels_w.1,
            "n_periods": period.n_periods,
            "false_alarm_probability": period.chance,
        })
    });
    json!({
        "verdict": found.verdict,
        "evidence": found.evidence,
        "shares": found.shares,
        "known_share": found.known,
        "is_memory_reported": found.is_memory_reported,
        "period": period,
        "utilisation_lag_s": found.utilisation_lag_s,
        "utilisation_p5_pct": found.busy_percentiles.map(|(p5, _)| p5),
        "utilisation_p95_pct": found.busy_percentiles.map(|(_, p95)| p95),
        "energy_j": found.joules,
        "wasted_j": found.wasted_j,
    })
}

fn sensor(sensor: &Sensor) -> Value {
    json!({
        "metric": sensor.metric,
        "update_s": sensor.seen.map(|seen| seen.value_s),
        "update_uncertainty_s": sensor.seen.map(|seen| seen.uncertainty_s),
        "table_update_s": sensor.table_s.map(|(update_s, _)| update_s),
        "table_window_s": sensor.table_s.map(|(_, window_s)| window_s),
    })
}

fn gap(gap: &Gap) -> Value {
    json!({
        "start_s": gap.start.as_secs_f64(),
        "end_s": gap.end.map(|end| end.as_secs_f64()),
        "n_empty_rounds": gap.n_empty,
    })
}

fn fault(group: &FaultGroup) -> Value {
    json!({
        "fault": group.fault,
        "message": group.fault.to_string(),
        "metrics": group.metrics,
        "n_readings": group.count,
        "first_s": group.first.as_secs_f64(),
    })
}
