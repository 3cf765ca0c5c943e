//! Choice of the inputs that have expensive checks.
//!
//! Method: a hash of the input decides, unless the environment variable `FUZZ_ALL` is `1`, as in
//! the replay of a corpus. If a byte of the input did, a corpus would be filled with inputs that
//! have this byte, because libFuzzer keeps the inputs that reach further code.

use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

/// Whether all inputs have the expensive checks.
static ALL: LazyLock<bool> =
    LazyLock::new(|| env::var_os("FUZZ_ALL").is_some_and(|all| all == "1"));

/// Returns whether an input has an expensive check: about one input in `one_in`.
pub(crate) fn is_drawn(bytes: &[u8], one_in: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    *ALL || hasher.finish().is_multiple_of(one_in)
}
