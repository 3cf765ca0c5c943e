//! Command lines of the workspace's programs: options, help texts and exit codes.
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
mod solve;
pub mod trace;
mod tune;

pub use bench::Bench;
pub use clap;
pub use doctor::Doctor;
pub use explain::{Explain, Level};
pub use report::Report;
pub use solve::Solve;
pub use trace::Trace;
pub use tune::{Class, Tune};

/// Exit codes of all programs.
pub mod exit {
    /// The command did its work, and what it checked is right.
    pub const SUCCESS: u8 = 0;
    /// The command ran and failed, or a check failed.
    pub const FAILURE: u8 = 1;
    /// The command line is wrong; nothing was built, downloaded or written.
    pub const USAGE: u8 = 2;
    /// A program that `trace` should run cannot be executed.
    pub const NOT_EXECUTABLE: u8 = 126;
    /// A program that `trace` should run was not found.
    pub const NOT_FOUND: u8 = 127;
    /// The command was interrupted; finished results are on disk.
    pub const INTERRUPTED: u8 = 130;
}
