//! Tests of the trace program on a simulated GPU: the files it writes, and its exit.
//!
//! Limits: one long file, because all tests share the commands and the folders.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use telemetry::format;
use telemetry::synthetic::{Board, FaultRule, Model, PowerProfile, Scenario, Synthetic};
use telemetry::{Metric, Sampler, Trace, Values};

/// A temporary folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trace-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the folder can be created");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the command of the program, which samples the demo source into a file.
fn trace(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
    command.args([
        "--source",
        "demo",
        "--interval",
        "20ms",
        "--quiet",
        "--json",
        "--out",
    ]);
    command.arg(out).stdin(Stdio::null());
    command
}

fn json(output: &Output) -> serde_json::Value {
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said).unwrap_or_else(|error| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {said:?} {complaint:?}")
    })
}

/// Returns the length of the time range of a device's energy, in s.
fn length_s(energy: &serde_json::Value) -> f64 {
    let time = |name: &str| energy[name].as_f64().expect("times are numbers");
    time("end_s") - time("start_s")
}

#[test]
fn the_energy_of_a_command_is_that_of_its_time_and_its_exit_code_is_passed_on() {
    let folder = Folder::new("command");
    let out = folder.file("trace.jsonl");
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
    let page = fs::read_to_string(folder.file("trace.html")).unwrap();
    assert!(page.contains("sleep 0.7; exit 7"));
}

