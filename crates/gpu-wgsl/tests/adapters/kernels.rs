//! Every kernel, compared with its twin on every adapter of this machine.

use gpu_wgsl::check::{
    Data, FailureCause, KernelCase, Values, check_on, check_on_every_adapter, every_adapter,
};
use shaders::params::{
    BufferCopyParams, FmaPeakParams, InverseGaussianEvalParams, InverseGaussianFunction,
    InverseGaussianSampleParams, MatmulParams, PhiloxFillParams, PopcountPeakParams,
};
use shaders::twin::inverse_gaussian_eval::max_epsilons;
use shaders::twin::inverse_gaussian_sample::DRAW_EPSILONS;
use shaders::{Kernel, layout, twin};
use std::borrow::Cow;
use std::f64::consts::FRAC_PI_2;
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::gemm::oracle;
use tensor_core::rng::Philox;

/// Returns sizes around a 16 × 16 tile and around a register block: 0, 1, tile ± 1, a prime,
/// several tiles, not square.
fn matmul_shapes() -> Vec<MatmulParams> {
    let shapes = [
        [0, 3, 4],
        [3, 0, 4],
        [3, 4, 0],
        [1, 1, 1],
        [1, 37, 1],
        [1, 16, 40],
        [40, 16, 1],
        [5, 784, 10],
        [15, 15, 15],
        [16, 16, 16],
        [17, 17, 17],
        [31, 13, 61],
        [64, 16, 64],
        [65, 33, 63],
        [257, 5, 16],
        [100, 128, 72],
        [128, 127, 128],
    ];
    shapes
        .map(|[rows, inner, cols]| MatmulParams::new(rows, inner, cols))
        .to_vec()
}

fn matmul_inputs(params: &MatmulParams, values: Values) -> Vec<Data> {
    let [rows, inner, cols] = params.shape();
    vec![values.f32s(rows * inner, 0), values.f32s(inner * cols, 1)]
}

fn matmul_twin(kernel: &Kernel, params: &MatmulParams, inputs: &[Data], outputs: &mut [Data]) {
    twin::matmul_naive(
        kernel,
        params,
        inputs[0].f32s(),
        inputs[1].f32s(),
        outputs[0].f32s_mut(),
    );
}

/// Returns the tolerance of a matrix product. Each term of a sum passes at most `inner` roundings
/// of ε/2, fused or not. Two sums of the same terms therefore differ by at most `inner · ε ·
/// Σ|a·b|`; one more ε covers second-order terms.
fn matmul_bound(params: &MatmulParams, inputs: &[Data]) -> Tolerance {
    let truth = oracle(inputs[0].f32s(), inputs[1].f32s(), params.shape())
        .expect("the inputs match the shape");
    Tolerance::relative(params.shape()[1] + 1).scaled_by(truth.magnitudes)
}

fn matmul_case(kernel: &Kernel) -> KernelCase<'_, MatmulParams> {
    KernelCase {
        kernel,
        needs: &[],
        shapes: matmul_shapes(),
        inputs: matmul_inputs,
        twin: matmul_twin,
        tolerance: matmul_bound,
        fails_on: &[],
    }
}

#[test]
fn matmul_naive_matches_its_twin() {
    check_on_every_adapter(&matmul_case(&layout::MATMUL_NAIVE));
}

#[test]
fn matmul_tile_matches_its_twin() {
    check_on_every_adapter(&KernelCase {
        twin: |kernel, params, inputs, outputs| {
            twin::matmul_tile(
                kernel,
                params,
                inputs[0].f32s(),
                inputs[1].f32s(),
                outputs[0].f32s_mut(),
            );
        },
        ..matmul_case(&layout::MATMUL_TILE)
    });
}

#[test]
fn philox_fill_matches_its_twin() {
    let sizes = [
        0, 1, 3, 4, 5, 255, 256, 257, 1021, 1023, 1024, 1025, 4099, 100_003,
    ];
    check_on_every_adapter(&KernelCase {
        kernel: &layout::PHILOX_FILL,
        needs: &[],
        shapes: sizes
            .map(|n| PhiloxFillParams::new(0x0123_4567_89AB_CDEF, u64::MAX - u64::from(n), n))
            .to_vec(),
        inputs: |_, _| vec![],
        twin: |kernel, params, _, outputs| twin::philox_fill(kernel, params, outputs[0].u32s_mut()),
        tolerance: |_, _| Tolerance::exact(),
        fails_on: &[],
    });
}

