//! The variants of `conv-binary` on a device, next to the tensor program from f32 numbers.
//!
//! - `wgsl-f32`: levels that are multiplied in f32, from a padded image; the baseline of the
//!   kernels.
//! - `wgsl-bits` and `wgsl-bytes`: the kernels `bit_conv_sums` and `byte_conv_sums`, from packed
//!   words to i32 sums.

use super::{Layer, TAPS, multiplied};
use anyhow::Result;
use gpu_wgsl::{Buffer, Gpu};
use harness::implementation::Output;
use harness::on_gpu::DeviceResult;
use harness::workload::{Extent, Variant};
use quant::gpu::{PackedConv, PackedConvBorder, PackedConvData, PackedConvGeometry};
use quant::{Packing, PlaneLayout};

/// Returns the variants of one device.
pub(super) fn variants<'a>(layer: &'a Layer, gpu: &'a Gpu) -> Vec<Variant<'a>> {
    let kernel = |name, extent, start: fn(&'a Layer, &'a Gpu) -> Result<Kernel<'a>>| {
        Variant::called_on_gpu(gpu, extent, move || {
            let kernel = start(layer, gpu)?;
            Ok(move || Ok(Sums(kernel.conv.sums(&kernel.x)?)))
        })
        .with_executor(name)
    };
    let levels = layer.levels_in_memory();
    let in_f32 = Variant::on_gpu::<f32>(gpu, layer.extent_of_levels(), levels, multiplied);
    vec![
        in_f32.with_executor("wgsl-f32"),
        kernel("wgsl-bits", layer.extent_of_words(), of_bits),
        kernel("wgsl-bytes", extent_of_bytes(layer), of_bytes),
    ]
}

/// Returns the work from images and weights of bytes, four in a word.
fn extent_of_bytes(layer: &Layer) -> Extent {
    let n_words = layer.channels.div_ceil(4);
    let n_pixels = layer.batch * layer.side * layer.side;
    layer.extent_of(n_words * (n_pixels + layer.channels * TAPS * TAPS))
}

/// A kernel with its weights, and its input.
struct Kernel<'a> {
    conv: PackedConv<'a>,
    x: Buffer<u32>,
}

/// Sums on the device. Their absolute values are below 2^24, so f32 holds them.
struct Sums(Buffer<i32>);

impl DeviceResult for Sums {
    fn read(&self, gpu: &Gpu) -> Result<Output> {
        let sums = gpu.read(&self.0)?;
        Ok(Output::F32(
            sums.into_iter().map(|sum| sum as f32).collect(),
        ))
    }
}

/// Uploads the planes of bits.
fn of_bits<'a>(layer: &'a Layer, gpu: &'a Gpu) -> Result<Kernel<'a>> {
    let [planes, weight_planes] = layer.n_planes();
    // A level is a sum of signs times powers of two, and two signs differ by 2.
    let pairs = (0..planes).flat_map(|p| (0..weight_planes).map(move |q| p + q));
    let powers = pairs.flat_map(|power| vec![2 << power; layer.channels]);
    let coefficients: Vec<i32> = powers.collect();
    // The sum of products if no bit differs.
    let of_planes = |n: usize| i32::try_from((1_usize << n) - 1);
    let n_products = i32::try_from(TAPS * TAPS * layer.channels)?;
    let most = n_products * of_planes(planes)? * of_planes(weight_planes)?;
    let data = PackedConvData {
        geometry: geometry(layer, Packing::Bits, [planes, weight_planes])?,
        weights: layer.signs.words(),
        bias: &vec![most; layer.channels],
        coefficients: &coefficients,
        border: None,
    };
    Ok(Kernel {
        conv: PackedConv::upload(gpu, &data)?,
        x: gpu.upload("x", &[layer.words.len()], &layer.words)?,
    })
}

/// Uploads the levels as bytes. Words outside of the image are 0, so the products with the lowest
/// level there are numbers that are added. The image has at least two rows and columns.
fn of_bytes<'a>(layer: &'a Layer, gpu: &'a Gpu) -> Result<Kernel<'a>> {
    let (channels, n_taps) = (layer.channels, TAPS * TAPS);
    let layout = PlaneLayout::bytes(channels, 1)?;
    let (codes, _) = layer.levels.quantize(&layer.x);
    let x = layout.pack(&bytes(&layer.levels.dequantize(&codes)?))?;
    let packed = layout.pack(&bytes(&layer.weights))?;
    // From [output, tap, word] to [tap, word, output].
    let group_words = layout.group_words();
    let mut weights = vec![0; packed.len()];
    for (place, word) in packed.into_iter().enumerate() {
        let (output, rest) = (
            place / (n_taps * group_words),
            place % (n_taps * group_words),
        );
        weights[rest * channels + output] = word;
    }
    let lowest = layer.levels.levels()[0];
    let mut sums = Vec::with_capacity(n_taps * channels);
    // The classes are the first, the inner and the last row and column.
    for (row, col) in (0..TAPS).flat_map(|row| (0..TAPS).map(move |col| (row, col))) {
        let is_outside =
            |class: usize, tap: usize| class + tap == 0 || class + tap == 2 * (TAPS - 1);
        for weights in layer.weights.chunks(n_taps * channels) {
            let taps = weights.chunks(channels).enumerate();
            let outside =
                taps.filter(|(tap, _)| is_outside(row, tap / TAPS) || is_outside(col, tap % TAPS));
            let sum: f32 = outside
                .map(|(_, weights)| weights.iter().sum::<f32>() * lowest)
                .sum();
            sums.push(whole(sum));
        }
    }
    let mut classes = vec![1; layer.side];
    classes[0] = 0;
    classes[layer.side - 1] = 2;
    let data = PackedConvData {
        geometry: geometry(layer, Packing::Bytes, [1, 1])?,
        weights: &weights,
        bias: &vec![0; channels],
        // The kernel subtracts products.
        coefficients: &vec![-1; channels],
        border: Some(PackedConvBorder {
            row_classes: &classes,
            col_classes: &classes,
            sums: &sums,
        }),
    };
    Ok(Kernel {
        conv: PackedConv::upload(gpu, &data)?,
        x: gpu.upload("x", &[x.len()], &x)?,
    })
}

fn geometry(
    layer: &Layer,
    packing: Packing,
    [planes, weight_planes]: [usize; 2],
) -> Result<PackedConvGeometry> {
    let (side, channels) = (u32::try_from(layer.side)?, u32::try_from(layer.channels)?);
    let taps = u32::try_from(TAPS)?;
    Ok(PackedConvGeometry {
        packing,
        image: [side; 2],
        group_channels: channels,
        groups: 1,
        out_channels: channels,
        planes: u32::try_from(planes)?,
        weight_planes: u32::try_from(weight_planes)?,
        window: [taps; 2],
        stride: [1; 2],
        dilation: [1; 2],
        padding: [[1; 2]; 2],
    })
}

/// Returns levels, small whole numbers, as the bits of signed bytes.
fn bytes(levels: &[f32]) -> Vec<u8> {
    let byte = |&level: &f32| whole(level).to_le_bytes()[0];
    levels.iter().map(byte).collect()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "sums of levels are whole numbers far below 2^24"
)]
fn whole(x: f32) -> i32 {
    x as i32
}
