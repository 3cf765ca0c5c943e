//! Power, energy and utilisation of GPUs and CPUs: sampled, integrated and judged.
//!
//! Role: for people who ask what a computation cost in joules, and whether the machine was busy while it ran. Every
//! number says which field of which library it came from, and every energy how far it may be off.
//!
//! | step | what | where |
//! |---|---|---|
//! | read | what a machine tells: NVML, RAPL, a recorded trace, a model | [`Source`], [`nvml`], [`rapl`], [`replay`], [`synthetic`] |
//! | sample | at fixed times, on a thread of its own | [`Sampler`] |
//! | keep | rows with their devices | [`Trace`], [`format`](mod@format) |
//! | sum up | joules of a window or of a region of code, with an interval | [`Energy`], [`Span`], [`measure`] |
//! | judge | idle gaps, policies, the energy curve | [`analysis`] |
//!
//! # Units
//! Watt, joule, degree Celsius, percent of time, byte, megahertz, all in f64; times are [`Duration`](std::time::Duration)s
//! since a trace began. A name holds its unit where a type does not.

pub mod analysis;
mod device;
pub mod doctor;
mod energy;
mod error;
mod failure;
pub mod format;
mod least_squares;
mod ledger;
mod metric;
pub mod nvml;
pub mod rapl;
pub mod reasons;
pub mod replay;
mod sampler;
pub mod sensor;
#[cfg(feature = "http")]
pub mod serve;
mod source;
mod span;
mod sweep;
pub mod synthetic;
#[cfg(test)]
mod testdata;
mod trace;
mod updates;

pub use device::{Capability, Device, Kind, PowerLimits};
pub use doctor::doctor;
pub use energy::{Calibration, Counted, Energy, EnergyCheck, Interval, Metered, Method};
pub use error::{Error, Fault, Result};
pub use failure::{Failure, Snapshot};
pub use ledger::Ledger;
pub use metric::{Metric, Unit, Values};
pub use sampler::{Running, Sampler, Stopped};
pub use sensor::SensorClass;
pub use source::{Reading, Select, Source};
pub use span::{LINGER, Margins, Span, Spent, measure, measure_by, measure_within};
pub use sweep::{Plan, sweep};
pub use trace::{FaultCount, Mark, Overhead, Row, Trace};
