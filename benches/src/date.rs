//! The current date in UTC, as text.
//!
//! Role: time stamps of records. Written here because date libraries include time zones, which a
//! record does not need.
//! Method: days since 1970-01-01 are shifted to count from a 1st of March, so that a leap day is
//! the last day of a year, and then split by the 400-year cycle of the Gregorian calendar.
//! Source: the calendar rule (Inter gravissimas, 1582) and RFC 3339.
//! Limits: no leap seconds, as in Unix time.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;
/// Days of 400 Gregorian years: 400 · 365 + 97 leap days.
const DAYS_PER_CYCLE: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01 in the proleptic calendar.
const EPOCH_FROM_MARCH_0000: u64 = 719_468;

/// Returns the current time as RFC 3339 in UTC, to the second: `2026-11-21T03:53:00Z`.
///
/// A clock set before 1970 counts as 1970.
#[must_use]
pub fn now() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    rfc3339(since_epoch.map_or(0, |elapsed| elapsed.as_secs()))
}

/// Returns a Unix time in seconds as RFC 3339 in UTC.
#[must_use]
pub fn rfc3339(unix_seconds: u64) -> String {
    let (year, month, day) = civil(unix_seconds / SECONDS_PER_DAY);
    let of_day = unix_seconds % SECONDS_PER_DAY;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Splits days since 1970-01-01 into year, month and day.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + EPOCH_FROM_MARCH_0000;
    let (cycle, day_of_cycle) = (shifted / DAYS_PER_CYCLE, shifted % DAYS_PER_CYCLE);
    // Remove the leap days (one per 4 years, none per 100, the last day of the cycle), so that
    // every year has 365 days.
    let leap_days = day_of_cycle / 1460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
    let year_of_cycle = (day_of_cycle - leap_days) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // From March on, the month lengths repeat every five months with 153 days in total, so that
    // `(153 * m + 2) / 5` is the first day of month `m`.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) = match month_from_march {
        0..=9 => (month_from_march + 3, 0),
        _ => (month_from_march - 9, 1),
    };
    (400 * cycle + year_of_cycle + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_spelled_right() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_000_000_000, "2001-09-09T01:46:40Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn every_day_of_800_years_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..2 * DAYS_PER_CYCLE {
            assert_eq!(civil(days), (year, month, day), "day {days}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 if leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
