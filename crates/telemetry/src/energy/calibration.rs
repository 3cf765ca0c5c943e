//! Gain and offset of a power sensor, with bounds.
//!
//! Role: converts reported energy into true energy, and fits gain and offset to an external meter.
//! Method: a sensor reports `gain · true + offset`. A calibration is an estimate of gain and offset
//! and a convex set of pairs (gain, offset) that contains the true pair:
//! ```text
//! offset
//!   |   c1 ------- c3
//!   |    \     +     \        + estimate, c0 to c3 corners
//!   |     c0 ------- c2
//!   +------------------- gain
//! ```
//! The set is stored as its corners. The true energy of a window is `(reported − offset · time) /
//! gain`. For gains above 0, this function is monotonic along every straight line in the plane, so
//! its lowest and highest values are at corners.
//! Source: for NVIDIA's cards, the comparison with an external meter by Yang, Adamek and Armour
//! 2024, "Part-time power measurements: nvidia-smi's lack of attention", figure of steady-state
//! accuracy. Its 19 cards of the architectures Kepler to Ada have offsets of −12.4 W to +11.8 W and
//! gains of 0.905 to 1.064. The reported energies of whole runs were −8 % to +13 % off. Boards with
//! power rails that the sensor does not measure have been found to report up to 20 W too little at
//! idle, and the correct power under load.

use super::{Energy, Interval};
use crate::{Device, Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The relation of a device's reported power to its true power: `reported = gain · true + offset`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use telemetry::{Calibration, Interval, MeteredWindow};
///
/// // The device reported 300 ± 2 J at idle and 3030 ± 5 J under load.
/// let window = |reported_j: f64, off_j: f64, true_j: f64| MeteredWindow {
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
    /// Estimate of the gain: the increase of reported power per increase of true power.
    pub gain: f64,
    /// Estimate of the offset, in W: the reported power at a true power of 0 W.
    pub offset_w: f64,
    /// Pairs of gain and offset, in W, whose convex hull contains the true pair.
    corners: [(f64, f64); 4],
}

/// The fields of a deserialized [`Calibration`] before they are validated.
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

/// The reported energy of one window, with the energy that an external meter measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeteredWindow {
    /// The reported energy, in J: [`Energy::joules`] with the calibration
    /// `Calibration::known(1.0)`.
    pub reported_j: f64,
    /// Bounds on the reported energy, in J: [`Energy::sampling`] with the same calibration.
    pub sampling: Interval,
    /// The energy that the meter measured, in J.
    pub true_j: f64,
    /// The length of the window.
    pub lasts: Duration,
}

