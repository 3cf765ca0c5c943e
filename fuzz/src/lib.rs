//! Fuzz targets: readers of files, and structured inputs.
//!
//! Role: each target takes any bytes and panics only on a fault of the code under test. `cargo
//! xtask fuzz` runs the targets under libFuzzer; the tests replay a small corpus and mutations of
//! it, with the stable compiler.
//! Method: a target has a module here, a program in `fuzz_targets/`, a folder in `corpus/`, and a
//! test in `tests/smoke.rs`.
//! Limits: the table of `tune` has no target, because it is compiled into `gpu-wgsl`.

pub mod bench_record;
pub mod checkpoint;
mod checksum;
mod chunks;
pub mod efg;
pub mod einsum;
mod elements;
pub mod game;
pub mod idx;
pub mod journal;
pub mod mutator;
pub mod names;
pub mod nfg;
pub mod npy;
pub mod packed_model;
pub mod rapl;
pub mod rows;
pub mod safetensors;
mod sample;
pub mod scenario;
mod source;
pub mod state_dict;
mod temporary;
pub mod tensor_program;
pub mod trace;
pub mod trace_chrome;
pub mod trace_csv;
mod trace_files;
pub mod trace_json_lines;
pub mod trace_semicolon_csv;

pub use sample::with_all_checks;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the module, the program and the folder of the corpus.
    pub name: &'static str,
    /// Function that checks the code under test with some bytes. It panics on a fault.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "bench_record",
        run: bench_record::run,
    },
    Target {
        name: "checkpoint",
        run: checkpoint::run,
    },
    Target {
        name: "efg",
        run: efg::run,
    },
    Target {
        name: "einsum",
        run: einsum::run,
    },
    Target {
        name: "game",
        run: game::run,
    },
    Target {
        name: "idx",
        run: idx::run,
    },
    Target {
        name: "journal",
        run: journal::run,
    },
    Target {
        name: "names",
        run: names::run,
    },
    Target {
        name: "nfg",
        run: nfg::run,
    },
    Target {
        name: "npy",
        run: npy::run,
    },
    Target {
        name: "packed_model",
        run: packed_model::run,
    },
    Target {
        name: "rapl",
        run: rapl::run,
    },
    Target {
        name: "rows",
        run: rows::run,
    },
    Target {
        name: "safetensors",
        run: safetensors::run,
    },
    Target {
        name: "scenario",
        run: scenario::run,
    },
    Target {
        name: "state_dict",
        run: state_dict::run,
    },
    Target {
        name: "tensor_program",
        run: tensor_program::run,
    },
    Target {
        name: "trace",
        run: trace::run,
    },
    Target {
        name: "trace_chrome",
        run: trace_chrome::run,
    },
    Target {
        name: "trace_csv",
        run: trace_csv::run,
    },
    Target {
        name: "trace_json_lines",
        run: trace_json_lines::run,
    },
    Target {
        name: "trace_semicolon_csv",
        run: trace_semicolon_csv::run,
    },
];
