//! A machine that does not exist, as a file describes it: its driver, its GPUs, and what goes wrong when.
//!
//! Role: what a [`Model`](super::Model) answers for and `fake-nvml` plays.
//! Method: plain data, written and read as JSON. What a file leaves out is that of a T4 under a square load, so `{}` is
//! a scenario; unknown names are refused.

use super::{Board, Driver, Gpu};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A machine and its story.
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
    /// The driver and its library.
    pub driver: Driver,
    /// The GPUs, in the order of their indices.
    pub gpus: Vec<Gpu>,
    /// What goes wrong.
    pub faults: Vec<FaultRule>,
    /// Whether clocks and limits may be set, as root may.
    pub may_control: bool,
    /// The wall clock at time zero, in µs since 1970: what samples and fields are stamped with.
    pub began_unix_us: u64,
}

/// A call that fails for a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultRule {
    /// The call, or the beginning of several and `*`. By default all that ask a device, which is how a GPU is lost.
    pub symbol: String,
    /// Number of the field value that fails, the call itself being well; none for the whole call.
    pub field: Option<u32>,
    /// Index of the GPU; none for all, and for calls that ask none.
    pub gpu: Option<usize>,
    /// When it begins, in ms.
    pub from_ms: u64,
    /// When it is over, in ms; none for never.
    pub until_ms: Option<u64>,
    /// Whether it is over when the library is initialised anew.
    pub until_init: bool,
    /// NVML's code that the caller gets.
    pub code: u32,
}

impl FaultRule {
    /// NVML's code of a GPU that is lost.
    pub const GPU_IS_LOST: u32 = 15;

    /// A GPU that is lost from a time on.
    #[must_use]
    pub fn lost(gpu: usize, from_ms: u64) -> Self {
        Self {
            gpu: Some(gpu),
            from_ms,
            ..Self::default()
        }
    }

    /// A call that always fails.
    #[must_use]
    pub fn of_symbol(symbol: &str, code: u32) -> Self {
        Self {
            symbol: symbol.to_owned(),
            code,
            ..Self::default()
        }
    }

    /// Whether a call is meant, at a time; `initialised_s` is when the library was initialised last.
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

/// A call, for which a rule is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call<'a> {
    /// Its symbol.
    pub symbol: &'a str,
    /// The GPU that it asks.
    pub gpu: Option<usize>,
    /// The field value that it asks for.
    pub field: Option<u32>,
}

impl Scenario {
    /// Describes a machine with boards that draw what they do by default.
    #[must_use]
    pub fn of(boards: &[Board]) -> Self {
        Self {
            gpus: boards.iter().map(|&board| Gpu::of(board)).collect(),
            ..Self::default()
        }
    }

    /// Gives the same machine with another driver.
    #[must_use]
    pub fn on_driver(mut self, version: &str) -> Self {
        self.driver.version = version.to_owned();
        self
    }

    /// Gives the same machine on which more goes wrong.
    #[must_use]
    pub fn with_fault(mut self, rule: FaultRule) -> Self {
        self.faults.push(rule);
        self
    }

    /// Reads a scenario.
    ///
    /// # Errors
    /// [`Error::Text`] if it is none; [`Error::ParameterInvalid`] if a value in it has no meaning.
    pub fn from_json(text: &str) -> Result<Self> {
        let scenario: Self = serde_json::from_str(text).map_err(|fault| Error::Text {
            format: "scenario",
            line: fault.line(),
            why: fault.to_string(),
        })?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Writes it.
    ///
    /// # Errors
    /// [`Error::Text`] if it has a value that JSON cannot hold.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|fault| Error::Text {
            format: "scenario",
            line: fault.line(),
            why: fault.to_string(),
        })
    }

    /// Refuses values without a meaning.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`].
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

    #[test]
    fn every_board_is_read_as_it_was_written() -> Result<()> {
        let scenario = Scenario::of(&Board::ALL)
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
        assert_eq!(named.gpus[0].n_cores, Gpu::of(Board::T4).n_cores);
        Ok(())
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_with_its_line() {
        for (text, line) in [("{\n\"gpu\": []}", 2), ("", 1), ("{\"gpus\": 3}", 1)] {
            let refused = Scenario::from_json(text);
            assert!(
                matches!(refused, Err(Error::Text { line: at, .. }) if at.max(1) == line),
                "{refused:?}"
            );
        }
        for gpu in [
            r#"{"power": {"pieces": [{"lasts_s": 0, "from_w": 1, "to_w": 1}]}}"#,
            r#"{"clocks": {"sm_mhz": []}}"#,
            r#"{"clocks": {"sm_mhz": [0]}}"#,
            r#"{"clocks": {"memory_mhz": [800, 900]}}"#,
        ] {
            let refused = Scenario::from_json(&format!("{{\"gpus\": [{gpu}]}}"));
            assert!(
                matches!(refused, Err(Error::ParameterInvalid { .. })),
                "{gpu}: {refused:?}"
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
