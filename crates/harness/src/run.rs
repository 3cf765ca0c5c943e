//! Runs and times workloads: each contestant is checked first, then all of them take turns.
//!
//! Role: turns a [`Workload`] into rows of a record, for the bench command.
//! Method: the first run of a contestant is timed separately, because it includes compilation. Its
//! result is compared with the oracle; a contestant with a wrong result is not timed. The remaining
//! contestants run in nine rounds, several runs per turn, so that a disturbance of the
//! machine affects all of them. The speed-up over a rival is the median over the rounds of the
//! ratio within a round. After the last round each result is compared again, and a failure discards
//! the times.
//! Timers: the times of a row are measured by the contestant's own timer. Speed-ups use the host's
//! clock on both sides, which includes submission and waiting.
//! Slow contestants: a contestant whose run is longer than four turns takes part in six rounds
//! only. A contestant whose run takes more than four seconds is timed once, after the first run.
//! The remark "one run" marks its row, and the rows of workloads whose contestants run once.

mod entry;

use crate::comparison::joined;
use crate::energy::{EnergyMeter, NoMeter, Site};
use crate::measure::SETTLE;
use crate::record::{NotRun, RivalTiming, Row};
use crate::rivals::Rival;
use crate::workload::{Extent, Implementation, TaskId, Variant, Workload};
use entry::ReadyEntry;
use std::path::Path;

/// Number of rounds in which contestants take turns.
const N_ROUNDS: usize = 9;
/// Number of rounds of a slow contestant, whose single run is longer than four turns: the smallest
/// number for which a 95 % interval of the median exists.
const N_SLOW_ROUNDS: usize = 6;

/// Services of the program that a run needs.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
pub struct RunServices<'a> {
    /// Python interpreter for the rivals; `None` if there is none or rivals are not wanted.
    pub python: Option<&'a Path>,
    /// Called before each step; `true` aborts the workload.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Progress callback.
    pub progress: &'a dyn Fn(&str),
    /// Energy meter of this machine.
    pub meter: &'a dyn EnergyMeter,
}

/// No rivals, no progress and no meter; never interrupted.
impl Default for RunServices<'_> {
    fn default() -> Self {
        Self {
            python: None,
            interrupted: &|| false,
            progress: &|_| (),
            meter: &NoMeter,
        }
    }
}

/// Rows of a workload, and the parts of it that were not run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Rows of the variants, in order; empty if the workload was aborted.
    pub rows: Vec<Row>,
    /// Parts left out by the workload, and rivals that did not start.
    pub not_run: Vec<NotRun>,
}

/// Name, version and number of threads, as reported by a rival, and the device it runs on.
struct Identity {
    name: String,
    version: String,
    threads: usize,
    on_gpu: bool,
}

/// Runs all variants and rivals of a workload.
///
/// A variant or rival that fails becomes a row with the error and does not affect the others. An
/// interrupt aborts the whole workload. Shares of peak are filled in later, by
/// [`crate::record::Record::fill_shares`].
pub fn run(id: &TaskId, mut workload: Workload<'_>, services: &RunServices<'_>) -> Outcome {
    let say = |what: &str| (services.progress)(&format!("{id}: {what}"));
    let mut outcome = Outcome::default();
    outcome.not_run.append(&mut workload.left_out);
    let variants = std::mem::take(&mut workload.variants);
    let mut rows: Vec<Row> = variants.iter().map(|variant| row_of(id, variant)).collect();
    let (mut entries, mut sites) = (Vec::new(), Vec::new());
    for variant in variants {
        if (services.interrupted)() {
            return outcome;
        }
        say(&format!("checking {}", variant.executor));
        sites.push(Site::from_adapter(variant.adapter));
        entries.push(ReadyEntry::new(
            variant.extent,
            None,
            rows[entries.len()].is_user_executor(),
            variant.start,
            &workload,
        ));
    }
    // `entries` holds our variants first, then the rivals; `sites` and `identities` follow the same
    // order.
    let mut identities = Vec::new();
    // Without Python there are no rivals.
    for (job, python) in services
        .python
        .iter()
        .flat_map(|python| workload.rivals.iter().map(move |job| (job, python)))
    {
        if (services.interrupted)() {
            return outcome;
        }
        say(&format!("checking {}", job.library));
        match Rival::start(python, job) {
            Ok(rival) => {
                let (name, version, threads) =
                    (rival.name.clone(), rival.version.clone(), rival.threads);
                identities.push(Identity {
                    name,
                    version,
                    threads,
                    on_gpu: job.site() != Site::Cpu,
                });
                let start = || Ok(Box::new(rival) as Box<dyn Implementation>);
                let whole = workload.whole;
                let extent = job.part.map_or(whole, |part| whole.of_part(part));
                sites.push(job.site());
                let name = Some(job.library);
                entries.push(ReadyEntry::new(extent, name, false, start, &workload));
            }
            Err(not_run) => outcome.not_run.push(not_run),
        }
    }
    say("timing");
    for round in 0..N_ROUNDS {
        if (services.interrupted)() {
            return outcome;
        }
        take_turns(&mut entries, round);
    }
    for (index, entry) in entries.iter_mut().enumerate() {
        if (services.interrupted)() {
            return outcome;
        }
        // The meter would repeat the work.
        if !workload.runs_once {
            entry.meter(services.meter, sites[index]);
        }
    }
    // A workload that runs once has no later result to check.
    if !workload.runs_once {
        say("checking again");
        entries
            .iter_mut()
            .for_each(|entry| entry.check_again(&workload));
    }
    let (variants, rivals) = entries.split_at(rows.len());
    // The first variant may have done a part of the rows; its time is scaled to the whole work.
    let first = variants
        .first()
        .and_then(|first| Some(first.timing()?.median / first.extent.part.share()));
    for (row, entry) in rows.iter_mut().zip(variants) {
        fill(row, entry, first);
        if row.is_user_executor() {
            let named = rivals.iter().zip(&identities);
            row.rivals = named
                .map(|(rival, identity)| {
                    (
                        identity.name.clone(),
                        timing_of(rival, identity, entry, first),
                    )
                })
                .collect();
        }
    }
    outcome.rows = rows;
    outcome
}

