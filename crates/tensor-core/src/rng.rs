//! Random number generators.
//!
//! Role: [`Philox`] is the generator for all uses: a pure function of key and counter, so that CPU
//! and GPU, any number of threads and any order produce the same bits. [`WichmannHill`] only
//! reproduces the draws that the fast.ai notebook "matmul" prints.

pub use philox::{Philox, philox4x32_10};
pub use wichmann_hill::WichmannHill;

mod philox;
mod wichmann_hill;
