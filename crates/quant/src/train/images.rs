//! Labelled images.

use std::path::Path;

use tensor_core::data::idx::{self, IdxArray};
use tensor_core::{DType, Executor, Tensor};

use crate::checksum::Checksum;
use crate::error::{Error, Result, check, check_count};
use crate::level_set::rounded;
use crate::network::InputImage;

/// The number of images of which the classes are computed at once.
const PREDICTION_BATCH: usize = 1000;

/// Images of 8-bit codes with their classes.
///
/// # Examples
/// ```
/// use quant::train::Images;
///
/// let images = Images::new([2, 2, 1], vec![0, 50, 100, 150, 200, 250, 0, 50], vec![1, 0], 2)?;
/// assert_eq!((images.len(), images.n_classes()), (2, 2));
/// assert!(Images::new([2, 2, 1], vec![0; 4], vec![2], 2).is_err());
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    size: [usize; 3],
    pixels: Vec<u8>,
    labels: Vec<u32>,
    n_classes: usize,
}

impl Images {
    /// Creates images `[image, height, width, channels]` of a size `[height, width, channels]`,
    /// with a label in `0..n_classes` for each.
    ///
    /// # Errors
    /// [`Error::Empty`] without images; [`Error::InvalidNumber`] without classes; [`Error::Length`]
    /// unless there is an image for each label; [`Error::Label`] for a label out of range.
    pub fn new(
        size: [usize; 3],
        pixels: Vec<u8>,
        labels: Vec<u32>,
        n_classes: usize,
    ) -> Result<Self> {
        let operation = "Images::new";
        if labels.is_empty() || size.contains(&0) {
            return Err(Error::Empty { operation });
        }
        let n = n_classes as f64;
        check(
            operation,
            "number of classes",
            n,
            n_classes > 0,
            "at least 1",
        )?;
        // A saturated number is no length of an array.
        let lengths = [labels.len()].into_iter().chain(size);
        let n_pixels = lengths.fold(1, |n: usize, length| n.saturating_mul(length));
        check_count(operation, "pixels", pixels.len(), n_pixels)?;
        let is_wrong = |&label: &u32| label as usize >= n_classes;
        if let Some(index) = labels.iter().position(is_wrong) {
            return Err(Error::Label {
                operation,
                index,
                label: labels[index],
                n_classes,
            });
        }
        Ok(Self {
            size,
            pixels,
            labels,
            n_classes,
        })
    }

    /// Reads images and labels from two IDX files of bytes, as MNIST has them: images
    /// `[image, height, width]` or `[image, height, width, channels]`, labels `[image]`. The files
    /// may be compressed by gzip.
    ///
    /// # Errors
    /// [`Error::Tensor`] for files that cannot be read; [`Error::File`] with the path and
    /// [`Error::ElementType`] or [`Error::Shape`] for other types or shapes, and with the errors of
    /// [`new`](Self::new).
    ///
    /// # Examples
    /// ```
    /// use quant::train::Images;
    ///
    /// // 1,797 digits of 8 x 8 pixels, which are part of this crate's repository.
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
    /// let file = |name: &str| format!("{folder}/{name}.idx.gz");
    /// let images = Images::read_idx(file("digits-images"), file("digits-labels"), 10)?;
    /// let [train, test] = images.split_at(1500)?;
    /// assert_eq!((train.size(), test.len()), ([8, 8, 1], 297));
    /// # Ok::<(), quant::Error>(())
    /// ```
    pub fn read_idx(
        images: impl AsRef<Path>,
        labels: impl AsRef<Path>,
        n_classes: usize,
    ) -> Result<Self> {
        let (images, label_path) = (images.as_ref(), labels.as_ref());
        let (shape, pixels) = bytes(images).map_err(|error| error.in_file(images))?;
        let (label_shape, labels) = bytes(label_path).map_err(|error| error.in_file(label_path))?;
        let wrong = |quantity, actual: Vec<usize>, expected: &str| Error::Shape {
            operation: "Images::read_idx",
            quantity,
            actual,
            expected: expected.to_owned(),
        };
        if label_shape.len() != 1 {
            return Err(wrong("the array", label_shape, "[image]").in_file(label_path));
        }
        let size = match shape[..] {
            [_, height, width] => [height, width, 1],
            [_, height, width, channels] => [height, width, channels],
            _ => {
                let expected = "[image, height, width] or [image, height, width, channels]";
                return Err(wrong("the array", shape, expected).in_file(images));
            }
        };
        let n_images = shape[0];
        check_count("Images::read_idx", "the labels", labels.len(), n_images)
            .map_err(|error| error.in_file(label_path))?;
        let labels = labels.into_iter().map(u32::from).collect();
        Self::new(size, pixels, labels, n_classes).map_err(|error| match error {
            Error::Label { .. } => error.in_file(label_path),
            _ => error.in_file(images),
        })
    }

    /// Returns the first `n` images: at least one, and at most all.
    #[must_use]
    pub fn first(&self, n: usize) -> Self {
        let image_len: usize = self.size.iter().product();
        let n = n.clamp(1, self.len());
        Self {
            pixels: self.pixels[..n * image_len].to_vec(),
            labels: self.labels[..n].to_vec(),
            ..*self
        }
    }

    /// Returns the images in two parts: the first `n`, and the others.
    ///
    /// # Errors
    /// [`Error::Empty`] if one of the parts has no images.
    pub fn split_at(&self, n: usize) -> Result<[Self; 2]> {
        if n == 0 || n >= self.len() {
            return Err(Error::Empty {
                operation: "Images::split_at",
            });
        }
        let image_len: usize = self.size.iter().product();
        let rest = Self {
            pixels: self.pixels[n * image_len..].to_vec(),
            labels: self.labels[n..].to_vec(),
            ..*self
        };
        Ok([self.first(n), rest])
    }

