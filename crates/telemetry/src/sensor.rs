//! Classes of GPU power sensors: update period, averaging window, and the share of time observed.
//!
//! Role: the meaning of a power query depends on architecture, field and driver. A reading is the
//! mean over 25 ms of every 100 ms, over all of the time, or over the last second.
//! [`Device::sensor_class`] looks the class up in a table; [`probe`](mod@crate::probe) and
//! [`update_period`](crate::probe::update_period) measure the sensor.
//! Source: Yang, Adamek and Armour 2024, "Part-time power measurements: nvidia-smi's lack of
//! attention", with its table of measurements (`JimZeyuYang/GPU_Power_Benchmark`,
//! `Overall_Results.xlsx`), which covers Pascal to Hopper and drivers before, at and after 530.
//! Limits: the sensors of Kepler and Maxwell report a capacitor's voltage, which has no averaging
//! window, and Blackwell was not measured. These architectures have no class here.

use crate::{Device, Metric};
use serde::{Deserialize, Serialize};

/// The classes of power sensors that measurements found in NVIDIA's GPUs, by the time that a
/// reading averages over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SensorClass {
    /// 25 ms of every 100 ms: A100, and the instant power of Hopper.
    PartTime,
    /// 100 ms of every 100 ms: Turing, and the instant power of Ampere and Ada.
    FullTime,
    /// The last second, every 100 ms: the average power of Ampere and later.
    LastSecond,
    /// 10 ms of every 20 ms: Pascal and Volta.
    Fast,
}

/// A row of [`SENSORS`]: the class of the sensor behind a metric of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensorRule {
    /// NVIDIA's name of the architecture, or `GA100` for the Ampere products with that chip, whose
    /// sensor differs.
    pub architecture: &'static str,
    /// The metric.
    pub metric: Metric,
    /// The first and the last major driver version that the rule applies to, both inclusive.
    pub drivers: (u32, u32),
    /// The class.
    pub class: SensorClass,
}

/// Major driver versions after 530, which have NVML's power fields 185 and 186. The rules hold as
/// far as these versions were measured; newer versions are assumed to behave in the same way.
const AFTER_530: (u32, u32) = (531, u32::MAX);
/// Major driver versions up to 529.
const BEFORE_530: (u32, u32) = (0, 529);
/// All driver versions.
const ANY: (u32, u32) = (0, u32::MAX);

/// The table of known sensors. A device and metric without a matching rule have no known class.
pub const SENSORS: &[SensorRule] = &[
    rule("Pascal", Metric::PowerDraw, ANY, SensorClass::Fast),
    rule("Pascal", Metric::PowerInstant, ANY, SensorClass::Fast),
    rule("Volta", Metric::PowerDraw, ANY, SensorClass::Fast),
    rule("Volta", Metric::PowerInstant, ANY, SensorClass::Fast),
    rule("Turing", Metric::PowerDraw, ANY, SensorClass::FullTime),
    rule("Turing", Metric::PowerInstant, ANY, SensorClass::FullTime),
    rule("GA100", Metric::PowerDraw, ANY, SensorClass::PartTime),
    rule("GA100", Metric::PowerInstant, ANY, SensorClass::PartTime),
    rule(
        "Ampere",
        Metric::PowerDraw,
        BEFORE_530,
        SensorClass::LastSecond,
    ),
    rule(
        "Ampere",
        Metric::PowerDraw,
        (530, 530),
        SensorClass::FullTime,
    ),
    rule(
        "Ampere",
        Metric::PowerDraw,
        AFTER_530,
        SensorClass::LastSecond,
    ),
    rule(
        "Ampere",
        Metric::PowerAverage,
        AFTER_530,
        SensorClass::LastSecond,
    ),
    rule(
        "Ampere",
        Metric::PowerInstant,
        AFTER_530,
        SensorClass::FullTime,
    ),
    rule(
        "Ada",
        Metric::PowerDraw,
        BEFORE_530,
        SensorClass::LastSecond,
    ),
    rule("Ada", Metric::PowerDraw, (530, 530), SensorClass::FullTime),
    rule("Ada", Metric::PowerDraw, AFTER_530, SensorClass::LastSecond),
    rule(
        "Ada",
        Metric::PowerAverage,
        AFTER_530,
        SensorClass::LastSecond,
    ),
    rule(
        "Ada",
        Metric::PowerInstant,
        AFTER_530,
        SensorClass::FullTime,
    ),
    rule(
        "Hopper",
        Metric::PowerDraw,
        AFTER_530,
        SensorClass::LastSecond,
    ),
    rule(
        "Hopper",
        Metric::PowerAverage,
        AFTER_530,
        SensorClass::LastSecond,
    ),
    rule(
        "Hopper",
        Metric::PowerInstant,
        AFTER_530,
        SensorClass::PartTime,
    ),
];

