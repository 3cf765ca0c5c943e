//! Peak memory that a piece of work holds while it runs.
//!
//! Role: measures the extra memory of variants on the CPU, and the live bytes of soak runs. Rivals
//! measure their own, by the growth of resident memory (`rivals/protocol.py`).
//! Method: the global allocator of every program that links this crate is the system's with two
//! counters: live bytes, and their maximum since the last reset. Resident memory would not do here:
//! an allocator reuses freed memory, so a second run would seem to need none.
//! Limits: one measurement at a time, because the counters are global to the process. They count
//! the sizes that Rust code on any thread requests, without rounding by the allocator. They do not
//! count memory that a driver or code that maps pages takes from the system. A reallocation counts
//! as a new block next to the old one, also if the block grows in place.

#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait, and C has the function that returns free memory"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and returns its result, and the peak of live bytes during the run minus those live
/// before it.
pub fn peak_extra_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    let peak = PEAK.load(Ordering::Relaxed);
    (result, peak.saturating_sub(before))
}

/// Returns the bytes that Rust code of this process has allocated and not freed.
#[must_use]
pub fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Returns free memory of the C library's heaps to the system. A heap keeps the free pages between
/// objects of many sizes, and resident memory includes these pages. Does nothing if the C library
/// is not glibc.
pub fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: this is the declaration in glibc's `malloc.h`. The function takes any number and
        // the locks that it needs.
        unsafe extern "C" {
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        malloc_trim(0);
    }
}

/// The system's allocator with counters.
struct Counting;

fn taken(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

fn freed(bytes: usize) {
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call goes to `System` unchanged; counting touches no memory that is handed out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is that of `System` too.
        let memory = unsafe { System.alloc(layout) };
        taken(if memory.is_null() { 0 } else { layout.size() });
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe { System.alloc_zeroed(layout) };
        taken(if memory.is_null() { 0 } else { layout.size() });
        memory
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { System.realloc(memory, layout, size) };
        if !moved.is_null() {
            taken(size);
            freed(layout.size());
        }
        moved
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) };
        freed(layout.size());
    }
}
