//! Float layers from safetensors files with the names and the layout of PyTorch's `state_dict`.
//!
//! Layout: the weights of a convolution are `[outputs, channels, height, width]`, those of a linear
//! layer `[outputs, channels · height · width]`; both become
//! `[outputs, height, width, channels]` here. Types f16, bf16, f32 and f64 become f32.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use tensor_core::data::safetensors::{Entry, Reader};
use tensor_core::{DType, Host};

use crate::error::{Error, MAX_SIDE, Result};
use crate::network::{Layer, Normalization, Weights};
use crate::window::Window;

/// The `epsilon` of PyTorch's batch normalizations, which files do not contain.
const EPSILON: f32 = 1e-5;

/// An open safetensors file with the parameters of a float network, as PyTorch's `state_dict` names
/// them.
///
/// # Examples
/// ```
/// use quant::{StateDict, Window};
/// use tensor_core::data::safetensors;
/// use tensor_core::{DType, Tensor};
///
/// let file = format!("quant-state-dict-{}.safetensors", std::process::id());
/// let path = std::env::temp_dir().join(file);
/// let weight = Tensor::from_vec(&[2, 1, 1, 3], vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let bias = Tensor::from_vec(&[2], vec![0.5_f32, -0.5]);
/// safetensors::write(&path, &[("conv.weight", &weight), ("conv.bias", &bias)])?;
///
/// let mut file = StateDict::open(&path)?;
/// let layer = file.layer("conv", None, Window::new([1, 3]))?;
/// assert_eq!((layer.n_outputs, layer.weights.values()?.len()), (2, 6));
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Debug)]
pub struct StateDict {
    reader: Reader<BufReader<File>>,
    path: PathBuf,
    epsilon: f32,
}

impl StateDict {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`Error::Tensor`] for a file that is no safetensors file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Ok(Self {
            reader: Reader::open(path).map_err(tensor_core::Error::from)?,
            path: path.to_owned(),
            epsilon: EPSILON,
        })
    }

    /// Sets the `epsilon` of batch normalizations (default: 1e-5, as in PyTorch).
    #[must_use]
    pub fn with_epsilon(self, epsilon: f32) -> Self {
        Self { epsilon, ..self }
    }

    /// Returns a convolution or linear layer with float weights, without activation and max-pool:
    /// the tensor `name.weight`, and `name.bias` if the file contains it. `batch_norm` is the name
    /// of a batch normalization after it, with `weight`, `bias`, `running_mean` and `running_var`.
    ///
    /// The weights of a linear layer are those of a convolution whose window is the whole image. A
    /// convolution with groups is the layer [`with_groups`](Layer::with_groups), because files do
    /// not contain their number.
    ///
    /// # Errors
    /// [`Error::File`] with [`Error::ModelFile`] for a tensor that is missing or has another shape
    /// or type than expected, or with [`Error::InvalidNumber`] for numbers that
    /// [`Normalization::batch`] rejects; [`Error::Tensor`] for an error of the file.
    pub fn layer(&mut self, name: &str, batch_norm: Option<&str>, window: Window) -> Result<Layer> {
        let read = self.read_layer(name, batch_norm, window);
        read.map_err(|error| error.in_file(&self.path))
    }

    fn read_layer(
        &mut self,
        name: &str,
        batch_norm: Option<&str>,
        window: Window,
    ) -> Result<Layer> {
        let key = format!("{name}.weight");
        let [height, width] = window.size;
        let expected = format!(
            "[outputs, channels, {height}, {width}] or [outputs, channels · {height} · {width}]"
        );
        let entry = self.entry(&key, &expected)?;
        let (n_outputs, n_channels) = match entry.shape[..] {
            [outputs, channels, rows, cols] if [rows, cols] == window.size => (outputs, channels),
            [outputs, len] if window.n_taps() > 0 && len.is_multiple_of(window.n_taps()) => {
                (outputs, len / window.n_taps())
            }
            _ => return Err(unexpected(&key, Some(&entry), &expected)),
        };
        let sides = [n_outputs, n_channels];
        if !sides.iter().all(|side| (1..=MAX_SIDE).contains(side)) {
            let expected = "1 to 2^20 outputs and channels";
            return Err(unexpected(&key, Some(&entry), expected));
        }
        let weights = self.numbers(&entry, &[n_outputs, n_channels, height, width])?;
        let bias_key = format!("{name}.bias");
        let has_bias = self.find(&bias_key).is_some();
        let bias = if has_bias {
            self.row(&bias_key, n_outputs)?
        } else {
            vec![0.0; n_outputs]
        };
        let normalization = match batch_norm {
            None => Normalization::bias(&bias),
            Some(name) => {
                let mut row = |field| self.row(&format!("{name}.{field}"), n_outputs);
                let (gamma, beta) = (row("weight")?, row("bias")?);
                let (mean, variance) = (row("running_mean")?, row("running_var")?);
                Normalization::batch(&gamma, &beta, &mean, &variance, self.epsilon)?
                    .with_bias(&bias)?
            }
        };
        let layer = Layer::new(name, n_outputs, window, Weights::Float(weights));
        Ok(layer.with_normalization(normalization))
    }

    fn find(&self, key: &str) -> Option<&Entry> {
        self.reader.entries().iter().find(|entry| entry.name == key)
    }

    fn entry(&self, key: &str, expected: &str) -> Result<Entry> {
        let found = self.find(key).cloned();
        found.ok_or_else(|| unexpected(key, None, expected))
    }

    /// Reads a tensor of one axis.
    fn row(&mut self, key: &str, len: usize) -> Result<Vec<f32>> {
        let expected = format!("[{len}]");
        let entry = self.entry(key, &expected)?;
        if entry.shape == [len] {
            self.numbers(&entry, &[len])
        } else {
            Err(unexpected(key, Some(&entry), &expected))
        }
    }

    /// Reads a tensor of floats as `shape`, and moves its axis 1, the channels, to the end.
    fn numbers(&mut self, entry: &Entry, shape: &[usize]) -> Result<Vec<f32>> {
        let dtype = entry.dtype.closest();
        let Some(dtype @ (DType::F16 | DType::F32 | DType::F64)) = dtype else {
            return Err(unexpected(&entry.name, Some(entry), "a tensor of floats"));
        };
        let read = self.reader.read_as(&entry.name, dtype);
        let mut tensor = read.map_err(tensor_core::Error::from)?.reshape(shape);
        if shape.len() == 4 {
            tensor = tensor.permute(&[0, 2, 3, 1]);
        }
        let numbers = tensor.cast(DType::F32).eval::<f32>(&Host::new())?;
        Ok(numbers.into_iter().collect())
    }
}

fn unexpected(key: &str, actual: Option<&Entry>, expected: &str) -> Error {
    let actual = match actual {
        Some(entry) => format!("a tensor of {} {:?}", entry.dtype, entry.shape),
        None => "missing".to_owned(),
    };
    Error::model_file("StateDict::layer", key, &actual, expected)
}
