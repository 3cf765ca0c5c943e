//! Registers, instructions and assembly of kernels on AMD's GPUs, without such a GPU.
//!
//! Role: the option `--isa` of `explain`.
//! Method: Mesa's driver RADV opens without hardware if `RADV_FORCE_FAMILY` names a GPU. A process
//! reads the variable when it starts, so the program starts itself again with the variable. The
//! kernels are those that a device of this GPU would run: limits and tile sizes come from the
//! adapter that RADV then describes. `testdata/machine_code.txt` is the table of all kernels on one
//! GPU; a test compares it, so that a change that makes a kernel worse is seen in review. The table
//! also contains a predicted time ([`isa::prediction`]), to be compared with the first measurement
//! on this GPU.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use gpu_wgsl::{Adapter, adapters};
use harness::workload::Task;
use isa::loops::main_loop;
use isa::prediction::{self, Gpu, Work, predict};
use isa::{Code, Compiler};
use serde::Serialize;
use shaders::Kernel;
use tensor_core::ir::{LoopNest, Value};
use tensor_core::op::{Binary, Reduce};
use tensor_core::plan::{Plan, Step};
use tool_io::output;

use crate::workloads;

/// Variable with the name of the GPU, which RADV reads.
const FAMILY: &str = "RADV_FORCE_FAMILY";
/// Variable with the files of the drivers that the Vulkan loader uses.
const DRIVERS: &str = "VK_DRIVER_FILES";
/// Variable with the loader's file of RADV, if it is not the installed one.
const RADV_DRIVER: &str = "RADV_DRIVER_FILE";
/// The loader's file of the installed RADV, by distribution.
const INSTALLED: [&str; 2] = [
    "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json",
    "/usr/share/vulkan/icd.d/radeon_icd.json",
];

/// A kernel to compile.
struct Listed {
    /// The workload or the family of the kernel.
    source: String,
    kernel: Kernel,
    /// The work of a dispatch; `None` for fixed kernels and for steps of several dispatches.
    work: Option<Work>,
}

/// A kernel with its code.
#[derive(Serialize)]
struct Row {
    /// The workload or the family of the kernel.
    source: String,
    kernel: String,
    vector_registers: f64,
    spilled_registers: f64,
    scratch_bytes: f64,
    workgroup_bytes: f64,
    waves: f64,
    instructions: f64,
    loop_instructions: u32,
    loop_multiply_adds: u32,
    loop_workgroup_bytes: u32,
    /// Predicted time in seconds, and the resource that limits the kernel.
    predicted_s: Option<f64>,
    limit: Option<&'static str>,
    assembly: String,
}

/// Prints the code of the kernels whose workload or name contains `pattern`.
///
/// # Errors
/// If RADV is missing or does not know the GPU, if no kernel matches, or if a kernel does not
/// compile.
pub fn show(family: &str, pattern: &str, table: bool, as_json: bool) -> Result<()> {
    if std::env::var_os(FAMILY).is_none_or(|set| set != family) {
        return start_again(family);
    }
    let found = adapters();
    let adapter = found
        .first()
        .with_context(|| format!("RADV does not know the GPU {family:?}"))?;
    let compiler = Compiler::open()?;
    let kernels = kernels(pattern, table, adapter)?;
    let gpu = [Gpu::RX_7900_XTX]
        .into_iter()
        .find(|gpu| gpu.family == family);
    if !as_json {
        output::print_line(format_args!("{}, {}", compiler.name(), adapter.driver))?;
        output::print_line(HEADER)?;
    }
    for kernel in kernels {
        let row = row(&compiler, kernel, gpu)?;
        if as_json {
            output::print_line(serde_json::to_string(&row)?)?;
            continue;
        }
        output::print_line(row.line())?;
        if !table {
            output::print_line(format_args!("\n{}", row.assembly))?;
        }
    }
    Ok(())
}

/// Runs this program with the variables that open RADV for a GPU.
fn start_again(family: &str) -> Result<()> {
    let installed = INSTALLED.iter().find(|file| Path::new(file).is_file());
    let driver = std::env::var_os(RADV_DRIVER).or_else(|| installed.map(|file| (*file).into()));
    let driver = driver.context(
        "Mesa's driver RADV is not installed (`cargo xtask adapters --fetch`, or on Debian \
         `apt-get install mesa-vulkan-drivers`)",
    )?;
    let status = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(FAMILY, family)
        .env(DRIVERS, driver)
        .status()?;
    if !status.success() {
        bail!("no code for {family:?} ({status})");
    }
    Ok(())
}

/// Returns the kernels of the first workload that matches, or of all for a table, with their
/// sources. Each kernel is listed once.
fn kernels(pattern: &str, all: bool, adapter: &Adapter) -> Result<Vec<Listed>> {
    let mut kernels = Vec::new();
    let mut seen = BTreeSet::new();
    let fixed = shaders::layout::ALL.iter();
    for kernel in fixed.filter(|kernel| kernel.name.contains(pattern)) {
        kernels.push(Listed {
            source: "fixed".to_owned(),
            kernel: (*kernel).clone(),
            work: None,
        });
    }
    let tasks = workloads::all(true, &Rc::default());
    for task in &tasks {
        let source = task.id.to_string();
        if !source.contains(pattern) || (!all && !kernels.is_empty()) {
            continue;
        }
        let Some(program) = Task::program(task) else {
            continue;
        };
        let (plan, _) = Plan::new(&[&program], &gpu_wgsl::target(adapter))?;
        let explained = gpu_wgsl::explain(&plan, adapter);
        for kernel in &explained {
            if kernel.name == "host" || !seen.insert(kernel.wgsl.clone()) {
                continue;
            }
            let is_alone = explained
                .iter()
                .filter(|other| other.step == kernel.step)
                .count()
                == 1;
            let step = &plan.steps[kernel.step];
            let work = is_alone.then(|| work(&plan, step, kernel.workgroups));
            let kernel = shaders::reflect(&kernel.name, &kernel.wgsl);
            kernels.push(Listed {
                source: source.clone(),
                kernel: kernel.map_err(anyhow::Error::msg)?,
                work,
            });
        }
    }
    if kernels.is_empty() {
        bail!("no workload that is a single program and no fixed kernel matches {pattern:?}");
    }
    Ok(kernels)
}

