//! A scenario's answers, at any time and in closed form.
//!
//! Role: what is true, and what is told of it; [`Synthetic`](super::Synthetic) and `fake-nvml` ask nothing else.
//! Method: each GPU answers for itself ([`GpuModel`]); the machine knows what fails, and who did what.

use super::{Call, GpuModel, Scenario};
use crate::{Fault, Result};
use serde::{Deserialize, Serialize};

/// NVML's code of a call that the library does not have.
const FUNCTION_NOT_FOUND: u32 = 13;

/// A machine that answers.
#[derive(Clone, Debug)]
pub struct Model {
    scenario: Scenario,
    gpus: Vec<GpuModel>,
    actions: Vec<Action>,
    initialised_s: f64,
}

/// Something that only root may do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// Keep the clock of the multiprocessors between two, in MHz.
    LockClocks(u32, u32),
    /// No longer do so.
    ResetClocks,
    /// Set the limit on power, in W.
    SetLimit(f64),
}

/// What was done to a GPU, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// When, in s.
    pub time_s: f64,
    /// Index of the GPU.
    pub gpu: usize,
    /// What.
    pub control: Control,
    /// Why it was refused, if it was.
    pub refused: Option<Fault>,
}

impl Model {
    /// Makes a scenario answer.
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

    /// Gives what is played.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Gives the GPUs, in the order of their indices.
    #[must_use]
    pub fn gpus(&self) -> &[GpuModel] {
        &self.gpus
    }

    /// Gives a GPU's UUID.
    #[must_use]
    pub fn uuid(&self, gpu: usize) -> String {
        let made = || format!("GPU-00000000-0000-4000-8000-{gpu:012x}");
        self.gpus[gpu].gpu().uuid.clone().unwrap_or_else(made)
    }

    /// Gives a GPU's place on the bus.
    #[must_use]
    pub fn pci(&self, gpu: usize) -> String {
        let made = || format!("00000000:{:02X}:00.0", gpu + 1);
        self.gpus[gpu].gpu().pci.clone().unwrap_or_else(made)
    }

    /// Gives NVML's code for a call that fails at a time, in s.
    #[must_use]
    pub fn failure(&self, call: &Call<'_>, time_s: f64) -> Option<u32> {
        if !self.scenario.driver.has(call.symbol) {
            return Some(FUNCTION_NOT_FOUND);
        }
        let mut rules = self.scenario.faults.iter();
        let met = rules.find(|rule| rule.meets(call, time_s, self.initialised_s));
        met.map(|rule| rule.code)
    }

    /// Notes that the library was initialised, at a time in s, by which some faults end.
    pub fn initialise(&mut self, time_s: f64) {
        self.initialised_s = time_s;
    }

    /// Does to a GPU what only root may, at a time in s, or notes that it was tried.
    ///
    /// # Errors
    /// [`Fault::NoPermission`] unless the scenario allows it, [`Fault::NotSupported`] for clocks before Volta, and
    /// NVML's code 2 for what the device does not do.
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
            refused: outcome.err(),
        });
        outcome
    }

    /// Gives what was done and tried, in the order of time.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Board, Gpu, Program, Quantity};

    /// NVML's code of an argument without a meaning.
    const INVALID_ARGUMENT: u32 = 2;

    /// A V100 that works without a pause and obeys the clocks of the P100's table.
    fn worker() -> Result<Model> {
        let mut scenario = Scenario::of(&[Board::V100]);
        let gpu = &mut scenario.gpus[0];
        gpu.clocks = Gpu::of(Board::P100).clocks;
        gpu.power = Program::constant(56.18 + 1.776e-11 * 1328_f64.powi(4));
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
    fn a_limit_on_power_is_kept_and_told() -> Result<()> {
        let mut model = Model::new(Scenario::of(&[Board::A100]))?;
        assert_eq!(model.control(0, Control::SetLimit(200.0), 1.0), Ok(()));
        let gpu = &model.gpus()[0];
        assert!((gpu.power_w(1.5) - 200.0).abs() < 1e-9 && gpu.power_w(0.5) > 300.0);
        assert_eq!((gpu.limit_w(0.5), gpu.limit_w(1.5)), (400.0, 200.0));
        assert_eq!((gpu.clock_reasons(1.5), gpu.clock_reasons(2.5)), (4, 1));
        let refused = model.control(0, Control::SetLimit(99.0), 2.0);
        assert_eq!(refused, Err(Fault::Code(INVALID_ARGUMENT)));
        Ok(())
    }

    #[test]
    fn controls_are_refused_to_users_and_by_old_boards_and_noted() -> Result<()> {
        let mut scenario = Scenario::of(&[Board::P100]);
        let mut model = Model::new(scenario.clone())?;
        let lock = Control::LockClocks(900, 900);
        assert_eq!(model.control(0, lock, 0.0), Err(Fault::NotSupported));
        scenario.may_control = false;
        let mut model = Model::new(scenario)?;
        assert_eq!(model.control(0, lock, 0.0), Err(Fault::NoPermission));
        assert_eq!(model.actions()[0].refused, Some(Fault::NoPermission));
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
        let model = Model::new(Scenario::of(&[Board::T4]))?;
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
