//! The CPU of this computer, as far as Linux describes it.

use std::fs;

/// Returns the model; `None` if unknown.
pub(crate) fn model() -> Option<String> {
    entry("model name")
}

/// Returns the model and the instruction sets.
pub(crate) fn features() -> [Option<String>; 3] {
    ["model name", "flags", "Features"].map(entry)
}

/// Returns an entry of the first CPU; `None` if unknown.
fn entry(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut lines = text.lines();
    let entry = lines.find_map(|line| line.strip_prefix(key))?;
    Some(entry.split_once(':')?.1.trim().to_owned())
}
