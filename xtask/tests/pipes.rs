//! Tests of the pipes between commands, their programs and their readers.

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
    let commands: [&[&str]; 5] = [
        &[],
        &["data", "--help"],
        &["bench", "--help"],
        &["completions", "bash"],
        &["verify", "--list"],
    ];
    for args in commands {
        assert_silent(args, &[]);
    }
}

#[test]
fn wrong_use_has_its_exit_code_without_a_reader_of_the_message() {
    for line in [
        "fuzz nosuch",
        "mutants --package nosuch",
        "mutants --package distributions --only nosuch --list",
    ] {
        let (reader, writer) = std::io::pipe().expect("the system supports pipes");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(line.split(' ')).stdin(Stdio::null());
        let output = command.stderr(writer).output().expect("xtask was built");
        assert_eq!(output.status.code(), Some(2), "{line}");
    }
}

#[test]
fn help_and_wrong_use_start_no_build() {
    let run = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        // A build would fail, because there is no such cargo.
        command.args(line.split(' ')).env("CARGO", "/nonexistent");
        let output = command.output().expect("xtask was built");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    for command in [
        "bench",
        "verify",
        "doctor",
        "trace",
        "demo",
        "report",
        "data",
        "rivals",
        "soak",
        "solve",
        "explain",
        "tune",
        "adapters",
        "web",
        "codegen",
        "mutants",
        "fuzz",
        "readme",
        "completions",
    ] {
        let (code, said) = run(&format!("{command} --help"));
        assert_eq!((code, said.as_str()), (Some(0), ""), "{command}");
        let (code, said) = run(&format!("{command} --nosuch"));
        assert!(
            code == Some(2) && said.contains("--nosuch"),
            "{command}: {said}"
        );
    }
}

/// Tests with shell scripts instead of cargo and the programs of the workspace.
#[cfg(unix)]
mod with_scripts {
    #![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

    use std::path::PathBuf;

    use super::*;

    /// A folder with a fake cargo, which builds nothing, and with programs that the real cargo
    /// would build.
    struct FakeWorkspace {
        folder: PathBuf,
        cargo: PathBuf,
    }

    impl FakeWorkspace {
        /// Creates the folder. `name` is the name of the test.
        fn new(name: &str) -> Self {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            let (cargo, place) = (folder.join("cargo"), folder.display());
            let metadata = format!(
                r#"{{"packages":[],"workspace_root":"{place}","target_directory":"{place}/target"}}"#
            );
            let text = format!("if [ \"$1\" = metadata ]; then echo '{metadata}'; fi");
            write_script(&cargo, &text);
            Self { folder, cargo }
        }

        /// Writes a program of the workspace as a shell script.
        fn add_program(&self, name: &str, text: &str) {
            write_script(&self.folder.join("target/release").join(name), text);
        }

        fn variables(&self) -> [(&str, &Path); 2] {
            [("CARGO", &self.cargo), ("DATA_DIR", &self.folder)]
        }
    }

    /// Writes an executable shell script.
    fn write_script(path: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_program_runs_in_the_folder_of_its_caller_with_its_arguments() {
        let workspace = FakeWorkspace::new("arguments");
        workspace.add_program("solve", "pwd; echo \"$@\"");
        let folder = workspace.folder.join("caller");
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["solve", "game.nfg", "--exact"]);
        command.envs(workspace.variables()).current_dir(&folder);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, format!("{}\ngame.nfg --exact\n", folder.display()));
    }

    #[test]
    fn a_program_reads_the_standard_input_of_its_command() {
        use std::io::Write as _;
        const GAME: &[u8] = b"NFG 1 R \"\" { \"A\" \"B\" } { 1 1 } 1 -1";
        let workspace = FakeWorkspace::new("standard-input");
        workspace.add_program("solve", "cat");
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(["solve", "-"])
            .envs(workspace.variables())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(GAME).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, GAME);
    }
}
