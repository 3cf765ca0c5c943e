//! The named results of a workload over all its sizes, as a table.
//!
//! Role: shows the results of trainings next to their times.

use std::collections::BTreeSet;
use std::fmt::Write;

use charts::{escape, units};

use crate::record::{Check, Record, Row};

/// Returns the rows of a workload that have named results and a correct result.
pub(super) fn rows<'r>(record: &'r Record, workload: &str) -> Vec<&'r Row> {
    let rows = record.rows.iter().filter(|row| row.workload == workload);
    rows.filter(|row| row.check == Check::Ok && !row.findings.numbers.is_empty())
        .collect()
}

/// Returns the table of the named results; empty without any.
pub(super) fn table(record: &Record, workload: &str) -> String {
    let rows = rows(record, workload);
    if rows.is_empty() {
        return String::new();
    }
    let names: BTreeSet<&String> = rows
        .iter()
        .flat_map(|row| row.findings.numbers.keys())
        .collect();
    // Only trainings have these.
    let has_accuracy = rows.iter().any(|row| row.accuracy.is_some());
    let of_trainings = if has_accuracy {
        &["accuracy", "wrong"][..]
    } else {
        &[]
    };
    let mut html = String::from(
        "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">size</th><th scope=\"col\">executor</th>",
    );
    let titles = of_trainings.iter().chain(&["time"]);
    let titles = titles.map(|title| (*title).to_owned());
    for title in titles.chain(names.iter().map(|name| name.replace('_', " "))) {
        let title = escape(&title);
        let _ = write!(html, "<th scope=\"col\" class=\"number\">{title}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let [size, executor] = [&row.size, &row.executor].map(|text| escape(text));
        let accuracy = row.accuracy.map(|accuracy| percent(accuracy.into()));
        let time = row.median_s.map(units::seconds);
        let wrong = row.accuracy.map(|_| row.findings.wrong.len().to_string());
        let _ = write!(html, "<tr><th scope=\"row\">{size}</th><td>{executor}</td>");
        let numbers = names.iter().map(|name| {
            let number = row.findings.numbers.get(*name);
            number.map(|&number| units::digits(number))
        });
        let of_training = [accuracy, wrong].into_iter().take(of_trainings.len());
        for cell in of_training.chain([time]).chain(numbers) {
            let cell = cell.unwrap_or_else(|| units::ABSENT.to_owned());
            let _ = write!(html, "<td class=\"number\">{}</td>", escape(&cell));
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table></div>\n"
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Findings;

    #[test]
    fn correct_rows_with_results_are_shown() {
        let row = |size: &str, check: Check| Row {
            workload: "training".to_owned(),
            size: size.to_owned(),
            executor: "host".to_owned(),
            check,
            accuracy: Some(0.9936),
            findings: Findings {
                numbers: [("packed_bytes".to_owned(), 1234.0)].into(),
                wrong: vec![3, 5],
                ..Findings::default()
            },
            ..Row::default()
        };
        let failed = Check::Failed("wrong".to_owned());
        let record = Record {
            rows: vec![row("w2<a2", Check::Ok), row("bad", failed)],
            ..Record::default()
        };
        let html = table(&record, "training");
        for part in [
            "w2&lt;a2",
            "packed bytes",
            "99.36 %",
            "<td class=\"number\">2</td>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("bad"));
        let other = Row {
            accuracy: None,
            ..row("plain", Check::Ok)
        };
        let record = Record {
            rows: vec![other],
            ..Record::default()
        };
        let html = table(&record, "training");
        assert!(html.contains("packed bytes") && !html.contains("accuracy"));
        assert_eq!(html.matches("<th scope=\"col\"").count(), 4);
        assert!(table(&record, "other").is_empty());
    }
}
