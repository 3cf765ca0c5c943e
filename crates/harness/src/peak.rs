//! Measured limits of this machine: rates of multiply-adds, of products of bits and of copies, on
//! the CPU and on every GPU.
//!
//! Role: the denominators of every share of peak, and the roofs of the roofline.
//! Method: independent chains in registers on all cores, and copies of arrays larger than most
//! caches (256 MiB on the CPU). A step of a chain is a fused multiply-add, or an exclusive or, a
//! count of ones and an addition. The best of several runs counts, because a limit is what the
//! undisturbed machine can do.
//! Limits: the CPU's rate of multiply-adds uses the widest vectors that `pulp` supports on it;
//! products of bits are measured for each of its instruction sets. A copy counts the bytes read and
//! written, but not the extra read of a cache line before its first write.

use crate::measure::wall;
use crate::record::AdapterPeaks;
use anyhow::Result;
use gpu_wgsl::{DeviceType, Gpu};
use pulp::{Simd, WithSimd};
use shaders::layout;
use shaders::params::{BufferCopyParams, FmaPeakParams, PopcountPeakParams};
use std::collections::BTreeMap;
use std::hint::black_box;
use tensor_core::exec::Level;

/// Number of runs, of which the best counts.
const N_RUNS: usize = 5;
/// Steps of each chain in one run on the CPU; about 10 ms.
const CPU_STEPS: usize = 4_000_000;
/// Steps of the chains that count ones in one run on the CPU; about 5 ms with AVX2.
const CPU_BIT_STEPS: usize = 1_000_000;
/// Word whose bits the chains on a GPU compare in every step.
const GPU_BIT_MASK: u32 = 0x5a5a_5a5a;
/// Bytes of one array of the copy on the CPU: several times the size of a large cache.
const CPU_COPY_BYTES: usize = 256 << 20;
/// Bytes of one buffer of the copy on a GPU; a quarter of this on a software driver.
const GPU_COPY_BYTES: u64 = 256 << 20;
/// Minimum duration of a run on a GPU that counts, in seconds.
const LONG_ENOUGH_S: f64 = 0.02;
/// Maximum number of rounds, for devices that are still faster than [`LONG_ENOUGH_S`]. The number
/// is below the limits at which known drivers end a loop.
const MAX_ROUNDS: u32 = 1 << 15;

/// Measures the CPU: operations per second, and bytes copied per second, of `n_threads` threads (at
/// least one).
#[must_use]
pub fn cpu(n_threads: usize) -> AdapterPeaks {
    let n_threads = n_threads.max(1);
    AdapterPeaks {
        flops: best(|| cpu_flops(n_threads)),
        copy_bytes_per_s: best(|| cpu_copy(n_threads)),
        bit_products: None,
    }
}

/// Measures products of bits per second of `n_threads` threads (at least one), for each instruction
/// set of the CPU.
#[must_use]
pub fn cpu_bit_products(n_threads: usize) -> BTreeMap<String, f64> {
    let n_threads = n_threads.max(1);
    let sets = Level::all().into_iter();
    let supported = sets.filter_map(|(name, level)| Some((name, level?)));
    let measured = supported.filter_map(|(name, level)| {
        let rate = best(|| cpu_bits(level, n_threads))?;
        Some((name.to_owned(), rate))
    });
    measured.collect()
}

