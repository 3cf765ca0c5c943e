//! Files of frozen networks.
//!
//! Format: safetensors. The metadata has the texts below; lists are separated by spaces. All
//! tensors are row-major.
//!
//! ```text
//! text                 value
//! format               quant.frozen-network
//! version              1, or 2 if activations are bytes
//! packing              "bits" or "bytes"; absent in version 1, whose activations are bits
//! input                height, width and channels of an image
//! layers               number of layers
//! checksum             of all other texts and the tensors (`checksum`)
//! layer.N.name         name of layer N, counted from 0
//! layer.N.outputs      output channels, groups
//! layer.N.window       size (2), stride (2), dilation (2), padding top, bottom, left, right
//! layer.N.pool         size, stride, dilation and padding of the max-pool, as for the window
//! layer.N.product      "signs" or "bits" (the factors of the input) and the number of planes of
//!                      the weights, or "bytes", or "numbers"
//! layer.N.codes        the code of each level in ascending order, for bytes a number from -127 to
//!                      127; absent in the last layer
//!
//! tensor               type, shape
//! layer.N.words        u32 [plane, row, col, word, output]; bit 1 is the sign +1; bytes are one
//!                      plane of signed bytes
//! layer.N.coefficients i32 [plane of the input, plane of the weights, output]
//! layer.N.numbers      i32 [row, col, plane of the input, channel of the group, output]
//! layer.N.offsets      i32 [class of the border, output]
//! layer.N.thresholds   i32 [threshold, output]
//! layer.N.is_flipped   bool [output]: whether the sums are negated
//! layer.N.exponents    i32 [output]: a sum is in units of 2^-exponent
//! layer.N.affine       f32 [bias, mean, factor, shift; output]
//! ```
//! A layer of bits has `words` and `coefficients`, a layer of bytes `words`, and any other layer
//! `numbers`. The last layer has `exponents` and `affine`, the others have `thresholds` and
//! `is_flipped`. A reader checks every shape, and that no sum can leave i32.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek};
use std::path::Path;

use tensor_core::data::safetensors::{self, Reader};
use tensor_core::{Element, Tensor};

use crate::border::Border;
use crate::checksum::{self, Checksum};
use crate::error::{Error, MAX_SIDE, Result, finite};
use crate::level_set::{Alphabet, MAX_BITS};
use crate::network::{Normalization, check_pool};
use crate::planes::{Packing, PlaneLayout};
use crate::window::Window;

use super::coder::Coder;
use super::fixed_point;
use super::product::{InputNumbers, Product};
use super::{FrozenLayer, FrozenNetwork, Output};

/// The name of the format.
const FORMAT: &str = "quant.frozen-network";
/// The version without bytes.
const VERSION: &str = "1";
/// The version with the text `packing`.
const PACKING_VERSION: &str = "2";
/// The names of packings and products.
const BITS: &str = "bits";
const BYTES: &str = "bytes";

