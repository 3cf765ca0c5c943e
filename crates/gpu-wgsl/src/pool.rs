//! Memory pool of a device: buffers are reused by size class, and every byte is counted.
//!
//! Role: handles sizes and counts, without wgpu. `B` is the device's buffer type.
//! Method: a request is rounded up to one of 4 size classes per power of two, so a buffer is at
//! most a quarter larger than its request, and at least 256 bytes long. A returned buffer is stored
//! in its class for the next request. `live` and `peak` count the requested bytes; `reserved`
//! counts the bytes allocated on the device, including free buffers. The free bytes never exceed
//! the peak of the bytes in use or [`MIN_FREE_BYTES`], whichever is larger: beyond this limit, the
//! buffers that were returned first are dropped. The memory of a process that runs programs of ever
//! different sizes is therefore bounded.

use crate::Holder;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Smallest size class, in bytes. Every class is therefore a multiple of 4 bytes, which copies
/// require.
const MIN_CLASS_BYTES: u64 = 256;

/// Free bytes that a pool may always hold. The temporaries of small programs are reused even if
/// their sizes differ so much that together they need more than the peak.
const MIN_FREE_BYTES: u64 = 16 << 20;

/// A pool's byte and buffer counts at one moment.
///
/// Only buffers that callers allocate are counted. Internal buffers of a submission (parameters,
/// read-back, timestamps) are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    live_bytes: u64,
    peak_bytes: u64,
    reserved_bytes: u64,
    /// Peak of the bytes of the buffers in use, rounded up to size classes.
    peak_used_bytes: u64,
    n_reused: u64,
    n_created: u64,
}

impl PoolCounters {
    /// Returns the number of bytes in buffers that are in use.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Returns the maximum of `live_bytes`, since the device was opened or the peak was reset.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Returns the number of bytes that are allocated on the device for callers, in use or free,
    /// at most [`PoolCounters::max_reserved_bytes`].
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// Returns the limit of `reserved_bytes`: the peak in use and as many free bytes, at least
    /// 16 MiB. Here each buffer counts with its size on the device: its request rounded up by at
    /// most a quarter, and at least 256 bytes.
    #[must_use]
    pub fn max_reserved_bytes(&self) -> u64 {
        self.peak_used_bytes + self.max_free_bytes()
    }

    /// Returns the limit of the free bytes.
    fn max_free_bytes(&self) -> u64 {
        self.peak_used_bytes.max(MIN_FREE_BYTES)
    }

    /// Returns the number of requests that reused a free buffer.
    #[must_use]
    pub fn n_reused(&self) -> u64 {
        self.n_reused
    }

    /// Returns the number of requests that created a new buffer.
    #[must_use]
    pub fn n_created(&self) -> u64 {
        self.n_created
    }
}

/// Free buffers by size class, and the sizes of the live buffers.
#[derive(Debug)]
pub(crate) struct Pool<B> {
    /// Free buffers by size class, each with a number that counts returned buffers. The last buffer
    /// of a class was returned last.
    free: HashMap<u64, VecDeque<(u64, B)>>,
    /// Bytes of the free buffers.
    free_bytes: u64,
    /// Number of buffers that were returned so far.
    n_returned: u64,
    /// Name and size of each live allocation, by its number.
    live: BTreeMap<u64, (Arc<str>, u64)>,
    /// Number of allocations so far; the number of the last one.
    n_allocations: u64,
    counters: PoolCounters,
    budget_bytes: Option<u64>,
}

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Self {
            free: HashMap::new(),
            free_bytes: 0,
            n_returned: 0,
            live: BTreeMap::new(),
            n_allocations: 0,
            counters: PoolCounters::default(),
            budget_bytes: None,
        }
    }
}

impl<B> Pool<B> {
    /// Returns the size class of a request: the actual size of its buffer in bytes. The class
    /// exceeds `max_bytes` only if the request does.
    pub(crate) fn class_bytes(bytes: u64, max_bytes: u64) -> u64 {
        let bytes = bytes.max(MIN_CLASS_BYTES);
        // Four classes per power of two: 256, 320, 384, 448, 512, 640, ...
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
        self.counters.peak_used_bytes = self.used_bytes();
        self.drop_oldest();
    }

    pub(crate) fn set_budget(&mut self, bytes: Option<u64>) {
        self.budget_bytes = bytes;
    }

    /// Returns the budget if an allocation of `bytes` would exceed the budget.
    pub(crate) fn exceeded_budget(&self, bytes: u64) -> Option<u64> {
        self.budget_bytes
            .filter(|budget| self.counters.live_bytes.saturating_add(bytes) > *budget)
    }

    /// Returns the names with the most live bytes, the largest first, at most five.
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

    /// Takes a free buffer of the class `class_bytes`, if there is one, and counts it as live.
    /// Returns the buffer and the number of the allocation.
    pub(crate) fn take(
        &mut self,
        name: &Arc<str>,
        bytes: u64,
        class_bytes: u64,
    ) -> Option<(B, u64)> {
        let (_, buffer) = self.free.get_mut(&class_bytes)?.pop_back()?;
        self.free_bytes -= class_bytes;
        self.counters.n_reused += 1;
        Some((buffer, self.count_live(name, bytes)))
    }

