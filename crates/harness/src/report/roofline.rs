//! Roofline of a workload: all variants under the measured limits of their devices.
//!
//! Role: shows whether a variant is limited by arithmetic or by memory, and its distance to the
//! limit.
//! Method: GFLOP/s over operations per byte, both logarithmic. Each device has a roof from its
//! measured peaks: a slope, the copy bandwidth, and a flat part, the arithmetic peak. Points have
//! the number of their variant if there are several variants; numbers that would overlap are moved
//! apart and connected with their points by a line. Results that failed the check are not drawn.
//! Source: Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model
//! for multicore architectures".

use charts::Result;
use charts::plotters::prelude::*;
use charts::plotters::style::text_anchor::{HPos, VPos};

use crate::comparison::{Comparison, Place, peaks};
use crate::record::{AdapterPeaks, Check, Machine};
use charts::axis::{log_axis, mark};
use charts::{Canvas, Ink, drawing, picture};

const SIZE: (u32, u32) = (960, 520);
const SMALL: u32 = 11;
const RADIUS: i32 = 5;
/// Vertical distance between two numbers, in pixels.
const LINE_STEP: i32 = 13;
/// Horizontal distance from a point to its number, in pixels.
const LABEL_SHIFT: i32 = 13;
/// Horizontal distance in pixels below which points share one column of numbers.
const COLUMN_WIDTH: i32 = 34;
/// Width of a character of a size label, in pixels.
const LETTER: i32 = 7;
/// Height of a lane of size labels, in pixels.
const LANE: i32 = 14;

/// A variant at one size.
struct Point<'a> {
    intensity: f64,
    rate: f64,
    number: usize,
    place: &'a Place,
    ink: Ink,
}

/// Draws the comparisons of one workload as SVG; returns `None` if no line has both a rate in
/// GFLOP/s and an arithmetic intensity.
pub(super) fn draw(
    comparisons: &[&Comparison],
    machine: &Machine,
    adapters: &[String],
) -> Result<Option<String>> {
    let points = points(comparisons, adapters);
    if points.is_empty() {
        return Ok(None);
    }
    let here = |place: &Place| points.iter().any(|point| point.place == place);
    let roofs: Vec<_> = peaks(machine)
        .into_iter()
        .filter(|(place, _)| here(place))
        .collect();
    let ridges = roofs
        .iter()
        .filter_map(|(_, peaks)| Some(peaks.flops? / peaks.copy_bytes_per_s?));
    let flats = roofs
        .iter()
        .filter_map(|(_, peaks)| peaks.flops)
        .map(|flops| flops / 1e9);
    // The factor of 1.5 leaves space on the right for the numbers of the last points.
    let across = log_axis(
        points
            .iter()
            .flat_map(|p| [p.intensity, 1.5 * p.intensity])
            .chain(ridges),
    );
    let up = log_axis(points.iter().map(|point| point.rate).chain(flats));
    let (low, high) = (ends(across.bold_points()), ends(up.bold_points()));
    let workload = comparisons
        .first()
        .map_or("", |comparison| &comparison.workload);
    picture(SIZE, &format!("Roofline of {workload}"), |canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .margin_top(3 * LANE)
            .margin_right(16)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(across, up)
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .x_label_formatter(&mark)
            .y_label_formatter(&mark)
            .x_desc("operations per byte of input and output")
            .y_desc("GFLOP/s")
            .axis_style(Ink::Grid.line(1))
            .bold_line_style(Ink::Grid.line(1))
            .light_line_style(TRANSPARENT)
            .label_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Center))
            .axis_desc_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Center))
            .draw()
            .map_err(drawing)?;
        for (place, peaks) in &roofs {
            // Roofs are drawn first, below all points.
            let corners = roof(peaks, low, high);
            let line = PathElement::new(corners, place.ink(adapters).line(2));
            chart.draw_series([line]).map_err(drawing)?;
        }
        let pixel = |intensity: f64, rate: f64| chart.backend_coord(&(intensity, rate));
        let (_, top) = pixel(low.0, high.1);
        sizes(
            canvas,
            comparisons,
            |intensity| pixel(intensity, high.0).0,
            top,
        )?;
        let places: Vec<_> = points
            .iter()
            .map(|point| pixel(point.intensity, point.rate))
            .collect();
        // Numbers are needless if all points have the same number.
        let is_numbered = points
            .windows(2)
            .any(|pair| pair[0].number != pair[1].number);
        let labels = spread_labels(&places);
        // Rivals first, so that the points of our variants are drawn inside their rings.
        for rivals in [true, false] {
            for ((point, at), label) in points.iter().zip(&places).zip(&labels) {
                if (*point.place == Place::Rival) == rivals {
                    dot(canvas, point, *at, is_numbered.then_some(*label))?;
                }
            }
        }
        Ok(())
    })
    .map(Some)
}

