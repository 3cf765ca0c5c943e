//! Paired tests between trained nets that differ in their method, as a table.
//!
//! Role: shows whether a difference of two accuracies can be chance.
//! Method: two series of the chart of test errors are compared where both have a point at the same
//! position: the nets of the same seed, executor and adapter form a pair. A test sample counts for
//! the series whose nets classify it wrongly more often, in all pairs together. The exact sign test
//! over the samples returns the probability of a count that is at least as high, if both series
//! were equally good.
//! Limits: only nets with a seed and a position are paired. The test treats the trained nets as
//! fixed, so the choice of the seeds is not covered. p is one-sided, and not corrected for the
//! number of tests.

use std::collections::BTreeMap;
use std::fmt::Write;

use charts::{escape, units};

use crate::findings::ChartPoint;
use crate::record::Row;
use crate::sign_test;

/// Two series at the same position of a panel.
struct Pairs<'r> {
    places: [&'r ChartPoint; 2],
    n_pairs: usize,
    /// The number of wrong classifications of each series.
    n_wrong: [usize; 2],
    /// For each sample, the number of wrong classifications by the first series less those by the
    /// second.
    excess: BTreeMap<u32, i64>,
}

impl<'r> Pairs<'r> {
    fn new(places: [&'r ChartPoint; 2]) -> Self {
        Self {
            places,
            n_pairs: 0,
            n_wrong: [0; 2],
            excess: BTreeMap::new(),
        }
    }

    fn add(&mut self, rows: [&Row; 2]) {
        self.n_pairs += 1;
        for ((row, n_wrong), sign) in rows.into_iter().zip(&mut self.n_wrong).zip([1, -1]) {
            *n_wrong += row.findings.wrong.len();
            for &sample in &row.findings.wrong {
                *self.excess.entry(sample).or_default() += sign;
            }
        }
    }

    /// Returns the number of samples that each series classifies wrongly more often than the other
    /// series.
    fn n_worse(&self) -> [usize; 2] {
        [1, -1].map(|sign| {
            let counts = self.excess.values();
            counts.filter(|&&count| count * sign > 0).count()
        })
    }
}

/// Returns the table of all pairs of series at the same position; an empty text if there are no
/// pairs.
pub(super) fn table(rows: &[&Row]) -> String {
    let all = pairs(rows);
    if all.is_empty() {
        return String::new();
    }
    let label = all.first().map_or("", |pairs| &pairs.places[0].x_label);
    let mut html = format!(
        "<p>Exact paired tests over the test samples. A series is worse at a sample if its nets classify the sample wrongly \
         more often. p is the one-sided probability of at least so many samples if both series were equally good: a small p means \
         that the named series is worse.</p>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">first</th>\
         <th scope=\"col\">second</th><th scope=\"col\">data</th><th scope=\"col\" class=\"number\">{}</th>",
        escape(label)
    );
    for title in [
        "pairs of nets",
        "wrong, first",
        "wrong, second",
        "samples, first worse",
        "samples, second worse",
        "p, first worse",
        "p, second worse",
    ] {
        let _ = write!(html, "<th scope=\"col\" class=\"number\">{title}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for pairs in all {
        let [first, second] = pairs.places;
        let names = [&first.series, &second.series, &first.panel].map(|text| escape(text));
        let x = first.x.map_or_else(String::new, |x| x.to_string());
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th><th scope=\"row\">{}</th><td>{}</td><td class=\"number\">{x}</td>",
            names[0], names[1], names[2]
        );
        let [n_first, n_second] = pairs.n_worse();
        let counts = [
            pairs.n_pairs,
            pairs.n_wrong[0],
            pairs.n_wrong[1],
            n_first,
            n_second,
        ];
        let p = [
            sign_test::more_frequent(n_first, n_second),
            sign_test::more_frequent(n_second, n_first),
        ];
        let cells = counts.iter().map(usize::to_string);
        for cell in cells.chain(p.map(units::digits)) {
            let _ = write!(html, "<td class=\"number\">{cell}</td>");
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table></div>\n"
}

/// Returns all pairs of series at the same position.
fn pairs<'r>(rows: &[&'r Row]) -> Vec<Pairs<'r>> {
    let mut all: Vec<Pairs<'r>> = Vec::new();
    for (at, &first) in rows.iter().enumerate() {
        for &second in &rows[at + 1..] {
            let Some(places) = pair(first, second) else {
                continue;
            };
            // The rows may be in any order.
            let is_of = |own: &Pairs<'_>, places: [&ChartPoint; 2]| {
                own.places.iter().zip(places).all(|(own, place)| {
                    (&own.series, &own.panel, own.x) == (&place.series, &place.panel, place.x)
                })
            };
            let [left, right] = places;
            let known = all.iter_mut().find_map(|own| {
                match [is_of(own, places), is_of(own, [right, left])] {
                    [true, _] => Some((own, [first, second])),
                    [_, true] => Some((own, [second, first])),
                    _ => None,
                }
            });
            if let Some((own, rows)) = known {
                own.add(rows);
            } else {
                let mut own = Pairs::new(places);
                own.add([first, second]);
                all.push(own);
            }
        }
    }
    all
}

