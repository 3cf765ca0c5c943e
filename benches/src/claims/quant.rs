//! Claims of the class-project notes on low-bit networks: the search for a level, the moving
//! average, the constant bit, the regression of factors, learned bases, singular batches, max-pool
//! of signs, floats in memory, and the size of a tile.

use super::{Claim, Correction, Reading, Verdict};
use anyhow::Result;
use gpu_wgsl::check::REQUIRE_GPU;
use gpu_wgsl::{Gpu, Select};
use quant::{
    Activation, FrozenNetwork, InputImage, Layer, LevelSet, MAX_BITS, MovingBasis, Network, Normal,
    Packing, Qem, RectifiedNormal, Sample, Ties, Weights, Window, abc,
};
use tensor_core::plan::{Plan, Target};
use tensor_core::{DType, Executor, Host, Tensor};

/// The factor of the notes' moving average.
const AVERAGE_FACTOR: f64 = 0.9;
/// A batch whose numbers all have the highest level of the basis (1, 2).
const ONE_CELL: [f32; 4] = [2.5, 3.0, 3.5, 4.0];
/// The weights of a regression whose solution is known.
const REGRESSED: [f32; 8] = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5];
/// The positions of a max-pool of 2 x 2.
const POOL: u32 = 4;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s1.search",
        claim: "a search that adds or subtracts half of the remaining range at each step finds the level: different codes at each threshold and its two neighbours, for 1 to 8 bits",
        claimed: &[0.0; MAX_BITS],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            Ok(Some(
                (1..=MAX_BITS).map(different_codes).collect::<Result<_>>()?,
            ))
        },
    },
    Claim {
        id: "s1.levels",
        claim: "K bits have 2^K levels with 2^K - 1 thresholds between them: both numbers for 1, 2, 3 and 8 bits",
        claimed: &[2.0, 1.0, 4.0, 3.0, 8.0, 7.0, 256.0, 255.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let sizes = [1, 2, 3, 8].map(|bits| {
                let levels = LevelSet::uniform(bits, 0.7)?;
                let (n_levels, n_thresholds) = (levels.levels().len(), levels.thresholds().len());
                anyhow::Ok([n_levels, n_thresholds].map(|n| n as f64))
            });
            let sizes: Vec<[f64; 2]> = sizes.into_iter().collect::<Result<_>>()?;
            Ok(Some(sizes.concat()))
        },
    },
    Claim {
        id: "s1.first-basis",
        claim: "the first basis, 1/K to K/K, has 2^K levels: number of different levels for 1, 2 and 3 bits",
        claimed: &[2.0, 4.0, 8.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "for 3 bits two levels are equal, as 1 + 2 = 3; with a basis of powers of two: the same numbers",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[2.0, 4.0, 8.0],
            reading: Reading::Printed(0),
            measure: || different_levels(|j| f32::from(1_u8 << (j - 1))),
        }),
        expected: Verdict::HoldsWithCorrection,
        // The scale 1/K changes no equality of levels, and whole numbers have no rounding errors.
        measure: || different_levels(f32::from),
    },
    Claim {
        id: "s1.average",
        claim: "a moving average with factor 0.9 moves the basis 1 by a tenth of the distance to the basis 2; the prototype converts the factor to an integer",
        claimed: &[1.1],
        reading: Reading::Printed(1),
        correction: Some(Correction {
            claim: "with the factor as a fraction",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[1.1],
            reading: Reading::Printed(1),
            measure: || average(AVERAGE_FACTOR),
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || average(AVERAGE_FACTOR.trunc()),
    },
    Claim {
        id: "s1.extra-bit",
        claim: "an additional bit that is always +1 lowers the error of activations: mean square error on a rectified normal distribution with it, divided by that without it, for 1 to 3 bits",
        claimed: &[1.0; 3],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let ratios = (1..=3).map(|bits| {
                let qem = Qem::bits(bits)?;
                let error = |qem: &Qem| anyhow::Ok(qem.fit(&RectifiedNormal)?.mean_square_error);
                let without = error(&qem)?;
                Ok(error(&qem.affine())? / without)
            });
            Ok(Some(ratios.collect::<Result<_>>()?))
        },
    },
    Claim {
        id: "s1.regression",
        claim: "the factors of shifted signs are a linear regression: factors and mean square error for 3 bases and the weights -2, -1, -1/2, 0, 1/2, 1, 3/2, 5/2",
        claimed: &[0.625, 0.75, 0.875, 0.140_625],
        reading: Reading::Printed(6),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let fit = abc(&Sample::new(&REGRESSED)?, 3, false)?;
            let numbers = fit.factors.into_iter().chain([fit.mean_square_error]);
            Ok(Some(numbers.collect()))
        },
    },
    Claim {
        id: "s1.learned-bases",
        claim: "the learned bases of LQ-Nets need fewer bits than the shifted signs of ABC-Net: mean square error on a normal distribution with 2 bits, divided by that with 3 bases, and with 3 bits, divided by that with 5 bases",
        claimed: &[1.0; 2],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let normal = Normal::STANDARD;
            let pairs = [(2, 3), (3, 5)].map(|(bits, bases)| {
                let learned = Qem::signs(bits)?.fit(&normal)?.mean_square_error;
                anyhow::Ok(learned / abc(&normal, bases, false)?.mean_square_error)
            });
            Ok(Some(pairs.into_iter().collect::<Result<_>>()?))
        },
    },
    Claim {
        id: "s1.singular-batch",
        claim: "the next basis is the solution of least squares on a batch: number of batches without a solution, for one batch whose numbers all have the same level",
        claimed: &[0.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "the next basis after the basis (1, 2), with a ridge of 1e-4 toward the old basis",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[1.124_998_438, 2.124_998_438],
            reading: Reading::Printed(9),
            measure: || {
                let qem = Qem::signs(2)?.ridge(1e-4)?;
                let (basis, _) = qem.step(&Sample::new(&ONE_CELL)?, &[1.0, 2.0], 0.0)?;
                Ok(Some(basis))
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || {
            let qem = Qem::signs(2)?.ridge(0.0)?;
            let step = qem.step(&Sample::new(&ONE_CELL)?, &[1.0, 2.0], 0.0);
            Ok(Some(vec![if step.is_err() { 1.0 } else { 0.0 }]))
        },
    },
    Claim {
        id: "s1.max-pool",
        claim: "max-pool on a binary network is useless: bits of information in the maximum of 2 x 2 random signs (of 1 bit in a sign)",
        claimed: &[0.337],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let n_patterns = 1_u32 << POOL;
            let n_negative = (0..n_patterns).filter(|&signs| signs == 0).count();
            let p = n_negative as f64 / f64::from(n_patterns);
            let bits = |p: f64| -p * p.log2();
            Ok(Some(vec![bits(p) + bits(1.0 - p)]))
        },
    },
    Claim {
        id: "s1.no-floats.host",
        claim: "floats are never written to memory: bytes of floats that the steps of a network write before its result, for 2-bit weights and activations as bits, and as bytes",
        claimed: &[0.0; 2],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let target = Host::new().target();
            let bytes = [Packing::Bits, Packing::Bytes].map(|packing| {
                let frozen = frozen(packing)?;
                written_floats(&frozen.outputs_of(&images(&frozen)?)?, &target)
            });
            Ok(Some(bytes.into_iter().collect::<Result<_>>()?))
        },
    },
    Claim {
        id: "s1.no-floats.device",
        claim: "on a device too: bytes of floats that packed layers write, and the steps of the layers that are tensor programs before the result, as bits, and as bytes",
        claimed: &[0.0; 2],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let gpu = match Gpu::open(Select::Best) {
                Err(gpu_wgsl::Error::NoAdapter { .. }) if !requires_gpu() => return Ok(None),
                other => other?,
            };
            let bytes = [Packing::Bits, Packing::Bytes].map(|packing| {
                let frozen = frozen(packing)?;
                let images = images(&frozen)?;
                let of_programs = written_floats(&frozen.outputs_of(&images)?, &gpu.target())?;
                let layers = frozen.upload(&gpu)?.layers_of(&images)?;
                let packed = layers.split_last().map_or(&[][..], |(_, packed)| packed);
                let of_layers = packed.iter().map(|layer| {
                    let (shape, dtype) = (layer.shape()?, layer.dtype()?);
                    Ok(float_bytes(dtype, shape))
                });
                Ok(of_programs + of_layers.sum::<Result<f64>>()?)
            });
            Ok(Some(bytes.into_iter().collect::<Result<_>>()?))
        },
    },
    Claim {
        id: "s1.tile",
        claim: "a tile of 1 x 3 x 3 x 64 x 3 x 3 words of 8 bytes has about 41 kB",
        claimed: &[41.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let words = vec![0_u64; 3 * 3 * 64 * 3 * 3];
            Ok(Some(vec![size_of_val(&words[..]) as f64 / 1e3]))
        },
    },
];

