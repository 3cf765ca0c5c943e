//! The description of a simulated machine: driver, GPUs, and faults over time.
//!
//! Role: the input of a [`Model`](super::Model) and of `fake-nvml`.
//! Method: plain data, written and read as JSON. Omitted fields have the values of a T4 under a
//! square-wave load, so `{}` is a valid scenario; unknown names are rejected.

use super::{Board, Driver, Gpu};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A simulated machine and its faults.
///
/// # Examples
/// ```
/// use telemetry::synthetic::{Model, Scenario};
///
/// let scenario = Scenario::from_json(
///     r#"{
///         "driver": {"version": "510.47.03"},
///         "gpus": [{
///             "power": {"pieces": [{"lasts_s": 1, "from_w": 30, "to_w": 60}], "repeats": true},
///             "utilisation": {"gpu_pct": 95, "memory_pct": 40, "update_s": 0.2},
///             "counter": {"by": {"update_s": 0.02}}
///         }],
///         "faults": [{"gpu": 0, "from_ms": 5000, "until_init": true}]
///     }"#,
/// )?;
/// let model = Model::new(scenario)?;
/// assert_eq!(model.gpus()[0].energy_j(0.0, 2.0), 90.0);
/// # Ok::<(), telemetry::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// The driver and its NVML library.
    pub driver: Driver,
    /// The GPUs, in the order of their indices.
    pub gpus: Vec<Gpu>,
    /// Faults. If several rules apply to a call, the first one determines the code.
    pub faults: Vec<FaultRule>,
    /// Whether the caller may set clocks and power limits, as root may.
    pub may_control: bool,
    /// Wall-clock time at time zero, in µs since 1970; used for the timestamps of samples and field
    /// values.
    pub began_unix_us: u64,
}

/// A rule for calls that fail during a period.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultRule {
    /// The name of the call, or a prefix followed by `*`. The default matches all calls on a
    /// device, as when a GPU is lost.
    pub symbol: String,
    /// Number of the field value that fails while the call succeeds; none if the whole call fails.
    pub field: Option<u32>,
    /// Index of the GPU; none for all GPUs and for calls without a GPU.
    pub gpu: Option<usize>,
    /// Start of the fault, in ms.
    pub from_ms: u64,
    /// End of the fault, in ms; none if the fault does not end.
    pub until_ms: Option<u64>,
    /// Whether the fault ends when the library is initialised again.
    pub until_init: bool,
    /// NVML return code for the caller.
    pub code: u32,
}

impl FaultRule {
    /// NVML's return code `NVML_ERROR_GPU_IS_LOST`.
    pub const GPU_IS_LOST: u32 = 15;

    /// Creates a rule for a GPU that is lost from `from_ms` on.
    #[must_use]
    pub fn lost(gpu: usize, from_ms: u64) -> Self {
        Self {
            gpu: Some(gpu),
            from_ms,
            ..Self::default()
        }
    }

    /// Creates a rule for a call that always fails.
    #[must_use]
    pub fn for_symbol(symbol: &str, code: u32) -> Self {
        Self {
            symbol: symbol.to_owned(),
            code,
            ..Self::default()
        }
    }

    /// Returns whether the rule applies to a call at a time; `initialised_s` is the time of the
    /// last initialisation of the library.
    pub(super) fn meets(&self, call: &Call<'_>, time_s: f64, initialised_s: f64) -> bool {
        let is_symbol = match self.symbol.strip_suffix('*') {
            Some(beginning) => call.symbol.starts_with(beginning),
            None => call.symbol == self.symbol,
        };
        let is_gpu = self.gpu.is_none() || self.gpu == call.gpu;
        let from_s = seconds(self.from_ms);
        let is_time = time_s >= from_s && self.until_ms.is_none_or(|end| time_s < seconds(end));
        let is_over = self.until_init && initialised_s > from_s;
        is_symbol && is_gpu && self.field == call.field && is_time && !is_over
    }
}

/// A call, matched against the fault rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call<'a> {
    /// Name of the called library function.
    pub symbol: &'a str,
    /// Index of the queried GPU; none for calls without a GPU.
    pub gpu: Option<usize>,
    /// Number of the queried field value; none for the call as a whole.
    pub field: Option<u32>,
}

impl Scenario {
    /// Creates a machine with the given boards under their default load.
    #[must_use]
    pub fn from_boards(boards: &[Board]) -> Self {
        Self {
            gpus: boards.iter().map(|&board| Gpu::from_board(board)).collect(),
            ..Self::default()
        }
    }

    /// Returns the machine with another driver version.
    #[must_use]
    pub fn on_driver(mut self, version: &str) -> Self {
        self.driver.version = version.to_owned();
        self
    }

    /// Returns the machine with an additional fault rule.
    #[must_use]
    pub fn with_fault(mut self, rule: FaultRule) -> Self {
        self.faults.push(rule);
        self
    }

