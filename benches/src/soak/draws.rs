//! Random numbers in sequence, from which a step draws its inputs.

use tensor_core::rng::Philox;

/// A sequence of random numbers that depends on a seed alone.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    stream: Philox,
    next: u64,
}

impl Draws {
    /// Creates the sequence of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            stream: Philox::new(seed),
            next: 0,
        }
    }

    /// Returns a number in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        self.next += 1;
        self.stream.uniform_f64(self.next - 1)
    }

    /// Returns a number in [low, high).
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns an f32 in [low, high).
    #[expect(clippy::cast_possible_truncation, reason = "draws are rounded to f32")]
    pub(super) fn single(&mut self, low: f64, high: f64) -> f32 {
        self.between(low, high) as f32
    }

    /// Returns an integer from `low` to `high`, both included.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the product is at least 0 and below the number of integers"
    )]
    pub(super) fn integer(&mut self, low: usize, high: usize) -> usize {
        let n_integers = (high - low + 1) as f64;
        low + (self.unit() * n_integers) as usize
    }

    /// Returns whether an event of a probability happens.
    pub(super) fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns one of some choices.
    pub(super) fn choice<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.integer(0, choices.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_choices_reach_both_ends_and_no_further() {
        let mut draws = Draws::new(1);
        let mut seen = [0; 3];
        for _ in 0..100 {
            seen[draws.integer(4, 6) - 4] += 1;
            assert!((-2.0..3.0).contains(&draws.between(-2.0, 3.0)));
        }
        assert!(seen.iter().all(|&n| n > 10), "{seen:?}");
        let choices: Vec<u8> = (0..50).map(|_| draws.choice(&[7, 9])).collect();
        assert!(choices.contains(&7) && choices.contains(&9));
    }
}
