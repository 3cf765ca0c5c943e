//! Figures of workload results: panels of lines side by side.
//!
//! Role: draws a [`Figure`] of a record, independent of the workload.
//! Method: lines have hues by their index, which repeat after six; references are dashed and have
//! the colour of text, or a muted colour on a map. The legend is in the corner with the fewest
//! points, with names in the colours of their lines; a map has the legend above. Logarithmic axes
//! omit values that are not positive. A map has no axes, the same scale in both directions, and
//! labelled points. A panel with an axis on the right shows values over time; its lines fill the
//! panel, so the legend is above it and points are not marked. Lines of the right axis are dashed
//! and converted to the scale of the left axis.

use std::ops::Range;

use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use crate::Result;
use crate::axis::{linear_mark, log_axis, mark};
use crate::figure::{Figure, Panel, Series};
use crate::ink::{Canvas, Ink, drawing, picture};
use crate::width::{Width, for_both};
use crate::{bricks, icicle};

/// Height of the panels, which are side by side on a wide screen, in pixels.
const HEIGHT: u32 = 380;
/// Height of each panel on a narrow screen, where they are below each other, in pixels.
const NARROW_HEIGHT: u32 = 270;
/// Distance between the labels of the x axis, at least, in pixels.
const LABEL_DISTANCE: u32 = 80;
const SMALL: u32 = 11;
/// Margin around a plot, in pixels.
const MARGIN: u32 = 16;
/// Height of the x axis, in pixels.
const ACROSS: u32 = 46;
/// Width of the right axis, in pixels.
const RIGHT: u32 = 66;
/// Width of a line, in pixels.
const WIDTH: u32 = 2;
/// Dash and gap of a dashed line, in pixels.
const DASH: (i32, i32) = (6, 4);
/// Maximum number of points of a line whose points are drawn as discs.
const MOST_DOTS: usize = 40;
/// Radius of a disc, in pixels.
const DOT: i32 = 3;
/// Distance between the rows of the legend, in pixels.
const NAME_HEIGHT: i32 = 15;
/// Distance between the edge of the plot and the legend, in pixels.
const GAP: i32 = 8;
/// Approximate width of a character of the legend, in pixels.
const LETTER: i32 = 6;
/// Additional height for a legend above a plot, in pixels.
const ABOVE: u32 = 18;
/// Margin around a map, in which the names of its outermost points are written, in pixels.
const MAP_MARGIN: u32 = 34;
/// Height of the caption below a map, in pixels.
const MAP_TITLE: u32 = 20;
/// Distance from a point to the middle of its name, in pixels.
const LIFT: i32 = 14;

/// The drawing area of a panel, with its axes.
type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// Draws a figure as SVG, for wide and for narrow screens.
///
/// # Errors
/// An error of the drawing backend.
pub fn draw(figure: &Figure) -> Result<String> {
    if !figure.bricks.is_empty() {
        return Ok(bricks::draw(&figure.bricks));
    }
    if !figure.stacks.is_empty() {
        return Ok(icicle::draw(&figure.stacks));
    }
    for_both(|width| draw_at(figure, width))
}

fn draw_at(figure: &Figure, width: Width) -> Result<String> {
    let n_panels = figure.panels.len().max(1);
    let (height, grid) = match width {
        Width::Wide => (HEIGHT, (1, n_panels)),
        Width::Narrow => {
            let n_rows = u32::try_from(n_panels).unwrap_or(1);
            (NARROW_HEIGHT.saturating_mul(n_rows), (n_panels, 1))
        }
    };
    picture((width.px(), height), &figure.caption, |canvas| {
        let areas = canvas.split_evenly(grid);
        for (panel, area) in figure.panels.iter().zip(&areas) {
            draw_panel(area, panel)?;
        }
        Ok(())
    })
}

/// Returns at most seven round numbers within a range: multiples of 1, 2 or 5 times a power
/// of ten.
fn marks(range: &Range<f64>) -> Vec<f64> {
    const MOST: f64 = 6.0;
    // Smallest step that gives at most `MOST` intervals, rounded up to 1, 2, 5 or 10 times a power
    // of ten.
    let least = (range.end - range.start) / MOST;
    let decade = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    let step = steps.into_iter().find(|&step| step >= least);
    let step = step.unwrap_or(steps[3]);
    let first = (range.start / step).ceil();
    let multiples = (0..).map(|number| (first + f64::from(number)) * step);
    multiples.take_while(|&value| value <= range.end).collect()
}

