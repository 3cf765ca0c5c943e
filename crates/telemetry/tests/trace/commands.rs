//! Commands that run during a trace: their energy, their ends, and interrupts.

use super::{folder, json, length_s, trace, wait_for};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use telemetry::format;

#[test]
fn the_energy_of_a_command_is_that_of_its_time_and_its_exit_code_is_passed_on() {
    let folder = folder("command");
    let out = folder.path().join("trace.jsonl");
    let output = trace(&out)
        .args(["--", "sh", "-c", "sleep 0.7; exit 7"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let energy = &json(&output)["devices"][0]["energy"];
    let took_s = length_s(energy);
    let written = format::read(&fs::read(&out).unwrap()).unwrap().trace;
    assert_eq!(written.regions.len(), 1);
    assert_eq!(written.regions[0].name, "sh -c sleep 0.7; exit 7");
    let region = written.regions[0].end - written.regions[0].start;
    assert!(
        (region.as_secs_f64() - took_s).abs() < 1e-6 && took_s > 0.7,
        "{took_s}"
    );
    // Sampling continues after the command, so that the energy up to its end is known.
    assert!(written.duration() > written.regions[0].end + Duration::from_millis(150));
    assert!(energy["energy_j"].as_f64().unwrap() > 0.0);
    let page = fs::read_to_string(folder.path().join("trace.html")).unwrap();
    assert!(page.contains("sleep 0.7; exit 7"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_command_and_completes_all_files() {
    let folder = folder("term");
    let (out, ready) = (folder.path().join("log.csv"), folder.path().join("ready"));
    let said = folder.path().join("said");
    // A command that exits on SIGTERM and would otherwise run for a minute.
    let command = format!(
        "trap 'echo asked > {}; exit 3' TERM; touch {}; for i in $(seq 600); do sleep 0.1; done",
        said.display(),
        ready.display()
    );
    let child = trace(&out)
        .args(["--format", "semicolon-csv", "--", "sh", "-c", &command])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(|| ready.exists());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(fs::read_to_string(said).unwrap(), "asked\n");
    assert!(json(&output)["devices"][0]["energy"]["energy_j"].is_number());
    let text = fs::read_to_string(&out).unwrap();
    assert!(text.starts_with(format::SEMICOLON_CSV_HEADER) && text.ends_with('\n'));
    assert!(folder.path().join("log.html").exists());
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_trace_without_a_command_successfully() {
    let folder = folder("interrupt");
    let out = folder.path().join("trace.jsonl");
    let child = trace(&out).stdout(Stdio::piped()).spawn().unwrap();
    let has_rows = || {
        let read = fs::read(&out)
            .ok()
            .and_then(|bytes| format::read(&bytes).ok());
        read.is_some_and(|read| read.trace.rows.len() > 10)
    };
    wait_for(has_rows);
    let pid = rustix::process::Pid::from_child(&child);
    // In a background job of a shell, this process and its children ignore SIGINT.
    let (interrupt, terminate) = (rustix::process::Signal::INT, rustix::process::Signal::TERM);
    let is_ignored = tool_io::signals::is_ignored(interrupt.as_raw());
    let signal = if is_ignored { terminate } else { interrupt };
    rustix::process::kill_process(pid, signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(json(&output)["devices"][0]["energy"]["energy_j"].is_number());
    // The last line of a complete file contains the cost of sampling.
    assert!(
        format::read(&fs::read(&out).unwrap())
            .unwrap()
            .trace
            .overhead
            .is_some()
    );
}

#[cfg(unix)]
#[test]
fn a_killed_command_returns_the_code_of_its_signal() {
    let folder = folder("signal");
    let output = trace(&folder.path().join("trace.csv"))
        .args(["--", "sh", "-c", "kill -9 $$"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(128 + 9));
}

#[test]
fn a_command_that_outlives_its_trace_is_waited_for() {
    let folder = folder("outlive");
    let (out, done) = (
        folder.path().join("trace.jsonl"),
        folder.path().join("done"),
    );
    let command = format!("sleep 1; touch {}; exit 5", done.display());
    let output = trace(&out)
        .args(["--for", "300ms", "--", "sh", "-c", &command])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(done.exists());
    assert_eq!(json(&output)["has_command_ended"], false);
    assert!(length_s(&json(&output)["devices"][0]["energy"]) < 0.9);
    // The time is not that of the command.
    for (limit, start) in [("300ms", "first 0."), ("20s", "sh -c sleep 1 for ")] {
        let output = Command::new(env!("CARGO_BIN_EXE_trace"))
            .args(["--source", "demo", "--for", limit, "--out"])
            .arg(&out)
            .args(["--", "sh", "-c", "sleep 1"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with(start), "{said}");
        let page = fs::read_to_string(folder.path().join("trace.html")).unwrap();
        let is_cut = page.contains("Energies are those of the first 0.");
        assert_eq!(is_cut, limit == "300ms");
    }
}

#[cfg(unix)]
#[test]
fn the_second_interrupt_kills_a_command_that_ignores_the_first() {
    let folder = folder("deaf");
    let ready = folder.path().join("ready");
    let command = format!(
        "trap '' TERM; touch {}; for i in $(seq 600); do sleep 0.1; done",
        ready.display()
    );
    let mut child = trace(&folder.path().join("trace.jsonl"))
        .args(["--", "sh", "-c", &command])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| ready.exists());
    let pid = rustix::process::Pid::from_child(&child);
    for _ in 0..2 {
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        // Two signals that arrive at the same time may be delivered as one.
        let sent = Instant::now();
        wait_for(|| sent.elapsed() > Duration::from_millis(500));
    }
    assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
}

#[cfg(unix)]
#[test]
fn a_hang_up_that_is_ignored_ends_neither_trace_nor_command() {
    let folder = folder("nohup");
    let (out, ready) = (
        folder.path().join("trace.jsonl"),
        folder.path().join("ready"),
    );
    let script = format!(
        "trap '' HUP; exec {} --source demo --quiet --out {} -- sh -c 'touch {}; sleep 1; exit 6'",
        env!("CARGO_BIN_EXE_trace"),
        out.display(),
        ready.display()
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| ready.exists());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}
