//! A profiler reports the actual counts, times and memory.

use std::collections::HashSet;
use std::process::Command;
use std::sync::Arc;

use tensor_core::exec::{Executor, Storage};
use tensor_core::plan::{Plan, Step, Target};
use tensor_core::profile::{Arg, By, Column, Profile, Profiler, Span, SpanId};
use tensor_core::rng::Philox;
use tensor_core::{Error, Host, HostData, Reference, Result, Tensor, jit};

fn random(shape: &[usize]) -> Tensor {
    let mut data = vec![0.0; shape.iter().product()];
    Philox::new(9).fill_normal_f32(0, &mut data);
    Tensor::from_vec(shape, data)
}

/// Returns a program of several steps, some of which may run in parallel.
fn several_steps(x: &Tensor) -> Vec<Tensor> {
    let centred = x - x.mean(0);
    let scale = x.exp().sum(1).expand_dims(1);
    vec![(centred / scale).abs().max(0), x.t().matmul(x).sum(1)]
}

fn named<'p>(profile: &'p Profile, name: &'p str) -> impl Iterator<Item = (usize, Span)> + 'p {
    let spans = profile.spans().enumerate();
    spans.filter(move |(_, span)| *span.name == *name)
}

fn is_step(span: &Span) -> bool {
    span.args.iter().any(|(name, _)| name == "loops")
}

#[test]
fn counts_are_those_of_the_plan() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let program = jit(|args: &[Tensor]| Ok(several_steps(&args[0])));
    let x = random(&[90, 70]);
    let plan = program.plan(&host, &[&x]).unwrap();
    for _ in 0..5 {
        program.call(&profiler, &[&x]).unwrap();
    }
    let operations: f64 = plan.steps.iter().map(|step| step.nest.operations()).sum();
    let written: usize = plan
        .steps
        .iter()
        .map(|step| plan.buffers[step.output.0].bytes())
        .sum();
    let profile = profiler.profile();
    for by in [By::Step, By::Op, By::Line] {
        let table = profile.table(by, Column::Time);
        let sum =
            |of: fn(&tensor_core::profile::Row) -> u64| table.rows.iter().map(of).sum::<u64>();
        assert_eq!(sum(|row| row.calls), 5 * plan.steps.len() as u64);
        assert_eq!(sum(|row| row.bytes_written), 5 * written as u64);
        assert_eq!(sum(|row| row.time_ns), table.total_ns);
        let counted: f64 = table.rows.iter().map(|row| row.operations).sum();
        assert_eq!(counted, 5.0 * operations);
        assert!(table.rows.iter().all(|row| row.within_ns >= row.time_ns));
        assert!(
            table
                .rows
                .windows(2)
                .all(|two| two[0].time_ns >= two[1].time_ns)
        );
    }
    let runs = profile.table(By::Span, Column::Calls);
    let run = runs.rows.iter().find(|row| row.name == "run").unwrap();
    assert_eq!((run.calls, run.within_ns), (5, run.time_ns));
}

#[test]
fn bytes_read_are_those_that_explain_counts() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let (x, row) = (random(&[200, 300]), random(&[300]));
    let sum = (&x.slice(0, ..50) * &row).sum(1);
    let (plan, _) = Plan::new(&[&sum], &host.target()).unwrap();
    let text = plan.explain().to_string();
    assert!(text.contains("reads 61.20 kB, writes 200 B"), "{text}");
    sum.realize(&profiler).unwrap();
    let table = profiler.profile().table(By::Step, Column::Bytes);
    let counted = (table.rows[0].bytes_read, table.rows[0].bytes_written);
    assert_eq!(counted, (4 * (50 * 300 + 300), 4 * 50));
}

#[test]
fn a_plan_in_the_place_of_a_dead_one_is_not_mistaken_for_it() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    for n in 1..600 {
        (random(&[n]) * 2.0).realize(&profiler).unwrap();
    }
    let table = profiler.profile().table(By::Step, Column::Bytes);
    let written: Vec<u64> = table.rows.iter().map(|row| row.bytes_written).collect();
    assert_eq!(written, (1..600).rev().map(|n| 4 * n).collect::<Vec<u64>>());
    assert!(table.rows.iter().all(|row| row.calls == 1));
}

