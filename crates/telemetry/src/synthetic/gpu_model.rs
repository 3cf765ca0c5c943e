//! The quantities of a GPU at any time, in closed form.
//!
//! Role: the true and the reported quantities of a GPU of a [`Model`](super::Model).
//! Method: every quantity is a function of time. Setting clocks or a power limit adds a new
//! setting, which applies from then on.

use super::control::Setting;
use super::thermal::filtered_w;
use super::{Architecture, Control, Counter, Driver, Gpu, PowerField, Sensor, profile};
use crate::Fault;

/// NVML's return code `NVML_ERROR_INVALID_ARGUMENT`.
const INVALID_ARGUMENT: u32 = 2;
/// NVML's bit for clocks that are low because the device is idle.
const REASON_IDLE: u64 = 1;
/// NVML's bit for clocks that are low because of a user's setting.
const REASON_USER: u64 = 2;
/// NVML's bit for clocks that are low because of the power limit.
const REASON_POWER: u64 = 4;
/// NVML's bit for clocks that are low because of the temperature.
const REASON_HEAT: u64 = 32;

/// A GPU with its sensors and the history of its settings.
#[derive(Clone, Debug)]
pub struct GpuModel {
    gpu: Gpu,
    sensors: [Option<Sensor>; 3],
    counter: Option<Counter>,
    /// Settings in the order of time; at least one, the first since −∞.
    settings: Vec<Setting>,
}

impl GpuModel {
    pub(super) fn new(gpu: &Gpu, driver: &Driver) -> Self {
        let sensor = |field| profile::sensor(gpu, driver, field);
        let ever_s = f64::NEG_INFINITY;
        let limit_w = gpu.limits.default_w;
        Self {
            sensors: [PowerField::Instant, PowerField::Average, PowerField::Draw].map(sensor),
            counter: profile::counter(gpu),
            settings: vec![Setting::new(&gpu.clocks, &gpu.power, ever_s, None, limit_w)],
            gpu: gpu.clone(),
        }
    }

    /// Returns the description of the GPU.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Returns the true power at a time, in W.
    #[must_use]
    pub fn power_w(&self, time_s: f64) -> f64 {
        let (static_w, setting) = (self.static_w(), self.setting(time_s));
        static_w + setting.scale * (self.gpu.power.power_w(time_s) - static_w)
    }

    /// Returns the true energy between two times, in J; negative if `to_s` is before `from_s`.
    #[must_use]
    pub fn energy_j(&self, from_s: f64, to_s: f64) -> f64 {
        let static_w = self.static_w();
        self.sum(from_s, to_s, |setting, from_s, to_s| {
            let profile_j = self.gpu.power.energy_j(from_s, to_s);
            let static_j = static_w * (to_s - from_s);
            static_j + setting.scale * (profile_j - static_j)
        })
    }

    /// Returns the work done between two times, in the units of the clock model.
    #[must_use]
    pub fn work(&self, from_s: f64, to_s: f64) -> f64 {
        self.sum(from_s, to_s, |setting, from_s, to_s| {
            let busy_pct = self.gpu.utilisation.gpu_pct.mean(to_s, to_s - from_s);
            let busy_s = busy_pct / 100.0 * (to_s - from_s);
            busy_s * self.gpu.clocks.speed_per_s(setting.sm_mhz)
        })
    }

    /// Returns the temperature of the die, in °C.
    #[must_use]
    pub fn temperature_c(&self, time_s: f64) -> f64 {
        let thermal = &self.gpu.thermal;
        let filtered = |at_s: f64| filtered_w(&self.gpu.power, thermal.tau_s, at_s);
        let static_w = self.static_w();
        let mut state_w = 0.0;
        for (i, setting) in self.settings.iter().enumerate() {
            let next_s = self.settings.get(i + 1).map_or(time_s, |next| next.since_s);
            let until_s = next_s.min(time_s);
            if setting.since_s > until_s {
                break;
            }
            // The filter is linear: the state at the start of the setting decays by `kept`, and the
            // response to the power since then is the filter's state minus the decayed state at the
            // start.
            let (kept, before_w) = if i == 0 {
                (0.0, 0.0)
            } else {
                let kept = (-(until_s - setting.since_s) / thermal.tau_s).exp();
                (kept, filtered(setting.since_s))
            };
            let profile_w = filtered(until_s) - kept * before_w;
            let fixed_w = static_w * (1.0 - setting.scale);
            state_w = state_w * kept + fixed_w * (1.0 - kept) + setting.scale * profile_w;
        }
        thermal.ambient_c + thermal.rise_c_per_w * state_w
    }

    /// Returns the reading of a power field, in W; none if the device does not report the field.
    #[must_use]
    pub fn reported_w(&self, field: PowerField, time_s: f64) -> Option<f64> {
        let sensor = self.sensor(field)?;
        let mean_w = |end_s: f64, window_s: f64| {
            if window_s > 0.0 {
                self.energy_j(end_s - window_s, end_s) / window_s
            } else {
                self.power_w(end_s)
            }
        };
        Some(sensor.reported_mean(time_s, mean_w))
    }

    /// Returns the sensor behind a power field; none if the device does not report the field.
    #[must_use]
    pub fn sensor(&self, field: PowerField) -> Option<&Sensor> {
        self.sensors[field as usize].as_ref()
    }

    /// Returns the reading of the energy counter, in J; none if the device has no counter.
    #[must_use]
    pub fn counted_j(&self, time_s: f64) -> Option<f64> {
        let counter = self.counter.as_ref()?;
        let updated_s = (time_s / counter.update_s).floor() * counter.update_s;
        let counted_j = counter.gain * self.energy_j(0.0, updated_s) + counter.offset_w * updated_s;
        Some(counter.start_j + counted_j)
    }

