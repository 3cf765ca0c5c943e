//! Claims of the class-project notes on low-bit networks about kernels and their machine: numbers
//! of threads, shared memory, layouts and sizes.
//!
//! Method: the order of threads is that of the simulator of the crate `shaders` ([`launch`]). Reads
//! of global memory are counted in two products of matrices that run in the simulator. The bank of
//! a word is computed from its definition. Limits of a GPU are measured where there is an NVIDIA
//! GPU.

use super::{Claim, Reading, Verdict, timing};
use anyhow::{Context, Result};
use harness::energy::NVIDIA;
use quant::Window;
use shaders::twin::{Grid, Invocation, launch, launch_workgroups};
use std::cell::Cell;
use telemetry::nvml;
use tensor_core::compare::{Tolerance, compare};
use tensor_core::plan::Plan;
use tensor_core::{Executor, Host, Tensor, View, grad};

/// Threads of a block along x, y and z in the check of their order.
const BLOCK: [u32; 3] = [8, 4, 4];
/// Elements of the array in the notes' measurement.
const N: usize = 1024;
/// Number of threads of a warp, and of banks of shared memory.
const WARP: u32 = 32;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s1.allocation",
        claim: "an elementwise operation on 1024 floats makes one allocation of 4 KiB on the device: number of written arrays, \
            and their KiB",
        claimed: &[1.0, 4.0],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let x = Tensor::from_vec(&[N], vec![1.0_f32; N]) + 1.0;
            let (plan, _) = Plan::new(&[&x], &Host::new().target())?;
            let bytes = plan
                .steps
                .iter()
                .map(|step| plan.buffers[step.output.0].bytes());
            let kib = bytes.sum::<usize>() as f64 / 1024.0;
            Ok(Some(vec![plan.steps.len() as f64, kib]))
        },
    },
    Claim {
        id: "s1.first-gradient",
        claim: "the first call of a gradient takes longer, because it is compiled: time of a later call divided by that of the \
            first",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let x = Tensor::from_vec(&[4], vec![0.5_f32; 4]);
            Ok(Some(vec![timing::later_by_first(gradient, &[&x])?]))
        },
    },
    Claim {
        id: "s1.layout",
        claim: "50 images of 100 x 100 pixels and 3 channels in WHCN order, column by column, have the layout of NCHW, row by \
            row: distances between neighbours along W, H, C and N",
        claimed: &[1.0, 100.0, 10_000.0, 30_000.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let images = View::contiguous(&[50, 3, 100, 100])?.permute(&[3, 2, 1, 0])?;
            let strides = images.strides().iter();
            Ok(Some(strides.map(|&stride| stride as f64).collect()))
        },
    },
    Claim {
        id: "s1.conv-size",
        claim: "a convolution has (size - kernel + 2 padding) / stride + 1 outputs, rounded down: number of differences, for \
            sizes up to 16, kernels up to 5, strides up to 4 and padding up to 3",
        claimed: &[0.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let mut n_different = 0;
            for (size, kernel) in (5..=16).flat_map(|size| (1..=5).map(move |k| (size, k))) {
                for (stride, padding) in (1..=4).flat_map(|s| (0..=3).map(move |p| (s, p))) {
                    let window = Window::new([kernel; 2]).with_stride([stride; 2]);
                    let window = window.with_padding([[padding; 2]; 2]);
                    let printed = (size - kernel + 2 * padding) / stride + 1;
                    n_different += usize::from(window.output_size([size; 2])? != [printed; 2]);
                }
            }
            Ok(Some(vec![n_different as f64]))
        },
    },
    Claim {
        id: "s1.shared-memory",
        claim: "blocks of N x N threads that share what they load read N times less global memory: reads of a product of 64 x \
            64 matrices, one element per thread, divided by those with shared tiles, for N = 2, 4 and 16",
        claimed: &[2.0, 4.0, 16.0],
        reading: Reading::Printed(6),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let saved = [2, 4, 16].map(saved_reads).into_iter();
            saved.collect::<Result<_>>().map(Some)
        },
    },
    Claim {
        id: "s1.thread-order",
        claim: "the index of a thread is x + width (y + height z): number of threads of a block of 8 x 4 x 4 at another position",
        claimed: &[0.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let grid = Grid {
                n_workgroups: 1,
                workgroup_size: BLOCK,
            };
            let (mut position, mut n_different) = (0, 0);
            launch(grid, |at| {
                let [x, y, z] = at.lid;
                n_different += u32::from(x + BLOCK[0] * (y + BLOCK[1] * z) != position);
                position += 1;
            });
            // A block without threads has no thread at another position.
            let n_missing = BLOCK.iter().product::<u32>().abs_diff(position);
            Ok(Some(vec![f64::from(n_different + n_missing)]))
        },
    },
    Claim {
        id: "s1.cores",
        claim: "a multiprocessor has 128 cores for compute capability 6.1 and 6.2",
        claimed: &[128.0, 128.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let cores = [(6, 1), (6, 2)].map(nvml::cores_per_multiprocessor);
            let cores = cores.map(|cores| cores.context("unknown").map(f64::from));
            cores.into_iter().collect::<Result<_>>().map(Some)
        },
    },
    Claim {
        id: "s1.limits",
        claim: "limits of an NVIDIA GPU: threads per block, threads per warp, and blocks along y and z",
        claimed: &[1024.0, 32.0, 65535.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let mut adapters = gpu_wgsl::adapters().into_iter();
            let Some(adapter) = adapters.find(|adapter| adapter.vendor == NVIDIA) else {
                return Ok(None);
            };
            let limits = adapter.limits;
            let numbers = [
                limits.max_compute_invocations_per_workgroup,
                adapter.subgroup_sizes[1],
                limits.max_compute_workgroups_per_dimension,
            ];
            Ok(Some(numbers.map(f64::from).to_vec()))
        },
    },
    Claim {
        id: "s1.packing",
        claim: "votes of 32 threads pack bits into words of 32, and two words make 64 bits: number of words for 64 signs, and \
            bytes of the signs as floats divided by bytes of the words",
        claimed: &[2.0, 32.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let signs = Tensor::from_vec(&[64], vec![1.0_f32; 64]);
            let words = signs.gt(0.0).pack_bits();
            let bytes = |tensor: &Tensor| -> Result<f64> {
                let n_elements: usize = tensor.shape()?.iter().product();
                Ok((n_elements * tensor.dtype()?.bytes()) as f64)
            };
            let n_words: usize = words.shape()?.iter().product();
            Ok(Some(vec![n_words as f64, bytes(&signs)? / bytes(&words)?]))
        },
    },
    Claim {
        id: "s1.banks",
        claim: "successive words of 32 bits are in successive of the 32 banks of shared memory: largest number of threads of a \
            warp on one bank, for successive words and for every second word",
        claimed: &[1.0, 2.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some([1, 2].map(threads_on_a_bank).to_vec())),
    },
];

