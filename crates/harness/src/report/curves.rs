//! Loss curves of a training, one line for each contestant.
//!
//! Role: shows whether all contestants learn the same, and otherwise which differ and where.
//! Method: loss over step, logarithmic if every loss is positive. Most lines coincide. To keep all
//! of them visible, each place (CPU, adapters, rivals) has its own line width, with the widest at
//! the bottom; each line has its variant's number at another step; and a thin line connects the end
//! of a curve with its name. Results that failed the check are not drawn.

use charts::Result;
use charts::plotters::coord::ranged1d::ValueFormatter;
use charts::plotters::prelude::*;
use charts::plotters::style::text_anchor::{HPos, VPos};

use super::roofline::spread;
use crate::comparison::{Comparison, Entry, Place};
use crate::record::Check;
use charts::axis::{log_axis, mark};
use charts::units;
use charts::{Canvas, Ink, drawing, picture};

const SIZE: (u32, u32) = (960, 380);
/// Width reserved for the names to the right of the plot, in pixels.
const NAMES: u32 = 270;
/// Size of text, in pixels.
const SMALL: u32 = 11;
/// Line width of the first place, in pixels.
const THINNEST: u32 = 2;
/// Additional line width per further place, in pixels.
const WIDER: u32 = 2;
/// Radius of the disc behind a number.
const RADIUS: i32 = 8;
/// Horizontal distance from the plot to the names, in pixels.
const TIE: i32 = 36;
/// Maximum length of a name, in characters.
const LONGEST_NAME: usize = 20;

/// Losses of a contestant, prepared for drawing.
struct Curve<'a> {
    line: &'a Entry,
    ink: Ink,
    width_px: u32,
    /// Pairs of step and loss.
    points: Vec<(f64, f64)>,
}

/// Draws the losses of a comparison as SVG; returns `None` if no line has losses.
pub(super) fn draw(comparison: &Comparison, adapters: &[String]) -> Result<Option<String>> {
    let curves = curves(comparison, adapters);
    let losses = || curves.iter().flat_map(|curve| &curve.points);
    if curves.is_empty() {
        return Ok(None);
    }
    let steps = 0.0..losses().map(|&(step, _)| step).fold(1.0, f64::max);
    let label = format!("Losses of {} {}", comparison.workload, comparison.size);
    picture(SIZE, &label, |canvas| {
        if losses().all(|&(_, loss)| loss > 0.0) {
            let up = log_axis(losses().map(|&(_, loss)| loss));
            chart(canvas, &curves, steps, up, &mark)
        } else {
            let lowest = losses().map(|&(_, loss)| loss).fold(0.0, f64::min);
            let highest = losses().map(|&(_, loss)| loss).fold(0.0, f64::max);
            // If all losses are zero, the range would be empty.
            let highest = if highest > lowest {
                highest
            } else {
                lowest + 1.0
            };
            chart(canvas, &curves, steps, lowest..highest, &|loss| {
                units::digits(*loss)
            })
        }
    })
    .map(Some)
}

fn curves<'a>(comparison: &'a Comparison, adapters: &[String]) -> Vec<Curve<'a>> {
    let mut places: Vec<&Place> = Vec::new();
    let is_right = |line: &&Entry| !matches!(line.check, Check::Failed(_));
    let lines = comparison.entries.iter().filter(is_right);
    lines
        .map(|line| (line, points(line)))
        .filter(|(_, points)| !points.is_empty())
        .map(|(line, points)| {
            if places.last() != Some(&&line.place) {
                places.push(&line.place);
            }
            let wider = u32::try_from(places.len() - 1).unwrap_or(0) * WIDER;
            Curve {
                line,
                ink: line.place.ink(adapters),
                width_px: THINNEST + wider,
                points,
            }
        })
        .collect()
}

/// Returns pairs of step and loss, up to the first loss that is not finite.
fn points(line: &Entry) -> Vec<(f64, f64)> {
    let finite = line.losses.iter().take_while(|loss| loss.is_finite());
    let losses = finite.enumerate();
    let point = |(idx, &loss): (usize, &f32)| ((idx * line.loss_stride) as f64, loss.into());
    losses.map(point).collect()
}

fn chart<Y>(
    canvas: &Canvas<'_>,
    curves: &[Curve<'_>],
    steps: std::ops::Range<f64>,
    up: impl charts::plotters::coord::ranged1d::AsRangedCoord<CoordDescType = Y, Value = f64>,
    loss_label: &dyn Fn(&f64) -> String,
) -> Result<()>
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(canvas)
        .margin_top(16)
        .margin_right(NAMES)
        .x_label_area_size(46)
        .y_label_area_size(66)
        .build_cartesian_2d(steps, up)
        .map_err(drawing)?;
    chart
        .configure_mesh()
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|step| format!("{step}"))
        .y_label_formatter(&loss_label)
        .x_desc("step")
        .y_desc("loss")
        .axis_style(Ink::Grid.line(1))
        .bold_line_style(Ink::Grid.line(1))
        .light_line_style(TRANSPARENT)
        .label_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Center))
        .axis_desc_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Center))
        .draw()
        .map_err(drawing)?;
    // In reverse order, because the widest lines belong to the last places and must be at the
    // bottom.
    for curve in curves.iter().rev() {
        let style = curve.ink.line(curve.width_px);
        let line = PathElement::new(curve.points.clone(), style);
        chart.draw_series([line]).map_err(drawing)?;
    }
    // The numbers are spread evenly along the steps, so that they do not cover each other.
    for (idx, curve) in curves.iter().enumerate() {
        let at = (idx + 1) * curve.points.len() / (curves.len() + 1);
        disc(canvas, curve, chart.backend_coord(&curve.points[at]))?;
    }
    names(canvas, curves, |point| chart.backend_coord(point))
}

