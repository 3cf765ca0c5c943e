//! Time since a trace began: the machine's, or one that stands still until it is told to go on.
//!
//! Role: what sleeps and what is measured go through [`Clock`], so a model of ten minutes is sampled in milliseconds, by
//! the same code that samples a machine.

use std::time::{Duration, Instant};

/// A clock that starts at zero.
pub trait Clock: Send {
    /// Gives the time.
    fn now(&self) -> Duration;

    /// Returns at a time, or at once if it is past.
    fn wait_until(&mut self, time: Duration);
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    start: Instant,
}

/// A clock that jumps to whatever is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Virtual {
    now: Duration,
}

impl Monotonic {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait_until(&mut self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.now()));
    }
}

impl Clock for Virtual {
    fn now(&self) -> Duration {
        self.now
    }

    fn wait_until(&mut self, time: Duration) {
        self.now = self.now.max(time);
    }
}
