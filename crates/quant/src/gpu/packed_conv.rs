//! Wrapper of the kernels `bit_conv_…` and `byte_conv_…`.
//!
//! Role: checks sizes and numbers, copies them to buffers in the order of the kernels, and runs the
//! kernels.
//! The header of `wgsl/shared/packed_conv.wgsl` describes the arithmetic.
//! Accuracy: exact if each sum is in the range of `i32`. Intermediate values may wrap.

use crate::error::{check, check_count};
use crate::planes::Packing;
use crate::{Error, Result};
use gpu_wgsl::{AnyBuffer, Buffer, Gpu};
use shaders::layout;
use shaders::params::PackedConvParams;

/// The largest number of bits of a code.
const MAX_CODE_BITS: u32 = 8;

/// Sizes of a convolution of packed numbers. Pairs are rows, then columns; paddings are before,
/// then after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedConvGeometry {
    /// Form of the numbers in the words of the input, the weights and the codes.
    pub packing: Packing,
    /// Size of an image.
    pub image: [u32; 2],
    /// Number of input channels of each group.
    pub group_channels: u32,
    /// Number of groups.
    pub groups: u32,
    /// Number of output channels of all groups together.
    pub out_channels: u32,
    /// Number of planes of the input.
    pub planes: u32,
    /// Number of planes of the weights.
    pub weight_planes: u32,
    /// Number of taps along each axis.
    pub window: [u32; 2],
    /// Distance between the first taps of neighbouring output pixels.
    pub stride: [u32; 2],
    /// Distance between neighbouring taps.
    pub dilation: [u32; 2],
    /// Rows above and below, and columns left and right of the image. Their words are 0.
    pub padding: [[u32; 2]; 2],
}

/// Numbers that are added to the sums of some pixels, because taps are outside of the image.
#[derive(Clone, Copy, Debug)]
pub struct PackedConvBorder<'a> {
    /// Class of each output row.
    pub row_classes: &'a [u32],
    /// Class of each output column.
    pub col_classes: &'a [u32],
    /// Shape `[row classes, column classes, out_channels]`. The numbers of classes are the largest
    /// class plus one.
    pub sums: &'a [i32],
}

/// The codes of the sums, which are the next layer's input.
#[derive(Clone, Copy, Debug)]
pub struct PackedConvCodes<'a> {
    /// Size of a pooling window; `[1, 1]` without pooling.
    pub pool: [u32; 2],
    /// Distance between neighbouring windows.
    pub pool_stride: [u32; 2],
    /// Rows above and below, and columns left and right of the sums. The maximum
    /// ignores these positions.
    pub pool_padding: [[u32; 2]; 2],
    /// Shape `[out_channels]`: whether the minimum of a window is used instead of the maximum.
    pub is_flipped: &'a [bool],
    /// Shape `[thresholds, out_channels]`, ascending in the first axis. At least one.
    pub thresholds: &'a [i32],
    /// The lowest level's code, then for each threshold the bits in which the codes of its two
    /// levels differ. Shape `[1 + thresholds]`.
    pub toggles: &'a [u32],
    /// Number of planes of the codes: the number of bits of a code, at most 8; 1 for bytes.
    pub planes: u32,
    /// Number of groups of the next layer.
    pub groups: u32,
}

/// Sizes and numbers of a convolution of packed numbers.
///
/// A sum is the bias, plus the border's number, minus the coefficient of each pair of planes times
/// the pair's products: the number of ones in `x ^ weight` for bits, and the sum of the products of
/// bytes, whose coefficient is usually -1.
#[derive(Clone, Copy, Debug)]
pub struct PackedConvData<'a> {
    /// The sizes.
    pub geometry: PackedConvGeometry,
    /// Shape `[weight_planes, window rows, window columns, words of a group, out_channels]`. Unused
    /// bits are 0, as those of the input.
    pub weights: &'a [u32],
    /// Shape `[out_channels]`.
    pub bias: &'a [i32],
    /// Shape `[planes, weight_planes, out_channels]`.
    pub coefficients: &'a [i32],
    /// The border; `None` if no numbers are added, because words of 0 outside of the image
    /// contribute correct sums.
    pub border: Option<PackedConvBorder<'a>>,
}

