//! Hash maps with a fast hash function.

/// A hash map for keys from the user's own program. Resistance against hash flooding is therefore
/// not needed, and planning and running compute several hashes per step.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;
