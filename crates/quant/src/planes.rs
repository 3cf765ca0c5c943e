//! The layout of packed activations: the bits of codes as planes of words, or signed bytes.
//!
//! Layout: `[batch, height, width, plane, group, word]` of `u32`. The channels are divided into
//! equal groups, and each group begins with a new word. Plane `p` of bits holds bit `p` of each
//! code: channel `c` of a group is bit `c % 32` of word `c / 32`. Bytes are one plane: channel `c`
//! is byte `c % 4` of word `c / 4`, the lowest byte first. Unused bits are 0.
//!
//! ```text
//! 70 channels, 2 planes, 1 group: 6 words per pixel
//! word      0         1         2     |     3         4         5
//! bits   0 ... 31  32 ... 63  64..69  |  0 ... 31  32 ... 63  64..69
//!             bit 0 of the codes      |       bit 1 of the codes
//!
//! 6 channels, bytes, 1 group: 2 words per pixel
//! word        0           1
//! bytes  0  1  2  3  4  5  -  -
//! ```

use tensor_core::{DType, Tensor};

use crate::error::{Error, Result, check_multiple};
use crate::level_set::check_bits;

/// The number of bits of a word.
const WORD_BITS: usize = u32::BITS as usize;
/// The number of bits of a byte.
const BYTE_BITS: usize = u8::BITS as usize;

/// The form of the numbers that are packed into words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// One bit of each of 32 channels.
    #[default]
    Bits,
    /// A signed byte of each of 4 channels.
    Bytes,
}

impl Packing {
    /// Returns the number of channels of a word.
    #[must_use]
    pub const fn word_channels(self) -> u32 {
        match self {
            Self::Bits => u32::BITS,
            Self::Bytes => u32::BITS / u8::BITS,
        }
    }
}

/// The layout of the packed codes of one pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneLayout {
    packing: Packing,
    n_channels: usize,
    n_groups: usize,
    n_planes: usize,
}

impl PlaneLayout {
    /// Creates the layout of codes with `n_planes` bits, each in a plane of its own.
    ///
    /// # Errors
    /// [`Error::BitCount`] unless `n_planes` is 1 to [`MAX_BITS`](crate::MAX_BITS);
    /// [`Error::Groups`] unless the channels can be divided into the groups.
    pub fn new(n_channels: usize, n_groups: usize, n_planes: usize) -> Result<Self> {
        let operation = "PlaneLayout::new";
        check_bits(operation, n_planes)?;
        Self::with_packing(operation, Packing::Bits, [n_channels, n_groups, n_planes])
    }

    /// Creates the layout of signed bytes.
    ///
    /// # Errors
    /// [`Error::Groups`] unless the channels can be divided into the groups.
    pub fn bytes(n_channels: usize, n_groups: usize) -> Result<Self> {
        let sizes = [n_channels, n_groups, 1];
        Self::with_packing("PlaneLayout::bytes", Packing::Bytes, sizes)
    }

    fn with_packing(
        operation: &'static str,
        packing: Packing,
        [n_channels, n_groups, n_planes]: [usize; 3],
    ) -> Result<Self> {
        if n_groups == 0 || !n_channels.is_multiple_of(n_groups) {
            return Err(Error::Groups {
                operation,
                n_channels,
                n_groups,
            });
        }
        Ok(Self {
            packing,
            n_channels,
            n_groups,
            n_planes,
        })
    }

    /// Returns the form of the numbers in a word.
    #[must_use]
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Returns the number of channels.
    #[must_use]
    pub fn n_channels(&self) -> usize {
        self.n_channels
    }

    /// Returns the number of groups.
    #[must_use]
    pub fn n_groups(&self) -> usize {
        self.n_groups
    }

    /// Returns the number of planes: the number of bits of a code, or 1 for bytes.
    #[must_use]
    pub fn n_planes(&self) -> usize {
        self.n_planes
    }

    /// Returns the number of channels of a group.
    #[must_use]
    pub fn group_len(&self) -> usize {
        self.n_channels / self.n_groups
    }

    /// Returns the number of words of a group in one plane.
    #[must_use]
    pub fn group_words(&self) -> usize {
        self.group_len().div_ceil(self.word_channels())
    }

    /// Returns the number of words of a pixel.
    #[must_use]
    pub fn pixel_words(&self) -> usize {
        let groups = self.n_planes.saturating_mul(self.n_groups);
        groups.saturating_mul(self.group_words())
    }

    /// Returns the number of channels of a word.
    fn word_channels(&self) -> usize {
        self.packing.word_channels() as usize
    }

