//! Choice of the inputs that have expensive checks.
//!
//! Method: a hash of the input decides. If a byte of the input did, a corpus would be filled with
//! inputs that have this byte, because libFuzzer keeps the inputs that reach further code. The
//! inputs of a corpus have all checks: within [`with_all_checks`], and in a program with the
//! environment variable `FUZZ_ALL=1`.

use std::cell::Cell;
use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

thread_local! {
    /// Whether every input has the expensive checks.
    static ALL: Cell<bool> = Cell::new(env::var_os("FUZZ_ALL").is_some_and(|all| all == "1"));
}

/// Calls a function, in which every input has the expensive checks.
pub fn with_all_checks<T>(run: impl FnOnce() -> T) -> T {
    let before = ALL.replace(true);
    let result = run();
    ALL.set(before);
    result
}

/// Returns whether every input has the expensive checks.
pub(crate) fn checks_all() -> bool {
    ALL.get()
}

/// Returns whether an input has an expensive check: about one input in `one_in`.
pub(crate) fn is_drawn(bytes: &[u8], one_in: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    checks_all() || hasher.finish().is_multiple_of(one_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_inputs_is_drawn_or_all() {
        let n_drawn = || (0..=255).filter(|&byte| is_drawn(&[byte], 8)).count();
        assert!((16..64).contains(&n_drawn()), "{}", n_drawn());
        assert_eq!(with_all_checks(n_drawn), 256);
        assert!(n_drawn() < 64);
    }
}
