//! A short file with a boastful header must not cost memory. One test only, since it watches what
//! the whole process allocates.
#![expect(
    unsafe_code,
    reason = "an allocator can't be written without it; this one only counts"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tensor_core::data::idx::{IdxError, Reader};
use tensor_core::data::{DataError, npy, safetensors};

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

/// Gives what `read` gives, and makes sure that it asked for no more than a chunk and a bit at a time.
fn frugal<T>(read: impl FnOnce() -> T) -> T {
    LARGEST_BYTES.store(0, Ordering::Relaxed);
    let outcome = read();
    let largest = LARGEST_BYTES.load(Ordering::Relaxed);
    assert!(largest <= 1 << 16, "one request of {largest} bytes");
    outcome
}

fn idx(code: u8) {
    let mut file = vec![0, 0, code, 2, 0, 0x10, 0, 0, 0, 0x10, 0, 0];
    file.extend([0; 8]);
    let outcome = frugal(|| Reader::new(&file[..]).and_then(Reader::read_all));
    assert!(matches!(
        outcome,
        Err(IdxError::Truncated {
            actual_bytes: 8,
            ..
        })
    ));
}

/// Checks that eight bytes of elements are found to be too few.
fn is_truncated<T>(outcome: Result<T, DataError>) -> bool {
    matches!(outcome, Err(error) if matches!(error.root(), DataError::Truncated { actual_bytes: 8, .. }))
}

fn npy(code: &str) {
    let text = format!("{{'descr': '{code}', 'fortran_order': True, 'shape': (1048576, 1048576)}}");
    let length = u16::try_from(text.len()).expect("the text above is short");
    let file = [
        b"\x93NUMPY\x01\x00",
        &length.to_le_bytes()[..],
        text.as_bytes(),
        &[0; 8],
    ]
    .concat();
    assert!(is_truncated(frugal(|| npy::read_from(&file[..]))));
    // The length of the header is a claim too.
    let file = b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}";
    assert!(matches!(
        frugal(|| npy::read_from(&file[..])),
        Err(DataError::BadHeader { .. })
    ));
}

fn safetensors(code: &str, element_bytes: u64) {
    let text = format!(
        r#"{{"w":{{"dtype":"{code}","shape":[1048576,1048576],"data_offsets":[0,{}]}}}}"#,
        element_bytes << 40
    );
    let file = [
        &(text.len() as u64).to_le_bytes()[..],
        text.as_bytes(),
        &[0; 8],
    ]
    .concat();
    assert!(is_truncated(frugal(|| safetensors::read_from(&file[..]))));
    let file = [&99_999_999_u64.to_le_bytes()[..], b"{}"].concat();
    assert!(matches!(
        frugal(|| safetensors::read_from(&file[..])),
        Err(DataError::BadHeader { .. })
    ));
}

#[test]
fn a_header_that_claims_a_terabyte_allocates_a_chunk() {
    for code in [0x08, 0x0b, 0x0c, 0x0e] {
        idx(code);
    }
    for code in ["<f4", ">f8", "|b1", "<f2"] {
        npy(code);
    }
    for (code, element_bytes) in [("F32", 4), ("F64", 8), ("BOOL", 1), ("F16", 2)] {
        safetensors(code, element_bytes);
    }
}
