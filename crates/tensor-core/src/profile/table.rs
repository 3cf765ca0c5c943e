//! What happened, summed and sorted.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::Profile;
use super::data::{Data, Subject, Totals, What, line};
use crate::plan::Origin;
use crate::plan::explain::{Scaled, bytes};

/// What makes one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// Steps that do the same for the same lines.
    Step,
    /// The name of an operation.
    Op,
    /// A line of the program.
    Line,
    /// The name of a span: those that were opened or recorded by name, `run` for a run of a plan, `upload` and `read` for
    /// transfers. A span's time includes its parts.
    Span,
}

/// What a table can be sorted by, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// [`Row::time_ns`].
    Time,
    /// [`Row::within_ns`].
    Within,
    /// [`Row::mean_ns`].
    Mean,
    /// [`Row::calls`].
    Calls,
    /// The bytes read and written.
    Bytes,
    /// [`Row::operations`].
    Operations,
    /// [`Row::gflops`].
    Gflops,
    /// [`Row::gigabytes_per_s`].
    GigabytesPerS,
}

/// A table of counts and times; its text is for people.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Table {
    /// What makes one row.
    pub by: By,
    /// What the rows are sorted by.
    pub sorted_by: Column,
    /// The rows.
    pub rows: Vec<Row>,
    /// What shares are shares of: the time of all steps, summed over threads; for spans, the time since the profiler was made.
    pub total_ns: u64,
    /// Runs of steps that the executor did not accept: the scheduler's own host ran them, and no row has them.
    pub refused: u64,
    /// What the machine can do, where it was [said](Table::beside).
    pub peak: Option<Peak>,
    /// Spans that were not kept. They are in these sums, and missing from traces and pictures.
    pub dropped_spans: u64,
}

/// The most that a machine was measured to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Billions of operations in a second.
    pub gflops: f64,
    /// Billions of bytes read and written in a second.
    pub gigabytes_per_s: f64,
}

/// What belongs together.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// The step, operation, line or span.
    pub name: String,
    /// How many times it ran; for an operation or line, how many times steps that write its result did.
    pub calls: u64,
    /// How many of these failed.
    pub failed: u64,
    /// The time of these.
    pub time_ns: u64,
    /// The time of all steps that do any work for it, a bound on what it can cost. Beyond its own row a step is counted in
    /// those of all its operations, or lines.
    pub within_ns: u64,
    /// The bytes of inputs that these touch, as [`Plan::explain`](crate::plan::Plan::explain) counts them.
    pub bytes_read: u64,
    /// The bytes that these write; for transfers, those that travelled.
    pub bytes_written: u64,
    /// The operations of these in additions, as [`LoopNest::operations`](crate::ir::LoopNest::operations) counts them: two for
    /// a multiplication and addition of a matrix product, more than one for an exponential.
    pub operations: f64,
}

impl Row {
    /// The time of one call; 0 without calls.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.time_ns as f64 / self.calls.max(1) as f64
    }

    /// Operations in a nanosecond: billions in a second. 0 without time.
    #[must_use]
    pub fn gflops(&self) -> f64 {
        self.operations / (self.time_ns as f64).max(1.0)
    }

    /// Bytes read and written in a nanosecond: billions in a second. 0 without time.
    #[must_use]
    pub fn gigabytes_per_s(&self) -> f64 {
        self.bytes() as f64 / (self.time_ns as f64).max(1.0)
    }

    /// The share of the peak that the operations or the bytes reach, whichever is larger. What is read again from a cache may make
    /// it more than 1, and so may operations that take less than others.
    #[must_use]
    pub fn share_of(&self, peak: Peak) -> f64 {
        let of = |rate: f64, most: f64| if most > 0.0 { rate / most } else { 0.0 };
        of(self.gflops(), peak.gflops).max(of(self.gigabytes_per_s(), peak.gigabytes_per_s))
    }

    fn bytes(&self) -> u64 {
        self.bytes_read.saturating_add(self.bytes_written)
    }

    fn value(&self, column: Column) -> f64 {
        match column {
            Column::Time => self.time_ns as f64,
            Column::Within => self.within_ns as f64,
            Column::Mean => self.mean_ns(),
            Column::Calls => self.calls as f64,
            Column::Bytes => self.bytes() as f64,
            Column::Operations => self.operations,
            Column::Gflops => self.gflops(),
            Column::GigabytesPerS => self.gigabytes_per_s(),
        }
    }

    fn add(&mut self, totals: &Totals, is_last: bool) {
        self.within_ns = self.within_ns.saturating_add(totals.time);
        if is_last {
            self.calls += totals.calls;
            self.failed += totals.failed;
            self.time_ns = self.time_ns.saturating_add(totals.time);
            self.bytes_read = self.bytes_read.saturating_add(totals.read);
            self.bytes_written = self.bytes_written.saturating_add(totals.written);
            self.operations += totals.operations;
        }
    }
}

