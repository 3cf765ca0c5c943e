//! What a device does, on every adapter of this machine: kernels beside their twins, programs beside the oracle, faults, memory.
//!
//! Role: one program, so that wgpu is linked once, and a machine without a toolchain can be given all of it.

mod arithmetic;
mod errors;
mod extensive_games;
mod flow;
mod functions;
mod kernels;
mod matrix_games;
mod numbers;
mod plans;
mod random_programs;
