//! The convolutions of packed bits and bytes, compared with their twins on every adapter of this
//! machine.

use super::kernels::broken;
use gpu_wgsl::check::{
    Data, FailureCause, KernelCase, Values, check_on, check_on_every_adapter, every_adapter,
};
use shaders::params::PackedConvParams;
use shaders::twin::packed_conv::PackedConvInputs;
use shaders::{Kernel, Params, layout, twin};
use tensor_core::compare::Tolerance;
use tensor_core::rng::Philox;

/// Key of the random words. The stream is the kind of values and the number of the buffer.
const KEY: u64 = 2019;

/// Returns a convolution of one plane and one threshold without padding or pooling.
fn plain(image: [u32; 3], words: u32, out_channels: u32, kernel: [u32; 2]) -> PackedConvParams {
    let [batch, height, width] = image;
    PackedConvParams {
        batch,
        height,
        width,
        words,
        planes: 1,
        groups: 1,
        weight_planes: 1,
        out_channels,
        kernel,
        stride: [1, 1],
        dilation: [1, 1],
        pool: [1, 1],
        pool_stride: [1, 1],
        thresholds: 1,
        code_planes: 1,
        out_groups: 1,
        word_channels: 32,
        ..PackedConvParams::default()
    }
}

/// Computes the sizes of the output, with the same padding on both sides.
fn sized(mut p: PackedConvParams) -> PackedConvParams {
    for (axis, n) in [(0, p.height), (1, p.width)] {
        let reach = p.dilation[axis] * (p.kernel[axis] - 1);
        p.out_size[axis] = (n + 2 * p.padding[axis] - reach - 1) / p.stride[axis] + 1;
        let n = p.out_size[axis] + 2 * p.pool_padding[axis];
        p.pooled_size[axis] = (n - p.pool[axis]) / p.pool_stride[axis] + 1;
    }
    p
}

/// Returns no images, single pixels, pixels around the 32 of a workgroup, channels around the 32 of
/// a word, and every option.
fn shapes() -> Vec<PackedConvParams> {
    let same = |p| PackedConvParams {
        padding: [1, 1],
        ..p
    };
    let shapes = [
        plain([0, 3, 4], 1, 5, [1, 1]),
        plain([1, 1, 1], 1, 1, [1, 1]),
        plain([1, 1, 31], 1, 32, [1, 1]),
        plain([2, 4, 4], 2, 33, [1, 1]),
        plain([1, 3, 11], 3, 70, [1, 1]),
        same(plain([1, 17, 13], 2, 33, [3, 3])),
        same(plain([1, 1, 1], 1, 31, [3, 3])),
        PackedConvParams {
            planes: 2,
            weight_planes: 2,
            row_classes: 3,
            col_classes: 2,
            padding: [2, 0],
            pool: [2, 2],
            pool_stride: [2, 2],
            thresholds: 3,
            code_planes: 2,
            ..plain([2, 8, 7], 1, 32, [5, 1])
        },
        PackedConvParams {
            planes: 3,
            weight_planes: 1,
            groups: 3,
            out_groups: 2,
            stride: [2, 1],
            dilation: [1, 2],
            pool: [3, 3],
            pool_stride: [2, 2],
            pool_padding: [1, 1],
            thresholds: 7,
            code_planes: 3,
            ..same(plain([1, 13, 9], 2, 66, [3, 3]))
        },
        PackedConvParams {
            weight_planes: 3,
            groups: 2,
            out_groups: 5,
            stride: [3, 2],
            row_classes: 1,
            col_classes: 4,
            thresholds: 255,
            code_planes: 8,
            ..same(plain([2, 7, 10], 1, 10, [3, 3]))
        },
    ];
    shapes.map(sized).to_vec()
}

/// Returns the shapes for kernels of sums.
fn shapes_of_sums() -> Vec<PackedConvParams> {
    let without_codes = |p| PackedConvParams { thresholds: 0, ..p };
    shapes().into_iter().map(without_codes).collect()
}

