//! Intermediate arrays are never stored: peaks measured in the allocator, not by the executor's
//! counters.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use tensor_core::rng::Philox;
use tensor_core::{Axes, DType, Host, Tensor, einsum};

/// An allocator that counts the bytes allocated at one time.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: every call is forwarded to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller fulfils the contract of this function, which is that of the system's
        // allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of this function, which is that of the system's
        // allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller fulfils the contract of this function, which is that of the system's
        // allocator.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn random(shape: &[usize]) -> Tensor {
    let mut data = vec![0.0; shape.iter().product()];
    Philox::new(5).fill_normal_f32(0, &mut data);
    Tensor::from_vec(shape, data)
}

fn pairs(x: &Tensor) -> Tensor {
    x.expand_dims(2) - x.expand_dims(1)
}

/// Returns the peak of the bytes allocated during the computation of a tensor, beyond the bytes
/// before and the output.
fn extra_bytes(host: &Host, tensor: &Tensor) -> usize {
    let output =
        tensor.shape().unwrap().iter().product::<usize>() * tensor.dtype().unwrap().bytes();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = tensor.realize(host).unwrap();
    let peak = PEAK.load(Ordering::Relaxed);
    drop(result);
    (peak - before).saturating_sub(output)
}

#[test]
fn what_only_appears_on_the_way_is_never_in_memory() {
    /// The memory that any computation uses, whatever its size: registers, tasks and plans of all
    /// threads.
    const WORKING: usize = 3 << 20;
    let host = Host::new();
    let x = random(&[64, 600]);
    let near = pairs(&x).abs().lt(1.0);
    let image = random(&[4, 8, 66, 66]);
    let windows = image.window(2, 3, 1).window(3, 3, 1);
    let kernels = random(&[16, 8, 3, 3]);
    let table = random(&[2000, 1200]);
    let line = random(&[1_000_000]);
    // Each program with the bytes that its largest intermediate shape would take.
    let cases: [(&str, Tensor, usize); 15] = [
        ("count of pairs", near.sum(0), 64 * 600 * 600),
        ("all of pairs", near.all(0), 64 * 600 * 600),
        ("any of pairs along both", near.any([0, 1]), 64 * 600 * 600),
        (
            "largest difference",
            pairs(&x).abs().max(0),
            4 * 64 * 600 * 600,
        ),
        (
            "mean square",
            pairs(&x).square().mean(0),
            4 * 64 * 600 * 600,
        ),
        (
            "sum of everything",
            pairs(&x).exp().sum(..),
            4 * 64 * 600 * 600,
        ),
        (
            "first near pair",
            near.cast(DType::U32).argmax(0),
            64 * 600 * 600,
        ),
        (
            "windows and a sum",
            windows.sum([4, 5]),
            4 * 4 * 8 * 64 * 64 * 9,
        ),
        (
            "moving average",
            line.window(0, 100, 1).mean(-1),
            4 * 100 * 999_901,
        ),
        (
            "convolution",
            einsum("ncyxij,ocij->noyx", &[&windows, &kernels]),
            4 * 4 * 8 * 64 * 64 * 9,
        ),
        ("softmax", table.softmax(1), 4 * 2000 * 1200),
        (
            "variance",
            (&table - table.mean(Axes::keepdims(1))).square().mean(1),
            4 * 2000 * 1200,
        ),
        (
            "a factor that is an intermediate array",
            pairs(&x)
                .abs()
                .lt(1.0)
                .cast(DType::F32)
                .matmul(&random(&[600, 2])),
            4 * 64 * 600 * 600,
        ),
        (
            "expensive pairs that two sums read",
            pairs(&x).exp().sum(0).sum(0) + pairs(&x).exp().sum(1).sum(0),
            4 * 64 * 600 * 600,
        ),
        (
            "random numbers",
            Tensor::rand(Philox::new(1), &[5_000_000]).sum(..),
            4 * 5_000_000,
        ),
    ];
    for (name, tensor, intermediate) in &cases {
        // The first run allocates memory that threads and libraries keep.
        tensor.realize(&host).unwrap();
        let extra = extra_bytes(&host, tensor);
        assert!(extra < WORKING, "{name}: {extra} bytes beyond the output");
        assert!(
            extra < intermediate / 2,
            "{name}: {extra} bytes of {intermediate}"
        );
    }
}
