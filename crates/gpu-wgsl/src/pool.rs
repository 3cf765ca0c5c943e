//! Memory of a device: buffers are reused by size class, and every byte is counted.
//!
//! Role: knows sizes and counts, not wgpu; `B` is whatever the device calls a buffer.
//! Method: a request is rounded up to the next of 4 classes per power of two, so at most a quarter is wasted; a
//! buffer that is given back waits in its class for the next request. `live` and `peak` count what was asked for,
//! `reserved` what the device holds, waiting buffers included.

use crate::Holder;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Smallest class in bytes; also keeps every class a multiple of the 4 bytes that copies need.
const MIN_CLASS_BYTES: u64 = 256;

/// Bytes and buffers of a pool at one moment.
///
/// Counted are the buffers that callers allocate; what a device needs besides for one submission (parameters,
/// read-back, timestamps) is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    live_bytes: u64,
    peak_bytes: u64,
    reserved_bytes: u64,
    n_reused: u64,
    n_created: u64,
}

impl PoolCounters {
    /// Gives the bytes in buffers that somebody holds.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Gives the most that `live_bytes` ever was, or was since the peak was reset.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Gives the bytes that the device has allocated for callers, held or waiting for the next request.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// Gives the number of requests answered by a waiting buffer.
    #[must_use]
    pub fn n_reused(&self) -> u64 {
        self.n_reused
    }

    /// Gives the number of requests that needed a new buffer.
    #[must_use]
    pub fn n_created(&self) -> u64 {
        self.n_created
    }
}

/// Buffers by size class.
#[derive(Debug)]
pub(crate) struct Pool<B> {
    waiting: HashMap<u64, Vec<B>>,
    live: BTreeMap<u64, (Arc<str>, u64)>,
    n_given: u64,
    counters: PoolCounters,
    budget_bytes: Option<u64>,
}

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            live: BTreeMap::new(),
            n_given: 0,
            counters: PoolCounters::default(),
            budget_bytes: None,
        }
    }
}

impl<B> Pool<B> {
    /// Gives the size class of a request: the bytes that its buffer really has, never above `max_bytes`.
    pub(crate) fn class_bytes(bytes: u64, max_bytes: u64) -> u64 {
        let bytes = bytes.max(MIN_CLASS_BYTES);
        let step = (1_u64 << bytes.ilog2()) / 4;
        bytes
            .checked_next_multiple_of(step)
            .unwrap_or(bytes)
            .min(max_bytes.max(bytes))
    }

    pub(crate) fn counters(&self) -> PoolCounters {
        self.counters
    }

    pub(crate) fn reset_peak(&mut self) {
        self.counters.peak_bytes = self.counters.live_bytes;
    }

    pub(crate) fn set_budget(&mut self, bytes: Option<u64>) {
        self.budget_bytes = bytes;
    }

    /// Gives the budget if `bytes` more would exceed it.
    pub(crate) fn exceeded_budget(&self, bytes: u64) -> Option<u64> {
        self.budget_bytes
            .filter(|budget| self.counters.live_bytes.saturating_add(bytes) > *budget)
    }

    /// Gives the names that hold most bytes, the largest first, as many as a message bears.
    pub(crate) fn largest_holders(&self) -> Vec<Holder> {
        const MOST: usize = 5;
        let mut by_name: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for (name, bytes) in self.live.values() {
            let (n_buffers, total) = by_name.entry(name).or_default();
            (*n_buffers, *total) = (*n_buffers + 1, *total + bytes);
        }
        let holder = |(name, (n_buffers, bytes)): (&str, (usize, u64))| Holder {
            name: name.to_owned(),
            n_buffers,
            bytes,
        };
        let mut holders: Vec<Holder> = by_name.into_iter().map(holder).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        holders.truncate(MOST);
        holders
    }

    /// Takes a waiting buffer of the class of `bytes`, if there is one, and counts it as live.
    pub(crate) fn take(
        &mut self,
        name: &Arc<str>,
        bytes: u64,
        class_bytes: u64,
    ) -> Option<(B, u64)> {
        let buffer = self.waiting.get_mut(&class_bytes)?.pop()?;
        self.counters.n_reused += 1;
        Some((buffer, self.count_live(name, bytes)))
    }