/// Returns whether a missing adapter is an error.
fn requires_gpu() -> bool {
    std::env::var_os(REQUIRE_GPU).is_some_and(|value| value == "1")
}

/// Returns the number of numbers at and next to the thresholds of a level set for which the search
/// and the definition return different codes.
fn different_codes(bits: usize) -> Result<f64> {
    let levels = LevelSet::uniform(bits, 0.7)?.with_ties(Ties::Up);
    let near = |t: &f32| [t.next_down(), *t, t.next_up()];
    let xs: Vec<f32> = levels.thresholds().iter().flat_map(near).collect();
    let (codes, _) = levels.quantize(&xs);
    let expected = xs.iter().map(|x| {
        let n_passed = levels.thresholds().iter().filter(|&t| x >= t).count();
        levels.codes()[n_passed]
    });
    Ok(codes.iter().zip(expected).filter(|&(&a, b)| a != b).count() as f64)
}

/// Returns the number of different levels of 1, 2 and 3 bits, for a basis with the element
/// `basis(j)` for bit `j`, counted from 1.
fn different_levels(basis: fn(u8) -> f32) -> Result<Option<Vec<f64>>> {
    let counts = [1, 2, 3].map(|bits| {
        let basis: Vec<f32> = (1..=bits).map(basis).collect();
        let mut levels = LevelSet::signs(&basis)?.levels().to_vec();
        levels.dedup();
        anyhow::Ok(levels.len() as f64)
    });
    counts.into_iter().collect::<Result<_>>().map(Some)
}

