//! What a result shows: panels of lines side by side.
//!
//! Role: draws a [`Figure`] of a record, whatever workload it came from.
//! Method: a hue a line, references dashed in grey; names stand in the upper right corner, in the colour of their line.
//! Logarithmic axes leave out what is not positive.

use anyhow::Result;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::axis::{log_axis, mark};
use super::ink::{Canvas, Ink, drawing, picture};
use crate::figure::{Figure, Line, Panel};
use crate::units;

const SIZE: (u32, u32) = (960, 380);
const SMALL: u32 = 11;
const WIDTH: u32 = 2;
/// Dash and gap of a reference, in pixels.
const DASH: (i32, i32) = (6, 4);
/// Lines of no more points show them, as discs of this radius.
const MOST_DOTS: usize = 40;
const DOT: i32 = 3;
/// From one name to the next.
const NAME_HEIGHT: i32 = 15;

/// Draws a figure as SVG.
pub(super) fn draw(figure: &Figure) -> Result<String> {
    picture(SIZE, &figure.caption, |canvas| {
        let areas = canvas.split_evenly((1, figure.panels.len().max(1)));
        for (panel, area) in figure.panels.iter().zip(&areas) {
            draw_panel(area, panel)?;
        }
        Ok(())
    })
}

fn draw_panel(canvas: &Canvas<'_>, panel: &Panel) -> Result<()> {
    let lines: Vec<Vec<(f64, f64)>> = panel
        .lines
        .iter()
        .map(|line| points(line, panel.is_log))
        .collect();
    let all = || lines.iter().flatten();
    if panel.is_log {
        let across = log_axis(all().map(|point| point.0));
        let up = log_axis(all().map(|point| point.1));
        chart(canvas, panel, &lines, (across, up), &mark)
    } else {
        let across = range(all().map(|point| point.0));
        let up = range(all().map(|point| point.1));
        chart(canvas, panel, &lines, (across, up), &|value| {
            units::digits(*value)
        })
    }
}

/// The points of a line that can be drawn.
fn points(line: &Line, is_log: bool) -> Vec<(f64, f64)> {
    let points = line
        .points
        .iter()
        .map(|&[x, y]| (f64::from(x), f64::from(y)));
    let is_shown =
        |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && (!is_log || (x > 0.0 && y > 0.0));
    points.filter(is_shown).collect()
}

/// Gives a range that holds all values and has a length.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let ends = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    match high - low {
        width if width > 0.0 && width.is_finite() => low..high + 0.05 * width,
        _ if low.is_finite() => low - 1.0..low + 1.0,
        _ => 0.0..1.0,
    }
}

fn chart<X, Y>(
    canvas: &Canvas<'_>,
    panel: &Panel,
    lines: &[Vec<(f64, f64)>],
    (across, up): (
        impl AsRangedCoord<CoordDescType = X, Value = f64>,
        impl AsRangedCoord<CoordDescType = Y, Value = f64>,
    ),
    label: &dyn Fn(&f64) -> String,
) -> Result<()>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(canvas)
        .margin(16)
        .x_label_area_size(46)
        .y_label_area_size(66)
        .build_cartesian_2d(across, up)
        .map_err(drawing)?;
    chart
        .configure_mesh()
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .x_desc(panel.x.as_str())
        .y_desc(panel.y.as_str())
        .axis_style(Ink::Grid.line(1))
        .bold_line_style(Ink::Grid.line(1))
        .light_line_style(TRANSPARENT)
        .label_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Center))
        .axis_desc_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Center))
        .draw()
        .map_err(drawing)?;
    let (right, top) = {
        let (xs, ys) = chart.plotting_area().get_pixel_range();
        let (left_of, above) = canvas.get_pixel_range();
        (xs.end - left_of.start, ys.start - above.start)
    };
    for ((idx, line), points) in panel.lines.iter().enumerate().zip(lines) {
        let ink = if line.is_reference {
            Ink::Muted
        } else {
            Ink::hue(idx)
        };
        let style = ink.line(WIDTH);
        let drawn = points.iter().copied();
        if line.is_reference {
            let (dash, gap) = DASH;
            let dashed = DashedLineSeries::new(drawn, dash, gap, style);
            chart.draw_series(dashed).map_err(drawing)?;
        } else {
            let solid = LineSeries::new(drawn, style);
            chart.draw_series(solid).map_err(drawing)?;
            if points.len() <= MOST_DOTS {
                let dot = |&point| Circle::new(point, DOT, ink.marker().filled());
                chart.draw_series(points.iter().map(dot)).map_err(drawing)?;
            }
        }
        let height = top + 8 + NAME_HEIGHT * i32::try_from(idx).unwrap_or(0);
        let text = ink.text(SMALL, HPos::Right, VPos::Center);
        let name = Text::new(line.name.clone(), (right - 8, height), text);
        canvas.draw(&name).map_err(drawing)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(is_log: bool, points: &[[f32; 2]]) -> Figure {
        let line = Line {
            name: "a <line>".into(),
            is_reference: false,
            points: points.to_vec(),
        };
        Figure {
            caption: "shown".into(),
            panels: vec![Panel {
                x: "x".into(),
                y: "y".into(),
                is_log,
                lines: vec![line.clone(), line.as_reference()],
            }],
        }
    }

    #[test]
    fn every_line_is_drawn_and_named() {
        let svg = draw(&figure(false, &[[0.0, 1.0], [1.0, 2.0]])).unwrap();
        assert_eq!(svg.matches("a &lt;line&gt;").count(), 2);
        assert!(svg.contains("line-cpu") && svg.contains("line-muted"));
    }

    #[test]
    fn odd_points_are_drawn_without_complaint() {
        for points in [
            &[][..],
            &[[1.0, 1.0]],
            &[[0.0, 0.0], [1.0, -1.0]],
            &[[1.0, f32::NAN], [2.0, f32::INFINITY]],
            &[[1e-38, 1e-38], [3e38, 3e38]],
        ] {
            for is_log in [false, true] {
                assert!(draw(&figure(is_log, points)).is_ok(), "{points:?}");
            }
        }
        assert!(draw(&Figure::default()).is_ok());
    }
}
