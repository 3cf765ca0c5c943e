//! The table of registers and instructions of all kernels, as compiled for one GPU.

use std::path::Path;
use std::process::Command;

use gpu_wgsl::check::skip;

/// The GPU of the table: a Radeon RX 7900.
const FAMILY: &str = "navi31";

#[test]
fn kernels_have_the_registers_and_instructions_of_the_table() {
    if std::env::var_os("RADV_DRIVER_FILE").is_none() {
        return skip("no RADV driver (`cargo xtask adapters --fetch`, then `cargo xtask verify`)");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_explain"))
        .args(["", "--isa", FAMILY, "--table"])
        .output()
        .unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
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
