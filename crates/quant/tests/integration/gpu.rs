//! Packed convolutions on every adapter of the machine, compared with the twins of the kernels.
#![expect(
    clippy::unwrap_used,
    reason = "an error in a helper fails the test that calls it"
)]

use gpu_wgsl::check::every_adapter;
use quant::gpu::{
    CodedConv, PackedConv, PackedConvBorder, PackedConvCodes, PackedConvData, PackedConvGeometry,
};
use quant::{Error, Packing};
use shaders::params::PackedConvParams;
use shaders::twin;
use shaders::twin::packed_conv::PackedConvInputs;
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;

const GEOMETRY: PackedConvGeometry = PackedConvGeometry {
    packing: Packing::Bits,
    image: [6, 5],
    group_channels: 40,
    groups: 2,
    out_channels: 6,
    planes: 2,
    weight_planes: 3,
    window: [3, 2],
    stride: [1, 1],
    dilation: [1, 2],
    padding: [[1, 1], [0, 2]],
};
/// Size of the convolution's output: `[6 + 2 - 3 + 1, 5 + 2 - 3 + 1]`.
const OUT_SIZE: [u32; 2] = [6, 5];
const TAPS: usize = 6;
/// Words of the 40 channels of a group.
const WORDS: usize = 2;
const WORDS_OF_BYTES: usize = 10;
const CHANNELS: usize = 6;

fn words(n: usize, stream: u64) -> Vec<u32> {
    let random = Philox::new(11).stream(stream);
    (0..n as u64).map(|i| random.word(i)).collect()
}

fn numbers(n: usize, stream: u64) -> Vec<i32> {
    let words = words(n, stream).into_iter();
    words.map(|word| word.cast_signed() % 50).collect()
}

#[test]
fn sums_and_codes_of_layers_are_those_of_the_twins() {
    check_layers(Packing::Bits);
    check_layers(Packing::Bytes);
}

