//! The accuracy gate that every function has to pass, and the tables of the measured errors.

#![expect(
    clippy::print_stdout,
    reason = "what was measured is shown where it is asked for"
)]

use std::path::Path;
use tensor_core::compare::{Tolerance, compare};

/// Tolerance in epsilons: 4e-15.
pub(crate) const GATE: usize = 18;

/// The largest error of a function.
pub(crate) struct Worst {
    error: f64,
    id: String,
    n_rows: usize,
}

impl Worst {
    /// Returns the number of points and the largest error as three cells of a table, and prints the
    /// row of that error.
    pub(crate) fn cells(&self, name: &str) -> String {
        let epsilons = self.error / f64::EPSILON;
        format!("{} | {} | {epsilons:.1}", self.n_rows, self.cell(name))
    }

    /// Returns the largest error as a table cell, and prints where it occurred.
    pub(crate) fn cell(&self, name: &str) -> String {
        println!("{name}: {:.2e} in row {}", self.error, self.id);
        format!("{:.1e}", self.error)
    }
}

/// Compares a function with its expected value at each row, relative to a scale.
///
/// Rows are compared one by one, so that the row with the largest error is known. Panics if a row
/// is outside the tolerance.
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
    assert!(worst.n_rows > 0, "there are no rows");
    worst
}

/// Compares a generated file with the one in the crate, or writes it under `BLESS=1`.
pub(crate) fn golden(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&file, text).expect("the crate can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, text, "{path} is stale: run with BLESS=1");
}
