//! A short file with a boastful header must not cost memory. One test only, since it watches what
//! the whole process allocates.
#![expect(
    unsafe_code,
    reason = "an allocator can't be written without it; this one only counts"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tensor_core::data::idx::{IdxError, Reader};

/// The system's allocator, which remembers the largest single request.
struct Counting;

static LARGEST_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on unchanged, so the system's allocator keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST_BYTES.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_header_that_claims_a_terabyte_allocates_a_chunk() {
    for code in [0x08, 0x0b, 0x0c, 0x0e] {
        let mut file = vec![0, 0, code, 2, 0, 0x10, 0, 0, 0, 0x10, 0, 0];
        file.extend([0; 8]);
        LARGEST_BYTES.store(0, Ordering::Relaxed);
        let outcome = Reader::new(&file[..]).and_then(Reader::read_all);
        assert!(matches!(
            outcome,
            Err(IdxError::Truncated {
                actual_bytes: 8,
                ..
            })
        ));
        let largest = LARGEST_BYTES.load(Ordering::Relaxed);
        assert!(largest <= 1 << 16, "one request of {largest} bytes");
    }
}
