//! Loss curves of a training, one line for each contestant.
//!
//! Role: shows whether all contestants learn the same, and otherwise which differ and where.
//! Method: the running mean of the losses over the step, above the faint range of the single
//! losses; logarithmic if every loss is positive. Most lines coincide. To keep all of them visible,
//! each place (CPU, adapters, rivals) has its own line width, with the widest at the bottom, and
//! each line is named at its end. Results that failed the check are not drawn.

use charts::plotters::coord::ranged1d::ValueFormatter;
use charts::plotters::prelude::*;
use charts::plotters::style::text_anchor::{HPos, VPos};
use charts::{Result, Width};

use super::labels::{self, Label};
use crate::comparison::{Comparison, Contestant, Place};
use crate::record::Check;
use charts::axis::{log_axis, mark};
use charts::units;
use charts::{Canvas, Ink, drawing, picture};

const HEIGHT: u32 = 380;
const NARROW_HEIGHT: u32 = 300;
/// Width reserved for the names to the right of the plot, in pixels.
const NAMES: u32 = 270;
const NARROW_NAMES: u32 = 140;
/// Size of text, in pixels.
const SMALL: u32 = 11;
/// Line width of the first place, in pixels.
const THINNEST: u32 = 2;
/// Additional line width per further place, in pixels.
const WIDER: u32 = 2;
/// Number of points of a curve: a point is the mean of the losses around it, and more points than
/// these would not be visible.
const MOST_POINTS: usize = 160;
/// Number of points over which the mean runs.
const WINDOW: usize = 5;
/// Opacity of the range of single losses.
const FAINT: f64 = 0.3;

/// Losses of a contestant, prepared for drawing.
struct Curve<'a> {
    line: &'a Contestant,
    ink: Ink,
    width_px: u32,
    /// Pairs of step and running mean.
    means: Vec<(f64, f64)>,
    /// Pairs of step and loss, the lowest and the highest loss around each point; empty if there
    /// are so few losses that they are the points.
    range: Vec<(f64, f64)>,
}

/// Draws the losses of a comparison; returns `None` if no line has losses.
pub(super) fn draw(comparison: &Comparison, adapters: &[String]) -> Result<Option<String>> {
    let curves = curves(comparison, adapters);
    if curves.is_empty() {
        return Ok(None);
    }
    let label = format!("Losses of {} {}", comparison.workload, comparison.size);
    charts::for_both(|width| draw_at(&curves, &label, width)).map(Some)
}

fn draw_at(curves: &[Curve<'_>], label: &str, width: Width) -> Result<String> {
    let (height, names) = match width {
        Width::Wide => (HEIGHT, NAMES),
        Width::Narrow => (NARROW_HEIGHT, NARROW_NAMES),
    };
    let losses = || {
        let points = curves
            .iter()
            .flat_map(|curve| curve.means.iter().chain(&curve.range));
        points.map(|&(_, loss)| loss)
    };
    let steps = curves.iter().filter_map(|curve| curve.means.last());
    let steps = 0.0..steps.map(|&(step, _)| step).fold(1.0, f64::max);
    picture((width.px(), height), label, |canvas| {
        if losses().all(|loss| loss > 0.0) {
            chart(canvas, curves, names, steps, log_axis(losses()), &mark)
        } else {
            let lowest = losses().fold(0.0, f64::min);
            let highest = losses().fold(0.0, f64::max);
            // If all losses are zero, the range would be empty.
            let highest = if highest > lowest {
                highest
            } else {
                lowest + 1.0
            };
            let digits = |loss: &f64| units::digits(*loss);
            chart(canvas, curves, names, steps, lowest..highest, &digits)
        }
    })
}

fn curves<'a>(comparison: &'a Comparison, adapters: &[String]) -> Vec<Curve<'a>> {
    let mut places: Vec<&Place> = Vec::new();
    let is_right = |line: &&Contestant| !matches!(line.check, Check::Failed(_));
    let lines = comparison.contestants.iter().filter(is_right);
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
                means: means(&points),
                range: range(&points),
            }
        })
        .collect()
}

/// Returns pairs of step and loss, up to the first loss that is not finite.
fn points(line: &Contestant) -> Vec<(f64, f64)> {
    let finite = line.losses.iter().take_while(|loss| loss.is_finite());
    let losses = finite.enumerate();
    let point = |(idx, &loss): (usize, &f32)| ((idx * line.loss_stride) as f64, loss.into());
    losses.map(point).collect()
}

