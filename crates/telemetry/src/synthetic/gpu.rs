//! A GPU of a scenario: what it is, what it draws, and what it tells.

use super::quantity::is_sound;
use super::{Board, ClockModel, Program, Quantity, Sensor, Thermal};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A GPU. What a file leaves out is that of a T4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gpu {
    /// Its product name.
    pub name: String,
    /// Its UUID; none for one made of its index.
    pub uuid: Option<String>,
    /// Its place on the bus, `00000000:01:00.0`; none for one made of its index.
    pub pci: Option<String>,
    /// Its architecture.
    pub architecture: Architecture,
    /// Its compute capability.
    pub compute_capability: (u32, u32),
    /// Number of its cores for floats.
    pub n_cores: u32,
    /// Width of its memory's bus, in bits.
    pub memory_bus_bits: u32,
    /// Its memory.
    pub memory: Memory,
    /// What it draws at its highest clock.
    pub power: Program,
    /// What its clocks do to power and speed.
    pub clocks: ClockModel,
    /// Limits on its power.
    pub limits: Limits,
    /// What its sensors of power tell.
    pub sensors: Sensors,
    /// Power beyond the chip's own, which few boards tell.
    pub scopes: Scopes,
    /// Its counter of energy.
    pub counter: Tells<Counter>,
    /// How busy it is.
    pub utilisation: Utilisation,
    /// Its temperature.
    pub thermal: Thermal,
    /// What goes over the bus.
    pub pcie: Pcie,
    /// Whether the driver stays loaded when nothing uses it.
    pub persistence: bool,
    /// Whether it is divided.
    pub mig: bool,
    /// What runs on it.
    pub processes: Vec<Process>,
}

/// NVIDIA's architectures, by the number that NVML gives them.
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

/// Whether a device tells something: as devices of its kind do, never, or in a way of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tells<T> {
    /// As its architecture and driver do.
    #[default]
    AsBuilt,
    /// Never.
    Never,
    /// In this way.
    By(T),
}

/// The three fields of power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sensors {
    /// Field 186.
    pub instant: Tells<Sensor>,
    /// Field 185.
    pub average: Tells<Sensor>,
    /// `nvmlDeviceGetPowerUsage`.
    pub draw: Tells<Sensor>,
}

/// Power of other scopes, as shares of the GPU's; none for scopes that it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scopes {
    /// The module: the GPU and a CPU beside it.
    pub module: Option<f64>,
    /// The memory.
    pub memory: Option<f64>,
}

/// A counter of energy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Counter {
    /// Time between two updates, in s; above 0.
    pub update_s: f64,
    /// What it counted before time zero, in J.
    pub start_j: f64,
    /// What it counts over what is true.
    pub gain: f64,
    /// Constant offset that the counter adds, in W.
    pub offset_w: f64,
}

/// A device's memory, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// All of it.
    pub total_bytes: u64,
    /// What the driver keeps for itself.
    pub reserved_bytes: u64,
    /// What programs use.
    pub used_bytes: Quantity,
}

/// Limits on power, in W.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The lowest that may be set.
    pub min_w: f64,
    /// The one after a reset.
    pub default_w: f64,
    /// The highest that may be set.
    pub max_w: f64,
}

/// How busy a device is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Utilisation {
    /// Share of time with a kernel running, in per cent.
    pub gpu_pct: Quantity,
    /// Share of time with memory in use, in per cent.
    pub memory_pct: Quantity,
    /// Time between two updates, which tell the mean since the one before, in s; above 0.
    pub update_s: f64,
}

/// Throughput of the bus, in kB/s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pcie {
    /// From the device.
    pub sent_kb_per_s: Quantity,
    /// To the device.
    pub received_kb_per_s: Quantity,
}

/// A process on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// What it uses of the memory, in bytes.
    pub memory_bytes: u64,
    /// What it uses of the multiprocessors, in per cent of time.
    pub gpu_pct: u32,
    /// What it uses of the memory's time, in per cent.
    pub memory_pct: u32,
    /// Whether it draws, rather than computes.
    pub is_graphics: bool,
}

impl Architecture {
    /// Gives its name: `Turing`.
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
    /// Refuses values without a meaning.
    pub(super) fn check(&self) -> Result<()> {
        let static_w = self.clocks.static_w;
        let peak_w = self.power.peak_w();
        let (Limits { min_w, max_w, .. }, clocks) = (self.limits, &self.clocks);
        let sensors = [
            self.sensors.instant,
            self.sensors.average,
            self.sensors.draw,
        ];
        let update_s = sensors
            .iter()
            .fold(1.0, |shortest: f64, sensor| match sensor {
                Tells::By(sensor) => shortest.min(sensor.update_s),
                _ => shortest,
            });
        let counter_s = match self.counter {
            Tells::By(counter) => counter.update_s,
            _ => 1.0,
        };
        let quantities = [
            &self.memory.used_bytes,
            &self.utilisation.gpu_pct,
            &self.utilisation.memory_pct,
            &self.pcie.sent_kb_per_s,
            &self.pcie.received_kb_per_s,
        ];
        let sound = quantities.iter().all(|quantity| quantity.is_sound());
        let descending = |mhz: &[u32]| {
            let is_above_0 = mhz.last().is_some_and(|&lowest| lowest > 0);
            is_above_0 && mhz.is_sorted_by(|a, b| a > b)
        };
        let busy_s = self.utilisation.update_s;
        let tau_s = self.thermal.tau_s;
        let top_mhz = f64::from(clocks.top_sm_mhz());
        let falls = descending(&clocks.sm_mhz) && descending(&clocks.memory_mhz);
        let has_limits = min_w > 0.0 && min_w <= max_w;
        let (above, lasting) = ("above 0", "at least 0, in pieces that last");
        let positive = |parameter, value: f64| (parameter, value, value > 0.0, above);
        let rules = [
            ("power", peak_w, is_sound(&self.power), lasting),
            ("quantities", f64::NAN, sound, lasting),
            positive("sensor.update_s", update_s),
            positive("counter.update_s", counter_s),
            positive("utilisation.update_s", busy_s),
            positive("thermal.tau_s", tau_s),
            positive("clocks.exponent", clocks.exponent),
            positive("clocks.megacycles", clocks.megacycles),
            ("clocks.static_w", static_w, static_w >= 0.0, "at least 0"),
            (
                "clocks",
                top_mhz,
                falls,
                "above 0, in falling lists that are not empty",
            ),
            (
                "limits.min_w",
                min_w,
                has_limits,
                "above 0 and at most the highest",
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
        Self::of(Board::T4)
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

impl Default for Limits {
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