    /// Returns the number of bits of a channel in a word.
    fn width(&self) -> usize {
        WORD_BITS / self.word_channels()
    }

    /// Returns a mask of the bits of a channel.
    fn mask(&self) -> u32 {
        u32::MAX >> (WORD_BITS - self.width())
    }

    /// Returns the word of a group, and the first bit in that word, of a channel.
    #[must_use]
    pub(crate) fn place(&self, channel: usize) -> (usize, usize) {
        let (group, channel) = (channel / self.group_len(), channel % self.group_len());
        let word_channels = self.word_channels();
        (
            group * self.group_words() + channel / word_channels,
            channel % word_channels * self.width(),
        )
    }

    /// Packs codes `[…, channel]` into words `[…, plane, group, word]`. The code of a signed byte
    /// is its bits, as [`i8::cast_unsigned`] returns them.
    ///
    /// # Errors
    /// [`Error::Length`] unless the codes are whole pixels; [`Error::UnknownCode`] for a code with
    /// more bits than planes.
    pub fn pack(&self, codes: &[u8]) -> Result<Vec<u32>> {
        let operation = "PlaneLayout::pack";
        check_multiple(operation, "codes", codes.len(), self.n_channels)?;
        if codes.is_empty() {
            return Ok(vec![]);
        }
        check_codes(operation, codes, self.n_planes * self.width())?;
        let mut words = vec![0; codes.len() / self.n_channels * self.pixel_words()];
        let pixels = words.chunks_mut(self.pixel_words());
        for (words, codes) in pixels.zip(codes.chunks(self.n_channels)) {
            for (channel, &code) in codes.iter().enumerate() {
                let (word, bit) = self.place(channel);
                for plane in 0..self.n_planes {
                    let plane_word = &mut words[plane * self.n_groups * self.group_words() + word];
                    *plane_word |= (u32::from(code) >> plane & self.mask()) << bit;
                }
            }
        }
        Ok(words)
    }

    /// Returns the codes `[…, channel]` of words `[…, plane, group, word]`. This is the inverse of
    /// [`pack`](Self::pack).
    ///
    /// # Errors
    /// [`Error::Length`] unless the words are whole pixels.
    pub fn unpack(&self, words: &[u32]) -> Result<Vec<u8>> {
        let pixel_words = self.pixel_words();
        check_multiple("PlaneLayout::unpack", "words", words.len(), pixel_words)?;
        if words.is_empty() {
            return Ok(vec![]);
        }
        let plane_words = self.n_groups * self.group_words();
        let code = |words: &[u32], channel| {
            let (word, bit) = self.place(channel);
            let planes = words.chunks(plane_words).enumerate();
            planes.fold(0, |code, (plane, words)| {
                // The mask leaves one bit, or one byte, so the number fits.
                let [number, ..] = (words[word] >> bit & self.mask()).to_le_bytes();
                code | number << plane
            })
        };
        let pixels = words.chunks(pixel_words);
        Ok(pixels
            .flat_map(|words| (0..self.n_channels).map(move |channel| code(words, channel)))
            .collect())
    }

    /// Returns whether the unused bits of weights `[…, word, output]` are 0.
    pub(crate) fn has_clean_words(&self, words: &[u32], n_outputs: usize) -> bool {
        let used = self.group_len() % self.word_channels() * self.width();
        let rows = words.chunks(n_outputs).enumerate();
        let mut last = rows.filter(|(row, _)| (row + 1).is_multiple_of(self.group_words()));
        used == 0 || last.all(|(_, words)| words.iter().all(|word| word >> used == 0))
    }

    /// Returns the shape of a pixel: planes, groups and words.
    pub(crate) fn pixel_shape(&self) -> [usize; 3] {
        [self.n_planes, self.n_groups, self.group_words()]
    }

    /// Returns the planes `[batch, height, width, plane, group, word]` of the codes of elements.
    /// `passed` has the axes `[batch, height, width, threshold, channel]`, and states which
    /// thresholds an element passed. `codes` are the codes of the levels, the lowest level first.
    pub(crate) fn planes_of(&self, passed: &Tensor, codes: &[u8]) -> Tensor {
        self.planes_of_words(&self.pack_plane(passed), codes)
    }

