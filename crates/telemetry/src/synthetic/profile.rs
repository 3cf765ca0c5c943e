//! The sensors of each architecture and the calls of each driver version.
//!
//! Role: maps [`Reporting::AsBuilt`] to sensors, and determines which calls and field values the
//! library of a driver has.
//! Source: sensors: Yang, Adamek and Armour 2024, "Part-time power measurements: nvidia-smi's lack
//! of attention". CUDA versions: NVIDIA, "CUDA Toolkit Release Notes" of 13.4, tables of driver
//! versions (12.7 is not a toolkit version; `nvidia-smi` of 565.57.01 prints it). Calls: NVIDIA,
//! "NVML API Reference Guide", change log to 615. Where the change log lacks a call or lists the
//! call for a later driver, the source is a header or binding: the process calls `_v3` are in
//! `nvml.h` of nvidia-settings 510.39.01 but not of 495.46, and `nvmlDeviceGetTemperatureV` is in
//! nvidia-ml-py 12.570.86 but not in 12.560.30.
//! Limits: the logarithmic sensors of Kepler and Maxwell are not modelled; those GPUs get the
//! sensor of Turing. The driver that introduced a call is known by branch, not by release. The
//! measurements found the power fields in driver 530; the change log lists them for 535.

use super::{Architecture, Counter, Gpu, Reporting, Sensor, SensorClass};
use serde::{Deserialize, Serialize};

/// A driver and its NVML library.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Driver {
    /// Version, such as `535.161.08`; determines the calls of the library.
    pub version: String,
    /// Calls that the library lacks, in addition to the calls that only later drivers introduced.
    pub missing: Vec<String>,
}

/// A power reading of NVML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerField {
    /// Field value 186, `NVML_FI_DEV_POWER_INSTANT`.
    Instant,
    /// Field value 185, `NVML_FI_DEV_POWER_AVERAGE`.
    Average,
    /// `nvmlDeviceGetPowerUsage`, which `nvidia-smi` prints by default.
    Draw,
}

/// Driver branches and the CUDA version of each in NVML's encoding, newest first.
const CUDA_VERSIONS: [(u32, u32); 27] = [
    (615, 13_040),
    (610, 13_030),
    (595, 13_020),
    (590, 13_010),
    (580, 13_000),
    (575, 12_090),
    (570, 12_080),
    (565, 12_070),
    (560, 12_060),
    (555, 12_050),
    (550, 12_040),
    (545, 12_030),
    (535, 12_020),
    (530, 12_010),
    (525, 12_000),
    (520, 11_080),
    (515, 11_070),
    (510, 11_060),
    (495, 11_050),
    (470, 11_040),
    (465, 11_030),
    (460, 11_020),
    (455, 11_010),
    (450, 11_000),
    (440, 10_020),
    (418, 10_010),
    (410, OLDEST_CUDA),
];

/// CUDA version of the oldest branch in the table, also used for older drivers.
const OLDEST_CUDA: u32 = 10_000;

/// Calls that were added later, with the driver branch that introduced each.
const FIRST_BRANCHES: [(&str, u32); 9] = [
    ("nvmlDeviceGetMemoryInfo_v2", 510),
    ("nvmlDeviceGetMemoryBusWidth", 510),
    ("nvmlDeviceGetNumGpuCores", 510),
    ("nvmlDeviceGetComputeRunningProcesses_v3", 510),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", 510),
    ("nvmlDeviceGetMigMode", 445),
    ("nvmlDeviceGetCurrentClocksEventReasons", 535),
    ("nvmlDeviceGetSupportedClocksEventReasons", 535),
    ("nvmlDeviceGetTemperatureV", 570),
];

