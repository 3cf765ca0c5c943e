//! Golden points of the inverse Gaussian.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod gate;

use distributions::InverseGaussian;
use std::collections::HashMap;

/// A row of `ig-reference.csv`, with what `ig-more.csv` adds.
pub(crate) struct Row {
    fields: HashMap<String, String>,
}

impl Row {
    /// Gives a number of the row, as the nearest f64.
    pub(crate) fn number(&self, column: &str) -> f64 {
        self.fields[column].parse().expect("columns hold numbers")
    }

    pub(crate) fn text(&self, column: &str) -> &str {
        &self.fields[column]
    }

    pub(crate) fn law(&self) -> InverseGaussian {
        InverseGaussian::new(self.number("mu"), self.number("lambda")).expect("golden parameters")
    }
}

/// Gives the rows whose kind passes.
pub(crate) fn rows(is_wanted: impl Fn(&str) -> bool) -> Vec<Row> {
    let more: HashMap<String, HashMap<String, String>> = table("ig-more.csv")
        .into_iter()
        .map(|row| (row["id"].clone(), row))
        .collect();
    let mut rows = table("ig-reference.csv");
    rows.retain(|row| is_wanted(&row["kind"]));
    assert!(!rows.is_empty());
    let with_more = |mut fields: HashMap<String, String>| {
        fields.extend(more.get(&fields["id"]).cloned().unwrap_or_default());
        Row { fields }
    };
    rows.into_iter().map(with_more).collect()
}

/// Reads a file of `testdata`.
pub(crate) fn table(name: &str) -> Vec<HashMap<String, String>> {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("golden data is in the crate");
    let mut lines = text.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().expect("a heading").collect();
    let row = |fields: std::str::Split<'_, char>| {
        let named = names.iter().zip(fields);
        named
            .map(|(name, field)| ((*name).to_owned(), field.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

/// Gives Kolmogorov's statistic of draws from a law with this distribution function, times the root of their number.
pub(crate) fn kolmogorov(mut draws: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    draws.sort_by(f64::total_cmp);
    let n = draws.len() as f64;
    let steps = draws.iter().zip(0_u32..).map(|(&x, rank)| {
        let (cdf, rank) = (cdf(x), f64::from(rank));
        (cdf - rank / n).max((rank + 1.0) / n - cdf)
    });
    n.sqrt() * steps.fold(0.0, f64::max)
}