/// Returns the work of a step that a single dispatch computes.
fn work(plan: &Plan, step: &Step, workgroups: u64) -> Work {
    let written = plan.buffers[step.output.0].bytes();
    Work {
        workgroups: workgroups as f64,
        multiply_adds: multiply_adds(&step.nest),
        bytes: (plan.bytes_read(step) + written) as f64,
    }
}

/// Returns the number of multiply-adds of a nest: the terms of its sums of products.
fn multiply_adds(nest: &LoopNest) -> f64 {
    let is_product = |value: &&Value| match value {
        Value::Reduced(Reduce::Sum, term) => {
            matches!(nest.values[term.0], Value::Binary(Binary::Mul, ..))
        }
        _ => false,
    };
    let n_sums = nest.values.iter().filter(is_product).count();
    n_sums as f64 * nest.output_len() as f64 * nest.reduce_len() as f64
}

fn row(compiler: &Compiler, listed: Listed, gpu: Option<Gpu>) -> Result<Row> {
    let Listed {
        source,
        kernel,
        work,
    } = listed;
    let n_buffers = u32::try_from(kernel.bindings.len())?;
    let spirv = gpu_wgsl::spirv(&kernel.source)?;
    #[expect(
        unsafe_code,
        reason = "the driver trusts the module, which naga has validated"
    )]
    // SAFETY: `spirv` returns modules that naga has validated, and reflection of the same text
    // counted the buffers of its entry point.
    let code = unsafe { compiler.compile(&spirv, &kernel.name, n_buffers) };
    let code: Code = code.with_context(|| kernel.name.to_string())?;
    let of = |name: &str| code.statistic(name).unwrap_or(f64::NAN);
    let main = main_loop(&code.assembly).unwrap_or_default();
    let counts = prediction::Kernel {
        main,
        invocations: kernel.workgroup_size.into_iter().map(f64::from).product(),
        vector_registers: of("VGPRs"),
        workgroup_bytes: of("LDS size"),
        latency_ratio: of("Latency") / of("Inverse Throughput"),
    };
    let predicted = gpu
        .zip(work)
        .filter(|(_, work)| is_predictable(&counts, work));
    let predicted = predicted.map(|(gpu, work)| predict(&gpu, &counts, &work));
    Ok(Row {
        source,
        kernel: kernel.name.to_string(),
        vector_registers: of("VGPRs"),
        spilled_registers: of("Spilled VGPRs") + of("Spilled SGPRs"),
        scratch_bytes: of("Scratch size"),
        workgroup_bytes: of("LDS size"),
        waves: of("Subgroups per SIMD"),
        instructions: of("Instructions"),
        loop_instructions: main.instructions,
        loop_multiply_adds: main.multiply_adds,
        loop_workgroup_bytes: main.workgroup_bytes,
        predicted_s: predicted.map(|(time, _)| time),
        limit: predicted.map(|(_, limit)| limit.name()),
        assembly: code.assembly,
    })
}

/// Returns whether the counts determine the time of a kernel: it is a sum of products whose main
/// loop multiplies and adds, or it has no loop.
fn is_predictable(counts: &prediction::Kernel, work: &Work) -> bool {
    let is_product = work.multiply_adds > 0.0 && counts.main.multiply_adds > 0;
    is_product || counts.main.instructions == 0
}

const HEADER: &str = "\
VGPRs spills scratch    LDS waves instructions |  loop multiply-adds  share LDS bytes per multiply-add | predicted us limit            | kernel";

impl Row {
    /// Returns the row as a line of the table.
    fn line(&self) -> String {
        let per_multiply_add = |number: u32| match self.loop_multiply_adds {
            0 => "-".to_owned(),
            n => format!("{:.2}", f64::from(number) / f64::from(n)),
        };
        let share = match self.loop_multiply_adds {
            0 => "-".to_owned(),
            n => format!(
                "{:.0} %",
                100.0 * f64::from(n) / f64::from(self.loop_instructions)
            ),
        };
        let predicted = self.predicted_s;
        let predicted =
            predicted.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", 1e6 * time));
        format!(
            "{:>5} {:>6} {:>7} {:>6} {:>5} {:>12} | {:>5} {:>13} {share:>6} {:>26} | {predicted:>12} {:<16} | {} {}",
            self.vector_registers,
            self.spilled_registers,
            self.scratch_bytes,
            self.workgroup_bytes,
            self.waves,
            self.instructions,
            self.loop_instructions,
            self.loop_multiply_adds,
            per_multiply_add(self.loop_workgroup_bytes),
            self.limit.unwrap_or("-"),
            self.source,
            self.kernel,
        )
    }
}
