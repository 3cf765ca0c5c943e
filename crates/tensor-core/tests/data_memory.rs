//! Limits on the memory that file readers and writers use: neither a short file whose header
//! declares a large array nor a file that is written may allocate much, and a failed allocation is
//! an error. The tests run one at a time, because they measure the allocations of the whole
//! process.
#![expect(
    unsafe_code,
    reason = "a global allocator needs it; this one only counts"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tensor_core::data::idx::{self, IdxError, Reader};
use tensor_core::data::{DataError, npy, safetensors};
use tensor_core::ndarray::Array1;
use tensor_core::{Error, Host, Tensor};

/// The system's allocator with counters: records the largest single request and the peak of live
/// bytes, and fails requests above a limit.
struct Counting;

static LARGEST_BYTES: AtomicUsize = AtomicUsize::new(0);
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);
static LIMIT_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: every call is forwarded unchanged or fails with null, so the contract of the system's
// allocator holds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LIMIT_BYTES.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        LARGEST_BYTES.fetch_max(layout.size(), Ordering::Relaxed);
        let live = LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of this function, which is that of
        // `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A lock that the measuring test holds.
static TURN: Mutex<()> = Mutex::new(());

/// A sink that takes no memory.
struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `read` and returns its result. Panics if `read` allocated more than a chunk at once, or
/// more than a few chunks at one time.
fn frugal<T>(read: impl FnOnce() -> T) -> T {
    LARGEST_BYTES.store(0, Ordering::Relaxed);
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    let outcome = read();
    let largest = LARGEST_BYTES.load(Ordering::Relaxed);
    assert!(largest <= 1 << 16, "one request of {largest} bytes");
    let extra = PEAK_BYTES.load(Ordering::Relaxed).saturating_sub(before);
    assert!(extra <= 4 << 16, "{extra} bytes at one time");
    outcome
}

/// Returns the result of `work`, during which every single allocation of `limit` bytes or more
/// fails.
fn limited<T>(limit: usize, work: impl FnOnce() -> T) -> T {
    LIMIT_BYTES.store(limit - 1, Ordering::Relaxed);
    let outcome = work();
    LIMIT_BYTES.store(usize::MAX, Ordering::Relaxed);
    outcome
}

fn idx_file(code: u8) {
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

/// Returns `true` if a reader reported that the file is truncated after eight bytes of elements.
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
    // The declared length of the header must not be trusted either.
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
fn a_written_tensor_takes_a_chunk_of_memory() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let len = 1 << 20;
    let x = Tensor::from_vec(&[len], vec![1.0_f32; len]);
    let realized = Tensor::arange(len)
        .realize(&Host::new())
        .expect("4 MB fit into memory");
    let flags = Tensor::from_vec(&[2, len / 2], vec![true; len]);
    for tensor in [&x, &realized, &flags] {
        frugal(|| npy::write_to(Nowhere, tensor)).expect("the sink cannot fail");
        let named = [("x", tensor)];
        frugal(|| safetensors::write_to(Nowhere, &named)).expect("the sink cannot fail");
    }
}

#[test]
fn where_no_memory_is_left_there_is_an_error() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let len = 1 << 20;
    let x = Tensor::from_vec(&[len], vec![1.0_f32; len]);
    let (mut npy, mut safetensors, mut idx) = (Vec::new(), Vec::new(), Vec::new());
    idx::write(&mut idx, &Array1::<f32>::zeros(len)).expect("the memory suffices");
    npy::write_to(&mut npy, &x).expect("the memory suffices");
    safetensors::write_to(&mut safetensors, &[("x", &x)]).expect("the memory suffices");
    let faults = limited(1 << 20, || {
        let faults = [
            npy::read_from(&npy[..]).map(drop),
            safetensors::read_from(&safetensors[..]).map(drop),
        ];
        let of_idx = Reader::new(&idx[..]).and_then(Reader::read_all).map(drop);
        (faults, of_idx, x.to_host::<f32>().map(drop))
    });
    let (faults, of_idx, copy) = faults;
    let fault = of_idx.expect_err("a quarter of the elements does not fit");
    assert!(matches!(fault, IdxError::OutOfMemory { .. }), "{fault}");
    for fault in faults {
        let fault = fault.expect_err("a quarter of the elements does not fit");
        assert!(
            matches!(fault.root(), DataError::OutOfMemory { .. }),
            "{fault}"
        );
    }
    let copy = copy.expect_err("a quarter of the elements does not fit");
    assert!(matches!(copy.root(), Error::OutOfMemory { .. }), "{copy}");
    // The writers use less than a chunk.
    let written = limited(1 << 12, || npy::write_to(Nowhere, &x));
    let written = written.expect_err("a chunk does not fit");
    assert!(
        matches!(&written, Error::Data(fault) if matches!(fault.root(), DataError::OutOfMemory { .. })),
        "{written}"
    );
}

#[test]
fn a_header_that_claims_a_terabyte_allocates_a_chunk() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for code in [0x08, 0x0b, 0x0c, 0x0e] {
        idx_file(code);
    }
    for code in ["<f4", ">f8", "|b1", "<f2", "<i8", "|u1"] {
        npy(code);
    }
    for (code, element_bytes) in [("F32", 4), ("F64", 8), ("BOOL", 1), ("F16", 2)] {
        safetensors(code, element_bytes);
    }
}
