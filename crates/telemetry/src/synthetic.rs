//! Simulated GPUs: power as a known function of time, measured through sensors like those of real
//! GPUs.
//!
//! Role: ground truth for the tests of the measurements, and the model behind the library
//! `fake-nvml`.
//! Method: a [`PowerProfile`] is the power of a device as a function of time, so its energy is
//! known exactly. A [`Sensor`] models how a power sensor averages and updates. A [`Scenario`]
//! describes a machine with such devices, a [`Model`] computes every quantity of the scenario at
//! any time, and [`Synthetic`] reads the model as a [`Source`](crate::Source).

mod board;
mod control;
mod gpu;
mod gpu_model;
mod model;
mod profile;
mod quantity;
mod scenario;
mod sensor;
mod source;
mod thermal;

pub use crate::power_profile::{PowerProfile, PowerSegment};
pub use crate::sensor::SensorClass;
pub use board::Board;
pub use control::ClockModel;
pub use gpu::{
    Architecture, BoardLimits, Counter, Gpu, Memory, Pcie, Process, Reporting, Scopes, Sensors,
    Utilisation,
};
pub use gpu_model::GpuModel;
pub use model::{Action, Control, Model};
pub use profile::{Driver, PowerField};
pub use quantity::Quantity;
pub use scenario::{Call, FaultRule, Scenario};
pub use sensor::Sensor;
pub use source::Synthetic;
pub use thermal::Thermal;
