//! Reasons why a GPU's clocks are below their maximum: the bits of [`Metric::ClockReasons`].
//!
//! Source: `nvmlClocksEventReasons` in NVML's header `nvml.h`, API 13 (before:
//! `nvmlClocksThrottleReasons`).

#[cfg(doc)]
use crate::Metric;

/// A reason for reduced clocks, stored as one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Bit of the reason within the metric's value.
    pub bit: u64,
    /// Short name, such as `sw-power-cap`.
    pub name: &'static str,
    /// Whether the reason is throttling of a busy GPU, by power or temperature, rather than
    /// idleness or a user's setting.
    pub is_throttle: bool,
}

/// The GPU is idle: clocks are low because nothing runs.
pub const GPU_IDLE: u64 = 0x1;
/// Clocks were set by the user (application clocks).
pub const APPLICATIONS_CLOCKS_SETTING: u64 = 0x2;
/// The software power limit reduces the clocks.
pub const SW_POWER_CAP: u64 = 0x4;
/// The hardware reduces the clocks because of power or temperature.
pub const HW_SLOWDOWN: u64 = 0x8;
/// Clocks are synchronised among the GPUs of a group.
pub const SYNC_BOOST: u64 = 0x10;
/// The driver reduces the clocks because of temperature.
pub const SW_THERMAL_SLOWDOWN: u64 = 0x20;
/// The hardware reduces the clocks because of temperature.
pub const HW_THERMAL_SLOWDOWN: u64 = 0x40;
/// An external signal of the power supply reduces the clocks.
pub const HW_POWER_BRAKE_SLOWDOWN: u64 = 0x80;
/// Clocks were set by the display's configuration.
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

/// Returns the reasons in a value of [`Metric::ClockReasons`], in the order of their bits.
///
/// Bits without a known reason are ignored. NaN and negative values contain no reasons.
pub fn decode(value: f64) -> impl Iterator<Item = Reason> {
    // The cast turns negative values and NaN into 0. All known bits are far below 2^53, so f64
    // represents them exactly.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturation is intended"
    )]
    let bits = value as u64;
    ALL.into_iter().filter(move |reason| bits & reason.bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_names() {
        let names = |value| decode(value).map(|reason| reason.name).collect::<Vec<_>>();
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
