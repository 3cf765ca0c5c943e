//! Reported power over true power: gain and offset of a sensor, with bounds.
//!
//! Method: a sensor reports `gain · true + offset`. What is known of a sensor is a convex set of pairs of gain and
//! offset, given by its corners. The true energy of a window is linear in `1 / gain` and `offset / gain`, so its bounds
//! are at corners.
//! Source: for NVIDIA's cards, the comparison with an external meter by Yang, Adamek and Armour 2024, "Part-time power
//! measurements: nvidia-smi's lack of attention", figure of steady-state accuracy: 19 cards of the architectures Kepler
//! to Ada have offsets of −12.4 to +11.8 W, up to 6.8 % of the board's limit, and gains of 0.905 to 1.064; energies of
//! whole runs were −8 % to +13 % off. Boards whose rails the sensor does not see have been found to report up to 20 W
//! less than they draw at idle, and the right power under load.

use super::Interval;
use crate::{Device, Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The relation of a device's reported power to its true power: `reported = gain · true + offset`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use telemetry::{Calibration, Metered};
///
/// let lasts = Duration::from_secs(10);
/// // A meter measured 400 J at idle, of which the device reported 300 J, and 3000 J under load, reported as 3030 J.
/// let idle = Metered { reported_j: 300.0, true_j: 400.0, lasts };
/// let busy = Metered { reported_j: 3030.0, true_j: 3000.0, lasts };
/// let calibration = Calibration::from_meter(&[idle, busy])?;
/// assert!((calibration.gain - 1.05).abs() < 1e-9 && (calibration.offset_w + 12.0).abs() < 1e-9);
/// assert!(calibration.is_offset_known());
/// # Ok::<(), telemetry::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The gain of the estimate, reported over true.
    pub gain: f64,
    /// The offset of the estimate, in W: reported power at no true power.
    pub offset_w: f64,
    /// Gains and offsets, in W, between which the true pair lies.
    corners: [(f64, f64); 4],
}

/// Energies of one window, without a calibration and by a meter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metered {
    /// The energy that the device reported, in J: [`super::Energy::joules`] with [`Calibration::known`] of gain 1.
    pub reported_j: f64,
    /// The energy that the meter measured, in J.
    pub true_j: f64,
    /// The length of the window.
    pub lasts: Duration,
}

/// Bounds on the sensors of a group of cards.
struct Bounds {
    /// Reported over true power under full load.
    ratios: (f64, f64),
    /// The lowest and the highest offset, as shares of the board's limit, and in W at most.
    shares: (f64, f64),
    most_w: (f64, f64),
}

/// Architectures that were compared with a meter.
const COMPARED: [&str; 6] = ["Kepler", "Maxwell", "Pascal", "Turing", "Ampere", "Ada"];
/// Bounds on cards of these architectures. The comparison's range of offsets is widened below to the 20 W that other
/// boards were found to miss.
const KNOWN: Bounds = Bounds {
    ratios: (0.92, 1.13),
    shares: (-0.1, 0.07),
    most_w: (-20.0, 12.0),
};
/// Bounds on other cards, which nobody compared: half as far again for the ratio, and twice for the offset, since such
/// boards draw up to twice the power.
const UNKNOWN: Bounds = Bounds {
    ratios: (0.88, 1.2),
    shares: (-0.15, 0.1),
    most_w: (-40.0, 24.0),
};
/// Every board may have an offset of so much, in W: the accuracy that NVIDIA gave for its first sensors.
const LEAST_OFFSET_W: f64 = 5.0;
/// Full load of a card that reports no limit, in W: that of the smaller cards of the comparison. A lower one leaves more
/// room to the gain.
const FULL_LOAD_W: f64 = 200.0;
/// Powers of a meter's windows must differ by this share of the highest to tell a gain from an offset.
const MIN_SPREAD: f64 = 0.2;

