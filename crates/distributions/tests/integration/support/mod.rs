//! Access to the golden tables, and the Kolmogorov statistic of a sample.

pub(crate) mod gate;
pub(crate) mod samples;

use distributions::InverseGaussian;
use std::collections::HashMap;

/// A row of a golden table: its fields by column name.
pub(crate) struct Row {
    fields: HashMap<String, String>,
}

impl Row {
    /// Returns a number of the row, rounded to the nearest f64.
    pub(crate) fn number(&self, column: &str) -> f64 {
        self.fields[column].parse().expect("columns hold numbers")
    }

    /// Returns a number of the row, if its file has the column.
    pub(crate) fn optional(&self, column: &str) -> Option<f64> {
        self.fields
            .contains_key(column)
            .then(|| self.number(column))
    }

    /// Returns the text of a column.
    pub(crate) fn text(&self, column: &str) -> &str {
        &self.fields[column]
    }

    /// Returns the inverse Gaussian with the parameters in the columns of `ig-reference.csv`.
    pub(crate) fn distribution(&self) -> InverseGaussian {
        InverseGaussian::new(self.number("mu"), self.number("lambda"))
            .expect("golden parameters are valid")
    }
}

/// Returns the rows of `ig-reference.csv` whose kind passes the filter, joined with the columns of
/// `ig-more.csv` by id.
pub(crate) fn rows(is_wanted: impl Fn(&str) -> bool) -> Vec<Row> {
    let more: HashMap<String, Row> = table("ig-more.csv")
        .into_iter()
        .map(|row| (row.text("id").to_owned(), row))
        .collect();
    let mut rows = table("ig-reference.csv");
    rows.retain(|row| is_wanted(row.text("kind")));
    assert!(!rows.is_empty());
    for row in &mut rows {
        if let Some(more) = more.get(row.text("id")) {
            row.fields.extend(more.fields.clone());
        }
    }
    rows
}

/// Column names of `wide.csv` with the corresponding names in `ig-reference.csv`.
const RENAMED: [(&str, &str); 9] = [
    ("first", "mu"),
    ("second", "lambda"),
    ("ln_pdf", "logpdf"),
    ("ln_cdf", "logcdf"),
    ("ln_sf", "logsf"),
    ("inverse_cdf", "qlower"),
    ("inverse_sf", "qupper"),
    ("inverse_ln_cdf", "qloglower"),
    ("inverse_ln_sf", "qlogupper"),
];

/// Returns the inverse Gaussian rows of `wide.csv` whose kind passes the filter.
pub(crate) fn wide_rows(is_wanted: impl Fn(&str) -> bool) -> Vec<Row> {
    let renamed = |name: &str| {
        let pair = RENAMED.iter().find(|(wide, _)| *wide == name);
        pair.map_or(name, |(_, reference)| *reference).to_owned()
    };
    let mut rows = table("wide.csv");
    rows.retain(|row| {
        row.text("distribution") == "gaussian" && is_wanted(&renamed(row.text("kind")))
    });
    assert!(!rows.is_empty());
    let row = |row: Row| {
        let named = row.fields.into_iter().map(|(name, field)| {
            let field = match name.as_str() {
                "kind" => renamed(&field),
                "id" => format!("{field} of wide.csv"),
                _ => field,
            };
            (renamed(&name), field)
        });
        Row {
            fields: named.collect(),
        }
    };
    rows.into_iter().map(row).collect()
}

/// Reads a CSV file of `testdata`.
pub(crate) fn table(name: &str) -> Vec<Row> {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("golden data is in the crate");
    let mut lines = text.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().expect("the table has a heading").collect();
    let row = |fields: std::str::Split<'_, char>| {
        let named = names.iter().zip(fields);
        let named = named.map(|(name, field)| ((*name).to_owned(), field.to_owned()));
        Row {
            fields: named.collect(),
        }
    };
    lines.map(row).collect()
}

/// Returns the Kolmogorov statistic of draws against a distribution function, times the square root
/// of the number of draws.
pub(crate) fn kolmogorov(mut draws: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    assert!(!draws.iter().any(|x| x.is_nan()), "a draw is NaN");
    draws.sort_by(f64::total_cmp);
    let n = draws.len() as f64;
    let steps = draws.iter().zip(0_u32..).map(|(&x, rank)| {
        let (cdf, rank) = (cdf(x), f64::from(rank));
        (cdf - rank / n).max((rank + 1.0) / n - cdf)
    });
    // `f64::max` ignores NaN.
    let largest = steps.map(f64::abs).max_by(f64::total_cmp);
    n.sqrt() * largest.expect("there are draws")
}
