//! Tests of commands whose reader has closed the pipe.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `xtask` with stdout connected to a pipe without a reader, and checks that it succeeds and
/// prints nothing to stderr.
fn assert_silent(args: &[&str], variables: &[(&str, &Path)]) {
    let (reader, writer) = std::io::pipe().expect("the system supports pipes");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(args)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped());
    let output = command.output().expect("xtask was built");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.is_empty(),
        "{args:?}: {} {said}",
        output.status
    );
}

#[test]
fn a_closed_pipe_is_silent() {
    let commands: [&[&str]; 3] = [&[], &["data", "--help"], &["verify", "--list"]];
    for args in commands {
        assert_silent(args, &[]);
    }
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_silent_where_a_program_prints_the_rest_of_the_help() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("closed-pipe");
    let arguments = folder.join("arguments");
    let script = |path: &Path, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    };
    // A fake cargo that builds nothing, and the program that the real cargo would build.
    let cargo = folder.join("cargo");
    let place = folder.display();
    let metadata = format!(
        r#"{{"packages":[],"workspace_root":"{place}","target_directory":"{place}/target"}}"#
    );
    script(
        &cargo,
        &format!("if [ \"$1\" = metadata ]; then echo '{metadata}'; fi"),
    );
    let record = format!("echo \"$@\" > '{}'", arguments.display());
    script(&folder.join("target/release/trace"), &record);
    let variables: [(&str, &Path); 2] = [("CARGO", &cargo), ("DATA_DIR", &folder)];
    // The first command runs in the caller's folder, the second in the folder of the workspace.
    for command in ["trace", "demo"] {
        assert_silent(&[command, "--help"], &variables);
        assert_eq!(std::fs::read_to_string(&arguments).unwrap(), "--help\n");
        std::fs::remove_file(&arguments).unwrap();
    }
}

#[test]
fn a_game_is_read_from_standard_input() {
    use std::io::Write as _;
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(["solve", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(b"NFG 1 R \"\" { \"A\" \"B\" } { 1 1 } 1 -1")
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("value 1\n"));
}
