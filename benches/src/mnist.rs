//! Images for the workloads: MNIST if it was downloaded, otherwise the small set of digits that is
//! part of the project.
//!
//! Role: finds images with their labels and test images, and reports their origin, which every
//! table and report shows.
//! Shapes: `[50 000, 784]`, row-major. Pixels are divided by 256, as in the data of the fast.ai
//! notebook "matmul", so they are exact in f32.
//! Source: MNIST by LeCun, Cortes and Burges; the fallback is UCI's "Optical Recognition of
//! Handwritten Digits" (Alpaydin and Kaynak 1998, CC BY 4.0), see
//! `crates/quant/testdata/README.md`.

use anyhow::{Context, Result, bail, ensure};
use quant::train;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use tensor_core::data::idx::{self, IdxArray};

/// Pixels per image, 28 × 28.
pub const N_PIXELS: usize = SIDE * SIDE;
/// Width and height of an image, in pixels.
const SIDE: usize = 28;
/// Number of training images: the notebook trains on the first 50 000 and uses the rest for
/// validation.
pub const N_IMAGES: usize = 50_000;
/// Divisor of the pixels, which are bytes in the files.
const LEVELS: f32 = 256.0;
/// Folder of MNIST within the folder of all data sets.
const MNIST: &str = "mnist";
/// File name of the training images. Each of the four files may also be compressed, with `.gz`
/// appended to its name.
const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";
const TRAIN_LABELS: &str = "train-labels-idx1-ubyte";
const TEST_IMAGES: &str = "t10k-images-idx3-ubyte";
const TEST_LABELS: &str = "t10k-labels-idx1-ubyte";
/// Number of classes of all data sets.
const N_CLASSES: usize = 10;
const DIGITS: &[u8] = include_bytes!("../../crates/quant/testdata/digits-images.idx.gz");
const DIGITS_LABELS: &[u8] = include_bytes!("../../crates/quant/testdata/digits-labels.idx.gz");
/// Number of the project's digits to train with; the rest is for tests.
const N_DIGITS_TO_TRAIN: usize = 1500;
/// Width and height of the project's digits, in pixels.
const DIGITS_SIDE: usize = 8;
/// Factor for the project's digits: their 17 levels, 0 to 16, times 16 cover the range of MNIST's
/// pixels.
const DIGITS_SCALE: f32 = 16.0;

/// Images with their origin.
#[derive(Debug)]
pub struct Images {
    /// Pixels, `[50 000, 784]`.
    pub pixels: Vec<f32>,
    /// Description of where the images come from, in one line.
    pub origin: String,
    /// Whether the images were fetched by `cargo xtask data`, which checks their sha256.
    pub is_fetched: bool,
    /// Labels and test images; `None` if a folder given by the user does not contain these files.
    pub labelled: Option<Labelled>,
}

impl Images {
    /// Returns the labelled training images and the test images as codes; `None` without labels.
    ///
    /// # Errors
    /// The numbers of images and labels do not match.
    pub fn coded(&self) -> Result<Option<[train::Images; 2]>> {
        let Some(labelled) = &self.labelled else {
            return Ok(None);
        };
        let coded = |pixels: &[f32], labels: &[u8]| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "pixels are whole numbers from 0 to 256 divided by 256; the cast saturates"
            )]
            let codes = pixels.iter().map(|pixel| (pixel * LEVELS) as u8).collect();
            let labels = labels.iter().copied().map(u32::from).collect();
            train::Images::new([SIDE, SIDE, 1], codes, labels, N_CLASSES)
        };
        let n_train = labelled.train_labels.len();
        Ok(Some([
            coded(&self.pixels[..n_train * N_PIXELS], &labelled.train_labels)?,
            coded(&labelled.test_pixels, &labelled.test_labels)?,
        ]))
    }
}

/// Labels of the training images, and labelled test images.
#[derive(Debug)]
pub struct Labelled {
    /// Digits shown by the training images. Of the project's digits, only the first 1500 images
    /// have labels.
    pub train_labels: Vec<u8>,
    /// Pixels of the test images, `[n, 784]`; none of them is used for training.
    pub test_pixels: Vec<f32>,
    /// Digits shown by the test images.
    pub test_labels: Vec<u8>,
    /// Whether the images are MNIST's.
    pub is_mnist: bool,
}

/// The images of a run, loaded when the first task needs them.
#[derive(Debug, Default)]
pub struct LazyImages {
    folder: Option<PathBuf>,
    images: OnceCell<Images>,
}

impl LazyImages {
    /// Creates the handle; `folder` is the folder given by the user, if any, as for [`load`].
    #[must_use]
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            images: OnceCell::new(),
        }
    }

    /// Returns the images, loaded by the first call.
    ///
    /// # Errors
    /// As [`load`].
    pub fn get(&self) -> Result<&Images> {
        if let Some(images) = self.images.get() {
            return Ok(images);
        }
        let images = load(self.folder.as_deref())?;
        Ok(self.images.get_or_init(|| images))
    }

    /// Returns the origin of the images; `None` if no task has loaded them.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.images.get().map(|images| images.origin.as_str())
    }
}

