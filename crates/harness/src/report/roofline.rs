//! Roofline of a workload: all variants under the measured limits of their devices.
//!
//! Role: shows whether a variant is limited by arithmetic or by memory, and its distance to the
//! limit.
//! Method: operations per second over operations per byte, both logarithmic. Each device has a roof
//! from its measured peaks: a slope, the copy bandwidth, and a flat part, the arithmetic peak. The
//! points of a variant at several sizes are joined, and the last one is named. Results that failed
//! the check are not drawn.
//! Source: Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model
//! for multicore architectures".

use charts::plotters::prelude::*;
use charts::plotters::style::text_anchor::{HPos, VPos};
use charts::{Result, Width};

use super::labels::{self, Label};
use crate::comparison::{Comparison, Place, peaks};
use crate::implementation::FLOP_UNIT;
use crate::record::{AdapterPeaks, Check, Machine};
use charts::axis::{log_axis, mark};
use charts::{Canvas, Ink, drawing, picture, units};

const HEIGHT: u32 = 520;
const NARROW_HEIGHT: u32 = 400;
/// Width reserved for the names to the right of the plot, in pixels.
const NAMES: u32 = 210;
const NARROW_NAMES: u32 = 110;
const SMALL: u32 = 11;
const RADIUS: i32 = 4;
/// Width of a character of a size label, in pixels.
const LETTER: i32 = 7;
/// Height of a lane of size labels, in pixels.
const LANE: i32 = 14;
/// Opacity of the lines that join points.
const JOIN: f64 = 0.5;

/// A variant or rival, with its points.
struct Line<'a> {
    name: &'a str,
    place: &'a Place,
    ink: Ink,
    /// Pairs of operations per byte and operations per second.
    points: Vec<(f64, f64)>,
}

/// Draws the comparisons of one workload; returns `None` if no line has both a rate of operations
/// and an arithmetic intensity.
pub(super) fn draw(
    comparisons: &[&Comparison],
    machine: &Machine,
    adapters: &[String],
) -> Result<Option<String>> {
    let lines = lines(comparisons, adapters);
    if lines.is_empty() {
        return Ok(None);
    }
    charts::for_both(|width| draw_at(comparisons, &lines, machine, adapters, width)).map(Some)
}

fn draw_at(
    comparisons: &[&Comparison],
    lines: &[Line<'_>],
    machine: &Machine,
    adapters: &[String],
    width: Width,
) -> Result<String> {
    let (height, names) = match width {
        Width::Wide => (HEIGHT, NAMES),
        Width::Narrow => (NARROW_HEIGHT, NARROW_NAMES),
    };
    let here = |place: &Place| lines.iter().any(|line| line.place == place);
    let roofs: Vec<_> = peaks(machine)
        .into_iter()
        .filter(|(place, _)| here(place))
        .collect();
    let ridges = roofs
        .iter()
        .filter_map(|(_, peaks)| Some(peaks.flops? / peaks.copy_bytes_per_s?));
    let flats = roofs.iter().filter_map(|(_, peaks)| peaks.flops);
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = log_axis(points().map(|point| point.0).chain(ridges));
    let up = log_axis(points().map(|point| point.1).chain(flats));
    let (low, high) = (ends(across.bold_points()), ends(up.bold_points()));
    let workload = comparisons
        .first()
        .map_or("", |comparison| &comparison.workload);
    let label = format!("Roofline of {workload}");
    picture((width.px(), height), &label, |canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .margin_top(3 * LANE)
            .margin_right(names)
            .x_label_area_size(46)
            .y_label_area_size(56)
            .build_cartesian_2d(across, up)
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .x_label_formatter(&mark)
            .y_label_formatter(&|rate| units::si_tick(*rate))
            .x_desc("operations per byte of input and output")
            .y_desc("operations per second")
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
        let pixel = |(intensity, rate): (f64, f64)| chart.backend_coord(&(intensity, rate));
        let ((right, _), corner) = (pixel((low.1, high.0)), pixel((low.0, high.1)));
        sizes(
            canvas,
            comparisons,
            |intensity| pixel((intensity, high.0)).0,
            corner,
        )?;
        // Rivals first, so that the points of our variants are drawn inside their rings.
        for rivals in [true, false] {
            for line in lines
                .iter()
                .filter(|line| (*line.place == Place::Rival) == rivals)
            {
                path(canvas, line, &pixel)?;
            }
        }
        let named = lines.iter().filter_map(|line| {
            Some(Label {
                at: pixel(*line.points.last()?),
                text: line.name.to_owned(),
                ink: line.ink,
            })
        });
        labels::draw(canvas, named.collect(), right)
    })
}