impl MeteredWindow {
    /// Creates a metered window from a reported energy, which must be computed with
    /// `Calibration::known(1.0)`, and the energy that a meter measured in the same window, in J.
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

/// The mean powers of a metered window.
#[derive(Clone, Copy, Debug)]
struct MeanPowers {
    lasts_s: f64,
    true_w: f64,
    reported_w: f64,
    /// Bounds on the errors of the reported power, in W: (too high by, too low by).
    errors_w: (f64, f64),
}

/// Bounds on the gain and offset of the sensors of a group of cards.
struct Bounds {
    /// Lowest and highest ratio of reported to true power under full load.
    ratios: (f64, f64),
    /// Lowest and highest offset, in W.
    offsets_w: (f64, f64),
}

/// Architectures of the cards in the comparison with a meter.
const COMPARED: [&str; 6] = ["Kepler", "Maxwell", "Pascal", "Turing", "Ampere", "Ada"];
/// Bounds on cards of the compared architectures.
///
/// The bounds are tolerance intervals that contain 95 % of all cards with a confidence of 95 %, if
/// cards are normally distributed: mean ± 2.784 standard deviations of the 19 cards, which are
/// ratios of 0.899 to 1.080 and offsets of −17.2 W to 15.5 W. They are widened to include the
/// errors of the comparison's energies of whole runs, and the 20 W that other boards do not report
/// at idle.
const KNOWN: Bounds = Bounds {
    ratios: (0.89, 1.13),
    offsets_w: (-20.0, 16.0),
};
/// Bounds on cards of other architectures, which were not compared: ratios about 1.5 times as far
/// from 1 as those of [`KNOWN`], and twice the offsets, because such boards draw up to twice the
/// power.
const UNKNOWN: Bounds = Bounds {
    ratios: (0.83, 1.2),
    offsets_w: (-40.0, 32.0),
};
/// Lowest power limit of the compared cards, in W. The offset bounds of cards with a lower limit
/// are reduced in proportion to the limit.
const LEAST_COMPARED_W: f64 = 175.0;
/// Smallest bound on an offset, in W: the accuracy that NVIDIA stated for its first sensors.
const LEAST_OFFSET_W: f64 = 5.0;
/// Largest bound on an offset, as a share of the power under full load. It keeps the gains above 0
/// for cards of a few watts.
const MAX_OFFSET_SHARE: f64 = 0.5;
/// Assumed full load of a card that reports no limit, in W: the limit of the smaller cards of the
/// comparison. A low value is the cautious choice, because it widens the bounds on the gain.
const FULL_LOAD_W: f64 = 200.0;
/// Smallest spread of the true powers of metered windows, as a share of the highest power, that
/// determines both gain and offset.
const MIN_SPREAD: f64 = 0.2;

impl Calibration {
    /// Returns the default calibration of a device, with bounds but without a measurement of this
    /// device.
    ///
    /// The estimate is gain 1 and offset 0 W. The bounds for a GPU come from NVIDIA cards that were
    /// compared with a meter (Yang, Adamek and Armour 2024, "Part-time power measurements:
    /// nvidia-smi's lack of attention"). They are wider for architectures that were not compared.
    /// For compared architectures, reported power is off by −11 % to +13 % under full load and by
    /// up to 20 W at idle, so relative bounds are wide at idle. The offset bounds of cards with a
    /// limit below 175 W are reduced in proportion. RAPL has no bounds; see [`Self::for_kind`].
    #[must_use]
    pub fn for_device(device: &Device) -> Self {
        if device.kind == Kind::Rapl {
            return Self::known(1.0);
        }
        let architecture = device.architecture.as_deref().unwrap_or_default();
        let is_compared = COMPARED
            .iter()
            .any(|name| name.eq_ignore_ascii_case(architecture));
        let limits = device.limits;
        let is_power = |watts: &f64| *watts > 0.0 && watts.is_finite();
        let default_w = limits.default_w.filter(is_power);
        let full_w = limits.max_w.filter(is_power).or(default_w);
        Self::within(if is_compared { &KNOWN } else { &UNKNOWN }, full_w)
    }

    /// Returns the default calibration of any device of a kind.
    ///
    /// For a GPU, the bounds are those of an architecture that was not compared.
    ///
    /// For RAPL no tolerance is known that holds for all machines. Comparisons found an offset that
    /// differs from machine to machine, rather than a gain error. The offset is smaller if the
    /// voltage regulator measures the current than if a model estimates the current. The
    /// calibration of RAPL is therefore gain 1 and offset 0 W without bounds, so an interval of
    /// RAPL only contains the error of sampling and not the error of the counter.
    ///
    /// # Source
    /// For RAPL, Desrochers, Paradis and Weaver 2016, "A Validation of DRAM RAPL Power
    /// Measurements", MEMSYS.
    #[must_use]
    pub fn for_kind(kind: Kind) -> Self {
        match kind {
            Kind::Gpu => Self::within(&UNKNOWN, None),
            Kind::Rapl => Self::known(1.0),
        }
    }

    /// Creates the calibration of a device with a known gain and no offset, without error bounds.
    ///
    /// # Panics
    /// Panics if the gain is not finite or not above 0.
    #[must_use]
    pub fn known(gain: f64) -> Self {
        Self::linear(gain, 0.0)
    }

    /// Creates the calibration of a device with a known gain and a known offset, in W, without
    /// error bounds.
    ///
    /// # Panics
    /// Panics if the gain is not finite or not above 0, or if the offset is not finite.
    #[must_use]
    pub fn linear(gain: f64, offset_w: f64) -> Self {
        assert!(
            gain > 0.0 && gain.is_finite() && offset_w.is_finite(),
            "calibration: invalid gain {gain} or offset {offset_w} W (both must be finite, the gain \
             above 0)"
        );
        Self {
            gain,
            offset_w,
            corners: [(gain, offset_w); 4],
        }
    }

