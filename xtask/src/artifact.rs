//! Executables of a build, parsed from cargo's `--message-format=json`.
//!
//! Role: finds test executables without guessing hashed file names.

use std::path::PathBuf;

use serde_json::Value;

/// An executable that cargo built or found up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    /// Manifest of its package.
    pub(crate) manifest: PathBuf,
    /// Name of the target, as in the manifest.
    pub(crate) target: String,
    /// Kind of the target as named by cargo: `lib`, `bin`, `test`, …
    pub(crate) kind: String,
    pub(crate) path: PathBuf,
    /// Whether the executable is a test harness.
    pub(crate) is_test: bool,
}

/// Parses cargo's messages, one JSON object per line, in cargo's order.
pub(crate) fn executables(messages: &str) -> Vec<Executable> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(|message: Value| {
            Some(Executable {
                path: message["executable"].as_str()?.into(),
                manifest: message["manifest_path"].as_str()?.into(),
                target: message["target"]["name"].as_str()?.into(),
                kind: message["target"]["kind"][0].as_str()?.into(),
                is_test: message["profile"]["test"] == true,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_without_an_executable_and_noise_are_passed_over() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"profile":{"test":false},"executable":null}"#,
            "\nnot json\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"kind":["test"],"name":"edge"},"profile":{"test":true},"executable":"/t/edge-1"}"#,
            "\n{\"reason\":\"build-finished\",\"success\":true}\n",
        );
        let expected = Executable {
            manifest: "/w/a/Cargo.toml".into(),
            target: "edge".into(),
            kind: "test".into(),
            path: "/t/edge-1".into(),
            is_test: true,
        };
        assert_eq!(executables(messages), [expected]);
    }
}
