//! The text form of a plan for people.

use std::fmt;

use super::{Band, BufferId, BufferKind, Plan, Step};
use crate::ir::{IndexMap, LoopNest, Value};

/// A plan that is displayed as text.
pub(super) struct Explained(pub(super) Plan);

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.0;
        writeln!(
            f,
            "{} steps in {} waves, {} inputs, {} outputs, temporaries {}",
            plan.steps.len(),
            plan.waves().count(),
            plan.inputs.len(),
            plan.outputs.len(),
            bytes(plan.peak_bytes()),
        )?;
        for (number, step) in plan.steps.iter().enumerate() {
            write_step(f, plan, number, step)?;
        }
        for (number, band) in plan.bands.iter().enumerate() {
            write_band(f, plan, number, band)?;
        }
        Ok(())
    }
}

/// Writes the lines of one band.
fn write_band(f: &mut fmt::Formatter<'_>, plan: &Plan, number: usize, band: &Band) -> fmt::Result {
    let listed: Vec<String> = band.steps.iter().map(usize::to_string).collect();
    writeln!(
        f,
        "band {number}: steps {} run together on {} of {} rows at a time",
        listed.join(", "),
        band.piece_rows,
        band.n_rows
    )?;
    let len = |id: BufferId| plan.buffers[id.0].bytes() / band.n_rows * band.piece_rows;
    let scratch: usize = band.scratch(&plan.steps).map(len).sum();
    writeln!(f, "  scratch memory for one piece {}", bytes(scratch))
}

/// Writes the lines of one step.
fn write_step(f: &mut fmt::Formatter<'_>, plan: &Plan, number: usize, step: &Step) -> fmt::Result {
    let nest = &step.nest;
    let output = &plan.buffers[step.output.0];
    let kind = if output.kind == BufferKind::Output {
        ", output"
    } else {
        ""
    };
    let what = match &nest.contract {
        Some(_) => "matrix product",
        None if nest.scan().is_some() => "scan",
        None if nest.sort().is_some() => "sort",
        None if nest.reduce.is_empty() => "loops",
        None => "reduction",
    };
    writeln!(f, "step {number}, wave {}: {what}", step.wave)?;
    let reduced = if nest.reduce.is_empty() {
        String::new()
    } else {
        format!(", reduced over {}", sizes(&nest.reduce))
    };
    writeln!(
        f,
        "  {} = {} {}{kind}, loops {}{reduced}",
        name(step.output),
        output.dtype,
        sizes(&output.shape),
        sizes(&nest.domain),
    )?;
    writeln!(
        f,
        "  reads {}, writes {}, operations {}",
        bytes(plan.bytes_read(step)),
        bytes(output.bytes()),
        Scaled(nest.operations()),
    )?;
    for (place, input) in step.inputs.iter().enumerate() {
        let buffer = &plan.buffers[input.0];
        writeln!(
            f,
            "  in{place} = {} {} {}",
            name(*input),
            buffer.dtype,
            sizes(&buffer.shape)
        )?;
    }
    let body = nest.body();
    for (id, value) in nest.values.iter().enumerate() {
        // Values inside the reduction are indented further.
        let inside = body[id] || value.is_fold();
        let indent = if inside && !nest.reduce.is_empty() {
            "      "
        } else {
            "    "
        };
        writeln!(f, "{indent}v{id} = {value}: {}", nest.dtypes[id])?;
    }
    if let Some(contract) = &nest.contract {
        writeln!(
            f,
            "    product of {} and {}: batch axes {:?}, rows {:?}, columns {:?}{}",
            contract.lhs,
            contract.rhs,
            contract.batch,
            contract.rows,
            contract.cols,
            if contract.reads_once {
                ", read once"
            } else {
                ""
            }
        )?;
    }
    let lines: Vec<String> = step
        .origins
        .iter()
        .map(|origin| {
            format!(
                "{} ({}:{})",
                origin.operation,
                origin.location.file(),
                origin.location.line()
            )
        })
        .collect();
    if lines.is_empty() {
        Ok(())
    } else {
        writeln!(f, "  from {}", lines.join(", "))
    }
}

impl Plan {
    /// Returns the bytes that a step of this plan reads, estimated as in [`Plan::explain`]: for
    /// each input the sum over its loads, but at most the whole array.
    ///
    /// # Panics
    /// If the step reads a buffer that the plan does not have.
    #[must_use]
    pub fn bytes_read(&self, step: &Step) -> usize {
        let lens = step.inputs.iter().map(|input| self.buffers[input.0].len());
        bytes_read(&step.nest, lens)
    }
}

/// Returns the bytes that a nest reads from inputs of these lengths, as [`Plan::explain`] counts.
pub(crate) fn bytes_read(nest: &LoopNest, lens: impl IntoIterator<Item = usize>) -> usize {
    let inputs = nest.inputs.iter().zip(lens).enumerate();
    inputs
        .map(|(place, (dtype, len))| {
            let read_len = touched(nest, place).min(len);
            read_len.saturating_mul(dtype.bytes())
        })
        .fold(0, usize::saturating_add)
}

/// Returns the number of elements of an input that a nest reads, as [`Plan::explain`] counts.
fn touched(nest: &LoopNest, place: usize) -> usize {
    let sizes = nest.sizes();
    let moved = |map: &IndexMap| {
        let axes = sizes.iter().enumerate();
        axes.filter(|&(axis, _)| map.stride(axis) != 0)
            .fold(1, |len: usize, (_, &size)| len.saturating_mul(size))
    };
    // If any loop is empty, no element is read.
    let is_empty = sizes.contains(&0);
    let read = nest.values.iter().map(|value| match value {
        _ if is_empty => 0,
        Value::Load { input, map, .. } if *input == place => moved(map),
        // The positions of a gather depend on data, so each iteration counts.
        Value::Gather { input, .. } if *input == place => sizes
            .iter()
            .fold(1, |len: usize, &size| len.saturating_mul(size)),
        _ => 0,
    });
    read.fold(0, usize::saturating_add)
}

/// Returns the name of a buffer.
fn name(buffer: BufferId) -> String {
    format!("b{}", buffer.0)
}

/// Returns a shape as text, for example `[2, 3]`.
pub(crate) fn sizes(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// Returns a number of bytes with a decimal prefix, for example `1.50 MB`.
pub(crate) fn bytes(count: usize) -> String {
    let scaled = Scaled(count as f64).to_string();
    let gap = if scaled.contains(' ') { "" } else { " " };
    format!("{scaled}{gap}B")
}

/// A number that is displayed as an integer below 1000, and with two decimals and a decimal prefix
/// (k, M, G or T) above.
pub(crate) struct Scaled(pub(crate) f64);

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEP: f64 = 1000.0;
        let (mut value, mut prefix) = (self.0, "");
        for next in ["k", "M", "G", "T"] {
            if value < STEP {
                break;
            }
            (value, prefix) = (value / STEP, next);
        }
        if prefix.is_empty() {
            write!(f, "{value:.0}")
        } else {
            write!(f, "{value:.2} {prefix}")
        }
    }
}
