//! Pairwise similarity of the columns of a matrix, streamed in tiles because the results may not
//! fit into memory.
//!
//! Role: streams the `d × d` results of `all |x[n, i] - x[n, j]| < limit` over the rows `n`, tile
//! by tile, to a [`Sink`]: a counter, a file, or a function. For 270 725 columns the results take
//! 9.2 GB, at one bit each.
//! Method: a tensor program, compiled once per tile size, which takes two blocks of columns. An
//! executor fuses it, so the array of shape (n, a, b) is never stored, and stops processing a pair,
//! or a block of pairs, once its result is determined. The results are symmetric, so only tiles on
//! and above the diagonal are computed. A few tiles are in flight while a sink processes the
//! previous one.
//! Memory: on the executor one copy of the columns and a few tiles; on the host `x` and a few
//! tiles. With [`Columns::each`] the tiles stay on the executor.
//! Accuracy: the difference is rounded once, in f32, and compared exactly. The results are
//! reproducible bit for bit on one executor, and on all executors if the differences are exact, as
//! for small whole numbers. NaN is similar to nothing on the host; on a device the result for NaN
//! may differ.
//! Source: the script of case study 2 in the blog note "Tracing GPU Resources" (2023), with a
//! matrix of 256 × 270 725.
//!
//! # Examples
//! ```
//! use tensor_core::similarity::{self, PairCount};
//! use tensor_core::{Host, Tensor};
//!
//! // Three columns, of which the first two are similar in both rows.
//! let x = Tensor::from_vec(&[2, 3], vec![0.0_f32, 0.5, 2.0, 0.0, -0.5, 0.0]);
//! let mut count = PairCount::default();
//! similarity::all_pairs(&Host::new(), &x, &mut count)?;
//! // Each column is similar to itself, and the first two columns to each other.
//! assert_eq!((count.similar, count.pairs), (5, 9));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::VecDeque;
use std::fmt;

use ndarray::{ArrayView2, Ix2};

use crate::dtype::{DType, HostData};
use crate::error::Error;
use crate::exec::{Executor, Pending};
use crate::ir::WORD_BITS;
use crate::jit::{Compiled, jit};
use crate::tensor::Tensor;

mod sink;
mod tile;

pub use sink::{BitFile, PairCount, Sink};
pub use tile::{Tile, TilePosition};

/// Largest number of pairs of columns.
const MAX_PAIRS: u64 = i64::MAX as u64;

/// The definition of similarity, and the size of the tiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Similarity {
    limit: f32,
    side: usize,
}

/// The error that ended a computation.
#[derive(Debug)]
pub enum StreamError<E> {
    /// An error of the tensors or of the executor.
    Tensor(Error),
    /// An error of the sink.
    Sink(E),
}

impl<E: fmt::Display> fmt::Display for StreamError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::Sink(error) => write!(f, "all_pairs: sink failed: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for StreamError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tensor(error) => Some(error),
            Self::Sink(error) => Some(error),
        }
    }
}

impl<E> From<Error> for StreamError<E> {
    fn from(error: Error) -> Self {
        Self::Tensor(error)
    }
}

/// Streams the pairwise results for the columns of `x`, an `[n, d]` matrix of f32: two columns are
/// similar if they differ by less than 1 in all rows. See [`Similarity::stream`].
///
/// # Errors
/// As [`Similarity::stream`].
pub fn all_pairs<S: Sink>(
    executor: &dyn Executor,
    x: &Tensor,
    sink: &mut S,
) -> Result<(), StreamError<S::Error>> {
    Similarity::within(1.0).stream(executor, x, sink)
}

impl Similarity {
    /// Creates the condition that two columns differ by less than `limit` in all rows. With a limit
    /// of NaN no columns are similar.
    #[must_use]
    pub fn within(limit: f32) -> Self {
        /// The default number of rows and columns of a tile, whose results take 8 MB.
        const SIDE: usize = 8192;
        Self { limit, side: SIDE }
    }

    /// Sets the number of rows and columns of a tile (default 8192), rounded up to a multiple of
    /// 32.
    #[must_use]
    pub fn with_tile_size(self, side: usize) -> Self {
        let side = side.clamp(1, u32::MAX as usize).next_multiple_of(WORD_BITS);
        Self { side, ..self }
    }