/// Mean and shape of the compared distributions: moderate, nearly normal, nearly Lévy, large,
/// small, and even closer to Lévy.
const PARAMETERS: [[f64; 2]; 6] = [
    [1.0, 2.0],
    [3.0, 1e9],
    [1.1, 1e-6],
    [1e12, 1e13],
    [1e-12, 3e-13],
    [2.0, 2e-12],
];

/// Returns parameters for every function of every distribution, and for one function at sizes 0, 1,
/// workgroup ± 1, a prime and several workgroups.
fn inverse_gaussian_shapes() -> Vec<InverseGaussianEvalParams> {
    let sizes = [0, 1, 255, 256, 257, 1009, 5 * 256];
    let of = |function, [mean, shape]: [f64; 2], n| {
        InverseGaussianEvalParams::new(function, mean, shape, n)
    };
    let distributions = InverseGaussianFunction::ALL
        .into_iter()
        .flat_map(|function| PARAMETERS.map(|distribution| of(function, distribution, 4099)));
    let sizes = sizes.map(|n| of(InverseGaussianFunction::Sf, PARAMETERS[0], n));
    distributions.chain(sizes).collect()
}

/// Returns the inputs of the kernel. `Values::Random` are numbers around the mean. The large and
/// the small values have both signs, so some are outside of the support.
fn inverse_gaussian_inputs(params: &InverseGaussianEvalParams, values: Values) -> Vec<Data> {
    let data = values.f32s(params.n as usize, 0);
    if values != Values::Random {
        return vec![data];
    }
    let mean = params.mean[0];
    // Numbers x for which √(shape · (x − mean)² / (mean² · x)), with the sign of x − mean, is `14
    // u`. Every fourth number is close to the mean.
    let ratio = 2.0 / params.twice_ratio;
    let number = |(i, u): (usize, &f32)| {
        let t = 7.0 * u * ratio.sqrt();
        let root = t.abs() + (1.0 + t * t).sqrt();
        match i % 4 {
            0 => mean * (1.0 + 1e-3 * u * u * u),
            _ if t < 0.0 => (mean / root) / root,
            _ => (mean * root) * root,
        }
    };
    vec![Data::F32(
        data.f32s().iter().enumerate().map(number).collect(),
    )]
}

fn inverse_gaussian_case(kernel: &Kernel) -> KernelCase<'_, InverseGaussianEvalParams> {
    KernelCase {
        kernel,
        needs: &[],
        shapes: inverse_gaussian_shapes(),
        inputs: inverse_gaussian_inputs,
        twin: |kernel, params, inputs, outputs| {
            let (xs, ys) = (inputs[0].f32s(), outputs[0].f32s_mut());
            twin::inverse_gaussian_eval(kernel, params, xs, ys);
        },
        tolerance: inverse_gaussian_bound,
        fails_on: &[],
    }
}

#[test]
fn inverse_gaussian_eval_matches_its_twin() {
    check_on_every_adapter(&inverse_gaussian_case(&layout::INVERSE_GAUSSIAN_EVAL));
}

#[test]
fn an_inverse_gaussian_kernel_that_loses_a_second_part_is_reported() {
    let losses = [
        ("of the mean", "rest - sign * c.y", "rest"),
        ("of the exponent", "-exponent.tail);", "0.0);"),
        ("of a product", "(high - head) + low", "low"),
        ("of a quotient", "left * inverse", "0.0"),
        ("of a root", "(x - head * head)", "0.0"),
        (
            "of a logarithm",
            "(n * FLOAT_LN2_1 - exponent.tail)",
            "n * FLOAT_LN2_1",
        ),
    ];
    for gpu in every_adapter() {
        for (loss, from, to) in losses {
            let kernel = broken(&layout::INVERSE_GAUSSIAN_EVAL, from, to);
            let failure = check_on(gpu, &inverse_gaussian_case(&kernel)).expect_err(loss);
            assert!(
                matches!(failure.fault, FailureCause::Mismatch(_)),
                "{loss}: {failure}"
            );
        }
    }
}

