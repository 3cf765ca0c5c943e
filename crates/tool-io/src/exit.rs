//! Exit codes of all programs; a success is 0.

/// The command ran and failed, or a check failed.
pub const FAILURE: u8 = 1;
/// The command line is wrong; nothing was measured or written.
pub const USAGE: u8 = 2;
/// A program that `trace` should run cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// A program that `trace` should run was not found.
pub const NOT_FOUND: u8 = 127;
/// The command was interrupted, and finished results are on disk: 128 plus the number of `SIGINT`,
/// as in shells.
pub const INTERRUPTED: u8 = 130;
