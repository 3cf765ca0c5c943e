//! The result of a trace as text, as JSON and as an HTML page.

use crate::page::{named, no_energy, sensors, trace_page, verdict, window};
use crate::settings::Settings;
use anyhow::Result;
use charts::units;
use std::fmt::Write;
use std::path::Path;
use telemetry::Trace;
use telemetry::analysis::idle_periods_within;
use tool_io::output::{self, printable};
use tool_io::replace_file;

/// The end of a trace.
pub(crate) struct Ending<'a> {
    /// The file of rows; `None` if no complete file was written.
    pub(crate) rows: Option<&'a Path>,
    /// Whether the command ended before the trace; `None` without a command.
    pub(crate) has_command_ended: Option<bool>,
}

impl Ending<'_> {
    /// Returns whether the trace covers only the first part of its command.
    fn is_cut(&self) -> bool {
        self.has_command_ended == Some(false)
    }
}

/// Prints the result of a trace and writes the report.
///
/// # Errors
/// An output or file that cannot be written.
pub(crate) fn conclude(settings: &Settings, trace: &Trace, ending: &Ending<'_>) -> Result<()> {
    let page = settings.page()?;
    output::print(&if settings.is_json {
        format!("{}\n", in_json(trace, ending, &page))
    } else {
        in_words(trace, ending)
    })?;
    replace_file(&page, &trace_page(trace, ending.is_cut())?)?;
    if !settings.is_json {
        let named = |rows: &Path| format!("rows: {}, ", rows.display());
        let rows = ending.rows.map_or_else(String::new, named);
        output::print(format!("{rows}report: {}\n", page.display()))?;
    }
    Ok(())
}

fn in_json(trace: &Trace, ending: &Ending<'_>, page: &Path) -> serde_json::Value {
    let devices = trace.devices.iter().enumerate().map(|(index, device)| {
        serde_json::json!({
            "device": device,
            "energy": trace.energy(index, window(trace, index)),
            "verdict": verdict(trace, index),
            "idle": idle(trace, index),
            "sensors": sensors(trace, index),
        })
    });
    serde_json::json!({
        "rows_in_memory": trace.rows.len(),
        "out": ending.rows,
        "report": page,
        "regions": trace.regions,
        "has_command_ended": ending.has_command_ended,
        "overhead": trace.overhead,
        "faults": trace.faults,
        "devices": devices.collect::<Vec<_>>(),
    })
}

/// Returns a device's idle time and its cause as JSON; null if they cannot be determined.
fn idle(trace: &Trace, device: usize) -> serde_json::Value {
    let found = idle_periods_within(trace, device, window(trace, device)).ok();
    found.map_or(serde_json::Value::Null, |found| {
        serde_json::json!({
            "verdict": found.verdict,
            "evidence": found.evidence,
            "shares": found.shares,
            "known": found.known,
            "period_s": found.periodicity.map(|period| period.period_s),
            "utilisation_lag_s": found.utilisation_lag_s,
            "joules": found.joules,
            "wasted_j": found.wasted_j,
        })
    })
}

fn in_words(trace: &Trace, ending: &Ending<'_>) -> String {
    let mut said = String::new();
    if let [only] = &trace.regions[..] {
        let seconds = only.end.saturating_sub(only.start).as_secs_f64();
        let (name, seconds) = (printable(&only.name), units::digits(seconds));
        let _ = if ending.is_cut() {
            writeln!(said, "first {seconds} s of {name}:")
        } else {
            writeln!(said, "{name} for {seconds} s:")
        };
    }
    for (index, device) in trace.devices.iter().enumerate() {
        let energy = trace.energy(index, window(trace, index));
        let energy =
            energy.map_or_else(|| no_energy(device).to_owned(), |energy| energy.to_string());
        let _ = writeln!(said, "{}: {energy}", printable(&named(device)));
        for sentence in verdict(trace, index)
            .into_iter()
            .chain(sensors(trace, index))
        {
            let _ = writeln!(said, "  {sentence}");
        }
        for fault in trace.faults.iter().filter(|fault| fault.device == index) {
            let (metric, count) = (fault.metric, fault.count);
            let _ = writeln!(said, "  {metric} failed {count} times: {}", fault.fault);
        }
    }
    said
}
