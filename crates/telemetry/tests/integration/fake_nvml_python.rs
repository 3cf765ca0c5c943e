//! Third-party programs on the fake library: NVIDIA's Python bindings and nvitop.
//!
//! Runs on Linux if the environment variable `FAKE_NVML_PYTHON` is the path of a Python interpreter
//! with `nvidia-ml-py` and `nvitop`. Otherwise the tests report that they were skipped.

use crate::support;
use std::path::Path;
use std::process::{Command, Output};
use telemetry::synthetic::{Board, PowerProfile, Process, Quantity, Scenario};

/// A Python script that makes the same queries as a trace of a GPU, and prints the results in one
/// line.
const SCRIPT: &str = "
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(1)
m = n.nvmlDeviceGetMemoryInfo(h)
v = n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
u = n.nvmlDeviceGetUtilizationRates(h)
f = n.nvmlDeviceGetFieldValues(h, [185, (186, 0)])
try:
    n.nvmlDeviceGetHandleByIndex(2)
    refused = 'nothing'
except n.NVMLError as error:
    refused = str(error)
n.nvmlDeviceGetTotalEnergyConsumption(h)
print(n.nvmlDeviceGetName(h), n.nvmlDeviceGetPciInfo(h).busId,
      n.nvmlDeviceGetPowerUsage(h), n.nvmlDeviceGetPowerManagementLimit(h),
      n.nvmlDeviceGetTemperature(h, 0), u.gpu, u.memory, m.used, v.used,
      [x.value.uiVal for x in f],
      [p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(h)], refused, sep='|')
n.nvmlShutdown()
";

#[test]
fn python_sees_what_rust_sees() -> std::io::Result<()> {
    let Some(python) = std::env::var_os("FAKE_NVML_PYTHON") else {
        support::skip("FAKE_NVML_PYTHON names no Python with nvidia-ml-py and nvitop");
        return Ok(());
    };
    let mut scenario = Scenario::from_boards(&[Board::T4, Board::Rtx3090]);
    let gpu = &mut scenario.gpus[1];
    gpu.power = PowerProfile::constant(123.0);
    gpu.thermal.rise_c_per_w = 0.25;
    gpu.utilisation.gpu_pct = Quantity::Constant(87.0);
    gpu.utilisation.memory_pct = Quantity::Constant(21.0);
    gpu.processes = vec![Process {
        pid: std::process::id(),
        ..Process::default()
    }];
    let folder = tool_io::TemporaryFolder::create(&std::env::temp_dir(), "fake-nvml-python")?;
    std::fs::copy(support::fake(), folder.path().join("libnvidia-ml.so.1"))?;
    let json = scenario.to_json().expect("a scenario has no NaN");
    let run = |arguments: &[&str]| run(Path::new(&python), folder.path(), &json, arguments);

    let reported = run(&["-c", SCRIPT])?;
    let pid = std::process::id();
    let expected = format!(
        "NVIDIA GeForce RTX 3090|00000000:02:00.0|123000|350000|61|87|21|2415919104|2147483648|\
         [123000, 123000]|[{pid}]|Invalid Argument\n"
    );
    assert_eq!(
        text(&reported.stdout),
        expected,
        "{}",
        text(&reported.stderr)
    );

    let panel = run(&["-m", "nvitop", "-1", "--no-unicode"])?;
    let panel_text = text(&panel.stdout);
    for part in [
        "Tesla T4",
        "123W / 350W",
        "61C",
        "87%",
        "570.133.20",
        "12.8",
    ] {
        assert!(
            panel_text.contains(part),
            "{part}: {panel_text} {}",
            text(&panel.stderr)
        );
    }
    Ok(())
}

fn run(python: &Path, folder: &Path, json: &str, arguments: &[&str]) -> std::io::Result<Output> {
    let mut command = Command::new(python);
    command.args(arguments).env("LD_LIBRARY_PATH", folder);
    command
        .env("FAKE_NVML_SCENARIO", json)
        .env("COLUMNS", "120")
        .output()
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