impl Calibration {
    /// Returns the bounds on a device that was compared with no meter.
    ///
    /// For a GPU: the range of NVIDIA's cards that were compared with one (see the source of this type's module), and a
    /// wider one for architectures that were not. Under full load reported power is −8 % to +13 % off, at idle by up to
    /// 10 % of the board's limit or 20 W, so relative bounds are wide at idle. For RAPL: gain 1 and no offset, without
    /// bounds; see [`Self::of_kind`].
    #[must_use]
    pub fn of_device(device: &Device) -> Self {
        if device.kind == Kind::Rapl {
            return Self::known(1.0);
        }
        let architecture = device.architecture.as_deref().unwrap_or_default();
        let is_compared = COMPARED
            .iter()
            .any(|name| name.eq_ignore_ascii_case(architecture));
        let limits = device.limits;
        let full_w = limits
            .max_w
            .or(limits.default_w)
            .filter(|watts| *watts > 0.0);
        Self::within(if is_compared { &KNOWN } else { &UNKNOWN }, full_w)
    }

    /// Returns the bounds on a device of a kind of which nothing else is known.
    ///
    /// Of RAPL no tolerance is known that holds for all machines: comparisons found an offset that differs from machine to
    /// machine rather than a gain, and less of it where the regulator measures the current than where a model estimates it.
    /// Its gain is taken to be 1, so an interval of RAPL is about sampling only, and not about how true the counter is.
    ///
    /// # Source
    /// For RAPL, Desrochers, Paradis and Weaver 2016, "A Validation of DRAM RAPL Power Measurements", MEMSYS.
    #[must_use]
    pub fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Gpu => Self::within(&UNKNOWN, None),
            Kind::Rapl => Self::known(1.0),
        }
    }

    /// Returns the calibration of a device with a known gain and no offset.
    ///
    /// # Panics
    /// If the gain is not finite and above 0.
    #[must_use]
    pub fn known(gain: f64) -> Self {
        Self::linear(gain, 0.0)
    }

    /// Returns the calibration of a device with a known gain and a known offset, in W.
    ///
    /// # Panics
    /// If the gain is not finite and above 0, or the offset is not finite.
    #[must_use]
    pub fn linear(gain: f64, offset_w: f64) -> Self {
        assert!(
            gain > 0.0 && gain.is_finite() && offset_w.is_finite(),
            "a gain is finite and above 0, and an offset finite"
        );
        Self {
            gain,
            offset_w,
            corners: [(gain, offset_w); 4],
        }
    }

    /// Fits gain and offset to windows that a meter measured as well.
    ///
    /// Both are determined if the mean powers of the windows differ by a fifth of the highest or more: windows at idle
    /// and under load. Bounds are then as far apart as the windows deviate from the fitted line. Otherwise only the ratio
    /// at that power is: the bounds allow any offset of [`Self::of_kind`], so an interval is narrow at the power of the
    /// windows and wide far from it, and [`Self::is_offset_known`] returns false.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] if there is no window, an energy or a length is not finite and above 0, or reported
    /// power does not rise with true power.
    pub fn from_meter(windows: &[Metered]) -> Result<Self> {
        let invalid = |parameter, value, must| Error::ParameterInvalid {
            operation: "Calibration::from_meter",
            parameter,
            value,
            must,
        };
        if windows.is_empty() {
            return Err(invalid("windows", 0.0, "at least 1"));
        }
        let (mut seconds, mut x, mut y) = (0.0, 0.0, 0.0);
        for window in windows {
            let values = [window.reported_j, window.true_j, window.lasts.as_secs_f64()];
            let is_bad = |value: &&f64| !(value.is_finite() && **value > 0.0);
            if let Some(&value) = values.iter().find(is_bad) {
                return Err(invalid("energy or length", value, "finite and above 0"));
            }
            seconds += values[2];
            x += window.true_j;
            y += window.reported_j;
        }
        let (mean_w, reported_w) = (x / seconds, y / seconds);
        let powers = |window: &Metered| {
            let lasts_s = window.lasts.as_secs_f64();
            (window.true_j / lasts_s, window.reported_j / lasts_s)
        };
        let (mut low_w, mut high_w, mut xx, mut xy) = (f64::INFINITY, 0.0_f64, 0.0, 0.0);
        for window in windows {
            let ((true_w, told_w), lasts_s) = (powers(window), window.lasts.as_secs_f64());
            (low_w, high_w) = (low_w.min(true_w), high_w.max(true_w));
            xx += lasts_s * (true_w - mean_w).powi(2);
            xy += lasts_s * (true_w - mean_w) * (told_w - reported_w);
        }
        if high_w - low_w < MIN_SPREAD * high_w {
            let through = |offset_w: f64| ((reported_w - offset_w) / mean_w, offset_w);
            let (low, high) = (through(UNKNOWN.most_w.0), through(UNKNOWN.most_w.1));
            // An offset that is all of the reported power leaves no gain.
            let high = if high.0 > 0.0 { high } else { through(0.0) };
            return Ok(Self {
                corners: [low, low, high, high],
                ..Self::known(reported_w / mean_w)
            });
        }
        let gain = xy / xx;
        if !(gain.is_finite() && gain > 0.0) {
            return Err(invalid("gain", gain, "finite and above 0"));
        }
        let offset_w = reported_w - gain * mean_w;
        let deviation = |window| {
            let (true_w, told_w) = powers(window);
            (told_w - gain * true_w - offset_w).abs()
        };
        let off_w = windows.iter().map(deviation).fold(0.0, f64::max);
        let (low, high) = ((gain, offset_w - off_w), (gain, offset_w + off_w));
        Ok(Self {
            gain,
            offset_w,
            corners: [low, low, high, high],
        })
    }

    /// Returns whether the offset is known apart from the gain.
    #[must_use]
    pub fn is_offset_known(&self) -> bool {
        self.corners.iter().all(|corner| corner.0 == self.gain)
    }

    /// Returns the least and the greatest gain.
    #[must_use]
    pub fn gains(&self) -> (f64, f64) {
        range(self.corners.map(|corner| corner.0))
    }

    /// Returns the lowest and the highest offset, in W.
    #[must_use]
    pub fn offsets_w(&self) -> (f64, f64) {
        range(self.corners.map(|corner| corner.1))
    }

    /// Returns the estimate of the true energy of a window of some seconds, in J.
    pub(super) fn joules(&self, reported_j: f64, lasts_s: f64) -> f64 {
        ((reported_j - self.offset_w * lasts_s) / self.gain).max(0.0)
    }

    /// Returns the bounds on the true energy of a window of some seconds, from bounds on the reported energy, in J.
    pub(crate) fn interval(&self, (low_j, high_j): (f64, f64), lasts_s: f64) -> Interval {
        let least = |(gain, offset_w): (f64, f64)| (low_j - offset_w * lasts_s) / gain;
        let most = |(gain, offset_w): (f64, f64)| (high_j - offset_w * lasts_s) / gain;
        Interval {
            low_j: range(self.corners.map(least)).0.max(0.0),
            high_j: range(self.corners.map(most)).1.max(0.0),
        }
    }

    /// Returns the same calibration without its bounds.
    pub(super) fn estimate(&self) -> Self {
        Self {
            corners: [(self.gain, self.offset_w); 4],
            ..*self
        }
    }

    fn within(bounds: &Bounds, full_w: Option<f64>) -> Self {
        let load_w = full_w.unwrap_or(FULL_LOAD_W);
        let share_w = |share: f64| full_w.map_or(f64::INFINITY, |full_w| share.abs() * full_w);
        let low_w = -share_w(bounds.shares.0)
            .max(LEAST_OFFSET_W)
            .min(-bounds.most_w.0);
        let high_w = share_w(bounds.shares.1)
            .max(LEAST_OFFSET_W)
            .min(bounds.most_w.1);
        let (least, most) = bounds.ratios;
        // The ratio is that under full load, whatever the offset.
        let corner = |ratio: f64, offset_w: f64| (ratio - offset_w / load_w, offset_w);
        Self {
            gain: 1.0,
            offset_w: 0.0,
            corners: [
                corner(least, low_w),
                corner(least, high_w),
                corner(most, low_w),
                corner(most, high_w),
            ],
        }
    }
}

/// Returns the least and the greatest of some numbers.
fn range(numbers: [f64; 4]) -> (f64, f64) {
    let least = numbers.into_iter().fold(f64::INFINITY, f64::min);
    (least, numbers.into_iter().fold(f64::NEG_INFINITY, f64::max))
}