    /// Returns the planes of the codes of elements whose passed thresholds are packed:
    /// `[batch, height, width, threshold, group, word]`.
    ///
    /// Method: a bit of the code is the exclusive or of the thresholds at which it changes. All
    /// planes are computed from the same words, each masked by the planes that change there; a
    /// concatenation of planes would load the words of every plane for every element.
    pub(crate) fn planes_of_words(&self, words: &Tensor, codes: &[u8]) -> Tensor {
        let bit = |level: usize, plane: usize| codes[level] >> plane & 1 == 1;
        let of_planes = |is_set: &dyn Fn(usize) -> bool| {
            let all = |plane| if is_set(plane) { u32::MAX } else { 0 };
            Tensor::from_vec(
                &[self.n_planes, 1, 1],
                (0..self.n_planes).map(all).collect(),
            )
        };
        let changed = (1..codes.len()).map(|level| {
            let threshold = (level - 1).cast_signed();
            let changes = |plane| bit(level - 1, plane) != bit(level, plane);
            words.slice(3, threshold..=threshold) & of_planes(&changes)
        });
        let planes = changed.reduce(|planes, changed| planes ^ changed);
        // A set with a single level has no threshold, and words without any bit.
        let planes = planes.unwrap_or_else(|| words.and(0));
        // Nearly all sets have a 0 in the code of the lowest level, and need no full plane.
        if (0..self.n_planes).any(|plane| bit(0, plane)) {
            planes ^ (self.plane(|_| true) & of_planes(&|plane| bit(0, plane)))
        } else {
            planes
        }
    }

    /// Returns the words `[group, word]` of a plane with the given bit of each channel.
    pub(crate) fn plane(&self, bit: impl Fn(usize) -> bool) -> Tensor {
        let shape = [self.n_groups, self.group_words()];
        let mut words = vec![0_u32; shape.iter().product()];
        for channel in (0..self.n_channels).filter(|&channel| bit(channel)) {
            let (word, place) = self.place(channel);
            words[word] |= 1 << place;
        }
        Tensor::from_vec(&shape, words)
    }

    /// Packs a `bool` tensor `[…, channel]` into words `[…, group, word]`.
    pub(crate) fn pack_plane(&self, bits: &Tensor) -> Tensor {
        let Ok(shape) = bits.shape() else {
            return bits.clone();
        };
        let outer = &shape[..shape.len().saturating_sub(1)];
        let split = [outer, &[self.n_groups, self.group_len()]].concat();
        bits.reshape(&split).pack_bits()
    }

    /// Packs signed bytes, an i32 tensor `[…, channel]`, into words `[…, plane, group, word]`.
    pub(crate) fn pack_bytes(&self, bytes: &Tensor) -> Tensor {
        let Ok(shape) = bytes.shape() else {
            return bytes.clone();
        };
        let outer = &shape[..shape.len().saturating_sub(1)];
        let with = |sizes: &[usize]| [outer, sizes].concat();
        let (groups, words, word_channels) =
            (self.n_groups, self.group_words(), self.word_channels());
        let unused = words * word_channels - self.group_len();
        let bytes = bytes
            .cast(DType::U32)
            .and(i32::from(u8::MAX))
            .reshape(&with(&[groups, self.group_len()]))
            .pad(-1, 0, unused, 0)
            .reshape(&with(&[1, groups, words, word_channels]));
        // The bytes of a word do not overlap, so their sum is the word.
        bytes.shl(byte_shifts().cast(DType::U32)).sum(-1)
    }
}

/// Returns the first `n` signed bytes of each row of words `[…, word]`, as i32 `[…, n]`.
pub(crate) fn unpack_bytes(words: &Tensor, n: usize) -> Tensor {
    let Ok(shape) = words.shape() else {
        return words.clone();
    };
    let (n_words, outer) = shape
        .split_last()
        .map_or((0, shape), |(&n, outer)| (n, outer));
    // A byte is moved to the top, and back with copies of its sign.
    let words = words.cast(DType::I32).expand_dims(-1);
    let bytes = words.shl(24 - byte_shifts()).shr(24);
    let all = bytes.reshape(&[outer, &[n_words * 4]].concat());
    all.slice(-1, ..n.cast_signed())
}

/// Returns the number of the first bit of each byte of a word.
fn byte_shifts() -> Tensor {
    Tensor::from_vec(&[4], vec![0, 8, 16, 24])
}

/// Checks that no code has more than `n_bits` bits.
pub(crate) fn check_codes(operation: &'static str, codes: &[u8], n_bits: usize) -> Result<()> {
    let is_too_large = |code: &u8| n_bits < BYTE_BITS && code >> n_bits != 0;
    match codes.iter().position(is_too_large) {
        None => Ok(()),
        Some(index) => Err(Error::UnknownCode {
            operation,
            index,
            code: codes[index],
            expected: format!("a code of at most {n_bits} bits"),
        }),
    }
}