fn draw_panel(canvas: &Canvas<'_>, panel: &Panel) -> Result<()> {
    let lines: Vec<Vec<(f64, f64)>> = panel
        .lines
        .iter()
        .map(|line| points(line, panel.is_log))
        .collect();
    let all = || lines.iter().flatten();
    if panel.is_map {
        map(canvas, panel, &lines)
    } else if panel.is_log {
        let across = log_axis(all().map(|point| point.0));
        let up = log_axis(all().map(|point| point.1));
        chart(canvas, panel, &lines, (across, up), &mark)
    } else {
        linear(canvas, panel, lines)
    }
}

/// Draws a panel with linear axes, with or without an axis on the right.
fn linear(canvas: &Canvas<'_>, panel: &Panel, mut lines: Vec<Vec<(f64, f64)>>) -> Result<()> {
    let of_side = |is_right: bool| {
        let sides = panel.lines.iter().zip(&lines);
        let lines = sides.filter(move |(line, _)| line.is_right == is_right);
        range(lines.flat_map(|(_, points)| points.iter().map(|point| point.1)))
    };
    let (up, right) = (of_side(false), of_side(true));
    let across = range(lines.iter().flatten().map(|point| point.0));
    let length = |range: &Range<f64>| range.end - range.start;
    let per_right = length(&up) / length(&right);
    // Map the lines of the right axis linearly from the range of that axis to the range of the left
    // one, because the chart has one vertical scale.
    for (line, points) in panel.lines.iter().zip(&mut lines) {
        for point in points.iter_mut().filter(|_| line.is_right) {
            point.1 = up.start + (point.1 - right.start) * per_right;
        }
    }
    let label = linear_mark;
    if panel.right.is_empty() {
        return chart(canvas, panel, &lines, (across, up), &label);
    }
    let (width, _) = canvas.dim_in_pixel();
    let (plot, side) = canvas.split_horizontally(width.saturating_sub(RIGHT));
    chart(&plot, panel, &lines, (across, up), &label)?;
    right_axis(&side, panel, &right)
}

/// Returns the margin above a plot, in pixels, with space for the legend if there is an axis on the
/// right.
fn margin_above(panel: &Panel) -> u32 {
    if panel.right.is_empty() {
        MARGIN
    } else {
        MARGIN + ABOVE
    }
}

/// Draws the tick labels of the right axis next to the plot, and the label of the axis.
fn right_axis(canvas: &Canvas<'_>, panel: &Panel, range: &Range<f64>) -> Result<()> {
    let (width, height) = canvas.dim_in_pixel();
    let [width, height, above, below] = [width, height, margin_above(panel), MARGIN + ACROSS]
        .map(|size| i32::try_from(size).unwrap_or(0));
    let plot = f64::from((height - above - below).max(1));
    for value in marks(range) {
        let share = (value - range.start) / (range.end - range.start);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a pixel coordinate of the picture"
        )]
        let y = above + ((1.0 - share) * plot) as i32;
        let style = Ink::Muted.text(SMALL, HPos::Left, VPos::Center);
        let text = Text::new(linear_mark(&value), (0, y), style);
        canvas.draw(&text).map_err(drawing)?;
    }
    let style = Ink::Muted.text(SMALL, HPos::Center, VPos::Center);
    let turned = style.transform(FontTransform::Rotate270);
    let text = Text::new(panel.right.clone(), (width - GAP, height / 2), turned);
    canvas.draw(&text).map_err(drawing)
}

/// Returns the points of a line that can be drawn on the axes.
fn points(line: &Series, is_log: bool) -> Vec<(f64, f64)> {
    let points = line
        .points
        .iter()
        .map(|&[x, y]| (f64::from(x), f64::from(y)));
    let is_shown =
        |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && (!is_log || (x > 0.0 && y > 0.0));
    points.filter(is_shown).collect()
}

/// Smallest distance of the ends of an axis from its only value, as a share of the value.
const LEAST_MARGIN: f64 = 1e-9;

