//! Sampled quantities, with their names and units.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A sampled quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Mean power over the sensor's own averaging window, at its newest update.
    PowerInstant,
    /// Mean power over the last second.
    PowerAverage,
    /// Power that `nvidia-smi` prints by default: the instantaneous or the average power, depending
    /// on architecture and driver.
    PowerDraw,
    /// Power of the whole module, on devices where the GPU and a CPU share a module.
    PowerModule,
    /// Power of the device's memory, which is part of the device's power.
    PowerMemory,
    /// The power limit in force.
    PowerLimit,
    /// Energy since the driver was loaded, from the device's own counter.
    Energy,
    /// Temperature of the die.
    Temperature,
    /// Share of time during which a kernel ran.
    GpuBusy,
    /// Share of time during which the device's memory was read or written.
    MemoryBusy,
    /// Device memory in use, including the driver's reserved memory.
    MemoryUsed,
    /// Total device memory.
    MemoryTotal,
    /// Clock frequency of the multiprocessors.
    SmClock,
    /// Clock frequency of the memory.
    MemoryClock,
    /// Performance state (P-state); 0 is the fastest.
    PerformanceState,
    /// Reasons why clocks are below their maximum, one bit each; see [`crate::reasons`].
    ClockReasons,
}

/// A unit of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Watt (W).
    Watt,
    /// Joule (J).
    Joule,
    /// Degree Celsius (°C).
    Celsius,
    /// Percent of time.
    Percent,
    /// Byte (B).
    Byte,
    /// Megahertz (MHz).
    Megahertz,
    /// A number without a unit.
    None,
}

/// A value per metric, each of which may be missing (stored as NaN).
#[derive(Clone, Copy, Debug)]
pub struct Values([f64; Metric::COUNT]);

impl Metric {
    /// Number of metrics.
    pub const COUNT: usize = Self::ALL.len();
    /// All metrics, in the order of the enum, which is the order of columns in files.
    pub const ALL: [Self; 16] = [
        Self::PowerInstant,
        Self::PowerAverage,
        Self::PowerDraw,
        Self::PowerModule,
        Self::PowerMemory,
        Self::PowerLimit,
        Self::Energy,
        Self::Temperature,
        Self::GpuBusy,
        Self::MemoryBusy,
        Self::MemoryUsed,
        Self::MemoryTotal,
        Self::SmClock,
        Self::MemoryClock,
        Self::PerformanceState,
        Self::ClockReasons,
    ];

    /// Metrics of the device's power draw, best first.
    pub const POWERS: [Self; 3] = [Self::PowerInstant, Self::PowerDraw, Self::PowerAverage];

    /// Returns the name that files use, such as `power_instant`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PowerInstant => "power_instant",
            Self::PowerAverage => "power_average",
            Self::PowerDraw => "power_draw",
            Self::PowerModule => "power_module",
            Self::PowerMemory => "power_memory",
            Self::PowerLimit => "power_limit",
            Self::Energy => "energy",
            Self::Temperature => "temperature",
            Self::GpuBusy => "gpu_busy",
            Self::MemoryBusy => "memory_busy",
            Self::MemoryUsed => "memory_used",
            Self::MemoryTotal => "memory_total",
            Self::SmClock => "sm_clock",
            Self::MemoryClock => "memory_clock",
            Self::PerformanceState => "performance_state",
            Self::ClockReasons => "clock_reasons",
        }
    }

    /// Returns the metric with the given name, or `None` if there is no such metric.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Returns the unit of the metric's values.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::PowerInstant
            | Self::PowerAverage
            | Self::PowerDraw
            | Self::PowerModule
            | Self::PowerMemory
            | Self::PowerLimit => Unit::Watt,
            Self::Energy => Unit::Joule,
            Self::Temperature => Unit::Celsius,
            Self::GpuBusy | Self::MemoryBusy => Unit::Percent,
            Self::MemoryUsed | Self::MemoryTotal => Unit::Byte,
            Self::SmClock | Self::MemoryClock => Unit::Megahertz,
            Self::PerformanceState | Self::ClockReasons => Unit::None,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Unit {
    /// Returns the unit's symbol in ASCII, such as `W`, `C` or `%`; empty for [`Unit::None`].
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Watt => "W",
            Self::Joule => "J",
            Self::Celsius => "C",
            Self::Percent => "%",
            Self::Byte => "B",
            Self::Megahertz => "MHz",
            Self::None => "",
        }
    }
}

impl Values {
    /// Creates a set in which every value is missing.
    #[must_use]
    pub fn none() -> Self {
        Self([f64::NAN; Metric::COUNT])
    }

    /// Returns the value of a metric, or `None` if it is missing.
    #[must_use]
    pub fn get(&self, metric: Metric) -> Option<f64> {
        let value = self.0[metric as usize];
        (!value.is_nan()).then_some(value)
    }

    /// Sets the value of a metric; a value that is not finite makes the metric missing.
    pub fn set(&mut self, metric: Metric, value: f64) {
        self.0[metric as usize] = if value.is_finite() { value } else { f64::NAN };
    }

    /// Returns the metrics that have a value, with their values, in the order of [`Metric::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Metric, f64)> + '_ {
        Metric::ALL
            .into_iter()
            .filter_map(|metric| Some((metric, self.get(metric)?)))
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        Metric::ALL
            .iter()
            .all(|&metric| self.get(metric) == other.get(metric))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_metrics_is_that_of_their_columns() {
        for (column, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, column);
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
        }
        assert_eq!(Metric::from_name("power"), None);
    }

    #[test]
    fn a_value_that_is_not_there_equals_none() {
        let mut values = Values::none();
        assert_eq!(values, Values::none());
        values.set(Metric::Energy, 1.5);
        assert_ne!(values, Values::none());
        assert_eq!(values.iter().collect::<Vec<_>>(), [(Metric::Energy, 1.5)]);
        for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            values.set(Metric::Energy, 1.5);
            values.set(Metric::Energy, none);
            assert_eq!(values.get(Metric::Energy), None);
        }
    }
}
