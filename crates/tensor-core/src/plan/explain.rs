//! A plan as text for people.

use std::fmt;

use super::{BufferId, Kind, Plan, Step};
use crate::ir::Value;

/// Prints a plan.
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
        Ok(())
    }
}

fn write_step(f: &mut fmt::Formatter<'_>, plan: &Plan, number: usize, step: &Step) -> fmt::Result {
    let nest = &step.nest;
    let output = &plan.buffers[step.output.0];
    let kind = if output.kind == Kind::Output {
        ", output"
    } else {
        ""
    };
    let what = match &nest.contract {
        Some(_) => "matrix product",
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
    let read: usize = step
        .inputs
        .iter()
        .map(|&input| plan.buffers[input.0].bytes())
        .sum();
    writeln!(
        f,
        "  reads {}, writes {}, {:.4} operations",
        bytes(read),
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
        let inside = body[id] || matches!(value, Value::Reduced(..));
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
            "    product of {} and {}: batch axes {:?}, rows {:?}, columns {:?}",
            contract.lhs, contract.rhs, contract.batch, contract.rows, contract.cols
        )?;
    }
    let lines: Vec<String> = step
        .origins
        .iter()
        .map(|origin| {
            format!(
                "{} ({}:{})",
                origin.op,
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

fn name(buffer: BufferId) -> String {
    format!("b{}", buffer.0)
}

fn sizes(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

fn bytes(count: usize) -> String {
    format!("{:.4}B", Scaled(count as f64))
}

/// A number with a decimal prefix.
struct Scaled(f64);

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
        let digits = if prefix.is_empty() { 0 } else { 2 };
        write!(f, "{value:.digits$} {prefix}")
    }
}
