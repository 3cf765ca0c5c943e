//! Charts of quantities over time: strips one above the other, with one axis of time.
//!
//! Role: draws the figures of the page, with the inks and the drawing library of `charts`.
//! Method: readings are drawn as steps, because a sensor's value holds until its next reading. A
//! line ends where readings end. Of a long line, each column of the chart has at most two points,
//! the minimum and the maximum, so no peak is lost and the size does not grow with the duration.

use std::ops::Range;

use charts::plotters::prelude::*;
use charts::plotters::style::text_anchor::{HPos, VPos};
use charts::{Canvas, Error, Ink, Width, axis, drawing, picture};

/// Height of the title of a strip, in pixels.
const TITLE: u32 = 20;
/// Height of the axis of time, in pixels.
const ACROSS: u32 = 40;
/// Width of the labels on the left, in pixels.
const LEFT: u32 = 52;
/// Margin on the right, in pixels.
const RIGHT: u32 = 18;
/// Least distance between two labels of the axis of time, in pixels.
const LABEL_DISTANCE: u32 = 100;
/// Size of a text, in pixels.
const SMALL: u32 = 12;
/// Approximate width of a character, in pixels.
const LETTER: i32 = 7;
/// Space between two names in the title of a strip, in pixels.
const GAP: i32 = 8;
/// Free space above the highest value, as a share of the range.
const HEADROOM: f64 = 0.08;
/// Largest end of an axis. The drawing library never returns if a tick is near the limit of f64.
const LARGEST: f64 = 1e300;

/// A chart over a range of time.
pub(crate) struct Chart {
    /// Description for screen readers.
    pub(crate) label: String,
    /// Range of time, in s.
    pub(crate) time_s: Range<f64>,
    pub(crate) strips: Vec<Strip>,
    /// Named regions of code with their times, in s.
    pub(crate) regions: Vec<(String, Range<f64>)>,
}

/// A plot of quantities with one unit.
pub(crate) struct Strip {
    /// Quantity and unit.
    pub(crate) title: String,
    /// Height of the plot without title and axis, in pixels.
    pub(crate) height: u32,
    /// Range of values; `None` for 0 to the highest value.
    pub(crate) values: Option<Range<f64>>,
    pub(crate) lines: Vec<Line>,
    /// Times without readings, in s.
    pub(crate) gaps: Vec<Range<f64>>,
}

/// A line of a strip.
pub(crate) struct Line {
    /// Name in the title of the strip; may be empty.
    pub(crate) name: String,
    pub(crate) ink: Ink,
    /// Points (s, value) of each part of the line, in the order of time.
    pub(crate) parts: Vec<Vec<(f64, f64)>>,
    /// Points (s, low, high) of a band behind the line.
    pub(crate) band: Vec<(f64, f64, f64)>,
}

impl Strip {
    fn range(&self) -> Range<f64> {
        if let Some(values) = &self.values {
            return values.clone();
        }
        let points = self
            .lines
            .iter()
            .flat_map(|line| line.parts.iter().flatten());
        let bands = self.lines.iter().flat_map(|line| &line.band);
        from_zero(points.map(|point| point.1).chain(bands.map(|band| band.2)))
    }
}

/// Returns the range of an axis from 0 to the highest value, with free space above.
pub(crate) fn from_zero(values: impl Iterator<Item = f64>) -> Range<f64> {
    let high = values.fold(0.0, f64::max);
    0.0..if high > 0.0 {
        (high * (1.0 + HEADROOM)).min(LARGEST)
    } else {
        1.0
    }
}

/// Draws a chart as SVG, for wide and for narrow screens.
///
/// # Errors
/// An error of the drawing backend.
pub(crate) fn draw(chart: &Chart) -> Result<String, Error> {
    charts::for_both(|width| draw_at(chart, width))
}

fn draw_at(chart: &Chart, width: Width) -> Result<String, Error> {
    let strips = chart.strips.iter().map(|strip| strip.height + TITLE);
    let height = strips.sum::<u32>() + ACROSS;
    picture((width.px(), height), &chart.label, |canvas| {
        let mut rest = canvas.clone();
        for (idx, strip) in chart.strips.iter().enumerate() {
            let is_last = idx + 1 == chart.strips.len();
            let across = if is_last { ACROSS } else { 0 };
            let (area, below) = rest.split_vertically(strip.height + TITLE + across);
            draw_strip(&area, chart, strip, across, idx == 0)?;
            rest = below;
        }
        Ok(())
    })
}