/// A convolution of packed numbers on a device, with sums as output.
///
/// # Examples
/// ```
/// use gpu_wgsl::{Error, Gpu, Select};
/// use quant::Packing;
/// use quant::gpu::{PackedConv, PackedConvData, PackedConvGeometry};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gpu = match Gpu::open(Select::Best) {
///     Err(Error::NoAdapter { .. }) => return Ok(()),
///     other => other?,
/// };
/// // One pixel of four channels, and the product of its signs and four signs.
/// let geometry = PackedConvGeometry {
///     packing: Packing::Bits,
///     image: [1, 1],
///     group_channels: 4,
///     groups: 1,
///     out_channels: 1,
///     planes: 1,
///     weight_planes: 1,
///     window: [1, 1],
///     stride: [1, 1],
///     dilation: [1, 1],
///     padding: [[0, 0], [0, 0]],
/// };
/// let data = PackedConvData {
///     geometry,
///     weights: &[0b0111],
///     bias: &[4],
///     coefficients: &[2],
///     border: None,
/// };
/// let product = PackedConv::upload(&gpu, &data)?;
/// let x = gpu.upload("x", &[1, 1, 1, 1, 1, 1], &[0b0110_u32])?;
/// assert_eq!(gpu.read(&product.sums(&x)?)?, [2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PackedConv<'a> {
    gpu: &'a Gpu,
    packing: Packing,
    params: PackedConvParams,
    weights: Buffer<u32>,
    channels: Buffer<i32>,
    border: Buffer<i32>,
    classes: Buffer<u32>,
}

/// A convolution of packed numbers on a device, with packed codes of the pooled sums as output.
#[derive(Clone, Debug)]
pub struct CodedConv<'a> {
    conv: PackedConv<'a>,
    thresholds: Buffer<i32>,
    toggles: Buffer<u32>,
}

impl<'a> PackedConv<'a> {
    /// Checks and uploads sizes and numbers.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] if a size is 0, too large or does not fit another size;
    /// [`Error::Length`] if a slice does not have its shape; [`Error::Device`] if the
    /// device is out of memory or was lost.
    pub fn upload(gpu: &'a Gpu, data: &PackedConvData<'_>) -> Result<Self> {
        Self::upload_for(Operation("PackedConv::upload"), gpu, data)
    }

    fn upload_for(operation: Operation, gpu: &'a Gpu, data: &PackedConvData<'_>) -> Result<Self> {
        let g = &data.geometry;
        let mut params = operation.params_of(g)?;
        let n_channels = g.out_channels as usize;
        let n_pairs = operation.product(&[g.planes, g.weight_planes])?;
        let n_tap_words = operation.product(&[g.weight_planes, params.words])?;
        let taps = operation.product(&g.window)?;
        operation.check_count(
            "weights",
            data.weights.len(),
            n_channels.saturating_mul(taps).saturating_mul(n_tap_words),
        )?;
        operation.check_count("bias", data.bias.len(), n_channels)?;
        operation.check_count(
            "coefficients",
            data.coefficients.len(),
            n_channels.saturating_mul(n_pairs),
        )?;
        let channels = [data.bias, data.coefficients].concat();
        let (mut border, mut classes): (&[i32], _) = (&[], vec![]);
        if let Some(data) = &data.border {
            let [rows, cols] = params.out_size.map(|size| size as usize);
            operation.check_count("row_classes", data.row_classes.len(), rows)?;
            operation.check_count("col_classes", data.col_classes.len(), cols)?;
            params.row_classes = operation.n_classes(data.row_classes)?;
            params.col_classes = operation.n_classes(data.col_classes)?;
            let n_classes = operation.product(&[params.row_classes, params.col_classes])?;
            operation.check_count(
                "sums",
                data.sums.len(),
                n_classes.saturating_mul(n_channels),
            )?;
            border = data.sums;
            classes = [data.row_classes, data.col_classes].concat();
        }
        Ok(Self {
            gpu,
            packing: g.packing,
            params,
            weights: gpu.upload("weights", &[data.weights.len()], data.weights)?,
            channels: gpu.upload("channels", &[channels.len()], &channels)?,
            border: gpu.upload("border", &[border.len()], border)?,
            classes: gpu.upload("classes", &[classes.len()], &classes)?,
        })
    }

    /// Computes the sums of packed images, shape `[batch, rows, columns, out_channels]`.
    ///
    /// `x` has shape `[batch, height, width, planes, groups, words of a group]`, or any shape with
    /// as many words. The results stay on the device.
    ///
    /// # Errors
    /// [`Error::Length`] if `x` does not consist of whole images; [`Error::InvalidNumber`] for more
    /// than `2^32 - 1` sums or words of `x`; [`Error::Device`] if the device is out of memory, was
    /// lost, or does not support the sizes.
    pub fn sums(&self, x: &AnyBuffer) -> Result<Buffer<i32>> {
        let params = self.params_for(Operation("PackedConv::sums"), x)?;
        let [rows, cols] = params.out_size;
        let shape = [params.batch, rows, cols, params.out_channels].map(|size| size as usize);
        let y = self.gpu.alloc::<i32>("sums", &shape)?;
        let buffers = [
            x,
            &*self.weights,
            &*self.channels,
            &*self.border,
            &*self.classes,
            &*y,
        ];
        let kernel = match self.packing {
            Packing::Bits => &layout::BIT_CONV_SUMS,
            Packing::Bytes => &layout::BYTE_CONV_SUMS,
        };
        self.gpu.dispatch(kernel, &params, &buffers)?;
        Ok(y)
    }

