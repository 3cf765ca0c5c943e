//! The quantities of a scenario at any time, in closed form.
//!
//! Role: true and reported quantities, used by [`Synthetic`](super::Synthetic) and `fake-nvml`
//! alike.
//! Method: each [`GpuModel`] computes the quantities of its GPU. The model adds the faults and the
//! record of control actions.

use super::{Call, GpuModel, Scenario};
use crate::{Fault, Result};
use serde::{Deserialize, Serialize};

/// NVML's return code `NVML_ERROR_FUNCTION_NOT_FOUND`.
const FUNCTION_NOT_FOUND: u32 = 13;

/// A simulated machine.
#[derive(Clone, Debug)]
pub struct Model {
    scenario: Scenario,
    gpus: Vec<GpuModel>,
    actions: Vec<Action>,
    initialised_s: f64,
}

/// A control operation, which requires root on a real machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// Lock the clock of the multiprocessors to a range from lowest to highest, in MHz.
    LockClocks(u32, u32),
    /// Unlock the clocks.
    ResetClocks,
    /// Set the power limit, in W.
    SetLimit(f64),
}

/// A control operation on a GPU, executed or rejected.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Time of the operation, in s.
    pub time_s: f64,
    /// Index of the GPU.
    pub gpu: usize,
    /// The operation.
    pub control: Control,
    /// The reason for the rejection; none if the operation was executed.
    pub rejected: Option<Fault>,
}

impl Model {
    /// Creates the model of a scenario.
    ///
    /// # Errors
    /// Those of [`Scenario::check`].
    pub fn new(scenario: Scenario) -> Result<Self> {
        scenario.check()?;
        let gpus = scenario.gpus.iter();
        Ok(Self {
            gpus: gpus
                .map(|gpu| GpuModel::new(gpu, &scenario.driver))
                .collect(),
            scenario,
            actions: vec![],
            initialised_s: f64::NEG_INFINITY,
        })
    }

    /// Returns the scenario.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the GPUs in the order of their indices.
    #[must_use]
    pub fn gpus(&self) -> &[GpuModel] {
        &self.gpus
    }

    /// Returns the UUID of a GPU.
    ///
    /// # Panics
    /// If there is no such GPU.
    #[must_use]
    pub fn uuid(&self, gpu: usize) -> String {
        let made = || format!("GPU-00000000-0000-4000-8000-{gpu:012x}");
        self.gpus[gpu].gpu().uuid.clone().unwrap_or_else(made)
    }

    /// Returns the PCI bus id of a GPU.
    ///
    /// # Panics
    /// If there is no such GPU.
    #[must_use]
    pub fn pci(&self, gpu: usize) -> String {
        let made = || format!("00000000:{:02X}:00.0", gpu + 1);
        self.gpus[gpu].gpu().pci.clone().unwrap_or_else(made)
    }

    /// Returns NVML's code if a call fails at a time in s; none if the call succeeds.
    #[must_use]
    pub fn failure(&self, call: &Call<'_>, time_s: f64) -> Option<u32> {
        if !self.scenario.driver.has(call.symbol) {
            return Some(FUNCTION_NOT_FOUND);
        }
        let mut rules = self.scenario.faults.iter();
        let met = rules.find(|rule| rule.meets(call, time_s, self.initialised_s));
        met.map(|rule| rule.code)
    }

    /// Records the time, in s, at which the library was initialised. Faults with
    /// [`until_init`](super::FaultRule::until_init) end at that time.
    pub fn initialise(&mut self, time_s: f64) {
        self.initialised_s = time_s;
    }

    /// Executes a control operation on a GPU at a time in s, and records the operation even if it
    /// is rejected.
    ///
    /// # Errors
    /// [`Fault::NoPermission`] unless the scenario allows control, [`Fault::NotSupported`] for
    /// clocks of architectures before Volta, and NVML's code 2 for values outside the device's
    /// range.
    pub fn control(
        &mut self,
        gpu: usize,
        control: Control,
        time_s: f64,
    ) -> std::result::Result<(), Fault> {
        let outcome = if self.scenario.may_control {
            self.gpus[gpu].control(control, time_s)
        } else {
            Err(Fault::NoPermission)
        };
        self.actions.push(Action {
            time_s,
            gpu,
            control,
            rejected: outcome.err(),
        });
        outcome
    }

    /// Returns the executed and rejected operations in the order of the calls.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Board, Gpu, PowerProfile, Quantity};

    /// NVML's return code `NVML_ERROR_INVALID_ARGUMENT`.
    const INVALID_ARGUMENT: u32 = 2;

    /// A V100 with constant load and with the clocks of the P100.
    fn worker() -> Result<Model> {
        let mut scenario = Scenario::from_boards(&[Board::V100]);
        let gpu = &mut scenario.gpus[0];
        gpu.clocks = Gpu::from_board(Board::P100).clocks;
        gpu.power = PowerProfile::constant(56.18 + 1.776e-11 * 1328_f64.powi(4));
        gpu.utilisation.gpu_pct = Quantity::Constant(100.0);
        Model::new(scenario)
    }

