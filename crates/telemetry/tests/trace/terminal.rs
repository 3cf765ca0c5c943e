//! The terminal: options, help, names of devices, and the live line.

use super::{folder, json, trace};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use telemetry::format;
#[cfg(target_os = "linux")]
use tool_io::TemporaryFolder;

#[test]
fn options_that_do_not_apply_are_rejected() {
    let folder = folder("inapplicable");
    let recording = folder.path().join("recording.jsonl");
    let output = trace(&recording).args(["--for", "100ms"]).output().unwrap();
    assert!(output.status.success());
    let recording = recording.to_str().unwrap();
    let of_file = ["--source", recording];
    for (arguments, complaint) in [
        (&["--source", "demo", "--nvml", "/no/such"][..], "--nvml"),
        (&["--source", "rapl", "--nvml", "/no/such"], "--nvml"),
        (&["--source", ""], "--source"),
        (&[&of_file[..], &["--nvml", "x"]].concat(), "--nvml"),
        (
            &[&of_file[..], &["--interval", "1s"]].concat(),
            "--interval",
        ),
        (&[&of_file[..], &["--for", "1s"]].concat(), "--for"),
        (&[&of_file[..], &["--serve", "9835"]].concat(), "--serve"),
        (&[&of_file[..], &["--format", "csv"]].concat(), "--format"),
        (&[&of_file[..], &["--", "true"]].concat(), "COMMAND"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_trace"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(complaint), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn help_and_version_need_no_source_and_errors_of_numbers_name_their_option() {
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
        command.args(words).output().unwrap()
    };
    for help in ["-h", "--help"] {
        let output = run(&[help]);
        assert!(output.status.success(), "{help}");
        let said = String::from_utf8(output.stdout).unwrap();
        for expected in ["--interval", "--live", "compare", "dvfs", "127 if COMMAND"] {
            assert!(said.contains(expected), "{help} {expected}: {said}");
        }
        let widest = said.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{help} {widest:?}");
    }
    let version = run(&["--version"]).stdout;
    assert_eq!(
        version,
        concat!("trace ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()
    );
    for (words, option) in [
        (&["--interval", "3x"][..], "--interval"),
        (&["--interval", "1us"], "--interval"),
        (&["--for", "-"], "--for"),
        (&["--serve", "70000"], "--serve"),
        (&["--format", "xml"], "--format"),
        (&["compare", "a", "b", "--items", "0"], "--items"),
        (&["dvfs", "a", "--max-slowdown", "200"], "--max-slowdown"),
        (&["--out", "x", "compare", "a", "b"], "--out"),
        (&["compare", "a"], "<AFTER>"),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(option), "{words:?}: {said}");
    }
}

#[test]
fn names_of_a_recorded_file_do_not_act_on_the_terminal() {
    let folder = folder("control");
    let (out, bad) = (folder.path().join("trace.jsonl"), "\u{1b}[2J\u{9b}");
    let output = trace(&out)
        .args(["--for", "400ms", "--", "sh", "-c", "sleep 0.3"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = fs::read_to_string(&out).unwrap();
    let mut recorded = format::read(text.as_bytes()).unwrap().trace;
    recorded.regions[0].name += bad;
    recorded.devices[0].name += bad;
    fs::write(&out, format::write(&recorded, format::Dialect::JsonLines)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_trace"))
        .arg("--source")
        .arg(&out)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let is_tame = |letter: char| letter == '\n' || !letter.is_control();
    assert!(said.chars().all(is_tame), "{said:?}");
    assert_eq!(said.matches("\\u{1b}[2J\\u{9b}").count(), 2, "{said}");
}

#[test]
fn a_command_has_its_terminal_line_to_itself_and_numbers_are_in_json() {
    let folder = folder("line");
    let output = Command::new(env!("CARGO_BIN_EXE_trace"))
        .args(["--source", "demo", "--json", "--out", "log.csv"])
        .args(["--", "sh", "-c", "pwd >&2; sleep 0.5"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let place = folder.path().canonicalize().unwrap();
    // Standard error only has the output of COMMAND: no status line, no control characters.
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(Path::new(said.trim_end()), place);
    assert!(folder.path().join("log.csv").exists());
    let idle = &json(&output)["devices"][0]["idle"];
    let wasted_j = ["low", "value", "high"].map(|end| idle["wasted_j"][end].as_f64().unwrap());
    assert!(wasted_j.is_sorted(), "{idle}");
    let energy = &json(&output)["devices"][0]["energy"];
    let (of_verdict, of_energy) = (idle["energy_j"].as_f64(), energy["energy_j"].as_f64());
    assert!((of_verdict.unwrap() - of_energy.unwrap()).abs() < 1e-9 * of_energy.unwrap());
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_silent() {
    for words in [
        &["--help"][..],
        &["--version"],
        &["--source", "demo", "--for", "1ms"],
    ] {
        let folder = folder("closed");
        let mut child = Command::new(env!("CARGO_BIN_EXE_trace"))
            .args(words)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words:?} {output:?}");
        assert!(output.stderr.is_empty(), "{words:?} {output:?}");
    }
}

/// Runs `trace` on a terminal of its own with `script`, and returns everything that the terminal
/// shows.
#[cfg(target_os = "linux")]
fn on_a_terminal(folder: &TemporaryFolder, options: &str) -> String {
    let program = env!("CARGO_BIN_EXE_trace");
    let words = format!("{program} --source demo {options} -- sh -c 'printf first; sleep 0.7'");
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &words, "/dev/null"])
        .current_dir(folder.path())
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .expect("util-linux has `script`");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("the terminal shows UTF-8")
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_shares_its_terminal_with_the_live_line_only_on_request() {
    let folder = folder("terminal");
    let said = on_a_terminal(&folder, "");
    assert!(said.contains("first") && said.contains(" J ["), "{said:?}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let said = on_a_terminal(&folder, "--live");
    assert!(
        said.contains("\u{1b}[2K") && said.contains("0 s | 0 Tesla T4"),
        "{said:?}"
    );
}
