//! The bench command: checks and times every workload on every executor of this machine, and writes
//! a record and a report.
//!
//! Role: built and run by `cargo xtask bench`; a bundle contains it for machines without cargo.

use anyhow::{Context, Result};
use benches::claims;
use benches::meter::Meter;
use benches::mnist::{self, LazyImages};
use benches::workloads;
use commands::clap::Parser as _;
use commands::{Bench, RIVAL_PACKAGES};
use gpu_wgsl::DeviceType;
use harness::campaign::{Campaign, Finished, Settings};
use harness::comparison::comparisons;
use harness::progress::Progress;
use harness::record::{NotRun, Record};
use harness::workload::{Selection, Task};
use harness::{report, sampling, table};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tool_io::exit;
use tool_io::output::{self, print};
use tool_io::replace_file;
use tool_io::{signals, target_folder};

/// Smallest time that is shown as an estimate, in seconds; less is not worth a number.
const LEAST_ESTIMATE_S: u64 = 5;

fn main() -> ExitCode {
    let options = Bench::parse();
    match bench(&options) {
        Ok(code) => code,
        Err(error) => {
            output::note(format_args!("bench: {error:#}"));
            ExitCode::from(exit::FAILURE)
        }
    }
}

fn bench(options: &Bench) -> Result<ExitCode> {
    let mut adapters = gpu_wgsl::adapters().into_iter();
    let real_gpu = adapters.any(|adapter| adapter.device_type != DeviceType::Cpu);
    let images = Rc::new(LazyImages::new(options.data.clone()));
    let mut tasks = workloads::all(real_gpu, &images);
    let known: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
    let is_chosen = |id: &str| {
        let mut patterns = options.only.iter();
        options.only.is_empty() || patterns.any(|pattern| id.contains(pattern))
    };
    tasks.retain(|task| is_chosen(&task.id.to_string()));
    let mut patterns = options.only.iter();
    if let Some(pattern) = patterns.find(|only| !known.iter().any(|id| id.contains(*only))) {
        output::note(format_args!(
            "bench: no workload matches {pattern:?}; --list prints all of them"
        ));
        return Ok(ExitCode::from(exit::USAGE));
    }
    if options.list {
        let ids = tasks
            .iter()
            .map(|task| format!("{}{}\n", task.id, mark(task.level)));
        print(ids.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let left_out = keep_level(&mut tasks, level(options));
    if tasks.is_empty() {
        output::note(format_args!(
            "bench: all workloads that match are left out; add --full or --long to run them"
        ));
        return Ok(ExitCode::from(exit::USAGE));
    }
    // Images are loaded by the first task that reads them; a wrong folder is found before.
    if let Some(folder) = &options.data {
        mnist::training_images(folder)?;
    }
    let progress = Progress::new();
    let interrupted = on_interrupt()?;
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    if let Some(folder) = &options.sample {
        return sample(&tasks, folder, &is_interrupted, &progress);
    }
    let out = options.out.clone().unwrap_or_else(target_folder);
    let (records, meter) = (out.join("bench"), Meter::open());
    let finished = |task: &Finished<'_>| progress.suspend(|| show(task, options.json));
    let data_origin = || images.origin().map(str::to_owned);
    let mut campaign = Campaign::new(Settings {
        folder: &records,
        with_rivals: !options.no_rivals,
        packages: &RIVAL_PACKAGES,
        data_origin: &data_origin,
        meter: &meter,
        interrupted: &is_interrupted,
        progress: &progress,
        finished: &finished,
    })?;
    if !options.only.is_empty() {
        campaign.leave_out(NotRun {
            what: "other workloads".to_owned(),
            why: format!("--only {}", options.only.join(" --only ")),
            how: "omit --only".to_owned(),
        });
    }
    left_out
        .into_iter()
        .for_each(|absent| campaign.leave_out(absent));
    if !options.json {
        print(opening(campaign.record(), tasks.len()))?;
    }
    campaign.run(&tasks)?;
    // The results are printed before more files are written, so that a full disk does not lose
    // them.
    let record = campaign.record();
    if !options.json {
        print(format!(
            "\n{}{}\n",
            table::machine(&record.machine),
            table::summary(record)
        ))?;
    }
    // The ledger is about the project as a whole, so a selection of workloads leaves it out.
    if options.only.is_empty() && !is_interrupted() {
        progress.say("measuring the claims of the sources");
        match claims::ledger() {
            Ok(claims) => campaign.add_claims(claims)?,
            Err(error) => campaign.leave_out(NotRun {
                what: "claims of the sources".to_owned(),
                why: format!("{error:#}"),
                how: String::new(),
            }),
        }
        progress.done();
    }
    let record = campaign.record();
    output::note(format_args!("record: {}", campaign.path().display()));
    if options.record {
        let folder = tool_io::workspace_path("benches/record");
        let copy = copy(record, &folder, is_interrupted())?;
        output::note(format_args!("copy:   {copy}"));
    }
    let page = out.join("report").join("index.html");
    report::write(record, &page)?;
    output::note(format_args!("report: {}", page.display()));
    Ok(match (is_interrupted(), campaign.has_failed()) {
        (true, _) => ExitCode::from(exit::INTERRUPTED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Copies a record into a folder, unless the run was interrupted; returns the path of the copy, or
/// the reason why there is none.
fn copy(record: &Record, folder: &Path, is_interrupted: bool) -> Result<String> {
    if is_interrupted {
        return Ok("none, because the run was interrupted".to_owned());
    }
    Ok(record.write_new(folder)?.display().to_string())
}

/// Returns the level that the options request. A pattern is an explicit request, so it also
/// selects workloads that are not in the quick selection.
fn level(options: &Bench) -> Selection {
    match (options.long, options.full || !options.only.is_empty()) {
        (true, _) => Selection::Long,
        (false, true) if !options.quick => Selection::Full,
        (false, _) => Selection::Quick,
    }
}

/// Returns the remark of a level in the list of workloads.
fn mark(level: Selection) -> &'static str {
    match level {
        Selection::Quick => "",
        Selection::Full => " (--full)",
        Selection::Long => " (--long)",
    }
}

/// Removes the tasks above a level, and returns them as not run.
fn keep_level(tasks: &mut Vec<Task>, level: Selection) -> Vec<NotRun> {
    let mut left_out = Vec::new();
    for (above, why, how) in [
        (Selection::Full, "not in the quick selection", "add --full"),
        (Selection::Long, "each takes minutes", "add --long"),
    ] {
        let n = tasks.iter().filter(|task| task.level == above).count();
        if above > level && n > 0 {
            left_out.push(NotRun {
                what: format!("{n} workloads"),
                why: why.to_owned(),
                how: how.to_owned(),
            });
        }
    }
    tasks.retain(|task| task.level <= level);
    left_out
}

/// Returns the first lines of the output: adapters and rivals, and how to get the others.
fn opening(record: &Record, n_tasks: usize) -> String {
    let machine = &record.machine;
    let adapters: Vec<&str> = machine
        .adapters
        .iter()
        .map(|adapter| adapter.name.as_str())
        .collect();
    let adapters = if adapters.is_empty() {
        "none (see `cargo xtask doctor`)".to_owned()
    } else {
        adapters.join(", ")
    };
    let has = |name: &&str| machine.rivals.contains_key(*name);
    let (found, missing): (Vec<&str>, Vec<&str>) =
        RIVAL_PACKAGES.iter().partition(|name| has(name));
    let found = found
        .iter()
        .map(|name| format!("{name} {}", machine.rivals[*name]));
    let mut found = found.collect::<Vec<_>>().join(", ");
    if found.is_empty() {
        found.push_str("none");
    }
    let missing = if missing.is_empty() {
        String::new()
    } else {
        format!("; missing: {} (`cargo xtask rivals`)", missing.join(", "))
    };
    let disturbed = machine.disturbed.iter();
    let disturbed: String = disturbed.map(|why| format!("disturbed: {why}\n")).collect();
    format!(
        "workloads: {n_tasks}\nadapters:  {adapters}\nrivals:    {found}{missing}\n{disturbed}\n"
    )
}

/// Prints the results of a finished task: a table or, as JSON, a line for each row.
fn show(task: &Finished<'_>, json: bool) -> Result<()> {
    if json {
        for row in task.rows {
            print(serde_json::to_string(row)? + "\n")?;
        }
        return Ok(());
    }
    let remaining = task
        .remaining
        .filter(|left| left.as_secs() >= LEAST_ESTIMATE_S);
    let remaining = remaining.map_or_else(String::new, |left| {
        format!(", about {} remaining", minutes(left))
    });
    let Finished {
        n_done, n_tasks, ..
    } = task;
    let mut text = format!("[{n_done} of {n_tasks}{remaining}]\n");
    let record = Record {
        rows: task.rows.to_vec(),
        ..Record::default()
    };
    for comparison in comparisons(&record) {
        text += &table::block(&comparison);
    }
    Ok(print(text + "\n")?)
}

/// Formats a duration in minutes and seconds: `3 min 20 s`.
fn minutes(duration: Duration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// Profiles each workload on the host executor and writes the folded stacks into `folder`; nothing
/// else is measured.
fn sample(
    tasks: &[Task],
    folder: &Path,
    is_interrupted: &dyn Fn() -> bool,
    progress: &Progress,
) -> Result<ExitCode> {
    for task in tasks {
        if is_interrupted() {
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
        progress.say(&format!("{}: sampling", task.id));
        let problem = match task.prepare() {
            Ok(problem) => problem,
            Err(error) => {
                print(format!("not run: {}\n", error.downcast::<NotRun>()?))?;
                continue;
            }
        };
        let sampled = sampling::sample_host(problem.workload(&[]));
        let Some(sampled) = sampled.with_context(|| task.id.to_string())? else {
            output::note(format_args!(
                "{}: not sampled (no variant for the host executor)",
                task.id
            ));
            continue;
        };
        let path = folder.join(format!("{}-{}.folded", task.id.name, task.id.size));
        replace_file(&path, &sampled.stacks.folded())?;
        print(format!(
            "{} in {}: {}",
            task.id,
            path.display(),
            sampled.summary()
        ))?;
    }
    progress.done();
    Ok(ExitCode::SUCCESS)
}

/// Installs the handler that sets a flag on an interrupt; a second interrupt exits at once.
fn on_interrupt() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&interrupted);
    signals::on_stop(move |_| {
        if mark.swap(true, Ordering::Relaxed) {
            exit::at_once(exit::INTERRUPTED);
        }
        output::note(format_args!(
            "interrupted: finishing the current step; interrupt again to exit at once"
        ));
    })?;
    Ok(interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_io::TemporaryFolder;

    #[test]
    fn an_interrupted_run_is_not_copied() {
        let place = TemporaryFolder::create(&std::env::temp_dir(), "bench-copy").unwrap();
        let folder = place.path().join("record");
        let record = Record::default();
        let shown = copy(&record, &folder, true).unwrap();
        assert!(shown.contains("interrupted") && !folder.exists(), "{shown}");
        // A second run does not replace the copy of the first.
        for _ in 0..2 {
            let shown = copy(&record, &folder, false).unwrap();
            assert!(
                Record::read(Path::new(&shown)).unwrap() == record,
                "{shown}"
            );
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    }
}