/// Returns the shapes for codes of bytes.
fn shapes_of_bytes() -> Vec<PackedConvParams> {
    let of_bytes = |p| PackedConvParams {
        word_channels: 4,
        code_planes: 1,
        ..p
    };
    shapes().into_iter().map(of_bytes).collect()
}

/// Returns words of random bits, or of equal bits for [`Values::Zeros`] and [`Values::Ones`].
fn words(values: Values, len: u64, stream: u64) -> Vec<u32> {
    let random = Philox::new(KEY).stream(8 * stream + values as u64);
    let word = |i| match values {
        Values::Zeros => 0,
        Values::Ones => u32::MAX,
        Values::Random | Values::Large | Values::Small => random.word(i),
    };
    (0..len).map(word).collect()
}

/// Returns numbers of magnitude below `n`, or any numbers for [`Values::Large`], whose sums wrap.
fn numbers(values: Values, len: u64, stream: u64, n: i32) -> Vec<i32> {
    let words = words(values, len, stream).into_iter();
    let words = words.map(u32::cast_signed);
    let is_any = values == Values::Large;
    words
        .map(|word| if is_any { word } else { word % n })
        .collect()
}

fn inputs(params: &PackedConvParams, values: Values) -> Vec<Data> {
    let lens = params.buffer_lens();
    let n_rows = lens.get(4).map_or(0, |_| u64::from(params.out_size[0]));
    let class = |(place, word): (u64, u32)| {
        let is_row = place < n_rows;
        word % if is_row {
            params.row_classes
        } else {
            params.col_classes
        }
    };
    let classes = (0..).zip(words(Values::Random, lens[4], 4)).map(class);
    let mut inputs = vec![
        Data::U32(words(values, lens[0], 0)),
        Data::U32(words(values, lens[1], 1)),
        Data::I32(numbers(values, lens[2], 2, 9)),
        Data::I32(numbers(values, lens[3], 3, 99)),
        Data::U32(classes.collect()),
    ];
    if params.thresholds > 0 {
        let n_channels = params.out_channels as usize;
        // Products of bytes are larger than counts of bits.
        let typical = if params.word_channels == 4 {
            300_000
        } else {
            200
        };
        let mut thresholds = numbers(values, lens[5], 5, typical);
        for flip in &mut thresholds[..n_channels] {
            *flip = -(*flip & 1);
        }
        // Thresholds ascend, so that all of them matter.
        for channel in 0..n_channels {
            let mut sorted: Vec<i32> = thresholds
                .iter()
                .copied()
                .skip(n_channels + channel)
                .step_by(n_channels)
                .collect();
            sorted.sort_unstable();
            let places = thresholds
                .iter_mut()
                .skip(n_channels + channel)
                .step_by(n_channels);
            places
                .zip(sorted)
                .for_each(|(place, threshold)| *place = threshold);
        }
        let code_bits = params.code_planes * u32::BITS / params.word_channels;
        let mask = u32::MAX >> (u32::BITS - code_bits);
        let toggles = words(values, lens[6], 6)
            .into_iter()
            .map(|word| word & mask);
        inputs.extend([Data::I32(thresholds), Data::U32(toggles.collect())]);
    }
    inputs
}

/// Returns the inputs that all kernels have.
fn shared(inputs: &[Data]) -> PackedConvInputs<'_> {
    PackedConvInputs {
        x: inputs[0].u32s(),
        weights: inputs[1].u32s(),
        channels: inputs[2].i32s(),
        border: inputs[3].i32s(),
        classes: inputs[4].u32s(),
    }
}

fn bit_sums_case(kernel: &Kernel) -> KernelCase<'_, PackedConvParams> {
    KernelCase {
        kernel,
        needs: &[],
        shapes: shapes_of_sums(),
        inputs,
        twin: |_, params, inputs, outputs| {
            twin::bit_conv_sums(params, &shared(inputs), outputs[0].i32s_mut());
        },
        tolerance: |_, _| Tolerance::bits(),
        fails_on: &[],
    }
}

fn byte_sums_case(kernel: &Kernel) -> KernelCase<'_, PackedConvParams> {
    KernelCase {
        twin: |_, params, inputs, outputs| {
            twin::byte_conv_sums(params, &shared(inputs), outputs[0].i32s_mut());
        },
        ..bit_sums_case(kernel)
    }
}

