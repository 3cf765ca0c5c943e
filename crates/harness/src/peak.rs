//! Measured limits of this machine: rates of multiply-adds and of copies, on the CPU and on every
//! GPU.
//!
//! Role: the denominators of every share of peak, and the roofs of the roofline.
//! Method: independent chains of fused multiply-adds in registers on all cores, and copies of
//! arrays larger than most caches (256 MiB on the CPU). The best of several runs counts, because a
//! limit is what the undisturbed machine can do.
//! Limits: the CPU's rate uses the widest vectors that `pulp` supports on it. A copy counts the
//! bytes read and written, but not the extra read of a cache line before its first write.

use crate::measure::wall;
use crate::record::AdapterPeaks;
use anyhow::Result;
use gpu_wgsl::{DeviceType, Gpu};
use pulp::{Simd, WithSimd};
use shaders::layout;
use shaders::params::{BufferCopyParams, FmaPeakParams};
use std::hint::black_box;

/// Number of runs, of which the best counts.
const N_RUNS: usize = 5;
/// Steps of each chain in one run on the CPU; about 10 ms.
const CPU_STEPS: usize = 4_000_000;
/// Bytes of one array of the copy on the CPU: several times the size of a large cache.
const CPU_COPY_BYTES: usize = 256 << 20;
/// Bytes of one buffer of the copy on a GPU; a quarter of this on a software driver.
const GPU_COPY_BYTES: u64 = 256 << 20;
/// Minimum duration of a run on a GPU that counts, in seconds.
const LONG_ENOUGH_S: f64 = 0.02;
/// Maximum number of rounds, for devices that are still faster than [`LONG_ENOUGH_S`]. It is also
/// below the number of iterations after which any known driver ends a loop.
const MAX_ROUNDS: u32 = 1 << 15;

/// Measures the CPU: operations per second, and bytes copied per second, of `n_threads` threads (at
/// least one).
#[must_use]
pub fn cpu(n_threads: usize) -> AdapterPeaks {
    let n_threads = n_threads.max(1);
    AdapterPeaks {
        flops: best(|| cpu_flops(n_threads)),
        copy_bytes_per_s: best(|| cpu_copy(n_threads)),
    }
}

/// Returns the larger value of each limit from two measurements of one device.
#[must_use]
pub fn better(one: AdapterPeaks, other: AdapterPeaks) -> AdapterPeaks {
    let max =
        |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).max_by(f64::total_cmp);
    AdapterPeaks {
        flops: max(one.flops, other.flops),
        copy_bytes_per_s: max(one.copy_bytes_per_s, other.copy_bytes_per_s),
    }
}

/// Measures one GPU.
///
/// # Errors
/// An error of the device.
pub fn gpu(gpu: &Gpu) -> Result<AdapterPeaks> {
    Ok(AdapterPeaks {
        flops: Some(gpu_flops(gpu)?),
        copy_bytes_per_s: Some(gpu_copy(gpu)?),
    })
}

fn best(run: impl Fn() -> f64) -> Option<f64> {
    (0..N_RUNS).map(|_| run()).max_by(f64::total_cmp)
}

/// Runs `work` on one thread per input, all at the same time, and returns the seconds until the
/// last one is done.
fn on_threads<T: Send>(inputs: Vec<T>, work: impl Fn(T) + Sync) -> f64 {
    let work = &work;
    wall(|| {
        std::thread::scope(|scope| {
            for input in inputs {
                scope.spawn(move || work(input));
            }
        });
    })
}

fn cpu_flops(n_threads: usize) -> f64 {
    let arch = pulp::Arch::new();
    let operations = arch.dispatch(Chains { steps: 0 }) * CPU_STEPS as f64 * n_threads as f64;
    let seconds = on_threads(vec![CPU_STEPS; n_threads], |steps| {
        black_box(arch.dispatch(Chains {
            steps: black_box(steps),
        }));
    });
    operations / seconds
}

