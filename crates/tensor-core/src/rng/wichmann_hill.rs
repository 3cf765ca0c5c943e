//! The Wichmann-Hill generator, as implemented in Python before version 2.3.
//!
//! Role: reproduces published draws; use [`Philox`](super::Philox) for any other purpose.
//! Method: three linear congruential generators whose fractions are added modulo 1.
//! Source: Wichmann and Hill 1982, "Algorithm AS 183: an efficient and portable pseudo-random
//! number generator", Applied Statistics 31(2); seeding as in Python's old `whrandom`.
//! Limits: the period is about 7e12, which is far too short for parallel streams.

const MODULUS_X: u32 = 30269;
const MODULUS_Y: u32 = 30307;
const MODULUS_Z: u32 = 30323;

/// The generator of Wichmann and Hill, with a state of three parts; an infinite iterator of floats
/// in [0, 1).
///
/// # Examples
/// ```
/// use tensor_core::rng::WichmannHill;
/// let mut random = WichmannHill::seed(457_428_938_475);
/// assert_eq!(random.state(), (4976, 20238, 499));
/// assert_eq!(random.next_f64(), 0.7645251082582081);
/// ```
/// A copy of the state repeats the draws. This happens in forked processes, which print the same
/// "random" number:
/// ```
/// # use tensor_core::rng::WichmannHill;
/// let mut parent = WichmannHill::seed(457_428_938_475);
/// parent.by_ref().take(3).for_each(drop);
/// let mut child = parent.clone();
/// assert_eq!(parent.next_f64(), 0.9559050644103264);
/// assert_eq!(child.next_f64(), 0.9559050644103264);
/// ```
/// [`Philox`](super::Philox) avoids this problem by separate streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WichmannHill {
    x: u32,
    y: u32,
    z: u32,
}

impl WichmannHill {
    /// Creates a generator by splitting a seed into three states between 1 and modulus − 1. Every
    /// seed is allowed: 0 results in the states (1, 1, 1), and seeds beyond the 2.8e13 possible
    /// states wrap around.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        let mut rest = seed;
        Self {
            x: split_off(&mut rest, MODULUS_X),
            y: split_off(&mut rest, MODULUS_Y),
            z: split_off(&mut rest, MODULUS_Z),
        }
    }

    /// Returns the three states.
    #[must_use]
    pub fn state(&self) -> (u32, u32, u32) {
        (self.x, self.y, self.z)
    }

    /// Returns the next number, in [0, 1).
    pub fn next_f64(&mut self) -> f64 {
        self.x = 171 * self.x % MODULUS_X;
        self.y = 172 * self.y % MODULUS_Y;
        self.z = 170 * self.z % MODULUS_Z;
        let share = |state: u32, modulus: u32| f64::from(state) / f64::from(modulus);
        (share(self.x, MODULUS_X) + share(self.y, MODULUS_Y) + share(self.z, MODULUS_Z)) % 1.0
    }
}

impl Iterator for WichmannHill {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        Some(self.next_f64())
    }
}

/// Takes one state from the remaining seed: the remainder modulo the range becomes the state, the
/// quotient remains.
fn split_off(rest: &mut u64, modulus: u32) -> u32 {
    let range = u64::from(modulus - 1);
    let state = *rest % range + 1;
    *rest /= range;
    u32::try_from(state).expect("a remainder is below its 32-bit divisor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notebooks_state_and_draws_come_out() {
        let random = WichmannHill::seed(457_428_938_475);
        assert_eq!(random.state(), (4976, 20238, 499));
        let draws: Vec<f64> = random.take(5).collect();
        let published = [
            0.7645251082582081,
            0.7920889799553945,
            0.06912886811267205,
            0.9559050644103264,
            0.840065633394744,
        ];
        assert_eq!(draws, published);
    }

    /// The expected values were computed in Python from the published recurrences.
    #[test]
    fn the_smallest_and_the_largest_seed_have_draws_too() {
        for (seed, state, draws) in [
            (
                0,
                (1, 1, 1),
                [0.01693090619965683, 0.8952539112379991, 0.11149102121645216],
            ),
            (
                u64::MAX,
                (25076, 17862, 20071),
                [0.5585444222018001, 0.3583719580577114, 0.061348976079041107],
            ),
        ] {
            let mut random = WichmannHill::seed(seed);
            assert_eq!(random.state(), state);
            assert_eq!([(); 3].map(|()| random.next_f64()), draws);
        }
    }

    #[test]
    fn every_seed_gives_states_that_never_stick_at_zero() {
        for seed in [0, 30267, 30268, 30268 * 30306, u64::MAX] {
            let mut random = WichmannHill::seed(seed);
            for _ in 0..1000 {
                assert!((0.0..1.0).contains(&random.next_f64()));
            }
            let (x, y, z) = random.state();
            assert!(x > 0 && y > 0 && z > 0, "{seed}");
        }
    }
}
