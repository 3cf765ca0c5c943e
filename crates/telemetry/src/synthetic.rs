//! Devices that do not exist: power as a known function of time, seen through sensors like those of real GPUs.
//!
//! Role: the truth that everything else is tested against, and what `fake-nvml` plays.
//! Method: a [`Program`] says what a device draws at any time, and so exactly what energy it took; a [`Sensor`] says
//! what of it is told.

mod program;
mod sensor;

pub use program::{Piece, Program};
pub use sensor::{Sensor, SensorClass};
