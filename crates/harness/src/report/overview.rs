//! Overview of all workloads: the executors that a user runs, compared with the rivals.
//!
//! Role: the first table of the report; each row links to the section of its workload.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::comparison::Place;
use crate::record::{Check, Record, RivalTiming, Row};
use crate::run::is_user_executor;
use charts::escape;
use charts::units;

/// Returns the table, with a row for each result of an executor that users run; empty if there are
/// none.
pub(super) fn table(record: &Record, adapters: &[String]) -> String {
    let ours = || {
        record
            .rows
            .iter()
            .filter(|row| is_user_executor(&row.executor))
    };
    if ours().next().is_none() {
        return String::new();
    }
    let rivals: BTreeSet<&str> = ours()
        .flat_map(|row| row.rivals.keys())
        .map(String::as_str)
        .collect();
    let mut head = String::from(
        "<th scope=\"col\">workload</th><th scope=\"col\">size</th><th scope=\"col\">executor</th>\
         <th scope=\"col\" class=\"number\">median</th><th scope=\"col\" class=\"number\">memory</th>",
    );
    for rival in &rivals {
        let _ = write!(
            head,
            "<th scope=\"col\" class=\"number\">{}</th>",
            escape(rival)
        );
    }
    let body: String = ours().map(|row| line(row, &rivals, adapters)).collect();
    let about = if rivals.is_empty() {
        ""
    } else {
        " Columns of rivals: the rival's time divided by ours, so above 1 we are faster; hover for the interval."
    };
    format!(
        "<section>\n<h2>Overview</h2>\n<p class=\"muted\">The executors that users run: <code>host</code> and <code>wgsl</code>.{about}</p>\n\
         <div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n\
         </section>\n"
    )
}

fn line(row: &Row, rivals: &BTreeSet<&str>, adapters: &[String]) -> String {
    let [workload, size, executor] =
        [&row.workload, &row.size, &row.executor].map(|text| escape(text));
    let place = row.adapter.clone().map_or(Place::Cpu, Place::Adapter);
    let ink = place.ink(adapters).name();
    let class = if matches!(row.check, Check::Failed(_)) {
        "failed"
    } else {
        ""
    };
    let median = match &row.check {
        Check::Failed(_) => "FAILED".to_owned(),
        _ => row
            .median_s
            .map_or(units::ABSENT.to_owned(), units::seconds),
    };
    let memory = row
        .peak_extra_bytes
        .map_or(units::ABSENT.to_owned(), |bytes| units::bytes(bytes as f64));
    let mut html = format!(
        "<tr class=\"{class}\"><th scope=\"row\"><a href=\"#{workload}\">{workload}</a></th><td>{size}</td>\
         <td><i class=\"swatch swatch-{ink}\"></i>{executor}</td>\
         <td class=\"number\">{median}</td><td class=\"number\">{memory}</td>"
    );
    for rival in rivals {
        html += &ratio(row.rivals.get(*rival));
    }
    html + "</tr>\n"
}

/// Returns the cell of a rival: its time divided by ours, or FAILED.
fn ratio(timing: Option<&RivalTiming>) -> String {
    let Some(timing) = timing else {
        return format!("<td class=\"number\">{}</td>", units::ABSENT);
    };
    if matches!(timing.check, Check::Failed(_)) {
        return "<td class=\"number failed\">FAILED</td>".to_owned();
    }
    let interval = timing
        .low
        .zip(timing.high)
        .map_or(String::new(), |(low, high)| {
            format!("{}–{}", units::digits(low), units::digits(high))
        });
    let speedup = timing
        .speedup
        .map_or(units::ABSENT.to_owned(), units::times);
    format!("<td class=\"number\" title=\"{interval}\">{speedup}</td>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(executor: &str, speedup: f64) -> Row {
        let timing = RivalTiming {
            speedup: Some(speedup),
            low: Some(0.9 * speedup),
            high: Some(1.1 * speedup),
            ..RivalTiming::default()
        };
        Row {
            workload: "chain".into(),
            executor: executor.into(),
            rivals: [("jax".to_owned(), timing)].into(),
            ..Row::default()
        }
    }

    #[test]
    fn only_what_a_user_gets_stands_in_the_overview() {
        let record = Record {
            rows: vec![row("loops", 7.0), row("host", 3.0)],
            ..Record::default()
        };
        let html = table(&record, &[]);
        assert!(
            html.contains("href=\"#chain\"") && html.contains(">3.00×<"),
            "{html}"
        );
        assert!(
            !html.contains("7.00") && html.contains("2.70–3.30"),
            "{html}"
        );
        assert_eq!(table(&Record::default(), &[]), "");
    }

    #[test]
    fn a_failed_rival_has_no_ratio() {
        let mut failed = row("host", 3.0);
        failed
            .rivals
            .values_mut()
            .for_each(|timing| timing.check = Check::Failed("off".into()));
        let record = Record {
            rows: vec![failed],
            ..Record::default()
        };
        let html = table(&record, &[]);
        assert!(html.contains("FAILED") && !html.contains("3.00"), "{html}");
    }
}