/// Returns the row of a variant before any measurement.
fn row_of(id: &TaskId, variant: &Variant<'_>) -> Row {
    Row {
        workload: id.name.to_owned(),
        source: id.source.to_owned(),
        size: id.size.clone(),
        executor: variant.executor.to_owned(),
        adapter: variant.adapter.map(|adapter| adapter.name.clone()),
        timer: variant.timer,
        operations: variant.extent.work.operations(),
        bytes: Some(variant.extent.bytes),
        note: joined(variant.extent.part.note(), &variant.note),
        ..Row::default()
    }
}

/// Lets every contestant run its turn of a round. Odd rounds run in reverse order, so that a steady
/// drift of the machine's speed cancels.
fn take_turns(entries: &mut [ReadyEntry<'_>], round: usize) {
    let mut order: Vec<&mut ReadyEntry<'_>> = entries.iter_mut().collect();
    if round % 2 == 1 {
        order.reverse();
    }
    for entry in order {
        std::thread::sleep(SETTLE);
        entry.take_turn(round);
    }
}

/// Fills a row with the measurements and the values derived from them. `first_s` is the time of the
/// first variant for the whole work.
fn fill(row: &mut Row, entry: &ReadyEntry<'_>, first_s: Option<f64>) {
    row.check = entry.check.clone();
    row.upload_s = entry.upload_s;
    row.first_call_s = entry.first_call_s;
    row.read_back_s = entry.read_back_s;
    row.rounds_s = entry.round_medians();
    row.share_of_work = entry.share_of_work();
    row.wall_s = entry.wall_s();
    row.peak_extra_bytes = entry.peak_extra_bytes;
    row.energy_j = entry.energy.map(|energy| energy.joules);
    row.energy_interval_j = entry.energy.map(|energy| energy.interval);
    let curve = &entry.curve;
    row.losses.clone_from(&curve.losses);
    (row.loss_stride, row.accuracy) = (curve.stride, curve.accuracy);
    row.figure.clone_from(&entry.figure);
    row.findings = entry.findings.clone();
    row.note = joined(std::mem::take(&mut row.note), entry.note());
    let Some(timing) = entry.timing() else { return };
    row.median_s = Some(timing.median);
    [row.low_s, row.high_s] = ends(timing.spread());
    let work = entry.extent.work;
    row.rate = Some(work.rate(timing.median));
    row.rate_unit = work.rate_unit().to_owned();
    row.gb_per_s = row.bytes.map(|bytes| bytes / timing.median * 1e-9);
    row.speedup_over_first = first_s.map(|first| first * entry.extent.part.share() / timing.median);
}

/// Returns the measurements of a rival, the values derived from them, and its ratio to `ours`.
fn timing_of(
    rival: &ReadyEntry<'_>,
    identity: &Identity,
    ours: &ReadyEntry<'_>,
    first_s: Option<f64>,
) -> RivalTiming {
    let (timing, ratio) = (rival.timing(), rival.over(ours));
    let Extent { part, work, bytes } = rival.extent;
    let median_s = timing.map(|timing| timing.median);
    let [low_s, high_s] = ends(timing.and_then(|timing| timing.spread()));
    let [low, high] = ends(ratio.and_then(|ratio| ratio.interval));
    RivalTiming {
        version: identity.version.clone(),
        threads: identity.threads,
        on_gpu: identity.on_gpu,
        check: rival.check.clone(),
        median_s,
        low_s,
        high_s,
        rounds_s: rival.round_medians(),
        share_of_work: rival.share_of_work(),
        first_call_s: rival.first_call_s,
        peak_extra_bytes: rival.peak_extra_bytes,
        energy_j: rival.energy.map(|energy| energy.joules),
        rate: median_s.map(|seconds| work.rate(seconds)),
        gb_per_s: median_s.map(|seconds| bytes / seconds * 1e-9),
        speedup_over_first: first_s
            .zip(median_s)
            .map(|(first, seconds)| first * part.share() / seconds),
        share_of_peak: None,
        speedup: ratio.map(|ratio| ratio.median),
        low,
        high,
        losses: rival.curve.losses.clone(),
        loss_stride: rival.curve.stride,
        accuracy: rival.curve.accuracy,
        note: joined(part.note(), rival.note()),
    }
}

/// Returns the two ends of an interval that may be unknown.
fn ends(interval: Option<[f64; 2]>) -> [Option<f64>; 2] {
    interval.map_or([None; 2], |ends| ends.map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Findings;
    use crate::record::Check;
    use crate::workload::{Output, OutputElement, Portion, Work};
    use std::cell::Cell;
    use tensor_core::compare::{Tolerance, compare};

    fn id(name: &'static str) -> TaskId {
        TaskId {
            name,
            source: "none",
            size: "3".to_owned(),
        }
    }

    /// A training workload of three steps; one of its variants learns, the other does not.
    fn training() -> Workload<'static> {
        const TRUE: [f32; 4] = [3.0, 2.0, 1.0, 0.75];
        let whole = Extent::new(Work::Operations(1.0), 1.0);
        let variant = |name, result: [f32; 4]| {
            Variant::on_cpu(name, whole, 4, move |out: &mut Vec<f32>| {
                out.copy_from_slice(&result);
                Ok(())
            })
        };
        let variants = [
            variant("learns", TRUE).with_note("to be known".to_owned()),
            variant("does not", [3.0; 4]),
        ];
        Workload::new(whole, |result, _| {
            let expected = TRUE.map(f64::from);
            compare(f32::from_output(result)?, expected, &Tolerance::exact())?;
            Ok(())
        })
        .with_variants(variants)
        .with_losses(3)
    }

    #[test]
    fn a_workload_that_runs_once_has_findings_of_its_only_run() {
        let n_runs = Cell::new(0);
        let whole = Extent::new(Work::Operations(1.0), 1.0);
        let variant = |name, number: f32| {
            let n_runs = &n_runs;
            Variant::on_cpu(name, whole, 1, move |out: &mut Vec<f32>| {
                n_runs.set(n_runs.get() + 1);
                out[0] = number;
                Ok(())
            })
        };
        let workload = Workload::new(whole, |result, _| {
            compare(f32::from_output(result)?, [2.0], &Tolerance::exact())?;
            Ok(())
        })
        .with_variants([variant("host", 2.0), variant("wgsl", 3.0)])
        .with_findings(|result| {
            let number = f64::from(f32::from_output(result)?[0]);
            Ok(Findings {
                numbers: [("number".to_owned(), number)].into(),
                ..Findings::default()
            })
        })
        .once();
        let rows = run(&id("training"), workload, &RunServices::default()).rows;
        assert_eq!(n_runs.get(), 2);
        assert_eq!((rows[0].note.as_str(), rows[0].low_s), ("one run", None));
        assert!(rows[0].median_s.is_some());
        assert_eq!(rows[0].findings.numbers["number"], 2.0);
        assert!(rows[1].median_s.is_none() && rows[1].findings == Findings::default());
        let text = serde_json::to_string(&rows[0]).unwrap();
        assert!(text.contains(r#""numbers":{"number":2.0}"#), "{text}");
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), rows[0]);
    }

    #[test]
    fn losses_and_accuracy_of_what_passed_reach_the_rows() {
        let rows = run(&id("training"), training(), &RunServices::default()).rows;
        assert_eq!(rows[0].losses, [3.0, 2.0, 1.0]);
        assert_eq!((rows[0].accuracy, rows[0].loss_stride), (Some(0.75), None));
        assert_eq!(
            (&rows[0].check, rows[0].note.as_str()),
            (&Check::Ok, "to be known")
        );
        assert!(matches!(rows[1].check, Check::Failed(_)) && rows[1].losses.is_empty());
    }

    /// A fake rival as a shell script: every run takes 0.01 s and the result is the number 3.
    #[cfg(unix)]
    const SHELL: &str = r#"echo '{"name":"shell","version":"1","threads":1}'
        while read -r request; do case "$request" in
            *run*) times=$(echo "$request" | tr -dc 0-9); list=0.01
                while [ "$times" -gt 1 ]; do list="$list,0.01"; times=$((times - 1)); done
                echo "{\"seconds\":[$list]}";;
            *memory*) echo '{"peak_extra_bytes":null}';;
            *result*) path=${request#*:\"}; printf '\000\000\100\100' > "${path%\"*}"
                echo '{"written":4,"dtype":"f32"}';;
            *) exit;;
        esac; done"#;

    #[cfg(unix)]
    fn shell_rival() -> Vec<crate::rivals::BaselineArguments<'static>> {
        let script = crate::rivals::Script {
            name: "shell",
            text: SHELL,
            imports: &[],
            case: None,
        };
        crate::rivals::BaselineArguments::each(&["shell"], script, &[], &[])
    }

    #[cfg(unix)]
    #[test]
    fn a_rival_with_a_check_of_its_own_is_judged_by_it_alone() {
        let whole = Extent::new(Work::Games(10.0), 1.0);
        let check = |expected: f32| {
            move |result: &Output| {
                compare(
                    f32::from_output(result)?,
                    vec![expected],
                    &Tolerance::exact(),
                )?;
                Ok(())
            }
        };
        let check_of = |rival: &'static str, of_variants: f32, of_rival: f32| {
            let host = Variant::on_cpu("host", whole, 1, move |out: &mut Vec<f32>| {
                out.fill(of_variants);
                Ok(())
            });
            let workload = Workload::new(whole, move |result, _| check(of_variants)(result))
                .with_variants([host])
                .with_rivals(shell_rival())
                .with_rival_check(rival, check(of_rival));
            let services = RunServices {
                python: Some(Path::new("sh")),
                ..RunServices::default()
            };
            let rows = run(&id("own check"), workload, &services).rows;
            assert_eq!(rows[0].check, Check::Ok);
            rows[0].rivals["shell"].check.clone()
        };
        // The result of the rival is 3.
        assert_eq!(check_of("shell", 4.0, 3.0), Check::Ok);
        assert!(matches!(check_of("shell", 3.0, 4.0), Check::Failed(_)));
        assert!(matches!(check_of("another", 4.0, 3.0), Check::Failed(_)));
    }

    #[cfg(unix)]
    #[test]
    fn a_rival_that_does_a_part_is_judged_and_rated_by_it() {
        let part = Portion { rows: 1, of: 10 };
        let whole = Extent {
            part: Portion::whole(10),
            work: Work::Games(10.0),
            bytes: 1.0,
        };
        let mut rivals = shell_rival();
        rivals[0].part = Some(part);
        let host = Variant::on_cpu("host", whole, 10, |out: &mut Vec<f32>| {
            out.fill(3.0);
            Ok(())
        });
        let workload = Workload::new(whole, |result, part| {
            let expected = vec![3.0; part.rows];
            compare(f32::from_output(result)?, expected, &Tolerance::exact())?;
            Ok(())
        });
        let workload = workload.with_variants([host]).with_rivals(rivals);
        let services = RunServices {
            python: Some(Path::new("sh")),
            ..RunServices::default()
        };
        let rows = run(&id("part"), workload, &services).rows;
        let (rival, ours) = (&rows[0].rivals["shell"], rows[0].median_s.unwrap());
        assert_eq!((&rival.check, rival.rate), (&Check::Ok, Some(100.0)));
        assert_eq!(rival.note, "rows 0..1 of 10");
        // A tenth of the work in 0.01 s means the whole in 0.1 s.
        let over_first = rival.speedup_over_first.unwrap();
        assert!((over_first / (ours / 0.1) - 1.0).abs() < 1e-9);
    }
}
