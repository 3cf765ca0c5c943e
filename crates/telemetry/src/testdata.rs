//! What tests share: the recordings in `testdata/power-traces`, and random numbers.

use crate::synthetic::{Piece, Program};

/// Length of a bin of the meter's files, in s.
const BIN_S: f64 = 0.005;

fn rows(file: &str) -> Vec<Vec<f64>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/power-traces");
    let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
    let numbers = |line: &str| line.split(';').map(|n| n.parse().unwrap()).collect();
    text.lines().skip(1).map(numbers).collect()
}

/// Gives times, in s, and a column of what the sensor told, in W.
pub(crate) fn sensor(name: &str, column: usize) -> Vec<(f64, f64)> {
    let rows = rows(&format!("{name}.sensor.csv"));
    rows.iter().map(|row| (row[0] / 1e3, row[column])).collect()
}

/// Gives the span of what the meter measured, in s.
pub(crate) fn meter_span_s(name: &str) -> (f64, f64) {
    let rows = rows(&format!("{name}.meter.csv"));
    (rows[0][0] / 1e3, rows[rows.len() - 1][0] / 1e3 + BIN_S)
}

/// Gives what the meter measured, as a program that begins at the sensor's first row and holds its outermost powers.
pub(crate) fn meter_program(name: &str) -> Program {
    let rows = rows(&format!("{name}.meter.csv"));
    let mut pieces = vec![Piece::level(rows[0][0] / 1e3, rows[0][1])];
    pieces.extend(rows.iter().map(|row| Piece::level(BIN_S, row[1])));
    Program {
        pieces,
        repeats: false,
    }
}

/// Random numbers by `SplitMix64` (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub u64);

impl Random {
    /// Gives one of 0..1, all alike.
    #[expect(clippy::cast_precision_loss, reason = "53 bits")]
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Gives one of an interval.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Gives one that is nearly normal, with mean 0 and variance 1: twelve uniform ones less six.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
