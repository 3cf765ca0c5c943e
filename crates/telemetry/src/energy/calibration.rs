//! Reported power over true power: gain and offset of a sensor, with bounds.
//!
//! Method: a sensor reports `gain · true + offset`. What is known of a sensor is a convex set of
//! pairs of gain and offset, given by its corners. The true energy of a window is linear in `1 /
//! gain` and `offset / gain`, so its bounds are at corners.
//! Source: for NVIDIA's cards, the comparison with an external meter by Yang, Adamek and Armour
//! 2024, "Part-time power measurements: nvidia-smi's lack of attention", figure of steady-state
//! accuracy: 19 cards of the architectures Kepler to Ada have offsets of −12.4 to +11.8 W and gains
//! of 0.905 to 1.064; energies of whole runs were −8 % to +13 % off. Boards whose rails the sensor
//! does not see have been found to report up to 20 W less than they draw at idle, and the right
//! power under load.

use super::{Energy, Interval};
use crate::{Device, Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The relation of a device's reported power to its true power: `reported = gain · true + offset`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use telemetry::{Calibration, Interval, Metered};
///
/// // The device reported 300 ± 2 J at idle and 3030 ± 5 J under load.
/// let window = |reported_j: f64, off_j: f64, true_j: f64| Metered {
///     reported_j,
///     sampling: Interval { low_j: reported_j - off_j, high_j: reported_j + off_j },
///     true_j,
///     lasts: Duration::from_secs(10),
/// };
/// // A meter measured 400 J and 3000 J.
/// let windows = [window(300.0, 2.0, 400.0), window(3030.0, 5.0, 3000.0)];
/// let calibration = Calibration::from_meter(&windows)?;
/// assert!((calibration.gain - 1.05).abs() < 1e-9 && (calibration.offset_w + 12.0).abs() < 1e-9);
/// let (low_w, high_w) = calibration.offsets_w();
/// assert!(-12.5 < low_w && low_w < -12.2 && -11.8 < high_w && high_w < -11.5);
/// # Ok::<(), telemetry::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Calibration {
    /// The gain of the estimate, reported over true.
    pub gain: f64,
    /// The offset of the estimate, in W: reported power at no true power.
    pub offset_w: f64,
    /// Gains and offsets, in W, between which the true pair lies.
    corners: [(f64, f64); 4],
}

/// The fields of a [`Calibration`], as a file has them.
#[derive(Deserialize)]
struct Unchecked {
    gain: f64,
    offset_w: f64,
    corners: [(f64, f64); 4],
}

impl TryFrom<Unchecked> for Calibration {
    type Error = Error;

    fn try_from(fields: Unchecked) -> Result<Self> {
        let Unchecked {
            gain,
            offset_w,
            corners,
        } = fields;
        let calibration = Self {
            gain,
            offset_w,
            corners,
        };
        calibration.checked("Calibration::deserialize")
    }
}

/// The energy of one window, as a device reported and a meter measured it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metered {
    /// The reported energy, in J: [`Energy::joules`] with [`Calibration::known`] of gain 1.
    pub reported_j: f64,
    /// Bounds on the reported energy: [`Energy::sampling`] of the same energy.
    pub sampling: Interval,
    /// The energy that the meter measured, in J.
    pub true_j: f64,
    /// The length of the window.
    pub lasts: Duration,
}

impl Metered {
    /// Returns the window of an energy that was found with [`Calibration::known`] of gain 1, with
    /// the energy that a meter measured in that window, in J.
    #[must_use]
    pub fn from_energy(energy: &Energy, true_j: f64) -> Self {
        Self {
            reported_j: energy.joules,
            sampling: energy.sampling,
            true_j,
            lasts: energy.window.end.saturating_sub(energy.window.start),
        }
    }
}

/// A window of a meter as powers, in W.
#[derive(Clone, Copy, Debug)]
struct Point {
    lasts_s: f64,
    true_w: f64,
    reported_w: f64,
    /// Errors of the reported power: by how much it may be too high, and too low.
    errors_w: (f64, f64),
}

/// Bounds on the sensors of a group of cards.
struct Bounds {
    /// Reported over true power under full load.
    ratios: (f64, f64),
    /// The lowest and the highest offset, in W.
    offsets_w: (f64, f64),
}

