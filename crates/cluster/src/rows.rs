//! Large arrays whose rows are distributed among ranks, as files.
//!
//! Role: `Cluster::gather_rows` writes, [`read_rows`] reads.
//! Method: the files are NPY files, so NumPy reads them, too. As one file, each rank writes its
//! rows at their places through MPI-IO (`shared_file`). With one file per rank, each rank writes
//! its rows one after the other, and an index lists the file and the place of each row. A file
//! appears under its name when it is complete.

use std::path::{Path, PathBuf};

use tensor_core::data::npy;
use tensor_core::{DType, Tensor};

use crate::error::{Error, Result};

#[cfg(feature = "mpi")]
mod gather;
#[cfg(feature = "mpi")]
mod shared_file;

/// The files that rows are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFiles {
    /// A single file, in which each rank writes at the places of its rows. Needs a file system
    /// that all ranks share.
    One,
    /// A file for each rank, `NAME.0.npy`, `NAME.1.npy`, …, and the index `NAME.index.npy`: for
    /// each row, the number of the file and the row's place in that file. Files can be on disks of
    /// their own and be moved later.
    PerRank,
}

/// Returns the path of the file of a rank: the extension of `path` is replaced.
fn rank_file(path: &Path, rank: usize) -> PathBuf {
    path.with_extension(format!("{rank}.npy"))
}

/// Returns the path of the index.
fn index_file(path: &Path) -> PathBuf {
    path.with_extension("index.npy")
}

/// Reads the rows that `Cluster::gather_rows` wrote with [`RowFiles::PerRank`] into a tensor in the
/// memory of the host. `path` is the path passed to `gather_rows`. A single file is read by
/// [`tensor_core::data::npy::read`].
///
/// Memory: twice the size of the array.
///
/// # Errors
/// [`Error::Data`] for a file that is missing or damaged; [`Error::RowFiles`] for an index that
/// does not match the files; [`Error::Tensor`] if the array exceeds the limits of a tensor.
pub fn read_rows(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    let index_path = index_file(path);
    let mismatch = |problem: String| Error::RowFiles {
        operation: "read_rows",
        path: index_path.clone(),
        problem,
    };
    let index = npy::read(&index_path)?;
    let &[n_rows, 2] = index.shape()? else {
        let shape = index.shape()?;
        return Err(mismatch(format!(
            "the index has shape {shape:?}; expected [rows, 2]"
        )));
    };
    let dtype = index.dtype()?;
    if dtype != DType::U32 {
        return Err(mismatch(format!(
            "the index has type {dtype}; expected {}",
            DType::U32
        )));
    }
    let index: Vec<u32> = index.to_host::<u32>()?.into_iter().collect();
    let index: Vec<[u32; 2]> = index
        .chunks_exact(2)
        .map(|pair| [pair[0], pair[1]])
        .collect();
    let n_files = index.iter().map(|pair| pair[0] as usize + 1).max();
    if n_files.unwrap_or(0) > n_rows {
        // Ranks without rows have files, too, but the index does not name them.
        let last = n_files.unwrap_or(0) - 1;
        if !rank_file(path, last).exists() {
            return Err(mismatch(format!("file {last} does not exist")));
        }
    }
    let files = (0..n_files.unwrap_or(1)).map(|rank| Ok(npy::read(rank_file(path, rank))?));
    let files = files.collect::<Result<Vec<_>>>()?;
    // The place of each row in the concatenated files.
    let mut starts = vec![0_usize];
    for file in &files {
        let shape = file.shape()?;
        let is_alike = !shape.is_empty()
            && shape.len() == files[0].shape()?.len()
            && shape[1..] == files[0].shape()?[1..]
            && file.dtype()? == files[0].dtype()?;
        if !is_alike {
            return Err(mismatch(format!(
                "a file has shape {shape:?}, the first one {:?}",
                files[0].shape()?
            )));
        }
        starts.push(starts[starts.len() - 1] + shape[0]);
    }
    let mut places = Vec::with_capacity(n_rows);
    for (row, [file, place]) in index.into_iter().enumerate() {
        let (file, place) = (file as usize, place as usize);
        if place >= starts[file + 1] - starts[file] {
            return Err(mismatch(format!(
                "row {row} is at place {place} of file {file}, which has {} rows",
                starts[file + 1] - starts[file]
            )));
        }
        places.push(
            u32::try_from(starts[file] + place)
                .map_err(|_| mismatch("the files have more than 2^32 rows".to_owned()))?,
        );
    }
    let all = Tensor::concat(&files.iter().collect::<Vec<_>>(), 0);
    let rows = all.gather(&Tensor::from_vec(&[n_rows], places), 0);
    Ok(rows.realize(&tensor_core::Host::new())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_ranks_are_next_to_the_path() {
        let path = Path::new("out/x.npy");
        assert_eq!(rank_file(path, 12), Path::new("out/x.12.npy"));
        assert_eq!(index_file(path), Path::new("out/x.index.npy"));
        assert_eq!(rank_file(Path::new("x"), 0), Path::new("x.0.npy"));
    }

    #[test]
    fn an_index_puts_rows_in_order_and_a_wrong_one_is_reported() {
        let folder = tool_io::TemporaryFolder::create(&std::env::temp_dir(), "rows").unwrap();
        let folder = folder.path();
        let path = folder.join("x.npy");
        let write = |name: &str, tensor: &Tensor| npy::write(folder.join(name), tensor).unwrap();
        let file = |rows: &[f32]| Tensor::from_vec(&[rows.len(), 1], rows.to_vec());
        write("x.0.npy", &file(&[2.0, 0.0]));
        write("x.1.npy", &file(&[]));
        write("x.2.npy", &file(&[1.0]));
        let index = |pairs: Vec<u32>| Tensor::from_vec(&[pairs.len() / 2, 2], pairs);
        write("x.index.npy", &index(vec![0, 1, 2, 0, 0, 0]));
        let rows = read_rows(&path).unwrap();
        assert_eq!(rows.shape().unwrap(), [3, 1]);
        let rows: Vec<f32> = rows.to_host::<f32>().unwrap().into_iter().collect();
        assert_eq!(rows, [0.0, 1.0, 2.0]);

        for (pairs, problem) in [
            (
                vec![0, 2],
                "row 0 is at place 2 of file 0, which has 2 rows",
            ),
            (
                vec![1, 0],
                "row 0 is at place 0 of file 1, which has 0 rows",
            ),
            (vec![u32::MAX, 0], "file 4294967295 does not exist"),
        ] {
            write("x.index.npy", &index(pairs));
            let text = read_rows(&path).unwrap_err().to_string();
            assert!(text.contains(problem), "{text}");
        }
        write("x.index.npy", &file(&[1.0]));
        let text = read_rows(&path).unwrap_err().to_string();
        assert!(text.contains("the index has shape [1, 1]"), "{text}");
        let floats = Tensor::from_vec(&[1, 2], vec![1.0_f32, 0.0]);
        write("x.index.npy", &floats);
        let error = read_rows(&path).unwrap_err();
        assert!(matches!(error, Error::RowFiles { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("the index has type f32; expected u32"),
            "{text}"
        );
        write("x.index.npy", &index(vec![0, 0]));
        write("x.0.npy", &Tensor::from_vec(&[], vec![1.0_f32]));
        let text = read_rows(&path).unwrap_err().to_string();
        assert!(text.contains("a file has shape []"), "{text}");
    }
}
