//! `gather_rows`: files, forms, errors.

use std::fs;

use cluster::{Error, RowFiles, read_rows};
use tensor_core::Tensor;
use tensor_core::data::npy;

use crate::job::{names, on_ranks};

const N_ROWS: usize = 1000;

/// Returns the rows of a rank: in stripes of 7, from the last row to the first, none on rank 2.
fn rows_of(rank: usize, n_ranks: usize) -> Vec<u64> {
    let owner = |row: u64| {
        let owner = (row / 7) as usize % n_ranks;
        if owner == 2 { 0 } else { owner }
    };
    let rows = (0..N_ROWS as u64).rev();
    rows.filter(|&row| owner(row) == rank).collect()
}

fn expected() -> Vec<i32> {
    (0..3 * i32::try_from(N_ROWS).unwrap()).collect()
}

fn tensor(rows: &[u64]) -> Tensor {
    let first = |row: u64| 3 * i32::try_from(row).unwrap();
    let elements = rows
        .iter()
        .flat_map(|&row| [0, 1, 2].map(|n| first(row) + n));
    Tensor::from_vec(&[rows.len(), 3], elements.collect())
}

#[test]
fn rows_of_all_ranks_are_one_array() {
    on_ranks(
        concat!(module_path!(), "::rows_of_all_ranks_are_one_array"),
        &[1, 2, 4],
        |cluster, folder| {
            let rows = rows_of(cluster.rank(), cluster.n_ranks());
            let own = tensor(&rows);
            // An old, longer file is replaced.
            if cluster.rank() == 0 {
                fs::write(folder.join("one.npy.part"), [7; 100_000]).unwrap();
                fs::write(folder.join("one.npy"), "old").unwrap();
            }
            for (name, files) in [("one.npy", RowFiles::One), ("many.npy", RowFiles::PerRank)] {
                let path = folder.join(name);
                cluster
                    .gather_rows(path, files, N_ROWS, &rows, &own)
                    .unwrap();
            }
        },
        |folder| {
            let one = npy::read(folder.join("one.npy")).unwrap();
            let many = read_rows(folder.join("many.npy")).unwrap();
            for array in [one, many] {
                assert_eq!(array.shape().unwrap(), [N_ROWS, 3]);
                let elements: Vec<i32> = array.to_host::<i32>().unwrap().into_iter().collect();
                assert_eq!(elements, expected());
            }
            assert!(!names(folder).contains(&"one.npy.part".to_owned()));
        },
    );
}

#[test]
fn rows_that_do_not_form_an_array_are_errors_on_all_ranks() {
    on_ranks(
        concat!(
            module_path!(),
            "::rows_that_do_not_form_an_array_are_errors_on_all_ranks"
        ),
        &[1, 3],
        |cluster, folder| {
            let rank = cluster.rank();
            let rows = rows_of(rank, cluster.n_ranks());
            let path = folder.join("x.npy");
            for files in [RowFiles::One, RowFiles::PerRank] {
                let write = |n_rows: usize, places: &[u64], rows: &Tensor| {
                    let written = cluster.gather_rows(&path, files, n_rows, places, rows);
                    written.unwrap_err()
                };
                // A row too many, a row that is missing, and another row twice.
                for n_rows in [N_ROWS - 1, N_ROWS + 1] {
                    let error = write(n_rows, &rows, &tensor(&rows));
                    assert!(matches!(error, Error::RowFiles { .. }), "{error}");
                }
                let mut twice = rows.clone();
                if rank == 0 {
                    twice[0] = twice[1];
                }
                let error = write(N_ROWS, &twice, &tensor(&rows));
                assert!(matches!(error, Error::RowFiles { .. }), "{error}");
                // Other numbers of rows.
                let error = write(N_ROWS, &rows[1.min(rows.len())..], &tensor(&rows));
                let text = error.to_string();
                assert!(text.contains("shape of the rows is invalid"), "{text}");
                let error = write(1 << 32, &rows, &tensor(&rows));
                assert!(matches!(error, Error::ParameterInvalid { .. }), "{error}");
                if cluster.n_ranks() > 1 {
                    let error = write(N_ROWS + rank, &rows, &tensor(&rows));
                    assert!(matches!(error, Error::RanksDiffer { .. }), "{error}");
                }
                let path = folder.join("nowhere/x.npy");
                let written = cluster.gather_rows(&path, files, N_ROWS, &rows, &tensor(&rows));
                let text = written.unwrap_err().to_string();
                assert!(text.contains("nowhere"), "{text}");
            }
        },
        |folder| assert_eq!(names(folder), Vec::<String>::new()),
    );
}
