//! Energy of CPUs and their memory by RAPL, through Linux's powercap files.
//!
//! Method: each domain has a counter in µJ that wraps around at a known range. A device's energy counts from when the
//! source was opened; a reading that is lower than the last one has wrapped, once: even at 32 bits of 15.3 µJ and 1 kW
//! that takes a minute, so a domain must be read more often than that.
//! Source: Linux kernel documentation, "Power Capping Framework".
//! Limits: packages and memory only. Cores are parts of their package, and the platform domain holds all packages, so a sum
//! over this source's devices counts nothing twice.

use crate::device::{Capability, Device, Kind, PowerLimits};
use crate::source::{Reading, Source};
use crate::{Error, Fault, Metric, Result, Values};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where Linux keeps the domains.
const ROOT: &str = "/sys/class/powercap";
const UJ_PER_J: f64 = 1e6;

/// The RAPL domains of a machine.
#[derive(Debug)]
pub struct Rapl {
    devices: Vec<Device>,
    domains: Vec<Domain>,
}

/// The counter of a domain.
#[derive(Debug)]
struct Domain {
    path: PathBuf,
    range_uj: u64,
    last_uj: Option<u64>,
    total_uj: u64,
}

impl Rapl {
    /// Looks for domains.
    ///
    /// # Errors
    /// [`Error::Library`] if there are none. A domain that may not be read is a device whose energy has a fault.
    pub fn open() -> Result<Self> {
        Self::open_at(Path::new(ROOT))
    }

    /// Looks for domains in a folder laid out like Linux's.
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
            let mut domain = Domain {
                range_uj: number(&path.join("max_energy_range_uj")).unwrap_or(0),
                path,
                last_uj: None,
                total_uj: 0,
            };
            let fault = domain.advance().err();
            devices.push(device(devices.len(), name, &domain.path, fault));
            domains.push(domain);
        }
        if devices.is_empty() {
            return Err(Error::Library {
                operation: "Rapl::open",
                library: root.display().to_string(),
                why: "no domain of RAPL".to_owned(),
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

    fn read(&mut self, device: usize, _now: Duration) -> Reading {
        let (mut values, mut faults) = (Values::none(), vec![]);
        match self.domains[device].advance() {
            Ok(energy_j) => values.set(Metric::Energy, energy_j),
            Err(fault) => faults.push((Metric::Energy, fault)),
        }
        Reading { values, faults }
    }
}

impl Domain {
    /// Reads the counter, and gives the energy since the first reading, in J.
    fn advance(&mut self) -> std::result::Result<f64, Fault> {
        let now_uj = number(&self.path.join("energy_uj"))?;
        let last_uj = self.last_uj.unwrap_or(now_uj);
        let wrapped = if now_uj < last_uj { self.range_uj } else { 0 };
        // Without a range, a counter that went back tells nothing of what it counted.
        self.total_uj += (now_uj + wrapped).saturating_sub(last_uj);
        self.last_uj = Some(now_uj);
        Ok(self.total_uj as f64 / UJ_PER_J)
    }
}

/// Gives the name of a domain that is a package or a memory: `package-0`, `package-0/dram`.
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

fn number(path: &Path) -> std::result::Result<u64, Fault> {
    let text = fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Fault::NoPermission,
        _ => Fault::NotSupported,
    })?;
    text.trim().parse().map_err(|_| Fault::Senseless)
}

fn device(index: usize, name: String, path: &Path, fault: Option<Fault>) -> Device {
    let folder = path.file_name().unwrap_or_default().to_string_lossy();
    Device {
        index,
        kind: Kind::Rapl,
        name,
        uuid: None,
        pci: None,
        driver: None,
        architecture: None,
        limits: PowerLimits::default(),
        is_mig: false,
        capabilities: vec![Capability {
            metric: Metric::Energy,
            field: format!("{folder}/energy_uj"),
            fault,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like Linux's, with a package, its cores and memory, and the platform.
    fn folder(name: &str) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("telemetry-rapl-{name}-{}", std::process::id()));
        for (place, domain) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:0:1", "dram"),
            ("intel-rapl:1", "psys"),
        ] {
            let path = root.join(place);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("name"), format!("{domain}\n")).unwrap();
            fs::write(path.join("max_energy_range_uj"), "1000000\n").unwrap();
            fs::write(path.join("energy_uj"), "900000\n").unwrap();
        }
        root
    }

    #[test]
    fn energy_counts_on_when_the_counter_wraps() {
        let root = folder("wrap");
        let mut rapl = Rapl::open_at(&root).unwrap();
        let names: Vec<_> = rapl
            .devices()
            .iter()
            .map(|device| device.name.as_str())
            .collect();
        assert_eq!(names, ["package-0", "package-0/dram"]);
        let mut energy = |uj: &str| {
            fs::write(root.join("intel-rapl:0/energy_uj"), uj).unwrap();
            rapl.read(0, Duration::ZERO).values.get(Metric::Energy)
        };
        assert_eq!(energy("900000"), Some(0.0));
        assert_eq!(energy("950000"), Some(0.05));
        assert_eq!(energy("150000"), Some(0.25));
        assert_eq!(energy("150000"), Some(0.25));
        assert_eq!(energy("nonsense"), None);
        assert_eq!(energy("160000"), Some(0.26));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_machine_without_domains_says_so() {
        let error = Rapl::open_at(Path::new("/nowhere")).unwrap_err();
        assert!(matches!(error, Error::Library { .. }), "{error}");
    }
}
