//! Choice of the inputs that have expensive checks.
//!
//! Method: a hash of the input decides. If a byte of the input did, a corpus would be filled with
//! inputs that have this byte, because libFuzzer keeps the inputs that reach further code.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Returns whether an input is one of those, 1 in `one_in`, that have an expensive check.
pub(crate) fn is_drawn(bytes: &[u8], one_in: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish().is_multiple_of(one_in)
}
