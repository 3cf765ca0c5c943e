//! Sources of a trace: the fallback without a GPU, all devices, lost devices, scrapers.

use super::{folder, json, trace_fake, wait_for};
use crate::support;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use telemetry::synthetic::{Board, FaultRule, Scenario};
use telemetry::{Metric, format};

#[cfg(target_os = "linux")]
#[test]
fn a_driver_without_a_gpu_has_rapl_as_its_fallback() {
    let folder = folder("no-gpu");
    // The dynamic loader finds the fake library under the name of the driver's.
    std::os::unix::fs::symlink(support::fake(), folder.path().join("libnvidia-ml.so.1")).unwrap();
    let trace = |source: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
        let scenario = Scenario::from_boards(&[]).to_json().unwrap();
        command
            .env("FAKE_NVML_SCENARIO", scenario)
            .env("LD_LIBRARY_PATH", folder.path())
            .current_dir(folder.path())
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
        let bytes = fs::read(folder.path().join("log.csv")).unwrap();
        assert_eq!(format::read(&bytes).unwrap().trace.source, "rapl");
    } else {
        let found = complaint(found);
        let problem = "trace: Sampler::open: no usable source (Sampler::open: ";
        assert!(found.starts_with(problem), "{found}");
        // The remedy follows the reasons.
        let parts = [
            "no device found",
            "no RAPL domain found",
            "); `cargo xtask doctor`",
        ];
        let places = parts.map(|part| found.find(part));
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{found}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_library_without_a_folder_is_in_the_current_folder() {
    let folder = folder("library");
    std::os::unix::fs::symlink(support::fake(), folder.path().join("fake.so")).unwrap();
    let scenario = Scenario::from_boards(&[Board::V100]).to_json().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_trace"))
        .env("FAKE_NVML_SCENARIO", scenario)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .args(["--quiet", "--for", "100ms", "--nvml", "fake.so"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_default_file_has_all_devices_and_the_result_their_total() {
    let folder = folder("default");
    let scenario = Scenario::from_boards(&[Board::A100; 3]);
    let output = trace_fake(&folder, &scenario)
        .args(["--for", "600ms", "--json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let bytes = fs::read(folder.path().join("log.csv")).unwrap();
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
fn the_loss_of_all_devices_is_an_error_with_its_time() {
    let folder = folder("lost");
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
    let page = fs::read_to_string(folder.path().join("log.html")).unwrap();
    assert!(page.contains("Red areas have no readings"));
    let found = json(&run(&scenario, "--json"));
    let since_s = found["devices"][0]["lost_since_s"].as_f64().unwrap();
    assert!((0.1..0.5).contains(&since_s), "{since_s}");
    assert!(found["devices"][1]["lost_since_s"].is_null());
}

#[test]
fn scrapers_receive_the_newest_row_during_a_trace() {
    let folder = folder("serve");
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
        .arg(folder.path().join("trace.jsonl"))
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
