//! The explain command: shows a workload's program at each level, from the plan to the code for the
//! driver.
//!
//! Role: built and run by `cargo xtask explain`.

use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use benches::{machine_code, workloads};
use gpu_wgsl::{Gpu, Language, Select, StepExplanation};
use harness::workload::Task;
use rspirv::binary::Disassemble as _;
use serde::Serialize;
use tensor_core::plan::Plan;
use tensor_core::{Executor, Tensor};
use tool_io::output;

const HELP: &str = "\
explain: show a workload's program at each level

usage: cargo xtask explain [WORKLOAD] [--emit LEVEL] [--adapter NAME] [--json]
       cargo xtask explain [WORKLOAD] --isa FAMILY [--table] [--json]

  WORKLOAD        part of a `name/size` as printed by `bench --list`; the first match is shown
                  (default: similarity-all)
  --emit LEVEL    plan: the steps as loops; wgsl: the kernels of each step; spirv, glsl, hlsl, msl:
                  the kernels as passed to drivers of Vulkan, OpenGL, Direct3D, Metal (default:
                  plan)
  --adapter NAME  use the adapter whose name contains NAME (default: the best one)
  --isa FAMILY    compile the kernels for AMD GPUs of FAMILY (such as navi31, navi21, vega10) with
                  Mesa's driver RADV, without such a GPU, and show registers, spills, waves,
                  instructions and assembly. WORKLOAD may also be the name of a fixed kernel; part
                  of such a name selects fixed kernels only if no workload matches. Excludes --emit
                  and --adapter
  --table         with --isa: one line per kernel without assembly, for all workloads and fixed
                  kernels that match
  --json          print one JSON object per kernel, or one for the plan: step, name, text
  --help          print this help
";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Plan,
    Wgsl,
    Spirv,
    Text(Language),
}

struct Arguments {
    pattern: String,
    level: Level,
    select: Select,
    /// The GPU whose code is shown, if any.
    family: Option<String>,
    table: bool,
    json: bool,
}

/// One item of the output: the plan, or the code of one of its steps.
#[derive(Serialize)]
struct Shown {
    /// Number of the step; `None` for the plan.
    step: Option<usize>,
    name: String,
    text: String,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("explain: {error:#}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    run(arguments).unwrap_or_else(|error| {
        eprintln!("explain: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(family) = &arguments.family {
        let Arguments {
            pattern,
            table,
            json,
            ..
        } = &arguments;
        return machine_code::show(family, pattern, *table, *json);
    }
    let gpu = Gpu::open(arguments.select)?;
    let program = program(&arguments.pattern)?;
    for shown in explained(&program, arguments.level, &gpu)? {
        output::print(&if arguments.json {
            serde_json::to_string(&shown)? + "\n"
        } else if let Some(step) = shown.step {
            format!("// step {step}: {}\n{}\n", shown.name, shown.text)
        } else {
            shown.text
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn arguments() -> Result<Option<Arguments>> {
    use lexopt::prelude::*;
    let mut pattern = None;
    let (mut level, mut adapter, mut family) = (None, None, None);
    let (mut table, mut json) = (false, false);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Value(value) if pattern.is_none() => pattern = Some(value.string()?),
            Long("emit") => level = Some(parse_level(&parser.value()?.string()?)?),
            Long("isa") => family = Some(parser.value()?.string()?),
            Long("table") => table = true,
            Long("json") => json = true,
            Long("adapter") => adapter = Some(parser.value()?.string()?),
            Long("help") | Short('h') => {
                output::print(HELP)?;
                return Ok(None);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if family.is_some() && (level.is_some() || adapter.is_some()) {
        bail!("--isa excludes --emit and --adapter");
    }
    if table && family.is_none() {
        bail!("--table requires --isa");
    }
    Ok(Some(Arguments {
        pattern: pattern.unwrap_or_else(|| "similarity-all".to_owned()),
        level: level.unwrap_or(Level::Plan),
        select: adapter.map_or(Select::Best, Select::Name),
        family,
        table,
        json,
    }))
}

fn parse_level(name: &str) -> Result<Level> {
    Ok(match name {
        "plan" => Level::Plan,
        "wgsl" => Level::Wgsl,
        "spirv" => Level::Spirv,
        "glsl" => Level::Text(Language::Glsl),
        "hlsl" => Level::Text(Language::Hlsl),
        "msl" => Level::Text(Language::Msl),
        other => {
            bail!("--emit: unknown level {other:?} (expected plan, wgsl, spirv, glsl, hlsl or msl)")
        }
    })
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

fn explained(program: &Tensor, level: Level, gpu: &Gpu) -> Result<Vec<Shown>> {
    let (plan, _) = Plan::new(&[program], &gpu.target())?;
    if level == Level::Plan {
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
            Level::Spirv => {
                let module = rspirv::dr::load_words(gpu_wgsl::spirv(&kernel.wgsl)?);
                module
                    .context("naga produced invalid SPIR-V")?
                    .disassemble()
            }
            Level::Text(language) => gpu_wgsl::translate(&kernel.wgsl, language)?,
            Level::Plan | Level::Wgsl => kernel.wgsl,
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
            for level in [
                Level::Wgsl,
                Level::Spirv,
                Level::Text(Language::Glsl),
                Level::Text(Language::Hlsl),
                Level::Text(Language::Msl),
            ] {
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

    #[test]
    fn an_unknown_level_names_those_that_exist() {
        let Err(error) = parse_level("WGSL") else {
            panic!("names of levels are lower case");
        };
        assert!(
            error.to_string().contains("expected plan, wgsl, spirv"),
            "{error}"
        );
    }
}
