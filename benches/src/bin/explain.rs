//! The explain command: shows a workload's program at each level, from the plan to the code for the
//! driver.
//!
//! Role: built and run by `cargo xtask explain`.

use std::process::ExitCode;

use commands::clap::Parser as _;
use commands::{Emit, Explain};
use std::rc::Rc;
use tool_io::exit;

use anyhow::{Context as _, Result};
use benches::{machine_code, workloads};
use gpu_wgsl::{Gpu, Language, Select, StepExplanation};
use harness::workload::Task;
use rspirv::binary::Disassemble as _;
use serde::Serialize;
use tensor_core::plan::Plan;
use tensor_core::{Executor, Tensor};
use tool_io::output;

/// One item of the output: the plan, or the code of one of its steps.
#[derive(Serialize)]
struct Shown {
    /// Number of the step; `None` for the plan.
    step: Option<usize>,
    name: String,
    text: String,
}

fn main() -> ExitCode {
    run(&Explain::parse()).unwrap_or_else(|error| {
        output::note(format_args!("explain: {error:#}"));
        ExitCode::from(exit::FAILURE)
    })
}

fn run(options: &Explain) -> Result<ExitCode> {
    if let Some(family) = &options.isa {
        return machine_code::show(family, &options.workload, options.table, options.json);
    }
    let adapter = options.adapter.clone();
    let gpu = Gpu::open(adapter.map_or(Select::Best, Select::Name))?;
    let program = program(&options.workload)?;
    for shown in explained(&program, options.emit, &gpu)? {
        output::print(&if options.json {
            serde_json::to_string(&shown)? + "\n"
        } else if let Some(step) = shown.step {
            format!("// step {step}: {}\n{}\n", shown.name, shown.text)
        } else {
            shown.text
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the tensor program of the first task whose id contains `pattern`. Tasks that are not a
/// single program are skipped.
fn program(pattern: &str) -> Result<Tensor> {
    let tasks = workloads::all(true, &Rc::default());
    let mut fitting = tasks
        .iter()
        .filter(|task| task.id.to_string().contains(pattern));
    let found = fitting.find_map(Task::program);
    found.with_context(|| format!("no workload that is a single program matches {pattern:?}"))
}

fn explained(program: &Tensor, level: Emit, gpu: &Gpu) -> Result<Vec<Shown>> {
    let (plan, _) = Plan::new(&[program], &gpu.target())?;
    if level == Emit::Plan {
        return Ok(vec![Shown {
            step: None,
            name: "plan".to_owned(),
            text: plan.explain().to_string(),
        }]);
    }
    let shown = |kernel: StepExplanation| {
        let text = match level {
            // A comment with the reason, instead of a kernel.
            _ if kernel.name == "host" => kernel.wgsl,
            Emit::Spirv => {
                let module = rspirv::dr::load_words(gpu_wgsl::spirv(&kernel.wgsl)?);
                module
                    .context("naga produced invalid SPIR-V")?
                    .disassemble()
            }
            Emit::Glsl => gpu_wgsl::translate(&kernel.wgsl, Language::Glsl)?,
            Emit::Hlsl => gpu_wgsl::translate(&kernel.wgsl, Language::Hlsl)?,
            Emit::Msl => gpu_wgsl::translate(&kernel.wgsl, Language::Msl)?,
            Emit::Plan | Emit::Wgsl => kernel.wgsl,
        };
        Ok(Shown {
            step: Some(kernel.step),
            name: kernel.name,
            text,
        })
    };
    gpu.explain(&plan).into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use gpu_wgsl::check::every_adapter;
    use tensor_core::DType;

    use super::*;

    #[test]
    fn a_step_of_the_host_is_its_reason_at_every_level() {
        let program = Tensor::arange(9).cast(DType::F64).exp();
        for gpu in every_adapter() {
            for level in [Emit::Wgsl, Emit::Spirv, Emit::Glsl, Emit::Hlsl, Emit::Msl] {
                let shown = explained(&program, level, gpu).unwrap();
                let reason = shown.iter().find(|shown| shown.name == "host").unwrap();
                assert!(
                    reason.text.starts_with("// runs on the host"),
                    "{}",
                    reason.text
                );
            }
        }
    }
}
