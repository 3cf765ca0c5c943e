//! Caches of values that are computed from nests, such as compiled code.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::cache::Cache;
use crate::ir::LoopNest;

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