    /// Parses and checks a scenario.
    ///
    /// # Errors
    /// [`Error::Text`] if the text is not a scenario; [`Error::ParameterInvalid`] if a value is out
    /// of its range.
    pub fn from_json(text: &str) -> Result<Self> {
        let scenario: Self = serde_json::from_str(text).map_err(|fault| Error::Text {
            format: "scenario",
            line: fault.line(),
            why: fault.to_string(),
        })?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Converts the scenario to JSON.
    ///
    /// # Errors
    /// [`Error::Text`] if JSON cannot represent a value.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|fault| Error::Text {
            format: "scenario",
            line: fault.line(),
            why: fault.to_string(),
        })
    }

    /// Checks that all values are in their ranges.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] for the first value out of its range.
    pub fn check(&self) -> Result<()> {
        self.gpus.iter().try_for_each(Gpu::check)
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            driver: Driver::default(),
            gpus: vec![Gpu::default()],
            faults: vec![],
            may_control: true,
            began_unix_us: 1_700_000_000_000_000,
        }
    }
}

impl Default for FaultRule {
    fn default() -> Self {
        Self {
            symbol: "nvmlDevice*".to_owned(),
            field: None,
            gpu: None,
            from_ms: 0,
            until_ms: None,
            until_init: false,
            code: Self::GPU_IS_LOST,
        }
    }
}

fn seconds(time_ms: u64) -> f64 {
    std::time::Duration::from_millis(time_ms).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Reporting, Sensor};

    #[test]
    fn every_board_is_read_as_it_was_written() -> Result<()> {
        let scenario = Scenario::from_boards(&Board::ALL)
            .on_driver("450.80.02")
            .with_fault(FaultRule::lost(3, 2000));
        assert_eq!(Scenario::from_json(&scenario.to_json()?)?, scenario);
        Ok(())
    }

    #[test]
    fn what_a_file_leaves_out_is_a_t4() -> Result<()> {
        assert_eq!(Scenario::from_json("{}")?, Scenario::default());
        let named =
            Scenario::from_json(r#"{"gpus": [{"name": "Mine", "power": {"pieces": []}}]}"#)?;
        assert_eq!(named.gpus[0].name, "Mine");
        assert_eq!(named.gpus[0].n_cores, Gpu::from_board(Board::T4).n_cores);
        Ok(())
    }

    #[test]
    fn a_file_that_makes_no_sense_is_rejected_with_its_line() {
        for (text, line) in [("{\n\"gpu\": []}", 2), ("", 1), ("{\"gpus\": 3}", 1)] {
            let rejected = Scenario::from_json(text);
            assert!(
                matches!(rejected, Err(Error::Text { line: at, .. }) if at.max(1) == line),
                "{rejected:?}"
            );
        }
        for gpu in [
            r#"{"power": {"pieces": [{"lasts_s": 0, "from_w": 1, "to_w": 1}]}}"#,
            r#"{"clocks": {"sm_mhz": []}}"#,
            r#"{"clocks": {"sm_mhz": [0]}}"#,
            r#"{"clocks": {"memory_mhz": [800, 900]}}"#,
            r#"{"clocks": {"fixed_s": -1}}"#,
            r#"{"limits": {"min_w": 60, "default_w": 10, "max_w": 70}}"#,
            r#"{"limits": {"min_w": 60, "default_w": 80, "max_w": 70}}"#,
            r#"{"sensors": {"draw": {"by": {"update_s": 0.1, "window_s": -0.1}}}}"#,
            r#"{"thermal": {"rise_c_per_w": -1}}"#,
        ] {
            let rejected = Scenario::from_json(&format!("{{\"gpus\": [{gpu}]}}"));
            assert!(
                matches!(rejected, Err(Error::ParameterInvalid { .. })),
                "{gpu}: {rejected:?}"
            );
        }
    }

    #[test]
    fn values_that_are_not_numbers_are_rejected() {
        let set: [fn(&mut Gpu); 4] = [
            |gpu| gpu.thermal.ambient_c = f64::NAN,
            |gpu| gpu.thermal.slowdown_c = f64::INFINITY,
            |gpu| gpu.limits.default_w = f64::NAN,
            |gpu| {
                let class = crate::SensorClass::FullTime;
                let sensor = Sensor {
                    update_s: f64::NAN,
                    ..Sensor::for_class(class)
                };
                gpu.sensors.instant = Reporting::By(sensor);
                gpu.sensors.draw = Reporting::By(Sensor::for_class(class));
            },
        ];
        for set in set {
            let mut scenario = Scenario::default();
            scenario.check().unwrap();
            set(&mut scenario.gpus[0]);
            let rejected = scenario.check();
            assert!(
                matches!(rejected, Err(Error::ParameterInvalid { .. })),
                "{rejected:?}"
            );
        }
    }

    #[test]
    fn a_rule_meets_its_calls_and_its_time() {
        let rule = FaultRule {
            gpu: Some(1),
            from_ms: 2000,
            until_ms: Some(3000),
            until_init: true,
            ..FaultRule::default()
        };
        let call = |symbol, gpu| Call {
            symbol,
            gpu,
            field: None,
        };
        let power = call("nvmlDeviceGetPowerUsage", Some(1));
        assert!(rule.meets(&power, 2.0, 0.0));
        assert!(!rule.meets(&power, 1.999, 0.0) && !rule.meets(&power, 3.0, 0.0));
        assert!(!rule.meets(&power, 2.5, 2.4));
        assert!(!rule.meets(&call("nvmlDeviceGetPowerUsage", Some(0)), 2.5, 0.0));
        assert!(!rule.meets(&call("nvmlSystemGetDriverVersion", None), 2.5, 0.0));
        let field = Call {
            field: Some(186),
            ..power
        };
        assert!(!rule.meets(&field, 2.5, 0.0));
    }
}