/// Returns a non-empty range that covers all values, with 5 % of free space above them.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let ends = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    match high - low {
        width if width > 0.0 && width.is_finite() => low..high + 0.05 * width,
        // Beyond 2^53, a distance of 1 is lost to rounding.
        _ if low.is_finite() => {
            let margin = (LEAST_MARGIN * low.abs()).max(1.0);
            low - margin..low + margin
        }
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
        .margin(MARGIN)
        .margin_top(margin_above(panel))
        .x_label_area_size(ACROSS)
        .y_label_area_size(66)
        .build_cartesian_2d(across, up)
        .map_err(drawing)?;
    chart
        .configure_mesh()
        .x_labels((canvas.dim_in_pixel().0 / LABEL_DISTANCE).clamp(3, 6) as usize)
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
    draw_lines(canvas, &mut chart, panel, lines)
}

/// Draws a map: the plane without axes, as large as fits.
fn map(canvas: &Canvas<'_>, panel: &Panel, lines: &[Vec<(f64, f64)>]) -> Result<()> {
    // A record may have numbers beyond f32, which are read as infinities.
    let shown = || {
        let points = panel.points.iter();
        points.filter(|point| point.at.iter().all(|x| x.is_finite()))
    };
    let places = shown().map(|point| {
        let [x, y] = point.at.map(f64::from);
        (x, y)
    });
    let all: Vec<(f64, f64)> = lines.iter().flatten().copied().chain(places).collect();
    let (across, up) = (
        range(all.iter().map(|at| at.0)),
        range(all.iter().map(|at| at.1)),
    );
    let (width, height) = canvas.dim_in_pixel();
    let legend = panel.lines.iter().filter(|line| !line.name.is_empty());
    let legend = u32::try_from(legend.count()).unwrap_or(0) * NAME_HEIGHT.unsigned_abs();
    let room = |pixels: u32, less: u32| f64::from(pixels.saturating_sub(less).max(1));
    let room = [
        room(width, 2 * MAP_MARGIN),
        room(height, 2 * MAP_MARGIN + MAP_TITLE + legend),
    ];
    // The larger of the two ratios is used for both directions, so both axes have the same scale;
    // the other direction is widened symmetrically.
    let per_pixel = ((across.end - across.start) / room[0]).max((up.end - up.start) / room[1]);
    let widened = |range: Range<f64>, pixels: f64| {
        let (middle, half) = (0.5 * (range.start + range.end), 0.5 * pixels * per_pixel);
        middle - half..middle + half
    };
    let mut chart = ChartBuilder::on(canvas)
        .margin(MAP_MARGIN)
        .margin_top(MAP_MARGIN + legend)
        .margin_bottom(MAP_MARGIN + MAP_TITLE)
        .build_cartesian_2d(widened(across, room[0]), widened(up, room[1]))
        .map_err(drawing)?;
    draw_lines(canvas, &mut chart, panel, lines)?;
    // `backend_coord` returns coordinates of the whole picture, but drawing on `canvas` uses
    // coordinates of the panel.
    let corner = canvas.get_base_pixel();
    let middle = chart.plotting_area().get_pixel_range().1;
    let middle = (middle.start + middle.end) / 2;
    for point in shown() {
        let at = chart.backend_coord(&(point.at[0].into(), point.at[1].into()));
        // Labels are placed on the outer side of their points: above in the upper half, else below.
        let lift = if at.1 < middle { -LIFT } else { LIFT };
        let at = (at.0 - corner.0, at.1 - corner.1);
        let dot = Circle::new(at, DOT, Ink::Text.marker().filled());
        canvas.draw(&dot).map_err(drawing)?;
        let style = Ink::Text.text(SMALL, HPos::Center, VPos::Center);
        let name = Text::new(point.name.clone(), (at.0, at.1 + lift), style);
        canvas.draw(&name).map_err(drawing)?;
    }
    let below = [width / 2, height.saturating_sub(MAP_TITLE)];
    let [x, y] = below.map(|pixels| i32::try_from(pixels).unwrap_or(0));
    let style = Ink::Muted.text(SMALL, HPos::Center, VPos::Center);
    let title = Text::new(panel.x.clone(), (x, y), style);
    canvas.draw(&title).map_err(drawing)
}

