//! A memory pool for the arrays of the host executor, with byte counters.
//!
//! Role: every array of [`Host`](crate::Host) is allocated here and returns when its last handle is
//! dropped, including temporaries and scratch memory. Therefore a program that runs again allocates
//! nothing from the system except replacements for arrays that are still in use.
//! Method: a request is served from a free array of exactly the same type and length, the most
//! recently freed first. The free bytes never exceed the peak of the bytes in use. If the system
//! runs out of memory, all free arrays are released.
//! Limits: a program whose temporaries have so many different lengths that they need more than
//! twice the peak allocates from the system each time. Memory from the pool contains old values;
//! debug builds fill it with a sentinel that is hardly ever a correct result.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use half::f16;

use super::MemoryUse;
use super::host::{HostStorage, bytes, zeros};
use crate::compare;
use crate::dtype::{DType, Element, HostData, Scalar, with_element};
use crate::error::Result;

/// The maximum number of free arrays, so that the linear search for a match stays cheap.
const MAX_KEPT: usize = 256;

/// A shared pool of free arrays, with byte counters.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<FreeLists>);

#[derive(Debug, Default)]
struct FreeLists {
    /// The bytes of arrays in use.
    live: usize,
    /// The peak of `live`.
    peak: usize,
    /// The bytes of the arrays in `free`.
    kept: usize,
    /// The number of allocations from the system.
    n_allocations: u64,
    /// Arrays ready for reuse; the most recently freed is the last.
    free: VecDeque<HostData>,
}

impl Pool {
    /// Takes an array of `len` elements from the pool or from the system. The contents are
    /// unspecified.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if the system has not enough memory.
    pub(crate) fn take(self: &Arc<Self>, dtype: DType, len: usize) -> Result<HostStorage> {
        let found = self.lock().take(dtype, len);
        let data = match found {
            Some(data) => data,
            None => {
                let data = self.allocate(dtype, len)?;
                let freed = self.lock().begin(bytes(&data));
                drop(freed);
                data
            }
        };
        let mut array = HostStorage::pooled(data, self);
        if cfg!(debug_assertions) {
            with_element!(dtype, T => {
                let sentinel = T::from_scalar(sentinel(dtype)).unwrap_or_default();
                array.elements_mut::<T>().fill(sentinel);
            });
        }
        Ok(array)
    }

    fn allocate(&self, dtype: DType, len: usize) -> Result<HostData> {
        with_element!(dtype, T => {
            // If the system has no more memory, free all cached arrays and try a second time.
            let zeros = zeros("host", len).or_else(|_| {
                let freed = self.lock().forget();
                drop(freed);
                zeros("host", len)
            });
            Ok(T::into_host(zeros?))
        })
    }

    /// Removes an array from the counters, because its owner keeps the memory for good.
    pub(crate) fn let_go(&self, data: &HostData) {
        self.lock().live -= bytes(data);
    }

    /// Returns an array to the pool.
    pub(crate) fn release(&self, data: HostData) {
        // Arrays that the pool does not keep are freed after the lock is released, because freeing
        // large memory takes long.
        let freed = self.lock().end(data);
        drop(freed);
    }

    /// Returns the bytes in use, now and at the peak.
    pub(crate) fn usage(&self) -> MemoryUse {
        let state = self.lock();
        MemoryUse {
            live_bytes: state.live,
            peak_bytes: state.peak,
        }
    }

    /// Returns the bytes of free arrays that the pool holds for reuse.
    pub(crate) fn kept(&self) -> usize {
        self.lock().kept
    }

    /// Returns the number of allocations from the system.
    pub(crate) fn n_allocations(&self) -> u64 {
        self.lock().n_allocations
    }

    /// Frees all arrays that the pool holds for reuse.
    pub(crate) fn clear_cache(&self) {
        let freed = self.lock().forget();
        drop(freed);
    }

    /// Resets the peak to the bytes in use now, and frees all arrays that the pool holds for reuse.
    pub(crate) fn reset_peak(&self) {
        let freed = self.lock().reset_peak();
        drop(freed);
    }

    fn lock(&self) -> MutexGuard<'_, FreeLists> {
        // No code panics while it holds the lock, so a poisoned state is still consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the value with which debug builds fill an array from the pool: a number that is hardly
/// ever a correct result, and that the comparator rejects in any output.
fn sentinel(dtype: DType) -> Scalar {
    match dtype {
        DType::F32 => Scalar::F32(<f32 as compare::Element>::SENTINEL),
        DType::F64 => Scalar::F64(<f64 as compare::Element>::SENTINEL),
        DType::I32 => Scalar::I32(<i32 as compare::Element>::SENTINEL),
        DType::U32 => Scalar::U32(<u32 as compare::Element>::SENTINEL),
        // Every bit pattern of these types is a possible result, so they have no reserved sentinel.
        DType::Bool => Scalar::Bool(true),
        DType::F16 => Scalar::F16(f16::from_f32_const(-52_017.0)),
    }
}

/// Functions that may trim the list of free arrays return the removed arrays, so that the caller
/// frees their memory after releasing the lock.
impl FreeLists {
    /// Removes and returns a free array that fits, or `None`. `kept` only shrinks, so no
    /// trimming is needed.
    fn take(&mut self, dtype: DType, len: usize) -> Option<HostData> {
        let fits = |data: &HostData| data.len() == len && data.dtype() == dtype;
        let found = self.free.iter().rposition(fits)?;
        let data = self.free.remove(found)?;
        self.kept -= bytes(&data);
        self.count(bytes(&data));
        Some(data)
    }