impl FrozenNetwork {
    /// Writes the network to a safetensors file. An existing file is replaced only after the new
    /// file is complete.
    ///
    /// # Errors
    /// [`Error::Tensor`] with the error of the file system.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut texts = BTreeMap::from([
            ("format".to_owned(), FORMAT.to_owned()),
            ("input".to_owned(), list(&self.input)),
            ("layers".to_owned(), self.layers.len().to_string()),
        ]);
        // Programs that support only the first version can read files without bytes.
        if self.has_bytes() {
            texts.insert("version".to_owned(), PACKING_VERSION.to_owned());
            texts.insert("packing".to_owned(), BYTES.to_owned());
        } else {
            texts.insert("version".to_owned(), VERSION.to_owned());
        }
        let mut tensors = Vec::new();
        for (number, layer) in self.layers.iter().enumerate() {
            let key = |name: &str| format!("layer.{number}.{name}");
            for (name, text) in layer.texts() {
                texts.insert(key(name), text);
            }
            tensors.extend(layer.tensors().into_iter().map(|(name, t)| (key(name), t)));
        }
        let tensors: Vec<_> = tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
        let sum = Checksum::of_file(&texts, &tensors.iter().copied().collect())?;
        texts.insert(checksum::KEY.to_owned(), sum.to_string());
        Ok(safetensors::write_with_metadata(path, &tensors, &texts)?)
    }

    /// Reads a network from a safetensors file.
    ///
    /// Memory: no more than a small multiple of the size of the file.
    ///
    /// # Errors
    /// [`Error::Tensor`] for a file that cannot be read or is no safetensors file, and
    /// [`Error::File`] with [`Error::ModelFile`] and the key of a text or tensor that is missing or
    /// has an unexpected value, such as the checksum, or with [`Error::Layer`] and the errors of
    /// [`Network::new`](crate::Network::new) or [`Error::SumOverflow`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let reader = Reader::open(path).map_err(tensor_core::Error::from)?;
        Self::from_reader(reader).map_err(|error| error.in_file(path))
    }

    /// Reads a network from the bytes of a safetensors file, for example those of `include_bytes!`.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), without [`Error::File`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::from_reader(Reader::new(Cursor::new(bytes)).map_err(tensor_core::Error::from)?)
    }

    fn from_reader<R: Read + Seek>(reader: Reader<R>) -> Result<Self> {
        let mut source = Source {
            reader,
            packing: Packing::Bits,
        };
        source.expect("format", FORMAT)?;
        source.packing = match source.text("version")? {
            VERSION => Packing::Bits,
            PACKING_VERSION => match source.text("packing")? {
                BITS => Packing::Bits,
                BYTES => Packing::Bytes,
                _ => return Err(source.error("packing", "\"bits\" or \"bytes\"")),
            },
            _ => return Err(source.error("version", "1 or 2")),
        };
        let input: [usize; 3] = source.numbers("input")?;
        let [n_layers] = source.numbers("layers")?;
        if input.iter().any(|&side| !(1..=MAX_SIDE).contains(&side)) {
            return Err(source.error("input", &format!("three numbers from 1 to {MAX_SIDE}")));
        }
        // A layer has a text and a tensor, so a file does not have many more layers than entries.
        if n_layers == 0 || n_layers > source.reader.entries().len() {
            return Err(source.error("layers", "the number of layers in the file"));
        }
        let mut image = input;
        let mut layout = None;
        let mut layers = Vec::with_capacity(n_layers);
        for number in 0..n_layers {
            let key = |name: &str| format!("layer.{number}.{name}");
            let name = source.text(&key("name"))?.to_owned();
            let n_groups_after = if number + 1 < n_layers {
                let [_, n_groups] = source.numbers(&format!("layer.{}.outputs", number + 1))?;
                Some(n_groups)
            } else {
                None
            };
            let read = source.layer(name.clone(), &key, image, layout, n_groups_after);
            let (layer, size) = read.map_err(|error| match error {
                // The key contains the number of the layer.
                Error::ModelFile { .. } => error,
                other => other.in_layer(&name),
            })?;
            if let Output::Codes(coder) = &layer.output {
                layout = Some(coder.layout);
            }
            layers.push(layer);
            image = size;
        }
        source.check_sum()?;
        Ok(Self { input, layers })
    }

    /// Returns whether activations are bytes.
    fn has_bytes(&self) -> bool {
        self.layers.iter().any(|layer| match &layer.output {
            Output::Codes(coder) => coder.layout.packing() == Packing::Bytes,
            Output::Numbers { .. } => false,
        })
    }
}

