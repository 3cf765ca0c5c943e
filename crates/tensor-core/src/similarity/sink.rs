//! Sinks for tiles: a counter, a file, a function.

use std::io::{self, Seek, SeekFrom, Write};

use super::{Tile, TilePosition};

/// A consumer of tiles, in order. A sink receives only the tiles on and above the diagonal;
/// [`Tile::transposed`] converts a tile above the diagonal to the one below.
pub trait Sink {
    /// The error of the sink.
    type Error;

    /// Processes a tile.
    ///
    /// # Errors
    /// Any error; it ends the computation.
    fn take(&mut self, tile: Tile) -> Result<(), Self::Error>;
}

/// A sink that counts similar pairs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairCount {
    /// The number of similar pairs, of all `d²` ordered pairs.
    pub similar: u64,
    /// The number of pairs compared.
    pub pairs: u64,
}

/// A sink that writes all results to a file as packed rows. Column `c` of a row is bit `c % 8` of
/// byte `c / 8`; a row has `d.div_ceil(8)` bytes.
#[derive(Debug)]
pub struct BitFile<W> {
    file: W,
    n_cols: usize,
    row_bytes: u64,
}

impl Sink for PairCount {
    type Error = std::convert::Infallible;

    fn take(&mut self, tile: Tile) -> Result<(), Self::Error> {
        let similar: u64 = tile
            .words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum();
        let pairs = tile.place.rows as u64 * tile.place.cols as u64;
        // A tile above the diagonal also represents the tile below.
        let times = if tile.place.is_on_diagonal() { 1 } else { 2 };
        self.similar += times * similar;
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
    /// Creates a sink that writes the results of `n_cols` columns, from the beginning of the file.
    pub fn new(file: W, n_cols: usize) -> Self {
        Self {
            file,
            n_cols,
            row_bytes: n_cols.div_ceil(8) as u64,
        }
    }

    fn write(&mut self, tile: &Tile) -> io::Result<()> {
        let TilePosition { row, col, cols, .. } = tile.place;
        let end = (row + tile.place.rows).max(col + cols);
        if end > self.n_cols {
            let what = format!(
                "BitFile: too many columns (a tile ends at column {end}, the file has {})",
                self.n_cols
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        // Tiles begin at a multiple of 32 columns, so their rows begin at whole bytes.
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

    /// Flushes and returns the file.
    ///
    /// # Errors
    /// Any error of the file.
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
