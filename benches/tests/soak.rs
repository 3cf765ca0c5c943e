//! The program `soak`, and a step of each job.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use benches::soak::driver::{Plan, run};
use benches::soak::record::Record;
use benches::soak::{jobs, slug};
use gpu_wgsl::check::adapter_of_the_day;
use tool_io::TemporaryFolder;

/// Runs the program with a folder as the root of the workspace.
fn soak(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(args)
        .env(tool_io::WORKSPACE_VARIABLE, folder)
        .output()
        .expect("the program was built")
}

/// Returns whether a job runs here: on the host, or on the adapter of the day. The programs and
/// nets of the other adapters have tests in `gpu-wgsl` and `quant`.
fn is_of_the_day(name: &str) -> bool {
    let Some((_, executor)) = name.split_once('/') else {
        return true;
    };
    let is_full = std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1");
    let driver = adapter_of_the_day().map(|gpu| slug(&gpu.adapter().driver));
    is_full || executor == "host" || driver.is_some_and(|driver| executor.starts_with(&driver))
}

#[test]
fn each_job_does_a_step_without_a_fault() {
    let mut n_jobs = 0;
    for job in jobs().into_iter().filter(|job| is_of_the_day(&job.name)) {
        let plan = Plan {
            time: Duration::ZERO,
            start: Duration::ZERO,
            seed: 1,
        };
        let outcome = run(&job, plan, &mut |_| ());
        assert_eq!(outcome.n_faults, 0, "{outcome:#?}");
        assert!(outcome.steps == 1 && outcome.is_good(), "{outcome:#?}");
        eprintln!("{}: {} in {} s", job.name, outcome.counts, outcome.seconds);
        n_jobs += 1;
    }
    // Programs and training on the host and on an adapter, the sampler, and games.
    let least = if adapter_of_the_day().is_some() { 6 } else { 4 };
    assert!(n_jobs >= least, "{n_jobs} jobs (expected {least} or more)");
}

#[test]
fn a_child_of_the_program_does_the_job_and_the_outcome_is_recorded() {
    let folder = TemporaryFolder::create(&std::env::temp_dir(), "soak-program").unwrap();
    let folder = folder.path();
    let args = [
        "--only",
        "games",
        "--minutes",
        "0",
        "--seed",
        "7",
        "--json",
        "--record",
    ];
    for _ in 0..2 {
        let output = soak(&args, folder);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let entry: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(entry["job"], "games");
        assert_eq!(
            (&entry["steps"], &entry["n_faults"]),
            (&1.into(), &0.into())
        );
        assert!(entry["counts"]["games"].as_u64() > Some(0), "{entry}");
        assert!(entry["ok"].is_null() && !entry["cpu"].is_null(), "{entry}");
    }
    let record = Record::read(&folder.join(benches::soak::record::PATH)).unwrap();
    assert_eq!(record.jobs.len(), 1);
    let entry = &record.jobs[0];
    let command = "cargo xtask soak --only games --minutes 0 --seed 7 --record";
    assert_eq!(entry.command, command);
    assert_eq!(entry.outcome.seed, 7);
}

#[test]
fn a_pattern_that_matches_nothing_is_wrong_usage() {
    let output = soak(&["--only", "nosuch"], Path::new(""));
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("\"nosuch\"") && said.contains("programs/host"),
        "{said}"
    );
    let listed = soak(&["--list", "--only", "programs/host"], Path::new(""));
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "programs/host\n");
}

#[test]
fn the_process_of_a_job_ends_with_the_program_that_started_it() {
    // Most of the processes end while they open the drivers of adapters.
    for _ in 0..20 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_soak"))
            .args(["--job", "games", "--minutes", "600"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        assert!(child.try_wait().unwrap().is_none());
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
}