/// Returns the unit of a range of time with its length in s.
fn time_unit(time_s: &Range<f64>) -> (f64, &'static str) {
    const UNITS: [(f64, &str); 3] = [(3600.0, "h"), (60.0, "min"), (1.0, "s")];
    /// Number of units from which on a unit is used.
    const ENOUGH: f64 = 10.0;
    let length_s = time_s.end - time_s.start;
    let fits = UNITS.into_iter().find(|(s, _)| length_s >= ENOUGH * s);
    fits.unwrap_or(UNITS[2])
}

fn draw_strip(
    canvas: &Canvas<'_>,
    chart: &Chart,
    strip: &Strip,
    across: u32,
    is_first: bool,
) -> Result<(), Error> {
    let (per_unit, unit) = time_unit(&chart.time_s);
    let up = strip.range();
    let scaled = chart.time_s.start / per_unit..chart.time_s.end / per_unit;
    let mut plot = ChartBuilder::on(canvas)
        .margin_top(TITLE)
        .margin_right(RIGHT)
        .x_label_area_size(across)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(scaled.clone(), up.clone())
        .map_err(drawing)?;
    let shaded = |ink: Ink, share: f64, times: &Range<f64>| {
        let [from, to] =
            [times.start, times.end].map(|s| (s / per_unit).clamp(scaled.start, scaled.end));
        Rectangle::new(
            [(from, up.start), (to, up.end)],
            ink.marker().mix(share).filled(),
        )
    };
    let regions = chart
        .regions
        .iter()
        .map(|(_, times)| shaded(Ink::Grid, 0.5, times));
    plot.draw_series(regions).map_err(drawing)?;
    plot.configure_mesh()
        .x_labels((canvas.dim_in_pixel().0 / LABEL_DISTANCE).clamp(3, 8) as usize)
        .y_labels(if strip.height > 90 { 5 } else { 3 })
        .x_label_formatter(&axis::linear_mark)
        .y_label_formatter(&axis::linear_mark)
        .x_desc(if across > 0 {
            format!("time ({unit})")
        } else {
            String::new()
        })
        .axis_style(Ink::Grid.line(1))
        .bold_line_style(Ink::Grid.line(1))
        .light_line_style(TRANSPARENT)
        .label_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Center))
        .axis_desc_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Center))
        .draw()
        .map_err(drawing)?;
    let gaps = strip
        .gaps
        .iter()
        .map(|times| shaded(Ink::Alarm, 0.15, times));
    plot.draw_series(gaps).map_err(drawing)?;
    let placed = |s: f64, value: f64| (s / per_unit, value.min(up.end));
    for line in &strip.lines {
        let lower = line.band.iter().map(|&(s, low, _)| placed(s, low));
        let upper = line.band.iter().rev().map(|&(s, _, high)| placed(s, high));
        let outline: Vec<_> = lower.chain(upper).collect();
        if !outline.is_empty() {
            let band = Polygon::new(outline, line.ink.marker().mix(0.25).filled());
            plot.draw_series([band]).map_err(drawing)?;
        }
        for part in &line.parts {
            let points = part.iter().map(|&(s, value)| placed(s, value));
            let solid = LineSeries::new(points, line.ink.line(2));
            plot.draw_series(solid).map_err(drawing)?;
        }
    }
    titles(canvas, strip)?;
    if is_first {
        let corner = canvas.get_base_pixel();
        let left = |s: f64| plot.backend_coord(&(s / per_unit, up.end)).0 - corner.0;
        for (name, times) in &chart.regions {
            let room = (left(times.end) - left(times.start)) / LETTER - 1;
            let room = usize::try_from(room).unwrap_or(0);
            let Some(name) = shortened(name, room) else {
                continue;
            };
            let style = Ink::Muted.text(SMALL, HPos::Left, VPos::Bottom);
            // At the bottom, where a line of power seldom is.
            let bottom = i32::try_from(TITLE + strip.height).unwrap_or(0) - 3;
            let text = Text::new(name, (left(times.start) + 4, bottom), style);
            canvas.draw(&text).map_err(drawing)?;
        }
    }
    Ok(())
}

