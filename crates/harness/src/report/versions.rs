//! Pages about several records: the changes between two versions, and the trend of many.

use std::fmt::Write;

use charts::axis::mark;
use charts::dots::{Dot, Mark, Scale};
use charts::{Ink, escape, units};

use super::figure;
use crate::changes::{Change, Changes};
use crate::speedup::Decision;
use crate::trend::MachineTrend;

/// Returns the body of the page of changes: the tally, and a dot for each row.
pub(super) fn changes(changes: &Changes) -> String {
    let mut html = format!(
        "<h1>Changes of speed</h1>\n<p class=\"answer\">After the change, this project is {}.</p>\n\
         <p class=\"muted\">Time before divided by time after, with its interval; above 1, the project \
         became faster. If the interval contains 1, the comparison is undecided.</p>\n",
        changes.tally()
    );
    let values = changes.rows.iter().flat_map(|row| {
        let ends = row.interval.into_iter().flatten();
        ends.chain([row.ratio, 1.0])
    });
    let Some(scale) = Scale::covering(values) else {
        return html + "<p>No row was timed in both versions.</p>\n";
    };
    let axis = scale.axis(|ratio| format!("{}×", mark(&ratio)));
    let _ = write!(
        html,
        "<table class=\"stack\">\n<thead><tr><th scope=\"col\">workload</th>\
         <th scope=\"col\" class=\"axis\">{axis}</th><th scope=\"col\" class=\"number\">before</th>\
         <th scope=\"col\" class=\"number\">after</th><th scope=\"col\" class=\"number\">ratio</th></tr></thead>\n<tbody>\n"
    );
    for row in &changes.rows {
        html += &line(row, scale);
    }
    html += "</tbody>\n</table>\n";
    for name in &changes.unmatched {
        let _ = writeln!(
            html,
            "<p class=\"muted\">Not compared: {}.</p>",
            escape(name)
        );
    }
    html
}

fn line(row: &Change, scale: Scale) -> String {
    let decision = row.decision();
    let dot = Dot {
        value: row.ratio,
        interval: row.interval,
        runs: Vec::new(),
        ink: decision.ink(),
        title: decision.to_string(),
    };
    let one = Mark {
        value: 1.0,
        ink: Ink::Text,
    };
    let [before, after] = row.seconds.map(units::seconds);
    let decision = match decision {
        Decision::Undecided => String::new(),
        decision => format!(" {decision}"),
    };
    format!(
        "<tr><th scope=\"row\">{}</th><td class=\"dots\">{}</td>\
         <td class=\"number\" data-label=\"before\">{before}</td><td class=\"number\" data-label=\"after\">{after}</td>\
         <td class=\"number ink-{}\" data-label=\"ratio\">{}{decision}</td></tr>\n",
        escape(&row.name),
        scale.cell(&[one], &[dot]),
        row.decision().ink().name(),
        units::times(row.ratio)
    )
}

/// Returns the body of the page of trends: a folded figure for each workload, by machine.
pub(super) fn trends(trends: &[MachineTrend]) -> String {
    let mut html = String::from(
        "<h1>Speed over time</h1>\n<p class=\"muted\">Speed of each size and executor relative to the first \
         record that has it; above 1, the project became faster. Only records of one machine are compared.</p>\n",
    );
    for MachineTrend {
        machine,
        n_records,
        figures,
    } in trends
    {
        let machine = escape(machine);
        let _ = writeln!(
            html,
            "<section>\n<h2>{machine} <small>{n_records} records</small></h2>"
        );
        if figures.is_empty() {
            html += "<p>No workload is in two records.</p>\n";
        }
        for (workload, shown) in figures {
            let drawn = figure(charts::draw(shown).map(Some), &escape(&shown.caption));
            let workload = escape(workload);
            let _ = writeln!(
                html,
                "<details class=\"workload\"><summary><h3>{workload}</h3></summary>\n{drawn}</details>"
            );
        }
        html += "</section>\n";
    }
    html
}

#[cfg(test)]
mod tests {
    use crate::record::Record;
    use crate::report::sample;

    #[test]
    fn every_row_of_a_comparison_has_a_dot_and_names_are_escaped() {
        let (before, mut after) = (sample::record(), sample::record());
        for row in &mut after.rows {
            row.median_s = row.median_s.map(|time| 0.5 * time);
        }
        let found = crate::changes::changes(&[before], &[after]).unwrap();
        let html = super::changes(&found);
        assert_eq!(html.matches("class=\"lane").count(), found.rows.len());
        // Twice as fast, and the time before is in the first of the two columns.
        assert_eq!(html.matches(">2.00×<").count(), found.rows.len(), "{html}");
        let row = &found.rows[0];
        let [old, new] = row.seconds.map(charts::units::seconds);
        assert!(row.seconds[0] > row.seconds[1] && html.find(&old) < html.find(&new));
        let hostile = [sample::hostile()];
        let found = crate::changes::changes(&hostile, &hostile).unwrap();
        assert!(!super::changes(&found).contains("<script"));
        assert!(!super::trends(&crate::trend::trends(&hostile)).contains("<script"));
    }

    #[test]
    fn two_records_of_a_machine_have_a_figure_per_workload() {
        let older = sample::record();
        let mut newer = older.clone();
        newer.machine.date = "2030-01-01T00:00:00Z".into();
        let html = super::trends(&crate::trend::trends(&[older, newer, Record::default()]));
        assert!(
            html.contains("<h3>matmul</h3>") && html.contains("2 records"),
            "{html}"
        );
    }
}
