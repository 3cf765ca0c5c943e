//! Reasons for which a GPU's clocks are lower than they could be: the bits of [`Metric::ClockReasons`].
//!
//! Source: `nvmlClocksEventReasons` in NVML's header `nvml.h`, API 13 (before: `nvmlClocksThrottleReasons`).

#[cfg(doc)]
use crate::Metric;

/// A reason, one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Its bit.
    pub bit: u64,
    /// Its name, short: `sw-power-cap`.
    pub name: &'static str,
    /// Whether it holds back a GPU that has work: power, temperature or the like, and no choice of the user's.
    pub is_throttle: bool,
}

/// Nothing to do: clocks are low because nothing runs.
pub const GPU_IDLE: u64 = 0x1;
/// Clocks were set by the user (application clocks).
pub const APPLICATIONS_CLOCKS_SETTING: u64 = 0x2;
/// The software power limit.
pub const SW_POWER_CAP: u64 = 0x4;
/// The hardware slows down, for power or temperature.
pub const HW_SLOWDOWN: u64 = 0x8;
/// Clocks are kept equal among the GPUs of a group.
pub const SYNC_BOOST: u64 = 0x10;
/// Temperature, by software.
pub const SW_THERMAL_SLOWDOWN: u64 = 0x20;
/// Temperature, by hardware.
pub const HW_THERMAL_SLOWDOWN: u64 = 0x40;
/// The power supply asks for it.
pub const HW_POWER_BRAKE_SLOWDOWN: u64 = 0x80;
/// Clocks were set for a display.
pub const DISPLAY_CLOCK_SETTING: u64 = 0x100;

/// All reasons, in the order of their bits.
pub const ALL: [Reason; 9] = [
    reason(GPU_IDLE, "gpu-idle", false),
    reason(
        APPLICATIONS_CLOCKS_SETTING,
        "applications-clocks-setting",
        false,
    ),
    reason(SW_POWER_CAP, "sw-power-cap", true),
    reason(HW_SLOWDOWN, "hw-slowdown", true),
    reason(SYNC_BOOST, "sync-boost", false),
    reason(SW_THERMAL_SLOWDOWN, "sw-thermal-slowdown", true),
    reason(HW_THERMAL_SLOWDOWN, "hw-thermal-slowdown", true),
    reason(HW_POWER_BRAKE_SLOWDOWN, "hw-power-brake-slowdown", true),
    reason(DISPLAY_CLOCK_SETTING, "display-clock-setting", false),
];

const fn reason(bit: u64, name: &'static str, is_throttle: bool) -> Reason {
    Reason {
        bit,
        name,
        is_throttle,
    }
}

/// Gives the reasons of a value of [`Metric::ClockReasons`]; bits without a name are left out.
pub fn of(value: f64) -> impl Iterator<Item = Reason> {
    // Negative and NaN become 0; the bits that have names are far below 2^53.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, as wanted"
    )]
    let bits = value as u64;
    ALL.into_iter().filter(move |reason| bits & reason.bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_names() {
        let names = |value| of(value).map(|reason| reason.name).collect::<Vec<_>>();
        assert_eq!(
            names(f64::from(0x44)),
            ["sw-power-cap", "hw-thermal-slowdown"]
        );
        assert!(names(f64::NAN).is_empty() && names(-1.0).is_empty() && names(0.0).is_empty());
    }

    #[test]
    fn each_reason_is_the_next_bit() {
        for (i, reason) in ALL.into_iter().enumerate() {
            assert_eq!(reason.bit, 1 << i);
        }
    }
}