impl FrozenLayer {
    fn texts(&self) -> Vec<(&'static str, String)> {
        let mut texts = vec![
            ("name", self.name.clone()),
            ("outputs", list(&[self.n_outputs, self.n_groups])),
            ("window", window_text(&self.window)),
            ("pool", window_text(&self.pool)),
        ];
        let product = match &self.product {
            Product::Numbers { .. } => "numbers".to_owned(),
            Product::Bytes { .. } => BYTES.to_owned(),
            Product::Bits {
                alphabet,
                n_weight_planes,
                ..
            } => match alphabet {
                Alphabet::Signs => format!("signs {n_weight_planes}"),
                Alphabet::Bits => format!("bits {n_weight_planes}"),
            },
        };
        texts.push(("product", product));
        if let Output::Codes(coder) = &self.output {
            let codes = match coder.layout.packing() {
                Packing::Bits => list(&coder.codes),
                Packing::Bytes => list(&coder.bytes().collect::<Vec<_>>()),
            };
            texts.push(("codes", codes));
        }
        texts
    }

    fn tensors(&self) -> Vec<(&'static str, Tensor)> {
        let n_outputs = self.n_outputs;
        let mut tensors = match &self.product {
            Product::Bits {
                words,
                coefficients,
                ..
            } => vec![
                ("words", tensor(&self.weights_shape(), words)),
                (
                    "coefficients",
                    tensor(&self.coefficients_shape(), coefficients),
                ),
            ],
            Product::Bytes { words, .. } => vec![("words", tensor(&self.weights_shape(), words))],
            Product::Numbers { numbers, .. } => {
                vec![("numbers", tensor(&self.weights_shape(), numbers))]
            }
        };
        let n_classes = self.border.n_classes();
        tensors.push(("offsets", tensor(&[n_classes, n_outputs], &self.offsets)));
        match &self.output {
            Output::Codes(coder) => {
                let n_thresholds = coder.codes.len() - 1;
                let shape = [n_thresholds, n_outputs];
                tensors.push(("thresholds", tensor(&shape, &coder.thresholds)));
                tensors.push(("is_flipped", tensor(&[n_outputs], &coder.is_flipped)));
            }
            Output::Numbers {
                normalization,
                exponents,
            } => {
                let rows = normalization.rows().concat();
                tensors.push((
                    "affine",
                    tensor(&[rows.len() / n_outputs, n_outputs], &rows),
                ));
                tensors.push(("exponents", tensor(&[n_outputs], exponents)));
            }
        }
        tensors
    }

    /// Returns the shape of the tensor `words` or `numbers`.
    fn weights_shape(&self) -> [usize; 5] {
        let [rows, cols] = self.window.size;
        match &self.product {
            Product::Bits {
                layout,
                n_weight_planes,
                ..
            } => [
                *n_weight_planes,
                rows,
                cols,
                layout.group_words(),
                self.n_outputs,
            ],
            Product::Bytes { layout, .. } => [1, rows, cols, layout.group_words(), self.n_outputs],
            Product::Numbers { n_planes, .. } => {
                let group_len = self.image[2] / self.n_groups;
                [rows, cols, *n_planes, group_len, self.n_outputs]
            }
        }
    }

    /// Returns the shape of the tensor `coefficients`.
    fn coefficients_shape(&self) -> [usize; 3] {
        match &self.product {
            Product::Bits {
                layout,
                n_weight_planes,
                ..
            } => [layout.n_planes(), *n_weight_planes, self.n_outputs],
            Product::Bytes { .. } | Product::Numbers { .. } => [0; 3],
        }
    }
}

/// An open file.
struct Source<R> {
    reader: Reader<R>,
    /// The form of the activations.
    packing: Packing,
}

impl<R: Read + Seek> Source<R> {
    /// Returns an error for a text or a tensor.
    fn error(&self, key: &str, expected: &str) -> Error {
        let entry = self.reader.entries().iter().find(|entry| entry.name == key);
        let actual = match (self.reader.metadata().get(key), entry) {
            (Some(text), _) => format!("{text:?}"),
            (None, Some(entry)) => format!("a tensor of {} {:?}", entry.dtype, entry.shape),
            (None, None) => "missing".to_owned(),
        };
        Error::model_file("FrozenNetwork::read", key, &actual, expected)
    }

