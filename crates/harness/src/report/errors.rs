//! Test errors of trained nets over all sizes of a workload, as a figure.
//!
//! Role: shows what a configuration, such as a number of bits, costs in accuracy.
//! Method: a panel for each data set. Rows with the same series and position differ in their seeds
//! or adapters and are one point, the mean. Rows without a position are references.

use charts::{Figure, Panel, Series};

use crate::findings::ChartPoint;
use crate::record::Row;

/// Name of the series of published accuracies.
const PUBLISHED: &str = "published";
const CAPTION: &str = "Test error of the trained nets, as the mean of the runs that differ in their seeds or adapters. \
    Dashed: nets that the others are compared with. The remarks of the rows name the source of the published accuracies.";

/// A test error in percent at its place.
type Point<'r> = (&'r ChartPoint, f64);

/// Returns the figure of rows; `None` without any place in a chart.
pub(super) fn figure(rows: &[&Row]) -> Option<Figure> {
    let points = rows.iter().filter_map(|row| {
        let place = row.findings.chart_point.as_ref()?;
        Some((place, percent(row.accuracy?.into())))
    });
    let points: Vec<Point<'_>> = points.collect();
    let mut panels: Vec<Panel> = Vec::new();
    let names = distinct(points.iter().map(|(place, _)| place.panel.as_str()));
    for name in names {
        let own = points.iter().filter(|(place, _)| place.panel == name);
        panels.push(panel(name, &own.copied().collect::<Vec<_>>()));
    }
    (!panels.is_empty()).then(|| Figure {
        caption: CAPTION.to_owned(),
        panels,
        ..Figure::default()
    })
}

fn panel(name: &str, points: &[Point<'_>]) -> Panel {
    let label = points.first().map_or("", |(place, _)| &place.x_label);
    let xs = || points.iter().filter_map(|(place, _)| place.x);
    let (first, last) = xs().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    // References cross the range of the points, or a range of any width if there are not two.
    let ends = match last - first {
        width if width > 0.0 => [first, last],
        _ if first.is_finite() => [first - 1.0, first + 1.0],
        _ => [0.0, 1.0],
    };
    let mut lines = Vec::new();
    for series in distinct(points.iter().map(|(place, _)| place.series.as_str())) {
        let own = points.iter().copied();
        let own = own.filter(|(place, _)| place.series == series);
        let (references, placed): (Vec<Point<'_>>, Vec<_>) =
            own.partition(|(place, _)| place.x.is_none());
        let errors = references.iter().map(|(_, error)| *error);
        if let Some(mean) = mean(errors) {
            lines.push(Series::through(series, ends.map(|x| (x, mean))).as_reference());
        }
        let placed = placed.into_iter();
        let placed = placed.filter_map(|(place, error)| Some((place.x?, error)));
        lines.extend(means(series, placed.collect()));
    }
    let published = points.iter().filter_map(|(place, _)| {
        let accuracy = place.published?;
        Some((place.x?, percent(accuracy)))
    });
    lines.extend(means(PUBLISHED, published.collect()));
    Panel {
        x: format!("{label} ({name})"),
        y: "test error, %".to_owned(),
        lines,
        ..Panel::default()
    }
}

/// Returns the line through the mean at each position; `None` without points.
fn means(name: &str, mut points: Vec<(f64, f64)>) -> Option<Series> {
    points.sort_by(|left, right| left.0.total_cmp(&right.0));
    let places = points.chunk_by(|left, right| left.0 == right.0);
    let line = places.filter_map(|own| Some((own[0].0, mean(own.iter().map(|point| point.1))?)));
    let line: Vec<_> = line.collect();
    (!line.is_empty()).then(|| Series::through(name, line))
}

fn mean(numbers: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let n = numbers.clone().count();
    (n > 0).then(|| numbers.sum::<f64>() / n as f64)
}

fn percent(accuracy: f64) -> f64 {
    100.0 * (1.0 - accuracy)
}

/// Returns each name once, in the order of the first occurrences.
fn distinct<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Findings;

    fn row(series: &str, x: Option<f64>, accuracy: f32, published: Option<f64>) -> Row {
        let chart_point = ChartPoint {
            panel: "digits".to_owned(),
            series: series.to_owned(),
            x,
            x_label: "bits".to_owned(),
            published,
        };
        Row {
            accuracy: Some(accuracy),
            findings: Findings {
                chart_point: Some(chart_point),
                ..Findings::default()
            },
            ..Row::default()
        }
    }

    #[test]
    fn seeds_are_averaged_and_references_cross_the_panel() {
        let rows = [
            row("levels", Some(2.0), 0.75, Some(0.875)),
            row("levels", Some(1.0), 0.5, None),
            row("levels", Some(2.0), 0.25, Some(0.875)),
            row("float", None, 0.875, None),
            Row::default(),
        ];
        let rows: Vec<&Row> = rows.iter().collect();
        let figure = figure(&rows).unwrap();
        let [panel] = &figure.panels[..] else {
            panic!("{figure:?}")
        };
        let lines = panel.lines.iter();
        let lines: Vec<_> = lines
            .map(|line| (line.name.as_str(), line.is_reference, &line.points[..]))
            .collect();
        assert_eq!(
            lines,
            [
                ("levels", false, &[[1.0, 50.0], [2.0, 50.0]][..]),
                ("float", true, &[[1.0, 12.5], [2.0, 12.5]][..]),
                ("published", false, &[[2.0, 12.5]][..]),
            ]
        );
        assert!(super::figure(&[&Row::default()]).is_none());
        // A single place, and none.
        for (rows, ends) in [(&rows[2..4], [1.0, 3.0]), (&rows[3..4], [0.0, 1.0])] {
            let figure = super::figure(rows).unwrap();
            let reference = figure.panels[0].lines.iter().find(|line| line.is_reference);
            let points = &reference.unwrap().points;
            assert_eq!([points[0][0], points[1][0]], ends);
        }
    }
}
