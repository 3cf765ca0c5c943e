//! Frozen networks on a device.
//!
//! Role: runs each layer whose weights and outputs are bits or bytes by the kernel `bit_conv_codes`
//! or `byte_conv_codes`, so that only packed codes are written to memory; all other layers are
//! tensor programs.

use std::time::{Duration, Instant};

use gpu_wgsl::Gpu;
use tensor_core::ndarray::ArrayD;
use tensor_core::profile::Profiler;
use tensor_core::{DType, Executor, Tensor};

use super::packed_conv::{
    CodedConv, Operation, PackedConvBorder, PackedConvCodes, PackedConvData, PackedConvGeometry,
};
use crate::border;
use crate::frozen::coder::Coder;
use crate::frozen::product::Product;
use crate::frozen::{FrozenLayer, FrozenNetwork, Output};
use crate::network::batch_of;
use crate::planes::PlaneLayout;
use crate::{Error, Result};

/// A frozen network whose weights are on a device.
///
/// # Examples
/// ```
/// use gpu_wgsl::{Error, Gpu, Select};
/// use quant::{InputImage, Layer, Network, Weights, Window};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gpu = match Gpu::open(Select::Best) {
///     Err(Error::NoAdapter { .. }) => return Ok(()),
///     other => other?,
/// };
/// let weights = Weights::Float(vec![0.5, -1.0]);
/// let layers = vec![Layer::new("only", 1, Window::new([1, 1]), weights)];
/// let frozen = Network::new(InputImage::unit([1, 1, 2]), layers)?.freeze()?;
/// let network = frozen.upload(&gpu)?;
/// // Codes stand for multiples of 1/255: 0.5 · 255/255 - 1.0 · 51/255.
/// let output = network.run(&[255, 51])?[[0, 0, 0, 0]];
/// assert!((output - 0.3).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DeviceNetwork<'a> {
    gpu: &'a Gpu,
    network: &'a FrozenNetwork,
    /// The kernel of each layer that has one.
    kernels: Vec<Option<CodedConv<'a>>>,
}

impl FrozenNetwork {
    /// Copies the packed weights to a device.
    ///
    /// # Errors
    /// [`Error::Layer`] with [`Error::Device`] if the device is out of memory or was lost, and with
    /// [`Error::InvalidNumber`] for a size beyond 2^32 - 1.
    pub fn upload<'a>(&'a self, gpu: &'a Gpu) -> Result<DeviceNetwork<'a>> {
        let kernels = self.layers.iter().map(|layer| {
            let kernel = layer.upload(gpu);
            kernel.map_err(|error| error.in_layer(layer.name()))
        });
        Ok(DeviceNetwork {
            gpu,
            network: self,
            kernels: kernels.collect::<Result<_>>()?,
        })
    }
}

