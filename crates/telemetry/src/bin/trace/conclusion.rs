//! The end of a trace: its result on standard output, and the report.

use crate::findings::{Findings, named, no_energy};
use crate::json::in_json;
use crate::page::trace_page;
use crate::settings::Settings;
use anyhow::Result;
use charts::units;
use std::fmt::Write;
use std::path::Path;
use tool_io::output::{self, printable};
use tool_io::replace_file;

/// The end of a trace.
pub(crate) struct Ending<'a> {
    /// The file of rows; `None` if no complete file was written.
    pub(crate) rows: Option<&'a Path>,
    /// Whether the command ended before the trace; `None` without a command.
    pub(crate) has_command_ended: Option<bool>,
}

/// Prints the result of a trace and writes the report.
///
/// # Errors
/// An output or file that cannot be written.
pub(crate) fn conclude(
    settings: &Settings,
    found: &Findings<'_>,
    ending: &Ending<'_>,
) -> Result<()> {
    let page = settings.page()?;
    output::print(&if settings.is_json {
        format!("{}\n", in_json(found, ending, &page))
    } else {
        in_words(found)
    })?;
    replace_file(&page, &trace_page(found)?)?;
    if !settings.is_json {
        let named = |rows: &Path| format!("rows: {}, ", rows.display());
        let rows = ending.rows.map_or_else(String::new, named);
        output::print(format!("{rows}report: {}\n", page.display()))?;
    }
    Ok(())
}

fn in_words(found: &Findings<'_>) -> String {
    let mut said = String::new();
    if let [only] = &found.trace.regions[..] {
        let seconds = only.end.saturating_sub(only.start).as_secs_f64();
        let (name, seconds) = (printable(&only.name), units::digits(seconds));
        let _ = if found.is_cut {
            writeln!(said, "first {seconds} s of {name}:")
        } else {
            writeln!(said, "{name} for {seconds} s:")
        };
    }
    if let (Some(total), true) = (&found.total, found.devices.len() > 1) {
        let missing = found.missing();
        let missing = missing.map_or_else(String::new, |note| format!(" ({})", printable(&note)));
        let n = found.devices.len();
        let known = match n - total.missing.len() {
            n_known if n_known < n => format!("{n_known} of {n}"),
            _ => n.to_string(),
        };
        let _ = writeln!(said, "total of {known} devices: {total}{missing}");
    }
    for (device, found) in found.each() {
        let energy = found.energy.as_ref();
        let energy =
            energy.map_or_else(|| no_energy(device).to_owned(), |energy| energy.to_string());
        let _ = writeln!(said, "{}: {energy}", printable(&named(device)));
        let _ = writeln!(said, "  {}", found.verdict());
        for sensor in &found.sensors {
            let _ = writeln!(said, "  {}", sensor.sentence());
        }
        for failure in found.failures() {
            let _ = writeln!(said, "  {failure}");
        }
    }
    said
}