pub(super) fn of(profile: &Profile, by: By, sorted_by: Column) -> Table {
    let data = &profile.data;
    let is_asked_for = |what: &What| matches!(what, What::Named(_)) == (by == By::Span);
    let groups = grouped(data, by, |row: &mut Row, _, subject, is_last| {
        if is_asked_for(&subject.what) {
            row.add(&subject.totals, is_last);
        }
    });
    let named = groups.into_iter().map(|(name, row)| Row { name, ..row });
    // A step that was planned and never ran has no row.
    let mut rows: Vec<Row> = named
        .filter(|row| row.calls > 0 || row.within_ns > 0)
        .collect();
    rows.sort_by(|a, b| b.value(sorted_by).total_cmp(&a.value(sorted_by)));
    let steps = data
        .subjects
        .iter()
        .filter(|subject| is_asked_for(&subject.what));
    let total = steps.fold(0, |sum: u64, step| sum.saturating_add(step.totals.time));
    Table {
        by,
        sorted_by,
        rows,
        total_ns: if by == By::Span {
            profile.elapsed_ns
        } else {
            total
        },
        peak: None,
        refused: data.refused,
        dropped_spans: data.dropped_spans,
    }
}

/// Subjects by name, in the order in which they were first seen. A subject is added to the row of its result, and as not the
/// last one to those of its other operations or lines.
pub(super) fn grouped<R: Default>(
    data: &Data,
    by: By,
    mut add: impl FnMut(&mut R, usize, &Subject, bool),
) -> Vec<(String, R)> {
    let mut rows: Vec<(String, R)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (number, subject) in data.subjects.iter().enumerate() {
        let (result, others) = names(&subject.what, by);
        let others = others.into_iter().map(|name| (name, false));
        for (name, is_last) in std::iter::once((result, true)).chain(others) {
            let place = *places.entry(name.clone()).or_insert_with(|| {
                rows.push((name, R::default()));
                rows.len() - 1
            });
            add(&mut rows[place].1, number, subject, is_last);
        }
    }
    rows
}

/// The row of a subject's result, and those of what else it does.
fn names(what: &What, by: By) -> (String, BTreeSet<String>) {
    let What::Step(info) = what else {
        return (what.short().into_owned(), BTreeSet::new());
    };
    let name = |origin: &Origin| match by {
        By::Op => origin.op.to_owned(),
        _ => line(origin),
    };
    match (by, info.origins.last()) {
        (By::Op | By::Line, Some(last)) => {
            let mut others: BTreeSet<String> = info.origins.iter().map(name).collect();
            let result = name(last);
            others.remove(&result);
            (result, others)
        }
        _ => (info.long(), BTreeSet::new()),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: u64 = self.rows.iter().map(|row| row.calls).sum();
        let total = time(self.total_ns as f64);
        let (what, shares_of) = match self.by {
            By::Span => ("spans", "since the start"),
            _ => ("runs of steps", "in steps, summed over threads"),
        };
        writeln!(f, "{calls} {what}, {total} {shares_of}")?;
        if self.refused > 0 {
            let refused = self.refused;
            writeln!(
                f,
                "{refused} runs of steps that the executor does not accept are missing: they went to another host"
            )?;
        }
        if self.dropped_spans > 0 {
            let dropped = self.dropped_spans;
            writeln!(
                f,
                "{dropped} spans are in this table alone, and not in traces and pictures: no more were kept"
            )?;
        }
        writeln!(
            f,
            "{:>9} {:>6} {:>9} {:>9} {:>8} {:>9} {:>10} {:>8} {:>7}{}  {}",
            "time",
            "share",
            "within",
            "mean",
            "calls",
            "bytes",
            "operations",
            "GFLOP/s",
            "GB/s",
            self.peak.map_or("", |_| "  of peak"),
            self.by.title()
        )?;
        for row in &self.rows {
            self.write_row(f, row)?;
        }
        Ok(())
    }
}

impl Table {
    /// The same table, with a column of shares of a measured peak.
    #[must_use]
    pub fn beside(self, peak: Peak) -> Self {
        let peak = Some(peak);
        Self { peak, ..self }
    }

    fn write_row(&self, f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
        let failed = match row.failed {
            0 => String::new(),
            failed => format!(" ({failed} failed)"),
        };
        let share = self
            .peak
            .map(|peak| format!(" {:>7.1}%", 100.0 * row.share_of(peak)));
        let share = share.unwrap_or_default();
        let moved = usize::try_from(row.bytes()).unwrap_or(usize::MAX);
        writeln!(
            f,
            "{:>9} {:>5.1}% {:>9} {:>9} {:>8} {:>9} {:>10} {:>8.2} {:>7.2}{share}  {}{failed}",
            time(row.time_ns as f64),
            100.0 * row.time_ns as f64 / (self.total_ns as f64).max(1.0),
            time(row.within_ns as f64),
            time(row.mean_ns()),
            row.calls,
            bytes(moved),
            Scaled(row.operations).to_string(),
            row.gflops(),
            row.gigabytes_per_s(),
            row.name,
        )
    }
}

impl By {
    fn title(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Op => "operation",
            Self::Line => "line",
            Self::Span => "span",
        }
    }
}

/// A time in the unit that gives it up to three digits before the point.
pub(super) fn time(ns: f64) -> String {
    const STEP: f64 = 1000.0;
    let (mut value, mut unit) = (ns, "ns");
    for next in ["µs", "ms", "s"] {
        if value < STEP {
            break;
        }
        (value, unit) = (value / STEP, next);
    }
    let digits = if unit == "ns" { 0 } else { 2 };
    format!("{value:.digits$} {unit}")
}