fn bit_codes_case(kernel: &Kernel) -> KernelCase<'_, PackedConvParams> {
    KernelCase {
        shapes: shapes(),
        twin: |_, params, inputs, outputs| {
            let (thresholds, toggles) = (inputs[5].i32s(), inputs[6].u32s());
            let y = outputs[0].u32s_mut();
            twin::bit_conv_codes(params, &shared(inputs), thresholds, toggles, y);
        },
        ..bit_sums_case(kernel)
    }
}

fn byte_codes_case(kernel: &Kernel) -> KernelCase<'_, PackedConvParams> {
    KernelCase {
        shapes: shapes_of_bytes(),
        twin: |_, params, inputs, outputs| {
            let (thresholds, toggles) = (inputs[5].i32s(), inputs[6].u32s());
            let y = outputs[0].u32s_mut();
            twin::byte_conv_codes(params, &shared(inputs), thresholds, toggles, y);
        },
        ..bit_sums_case(kernel)
    }
}

#[test]
fn bit_conv_sums_matches_its_twin() {
    check_on_every_adapter(&bit_sums_case(&layout::BIT_CONV_SUMS));
}

#[test]
fn bit_conv_codes_matches_its_twin() {
    check_on_every_adapter(&bit_codes_case(&layout::BIT_CONV_CODES));
}

#[test]
fn byte_conv_sums_matches_its_twin() {
    check_on_every_adapter(&byte_sums_case(&layout::BYTE_CONV_SUMS));
}

#[test]
fn byte_conv_codes_matches_its_twin() {
    check_on_every_adapter(&byte_codes_case(&layout::BYTE_CONV_CODES));
}

/// A kernel's case, and faults of the kernel: a name, a text and its wrong replacement.
type Faults<'a> = (
    &'a Kernel,
    fn(&Kernel) -> KernelCase<'_, PackedConvParams>,
    &'a [[&'a str; 3]],
);

#[test]
fn a_packed_convolution_that_is_broken_is_reported() {
    let of_sums = &[
        [
            "reads past the border",
            "row_exists & col_exists",
            "row_exists",
        ],
        [
            "swaps planes",
            "pair % params.weight_planes *",
            "pair / params.weight_planes *",
        ],
        [
            "forgets groups",
            "* params.groups + group)",
            "* params.groups)",
        ],
        [
            "omits the border",
            "return bias + vec4<i32>(border",
            "return bias; //",
        ],
        ["omits dilation", "place * params.dilation", "place"],
    ];
    let of_bits = &[
        [
            "pools to the maximum only",
            "let flip = vec4<i32>(thresholds[channel]);",
            "let flip = vec4<i32>(0);",
        ],
        ["passes equal sums", "sums > threshold", "sums >= threshold"],
        [
            "sets unused bits",
            "select(vec2<u32>(0u), codes, is_used)",
            "codes",
        ],
        ["pools padding", "pixels_first.exist)", "vec4<bool>(true))"],
    ];
    let of_bytes = &[
        [
            "multiplies unsigned bytes",
            "dot4I8Packed(x.y, weight)",
            "i32(dot4U8Packed(x.y, weight))",
        ],
        ["keeps other pixels", "(code & 255u)", "code"],
        [
            "forgets groups of the output",
            "+ group_start + first_word",
            "+ first_word",
        ],
    ];
    let kernels: [Faults<'_>; 3] = [
        (&layout::BIT_CONV_SUMS, bit_sums_case, of_sums),
        (&layout::BIT_CONV_CODES, bit_codes_case, of_bits),
        (&layout::BYTE_CONV_CODES, byte_codes_case, of_bytes),
    ];
    for gpu in every_adapter() {
        for (kernel, case, faults) in kernels {
            for [fault, from, to] in faults {
                let kernel = broken(kernel, from, to);
                let failure = check_on(gpu, &case(&kernel)).expect_err(fault);
                let is_seen = matches!(failure.fault, FailureCause::Mismatch(_));
                assert!(is_seen, "{fault}: {failure}");
            }
        }
    }
}