/// Returns at most [`MOST_POINTS`] chunks of neighbouring points.
fn chunks(points: &[(f64, f64)]) -> std::slice::Chunks<'_, (f64, f64)> {
    points.chunks(points.len().div_ceil(MOST_POINTS).max(1))
}

/// Returns the running mean of the losses. The window is cut at both ends, so that the first and
/// the last mean are those of fewer losses.
fn means(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |losses: &[(f64, f64)]| {
        let sum: f64 = losses.iter().map(|&(_, loss)| loss).sum();
        sum / losses.len() as f64
    };
    // A curve of few losses is drawn as it is.
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let size = chunks(points).next().map_or(1, <[_]>::len);
    let reach = size * WINDOW / 2;
    let centres = (0..points.len()).step_by(size);
    let means = centres.map(|start| {
        let centre = (start + size / 2).min(points.len() - 1);
        let window = centre.saturating_sub(reach)..(centre + reach + 1).min(points.len());
        (points[centre].0, mean(&points[window]))
    });
    means.collect()
}

/// Returns the lowest and the highest loss of each chunk; empty if a chunk is a single loss.
fn range(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return Vec::new();
    }
    let ends = chunks(points).flat_map(|chunk| {
        let by_loss = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        let (low, high) = (chunk.iter().min_by(by_loss), chunk.iter().max_by(by_loss));
        low.into_iter().chain(high).copied()
    });
    ends.collect()
}

fn chart<Y>(
    canvas: &Canvas<'_>,
    curves: &[Curve<'_>],
    names: u32,
    steps: std::ops::Range<f64>,
    up: impl charts::plotters::coord::ranged1d::AsRangedCoord<CoordDescType = Y, Value = f64>,
    loss_label: &dyn Fn(&f64) -> String,
) -> Result<()>
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(canvas)
        .margin_top(16)
        .margin_right(names)
        .x_label_area_size(46)
        .y_label_area_size(56)
        .build_cartesian_2d(steps, up)
        .map_err(drawing)?;
    chart
        .configure_mesh()
        .x_labels(4)
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
    for curve in curves {
        let style = curve.ink.marker().mix(FAINT).stroke_width(1);
        let line = PathElement::new(curve.range.clone(), style);
        chart.draw_series([line]).map_err(drawing)?;
    }
    // In reverse order, because the widest lines belong to the last places and must be at the
    // bottom.
    for curve in curves.iter().rev() {
        let style = curve.ink.line(curve.width_px);
        let line = PathElement::new(curve.means.clone(), style);
        chart.draw_series([line]).map_err(drawing)?;
    }
    let pixel = |point: &(f64, f64)| chart.backend_coord(point);
    let named = curves.iter().filter_map(|curve| {
        let last = curve.means.last()?;
        Some(Label {
            at: pixel(last),
            text: name(curve.line, last.1),
            ink: curve.ink,
        })
    });
    let (xs, _) = chart.plotting_area().get_pixel_range();
    labels::draw(canvas, named.collect(), xs.end)
}

/// Returns the label of a line: `host: 0.0251, 97.3 %`.
fn name(line: &Contestant, last: f64) -> String {
    let accuracy = line.accuracy.map_or(String::new(), |accuracy| {
        format!(", {}", units::percent(accuracy.into()))
    });
    format!("{}: {}{accuracy}", line.name, units::digits(last))
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
        for name in ["variant 0: 1.00, 97.3 %", "variant 1: 1.00, 97.3 %"] {
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
        let points = points(&comparisons(&record)[0].contestants[0]);
        assert_eq!((points.len(), points[1].0), (700, 5.0));
    }

    #[test]
    fn many_losses_become_a_running_mean_and_a_range() {
        let points: Vec<(f64, f64)> = (0..1600_u32)
            .map(|step| (f64::from(step), if step % 2 == 0 { 1.0 } else { 3.0 }))
            .collect();
        let means = means(&points);
        assert_eq!(means.len(), MOST_POINTS);
        assert!(means.iter().all(|(_, loss)| (loss - 2.0).abs() < 0.1));
        let range = range(&points);
        assert_eq!(
            (range.len(), range[0].1, range[1].1),
            (2 * MOST_POINTS, 1.0, 3.0)
        );
        assert!(super::range(&points[..10]).is_empty());
    }
}
