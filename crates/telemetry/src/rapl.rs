//! Source of CPU and memory energy from RAPL (Running Average Power Limit), read through Linux's
//! powercap files.
//!
//! Method: each domain has a counter in µJ that wraps around at a known range. The energy is the
//! counter's value plus one range per observed wrap. If the counter falls, or rises faster than the
//! domain can draw power, there are two cases:
//!
//! - One wrap would imply a power that the domain can draw: the counter has wrapped.
//! - Otherwise, or if the range is unknown: the counter was reset, for example by a suspend, or was
//!   misread. The reading is a fault, and the energy restarts from the counter's value.
//!   [`crate::Trace::energy`] does not treat a window with such a fall as covered.
//!
//! Even a 32-bit counter with steps of 15.3 µJ takes a minute to wrap at 1 kW. A domain must be
//! read at least that often.
//! Accuracy: no tolerance is known that holds for all machines; see
//! [`crate::Calibration::for_kind`].
//! Source: Linux kernel documentation, "Power Capping Framework".
//! Limits: packages and memory only. Cores are part of their package, and the platform domain
//! contains all packages, so a sum over the devices of this source counts no energy twice. A reset
//! is mistaken for a wrap if a wrap would imply a plausible power.

use crate::device::{Capability, Device, Kind, PowerLimits};
use crate::energy::{EXCURSION, went_on};
use crate::source::{Reading, Source};
use crate::{Error, Fault, Metric, Result, Values};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Linux's folder of the domains.
const ROOT: &str = "/sys/class/powercap";
/// Microjoules in a joule.
const UJ_PER_J: f64 = 1e6;
/// Microwatts in a watt.
const UW_PER_W: f64 = 1e6;
/// Threshold, in W, from which a limit means "no limit": firmware removes a limit by setting all 15
/// bits of the register, in units of 1/8 W.
const LIFTED_W: f64 = 4095.0;
/// Assumed highest power of a domain without a limit, in W.
const WITHOUT_LIMIT_W: f64 = 1000.0;

/// The RAPL domains of a machine.
#[derive(Debug)]
pub struct Rapl {
    devices: Vec<Device>,
    domains: Vec<Domain>,
}

/// The energy counter of a domain.
#[derive(Debug)]
struct Domain {
    path: PathBuf,
    /// Value at which the counter wraps, in µJ, if known.
    range_uj: Option<u64>,
    /// Highest momentary power that the domain can draw, in W.
    ceiling_w: f64,
    /// Newest counter value, in µJ, and its time.
    last: Option<(u64, Duration)>,
    /// Sum of the ranges of all wraps since the last reset, in µJ.
    wrapped_uj: u64,
}

impl Rapl {
    /// Opens the machine's RAPL domains.
    ///
    /// # Errors
    /// [`Error::Library`] if there are no domains. A domain without read permission is no error: it
    /// is listed as a device whose energy has a fault.
    pub fn open() -> Result<Self> {
        Self::open_at(Path::new(ROOT))
    }

    /// Opens the domains in a folder that is laid out like `/sys/class/powercap`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_at(root: &Path) -> Result<Self> {
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        let named = paths
            .into_iter()
            .filter_map(|path| Some((name_of(&path)?, path)));
        let (mut devices, mut domains) = (vec![], vec![]);
        for (name, path) in named {
            let fault = number(&path.join("energy_uj")).err();
            let device = device(devices.len(), name, &path, fault);
            let ceiling_w = device
                .limits
                .max_w
                .map_or(WITHOUT_LIMIT_W, |w| w * EXCURSION);
            devices.push(device);
            let range_uj = number(&path.join("max_energy_range_uj")).ok();
            let domain = Domain {
                range_uj: range_uj.filter(|&range_uj| range_uj > 0),
                path,
                ceiling_w,
                last: None,
                wrapped_uj: 0,
            };
            domains.push(domain);
        }
        if devices.is_empty() {
            return Err(Error::Library {
                operation: "Rapl::open",
                library: root.display().to_string(),
                why: "no RAPL domain found".to_owned(),
                fault: None,
            });
        }
        Ok(Self { devices, domains })
    }
}

impl Source for Rapl {
    fn name(&self) -> &'static str {
        "rapl"
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn read(&mut self, device: usize, now: Duration) -> Reading {
        let (mut values, mut faults) = (Values::none(), vec![]);
        match self.domains[device].advance(now) {
            Ok(energy_j) => values.set(Metric::Energy, energy_j),
            Err(fault) => faults.push((Metric::Energy, fault)),
        }
        Reading { values, faults }
    }
}

