//! The description of a GPU in a scenario: identity, power, and what its sensors report.

use super::quantity::invalid;
use super::{Board, ClockModel, PowerProfile, Quantity, Sensor, Thermal};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The description of a GPU. Fields that a file omits have the values of a T4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gpu {
    /// Product name.
    pub name: String,
    /// UUID; if none, one is derived from the GPU's index.
    pub uuid: Option<String>,
    /// PCI bus id, such as `00000000:01:00.0`; if none, one is derived from the GPU's index.
    pub pci: Option<String>,
    /// Architecture.
    pub architecture: Architecture,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Number of single-precision cores.
    pub n_cores: u32,
    /// Width of the memory bus, in bits.
    pub memory_bus_bits: u32,
    /// Device memory.
    pub memory: Memory,
    /// Power at the highest clock, over time.
    pub power: PowerProfile,
    /// Effect of the clocks on power and speed.
    pub clocks: ClockModel,
    /// Power limits.
    pub limits: BoardLimits,
    /// Power sensors.
    pub sensors: Sensors,
    /// Power of the module and of the memory, which few boards report.
    pub scopes: Scopes,
    /// Energy counter.
    pub counter: Reporting<Counter>,
    /// Utilisation.
    pub utilisation: Utilisation,
    /// Thermal model.
    pub thermal: Thermal,
    /// Throughput of the PCI Express bus.
    pub pcie: Pcie,
    /// Whether persistence mode is on: the driver stays loaded while no program uses the GPU.
    pub persistence: bool,
    /// Whether multi-instance GPU (MIG) mode is on.
    pub mig: bool,
    /// Processes that use the GPU.
    pub processes: Vec<Process>,
}

/// NVIDIA's architectures, with the numbers of NVML's `nvmlDeviceArchitecture_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// Kepler.
    Kepler = 2,
    /// Maxwell.
    Maxwell = 3,
    /// Pascal.
    Pascal = 4,
    /// Volta.
    Volta = 5,
    /// Turing.
    Turing = 6,
    /// Ampere.
    Ampere = 7,
    /// Ada.
    Ada = 8,
    /// Hopper.
    Hopper = 9,
    /// Blackwell.
    Blackwell = 10,
}

/// Whether and how a device reports a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reporting<T> {
    /// Reported as by real devices of this architecture with this driver.
    #[default]
    AsBuilt,
    /// Not reported.
    Never,
    /// Reported as described.
    By(T),
}

/// The sensors behind the three power readings of NVML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sensors {
    /// Field value 186, `NVML_FI_DEV_POWER_INSTANT`.
    pub instant: Reporting<Sensor>,
    /// Field value 185, `NVML_FI_DEV_POWER_AVERAGE`.
    pub average: Reporting<Sensor>,
    /// `nvmlDeviceGetPowerUsage`.
    pub draw: Reporting<Sensor>,
}

/// Power of other scopes, as fractions of the GPU's power; none for a scope that is not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scopes {
    /// The module: the GPU and the CPU on the same module.
    pub module: Option<f64>,
    /// The device memory.
    pub memory: Option<f64>,
}

/// An energy counter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Counter {
    /// Time between two updates, in s; above 0.
    pub update_s: f64,
    /// Count at time zero, in J.
    pub start_j: f64,
    /// Ratio of counted energy to true energy.
    pub gain: f64,
    /// Constant offset that the counter adds, in W.
    pub offset_w: f64,
}

/// A device's memory, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Total size.
    pub total_bytes: u64,
    /// Size reserved by the driver.
    pub reserved_bytes: u64,
    /// Size used by programs, over time.
    pub used_bytes: Quantity,
}

/// Power limits, in W.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BoardLimits {
    /// Lowest allowed limit.
    pub min_w: f64,
    /// Limit after a reset, from `min_w` to `max_w`.
    pub default_w: f64,
    /// Highest allowed limit.
    pub max_w: f64,
}

/// Utilisation of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Utilisation {
    /// Share of time in which a kernel runs, in per cent.
    pub gpu_pct: Quantity,
    /// Share of time in which the memory is read or written, in per cent.
    pub memory_pct: Quantity,
    /// Time between two updates, in s; above 0. Each update reports the mean since the previous
    /// update.
    pub update_s: f64,
}

/// Throughput of the PCI Express bus, in kB/s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pcie {
    /// From the device.
    pub sent_kb_per_s: Quantity,
    /// To the device.
    pub received_kb_per_s: Quantity,
}

/// A process that uses a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Process name.
    pub name: String,
    /// Device memory in use by the process, in bytes.
    pub memory_bytes: u64,
    /// Utilisation of the multiprocessors by the process, in per cent of time.
    pub gpu_pct: u32,
    /// Utilisation of the memory by the process, in per cent of time.
    pub memory_pct: u32,
    /// Whether the process uses the GPU for graphics rather than for computing.
    pub is_graphics: bool,
}

impl Architecture {
    /// Returns the name, such as `Turing`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kepler => "Kepler",
            Self::Maxwell => "Maxwell",
            Self::Pascal => "Pascal",
            Self::Volta => "Volta",
            Self::Turing => "Turing",
            Self::Ampere => "Ampere",
            Self::Ada => "Ada",
            Self::Hopper => "Hopper",
            Self::Blackwell => "Blackwell",
        }
    }
}

