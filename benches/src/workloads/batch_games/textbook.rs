//! Regret matching as in textbooks, the oracle of the workload.

use super::N;

/// State of regret matching in one game, as in textbooks. Arrays with a row for each player have
/// the row player first.
#[derive(Clone, Debug)]
pub(crate) struct Textbook {
    gains: [[f64; N]; N],
    iteration: u32,
    pub(super) strategies: [[f64; N]; 2],
    regrets: [[f64; N]; 2],
    sums: [[f64; N]; 2],
}

impl Textbook {
    pub(crate) fn new(gains: [[f64; N]; N]) -> Self {
        Self {
            gains,
            iteration: 0,
            strategies: [[1.0 / N as f64; N]; 2],
            regrets: [[0.0; N]; 2],
            sums: [[0.0; N]; 2],
        }
    }

    pub(crate) fn advance(&mut self, iterations: usize) {
        for _ in 0..iterations {
            self.iterate();
        }
    }

    fn iterate(&mut self) {
        self.iteration += 1;
        // `values[player][action]` is the payoff of an action against the opponent's current
        // strategy.
        let mut values = [[0.0; N]; 2];
        for row in 0..N {
            for col in 0..N {
                values[0][row] += self.gains[row][col] * self.strategies[1][col];
                values[1][col] -= self.gains[row][col] * self.strategies[0][row];
            }
        }
        for player in 0..2 {
            let (strategy, values) = (&mut self.strategies[player], values[player]);
            let worth: f64 = (0..N).map(|action| values[action] * strategy[action]).sum();
            let mut total = 0.0;
            for action in 0..N {
                // The textbook's order: the strategy just played enters the average, and its regret
                // is added before the next strategy is computed.
                self.sums[player][action] += strategy[action];
                self.regrets[player][action] += values[action] - worth;
                total += self.regrets[player][action].max(0.0);
            }
            for (p, regret) in strategy.iter_mut().zip(self.regrets[player]) {
                *p = if total > 0.0 {
                    regret.max(0.0) / total
                } else {
                    1.0 / N as f64
                };
            }
        }
    }

    /// Returns the average strategies; at least one iteration must have been done.
    pub(crate) fn average(&self) -> [[f64; N]; 2] {
        self.sums
            .map(|sums| sums.map(|sum| sum / f64::from(self.iteration)))
    }

    /// Returns the note's estimate of the error: twice the largest sum of regrets divided by the
    /// number of iterations.
    pub(crate) fn estimate(&self) -> f64 {
        let largest = self
            .regrets
            .iter()
            .flatten()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        2.0 * largest / f64::from(self.iteration)
    }
}

#[cfg(test)]
mod tests {
    use super::super::CRASH;
    use super::*;
    use tensor_core::compare::{Tolerance, assert_close};

    #[test]
    fn the_oracle_follows_the_reference() {
        let reference: serde_json::Value = serde_json::from_str(include_str!(
            "../../../../crates/games/testdata/games-reference.json"
        ))
        .unwrap();
        let traces = reference["rps_crash_traces"].as_array().unwrap();
        let is_ours =
            |trace: &&serde_json::Value| trace["variant"] == "textbook_rm_simultaneous_uniform";
        let trace = traces.iter().find(is_ours).unwrap()["trace"]
            .as_array()
            .unwrap();
        let mut learning = Textbook::new(CRASH);
        for row in trace
            .iter()
            .filter(|row| row["iteration"].as_u64() <= Some(1000))
        {
            while Some(u64::from(learning.iteration)) < row["iteration"].as_u64() {
                learning.iterate();
            }
            for (player, key) in ["row", "col"].into_iter().enumerate() {
                let expected = row[key].as_array().unwrap();
                let expected: Vec<f64> = expected.iter().filter_map(|p| p.as_f64()).collect();
                let tolerance = Tolerance::exact().or_absolute(1e-12);
                assert_close(learning.average()[player], expected, tolerance);
            }
        }
    }
}
