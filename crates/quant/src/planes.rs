//! The layout of packed activations: the bits of codes, as planes of words.
//!
//! Layout: `[batch, height, width, plane, group, word]` of `u32`. Plane `p` holds bit `p` of each
//! code. The channels are divided into equal groups, and each group begins with a new word; channel
//! `c` of a group is bit `c % 32` of word `c / 32`. Unused bits are 0.
//!
//! ```text
//! 70 channels, 2 planes, 1 group: 6 words per pixel
//! word      0         1         2     |     3         4         5
//! bits   0 ... 31  32 ... 63  64..69  |  0 ... 31  32 ... 63  64..69
//!             bit 0 of the codes      |       bit 1 of the codes
//! ```

use tensor_core::Tensor;

use crate::error::{Error, Result};
use crate::level_set::MAX_BITS;

/// The number of bits of a word.
pub(crate) const WORD_BITS: usize = u32::BITS as usize;

/// The layout of the packed codes of one pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneLayout {
    n_channels: usize,
    n_groups: usize,
    n_planes: usize,
}

impl PlaneLayout {
    /// Creates the layout of codes with `n_planes` bits.
    ///
    /// # Errors
    /// [`Error::Groups`] unless the channels can be divided into the groups.
    pub fn new(n_channels: usize, n_groups: usize, n_planes: usize) -> Result<Self> {
        if n_groups == 0 || !n_channels.is_multiple_of(n_groups) {
            return Err(Error::Groups {
                operation: "PlaneLayout::new",
                n_channels,
                n_groups,
            });
        }
        Ok(Self {
            n_channels,
            n_groups,
            n_planes,
        })
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

    /// Returns the number of bits of a code.
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
        self.group_len().div_ceil(WORD_BITS)
    }

    /// Returns the number of words of a pixel.
    #[must_use]
    pub fn pixel_words(&self) -> usize {
        self.n_planes * self.n_groups * self.group_words()
    }

    /// Returns the word of a group, and the bit in that word, of a channel.
    #[must_use]
    pub(crate) fn place(&self, channel: usize) -> (usize, usize) {
        let (group, channel) = (channel / self.group_len(), channel % self.group_len());
        (
            group * self.group_words() + channel / WORD_BITS,
            channel % WORD_BITS,
        )
    }

    /// Packs codes `[…, channel]` into words `[…, plane, group, word]`.
    ///
    /// # Errors
    /// [`Error::Length`] unless the codes are whole pixels; [`Error::UnknownCode`] for a code with
    /// more bits than planes.
    pub fn pack(&self, codes: &[u8]) -> Result<Vec<u32>> {
        let operation = "PlaneLayout::pack";
        if self.n_channels == 0 || !codes.len().is_multiple_of(self.n_channels) {
            return Err(Error::Length {
                operation,
                quantity: "codes",
                actual: codes.len(),
                expected: codes.len() / self.n_channels.max(1) * self.n_channels,
            });
        }
        check_codes(operation, codes, self.n_planes)?;
        let mut words = vec![0; codes.len() / self.n_channels * self.pixel_words()];
        let pixels = words.chunks_mut(self.pixel_words());
        for (words, codes) in pixels.zip(codes.chunks(self.n_channels)) {
            for (channel, &code) in codes.iter().enumerate() {
                let (word, bit) = self.place(channel);
                for plane in 0..self.n_planes {
                    let plane_word = &mut words[plane * self.n_groups * self.group_words() + word];
                    *plane_word |= u32::from(code >> plane & 1) << bit;
                }
            }
        }
        Ok(words)
    }