impl DeviceNetwork<'_> {
    /// Computes the output for 8-bit images `[batch, height, width, channels]`, equal to that of
    /// [`FrozenNetwork::run`] up to the rounding of the last layer's normalization.
    ///
    /// # Errors
    /// [`Error::Length`] unless the pixels are whole images; [`Error::Tensor`] or [`Error::Device`]
    /// for an error of the device.
    pub fn run(&self, pixels: &[u8]) -> Result<ArrayD<f32>> {
        let codes = self.network.codes(pixels)?;
        Ok(self.outputs_of(&codes)?.to_host()?)
    }

    /// Computes the output of the last layer, f32 `[batch, height, width, channels]`; the result
    /// stays on the device. The input is that of [`FrozenNetwork::layers_of`].
    ///
    /// Memory: the pool's peak is the memory of [`FrozenNetwork::upload`] plus that of the largest
    /// layer. A layer with a kernel has no temporaries; with codes of A bits:
    ///
    /// ```text
    /// bytes of a layer        = bytes of its input + bytes of its output
    /// bytes of an activation  = 4 · batch · height · width · words of a pixel
    /// words of a pixel        = A · groups · ⌈channels of a group / 32⌉ for bits
    ///                           groups · ⌈channels of a group / 4⌉ for bytes
    /// ```
    /// The first layer, the last layer and layers of floats are tensor programs. Their constants
    /// are copied to the device for the time of the layer, and their temporaries are at most those
    /// that [`FrozenNetwork::run`] states.
    ///
    /// # Errors
    /// As [`layers_of`](Self::layers_of).
    pub fn outputs_of(&self, codes: &Tensor) -> Result<Tensor> {
        let batch = batch_of(
            "DeviceNetwork::outputs_of",
            codes,
            self.network.input,
            DType::I32,
        )?;
        // A layer's input is dropped when its output was computed.
        (0..self.kernels.len()).try_fold(codes.clone(), |input, number| {
            self.layer_of(number, &input, batch)
        })
    }

    /// Computes the output of each layer, as [`FrozenNetwork::layers_of`] describes; the results
    /// stay on the device.
    ///
    /// # Errors
    /// [`Error::ImageShape`] for images of another size; [`Error::Type`] for another type;
    /// [`Error::Tensor`] or [`Error::Device`] for an error of the device.
    pub fn layers_of(&self, codes: &Tensor) -> Result<Vec<Tensor>> {
        let operation = "DeviceNetwork::layers_of";
        let batch = batch_of(operation, codes, self.network.input, DType::I32)?;
        let mut outputs: Vec<Tensor> = Vec::with_capacity(self.kernels.len());
        for number in 0..self.kernels.len() {
            outputs.push(self.layer_of(number, outputs.last().unwrap_or(codes), batch)?);
        }
        Ok(outputs)
    }

    /// Computes the output of the last layer like [`outputs_of`](Self::outputs_of), and records a
    /// span for each layer, as [`FrozenNetwork::profile`] describes, on a track with the name of
    /// the device. A span begins at the call for the layer and has the length of the device's time
    /// in the layer ([`Gpu::time`]), without uploads.
    ///
    /// Cost: the device is idle between the layers, because each layer is waited for.
    ///
    /// # Errors
    /// As [`layers_of`](Self::layers_of); [`Error::Device`] if another measurement is running.
    ///
    /// # Examples
    /// ```
    /// use gpu_wgsl::{Error, Gpu, Select};
    /// use quant::{InputImage, Layer, Network, Weights, Window};
    /// use tensor_core::profile::{By, Column, Profiler};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gpu = match Gpu::open(Select::Best) {
    ///     Err(Error::NoAdapter { .. }) => return Ok(()),
    ///     other => other?,
    /// };
    /// let weights = Weights::Float(vec![0.5, -1.0]);
    /// let layers = vec![Layer::new("only", 1, Window::new([1, 1]), weights)];
    /// let frozen = Network::new(InputImage::unit([1, 1, 2]), layers)?.freeze()?;
    /// let profiler = Profiler::new(&gpu);
    /// frozen.upload(&gpu)?.profile(&frozen.codes(&[255, 51])?, &profiler)?;
    /// let table = profiler.profile().table(By::Span, Column::Time);
    /// assert!(table.rows.iter().any(|row| row.name == "only" && row.calls == 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn profile(&self, codes: &Tensor, profiler: &Profiler<'_>) -> Result<Tensor> {
        let operation = "DeviceNetwork::profile";
        let batch = batch_of(operation, codes, self.network.input, DType::I32)?;
        let track = (profiler, self.gpu.name());
        self.network.profile_by(codes, track, |number, input| {
            let start = Instant::now();
            let mut output = Err(Error::Empty { operation });
            let timings = self.gpu.time(|| {
                output = self.layer_of(number, input, batch);
                Ok(())
            })?;
            let elapsed: Duration = timings.iter().map(|timing| timing.elapsed).sum();
            Ok((output?, [start, start + elapsed]))
        })
    }

    /// Computes the output of one layer.
    fn layer_of(&self, number: usize, input: &Tensor, batch: usize) -> Result<Tensor> {
        match &self.kernels[number] {
            Some(kernel) if batch > 0 => {
                let words = kernel.codes(&self.gpu.buffer_from_tensor(input)?)?;
                let shape = words.shape().to_vec();
                let words = words.into_any();
                Ok(self.gpu.tensor_from_buffer(DType::U32, &shape, words)?)
            }
            _ => {
                let output = self.network.layers[number].output_of(input, batch);
                Ok(output.realize(self.gpu)?)
            }
        }
    }
}