    /// Returns the description of the energy counter.
    #[must_use]
    pub fn counter(&self) -> Option<&Counter> {
        self.counter.as_ref()
    }

    /// Returns the reported shares of time in which a kernel runs and in which the memory is in
    /// use, in per cent; none in MIG mode.
    #[must_use]
    pub fn busy_pct(&self, time_s: f64) -> Option<(f64, f64)> {
        let load = &self.gpu.utilisation;
        let updated_s = (time_s / load.update_s).floor() * load.update_s;
        let gpu_pct = load.gpu_pct.mean(updated_s, load.update_s);
        let memory_pct = load.memory_pct.mean(updated_s, load.update_s);
        (!self.gpu.mig).then_some((gpu_pct, memory_pct))
    }

    /// Returns the memory in use by programs, in bytes, without the driver's reserve.
    #[must_use]
    pub fn used_bytes(&self, time_s: f64) -> f64 {
        self.gpu.memory.used_bytes.at(time_s)
    }

    /// Returns the clock of the multiprocessors, in MHz.
    #[must_use]
    pub fn sm_mhz(&self, time_s: f64) -> f64 {
        let setting = self.setting(time_s);
        if self.is_idle(time_s) && setting.locked_mhz.is_none() {
            f64::from(self.gpu.clocks.idle_sm_mhz)
        } else {
            setting.sm_mhz
        }
    }

    /// Returns the clock of the memory, in MHz.
    #[must_use]
    pub fn memory_mhz(&self) -> f64 {
        f64::from(self.gpu.clocks.memory_mhz.first().copied().unwrap_or(0))
    }

    /// Returns the power limit, in W.
    #[must_use]
    pub fn limit_w(&self, time_s: f64) -> f64 {
        self.setting(time_s).limit_w
    }

    /// Returns the lowest and highest locked clock, in MHz; none if the clocks are not locked.
    #[must_use]
    pub fn locked_mhz(&self, time_s: f64) -> Option<(u32, u32)> {
        self.setting(time_s).locked_mhz
    }

    /// Returns the performance state: 0 when busy, 8 when idle.
    #[must_use]
    pub fn performance_state(&self, time_s: f64) -> u32 {
        if self.is_idle(time_s) { 8 } else { 0 }
    }

    /// Returns the reasons for low clocks as NVML's bit mask.
    #[must_use]
    pub fn clock_reasons(&self, time_s: f64) -> u64 {
        if self.is_idle(time_s) {
            return REASON_IDLE;
        }
        let setting = self.setting(time_s);
        let hot = self.temperature_c(time_s) >= self.gpu.thermal.slowdown_c;
        let bits = [
            (setting.locked_mhz.is_some(), REASON_USER),
            (setting.is_capped, REASON_POWER),
            (hot, REASON_HEAT),
        ];
        bits.iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, bit)| bit)
            .sum()
    }

    fn is_idle(&self, time_s: f64) -> bool {
        self.gpu.utilisation.gpu_pct.at(time_s) <= 0.0
    }

    fn static_w(&self) -> f64 {
        self.gpu.clocks.static_w(&self.gpu.power)
    }

    /// Changes the clocks or the power limit from a time on.
    pub(super) fn control(&mut self, control: Control, time_s: f64) -> Result<(), Fault> {
        let last = self.newest();
        let limits = self.gpu.limits;
        let (locked_mhz, limit_w) = match control {
            Control::LockClocks(lowest, highest) if lowest > highest => {
                return Err(Fault::Code(INVALID_ARGUMENT));
            }
            Control::LockClocks(..) | Control::ResetClocks
                if self.gpu.architecture < Architecture::Volta =>
            {
                return Err(Fault::NotSupported);
            }
            Control::LockClocks(lowest, highest) => (Some((lowest, highest)), last.limit_w),
            Control::ResetClocks => (None, last.limit_w),
            Control::SetLimit(limit_w) if !(limits.min_w..=limits.max_w).contains(&limit_w) => {
                return Err(Fault::Code(INVALID_ARGUMENT));
            }
            Control::SetLimit(limit_w) => (last.locked_mhz, limit_w),
        };
        let since_s = time_s.max(last.since_s);
        let (clocks, power) = (&self.gpu.clocks, &self.gpu.power);
        self.settings
            .push(Setting::new(clocks, power, since_s, locked_mhz, limit_w));
        Ok(())
    }

    fn newest(&self) -> Setting {
        self.settings[self.settings.len() - 1]
    }

    /// Returns the setting in force at a time.
    fn setting(&self, time_s: f64) -> Setting {
        let found = self
            .settings
            .iter()
            .rev()
            .find(|setting| setting.since_s <= time_s);
        found.copied().unwrap_or(self.settings[0])
    }

    /// Sums `part(setting, from_s, to_s)` over the settings in force between two times. The sum
    /// changes its sign if `to_s` is before `from_s`.
    fn sum(&self, from_s: f64, to_s: f64, part: impl Fn(&Setting, f64, f64) -> f64) -> f64 {
        if to_s < from_s {
            return -self.sum(to_s, from_s, part);
        }
        // Each setting ends where the next one starts; the last one never ends.
        let ends_s = self.settings.iter().skip(1).map(|setting| setting.since_s);
        let parts = self.settings.iter().zip(ends_s.chain([f64::INFINITY]));
        let part = |(setting, end_s): (&Setting, f64)| {
            let (from_s, to_s) = (from_s.max(setting.since_s), to_s.min(end_s));
            if from_s < to_s {
                part(setting, from_s, to_s)
            } else {
                0.0
            }
        };
        parts.map(part).sum()
    }
}
