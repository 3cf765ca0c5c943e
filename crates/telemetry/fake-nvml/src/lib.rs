//! A simulation of NVIDIA's management library (NVML) for machines without a GPU.
//!
//! Role: a shared library that tests load instead of `libnvidia-ml.so.1`. It simulates a
//! [`Scenario`](telemetry::synthetic::Scenario) by means of a
//! [`Model`](telemetry::synthetic::Model), so reported values can be compared with true ones. No
//! function can be called from Rust, because a program that links the crate would use a second copy
//! of its state.
//! Method: the scenario is the one set with the control symbol `fake_nvml_set_scenario`, else the
//! JSON text or file given in the environment variable `FAKE_NVML_SCENARIO`, else a T4 under a
//! square-wave load. Time runs from the first `nvmlInit` until `fake_nvml_set_time_ns` fixes it.
//! Return codes, buffer sizes and structure versions are NVML's. A call that the scenario's driver
//! lacks returns `NVML_ERROR_FUNCTION_NOT_FOUND`, because an exported symbol cannot be hidden at
//! run time.
//! Source: NVIDIA, "NVML API Reference Guide", for names, layouts and codes.
//! Limits: no MIG instances, events, links or ECC. A handle stays valid when the library is
//! initialised again.
#![allow(non_snake_case, reason = "the symbols are NVML's")]

mod abi;
mod absent;
mod clocks;
mod control;
mod fields;
mod identity;
mod load;
mod power;
mod processes;
mod samples;
mod state;
mod system;
