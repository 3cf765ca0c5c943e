//! A record as a self-contained HTML page.
//!
//! Role: the visual form of a run. The page answers first (speed against the best rival), then has
//! contents, the machine, and a folded section for each workload, grouped by source document: a
//! roofline of workloads with several sizes, tables with dots, loss curves of trainings; and what
//! was left out. Every number comes from the record.
//! Method: the page is built from plain strings. All text of a record is escaped. Plots are inline
//! SVG whose colours are set by the style sheet, for light and dark mode. Folding needs no script.
//! Limits: about 10 kB per comparison, and as much again per figure.

use std::fmt::Write;
use std::path::Path;

use crate::changes::Changes;
use crate::comparison::{self, Comparison, Place};
use crate::record::{NotRun, Record, Row};
use crate::sources;
use crate::speedup::{Decision, Speedup, Tally, speedups};
use crate::trend::MachineTrend;
use charts::{escape, page, units};
use tool_io::replace_file;

mod answers;
mod claims;
mod curves;
mod errors;
mod facts;
mod findings;
mod labels;
pub mod markdown;
mod overview;
mod pairs;
mod roofline;
#[cfg(test)]
pub(crate) mod sample;
mod tables;
mod versions;

/// Caption of a roofline.
const ROOFLINE: &str = "Roofline: rate of each variant against its arithmetic intensity, under the measured limits of its \
    device. A line joins the sizes of a variant.";
/// Caption of a chart of losses.
const LOSSES: &str = "Running mean of the losses of a training, above the range of the single losses, for contestants that \
    passed the check. Each name is followed by the last mean and, if measured, the accuracy on the test data.";

/// Returns the page of a record.
#[must_use]
pub fn render(record: &Record) -> String {
    let comparisons = comparison::comparisons(record);
    let adapters = facts::adapter_names(record);
    let sections: Vec<Group<'_>> = groups(&comparisons);
    let mut body = String::from("<h1>Bench report</h1>\n");
    body += &facts::summary(record);
    body += &alarm(&comparisons);
    body += &answers::section(record);
    body += &contents(&sections, record);
    body += &facts::machine(record, &adapters);
    body += &overview::table(record, &adapters);
    if comparisons.is_empty() {
        body.push_str("<p>Nothing was measured in this run.</p>\n");
    }
    for group in &sections {
        body += &group.render(record, &adapters);
    }
    body += &claims::section(&record.claims);
    body += &left_out(&record.not_run_by_reason());
    body += &tables::legend();
    let footer = format!("Created {} from one record.", charts::now());
    page("Bench report", &body, &footer)
}

/// Writes the page of a record to a file, creating folders as needed.
///
/// # Errors
/// The file cannot be written.
pub fn write(record: &Record, path: &Path) -> anyhow::Result<()> {
    Ok(replace_file(path, &render(record))?)
}

/// Writes the page of changes between two versions to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write_changes(changes: &Changes, path: &Path) -> anyhow::Result<()> {
    let page = page(
        "Changes of speed",
        &versions::changes(changes),
        &charts::now(),
    );
    Ok(replace_file(path, &page)?)
}

/// Writes the page of trends to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write_trend(trends: &[MachineTrend], path: &Path) -> anyhow::Result<()> {
    let page = page("Speed over time", &versions::trends(trends), &charts::now());
    Ok(replace_file(path, &page)?)
}

/// The workloads of a source document, each with its comparisons.
struct Group<'c> {
    source: &'c str,
    workloads: Vec<(&'c str, Vec<&'c Comparison>)>,
}

/// Groups comparisons by source document and by workload, in the order of their first appearance;
/// the documents in the order of their ids.
fn groups(comparisons: &[Comparison]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for comparison in comparisons {
        let (source, name) = (comparison.source.as_str(), comparison.workload.as_str());
        let at = groups.iter().position(|group| group.source == source);
        let at = at.unwrap_or_else(|| {
            let workloads = Vec::new();
            groups.push(Group { source, workloads });
            groups.len() - 1
        });
        let workloads = &mut groups[at].workloads;
        match workloads.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sizes)) => sizes.push(comparison),
            None => workloads.push((name, vec![comparison])),
        }
    }
    groups.sort_by_key(|group| group.source);
    groups
}

