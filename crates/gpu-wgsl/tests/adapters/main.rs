//! Device tests on every adapter of this machine: kernels compared with twins, programs compared
//! with the oracle, errors, memory.
//!
//! Role: a single test program, so that wgpu is linked once, and so that the tests can be copied to
//! a machine without a toolchain.

mod arithmetic;
mod buffers;
mod errors;
mod extensive_games;
mod flow;
mod functions;
mod kernels;
mod loops;
mod matrix_games;
mod memory;
mod numbers;
mod packed_conv;
mod plans;
mod random_programs;
