//! The results of a trace, computed once for the text, the JSON and the page.

use std::ops::Range;
use std::time::Duration;

use telemetry::analysis::{Bottleneck, idle_periods_within};
use telemetry::probe::{Measured, update_period};
use telemetry::{Device, Energy, Error, Fault, Metric, SpanReport, TotalEnergy, Trace, Values};
use tool_io::output::printable;

use charts::units;

const KILO: f64 = 1e3;
/// Number of rounds without values at the end from which on a device counts as lost.
const LEAST_EMPTY: usize = 2;
/// A distance of two rows counts as a pause of sampling if it is this many times the usual one.
const PAUSE_ROWS: u32 = 5;
/// Shortest pause of sampling that is reported.
const PAUSE: Duration = Duration::from_secs(1);

/// The results of a trace.
pub(crate) struct Findings<'a> {
    pub(crate) trace: &'a Trace,
    /// Whether the trace covers only the first part of its command.
    pub(crate) is_cut: bool,
    /// The results of each device of the trace.
    pub(crate) devices: Vec<DeviceFindings>,
    /// The total energy; `None` if no energy is known.
    pub(crate) total: Option<TotalEnergy>,
    /// Time and energies of each region of the trace.
    pub(crate) regions: Vec<SpanReport>,
}

/// The results of a device.
pub(crate) struct DeviceFindings {
    /// The time range of the energy and the verdict.
    pub(crate) window: Range<Duration>,
    pub(crate) energy: Option<Energy>,
    pub(crate) idle: Result<Bottleneck, Error>,
    pub(crate) sensors: Vec<Sensor>,
    /// Times without readings, in the order of time.
    pub(crate) gaps: Vec<Gap>,
    pub(crate) faults: Vec<FaultGroup>,
}

/// The update interval of a power metric.
pub(crate) struct Sensor {
    pub(crate) metric: Metric,
    /// The interval that the trace shows.
    pub(crate) seen: Option<Measured>,
    /// Interval and averaging window of the sensor table, in s.
    pub(crate) table_s: Option<(f64, f64)>,
}

/// A time without readings of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gap {
    pub(crate) start: Duration,
    /// Time of the next reading; `None` if there is none.
    pub(crate) end: Option<Duration>,
    /// Number of rounds of sampling that found no value, as of a lost device; 0 if sampling paused.
    pub(crate) n_empty: usize,
}

/// All failed readings of a device with one reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FaultGroup {
    pub(crate) fault: Fault,
    pub(crate) metrics: Vec<Metric>,
    /// Number of failed readings.
    pub(crate) count: u64,
    /// Time of the first failed reading.
    pub(crate) first: Duration,
}

impl<'a> Findings<'a> {
    /// Computes the results of a trace.
    pub(crate) fn new(trace: &'a Trace, is_cut: bool) -> Self {
        let devices: Vec<_> = (0..trace.devices.len())
            .map(|device| DeviceFindings::new(trace, device))
            .collect();
        let energies = devices.iter().map(|found| found.energy.as_ref());
        let regions = trace.regions.iter();
        Self {
            total: TotalEnergy::from_devices(energies),
            regions: regions
                .map(|region| SpanReport::from_region(trace, region))
                .collect(),
            trace,
            is_cut,
            devices,
        }
    }