/// Loads the images from `folder` if it is given; otherwise from the folders where `cargo xtask
/// data` and a bundle store them; otherwise the project's digits.
///
/// # Errors
/// `folder` was given and contains no readable training images, or a file in one of the other
/// folders cannot be read. Such a damaged file is an error because falling back to other data would
/// go unnoticed.
pub fn load(folder: Option<&Path>) -> Result<Images> {
    if let Some(folder) = folder {
        let path = training_images(folder)?;
        let origin = format!("images 0..{N_IMAGES} of {}", path.display());
        return read_all(folder, &path, origin);
    }
    match places(MNIST)
        .iter()
        .find_map(|place| Some((place, find(place, TRAIN_IMAGES)?)))
    {
        // The files in these folders were checked against MNIST's sha256 when they were downloaded.
        Some((place, path)) => {
            let origin = format!("MNIST training images 0..{N_IMAGES}");
            let images = read_all(place, &path, origin)?;
            Ok(Images {
                is_fetched: true,
                ..images
            })
        }
        None => digits(),
    }
}

/// Returns the path of the training images in a folder.
///
/// # Errors
/// The folder has no such file.
pub fn training_images(folder: &Path) -> Result<PathBuf> {
    find(folder, TRAIN_IMAGES).with_context(|| {
        format!(
            "no {TRAIN_IMAGES} or {TRAIN_IMAGES}.gz in {}",
            folder.display()
        )
    })
}

/// Reads the images at `path`, and the other files of the data set if all of them are in its
/// folder.
fn read_all(folder: &Path, path: &Path, origin: String) -> Result<Images> {
    let [train, images, labels] =
        [TRAIN_LABELS, TEST_IMAGES, TEST_LABELS].map(|name| find(folder, name));
    let labelled = match (train, images, labels) {
        (Some(train), Some(images), Some(labels)) => {
            let (test_pixels, test_labels) = (read(&images, usize::MAX)?, read_labels(&labels)?);
            let mut train_labels = read_labels(&train)?;
            ensure!(
                train_labels.len() >= N_IMAGES && test_labels.len() * N_PIXELS == test_pixels.len(),
                "{}: numbers of labels do not match the images ({} training, {} test labels)",
                folder.display(),
                train_labels.len(),
                test_labels.len()
            );
            train_labels.truncate(N_IMAGES);
            Some(Labelled {
                train_labels,
                test_pixels,
                test_labels,
                is_mnist: true,
            })
        }
        _ => None,
    };
    let pixels = read(path, N_IMAGES)?;
    ensure!(
        pixels.len() == N_IMAGES * N_PIXELS,
        "{}: too few images ({}; expected {N_IMAGES})",
        path.display(),
        pixels.len() / N_PIXELS
    );
    Ok(Images {
        pixels,
        origin,
        is_fetched: false,
        labelled,
    })
}

/// Returns the path of the training images that [`load`] would read, or `None` if it would use the
/// project's digits.
#[must_use]
pub fn found() -> Option<PathBuf> {
    places(MNIST)
        .iter()
        .find_map(|place| find(place, TRAIN_IMAGES))
}

/// Reads the training and the test images of a data set that `cargo xtask data` fetched into a
/// folder of this name, as codes; `None` if a file is missing.
///
/// # Errors
/// A file cannot be read or has another shape.
pub fn fetched(folder: &str) -> Result<Option<[train::Images; 2]>> {
    let names = [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS];
    for place in places(folder) {
        if let [
            Some(train),
            Some(train_labels),
            Some(test),
            Some(test_labels),
        ] = names.map(|name| find(&place, name))
        {
            return Ok(Some([
                train::Images::read_idx(train, train_labels, N_CLASSES)?,
                train::Images::read_idx(test, test_labels, N_CLASSES)?,
            ]));
        }
    }
    Ok(None)
}

/// Cargo's default target folder, in the source tree of this build.
const TARGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");

/// Returns the folders to search for a data set: its folder in the folder that `DATA_DIR` names, or
/// else in `target/data` of the workspace. Without `DATA_DIR`, MNIST may also be in `data` next to
/// the executable, as in a bundle.
fn places(data_set: &str) -> Vec<PathBuf> {
    if let Some(folder) = std::env::var_os("DATA_DIR").filter(|folder| !folder.is_empty()) {
        return vec![PathBuf::from(folder).join(data_set)];
    }
    let beside = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.parent()?.join("data")));
    let fetched = Path::new(TARGET).join("data").join(data_set);
    let beside = beside.filter(|_| data_set == MNIST);
    beside.into_iter().chain([fetched]).collect()
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    [folder.join(name), folder.join(format!("{name}.gz"))]
        .into_iter()
        .find(|path| path.is_file())
}