/// Returns the tolerance: twice the error bound of the function, because kernel and twin are both
/// within this bound of the exact value. The kernel corrects quotients and roots, so only fused
/// operations round differently. The tolerance of the log-density is relative to at least 1.
fn inverse_gaussian_bound(params: &InverseGaussianEvalParams, inputs: &[Data]) -> Tolerance {
    let function = InverseGaussianFunction::from_code(params.function);
    let twice = Tolerance::relative(2 * max_epsilons(function));
    if function != InverseGaussianFunction::LnPdf {
        return twice.or_absolute(f32::MIN_POSITIVE.into());
    }
    let mut ys = vec![0.0; params.n as usize];
    let kernel = &layout::INVERSE_GAUSSIAN_EVAL;
    twin::inverse_gaussian_eval(kernel, params, inputs[0].f32s(), &mut ys);
    twice.scaled_by(ys.iter().map(|y| f64::from(y.abs()).clamp(1.0, f64::MAX)))
}

/// Key and stream number of the compared draws.
const DRAWS: [u64; 2] = [0x0123_4567_89AB_CDEF, 9];

fn inverse_gaussian_draws() -> Vec<InverseGaussianSampleParams> {
    let [key, stream] = DRAWS;
    let sizes = [0, 1, 255, 256, 257, 1009, 5 * 256, 20_011];
    let draws = sizes.into_iter().zip(PARAMETERS.into_iter().cycle());
    draws
        .map(|(n, [mean, shape])| {
            InverseGaussianSampleParams::new(mean, shape, key, stream, 7..7 + n)
        })
        .collect()
}

#[test]
fn inverse_gaussian_sample_matches_its_twin() {
    check_on_every_adapter(&KernelCase {
        kernel: &layout::INVERSE_GAUSSIAN_SAMPLE,
        needs: &[],
        shapes: inverse_gaussian_draws(),
        inputs: |_, _| vec![],
        twin: |kernel, params, _, outputs| {
            twin::inverse_gaussian_sample(kernel, params, outputs[0].f32s_mut());
        },
        tolerance: |_, _| Tolerance::relative(2 * DRAW_EPSILONS),
        fails_on: &[],
    });
}

/// Checks that rounding cannot change the choice between candidates in the compared draws. If this
/// test fails, the test above may fail on a correct adapter: choose another key.
#[test]
fn no_draw_that_is_compared_is_chosen_by_a_rounding() {
    let random = Philox::new(DRAWS[0]).stream(DRAWS[1]);
    for params in inverse_gaussian_draws() {
        for number in params.first..params.first + params.n {
            let [first, second, third, _] = random.block(number.into()).map(f64::from);
            let z = (-2.0 * (first / 2_f64.powi(32)).ln()).sqrt()
                * (second / 2_f64.powi(32) * FRAC_PI_2).sin();
            let t = 0.5 * z * f64::from(params.root_ratio);
            let q = (t + t.hypot(1.0)).powi(2);
            let tie = third / 2_f64.powi(32) * (1.0 + q) - 1.0;
            assert!(tie.abs() > 1e-5, "draw {number} of {params:?}: {tie:e}");
        }
    }
}

#[test]
fn buffer_copy_matches_its_twin() {
    let sizes = [0, 1, 255, 256, 257, 1009, 5 * 256];
    check_on_every_adapter(&KernelCase {
        kernel: &layout::BUFFER_COPY,
        needs: &[],
        shapes: sizes.map(BufferCopyParams::new).to_vec(),
        inputs: |params, values| vec![values.f32s(4 * params.n_vec4 as usize, 0)],
        twin: |kernel, params, inputs, outputs| {
            twin::buffer_copy(kernel, params, inputs[0].f32s(), outputs[0].f32s_mut());
        },
        tolerance: |_, _| Tolerance::exact(),
        fails_on: &[],
    });
}