fn points<'a>(comparisons: &[&'a Comparison], adapters: &[String]) -> Vec<Point<'a>> {
    let lines = comparisons
        .iter()
        .filter(|comparison| comparison.rate_unit == "GFLOP/s");
    let lines = lines.flat_map(|comparison| &comparison.entries);
    lines
        .filter(|line| !matches!(line.check, Check::Failed(_)))
        .filter_map(|line| {
            Some(Point {
                intensity: line.intensity?,
                rate: line.rate?,
                number: line.number,
                place: &line.place,
                ink: line.place.ink(adapters),
            })
        })
        .collect()
}

fn ends(marks: &[f64]) -> (f64, f64) {
    (
        marks.first().copied().unwrap_or(1.0),
        marks.last().copied().unwrap_or(1.0),
    )
}

/// Returns the corners of a roof inside the plot: start of the slope, ridge, end of the flat part.
fn roof(peaks: &AdapterPeaks, across: (f64, f64), up: (f64, f64)) -> Vec<(f64, f64)> {
    let flat = peaks.flops.map_or(f64::INFINITY, |flops| flops / 1e9);
    let Some(slope) = peaks.copy_bytes_per_s.map(|bytes| bytes / 1e9) else {
        return vec![(across.0, flat), (across.1, flat)];
    };
    let height = |intensity: f64| (slope * intensity).min(flat);
    // The slope enters the plot at the left or the lower edge. It ends at the ridge, where slope
    // and flat part meet.
    let enters = across.0.max(up.0 / slope);
    let bends = (flat.min(up.1) / slope).clamp(enters.min(across.1), across.1);
    [enters, bends, across.1]
        .map(|at| (at, height(at).min(up.1)))
        .to_vec()
}

/// Writes each size above the points of those variants that do the whole work. Sizes whose points
/// share a column share a label, and up to three lanes keep labels from overlapping.
fn sizes(
    canvas: &Canvas<'_>,
    comparisons: &[&Comparison],
    column: impl Fn(f64) -> i32,
    top: i32,
) -> Result<()> {
    let mut lanes = [i32::MIN; 3];
    let mut headed: Vec<(i32, &str)> = comparisons
        .iter()
        .filter_map(|comparison| {
            let drawn = comparison
                .entries
                .iter()
                .filter_map(|line| line.rate.and(line.intensity));
            // A variant that does a part of the rows reads all of the shared inputs for it, so its
            // intensity is lower; the whole work has the highest one.
            let intensity = drawn.max_by(f64::total_cmp)?;
            Some((column(intensity), comparison.size.as_str()))
        })
        .collect();
    headed.sort_unstable();
    for (x, label) in shared_labels(&headed) {
        let half = i32::try_from(label.chars().count()).unwrap_or(0) * LETTER / 2;
        // Long labels of points at the right edge stay within the picture.
        let middle = x.min(i32::try_from(SIZE.0).unwrap_or(i32::MAX) - half);
        let lane = lanes
            .iter()
            .position(|end| *end < middle - half - LETTER)
            .unwrap_or(0);
        lanes[lane] = middle + half;
        let y = top - 4 - LANE * i32::try_from(lane).unwrap_or(0);
        let style = Ink::Muted.text(SMALL, HPos::Center, VPos::Bottom);
        canvas
            .draw(&Text::new(label, (middle, y), style))
            .map_err(drawing)?;
        canvas
            .draw(&PathElement::new([(x, y), (x, top)], Ink::Grid.line(1)))
            .map_err(drawing)?;
    }
    Ok(())
}

/// Returns a label for each column of sizes, which are ordered by column.
fn shared_labels(sizes: &[(i32, &str)]) -> Vec<(i32, String)> {
    let columns = sizes.chunk_by(|one, next| next.0 - one.0 <= RADIUS);
    let labels = columns.filter_map(|column| match column {
        [] => None,
        [(x, size)] => Some((*x, (*size).to_owned())),
        [(x, size), others @ ..] => Some((*x, format!("{size} and {} more", others.len()))),
    });
    labels.collect()
}

/// Draws a point and, at `label`, its number. A rival's point is a ring that is wide enough to be
/// visible around one of our points at the same position.
fn dot(
    canvas: &Canvas<'_>,
    point: &Point<'_>,
    at: (i32, i32),
    label: Option<(i32, i32)>,
) -> Result<()> {
    let disc = |radius: i32, ink: Ink| Circle::new(at, radius, ink.marker().filled());
    let (outer, inner) = match point.place {
        Place::Rival => (disc(RADIUS + 2, point.ink), Some(disc(RADIUS, Ink::Paper))),
        Place::Cpu | Place::Adapter(_) => (disc(RADIUS, point.ink), None),
    };
    for disc in std::iter::once(outer).chain(inner) {
        canvas.draw(&disc).map_err(drawing)?;
    }
    let Some(label) = label else {
        return Ok(());
    };
    if (label.1 - at.1).abs() > 2 {
        let tie = [(at.0 + RADIUS, at.1), (label.0 - 2, label.1)];
        canvas
            .draw(&PathElement::new(tie, Ink::Muted.line(1)))
            .map_err(drawing)?;
    }
    let style = Ink::Text.text(SMALL, HPos::Left, VPos::Center);
    canvas
        .draw(&Text::new(point.number.to_string(), label, style))
        .map_err(drawing)
}

