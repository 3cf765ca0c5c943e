//! Values as dots on a logarithmic scale, in cells of an HTML table.
//!
//! Role: the charts of `bench` that compare many values: a dot for each value, a line for its
//! interval, and small dots for single runs.
//! Method: positions are percentages of the cell's width, so that a chart fits any screen and its
//! numbers are text of the table. The style sheet draws the parts. On a logarithmic scale without a
//! natural zero, the length of a bar would mean nothing.

use std::fmt::Write;
use std::ops::RangeInclusive;

use crate::Ink;

/// Maximum number of labelled ticks of a scale; more would overlap in a narrow cell.
const MOST_TICKS: usize = 5;
/// Smallest ratio of the ends of a scale without its margins: values closer together than this are
/// not spread over the whole width. With both margins the ratio exceeds 2.5, the largest ratio of
/// two neighbours among 1, 2, 5 and 10, so that every scale has a tick.
const LEAST_RATIO: f64 = 2.1;
/// Factor between the outermost values and the ends of a scale.
const MARGIN: f64 = 1.1;
/// Distance from an end of the scale below which a label is aligned with its tick, in percent.
const EDGE: f64 = 6.0;
/// Exponents of ten that a scale can represent without overflow.
const EXPONENTS: RangeInclusive<f64> = -300.0..=300.0;

/// A logarithmic scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Logarithm (base 10) of the left end.
    low: f64,
    /// Logarithm (base 10) of the right end.
    high: f64,
}

/// A value with its interval and its single measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// The value.
    pub value: f64,
    /// Interval of the value; `None` if it is not known.
    pub interval: Option<[f64; 2]>,
    /// Single measurements.
    pub runs: Vec<f64>,
    /// Colour.
    pub ink: Ink,
    /// Explanation, shown when the pointer is over the dot.
    pub title: String,
}

/// A vertical line through a cell, such as a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Position.
    pub value: f64,
    /// Colour.
    pub ink: Ink,
}