    /// Returns the parameters for the images in a buffer.
    fn params_for(&self, operation: Operation, x: &AnyBuffer) -> Result<PackedConvParams> {
        let p = &self.params;
        let image_words = operation.product(&[p.height, p.width, p.planes, p.groups, p.words])?;
        let batch = x.len() / image_words;
        operation.check_count("x", x.len(), batch * image_words)?;
        let params = PackedConvParams {
            batch: operation.narrowed("batch", batch)?,
            ..*p
        };
        // The kernels count pixels and words in u32.
        let n_sums = params.n_pixels().saturating_mul(params.out_channels.into());
        for (quantity, count) in [("number of sums", n_sums), ("length of x", x.len() as u64)] {
            let is_valid = count <= u32::MAX.into();
            check(
                operation.0,
                quantity,
                count as f64,
                is_valid,
                "at most 2^32 - 1",
            )?;
        }
        Ok(params)
    }
}

impl<'a> CodedConv<'a> {
    /// Checks and uploads sizes and numbers.
    ///
    /// # Errors
    /// As [`PackedConv::upload`].
    pub fn upload(
        gpu: &'a Gpu,
        data: &PackedConvData<'_>,
        codes: &PackedConvCodes<'_>,
    ) -> Result<Self> {
        let operation = Operation("CodedConv::upload");
        let mut conv = PackedConv::upload_for(operation, gpu, data)?;
        let p = &mut conv.params;
        let n_channels = p.out_channels as usize;
        for axis in [0, 1] {
            let [size, stride, padding] = [
                codes.pool[axis],
                codes.pool_stride[axis],
                codes.pool_padding[axis].into_iter().max().unwrap_or(0),
            ];
            operation.positive("pooling window", size)?;
            operation.positive("pooling stride", stride)?;
            let message = "less than the pooling window";
            check(
                operation.0,
                "pooling padding",
                padding.into(),
                padding < size,
                message,
            )?;
            p.pooled_size[axis] =
                operation.n_places(p.out_size[axis], codes.pool_padding[axis], size, stride)?;
        }
        operation.positive("number of planes", codes.planes)?;
        let width = u32::BITS / conv.packing.word_channels();
        let code_bits = codes.planes.saturating_mul(width);
        let message = "at most 8, or 1 for bytes";
        check(
            operation.0,
            "number of planes",
            codes.planes.into(),
            code_bits <= MAX_CODE_BITS,
            message,
        )?;
        operation.divides("number of groups", codes.groups, p.out_channels)?;
        let n_thresholds =
            operation.narrowed("number of thresholds", codes.thresholds.len() / n_channels)?;
        operation.positive("number of thresholds", n_thresholds)?;
        operation.check_count(
            "thresholds",
            codes.thresholds.len(),
            n_thresholds as usize * n_channels,
        )?;
        operation.check_count("is_flipped", codes.is_flipped.len(), n_channels)?;
        operation.check_count("toggles", codes.toggles.len(), 1 + n_thresholds as usize)?;
        let used = codes.toggles.iter().fold(0, |bits, toggle| bits | toggle);
        let is_valid = u64::from(used) < 1 << code_bits;
        check(
            operation.0,
            "toggle",
            used.into(),
            is_valid,
            "bits of the codes only",
        )?;
        p.pool = codes.pool;
        p.pool_stride = codes.pool_stride;
        p.pool_padding = codes.pool_padding.map(|[before, _]| before);
        p.thresholds = n_thresholds;
        p.code_planes = codes.planes;
        p.word_channels = conv.packing.word_channels();
        p.out_groups = codes.groups;
        let flips = codes
            .is_flipped
            .iter()
            .map(|&is_flipped| -i32::from(is_flipped));
        let thresholds: Vec<i32> = flips.chain(codes.thresholds.iter().copied()).collect();
        Ok(Self {
            conv,
            thresholds: gpu.upload("thresholds", &[thresholds.len()], &thresholds)?,
            toggles: gpu.upload("toggles", &[codes.toggles.len()], codes.toggles)?,
        })
    }

