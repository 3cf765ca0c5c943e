//! The tolerance for every function (the accuracy gate), and the tables of the measured errors.

#![expect(
    clippy::print_stdout,
    reason = "measured errors are printed for `--nocapture`"
)]

use std::path::Path;
use tensor_core::compare::{Tolerance, compare};

/// Tolerance in epsilons: 4e-15.
pub(crate) const GATE: usize = 18;

/// The largest error of a function.
pub(crate) struct Worst {
    error: f64,
    /// The row of the largest error.
    id: String,
    /// The number of rows compared.
    n_rows: usize,
}

impl Worst {
    /// Returns three cells of a table: the number of points, the largest error, and the error in
    /// epsilons. Prints the row of the largest error.
    pub(crate) fn cells(&self, name: &str) -> String {
        let epsilons = self.error / f64::EPSILON;
        format!("{} | {} | {epsilons:.1}", self.n_rows, self.cell(name))
    }

    /// Returns the largest error as a table cell, and prints the row of this error.
    pub(crate) fn cell(&self, name: &str) -> String {
        println!("{name}: {:.2e} in row {}", self.error, self.id);
        format!("{:.1e}", self.error)
    }
}

/// Compares actual with golden values and returns the largest error.
///
/// Each row has an id, the actual value, the golden value and the size to which the error is
/// relative. Rows are compared one by one to find the row with the largest error. Panics if an
/// error exceeds the tolerance.
pub(crate) fn worst<'a>(rows: impl Iterator<Item = (&'a str, [f64; 3])>) -> Worst {
    let mut worst = Worst {
        error: 0.0,
        id: "none".to_owned(),
        n_rows: 0,
    };
    for (id, [actual, truth, scale]) in rows {
        let bound = Tolerance::relative(GATE)
            .scaled_by([scale])
            .or_absolute(f64::MIN_POSITIVE);
        let summary = compare([actual], [truth], &bound)
            .unwrap_or_else(|mismatch| panic!("row {id}: {mismatch}"));
        let error = summary.max_share * GATE as f64 * f64::EPSILON;
        worst.n_rows += 1;
        if error > worst.error {
            (worst.error, worst.id) = (error, id.to_owned());
        }
    }
    assert!(worst.n_rows > 0, "no rows to compare");
    worst
}

/// Compares generated text with a file of the crate. If the environment variable `BLESS` is 1,
/// writes the file instead.
pub(crate) fn golden(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&file, text).expect("golden file is writable");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, text, "{path} is stale: run with BLESS=1");
}
