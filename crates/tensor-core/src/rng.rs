//! Random numbers: one generator to reproduce old results, one to use.
//!
//! Role: [`WichmannHill`] gives the figures of the matrix notebook that this workspace measures
//! itself by; [`Philox`] is a pure function of key and counter, so that CPU and GPU, any number of
//! threads and any order give the same bits.

pub use philox::{Philox, philox4x32_10};
pub use wichmann_hill::WichmannHill;

mod philox;
mod wichmann_hill;
