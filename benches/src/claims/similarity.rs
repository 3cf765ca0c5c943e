//! Claims of the blog note "Compiling Torch Code" and of the matrix computation in "Tracing GPU
//! Resources": the memory of the similarity of all pairs of columns, and its compilation.
//!
//! Method: sizes are those of the arrays of the same expression, evaluated as one program or, by
//! [`Eager`], one operation after the other. The profile of the note counts in GiB and MiB.

use super::{Claim, Correction, Reading, Verdict};
use crate::workloads::similarity;
use anyhow::Result;
use harness::memory;
use tensor_core::rng::Philox;
use tensor_core::{Eager, Host, Tensor, jit};

/// Limit of the extra memory, in bytes, below which no array `(256, 2000, 2000)` was allocated; in
/// f32 this array has 4.1 GB.
const NO_INTERMEDIATE: f64 = 4e6;
/// Seed of the random columns.
const SEED: u64 = 2023;
const MIB: f64 = (1 << 20) as f64;
/// Numbers of columns of the first two blocks and of the last block, if 270,725 columns are split
/// into blocks of 1000. The blocks between them have the same shape as the first two.
const BLOCKS: [usize; 3] = [1000, 1000, 725];
/// Number of rows of the matrix computation.
const ROWS: usize = 256;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s0.similarity.memory",
        claim: "the fused similarity of 2000 columns over 256 rows holds no intermediate (n, d, d): peak bytes in addition to the result",
        claimed: &[NO_INTERMEDIATE],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (host, x) = (Host::new(), normal(&similarity::SHAPE));
            let (counts, peak) =
                memory::peak_extra_bytes(|| similarity::similar(&x).sum(0).eval::<u32>(&host));
            Ok(Some(vec![
                peak as f64 - (counts?.len() * size_of::<u32>()) as f64,
            ]))
        },
    },
    Claim {
        id: "s0.similarity.naive",
        claim: "one operation after the other, the similarity takes O(n d²) memory: exponents of the peak in n and in d",
        claimed: &[1.0, 2.0],
        reading: Reading::Printed(1),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let at = eager_peak([32, 64])?;
            let exponent = |peak: f64| (peak / at).log2();
            Ok(Some(vec![
                exponent(eager_peak([64, 64])?),
                exponent(eager_peak([32, 128])?),
            ]))
        },
    },
    Claim {
        id: "s0.similarity.table",
        claim: "arrays of 256 rows and 2000 columns in the profile without compiler: GiB of the differences, of the differences \
            with their absolute values, and MiB of the comparisons",
        claimed: &[3.81, 7.63, 976.56],
        reading: Reading::Printed(2),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let x = normal(&similarity::SHAPE);
            let difference = x.expand_dims(2) - x.expand_dims(1);
            let (of_one, of_all) = (mib(&difference)?, mib(&difference.abs())?);
            let comparisons = mib(&difference.abs().lt(1.0))?;
            Ok(Some(vec![
                of_one / 1024.0,
                (of_one + of_all) / 1024.0,
                comparisons,
            ]))
        },
    },
    Claim {
        id: "s0.similarity.warm-up",
        claim: "a call on arrays (1, 1000) compiles the function before the profile starts: number of compilations afterwards, \
            for blocks of 1000 of 270,725 columns over 256 rows",
        claimed: &[0.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "each pair of shapes is compiled separately, and neither the 256 rows nor the last block, of 725 columns, has \
                occurred before: the same number",
            verdict: Verdict::DoesNotHold,
            claimed: &[4.0],
            reading: Reading::Printed(0),
            measure: compilations_after_warm_up,
        }),
        expected: Verdict::DoesNotHold,
        measure: compilations_after_warm_up,
    },
];

/// Returns a tensor of normally distributed random numbers.
fn normal(shape: &[usize]) -> Tensor {
    let mut x = vec![0.0; shape.iter().product()];
    Philox::new(SEED).fill_normal_f32(0, &mut x);
    Tensor::from_vec(shape, x)
}

/// Returns the size of an array, in MiB, without computing it.
fn mib(tensor: &Tensor) -> Result<f64> {
    let n_elements: usize = tensor.shape()?.iter().product();
    Ok((n_elements * tensor.dtype()?.bytes()) as f64 / MIB)
}

/// Returns the peak bytes of the similarity, computed one operation after the other.
fn eager_peak(shape: [usize; 2]) -> Result<f64> {
    let (host, x) = (Host::new(), normal(&shape));
    let counts = Eager::new(host.clone()).run(|| similarity::similar(&x).sum(0));
    counts.realize(&host)?;
    Ok(host.peak_bytes() as f64)
}

/// Returns the number of compilations after a call on other shapes. The compiled function is only
/// planned: it is the planning that depends on shapes.
fn compilations_after_warm_up() -> Result<Option<Vec<f64>>> {
    let host = Host::new();
    let compiled = jit(|args: &[Tensor]| {
        let difference = args[0].expand_dims(2) - args[1].expand_dims(1);
        Ok(vec![difference.abs().lt(1.0).all(0)])
    });
    let warm_up = normal(&[1, BLOCKS[0]]);
    compiled.plan(&host, &[&warm_up, &warm_up])?;
    let before = compiled.counters().misses;
    let blocks = BLOCKS.map(|cols| normal(&[ROWS, cols]));
    for (left, right) in blocks
        .iter()
        .flat_map(|a| blocks.iter().map(move |b| (a, b)))
    {
        compiled.plan(&host, &[left, right])?;
    }
    Ok(Some(vec![(compiled.counters().misses - before) as f64]))
}
