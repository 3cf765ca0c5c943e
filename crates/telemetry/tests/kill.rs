//! A process that is killed while it samples leaves files that are shorter, not broken.

mod support;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::work_for;
use telemetry::Sampler;
use telemetry::format::{self, Dialect, Writer};
use telemetry::synthetic::{Program, Synthetic};

/// Names the folder to the copy of this test that is killed.
const FOLDER: &str = "TELEMETRY_TEST_KILLED";
const SELF: &str = "a_killed_process_leaves_all_but_the_last_second";
const INTERVAL: Duration = Duration::from_millis(1);
const DIALECTS: [(&str, Dialect); 4] = [
    ("trace.csv", Dialect::Csv),
    ("trace.jsonl", Dialect::JsonLines),
    ("log.csv", Dialect::Seed),
    ("trace.json", Dialect::ChromeTrace),
];

/// Samples into a file of each dialect until somebody ends it.
fn sample_forever(folder: &Path) {
    let source = Synthetic::of(Program::square(20.0, 60.0, 0.5, 0.5)).expect("a sound program");
    let mut sampler = Sampler::new(source).interval(INTERVAL);
    for (name, dialect) in DIALECTS {
        let writer = Writer::create(dialect, &folder.join(name));
        sampler = sampler.to(writer.expect("a folder of the test's own"));
    }
    let _running = sampler.start().expect("a model can be sampled");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_process_leaves_all_but_the_last_second() {
    if let Some(folder) = env::var_os(FOLDER) {
        sample_forever(&PathBuf::from(folder));
    }
    let n_kills = if env::var_os("VERIFY_FULL").is_some() {
        40
    } else {
        3
    };
    let mut lost = vec![];
    for kill in 0..n_kills {
        let folder = env::temp_dir().join(format!("telemetry-kill-{}-{kill}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", SELF, "--nocapture"])
            .env(FOLDER, &folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Times without a pattern, of which some lie within a write.
        let lives = Duration::from_micros(1_300_000 + kill * 271_828 % 1_500_000);
        let born = Instant::now();
        while !folder.join(DIALECTS[3].0).exists() {
            std::thread::yield_now();
        }
        let sampled = Instant::now();
        work_for(lives.saturating_sub(born.elapsed()));
        child.kill().unwrap();
        let sampled = sampled.elapsed();
        child.wait().unwrap();
        for (name, dialect) in DIALECTS {
            let read = format::read(&fs::read(folder.join(name)).unwrap()).unwrap();
            assert!(read.skipped.len() <= 1, "{name}: {:?}", read.skipped);
            let rows = &read.trace.rows;
            assert!(rows.windows(2).all(|two| two[0].time <= two[1].time));
            lost.push((sampled.saturating_sub(read.trace.duration()), dialect));
        }
        fs::remove_dir_all(folder).unwrap();
    }
    // What is written is a second old at most, but a machine that is busy may keep a process from sampling for longer.
    lost.sort_by_key(|(time, _)| *time);
    let ((median, _), last) = (lost[lost.len() / 2], lost[lost.len() - 1]);
    assert!(median <= Duration::from_millis(1000), "{lost:?}");
    assert!(last.0 <= Duration::from_secs(5), "{lost:?}");
}
