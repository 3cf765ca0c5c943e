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
    #[expect(clippy::cast_possible_truncation, reason = "both are within ±301")]
    let (low, high) = (low.floor() as i32, high.ceil() as i32);
    low..high.max(low + 1)
}

/// Formats the label of a tick on a logarithmic axis without trailing zeros: `0.01`, `1`, `100`,
/// `10⁶`. Rounds to twelve significant digits, because ticks are products of a step or a power of
/// ten and have rounding errors.
#[must_use]
pub fn mark(value: &f64) -> String {
    const PLAIN: Range<f64> = 0.000_99..9_999.0;
    if PLAIN.contains(value) {
        return format!("{}", (value * 1e4).round() / 1e4);
    }
    let text = format!("{value:.11e}");
    let Some((factor, exponent)) = text.split_once('e') else {
        return text;
    };
    let exponent = superscript(exponent);
    match factor.trim_end_matches('0').trim_end_matches('.') {
        "1" => format!("10{exponent}"),
        factor => format!("{factor}·10{exponent}"),
    }
}

/// Formats the label of a tick on a linear axis without trailing zeros: `−0.25`, `0`, `20000`.
#[must_use]
pub fn linear_mark(value: &f64) -> String {
    const PLAIN: Range<f64> = 0.000_99..999_999.0;
    match value.abs() {
        0.0 => "0".to_owned(),
        // The minus sign is as wide as a digit; a hyphen is not.
        size if *value < 0.0 => format!("−{}", linear_mark(&size)),
        size if PLAIN.contains(&size) => format!("{}", (size * 1e6).round() / 1e6),
        size => mark(&size),
    }
}

/// Returns an integer in superscript digits.
fn superscript(digits: &str) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised = |letter: char| match letter.to_digit(10) {
        Some(digit) => RAISED[digit as usize],
        None => '⁻',
    };
    digits.chars().map(raised).collect()
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
            (1000.0, "1000"),
            (1e4, "10⁴"),
            (5e6, "5·10⁶"),
            (1e-5, "10⁻⁵"),
            (2.5e9, "2.5·10⁹"),
            (3.0 * 1e-4, "3·10⁻⁴"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(mark(&value), text);
        }
        // Some powers of ten are not exact.
        for exponent in (-300..-3).chain(4..=300) {
            let raised = superscript(&exponent.to_string());
            assert_eq!(mark(&10_f64.powi(exponent)), format!("10{raised}"));
        }
        for (value, text) in [(0.0, "0"), (-0.25, "−0.25"), (2e4, "20000"), (1e7, "10⁷")] {
            assert_eq!(linear_mark(&value), text);
        }
    }
}
