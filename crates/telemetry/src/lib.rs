//! Sampling and analysis of power, energy and utilisation of GPUs and CPUs.
//!
//! Role: measures the energy of a computation in joules, and how busy the machine was while it ran.
//! Every metric names the library field that it came from, and every energy has an error interval.
//!
//! | step | content | items |
//! |---|---|---|
//! | read | readings from NVML, RAPL, a recorded trace or a model | [`Source`], [`nvml`], [`rapl`], [`replay`], module `synthetic` (feature `synthetic`) |
//! | sample | readings at fixed times, on a separate thread | [`Sampler`] |
//! | store | rows with their devices | [`Trace`], [`format`](mod@format) |
//! | integrate | energy of a window or of a region of code, with an error interval | [`Energy`], [`Span`], [`measure`] |
//! | analyse | idle gaps, power policies, the energy curve | [`analysis`], [`reasons`] |
//! | sweep | energy of a job at several clocks of a GPU | [`sweep()`], [`SweepPlan`] |
//! | serve | the newest rows for Prometheus | module `serve` (feature `http`) |
//! | check | a power sensor, a machine | [`sensor`], [`probe`], [`mod@doctor`] |
//!
//! # Accuracy
//! - [`Energy::interval`] contains the tolerance of the sensor and the error of sampling. It allows
//!   any power up to the limit in time that the sensor did not observe. [`Energy::likely`] assumes
//!   that this time was like the time around it.
//! - The power of the GPUs that were compared with a meter is off by −11 % to +13 % under full load
//!   and by up to 20 W at idle ([`Calibration::for_device`], with the source). [`Calibration`] also
//!   describes a sensor that the caller compared with a meter. For RAPL no tolerance is known.
//! - [`probe::probe`] finds the averaging window of a sensor within 5 %, if reads are at least six
//!   times as frequent as updates (tested).
//! - [`analysis::idle_periods`] returns ranges that include the tolerance of the sensor.
//!
//! # Limits
//! - A partitioned GPU (MIG) is read as a whole. RAPL is read on Linux only, for packages and
//!   memory.
//! - The power sensors of Kepler, Maxwell and Blackwell have no [`SensorClass`]. Energy from the
//!   power of such a sensor has an interval that is not certain.
//! - A counter that was reset between two reads and has passed its earlier value since is not
//!   recognized as reset.
//! - Memory holds [`Sampler::capacity`] rows: older rows are thinned, after their energies are
//!   computed. Sinks receive all rows.
//! - A process that is killed in a [`sweep()`] leaves the clock of the GPU locked.
//!
//! # Units
//! Watt, joule, degree Celsius, percent of time, byte and megahertz, all as f64. Times are
//! [`Duration`](std::time::Duration)s since the start of a trace. Where a type has no unit, the
//! name of a field or parameter contains the unit.

pub mod analysis;
mod device;
pub mod doctor;
mod energy;
mod error;
mod failure;
pub mod format;
mod least_squares;
mod ledger;
mod local;
mod metric;
pub mod nvml;
mod power_profile;
pub mod probe;
pub mod rapl;
pub mod reasons;
pub mod replay;
mod reported;
mod sampler;
pub mod sensor;
#[cfg(feature = "http")]
pub mod serve;
mod snapshot;
mod source;
mod span;
mod sweep;
#[cfg(any(test, feature = "synthetic"))]
pub mod synthetic;
#[cfg(test)]
mod testdata;
mod trace;
mod updates;

pub use device::{Capability, Device, Kind, PowerLimits};
pub use doctor::doctor;
pub use energy::{
    Calibration, Energy, EnergyCheck, EnergyTotal, Interval, MeteredWindow, TotalEnergy,
};
pub use error::{Error, Fault, Result};
pub use failure::Failure;
pub use ledger::Ledger;
pub use metric::{Metric, Unit, Values};
pub use power_profile::{PowerProfile, PowerSegment};
pub use reported::Method;
pub use sampler::{Running, Sampler, SamplerResult};
pub use sensor::SensorClass;
pub use snapshot::Snapshot;
pub use source::{Reading, Select, Source};
pub use span::{Margins, POST_ROLL, Span, SpanReport, measure, measure_by, measure_within};
pub use sweep::{SweepPlan, sweep};
pub use trace::{FaultCount, Overhead, Region, Row, Trace};