/// Twelve independent chains `x ← x · m + s` of vectors; the dispatch returns the operations of one
/// step.
///
/// Twelve chains are enough to hide the latency of two units of four cycles each. Chains and
/// constants together still fit the sixteen registers of AVX2; more would be spilled to memory, and
/// the measurement would be one of memory.
struct Chains {
    steps: usize,
}

impl WithSimd for Chains {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        const N_CHAINS: usize = 12;
        let (m, s) = (
            simd.splat_f32s(black_box(0.5)),
            simd.splat_f32s(black_box(1.0)),
        );
        let mut chains = [simd.splat_f32s(black_box(3.0)); N_CHAINS];
        for _ in 0..self.steps {
            for x in &mut chains {
                *x = simd.mul_add_f32s(*x, m, s);
            }
        }
        black_box(chains);
        // A fused multiply-add counts as two operations.
        (N_CHAINS * S::F32_LANES * 2) as f64
    }
}

fn cpu_copy(n_threads: usize) -> f64 {
    let from = vec![1_u8; CPU_COPY_BYTES];
    let mut to = vec![2_u8; CPU_COPY_BYTES];
    // Each thread copies one contiguous chunk.
    let share = CPU_COPY_BYTES.div_ceil(n_threads);
    let pairs: Vec<(&[u8], &mut [u8])> = from.chunks(share).zip(to.chunks_mut(share)).collect();
    let seconds = on_threads(pairs, |(from, to)| to.copy_from_slice(black_box(from)));
    black_box(&to);
    2.0 * CPU_COPY_BYTES as f64 / seconds
}

fn gpu_flops(gpu: &Gpu) -> Result<f64> {
    let software = gpu.adapter().device_type == DeviceType::Cpu;
    let n: u32 = if software { 1 << 12 } else { 1 << 20 };
    let y = gpu.alloc::<f32>("fma_peak", &[4 * n as usize])?;
    // Double the work until a run is long enough for the device's timer.
    let mut rounds = 1;
    loop {
        let params = FmaPeakParams::new(n, rounds);
        let seconds = fastest(gpu, || gpu.dispatch(&layout::FMA_PEAK, &params, &[&y]))?;
        if seconds >= LONG_ENOUGH_S || rounds >= MAX_ROUNDS {
            let per_invocation = FmaPeakParams::OPERATIONS_PER_ROUND as f64 * f64::from(rounds);
            return Ok(per_invocation * f64::from(n) / seconds);
        }
        rounds *= 2;
    }
}

fn gpu_copy(gpu: &Gpu) -> Result<f64> {
    let adapter = gpu.adapter();
    let wanted = if adapter.device_type == DeviceType::Cpu {
        GPU_COPY_BYTES / 4
    } else {
        GPU_COPY_BYTES
    };
    // The kernel copies vectors of four f32, 16 bytes each.
    let bytes = wanted.min(adapter.limits.max_storage_buffer_binding_size) / 16 * 16;
    let n_vec4 = u32::try_from(bytes / 16)?;
    let x = gpu.upload(
        "copied from",
        &[4 * n_vec4 as usize],
        &vec![1.0_f32; 4 * n_vec4 as usize],
    )?;
    let y = gpu.alloc::<f32>("copied to", &[4 * n_vec4 as usize])?;
    let params = BufferCopyParams::new(n_vec4);
    let seconds = fastest(gpu, || {
        gpu.dispatch(&layout::BUFFER_COPY, &params, &[&x, &y])
    })?;
    Ok(2.0 * bytes as f64 / seconds)
}

/// Returns the shortest device time of several runs; the first run is a warm-up and does not count.
fn fastest(gpu: &Gpu, run: impl Fn() -> gpu_wgsl::Result<()>) -> Result<f64> {
    let timings = gpu.time(|| (0..=N_RUNS).try_for_each(|_| run()))?;
    let seconds = timings
        .iter()
        .skip(1)
        .map(|timing| timing.elapsed.as_secs_f64());
    Ok(seconds.min_by(f64::total_cmp).unwrap_or(f64::INFINITY))
}