#[test]
fn a_fused_step_counts_for_the_line_of_its_result_and_within_the_others() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let first = line!() + 1;
    let exp = random(&[1000]).exp();
    let sum = exp.sum(..);
    sum.realize(&profiler).unwrap();
    let table = profiler.profile().table(By::Line, Column::Within);
    let at = |line: u32| {
        let name = format!("{}:{line}", file!());
        table.rows.iter().find(|row| row.name == name).unwrap()
    };
    let (exp, sum) = (at(first), at(first + 1));
    assert_eq!((exp.calls, exp.time_ns, sum.calls), (0, 0, 1));
    assert_eq!((exp.within_ns, sum.within_ns), (sum.time_ns, sum.time_ns));
}

#[test]
fn steps_belong_to_the_span_in_which_they_were_asked_for() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let program = jit(|args: &[Tensor]| Ok(several_steps(&args[0])));
    let x = random(&[64, 48]);
    let names = ["one", "two", "three", "four"];
    std::thread::scope(|scope| {
        for name in names {
            let (profiler, program, x) = (&profiler, &program, &x);
            scope.spawn(move || {
                profiler.span(name, || {
                    for _ in 0..20 {
                        program.call(profiler, &[x]).unwrap();
                    }
                });
            });
        }
    });
    let profile = profiler.profile();
    let spans: Vec<Span> = profile.spans().collect();
    let n_steps = program.plan(&host, &[&x]).unwrap().steps.len();
    for name in names {
        let [(place, outer)]: [_; 1] = named(&profile, name)
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        let runs: HashSet<usize> = named(&profile, "run")
            .filter(|(_, run)| run.parent == Some(SpanId(place)))
            .map(|(place, run)| {
                assert_eq!(run.track, outer.track);
                place
            })
            .collect();
        assert_eq!(runs.len(), 20);
        let steps = spans.iter().filter(|span| is_step(span));
        let own = steps.filter(|step| runs.contains(&step.parent.unwrap().0));
        assert_eq!(own.count(), 20 * n_steps);
    }
    for span in &spans {
        assert!(span.start_ns <= span.end_ns && span.end_ns <= profile.elapsed_ns());
        if let Some(SpanId(parent)) = span.parent {
            let parent = &spans[parent];
            assert!(parent.start_ns <= span.start_ns && span.end_ns <= parent.end_ns);
        }
    }
    assert_eq!(profile.live_bytes(), 0);
    assert_eq!(host.live_bytes(), 0);
}

#[test]
fn memory_is_what_the_executor_counts() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let x = random(&[300, 200]);
    let agree = || {
        let profile = profiler.profile();
        assert_eq!(profile.live_bytes(), host.live_bytes() as u64);
        assert_eq!(profile.peak_bytes(), host.peak_bytes() as u64);
        let memory = profile.memory(By::Line);
        let at_peak: u64 = memory.rows.iter().map(|row| row.bytes_at_peak).sum();
        assert_eq!(at_peak, memory.peak_bytes, "{memory}");
        let live: u64 = memory.rows.iter().map(|row| row.live_bytes).sum();
        assert_eq!(live, memory.live_bytes, "{memory}");
        let curve = profile.memory_curve();
        assert_eq!(curve.last().map_or(0, |point| point.1), memory.live_bytes);
        let highest = curve.iter().map(|point| point.1).max();
        assert_eq!(highest.unwrap_or(0), memory.peak_bytes);
        assert!(curve.is_sorted_by_key(|point| point.0));
        assert_eq!(memory.working_bytes.unwrap_or(0), 0);
    };
    agree();
    let doubled = (&x * 2.0).realize(&profiler).unwrap();
    agree();
    // The programs run one after the other: if two steps of a wave ran in parallel, the two
    // counters could count them in different orders.
    let softmax = doubled.softmax(1).realize(&profiler).unwrap();
    agree();
    drop(doubled);
    agree();
    let [mean] = Tensor::realize_all([&(softmax.mean(0) + 1.0)], &profiler).unwrap();
    agree();
    softmax.eval::<f32>(&profiler).unwrap();
    (&softmax + &mean).eval::<f32>(&profiler).unwrap();
    agree();
    drop((softmax, mean));
    agree();
    assert_eq!(host.live_bytes(), 0);
}