    fn text(&self, key: &str) -> Result<&str> {
        let text = self.reader.metadata().get(key).map(String::as_str);
        text.ok_or_else(|| self.error(key, "a text"))
    }

    fn expect(&self, key: &str, value: &str) -> Result<()> {
        if self.text(key)? == value {
            Ok(())
        } else {
            Err(self.error(key, &format!("{value:?}")))
        }
    }

    /// Checks the checksum of the file.
    fn check_sum(&mut self) -> Result<()> {
        let names: Vec<String> = self
            .reader
            .entries()
            .iter()
            .map(|entry| entry.name.clone())
            .collect();
        let tensors = names.iter().map(|name| self.reader.read(name));
        let tensors = tensors
            .collect::<Result<Vec<_>, _>>()
            .map_err(tensor_core::Error::from)?;
        let tensors = names.iter().map(String::as_str).zip(&tensors).collect();
        let sum = Checksum::of_file(self.reader.metadata(), &tensors)?;
        self.expect(checksum::KEY, &sum.to_string())
    }

    /// Returns a list of exactly `N` numbers.
    fn numbers<const N: usize>(&self, key: &str) -> Result<[usize; N]> {
        let words = self.text(key)?.split(' ').take(N + 1);
        let numbers = words.map(str::parse).collect::<Result<Vec<usize>, _>>();
        let numbers = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        numbers.ok_or_else(|| self.error(key, &format!("a list of {N} numbers")))
    }

    fn window(&self, key: &str) -> Result<Window> {
        let [y, x, sy, sx, dy, dx, top, bottom, left, right] = self.numbers(key)?;
        Ok(Window::new([y, x])
            .with_stride([sy, sx])
            .with_dilation([dy, dx])
            .with_padding([[top, bottom], [left, right]]))
    }

    /// Reads a tensor of the expected shape.
    fn tensor<T: Element>(&mut self, key: &str, shape: &[usize]) -> Result<Vec<T>> {
        let entry = self.reader.entries().iter().find(|entry| entry.name == key);
        let is_expected = entry
            .is_some_and(|entry| entry.shape == shape && entry.dtype.dtype() == Some(T::DTYPE));
        if !is_expected {
            return Err(self.error(key, &format!("{} {shape:?}", T::DTYPE)));
        }
        let read = self.reader.read(key).map_err(tensor_core::Error::from)?;
        Ok(read.to_host::<T>()?.into_iter().collect())
    }

    /// Reads a layer, and returns it with the size of its output. `layout` is that of the input,
    /// unless the input is an image.
    fn layer(
        &mut self,
        name: String,
        key: &impl Fn(&str) -> String,
        image: [usize; 3],
        layout: Option<PlaneLayout>,
        n_groups_after: Option<usize>,
    ) -> Result<(FrozenLayer, [usize; 3])> {
        let [n_outputs, n_groups] = self.numbers(&key("outputs"))?;
        let [height, width, n_channels] = image;
        let is_divided = n_groups > 0
            && n_outputs > 0
            && n_outputs <= MAX_SIDE
            && n_outputs.is_multiple_of(n_groups)
            && n_channels.is_multiple_of(n_groups);
        if !is_divided {
            let expected = format!(
                "1 to {MAX_SIDE} outputs, and groups that divide the outputs and {n_channels} channels"
            );
            return Err(self.error(&key("outputs"), &expected));
        }
        let (window, pool) = (self.window(&key("window"))?, self.window(&key("pool"))?);
        let size = window.output_size([height, width])?;
        let [pooled_height, pooled_width] = pool.output_size(size)?;
        check_pool("FrozenNetwork::read", &pool)?;
        let product = self.product(&key("product"), layout)?;
        let mut layer = FrozenLayer {
            name,
            image,
            n_outputs,
            n_groups,
            window,
            sums_size: size,
            pool,
            product,
            // Computed when the weights have proved the size of the window.
            border: Border::new(&window, [0; 2], [0; 2]),
            offsets: vec![],
            output: Output::Numbers {
                normalization: Normalization::bias(&[]),
                exponents: vec![],
            },
        };
        self.weights(key, &mut layer)?;
        layer.border = Border::new(&layer.window, [height, width], size);
        let offsets = [layer.border.n_classes(), n_outputs];
        layer.offsets = self.tensor(&key("offsets"), &offsets)?;
        layer.output = match n_groups_after {
            Some(n_groups) => Output::Codes(self.coder(key, n_outputs, n_groups)?),
            None => self.last(key, n_outputs)?,
        };
        layer.check_range()?;
        Ok((layer, [pooled_height, pooled_width, n_outputs]))
    }