    /// Returns the codes `[…, channel]` of words `[…, plane, group, word]`: the inverse of
    /// [`pack`](Self::pack).
    ///
    /// # Errors
    /// [`Error::Length`] unless the words are whole pixels.
    pub fn unpack(&self, words: &[u32]) -> Result<Vec<u8>> {
        let pixel_words = self.pixel_words();
        if pixel_words == 0 || !words.len().is_multiple_of(pixel_words) {
            return Err(Error::Length {
                operation: "PlaneLayout::unpack",
                quantity: "words",
                actual: words.len(),
                expected: words.len() / pixel_words.max(1) * pixel_words,
            });
        }
        let plane_words = self.n_groups * self.group_words();
        let code = |words: &[u32], channel| {
            let (word, bit) = self.place(channel);
            let planes = words.chunks(plane_words).enumerate();
            planes.fold(0, |code, (plane, words)| {
                code | u8::from(words[word] >> bit & 1 == 1) << plane
            })
        };
        let pixels = words.chunks(pixel_words);
        Ok(pixels
            .flat_map(|words| (0..self.n_channels).map(move |channel| code(words, channel)))
            .collect())
    }

    /// Returns whether the unused bits of weights `[…, word, output]` are 0.
    pub(crate) fn has_clean_words(&self, words: &[u32], n_outputs: usize) -> bool {
        let used = self.group_len() % WORD_BITS;
        let rows = words.chunks(n_outputs).enumerate();
        let mut last = rows.filter(|(row, _)| (row + 1).is_multiple_of(self.group_words()));
        used == 0 || last.all(|(_, words)| words.iter().all(|word| word >> used == 0))
    }

    /// Returns the shape of a pixel: planes, groups and words.
    pub(crate) fn pixel_shape(&self) -> [usize; 3] {
        [self.n_planes, self.n_groups, self.group_words()]
    }

    /// Returns the planes `[batch, height, width, plane, group, word]` of elements that passed
    /// thresholds, `bool` `[batch, height, width, threshold, channel]`. `codes` are those of the
    /// levels, in ascending order.
    ///
    /// Method: a bit of the code is the exclusive or of the thresholds at which it changes.
    pub(crate) fn planes_of(&self, passed: &Tensor, codes: &[u8]) -> Tensor {
        // [batch, height, width, threshold, group, word]
        let words = self.pack_plane(passed);
        let planes: Vec<Tensor> = (0..self.n_planes)
            .map(|plane| {
                let bit = |level: usize| codes[level] >> plane & 1 == 1;
                let changed = (1..codes.len()).filter(|&level| bit(level - 1) != bit(level));
                let of_changes = changed.map(|level| {
                    let threshold = (level - 1).cast_signed();
                    words.slice(3, threshold..=threshold)
                });
                // The bit of the lowest level is 0 for nearly all sets, so that nothing is toggled.
                let lowest = bit(0).then(|| self.full_plane());
                let parts = lowest.into_iter().chain(of_changes);
                parts
                    .reduce(|plane, changed| plane ^ changed)
                    .unwrap_or_else(|| words.slice(3, 0..1) & 0)
            })
            .collect();
        match &planes[..] {
            [plane] => plane.clone(),
            _ => Tensor::concat(&planes.iter().collect::<Vec<_>>(), 3),
        }
    }

    /// Returns the words `[group, word]` of a plane whose bit is 1 in all channels.
    fn full_plane(&self) -> Tensor {
        let shape = [self.n_groups, self.group_words()];
        let mut words = vec![0_u32; shape.iter().product()];
        for channel in 0..self.n_channels {
            let (word, place) = self.place(channel);
            words[word] |= 1 << place;
        }
        Tensor::from_vec(&shape, words)
    }

    /// Packs a `bool` tensor `[…, channel]` into words `[…, group, word]`.
    fn pack_plane(&self, bits: &Tensor) -> Tensor {
        let Ok(shape) = bits.shape() else {
            return bits.clone();
        };
        let outer = &shape[..shape.len().saturating_sub(1)];
        let split = [outer, &[self.n_groups, self.group_len()]].concat();
        bits.reshape(&split).pack_bits()
    }
}

/// Checks that no code has more bits than there are planes.
pub(crate) fn check_codes(operation: &'static str, codes: &[u8], n_planes: usize) -> Result<()> {
    let is_too_large = |code: &u8| n_planes < MAX_BITS && code >> n_planes != 0;
    match codes.iter().position(is_too_large) {
        None => Ok(()),
        Some(index) => Err(Error::UnknownCode {
            operation,
            index,
            code: codes[index],
        }),
    }
}
