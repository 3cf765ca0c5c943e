//! Tests of the program `solve`: its output, and a reader that closes the pipe.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Writes matching pennies to a file with this name, and returns its path.
fn game(name: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let text = "NFG 1 R \"\" { \"A\" \"B\" } { 2 2 } 1 -1 -1 1 -1 1 1 -1";
    std::fs::write(&file, text).expect("the folder of temporary files is writable");
    file
}

fn solve(args: &[&str], stdout: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_solve"));
    command.args(args).stdin(Stdio::null());
    command.stdout(stdout).stderr(Stdio::piped());
    command.output().expect("the program was built")
}

#[test]
fn a_file_is_solved_exactly_as_csv() {
    let file = game("solve-exact.nfg");
    let output = solve(&[file.to_str().unwrap(), "--csv"], Stdio::piped());
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), 5, "{said}");
    assert!(
        said.lines().skip(1).all(|line| line.contains("1/2")),
        "{said}"
    );
}

#[test]
fn wrong_usage_has_an_exit_code_of_its_own() {
    assert_eq!(solve(&["--no-such"], Stdio::piped()).status.code(), Some(2));
    assert_eq!(
        solve(&["/no/such.nfg"], Stdio::piped()).status.code(),
        Some(1)
    );
}

#[test]
fn a_closed_pipe_is_silent() {
    let file = game("solve-closed.nfg");
    let (reader, writer) = std::io::pipe().expect("the system supports pipes");
    drop(reader);
    let output = solve(&[file.to_str().unwrap()], writer.into());
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}
