//! Prediction of a kernel's time on a GPU from the kernel's machine code.
//!
//! Role: compares kernels before any measurement on the GPU. The committed predictions can be
//! compared with later measurements.
//! Method: three resources work in parallel, and the slowest determines the time: the vector units,
//! the workgroup memory, and the memory of the GPU. For the first two, the counts of the main loop
//! are multiplied by the number of passes through the loop. A compute unit runs whole workgroups,
//! so the unit with the most workgroups is the last to finish. If too few waves are resident to
//! hide the latency of their instructions, the vector units wait; the compiler estimates this
//! latency.
//! Limits: caches, the code outside of the main loop, changes of the clock and the start of a
//! dispatch, which takes some microseconds, are not modelled. Measured times are usually longer.

use crate::loops::Loop;

/// Invocations of a wave. RADV compiles compute kernels for waves of this size.
const WAVE: f64 = 64.0;
/// Clock cycles in which a SIMD unit issues a vector instruction for a wave. Multiply-adds use both
/// halves of the unit, other instructions use one half.
const MULTIPLY_ADD_CYCLES: f64 = 1.0;
const OTHER_CYCLES: f64 = 2.0;
/// Clock cycles in which a SIMD unit multiplies two matrices of 16 × 16 halves: 4096 multiply-adds,
/// 128 in a cycle (122.8 TFLOP/s of the whole GPU).
const MATRIX_PRODUCT_CYCLES: f64 = 32.0;
/// Bytes that a compute unit reads from workgroup memory in a clock cycle: 32 banks of 4 bytes.
const WORKGROUP_BYTES_PER_CYCLE: f64 = 128.0;

/// The resources of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// Name of the product.
    pub name: &'static str,
    /// Name of the chip, as `RADV_FORCE_FAMILY` expects it.
    pub family: &'static str,
    /// Number of compute units.
    pub compute_units: f64,
    /// Number of SIMD units per compute unit.
    pub simds: f64,
    /// Clock rate, in Hz.
    pub clock: f64,
    /// Bandwidth of the memory, in bytes per second.
    pub bandwidth: f64,
    /// Vector registers of a SIMD unit, for waves of 64 invocations.
    pub vector_registers: f64,
    /// Maximum number of waves of a SIMD unit.
    pub waves: f64,
    /// Workgroup memory of a compute unit, in bytes.
    pub workgroup_bytes: f64,
}

impl Gpu {
    /// The Radeon RX 7900 XTX, at its boost clock.
    ///
    /// # Source
    /// AMD's product page (96 compute units, 2.5 GHz, 960 GB/s, 61.4 TFLOP/s) and the RDNA 3
    /// instruction set architecture guide (registers, waves, workgroup memory).
    pub const RX_7900_XTX: Self = Self {
        name: "Radeon RX 7900 XTX",
        family: "navi31",
        compute_units: 96.0,
        simds: 2.0,
        clock: 2.5e9,
        bandwidth: 960e9,
        vector_registers: 768.0,
        waves: 16.0,
        workgroup_bytes: 65_536.0,
    };
}

/// The properties of a kernel's machine code that determine the kernel's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// Counts of the main loop.
    pub main: Loop,
    /// Invocations of a workgroup.
    pub invocations: f64,
    /// Vector registers.
    pub vector_registers: f64,
    /// Workgroup memory, in bytes.
    pub workgroup_bytes: f64,
    /// Time of a lone wave divided by the time that its instructions occupy the units, as estimated
    /// by the compiler; at least 1.
    pub latency_ratio: f64,
}

/// The work of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Number of workgroups.
    pub workgroups: f64,
    /// Multiply-adds of the result. Those of elements past the end of the output do not count.
    pub multiply_adds: f64,
    /// Bytes that the kernel reads and writes, each counted once.
    pub bytes: f64,
}

/// The resource that limits a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Vector instructions.
    Vector,
    /// Reads from workgroup memory.
    WorkgroupMemory,
    /// Bandwidth of the GPU's memory.
    Memory,
}

impl Limit {
    /// Returns the name of the resource.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::WorkgroupMemory => "workgroup memory",
            Self::Memory => "memory",
        }
    }
}

