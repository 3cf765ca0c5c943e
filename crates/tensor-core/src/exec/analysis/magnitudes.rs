//! The terms of a sum, counted so that their statistics are known after each term.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hash::HashMap;

/// Statistics of the nonzero terms of a sum.
#[derive(Debug, Default)]
pub(super) struct Magnitudes {
    /// The number of occurrences of each term, by its bit pattern.
    counts: HashMap<u64, f64>,
    /// The sum of the squares of these numbers.
    squares: f64,
    n: usize,
    /// The bit patterns of the magnitudes that were not below a threshold so far. The bit patterns
    /// of positive floats are ordered as the floats.
    large: BinaryHeap<Reverse<u64>>,
}

impl Magnitudes {
    pub(super) fn push(&mut self, term: f64) {
        let count = self.counts.entry(term.to_bits()).or_default();
        self.squares += 2.0 * *count + 1.0;
        *count += 1.0;
        self.n += 1;
        self.large.push(Reverse(term.abs().to_bits()));
    }

    /// Returns the number of terms.
    pub(super) fn len(&self) -> usize {
        self.n
    }

    /// Returns the sum over all different terms of the squared number of their occurrences.
    pub(super) fn squares(&self) -> f64 {
        self.squares
    }

    /// Returns the number of terms with a magnitude below a threshold, which must not be less than
    /// at the previous call.
    pub(super) fn n_below(&mut self, threshold: f64) -> usize {
        let is_below = |&Reverse(bits): &Reverse<u64>| f64::from_bits(bits) < threshold;
        while self.large.peek().is_some_and(is_below) {
            self.large.pop();
        }
        self.n - self.large.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_all_terms_so_far() {
        let terms = [3.0, -1.0, 3.0, 0.5, -3.0, 3.0, 1e-300, -1.0];
        let mut magnitudes = Magnitudes::default();
        for (at, &term) in terms.iter().enumerate() {
            magnitudes.push(term);
            let so_far = &terms[..=at];
            let of = |term: f64| so_far.iter().filter(|&&other| other == term).count() as f64;
            let squares = so_far.iter().map(|&term| of(term)).sum::<f64>();
            assert_eq!(magnitudes.squares(), squares);
            let threshold = 0.4 * (at as f64 + 1.0);
            let below = so_far.iter().filter(|term| term.abs() < threshold);
            assert_eq!(magnitudes.n_below(threshold), below.count());
            assert_eq!(magnitudes.len(), at + 1);
        }
    }
}
