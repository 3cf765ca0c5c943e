//! Frozen networks under a profiler: one span per layer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use tensor_core::profile::{Arg, Profiler, Span};
use tensor_core::{DType, Tensor};

use super::product::Product;
use super::{FrozenLayer, FrozenNetwork};
use crate::error::{Error, Result};
use crate::network::batch_of;

impl FrozenNetwork {
    /// Computes the output of the last layer like [`outputs_of`](Self::outputs_of), but layer by
    /// layer, on the executor of a profiler. In addition to the spans of all steps, the profiler
    /// records a span for each layer, on the track `layers`.
    ///
    /// | part of a span | value |
    /// |---|---|
    /// | name | the layer's name |
    /// | start and end | the call for the layer, and the moment when its output was computed |
    /// | `bytes read` | the input, and the numbers of [`FrozenLayer::n_bytes`], each counted once |
    /// | `bytes written` | the output |
    /// | `bit products`, `byte products` or `integer products` | the products of the layer's sums |
    ///
    /// A layer with planes of A bits and weights of W bits has A · W bit products for each product
    /// of a weight and an activation. Products with the padding count.
    ///
    /// # Errors
    /// As [`outputs_of`](Self::outputs_of); [`Error::Tensor`] for an error of the executor.
    ///
    /// # Examples
    /// ```
    /// use quant::{InputImage, Layer, Network, Weights, Window};
    /// use tensor_core::Host;
    /// use tensor_core::profile::{Arg, Profiler};
    ///
    /// let weights = Weights::Float(vec![0.5, -1.0]);
    /// let layers = vec![Layer::new("only", 1, Window::new([1, 1]), weights)];
    /// let frozen = Network::new(InputImage::unit([1, 1, 2]), layers)?.freeze()?;
    /// let host = Host::new();
    /// let profiler = Profiler::new(&host);
    /// let output = frozen.profile(&frozen.codes(&[255, 51])?, &profiler)?;
    /// assert_eq!(output.shape()?, [1, 1, 1, 1]);
    /// let profile = profiler.profile();
    /// let layer = profile.spans().find(|span| &*span.name == "only").unwrap();
    /// // Two numbers of 4 bytes.
    /// assert!(layer.args.contains(&("integer products".into(), Arg::Count(2))));
    /// # Ok::<(), quant::Error>(())
    /// ```
    pub fn profile(&self, codes: &Tensor, profiler: &Profiler<'_>) -> Result<Tensor> {
        let batch = batch_of("FrozenNetwork::profile", codes, self.input, DType::I32)?;
        self.profile_by(codes, (profiler, "layers"), |number, input| {
            let start = Instant::now();
            let output = self.layers[number].output_of(input, batch);
            let output = output.realize(profiler)?;
            Ok((output, [start, Instant::now()]))
        })
    }

    /// Computes the output of the last layer by a function that returns the output of a layer and
    /// its start and end, and records the spans of the layers on a track.
    pub(crate) fn profile_by(
        &self,
        codes: &Tensor,
        (profiler, track): (&Profiler<'_>, &str),
        layer_of: impl Fn(usize, &Tensor) -> Result<(Tensor, [Instant; 2])>,
    ) -> Result<Tensor> {
        let track: Arc<str> = track.into();
        let mut input = codes.clone();
        for (number, layer) in self.layers.iter().enumerate() {
            let (output, times) = layer_of(number, &input)?;
            let [start_ns, end_ns] = times.map(|time| profiler.clock_ns(time));
            profiler.record(Span {
                name: layer.name.as_str().into(),
                track: Arc::clone(&track),
                start_ns,
                end_ns,
                parent: profiler.current_span(),
                args: layer.span_args(&input, &output)?,
            });
            input = output;
        }
        Ok(input)
    }
}

impl FrozenLayer {
    /// Returns the details of a span of the layer.
    fn span_args(&self, input: &Tensor, output: &Tensor) -> Result<Vec<(Cow<'static, str>, Arg)>> {
        let bytes = |tensor: &Tensor| {
            let n: usize = tensor.shape()?.iter().product();
            Ok::<_, Error>(n * tensor.dtype()?.bytes())
        };
        let (kind, pairs_of_planes) = match &self.product {
            Product::Bits {
                layout,
                n_weight_planes,
                ..
            } => ("bit products", layout.n_planes() * n_weight_planes),
            Product::Bytes { .. } => ("byte products", 1),
            Product::Numbers { n_planes, .. } => ("integer products", *n_planes),
        };
        let batch = input.shape()?.first().copied().unwrap_or(0);
        let [rows, cols] = self.sums_size;
        let n_sums = batch * rows * cols * self.n_outputs;
        let n_products = self.window.n_taps() * self.image[2] / self.n_groups;
        let counts = [
            ("bytes read", bytes(input)? + self.n_bytes()),
            ("bytes written", bytes(output)?),
            (kind, n_sums * n_products * pairs_of_planes),
        ];
        let args = counts.map(|(name, count)| (name.into(), Arg::Count(count as u64)));
        Ok(args.to_vec())
    }
}
