//! Every function of the inverse Gaussian against its golden values; the measured errors stand in the documentation.

mod support;

use distributions::InverseGaussian;
use support::gate::{golden, worst};
use support::{Row, rows};

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
        let worst = worst(points.iter().map(|row| {
            let truth = row.number(case.column);
            let (law, x) = (row.law(), row.number("x"));
            let actual = (case.function)(&law, x);
            let scale = (case.scale)(&law, x, truth);
            (row.text("id"), [actual, truth, scale])
        }));
        table += &format!("| `{}` | {} |\n", case.name, worst.cells(case.name));
    }
    for kind in ["qlower", "qupper", "qloglower", "qlogupper"] {
        let name = match kind {
            "qlower" => "inverse_cdf",
            "qupper" => "inverse_sf",
            "qloglower" => "inverse_ln_cdf",
            _ => "inverse_ln_sf",
        };
        let rows = rows(|found| found == kind);
        let worst = worst(rows.iter().map(|row| (row.text("id"), quantile(row))));
        table += &format!("| `{name}` | {} |\n", worst.cells(name));
    }
    table.push_str(
        "\nThat of `ln_pdf` is relative to the larger of 1 and its size, that of the derivative by the shape to its two terms; that of a\n\
         quantile is divided by 1 plus its condition.\n",
    );
    golden("src/accuracy.md", &table);
}

/// Gives what a quantile is, what it must be, and the size of its allowance.
fn quantile(row: &Row) -> [f64; 3] {
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
    [actual, x, x * (1.0 + condition)]
}
