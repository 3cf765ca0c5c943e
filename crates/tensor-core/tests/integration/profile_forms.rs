//! Formats of a profile for other programs: Chrome's trace format, and folded stacks.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use tensor_core::profile::{Arg, By, Column, Peak, Profile, Profiler, Span, SpanId};
use tensor_core::rng::Philox;
use tensor_core::{Host, Reference, Tensor};

#[test]
fn a_profile_of_nothing_is_sensible() {
    let host = Host::new();
    let profile = Profiler::new(&host).profile();
    for by in [By::Step, By::Op, By::Line, By::Span] {
        let table = profile.table(by, Column::Time);
        assert!(table.rows.is_empty());
        assert!(!table.to_string().contains("NaN"), "{table}");
        let memory = profile.memory(by).to_string();
        assert!(memory.starts_with("arrays: peak 0 B"), "{memory}");
    }
    check_trace(&profile);
    assert_eq!(profile.folded_stacks(), "");
}

#[test]
fn a_row_reports_its_share_of_the_peak() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let x = Tensor::from_vec(&[1000], vec![0.5_f32; 1000]);
    (&x * 2.0).realize(&profiler).unwrap();
    let table = profiler.profile().table(By::Step, Column::Time);
    assert!(!table.to_string().contains("of peak"));
    let row = &table.rows[0];
    let by_bytes = Peak {
        gflops: f64::INFINITY,
        gigabytes_per_s: 2.0 * row.gigabytes_per_s(),
    };
    let by_operations = Peak {
        gflops: 4.0 * row.gflops(),
        gigabytes_per_s: 0.0,
    };
    assert_eq!(row.share_of(by_bytes), 0.5);
    assert_eq!(row.share_of(by_operations), 0.25);
    let text = table.with_peak(by_bytes).to_string();
    assert!(text.contains("of peak") && text.contains("50.0%"), "{text}");
}

#[test]
fn empty_arrays_are_ordinary() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let empty = Tensor::from_vec(&[0, 3], Vec::<f32>::new());
    assert!((&empty * 2.0).eval::<f32>(&profiler).unwrap().is_empty());
    let profile = profiler.profile();
    assert_eq!(
        profile
            .spans()
            .filter(|span| span.args.iter().any(|(name, _)| name == "loops"))
            .count(),
        1
    );
    check_trace(&profile);
}

/// Checks a trace against the format: the fields that each kind of event must have, and that the
/// spans of one thread nest.
fn check_trace(profile: &Profile) -> Vec<Value> {
    let trace: Value = serde_json::from_str(&profile.trace_json()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().clone();
    let mut threads: HashMap<u64, Vec<(f64, f64)>> = HashMap::new();
    let mut named = HashSet::new();
    for event in &events {
        assert!(
            event["pid"].is_u64() && event["name"].is_string(),
            "{event}"
        );
        assert!(event["args"].is_object(), "{event}");
        match event["ph"].as_str().unwrap() {
            "X" => {
                let (start, length) = (
                    event["ts"].as_f64().unwrap(),
                    event["dur"].as_f64().unwrap(),
                );
                assert!(start >= 0.0 && length >= 0.0, "{event}");
                let tid = event["tid"].as_u64().unwrap();
                // Times are exact to the nanosecond.
                let ns = |us: f64| (us * 1000.0).round();
                threads
                    .entry(tid)
                    .or_default()
                    .push((ns(start), ns(start) + ns(length)));
            }
            "C" => {
                assert!(
                    event["ts"].is_f64() && event["args"]["alive"].is_u64(),
                    "{event}"
                );
            }
            "M" => {
                assert!(event["args"]["name"].is_string(), "{event}");
                named.extend(event["tid"].as_u64());
            }
            other => panic!("an event of kind {other}"),
        }
    }
    for (tid, mut spans) in threads {
        assert!(named.contains(&tid), "thread {tid} has no name");
        spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = Vec::new();
        for (start, end) in spans {
            while open.last().is_some_and(|&outer| outer <= start) {
                open.pop();
            }
            assert!(
                open.last().is_none_or(|&outer| end <= outer),
                "thread {tid}"
            );
            open.push(end);
        }
    }
    events
}

#[test]
fn the_trace_has_the_required_fields_and_its_spans_nest() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let x = Tensor::randn(Philox::new(9), &[80, 60])
        .realize(&host)
        .unwrap();
    profiler.span("two runs", || {
        for _ in 0..2 {
            // Several steps, some of which may run in parallel.
            let scaled = (&x - x.mean(0)) / x.exp().sum(1).expand_dims(1);
            let product = x.t().matmul(&x);
            Tensor::realize_all([&scaled.abs().max(0), &product.sum(1)], &profiler).unwrap();
        }
    });
    let events = check_trace(&profiler.profile());
    let kinds = |kind: &str| events.iter().filter(|event| event["ph"] == kind).count();
    assert_eq!(kinds("X"), profiler.profile().spans().count());
    assert_eq!(kinds("C"), profiler.profile().memory_curve().len());
    let step = events
        .iter()
        .find(|event| event["args"]["loops"].is_string())
        .unwrap();
    assert!(step["args"]["operations"].as_f64().unwrap() > 0.0, "{step}");
    assert!(step["args"]["bytes read"].as_u64().unwrap() > 0, "{step}");
}