/// Returns the places of two rows if they are a pair.
fn pair<'r>(first: &'r Row, second: &'r Row) -> Option<[&'r ChartPoint; 2]> {
    let [left, right] = [first, second].map(|row| row.findings.chart_point.as_ref());
    let (left, right) = (left?, right?);
    let is_same_run = first.findings.seed.is_some()
        && first.findings.seed == second.findings.seed
        && (&first.executor, &first.adapter) == (&second.executor, &second.adapter);
    let is_same_place = left.x.is_some() && left.x == right.x && left.panel == right.panel;
    (is_same_run && is_same_place && left.series != right.series).then_some([left, right])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Findings;

    fn row(series: &str, x: f64, seed: Option<u64>, wrong: &[u32]) -> Row {
        let chart_point = ChartPoint {
            panel: "digits".to_owned(),
            series: series.to_owned(),
            x: Some(x),
            ..ChartPoint::default()
        };
        Row {
            executor: "host".to_owned(),
            findings: Findings {
                chart_point: Some(chart_point),
                wrong: wrong.to_vec(),
                seed,
                ..Findings::default()
            },
            ..Row::default()
        }
    }

    #[test]
    fn nets_of_the_same_seed_and_position_are_paired() {
        let rows = [
            row("a", 1.0, Some(1), &[3, 5, 7]),
            row("b", 1.0, Some(1), &[3, 4]),
            // In the other order.
            row("b", 1.0, Some(2), &[4, 7]),
            row("a", 1.0, Some(2), &[5]),
            // Without a partner: another position, another seed, no seed, another executor.
            row("b", 2.0, Some(1), &[1]),
            row("b", 1.0, Some(3), &[1]),
            row("b", 1.0, None, &[1]),
            row("a", 1.0, None, &[1]),
            Row {
                executor: "wgsl".to_owned(),
                ..row("b", 1.0, Some(1), &[1])
            },
        ];
        let rows: Vec<&Row> = rows.iter().collect();
        let all = pairs(&rows);
        let [own] = &all[..] else {
            panic!("{} pairs", all.len())
        };
        assert_eq!(own.places.map(|place| place.series.as_str()), ["a", "b"]);
        assert_eq!((own.n_pairs, own.n_wrong), (2, [4, 4]));
        // Sample 5 is wrong twice with a, 4 twice with b; 3 and 7 once with each.
        assert_eq!(own.n_worse(), [1, 1]);
        let html = table(&rows);
        assert!(html.contains("<td class=\"number\">0.750</td>"), "{html}");
        assert!(table(&rows[..1]).is_empty());
    }
}
