//! Convolutions of packed images with packed signs, as tensor programs.
//!
//! Method: for a bit `b` of the image and a sign `s` of the weights, both stored as bits, the sum
//! of products over a window follows from the number of ones in `b ^ s`:
//!
//! ```text
//! b in -1 and 1    Σ b s = (number of products) - 2 ones(b ^ s)
//! b in 0 and 1     Σ b s = ones(s) - ones(b ^ s)
//! ```
//! Words outside of the image are 0. The first summand depends on the taps that are inside of the
//! image, so it is a constant of each class of positions (`border`).
//! Accuracy: exact.

use tensor_core::{DType, Tensor};

use crate::border::{self, Border};
use crate::error::{Error, Result, check, check_count, check_outputs, check_type, product};
use crate::level_set::{Alphabet, LevelSet, check_bits};
use crate::planes::{Packing, PlaneLayout, check_codes};
use crate::window::Window;

/// Packed codes of images: planes of words, `[batch, height, width, plane, group, word]`.
#[derive(Clone, Debug)]
pub struct Packed {
    words: Tensor,
    layout: PlaneLayout,
    alphabet: Alphabet,
}

impl Packed {
    /// Packs the codes of f32 images `[batch, height, width, channels]`, as a tensor program. The
    /// codes are those of [`LevelSet::codes_of`].
    ///
    /// # Errors
    /// [`Error::Groups`] unless the channels can be divided into the groups; [`Error::Shape`]
    /// unless `x` has four axes; [`Error::Type`] unless `x` is f32; [`Error::Tensor`] for an error
    /// of `x`.
    pub fn from_values(levels: &LevelSet, x: &Tensor, n_groups: usize) -> Result<Self> {
        let operation = "Packed::from_values";
        check_type(operation, "x", x, DType::F32)?;
        let [.., n_channels] = image_shape(operation, x)?;
        let layout = PlaneLayout::new(n_channels, n_groups, levels.basis().len())?;
        // [batch, height, width, threshold, channel]
        let passed = levels.passed_of(x).permute(&[0, 1, 2, 4, 3]);
        Ok(Self {
            words: layout.planes_of(&passed, levels.codes()),
            layout,
            alphabet: levels.alphabet(),
        })
    }

    /// Wraps words `[batch, height, width, plane, group, word]` of `u32`. Unused bits must be 0.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] for a layout of bytes; [`Error::Type`] for another type;
    /// [`Error::Tensor`] for an error of `words`; [`Error::Shape`] if the last three axes are not
    /// those of the layout.
    pub fn from_words(words: Tensor, layout: PlaneLayout, alphabet: Alphabet) -> Result<Self> {
        let operation = "Packed::from_words";
        let is_bits = layout.packing() == Packing::Bits;
        let width = if is_bits { 1.0 } else { 8.0 };
        check(
            operation,
            "number of bits of a channel in a word",
            width,
            is_bits,
            "1",
        )?;
        check_type(operation, "words", &words, DType::U32)?;
        let shape = words.shape()?;
        let expected = layout.pixel_shape();
        if shape.len() != 6 || shape[3..] != expected {
            let [planes, groups, words] = expected;
            return Err(Error::Shape {
                operation,
                quantity: "words",
                actual: shape.to_vec(),
                expected: format!("[batch, height, width, {planes}, {groups}, {words}]"),
            });
        }
        Ok(Self {
            words,
            layout,
            alphabet,
        })
    }

    /// Returns the words, `[batch, height, width, plane, group, word]`.
    #[must_use]
    pub fn words(&self) -> &Tensor {
        &self.words
    }

    /// Returns the layout of a pixel.
    #[must_use]
    pub fn layout(&self) -> PlaneLayout {
        self.layout
    }

    /// Returns the factors that the bits stand for.
    #[must_use]
    pub fn alphabet(&self) -> Alphabet {
        self.alphabet
    }

    /// Returns the codes `[batch, height, width, channels]` of `u32`, as a tensor program.
    #[must_use]
    pub fn codes(&self) -> Tensor {
        let bits = self.words.unpack_bits(self.layout.group_len());
        let planes = Tensor::arange(self.layout.n_planes()).cast(DType::U32);
        // [batch, height, width, plane, group, channel of the group]
        let planes = planes.reshape(&[self.layout.n_planes(), 1, 1]);
        let codes = bits.cast(DType::U32).shl(&planes).sum(3);
        let Ok(shape) = self.words.shape() else {
            return codes;
        };
        codes.reshape(&[shape[0], shape[1], shape[2], self.layout.n_channels()])
    }
}