    /// Transfers the columns of `x`, an `[n, d]` matrix of f32, to an executor.
    ///
    /// # Errors
    /// [`Error::MatrixExpected`] if `x` is not a matrix of f32; [`Error::TooLarge`] if the number
    /// of results exceeds 2^63 - 1 or the list of blocks does not fit into memory; any error of
    /// computing `x` or of the executor.
    pub fn columns<'e>(
        &self,
        executor: &'e dyn Executor,
        x: &Tensor,
    ) -> crate::error::Result<Columns<'e>> {
        let (shape, dtype) = (x.shape()?, x.dtype()?);
        let (&[n_rows, n_cols], DType::F32) = (shape, dtype) else {
            return Err(Error::MatrixExpected {
                operation: "all_pairs",
                shape: shape.to_vec(),
                dtype,
            });
        };
        // A matrix without rows has columns that take no memory, so their number may be huge.
        let too_large = || Error::TooLarge {
            operation: "all_pairs",
            shape: vec![n_cols, n_cols],
            limit: usize::try_from(MAX_PAIRS).unwrap_or(usize::MAX),
        };
        let n_pairs = (n_cols as u64).checked_mul(n_cols as u64);
        if n_pairs.is_none_or(|n_pairs| n_pairs > MAX_PAIRS) {
            return Err(too_large());
        }
        let elements = match x.storage() {
            Some(_) => x.to_host::<f32>()?,
            None => x.eval::<f32>(executor)?,
        };
        let elements = match elements.view().into_dimensionality::<Ix2>() {
            Ok(elements) => elements,
            Err(_) => unreachable!("the shape has been checked"),
        };
        // A tile is not larger than the number of columns, padded to whole words.
        let side = self.side.min(n_cols.next_multiple_of(WORD_BITS)).max(1);
        let mut blocks = Vec::new();
        let reserved = blocks.try_reserve_exact(n_cols.div_ceil(side));
        reserved.map_err(|_| too_large())?;
        for first in (0..n_cols).step_by(side) {
            let size = side.min(n_cols - first);
            let shape = [n_rows, size.next_multiple_of(WORD_BITS)];
            let columns = Tensor::from_vec(&shape, filled(&elements, first, size));
            blocks.push((first, size, columns.realize(executor)?));
        }
        let limit = self.limit;
        let similar = move |pair: &[Tensor]| Ok(vec![similar(&pair[0], &pair[1], limit)]);
        Ok(Columns {
            executor,
            blocks,
            similar: jit(Box::new(similar)),
            packed: jit(Box::new(|bits: &[Tensor]| Ok(vec![bits[0].pack_bits()]))),
        })
    }

    /// Streams the results for `x` to a sink, tile by tile.
    ///
    /// # Errors
    /// [`StreamError::Tensor`] with an error of [`Similarity::columns`] or of the executor;
    /// [`StreamError::Sink`] with an error of the sink, after which no further tile is computed.
    pub fn stream<S: Sink>(
        &self,
        executor: &dyn Executor,
        x: &Tensor,
        sink: &mut S,
    ) -> Result<(), StreamError<S::Error>> {
        self.columns(executor, x)?.stream(sink)
    }
}

/// A boxed function of tensors.
type Function = Box<dyn Fn(&[Tensor]) -> crate::error::Result<Vec<Tensor>> + Send + Sync>;

/// Columns in the memory of an executor, which can be compared several times.
#[derive(Debug)]
pub struct Columns<'e> {
    executor: &'e dyn Executor,
    /// The blocks of columns: index of the first column, number of columns, and the columns
    /// themselves, padded to a multiple of 32.
    blocks: Vec<(usize, usize, Tensor)>,
    similar: Compiled<Function>,
    packed: Compiled<Function>,
}

