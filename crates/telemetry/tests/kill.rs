//! Trace files of a process that is killed while sampling: they are shorter, but valid.

mod support;

use std::env;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::work_for;
use telemetry::format::{self, Dialect, Sink, Writer};
use telemetry::synthetic::{PowerProfile, Synthetic};
use telemetry::{Region, Row, Sampler, Trace};
use tool_io::TemporaryFolder;

/// The environment variable with the output folder, set for the child process that is killed.
const FOLDER: &str = "TELEMETRY_TEST_KILLED";
/// The name of the test that starts itself as the child process.
const SELF: &str = "a_killed_process_leaves_all_but_the_last_second";
/// The read interval: so long that the writer's buffer does not fill between two flushes, so rows
/// are written only once a second.
const INTERVAL: Duration = Duration::from_millis(5);
const DIALECTS: [(&str, Dialect); 4] = [
    ("trace.csv", Dialect::Csv),
    ("trace.jsonl", Dialect::JsonLines),
    ("log.csv", Dialect::SemicolonCsv),
    ("trace.json", Dialect::ChromeTrace),
];

/// Name of the file that contains the time of the newest row, in ns.
const WITNESS: &str = "newest";

/// A sink that writes the time of each row at once, while other sinks may still buffer the row.
struct Witness(File);

impl Sink for Witness {
    fn begin(&mut self, _: &Trace) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &Trace, row: &Row) -> io::Result<()> {
        self.0.rewind()?;
        let nanoseconds = u64::try_from(row.time.as_nanos()).map_err(io::Error::other)?;
        self.0.write_all(&nanoseconds.to_le_bytes())
    }

    fn mark(&mut self, _: &Trace, _: &Region) -> io::Result<()> {
        Ok(())
    }

    fn flush(&mut self, _: &Trace) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &Trace) -> io::Result<()> {
        Ok(())
    }
}

/// Samples into a file of each dialect until the process is killed.
fn sample_forever(folder: &Path) {
    let source =
        Synthetic::from_power(PowerProfile::square(20.0, 60.0, 0.5, 0.5)).expect("a valid profile");
    let mut sampler = Sampler::new(source).interval(INTERVAL);
    for (name, dialect) in DIALECTS {
        let writer = Writer::create(dialect, &folder.join(name));
        sampler = sampler.with_sink(writer.expect("the file can be created"));
    }
    let witness = File::create(folder.join(WITNESS)).expect("the file can be created");
    let _running = sampler
        .with_sink(Witness(witness))
        .start()
        .expect("a model can be sampled");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_process_leaves_all_but_the_last_second() {
    if let Some(folder) = env::var_os(FOLDER) {
        sample_forever(&PathBuf::from(folder));
    }
    let is_full = env::var_os("VERIFY_FULL").is_some_and(|value| value == "1");
    let n_kills = if is_full { 40 } else { 3 };
    for kill in 0..n_kills {
        let folder = TemporaryFolder::create(&env::temp_dir(), "telemetry-kill").unwrap();
        let folder = folder.path();
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", SELF, "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Irregular times, some of which are during a write.
        let lives = Duration::from_micros(1_300_000 + kill * 271_828 % 1_500_000);
        let born = Instant::now();
        work_for(lives.saturating_sub(born.elapsed()));
        child.kill().unwrap();
        child.wait().unwrap();
        let newest = fs::read(folder.join(WITNESS)).unwrap().try_into().unwrap();
        let sampled = Duration::from_nanos(u64::from_le_bytes(newest));
        assert!(sampled > Duration::from_millis(300), "{sampled:?}");
        for (name, dialect) in DIALECTS {
            let read = format::read(&fs::read(folder.join(name)).unwrap()).unwrap();
            assert!(read.skipped.len() <= 1, "{name}: {:?}", read.skipped);
            let rows = &read.trace.rows;
            assert!(rows.windows(2).all(|two| two[0].time <= two[1].time));
            let lost = sampled.saturating_sub(read.trace.duration());
            assert!(
                lost <= Duration::from_secs(1),
                "{dialect:?}: {lost:?} of {sampled:?}"
            );
        }
    }
}