#[test]
fn the_line_that_held_the_peak_is_named() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let x = random(&[1000]);
    let wide = x.expand_dims(1).broadcast_to(&[1000, 50]);
    let line = line!() + 1;
    let large = wide.exp();
    let large = large.realize(&profiler).unwrap();
    let small = large.sum(1).realize(&profiler).unwrap();
    drop(large);
    let memory = profiler.profile().memory(By::Line);
    assert_eq!(memory.rows[0].name, format!("{}:{line}", file!()));
    assert_eq!(
        (memory.rows[0].bytes_at_peak, memory.rows[0].live_bytes),
        (200_000, 0)
    );
    assert_eq!(
        (memory.rows[1].bytes_at_peak, memory.rows[1].live_bytes),
        (4000, 4000)
    );
    assert_eq!(memory.peak_bytes, 204_000);
    drop(small);
}

#[test]
fn memory_that_only_a_step_uses_is_counted_separately() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    // The tiles of distances read packed copies of the rows.
    let x = random(&[300, 300]);
    let distances = (x.expand_dims(1) - x.expand_dims(0)).abs().sum(2);
    let distances = distances.realize(&profiler).unwrap();
    let memory = profiler.profile().memory(By::Step);
    let working = memory.working_bytes.unwrap();
    assert!(working >= 300 * 300 * 4, "{memory}");
    assert_eq!(
        memory.peak_bytes + working,
        host.peak_bytes() as u64,
        "{memory}"
    );
    drop(distances);
}

#[test]
fn a_step_that_fails_closes_its_span_and_its_error_names_the_line() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let x = random(&[5]);
    let positions = Tensor::from_vec(&[2], vec![1_i32, 7]);
    let line = line!() + 1;
    let wrong = x.gather(&positions, 0);
    let error = profiler
        .span("wrong", || wrong.eval::<f32>(&profiler))
        .unwrap_err();
    assert!(
        matches!(error.root(), Error::IndexOutOfRange { .. }),
        "{error}"
    );
    assert_eq!(error.location().unwrap().line(), line);
    let profile = profiler.profile();
    let table = profile.table(By::Op, Column::Time);
    assert_eq!((table.rows[0].calls, table.rows[0].failed), (1, 1));
    assert!(table.to_string().contains("(1 failed)"));
    let failed: Vec<Span> = profile.spans().filter(is_step).collect();
    let outcome = failed[0].args.iter().find(|(name, _)| name == "outcome");
    assert_eq!(outcome.unwrap().1, Arg::Text("failed".to_owned()));
    assert_eq!((profile.live_bytes(), host.live_bytes()), (0, 0));
    let (_, outer) = named(&profile, "wrong").next().unwrap();
    assert!(outer.args.is_empty(), "the span ended without a failure");
}

#[test]
fn a_panic_closes_the_spans_it_passes() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        profiler.span("outer", || profiler.span("inner", || panic!("on purpose")))
    }));
    assert!(caught.is_err());
    assert_eq!(profiler.current_span(), None);
    let table = profiler.profile().table(By::Span, Column::Time);
    assert!(
        table
            .rows
            .iter()
            .all(|row| (row.calls, row.failed) == (1, 1))
    );
    assert_eq!(table.rows.len(), 2);
}

#[test]
fn arrays_outlive_the_profiler() {
    let host = Host::new();
    let first = Profiler::new(&host);
    let x = random(&[10, 10]).exp().realize(&first).unwrap();
    let before = first.profile();
    drop(first);
    // Another profiler of the same executor reads the array in place; the executor itself gets a
    // copy.
    let second = Profiler::new(&host);
    let sum = x.sum(..).eval::<f32>(&second).unwrap();
    assert_eq!(sum, x.sum(..).eval::<f32>(&host).unwrap());
    assert_eq!(named(&second.profile(), "upload").count(), 0);
    assert_eq!((before.live_bytes(), host.live_bytes()), (400, 400));
    drop(x);
    assert_eq!((before.live_bytes(), host.live_bytes()), (400, 0));
}

#[test]
fn a_profiler_of_a_profiler_of_the_oracle_works() {
    let inner = Profiler::new(&Reference);
    let outer = Profiler::new(&inner);
    let x = Tensor::arange(5).realize(&outer).unwrap();
    let sum = x.sum(..).eval::<i32>(&outer).unwrap();
    assert_eq!(sum[[]], 10);
    for profiler in [&inner, &outer] {
        let profile = profiler.profile();
        assert_eq!(profile.spans().filter(is_step).count(), 2);
        assert_eq!(profile.live_bytes(), 20);
        assert_eq!(profile.memory(By::Line).working_bytes, None);
    }
}