#[cfg(unix)]
#[test]
fn who_ends_the_trace_ends_the_command_and_all_files_get_their_ends() {
    let folder = Folder::new("term");
    let (out, ready) = (folder.file("log.csv"), folder.file("ready"));
    let said = folder.file("said");
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
    assert!(folder.file("log.html").exists());
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_trace_without_a_command_and_all_is_well() {
    let folder = Folder::new("interrupt");
    let out = folder.file("trace.jsonl");
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
fn a_command_that_is_killed_gives_the_code_of_its_signal() {
    let folder = Folder::new("signal");
    let output = trace(&folder.file("trace.csv"))
        .args(["--", "sh", "-c", "kill -9 $$"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(128 + 9));
}

#[test]
fn a_command_that_outlives_its_trace_is_waited_for() {
    let folder = Folder::new("outlive");
    let (out, done) = (folder.file("trace.jsonl"), folder.file("done"));
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
        let page = fs::read_to_string(folder.file("trace.html")).unwrap();
        let is_cut = page.contains("Energies are those of the first 0.");
        assert_eq!(is_cut, limit == "300ms");
    }
}

#[test]
fn names_of_a_recorded_file_do_not_act_on_the_terminal() {
    let folder = Folder::new("control");
    let (out, bad) = (folder.file("trace.jsonl"), "\u{1b}[2J\u{9b}");
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

#[cfg(unix)]
#[test]
fn a_command_that_ignores_who_wants_it_to_end_is_killed_the_second_time() {
    let folder = Folder::new("deaf");
    let ready = folder.file("ready");
    let command = format!(
        "trap '' TERM; touch {}; for i in $(seq 600); do sleep 0.1; done",
        ready.display()
    );
    let mut child = trace(&folder.file("trace.jsonl"))
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

#[test]
fn scrapers_get_the_newest_row_while_it_samples() {
    let folder = Folder::new("serve");
    let mut child = Command::new(env!("CARGO_BIN_EXE_trace"))
        .args([
            "--source",
            "demo",
            "--for",
            "20s",
            "--serve",
            "127.0.0.1:0",
            "--out",
        ])
        .arg(folder.file("trace.jsonl"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().strip_prefix("trace: http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap();
    let ask = || {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let joules = body
            .lines()
            .find(|line| line.starts_with("telemetry_energy_joules_total{"));
        let joules = joules.unwrap().rsplit(' ').next().unwrap();
        joules.parse::<f64>().unwrap()
    };
    let first = ask();
    wait_for(|| ask() > first);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_recorded_file_becomes_a_report_and_another_file_at_once() {
    let folder = Folder::new("file");
    let (first, second) = (folder.file("first.jsonl"), folder.file("second.csv"));
    let output = trace(&first).args(["--for", "500ms"]).output().unwrap();
    assert!(output.status.success());
    let convert = |out: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
        command.arg("--source").arg(&first).arg("--out").arg(out);
        command.args(["--format", "csv"]).output().unwrap()
    };
    assert!(convert(&second).status.success());
    let read = |path: &Path| format::read(&fs::read(path).unwrap()).unwrap().trace;
    assert_eq!(read(&second), read(&first));
    assert!(folder.file("second.html").exists());
    let report_only = Command::new(env!("CARGO_BIN_EXE_trace"))
        .arg("--source")
        .arg(&second)
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert!(report_only.status.success());
    assert!(!folder.file("log.csv").exists());
    let same = trace(&folder.file("rows.html")).output().unwrap();
    assert!(String::from_utf8_lossy(&same.stderr).contains("is also a file of rows"));
    let itself = convert(&first);
    assert_eq!(itself.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&itself.stderr).contains("is the recorded file itself"));
}

#[test]
fn options_that_do_not_apply_are_wrong_use() {
    let folder = Folder::new("inapplicable");
    let recording = folder.file("recording.jsonl");
    let output = trace(&recording).args(["--for", "100ms"]).output().unwrap();
    assert!(output.status.success());
    let recording = recording.to_str().unwrap();
    let of_file = ["--source", recording];
    for (arguments, complaint) in [
        (&["--source", "demo", "--nvml", "/no/such"][..], "--nvml"),
        (&["--source", "rapl", "--nvml", "/no/such"], "--nvml"),
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
            .current_dir(&folder.0)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(complaint), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_before_the_command_starts() {
    let folder = Folder::new("unreportable");
    let (out, done) = (folder.file("log.csv"), folder.file("done"));
    fs::write(folder.file("file"), "").unwrap();
    let long_name = format!("{}.html", "x".repeat(300));
    // The last one is below the file of rows itself.
    for report in [
        "file/page.html",
        "",
        ".",
        "new/",
        &long_name,
        "log.csv/page.html",
    ] {
        let report = folder.0.join(report);
        let output = trace(&out)
            .arg("--report")
            .arg(&report)
            .args(["--", "touch"])
            .arg(&done)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", report.display());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(report.to_str().unwrap()), "{said}");
        assert!(!done.exists() && !out.exists(), "{}", report.display());
    }
    // A folder that does not exist is created, but only with the report.
    let report = folder.file("a/b/page.html");
    let seen = format!("test ! -e {}", folder.file("a").display());
    let output = trace(&out)
        .arg("--report")
        .arg(&report)
        .args(["--", "sh", "-c", &seen])
        .output()
        .unwrap();
    assert!(output.status.success() && report.exists());
}

#[cfg(unix)]
#[test]
fn rows_for_a_device_or_a_pipe_have_their_report_in_the_current_folder() {
    let folder = Folder::new("device");
    let pipe = folder.file("pipe.csv");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    for out in [Path::new("/dev/null"), &pipe] {
        let output = Command::new(env!("CARGO_BIN_EXE_trace"))
            .args([
                "--source", "demo", "--for", "100ms", "--quiet", "--json", "--out",
            ])
            .arg(out)
            .current_dir(&folder.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(json(&output)["report"], "log.html");
        fs::remove_file(folder.file("log.html")).unwrap();
    }
    assert!(format::read(&reader.join().unwrap()).is_ok());
    // Rows in a pipe would be mixed with the result.
    let output = trace("/dev/stdout".as_ref()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn what_is_refused_leaves_an_old_recording_alone() {
    let folder = Folder::new("refused");
    let out = folder.file("log.csv");
    fs::write(&out, "of yesterday").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, code) in [
        (&["--interval", "0"][..], 2),
        (&["--gpu", "99"], 1),
        (&["--serve", &taken], 1),
        (&["--for", "x"], 2),
        (&["--nosuch"], 2),
        (&["--quiet", "--live"], 2),
        (&["--", "/no/such/program"], 127),
        (&["--", "no-such-program"], 127),
        (&["--", "/"], 126),
        (&["--report", out.to_str().unwrap()], 2),
    ] {
        let output = trace(&out).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert_eq!(
            fs::read_to_string(&out).unwrap(),
            "of yesterday",
            "{arguments:?}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_command_that_cannot_start_leaves_an_old_recording_alone_and_no_new_one() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("unstartable");
    let out = folder.file("log.csv");
    fs::write(&out, "of yesterday").unwrap();
    // Whether a file can be executed is only known by trying: first its permissions, then its
    // format are checked.
    for (name, mode) in [("not-executable", 0o644), ("no-program", 0o755)] {
        let file = folder.file(name);
        fs::write(&file, b"\x7fELF no program").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let output = trace(&out).arg("--").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(126), "{name}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("cannot be executed") && said.contains(name),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&out).unwrap(), "of yesterday", "{name}");
        let new = folder.file("new.csv");
        let output = trace(&new).arg("--").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(126), "{name}");
        assert!(!new.exists(), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_of_rows_that_the_command_changes_is_an_error() {
    let folder = Folder::new("changed");
    let changes = [
        ("removed", "rm $0"),
        ("moved", "mv $0 $0.old; touch $0"),
        ("appended", "echo more >> $0"),
        ("truncated", ": > $0"),
        // Longer than the time between two writes, so that rows are written after the change.
        ("emptied", ": > $0; sleep 1.5"),
        ("overwritten", "seq 100 > $0"),
        ("lengthened", "seq 100000 > $0"),
    ];
    let start = |(number, (name, change)): (usize, &(&str, &str))| {
        let out = folder.file(&format!("{name}.csv"));
        let is_json = number % 2 == 1;
        let wait = "while ! test -s $0; do sleep 0.05; done";
        let child = Command::new(env!("CARGO_BIN_EXE_trace"))
            .args(["--source", "demo", "--interval", "20ms", "--out"])
            .arg(&out)
            .args(is_json.then_some("--json"))
            .args(["--", "sh", "-c", &format!("{wait}; {change}")])
            .arg(&out)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        (out, is_json, child.unwrap())
    };
    // All at the same time, because each waits for its first rows.
    let started: Vec<_> = changes.iter().enumerate().map(start).collect();
    for (out, is_json, child) in started {
        let output = child.wait_with_output().unwrap();
        let out = out.display();
        assert_eq!(output.status.code(), Some(1), "{out}");
        let complaint = String::from_utf8_lossy(&output.stderr);
        let named = format!("trace: {out}: sampling: sink failed");
        assert!(complaint.contains(&named), "{out}: {complaint}");
        assert!(complaint.contains("another program"), "{out}: {complaint}");
        // The energy and the report come from the rows in memory.
        if is_json {
            assert!(json(&output)["out"].is_null(), "{out}");
        } else {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(!said.contains("rows:"), "{out}: {said}");
            assert!(said.contains("report: "), "{out}: {said}");
        }
    }
}

#[test]
fn a_command_has_its_terminal_line_to_itself_and_numbers_are_in_json() {
    let folder = Folder::new("line");
    let output = Command::new(env!("CARGO_BIN_EXE_trace"))
        .args(["--source", "demo", "--json", "--out", "log.csv"])
        .args(["--", "sh", "-c", "pwd >&2; sleep 0.5"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    let place = folder.0.canonicalize().unwrap();
    // Standard error only has the output of COMMAND: no status line, no control characters.
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(Path::new(said.trim_end()), place);
    assert!(folder.file("log.csv").exists());
    let idle = &json(&output)["devices"][0]["idle"];
    let wasted_j = ["low", "value", "high"].map(|end| idle["wasted_j"][end].as_f64().unwrap());
    assert!(wasted_j.is_sorted(), "{idle}");
    let energy = &json(&output)["devices"][0]["energy"];
    let (of_verdict, of_energy) = (idle["energy_j"].as_f64(), energy["energy_j"].as_f64());
    assert!((of_verdict.unwrap() - of_energy.unwrap()).abs() < 1e-9 * of_energy.unwrap());
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

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_silent() {
    for words in [
        &["--help"][..],
        &["--version"],
        &["--source", "demo", "--for", "1ms"],
    ] {
        let folder = Folder::new("closed");
        let mut child = Command::new(env!("CARGO_BIN_EXE_trace"))
            .args(words)
            .current_dir(&folder.0)
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
fn on_a_terminal(folder: &Folder, options: &str) -> String {
    let program = env!("CARGO_BIN_EXE_trace");
    let words = format!("{program} --source demo {options} -- sh -c 'printf first; sleep 0.7'");
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &words, "/dev/null"])
        .current_dir(&folder.0)
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
    let folder = Folder::new("terminal");
    let said = on_a_terminal(&folder, "");
    assert!(said.contains("first") && said.contains(" J ["), "{said:?}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let said = on_a_terminal(&folder, "--live");
    assert!(
        said.contains("\u{1b}[2K") && said.contains("0 s | 0 Tesla T4"),
        "{said:?}"
    );
}

/// Returns the command of the program, which samples the fake NVML library.
fn trace_fake(folder: &Folder, scenario: &Scenario) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
    command
        .env(
            "FAKE_NVML_SCENARIO",
            scenario.to_json().expect("a scenario has no NaN"),
        )
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .args(["--quiet", "--interval", "20ms", "--nvml"])
        .arg(support::fake());
    command
}

/// Records simulated boards with constant power, without waiting.
fn recorded(boards: &[Board], watts: f64, duration: Duration) -> Trace {
    let mut scenario = Scenario::from_boards(boards);
    for gpu in &mut scenario.gpus {
        gpu.power = PowerProfile::constant(watts);
    }
    let source = Synthetic::new(Model::new(scenario).expect("the scenario is valid"));
    Sampler::new(source)
        .record(duration)
        .expect("the source is readable")
}

/// Writes a trace to a file of a folder.
fn write(folder: &Folder, name: &str, trace: &Trace) -> PathBuf {
    let path = folder.file(name);
    fs::write(&path, format::write(trace, format::Dialect::Csv)).expect("the folder is writable");
    path
}

fn run(folder: &Folder, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
    command
        .args(words)
        .current_dir(&folder.0)
        .output()
        .expect("the program starts")
}

#[cfg(target_os = "linux")]
#[test]
fn a_driver_without_a_gpu_has_rapl_as_its_fallback() {
    let folder = Folder::new("no-gpu");
    // The dynamic loader finds the fake library under the name of the driver's.
    std::os::unix::fs::symlink(support::fake(), folder.file("libnvidia-ml.so.1")).unwrap();
    let trace = |source: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
        let scenario = Scenario::from_boards(&[]).to_json().unwrap();
        command
            .env("FAKE_NVML_SCENARIO", scenario)
            .env("LD_LIBRARY_PATH", &folder.0)
            .current_dir(&folder.0)
            .stdin(Stdio::null())
            .args(["--quiet", "--json", "--for", "100ms"])
            .args(source);
        command.output().unwrap()
    };
    let complaint = |output: Output| {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let named = complaint(trace(&["--source", "nvml"]));
    assert!(named.contains("(0 available)"), "{named}");
    let found = trace(&[]);
    if telemetry::rapl::Rapl::open().is_ok() {
        let bytes = fs::read(folder.file("log.csv")).unwrap();
        assert_eq!(format::read(&bytes).unwrap().trace.source, "rapl");
    } else {
        let found = complaint(found);
        for part in ["the driver has no GPU", "no RAPL domain found"] {
            assert!(found.contains(part), "{found}");
        }
    }
}

#[test]
fn the_default_file_has_all_devices_and_the_result_their_total() {
    let folder = Folder::new("default");
    let scenario = Scenario::from_boards(&[Board::A100; 3]);
    let output = trace_fake(&folder, &scenario)
        .args(["--for", "600ms", "--json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let bytes = fs::read(folder.file("log.csv")).unwrap();
    assert_eq!(
        format::Dialect::detect(&String::from_utf8_lossy(&bytes)),
        Some(format::Dialect::Csv)
    );
    let read = format::read(&bytes).unwrap();
    assert!(read.skipped.is_empty());
    for device in 0..3 {
        assert!(read.trace.device_rows(device).count() > 10, "{device}");
        for metric in [Metric::PowerDraw, Metric::SmClock, Metric::Temperature] {
            assert!(!read.trace.series(device, metric).is_empty(), "{metric}");
        }
    }
    let found = json(&output);
    let sum = |pick: &dyn Fn(&serde_json::Value) -> f64| -> f64 {
        let devices = found["devices"].as_array().unwrap();
        devices.iter().map(|device| pick(&device["energy"])).sum()
    };
    let total = &found["total"];
    for (value, sum) in [
        (
            &total["energy_j"],
            sum(&|it| it["energy_j"].as_f64().unwrap()),
        ),
        (
            &total["interval"]["low_j"],
            sum(&|it| it["interval"]["low_j"].as_f64().unwrap()),
        ),
        (
            &total["interval"]["high_j"],
            sum(&|it| it["interval"]["high_j"].as_f64().unwrap()),
        ),
    ] {
        assert!(
            (value.as_f64().unwrap() - sum).abs() < 1e-9 * sum,
            "{total} {sum}"
        );
    }
    assert_eq!(total["is_complete"], true);
}

#[test]
fn a_total_without_some_device_says_which() {
    let folder = Folder::new("partial");
    let mut trace = recorded(&[Board::V100; 2], 100.0, Duration::from_secs(10));
    for row in trace.rows.iter_mut().filter(|row| row.device == 1) {
        row.values = Values::none();
        row.values.set(Metric::Temperature, 40.0);
    }
    write(&folder, "log.csv", &trace);
    let output = run(&folder, &["--source", "log.csv"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("total of 1 of 2 devices: 1000 J ["), "{said}");
    let name = &trace.devices[1].name;
    let note = format!("total excludes devices whose energy is unknown: 1 {name}");
    assert!(said.contains(&note), "{said}");
    let page = fs::read_to_string(folder.file("log.html")).unwrap();
    assert!(page.contains(&note) && page.contains("total power (W)"));
    let found = json(&run(&folder, &["--source", "log.csv", "--json"]));
    assert_eq!(found["total"]["is_complete"], false);
    assert_eq!(
        found["total"]["devices_without_energy"],
        serde_json::json!([1])
    );
    assert!(found["devices"][1]["energy"].is_null());
}

/// Collects the paths of all keys of a JSON value.
fn keys(value: &serde_json::Value, found: &mut Vec<String>) {
    if let Some(object) = value.as_object() {
        for (key, value) in object {
            found.push(key.clone());
            keys(value, found);
        }
    }
    for value in value.as_array().into_iter().flatten() {
        keys(value, found);
    }
}

#[test]
fn json_has_all_numbers_of_the_verdict_with_their_units() {
    let folder = Folder::new("numbers");
    let mut trace = recorded(&[Board::V100], 100.0, Duration::from_secs(30));
    let profile = PowerProfile::square(40.0, 200.0, 2.0, 0.6);
    let mut scenario = Scenario::from_boards(&[Board::V100]);
    scenario.gpus[0].power = profile;
    let source = Synthetic::new(Model::new(scenario).unwrap());
    trace.rows = Sampler::new(source)
        .record(Duration::from_secs(30))
        .unwrap()
        .rows;
    write(&folder, "log.csv", &trace);
    let found = json(&run(&folder, &["--source", "log.csv", "--json"]));
    let idle = &found["devices"][0]["idle"];
    let near = |value: &serde_json::Value, truth: f64, tolerance: f64| {
        let value = value.as_f64().unwrap_or(f64::NAN);
        assert!(
            (value - truth).abs() <= tolerance,
            "{value} {truth}: {idle}"
        );
    };
    near(&idle["period"]["period_s"], 2.0, 0.05);
    near(&idle["period"]["low_w"], 40.0, 15.0);
    near(&idle["period"]["high_w"], 200.0, 15.0);
    near(&idle["wasted_j"]["value"], 0.4 * 40.0 * 30.0, 60.0);
    let idle_share = idle["shares"]["idle"]["value"].as_f64().unwrap()
        + idle["shares"]["idle_held"]["value"].as_f64().unwrap();
    near(&serde_json::json!(idle_share), 0.4, 0.05);
    near(&found["duration_s"], 30.0, 0.2);
    let mut names = vec![];
    keys(&found, &mut names);
    assert!(names.len() > 50);
    for name in ["secs", "nanos", "joules", "seconds", "window"] {
        assert!(!names.iter().any(|key| key == name), "{name}");
    }
}

#[test]
fn the_loss_of_all_devices_is_an_error_that_says_when() {
    let folder = Folder::new("lost");
    let mut scenario = Scenario::from_boards(&[Board::A100; 2]);
    scenario.faults = vec![FaultRule::lost(0, 0), FaultRule::lost(1, 0)];
    let run = |scenario: &Scenario, option: &str| {
        let mut command = trace_fake(&folder, scenario);
        command
            .args(["--for", "500ms"])
            .args((!option.is_empty()).then_some(option));
        command.output().unwrap()
    };
    let output = run(&scenario, "");
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    let complaint: Vec<_> = complaint.lines().collect();
    assert_eq!(complaint.len(), 1, "{complaint:?}");
    assert!(
        complaint[0].contains("no device has readings: 0 "),
        "{complaint:?}"
    );
    assert!(
        complaint[0].matches(" since ").count() == 2,
        "{complaint:?}"
    );
    assert!(complaint[0].contains("(GPU lost)"), "{complaint:?}");
    // The readings are one line for each device, with their number and the first time.
    scenario.faults = vec![FaultRule::lost(0, 200)];
    let output = run(&scenario, "");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = said
        .lines()
        .filter(|line| line.contains("GPU lost"))
        .collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(
        lines[0].contains(" metrics failed ") && lines[0].contains("first at "),
        "{said}"
    );
    assert!(
        said.contains("No readings from ") && said.contains(" to the end."),
        "{said}"
    );
    let page = fs::read_to_string(folder.file("log.html")).unwrap();
    assert!(page.contains("Red areas have no readings"));
    let found = json(&run(&scenario, "--json"));
    let since_s = found["devices"][0]["lost_since_s"].as_f64().unwrap();
    assert!((0.1..0.5).contains(&since_s), "{since_s}");
    assert!(found["devices"][1]["lost_since_s"].is_null());
}

#[test]
fn two_recordings_are_compared_by_their_work() {
    let folder = Folder::new("compare");
    let old = recorded(&[Board::V100], 200.0, Duration::from_secs(10));
    let new = recorded(&[Board::V100], 100.0, Duration::from_secs(20));
    write(&folder, "old.csv", &old);
    write(&folder, "new.csv", &new);
    let words = ["compare", "old.csv", "new.csv", "--items", "10"];
    let said = String::from_utf8(run(&folder, &words).stdout).unwrap();
    assert!(
        said.contains("throughput -50.0 %, energy per item +0."),
        "{said}"
    );
    let words = [
        "compare",
        "old.csv",
        "new.csv",
        "--items-after",
        "2",
        "--json",
    ];
    let found = json(&run(&folder, &words));
    let first = &found["devices"][0];
    assert!(
        (first["speedup"].as_f64().unwrap() - 1.0).abs() < 1e-6,
        "{first}"
    );
    let ratio = ["energy_ratio_low", "energy_ratio", "energy_ratio_high"];
    let ratio = ratio.map(|key| first[key].as_f64().unwrap());
    assert!(
        ratio.is_sorted() && (ratio[1] - 0.5).abs() < 0.02,
        "{ratio:?}"
    );
    assert!((first["after"]["mean_w"].as_f64().unwrap() - 100.0).abs() < 3.0);
    let two = recorded(&[Board::V100; 2], 100.0, Duration::from_secs(2));
    write(&folder, "two.csv", &two);
    let output = run(&folder, &["compare", "old.csv", "two.csv"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(
        complaint.contains("numbers of devices differ"),
        "{complaint}"
    );
    let words = ["compare", "old.csv", "two.csv", "--gpu", "0"];
    assert!(run(&folder, &words).status.success());
}

#[test]
fn a_recording_with_times_at_the_limit_has_a_report() {
    let folder = Folder::new("limit");
    let usual = recorded(&[Board::V100, Board::P100], 100.0, Duration::from_secs(2));
    let (far, limit) = (Duration::from_secs(10_u64.pow(19)), Duration::MAX);
    let region = |start, end| telemetry::Region {
        name: "job".to_owned(),
        start,
        end,
        depth: 0,
        thread: 0,
    };
    let second = Duration::from_secs(1);
    for (name, times, regions) in [
        ("far", [Duration::ZERO, far], vec![]),
        ("one", [limit; 2], vec![]),
        ("end", [limit - second, limit], vec![]),
        (
            "all",
            [Duration::ZERO, limit],
            vec![region(Duration::ZERO, limit)],
        ),
        ("job", [second, far], vec![region(second, far)]),
        ("odd", [second, limit], vec![region(limit, second)]),
        ("two", [Duration::ZERO, far], vec![]),
    ] {
        let mut trace = usual.clone();
        trace.regions = regions;
        // Each device has its usual rows, moved to the two times.
        let half = trace.rows.len() / 2;
        for (i, row) in trace.rows.iter_mut().enumerate() {
            row.time = times[usize::from(i >= half)].saturating_add(row.time);
        }
        if name == "two" {
            // One row of each device remains at each time, so that their distance is the usual one.
            trace.rows.drain(2..2 * half - 2);
        }
        write(&folder, name, &trace);
        let output = run(&folder, &["--source", name, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        assert!(folder.file(&format!("{name}.html")).exists(), "{name}");
        let output = run(&folder, &["compare", name, name]);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{name}: {output:?}"
        );
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(!complaint.contains("panicked"), "{name}: {complaint}");
    }
}

#[test]
fn the_clock_of_least_energy_is_found_in_recordings() {
    let folder = Folder::new("dvfs");
    // Energy per item: 800 J, 600 J, 900 J, with a second run at the middle clock.
    let runs = [
        ("a", 600.0, 80.0, 10),
        ("b", 900.0, 120.0, 5),
        ("c", 1200.0, 225.0, 4),
    ];
    for (name, clock_mhz, watts, s) in runs {
        let mut trace = recorded(&[Board::V100], watts, Duration::from_secs(s));
        for row in &mut trace.rows {
            row.values.set(Metric::SmClock, clock_mhz);
        }
        write(&folder, name, &trace);
    }
    let words = ["dvfs", "c", "b", "a", "b", "--json", "--max-slowdown", "10"];
    let found = json(&run(&folder, &words));
    let points = found["points"].as_array().unwrap();
    let clocks: Vec<_> = points
        .iter()
        .map(|it| it["clock_mhz"].as_f64().unwrap())
        .collect();
    assert_eq!(clocks, [600.0, 900.0, 1200.0]);
    assert_eq!(points[1]["n_runs"], 2);
    assert_eq!(found["least_energy"]["clock_mhz"], 900.0);
    let joules = found["least_energy"]["energy_per_item_j"].as_f64().unwrap();
    assert!((joules - 600.0).abs() < 15.0, "{joules}");
    assert_eq!(found["within_max_slowdown"]["clock_mhz"], 1200.0);
    let said = String::from_utf8(run(&folder, &["dvfs", "a", "b", "c"]).stdout).unwrap();
    assert!(said.contains("least energy: 900 MHz, "), "{said}");
    let output = run(&folder, &["dvfs", "a", "b"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(
        complaint.contains("number of points is 2 (must be at least 3)"),
        "{complaint}"
    );
}

#[test]
fn a_nested_region_is_no_run_of_a_clock() {
    let folder = Folder::new("nested");
    let files = [("a", 600.0), ("b", 900.0), ("c", 1200.0)];
    for (name, clock_mhz) in files {
        let mut trace = recorded(&[Board::V100], 100.0, Duration::from_secs(6));
        for row in &mut trace.rows {
            row.values.set(Metric::SmClock, clock_mhz);
        }
        let region = |start_s, end_s, depth| telemetry::Region {
            name: "run".to_owned(),
            start: Duration::from_secs(start_s),
            end: Duration::from_secs(end_s),
            depth,
            thread: 0,
        };
        trace.regions = vec![region(1, 3, 0), region(1, 2, 1), region(3, 5, 0)];
        write(&folder, name, &trace);
    }
    let found = json(&run(&folder, &["dvfs", "a", "b", "c", "--json"]));
    for point in found["points"].as_array().unwrap() {
        assert_eq!(point["n_runs"], 2);
        let items_per_s = point["items_per_s"].as_f64().unwrap();
        assert!((items_per_s - 0.5).abs() < 1e-9, "{point}");
    }
}

#[test]
fn two_traces_do_not_share_a_file() {
    let folder = Folder::new("shared");
    let out = folder.file("trace.jsonl");
    let mut first = trace(&out)
        .args(["--for", "20s"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| fs::read(&out).is_ok_and(|bytes| !bytes.is_empty()));
    let second = trace(&out).args(["--for", "100ms"]).output().unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another program"));
}

#[cfg(unix)]
#[test]
fn a_hang_up_that_is_ignored_ends_neither_trace_nor_command() {
    let folder = Folder::new("nohup");
    let (out, ready) = (folder.file("trace.jsonl"), folder.file("ready"));
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

#[cfg(unix)]
#[test]
fn a_report_follows_a_link() {
    let folder = Folder::new("link");
    let (page, link) = (folder.file("page.html"), folder.file("link.html"));
    fs::write(&page, "old").unwrap();
    std::os::unix::fs::symlink(&page, &link).unwrap();
    let output = trace(&folder.file("trace.jsonl"))
        .args(["--for", "100ms", "--report"])
        .arg(&link)
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&page).unwrap().contains("<svg"));
}

fn wait_for(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::yield_now();
    }
}
