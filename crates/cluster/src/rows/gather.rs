//! Writing distributed rows.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tensor_core::Tensor;
use tensor_core::data::npy;

use super::shared_file::SharedFile;
use super::{RowFiles, index_file, rank_file};
use crate::error::{Error, Result};
use crate::ranks::Cluster;

const OPERATION: &str = "gather_rows";

/// The arguments that are equal on all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Form {
    path: PathBuf,
    is_one: bool,
    n_rows: usize,
    /// The shape of a row, and the name of the type of its elements.
    row: (Vec<usize>, String),
}

impl Cluster {
    /// Writes an array of `n_rows` rows whose rows are distributed among ranks. All ranks call the
    /// function.
    ///
    /// `rows` is a tensor in memory of shape `[own, …]`, whose first axis enumerates the rows of
    /// this rank, and `places` contains their numbers in the whole array, in any order. Each row
    /// of the array belongs to exactly one rank. The shape of a row and the type are the same on
    /// all ranks, also on those without rows. An existing file is replaced.
    ///
    /// Cost: with one file, a write for each run of consecutive rows. Memory: the size of `rows`
    /// in addition, and on each rank about 16 bytes for each row of the array and 24 bytes for each
    /// row of the rank.
    ///
    /// # Errors
    /// On all ranks. [`Error::RanksDiffer`]; [`Error::ParameterInvalid`] unless `rows` has an axis
    /// of `places.len()`, and for 2^32 rows or more; [`Error::RowFiles`] with a row that belongs to
    /// no rank or to two; [`Error::TooLarge`] for more places of all ranks than a message holds;
    /// [`Error::Tensor`] for a tensor that is not in memory; [`Error::File`] and [`Error::OnRank`]
    /// for a file that cannot be written, for example because a disk is full. A file of an earlier
    /// call is then as before, or with [`RowFiles::PerRank`] its index is missing.
    ///
    /// # Examples
    /// Rank `r` of `n` has the rows `r`, `r + n`, and so on.
    /// ```no_run
    /// use cluster::{Cluster, RowFiles};
    /// use tensor_core::Tensor;
    ///
    /// let cluster = Cluster::start()?;
    /// let places: Vec<u64> = (cluster.rank() as u64..100).step_by(cluster.n_ranks()).collect();
    /// let elements = places.iter().flat_map(|&row| [row as f32, 0.5]).collect();
    /// let rows = Tensor::from_vec(&[places.len(), 2], elements);
    /// cluster.gather_rows("array.npy", RowFiles::One, 100, &places, &rows)?;
    /// # Ok::<(), cluster::Error>(())
    /// ```
    pub fn gather_rows(
        &self,
        path: impl AsRef<Path>,
        files: RowFiles,
        n_rows: usize,
        places: &[u64],
        rows: &Tensor,
    ) -> Result<()> {
        let path = path.as_ref();
        let form = form(path, files, n_rows, places, rows);
        let form = self.agree(OPERATION, form)?;
        self.check_same(OPERATION, "the form of the array", &format!("{form:?}"))?;
        let all_places: Vec<Vec<u64>> = self.exchange(OPERATION, &places.to_vec())?;
        // All ranks find the same error.
        let index = index_of(path, n_rows, &all_places)?;
        match files {
            RowFiles::One => self.write_shared(path, &form, places, rows),
            RowFiles::PerRank => {
                let index = Tensor::from_vec(&[n_rows, 2], index);
                self.write_per_rank(path, &index, rows)
            }
        }
    }

    /// Writes the rows of each rank into a file of its own, and then the index. An old index is
    /// removed before the first of its files changes, so no index describes other files.
    fn write_per_rank(&self, path: &Path, index: &Tensor, rows: &Tensor) -> Result<()> {
        let own = rank_file(path, self.rank());
        let partial = part_of(&own);
        let index_path = index_file(path);
        let written = npy::write(&partial, rows).map_err(Error::from);
        let written = self.agree(OPERATION, written);
        let is_first = self.rank() == 0;
        let removed = written.and_then(|()| {
            let has_index = is_first && index_path.exists();
            let removed = if has_index {
                fs::remove_file(&index_path)
            } else {
                Ok(())
            };
            self.agree(
                OPERATION,
                removed.map_err(Error::file(OPERATION, &index_path)),
            )
        });
        if removed.is_err() {
            // The first error matters, and the partial file is of no use.
            let _ = fs::remove_file(&partial);
        }
        removed?;
        let placed = fs::rename(&partial, &own).map_err(Error::file(OPERATION, &own));
        self.agree(OPERATION, placed)?;
        let written = match is_first {
            true => npy::write(&index_path, index).map_err(Error::from),
            false => Ok(()),
        };
        self.agree(OPERATION, written)
    }

