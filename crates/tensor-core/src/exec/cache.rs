//! Two-generation caches, of any values and of values computed from nests.
//!
//! Role: hold the compiled nests of executors. Method: a lookup moves its entry to the younger
//! generation. When the younger generation is full, the older one is dropped and the younger one
//! takes its place. Therefore the last 512 different keys are always found.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use crate::hash::HashMap;
use crate::ir::LoopNest;

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
        // A panic in another thread leaves the tables consistent, because `make` runs without the
        // lock.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = lock().find(&key) {
            return Ok(value);
        }
        let value = make(&key)?;
        lock().keep(key, value.clone());
        Ok(value)
    }
}

impl<K: Eq + Hash, V: Clone> Generations<K, V> {
    fn find(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.younger.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.older.remove_entry(key)?;
        self.keep(key, value.clone());
        Some(value)
    }

    fn keep(&mut self, key: K, value: V) {
        if self.younger.len() >= GENERATION {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(key, value);
    }
}

/// A cache of values that are computed from a nest and from facts `I` about its inputs.
///
/// A nest is looked up by its address first: to hash and compare its content takes longer than the
/// loops of a small step. Nests of equal content share one value, whichever plan contains them.
#[derive(Debug)]
pub struct NestCache<I, V> {
    by_address: Cache<(Address, I), Arc<V>>,
    by_content: Cache<(Arc<LoopNest>, I), Arc<V>>,
}

impl<I, V> Default for NestCache<I, V> {
    fn default() -> Self {
        Self {
            by_address: Cache::default(),
            by_content: Cache::default(),
        }
    }
}

impl<I: Eq + Hash + Clone, V> NestCache<I, V> {
    /// Returns the value of a nest, and creates it with `make` if it is missing. Two threads may
    /// create the same value at once; then the cache holds one of the two results.
    ///
    /// # Errors
    /// Errors of `make`; the cache then stays unchanged.
    pub fn get<E>(
        &self,
        nest: &Arc<LoopNest>,
        inputs: I,
        make: impl FnOnce(&Arc<LoopNest>, &I) -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        let key = (Address(Arc::clone(nest)), inputs);
        self.by_address.get(key, |(_, inputs)| {
            let key = (Arc::clone(nest), inputs.clone());
            let make = |(nest, inputs): &(_, _)| make(nest, inputs).map(Arc::new);
            self.by_content.get(key, make)
        })
    }
}

/// A nest as a key that compares by address. The key owns the nest, so that no other nest can get
/// the address while the key exists.
#[derive(Debug)]
struct Address(Arc<LoopNest>);

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Address {}

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
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
        let refused: Result<_, &str> = kept.get(99_999, |_| Err("no"));
        assert_eq!(refused.unwrap_err(), "no");
    }

    #[test]
    fn nests_of_equal_content_share_a_value_and_other_inputs_do_not() {
        let nest = |len: usize| {
            Arc::new(LoopNest {
                domain: vec![len],
                reduce: Vec::new(),
                values: Vec::new(),
                dtypes: Vec::new(),
                inputs: Vec::new(),
                contract: None,
            })
        };
        let (kept, n_made) = (NestCache::default(), Cell::new(0));
        let get = |nest: &Arc<LoopNest>, inputs: usize| {
            let made = kept.get(nest, inputs, |nest, inputs| {
                n_made.update(|n| n + 1);
                Ok::<_, Infallible>(10 * nest.domain[0] + inputs)
            });
            *made.unwrap_or_else(|never| match never {})
        };
        let (one, same, other) = (nest(1), nest(1), nest(2));
        for _ in 0..2 {
            assert_eq!([&one, &same, &other].map(|nest| get(nest, 3)), [13, 13, 23]);
            assert_eq!((get(&one, 4), n_made.get()), (14, 3));
        }
        // A nest at an address that an earlier nest had is not taken for the earlier nest.
        for len in 3..100 {
            assert_eq!(get(&nest(len), 0), 10 * len);
        }
    }
}
