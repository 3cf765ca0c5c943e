//! The answers at the top of the report: our speed-up over the best rival in each workload.
//!
//! Role: one figure and one sentence, before any table.
//! Method: a row for each workload, with a dot for each of its sizes, coloured by decision; rows
//! are sorted by their median. Each row links to the section of its workload.

use std::fmt::Write;

use charts::axis::mark;
use charts::dots::{Dot, Mark, Scale};
use charts::{Ink, escape, units};

use crate::record::Record;
use crate::speedup::{Speedup, Tally, by_workload, rivals, speedups};

/// Returns the section; without rivals, the section names the command that installs them.
pub(super) fn section(record: &Record) -> String {
    let found = speedups(record);
    let mut html =
        String::from("<section id=\"answers\">\n<h2>Speed against the best rival</h2>\n");
    let values = found.iter().flat_map(|speedup| {
        let ends = speedup.interval.into_iter().flatten();
        ends.chain([speedup.ratio, 1.0])
    });
    let Some(scale) = Scale::covering(values) else {
        return html
            + "<p>No other library was measured in this run. <code>cargo xtask rivals</code> installs \
               NumPy, SciPy, PyTorch, JAX, OpenSpiel, Nashpy and OpenVINO.</p>\n</section>\n";
    };
    let tally = Tally::count(found.iter().map(Speedup::decision));
    let once = found.iter().filter(|speedup| speedup.interval.is_none());
    let once = match once.count() {
        0 => String::new(),
        n => format!(" ({n} without an interval, because they were timed once)"),
    };
    let _ = writeln!(
        html,
        "<p class=\"answer\">This project is {tally}{once}.</p>\n\
         <p class=\"muted\">Time of the fastest rival divided by the time of our fastest executor \
         (<code>host</code> or <code>wgsl</code>), with its 95 % confidence interval: a dot for each \
         size of a workload. If the interval contains 1, the comparison is undecided.</p>"
    );
    html += "<table class=\"stack answers\">\n<thead><tr><th scope=\"col\">workload</th>\
             <th scope=\"col\" class=\"axis\">";
    html += &scale.axis(|ratio| format!("{}×", mark(&ratio)));
    html += "</th><th scope=\"col\" class=\"number\">speed-up</th>\
             <th scope=\"col\">best rival</th></tr></thead>\n<tbody>\n";
    for row in by_workload(&found) {
        html += &line(&row, scale);
    }
    html + "</tbody>\n</table>\n</section>\n"
}

fn line(row: &[&Speedup<'_>], scale: Scale) -> String {
    let workload = escape(&row[0].row.workload);
    let dots: Vec<Dot> = row.iter().map(|speedup| dot(speedup)).collect();
    let one = Mark {
        value: 1.0,
        ink: Ink::Text,
    };
    let sizes = match row.len() {
        1 => escape(&row[0].row.size),
        n => format!("{n} sizes"),
    };
    let (most, least) = (row[0].ratio, row[row.len() - 1].ratio);
    let [most, least] = [most, least].map(units::digits);
    let ratios = if most == least {
        format!("{most}×")
    } else {
        format!("{least}–{most}×")
    };
    format!(
        "<tr><th scope=\"row\"><a href=\"#{workload}\">{workload}</a> <small>{sizes}</small></th>\
         <td class=\"dots\">{}</td><td class=\"number\" data-label=\"speed-up\">{ratios}</td>\
         <td class=\"muted\" data-label=\"best rival\">{}</td></tr>\n",
        scale.cell(&[one], &dots),
        escape(&rivals(row).join(", "))
    )
}

fn dot(speedup: &Speedup<'_>) -> Dot {
    let Speedup {
        row,
        rival,
        timing,
        ratio,
        interval,
    } = speedup;
    let decision = speedup.decision();
    let ends = interval.map_or_else(String::new, |ends| format!(" ({})", units::range(ends)));
    Dot {
        value: *ratio,
        interval: *interval,
        runs: Vec::new(),
        ink: decision.ink(),
        title: format!(
            "{}: {}{ends} against {rival} {}, {decision}",
            row.size,
            units::times(*ratio),
            timing.version
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn every_comparison_with_a_rival_has_a_dot_in_the_row_of_its_workload() {
        let record = sample::record();
        let html = section(&record);
        let found = speedups(&record);
        assert_eq!(html.matches("class=\"lane").count(), found.len());
        let tally = Tally::count(found.iter().map(Speedup::decision));
        assert!(tally.faster > 0 && tally.slower > 0, "{tally}");
        assert!(html.contains(&tally.to_string()));
        let rows = html.matches("<tr><th scope=\"row\">").count();
        assert_eq!(rows, by_workload(&found).len());
    }

    #[test]
    fn without_rivals_the_section_names_the_command_that_installs_them() {
        assert!(section(&Record::default()).contains("cargo xtask rivals"));
    }
}
