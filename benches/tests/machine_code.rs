//! The option `--isa` of `explain`: its arguments, the kernels that it selects, and the table of
//! registers and instructions of all kernels, as compiled for one GPU.

use std::path::Path;
use std::process::{Command, Output};

use gpu_wgsl::check::skip;

/// The GPU of the table: a Radeon RX 7900.
const FAMILY: &str = "navi31";

fn explain(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_explain"));
    command.args(args);
    command
}

/// Returns the messages of a run.
fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns whether the environment names RADV, and reports a skip otherwise.
fn has_driver() -> bool {
    let is_set = std::env::var_os("RADV_DRIVER_FILE").is_some();
    if !is_set {
        skip("no RADV driver (`cargo xtask adapters --fetch`, then `cargo xtask verify`)");
    }
    is_set
}

#[test]
fn options_that_contradict_each_other_are_wrong_usage() {
    const WRONG_USAGE: i32 = 2;
    for (args, expected) in [
        (
            &["--isa", FAMILY, "--emit", "wgsl"][..],
            "cannot be used with '--emit",
        ),
        (
            &["--adapter", "x", "--isa", FAMILY],
            "cannot be used with '--",
        ),
        (&["matmul", "--table"], "not provided:\n  --isa"),
    ] {
        let output = explain(args).output().unwrap();
        let messages = messages(&output);
        assert_eq!(
            output.status.code(),
            Some(WRONG_USAGE),
            "{args:?}: {messages}"
        );
        assert!(messages.contains(expected), "{args:?}: {messages}");
    }
}

#[test]
fn a_workload_precedes_fixed_kernels_unless_the_pattern_is_a_name() {
    if !has_driver() {
        return;
    }
    for (pattern, from_workload, n_kernels) in [
        ("matmul", true, 1),
        ("matmul_tile", false, 1),
        ("matmul_", false, 2),
    ] {
        let output = explain(&[pattern, "--isa", FAMILY, "--json"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", messages(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rows.len(), n_kernels, "{pattern}");
        for row in rows {
            assert_eq!(row["source"] != "fixed", from_workload, "{pattern}: {row}");
        }
    }
}

#[test]
fn the_driver_is_selected_even_if_the_caller_has_set_the_family() {
    if !has_driver() {
        return;
    }
    let output = explain(&["buffer_copy", "--isa", "navi21"])
        .env("RADV_FORCE_FAMILY", "navi21")
        .env("VK_DRIVER_FILES", "no-such-file.json")
        .output()
        .unwrap();
    let found = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        found.contains("(RADV NAVI21)"),
        "{found}{}",
        messages(&output)
    );
}

#[test]
fn an_unknown_family_is_an_error_that_names_it() {
    if !has_driver() {
        return;
    }
    let output = explain(&["matmul", "--isa", "no-such"]).output().unwrap();
    let messages = messages(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    let expected = "opens no GPU of the family \"no-such\"";
    assert!(messages.contains(expected), "{messages}");
    assert!(messages.contains("such as navi31"), "{messages}");
}

#[test]
fn kernels_have_the_registers_and_instructions_of_the_table() {
    if !has_driver() {
        return;
    }
    let output = explain(&["", "--isa", FAMILY, "--table"]).output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let found = String::from_utf8(output.stdout).unwrap();
    // After the driver and the column names, each line has registers, spills, bytes of scratch.
    for line in found.lines().skip(2) {
        let spills: Vec<&str> = line.split_whitespace().skip(1).take(2).collect();
        assert_eq!(spills, ["0", "0"], "{line}");
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/machine_code.txt");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(file, found).unwrap();
        return;
    }
    let table = std::fs::read_to_string(file).unwrap();
    // The first line names GPU and driver; another version of the compiler has another table.
    let driver = |table: &str| table.lines().next().unwrap_or_default().to_owned();
    if driver(&found) != driver(&table) {
        let why = "the table is of another driver";
        return skip(&format!(
            "{why} ({}, found {})",
            driver(&table),
            driver(&found)
        ));
    }
    for (found, expected) in found.lines().zip(table.lines()) {
        assert_eq!(
            found, expected,
            "(`cargo xtask verify --bless` rewrites the table)"
        );
    }
    assert_eq!(found.lines().count(), table.lines().count());
}