/// Products with the chip GA100, whose architecture NVML reports as Ampere.
const GA100_PRODUCTS: [&str; 5] = ["A100", "A100X", "A800", "A30", "A30X"];

const fn rule(
    architecture: &'static str,
    metric: Metric,
    drivers: (u32, u32),
    class: SensorClass,
) -> SensorRule {
    SensorRule {
        architecture,
        metric,
        drivers,
        class,
    }
}

impl SensorClass {
    /// All classes.
    pub const ALL: [Self; 4] = [Self::PartTime, Self::FullTime, Self::LastSecond, Self::Fast];

    /// Returns the time between updates and the length of the averaging window, in s.
    #[must_use]
    pub fn update_and_window_s(self) -> (f64, f64) {
        match self {
            Self::PartTime => (0.1, 0.025),
            Self::FullTime => (0.1, 0.1),
            Self::LastSecond => (0.1, 1.0),
            Self::Fast => (0.02, 0.01),
        }
    }

    /// Returns the share of time that the sensor observes, 0 to 1.
    #[must_use]
    pub fn seen_share(self) -> f64 {
        let (update_s, window_s) = self.update_and_window_s();
        (window_s / update_s).min(1.0)
    }
}

impl Device {
    /// Looks up the class of the sensor behind a power metric in [`SENSORS`].
    ///
    /// Returns `None` if the device does not report its architecture or driver version, or if no
    /// rule of the table matches.
    #[must_use]
    pub fn sensor_class(&self, metric: Metric) -> Option<SensorClass> {
        let architecture = self.architecture.as_deref()?;
        let driver: u32 = self.driver.as_deref()?.split('.').next()?.parse().ok()?;
        let words = || self.name.split([' ', '-']);
        let is_ga100 = architecture == "Ampere"
            && GA100_PRODUCTS
                .iter()
                .any(|product| words().any(|word| word == *product));
        let chip = if is_ga100 { "GA100" } else { architecture };
        let fits = |rule: &&SensorRule| {
            rule.architecture.eq_ignore_ascii_case(chip)
                && rule.metric == metric
                && (rule.drivers.0..=rule.drivers.1).contains(&driver)
        };
        Some(SENSORS.iter().find(fits)?.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn device(name: &str, architecture: &str, driver: &str) -> Device {
        Device {
            driver: Some(driver.into()),
            architecture: Some(architecture.into()),
            ..Device::new(Kind::Gpu, name)
        }
    }

    #[test]
    fn the_same_query_changes_its_meaning_with_the_driver() {
        let class = |driver| {
            device("NVIDIA GeForce RTX 3090", "Ampere", driver).sensor_class(Metric::PowerDraw)
        };
        assert_eq!(class("525.60.13"), Some(SensorClass::LastSecond));
        assert_eq!(class("530.30.02"), Some(SensorClass::FullTime));
        assert_eq!(class("535.104.05"), Some(SensorClass::LastSecond));
        assert_eq!(class("unknown"), None);
    }

    #[test]
    fn ga100_is_not_the_rest_of_ampere() {
        let class = |name| device(name, "Ampere", "550.54").sensor_class(Metric::PowerInstant);
        assert_eq!(class("NVIDIA A100-SXM4-40GB"), Some(SensorClass::PartTime));
        assert_eq!(class("NVIDIA A30"), Some(SensorClass::PartTime));
        assert_eq!(class("NVIDIA A10"), Some(SensorClass::FullTime));
        assert_eq!(class("NVIDIA RTX A5000"), Some(SensorClass::FullTime));
    }

    #[test]
    fn architectures_without_a_window_have_no_class() {
        for (architecture, metric) in [
            ("Kepler", Metric::PowerDraw),
            ("Blackwell", Metric::PowerInstant),
            ("Turing", Metric::PowerAverage),
            ("Hopper", Metric::Energy),
        ] {
            let found = device("?", architecture, "550.54").sensor_class(metric);
            assert_eq!(found, None, "{architecture} {metric}");
        }
    }

    #[test]
    fn lines_of_the_table_do_not_overlap() {
        for (i, a) in SENSORS.iter().enumerate() {
            for b in &SENSORS[i + 1..] {
                let same = a.architecture == b.architecture && a.metric == b.metric;
                let apart = a.drivers.1 < b.drivers.0 || b.drivers.1 < a.drivers.0;
                assert!(!same || apart, "{a:?} {b:?}");
            }
        }
    }
}
