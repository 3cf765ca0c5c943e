//! The tables of the report, and the legend.

use std::fmt::Write;

use crate::columns;
use crate::comparison::{Comparison, Entry, Place};
use crate::record::Check;
use crate::sources;
use charts::escape;
use charts::units;

/// Returns the table of a comparison, with the order and the numbers of the plots.
pub(super) fn comparison(comparison: &Comparison, adapters: &[String]) -> String {
    let columns = columns::columns(comparison);
    let mut head = String::from(
        "<th scope=\"col\" class=\"number\">#</th><th scope=\"col\">executor</th><th scope=\"col\">check</th>",
    );
    for column in &columns {
        let (title, meaning) = (escape(&column.title), column.meaning);
        let _ = write!(
            head,
            "<th scope=\"col\" class=\"number\" title=\"{meaning}\">{title}</th>"
        );
    }
    head.push_str("<th scope=\"col\">remark</th>");
    let mut body = String::new();
    let mut above = None;
    for line in &comparison.entries {
        if above != Some(&line.place) {
            let (span, place) = (columns.len() + 4, escape(line.place.heading()));
            let _ = writeln!(
                body,
                "<tr class=\"place\"><th colspan=\"{span}\">{place}</th></tr>"
            );
            above = Some(&line.place);
        }
        body += &row(line, &columns, adapters);
    }
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n\
         </table></div>\n"
    )
}

fn row(line: &Entry, columns: &[columns::Column], adapters: &[String]) -> String {
    let (class, check) = match line.check {
        Check::Ok => ("", "ok"),
        Check::Skipped(_) => (" unchecked", "none"),
        Check::Failed(_) => (" failed", "FAILED"),
    };
    let mut html = format!(
        "<tr class=\"line{class}\"><td class=\"number muted\">{}</td><th scope=\"row\">{}</th><td>{check}</td>",
        line.number,
        named(line, adapters)
    );
    for column in columns {
        let cell = (column.cell)(line).unwrap_or_else(|| units::ABSENT.to_owned());
        let _ = write!(html, "<td class=\"number\">{}</td>", escape(&cell));
    }
    let _ = writeln!(
        html,
        "<td class=\"remark\">{}</td></tr>",
        escape(&line.remark())
    );
    html
}

fn named(line: &Entry, adapters: &[String]) -> String {
    let (name, ink) = (escape(&line.name), line.place.ink(adapters).name());
    format!("<i class=\"swatch swatch-{ink}\"></i>{name}")
}

/// Returns the key of the roofline: the variant of each number.
pub(super) fn numbers(sizes: &[&Comparison], adapters: &[String]) -> String {
    let mut lines: Vec<&Entry> = sizes
        .iter()
        .flat_map(|comparison| &comparison.entries)
        .collect();
    lines.sort_by_key(|line| line.number);
    lines.dedup_by_key(|line| line.number);
    let mut html = String::from("<ul class=\"key\">\n");
    for line in lines {
        let on = match &line.place {
            Place::Adapter(adapter) => format!(" <small>{}</small>", escape(adapter)),
            Place::Cpu | Place::Rival => String::new(),
        };
        let (number, name) = (line.number, named(line, adapters));
        let _ = writeln!(html, "<li><b>{number}</b> {name}{on}</li>");
    }
    html + "</ul>\n"
}

/// Returns the explanations of columns and terms, and the list of source documents.
pub(super) fn legend() -> String {
    let mut html = String::from("<section>\n<h2>How to read this report</h2>\n<dl>\n");
    for column in columns::all("") {
        let _ = writeln!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            escape(&column.title),
            column.meaning
        );
    }
    html.push_str(
        "<dt>variant</dt><dd>One implementation of a workload in this project: plain loops, the host \
         executor, a GPU. Variants are numbered from the simplest on.</dd>\n\
         <dt>rivals</dt><dd>Other libraries on the same inputs, run in turns with ours. A \
         comparison is the median ratio of the times, with its 95 % confidence interval. Both \
         times are by the host's clock, including submission and waiting.</dd>\n\
         <dt>roofline</dt><dd>The sloped part of a roof is the measured copy bandwidth of a device, \
         the flat part its measured arithmetic peak. A point below the slope is limited by memory, \
         one below the flat part by arithmetic. Filled points are variants, hollow ones are \
         rivals.</dd>\n</dl>\n</section>\n",
    );
    html += "<section>\n<h2>Sources of the workloads</h2>\n<dl>\n";
    for source in sources::ALL {
        let (title, about) = (escape(source.title), escape(source.about));
        let _ = writeln!(html, "<dt>{title}</dt><dd>{about}</dd>");
    }
    html + "</dl>\n</section>\n"
}