#[test]
fn spans_from_elsewhere_are_shown_whatever_their_times_and_names() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let start = Instant::now();
    let at = |ms: u64| profiler.clock_ns(start + Duration::from_millis(ms));
    let span = |name: &str, from: u64, to: u64, parent: Option<SpanId>| Span {
        name: name.into(),
        track: "gpu <0>".into(),
        start_ns: from,
        end_ns: to,
        parent,
        args: vec![
            ("energy_j".into(), Arg::Number(1.5)),
            ("id".into(), Arg::Count(7)),
            ("parent".into(), Arg::Count(8)),
            ("not a number".into(), Arg::Number(f64::NAN)),
            (
                "words".into(),
                Arg::Text("\"quoted\" \\ \n\u{1}".to_owned()),
            ),
        ],
    };
    let name = "a < b && \"c\" \u{1}\n";
    let parent = profiler.record(span(name, at(0), at(10), None));
    profiler.record(span("a part", at(2), at(4), parent));
    profiler.record(span("overlaps", at(5), at(15), Some(SpanId(99))));
    profiler.record(span("ends before it starts", at(5), at(3), None));
    profiler.record(span("as late as can be", u64::MAX, u64::MAX, None));
    let profile = profiler.profile();
    let spans: Vec<Span> = profile.spans().collect();
    assert_eq!((spans[1].parent, spans[2].parent), (parent, None));
    assert_eq!(spans[0].args.len(), 5);
    assert_eq!(spans[3].start_ns, spans[3].end_ns);
    let events = check_trace(&profile);
    let first = events.iter().find(|event| event["name"] == name).unwrap();
    let args = &first["args"];
    assert_eq!((&args["id"], &args["id #2"]), (&0.into(), &7.into()));
    assert_eq!(
        (&args["parent"], &args["parent #2"]),
        (&Value::Null, &8.into())
    );
    let tracks: Vec<&Value> = events.iter().filter(|event| event["ph"] == "M").collect();
    assert_eq!(tracks[1]["args"]["name"], "gpu <0>");
    assert_eq!(tracks[2]["args"]["name"], "gpu <0> (2)");
    // Separators and control characters in names are replaced.
    let stacks = profile.folded_stacks();
    let name = "a < b && \"c\"   ";
    for line in [
        format!("{name} 8000000\n"),
        format!("{name};a part 2000000\n"),
        "overlaps 10000000\n".to_owned(),
        "ends before it starts 0\n".to_owned(),
    ] {
        assert!(stacks.contains(&line), "{line:?} is not in {stacks:?}");
    }
}

#[test]
fn a_span_whose_parallel_parts_take_longer_has_no_time_of_its_own() {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let span = |name: &str, track: &str, parent: Option<SpanId>, ms: u64| {
        let span = Span {
            name: name.into(),
            track: track.into(),
            start_ns: 0,
            end_ns: ms,
            parent,
            args: Vec::new(),
        };
        profiler.record(span)
    };
    for _ in 0..2 {
        let whole = span("whole", "a", None, 10);
        span("left;", "a", whole, 10);
        span("right", "b", whole, 5);
    }
    let outer = span("outer", "a", None, 15);
    // The profiler stores times below the largest number.
    span("inner", "a", outer, u64::MAX);
    span("other", "a", None, 15);
    assert_eq!(
        profiler.profile().folded_stacks(),
        format!(
            "whole 0\nwhole;left, 20\nwhole;right 10\nouter 0\nouter;inner {}\nother 15\n",
            u64::MAX - 1
        )
    );
}

#[test]
fn stacks_of_deeply_nested_spans_stay_short() {
    let profiler = Profiler::new(&Reference);
    let mut parent = None;
    for depth in 0..100_000 {
        let span = Span {
            name: "deep".into(),
            track: "a".into(),
            start_ns: depth,
            end_ns: 200_000,
            parent,
            args: Vec::new(),
        };
        parent = profiler.record(span);
    }
    let stacks = profiler.profile().folded_stacks();
    assert_eq!(stacks.lines().count(), 128);
    let values = stacks
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(values.sum::<u64>(), 200_000);
}
