//! Recordings and reports as files, and files that must not be lost.

use super::{folder, json, trace, wait_for};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use telemetry::format;

#[test]
fn a_recorded_file_becomes_a_report_and_another_file_at_once() {
    let folder = folder("file");
    let (first, second) = (
        folder.path().join("first.jsonl"),
        folder.path().join("second.csv"),
    );
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
    assert!(folder.path().join("second.html").exists());
    let report_only = Command::new(env!("CARGO_BIN_EXE_trace"))
        .arg("--source")
        .arg(&second)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(report_only.status.success());
    assert!(!folder.path().join("log.csv").exists());
    let same = trace(&folder.path().join("rows.html")).output().unwrap();
    assert!(String::from_utf8_lossy(&same.stderr).contains("is also a file of rows"));
    let itself = convert(&first);
    assert_eq!(itself.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&itself.stderr).contains("is the recorded file itself"));
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_before_the_command_starts() {
    let folder = folder("unreportable");
    let (out, done) = (folder.path().join("log.csv"), folder.path().join("done"));
    fs::write(folder.path().join("file"), "").unwrap();
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
        let report = folder.path().join(report);
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
    // Next to the file of rows is a folder with the name of the report.
    fs::create_dir(folder.path().join("log.html")).unwrap();
    let output = trace(&out).args(["--", "true"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("; --report sets another path"), "{said}");
    assert!(!out.exists());
    // A folder that does not exist is created, but only with the report.
    let report = folder.path().join("a/b/page.html");
    let seen = format!("test ! -e {}", folder.path().join("a").display());
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
    let folder = folder("device");
    let pipe = folder.path().join("pipe.csv");
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
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(json(&output)["report"], "log.html");
        fs::remove_file(folder.path().join("log.html")).unwrap();
    }
    assert!(format::read(&reader.join().unwrap()).is_ok());
    // Rows in a pipe would be mixed with the result.
    let output = trace("/dev/stdout".as_ref()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn rejected_options_do_not_change_an_old_recording() {
    let folder = folder("rejected");
    let out = folder.path().join("log.csv");
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
fn a_command_that_cannot_start_neither_changes_nor_creates_a_recording() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("unstartable");
    let out = folder.path().join("log.csv");
    fs::write(&out, "of yesterday").unwrap();
    // Whether a file can be executed is only known by trying: first its permissions, then its
    // format are checked.
    for (name, mode) in [("not-executable", 0o644), ("no-program", 0o755)] {
        let file = folder.path().join(name);
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
        let new = folder.path().join("new.csv");
        let output = trace(&new).arg("--").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(126), "{name}");
        assert!(!new.exists(), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_of_rows_that_the_command_changes_is_an_error() {
    let folder = folder("changed");
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
        let out = folder.path().join(format!("{name}.csv"));
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
fn two_traces_do_not_share_a_file() {
    let folder = folder("shared");
    let out = folder.path().join("trace.jsonl");
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
fn a_report_follows_a_link() {
    let folder = folder("link");
    let (page, link) = (
        folder.path().join("page.html"),
        folder.path().join("link.html"),
    );
    fs::write(&page, "old").unwrap();
    std::os::unix::fs::symlink(&page, &link).unwrap();
    let output = trace(&folder.path().join("trace.jsonl"))
        .args(["--for", "100ms", "--report"])
        .arg(&link)
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&page).unwrap().contains("<svg"));
}
