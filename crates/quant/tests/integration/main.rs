//! The integration tests of the crate, one module per topic.
//!
//! Role: a single test program, because each further program adds up to a second of CPU time to the
//! build, mostly for linking. Two files next to this folder are programs of their own: `memory`
//! measures memory and profiles, and `training_gpu` checks a record of each device, to which the
//! other tests add.

mod channels;
mod conv;
#[path = "../digits/mod.rs"]
mod digits;
mod fits;
mod freeze_errors;
mod frozen;
#[cfg(feature = "gpu")]
mod gpu;
mod levels;
mod model_file;
mod pool_order;
mod prototype;
mod qem_program;
mod report;
mod state_dict;
mod trained;
mod training;
mod training_errors;
mod training_shards;