    /// Returns the devices with their results.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Device, &DeviceFindings)> {
        self.trace.devices.iter().zip(&self.devices)
    }

    /// Describes the loss of all devices; `None` if any device has readings at the end.
    pub(crate) fn loss_of_all(&self) -> Option<String> {
        let lost = |(device, found): (&Device, &DeviceFindings)| {
            let gap = found.lost_since()?;
            // A single round without values at the end is no loss, unless it is the only round.
            if gap.n_empty < LEAST_EMPTY && gap.start > Duration::ZERO {
                return None;
            }
            let since = units::seconds(gap.start.as_secs_f64());
            let named = printable(&named(device));
            Some(format!("{named} since {since}{}", found.reason()))
        };
        let lost: Option<Vec<String>> = self.each().map(lost).collect();
        let lost = lost.filter(|lost| !lost.is_empty())?;
        Some(format!("no device has readings: {}", lost.join("; ")))
    }

    /// Returns the note that a total is incomplete, with the names of the missing devices.
    pub(crate) fn missing(&self) -> Option<String> {
        let total = self.total.as_ref().filter(|total| !total.is_complete())?;
        let names = total.missing.iter().map(|&i| named(&self.trace.devices[i]));
        let names = names.collect::<Vec<_>>().join(", ");
        Some(format!(
            "the total excludes devices whose energy is unknown: {names}"
        ))
    }
}

impl DeviceFindings {
    fn new(trace: &Trace, device: usize) -> Self {
        let window = window(trace, device);
        Self {
            energy: trace.energy(device, window.clone()),
            idle: idle_periods_within(trace, device, window.clone()),
            sensors: sensors(trace, device),
            gaps: gaps(trace, device),
            faults: faults(trace, device),
            window,
        }
    }

    /// Returns the time of failed readings that lasts up to the end of the trace.
    pub(crate) fn lost_since(&self) -> Option<&Gap> {
        let last = self.gaps.last();
        last.filter(|last| last.end.is_none() && last.n_empty > 0)
    }

    /// Returns the first reason for failed readings in parentheses; empty if there is none.
    fn reason(&self) -> String {
        let first = self.faults.iter().min_by_key(|group| group.first);
        first.map_or_else(String::new, |group| format!(" ({})", group.fault))
    }

    /// Returns the verdict in a sentence.
    pub(crate) fn verdict(&self) -> String {
        match &self.idle {
            Ok(found) => found.to_string(),
            Err(Error::Unavailable { .. }) => {
                "Idle time is unknown: utilisation and power have too few readings.".to_owned()
            }
            Err(Error::ParameterInvalid { .. }) => {
                "No verdict: the time is shorter than one update of the power sensor.".to_owned()
            }
            Err(why) => why.to_string(),
        }
    }

    /// Describes the times without readings and the failed readings, one sentence for each.
    pub(crate) fn failures(&self) -> Vec<String> {
        let gap = |gap: &Gap| {
            let start = units::seconds(gap.start.as_secs_f64());
            let end = gap.end.map_or_else(
                || "the end".to_owned(),
                |end| units::seconds(end.as_secs_f64()),
            );
            let what = if gap.n_empty > 0 {
                "No readings"
            } else {
                "Sampling paused"
            };
            format!("{what} from {start} to {end}.")
        };
        let fault = |group: &FaultGroup| {
            let metrics = match &group.metrics[..] {
                [only] => only.to_string(),
                several => format!("{} metrics", several.len()),
            };
            let first = units::seconds(group.first.as_secs_f64());
            let (fault, count) = (group.fault, group.count);
            format!("Readings of {metrics} failed {count} times, first at {first}: {fault}.")
        };
        let gaps = self.gaps.iter().map(gap);
        gaps.chain(self.faults.iter().map(fault)).collect()
    }
}

impl Sensor {
    /// Describes the update interval in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let metric = self.metric;
        let known = self.table_s.map(|(update_s, window_s)| {
            let [update_ms, window_ms] = [update_s, window_s].map(|s| units::digits(s * KILO));
            format!(
                "every {update_ms} ms over a window of {window_ms} ms according to the sensor table"
            )
        });
        let seen = self.seen.map(|seen| {
            let (ms, off_ms) = (seen.value_s * KILO, seen.uncertainty_s * KILO);
            format!("every {ms:.2} ± {off_ms:.2} ms in this trace")
        });
        match (seen, known) {
            (Some(seen), Some(known)) => format!("{metric} is updated {seen}, {known}."),
            (Some(one), None) | (None, Some(one)) => format!("{metric} is updated {one}."),
            (None, None) => format!(
                "The update interval of {metric} is unknown; rows every 10 ms under varying load may show it."
            ),
        }
    }
}

