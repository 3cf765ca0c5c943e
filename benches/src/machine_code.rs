//! Registers, instructions and assembly of kernels on AMD's GPUs, without such a GPU.
//!
//! Role: the option `--isa` of `explain`.
//! Method: Mesa's driver RADV opens without hardware if `RADV_FORCE_FAMILY` names a GPU. A process
//! reads the variable when it starts, so the program starts itself again with the variable, and
//! with RADV as its only driver. The kernels are those that a device of this GPU would run: limits
//! and tile sizes come from the adapter that RADV then describes. `testdata/machine_code.txt` is
//! the table of all kernels on one GPU; a test compares it, so that a change that makes a kernel
//! worse is seen in review. The table also contains a predicted time ([`isa::prediction`]), to be
//! compared with the first measurement on this GPU.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use gpu_wgsl::{Adapter, StepExplanation, adapters};
use harness::workload::Task;
use isa::loops::main_loop;
use isa::prediction::{self, Gpu, Work, predict};
use isa::{Code, Compiler};
use serde::Serialize;
use shaders::Kernel;
use tensor_core::half::f16;
use tensor_core::ir::{LoopNest, Value};
use tensor_core::op::{Binary, Reduce};
use tensor_core::plan::{Plan, Step};
use tensor_core::{DType, Tensor};
use tool_io::output;

use crate::workloads;

/// Variable with the name of the GPU, which RADV reads.
const FAMILY: &str = "RADV_FORCE_FAMILY";
/// Variable with the name of the GPU for which this program was started again. It differs from
/// [`FAMILY`], which the user may have set without a choice of the driver.
const STARTED: &str = "EXPLAIN_ISA_FAMILY";
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
    /// Counts of the main loop; `None` if the driver has no assembly for the GPU.
    loop_instructions: Option<u32>,
    loop_multiply_adds: Option<u32>,
    /// Operations of the loop that multiply and add; a product of vectors or matrices is one.
    loop_multiplying: Option<u32>,
    loop_workgroup_bytes: Option<u32>,
    /// Predicted time in seconds, and the resource that limits the kernel.
    predicted_s: Option<f64>,
    limit: Option<&'static str>,
    assembly: String,
}

