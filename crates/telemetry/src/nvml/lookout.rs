//! When to look for a device that is lost.

use std::time::Duration;

/// Time until a lost device is first looked for; the next times, twice as long as before, up to the longest.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// Looks that become rarer, for as long as no reading works.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookout {
    /// When the next one is; none while nothing is lost.
    due: Option<Duration>,
    pause: Duration,
}

impl Default for Lookout {
    fn default() -> Self {
        Self {
            due: None,
            pause: FIRST_LOOK,
        }
    }
}

impl Lookout {
    /// Notes a loss, unless it is noted.
    pub(super) fn lost(&mut self, now: Duration) {
        self.due.get_or_insert(now.saturating_add(self.pause));
    }

    /// Whether it is time to look; if so, the next time is after a longer pause.
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