impl Driver {
    /// Returns the branch and the release within the branch, such as 535 and 161. A part that is
    /// missing or not a number is 0.
    #[must_use]
    pub fn release(&self) -> (u32, u32) {
        let mut numbers = self
            .version
            .split('.')
            .map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Returns the newest CUDA version that the driver supports, in NVML's encoding: 12020 is 12.2.
    #[must_use]
    pub fn cuda_version(&self) -> u32 {
        let (branch, _) = self.release();
        let found = CUDA_VERSIONS.iter().find(|(first, _)| branch >= *first);
        found.map_or(OLDEST_CUDA, |(_, version)| *version)
    }

    /// Returns the version of the library, such as `12.535.161.08`.
    #[must_use]
    pub fn library_version(&self) -> String {
        format!("{}.{}", self.cuda_version() / 1000, self.version)
    }

    /// Returns whether the library has a call.
    #[must_use]
    pub fn has(&self, symbol: &str) -> bool {
        let came = FIRST_BRANCHES.iter().find(|(name, _)| *name == symbol);
        came.is_none_or(|(_, first)| self.release().0 >= *first)
            && !self.missing.iter().any(|name| name == symbol)
    }

    /// Returns whether the library supports the power fields 185 and 186.
    #[must_use]
    pub fn has_power_fields(&self) -> bool {
        self.release().0 >= 530
    }

    /// Converts a field number from the numbering before 580.82 to the numbering of this driver.
    /// Release 580.82 renumbered the fields 251 to 273.
    #[must_use]
    pub fn field_number(&self, before: u32) -> u32 {
        match before {
            251..=255 if self.release() >= (580, 82) => before + 18,
            256..=273 if self.release() >= (580, 82) => before - 5,
            _ => before,
        }
    }
}

impl Default for Driver {
    fn default() -> Self {
        Self {
            version: "570.133.20".to_owned(),
            missing: vec![],
        }
    }
}

/// Returns the sensor behind a power field; none if the device does not report the field.
pub(super) fn sensor(gpu: &Gpu, driver: &Driver, field: PowerField) -> Option<Sensor> {
    let reported = match field {
        PowerField::Instant => gpu.sensors.instant,
        PowerField::Average => gpu.sensors.average,
        PowerField::Draw => gpu.sensors.draw,
    };
    match reported {
        Reporting::By(sensor) => Some(sensor),
        Reporting::Never => None,
        Reporting::AsBuilt => class(gpu, driver, field).map(Sensor::for_class),
    }
}

/// Returns the energy counter; none if the device does not have a counter. By default devices have
/// a counter from Volta on.
pub(super) fn counter(gpu: &Gpu) -> Option<Counter> {
    match gpu.counter {
        Reporting::By(counter) => Some(counter),
        Reporting::Never => None,
        Reporting::AsBuilt => (gpu.architecture >= Architecture::Volta).then(|| Counter {
            update_s: if gpu.architecture == Architecture::Volta {
                0.02
            } else {
                0.1
            },
            ..Counter::default()
        }),
    }
}

/// Returns the class of the sensor behind a field for the architecture and driver; none if the
/// field is not supported.
fn class(gpu: &Gpu, driver: &Driver, field: PowerField) -> Option<SensorClass> {
    use Architecture::{Ada, Ampere, Pascal, Volta};
    if field != PowerField::Draw && !driver.has_power_fields() {
        return None;
    }
    // The large die of Ampere (GA100) has a different sensor from the other dies of Ampere.
    let is_ga100 = gpu.compute_capability == (8, 0);
    let own = match gpu.architecture {
        Pascal | Volta => SensorClass::Fast,
        _ if is_ga100 => SensorClass::PartTime,
        Ampere | Ada => SensorClass::FullTime,
        older if older < Ampere => SensorClass::FullTime,
        _ => SensorClass::PartTime,
    };
    let averages = gpu.architecture >= Ampere && !is_ga100;
    match field {
        PowerField::Instant => Some(own),
        PowerField::Average => averages.then_some(SensorClass::LastSecond),
        PowerField::Draw if !averages || driver.release().0 == 530 => Some(own),
        PowerField::Draw => Some(SensorClass::LastSecond),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Board;

    fn on(version: &str) -> Driver {
        Driver {
            version: version.to_owned(),
            ..Driver::default()
        }
    }

    #[test]
    fn the_same_field_changes_its_meaning_with_the_driver() {
        let gpu = Gpu::from_board(Board::Rtx3090);
        let window_s =
            |version, field| sensor(&gpu, &on(version), field).map(|reported| reported.window_s);
        assert_eq!(window_s("525.60.13", PowerField::Draw), Some(1.0));
        assert_eq!(window_s("530.30.02", PowerField::Draw), Some(0.1));
        assert_eq!(window_s("535.54.03", PowerField::Draw), Some(1.0));
        assert_eq!(window_s("525.60.13", PowerField::Instant), None);
        assert_eq!(window_s("535.54.03", PowerField::Instant), Some(0.1));
        assert_eq!(window_s("535.54.03", PowerField::Average), Some(1.0));
    }

    #[test]
    fn each_board_has_the_sensors_that_were_found_in_it() {
        let driver = Driver::default();
        let found =
            |board, field| sensor(&Gpu::from_board(board), &driver, field).map(|s| s.window_s);
        let fields = [PowerField::Instant, PowerField::Average, PowerField::Draw];
        let windows_s = |board| fields.map(|field| found(board, field));
        assert_eq!(windows_s(Board::P100), [Some(0.01), None, Some(0.01)]);
        assert_eq!(windows_s(Board::V100), [Some(0.01), None, Some(0.01)]);
        assert_eq!(windows_s(Board::T4), [Some(0.1), None, Some(0.1)]);
        assert_eq!(windows_s(Board::A100), [Some(0.025), None, Some(0.025)]);
        assert_eq!(windows_s(Board::H100), [Some(0.025), Some(1.0), Some(1.0)]);
        let counts = |board| counter(&Gpu::from_board(board)).map(|counter| counter.update_s);
        assert_eq!(Board::ALL.map(counts)[..3], [None, Some(0.02), Some(0.1)]);
    }

    #[test]
    fn a_driver_runs_the_cuda_of_its_branch() {
        let cuda = |version| on(version).cuda_version();
        assert_eq!(cuda("510.47.03"), 11_060);
        assert_eq!(cuda("535.161.08"), 12_020);
        assert_eq!(cuda("418.87"), 10_010);
        assert_eq!(cuda("455.32"), 11_010);
        assert_eq!(cuda("396.37"), 10_000);
        assert_eq!(cuda("590.44.01"), 13_010);
        assert_eq!(on("535.161.08").library_version(), "12.535.161.08");
        assert!(!on("470.57.02").has("nvmlDeviceGetMemoryInfo_v2"));
        assert!(on("510.47.03").has("nvmlDeviceGetMemoryInfo_v2"));
        assert!(!on("495.29.05").has("nvmlDeviceGetNumGpuCores"));
        assert!(!on("560.35.05").has("nvmlDeviceGetTemperatureV"));
    }

    #[test]
    fn renumbering_moves_every_field_to_a_place_of_its_own() {
        let moved = on("580.82.07");
        let mut numbers: Vec<u32> = (251..=273)
            .map(|before| moved.field_number(before))
            .collect();
        assert_eq!((numbers[0], numbers[5]), (269, 251));
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(251..=273));
        assert_eq!(on("580.65.06").field_number(251), 251);
    }
}