/// Returns the larger value of each limit from two measurements of one device.
#[must_use]
pub fn better(one: AdapterPeaks, other: AdapterPeaks) -> AdapterPeaks {
    let max =
        |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).max_by(f64::total_cmp);
    AdapterPeaks {
        flops: max(one.flops, other.flops),
        copy_bytes_per_s: max(one.copy_bytes_per_s, other.copy_bytes_per_s),
        bit_products: max(one.bit_products, other.bit_products),
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
        bit_products: Some(gpu_bits(gpu)?),
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

fn cpu_bits(level: Level, n_threads: usize) -> f64 {
    let products = bit_chains(level, 0) * CPU_BIT_STEPS as f64 * n_threads as f64;
    let seconds = on_threads(vec![CPU_BIT_STEPS; n_threads], |steps| {
        black_box(bit_chains(level, black_box(steps)));
    });
    products / seconds
}

/// Runs chains `x ← x + ones(x ^ mask)` at an instruction set; returns the products of bits of one
/// step.
fn bit_chains(level: Level, steps: usize) -> f64 {
    let mut products = 0;
    level.dispatch_count(
        #[inline(always)]
        |by_words| {
            products = if by_words {
                word_chains(steps)
            } else {
                byte_chains(steps)
            };
        },
    );
    products as f64
}

/// Runs chains of words, for CPUs that count the ones of words. Eight vectors hide the latency of a
/// step. Returns the products of bits of one step.
#[inline(always)]
fn word_chains(steps: usize) -> usize {
    const N_CHAINS: usize = 8 * 16;
    let mask = black_box(0x5a5a_5a5a_u32);
    // A flat array: in an array of arrays, the compiler would vectorise across the inner arrays,
    // with slow gathers.
    let mut chains = black_box([1_u32; N_CHAINS]);
    for _ in 0..steps {
        for x in &mut chains {
            *x = x.wrapping_add((*x ^ mask).count_ones());
        }
    }
    black_box(chains);
    N_CHAINS * u32::BITS as usize
}

/// Runs chains of bytes, whose ones are counted by table lookups. Three pairs of AVX2's vectors
/// hide the latency of a step, and fit the sixteen registers together with the tables. Returns the
/// products of bits of one step.
#[inline(always)]
fn byte_chains(steps: usize) -> usize {
    const LANES: usize = 64;
    const N_CHAINS: usize = 3;
    let mask = black_box([0x5a_u8; LANES]);
    let mut chains = black_box([[1_u8; LANES]; N_CHAINS]);
    for _ in 0..steps {
        for chain in &mut chains {
            for (x, mask) in chain.iter_mut().zip(mask) {
                #[allow(clippy::cast_possible_truncation, reason = "a byte has at most 8 ones")]
                let ones = (*x ^ mask).count_ones() as u8;
                *x = x.wrapping_add(ones);
            }
        }
    }
    black_box(chains);
    N_CHAINS * LANES * u8::BITS as usize
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
    let n = n_invocations(gpu);
    let y = gpu.alloc::<f32>("fma_peak", &[4 * n as usize])?;
    let rounds_per_s = rounds_per_s(gpu, |rounds| {
        let params = FmaPeakParams::new(n, rounds);
        gpu.dispatch(&layout::FMA_PEAK, &params, &[&y])
    })?;
    Ok(FmaPeakParams::OPERATIONS_PER_ROUND as f64 * f64::from(n) * rounds_per_s)
}

fn gpu_bits(gpu: &Gpu) -> Result<f64> {
    let n = n_invocations(gpu);
    let y = gpu.alloc::<u32>("popcount_peak", &[4 * n as usize])?;
    let rounds_per_s = rounds_per_s(gpu, |rounds| {
        let params = PopcountPeakParams::new(n, rounds, GPU_BIT_MASK);
        gpu.dispatch(&layout::POPCOUNT_PEAK, &params, &[&y])
    })?;
    Ok(PopcountPeakParams::PRODUCTS_PER_ROUND as f64 * f64::from(n) * rounds_per_s)
}

/// Returns the number of invocations that keep a device busy.
fn n_invocations(gpu: &Gpu) -> u32 {
    let software = gpu.adapter().device_type == DeviceType::Cpu;
    if software { 1 << 12 } else { 1 << 20 }
}

/// Returns the rounds of a kernel per second. The number of rounds is doubled until a run is long
/// enough for the device's timer.
fn rounds_per_s(gpu: &Gpu, run: impl Fn(u32) -> gpu_wgsl::Result<()>) -> Result<f64> {
    let mut rounds = 1;
    loop {
        let seconds = fastest(gpu, || run(rounds))?;
        if seconds >= LONG_ENOUGH_S || rounds >= MAX_ROUNDS {
            return Ok(f64::from(rounds) / seconds);
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
