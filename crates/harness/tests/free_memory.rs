//! Test of the return of free memory. It is the only test in its process, because resident memory
//! is that of all threads.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs;

/// Number of blocks, of 125 MiB together.
const N_BLOCKS: usize = 1 << 15;
/// Bytes of a block; the allocator maps larger ones one by one.
const BLOCK_BYTES: usize = 4000;

/// Returns the resident memory of this process, in KiB.
fn resident_kib() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn pages_between_objects_are_returned() {
    let before = resident_kib();
    let mut blocks: Vec<Vec<u8>> = (0..N_BLOCKS).map(|_| vec![1; BLOCK_BYTES]).collect();
    // The last block is at the top of the heap, which cannot shrink.
    blocks.drain(..N_BLOCKS - 1);
    assert!(resident_kib() - before > 100 << 10, "{}", resident_kib());
    harness::memory::return_free_memory();
    assert!(resident_kib() - before < 10 << 10, "{}", resident_kib());
}