/// The twins of the kernels of sums and of codes.
type Twins = (
    fn(&PackedConvParams, &PackedConvInputs<'_>, &mut [i32]),
    fn(&PackedConvParams, &PackedConvInputs<'_>, &[i32], &[u32], &mut [u32]),
);

fn check_layers(packing: Packing) {
    let is_bytes = packing == Packing::Bytes;
    let n_words = if is_bytes { WORDS_OF_BYTES } else { WORDS };
    let weights = words(CHANNELS * TAPS * 3 * n_words, 0);
    let (bias, coefficients) = (numbers(CHANNELS, 1), numbers(CHANNELS * 6, 2));
    let border = PackedConvBorder {
        row_classes: &[0, 1, 1, 1, 1, 0],
        col_classes: &[0, 0, 0, 1, 2],
        sums: &numbers(6 * CHANNELS, 3),
    };
    let data = PackedConvData {
        geometry: PackedConvGeometry {
            packing,
            ..GEOMETRY
        },
        weights: &weights,
        bias: &bias,
        coefficients: &coefficients,
        border: Some(border),
    };
    let codes = PackedConvCodes {
        pool: [3, 2],
        pool_stride: [2, 2],
        pool_padding: [[1, 0], [0, 1]],
        is_flipped: &[true, false, true, false, false, true],
        // Products of bytes are larger than counts of bits.
        thresholds: &(-9..9)
            .map(|t| t * if is_bytes { 500_000 } else { 100 })
            .collect::<Vec<_>>(),
        toggles: if is_bytes {
            &[200, 30, 1, 255]
        } else {
            &[2, 3, 1, 3]
        },
        planes: if is_bytes { 1 } else { 2 },
        groups: 3,
    };
    let params = PackedConvParams {
        batch: 2,
        height: 6,
        width: 5,
        words: u32::try_from(n_words).unwrap(),
        planes: 2,
        groups: 2,
        weight_planes: 3,
        out_channels: 6,
        kernel: [3, 2],
        stride: [1, 1],
        dilation: [1, 2],
        padding: [1, 0],
        out_size: OUT_SIZE,
        row_classes: 2,
        col_classes: 3,
        pool: codes.pool,
        pool_stride: codes.pool_stride,
        pool_padding: [1, 0],
        pooled_size: [3, 3],
        code_planes: codes.planes,
        out_groups: 3,
        word_channels: packing.word_channels(),
        ..PackedConvParams::default()
    };
    let x = words(2 * 6 * 5 * 2 * 2 * n_words, 4);
    let inputs = PackedConvInputs {
        x: &x,
        weights: &weights,
        channels: &[bias.clone(), coefficients.clone()].concat(),
        border: border.sums,
        classes: &[border.row_classes, border.col_classes].concat(),
    };
    let mut sums = vec![0; 2 * 6 * 5 * CHANNELS];
    let (twin_sums, twin_codes): Twins = if is_bytes {
        (twin::byte_conv_sums, twin::byte_conv_codes)
    } else {
        (twin::bit_conv_sums, twin::bit_conv_codes)
    };
    twin_sums(&params, &inputs, &mut sums);
    let planes = codes.planes as usize;
    let mut packed = vec![0; 2 * 3 * 3 * planes * 3];
    let flips = codes
        .is_flipped
        .iter()
        .map(|&is_flipped| -i32::from(is_flipped));
    let thresholds: Vec<i32> = flips.chain(codes.thresholds.iter().copied()).collect();
    let params = PackedConvParams {
        thresholds: 3,
        ..params
    };
    twin_codes(&params, &inputs, &thresholds, codes.toggles, &mut packed);
    for gpu in every_adapter() {
        let x = gpu.upload("x", &[x.len()], &x).unwrap();
        let conv = PackedConv::upload(gpu, &data).unwrap();
        assert_close(
            gpu.read(&conv.sums(&x).unwrap()).unwrap(),
            &sums,
            Tolerance::bits(),
        );
        let conv = CodedConv::upload(gpu, &data, &codes).unwrap();
        let y = conv.codes(&x).unwrap();
        assert_eq!(y.shape(), [2, 3, 3, planes, 3, 1]);
        assert_close(gpu.read(&y).unwrap(), &packed, Tolerance::bits());
    }
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let weights = [0; CHANNELS * TAPS * 3 * WORDS];
    let data = PackedConvData {
        geometry: GEOMETRY,
        weights: &weights,
        bias: &[0; CHANNELS],
        coefficients: &[0; CHANNELS * 6],
        border: None,
    };
    let codes = PackedConvCodes {
        pool: [1, 1],
        pool_stride: [1, 1],
        pool_padding: [[0, 0], [0, 0]],
        is_flipped: &[false; CHANNELS],
        thresholds: &[0; CHANNELS],
        toggles: &[0, 1],
        planes: 1,
        groups: 1,
    };
    let sized = |geometry| PackedConvData { geometry, ..data };
    for gpu in every_adapter() {
        let upload = |data: PackedConvData<'_>| PackedConv::upload(gpu, &data).map(|_| ());
        let numbers = [
            sized(PackedConvGeometry {
                stride: [0, 1],
                ..GEOMETRY
            }),
            sized(PackedConvGeometry {
                groups: 4,
                ..GEOMETRY
            }),
            sized(PackedConvGeometry {
                out_channels: 0,
                ..GEOMETRY
            }),
            sized(PackedConvGeometry {
                window: [9, 1],
                ..GEOMETRY
            }),
            sized(PackedConvGeometry {
                dilation: [1, 0],
                ..GEOMETRY
            }),
            sized(PackedConvGeometry {
                dilation: [u32::MAX, 1],
                ..GEOMETRY
            }),
        ];
        for data in numbers {
            assert!(
                matches!(upload(data), Err(Error::InvalidNumber { .. })),
                "{data:?}"
            );
        }
        let lens = [
            PackedConvData {
                bias: &[0; 5],
                ..data
            },
            PackedConvData {
                weights: &weights[1..],
                ..data
            },
            PackedConvData {
                coefficients: &[0; CHANNELS],
                ..data
            },
            PackedConvData {
                border: Some(PackedConvBorder {
                    row_classes: &[0; 6],
                    col_classes: &[1; 5],
                    sums: &[0; CHANNELS],
                }),
                ..data
            },
        ];
        for data in lens {
            assert!(
                matches!(upload(data), Err(Error::Length { .. })),
                "{data:?}"
            );
        }
        let upload = |codes| CodedConv::upload(gpu, &data, &codes).map(|_| ());
        let numbers = [
            PackedConvCodes {
                pool_padding: [[1, 0], [0, 0]],
                ..codes
            },
            PackedConvCodes {
                pool: [7, 1],
                ..codes
            },
            PackedConvCodes {
                toggles: &[0, 2],
                ..codes
            },
            PackedConvCodes { planes: 9, ..codes },
            PackedConvCodes {
                toggles: &[0, 256],
                planes: 8,
                ..codes
            },
            PackedConvCodes { groups: 5, ..codes },
            PackedConvCodes {
                thresholds: &[],
                toggles: &[0],
                ..codes
            },
        ];
        for codes in numbers {
            assert!(
                matches!(upload(codes), Err(Error::InvalidNumber { .. })),
                "{codes:?}"
            );
        }
        let bytes = PackedConvData {
            geometry: PackedConvGeometry {
                packing: Packing::Bytes,
                ..GEOMETRY
            },
            weights: &[0; CHANNELS * TAPS * 3 * WORDS_OF_BYTES],
            ..data
        };
        let two_planes = PackedConvCodes { planes: 2, ..codes };
        assert!(matches!(
            CodedConv::upload(gpu, &bytes, &two_planes),
            Err(Error::InvalidNumber { .. })
        ));
        let codes = PackedConvCodes {
            toggles: &[0],
            ..codes
        };
        assert_eq!(
            upload(codes).unwrap_err().to_string(),
            "CodedConv::upload: toggles has 1 elements (expected 2)"
        );
        let conv = PackedConv::upload(gpu, &data).unwrap();
        let x = gpu.upload("x", &[7], &[0; 7]).unwrap();
        assert_eq!(
            conv.sums(&x).unwrap_err().to_string(),
            "PackedConv::sums: x has 7 elements (expected 0)"
        );
    }
}
