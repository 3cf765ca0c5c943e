//! Overview of all workloads: the executors that a user runs, compared with each rival.
//!
//! Role: the numbers behind the answers at the top of the report; each row links to the section of
//! its workload.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::columns;
use crate::comparison::Place;
use crate::record::{Check, Record, RivalTiming, Row};
use crate::speedup::{self, Decision};
use charts::escape;
use charts::units;

/// Returns the table, folded, with a row for each result of an executor that users run; empty if
/// there are none.
pub(super) fn table(record: &Record, adapters: &[String]) -> String {
    let ours = || record.rows.iter().filter(|row| row.is_user_executor());
    if ours().next().is_none() {
        return String::new();
    }
    let rivals: BTreeSet<&str> = ours()
        .flat_map(|row| row.rivals.keys())
        .map(String::as_str)
        .collect();
    let mut head = String::from(
        "<th scope=\"col\">workload</th><th scope=\"col\">executor</th>\
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
        " Columns of rivals: the rival's time divided by ours, with its interval; above 1 we are faster."
    };
    format!(
        "<details>\n<summary><h2>All ratios</h2></summary>\n<div id=\"overview\">\n\
         <p class=\"muted\">The executors that users run: <code>host</code> and <code>wgsl</code>.{about}</p>\n\
         <div class=\"wide\"><table class=\"stack\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n\
         </table></div>\n</div>\n</details>\n"
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
            .whole_median_s()
            .map_or(units::ABSENT.to_owned(), |median| {
                columns::time(median, row.share_of_work.is_some())
            }),
    };
    let memory = row
        .peak_extra_bytes
        .map_or(units::ABSENT.to_owned(), |bytes| units::bytes(bytes as f64));
    let mut html = format!(
        "<tr class=\"{class}\"><th scope=\"row\"><a href=\"#{workload}\">{workload}</a> <small>{size}</small></th>\
         <td><i class=\"swatch swatch-{ink}\"></i>{executor}</td>\
         <td class=\"number\" data-label=\"median\">{median}</td>\
         <td class=\"number\" data-label=\"memory\">{memory}</td>"
    );
    for rival in rivals {
        html += &ratio(rival, row.rivals.get(*rival));
    }
    html + "</tr>\n"
}

/// Returns the cell of a rival: its time divided by ours with its interval, in the colour of the
/// decision, or FAILED.
fn ratio(rival: &str, timing: Option<&RivalTiming>) -> String {
    let rival = escape(rival);
    let cell = |class: &str, text: &str| {
        format!("<td class=\"number {class}\" data-label=\"{rival}\">{text}</td>")
    };
    let Some(timing) = timing else {
        return cell("absent", units::ABSENT);
    };
    if matches!(timing.check, Check::Failed(_)) {
        return cell("failed", "FAILED");
    }
    let Some(ratio) = timing.speedup else {
        return cell("absent", units::ABSENT);
    };
    let interval = speedup::interval(timing);
    let decision = Decision::from_interval(interval);
    let interval = interval.map_or_else(String::new, |ends| {
        format!("<small>{}</small>", units::range(ends))
    });
    cell(
        &format!("ink-{}", decision.ink().name()),
        &format!("{}{interval}", units::times(ratio)),
    )
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
    fn only_executors_of_users_are_in_the_overview() {
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
        assert!(html.contains("ink-faster"), "{html}");
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