    fn begin(&mut self, bytes: usize) -> Vec<HostData> {
        self.n_allocations += 1;
        self.count(bytes);
        self.trimmed()
    }

    fn count(&mut self, bytes: usize) {
        self.live += bytes;
        self.peak = self.peak.max(self.live);
    }

    fn end(&mut self, data: HostData) -> Vec<HostData> {
        self.live -= bytes(&data);
        self.kept += bytes(&data);
        self.free.push_back(data);
        self.trimmed()
    }

    fn reset_peak(&mut self) -> Vec<HostData> {
        self.peak = self.live;
        self.forget()
    }

    /// Removes and returns all free arrays.
    fn forget(&mut self) -> Vec<HostData> {
        self.kept = 0;
        std::mem::take(&mut self.free).into()
    }

    /// Removes and returns the oldest free arrays until their bytes do not exceed the peak and
    /// their number does not exceed [`MAX_KEPT`].
    fn trimmed(&mut self) -> Vec<HostData> {
        let mut freed = Vec::new();
        while self.kept > self.peak || self.free.len() > MAX_KEPT {
            let Some(oldest) = self.free.pop_front() else {
                break;
            };
            self.kept -= bytes(&oldest);
            freed.push(oldest);
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Arc<Pool> {
        Arc::new(Pool::default())
    }

    fn live(pool: &Pool) -> usize {
        pool.usage().live_bytes
    }

    fn peak(pool: &Pool) -> usize {
        pool.usage().peak_bytes
    }

    #[test]
    fn memory_is_used_again_by_what_has_its_type_and_length() {
        let pool = pool();
        drop(pool.take(DType::F32, 10).unwrap());
        assert_eq!((live(&pool), pool.kept(), pool.n_allocations()), (0, 40, 1));
        let again = pool.take(DType::F32, 10).unwrap();
        assert_eq!((live(&pool), pool.kept(), pool.n_allocations()), (40, 0, 1));
        let _other = pool.take(DType::I32, 10).unwrap();
        assert_eq!((live(&pool), pool.n_allocations()), (80, 2));
        drop(again);
        let _longer = pool.take(DType::F32, 11).unwrap();
        assert_eq!((live(&pool), pool.n_allocations()), (84, 3));
    }

    #[test]
    fn never_more_is_kept_than_was_in_use() {
        let pool = pool();
        for len in 1..100 {
            let (a, b) = (pool.take(DType::F64, len), pool.take(DType::U32, 2 * len));
            assert!(pool.kept() <= peak(&pool));
            drop((a, b));
            assert!(pool.kept() <= peak(&pool));
            assert_eq!((live(&pool), peak(&pool)), (0, 16 * len));
        }
        pool.reset_peak();
        assert_eq!((pool.kept(), peak(&pool)), (0, 0));
    }

    #[test]
    fn many_small_arrays_are_not_all_kept() {
        let pool = pool();
        let arrays: Vec<_> = (0..2 * MAX_KEPT)
            .map(|_| pool.take(DType::Bool, 1))
            .collect();
        drop(arrays);
        assert_eq!((live(&pool), pool.kept()), (0, MAX_KEPT));
    }

    #[test]
    fn memory_that_there_is_not_is_an_error_and_counts_nothing() {
        let pool = pool();
        let error = pool.take(DType::F64, usize::MAX / 16).unwrap_err();
        assert!(matches!(error, crate::Error::OutOfMemory { .. }), "{error}");
        assert_eq!((live(&pool), peak(&pool), pool.kept()), (0, 0, 0));
    }

    #[test]
    fn debug_builds_hand_out_no_zeros_and_no_old_results() {
        let pool = pool();
        for _ in 0..2 {
            let mut array = pool.take(DType::I32, 3).unwrap();
            let expected = if cfg!(debug_assertions) {
                <i32 as compare::Element>::SENTINEL
            } else {
                0
            };
            assert_eq!(array.elements_mut::<i32>(), [expected; 3]);
        }
    }

    #[test]
    fn the_comparator_rejects_elements_that_debug_builds_hand_out() {
        let pool = pool();
        let mut rejected = Vec::new();
        let mut arrays = [DType::F32, DType::F64, DType::I32, DType::U32]
            .map(|dtype| pool.take(dtype, 3).unwrap());
        let [f32s, f64s, i32s, u32s] = &mut arrays;
        rejected.push(compare::check_written(&*f32s.elements_mut::<f32>()).is_err());
        rejected.push(compare::check_written(&*f64s.elements_mut::<f64>()).is_err());
        rejected.push(compare::check_written(&*i32s.elements_mut::<i32>()).is_err());
        rejected.push(compare::check_written(&*u32s.elements_mut::<u32>()).is_err());
        assert_eq!(rejected, [cfg!(debug_assertions); 4]);
    }

    #[test]
    fn an_array_that_its_owner_takes_is_neither_counted_nor_kept() {
        let pool = pool();
        let array = Arc::new(pool.take(DType::F32, 4).unwrap());
        let data = pollster::block_on(crate::Storage::read(array)).unwrap();
        assert_eq!((data.len(), live(&pool), pool.kept()), (4, 0, 0));
    }
}
