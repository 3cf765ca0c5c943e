//! Memory of this process over time, and the verdict whether it grows.
//!
//! Method: a reading has the resident memory of the process (Linux), the bytes that Rust code has
//! allocated, and those in use in the job's memory pools. No number includes the free memory of a
//! pool. A pool keeps free memory up to a limit that the executor documents, so a program that is
//! larger than all before adds some megabytes at once. A pool beyond its limit is a fault. The C
//! library's heaps, from which drivers allocate, return their free pages before each reading.
//! Readings of the first half of the time are left out. Caches fill and threads start in this time,
//! and heaps reach their final size, because one object keeps its page resident. Two numbers
//! describe the rest: the difference between the medians of its last and its first quarter, and the
//! median slope between two readings (Theil and Sen), times the distance of the two quarters. A
//! rare peak changes neither number, and a leak changes both. The memory is flat if both are at
//! most the larger of [`LEAST_BOUND`] and [`SHARE`] of the first median.
//! Bound: an allocator returns free memory late, and a table that doubles adds megabytes at once.
//! The growth of each job is in `xtask/record/soak.json`; a leak of 250 bytes in each of 100,000
//! results exceeds the bound. Large caches vary with their content, hence the
//! share of 2 %.
//! [`Growth::least_leak`] is the leak per result that a run would have found.
//! Source: Sen 1968, "Estimates of the regression coefficient based on Kendall's tau".
//! Known growth: where a driver itself loses memory, resident memory is measured and recorded with
//! that reason, and the verdict is that of the other kinds. A leak of Rust values or of buffers of
//! a pool appears in these kinds.
//! Limits: memory that grows more slowly is not found, nor is memory that is freed within a step.
//! Memory of a GPU is that of the pools alone.

use std::fs;

use gpu_wgsl::Gpu;
use harness::memory::{live_bytes, return_free_memory};
use serde::{Deserialize, Serialize};
use tensor_core::Host;

/// Smallest bound on growth, in bytes.
pub const LEAST_BOUND: u64 = 8 << 20;
/// Bound on growth as a share of the memory at the start.
pub const SHARE: f64 = 0.02;
/// Share of the time before the first reading that counts.
const WARM_UP: f64 = 0.5;
/// Smallest number of readings after the warm-up for a verdict.
const LEAST_READINGS: usize = 20;
/// Number of points of the curve in a record.
const N_POINTS: usize = 20;

/// Memory of the pool of an executor, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct PoolReading {
    /// Memory in use.
    pub used: u64,
    /// Memory in use or free.
    pub reserved: u64,
    /// Largest number of reserved bytes that the executor documents.
    pub max_reserved: u64,
    /// Whether Rust code allocates the memory.
    pub is_allocated: bool,
}

impl PoolReading {
    /// Reads the pool of a host executor, which keeps as many bytes as its peak in use.
    #[must_use]
    pub fn from_host(host: &Host) -> Self {
        // A `usize` has at most 64 bits.
        let [used, free, peak] =
            [host.live_bytes(), host.cached_bytes(), host.peak_bytes()].map(|bytes| bytes as u64);
        Self {
            used,
            reserved: used + free,
            max_reserved: 2 * peak,
            is_allocated: true,
        }
    }

    /// Reads the pool of a device.
    #[must_use]
    pub fn from_device(gpu: &Gpu) -> Self {
        let counters = gpu.pool();
        Self {
            used: counters.live_bytes(),
            reserved: counters.reserved_bytes(),
            max_reserved: counters.max_reserved_bytes(),
            is_allocated: false,
        }
    }

    /// Returns the bytes that are reserved and not in use.
    fn free(&self) -> u64 {
        self.reserved.saturating_sub(self.used)
    }

    /// Returns whether the pool keeps to its limit.
    #[must_use]
    pub fn is_within_limit(&self) -> bool {
        self.reserved <= self.max_reserved
    }
}

/// A reading of the memory of this process, without the free memory of pools.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Time since the start of the job, in seconds.
    pub time_s: f64,
    /// Resident memory in bytes; `None` if the system does not report it in `/proc`.
    pub resident: Option<u64>,
    /// Bytes that Rust code has allocated and not freed.
    pub allocated: u64,
    /// Bytes in use in the job's memory pools.
    pub pooled: Option<u64>,
}

impl Reading {
    /// Reads the memory of this process, which has a pool if the job has one.
    #[must_use]
    pub fn now(time_s: f64, pool: Option<&PoolReading>) -> Self {
        return_free_memory();
        // A `usize` has at most 64 bits.
        Self::new(time_s, resident_bytes(), live_bytes() as u64, pool)
    }