/// Returns the positions of the points' numbers: to the right of each column of points, in the
/// points' vertical order, at least [`LINE_STEP`] apart and as close to the points as possible.
fn spread_labels(points: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let mut labels = vec![(0, 0); points.len()];
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&idx| points[idx].0);
    // Points whose neighbours are close in x form a column; its labels share one x.
    let columns = order.chunk_by(|&one, &next| points[next].0 - points[one].0 < COLUMN_WIDTH);
    for column in columns {
        let mut column = column.to_vec();
        let x = column.iter().map(|&idx| points[idx].0).max().unwrap_or(0) + LABEL_SHIFT;
        column.sort_by_key(|&idx| points[idx].1);
        let wanted: Vec<i32> = column.iter().map(|&idx| points[idx].1).collect();
        for (&idx, y) in column.iter().zip(spread(&wanted)) {
            labels[idx] = (x, y);
        }
    }
    labels
}

/// Moves ascending heights apart until neighbours are at least [`LINE_STEP`] apart. Each run of
/// touching labels is centred on the mean of its wanted heights.
pub(super) fn spread(wanted: &[i32]) -> Vec<i32> {
    let step = f64::from(LINE_STEP);
    // A run is its number of members and the height of its first member.
    let mut runs: Vec<(usize, f64)> = Vec::new();
    for &height in wanted {
        let mut run = (1, f64::from(height));
        while let Some(&(above, first)) = runs.last()
            && first + above as f64 * step > run.1
        {
            // The first member of the joined run is at the mean of the positions that all members
            // want for it.
            let (n, m) = (above as f64, run.0 as f64);
            run = (
                above + run.0,
                (first * n + (run.1 - n * step) * m) / (n + m),
            );
            runs.pop();
        }
        runs.push(run);
    }
    let heights = runs
        .iter()
        .flat_map(|&(members, first)| (0..members).map(move |member| first + member as f64 * step));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "pixels of a plot are small numbers"
    )]
    heights.map(|height| height.round() as i32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_column_never_touch_and_keep_the_order_of_their_points() {
        let points = [(10, 100), (12, 101), (11, 99), (10, 300), (200, 100)];
        let labels = spread_labels(&points);
        assert_eq!(labels[4], (200 + LABEL_SHIFT, 100));
        assert_eq!(labels[3], (12 + LABEL_SHIFT, 300));
        assert_eq!([2, 0, 1].map(|idx: usize| labels[idx].1), [87, 100, 113]);
    }

    #[test]
    fn sizes_in_one_column_share_a_label() {
        let labels = shared_labels(&[(10, "a"), (12, "b"), (15, "c"), (40, "d")]);
        let expected = [(10, "a and 2 more"), (40, "d")];
        assert_eq!(labels, expected.map(|(x, label)| (x, label.to_owned())));
        assert!(shared_labels(&[]).is_empty());
    }

    #[test]
    fn runs_of_numbers_that_meet_are_joined() {
        assert_eq!(spread(&[]), [0; 0]);
        assert_eq!(spread(&[50, 50]), [44, 57]);
        let heights = spread(&[0, 0, 0, 20, 21, 22, 90]);
        assert!(
            heights
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= LINE_STEP),
            "{heights:?}"
        );
        assert_eq!(heights[6], 90);
    }

    #[test]
    fn a_roof_bends_where_slope_and_flat_meet() {
        let peaks = AdapterPeaks {
            flops: Some(100e9),
            copy_bytes_per_s: Some(10e9),
            ..AdapterPeaks::default()
        };
        let corners = roof(&peaks, (1.0, 1000.0), (1.0, 1000.0));
        assert_eq!(corners, [(1.0, 10.0), (10.0, 100.0), (1000.0, 100.0)]);
    }

    #[test]
    fn half_known_roofs_are_a_line() {
        let flat = AdapterPeaks {
            flops: Some(100e9),
            ..AdapterPeaks::default()
        };
        assert_eq!(
            roof(&flat, (1.0, 10.0), (1.0, 1000.0)),
            [(1.0, 100.0), (10.0, 100.0)]
        );
        let slope = AdapterPeaks {
            copy_bytes_per_s: Some(10e9),
            ..AdapterPeaks::default()
        };
        let corners = roof(&slope, (0.01, 1000.0), (1.0, 1000.0));
        assert_eq!(corners, [(0.1, 1.0), (100.0, 1000.0), (1000.0, 1000.0)]);
    }
}
