//! Shared test helpers: recordings in `testdata/power-traces`, reads of sensors, random numbers.

use crate::synthetic::{PowerProfile, PowerSegment, Sensor};

/// Length of a bin of the meter's files, in s.
const BIN_S: f64 = 0.005;

fn rows(file: &str) -> Vec<Vec<f64>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/power-traces");
    let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
    let numbers = |line: &str| line.split(';').map(|n| n.parse().unwrap()).collect();
    text.lines().skip(1).map(numbers).collect()
}

/// Returns the times, in s, of a sensor's recording and the readings of one column, in W.
pub(crate) fn sensor(name: &str, column: usize) -> Vec<(f64, f64)> {
    let rows = rows(&format!("{name}.sensor.csv"));
    rows.iter().map(|row| (row[0] / 1e3, row[column])).collect()
}

/// Returns the start and the end of the meter's recording, in s.
pub(crate) fn meter_span_s(name: &str) -> (f64, f64) {
    let rows = rows(&format!("{name}.meter.csv"));
    (rows[0][0] / 1e3, rows[rows.len() - 1][0] / 1e3 + BIN_S)
}

/// Returns the meter's recording as a power profile that starts at the sensor's first row. Its
/// first and last powers also apply before and after the recording.
pub(crate) fn meter_profile(name: &str) -> PowerProfile {
    let rows = rows(&format!("{name}.meter.csv"));
    let mut pieces = vec![PowerSegment::level(rows[0][0] / 1e3, rows[0][1])];
    pieces.extend(rows.iter().map(|row| PowerSegment::level(BIN_S, row[1])));
    PowerProfile {
        pieces,
        repeats: false,
    }
}

/// Reads a sensor every `every_s` from 0 s to `until_s`; returns pairs of the time, in s, and the
/// reading, in W.
pub(crate) fn read(
    sensor: &Sensor,
    profile: &PowerProfile,
    every_s: f64,
    until_s: f64,
) -> Vec<(f64, f64)> {
    let mut series = vec![];
    let mut time_s = 0.0;
    while time_s < until_s {
        series.push((time_s, sensor.reported_w(profile, time_s)));
        time_s += every_s;
    }
    series
}

/// Random numbers by `SplitMix64` (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub u64);

impl Random {
    /// Returns a number that is uniformly distributed in 0..1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits")]
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number that is uniformly distributed in `low..high`.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Returns a nearly normal number with mean 0 and variance 1: the sum of twelve uniform numbers
    /// minus six.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
