//! The recorded data of a profiler.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use super::memory::{Arrays, ArraysOf};
use super::{Arg, Span, SpanId};
use crate::dtype::DType;
use crate::exec::MemoryUse;
use crate::plan::explain::{bytes_read, sizes};
use crate::plan::{Origin, Step};

/// The name of the row that merges all names beyond the limit.
const OTHER_NAMES: &str = "(other names)";

/// The spans, totals and arrays that a profiler has recorded.
#[derive(Debug, Clone, Default)]
pub(super) struct Data {
    pub(super) spans: Vec<Recorded>,
    pub(super) dropped_spans: u64,
    pub(super) subjects: Vec<Subject>,
    pub(super) tracks: Vec<Arc<str>>,
    pub(super) arrays: Arrays,
    pub(super) executor: Option<ExecutorPeak>,
    /// The number of step runs that the executor did not accept.
    pub(super) n_rejected: u64,
}

/// A span in its stored form.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    pub(super) subject: u32,
    pub(super) track: u32,
    pub(super) parent: Option<u32>,
    pub(super) wave: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) state: Ended,
    pub(super) args: Option<Box<Args>>,
}

pub(super) type Args = Vec<(Cow<'static, str>, Arg)>;

/// The state of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Well,
    Failed,
    NotYet,
}

/// The key of a [`Subject`]: spans and arrays with equal keys are summed in one subject.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Label {
    Step(Arc<StepInfo>),
    Named(Arc<str>),
}

/// The displayed facts about a step. Steps with equal facts share one subject.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct StepInfo {
    pub(super) origins: Vec<Origin>,
    pub(super) domain: Vec<usize>,
    pub(super) reduce: Vec<usize>,
    pub(super) dtype: Option<DType>,
    pub(super) is_product: bool,
    pub(super) read: u64,
    pub(super) written: u64,
    /// The bits of the number of operations, because floats do not implement `Eq`.
    pub(super) operations: u64,
}

/// A step, or a name of spans, with the sums over all its calls and arrays.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) what: Label,
    pub(super) totals: Totals,
    pub(super) arrays: ArraysOf,
}

/// The sums over calls: times in nanoseconds, sizes in bytes, operations in additions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) time: u64,
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) operations: f64,
}

/// The executor's peak memory, and the step after which this peak was first seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExecutorPeak {
    pub(super) before: MemoryUse,
    pub(super) peak: usize,
    pub(super) subject: Option<u32>,
}

impl Totals {
    pub(super) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.time = self.time.saturating_add(other.time);
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        self.operations += other.operations;
    }
}

impl Label {
    /// Returns the key without details, so that subjects beyond the limit on their number merge.
    pub(super) fn without_details(self) -> Self {
        match self {
            Self::Step(info) => Self::Step(Arc::new(StepInfo {
                origins: info.origins.last().copied().into_iter().collect(),
                domain: Vec::new(),
                reduce: Vec::new(),
                dtype: None,
                is_product: false,
                read: 0,
                written: 0,
                operations: 0.0_f64.to_bits(),
            })),
            Self::Named(_) => Self::Named(OTHER_NAMES.into()),
        }
    }

    /// Returns a short name: for a step, the operation and line of its result.
    pub(super) fn short(&self) -> Cow<'_, str> {
        match self {
            Self::Step(info) => Cow::Owned(info.short()),
            Self::Named(name) => Cow::Borrowed(name),
        }
    }
}

impl StepInfo {
    /// Returns the facts about a step on inputs of these lengths.
    pub(super) fn from_step(step: &Step, lens: &[usize]) -> Self {
        let nest = &step.nest;
        let inputs: Vec<(DType, usize)> = nest
            .inputs
            .iter()
            .copied()
            .zip(lens.iter().copied())
            .collect();
        // Bytes and operations of a nest that breaks the rules cannot be computed; the executor
        // will reject the nest.
        let is_sound = nest.check(&inputs).is_ok();
        let (read, written, operations) = if is_sound {
            let read = bytes_read(nest, lens.iter().copied());
            let written = nest.output_len().saturating_mul(nest.dtype().bytes());
            (read as u64, written as u64, nest.operations())
        } else {
            (0, 0, 0.0)
        };
        Self {
            origins: step.origins.clone(),
            domain: nest.domain.clone(),
            reduce: nest.reduce.clone(),
            dtype: is_sound.then(|| nest.dtype()),
            is_product: nest.contract.is_some(),
            read,
            written,
            operations: operations.to_bits(),
        }
    }

    /// Returns a description of the step in one line: operation, full path, loops and the number of
    /// operations.
    pub(super) fn long(&self) -> String {
        let last = self.origins.last();
        let mut name = last.map_or_else(|| self.short(), operation_and_line);
        let loops = self.loops();
        if !loops.is_empty() {
            name = format!("{name}: {loops}");
        }
        if self.origins.len() > 1 {
            name += &format!(", {} operations", self.origins.len());
        }
        name
    }

    /// Returns the operation, file name and line of the result.
    fn short(&self) -> String {
        let Some(last) = self.origins.last() else {
            return "(no line)".to_owned();
        };
        let path = Path::new(last.location.file());
        let file = path.file_name().unwrap_or(path.as_os_str());
        format!(
            "{} {}:{}",
            last.operation,
            file.to_string_lossy(),
            last.location.line()
        )
    }

    /// Returns a description of the loops.
    pub(super) fn loops(&self) -> String {
        let mut text = String::new();
        if let Some(dtype) = self.dtype {
            text = format!("{dtype} {}", sizes(&self.domain));
        }
        if !self.reduce.is_empty() {
            let how = if self.is_product {
                "product"
            } else {
                "reduced"
            };
            text += &format!(", {how} over {}", sizes(&self.reduce));
        }
        text
    }
}

pub(super) fn line(origin: &Origin) -> String {
    format!("{}:{}", origin.location.file(), origin.location.line())
}

pub(super) fn operation_and_line(origin: &Origin) -> String {
    format!("{} {}", origin.operation, line(origin))
}

impl Data {
    pub(super) fn label(&self, span: &Recorded) -> &Label {
        &self.subjects[span.subject as usize].what
    }

    /// Returns a span in its public form, with the facts about its step as arguments.
    pub(super) fn public(&self, span: &Recorded) -> Span {
        let mut args: Args = span.args.as_deref().cloned().unwrap_or_default();
        let mut add = |name: &'static str, arg: Arg| args.push((name.into(), arg));
        let what = self.label(span);
        if let Label::Step(info) = what {
            let lines: Vec<String> = info.origins.iter().map(operation_and_line).collect();
            add("operations of the program", Arg::Text(lines.join(", ")));
            add("loops", Arg::Text(info.loops()));
            add("bytes read", Arg::Count(info.read));
            add("bytes written", Arg::Count(info.written));
            let operations = f64::from_bits(info.operations);
            add("operations", Arg::Number(operations));
            add("wave", Arg::Count(u64::from(span.wave)));
        }
        match span.state {
            Ended::Well => {}
            Ended::Failed => add("outcome", Arg::Text("failed".to_owned())),
            Ended::NotYet => add("outcome", Arg::Text("still open".to_owned())),
        }
        let name = match what {
            Label::Step(info) => info.short().into(),
            Label::Named(name) => Arc::clone(name),
        };
        Span {
            name,
            track: Arc::clone(&self.tracks[span.track as usize]),
            start_ns: span.start,
            end_ns: span.end,
            parent: span.parent.map(|parent| SpanId(parent as usize)),
            args,
        }
    }
}
