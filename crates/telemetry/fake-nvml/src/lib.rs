//! NVIDIA's management library for machines without a GPU.
//!
//! Role: what tests load in the place of `libnvidia-ml.so.1`, over the real boundary. It plays a
//! [`Scenario`](telemetry::synthetic::Scenario) and answers from its [`Model`](telemetry::synthetic::Model), so what is
//! told can be held against what is true. Nothing of it can be called from Rust: a program that did would touch a
//! second copy of its state.
//! Method: the scenario is the one that the control symbol `fake_nvml_set_scenario` set, else the JSON or the file
//! named by the environment variable `FAKE_NVML_SCENARIO`, else a T4 under a square load. Time runs from the first
//! `nvmlInit` until `fake_nvml_set_time_ns` makes it stand still. Return codes, sizes of buffers and versions of
//! structures are NVML's; a call that the scenario's driver is too old for gives `NVML_ERROR_FUNCTION_NOT_FOUND`, since
//! a symbol cannot be taken back at run time.
//! Source: NVIDIA, "NVML API Reference Guide", for names, layouts and codes.
//! Limits: no instances of MIG, no events, no links, no ECC; a handle stays good when the library is initialised anew.
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