/// Returns a network with two packed layers between its first and its last.
fn frozen(packing: Packing) -> Result<FrozenNetwork> {
    let wave = |n: usize| -> Vec<f32> { (0..n).map(|i| (i as f32 * 0.7).sin()).collect() };
    let three = Window::new([3, 3]).with_padding([[1, 1], [1, 1]]);
    let packed = |name, n_outputs: usize, n_inputs: usize| {
        let weights = wave(n_outputs * three.n_taps() * n_inputs);
        let weights = Weights::fit(&Qem::signs(2)?, &weights, n_outputs)?;
        anyhow::Ok(Layer::new(name, n_outputs, three, weights))
    };
    let levels = Activation::Levels(LevelSet::uniform_from_zero(2, 0.5)?);
    let pool = Window::new([2, 2]).with_stride([2, 2]);
    let (first, last) = (wave(32 * 9 * 3), wave(10 * 16 * 40));
    let layers = vec![
        Layer::new("first", 32, three, Weights::Float(first)).with_activation(levels.clone()),
        packed("second", 40, 32)?
            .with_pool(pool)
            .with_activation(levels.clone()),
        packed("third", 40, 40)?.with_activation(levels),
        Layer::new("last", 10, Window::new([4, 4]), Weights::Float(last)),
    ];
    Ok(Network::new(InputImage::unit([8, 8, 3]), layers)?.freeze_to(packing)?)
}

/// Returns one image for a network.
fn images(network: &FrozenNetwork) -> Result<Tensor> {
    let pixels = vec![100; network.input_size().iter().product()];
    Ok(network.codes(&pixels)?)
}

/// Returns the bytes of floats that the steps of a program write in addition to its result.
fn written_floats(program: &Tensor, target: &Target) -> Result<f64> {
    let (plan, _) = Plan::new(&[program], target)?;
    let others = plan.steps.iter().map(|step| step.output);
    let others = others.filter(|output| !plan.outputs.contains(output));
    Ok(others
        .map(|output| {
            let buffer = &plan.buffers[output.0];
            float_bytes(buffer.dtype, &buffer.shape)
        })
        .sum())
}

/// Returns the bytes of an array if its elements are floats, and otherwise 0.
fn float_bytes(dtype: DType, shape: &[usize]) -> f64 {
    let n_elements: usize = shape.iter().product();
    if dtype.is_float() {
        (n_elements * dtype.bytes()) as f64
    } else {
        0.0
    }
}

/// Returns the average of the basis 1 after one update with the basis 2.
fn average(factor: f64) -> Result<Option<Vec<f64>>> {
    let mut average = MovingBasis::plain(&[1.0], factor)?;
    Ok(Some(average.update(&[2.0])?.to_vec()))
}