    /// Counts a buffer that the device just created for a request of `bytes`; gives the number under which it is held.
    pub(crate) fn created(&mut self, name: &Arc<str>, bytes: u64, class_bytes: u64) -> u64 {
        self.counters.n_created += 1;
        self.counters.reserved_bytes += class_bytes;
        self.count_live(name, bytes)
    }

    /// Takes a buffer back, by its number; it waits for the next request of its class.
    pub(crate) fn give_back(&mut self, number: u64, class_bytes: u64, buffer: B) {
        if let Some((_, bytes)) = self.live.remove(&number) {
            self.counters.live_bytes -= bytes;
        }
        self.waiting.entry(class_bytes).or_default().push(buffer);
    }

    /// Lets go of every waiting buffer.
    pub(crate) fn trim(&mut self) {
        let freed: u64 = self
            .waiting
            .iter()
            .map(|(class, buffers)| class * buffers.len() as u64)
            .sum();
        self.counters.reserved_bytes -= freed;
        self.waiting.clear();
    }

    fn count_live(&mut self, name: &Arc<str>, bytes: u64) -> u64 {
        self.n_given += 1;
        self.live.insert(self.n_given, (Arc::clone(name), bytes));
        self.counters.live_bytes += bytes;
        self.counters.peak_bytes = self.counters.peak_bytes.max(self.counters.live_bytes);
        self.n_given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_a_quarter_and_keep_to_the_limit() {
        for bytes in [0, 1, 256, 257, 1000, 4096, 5000, 1 << 30, (1 << 31) - 1] {
            let class = Pool::<()>::class_bytes(bytes, 1 << 40);
            assert!(
                class >= bytes && class.is_multiple_of(4),
                "{bytes}: {class}"
            );
            assert!(
                class <= bytes.max(256) + bytes.max(256) / 4,
                "{bytes}: {class}"
            );
        }
        assert_eq!(Pool::<()>::class_bytes(900, 1000), 1000);
    }

    #[test]
    fn a_returned_buffer_is_reused_and_the_peak_stays() {
        let mut pool = Pool::default();
        let class = Pool::<u8>::class_bytes(1000, u64::MAX);
        let name: Arc<str> = "x".into();
        assert_eq!(pool.take(&name, 1000, class), None);
        let number = pool.created(&name, 1000, class);
        pool.give_back(number, class, 7);
        let (buffer, number) = pool.take(&name, 990, class).unwrap();
        assert_eq!(buffer, 7);
        let counters = pool.counters();
        assert_eq!(
            (
                counters.live_bytes,
                counters.peak_bytes,
                counters.reserved_bytes
            ),
            (990, 1000, class)
        );
        assert_eq!((counters.n_created, counters.n_reused), (1, 1));
        pool.give_back(number, class, 7);
        pool.trim();
        assert_eq!(pool.counters().reserved_bytes, 0);
    }

    #[test]
    fn who_holds_most_comes_first() {
        let mut pool = Pool::<()>::default();
        let names: [Arc<str>; 3] = ["few".into(), "many".into(), "gone".into()];
        pool.created(&names[0], 100, 256);
        for _ in 0..3 {
            pool.created(&names[1], 60, 256);
        }
        let gone = pool.created(&names[2], 5000, 8192);
        pool.give_back(gone, 8192, ());
        let holders = pool.largest_holders();
        let seen: Vec<_> = holders
            .iter()
            .map(|h| (&*h.name, h.n_buffers, h.bytes))
            .collect();
        assert_eq!(seen, [("many", 3, 180), ("few", 1, 100)]);
    }

    #[test]
    fn a_budget_counts_what_is_live() {
        let mut pool = Pool::<()>::default();
        pool.set_budget(Some(100));
        assert_eq!(pool.exceeded_budget(100), None);
        pool.created(&"x".into(), 60, 256);
        assert_eq!(pool.exceeded_budget(41), Some(100));
        assert_eq!(pool.exceeded_budget(u64::MAX), Some(100));
    }
}
