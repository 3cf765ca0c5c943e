//! Tests of the program `solve`: its input, its output, and a reader that closes the pipe.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Matching pennies.
const PENNIES: &str = "NFG 1 R \"\" { \"A\" \"B\" } { 2 2 } 1 -1 -1 1 -1 1 1 -1";

/// Writes matching pennies to a file with this name, and returns its path.
fn game(name: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, PENNIES).expect("the folder of temporary files is writable");
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
fn a_game_is_read_from_standard_input() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_solve"));
    command.arg("-").stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program was built");
    let mut input = child.stdin.take().expect("the input is a pipe");
    let written = input.write_all(PENNIES.as_bytes());
    written.expect("the program reads its input");
    drop(input);
    let output = child.wait_with_output().expect("the program ends");
    let [said, complaint] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{complaint}");
    assert!(said.contains("value 0\n"), "{said}");
}

/// Returns the text of a game of 200,000 decisions in a row, which the players make in turn. Each
/// decision ends the game or leads to the next one.
fn chain() -> String {
    const N_DECISIONS: usize = 200_000;
    let mut text = "EFG 2 R \"chain\" { \"A\" \"B\" }\n".to_owned();
    for at in 0..N_DECISIONS {
        let (player, set, payoff) = (at % 2 + 1, at / 2 + 1, at % 7);
        text += &format!("p \"\" {player} {set} \"\" {{ \"stop\" \"go\" }} 0\n");
        text += &format!("t \"\" {} \"\" {{ {payoff} -{payoff} }}\n", payoff + 1);
    }
    text + "t \"\" 8 \"\" { 1 -1 }\n"
}

#[test]
fn a_large_game_ends_soon_after_the_time_limit() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("solve-chain.efg");
    std::fs::write(&file, chain()).expect("the folder of temporary files is writable");
    let file = file.to_str().unwrap();
    for (args, is_read) in [
        (&[file, "--time-limit", "0"][..], false),
        (&[file, "--time-limit", "1"], true),
        (&[file, "--time-limit", "1", "--learn"], true),
    ] {
        let begun = Instant::now();
        let output = solve(args, Stdio::piped());
        let complaint = String::from_utf8_lossy(&output.stderr);
        // Ten times the limit, because a busy machine may take longer for what ends an answer, but
        // less than half the time of a count of information sets for each information set.
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{args:?}: {took:?}");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let is_late = complaint.contains("deadline reached") && complaint.contains("--time-limit");
        assert!(is_late || is_read, "{args:?}: {complaint}");
    }
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
