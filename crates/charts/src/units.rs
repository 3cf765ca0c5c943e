//! Formatting of numbers for people: at least three significant digits and a suitable unit.
//!
//! Role: formats the numbers of the terminal table and of the report; labels of plotted axes are in
//! `axis`.
//! Limits: a number that is not finite is shown as an en dash.

/// Text shown in place of a missing number.
pub const ABSENT: &str = "–";

/// Units of time with their sizes in seconds, largest first.
const TIMES: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
const BYTES: [(f64, &str); 4] = [
    ((1_u64 << 30) as f64, "GiB"),
    ((1_u64 << 20) as f64, "MiB"),
    (1024.0, "KiB"),
    (1.0, "B"),
];

/// Formats a time with its unit: `12.3 ms`.
#[must_use]
pub fn seconds(value: f64) -> String {
    with_unit(value, &TIMES)
}

/// Formats an interval of times in one unit: `12.1–13.4 ms`; if both ends are equal after rounding,
/// only one is shown.
#[must_use]
pub fn seconds_range(low: f64, high: f64) -> String {
    if !(low.is_finite() && high.is_finite()) {
        return ABSENT.to_owned();
    }
    let (scale, unit) = fitting(high, &TIMES);
    let (low, high) = (digits(low / scale), digits(high / scale));
    if low == high {
        format!("{low} {unit}")
    } else {
        format!("{low}–{high} {unit}")
    }
}

/// Formats a memory size: `5.86 GiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    with_unit(value, &BYTES)
}

/// Formats a fraction as a percentage: `12.3 %`.
#[must_use]
pub fn percent(fraction: f64) -> String {
    if fraction.is_finite() {
        format!("{} %", digits(fraction * 100.0))
    } else {
        ABSENT.to_owned()
    }
}

/// Formats a ratio: `12.3×`.
#[must_use]
pub fn times(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{}×", digits(ratio))
    } else {
        ABSENT.to_owned()
    }
}

/// SI prefixes with their factors, largest first.
const PREFIXES: [(f64, &str); 9] = [
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
];

/// Formats a number with three significant digits and an SI prefix, for a column or axis whose
/// title has the unit: `5.63 G`.
#[must_use]
pub fn si(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    with_unit(value, &PREFIXES).trim_end().to_owned()
}

/// Formats the label of a tick with an SI prefix, without trailing zeros: `5 G`.
#[must_use]
pub fn si_tick(value: f64) -> String {
    tick(value, &PREFIXES)
}

/// Formats the label of a tick of times, without trailing zeros: `5 ms`.
#[must_use]
pub fn seconds_tick(value: f64) -> String {
    tick(value, &TIMES)
}

fn tick(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let (scale, unit) = fitting(value, units);
    let rounded = (1e3 * value / scale).round() / 1e3;
    format!("{rounded} {unit}").trim_end().to_owned()
}

/// Formats an amount per second with an SI prefix and the unit, whose own prefix is ignored if
/// [`split_prefix`] splits it off: `149 GFLOP/s`.
#[must_use]
pub fn rate(per_second: f64, unit: &str) -> String {
    let (number, base) = (si(per_second), split_prefix(unit).1);
    match number.split_once(' ') {
        Some((digits, prefix)) => format!("{digits} {prefix}{base}"),
        None => format!("{number} {base}"),
    }
}

/// Splits the prefix T, G or M from a unit: `GFLOP/s` is 10⁹ `FLOP/s`. A small k is part of the
/// unit, because words such as `kernels/s` begin with it.
#[must_use]
pub fn split_prefix(unit: &str) -> (f64, &str) {
    for (factor, prefix) in [(1e12, 'T'), (1e9, 'G'), (1e6, 'M')] {
        match unit.strip_prefix(prefix) {
            Some(base) if !base.is_empty() => return (factor, base),
            _ => {}
        }
    }
    (1.0, unit)
}

/// Formats the ends of an interval: `1.37–1.43`.
#[must_use]
pub fn range([low, high]: [f64; 2]) -> String {
    format!("{}–{}", digits(low), digits(high))
}

/// Formats a number with at least three significant digits, in plain notation between 0.001 and 10⁶
/// with all digits before the decimal point.
#[must_use]
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        ABSENT.to_owned()
    } else if value < 0.0 {
        // The minus sign is as wide as a digit; a hyphen is not.
        format!("−{}", digits(size))
    } else if size == 0.0 {
        "0".to_owned()
    } else if !(0.000_999_5..1e6).contains(&size) {
        format!("{value:.2e}")
    } else if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.9995 {
        format!("{value:.2}")
    } else if size >= 0.099_95 {
        format!("{value:.3}")
    } else if size >= 0.009_995 {
        format!("{value:.4}")
    } else {
        format!("{value:.5}")
    }
}

fn with_unit(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let (scale, unit) = fitting(value, units);
    format!("{} {unit}", digits(value / scale))
}

/// Returns the largest unit in which the rounded value is at least 1, or the smallest unit.
fn fitting<'a>(value: f64, units: &[(f64, &'a str)]) -> (f64, &'a str) {
    let fits = units
        .iter()
        .find(|(scale, _)| value.abs() >= 0.9995 * scale);
    *fits.unwrap_or(&units[units.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_unit_that_fits() {
        for (value, text) in [
            (12.34, "12.3 s"),
            (0.9996, "1.00 s"),
            (0.012_345, "12.3 ms"),
            (0.000_999_9, "1.00 ms"),
            (4.2e-6, "4.20 µs"),
            (3e-11, "0.0300 ns"),
            (0.0, "0 ns"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(seconds(value), text);
        }
    }

    #[test]
    fn prefixes_take_the_place_of_zeros() {
        for (value, text) in [
            (5.63e9, "5.63 G"),
            (999.6, "1.00 k"),
            (0.0068, "6.80 m"),
            (12.0, "12.0"),
            (0.0, "0"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(si(value), text);
        }
        assert_eq!((si_tick(5e9), si_tick(0.2)), ("5 G".into(), "200 m".into()));
        assert_eq!(seconds_tick(0.002), "2 ms");
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(
                (si_tick(value), seconds_tick(value)),
                ("–".into(), "–".into())
            );
        }
        assert_eq!(rate(1.5e11, "GFLOP/s"), "150 GFLOP/s");
        assert_eq!(rate(12.0, "games/s"), "12.0 games/s");
        assert_eq!(split_prefix("GFLOP/s"), (1e9, "FLOP/s"));
        assert_eq!(split_prefix("games/s"), (1.0, "games/s"));
        assert_eq!(split_prefix("G"), (1.0, "G"));
    }

    #[test]
    fn intervals_share_one_unit() {
        assert_eq!(seconds_range(0.0009, 0.0021), "0.900–2.10 ms");
        assert_eq!(seconds_range(0.2, 0.2), "200 ms");
        assert_eq!(seconds_range(0.1, f64::INFINITY), "–");
    }

    #[test]
    fn three_digits_remain_whatever_the_size() {
        for (value, text) in [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (0.012_34, "0.0123"),
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (9.996, "10.0"),
            (99.96, "100"),
            (1234.5, "1234"),
            (1.5e7, "1.50e7"),
            (1.5e-4, "1.50e-4"),
            (-2.5, "−2.50"),
        ] {
            assert_eq!(digits(value), text);
        }
    }

    #[test]
    fn sizes_fractions_and_ratios_have_their_signs() {
        assert_eq!(bytes(3_221_225_472.0), "3.00 GiB");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(percent(0.845), "84.5 %");
        assert_eq!(times(63.21), "63.2×");
        assert_eq!(times(f64::INFINITY), "–");
    }
}
