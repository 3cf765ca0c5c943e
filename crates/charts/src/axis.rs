//! Ranges and tick marks of logarithmic axes.

use std::ops::Range;

use plotters::coord::combinators::WithKeyPoints;
use plotters::prelude::{BindKeyPoints, IntoLogRange, LogCoord};

/// Maximum number of decades that are all marked; more labels would overlap.
const MOST_MARKS: i32 = 10;

/// A logarithmic axis with tick marks at decades.
pub type LogAxis = WithKeyPoints<LogCoord<f64>>;

/// Returns the axis over whole decades that covers all values, which must be positive and finite.
/// Without values it covers the decade from 1 to 10.
pub fn log_axis(values: impl Iterator<Item = f64>) -> LogAxis {
    let exponents = decades(values);
    // With very many decades, mark every `step`-th one.
    let step = (exponents.end - exponents.start) / MOST_MARKS + 1;
    let marks = (exponents.start..=exponents.end)
        .filter(|exponent| exponent % step == 0)
        .map(|exponent| 10_f64.powi(exponent));
    let range = 10_f64.powi(exponents.start)..10_f64.powi(exponents.end);
    range.log_scale().with_key_points(marks.collect())
}

/// Returns the range of exponents of ten that covers all values, at least one decade long.
fn decades(values: impl Iterator<Item = f64>) -> Range<i32> {
    // Powers of ten outside these limits overflow or lose precision.
    const LOWEST: f64 = -300.0;
    const HIGHEST: f64 = 300.0;
    let exponents = values.map(|value| value.log10().clamp(LOWEST, HIGHEST));
    let (low, high) = exponents.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(low, high), exponent| (low.min(exponent), high.max(exponent)),
    );
    if low > high {
        return 0..1;
    }
    #[expect(clippy::cast_possible_truncation, reason = "both lie within ±301")]
    let (low, high) = (low.floor() as i32, high.ceil() as i32);
    low..high.max(low + 1)
}

/// Formats the label of a decade without trailing zeros: `0.01`, `1`, `100`, `1e6`.
#[must_use]
pub fn mark(value: &f64) -> String {
    const PLAIN: Range<f64> = 0.000_99..99_999.0;
    if PLAIN.contains(value) {
        format!("{}", (value * 1e4).round() / 1e4)
    } else {
        format!("{value:e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_whole_decades_around_the_values() {
        assert_eq!(decades([0.3, 40.0].into_iter()), -1..2);
        assert_eq!(decades([5.0].into_iter()), 0..1);
        assert_eq!(decades([10.0].into_iter()), 1..2);
        assert_eq!(decades(std::iter::empty()), 0..1);
        assert_eq!(
            decades([f64::MIN_POSITIVE, f64::MAX].into_iter()),
            -300..300
        );
    }

    #[test]
    fn many_decades_are_marked_in_steps() {
        assert_eq!(log_axis([1.0, 1e4].into_iter()).bold_points().len(), 5);
        assert!(log_axis([1e-300, 1e300].into_iter()).bold_points().len() <= 11);
    }

    #[test]
    fn marks_are_short() {
        for (value, text) in [
            (0.001, "0.001"),
            (1.0, "1"),
            (1e4, "10000"),
            (1e6, "1e6"),
            (1e-5, "1e-5"),
        ] {
            assert_eq!(mark(&value), text);
        }
    }
}
