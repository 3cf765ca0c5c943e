//! Every function of the inverse Gaussian against its golden values; the measured errors stand in the documentation.

#![expect(
    clippy::print_stdout,
    reason = "what was measured is shown where it is asked for"
)]

mod support;

use distributions::InverseGaussian;
use std::fmt::Write as _;
use std::path::Path;
use support::{Row, rows};
use tensor_core::compare::{Bound, Summary, compare};

/// Allowed error in epsilons: 4e-15.
const GATE: usize = 18;

/// The worst of a function's errors.
struct Worst {
    error: f64,
    row: String,
    n_rows: usize,
}

/// A function of a golden point, and how its error is measured.
struct Case {
    name: &'static str,
    column: &'static str,
    function: fn(&InverseGaussian, f64) -> f64,
    scale: fn(&InverseGaussian, f64, f64) -> f64,
}

const CASES: &[Case] = &[
    case("pdf", "pdf", InverseGaussian::pdf),
    Case {
        scale: |_, _, truth| truth.abs().max(1.0),
        ..case("ln_pdf", "logpdf", InverseGaussian::ln_pdf)
    },
    case("cdf", "cdf", InverseGaussian::cdf),
    case("sf", "sf", InverseGaussian::sf),
    case("ln_cdf", "logcdf", InverseGaussian::ln_cdf),
    case("ln_sf", "logsf", InverseGaussian::ln_sf),
    case("hazard", "hazard", InverseGaussian::hazard),
    case("sample_gradient, mean", "by_mean", |law, x| {
        law.sample_gradient(x)[0]
    }),
    // The derivative passes through 0 as a sum of two terms of different sign; they are its scale.
    Case {
        scale: |law, x, truth| {
            let (mean, shape) = (law.mean(), law.shape());
            let first = x / shape * ((mean - x) / (mean + x));
            first.abs() + (truth - first).abs()
        },
        ..case("sample_gradient, shape", "by_shape", |law, x| {
            law.sample_gradient(x)[1]
        })
    },
];

const fn case(
    name: &'static str,
    column: &'static str,
    function: fn(&InverseGaussian, f64) -> f64,
) -> Case {
    Case {
        name,
        column,
        function,
        scale: |_, _, truth| truth.abs(),
    }
}

#[test]
fn every_function_meets_its_gate_and_the_table_says_how() {
    let points = rows(|kind| kind == "eval");
    let mut table = String::from(
        "\n# Accuracy\nLargest relative errors on the golden points, measured by `tests/reference.rs`, which writes this table:\n\n\
         | function | points | largest relative error |\n|---|---|---|\n",
    );
    for case in CASES {
        let worst = worst(&points, |row| {
            let truth = row.number(case.column);
            let (law, x) = (row.law(), row.number("x"));
            let actual = (case.function)(&law, x);
            (actual, truth, (case.scale)(&law, x, truth))
        });
        line(&mut table, case.name, &worst);
    }
    for kind in ["qlower", "qupper", "qloglower", "qlogupper"] {
        let name = match kind {
            "qlower" => "inverse_cdf",
            "qupper" => "inverse_sf",
            "qloglower" => "inverse_ln_cdf",
            _ => "inverse_ln_sf",
        };
        let worst = worst(&rows(|found| found == kind), quantile);
        line(&mut table, name, &worst);
    }
    table.push_str(
        "\nThat of `ln_pdf` is relative to the larger of 1 and its size, that of the derivative by the shape to its two terms; that of a\n\
         quantile is divided by 1 plus its condition.\n",
    );
    golden("src/accuracy.md", &table);
}

fn quantile(row: &Row) -> (f64, f64, f64) {
    let (law, p, x) = (row.law(), row.number("p"), row.number("x"));
    let is_log = row.text("kind").starts_with("qlog");
    let is_upper = row.text("kind").ends_with("upper");
    let actual = match (is_log, is_upper) {
        (false, false) => law.inverse_cdf(p),
        (false, true) => law.inverse_sf(p),
        (true, false) => law.inverse_ln_cdf(p),
        (true, true) => law.inverse_ln_sf(p),
    };
    // By how much the logarithm of x changes with that of the input.
    let ln_p = row.number(if is_upper { "logsf" } else { "logcdf" });
    let by_ln_p = (ln_p - row.number("logpdf")).exp() / x;
    let condition = if is_log { by_ln_p * p.abs() } else { by_ln_p };
    (actual, x, x * (1.0 + condition))
}

/// Compares each row by itself, so that the worst one is known; panics where one fails.
fn worst(rows: &[Row], of: impl Fn(&Row) -> (f64, f64, f64)) -> Worst {
    let errors = rows.iter().map(|row| {
        let (actual, truth, scale) = of(row);
        let bound = Bound::relative(GATE)
            .scaled_by([scale])
            .or_absolute(f64::MIN_POSITIVE);
        let Summary { max_share, .. } = compare([actual], [truth], &bound)
            .unwrap_or_else(|mismatch| panic!("row {}: {mismatch}", row.text("id")));
        (max_share, row.text("id"))
    });
    let (share, row) = errors.max_by(|a, b| a.0.total_cmp(&b.0)).expect("rows");
    Worst {
        error: share * GATE as f64 * f64::EPSILON,
        row: row.to_owned(),
        n_rows: rows.len(),
    }
}

fn line(table: &mut String, name: &str, worst: &Worst) {
    println!("{name}: {:.2e} in row {}", worst.error, worst.row);
    writeln!(
        table,
        "| `{name}` | {} | {:.1e} |",
        worst.n_rows, worst.error
    )
    .expect("a string");
}

/// Compares a generated file with the one in the crate, or writes it under `BLESS=1`.
fn golden(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, text).expect("the crate can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, text, "{path} is stale: run with BLESS=1");
}