    /// Returns the number of images, which is at least 1.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "images are never empty")]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns height, width and channels.
    #[must_use]
    pub fn size(&self) -> [usize; 3] {
        self.size
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn n_classes(&self) -> usize {
        self.n_classes
    }

    /// Returns the codes of all pixels.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Returns the labels.
    #[must_use]
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns an input for which the pixels of these images, over all channels, have mean 0 and
    /// variance 1; for images of a single color, variance 0.
    ///
    /// # Errors
    /// As [`InputImage::standardized`].
    pub fn standardized_input(&self) -> Result<InputImage> {
        /// The highest code, which stands for 1.
        const HIGHEST: f64 = 255.0;
        let (mut sum, mut squares) = (0_u64, 0_u64);
        for &pixel in &self.pixels {
            let pixel = u64::from(pixel);
            sum += pixel;
            squares += pixel * pixel;
        }
        // Both sums are exact, also as f64, for less than 10^11 pixels.
        let n = self.pixels.len() as f64;
        let mean = sum as f64 / n;
        let variance = squares as f64 / n - mean * mean;
        let deviation = if variance > 0.0 {
            variance.sqrt()
        } else {
            HIGHEST
        };
        let [mean, deviation] = [mean, deviation].map(|number| rounded(number / HIGHEST));
        let n_channels = self.size[2];
        InputImage::standardized(
            self.size,
            &vec![mean; n_channels],
            &vec![deviation; n_channels],
        )
    }

    /// Returns the codes of some images as i32, `[image, height, width, channels]`.
    ///
    /// # Panics
    /// Panics unless the range is within the images.
    #[must_use]
    pub fn codes(&self, images: std::ops::Range<usize>) -> Tensor {
        let image_len: usize = self.size.iter().product();
        let [height, width, channels] = self.size;
        let pixels = &self.pixels[images.start * image_len..images.end * image_len];
        Tensor::from_vec(
            &[images.len(), height, width, channels],
            pixels.iter().map(|&pixel| i32::from(pixel)).collect(),
        )
    }

    /// Returns the class with the highest score of each image. `scores_of` returns the scores
    /// `[image, …, classes]` of codes `[image, height, width, channels]` of i32 as a tensor
    /// program, for example [`FrozenNetwork::outputs_of`](crate::FrozenNetwork::outputs_of).
    ///
    /// If a score is NaN, the class of the image is unspecified.
    ///
    /// # Errors
    /// The errors of `scores_of`; [`Error::Shape`] unless the scores have a row for each image and
    /// a score for each class; [`Error::Tensor`] for an error of the executor.
    pub fn predictions(
        &self,
        executor: &dyn Executor,
        scores_of: impl Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Vec<u32>> {
        let mut predictions = Vec::with_capacity(self.len());
        for first in (0..self.len()).step_by(PREDICTION_BATCH) {
            let images = first..(first + PREDICTION_BATCH).min(self.len());
            let n_images = images.len();
            let codes = self.codes(images).realize(executor)?;
            let scores = scores_of(&codes)?;
            let shape = scores.shape()?;
            let n_scores: usize = shape.iter().skip(1).product();
            if shape.len() < 2 || shape[0] != n_images || n_scores != self.n_classes {
                return Err(Error::Shape {
                    operation: "Images::predictions",
                    quantity: "the scores",
                    actual: shape.to_vec(),
                    expected: format!("[{n_images}, …, {}]", self.n_classes),
                });
            }
            let rows = scores.reshape(&[n_images, n_scores]);
            let classes = rows.argmax(-1).cast(DType::U32).eval::<u32>(executor)?;
            predictions.extend(classes);
        }
        Ok(predictions)
    }

    /// Returns the fraction of predictions that are equal to the labels.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] for another number of predictions than images.
    pub fn accuracy(&self, predictions: &[u32]) -> Result<f64> {
        if predictions.len() != self.len() {
            return Err(Error::LengthMismatch {
                operation: "Images::accuracy",
                left: predictions.len(),
                right: self.len(),
            });
        }
        let pairs = self.labels.iter().zip(predictions);
        let n_right = pairs
            .filter(|(label, prediction)| label == prediction)
            .count();
        Ok(n_right as f64 / self.len() as f64)
    }

    /// Returns a checksum of the images and the labels.
    pub(super) fn checksum(&self) -> Checksum {
        let mut sum = Checksum::new();
        for number in self.size.into_iter().chain([self.n_classes]) {
            sum.add_word(number as u64);
        }
        sum.add_bytes(&self.pixels);
        for &label in &self.labels {
            sum.add_word(label.into());
        }
        sum
    }

    /// Checks that a batch has at least one image and at most all.
    pub(super) fn check_batch(&self, operation: &'static str, batch: usize) -> Result<()> {
        let is_valid = (1..=self.len()).contains(&batch);
        let expected = "1 to the number of images";
        check(operation, "batch", batch as f64, is_valid, expected)
    }
}

/// Reads an IDX file of bytes.
fn bytes(path: &Path) -> Result<(Vec<usize>, Vec<u8>)> {
    match idx::read(path).map_err(tensor_core::Error::from)? {
        IdxArray::U8(array) => Ok((array.shape().to_vec(), array.iter().copied().collect())),
        _ => Err(Error::ElementType {
            operation: "Images::read_idx",
            expected: "unsigned bytes",
        }),
    }
}
