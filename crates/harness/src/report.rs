//! Records as one self-contained HTML page.
//!
//! Role: the visual form of a run: facts of the machine, an overview, comparisons as bars and
//! tables, a roofline of workloads with several sizes, loss curves of trainings, and what was left
//! out. Every number comes from the record.
//! Method: the page is built from plain strings. All text of a record is escaped. Plots are inline
//! SVG whose colours are set by the style sheet, for light and dark mode.
//! Limits: about 15 kB per comparison, and as much again per chart of losses; a page with some
//! thirty of each has 600 kB.

use std::fmt::Write;
use std::path::Path;

use crate::comparison::{self, Comparison};
use crate::record::{NotRun, Record};
use crate::sources;
use charts::{escape, page, units};
use tool_io::replace_file;

mod bars;
mod curves;
mod errors;
mod facts;
mod findings;
mod overview;
mod pairs;
mod roofline;
#[cfg(test)]
pub(crate) mod sample;
mod tables;

/// Caption of a chart of losses.
const LOSSES: &str = "Loss of each step of the training, for contestants that passed the check. Each name is followed by \
    the last loss drawn and, if measured, the accuracy on the test data.";

/// Returns the page for one or more records, in the given order.
#[must_use]
pub fn render(records: &[Record]) -> String {
    let mut body = String::from("<h1>Bench report</h1>\n");
    if records.is_empty() {
        body.push_str("<p>There are no records to show.</p>\n");
    }
    for record in records {
        body.push_str(&article(record));
    }
    body.push_str(&tables::legend());
    let footer = format!(
        "Created {} from {} record(s).",
        charts::now(),
        records.len()
    );
    page("Bench report", &body, &footer)
}

/// Writes the page to a file, creating folders as needed.
///
/// # Errors
/// The file cannot be written.
pub fn write(records: &[Record], path: &Path) -> anyhow::Result<()> {
    Ok(replace_file(path, &render(records))?)
}

fn article(record: &Record) -> String {
    let comparisons = comparison::comparisons(record);
    let adapters = facts::adapter_names(record);
    let mut html = String::from("<article>\n");
    html += &facts::summary(record);
    html += &alarm(&comparisons);
    html += &facts::machine(record, &adapters);
    html += &overview::table(record, &adapters);
    if comparisons.is_empty() {
        html.push_str("<p>Nothing was measured in this run.</p>\n");
    }
    let mut workloads: Vec<&str> = Vec::new();
    for comparison in &comparisons {
        if !workloads.contains(&comparison.workload.as_str()) {
            workloads.push(&comparison.workload);
        }
    }
    for workload in workloads {
        let sizes: Vec<&Comparison> = comparisons
            .iter()
            .filter(|l| l.workload == workload)
            .collect();
        html += &section(workload, &sizes, record, &adapters);
    }
    html + &left_out(&record.not_run) + "</article>\n"
}

/// Lists every failed check, above the rest of the article.
fn alarm(comparisons: &[Comparison]) -> String {
    let mut items = String::new();
    let mut count = 0;
    for comparison in comparisons {
        for (line, why) in comparison
            .entries
            .iter()
            .filter_map(|line| Some((line, line.failure()?)))
        {
            count += 1;
            let what = format!(
                "{} {}: {} ({})",
                comparison.workload,
                comparison.size,
                line.name,
                line.place.heading()
            );
            let _ = writeln!(items, "<li><b>{}</b> {}</li>", escape(&what), escape(why));
        }
    }
    if count == 0 {
        return String::new();
    }
    let noun = if count == 1 { "check" } else { "checks" };
    format!(
        "<div class=\"alarm\" role=\"alert\"><h2>{count} {noun} FAILED</h2>\n<ul>\n{items}</ul></div>\n"
    )
}

fn section(workload: &str, sizes: &[&Comparison], record: &Record, adapters: &[String]) -> String {
    let source = sizes
        .first()
        .map_or("", |comparison| comparison.source.as_str());
    let source = if source.is_empty() {
        String::new()
    } else {
        format!(" <small>{}</small>", escape(sources::title(source)))
    };
    let name = workload;
    let workload = escape(workload);
    let mut html = format!("<section id=\"{workload}\">\n<h2>{workload}{source}</h2>\n");
    // With a single size, all points of a roofline have nearly the same intensity, and the bars
    // show the same information with its limit.
    let several = sizes.len() > 1;
    let roofline = several.then(|| roofline::draw(sizes, &record.machine, adapters));
    match roofline.unwrap_or(Ok(None)) {
        Ok(Some(svg)) => {
            html += &figure(
                &svg,
                "Roofline: rate of each variant against its arithmetic intensity, under the measured limits of its device.",
            );
            html += &tables::numbers(sizes, adapters);
        }
        Ok(None) => {}
        Err(error) => html += &not_drawn(&error),
    }
    html += &findings::table(record, name);
    let shown = errors::figure(&findings::rows(record, name));
    match shown.map(|shown| Ok((charts::draw(&shown)?, shown.caption))) {
        Some(Ok((svg, caption))) => html += &figure(&svg, &escape(&caption)),
        Some(Err(error)) => html += &not_drawn(&error),
        None => {}
    }
    html += &pairs::table(&findings::rows(record, name));
    for comparison in sizes {
        let _ = writeln!(html, "<h3>{}</h3>", escape(&comparison.size));
        html += &headline(comparison);
        match bars::draw(comparison, &record.machine, adapters) {
            Ok(svg) => html += &figure(&svg, ""),
            Err(error) => html += &not_drawn(&error),
        }
        match curves::draw(comparison, adapters) {
            Ok(Some(svg)) => html += &figure(&svg, LOSSES),
            Ok(None) => {}
            Err(error) => html += &not_drawn(&error),
        }
        if let Some(shown) = &comparison.figure {
            match charts::draw(shown) {
                Ok(svg) => html += &figure(&svg, &escape(&shown.caption)),
                Err(error) => html += &not_drawn(&error),
            }
        }
        html += &tables::comparison(comparison, adapters);
    }
    html + "</section>\n"
}

