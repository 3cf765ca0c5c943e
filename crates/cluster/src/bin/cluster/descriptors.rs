//! Flags of open files that belong to other code of this process.
#![expect(
    unsafe_code,
    reason = "the files of the MPI library have no owner in Rust"
)]

use std::os::fd::BorrowedFd;

use rustix::io::{FdFlags, fcntl_setfd};

/// Marks an open file as closed in programs that this process starts. Does nothing if no file with
/// this number is open.
pub(super) fn close_on_start(number: i32) {
    // SAFETY: the number is not -1, and the borrow ends before this function returns. The caller
    // lists open files; if another thread closes one meanwhile, the call below fails and changes
    // nothing.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    let _ = fcntl_setfd(file, FdFlags::CLOEXEC);
}