/// Returns the time range for which a device's energy is reported: that of the only region of code,
/// such as a command, or from the first row to the last if there is not exactly one region.
pub(crate) fn window(trace: &Trace, device: usize) -> Range<Duration> {
    if let [only] = &trace.regions[..] {
        return only.start..only.end;
    }
    let mut rows = trace.device_rows(device).map(|row| row.time);
    let start = rows.next().unwrap_or_default();
    start..rows.last().unwrap_or(start)
}

fn sensors(trace: &Trace, device: usize) -> Vec<Sensor> {
    let about = &trace.devices[device];
    let reported = Metric::POWERS.into_iter();
    let reported = reported.filter(|&metric| about.field(metric).is_some());
    let sensor = |metric| Sensor {
        metric,
        seen: update_period(trace, device, metric),
        table_s: about
            .sensor_class(metric)
            .map(|class| class.update_and_window_s()),
    };
    reported.map(sensor).collect()
}

fn faults(trace: &Trace, device: usize) -> Vec<FaultGroup> {
    let mut groups: Vec<FaultGroup> = vec![];
    for found in trace.faults.iter().filter(|found| found.device == device) {
        match groups.iter_mut().find(|group| group.fault == found.fault) {
            Some(group) => {
                group.metrics.push(found.metric);
                group.count += found.count;
                group.first = group.first.min(found.first);
            }
            None => groups.push(FaultGroup {
                fault: found.fault,
                metrics: vec![found.metric],
                count: found.count,
                first: found.first,
            }),
        }
    }
    groups
}

/// Finds the times without readings of a device.
fn gaps(trace: &Trace, device: usize) -> Vec<Gap> {
    let rows: Vec<_> = trace.device_rows(device).collect();
    let mut distances: Vec<Duration> = rows
        .windows(2)
        .map(|pair| pair[1].time.saturating_sub(pair[0].time))
        .collect();
    distances.sort_unstable();
    let usual = distances.get(distances.len() / 2).copied();
    let longest = PAUSE.max(usual.unwrap_or_default().saturating_mul(PAUSE_ROWS));
    let mut gaps: Vec<Gap> = vec![];
    for (idx, row) in rows.iter().enumerate() {
        let open = gaps.last_mut().filter(|gap| gap.end.is_none());
        let is_empty = row.values == Values::none();
        match open {
            Some(gap) if !is_empty => gap.end = Some(row.time),
            Some(gap) => gap.n_empty += 1,
            None if is_empty => gaps.push(Gap {
                start: row.time,
                end: None,
                n_empty: 1,
            }),
            None if idx > 0 && row.time.saturating_sub(rows[idx - 1].time) > longest => {
                gaps.push(Gap {
                    start: rows[idx - 1].time,
                    end: Some(row.time),
                    n_empty: 0,
                });
            }
            None => {}
        }
    }
    // The rows of one device may end before those of the other devices, as in a merged file.
    if let Some(last) = rows.last()
        && gaps.last().is_none_or(|gap| gap.end.is_some())
        && trace.duration().saturating_sub(last.time) > longest
    {
        gaps.push(Gap {
            start: last.time,
            end: None,
            n_empty: 0,
        });
    }
    gaps
}

/// Returns the reason why there is no energy.
pub(crate) fn no_energy(device: &Device) -> &'static str {
    // A file of the original monitoring script does not list the device's metrics.
    if device.reports_energy() || device.capabilities.is_empty() {
        "no energy: too few samples, or no metric for energy or power"
    } else {
        "the device reports neither energy nor power"
    }
}

/// Returns a device's index within its source and its name.
pub(crate) fn named(device: &Device) -> String {
    format!("{} {}", device.index, device.name)
}
