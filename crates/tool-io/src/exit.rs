//! Exit codes of all programs, where a success is 0, and an exit in the middle of work.

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

/// Ends the process at once, from any thread, while other threads may still be at work.
///
/// Unlike [`std::process::exit`], no exit handlers of libraries run. A graphics driver frees its
/// state in such a handler, so threads that still use the driver would crash, and the process would
/// end by a signal instead of with this code. Unfinished lines of standard output are lost.
pub fn at_once(code: u8) -> ! {
    #[cfg(unix)]
    signal_hook::low_level::exit(code.into());
    #[cfg(not(unix))]
    std::process::exit(code.into())
}