/// Draws a variant's number on its line. As in the roofline, discs of variants are filled and those
/// of rivals are hollow.
fn disc(canvas: &Canvas<'_>, curve: &Curve<'_>, at: (i32, i32)) -> Result<()> {
    let (inside, number) = match curve.line.place {
        Place::Rival => (Ink::Paper, Ink::Text),
        Place::Cpu | Place::Adapter(_) => (curve.ink, Ink::Paper),
    };
    for (radius, ink) in [(RADIUS + 1, curve.ink), (RADIUS - 1, inside)] {
        let disc = Circle::new(at, radius, ink.marker().filled());
        canvas.draw(&disc).map_err(drawing)?;
    }
    let style = number.text(SMALL, HPos::Center, VPos::Center);
    let text = Text::new(curve.line.number.to_string(), at, style);
    canvas.draw(&text).map_err(drawing)
}

/// Writes the name of each line next to its end, with its last loss and accuracy. Names are moved
/// apart if the ends are close together.
fn names(
    canvas: &Canvas<'_>,
    curves: &[Curve<'_>],
    pixel: impl Fn(&(f64, f64)) -> (i32, i32),
) -> Result<()> {
    let ended = curves
        .iter()
        .filter_map(|curve| Some((curve, curve.points.last()?)));
    let mut ends: Vec<_> = ended.map(|(curve, end)| (pixel(end), curve)).collect();
    // The sort is stable: lines that end at the same height keep their order.
    ends.sort_by_key(|((_, y), _)| *y);
    let heights: Vec<i32> = ends.iter().map(|((_, y), _)| *y).collect();
    let bottom = i32::try_from(SIZE.1).unwrap_or(i32::MAX) - RADIUS;
    let spread = spread(&heights);
    // If names would extend beyond the bottom of the picture, move all of them up.
    let lift = spread.last().map_or(0, |lowest| (lowest - bottom).max(0));
    let right = i32::try_from(SIZE.0 - NAMES).unwrap_or(i32::MAX);
    for (((x, y), curve), height) in ends.into_iter().zip(spread) {
        let at = (right + TIE, height - lift);
        let tie = PathElement::new([(x, y), (at.0 - 4, at.1)], curve.ink.line(1));
        canvas.draw(&tie).map_err(drawing)?;
        let style = Ink::Text.text(SMALL, HPos::Left, VPos::Center);
        let text = Text::new(name(curve.line), at, style);
        canvas.draw(&text).map_err(drawing)?;
    }
    Ok(())
}

/// Returns the label of a line: `3 host: 0.0251, 97.3 %`.
fn name(line: &Entry) -> String {
    let name: String = line.name.chars().take(LONGEST_NAME).collect();
    let last = line.losses.last().map_or(f64::NAN, |&loss| loss.into());
    let accuracy = line.accuracy.map_or(String::new(), |accuracy| {
        format!(", {}", units::percent(accuracy.into()))
    });
    format!("{} {name}: {}{accuracy}", line.number, units::digits(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::comparisons;
    use crate::record::{Record, Row};

    fn drawn(losses: &[&[f32]], check: &Check) -> Option<String> {
        let row = |(idx, losses): (usize, &&[f32])| Row {
            executor: format!("variant {idx}"),
            check: check.clone(),
            losses: losses.to_vec(),
            accuracy: Some(0.973),
            ..Row::default()
        };
        let record = Record {
            rows: losses.iter().enumerate().map(row).collect(),
            ..Record::default()
        };
        draw(&comparisons(&record)[0], &[]).unwrap()
    }

    #[test]
    fn every_contestant_with_losses_is_drawn_and_named() {
        let svg = drawn(&[&[2.0, 1.0], &[2.0, 1.0], &[]], &Check::Ok).unwrap();
        for name in ["1 variant 0: 1.00, 97.3 %", "2 variant 1: 1.00, 97.3 %"] {
            assert!(svg.contains(name), "{name} is missing: {svg}");
        }
        assert!(!svg.contains("variant 2"));
    }

    #[test]
    fn wrong_and_empty_curves_are_not_drawn() {
        assert_eq!(drawn(&[&[]], &Check::Ok), None);
        let failed = Check::Failed("off".into());
        assert_eq!(drawn(&[&[2.0, 1.0]], &failed), None);
        assert!(drawn(&[&[f32::NAN]], &Check::Ok).is_none());
    }

    #[test]
    fn odd_losses_are_drawn_without_complaint() {
        for losses in [
            &[0.0][..],
            &[0.0, 0.0],
            &[-1.0, -2.0],
            &[1.0],
            &[3e38, 1e-38],
            &[-3e38, 3e38],
        ] {
            assert!(drawn(&[losses], &Check::Ok).is_some(), "{losses:?}");
        }
    }

    #[test]
    fn steps_count_what_a_record_left_out() {
        let row = Row {
            losses: vec![1.0; 700],
            loss_stride: Some(5),
            ..Row::default()
        };
        let record = Record {
            rows: vec![row],
            ..Record::default()
        };
        let points = points(&comparisons(&record)[0].entries[0]);
        assert_eq!((points.len(), points[1].0), (700, 5.0));
    }
}
