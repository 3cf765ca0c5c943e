//! What tests share: the reference data.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use serde_json::Value;

/// Reads `testdata/games-reference.json`.
pub(crate) fn reference() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/games-reference.json");
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap()
}