/// Architectures that were compared with a meter.
const COMPARED: [&str; 6] = ["Kepler", "Maxwell", "Pascal", "Turing", "Ampere", "Ada"];
/// Bounds on cards of these architectures: intervals that contain 95 % of all cards with a
/// confidence of 95 %, if cards are normally distributed (mean ± 2.784 standard deviations of the
/// comparison's 19 cards: ratios of 0.899 to 1.080, offsets of −17.2 to 15.5 W), widened to the
/// comparison's energies of whole runs and to the 20 W that other boards miss.
const KNOWN: Bounds = Bounds {
    ratios: (0.89, 1.13),
    offsets_w: (-20.0, 16.0),
};
/// Bounds on other cards, for which there is no comparison: 1.5 times as far from 1 for the ratio,
/// and twice the offsets, because such boards draw up to twice the power.
const UNKNOWN: Bounds = Bounds {
    ratios: (0.83, 1.2),
    offsets_w: (-40.0, 32.0),
};
/// The lowest power limit of the compared cards, in W. Offsets of cards with a lower limit are
/// smaller in proportion.
const LEAST_COMPARED_W: f64 = 175.0;
/// The least bound on an offset, in W: the accuracy that NVIDIA stated for its first sensors.
const LEAST_OFFSET_W: f64 = 5.0;
/// The largest offset, as a share of the power under full load. It leaves a gain above 0 to cards
/// of a few watts.
const MAX_OFFSET_SHARE: f64 = 0.5;
/// Full load of a card that reports no limit, in W: that of the smaller cards of the comparison. A
/// lower one leaves more room to the gain.
const FULL_LOAD_W: f64 = 200.0;
/// The least difference of the true powers of a meter's windows that determines gain and offset, as
/// a share of the highest.
const MIN_SPREAD: f64 = 0.2;