impl Domain {
    /// Reads the counter and returns the domain's energy, in J, including wraps.
    fn advance(&mut self, now: Duration) -> std::result::Result<f64, Fault> {
        let now_uj = number(&self.path.join("energy_uj"))?;
        if let Some((last_uj, then)) = self.last.replace((now_uj, now)) {
            let reading = |uj: u64, time: Duration| (time.as_secs_f64(), uj as f64 / UJ_PER_J);
            let from = reading(last_uj, then);
            let goes_on = |uj: u64| went_on(from, reading(uj, now), self.ceiling_w);
            // A wrap is plausible if the counter value plus one range continues from the last
            // reading.
            let could_wrap = |&range_uj: &u64| goes_on(now_uj.saturating_add(range_uj));
            if !goes_on(now_uj) {
                let Some(range_uj) = self.range_uj.filter(could_wrap) else {
                    // A reset or a misread value: start over without wraps.
                    self.wrapped_uj = 0;
                    return Err(Fault::InvalidReading);
                };
                self.wrapped_uj = self.wrapped_uj.saturating_add(range_uj);
            }
        }
        Ok(self.wrapped_uj.saturating_add(now_uj) as f64 / UJ_PER_J)
    }
}

/// Returns the name of a domain, such as `package-0` or `package-0/dram`.
///
/// Returns `None` for domains other than packages and memory.
fn name_of(path: &Path) -> Option<String> {
    let folder = path.file_name()?.to_str()?;
    let place = folder.strip_prefix("intel-rapl:")?;
    let text = |path: PathBuf| Some(fs::read_to_string(path).ok()?.trim().to_owned());
    let name = text(path.join("name"))?;
    match place.split_once(':') {
        None if name.starts_with("package") => Some(name),
        Some((package, _)) if name == "dram" => {
            let package = path.with_file_name(format!("intel-rapl:{package}"));
            Some(format!("{}/dram", text(package.join("name"))?))
        }
        _ => None,
    }
}

/// Parses the number in a file.
fn number(path: &Path) -> std::result::Result<u64, Fault> {
    let text = fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Fault::NoPermission,
        _ => Fault::NotSupported,
    })?;
    text.trim().parse().map_err(|_| Fault::InvalidReading)
}

/// Returns the power limits of a domain.
///
/// The set limit is constraint 0, which has the longest time window. The maximum is the largest
/// value of all constraints.
fn limits(path: &Path) -> PowerLimits {
    let watts = |constraint: u32, what: &str| {
        let file = path.join(format!("constraint_{constraint}_{what}_uw"));
        let watts = number(&file).ok()? as f64 / UW_PER_W;
        (watts > 0.0 && watts < LIFTED_W).then_some(watts)
    };
    let exists = |n: &u32| path.join(format!("constraint_{n}_power_limit_uw")).exists();
    let each = (0..).take_while(exists);
    let all = each.flat_map(|n| [watts(n, "power_limit"), watts(n, "max_power")]);
    PowerLimits {
        set_w: watts(0, "power_limit"),
        max_w: all.flatten().reduce(f64::max),
        ..PowerLimits::default()
    }
}

