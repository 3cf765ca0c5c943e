//! Exponential backoff for finding a lost device again.

use std::time::Duration;

/// Pause before the first attempt. Each further pause is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// Backoff state of one device. A successful reading replaces it by the default.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    /// Time of the next attempt; `None` while the device is not lost.
    due: Option<Duration>,
    /// Pause before the next attempt.
    pause: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            due: None,
            pause: FIRST_LOOK,
        }
    }
}

impl Backoff {
    /// Records the loss of the device and schedules an attempt, unless one is scheduled already.
    pub(super) fn lost(&mut self, now: Duration) {
        self.due.get_or_insert(now.saturating_add(self.pause));
    }

    /// Returns whether an attempt is due. If so, schedules the next attempt after a longer pause.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        self.lost(now);
        if self.due.is_some_and(|due| now < due) {
            return false;
        }
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        self.due = Some(now.saturating_add(self.pause));
        true
    }
}