/// Reads the pixels of the first `most` images.
fn read(path: &Path, most: usize) -> Result<Vec<f32>> {
    let read = || -> Result<Vec<f32>> {
        let IdxArray::U8(images) = idx::read(path)? else {
            bail!("pixels are not unsigned bytes")
        };
        ensure!(
            images.ndim() == 3 && images.shape()[1..] == [SIDE, SIDE],
            "shape {:?} is not [n, 28, 28]",
            images.shape()
        );
        let len = most.saturating_mul(N_PIXELS);
        let pixels = images.iter().take(len);
        Ok(pixels.map(|&pixel| f32::from(pixel) / LEVELS).collect())
    };
    read().with_context(|| format!("{}", path.display()))
}

fn read_labels(path: &Path) -> Result<Vec<u8>> {
    labels(idx::read(path)?).with_context(|| format!("{}", path.display()))
}

fn labels(array: IdxArray) -> Result<Vec<u8>> {
    let IdxArray::U8(labels) = array else {
        bail!("labels are not unsigned bytes")
    };
    ensure!(
        labels.ndim() == 1 && labels.iter().all(|&label| label < 10),
        "labels must be one axis of digits 0 to 9 (shape {:?})",
        labels.shape()
    );
    Ok(labels.iter().copied().collect())
}

/// Enlarges the project's 8 × 8 digits to 28 × 28 pixels by nearest neighbour, and repeats them to
/// [`N_IMAGES`] images.
///
/// # Errors
/// The embedded data is damaged.
pub fn digits() -> Result<Images> {
    let IdxArray::U8(digits) = idx::Reader::new(DIGITS)?.read_all()? else {
        bail!("the project's digits are not unsigned bytes")
    };
    let n_digits = digits.shape()[0];
    let mut pixels = Vec::with_capacity(N_IMAGES * N_PIXELS);
    for image in 0..N_IMAGES {
        for row in 0..SIDE {
            for col in 0..SIDE {
                let at = [
                    image % n_digits,
                    row * DIGITS_SIDE / SIDE,
                    col * DIGITS_SIDE / SIDE,
                ];
                pixels.push(f32::from(digits[&at[..]]) * DIGITS_SCALE / LEVELS);
            }
        }
    }
    let origin = format!(
        "{n_digits} UCI digits enlarged to {SIDE}x{SIDE} and repeated to {N_IMAGES} rows, because MNIST was not found"
    );
    let mut train_labels = labels(idx::Reader::new(DIGITS_LABELS)?.read_all()?)?;
    let test_labels = train_labels.split_off(N_DIGITS_TO_TRAIN);
    let test_pixels = pixels[N_DIGITS_TO_TRAIN * N_PIXELS..n_digits * N_PIXELS].to_vec();
    let labelled = Some(Labelled {
        train_labels,
        test_pixels,
        test_labels,
        is_mnist: false,
    });
    Ok(Images {
        pixels,
        origin,
        is_fetched: false,
        labelled,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_that_ship_are_those_of_the_origin() {
        // Images per class and the sum of all pixels, from the description of the data set.
        const PER_CLASS: [usize; 10] = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180];
        let IdxArray::U8(labels) = idx::Reader::new(DIGITS_LABELS).unwrap().read_all().unwrap()
        else {
            panic!("labels must be unsigned bytes")
        };
        let mut counts = [0; 10];
        for &label in &labels {
            counts[usize::from(label)] += 1;
        }
        assert_eq!(counts, PER_CLASS);
        let IdxArray::U8(digits) = idx::Reader::new(DIGITS).unwrap().read_all().unwrap() else {
            panic!("pixels must be unsigned bytes")
        };
        assert_eq!(digits.shape(), [1797, 8, 8]);
        assert!(digits.iter().all(|&pixel| pixel <= 16));
        assert_eq!(
            digits.iter().map(|&pixel| u64::from(pixel)).sum::<u64>(),
            561_718
        );
    }

    #[test]
    fn enlarged_digits_fill_the_product_and_stay_below_one() {
        let images = digits().unwrap();
        assert_eq!(images.pixels.len(), N_IMAGES * N_PIXELS);
        assert!(
            images
                .pixels
                .iter()
                .all(|pixel| (0.0..=1.0).contains(pixel))
        );
        assert_eq!(
            images.pixels[..N_PIXELS],
            images.pixels[1797 * N_PIXELS..1798 * N_PIXELS]
        );
    }

    #[test]
    fn folders_of_data_do_not_depend_on_the_current_folder() {
        // A user may name a relative folder.
        let is_named = std::env::var_os("DATA_DIR").is_some();
        for place in places(MNIST) {
            assert!(is_named || place.is_absolute(), "{}", place.display());
        }
    }

    #[test]
    fn only_loaded_images_have_an_origin() {
        let images = LazyImages::default();
        assert_eq!(images.origin(), None);
        let origin = images.get().unwrap().origin.clone();
        assert_eq!(images.origin(), Some(&*origin));
    }

    #[test]
    fn a_named_folder_without_images_is_an_error() {
        let error = load(Some(Path::new("no-such-folder"))).unwrap_err();
        assert!(
            error.to_string().contains("train-images-idx3-ubyte"),
            "{error}"
        );
    }
}