    /// Leaves out the free memory of the pool. The pool of a device has no memory of Rust code.
    fn new(time_s: f64, resident: Option<u64>, allocated: u64, pool: Option<&PoolReading>) -> Self {
        let free = pool.map_or(0, PoolReading::free);
        let free_in_rust = if pool.is_some_and(|pool| pool.is_allocated) {
            free
        } else {
            0
        };
        Self {
            time_s,
            resident: resident.map(|bytes| bytes.saturating_sub(free)),
            allocated: allocated.saturating_sub(free_in_rust),
            pooled: pool.map(|pool| pool.used),
        }
    }
}

/// Memory of a job, by its kind; a kind that the system or the job does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Resident memory of the process, without the free memory of pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<Growth>,
    /// Bytes that Rust code allocated, without the free memory of pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Growth>,
    /// Bytes in use in memory pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooled: Option<Growth>,
}

impl Memory {
    /// Judges readings in the order of time. `n_results` is the number of results of the job.
    #[must_use]
    pub fn judge(readings: &[Reading], n_results: u64) -> Self {
        let growth = |bytes: &dyn Fn(&Reading) -> Option<u64>| {
            let points = readings.iter();
            let points: Option<Vec<_>> = points
                .map(|reading| Some((reading.time_s, bytes(reading)? as f64)))
                .collect();
            Growth::of(&points?, n_results)
        };
        Self {
            resident: growth(&|reading| reading.resident),
            allocated: growth(&|reading| Some(reading.allocated)),
            pooled: growth(&|reading| reading.pooled),
        }
    }

    /// Returns whether all kinds of memory are flat, resident memory only if `with_resident`;
    /// `None` without a verdict.
    #[must_use]
    pub fn is_flat(&self, with_resident: bool) -> Option<bool> {
        let resident = if with_resident { &self.resident } else { &None };
        let kinds = [resident, &self.allocated, &self.pooled];
        let verdicts: Vec<bool> = kinds.into_iter().flatten().map(|kind| kind.flat).collect();
        (!verdicts.is_empty()).then(|| verdicts.iter().all(|&flat| flat))
    }
}

/// Growth of one kind of memory after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Growth {
    /// Number of readings.
    pub readings: usize,
    /// Median of the first quarter, in bytes.
    pub start_bytes: f64,
    /// Median of the last quarter minus that of the first, in bytes.
    pub growth_bytes: f64,
    /// Median slope times the distance of both quarters, in bytes.
    pub slope_bytes: f64,
    /// Bound on both, in bytes.
    pub bound_bytes: f64,
    /// Smallest leak per result of the most frequent kind that exceeds the bound, in bytes.
    pub least_leak: f64,
    /// Whether growth and slope are within the bound.
    pub flat: bool,
    /// Medians of equal parts of all readings, in MiB.
    pub curve_mib: Vec<f64>,
}

impl Growth {
    /// Judges points of time and bytes; `None` if there are too few.
    fn of(points: &[(f64, f64)], n_results: u64) -> Option<Self> {
        let end_s = points.last()?.0;
        let warm = points.partition_point(|point| point.0 < WARM_UP * end_s);
        let kept = &points[warm..];
        if kept.len() < LEAST_READINGS {
            return None;
        }
        let quarter = kept.len() / 4;
        let bytes = |points: &[(f64, f64)]| median(points.iter().map(|point| point.1).collect());
        let start_bytes = bytes(&kept[..quarter]);
        let growth_bytes = bytes(&kept[kept.len() - quarter..]) - start_bytes;
        let slopes = kept.iter().enumerate().flat_map(|(index, a)| {
            let later = kept[index + 1..].iter().filter(|b| b.0 > a.0);
            later.map(|b| (b.1 - a.1) / (b.0 - a.0))
        });
        let distance_s = 0.75 * (end_s - kept[0].0);
        let slope_bytes = median(slopes.collect()) * distance_s;
        let bound_bytes = (SHARE * start_bytes).max(LEAST_BOUND as f64);
        let share_of_time = if end_s > 0.0 { distance_s / end_s } else { 0.0 };
        let part = points.len().div_ceil(N_POINTS).max(1);
        Some(Self {
            readings: kept.len(),
            start_bytes,
            growth_bytes,
            slope_bytes: slope_bytes.round(),
            bound_bytes,
            least_leak: (bound_bytes / (n_results as f64 * share_of_time)).ceil(),
            flat: growth_bytes.max(slope_bytes) <= bound_bytes,
            curve_mib: points
                .chunks(part)
                .map(|part| (bytes(part) / f64::from(1 << 20) * 10.0).round() / 10.0)
                .collect(),
        })
    }
}