/// Writes the title of a strip and the names of its lines above the plot.
fn titles(canvas: &Canvas<'_>, strip: &Strip) -> Result<(), Error> {
    let mut x = i32::try_from(LEFT).unwrap_or(0);
    let y = i32::try_from(TITLE).unwrap_or(0) - 5;
    let title = (Ink::Text, strip.title.as_str());
    let lines = strip
        .lines
        .iter()
        .map(|line| (line.ink, line.name.as_str()));
    for (ink, name) in [title].into_iter().chain(lines) {
        let style = ink.text(SMALL, HPos::Left, VPos::Bottom);
        let text = Text::new(name.to_owned(), (x, y), style);
        canvas.draw(&text).map_err(drawing)?;
        x += i32::try_from(name.chars().count()).unwrap_or(0) * LETTER + GAP;
    }
    Ok(())
}

/// Returns a name with at most `room` characters; `None` if too few would remain.
fn shortened(name: &str, room: usize) -> Option<String> {
    const LEAST: usize = 3;
    if name.chars().count() <= room {
        return Some(name.to_owned());
    }
    let kept: String = name.chars().take(room.saturating_sub(1)).collect();
    (room >= LEAST).then(|| kept + "…")
}

/// Returns the corners of steps through points: each value holds until the next point, and the
/// last one until `end_s`.
pub(crate) fn steps(points: &[(f64, f64)], end_s: f64) -> Vec<(f64, f64)> {
    let mut corners = Vec::with_capacity(2 * points.len());
    for (idx, &(s, value)) in points.iter().enumerate() {
        let next_s = points.get(idx + 1).map_or(end_s, |next| next.0);
        if corners.last().is_none_or(|&(_, last)| last != value) {
            corners.push((s, value));
        } else {
            corners.pop();
        }
        corners.push((next_s.max(s), value));
    }
    corners
}

/// Returns the points to draw, in the order of time: of each column of `width` points, the minimum
/// and the maximum.
pub(crate) fn thinned(points: &[(f64, f64)], width: usize) -> Vec<(f64, f64)> {
    if width <= 2 {
        return points.to_vec();
    }
    let ends = |column: &[(f64, f64)]| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let least = column.iter().min_by(by_value).copied();
        let most = column.iter().max_by(by_value).copied();
        let mut ends: Vec<_> = least.into_iter().chain(most).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    };
    points.chunks(width).flat_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_each_value_until_the_next() {
        let points = [(0.0, 1.0), (1.0, 5.0), (2.0, 5.0), (3.0, 2.0)];
        assert_eq!(
            steps(&points, 4.0),
            [
                (0.0, 1.0),
                (1.0, 1.0),
                (1.0, 5.0),
                (3.0, 5.0),
                (3.0, 2.0),
                (4.0, 2.0)
            ]
        );
        assert!(steps(&[], 4.0).is_empty());
    }

    #[test]
    fn values_near_the_limit_of_f64_are_drawn() {
        for high in [1e-320, 1.0, 1e299, 8.9e307, f64::MAX, f64::INFINITY] {
            let line = Line {
                name: String::new(),
                ink: Ink::Text,
                parts: vec![vec![(0.0, 1.0), (1.0, high)]],
                band: vec![(0.0, 0.0, high), (1.0, 0.0, high)],
            };
            let strip = Strip {
                title: "power (W)".to_owned(),
                height: 100,
                values: None,
                lines: vec![line],
                gaps: vec![],
            };
            let chart = Chart {
                label: "power".to_owned(),
                time_s: 0.0..1.0,
                strips: vec![strip],
                regions: vec![],
            };
            assert!(draw(&chart).unwrap().contains("<svg"), "{high}");
        }
    }

    #[test]
    fn thinning_loses_no_peak() {
        let mut points: Vec<_> = (0..50_000).map(|i| (f64::from(i), 1.0)).collect();
        points[12_345].1 = 9.0;
        points[40_000].1 = -3.0;
        let thin = thinned(&points, 200);
        assert!(thin.len() <= 500);
        assert!(thin.contains(&(12_345.0, 9.0)) && thin.contains(&(40_000.0, -3.0)));
        assert!(thin.windows(2).all(|two| two[0].0 <= two[1].0));
        assert_eq!(thinned(&points[..500], 2), points[..500]);
    }

    #[test]
    fn long_names_of_regions_are_cut_and_very_short_ones_left_out() {
        assert_eq!(shortened("train", 5).as_deref(), Some("train"));
        assert_eq!(shortened("training", 5).as_deref(), Some("trai…"));
        assert_eq!(shortened("training", 2), None);
    }
}
