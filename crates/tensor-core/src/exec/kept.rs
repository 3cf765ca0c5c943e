//! What was made for a key, kept for the next time.
//!
//! Role: the memory of executors for compiled nests. Method: two generations; what is asked for moves to the younger one, and when
//! that is full the older one is forgotten. So whatever was among the last so many different ones is there.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// How many keys fill a generation.
const GENERATION: usize = 512;

/// Values by key, at most two generations of them.
#[derive(Debug)]
pub struct Kept<K, V>(Mutex<Generations<K, V>>);

#[derive(Debug)]
struct Generations<K, V> {
    younger: HashMap<K, Arc<V>>,
    older: HashMap<K, Arc<V>>,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Generations {
            younger: HashMap::new(),
            older: HashMap::new(),
        }))
    }
}

impl<K: Eq + Hash, V> Kept<K, V> {
    /// The value of a key; made now, if there is none. Two threads may make one at once; then one of the two is kept.
    ///
    /// # Errors
    /// What `make` says; then nothing is kept.
    pub fn get<E>(&self, key: K, make: impl FnOnce(&K) -> Result<V, E>) -> Result<Arc<V>, E> {
        // A panic in between leaves the tables whole: entries are put in finished.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = lock().find(&key) {
            return Ok(value);
        }
        let value = Arc::new(make(&key)?);
        lock().keep(key, Arc::clone(&value));
        Ok(value)
    }
}

impl<K: Eq + Hash, V> Generations<K, V> {
    fn find(&mut self, key: &K) -> Option<Arc<V>> {
        if let Some(value) = self.younger.get(key) {
            return Some(Arc::clone(value));
        }
        let (key, value) = self.older.remove_entry(key)?;
        self.keep(key, Arc::clone(&value));
        Some(value)
    }

    fn keep(&mut self, key: K, value: Arc<V>) {
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
        let kept = Kept::default();
        let mut n_made = 0;
        let mut get = |key: usize| {
            let made = kept.get(key, |key| {
                n_made += 1;
                Ok::<_, Infallible>(2 * key)
            });
            let value = *made.unwrap_or_else(|never| match never {});
            (value, n_made)
        };
        for key in 0..3 * GENERATION {
            assert_eq!(get(key), (2 * key, key + 1));
            // Made once, and there ever since.
            assert_eq!(get(0), (0, key + 1));
        }
        assert_eq!(get(1), (2, 3 * GENERATION + 1));
        let refused: Result<_, &str> = kept.get(99_999, |_| Err("no"));
        assert_eq!(refused.unwrap_err(), "no");
    }
}
