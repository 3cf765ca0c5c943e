//! Total energy of several devices.

use super::{Energy, Interval, digits};
use std::fmt;

/// The total energy of the devices whose energy is known.
#[derive(Clone, Debug, PartialEq)]
pub struct TotalEnergy {
    /// The estimate, in J.
    pub joules: f64,
    /// Bounds on the true total, the sums of the bounds of [`Energy::interval`], for the worst case
    /// that the errors of the devices add up.
    pub interval: Interval,
    /// Positions of the devices whose energy is unknown and not part of the total.
    pub missing: Vec<usize>,
}

impl TotalEnergy {
    /// Adds the energies of devices; returns `None` if no energy is known.
    #[must_use]
    pub fn from_devices<'a>(
        energies: impl IntoIterator<Item = Option<&'a Energy>>,
    ) -> Option<Self> {
        let zero = Interval {
            low_j: 0.0,
            high_j: 0.0,
        };
        let (mut joules, mut interval, mut missing) = (0.0, zero, vec![]);
        let mut n_known = 0;
        for (device, energy) in energies.into_iter().enumerate() {
            let Some(energy) = energy else {
                missing.push(device);
                continue;
            };
            n_known += 1;
            joules += energy.joules;
            interval.low_j += energy.interval.low_j;
            interval.high_j += energy.interval.high_j;
        }
        (n_known > 0).then_some(Self {
            joules,
            interval,
            missing,
        })
    }

    /// Returns whether the energy of every device is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

impl fmt::Display for TotalEnergy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} J {}", digits(self.joules), self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_of_no_known_energy_is_unknown() {
        assert_eq!(TotalEnergy::from_devices([]), None);
        assert_eq!(TotalEnergy::from_devices([None, None]), None);
    }
}