    /// Counts a buffer that the device just created for a request of `bytes`. Returns the number of
    /// the allocation, for [`Pool::release`].
    pub(crate) fn created(&mut self, name: &Arc<str>, bytes: u64, class_bytes: u64) -> u64 {
        self.counters.n_created += 1;
        self.counters.reserved_bytes += class_bytes;
        self.count_live(name, bytes)
    }

    /// Returns the buffer of an allocation to its size class, for reuse, and drops the buffers that
    /// exceed the limit of free bytes.
    pub(crate) fn release(&mut self, number: u64, class_bytes: u64, buffer: B) {
        if let Some((_, bytes)) = self.live.remove(&number) {
            self.counters.live_bytes -= bytes;
        }
        self.n_returned += 1;
        let returned = (self.n_returned, buffer);
        self.free
            .entry(class_bytes)
            .or_default()
            .push_back(returned);
        self.free_bytes += class_bytes;
        self.drop_oldest();
    }

    /// Drops every free buffer.
    pub(crate) fn trim(&mut self) {
        self.counters.reserved_bytes -= self.free_bytes;
        self.free_bytes = 0;
        self.free.clear();
    }

    /// Drops free buffers, the first returned first, until the rest is within the limit.
    fn drop_oldest(&mut self) {
        while self.free_bytes > self.counters.max_free_bytes() {
            let oldest = self
                .free
                .iter_mut()
                .min_by_key(|(_, buffers)| buffers.front().map_or(u64::MAX, |&(number, _)| number));
            let Some((&class_bytes, buffers)) = oldest else {
                return;
            };
            buffers.pop_front();
            if buffers.is_empty() {
                self.free.remove(&class_bytes);
            }
            self.free_bytes -= class_bytes;
            self.counters.reserved_bytes -= class_bytes;
        }
    }

    /// Returns the bytes of the buffers in use, rounded up to size classes.
    fn used_bytes(&self) -> u64 {
        self.counters.reserved_bytes - self.free_bytes
    }

    fn count_live(&mut self, name: &Arc<str>, bytes: u64) -> u64 {
        self.n_allocations += 1;
        self.live
            .insert(self.n_allocations, (Arc::clone(name), bytes));
        self.counters.live_bytes += bytes;
        self.counters.peak_bytes = self.counters.peak_bytes.max(self.counters.live_bytes);
        let used_bytes = self.used_bytes();
        self.counters.peak_used_bytes = self.counters.peak_used_bytes.max(used_bytes);
        self.n_allocations
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
        pool.release(number, class, 7);
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
        pool.release(number, class, 7);
        pool.trim();
        assert_eq!(pool.counters().reserved_bytes, 0);
    }

    #[test]
    fn free_buffers_beyond_the_limit_are_dropped_in_the_order_of_their_return() {
        let mut pool = Pool::default();
        let name: Arc<str> = "x".into();
        let mut next = 0_u64;
        let mut returned = |pool: &mut Pool<u64>, mib: u64| {
            let class = mib << 20;
            let taken = pool.take(&name, class, class);
            let (buffer, number) = taken.unwrap_or_else(|| {
                next += 1;
                (next, pool.created(&name, class, class))
            });
            pool.release(number, class, buffer);
            buffer
        };
        // 16 MiB are always within the limit.
        for (mib, buffer) in [(7, 1), (5, 2), (4, 3), (7, 1), (5, 2)] {
            assert_eq!(returned(&mut pool, mib), buffer);
        }
        assert_eq!(pool.counters().reserved_bytes(), 16 << 20);
        // Buffer 3 of 4 MiB was returned first, so it is dropped.
        assert_eq!(returned(&mut pool, 3), 4);
        assert_eq!(pool.counters().reserved_bytes(), 15 << 20);
        assert_eq!(returned(&mut pool, 4), 5);
        assert_eq!(pool.counters().reserved_bytes(), 12 << 20);
        assert_eq!(returned(&mut pool, 5), 2);
        // A larger peak raises the limit until it is reset.
        assert_eq!(returned(&mut pool, 40), 6);
        assert_eq!(returned(&mut pool, 40), 6);
        assert_eq!(pool.counters().reserved_bytes(), 40 << 20);
        assert_eq!(returned(&mut pool, 30), 7);
        assert_eq!(pool.counters().reserved_bytes(), 30 << 20);
        assert_eq!(returned(&mut pool, 10), 8);
        assert_eq!(pool.counters().reserved_bytes(), 40 << 20);
        pool.reset_peak();
        assert_eq!(pool.counters().reserved_bytes(), 10 << 20);
    }

    #[test]
    fn memory_is_bounded_if_no_two_requests_have_the_same_size() {
        let mut pool = Pool::default();
        let name: Arc<str> = "x".into();
        let mut held = VecDeque::new();
        for bytes in (0..2000).map(|n| n * 65_536) {
            let class = Pool::<()>::class_bytes(bytes, u64::MAX);
            let (_, number) = pool
                .take(&name, bytes, class)
                .unwrap_or_else(|| ((), pool.created(&name, bytes, class)));
            held.push_back((number, class));
            if held.len() > 3 {
                let (number, class) = held.pop_front().unwrap();
                pool.release(number, class, ());
            }
            let counters = pool.counters();
            let limit = counters.max_reserved_bytes();
            assert!(counters.reserved_bytes() <= limit, "{counters:?}");
            let in_classes = (2 * counters.peak_bytes() + MIN_FREE_BYTES) / 4 * 5;
            assert!(limit <= in_classes, "{counters:?}");
        }
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
        pool.release(gone, 8192, ());
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