/// Draws the lines of a panel and the legend.
fn draw_lines<X, Y>(
    canvas: &Canvas<'_>,
    chart: &mut Chart<'_, '_, X, Y>,
    panel: &Panel,
    lines: &[Vec<(f64, f64)>],
) -> Result<()>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    // References are drawn last, on top of the lines that approach them. A map's references are the
    // frame of its lines, and are drawn first.
    let mut drawn: Vec<_> = panel.lines.iter().enumerate().zip(lines).collect();
    drawn.sort_by_key(|((_, line), _)| line.is_reference != panel.is_map);
    for ((idx, line), points) in drawn {
        let ink = ink_of(idx, line, panel.is_map);
        let style = ink.line(WIDTH);
        let drawn = points.iter().copied();
        if line.is_reference || line.is_right {
            let (dash, gap) = DASH;
            let dashed = DashedLineSeries::new(drawn, dash, gap, style);
            chart.draw_series(dashed).map_err(drawing)?;
        } else {
            let solid = LineSeries::new(drawn, style);
            chart.draw_series(solid).map_err(drawing)?;
            if points.len() <= MOST_DOTS && panel.right.is_empty() {
                let dot = |&point| Circle::new(point, DOT, ink.marker().filled());
                chart.draw_series(points.iter().map(dot)).map_err(drawing)?;
            }
        }
    }
    let corner = canvas.get_base_pixel();
    let local = |(x, y): (i32, i32)| (x - corner.0, y - corner.1);
    let points = lines.iter().flatten();
    let pixels: Vec<_> = points.map(|at| local(chart.backend_coord(at))).collect();
    let (xs, ys) = chart.plotting_area().get_pixel_range();
    let ends = [local((xs.start, ys.start)), local((xs.end, ys.end))];
    names(canvas, panel, ends, &pixels)
}

fn ink_of(idx: usize, line: &Series, is_map: bool) -> Ink {
    if line.is_reference && is_map {
        Ink::Muted
    } else if line.is_reference {
        Ink::Text
    } else {
        Ink::hue(idx)
    }
}

