//! Devices that do not exist: power as a known function of time, seen through sensors like those of real GPUs.
//!
//! Role: the truth that everything else is tested against, and what `fake-nvml` plays.
//! Method: a [`Program`] says what a device draws at any time, and so exactly what energy it took; a [`Sensor`] says
//! what of it is told. A [`Scenario`] describes a machine of such devices, a [`Model`] answers for it at any time, and
//! [`Synthetic`] reads it as a [`Source`](crate::Source).

mod board;
mod control;
mod gpu;
mod gpu_model;
mod model;
mod profile;
mod program;
mod quantity;
mod scenario;
mod sensor;
mod source;
mod thermal;

pub use crate::sensor::SensorClass;
pub use board::Board;
pub use control::ClockModel;
pub use gpu::{
    Architecture, Counter, Gpu, Limits, Memory, Pcie, Process, Scopes, Sensors, Tells, Utilisation,
};
pub use gpu_model::GpuModel;
pub use model::{Action, Control, Model};
pub use profile::{Driver, PowerField};
pub use program::{Piece, Program};
pub use quantity::Quantity;
pub use scenario::{Call, FaultRule, Scenario};
pub use sensor::Sensor;
pub use source::Synthetic;
pub use thermal::Thermal;