impl Columns<'_> {
    /// Streams the results to a sink, tile by tile.
    ///
    /// # Errors
    /// As [`Similarity::stream`].
    pub fn stream<S: Sink>(&self, sink: &mut S) -> Result<(), StreamError<S::Error>> {
        /// The number of tiles in flight.
        const DEPTH: usize = 3;
        let mut under_way: VecDeque<(TilePosition, Reading)> = VecDeque::new();
        let mut deliver = |(place, reading): (TilePosition, Reading)| {
            let words = pollster::block_on(reading).map_err(StreamError::Tensor)?;
            let HostData::U32(words) = words else {
                unreachable!("words are u32");
            };
            sink.take(Tile::new(place, words))
                .map_err(StreamError::Sink)
        };
        self.each(|place, bits| {
            if under_way.len() >= DEPTH
                && let Some(first) = under_way.pop_front()
            {
                deliver(first)?;
            }
            let words = self.packed.call(self.executor, &[&bits])?.remove(0);
            let Some(storage) = words.storage() else {
                unreachable!("the results of a call are in memory");
            };
            // Start reading now: a device transfers the tile while the next tiles are computed.
            under_way.push_back((place, storage.clone().read()));
            Ok(())
        })?;
        under_way.into_iter().try_for_each(deliver)
    }

    /// Passes the results to `take` in the memory of the executor, as `bool` tensors with the rows
    /// and columns of a tile, both padded to a multiple of 32. The values of the padding are
    /// meaningless.
    ///
    /// # Errors
    /// As [`Similarity::stream`]; any error of `take`.
    pub fn each<E>(
        &self,
        mut take: impl FnMut(TilePosition, Tensor) -> Result<(), StreamError<E>>,
    ) -> Result<(), StreamError<E>> {
        for place in self.each_place() {
            take(place, self.bits(&place)?)?;
        }
        Ok(())
    }

    /// Returns the positions of all tiles on and above the diagonal, in the order of computation.
    #[must_use]
    pub fn places(&self) -> Vec<TilePosition> {
        self.each_place().collect()
    }

    /// Returns the positions one by one, because a list of them can be larger than the columns.
    fn each_place(&self) -> impl Iterator<Item = TilePosition> {
        let n_tiles = self.blocks.len() * (self.blocks.len() + 1) / 2;
        let uppers = self.blocks.iter().enumerate();
        let pairs = uppers.flat_map(|(upper, row)| {
            let cols = self.blocks[upper..].iter();
            cols.map(move |col| (row, col))
        });
        let place = move |(number, (&(row, rows, _), &(col, cols, _)))| TilePosition {
            row,
            rows,
            col,
            cols,
            number,
            n_tiles,
        };
        pairs.enumerate().map(place)
    }

    /// Computes one tile, for programs that distribute the tiles themselves.
    ///
    /// # Errors
    /// Any error of the executor.
    ///
    /// # Panics
    /// If the position is not one of [`places`](Self::places).
    ///
    /// # Examples
    /// ```
    /// use tensor_core::similarity::{PairCount, Similarity, Sink as _};
    /// use tensor_core::{Host, Tensor};
    ///
    /// let x = Tensor::from_vec(&[1, 3], vec![0.0_f32, 0.5, 2.0]);
    /// let host = Host::new();
    /// let columns = Similarity::within(1.0).columns(&host, &x)?;
    /// let mut count = PairCount::default();
    /// for place in columns.places() {
    ///     count.take(columns.tile(&place)?).unwrap();
    /// }
    /// assert_eq!((count.similar, count.pairs), (5, 9));
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    pub fn tile(&self, place: &TilePosition) -> crate::error::Result<Tile> {
        let words = self.packed.call(self.executor, &[&self.bits(place)?])?;
        let words = words[0].to_host::<u32>()?;
        Ok(Tile::new(*place, words.into_iter().collect()))
    }

    /// Computes the results of a tile as `bool`.
    fn bits(&self, place: &TilePosition) -> crate::error::Result<Tensor> {
        let block = |first: usize| {
            let mut blocks = self.blocks.iter();
            let block = blocks.find(|block| block.0 == first);
            &block.expect("the position is that of a tile").2
        };
        let pair = [block(place.row), block(place.col)];
        Ok(self.similar.call(self.executor, &pair)?.remove(0))
    }
}

type Reading = Pending<'static, crate::error::Result<HostData>>;

/// Returns which columns of `left` `[n, a]` and `right` `[n, b]` are similar, as `[a, b]`.
fn similar(left: &Tensor, right: &Tensor, limit: f32) -> Tensor {
    let apart = (left.expand_dims(2) - right.expand_dims(1)).abs();
    apart.lt(limit).all(0)
}