    /// Computes the packed codes of packed images, shape
    /// `[batch, pooled rows, pooled columns, planes, groups, words of a group]`.
    ///
    /// `x` is as in [`PackedConv::sums`]. The results stay on the device.
    ///
    /// # Errors
    /// As [`PackedConv::sums`].
    pub fn codes(&self, x: &AnyBuffer) -> Result<Buffer<u32>> {
        let conv = &self.conv;
        let params = conv.params_for(Operation("CodedConv::codes"), x)?;
        let [rows, cols] = params.pooled_size;
        let shape = [
            params.batch,
            rows,
            cols,
            params.code_planes,
            params.out_groups,
            params.out_words(),
        ];
        let y = conv
            .gpu
            .alloc::<u32>("codes", &shape.map(|size| size as usize))?;
        let inputs = [
            x,
            &*conv.weights,
            &*conv.channels,
            &*conv.border,
            &*conv.classes,
        ];
        let buffers = [&inputs[..], &[&*self.thresholds, &*self.toggles, &*y]].concat();
        let kernel = match conv.packing {
            Packing::Bits => &layout::BIT_CONV_CODES,
            Packing::Bytes => &layout::BYTE_CONV_CODES,
        };
        conv.gpu.dispatch(kernel, &params, &buffers)?;
        Ok(y)
    }
}

/// The operation that errors name.
#[derive(Clone, Copy)]
pub(super) struct Operation(pub(super) &'static str);

impl Operation {
    /// Checks the sizes and returns the parameters of an empty batch.
    fn params_of(self, g: &PackedConvGeometry) -> Result<PackedConvParams> {
        let sizes = [
            ("number of input channels", g.group_channels),
            ("number of groups", g.groups),
            ("number of output channels", g.out_channels),
            ("number of planes", g.planes),
            ("number of weight planes", g.weight_planes),
        ];
        sizes
            .into_iter()
            .try_for_each(|(quantity, size)| self.positive(quantity, size))?;
        self.divides("number of groups", g.groups, g.out_channels)?;
        let mut out_size = [0; 2];
        for (axis, size) in out_size.iter_mut().enumerate() {
            self.positive("image size", g.image[axis])?;
            self.positive("window size", g.window[axis])?;
            self.positive("stride", g.stride[axis])?;
            self.positive("dilation", g.dilation[axis])?;
            let reach = u64::from(g.window[axis] - 1) * u64::from(g.dilation[axis]) + 1;
            let reach = u32::try_from(reach).unwrap_or(u32::MAX);
            *size = self.n_places(g.image[axis], g.padding[axis], reach, g.stride[axis])?;
        }
        let [height, width] = g.image;
        Ok(PackedConvParams {
            height,
            width,
            words: g.group_channels.div_ceil(g.packing.word_channels()),
            planes: g.planes,
            groups: g.groups,
            weight_planes: g.weight_planes,
            out_channels: g.out_channels,
            kernel: g.window,
            stride: g.stride,
            dilation: g.dilation,
            padding: g.padding.map(|[before, _]| before),
            out_size,
            ..PackedConvParams::default()
        })
    }

    /// Returns the number of places of a window in a padded row.
    fn n_places(self, n: u32, [before, after]: [u32; 2], window: u32, stride: u32) -> Result<u32> {
        let padded = n.saturating_add(before).saturating_add(after);
        let is_valid = window <= padded && padded < 1 << 31;
        let expected = "at most the padded size, below 2^31";
        check(self.0, "window", window.into(), is_valid, expected)?;
        Ok((padded - window) / stride + 1)
    }

    fn positive(self, quantity: &'static str, size: u32) -> Result<()> {
        check(self.0, quantity, size.into(), size > 0, "at least 1")
    }

    fn divides(self, quantity: &'static str, size: u32, multiple: u32) -> Result<()> {
        let is_valid = size > 0 && multiple.is_multiple_of(size);
        check(
            self.0,
            quantity,
            size.into(),
            is_valid,
            "a divisor of the number of output channels",
        )
    }

    fn check_count(self, quantity: &'static str, actual: usize, expected: usize) -> Result<()> {
        check_count(self.0, quantity, actual, expected)
    }

    /// Returns the number of classes, the largest class plus 1.
    fn n_classes(self, classes: &[u32]) -> Result<u32> {
        let largest = classes.iter().copied().max().unwrap_or(0);
        check(
            self.0,
            "class",
            largest.into(),
            largest < u32::MAX,
            "less than 2^32 - 1",
        )?;
        Ok(largest + 1)
    }

    /// Returns the product of counts that has to fit into `u32`.
    fn product(self, counts: &[u32]) -> Result<usize> {
        let counts = counts.iter().map(|&count| count as usize);
        let product = counts.fold(1, usize::saturating_mul);
        self.narrowed("product of sizes", product)?;
        Ok(product)
    }

    pub(super) fn narrowed(self, quantity: &'static str, count: usize) -> Result<u32> {
        u32::try_from(count).map_err(|_| Error::InvalidNumber {
            operation: self.0,
            quantity,
            value: count as f64,
            expected: "at most 2^32 - 1",
        })
    }
}