#[test]
fn fma_peak_matches_its_twin() {
    let shapes = [[0, 1], [1, 0], [1, 1], [63, 1], [64, 2], [65, 1], [257, 4]];
    check_on_every_adapter(&KernelCase {
        kernel: &layout::FMA_PEAK,
        needs: &[],
        shapes: shapes
            .map(|[n, rounds]| FmaPeakParams::new(n, rounds))
            .to_vec(),
        inputs: |_, _| vec![],
        twin: |kernel, params, _, outputs| twin::fma_peak(kernel, params, outputs[0].f32s_mut()),
        // Each step halves the previous terms, so errors do not accumulate: one rounding per step,
        // two if the adapter does not fuse, and seven in the sum.
        tolerance: |_, _| Tolerance::relative(8),
        fails_on: &[],
    });
}

#[test]
fn popcount_peak_matches_its_twin() {
    let shapes = [[0, 1], [1, 0], [1, 1], [63, 1], [64, 2], [65, 1], [257, 4]];
    let masks = [0, u32::MAX, 0x5a5a_00ff];
    let params = |[n, rounds]: [u32; 2]| masks.map(|mask| PopcountPeakParams::new(n, rounds, mask));
    check_on_every_adapter(&KernelCase {
        kernel: &layout::POPCOUNT_PEAK,
        needs: &[],
        shapes: shapes.into_iter().flat_map(params).collect(),
        inputs: |_, _| vec![],
        twin: |kernel, params, _, outputs| {
            twin::popcount_peak(kernel, params, outputs[0].u32s_mut());
        },
        tolerance: |_, _| Tolerance::bits(),
        fails_on: &[],
    });
}

#[test]
fn a_kernel_of_more_than_65535_workgroups_reaches_its_end() {
    // 65 537 tiles of 16 rows, so that the grid has two rows of workgroups.
    let rows = 65_537 * 16;
    let column: Vec<f32> = Values::Random.f32s(rows, 7).f32s().to_vec();
    for gpu in every_adapter() {
        let a = gpu.upload("a", &[rows, 1], &column).unwrap();
        let b = gpu.upload("b", &[1, 1], &[2.0_f32]).unwrap();
        let c = gpu.alloc::<f32>("c", &[rows, 1]).unwrap();
        let params = MatmulParams::new(u32::try_from(rows).unwrap(), 1, 1);
        gpu.dispatch(&layout::MATMUL_NAIVE, &params, &[&a, &b, &c])
            .unwrap();
        let twice: Vec<f32> = column.iter().map(|x| 2.0 * x).collect();
        assert_close(gpu.read(&c).unwrap(), twice, Tolerance::exact());
    }
}

/// Breaks a correct kernel by a single edit of its text.
pub(crate) fn broken(kernel: &Kernel, from: &str, to: &str) -> Kernel {
    assert!(
        kernel.source.contains(from),
        "the kernel does not contain {from:?}"
    );
    Kernel {
        source: Cow::Owned(kernel.source.replacen(from, to, 1)),
        ..kernel.clone()
    }
}

#[test]
fn broken_kernels_are_reported() {
    let naive = &layout::MATMUL_NAIVE;
    let faults = [
        (
            "drops the last term",
            broken(naive, "k < params.inner", "k + 1u < params.inner"),
        ),
        (
            "swaps the operands' rows",
            broken(
                naive,
                "a[row * params.inner + k]",
                "a[col * params.inner + k]",
            ),
        ),
        (
            "forgets the guard of rows",
            broken(naive, "row >= params.rows || ", ""),
        ),
        (
            "leaves the last column",
            broken(naive, "col >= params.cols", "col + 1u >= params.cols"),
        ),
        (
            "writes transposed",
            broken(
                naive,
                "c[row * params.cols + col]",
                "c[col * params.rows + row]",
            ),
        ),
        (
            "loses precision",
            broken(naive, "= sum;", "= sum * 1.0001;"),
        ),
    ];
    for gpu in every_adapter() {
        for (fault, kernel) in &faults {
            let case = KernelCase {
                twin: |_, params, inputs, outputs| {
                    matmul_twin(&layout::MATMUL_NAIVE, params, inputs, outputs)
                },
                ..matmul_case(kernel)
            };
            let failure = check_on(gpu, &case).expect_err(fault);
            assert!(
                matches!(
                    failure.fault,
                    FailureCause::Mismatch(_) | FailureCause::Guard(_)
                ),
                "{fault}: {failure}"
            );
        }
    }
}