/// Copies some columns, padded with zeros to a multiple of 32 columns.
fn filled(x: &ArrayView2<'_, f32>, first: usize, size: usize) -> Vec<f32> {
    let mut filled = Vec::with_capacity(x.nrows() * size.next_multiple_of(WORD_BITS));
    for row in x.rows() {
        filled.extend(row.iter().skip(first).take(size));
        filled.resize(filled.len().next_multiple_of(WORD_BITS), 0.0);
    }
    filled
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor};

    use super::*;
    use crate::rng::Philox;
    use crate::{Host, Reference};

    fn matrix(n: usize, d: usize) -> (Vec<f32>, Tensor) {
        let mut x = vec![0.0; n * d];
        Philox::new(5).fill_uniform_f32(0, &mut x);
        // Quarters, so that differences are exact.
        x.iter_mut().for_each(|x| *x = (*x * 12.0).floor() / 4.0);
        (x.clone(), Tensor::from_vec(&[n, d], x))
    }

    fn is_similar(x: &[f32], d: usize, i: usize, j: usize, limit: f32) -> bool {
        x.chunks_exact(d).all(|row| (row[i] - row[j]).abs() < limit)
    }

    #[test]
    fn too_many_columns_without_rows_are_an_error() {
        let host = Host::new();
        // The blocks of 2^32 columns fit into memory, but the number of pairs is 2^64.
        for n_cols in [1 << 32, 1 << 42, 1 << 60] {
            let x = Tensor::zeros(&[0, n_cols], DType::F32);
            let error = Similarity::within(0.5).columns(&host, &x).err();
            assert!(matches!(
                error.unwrap().root(),
                Error::TooLarge {
                    operation: "all_pairs",
                    ..
                }
            ));
        }
    }

    #[test]
    fn every_pair_is_answered_once_on_every_side_of_the_diagonal() {
        let host = Host::new();
        let executors: [&dyn Executor; 2] = [&host, &Reference];
        for (n, d, side) in [
            (1, 1, 32),
            (3, 31, 32),
            (2, 32, 32),
            (3, 100, 32),
            (2, 97, 64),
        ] {
            let (data, x) = matrix(n, d);
            for executor in executors {
                let mut file = BitFile::new(Cursor::new(Vec::new()), d);
                let mut count = PairCount::default();
                let job = Similarity::within(1.25).with_tile_size(side);
                job.stream(executor, &x, &mut file).unwrap();
                job.stream(executor, &x, &mut count).unwrap();
                let bytes = file.finish().unwrap().into_inner();
                assert_eq!(bytes.len(), d * d.div_ceil(8));
                let mut n_alike = 0;
                for i in 0..d {
                    for j in 0..d {
                        let bit = bytes[i * d.div_ceil(8) + j / 8] >> (j % 8) & 1 == 1;
                        assert_eq!(bit, is_similar(&data, d, i, j, 1.25), "{n} {d} {i} {j}");
                        n_alike += u64::from(bit);
                    }
                }
                assert_eq!((count.similar, count.pairs), (n_alike, (d * d) as u64));
            }
        }
    }

    #[test]
    fn tiles_say_where_they_lie_and_how_far_the_work_is() {
        let (data, x) = matrix(2, 70);
        let mut places = Vec::new();
        let mut sink = |tile: Tile| {
            assert_eq!(tile.transposed().transposed(), tile);
            assert_eq!(tile.get(0, tile.place.cols), None);
            for i in 0..tile.place.rows {
                for j in 0..tile.place.cols {
                    let (row, col) = (tile.place.row + i, tile.place.col + j);
                    let expected = is_similar(&data, 70, row, col, 1.0);
                    assert_eq!(tile.get(i, j), Some(expected));
                    assert_eq!(tile.transposed().get(j, i), Some(expected));
                }
            }
            places.push(tile.place);
            Ok::<(), io::Error>(())
        };
        let job = Similarity::within(1.0).with_tile_size(20);
        job.stream(&Host::new(), &x, &mut sink).unwrap();
        let seen: Vec<_> = places
            .iter()
            .map(|p| (p.number, p.row, p.col, p.cols))
            .collect();
        let expected = [
            (0, 0, 0, 32),
            (1, 0, 32, 32),
            (2, 0, 64, 6),
            (3, 32, 32, 32),
            (4, 32, 64, 6),
            (5, 64, 64, 6),
        ];
        assert_eq!(seen, expected);
        assert!(places.iter().all(|place| place.n_tiles == 6));
    }

    #[test]
    fn a_sink_that_fails_ends_the_work() {
        let (_, x) = matrix(2, 300);
        let mut n_taken = 0;
        let mut sink = |_: Tile| {
            n_taken += 1;
            Err(io::Error::other("the disk is full"))
        };
        let job = Similarity::within(1.0).with_tile_size(32);
        let failed = job.stream(&Host::new(), &x, &mut sink).unwrap_err();
        assert_eq!(
            failed.to_string(),
            "all_pairs: sink failed: the disk is full"
        );
        assert_eq!(n_taken, 1);
        // In a file for fewer columns the rows would overlap.
        let mut short = BitFile::new(Cursor::new(Vec::new()), 10);
        let failed = job.stream(&Host::new(), &x, &mut short).unwrap_err();
        assert!(failed.to_string().ends_with("the file has 10)"), "{failed}");
    }

    #[test]
    fn only_matrices_of_floats_are_accepted_and_an_empty_one_has_no_pairs() {
        let host = Host::new();
        let mut count = PairCount::default();
        for x in [Tensor::arange(4), Tensor::arange(4).reshape(&[2, 2])] {
            let failed = all_pairs(&host, &x, &mut count).unwrap_err();
            assert!(failed.to_string().contains("all_pairs"), "{failed}");
        }
        let empty = Tensor::from_vec(&[3, 0], Vec::<f32>::new());
        all_pairs(&host, &empty, &mut count).unwrap();
        assert_eq!(count, PairCount::default());
        // Without rows all columns are similar.
        let all = Tensor::from_vec(&[0, 3], Vec::<f32>::new());
        all_pairs(&host, &all, &mut count).unwrap();
        assert_eq!((count.similar, count.pairs), (9, 9));
    }
}
