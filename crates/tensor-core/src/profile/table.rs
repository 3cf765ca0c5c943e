//! Tables of summed and sorted records.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::Profile;
use super::data::{Data, Label, Subject, Totals, line};
use crate::plan::Origin;
use crate::plan::explain::{Scaled, bytes};

/// The grouping of records into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// By step: steps with equal loops and lines share a row.
    Step,
    /// By name of an operation.
    Op,
    /// By source line.
    Line,
    /// By name of a span: names of opened or recorded spans, `run` for a run of a plan, `upload`
    /// and `read` for transfers. The time of a span includes its parts.
    Span,
}

/// The column by which a table is sorted, largest value first.
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
    /// The sum of the bytes read and written.
    Bytes,
    /// [`Row::operations`].
    Operations,
    /// [`Row::gflops`].
    Gflops,
    /// [`Row::gigabytes_per_s`].
    GigabytesPerS,
}

/// A table of counts and times. Its text form is for people.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Table {
    /// The grouping of the rows.
    pub by: By,
    /// The column by which the rows are sorted.
    pub sorted_by: Column,
    /// The rows, largest value first.
    pub rows: Vec<Row>,
    /// The time that counts as 100 % in the text form: the sum over all steps and threads, or for
    /// spans the time since the profiler was created.
    pub total_ns: u64,
    /// The number of step runs that the executor did not accept. They ran on the scheduler's own
    /// host and have no row.
    pub n_rejected: u64,
    /// The measured peak rates of the machine, or `None`.
    pub peak: Option<Peak>,
    /// The number of spans that were dropped because of the limit. They are included in the sums,
    /// but missing from traces and graphs.
    pub dropped_spans: u64,
}

/// The measured peak rates of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Billions of operations per second.
    pub gflops: f64,
    /// Billions of bytes read and written per second.
    pub gigabytes_per_s: f64,
}

/// A row of a table.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// The name of the step, operation, line or span.
    pub name: String,
    /// The number of calls; for an operation or line, of steps that write its result.
    pub calls: u64,
    /// The number of failed calls.
    pub failed: u64,
    /// The time of these calls, in nanoseconds.
    pub time_ns: u64,
    /// The time of all steps that compute any part of the operation or line, an upper bound on its
    /// cost. A step counts in its own row and in the rows of all its operations or lines.
    pub within_ns: u64,
    /// The bytes of inputs that these calls touch, as [`Plan::explain`](crate::plan::Plan::explain)
    /// counts.
    pub bytes_read: u64,
    /// The bytes that these calls write; for transfers, the transferred bytes.
    pub bytes_written: u64,
    /// The operations of these calls in additions, as
    /// [`LoopNest::operations`](crate::ir::LoopNest::operations) counts: two for a multiply-add of
    /// a matrix product, more than one for an exponential.
    pub operations: f64,
}

impl Row {
    /// Returns the mean time of a call in nanoseconds; 0 without calls.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.time_ns as f64 / self.calls.max(1) as f64
    }

    /// Returns billions of operations per second; 0 without operations.
    #[must_use]
    pub fn gflops(&self) -> f64 {
        self.operations / (self.time_ns as f64).max(1.0)
    }

    /// Returns billions of bytes read and written per second; 0 without bytes.
    #[must_use]
    pub fn gigabytes_per_s(&self) -> f64 {
        self.bytes() as f64 / (self.time_ns as f64).max(1.0)
    }

    /// Returns the share of the peak rates that the operations or the bytes reach, whichever is
    /// larger. The share may exceed 1 because of repeated reads from a cache, or because of
    /// operations that are cheaper than counted.
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

    /// Adds the totals of a subject. `is_last` is true in the row of the operation or line whose
    /// result the subject writes. In the rows of its other operations or lines `is_last` is false,
    /// and only `within_ns` counts.
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

pub(super) fn summarize(profile: &Profile, by: By, sorted_by: Column) -> Table {
    let data = &profile.data;
    // Spans and steps are never in the same table.
    let is_asked_for = |what: &Label| matches!(what, Label::Named(_)) == (by == By::Span);
    let groups = grouped(data, by, |row: &mut Row, _, subject, is_last| {
        if is_asked_for(&subject.what) {
            row.add(&subject.totals, is_last);
        }
    });
    let named = groups.into_iter().map(|(name, row)| Row { name, ..row });
    // A step that was planned but never ran has no row.
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
        n_rejected: data.n_rejected,
        dropped_spans: data.dropped_spans,
    }
}

/// Groups subjects by name, in the order of their first occurrence. A subject is added to the row
/// of the operation or line whose result it writes with `is_last` set, and to the rows of its other
/// operations or lines with `is_last` clear.
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

/// Returns the name of the row for the result that a subject writes, and the names of the rows for
/// its other operations or lines.
fn names(what: &Label, by: By) -> (String, BTreeSet<String>) {
    let Label::Step(info) = what else {
        return (what.short().into_owned(), BTreeSet::new());
    };
    let name = |origin: &Origin| match by {
        By::Op => origin.operation.to_owned(),
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
        if self.n_rejected > 0 {
            let n_rejected = self.n_rejected;
            writeln!(
                f,
                "{n_rejected} runs of steps are missing: the executor does not accept them, so they fell back to the host"
            )?;
        }
        if self.dropped_spans > 0 {
            let dropped = self.dropped_spans;
            writeln!(
                f,
                "{dropped} spans were dropped: this table includes them, traces and graphs do not"
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
    /// Returns the table with an additional column: the share of measured peak rates.
    #[must_use]
    pub fn with_peak(self, peak: Peak) -> Self {
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

/// Formats a time in the unit that leaves up to three digits before the decimal point.
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