    /// Writes the rows of all ranks into one file.
    fn write_shared(&self, path: &Path, form: &Form, places: &[u64], rows: &Tensor) -> Result<()> {
        let shape = [&[form.n_rows], &form.row.0[..]].concat();
        let prepared = npy::header(rows.dtype()?, &shape).map_err(Error::from);
        let prepared = prepared.and_then(|header| {
            let mut bytes = vec![];
            npy::write_to(&mut bytes, rows)?;
            let start = npy::header(rows.dtype()?, rows.shape()?)?.len();
            Ok((header, bytes.split_off(start)))
        });
        let (header, bytes) = self.agree(OPERATION, prepared)?;
        let partial = part_of(path);
        let file = SharedFile::create(self, &partial);
        let mut file = self.agree(OPERATION, file)?;
        let cleared = self.agree(OPERATION, file.clear());
        let row_bytes = bytes.len() / places.len().max(1);
        let mut write = || -> Result<()> {
            if self.rank() == 0 {
                file.write_at(0, &header)?;
            }
            for (own, first) in runs(places) {
                let offset = header.len() as u64 + first * row_bytes as u64;
                file.write_at(offset, &bytes[own.start * row_bytes..own.end * row_bytes])?;
            }
            Ok(())
        };
        // Ranks sync together, so only after all ranks have written.
        let written = cleared.and_then(|()| self.agree(OPERATION, write()));
        let written = written.and_then(|()| self.agree(OPERATION, file.sync()));
        let closed = self.agree(OPERATION, file.close());
        let placed = match (self.rank(), written.and(closed)) {
            (0, Ok(())) => fs::rename(&partial, path).map_err(Error::file(OPERATION, path)),
            (_, outcome) => outcome,
        };
        if placed.is_err() && self.rank() == 0 {
            // The first error matters, and the partial file is of no use.
            let _ = fs::remove_file(&partial);
        }
        self.agree(OPERATION, placed)
    }
}

/// Returns the path of a file while it is written.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Returns the form of an array, if the arguments of this rank agree.
fn form(
    path: &Path,
    files: RowFiles,
    n_rows: usize,
    places: &[u64],
    rows: &Tensor,
) -> Result<Form> {
    let invalid = |parameter, actual: String, must: String| Error::ParameterInvalid {
        operation: OPERATION,
        parameter,
        actual,
        must,
    };
    let shape = rows.shape()?;
    if shape.first() != Some(&places.len()) {
        let must = format!("[{}, …], one row for each place", places.len());
        return Err(invalid("shape of the rows", format!("{shape:?}"), must));
    }
    if u32::try_from(n_rows).is_err() {
        let must = "below 2^32".to_owned();
        return Err(invalid("number of rows", n_rows.to_string(), must));
    }
    // A tensor that is not in memory is an error here, before any file is touched.
    if rows.storage().is_none() {
        rows.to_host::<f32>()?;
    }
    Ok(Form {
        path: path.to_owned(),
        is_one: files == RowFiles::One,
        n_rows,
        row: (shape[1..].to_vec(), format!("{:?}", rows.dtype()?)),
    })
}

/// Returns the rank of each row and the row's place among the rows of the rank: two numbers for
/// each row, in the order of the file of the index.
fn index_of(path: &Path, n_rows: usize, places: &[Vec<u64>]) -> Result<Vec<u32>> {
    /// No number of a rank, because MPI's numbers are below 2^31.
    const NONE: u32 = u32::MAX;
    let fault = |problem: String| Error::RowFiles {
        operation: OPERATION,
        path: path.to_owned(),
        problem,
    };
    let mut index = vec![[NONE; 2]; n_rows];
    for (rank, places) in (0..).zip(places) {
        for (own, &row) in (0..).zip(places) {
            let entry = usize::try_from(row).ok().and_then(|row| index.get_mut(row));
            let Some(entry) = entry else {
                return Err(fault(format!(
                    "row {row} of rank {rank} is beyond the {n_rows} rows of the array"
                )));
            };
            if entry[0] != NONE {
                let other = entry[0];
                return Err(fault(format!(
                    "row {row} belongs to rank {other} and to rank {rank}"
                )));
            }
            *entry = [rank, own];
        }
    }
    match index.iter().position(|&[rank, _]| rank == NONE) {
        Some(row) => Err(fault(format!("row {row} belongs to no rank"))),
        None => Ok(index.into_flattened()),
    }
}

/// Returns the runs of consecutive rows: their range among the rows of a rank, and the number of
/// the first row.
fn runs(places: &[u64]) -> Vec<(Range<usize>, u64)> {
    let mut runs: Vec<(Range<usize>, u64)> = vec![];
    for (own, &row) in places.iter().enumerate() {
        match runs.last_mut() {
            Some((range, first)) if *first + range.len() as u64 == row => range.end += 1,
            _ => runs.push((own..own + 1, row)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_needs_one_rank() {
        let index = |places: &[&[u64]]| {
            let places: Vec<Vec<u64>> = places.iter().map(|places| places.to_vec()).collect();
            index_of(Path::new("x"), 3, &places)
        };
        let good = index(&[&[2], &[], &[0, 1]]).unwrap();
        assert_eq!(good, [2, 0, 2, 1, 0, 0]);
        let bad: [(&[&[u64]], &str); 3] = [
            (&[&[0], &[1, 0]], "row 0 belongs to rank 0 and to rank 1"),
            (&[&[0, 1]], "row 2 belongs to no rank"),
            (&[&[3]], "row 3 of rank 0 is beyond the 3 rows"),
        ];
        for (places, problem) in bad {
            let text = index(places).unwrap_err().to_string();
            assert!(text.contains(problem), "{text}");
        }
    }

    #[test]
    fn consecutive_rows_are_one_write() {
        let expected = [(0..3, 4), (3..4, 9), (4..5, 8)];
        assert_eq!(runs(&[4, 5, 6, 9, 8]), expected);
        assert_eq!(runs(&[]), []);
    }
}