    /// Fits gain and offset to windows that an external meter measured as well.
    ///
    /// If the true powers of the windows differ by at least a fifth of the highest power (windows
    /// at idle and under load), both gain and offset are fitted by least squares. The bounds then
    /// contain all lines that differ from the fitted line, at the lowest and at the highest true
    /// power, by at most the sampling errors of the windows plus the largest deviation of a window
    /// from the fitted line.
    ///
    /// Otherwise the windows determine only the ratio of reported to true power at one power. The
    /// bounds then allow any offset of [`Self::for_kind`], so intervals are narrow near the power
    /// of the windows and wide at other powers.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] if:
    /// - there is no window,
    /// - an energy or a length is not finite or not above 0,
    /// - a reported energy is outside its sampling interval, or
    /// - the fitted gain or a bound of the gain is not above 0: reported power does not increase
    ///   with true power, or the sampling intervals are too wide to exclude this case.
    pub fn from_meter(windows: &[MeteredWindow]) -> Result<Self> {
        let points: Vec<MeanPowers> = windows.iter().map(MeanPowers::new).collect::<Result<_>>()?;
        if points.is_empty() {
            return Err(invalid(FROM_METER, "number of windows", 0.0, "at least 1"));
        }
        // A least-squares slope from windows of nearly equal power would only amplify their errors.
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

    /// Returns the mean ratio of reported to true power, with the offset bounds of a device that
    /// was not compared with a meter ([`UNKNOWN`]).
    fn through_one_power(points: &[MeanPowers]) -> Self {
        let (true_w, reported_w) = means(points);
        let gain = reported_w / true_w;
        let off_w = largest_deviation(points, gain, 0.0);
        // The mean reported power is a sum with these weights.
        let errors_w = errors_of_sum(points, |point| point.lasts_s / seconds(points));
        let bounds = [-errors_w.0 - off_w, errors_w.1 + off_w].map(|off_w| reported_w + off_w);
        // For each offset, the gain must lead through the bounds on the reported power at `true_w`.
        // The largest offset is limited so that the gain stays above 0.
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

    /// Returns the least-squares line of reported over true power, weighted by time, with bounds.
    ///
    /// The corners are the four lines from a bound at the lowest true power to a bound at the
    /// highest true power:
    /// ```text
    /// reported
    ///    |                 high.1
    ///    |   low.1           |
    ///    |     |           high.0
    ///    |   low.0
    ///    +-----|-------------|------ true
    ///        low_w         high_w
    /// ```
    fn through_two_powers(points: &[MeanPowers], low_w: f64, high_w: f64) -> Self {
        let (mean_w, reported_w) = means(points);
        let squares = |p: &MeanPowers| p.lasts_s * (p.true_w - mean_w).powi(2);
        let products =
            |p: &MeanPowers| p.lasts_s * (p.true_w - mean_w) * (p.reported_w - reported_w);
        let spread: f64 = points.iter().map(squares).sum();
        let gain = points.iter().map(products).sum::<f64>() / spread;
        let offset_w = reported_w - gain * mean_w;
        let off_w = largest_deviation(points, gain, offset_w);
        // The fitted line at `at_w` is a linear combination of the reported powers with the weights
        // below, so bounds on the reported powers bound the line. The sampling errors of different
        // windows may all have the same sign, so they are added and not averaged.
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

    /// Returns the calibration if all gains are finite and above 0, all offsets are finite, and the
    /// estimate is within the bounds; otherwise [`Error::ParameterInvalid`].
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

    /// Returns whether the estimate is in the convex hull of the corners, within rounding.
    ///
    /// A line through two corners is an edge of the hull if all corners are on one side of the
    /// line. The estimate is in the hull if it is on that side of every edge.
    fn is_within_corners(&self) -> bool {
        let size = 1.0 + range(self.corners.map(|corner| corner.1.abs())).1;
        // The cross product is positive if `p` is to the left of the line from `a` to `b`.
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

    /// Returns the lowest and the highest gain within the bounds.
    #[must_use]
    pub fn gains(&self) -> (f64, f64) {
        range(self.corners.map(|corner| corner.0))
    }

    /// Returns the lowest and the highest offset within the bounds, in W.
    #[must_use]
    pub fn offsets_w(&self) -> (f64, f64) {
        range(self.corners.map(|corner| corner.1))
    }

    /// Returns the estimate of the true energy of a window of length `lasts_s`, in J; at least 0 J.
    pub(super) fn joules(&self, reported_j: f64, lasts_s: f64) -> f64 {
        ((reported_j - self.offset_w * lasts_s) / self.gain).max(0.0)
    }

    /// Returns bounds on the true energy of a window of length `lasts_s`, in J, from bounds on the
    /// reported energy, in J.
    pub(crate) fn interval(&self, (low_j, high_j): (f64, f64), lasts_s: f64) -> Interval {
        let least = |(gain, offset_w): (f64, f64)| (low_j - offset_w * lasts_s) / gain;
        let most = |(gain, offset_w): (f64, f64)| (high_j - offset_w * lasts_s) / gain;
        Interval {
            low_j: range(self.corners.map(least)).0.max(0.0),
            high_j: range(self.corners.map(most)).1.max(0.0),
        }
    }

    /// Returns the calibration with the same gain and offset and without bounds on their errors.
    pub(super) fn estimate(&self) -> Self {
        Self {
            corners: [(self.gain, self.offset_w); 4],
            ..*self
        }
    }

    /// Returns gain 1 and offset 0 W with the bounds of a group of cards, for a card with the power
    /// limit `full_w`, in W; [`FULL_LOAD_W`] if the limit is unknown.
    fn within(bounds: &Bounds, full_w: Option<f64>) -> Self {
        let load_w = full_w.unwrap_or(FULL_LOAD_W);
        let scale = (load_w / LEAST_COMPARED_W).min(1.0);
        let scaled_w = |offset_w: f64| {
            let most_w = MAX_OFFSET_SHARE * load_w;
            (scale * offset_w.abs()).max(LEAST_OFFSET_W).min(most_w)
        };
        let (low_w, high_w) = (-scaled_w(bounds.offsets_w.0), scaled_w(bounds.offsets_w.1));
        let (least, most) = bounds.ratios;
        // The bounds on the ratio apply under full load, so a higher offset means a lower gain:
        // `ratio = gain + offset / load`.
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

impl MeanPowers {
    /// Returns the mean powers of a window, or [`Error::ParameterInvalid`] if a field is outside
    /// its valid range.
    fn new(window: &MeteredWindow) -> Result<Self> {
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

/// The operation name of [`Calibration::from_meter`] in errors.
const FROM_METER: &str = "Calibration::from_meter";
/// Tolerance for rounding errors of a fit, as a share of the largest number.
const ROUNDING: f64 = 1e-9;

/// Creates an [`Error::ParameterInvalid`].
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

/// Returns the total length of all windows, in s.
fn seconds(points: &[MeanPowers]) -> f64 {
    points.iter().map(|point| point.lasts_s).sum()
}

/// Returns the mean true power and the mean reported power of all windows, weighted by their
/// lengths, in W.
fn means(points: &[MeanPowers]) -> (f64, f64) {
    let mean = |watts: &dyn Fn(&MeanPowers) -> f64| {
        points.iter().map(|p| p.lasts_s * watts(p)).sum::<f64>() / seconds(points)
    };
    (mean(&|p| p.true_w), mean(&|p| p.reported_w))
}

/// Returns the largest absolute difference between a reported power and a line, in W.
fn largest_deviation(points: &[MeanPowers], gain: f64, offset_w: f64) -> f64 {
    let deviation = |p: &MeanPowers| (p.reported_w - gain * p.true_w - offset_w).abs();
    points.iter().map(deviation).fold(0.0, f64::max)
}

/// Returns by how much a weighted sum of the reported powers may be too high and too low, in W.
fn errors_of_sum(points: &[MeanPowers], weight: impl Fn(&MeanPowers) -> f64) -> (f64, f64) {
    // A negative weight exchanges the two directions.
    let error = |point: &MeanPowers| {
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

/// Returns the lowest and the highest of four numbers.
fn range(numbers: [f64; 4]) -> (f64, f64) {
    let least = numbers.into_iter().fold(f64::INFINITY, f64::min);
    (least, numbers.into_iter().fold(f64::NEG_INFINITY, f64::max))
}