    #[test]
    fn clocks_that_are_locked_change_power_and_speed_until_they_are_reset() -> Result<()> {
        let mut model = worker()?;
        let locked = model.control(0, Control::LockClocks(936, 936), 10.0);
        assert_eq!(locked, Ok(()));
        assert_eq!(model.control(0, Control::ResetClocks, 20.0), Ok(()));
        let gpu = &model.gpus()[0];
        let at = |mhz: f64| 56.18 + 1.776e-11 * mhz.powi(4);
        assert!((gpu.power_w(15.0) - at(936.0)).abs() < 1e-9);
        assert!((gpu.energy_j(5.0, 25.0) - 10.0 * (at(936.0) + at(1328.0))).abs() < 1e-6);
        let images = 10.0 / (2.346e-3 + 7.677 / 936.0);
        assert!((gpu.work(10.0, 20.0) - images).abs() < 1e-9);
        assert_eq!((gpu.sm_mhz(15.0), gpu.sm_mhz(20.0)), (936.0, 1328.0));
        assert_eq!(
            (gpu.locked_mhz(15.0), gpu.locked_mhz(20.0)),
            (Some((936, 936)), None)
        );
        let done: Vec<Control> = model
            .actions()
            .iter()
            .map(|action| action.control)
            .collect();
        assert_eq!(done, [Control::LockClocks(936, 936), Control::ResetClocks]);
        Ok(())
    }

    #[test]
    fn a_limit_on_power_is_kept_and_reported() -> Result<()> {
        let mut model = Model::new(Scenario::from_boards(&[Board::A100]))?;
        assert_eq!(model.control(0, Control::SetLimit(200.0), 1.0), Ok(()));
        let gpu = &model.gpus()[0];
        assert!((gpu.power_w(1.5) - 200.0).abs() < 1e-9 && gpu.power_w(0.5) > 300.0);
        assert_eq!((gpu.limit_w(0.5), gpu.limit_w(1.5)), (400.0, 200.0));
        assert_eq!((gpu.clock_reasons(1.5), gpu.clock_reasons(2.5)), (4, 1));
        let rejected = model.control(0, Control::SetLimit(99.0), 2.0);
        assert_eq!(rejected, Err(Fault::Code(INVALID_ARGUMENT)));
        Ok(())
    }

    #[test]
    fn controls_fail_for_users_and_on_old_boards_and_are_noted() -> Result<()> {
        let mut scenario = Scenario::from_boards(&[Board::P100]);
        let mut model = Model::new(scenario.clone())?;
        let lock = Control::LockClocks(900, 900);
        assert_eq!(model.control(0, lock, 0.0), Err(Fault::NotSupported));
        scenario.may_control = false;
        let mut model = Model::new(scenario)?;
        assert_eq!(model.control(0, lock, 0.0), Err(Fault::NoPermission));
        assert_eq!(model.actions()[0].rejected, Some(Fault::NoPermission));
        Ok(())
    }

    #[test]
    fn temperature_follows_power_through_changes_of_the_clock() -> Result<()> {
        let mut model = worker()?;
        assert_eq!(model.control(0, Control::LockClocks(544, 544), 3.0), Ok(()));
        assert_eq!(model.control(0, Control::ResetClocks, 9.0), Ok(()));
        let gpu = &model.gpus()[0];
        let thermal = &gpu.gpu().thermal;
        let (mut temperature_c, mut time_s, step_s) = (gpu.temperature_c(0.0), 0.0, 1e-4);
        while time_s < 12.0 {
            let end_c =
                thermal.ambient_c + thermal.rise_c_per_w * gpu.power_w(time_s + 0.5 * step_s);
            temperature_c += step_s / thermal.tau_s * (end_c - temperature_c);
            time_s += step_s;
        }
        let exact_c = gpu.temperature_c(time_s);
        assert!(
            (exact_c - temperature_c).abs() < 1e-3,
            "{exact_c} {temperature_c}"
        );
        assert!(exact_c < gpu.temperature_c(3.0) && exact_c > gpu.temperature_c(9.0));
        Ok(())
    }

    #[test]
    fn counters_and_utilisation_stand_still_between_updates() -> Result<()> {
        let model = Model::new(Scenario::from_boards(&[Board::T4]))?;
        let gpu = &model.gpus()[0];
        assert_eq!(gpu.counted_j(1.01), gpu.counted_j(1.09));
        let counted_j = gpu.counted_j(1.05).unwrap_or(f64::NAN);
        assert!((counted_j - 68.0).abs() < 1e-9, "{counted_j}");
        let busy = |time_s| {
            gpu.busy_pct(time_s)
                .map(|(gpu, memory)| (gpu.round(), memory.round()))
        };
        assert_eq!(busy(1.9), Some((100.0, 40.0)));
        assert_eq!(busy(2.1), Some((100.0, 40.0)));
        assert_eq!(busy(2.4), Some((0.0, 0.0)));
        Ok(())
    }
}