#[test]
fn results_are_the_same_bits() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    for tensor in several_steps(&random(&[77, 33])) {
        let plain = tensor.eval::<f32>(&host).unwrap();
        assert_eq!(plain, tensor.eval::<f32>(&profiler).unwrap());
    }
}

#[test]
fn what_is_beyond_the_cap_is_counted_and_said() {
    const CAP: usize = 262_144;
    let host = Host::new();
    let profiler = Profiler::new(&host);
    for _ in 0..CAP {
        profiler.span("kept", || ());
    }
    for number in 0..6000 {
        profiler.span(&number.to_string(), || {
            assert_eq!(profiler.current_span(), None);
        });
    }
    let profile = profiler.profile();
    assert_eq!(
        (profile.spans().count(), profile.dropped_spans()),
        (CAP, 6000)
    );
    let table = profile.table(By::Span, Column::Calls);
    assert_eq!(
        table.rows.iter().map(|row| row.calls).sum::<u64>(),
        CAP as u64 + 6000
    );
    assert!(table.rows.iter().any(|row| row.name == "(other names)"));
    assert!(table.to_string().contains("6000 spans were dropped"));
    assert!(profile.trace_json().contains("\"dropped spans\":6000"));
}

#[test]
fn steps_beyond_the_rows_keep_their_line() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    for number in 0..4096 {
        profiler.span(&number.to_string(), || ());
    }
    let x = Tensor::from_vec(&[8], vec![1.0_f32; 8]);
    (&x * 2.0).realize(&profiler).unwrap();
    (x.slice(0, ..4) * 2.0).realize(&profiler).unwrap();
    let table = profiler.profile().table(By::Op, Column::Time);
    let row = table.rows.iter().find(|row| row.name == "mul").unwrap();
    assert_eq!((row.calls, row.bytes_written), (2, 48));
}

/// An executor that does not accept reductions.
#[derive(Debug)]
struct Picky(Host);

impl Executor for Picky {
    fn name(&self) -> &'static str {
        "picky"
    }

    fn target(&self) -> Target {
        self.0.target()
    }

    fn accepts(&self, step: &Step, _: &[usize]) -> bool {
        step.nest.reduce.is_empty()
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        self.0.owns(storage)
    }

    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
        self.0.upload(data)
    }

    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
        self.0.run(step, inputs)
    }
}

#[test]
fn steps_that_the_executor_does_not_take_are_counted() {
    let picky = Picky(Host::new());
    let profiler = Profiler::new(&picky);
    let x = random(&[20, 30]);
    let scaled = (x.sum(0).expand_dims(0) * &x).exp();
    let result = scaled.eval::<f32>(&profiler).unwrap();
    assert_eq!(result, scaled.eval::<f32>(&Host::new()).unwrap());
    let table = profiler.profile().table(By::Step, Column::Time);
    assert_eq!(table.n_rejected, 1);
    assert!(table.to_string().contains("1 runs of steps are missing"));
}

#[test]
fn reading_an_array_is_a_span_and_copies_nothing_if_it_is_the_only_owner() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    profiler.span("read it", || {
        (random(&[1000]) * 2.0).eval::<f32>(&profiler).unwrap()
    });
    let profile = profiler.profile();
    let (_, read) = named(&profile, "read").next().unwrap();
    let (outer, _) = named(&profile, "read it").next().unwrap();
    assert_eq!(read.parent, Some(SpanId(outer)));
    assert_eq!((profile.peak_bytes(), profile.live_bytes()), (4000, 0));
}

#[test]
fn steps_are_verified_through_a_profiler() {
    // The environment is read once per process, so the check needs another process.
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "results_are_the_same_bits",
            "steps_that_the_executor_does_not_take_are_counted",
        ])
        .env("TENSOR_VERIFY", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("2 passed"),
        "{text}"
    );
}

#[test]
fn an_array_for_which_there_is_no_memory_held_none() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let x = random(&[10]);
    let _small = (&x + 1.0).realize(&profiler).unwrap();
    let huge = (Tensor::full(&[1 << 43], 1.0_f32) + 1.0).eval::<f32>(&profiler);
    assert!(matches!(
        huge.unwrap_err().root(),
        Error::OutOfMemory { .. }
    ));
    let profile = profiler.profile();
    assert_eq!((profile.live_bytes(), profile.peak_bytes()), (40, 40));
    let table = profile.table(By::Step, Column::Time);
    let written: u64 = table.rows.iter().map(|row| row.bytes_written).sum();
    assert_eq!(written, 40);
}
