//! Command lines of the workspace's programs: options and help texts.
//!
//! Role: each program parses its own arguments with the type of this crate, and `xtask` prints the
//! same help, rejects the same mistakes and writes completions without a build of the program.
//! Method: one module per program. The types contain no type of another crate, so that this crate
//! builds in seconds; a program converts them.
//!
//! # Examples
//! ```
//! use clap::Parser as _;
//!
//! let bench = commands::Bench::try_parse_from(["bench", "--only", "matmul", "--full"])?;
//! assert!(bench.full && bench.only == ["matmul"]);
//! assert!(commands::Bench::try_parse_from(["bench", "--nosuch"]).is_err());
//! # Ok::<(), clap::Error>(())
//! ```

mod bench;
mod doctor;
mod explain;
mod report;
mod soak;
mod solve;
pub mod trace;
mod tune;

pub use bench::Bench;
pub use clap;
pub use doctor::Doctor;
pub use explain::{Emit, Explain};
pub use report::Report;
pub use soak::Soak;
pub use solve::Solve;
pub use trace::Trace;
pub use tune::{Class, Tune};

/// Python packages of the rivals, which `xtask rivals` installs and `bench` lists.
pub const RIVAL_PACKAGES: [&str; 7] = [
    "numpy",
    "scipy",
    "torch",
    "jax",
    "open_spiel",
    "nashpy",
    "openvino",
];