/// The signs of the weights of a convolution, packed.
///
/// Layout: `[plane, row, column, word, output]` of `u32`, so that the words of neighbouring outputs
/// are loaded as one vector. The bit 1 is the sign +1. Channel `c` of a group is bit `c % 32` of
/// word `c / 32`; unused bits are 0.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedSigns {
    words: Vec<u32>,
    /// The number of taps along each axis.
    taps: [usize; 2],
    /// The channels of one group, and the planes of the weights.
    layout: PlaneLayout,
    n_outputs: usize,
}

impl PackedSigns {
    /// Packs codes `[output, row, column, channel of a group]` with `n_planes` bits.
    ///
    /// # Errors
    /// [`Error::BitCount`] unless `n_planes` is 1 to [`MAX_BITS`](crate::MAX_BITS);
    /// [`Error::InvalidNumber`] for more than 2^20 outputs; [`Error::Window`] for a number of taps
    /// along an axis that is 0 or above [`Window::MAX`]; [`Error::Length`] for another number of
    /// codes than the sizes require; [`Error::UnknownCode`] for a code with more bits than planes.
    pub fn from_codes(
        codes: &[u8],
        n_outputs: usize,
        taps: [usize; 2],
        group_len: usize,
        n_planes: usize,
    ) -> Result<Self> {
        let operation = "PackedSigns::from_codes";
        check_bits(operation, n_planes)?;
        if n_outputs > 0 {
            check_outputs(operation, n_outputs)?;
        }
        // An image of the size of the window has an output unless a number of taps is invalid.
        Window::new(taps).output_size(taps)?;
        let expected = product(&[n_outputs, taps[0], taps[1], group_len]);
        check_count(operation, "codes", codes.len(), expected)?;
        check_codes(operation, codes, n_planes)?;
        let layout = PlaneLayout::new(group_len, 1, n_planes)?;
        let bit = |weight: usize, plane: usize| codes[weight] >> plane & 1;
        let n_taps = taps[0].saturating_mul(taps[1]);
        Ok(Self {
            words: weight_words(layout, n_taps, n_outputs, n_planes, bit),
            taps,
            layout,
            n_outputs,
        })
    }

    /// Returns the words.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the number of outputs.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.n_outputs
    }

    /// Returns the number of planes.
    #[must_use]
    pub fn n_planes(&self) -> usize {
        self.layout.n_planes()
    }

    fn view(&self) -> WeightWords<'_> {
        WeightWords {
            words: &self.words,
            n_planes: self.n_planes(),
            n_taps: self.taps[0] * self.taps[1],
            n_outputs: self.n_outputs,
            group_words: self.layout.group_words(),
        }
    }
}

/// The bits of the positions outside of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outside {
    /// The factor 0: the positions contribute nothing to a sum.
    #[default]
    Nothing,
    /// The bit 0 in each plane, which is the factor -1 of an image of signs.
    ZeroBits,
}