impl FrozenLayer {
    /// Returns the kernel of a layer whose weights and outputs are bits, or bytes; `None` for other
    /// layers.
    fn upload<'a>(&self, gpu: &'a Gpu) -> Result<Option<CodedConv<'a>>> {
        let Output::Codes(coder) = &self.output else {
            return Ok(None);
        };
        let (layout, n_weight_planes, words, coefficients) = match &self.product {
            Product::Bits {
                alphabet,
                layout,
                n_weight_planes,
                words,
                coefficients,
            } => {
                let per_one = alphabet.factor_distance();
                let coefficients = coefficients.iter().map(|c| c.wrapping_mul(per_one));
                (
                    layout,
                    *n_weight_planes,
                    words,
                    coefficients.collect::<Vec<_>>(),
                )
            }
            // The kernel subtracts products.
            Product::Bytes { layout, words } => (layout, 1, words, vec![-1; self.n_outputs]),
            Product::Numbers { .. } => return Ok(None),
        };
        // The output of a kernel is packed as its input.
        if coder.layout.packing() != layout.packing() {
            return Ok(None);
        }
        let constants = self.product.constants(self);
        let common = border::common(&constants, self.n_outputs);
        let zeros = vec![0; self.n_outputs];
        let [row_classes, col_classes] = self.border.class_of_axes();
        let data = PackedConvData {
            geometry: self.geometry(layout, n_weight_planes)?,
            weights: words,
            bias: common.unwrap_or(&zeros),
            coefficients: &coefficients,
            border: common.is_none().then_some(PackedConvBorder {
                row_classes: &row_classes,
                col_classes: &col_classes,
                sums: &constants,
            }),
        };
        let codes = PackedConvCodes {
            pool: pair(self.pool.size)?,
            pool_stride: pair(self.pool.stride)?,
            pool_padding: paddings(self.pool.padding)?,
            is_flipped: &coder.is_flipped,
            thresholds: &coder.thresholds,
            toggles: &toggles(coder),
            planes: number(coder.layout.n_planes())?,
            groups: number(coder.layout.n_groups())?,
        };
        Ok(Some(CodedConv::upload(gpu, &data, &codes)?))
    }

    /// Returns the sizes of the layer for its kernel. `layout` is that of the input.
    fn geometry(&self, layout: &PlaneLayout, n_weight_planes: usize) -> Result<PackedConvGeometry> {
        let [height, width, _] = self.image;
        Ok(PackedConvGeometry {
            packing: layout.packing(),
            image: pair([height, width])?,
            group_channels: number(layout.group_len())?,
            groups: number(self.n_groups)?,
            out_channels: number(self.n_outputs)?,
            planes: number(layout.n_planes())?,
            weight_planes: number(n_weight_planes)?,
            window: pair(self.window.size)?,
            stride: pair(self.window.stride)?,
            dilation: pair(self.window.dilation)?,
            padding: paddings(self.window.padding)?,
        })
    }
}

fn number(n: usize) -> Result<u32> {
    Operation("FrozenNetwork::upload").narrowed("size", n)
}

fn pair([a, b]: [usize; 2]) -> Result<[u32; 2]> {
    Ok([number(a)?, number(b)?])
}

fn paddings([a, b]: [[usize; 2]; 2]) -> Result<[[u32; 2]; 2]> {
    Ok([pair(a)?, pair(b)?])
}

/// Returns the lowest level's code, then for each threshold the bits that change at it.
fn toggles(coder: &Coder) -> Vec<u32> {
    let lowest = coder.codes.first().map(|&code| u32::from(code));
    let pairs = coder.codes.windows(2);
    let changes = pairs.map(|pair| u32::from(pair[0] ^ pair[1]));
    lowest.into_iter().chain(changes).collect()
}