/// Returns the lines of all variants and rivals, their points by ascending intensity.
fn lines<'a>(comparisons: &[&'a Comparison], adapters: &[String]) -> Vec<Line<'a>> {
    let unit = units::split_prefix(FLOP_UNIT).1;
    let counted = comparisons
        .iter()
        .filter(|comparison| comparison.rate_unit == unit);
    let contestants = counted.flat_map(|comparison| &comparison.contestants);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for entry in contestants.filter(|entry| !matches!(entry.check, Check::Failed(_))) {
        let Some(point) = entry.intensity.zip(entry.rate) else {
            continue;
        };
        let mut known = lines.iter_mut();
        match known.find(|line| line.name == entry.name && *line.place == entry.place) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: &entry.name,
                place: &entry.place,
                ink: entry.place.ink(adapters),
                points: vec![point],
            }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    lines
}

/// Draws the points of a line and joins them. A rival's point is a ring that is wide enough to be
/// visible around one of our points at the same position.
fn path(
    canvas: &Canvas<'_>,
    line: &Line<'_>,
    pixel: &impl Fn((f64, f64)) -> (i32, i32),
) -> Result<()> {
    let points: Vec<(i32, i32)> = line.points.iter().map(|&point| pixel(point)).collect();
    let joined = PathElement::new(points.clone(), line.ink.marker().mix(JOIN).stroke_width(1));
    canvas.draw(&joined).map_err(drawing)?;
    for at in points {
        let disc = |radius: i32, ink: Ink| Circle::new(at, radius, ink.marker().filled());
        let (outer, inner) = match line.place {
            Place::Rival => (disc(RADIUS + 2, line.ink), Some(disc(RADIUS, Ink::Paper))),
            Place::Cpu | Place::Adapter(_) => (disc(RADIUS, line.ink), None),
        };
        for disc in std::iter::once(outer).chain(inner) {
            canvas.draw(&disc).map_err(drawing)?;
        }
    }
    Ok(())
}

fn ends(marks: &[f64]) -> (f64, f64) {
    (
        marks.first().copied().unwrap_or(1.0),
        marks.last().copied().unwrap_or(1.0),
    )
}

/// Returns the corners of a roof inside the plot: start of the slope, ridge, end of the flat part.
fn roof(peaks: &AdapterPeaks, across: (f64, f64), up: (f64, f64)) -> Vec<(f64, f64)> {
    let flat = peaks.flops.unwrap_or(f64::INFINITY);
    let Some(slope) = peaks.copy_bytes_per_s else {
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

/// Writes each size above its points. Sizes whose points share a column share a label, and up to
/// three lanes keep labels from overlapping; a label for which no lane is free is left out.
fn sizes(
    canvas: &Canvas<'_>,
    comparisons: &[&Comparison],
    column: impl Fn(f64) -> i32,
    (left, top): (i32, i32),
) -> Result<()> {
    let mut lanes = [i32::MIN; 3];
    let mut headed: Vec<(i32, &str)> = comparisons
        .iter()
        .filter_map(|comparison| {
            let drawn = comparison
                .contestants
                .iter()
                .filter_map(|line| line.rate.and(line.intensity));
            let intensity = drawn.max_by(f64::total_cmp)?;
            Some((column(intensity), comparison.size.as_str()))
        })
        .collect();
    headed.sort_unstable();
    for (x, label) in shared_labels(&headed) {
        let half = i32::try_from(label.chars().count()).unwrap_or(0) * LETTER / 2;
        // Long labels stay right of the axis and within the picture.
        let (width, _) = canvas.dim_in_pixel();
        let middle = x.min(i32::try_from(width).unwrap_or(i32::MAX) - half);
        let middle = middle.max(left + half);
        let mut lanes_and_ends = lanes.iter().enumerate();
        let is_free = |(_, end): &(usize, &i32)| **end < middle - half - LETTER;
        let Some((lane, _)) = lanes_and_ends.find(is_free) else {
            continue;
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_one_column_share_a_label() {
        let labels = shared_labels(&[(10, "a"), (12, "b"), (15, "c"), (40, "d")]);
        let expected = [(10, "a and 2 more"), (40, "d")];
        assert_eq!(labels, expected.map(|(x, label)| (x, label.to_owned())));
        assert!(shared_labels(&[]).is_empty());
    }

    #[test]
    fn a_roof_bends_where_slope_and_flat_meet() {
        let peaks = AdapterPeaks {
            flops: Some(100.0),
            copy_bytes_per_s: Some(10.0),
            ..AdapterPeaks::default()
        };
        let corners = roof(&peaks, (1.0, 1000.0), (1.0, 1000.0));
        assert_eq!(corners, [(1.0, 10.0), (10.0, 100.0), (1000.0, 100.0)]);
    }

    #[test]
    fn half_known_roofs_are_a_line() {
        let flat = AdapterPeaks {
            flops: Some(100.0),
            ..AdapterPeaks::default()
        };
        assert_eq!(
            roof(&flat, (1.0, 10.0), (1.0, 1000.0)),
            [(1.0, 100.0), (10.0, 100.0)]
        );
        let slope = AdapterPeaks {
            copy_bytes_per_s: Some(10.0),
            ..AdapterPeaks::default()
        };
        let corners = roof(&slope, (0.01, 1000.0), (1.0, 1000.0));
        assert_eq!(corners, [(0.1, 1.0), (100.0, 1000.0), (1000.0, 1000.0)]);
    }
}
