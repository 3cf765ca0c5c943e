//! Asks the CPU to fetch memory ahead of its use.
//!
//! Role: a block of lanes is read in a burst, and then computed on for a while without another read; hardware prefetchers
//! lose the thread in between. Told of the next block in time, memory works while the CPU computes.
//! Limits: does nothing but on x86-64; other targets have no stable instruction for it in Rust.
#![allow(
    unsafe_code,
    reason = "the instruction takes a raw pointer; it never faults and changes no value"
)]

/// Bytes that come from memory at a time.
const LINE: usize = 64;

/// Fetches elements into the first-level cache, soon.
#[inline(always)]
pub(super) fn prefetch<T>(elements: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in elements.chunks(LINE / size_of::<T>().max(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction reads nothing that the program can see, and the pointer lies within a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = elements;
}
