//! Tiles: packed results for a range of rows and columns.

use crate::ir::WORD_BITS;

/// The position of a tile in the matrix of all results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TilePosition {
    /// The index of the first row.
    pub row: usize,
    /// The number of rows.
    pub rows: usize,
    /// The index of the first column.
    pub col: usize,
    /// The number of columns.
    pub cols: usize,
    /// The number of the tile, from 0, in the order of computation.
    pub number: usize,
    /// The total number of tiles, which together with `number` shows the progress.
    pub n_tiles: usize,
}

/// Packed results for a range of rows and columns.
///
/// Bit `c % 32` of word `r * words_per_row + c / 32` is the result for row `r` and column `c`,
/// counted within the tile. Bits beyond the last column are 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// The position of the tile.
    pub place: TilePosition,
    /// The number of words per row.
    pub words_per_row: usize,
    /// The packed results.
    pub words: Vec<u32>,
}

impl TilePosition {
    /// Returns whether the tile is on the diagonal. Such a tile contains both orders of each of its
    /// pairs.
    #[must_use]
    pub fn is_on_diagonal(&self) -> bool {
        self.row == self.col
    }
}

impl Tile {
    /// Creates a tile from words whose bits beyond the last row and column are arbitrary.
    pub(super) fn new(place: TilePosition, mut words: Vec<u32>) -> Self {
        let words_per_row = place.cols.div_ceil(WORD_BITS);
        words.truncate(place.rows * words_per_row);
        let n_last = place.cols % WORD_BITS;
        if n_last > 0 {
            let mask = (1_u32 << n_last) - 1;
            for row in words.chunks_exact_mut(words_per_row) {
                row[words_per_row - 1] &= mask;
            }
        }
        Self {
            place,
            words_per_row,
            words,
        }
    }

    /// Returns the result for a row and a column of the tile; `None` outside the tile.
    #[must_use]
    pub fn get(&self, row: usize, col: usize) -> Option<bool> {
        if row >= self.place.rows || col >= self.place.cols {
            return None;
        }
        let word = self.words.get(row * self.words_per_row + col / WORD_BITS)?;
        Some(word >> (col % WORD_BITS) & 1 == 1)
    }

    /// Returns an iterator over the rows, as slices of words.
    pub fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.words.chunks_exact(self.words_per_row.max(1))
    }

    /// Returns the transposed tile, on the other side of the diagonal.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let TilePosition {
            row,
            rows,
            col,
            cols,
            ..
        } = self.place;
        let words_per_row = rows.div_ceil(WORD_BITS);
        let mut words = vec![0; cols * words_per_row];
        for from in (0..rows).step_by(WORD_BITS) {
            for column in 0..self.words_per_row {
                // Collect a block of 32 × 32 bits: one word from each of 32 rows, with zeros past
                // the last row.
                let own = |n: usize| {
                    let row = from + n;
                    let inside = row < rows;
                    if inside {
                        self.words[row * self.words_per_row + column]
                    } else {
                        0
                    }
                };
                let block = transposed_block(std::array::from_fn(own));
                let first = column * WORD_BITS;
                for (n, word) in block.into_iter().enumerate().take(cols - first.min(cols)) {
                    words[(first + n) * words_per_row + from / WORD_BITS] = word;
                }
            }
        }
        Self {
            place: TilePosition {
                row: col,
                rows: cols,
                col: row,
                cols: rows,
                ..self.place
            },
            words_per_row,
            words,
        }
    }
}

/// Transposes a matrix of 32 × 32 bits: bit `n` of word `m` becomes bit `m` of word `n`.
///
/// The matrix is split into squares of 2 × 2 quarters, first of size 32, then 16, and so on. In
/// each square the off-diagonal quarters are exchanged, for all squares of a row in one operation
/// by means of a mask:
/// ```text
/// A B        A C
/// C D   ->   B D
/// ```
fn transposed_block(mut block: [u32; WORD_BITS]) -> [u32; WORD_BITS] {
    let mut size = WORD_BITS / 2;
    let mut mask = u32::MAX >> size;
    while size > 0 {
        let mut n = 0;
        while n < WORD_BITS {
            let swapped = ((block[n] >> size) ^ block[n + size]) & mask;
            block[n] ^= swapped << size;
            block[n + size] ^= swapped;
            // Proceed to the next word of the upper half of a square.
            n = (n + size + 1) & !size;
        }
        size /= 2;
        mask ^= mask << size;
    }
    block
}