impl Scale {
    /// Returns a scale that covers all positive, finite values; `None` without any.
    #[must_use]
    pub fn covering(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values = values.into_iter();
        let shown = values.filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = shown.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            return None;
        }
        let exponent = |value: f64| value.log10().clamp(*EXPONENTS.start(), *EXPONENTS.end());
        let (low, high) = (exponent(low), exponent(high));
        // A narrow range is widened symmetrically.
        let margin = MARGIN.log10() + 0.5 * (LEAST_RATIO.log10() - (high - low)).max(0.0);
        Some(Self {
            low: low - margin,
            high: high + margin,
        })
    }

    /// Returns the position of a value, in percent of the width.
    fn percent(self, value: f64) -> f64 {
        100.0 * ((value.log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Returns the values with labelled ticks, from one to [`MOST_TICKS`]: the multiples of powers
    /// of ten by 1, 2 and 5 on the scale or, if there are more than [`MOST_TICKS`] of these, every
    /// n-th power of ten.
    fn ticks(self) -> Vec<f64> {
        #[expect(clippy::cast_possible_truncation, reason = "both are within ±301")]
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        let decades = (first..=last).map(|exponent| 10_f64.powi(exponent));
        let inside = |factors: &[f64]| -> Vec<f64> {
            let values = decades.clone();
            let values = values.flat_map(|decade| factors.iter().map(move |f| f * decade));
            let is_inside = |value: &f64| (self.low..=self.high).contains(&value.log10());
            values.filter(is_inside).collect()
        };
        let fine = inside(&[1.0, 2.0, 5.0]);
        if fine.len() <= MOST_TICKS {
            return fine;
        }
        let coarse = inside(&[1.0]);
        let step = coarse.len().div_ceil(MOST_TICKS).max(1);
        coarse.into_iter().step_by(step).collect()
    }

    /// Returns the labelled ticks of the scale, for the head of the column.
    #[must_use]
    pub fn axis(self, label: impl Fn(f64) -> String) -> String {
        let mut html = String::from("<div class=\"ticks\">");
        for tick in self.ticks() {
            let at = self.percent(tick);
            let label = crate::escape(&label(tick));
            // Labels at the ends stay within the cell.
            let class = match at {
                at if at < EDGE => " class=\"first\"",
                at if at > 100.0 - EDGE => " class=\"last\"",
                _ => "",
            };
            let _ = write!(html, "<span{class} style=\"left:{at:.1}%\">{label}</span>");
        }
        html + "</div>"
    }

    /// Returns a cell's content: the ticks as faint lines, the marks, and the dots, each in a lane
    /// of its own.
    #[must_use]
    pub fn cell(self, marks: &[Mark], dots: &[Dot]) -> String {
        let mut html = String::from("<div class=\"track\" aria-hidden=\"true\">");
        let is_shown = |value: f64| value.is_finite() && value > 0.0;
        for tick in self.ticks() {
            let at = self.percent(tick);
            let _ = write!(html, "<i class=\"tick\" style=\"left:{at:.1}%\"></i>");
        }
        for mark in marks.iter().filter(|mark| is_shown(mark.value)) {
            let (at, ink) = (self.percent(mark.value), mark.ink.name());
            let _ = write!(
                html,
                "<i class=\"mark ink-{ink}\" style=\"left:{at:.1}%\"></i>"
            );
        }
        for dot in dots.iter().filter(|dot| is_shown(dot.value)) {
            let (ink, title) = (dot.ink.name(), crate::escape(&dot.title));
            let _ = write!(html, "<div class=\"lane ink-{ink}\" title=\"{title}\">");
            for run in dot.runs.iter().filter(|run| is_shown(**run)) {
                let at = self.percent(*run);
                let _ = write!(html, "<i class=\"run\" style=\"left:{at:.1}%\"></i>");
            }
            if let Some([low, high]) = dot.interval
                && is_shown(low)
                && is_shown(high)
            {
                let (from, to) = (self.percent(low), self.percent(high));
                let width = to - from;
                let _ = write!(
                    html,
                    "<i class=\"span\" style=\"left:{from:.1}%;width:{width:.1}%\"></i>"
                );
            }
            // A value without an interval decides nothing, so its dot is hollow.
            let class = match dot.interval {
                Some(_) => "dot",
                None => "dot hollow",
            };
            let at = self.percent(dot.value);
            let _ = write!(
                html,
                "<i class=\"{class}\" style=\"left:{at:.1}%\"></i></div>"
            );
        }
        html + "</div>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_covers_its_values_with_a_margin() {
        let scale = Scale::covering([1.0, 100.0, f64::NAN, 0.0, -3.0]).unwrap();
        assert!(scale.percent(1.0) > 0.5 && scale.percent(100.0) < 99.5);
        assert!((scale.percent(10.0) - 50.0).abs() < 1e-9);
        assert_eq!(Scale::covering([f64::INFINITY, 0.0]), None);
        // Nearly equal values stay close together.
        let narrow = Scale::covering([1.0, 1.01]).unwrap();
        assert!(narrow.percent(1.01) - narrow.percent(1.0) < 2.0);
        let extreme = Scale::covering([f64::MIN_POSITIVE, f64::MAX]).unwrap();
        assert!(extreme.ticks().len() <= MOST_TICKS);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let scale = Scale::covering([0.9, 11.0]).unwrap();
        assert_eq!(scale.ticks(), [1.0, 2.0, 5.0, 10.0]);
        let scale = Scale::covering([1.0, 1e6]).unwrap();
        assert_eq!(scale.ticks(), [1.0, 100.0, 1e4, 1e6]);
    }

    #[test]
    fn every_scale_has_a_tick_and_only_few() {
        // Values throughout two decades, alone and with a second value up to a thousand times as
        // large.
        const PER_DECADE: i32 = 200;
        for i in 0..2 * PER_DECADE {
            let low = 10_f64.powf(f64::from(i) / f64::from(PER_DECADE));
            for j in (0..=3 * PER_DECADE).step_by(7) {
                let high = low * 10_f64.powf(f64::from(j) / f64::from(PER_DECADE));
                let n_ticks = Scale::covering([low, high]).unwrap().ticks().len();
                assert!(
                    (1..=MOST_TICKS).contains(&n_ticks),
                    "{low} {high}: {n_ticks}"
                );
            }
        }
        for value in [3.15, f64::MIN_POSITIVE, f64::MAX] {
            assert!(
                !Scale::covering([value]).unwrap().ticks().is_empty(),
                "{value}"
            );
        }
    }

    #[test]
    fn a_dot_has_a_lane_with_its_interval_and_runs() {
        let scale = Scale::covering([1.0, 10.0]).unwrap();
        let dot = |interval| Dot {
            value: 3.0,
            interval,
            runs: vec![2.0, 4.0, f64::NAN],
            ink: Ink::Cpu,
            title: "a \"b\"".into(),
        };
        let html = scale.cell(
            &[Mark {
                value: 5.0,
                ink: Ink::Rival,
            }],
            &[dot(Some([2.5, 3.5])), dot(None)],
        );
        assert_eq!(html.matches("class=\"lane").count(), 2);
        assert_eq!(html.matches("class=\"run\"").count(), 4);
        assert_eq!(html.matches("class=\"span\"").count(), 1);
        assert_eq!(html.matches("dot hollow").count(), 1);
        assert!(html.contains("mark ink-rival") && html.contains("a &quot;b&quot;"));
    }
}