/// Writes the legend, the names of the lines: above a panel with a right axis, otherwise in the
/// corner where it covers the fewest points. If several corners are equally good, the upper right
/// one is preferred.
fn names(
    canvas: &Canvas<'_>,
    panel: &Panel,
    [(left, top), (right, bottom)]: [(i32, i32); 2],
    pixels: &[(i32, i32)],
) -> Result<()> {
    let named = panel.lines.iter().enumerate();
    let named: Vec<_> = named.filter(|(_, line)| !line.name.is_empty()).collect();
    if !panel.right.is_empty() {
        let mut x = left;
        for (idx, line) in named {
            let text = ink_of(idx, line, panel.is_map).text(SMALL, HPos::Left, VPos::Bottom);
            let name = Text::new(line.name.clone(), (x, top - GAP), text);
            canvas.draw(&name).map_err(drawing)?;
            x += i32::try_from(line.name.chars().count()).unwrap_or(0) * LETTER + 2 * GAP;
        }
        return Ok(());
    }
    let length = |(_, line): &(usize, &Series)| line.name.chars().count();
    let extent = |number: usize, each: i32| i32::try_from(number).unwrap_or(0) * each + GAP;
    let width = extent(named.iter().map(length).max().unwrap_or(0), LETTER);
    let height = extent(named.len(), NAME_HEIGHT);
    // Counts the points that the box of names would cover in a corner.
    let hidden = |&(is_right, is_top): &(bool, bool)| {
        let covers = |&&(x, y): &&(i32, i32)| {
            let beside = if is_right { right - x } else { x - left };
            let beyond = if is_top { y - top } else { bottom - y };
            beside < width && beyond < height
        };
        pixels.iter().filter(covers).count()
    };
    let corners = [(true, true), (false, false), (true, false), (false, true)];
    let best = corners.into_iter().min_by_key(hidden);
    let (is_right, is_top) = match best {
        Some(corner) if !panel.is_map => corner,
        _ => (true, true),
    };
    let first = if panel.is_map {
        // The margin above a map has space for the names.
        GAP
    } else if is_top {
        top + GAP
    } else {
        bottom - height + GAP
    };
    for (place, (idx, line)) in named.into_iter().enumerate() {
        let (x, across) = if is_right {
            (right - GAP, HPos::Right)
        } else {
            (left + GAP, HPos::Left)
        };
        let text = ink_of(idx, line, panel.is_map).text(SMALL, across, VPos::Center);
        let y = first + extent(place, NAME_HEIGHT) - GAP;
        let name = Text::new(line.name.clone(), (x, y), text);
        canvas.draw(&name).map_err(drawing)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(is_log: bool, points: &[[f32; 2]]) -> Figure {
        let line = Series {
            name: "a <line>".into(),
            points: points.to_vec(),
            ..Series::default()
        };
        Figure {
            caption: "shown".into(),
            panels: vec![Panel {
                x: "x".into(),
                y: "y".into(),
                is_log,
                lines: vec![line.clone(), line.as_reference()],
                ..Panel::default()
            }],
            ..Figure::default()
        }
    }

    #[test]
    fn every_line_is_drawn_and_named() {
        let svg = draw(&figure(false, &[[0.0, 1.0], [1.0, 2.0]])).unwrap();
        // Both lines, for both widths.
        assert_eq!(svg.matches("a &lt;line&gt;").count(), 4);
        assert!(svg.contains("line-cpu") && svg.contains("line-text"));
    }

    #[test]
    fn an_axis_on_the_right_has_its_own_scale() {
        assert_eq!(marks(&(0.0..0.163)), [0.0, 0.05, 0.1, 3.0 * 0.05]);
        assert_eq!(marks(&(3.0..9.0)), [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let mut two = figure(false, &[[0.0, 0.0], [1.0, 100.0]]);
        two.panels[0].right = "kJ".into();
        let energy = Series::through("energy", [(0.0, 0.0), (1.0, 2.0)]).on_the_right();
        two.panels[0].lines.push(energy);
        let svg = draw(&two).unwrap();
        assert!(svg.contains("kJ") && svg.contains("energy"), "{svg}");
    }

    #[test]
    fn the_range_of_one_value_is_not_empty() {
        for value in [0.0, -3.0, 2_f64.powi(53), -1e17, f64::from(f32::MAX)] {
            let range = range([value; 2].into_iter());
            assert!(range.start < value && value < range.end, "{range:?}");
        }
        assert_eq!(range([7.0].into_iter()), 6.0..8.0);
    }

    #[test]
    fn odd_points_are_drawn_without_complaint() {
        for points in [
            &[][..],
            &[[1.0, 1.0]],
            &[[1e20, -3e38]],
            &[[0.0, 0.0], [1.0, -1.0]],
            &[[1.0, f32::NAN], [2.0, f32::INFINITY]],
            &[[1e-38, 1e-38], [3e38, 3e38]],
        ] {
            for is_log in [false, true] {
                assert!(draw(&figure(is_log, points)).is_ok(), "{points:?}");
            }
            let mut map = figure(false, points);
            map.panels[0].is_map = true;
            assert!(draw(&map).is_ok(), "{points:?}");
        }
        assert!(draw(&Figure::default()).is_ok());
    }

    #[test]
    fn a_place_without_finite_coordinates_is_left_out_of_a_map() {
        for at in [[f32::INFINITY; 2], [f32::NEG_INFINITY; 2], [0.0, f32::NAN]] {
            let mut map = figure(false, &[[0.0, 0.0], [1.0, 1.0]]);
            map.panels[0].is_map = true;
            let name = "nowhere".into();
            map.panels[0].points = vec![crate::figure::Point { name, at }];
            let svg = draw(&map).unwrap();
            assert!(!svg.contains("nowhere"), "{at:?}");
        }
    }

    /// Returns the values of a numeric attribute, in the order of their elements in the SVG.
    fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
        let start = format!(" {attribute}=\"");
        let rests = svg.split(&start).skip(1);
        rests
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn a_map_has_one_scale_and_names_its_places() {
        let mut map = figure(false, &[]);
        let panel = &mut map.panels[0];
        panel.is_map = true;
        for (name, at) in [("a", (0.0, 0.0)), ("b", (4.0, 0.0)), ("c", (0.0, 4.0))] {
            panel.points.push(crate::figure::Point::new(name, at));
        }
        let svg = draw_at(&map, Width::Wide).unwrap();
        for name in ["a", "b", "c", "x"] {
            assert!(
                svg.contains(&format!("\n{name}\n")),
                "{name} is missing: {svg}"
            );
        }
        let (xs, ys) = (numbers(&svg, "cx"), numbers(&svg, "cy"));
        let (across, up) = (xs[1] - xs[0], ys[0] - ys[2]);
        assert!(
            (across - up).abs() <= 1.0 && across > 100.0,
            "{across} {up}"
        );
        assert_eq!((xs[0], ys[0]), (xs[2], ys[1]));
    }
}
