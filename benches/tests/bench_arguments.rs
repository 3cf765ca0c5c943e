//! Tests of the arguments of the program `bench`.

use std::process::{Command, Output, Stdio};

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(args).stdin(Stdio::null());
    command.output().expect("the program was built")
}

#[test]
fn the_list_contains_the_workloads_that_match() {
    let output = bench(&["--list", "--only", "chain/"]);
    assert!(output.status.success());
    let list = String::from_utf8(output.stdout).unwrap();
    assert!(
        !list.is_empty() && list.lines().all(|id| id.contains("chain/")),
        "{list}"
    );
}

#[test]
fn a_pattern_without_matches_is_wrong_usage() {
    const WRONG_USAGE: i32 = 2;
    // The program returns before it measures, also if another pattern matches.
    for args in [
        &["--only", "no-such"][..],
        &["--list", "--only", "no-such"],
        &["--list", "--only", "chain/", "--only", "no-such"],
    ] {
        let output = bench(args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(WRONG_USAGE), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(
            complaint.contains("no workload matches \"no-such\""),
            "{args:?}: {complaint}"
        );
    }
}