/// Returns the predicted time in seconds, and the resource that determines the time.
///
/// A kernel without multiply-adds in its main loop is predicted by its bytes alone.
///
/// # Examples
/// ```
/// use isa::loops::Loop;
/// use isa::prediction::{Gpu, Kernel, Limit, Work, predict};
///
/// // A product of 2048 × 2048 matrices in blocks of 128 × 64 and tiles of 8 × 8.
/// let main = Loop {
///     instructions: 1198,
///     vector: 1060,
///     single_multiply_adds: 1024,
///     single_instructions: 1024,
///     workgroup_bytes: 1024,
///     ..Loop::default()
/// };
/// let kernel = Kernel {
///     main,
///     invocations: 128.0,
///     vector_registers: 120.0,
///     workgroup_bytes: 12_800.0,
///     latency_ratio: 1.7,
/// };
/// let work = Work {
///     workgroups: 512.0,
///     multiply_adds: 2048.0_f64.powi(3),
///     bytes: 3.0 * 4.0 * 2048.0 * 2048.0,
/// };
/// let (seconds, limit) = predict(&Gpu::RX_7900_XTX, &kernel, &work);
/// assert!(limit == Limit::Vector && seconds > 300e-6 && seconds < 400e-6);
/// ```
#[must_use]
pub fn predict(gpu: &Gpu, kernel: &Kernel, work: &Work) -> (f64, Limit) {
    let memory = work.bytes / gpu.bandwidth;
    if kernel.main.multiply_adds() == 0 {
        return (memory, Limit::Memory);
    }
    let waves = (kernel.invocations / WAVE).ceil();
    let on_busiest = (work.workgroups / gpu.compute_units).ceil() * waves;
    let multiply_adds = f64::from(kernel.main.multiply_adds());
    let passes = work.multiply_adds / (work.workgroups * kernel.invocations * multiply_adds);
    let (single, matrix) = (
        f64::from(kernel.main.single_multiply_adds),
        f64::from(kernel.main.matrix_products),
    );
    // The others include dot products of bytes. Instructions are subtracted from instructions: a
    // dual or packed instruction is one vector instruction with up to two multiply-adds.
    let multiplying = kernel.main.single_instructions + kernel.main.matrix_products;
    let others = f64::from(kernel.main.vector.saturating_sub(multiplying));
    let cycles =
        single * MULTIPLY_ADD_CYCLES + matrix * MATRIX_PRODUCT_CYCLES + others * OTHER_CYCLES;
    let by_registers = (gpu.vector_registers / kernel.vector_registers).floor();
    let by_workgroup_memory = (gpu.workgroup_bytes / kernel.workgroup_bytes).floor() * waves;
    let resident = gpu
        .waves
        .min(by_registers)
        .min(by_workgroup_memory / gpu.simds)
        .min(on_busiest / gpu.simds);
    let waiting = (kernel.latency_ratio / resident).max(1.0);
    let vector = on_busiest * passes * cycles * waiting / gpu.simds / gpu.clock;
    let bytes = f64::from(kernel.main.workgroup_bytes) * WAVE;
    let shared = on_busiest * passes * bytes / WORKGROUP_BYTES_PER_CYCLE / gpu.clock;
    let limits = [
        (vector, Limit::Vector),
        (shared, Limit::WorkgroupMemory),
        (memory, Limit::Memory),
    ];
    let longest = |a: (f64, Limit), b: (f64, Limit)| if b.0 > a.0 { b } else { a };
    limits.into_iter().fold((0.0, Limit::Vector), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Kernel = Kernel {
        main: Loop {
            instructions: 300,
            vector: 200,
            single_multiply_adds: 100,
            single_instructions: 100,
            dot_products: 0,
            matrix_products: 0,
            workgroup_bytes: 50,
        },
        invocations: 128.0,
        vector_registers: 96.0,
        workgroup_bytes: 8192.0,
        latency_ratio: 4.0,
    };
    const WORK: Work = Work {
        workgroups: 960.0,
        // Ten passes through the loop.
        multiply_adds: 960.0 * 128.0 * 1000.0,
        bytes: 0.0,
    };
    const GPU: Gpu = Gpu::RX_7900_XTX;

    fn is_near(actual: f64, expected: f64) -> bool {
        (actual / expected - 1.0).abs() < 1e-12
    }

    #[test]
    fn the_slowest_resource_determines_the_time() {
        // 20 waves on a compute unit, 10 passes, 100 + 2 · 100 cycles, two SIMD units.
        let (vector, limit) = predict(&GPU, &KERNEL, &WORK);
        assert_eq!(limit, Limit::Vector);
        assert!(is_near(vector, 20.0 * 10.0 * 300.0 / 2.0 / 2.5e9));
        // 100 multiply-adds in 50 packed or dual instructions leave 150 others.
        let mut packed = KERNEL;
        packed.main.single_instructions = 50;
        let (vector, _) = predict(&GPU, &packed, &WORK);
        assert!(is_near(vector, 20.0 * 10.0 * 400.0 / 2.0 / 2.5e9));
        let mut reads = KERNEL;
        reads.main.workgroup_bytes = 400;
        let (shared, limit) = predict(&GPU, &reads, &WORK);
        assert_eq!(limit, Limit::WorkgroupMemory);
        assert!(is_near(shared, 20.0 * 10.0 * 200.0 / 2.5e9));
        let moves = Work {
            bytes: 960e6,
            ..WORK
        };
        let (memory, limit) = predict(&GPU, &KERNEL, &moves);
        assert_eq!(limit, Limit::Memory);
        assert!(is_near(memory, 1e-3));
    }

    #[test]
    fn few_workgroups_and_few_waves_take_longer() {
        let time = |kernel: &Kernel, work: &Work| predict(&GPU, kernel, work).0;
        let one_more = Work {
            workgroups: 961.0,
            multiply_adds: WORK.multiply_adds * 961.0 / 960.0,
            ..WORK
        };
        assert!(is_near(
            time(&KERNEL, &one_more),
            time(&KERNEL, &WORK) * 1.1
        ));
        // 768 / 256 registers leave 3 waves, which hide three quarters of the latency.
        let large = Kernel {
            vector_registers: 256.0,
            ..KERNEL
        };
        assert!(is_near(
            time(&large, &WORK),
            time(&KERNEL, &WORK) * 4.0 / 3.0
        ));
    }

    #[test]
    fn a_kernel_without_multiply_adds_is_limited_by_memory() {
        let copy = Kernel {
            main: Loop::default(),
            ..KERNEL
        };
        let work = Work {
            multiply_adds: 0.0,
            bytes: 9600.0,
            ..WORK
        };
        let (time, limit) = predict(&GPU, &copy, &work);
        assert_eq!(limit, Limit::Memory);
        assert!(is_near(time, 1e-8));
    }
}