/// Describes the fastest variant in one sentence.
fn headline(comparison: &Comparison) -> String {
    let Some(line) = comparison.fastest() else {
        return "<p>No variant passed its check and was timed.</p>\n".to_owned();
    };
    let mut text = format!("Fastest: {} on {}", line.name, line.place.heading());
    if let Some(rate) = line.rate {
        let _ = write!(text, ", {} {}", units::digits(rate), comparison.rate_unit);
    }
    if let Some(speedup) = line.speedup_over_first {
        let _ = write!(text, ", {} the first variant", units::times(speedup));
    }
    if let Some(share) = line.share_of_peak {
        let _ = write!(text, ", {} of the measured peak", units::percent(share));
    }
    format!("<p>{}.</p>\n", escape(&text))
}

fn figure(svg: &str, caption: &str) -> String {
    let caption = if caption.is_empty() {
        String::new()
    } else {
        format!("<figcaption>{caption}</figcaption>\n")
    };
    format!("<figure>\n{caption}<div class=\"wide\">{svg}</div>\n</figure>\n")
}

fn not_drawn(error: &charts::Error) -> String {
    format!(
        "<p class=\"failed\">This plot could not be drawn: {}.</p>\n",
        escape(&error.to_string())
    )
}

fn left_out(items: &[NotRun]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let mut html = String::from("<section>\n<h2>Not run</h2>\n<ul>\n");
    for NotRun { what, why, how } in items {
        let [what, why, how] = [what, why, how].map(|text| escape(text));
        let how = if how.is_empty() {
            how
        } else {
            format!(" <span class=\"muted\">To include it: {how}.</span>")
        };
        let _ = writeln!(html, "<li><b>{what}</b>: {why}.{how}</li>");
    }
    html + "</ul>\n</section>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Check, Row};

    #[test]
    fn every_row_rival_and_reason_is_on_the_page() {
        let record = sample::record();
        let page = render(std::slice::from_ref(&record));
        for row in &record.rows {
            for text in [&row.workload, &row.size, &row.executor, &row.note] {
                assert!(page.contains(&escape(text)), "{text} is missing");
            }
            if let Check::Failed(why) | Check::Skipped(why) = &row.check {
                assert!(page.contains(&escape(why)), "{why} is missing");
            }
            for (name, timing) in &row.rivals {
                assert!(page.contains(&escape(&format!("{name} {}", timing.version))));
            }
        }
        for item in &record.not_run {
            assert!(page.contains(&escape(&item.why)) && page.contains(&escape(&item.how)));
        }
        let charts = page.matches("aria-label=\"Losses of two-layer-net").count();
        assert!(charts == 1 && page.contains("test accuracy 97.3 %"));
        let rows = page.matches("<tr class=\"line").count();
        let lines: usize = comparison::comparisons(&record)
            .iter()
            .map(|comparison| comparison.entries.len())
            .sum();
        assert_eq!(rows, lines);
    }

    #[test]
    fn nothing_of_a_record_is_taken_for_markup() {
        let record = sample::hostile();
        let page = render(&[record]);
        assert!(
            !page.contains("<script") && !page.contains("onload=\""),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn failed_checks_stand_above_everything() {
        let page = render(&[sample::record()]);
        let alarm = page.find("1 check FAILED").unwrap();
        assert!(alarm < page.find("<section>").unwrap());
        assert!(!render(&[Record::default()]).contains("FAILED"));
    }

    #[test]
    fn the_page_needs_no_network_and_is_small() {
        let record = sample::record();
        let page = render(&vec![record; 3]);
        assert!(page.len() < 600_000, "{} bytes", page.len());
        let links = page.replace("http://www.w3.org/2000/svg", "");
        for word in [
            "http:", "https:", "url(", "@import", "<link", "<script", " src=",
        ] {
            assert!(!links.contains(word), "{word} is on the page");
        }
    }

    #[test]
    fn empty_and_broken_records_still_give_a_page() {
        let nothing = Row::default();
        let odd = Row {
            median_s: Some(1e-300),
            rate: Some(1e300),
            rate_unit: "GFLOP/s".into(),
            operations: Some(f64::MAX),
            bytes: Some(f64::MIN_POSITIVE),
            ..Row::default()
        };
        let failed = Row {
            check: Check::Failed(String::new()),
            ..Row::default()
        };
        for rows in [
            vec![],
            vec![nothing.clone()],
            vec![odd.clone()],
            vec![nothing, odd, failed],
        ] {
            let mut record = Record {
                rows,
                ..Record::default()
            };
            assert!(render(std::slice::from_ref(&record)).ends_with("</html>\n"));
            record.machine.peaks.cpu_flops = Some(f64::NAN);
            record.machine.peaks.cpu_copy_bytes_per_s = Some(0.0);
            assert!(render(&[record]).ends_with("</html>\n"));
        }
        assert!(render(&[]).contains("no record"));
    }
}