/// Prints the code of the kernels that `pattern` selects, or of all that match for a table. Returns
/// the exit code of the program.
///
/// Without a table, a pattern selects the fixed kernel of that name, or else the first workload
/// that matches, or else the fixed kernels that match.
///
/// # Errors
/// If RADV is missing or does not support the GPU, if no kernel matches, or if a kernel does not
/// compile.
pub fn show(family: &str, pattern: &str, table: bool, as_json: bool) -> Result<ExitCode> {
    // RADV ignores the case of the name.
    let family = &family.to_ascii_lowercase();
    if std::env::var_os(STARTED).is_none_or(|started| started != **family) {
        return start_again(family);
    }
    // RADV 25.0 aborts for an unknown name, which the first process reports. A version that has no
    // device instead is reported here, as are files that are not those of a driver.
    let compiler = Compiler::open().map_err(|error| {
        let driver = std::env::var_os(DRIVERS).unwrap_or_default();
        match error {
            isa::Error::NoLoader(_) => anyhow::Error::new(error).context("isa"),
            error => anyhow::Error::msg(unsupported(family, &driver, &error.to_string())),
        }
    })?;
    let adapter = adapter_of(compiler.name(), adapters())?;
    let kernels = if table {
        table_kernels(pattern, &adapter)?
    } else {
        selected_kernels(pattern, &adapter)?
    };
    if kernels.is_empty() {
        bail!(
            "no fixed kernel matches {pattern:?}, and no workload that is a single program with \
             kernels for a device (`cargo xtask bench --list` prints the workloads)"
        );
    }
    let gpu = [Gpu::RX_7900_XTX]
        .into_iter()
        .find(|gpu| gpu.family == family);
    if !as_json {
        output::print_line(format_args!("{}, {}", compiler.name(), adapter.driver))?;
        output::print_line(HEADER)?;
    }
    let mut has_counts = true;
    for kernel in kernels {
        let row = row(&compiler, kernel, gpu)?;
        has_counts &= row.loop_instructions.is_some();
        print_row(&row, table, as_json)?;
    }
    if !has_counts {
        eprintln!(
            "explain: no counts of loops and no predictions where the assembly has an unknown \
             format: this Mesa has no disassembler for {family:?}"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn print_row(row: &Row, table: bool, as_json: bool) -> Result<()> {
    if as_json {
        output::print_line(serde_json::to_string(row)?)?;
        return Ok(());
    }
    output::print_line(row.line())?;
    if !table {
        output::print_line(format_args!("\n{}", row.assembly))?;
    }
    Ok(())
}

/// Runs this program with the variables that open RADV for a GPU, and returns its exit code.
fn start_again(family: &str) -> Result<ExitCode> {
    let installed = INSTALLED.iter().find(|file| Path::new(file).is_file());
    let chosen = std::env::var_os(RADV_DRIVER).filter(|file| !file.is_empty());
    let driver = chosen.or_else(|| installed.map(|file| (*file).into()));
    let driver = driver.context(
        "isa: Mesa's driver RADV is not installed (`cargo xtask adapters --fetch`, or on Debian \
         `apt-get install mesa-vulkan-drivers`)",
    )?;
    if !Path::new(&driver).is_file() {
        bail!("isa: RADV's driver file does not exist ({driver:?}, from {RADV_DRIVER})");
    }
    let status = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(STARTED, family)
        .env(FAMILY, family)
        .env(DRIVERS, &driver)
        .status()?;
    // A process without a code was ended by a signal, before it could report an error.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let code = code.with_context(|| unsupported(family, &driver, &status.to_string()))?;
    Ok(ExitCode::from(code))
}

/// Returns the error of a GPU that no device of the driver file is, with the reason.
fn unsupported(family: &str, driver: &OsStr, reason: &str) -> String {
    format!(
        "isa: the driver of {driver:?} opens no GPU of the family {family:?} ({reason}; expected \
         the file of a RADV driver, and a family that its Mesa supports, such as navi31, navi21, \
         vega10). `cargo xtask adapters --fetch` fetches a newer Mesa"
    )
}

/// Returns the adapter of the compiler's device. Kernels for another device would have its limits
/// and tile sizes.
fn adapter_of(compiler: &str, found: Vec<Adapter>) -> Result<Adapter> {
    let names: Vec<String> = found.iter().map(|adapter| adapter.name.clone()).collect();
    let mut found = found.into_iter();
    found
        .find(|adapter| adapter.name == compiler)
        .with_context(|| {
            let names = names.join(", ");
            format!(
                "isa: no adapter is the compiler's device (found {names:?}; expected {compiler:?})"
            )
        })
}

/// Returns the fixed kernels and the kernels of all workloads that match, with their sources.
fn table_kernels(pattern: &str, adapter: &Adapter) -> Result<Vec<Listed>> {
    let mut kernels = fixed_kernels(|name| name.contains(pattern));
    kernels.extend(workload_kernels(pattern, true, adapter)?);
    kernels.extend(matrix_kernels(pattern, adapter)?);
    Ok(kernels)
}

/// Returns the fixed kernel that `pattern` names, or else the kernels of the first workload that
/// matches, or else the fixed kernels that match.
fn selected_kernels(pattern: &str, adapter: &Adapter) -> Result<Vec<Listed>> {
    let named = fixed_kernels(|name| name == pattern);
    if !named.is_empty() {
        return Ok(named);
    }
    let first = workload_kernels(pattern, false, adapter)?;
    if !first.is_empty() {
        return Ok(first);
    }
    let fixed = fixed_kernels(|name| name.contains(pattern));
    if !fixed.is_empty() {
        return Ok(fixed);
    }
    matrix_kernels(pattern, adapter)
}

/// Returns the kernel of a product of halves by cooperative matrices, if its name matches and if
/// the adapter has such matrices.
fn matrix_kernels(pattern: &str, adapter: &Adapter) -> Result<Vec<Listed>> {
    const SIDE: usize = 2048;
    let source = format!("halves/{SIDE}x{SIDE}x{SIDE}");
    if !source.contains(pattern) || adapter.matrix_side.is_none() {
        return Ok(Vec::new());
    }
    let halves = || {
        let zeros = Tensor::from_vec(&[SIDE, SIDE], vec![f16::ZERO; SIDE * SIDE]);
        zeros.cast(DType::F32)
    };
    let program = halves().matmul(&halves());
    let (plan, _) = Plan::new(&[&program], &gpu_wgsl::target(adapter))?;
    let explained = gpu_wgsl::explain_with_matrices(&plan, adapter);
    listed(&source, &plan, &explained, &mut BTreeSet::new())
}

fn fixed_kernels(matches: impl Fn(&str) -> bool) -> Vec<Listed> {
    let matching = shaders::layout::ALL
        .iter()
        .filter(|kernel| matches(&kernel.name));
    let listed = matching.map(|kernel| Listed {
        source: "fixed".to_owned(),
        kernel: (*kernel).clone(),
        work: None,
    });
    listed.collect()
}

/// Returns the kernels of the first workload that matches, or of all. Each kernel is listed once.
fn workload_kernels(pattern: &str, all: bool, adapter: &Adapter) -> Result<Vec<Listed>> {
    let mut kernels = Vec::new();
    let mut seen = BTreeSet::new();
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
        kernels.extend(listed(&source, &plan, &explained, &mut seen)?);
    }
    Ok(kernels)
}

/// Returns the kernels of a plan, except those of the host and those whose text was seen before.
fn listed(
    source: &str,
    plan: &Plan,
    explained: &[StepExplanation],
    seen: &mut BTreeSet<String>,
) -> Result<Vec<Listed>> {
    let mut kernels = Vec::new();
    for kernel in explained {
        if kernel.name == "host" || !seen.insert(kernel.wgsl.clone()) {
            continue;
        }
        let same_step = explained.iter().filter(|other| other.step == kernel.step);
        let is_alone = same_step.count() == 1;
        let step = &plan.steps[kernel.step];
        let work = is_alone.then(|| work(plan, step, kernel.workgroups));
        let kernel = shaders::reflect(&kernel.name, &kernel.wgsl);
        kernels.push(Listed {
            source: source.to_owned(),
            kernel: kernel.map_err(anyhow::Error::msg)?,
            work,
        });
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
    // Without the assembly, no count and no prediction is shown.
    let main = main_loop(&code.assembly)
        .ok()
        .map(Option::unwrap_or_default);
    let counts = prediction::Kernel {
        main: main.unwrap_or_default(),
        invocations: kernel.workgroup_size.into_iter().map(f64::from).product(),
        vector_registers: of("VGPRs"),
        workgroup_bytes: of("LDS size"),
        latency_ratio: of("Latency") / of("Inverse Throughput"),
    };
    let predicted = gpu
        .zip(work)
        .filter(|(_, work)| main.is_some() && is_predictable(&counts, work));
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
        loop_instructions: main.map(|main| main.instructions),
        loop_multiply_adds: main.map(|main| main.multiply_adds()),
        loop_multiplying: main.map(|main| main.multiplying()),
        loop_workgroup_bytes: main.map(|main| main.workgroup_bytes),
        predicted_s: predicted.map(|(time, _)| time),
        limit: predicted.map(|(_, limit)| limit.name()),
        assembly: code.assembly,
    })
}

/// Returns whether the counts determine the time of a kernel: it is a sum of products whose main
/// loop multiplies and adds, or it has no loop.
fn is_predictable(counts: &prediction::Kernel, work: &Work) -> bool {
    let is_product = work.multiply_adds > 0.0 && counts.main.multiply_adds() > 0;
    is_product || counts.main.instructions == 0
}

const HEADER: &str = "\
VGPRs spills scratch    LDS waves instructions |  loop multiply-adds  share LDS bytes per multiply-add | predicted us limit            | kernel";

impl Row {
    /// Returns the row as a line of the table.
    fn line(&self) -> String {
        let count = |count: Option<u32>| count.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let ratio = |a: Option<u32>, b: Option<u32>| {
            let (a, b) = a.zip(b.filter(|&b| b > 0))?;
            Some(f64::from(a) / f64::from(b))
        };
        let bytes = ratio(self.loop_workgroup_bytes, self.loop_multiply_adds);
        let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.2}"));
        let multiplying = self.loop_multiplying.filter(|&n| n > 0);
        let share = ratio(multiplying, self.loop_instructions);
        let share = share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
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
            count(self.loop_instructions),
            count(self.loop_multiply_adds),
            bytes,
            self.limit.unwrap_or("-"),
            self.source,
            self.kernel,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_of_another_device_is_an_error() {
        let found = adapters();
        let wrong = adapter_of("no such device", found.clone()).unwrap_err();
        let expected = "isa: no adapter is the compiler's device (found";
        assert!(wrong.to_string().starts_with(expected), "{wrong}");
        for adapter in found.clone() {
            let same = adapter_of(&adapter.name, found.clone()).unwrap();
            assert_eq!(same.index, adapter.index);
        }
    }
}
