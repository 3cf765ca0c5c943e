//! Answers of a stretch of rows and columns, packed.

use super::WORD;

/// Where a tile lies among all answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The first row, and how many.
    pub row: usize,
    /// See `row`.
    pub rows: usize,
    /// The first column, and how many.
    pub col: usize,
    /// See `col`.
    pub cols: usize,
    /// The number of the tile, and how many there are: how far the work is.
    pub number: usize,
    /// See `number`.
    pub n_tiles: usize,
}

/// Answers of a stretch of rows and columns, packed: bit `c % 32` of word `r * words_per_row + c / 32` is that of row `r` and
/// column `c`, counted within the tile. Bits beyond the last column are 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// Where it lies.
    pub place: Place,
    /// The words of a row.
    pub words_per_row: usize,
    /// The answers.
    pub words: Vec<u32>,
}

impl Place {
    /// Whether it lies on the diagonal, and holds both answers of each of its pairs.
    #[must_use]
    pub fn is_on_diagonal(&self) -> bool {
        self.row == self.col
    }
}

impl Tile {
    /// From words whose bits beyond rows and columns mean nothing.
    pub(super) fn of(place: Place, mut words: Vec<u32>) -> Self {
        let words_per_row = place.cols.div_ceil(WORD);
        words.truncate(place.rows * words_per_row);
        let n_last = place.cols % WORD;
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

    /// The answer at a row and a column of the tile; `None` outside of it.
    #[must_use]
    pub fn get(&self, row: usize, col: usize) -> Option<bool> {
        if row >= self.place.rows || col >= self.place.cols {
            return None;
        }
        let word = self.words.get(row * self.words_per_row + col / WORD)?;
        Some(word >> (col % WORD) & 1 == 1)
    }

    /// The rows, in words.
    pub fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.words.chunks_exact(self.words_per_row.max(1))
    }

    /// The tile on the other side of the diagonal.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let Place {
            row,
            rows,
            col,
            cols,
            ..
        } = self.place;
        let words_per_row = rows.div_ceil(WORD);
        let mut words = vec![0; cols * words_per_row];
        for from in (0..rows).step_by(WORD) {
            for column in 0..self.words_per_row {
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
                let first = column * WORD;
                for (n, word) in block.into_iter().enumerate().take(cols - first.min(cols)) {
                    words[(first + n) * words_per_row + from / WORD] = word;
                }
            }
        }
        Self {
            place: Place {
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

/// Bit `n` of word `m` becomes bit `m` of word `n`: quarters of ever smaller squares change places.
fn transposed_block(mut block: [u32; WORD]) -> [u32; WORD] {
    let mut size = WORD / 2;
    let mut mask = u32::MAX >> size;
    while size > 0 {
        let mut n = 0;
        while n < WORD {
            let swapped = ((block[n] >> size) ^ block[n + size]) & mask;
            block[n] ^= swapped << size;
            block[n + size] ^= swapped;
            // The next word of the upper half of a square.
            n = (n + size + 1) & !size;
        }
        size /= 2;
        mask ^= mask << size;
    }
    block
}