impl Calibration {
    /// Returns the bounds on a device without a comparison of its own with a meter.
    ///
    /// For a GPU: bounds from NVIDIA's cards that were compared with a meter (see the source of
    /// this type's module), and wider ones for other architectures. Under full load reported power
    /// is −11 % to +13 % off, at idle by up to 20 W, so relative bounds are wide at idle. Offsets
    /// of cards with a limit below 175 W are smaller in proportion. For RAPL: gain 1 and no offset,
    /// without bounds; see [`Self::of_kind`].
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
            .filter(|watts| *watts > 0.0 && watts.is_finite());
        Self::within(if is_compared { &KNOWN } else { &UNKNOWN }, full_w)
    }

    /// Returns the bounds on any device of a kind.
    ///
    /// Of RAPL no tolerance is known that holds for all machines: comparisons found an offset that
    /// differs from machine to machine rather than a gain, and less of it where the regulator
    /// measures the current than where a model estimates it. Its gain is taken to be 1, so an
    /// interval of RAPL is about sampling only, and not about the accuracy of the counter.
    ///
    /// # Source
    /// For RAPL, Desrochers, Paradis and Weaver 2016, "A Validation of DRAM RAPL Power
    /// Measurements", MEMSYS.
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
    /// Both are determined if the true powers of the windows differ by a fifth of the highest or
    /// more: windows at idle and under load. The bounds are all lines within the sampling intervals
    /// of the windows and their largest deviation from the fitted line, at the lowest and at the
    /// highest power. Otherwise only the ratio at that power is determined: the bounds allow any
    /// offset of [`Self::of_kind`], so an interval is narrow at the power of the windows and wide
    /// far from it.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] if there is no window, an energy or a length is not finite and
    /// above 0, a reported energy lies outside its sampling interval, or reported power may not
    /// rise with true power: it does not, or the sampling intervals are too wide to show it.
    pub fn from_meter(windows: &[Metered]) -> Result<Self> {
        let points: Vec<Point> = windows.iter().map(Point::new).collect::<Result<_>>()?;
        if points.is_empty() {
            return Err(invalid(FROM_METER, "windows", 0.0, "at least 1"));
        }
        let low_w = points
            .iter()
            .map(|p| p.true_w)
            .fold(f64::INFINITY, f64::min);
        let high_w = points.iter().map(|p| p.true_w).fold(0.0, f64::max);
        let fitted = if high_w - low_w < MIN_SPREAD * high_w {
            Self::through_one_power(&points)
        } else {
            Self::through_two_powers(&points, low_w, high_w)
        };
        fitted.checked(FROM_METER)
    }

    /// Returns the ratio at the power of all points, with the bounds on any offset.
    fn through_one_power(points: &[Point]) -> Self {
        let (true_w, reported_w) = means(points);
        let gain = reported_w / true_w;
        let off_w = largest_deviation(points, gain, 0.0);
        let errors_w = errors_of_sum(points, |point| point.lasts_s / seconds(points));
        let bounds = [-errors_w.0 - off_w, errors_w.1 + off_w].map(|off_w| reported_w + off_w);
        let (least_w, most_w) = UNKNOWN.offsets_w;
        let most_w = most_w.min(MAX_OFFSET_SHARE * bounds[0]);
        let corner = |bound_w: f64, offset_w: f64| ((bound_w - offset_w) / true_w, offset_w);
        Self {
            gain,
            offset_w: 0.0,
            corners: [
                corner(bounds[0], least_w),
                corner(bounds[0], most_w),
                corner(bounds[1], least_w),
                corner(bounds[1], most_w),
            ],
        }
    }

    /// Returns the line of least squares through points, with the lines between the bounds at the
    /// lowest and at the highest true power.
    fn through_two_powers(points: &[Point], low_w: f64, high_w: f64) -> Self {
        let (mean_w, reported_w) = means(points);
        let squares = |p: &Point| p.lasts_s * (p.true_w - mean_w).powi(2);
        let products = |p: &Point| p.lasts_s * (p.true_w - mean_w) * (p.reported_w - reported_w);
        let spread: f64 = points.iter().map(squares).sum();
        let gain = points.iter().map(products).sum::<f64>() / spread;
        let offset_w = reported_w - gain * mean_w;
        let off_w = largest_deviation(points, gain, offset_w);
        // The line at a power is a sum of the reported powers, each with this weight.
        let bounds = |at_w: f64| {
            let errors_w = errors_of_sum(points, |p| {
                let slope = (p.true_w - mean_w) * (at_w - mean_w) / spread;
                p.lasts_s * (1.0 / seconds(points) + slope)
            });
            let fitted_w = gain * at_w + offset_w;
            (fitted_w - errors_w.0 - off_w, fitted_w + errors_w.1 + off_w)
        };
        let (low, high) = (bounds(low_w), bounds(high_w));
        let corner = |at_low_w: f64, at_high_w: f64| {
            let gain = (at_high_w - at_low_w) / (high_w - low_w);
            (gain, at_low_w - gain * low_w)
        };
        Self {
            gain,
            offset_w,
            corners: [
                corner(low.0, high.0),
                corner(low.0, high.1),
                corner(low.1, high.0),
                corner(low.1, high.1),
            ],
        }
    }

    /// Returns the calibration if its gains are finite and above 0, its offsets finite, and its
    /// estimate within its bounds; a typed error otherwise.
    fn checked(self, operation: &'static str) -> Result<Self> {
        let pairs = self.corners.into_iter().chain([(self.gain, self.offset_w)]);
        for (gain, offset_w) in pairs {
            if !(gain > 0.0 && gain.is_finite()) {
                let must = "finite and above 0 within the bounds";
                return Err(invalid(operation, "gain", gain, must));
            }
            if !offset_w.is_finite() {
                return Err(invalid(operation, "offset", offset_w, "finite"));
            }
        }
        let is_within = |value: f64, (low, high): (f64, f64)| {
            let rounding = ROUNDING * (1.0 + high.abs().max(low.abs()));
            (low - rounding..=high + rounding).contains(&value)
        };
        if !is_within(self.gain, self.gains()) {
            return Err(invalid(operation, "gain", self.gain, "within its bounds"));
        }
        if !is_within(self.offset_w, self.offsets_w()) {
            let must = "within its bounds";
            return Err(invalid(operation, "offset", self.offset_w, must));
        }
        if !self.is_within_corners() {
            let must = "within its bounds at the gain";
            return Err(invalid(operation, "offset", self.offset_w, must));
        }
        Ok(self)
    }

    /// Whether the estimate lies in the convex hull of the corners: on no line through two corners
    /// that has all corners on one side is the estimate on the other side.
    fn is_within_corners(&self) -> bool {
        let size = 1.0 + range(self.corners.map(|corner| corner.1.abs())).1;
        let side = |a: (f64, f64), b: (f64, f64), p: (f64, f64)| {
            (b.0 - a.0) * (p.1 - a.1) - (b.1 - a.1) * (p.0 - a.0)
        };
        let is_beyond = |a: (f64, f64), b: (f64, f64)| {
            let is_edge = self
                .corners
                .iter()
                .all(|&c| side(a, b, c) >= -ROUNDING * size);
            is_edge && side(a, b, (self.gain, self.offset_w)) < -ROUNDING * size
        };
        let mut pairs = self
            .corners
            .iter()
            .flat_map(|&a| self.corners.map(|b| (a, b)));
        !pairs.any(|(a, b)| is_beyond(a, b))
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

    /// Returns the bounds on the true energy of a window of some seconds, from bounds on the
    /// reported energy, in J.
    pub(crate) fn interval(&self, (low_j, high_j): (f64, f64), lasts_s: f64) -> Interval {
        let least = |(gain, offset_w): (f64, f64)| (low_j - offset_w * lasts_s) / gain;
        let most = |(gain, offset_w): (f64, f64)| (high_j - offset_w * lasts_s) / gain;
        Interval {
            low_j: range(self.corners.map(least)).0.max(0.0),
            high_j: range(self.corners.map(most)).1.max(0.0),
        }
    }

    /// Returns the calibration of the same gain and offset, without bounds on their errors.
    pub(super) fn estimate(&self) -> Self {
        Self {
            corners: [(self.gain, self.offset_w); 4],
            ..*self
        }
    }

    /// Returns the bounds on a card of a group with a power limit, in W, if it is known.
    fn within(bounds: &Bounds, full_w: Option<f64>) -> Self {
        let load_w = full_w.unwrap_or(FULL_LOAD_W);
        let scale = (load_w / LEAST_COMPARED_W).min(1.0);
        let scaled_w = |offset_w: f64| {
            let most_w = MAX_OFFSET_SHARE * load_w;
            (scale * offset_w.abs()).max(LEAST_OFFSET_W).min(most_w)
        };
        let (low_w, high_w) = (-scaled_w(bounds.offsets_w.0), scaled_w(bounds.offsets_w.1));
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

impl Point {
    /// Returns the powers of a window; a typed error if a field is outside its range.
    fn new(window: &Metered) -> Result<Self> {
        let lasts_s = window.lasts.as_secs_f64();
        let Interval { low_j, high_j } = window.sampling;
        for value in [window.reported_j, window.true_j, lasts_s] {
            if !(value.is_finite() && value > 0.0) {
                let must = "finite and above 0";
                return Err(invalid(FROM_METER, "energy or length", value, must));
            }
        }
        if !(low_j..=high_j).contains(&window.reported_j) || !(high_j - low_j).is_finite() {
            let must = "within its sampling interval, which has finite ends";
            let value = window.reported_j;
            return Err(invalid(FROM_METER, "reported_j", value, must));
        }
        let errors_j = (window.reported_j - low_j, high_j - window.reported_j);
        Ok(Self {
            lasts_s,
            true_w: window.true_j / lasts_s,
            reported_w: window.reported_j / lasts_s,
            errors_w: (errors_j.0 / lasts_s, errors_j.1 / lasts_s),
        })
    }
}

/// The name of [`Calibration::from_meter`] in errors.
const FROM_METER: &str = "Calibration::from_meter";
/// Error of the arithmetic of a fit, as a share of its numbers.
const ROUNDING: f64 = 1e-9;

fn invalid(
    operation: &'static str,
    parameter: &'static str,
    value: f64,
    must: &'static str,
) -> Error {
    Error::ParameterInvalid {
        operation,
        parameter,
        value,
        must,
    }
}

/// Returns the length of all windows, in s.
fn seconds(points: &[Point]) -> f64 {
    points.iter().map(|point| point.lasts_s).sum()
}

/// Returns the mean true power and the mean reported power over the time of all windows, in W.
fn means(points: &[Point]) -> (f64, f64) {
    let mean = |watts: &dyn Fn(&Point) -> f64| {
        points.iter().map(|p| p.lasts_s * watts(p)).sum::<f64>() / seconds(points)
    };
    (mean(&|p| p.true_w), mean(&|p| p.reported_w))
}

/// Returns the largest difference of a reported power to a line, in W.
fn largest_deviation(points: &[Point], gain: f64, offset_w: f64) -> f64 {
    let deviation = |p: &Point| (p.reported_w - gain * p.true_w - offset_w).abs();
    points.iter().map(deviation).fold(0.0, f64::max)
}

/// Returns by how much a weighted sum of the reported powers may be too high, and too low, in W.
fn errors_of_sum(points: &[Point], weight: impl Fn(&Point) -> f64) -> (f64, f64) {
    let error = |point: &Point| {
        let (weight, (high_w, low_w)) = (weight(point), point.errors_w);
        if weight > 0.0 {
            (weight * high_w, weight * low_w)
        } else {
            (-weight * low_w, -weight * high_w)
        }
    };
    points
        .iter()
        .map(error)
        .fold((0.0, 0.0), |sum, error| (sum.0 + error.0, sum.1 + error.1))
}

/// Returns the least and the greatest of some numbers.
fn range(numbers: [f64; 4]) -> (f64, f64) {
    let least = numbers.into_iter().fold(f64::INFINITY, f64::min);
    (least, numbers.into_iter().fold(f64::NEG_INFINITY, f64::max))
}