/// Returns the sums of the products of packed images and packed signs, for each pair of planes: i32
/// `[batch, rows, columns, plane of the image, plane of the signs, output]`.
///
/// ```text
/// sum[n, y, x, p, q, o] = Σ   factor of bit p of x[n, y', x', channel]
///                     v, u, channel          · sign q of w[o, v, u, channel]
///                                            with y', x' as in Window
/// ```
/// The sum of products of levels is `Σ_pq u_p v_q sum[p, q]`, where `u` and `v` are the bases.
/// The groups of the image are the groups of the convolution.
///
/// The result is a tensor program. Accuracy: exact.
///
/// # Errors
/// [`Error::Window`] if the window does not fit the image; [`Error::Length`] unless the window has
/// the taps of the signs, and unless a group of the image has as many channels as the signs;
/// [`Error::Groups`] unless the outputs can be divided into the groups;
/// [`Error::SumOverflow`] for more than 2^31 - 1 products; [`Error::Tensor`] for an error of the
/// words.
///
/// # Examples
/// ```
/// use quant::{LevelSet, Outside, Packed, PackedSigns, Window, conv2d_packed};
/// use tensor_core::{Host, Tensor};
///
/// // Two channels of two pixels, and one output with the signs + and -.
/// let x = Tensor::from_vec(&[1, 1, 2, 2], vec![0.3_f32, -0.2, -0.9, 0.4]);
/// let x = Packed::from_values(&LevelSet::binary(1.0)?, &x, 1)?;
/// let signs = PackedSigns::from_codes(&[1, 0], 1, [1, 1], 2, 1)?;
/// let sums = conv2d_packed(&x, &signs, &Window::new([1, 1]), Outside::Nothing)?;
/// assert_eq!(sums.eval::<i32>(&Host::new())?.as_slice(), Some([2, -2].as_slice()));
/// # Ok::<(), quant::Error>(())
/// ```
pub fn conv2d_packed(
    x: &Packed,
    signs: &PackedSigns,
    window: &Window,
    outside: Outside,
) -> Result<Tensor> {
    let shape = x.words.shape()?.to_vec();
    let (image, layout) = ([shape[1], shape[2]], x.layout);
    let n_outputs = signs.n_outputs;
    check_convolution(layout, signs, window)?;
    let size = window.output_size(image)?;
    let border = Border::new(window, image, size);
    let view = signs.view();
    let starts = view.starts(x.alphabet, layout.group_len(), &border, outside);
    // Modulo 2^32: a start can be twice the number of products, but the complete sum is in the
    // range of i32.
    let starts: Vec<i32> = starts.into_iter().map(wrapped).collect();
    let n_planes = signs.n_planes();
    let starts = match starts.first() {
        // One number needs no load for each element.
        Some(&first) if starts.iter().all(|&start| start == first) => Tensor::scalar(first),
        _ if border::common(&starts, n_planes * n_outputs).is_some() => border
            .program(&starts, n_planes * n_outputs)
            .reshape(&[1, n_planes, n_outputs]),
        _ => border
            .program(&starts, n_planes * n_outputs)
            .reshape(&[size[0], size[1], 1, n_planes, n_outputs]),
    };
    let ones = view.ones(&x.words, layout, window, size).reshape(&[
        shape[0],
        size[0],
        size[1],
        layout.n_planes(),
        n_planes,
        n_outputs,
    ]);
    Ok(starts - ones * x.alphabet.factor_distance())
}

/// Checks that signs fit an image and a window, and that no sum leaves i32.
fn check_convolution(layout: PlaneLayout, signs: &PackedSigns, window: &Window) -> Result<()> {
    let operation = "conv2d_packed";
    let [rows, cols] = window.size;
    for (quantity, actual, expected) in [
        ("a column of taps", signs.taps[0], rows),
        ("a row of taps", signs.taps[1], cols),
        (
            "a group of channels",
            signs.layout.group_len(),
            layout.group_len(),
        ),
    ] {
        check_count(operation, quantity, actual, expected)?;
    }
    let groups = layout.n_groups();
    if !signs.n_outputs.is_multiple_of(groups) {
        return Err(Error::Groups {
            operation,
            n_channels: signs.n_outputs,
            n_groups: groups,
        });
    }
    let n_products = product(&[window.n_taps(), layout.group_len()]);
    if i32::try_from(n_products).is_err() {
        return Err(Error::SumOverflow {
            operation,
            channel: 0,
            n_products,
            bits: (n_products as f64).log2(),
        });
    }
    Ok(())
}

/// Words of weights `[plane, tap, word, output]`, and their sizes.
#[derive(Clone, Copy)]
pub(crate) struct WeightWords<'a> {
    pub(crate) words: &'a [u32],
    pub(crate) n_planes: usize,
    pub(crate) n_taps: usize,
    pub(crate) n_outputs: usize,
    pub(crate) group_words: usize,
}

