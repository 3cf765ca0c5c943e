//! Every function of the inverse Gaussian against its golden values; the documentation contains the
//! measured errors.

use crate::support::gate::{golden, worst};
use crate::support::{Row, rows, wide_rows};
use distributions::InverseGaussian;

/// A function evaluated at a golden point, with the way its error is measured.
struct Case {
    /// The name in the table of the documentation.
    name: &'static str,
    /// The column of the golden values.
    column: &'static str,
    function: fn(&InverseGaussian, f64) -> f64,
    /// The size to which the error is relative, computed from `x` and the golden value.
    scale: fn(&InverseGaussian, f64, f64) -> f64,
}

/// The functions of the table, in its order.
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
    case("sample_gradient, mean", "by_mean", |distribution, x| {
        distribution.sample_gradient(x)[0]
    }),
    // The derivative is a sum of two terms with different signs and can be 0, so the error is
    // relative to the sum of their sizes.
    Case {
        scale: |distribution, x, truth| {
            let (mean, shape) = (distribution.mean(), distribution.shape());
            let first = x / shape * ((mean - x) / (mean + x));
            first.abs() + (truth - first).abs()
        },
        ..case("sample_gradient, shape", "by_shape", |distribution, x| {
            distribution.sample_gradient(x)[1]
        })
    },
];

/// Creates a case whose error is relative to the golden value.
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
fn every_function_meets_its_gate_and_the_table_reports_the_errors() {
    let points = all_rows("eval");
    let mut table = String::from(
        "\n# Accuracy\nLargest relative errors at the golden points, measured by `tests/integration/reference.rs`, which writes this table. The points cover\n\
         means and shapes from 1e-150 to 1e150 with `μ/λ` from 1e-14 to 1e8. Over this whole range, logarithms of probabilities are\n\
         down to -1e8; for means from 1e-137 to 1e133, they are down to -1e25. The points include\n\
         those with the largest errors among 78 000 random ones.\n\n\
         | function | points | largest relative error | in epsilons |\n|---|---|---|---|\n",
    );
    for case in CASES {
        let worst = worst(points.iter().map(|row| {
            let truth = row.number(case.column);
            let (distribution, x) = (row.distribution(), row.number("x"));
            let actual = (case.function)(&distribution, x);
            let scale = (case.scale)(&distribution, x, truth);
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
        let rows = all_rows(kind);
        let worst = worst(rows.iter().map(|row| (row.text("id"), quantile(row))));
        table += &format!("| `{name}` | {} |\n", worst.cells(name));
    }
    table.push_str(
        "\nThe error of `ln_pdf` is relative to the larger of 1 and its size, the error of the derivative by the shape to its two\n\
         terms. The error of a quantile is divided by 1 plus its condition, the derivative of `ln x` with respect to the logarithm of\n\
         the input. Between neighbouring numbers `cdf` and `sf` may change in the wrong direction, by the sum of the\n\
         errors at most.\n",
    );
    golden("src/accuracy.md", &table);
}

/// Returns the rows of a kind in both files.
fn all_rows(kind: &str) -> Vec<Row> {
    let mut all = rows(|found| found == kind);
    all.extend(wide_rows(|found| found == kind));
    all
}

/// Returns a quantile, its golden value, and the size to which its error is relative.
fn quantile(row: &Row) -> [f64; 3] {
    let (distribution, p, x) = (row.distribution(), row.number("p"), row.number("x"));
    let is_log = row.text("kind").starts_with("qlog");
    let is_upper = row.text("kind").ends_with("upper");
    let actual = match (is_log, is_upper) {
        (false, false) => distribution.inverse_cdf(p),
        (false, true) => distribution.inverse_sf(p),
        (true, false) => distribution.inverse_ln_cdf(p),
        (true, true) => distribution.inverse_ln_sf(p),
    };
    [actual, x, x * (1.0 + condition(row))]
}

/// Returns the condition of a quantile: the absolute derivative of `ln x` with respect to the
/// logarithm of the input.
fn condition(row: &Row) -> f64 {
    // The rows of `wide.csv` contain the condition.
    if let Some(condition) = row.optional("condition") {
        return condition;
    }
    let is_upper = row.text("kind").ends_with("upper");
    let ln_p = row.number(if is_upper { "logsf" } else { "logcdf" });
    let by_ln_p = (ln_p - row.number("logpdf")).exp() / row.number("x");
    if row.text("kind").starts_with("qlog") {
        by_ln_p * row.number("p").abs()
    } else {
        by_ln_p
    }
}