    /// Reads the kind of a layer's weights; their words and numbers are still empty. `layout` is
    /// that of the input, unless the input is an image.
    fn product(&self, key: &str, layout: Option<PlaneLayout>) -> Result<Product> {
        let product = self.text(key)?;
        let packing = layout.map(|layout| layout.packing());
        match (product.split_once(' '), layout) {
            (None, _) if product == "numbers" => Ok(Product::Numbers {
                n_planes: layout.map_or(1, |layout| layout.n_planes()),
                input: match packing {
                    None => InputNumbers::Image,
                    Some(Packing::Bits) => InputNumbers::Planes(Alphabet::Bits),
                    Some(Packing::Bytes) => InputNumbers::Bytes,
                },
                numbers: vec![],
            }),
            (None, Some(layout)) if product == BYTES && packing == Some(Packing::Bytes) => {
                Ok(Product::Bytes {
                    layout,
                    words: vec![],
                })
            }
            (Some((alphabet @ ("signs" | BITS), n_weight_planes)), Some(layout))
                if packing == Some(Packing::Bits) =>
            {
                let n_weight_planes = n_weight_planes.parse().ok();
                let Some(n_weight_planes) =
                    n_weight_planes.filter(|n| (1..=MAX_BITS + 1).contains(n))
                else {
                    let expected = format!("1 to {} planes of the weights", MAX_BITS + 1);
                    return Err(self.error(key, &expected));
                };
                Ok(Product::Bits {
                    alphabet: if alphabet == BITS {
                        Alphabet::Bits
                    } else {
                        Alphabet::Signs
                    },
                    layout,
                    n_weight_planes,
                    words: vec![],
                    coefficients: vec![],
                })
            }
            _ => {
                let expected = "\"numbers\"; after the first layer also \"bytes\" if the packing is bytes, and \"signs N\" or \"bits N\" if it is bits";
                Err(self.error(key, expected))
            }
        }
    }

    /// Reads the words, coefficients or numbers of a layer's weights.
    fn weights(&mut self, key: &impl Fn(&str) -> String, layer: &mut FrozenLayer) -> Result<()> {
        let n_outputs = layer.n_outputs;
        let (weights, pairs) = (layer.weights_shape(), layer.coefficients_shape());
        match &mut layer.product {
            Product::Bits {
                words,
                coefficients,
                layout,
                ..
            } => {
                *words = self.tensor(&key("words"), &weights)?;
                *coefficients = self.tensor(&key("coefficients"), &pairs)?;
                self.check_words(&key("words"), layout, words, n_outputs)?;
            }
            Product::Bytes { words, layout } => {
                *words = self.tensor(&key("words"), &weights)?;
                self.check_words(&key("words"), layout, words, n_outputs)?;
            }
            Product::Numbers { numbers, .. } => {
                *numbers = self.tensor(&key("numbers"), &weights)?;
            }
        }
        Ok(())
    }