impl Group<'_> {
    fn title(&self) -> &str {
        if self.source.is_empty() {
            "Other workloads"
        } else {
            sources::title(self.source)
        }
    }

    /// Returns the section of the document: a line about it, and its workloads, folded.
    fn render(&self, record: &Record, adapters: &[String]) -> String {
        let (source, title) = (escape(self.source), escape(self.title()));
        let about = sources::about(self.source).map_or_else(String::new, escape);
        let mut html = format!(
            "<section id=\"source-{source}\">\n<h2>{title}</h2>\n<p class=\"muted\">{about}</p>\n"
        );
        for (workload, sizes) in &self.workloads {
            html += &section(workload, sizes, record, adapters);
        }
        html + "</section>\n"
    }
}

/// Returns the table of contents.
fn contents(groups: &[Group<'_>], record: &Record) -> String {
    let link = |id: &str, title: &str| {
        let (id, title) = (escape(id), escape(title));
        format!("<a href=\"#{id}\">{title}</a>")
    };
    let mut items = vec![
        link("answers", "Speed against the best rival"),
        link("machine", "Machine"),
    ];
    if record.rows.iter().any(Row::is_user_executor) {
        items.push(link("overview", "All ratios"));
    }
    for group in groups {
        let workloads = group.workloads.iter().map(|(name, _)| link(name, name));
        let workloads = workloads.collect::<Vec<_>>().join(" · ");
        let source = link(&format!("source-{}", group.source), group.title());
        items.push(format!("{source}<br><small>{workloads}</small>"));
    }
    if !record.claims.is_empty() {
        items.push(link("claims", "Claims of the sources"));
    }
    if !record.not_run.is_empty() {
        items.push(link("not-run", "Not run"));
    }
    items.push(link("legend", "How to read this report"));
    let items = items.iter().map(|item| format!("<li>{item}</li>\n"));
    let items: String = items.collect();
    format!("<nav id=\"contents\">\n<h2>Contents</h2>\n<ul>\n{items}</ul>\n</nav>\n")
}

/// Lists every failed check, at the top of the page.
fn alarm(comparisons: &[Comparison]) -> String {
    let mut items = String::new();
    let mut count = 0;
    for comparison in comparisons {
        for (line, why) in comparison
            .contestants
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

/// Returns the folded section of a workload. It is open if a check failed.
fn section(workload: &str, sizes: &[&Comparison], record: &Record, adapters: &[String]) -> String {
    let mut contestants = sizes.iter().flat_map(|comparison| &comparison.contestants);
    let open = if contestants.any(|line| line.failure().is_some()) {
        " open"
    } else {
        ""
    };
    let found = speedups(record);
    let (name, summary) = (escape(workload), summary(workload, sizes, &found));
    // A link to an element inside a folded section opens the section.
    let mut html = format!(
        "<details class=\"workload\"{open}>\n<summary><h3>{name}</h3> {summary}</summary>\n\
         <div id=\"{name}\">\n"
    );
    // With a single size, all points of a roofline have nearly the same intensity, and the dots
    // show the same information with its limit.
    if sizes.len() > 1 {
        html += &figure(roofline::draw(sizes, &record.machine, adapters), ROOFLINE);
    }
    html += &findings::table(record, workload);
    if let Some(shown) = errors::figure(&findings::rows(record, workload)) {
        html += &figure(charts::draw(&shown).map(Some), &escape(&shown.caption));
    }
    html += &pairs::table(&findings::rows(record, workload));
    for comparison in sizes {
        let _ = writeln!(html, "<h4>{}</h4>", escape(&comparison.size));
        let speedup = found.iter().find(|speedup| {
            speedup.row.workload == comparison.workload && speedup.row.size == comparison.size
        });
        html += &headline(comparison, speedup);
        html += &tables::comparison(comparison, &record.machine, adapters);
        html += &figure(curves::draw(comparison, adapters), LOSSES);
        if let Some(shown) = &comparison.figure {
            html += &figure(charts::draw(shown).map(Some), &escape(&shown.caption));
        }
    }
    html + "</div>\n</details>\n"
}

/// Returns the line next to the name of a folded workload: its sizes, and the decisions.
fn summary(workload: &str, sizes: &[&Comparison], found: &[Speedup<'_>]) -> String {
    let sizes = match sizes {
        [one] => escape(&one.size),
        several => format!("{} sizes", several.len()),
    };
    let decisions = found
        .iter()
        .filter(|speedup| speedup.row.workload == workload);
    let tally = Tally::count(decisions.map(Speedup::decision));
    let parts = [
        (tally.faster, Decision::Faster),
        (tally.slower, Decision::Slower),
        (tally.undecided, Decision::Undecided),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let decisions = parts.map(|(count, decision)| {
        let (ink, count) = (
            decision.ink().name(),
            if tally.total() == 1 {
                String::new()
            } else {
                format!(" in {count}")
            },
        );
        format!("<span class=\"ink-{ink}\">{decision}{count}</span>")
    });
    let parts: Vec<String> = std::iter::once(sizes).chain(decisions).collect();
    format!("<small>{}</small>", parts.join(" · "))
}

/// Returns the paragraph above a size: our speed-up over the best rival, if there is one, and the
/// fastest variant.
///
/// All times are by the host's clock, so that variants on a GPU include submission and waiting.
fn headline(comparison: &Comparison, speedup: Option<&Speedup<'_>>) -> String {
    let Some((wall_s, ours)) = comparison.our_fastest() else {
        return "<p>No variant passed its check and was timed by the host's clock.</p>\n"
            .to_owned();
    };
    let mut text = speedup.map_or_else(String::new, |speedup| format!("{}. ", against(speedup)));
    let _ = write!(
        text,
        "Fastest variant: {} on {}, {}",
        ours.name,
        ours.place.heading(),
        units::seconds(wall_s)
    );
    // The rate and the share of the peak are by the timer of the variant, if it has its own.
    let to_wall = ours.time.map_or(1.0, |[median, ..]| median / wall_s);
    if let Some(rate) = ours.rate {
        let rate = units::rate(to_wall * rate, &comparison.rate_unit);
        let _ = write!(text, ", {rate}");
    }
    if let Some(share) = ours.share_of_peak {
        let share = units::percent(to_wall * share);
        let _ = write!(text, ", {share} of the measured peak");
    }
    format!("<p>{}.</p>\n", escape(&text))
}

/// Describes a speed-up with its interval and its decision: `host on CPU runs at 1.40× the speed of
/// numpy 2.3 (1.37–1.43): faster`.
fn against(speedup: &Speedup<'_>) -> String {
    let Speedup {
        row,
        rival,
        timing,
        ratio,
        interval,
    } = speedup;
    let place = row.adapter.clone().map_or(Place::Cpu, Place::Adapter);
    let interval = interval.map_or_else(|| "timed once".to_owned(), units::range);
    format!(
        "{} on {} runs at {} the speed of {} ({interval}): {}",
        row.executor,
        place.heading(),
        units::times(*ratio),
        format!("{rival} {}", timing.version).trim(),
        speedup.decision()
    )
}

/// Returns a figure with its caption; empty if there is nothing to draw.
fn figure(drawn: charts::Result<Option<String>>, caption: &str) -> String {
    match drawn {
        Ok(Some(svg)) => {
            format!("<figure>\n<figcaption>{caption}</figcaption>\n{svg}</figure>\n")
        }
        Ok(None) => String::new(),
        Err(error) => not_drawn(&error),
    }
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
    let mut html = String::from("<section id=\"not-run\">\n<h2>Not run</h2>\n<ul>\n");
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
    use crate::record::{Check, RivalTiming, Row, Timer};

    #[test]
    fn every_row_rival_and_reason_is_on_the_page() {
        let record = sample::record();
        let page = render(&record);
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
        // The chart is drawn for two widths.
        let charts = page.matches("aria-label=\"Losses of two-layer-net").count();
        assert!(charts == 2 && page.contains("test accuracy 97.3 %"));
        let rows = page.matches("<tr class=\"line").count();
        let lines: usize = comparison::comparisons(&record)
            .iter()
            .map(|comparison| comparison.contestants.len())
            .sum();
        assert_eq!(rows, lines);
    }

    /// Returns the paragraph above the only size of a record.
    fn headline_of(rows: Vec<Row>) -> String {
        let record = Record {
            rows,
            ..Record::default()
        };
        let comparisons = comparison::comparisons(&record);
        assert_eq!(comparisons.len(), 1);
        headline(&comparisons[0], speedups(&record).first())
    }

    #[test]
    fn the_headline_compares_the_row_and_the_clock_of_the_decision() {
        let row = |executor: &str, rate: f64| Row {
            workload: "chain".into(),
            executor: executor.into(),
            check: Check::Ok,
            median_s: Some(1.0 / rate),
            rate: Some(rate),
            rate_unit: "GFLOP/s".into(),
            ..Row::default()
        };
        let torch = |speedup: f64, interval: Option<[f64; 2]>| RivalTiming {
            version: "2.9".into(),
            check: Check::Ok,
            rate: Some(100.0),
            speedup: Some(speedup),
            low: interval.map(|[low, _]| low),
            high: interval.map(|[_, high]| high),
            ..RivalTiming::default()
        };
        let with_rival = |ours: Row, timing: RivalTiming| Row {
            rivals: [("torch".to_owned(), timing)].into(),
            ..ours
        };
        // By the device's timer, the work takes a quarter of the rival's time; with submission and
        // waiting, it takes twice the rival's time.
        let wgsl = Row {
            adapter: Some("GPU".into()),
            timer: Timer::GpuPass,
            ..row("wgsl", 400.0)
        };
        let wgsl = with_rival(wgsl, torch(0.5, Some([0.4, 0.6])));
        // No rival is measured in turns with this variant, which is the fastest by the timer of its
        // device, and the second by the host's clock.
        let tiles = Row {
            adapter: Some("GPU".into()),
            timer: Timer::GpuPass,
            wall_s: Some(1.0 / 200.0),
            ..row("wgsl tiles", 800.0)
        };
        let fused = Row {
            share_of_peak: Some(0.5),
            wall_s: Some(1.0 / 250.0),
            ..tiles.clone()
        };
        let fused = Row {
            executor: "wgsl fused".into(),
            median_s: Some(1.0 / 500.0),
            rate: Some(500.0),
            ..fused
        };
        let html = headline_of(vec![row("loops", 1.0), wgsl, tiles.clone(), fused]);
        assert_eq!(
            html,
            "<p>wgsl on GPU runs at 0.500× the speed of torch 2.9 (0.400–0.600): slower. \
             Fastest variant: wgsl fused on GPU, 4.00 ms, 250 GFLOP/s, 25.0 % of the measured \
             peak.</p>\n"
        );
        for (timing, expected) in [
            (
                torch(1.5, Some([1.2, 1.8])),
                "1.50× the speed of torch 2.9 (1.20–1.80): faster.",
            ),
            (torch(1.5, Some([0.9, 1.8])), "(0.900–1.80): undecided."),
            (torch(1.5, None), "(timed once): undecided."),
        ] {
            let html = headline_of(vec![with_rival(row("host", 50.0), timing)]);
            assert!(html.contains(expected), "{expected}\n{html}");
        }
        let html = headline_of(vec![tiles]);
        assert!(html.starts_with("<p>Fastest variant"), "{html}");
    }

    #[test]
    fn nothing_of_a_record_is_taken_for_markup() {
        let record = sample::hostile();
        let page = render(&record);
        assert!(
            !page.contains("<script") && !page.contains("onload=\""),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn failed_checks_stand_above_everything() {
        let page = render(&sample::record());
        let alarm = page.find("1 check FAILED").unwrap();
        assert!(alarm < page.find("<section").unwrap());
        assert!(!render(&Record::default()).contains("FAILED"));
    }

    #[test]
    fn the_page_needs_no_network_and_is_small() {
        let record = sample::record();
        let page = render(&record);
        assert!(page.len() < 300_000, "{} bytes", page.len());
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
            assert!(render(&record).ends_with("</html>\n"));
            record.machine.peaks.cpu_flops = Some(f64::NAN);
            record.machine.peaks.cpu_copy_bytes_per_s = Some(0.0);
            assert!(render(&record).ends_with("</html>\n"));
        }
    }
}
