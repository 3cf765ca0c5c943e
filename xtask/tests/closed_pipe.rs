//! Commands whose reader has closed the pipe.

use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_closed_pipe_is_silent() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let game = folder.join("closed-pipe.nfg");
    std::fs::write(&game, "NFG 1 R \"\" { \"A\" \"B\" } { 1 1 } 1 -1").unwrap();
    let commands: [&[&str]; 4] = [
        &[],
        &["solve", game.to_str().unwrap()],
        &["data", "--help"],
        &["verify", "--list"],
    ];
    for args in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "{args:?}: {} {said}",
            output.status
        );
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
