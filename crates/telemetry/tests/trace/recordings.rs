//! Analyses of recorded files, and their numbers in JSON.

use super::{folder, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;
use telemetry::synthetic::{Board, Model, PowerProfile, Scenario, Synthetic};
use telemetry::{Metric, Sampler, Trace, Values, format};
use tool_io::TemporaryFolder;

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
fn write(folder: &TemporaryFolder, name: &str, trace: &Trace) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, format::write(trace, format::Dialect::Csv)).expect("the folder is writable");
    path
}

fn run(folder: &TemporaryFolder, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
    command
        .args(words)
        .current_dir(folder.path())
        .output()
        .expect("the program starts")
}

#[test]
fn a_total_without_some_device_names_the_device() {
    let folder = folder("partial");
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
    let page = fs::read_to_string(folder.path().join("log.html")).unwrap();
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
fn json_has_all_numbers_of_the_summary_with_their_units() {
    let folder = folder("numbers");
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
fn two_recordings_are_compared_by_their_work() {
    let folder = folder("compare");
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
    let folder = folder("limit");
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
        assert!(
            folder.path().join(format!("{name}.html")).exists(),
            "{name}"
        );
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
    let folder = folder("dvfs");
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
fn nested_regions_are_not_counted_as_runs() {
    let folder = folder("nested");
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