    fn coder(
        &mut self,
        key: &impl Fn(&str) -> String,
        n_outputs: usize,
        n_groups: usize,
    ) -> Result<Coder> {
        let codes = self.codes(&key("codes"))?;
        let layout = match self.packing {
            Packing::Bits => {
                let highest = codes.iter().fold(0, |all, code| all | code);
                let n_planes = (u8::BITS - highest.leading_zeros()) as usize;
                PlaneLayout::new(n_outputs, n_groups, n_planes)?
            }
            Packing::Bytes => PlaneLayout::bytes(n_outputs, n_groups)?,
        };
        let shape = [codes.len() - 1, n_outputs];
        let thresholds: Vec<i32> = self.tensor(&key("thresholds"), &shape)?;
        // Codes are computed from the number of passed thresholds, which must be the first ones.
        let rows = thresholds.chunks_exact(n_outputs);
        let mut pairs = rows.clone().zip(rows.skip(1));
        if !pairs.all(|(row, next)| row.iter().zip(next).all(|(a, b)| a <= b)) {
            return Err(self.error(&key("thresholds"), "ascending numbers of each output"));
        }
        Ok(Coder {
            layout,
            is_flipped: self.tensor(&key("is_flipped"), &[n_outputs])?,
            thresholds,
            codes,
        })
    }

    /// Reads the codes of levels.
    fn codes(&self, key: &str) -> Result<Vec<u8>> {
        let range = match self.packing {
            Packing::Bits => 0..=i32::from(u8::MAX),
            Packing::Bytes => i32::from(-i8::MAX)..=i32::from(i8::MAX),
        };
        // One more than a byte has codes, so that a longer list is an error.
        let words = self.text(key)?.split(' ').take((1 << MAX_BITS) + 1);
        let codes = words.map(|word| {
            let number: Option<i32> = word.parse().ok();
            let number = number.filter(|number| range.contains(number));
            // The lowest byte of a number in the range is the code, or the signed byte.
            number.map(|number| number.to_le_bytes()[0])
        });
        let codes: Option<Vec<u8>> = codes.collect();
        let is_valid = |codes: &Vec<u8>| (2..=1 << MAX_BITS).contains(&codes.len());
        codes.filter(is_valid).ok_or_else(|| {
            let (first, last) = (range.start(), range.end());
            self.error(key, &format!("2 to 256 numbers from {first} to {last}"))
        })
    }

    fn check_words(
        &self,
        key: &str,
        layout: &PlaneLayout,
        words: &[u32],
        n_outputs: usize,
    ) -> Result<()> {
        if layout.has_clean_words(words, n_outputs) {
            Ok(())
        } else {
            Err(self.error(key, "zeros in the unused bits"))
        }
    }

    fn last(&mut self, key: &impl Fn(&str) -> String, n_outputs: usize) -> Result<Output> {
        let exponents: Vec<i32> = self.tensor(&key("exponents"), &[n_outputs])?;
        let [least, most] = fixed_point::EXPONENTS;
        if !exponents.iter().all(|n| (least..=most).contains(n)) {
            return Err(self.error(
                &key("exponents"),
                &format!("numbers from {least} to {most}"),
            ));
        }
        let rows: Vec<f32> = self.tensor(&key("affine"), &[4, n_outputs])?;
        for &number in &rows {
            finite("FrozenNetwork::read", "affine", number.into())?;
        }
        let row = |n: usize| rows[n * n_outputs..][..n_outputs].to_vec();
        Ok(Output::Numbers {
            normalization: Normalization {
                bias: row(0),
                mean: row(1),
                factor: row(2),
                shift: row(3),
            },
            exponents,
        })
    }
}

fn tensor<T: Element>(shape: &[usize], data: &[T]) -> Tensor {
    Tensor::from_vec(shape, data.to_vec())
}

fn list<T: ToString>(numbers: &[T]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(" ")
}

fn window_text(window: &Window) -> String {
    let pairs = [window.size, window.stride, window.dilation];
    list(&[pairs.concat(), window.padding.concat()].concat())
}