fn gradient(arguments: &[Tensor]) -> tensor_core::Result<Vec<Tensor>> {
    let loss = (arguments[0].tanh() - 1.0).square().sum(..);
    grad(&loss, &[&arguments[0]])
}

/// Returns the largest number of threads of a warp that access the same bank of shared memory, if
/// the words of neighbouring threads have this distance.
fn threads_on_a_bank(distance: u32) -> f64 {
    let grid = Grid {
        n_workgroups: 1,
        workgroup_size: [WARP, 1, 1],
    };
    let mut threads = [0_u32; WARP as usize];
    launch(grid, |at| {
        threads[(at.lid[0] * distance % WARP) as usize] += 1
    });
    threads.into_iter().max().map_or(f64::NAN, f64::from)
}

/// Returns the reads of global memory of a product of square matrices with one element per thread,
/// divided by those of blocks of `tile` x `tile` threads that share their loads. Both products must
/// be equal.
#[expect(
    clippy::cast_possible_truncation,
    reason = "positions are below 64 x 64"
)]
fn saved_reads(tile: u64) -> Result<f64> {
    const SIDE: u64 = 64;
    let grid = Grid {
        n_workgroups: (SIDE / tile).pow(2),
        workgroup_size: [tile as u32, tile as u32, 1],
    };
    // Small whole numbers, whose products and sums are exact in f32.
    let x: Vec<f32> = (0..SIDE * SIDE).map(|n| (n * 37 % 11) as f32).collect();
    let reads = Cell::new(0_u64);
    let read = |row: u64, col: u64| {
        reads.set(reads.get() + 1);
        x[(row * SIDE + col) as usize]
    };
    // The position of a thread in its block and in the matrix, column before row.
    let places = |thread: Invocation| {
        let [lx, ly, _] = thread.lid.map(u64::from);
        let block = [
            thread.workgroup % (SIDE / tile),
            thread.workgroup / (SIDE / tile),
        ];
        [[lx, ly], [block[0] * tile + lx, block[1] * tile + ly]]
    };
    let mut alone = vec![0.0; x.len()];
    launch(grid, |thread| {
        let [_, [col, row]] = places(thread);
        let products = (0..SIDE).map(|k| read(row, k) * read(k, col));
        alone[(row * SIDE + col) as usize] = f64::from(products.sum::<f32>());
    });
    let n_alone = reads.replace(0);
    let mut shared = vec![0.0_f32; x.len()];
    let at = |row: u64, col: u64| (row * tile + col) as usize;
    launch_workgroups(grid, |block| {
        let mut left = vec![0.0; (tile * tile) as usize];
        let mut right = left.clone();
        for first in (0..SIDE).step_by(tile as usize) {
            // Each thread loads one element of each factor, which all threads of its row or column
            // use after the barrier.
            block.for_each(|thread| {
                let [[lx, ly], [col, row]] = places(thread);
                left[at(ly, lx)] = read(row, first + lx);
                right[at(ly, lx)] = read(first + ly, col);
            });
            block.for_each(|thread| {
                let [[lx, ly], [col, row]] = places(thread);
                let products = (0..tile).map(|k| left[at(ly, k)] * right[at(k, lx)]);
                shared[(row * SIDE + col) as usize] += products.sum::<f32>();
            });
        }
    });
    compare(&shared[..], &alone[..], &Tolerance::exact())?;
    Ok(n_alone as f64 / reads.get() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counted_reads_are_those_of_the_products() {
        for tile in [1, 2, 16] {
            assert_eq!(saved_reads(tile).unwrap(), tile as f64);
        }
    }
}