impl WeightWords<'_> {
    /// Returns the numbers of ones in `x ^ signs`, as i32 `[batch, row, column, plane of x, plane
    /// of the signs, group, output of the group]`. `x` has the axes `[batch, height, width, plane,
    /// group, word]`.
    pub(crate) fn ones(
        &self,
        x: &Tensor,
        layout: PlaneLayout,
        window: &Window,
        size: [usize; 2],
    ) -> Tensor {
        let [x, signs] = self.pairs(x, layout, window, size);
        (x ^ signs).count_ones().sum([-1, -2, -3]).cast(DType::I32)
    }

    /// Returns the words of `x` and of the weights that meet in a product, with the axes `[batch,
    /// row, column, plane of x, plane of the weights, group, output of the group, row of taps,
    /// column of taps, word]`. Axes along which the words are equal have the size 1 or are absent.
    pub(crate) fn pairs(
        &self,
        x: &Tensor,
        layout: PlaneLayout,
        window: &Window,
        [rows, cols]: [usize; 2],
    ) -> [Tensor; 2] {
        let (groups, [taps_y, taps_x]) = (layout.n_groups(), window.size);
        let batch = x.shape().map_or(0, |shape| shape[0]);
        let (outputs, words) = (self.n_outputs / groups, self.group_words);
        let shape = [
            batch,
            rows,
            cols,
            layout.n_planes(),
            1,
            groups,
            1,
            taps_y,
            taps_x,
            words,
        ];
        let x = window.views(x, 0);
        let x = x.permute(&[0, 1, 2, 3, 4, 6, 7, 5]).reshape(&shape);
        let shape = [self.n_planes, taps_y, taps_x, words, groups, outputs];
        let weights = Tensor::from_vec(&shape, self.words.to_vec());
        [x, weights.permute(&[0, 4, 5, 1, 2, 3])]
    }

    /// Returns the numbers from which the ones of `x ^ signs` are subtracted, for each class of
    /// positions: `[class, plane, output]`.
    pub(crate) fn starts(
        &self,
        alphabet: Alphabet,
        group_len: usize,
        border: &Border,
        outside: Outside,
    ) -> Vec<i64> {
        let mut starts = Vec::with_capacity(border.n_classes() * self.n_planes * self.n_outputs);
        for is_inside in border.classes() {
            for plane in 0..self.n_planes {
                for output in 0..self.n_outputs {
                    // Words outside are 0, so the bits that differ there are the positive signs.
                    // The start cancels them and adds the contribution of the position.
                    let of_tap = |(tap, &is_inside): (usize, &bool)| match (alphabet, outside) {
                        (Alphabet::Bits, _) => self.n_positive(plane, tap, output),
                        (Alphabet::Signs, Outside::Nothing) if !is_inside => {
                            2 * self.n_positive(plane, tap, output)
                        }
                        (Alphabet::Signs, _) => group_len as i64,
                    };
                    starts.push(is_inside.iter().enumerate().map(of_tap).sum());
                }
            }
        }
        starts
    }

    /// Returns the number of positive signs of an output in one tap.
    fn n_positive(&self, plane: usize, tap: usize, output: usize) -> i64 {
        let first = (plane * self.n_taps + tap) * self.group_words;
        let words = (first..first + self.group_words).map(|word| word * self.n_outputs + output);
        words
            .map(|place| i64::from(self.words[place].count_ones()))
            .sum()
    }
}

/// Packs weights. `number(weight, plane)` returns the number of a weight in a plane: a bit, which
/// is 1 for the sign +1, or the bits of a byte. The weights are in the order
/// `[output, tap, channel of the group]`.
pub(crate) fn weight_words(
    layout: PlaneLayout,
    n_taps: usize,
    n_outputs: usize,
    n_planes: usize,
    number: impl Fn(usize, usize) -> u8,
) -> Vec<u32> {
    let (group_len, group_words) = (layout.group_len(), layout.group_words());
    let mut words = vec![0; product(&[n_outputs, n_planes, n_taps, group_words])];
    for weight in 0..product(&[n_outputs, n_taps, group_len]) {
        let (tap, channel) = (weight / group_len, weight % group_len);
        let (output, tap) = (tap / n_taps, tap % n_taps);
        // The channel of a group is placed as in the first group.
        let (word, bit) = layout.place(channel);
        for plane in 0..n_planes {
            let word = (plane * n_taps + tap) * group_words + word;
            words[word * n_outputs + output] |= u32::from(number(weight, plane)) << bit;
        }
    }
    words
}

/// Returns the shape of a tensor of images.
fn image_shape(operation: &'static str, x: &Tensor) -> Result<[usize; 4]> {
    let shape = x.shape()?;
    shape[..].try_into().map_err(|_| Error::Shape {
        operation,
        quantity: "x",
        actual: shape.to_vec(),
        expected: "[batch, height, width, channels]".to_owned(),
    })
}

/// Returns a number modulo 2^32.
#[allow(
    clippy::cast_possible_truncation,
    reason = "sums of products are computed modulo 2^32, and the complete sum is in range"
)]
pub(crate) fn wrapped(x: i64) -> i32 {
    x as i32
}