fn device(index: usize, name: String, path: &Path, fault: Option<Fault>) -> Device {
    let folder = path.file_name().unwrap_or_default().to_string_lossy();
    Device {
        index,
        limits: limits(path),
        capabilities: vec![Capability {
            metric: Metric::Energy,
            field: format!("{folder}/energy_uj"),
            fault,
        }],
        ..Device::new(Kind::Rapl, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_io::TemporaryFolder;

    /// Creates a folder like Linux's, with a package, its cores and memory, and the platform
    /// domain.
    fn folder() -> TemporaryFolder {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "telemetry-rapl").unwrap();
        for (place, domain) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:0:1", "dram"),
            ("intel-rapl:1", "psys"),
        ] {
            let path = folder.path().join(place);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("name"), format!("{domain}\n")).unwrap();
            fs::write(path.join("max_energy_range_uj"), "1000000\n").unwrap();
            fs::write(path.join("energy_uj"), "900000\n").unwrap();
        }
        folder
    }

    /// Sets the package's counter and returns its energy, read at the given second.
    fn energy(rapl: &mut Rapl, root: &Path, uj: &str, second: u64) -> Option<f64> {
        fs::write(root.join("intel-rapl:0/energy_uj"), uj).unwrap();
        let reading = rapl.read(0, Duration::from_secs(second));
        let reported = reading.values.get(Metric::Energy);
        let faults: Vec<_> = reported
            .is_none()
            .then_some((Metric::Energy, Fault::InvalidReading))
            .into_iter()
            .collect();
        assert_eq!(reading.faults, faults, "{uj}");
        reported
    }

    #[test]
    fn energy_counts_on_when_the_counter_wraps() {
        let folder = folder();
        let root = folder.path();
        let mut rapl = Rapl::open_at(root).unwrap();
        let names: Vec<_> = rapl
            .devices()
            .iter()
            .map(|device| device.name.as_str())
            .collect();
        assert_eq!(names, ["package-0", "package-0/dram"]);
        let mut energy = |uj, second| energy(&mut rapl, root, uj, second);
        assert_eq!(energy("900000", 0), Some(0.9));
        assert_eq!(energy("950000", 1), Some(0.95));
        assert_eq!(energy("150000", 2), Some(1.15));
        assert_eq!(energy("150000", 3), Some(1.15));
        assert_eq!(energy("nonsense", 4), None);
        assert_eq!(energy("160000", 5), Some(1.16));
    }

    #[test]
    fn a_counter_without_a_range_that_fell_is_a_fault_and_counts_on() {
        let folder = folder();
        let root = folder.path();
        fs::remove_file(root.join("intel-rapl:0/max_energy_range_uj")).unwrap();
        let mut rapl = Rapl::open_at(root).unwrap();
        let mut energy = |uj, second| energy(&mut rapl, root, uj, second);
        assert_eq!(energy("900000", 0), Some(0.9));
        assert_eq!(energy("100000", 1), None);
        assert_eq!(energy("300000", 2), Some(0.3));
    }

    #[test]
    fn a_counter_that_was_reset_adds_no_range() {
        let folder = folder();
        let root = folder.path();
        // A range of 262 kJ, as for a package with an energy unit of 61 µJ, and a limit of 100 W.
        fs::write(
            root.join("intel-rapl:0/max_energy_range_uj"),
            "262143328850",
        )
        .unwrap();
        fs::write(
            root.join("intel-rapl:0/constraint_0_power_limit_uw"),
            "100000000",
        )
        .unwrap();
        let mut rapl = Rapl::open_at(root).unwrap();
        let mut energy = |uj, second| energy(&mut rapl, root, uj, second);
        assert_eq!(energy("262143000000", 0), Some(262_143.0));
        // A wrap would mean 99.7 J in one second, which is plausible at 100 W.
        assert!((energy("99328850", 1).unwrap() - 262_242.657_7).abs() < 1e-6);
        // A wrap from 99 J to 50 J would mean 262 kJ in one second, so this fall is a reset.
        assert_eq!(energy("50000000", 2), None);
        assert_eq!(energy("60000000", 3), Some(60.0));
        // After 5000 s the range could have been used up at 100 W, so a reset looks like a wrap.
        assert!(energy("1000000", 5000).is_some());
    }

    #[test]
    fn a_counter_that_rose_faster_than_the_domain_draws_is_a_fault() {
        let folder = folder();
        let root = folder.path();
        let limit = root.join("intel-rapl:0/constraint_0_power_limit_uw");
        fs::write(limit, "100000000").unwrap();
        let mut rapl = Rapl::open_at(root).unwrap();
        let mut energy = |uj, second| energy(&mut rapl, root, uj, second);
        assert_eq!(energy("0", 0), Some(0.0));
        // The ceiling of 120 W (100 W times the excursion factor) for one second plus one second of
        // slack.
        assert_eq!(energy("240000000", 1), Some(240.0));
        assert_eq!(energy("481000000", 2), None);
        assert_eq!(energy("482000000", 3), Some(482.0));
    }

    #[test]
    fn limits_are_those_of_the_constraints() {
        let folder = folder();
        let root = folder.path();
        let package = root.join("intel-rapl:0");
        for (file, uw) in [
            ("constraint_0_power_limit_uw", "95000000\n"),
            ("constraint_0_max_power_uw", "125000000\n"),
            ("constraint_1_power_limit_uw", "150000000\n"),
            ("constraint_1_max_power_uw", "0\n"),
            ("constraint_2_power_limit_uw", "4095875000\n"),
        ] {
            fs::write(package.join(file), uw).unwrap();
        }
        let rapl = Rapl::open_at(root).unwrap();
        let [package, memory] = [0, 1].map(|device| rapl.devices()[device].limits);
        assert_eq!((package.set_w, package.max_w), (Some(95.0), Some(150.0)));
        assert_eq!(memory, PowerLimits::default());
    }

    #[test]
    fn a_machine_without_domains_says_so() {
        let error = Rapl::open_at(Path::new("/nowhere")).unwrap_err();
        assert!(matches!(error, Error::Library { .. }), "{error}");
    }
}
