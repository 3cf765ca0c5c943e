//! The cost of messages between ranks.
//!
//! Role: [`Cluster::network`], for predictions and for the description of a machine.
//! Method: the first and the last rank exchange messages in both directions at a time, short ones
//! for the latency and long ones for the bandwidth. The shortest of several repetitions counts,
//! because other programs can only add to a time.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::ranks::Cluster;

/// The tag of the messages.
const TAG: mpi::Tag = 5;

/// The cost of messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// The time of a short message.
    pub latency: Duration,
    /// The bandwidth of long messages, in bytes per second.
    pub bandwidth: f64,
}

impl Cluster {
    /// Measures the cost of messages between the first and the last rank. Returns `None` if there
    /// is only one rank. All ranks call the function.
    ///
    /// Cost: 1,000 short messages and 84 MB in each direction.
    ///
    /// # Errors
    /// The errors of [`exchange`](Self::exchange).
    pub fn network(&self) -> Result<Option<Network>> {
        const SHORT: usize = 8;
        const LONG: usize = 1 << 22;
        let other = match (self.rank(), self.n_ranks()) {
            (_, 1) => return Ok(None),
            (0, n) => Some(n - 1),
            (rank, n) if rank + 1 == n => Some(0),
            _ => None,
        };
        let time = |len: usize, n_times: u32| {
            let Some(other) = other else {
                return Duration::MAX;
            };
            let (sent, mut received) = (vec![1_u8; len], vec![0_u8; len]);
            let repetition = |_| {
                let from = Instant::now();
                for _ in 0..n_times {
                    self.swap(TAG, &[(other, &sent[..])], vec![(other, &mut received[..])]);
                }
                from.elapsed() / n_times
            };
            (0..5).map(repetition).min().unwrap_or_default()
        };
        let before = self.traffic();
        let own = [time(SHORT, 200), time(LONG, 4)];
        // These messages are no part of a job.
        self.set_traffic(before);
        let [short, long] = self.exchange("network", &own)?[0];
        let difference = long.saturating_sub(short).max(Duration::from_nanos(1));
        Ok(Some(Network {
            latency: short,
            bandwidth: (LONG - SHORT) as f64 / difference.as_secs_f64(),
        }))
    }
}
