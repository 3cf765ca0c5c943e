//! Who takes tiles: what counts, a file, a function.

use std::io::{self, Seek, SeekFrom, Write};

use super::{Place, Tile};

/// Takes tiles, in order; of tiles beside the diagonal only those above it, whose [`Tile::transposed`] lie below.
pub trait Sink {
    /// What may go wrong.
    type Error;

    /// Takes a tile.
    ///
    /// # Errors
    /// Whatever stops the work.
    fn take(&mut self, tile: Tile) -> Result<(), Self::Error>;
}

/// Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Pairs that are alike, of all `d²`.
    pub alike: u64,
    /// Pairs that were asked.
    pub pairs: u64,
}

/// Writes all answers as packed rows: column `c` of a row is bit `c % 8` of byte `c / 8`; a row has `d.div_ceil(8)` bytes.
#[derive(Debug)]
pub struct BitFile<W> {
    file: W,
    n_cols: usize,
    row_bytes: u64,
}

impl Sink for Count {
    type Error = std::convert::Infallible;

    fn take(&mut self, tile: Tile) -> Result<(), Self::Error> {
        let alike: u64 = tile
            .words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum();
        let pairs = tile.place.rows as u64 * tile.place.cols as u64;
        // A tile above the diagonal stands for the one below as well.
        let times = if tile.place.is_on_diagonal() { 1 } else { 2 };
        self.alike += times * alike;
        self.pairs += times * pairs;
        Ok(())
    }
}

impl<E, F: FnMut(Tile) -> Result<(), E>> Sink for F {
    type Error = E;

    fn take(&mut self, tile: Tile) -> Result<(), E> {
        self(tile)
    }
}

impl<W: Write + Seek> BitFile<W> {
    /// A file for the answers of so many columns, written from its beginning.
    pub fn new(file: W, n_cols: usize) -> Self {
        Self {
            file,
            n_cols,
            row_bytes: n_cols.div_ceil(8) as u64,
        }
    }

    fn write(&mut self, tile: &Tile) -> io::Result<()> {
        let Place { row, col, cols, .. } = tile.place;
        let end = (row + tile.place.rows).max(col + cols);
        if end > self.n_cols {
            let what = format!(
                "a tile ends at column {end}, the file is for {}",
                self.n_cols
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        // Tiles begin with whole words.
        let (first, n_bytes) = ((col / 8) as u64, cols.div_ceil(8));
        let mut bytes = Vec::with_capacity(n_bytes);
        for (row, words) in (row as u64..).zip(tile.rows()) {
            bytes.clear();
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            self.file
                .seek(SeekFrom::Start(row * self.row_bytes + first))?;
            self.file.write_all(&bytes[..n_bytes])?;
        }
        Ok(())
    }

    /// Gives the file back, once all is written.
    ///
    /// # Errors
    /// What the file says.
    pub fn finish(mut self) -> io::Result<W> {
        self.file.flush()?;
        Ok(self.file)
    }
}

impl<W: Write + Seek> Sink for BitFile<W> {
    type Error = io::Error;

    fn take(&mut self, tile: Tile) -> io::Result<()> {
        self.write(&tile)?;
        if tile.place.is_on_diagonal() {
            return Ok(());
        }
        self.write(&tile.transposed())
    }
}