impl Gpu {
    /// Checks all values, and returns an error for the first value out of its range.
    pub(super) fn check(&self) -> Result<()> {
        let static_w = self.clocks.static_w;
        let (limits, clocks, thermal) = (self.limits, &self.clocks, &self.thermal);
        let sensors = [
            self.sensors.instant,
            self.sensors.average,
            self.sensors.draw,
        ];
        // The lowest value of the sensors that a scenario describes; NaN is lower than all numbers.
        // The other sensors have valid values and count as 1 s.
        let lowest = |value: fn(&Sensor) -> f64| {
            let described = sensors.iter().map(|sensor| match sensor {
                Reporting::By(sensor) => value(sensor),
                Reporting::AsBuilt | Reporting::Never => 1.0,
            });
            described.fold(1.0, |lowest: f64, value| {
                let is_lower = value.is_nan() || value < lowest;
                if is_lower { value } else { lowest }
            })
        };
        let (update_s, window_s) = (lowest(|s| s.update_s), lowest(|s| s.window_s));
        let counter_s = match self.counter {
            Reporting::By(counter) => counter.update_s,
            _ => 1.0,
        };
        let quantities = [
            &self.memory.used_bytes,
            &self.utilisation.gpu_pct,
            &self.utilisation.memory_pct,
            &self.pcie.sent_kb_per_s,
            &self.pcie.received_kb_per_s,
        ];
        let invalid_power = invalid(&self.power);
        let invalid_quantity = quantities.iter().find_map(|quantity| quantity.invalid());
        let descending = |mhz: &[u32]| {
            let is_above_0 = mhz.last().is_some_and(|&lowest| lowest > 0);
            is_above_0 && mhz.is_sorted_by(|a, b| a > b)
        };
        let busy_s = self.utilisation.update_s;
        let top_mhz = f64::from(clocks.top_sm_mhz());
        let falls = descending(&clocks.sm_mhz) && descending(&clocks.memory_mhz);
        let BoardLimits {
            min_w,
            default_w,
            max_w,
        } = limits;
        let has_limits = min_w > 0.0 && min_w <= max_w;
        let has_default = (min_w..=max_w).contains(&default_w);
        let positive = |parameter, value: f64| (parameter, value, value > 0.0, "above 0");
        let valid = |parameter, invalid: Option<f64>| {
            let must = "finite and at least 0, in pieces of positive duration";
            (parameter, invalid.unwrap_or(0.0), invalid.is_none(), must)
        };
        let not_negative = |parameter, value: f64| {
            let holds = value >= 0.0 && value.is_finite();
            (parameter, value, holds, "finite and at least 0")
        };
        let finite = |parameter, value: f64| (parameter, value, value.is_finite(), "finite");
        // One row per rule: parameter, value for the message, whether the rule holds, requirement.
        let rules = [
            valid("power", invalid_power),
            valid("quantities", invalid_quantity),
            positive("sensor.update_s", update_s),
            positive("counter.update_s", counter_s),
            positive("utilisation.update_s", busy_s),
            not_negative("sensor.window_s", window_s),
            positive("thermal.tau_s", thermal.tau_s),
            not_negative("thermal.rise_c_per_w", thermal.rise_c_per_w),
            finite("thermal.ambient_c", thermal.ambient_c),
            finite("thermal.slowdown_c", thermal.slowdown_c),
            finite("thermal.shutdown_c", thermal.shutdown_c),
            positive("clocks.exponent", clocks.exponent),
            positive("clocks.megacycles", clocks.megacycles),
            ("clocks.static_w", static_w, static_w >= 0.0, "at least 0"),
            not_negative("clocks.fixed_s", clocks.fixed_s),
            (
                "clocks",
                top_mhz,
                falls,
                "above 0, in non-empty lists in descending order",
            ),
            (
                "limits.min_w",
                min_w,
                has_limits,
                "above 0 and at most limits.max_w",
            ),
            (
                "limits.default_w",
                default_w,
                has_default,
                "from limits.min_w to limits.max_w",
            ),
        ];
        for (parameter, value, holds, must) in rules {
            if !holds {
                return Err(Error::ParameterInvalid {
                    operation: "Scenario::check",
                    parameter,
                    value,
                    must,
                });
            }
        }
        Ok(())
    }
}

impl Default for Gpu {
    fn default() -> Self {
        Self::from_board(Board::T4)
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            update_s: 0.1,
            start_j: 0.0,
            gain: 1.0,
            offset_w: 0.0,
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Gpu::default().memory
    }
}

impl Default for BoardLimits {
    fn default() -> Self {
        Gpu::default().limits
    }
}

impl Default for Utilisation {
    fn default() -> Self {
        Gpu::default().utilisation
    }
}

impl Default for Pcie {
    fn default() -> Self {
        Self {
            sent_kb_per_s: Quantity::Constant(0.0),
            received_kb_per_s: Quantity::Constant(0.0),
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self {
            pid: 4242,
            name: "python3".to_owned(),
            memory_bytes: 1 << 30,
            gpu_pct: 0,
            memory_pct: 0,
            is_graphics: false,
        }
    }
}
