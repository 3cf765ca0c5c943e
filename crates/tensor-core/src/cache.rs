//! Two-generation caches.
//!
//! Role: holds plans, and the compiled nests of executors.
//! Method: a lookup moves its entry to the younger generation. When the younger generation is full,
//! the older one is dropped and the younger one takes its place. Therefore the last 512 different
//! keys are always found.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::hash::HashMap;

/// The capacity of a generation, in keys.
const GENERATION: usize = 512;

/// A map from keys to values that drops the least recently used entries, one generation of entries
/// at a time.
#[derive(Debug)]
pub struct Cache<K, V>(Mutex<Generations<K, V>>);

#[derive(Debug)]
struct Generations<K, V> {
    younger: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Generations {
            younger: HashMap::default(),
            older: HashMap::default(),
        }))
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// Returns the value of a key, and creates it with `make` if it is missing. Two threads may
    /// create the same value at once; then the cache holds one of the two results.
    ///
    /// # Errors
    /// Errors of `make`; the cache then stays unchanged.
    pub fn get<E>(&self, key: K, make: impl FnOnce(&K) -> Result<V, E>) -> Result<V, E> {
        if let Some(value) = self.find(&key) {
            return Ok(value);
        }
        let value = make(&key)?;
        self.insert(key, value.clone());
        Ok(value)
    }

    /// Returns the value of a key, if the cache holds it.
    pub fn find(&self, key: &K) -> Option<V> {
        self.lock().find(key)
    }

    /// Inserts a value.
    pub fn insert(&self, key: K, value: V) {
        self.lock().insert(key, value);
    }

    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        // A panic in another thread leaves the tables consistent, because values are created
        // without the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V: Clone> Generations<K, V> {
    fn find(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.younger.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.older.remove_entry(key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    fn insert(&mut self, key: K, value: V) {
        if self.younger.len() >= GENERATION {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn what_is_asked_for_again_stays_and_the_rest_is_forgotten() {
        let kept = Cache::default();
        let mut n_made = 0;
        let mut get = |key: usize| {
            let made = kept.get(key, |key| {
                n_made += 1;
                Ok::<_, Infallible>(2 * key)
            });
            let value = made.unwrap_or_else(|never| match never {});
            (value, n_made)
        };
        for key in 0..3 * GENERATION {
            assert_eq!(get(key), (2 * key, key + 1));
            // Created once, and found in every later lookup.
            assert_eq!(get(0), (0, key + 1));
        }
        assert_eq!(get(1), (2, 3 * GENERATION + 1));
        let rejected: Result<_, &str> = kept.get(99_999, |_| Err("no"));
        assert_eq!(rejected.unwrap_err(), "no");
    }
}