/// Returns the median of numbers; 0 without numbers.
fn median(mut numbers: Vec<f64>) -> f64 {
    if numbers.is_empty() {
        return 0.0;
    }
    let middle = numbers.len() / 2;
    *numbers.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> Option<u64> {
    const BYTES_PER_KIB: u64 = 1024;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * BYTES_PER_KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = (1 << 20) as f64;

    /// Judges an hour of 400 readings; `bytes` has the share of the time that has passed.
    fn judged(bytes: impl Fn(f64) -> f64) -> Growth {
        let share = |index: u32| f64::from(index) / 400.0;
        let points = (0..=400).map(|index| (3600.0 * share(index), bytes(share(index))));
        Growth::of(&points.collect::<Vec<_>>(), 1000).unwrap()
    }

    #[test]
    fn a_start_and_peaks_and_noise_are_flat() {
        let start = judged(|share| 100.0 * MIB * (2.0 * share).min(1.0));
        assert!(start.flat && start.growth_bytes.abs() < 1.0, "{start:?}");
        let peaks = judged(|share| if (share * 400.0) % 7.0 < 1.0 { 900.0 } else { 90.0 } * MIB);
        assert!(peaks.flat, "{peaks:?}");
        let noise = judged(|share| (100.0 + 6.0 * (share * 977.0).sin()) * MIB);
        assert!(noise.flat, "{noise:?}");
        let falling = judged(|share| (100.0 - 50.0 * share) * MIB);
        assert!(falling.flat && falling.growth_bytes < 0.0, "{falling:?}");
    }

    #[test]
    fn a_leak_and_a_late_step_grow() {
        let leak = judged(|share| (100.0 + 36.0 * share) * MIB);
        assert!(!leak.flat, "{leak:?}");
        // Between the centres of the quarters lie 0.75 of half the time.
        for grown in [leak.growth_bytes, leak.slope_bytes] {
            assert!((grown / MIB - 13.5).abs() < 0.2, "{leak:?}");
        }
        assert_eq!(leak.least_leak, (8.0 * MIB / 375.0).ceil());
        let late = judged(|share| if share > 0.8 { 120.0 } else { 100.0 } * MIB);
        assert!(!late.flat, "{late:?}");
        let large = judged(|share| (1000.0 + 40.0 * share) * MIB);
        assert!(large.flat, "2 % of a large memory are allowed: {large:?}");
    }

    #[test]
    fn free_memory_of_a_pool_is_left_out_and_limited() {
        let pool = PoolReading {
            used: 1,
            reserved: 9,
            max_reserved: 9,
            is_allocated: false,
        };
        let kinds = |pool: Option<&PoolReading>| {
            let reading = Reading::new(0.0, Some(100), 50, pool);
            (reading.resident, reading.allocated, reading.pooled)
        };
        assert_eq!(kinds(None), (Some(100), 50, None));
        assert_eq!(kinds(Some(&pool)), (Some(92), 50, Some(1)));
        let on_host = PoolReading {
            is_allocated: true,
            ..pool
        };
        assert_eq!(kinds(Some(&on_host)), (Some(92), 42, Some(1)));
        assert!(pool.is_within_limit());
        let beyond = PoolReading {
            max_reserved: pool.reserved - 1,
            ..pool
        };
        assert!(!beyond.is_within_limit());
    }

    #[test]
    fn few_readings_have_no_verdict() {
        assert_eq!(Growth::of(&[(0.0, 1.0); LEAST_READINGS - 1], 1), None);
        assert!(Growth::of(&[(0.0, 1.0); LEAST_READINGS], 1).unwrap().flat);
        assert_eq!(Memory::judge(&[], 1).is_flat(true), None);
    }

    #[test]
    fn known_growth_of_resident_memory_is_left_out_of_the_verdict() {
        let flat = Growth {
            flat: true,
            ..Growth::default()
        };
        let memory = Memory {
            resident: Some(Growth::default()),
            allocated: Some(flat),
            pooled: None,
        };
        assert_eq!(
            [true, false].map(|with| memory.is_flat(with)),
            [Some(false), Some(true)]
        );
    }
}
