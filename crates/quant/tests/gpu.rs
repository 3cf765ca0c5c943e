//! Packed convolutions on every adapter of the machine, compared with the twins of the kernels.
#![cfg(feature = "gpu")]

use gpu_wgsl::check::every_adapter;
use quant::Error;
use quant::gpu::{
    BitConv, BitConvBorder, BitConvCodes, BitConvData, BitConvGeometry, CodedBitConv,
};
use shaders::params::BitConvParams;
use shaders::twin;
use shaders::twin::bit_conv::BitConvInputs;
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;

const GEOMETRY: BitConvGeometry = BitConvGeometry {
    image: [6, 5],
    group_channels: 40,
    groups: 2,
    out_channels: 6,
    planes: 2,
    weight_planes: 3,
    kernel: [3, 2],
    stride: [1, 1],
    dilation: [1, 2],
    padding: [[1, 1], [0, 2]],
};
/// Size of the convolution's output: `[6 + 2 - 3 + 1, 5 + 2 - 3 + 1]`.
const OUT_SIZE: [u32; 2] = [6, 5];
const TAPS: usize = 6;
const WORDS: usize = 2;
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
    let weights = words(CHANNELS * TAPS * 3 * WORDS, 0);
    let (bias, coefficients) = (numbers(CHANNELS, 1), numbers(CHANNELS * 6, 2));
    let border = BitConvBorder {
        row_classes: &[0, 1, 1, 1, 1, 0],
        col_classes: &[0, 0, 0, 1, 2],
        sums: &numbers(6 * CHANNELS, 3),
    };
    let data = BitConvData {
        geometry: GEOMETRY,
        weights: &weights,
        bias: &bias,
        coefficients: &coefficients,
        border: Some(border),
    };
    let codes = BitConvCodes {
        pool: [3, 2],
        pool_stride: [2, 2],
        pool_padding: [[1, 0], [0, 1]],
        is_flipped: &[true, false, true, false, false, true],
        thresholds: &(-9..9).map(|t| 100 * t).collect::<Vec<_>>(),
        toggles: &[2, 3, 1, 3],
        planes: 2,
        groups: 3,
    };
    let params = BitConvParams {
        batch: 2,
        height: 6,
        width: 5,
        words: 2,
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
        code_planes: 2,
        out_groups: 3,
        ..BitConvParams::default()
    };
    let x = words(2 * 6 * 5 * 2 * 2 * WORDS, 4);
    let inputs = BitConvInputs {
        x: &x,
        weights: &weights,
        channels: &[bias.clone(), coefficients.clone()].concat(),
        border: border.sums,
        classes: &[border.row_classes, border.col_classes].concat(),
    };
    let mut sums = vec![0; 2 * 6 * 5 * CHANNELS];
    twin::bit_conv_sums(&params, &inputs, &mut sums);
    let mut packed = vec![0; 2 * 3 * 3 * 2 * 3];
    let flips = codes
        .is_flipped
        .iter()
        .map(|&is_flipped| -i32::from(is_flipped));
    let thresholds: Vec<i32> = flips.chain(codes.thresholds.iter().copied()).collect();
    let params = BitConvParams {
        thresholds: 3,
        ..params
    };
    twin::bit_conv_codes(&params, &inputs, &thresholds, codes.toggles, &mut packed);
    for gpu in every_adapter() {
        let x = gpu.upload("x", &[x.len()], &x).unwrap();
        let conv = BitConv::upload(gpu, &data).unwrap();
        assert_close(
            gpu.read(&conv.sums(&x).unwrap()).unwrap(),
            &sums,
            Tolerance::bits(),
        );
        let conv = CodedBitConv::upload(gpu, &data, &codes).unwrap();
        let y = conv.codes(&x).unwrap();
        assert_eq!(y.shape(), [2, 3, 3, 2, 3, 1]);
        assert_close(gpu.read(&y).unwrap(), &packed, Tolerance::bits());
    }
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let weights = [0; CHANNELS * TAPS * 3 * WORDS];
    let data = BitConvData {
        geometry: GEOMETRY,
        weights: &weights,
        bias: &[0; CHANNELS],
        coefficients: &[0; CHANNELS * 6],
        border: None,
    };
    let codes = BitConvCodes {
        pool: [1, 1],
        pool_stride: [1, 1],
        pool_padding: [[0, 0], [0, 0]],
        is_flipped: &[false; CHANNELS],
        thresholds: &[0; CHANNELS],
        toggles: &[0, 1],
        planes: 1,
        groups: 1,
    };
    let sized = |geometry| BitConvData { geometry, ..data };
    for gpu in every_adapter() {
        let upload = |data: BitConvData<'_>| BitConv::upload(gpu, &data).map(|_| ());
        let numbers = [
            sized(BitConvGeometry {
                stride: [0, 1],
                ..GEOMETRY
            }),
            sized(BitConvGeometry {
                groups: 4,
                ..GEOMETRY
            }),
            sized(BitConvGeometry {
                out_channels: 0,
                ..GEOMETRY
            }),
            sized(BitConvGeometry {
                kernel: [9, 1],
                ..GEOMETRY
            }),
            sized(BitConvGeometry {
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
            BitConvData {
                bias: &[0; 5],
                ..data
            },
            BitConvData {
                weights: &weights[1..],
                ..data
            },
            BitConvData {
                coefficients: &[0; CHANNELS],
                ..data
            },
            BitConvData {
                border: Some(BitConvBorder {
                    row_classes: &[0; 6],
                    col_classes: &[1; 5],
                    sums: &[0; CHANNELS],
                }),
                ..data
            },
        ];
        for data in lens {
            assert!(
                matches!(upload(data), Err(Error::LengthMismatch { .. })),
                "{data:?}"
            );
        }
        let upload = |codes| CodedBitConv::upload(gpu, &data, &codes).map(|_| ());
        let numbers = [
            BitConvCodes {
                pool_padding: [[1, 0], [0, 0]],
                ..codes
            },
            BitConvCodes {
                pool: [7, 1],
                ..codes
            },
            BitConvCodes {
                toggles: &[0, 2],
                ..codes
            },
            BitConvCodes { planes: 9, ..codes },
            BitConvCodes { groups: 5, ..codes },
            BitConvCodes {
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
        let codes = BitConvCodes {
            toggles: &[0],
            ..codes
        };
        assert!(matches!(upload(codes), Err(Error::LengthMismatch { .. })));
        let conv = BitConv::upload(gpu, &data).unwrap();
        let x = gpu.upload("x", &[7], &[0; 7]).unwrap();
        assert!(matches!(conv.sums(&x), Err(Error::LengthMismatch { .. })));
    }
}
