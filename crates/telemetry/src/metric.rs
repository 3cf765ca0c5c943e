//! The quantities that are sampled, their names and units.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Power over the sensor's own window, the newest there is.
    PowerInstant,
    /// Power over the last second.
    PowerAverage,
    /// Power as `nvidia-smi` prints it by default: one of the two above, depending on architecture and driver.
    PowerDraw,
    /// Power of the whole module, the GPU and the CPU beside it, where they share one.
    PowerModule,
    /// Power of the device's memory, a part of its own.
    PowerMemory,
    /// The limit that the device keeps to now.
    PowerLimit,
    /// Energy since the driver was loaded, by the device's own counter.
    Energy,
    /// Temperature of the die.
    Temperature,
    /// Time during which a kernel ran.
    GpuBusy,
    /// Time during which the device's memory was read or written.
    MemoryBusy,
    /// Memory in use, with what the driver keeps for itself.
    MemoryUsed,
    /// Memory there is.
    MemoryTotal,
    /// Clock of the multiprocessors.
    SmClock,
    /// Clock of the memory.
    MemoryClock,
    /// Performance state, 0 being the fastest.
    PerformanceState,
    /// Reasons for which clocks are lower than they could be, one bit each: [`crate::reasons`].
    ClockReasons,
}

/// A unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// W.
    Watt,
    /// J.
    Joule,
    /// °C.
    Celsius,
    /// Per cent of time.
    Percent,
    /// B.
    Byte,
    /// MHz.
    Megahertz,
    /// A number without a unit.
    None,
}

/// A value for each metric, or none.
#[derive(Clone, Copy, Debug)]
pub struct Values([f64; Metric::COUNT]);

impl Metric {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();
    /// All of them, in the order of their columns.
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

    /// Those that tell the power that is drawn, the best first.
    pub const POWERS: [Self; 3] = [Self::PowerInstant, Self::PowerDraw, Self::PowerAverage];

    /// Gives the name that files use: `power_instant`.
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

    /// Gives the metric of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Gives the unit of its values.
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
    /// Gives its sign, as ASCII files have it: `W`, `C`, `%`; empty for [`Unit::None`].
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
    /// No value at all.
    #[must_use]
    pub fn none() -> Self {
        Self([f64::NAN; Metric::COUNT])
    }

    /// Gives a value.
    #[must_use]
    pub fn get(&self, metric: Metric) -> Option<f64> {
        let value = self.0[metric as usize];
        (!value.is_nan()).then_some(value)
    }

    /// Sets a value; what is not finite is none.
    pub fn set(&mut self, metric: Metric, value: f64) {
        self.0[metric as usize] = if value.is_finite() { value } else { f64::NAN };
    }

    /// Gives those that are there, in the order of [`Metric::ALL`].
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
            assert_eq!(Metric::named(metric.name()), Some(metric));
        }
        assert_eq!(Metric::named("power"), None);
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
