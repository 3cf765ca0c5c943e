//! `cargo xtask web`: builds the page that runs kernels in a browser, serves it, or tests it in
//! headless Chromium.
//!
//! Role: the build of `web/` for WebAssembly, and the report of a test. The page defines the
//! checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::Value;

use crate::browser::{self, PageServer};
use crate::process;
use crate::toolchain::{self, Toolchain};
use crate::workspace::Workspace;
use tool_io::output;

/// Requirements, below the options.
const AFTER_HELP: &str = "\
The page compiles every hand-written kernel with the browser's WebGPU, runs matrix products, a similarity, a
training step and random programs, checks the results, and shows times. Opened on a computer with a
GPU, it tests the kernels on that GPU's driver.

The build requires the target wasm32-unknown-unknown: `rustup target add wasm32-unknown-unknown`, or
on Debian `apt-get install rustc-web rust-web-src lld`. The test requires Chromium or Chrome: on
Debian `apt-get install chromium`.";

/// The library of the page, as cargo names its file.
const LIBRARY: &str = "web.wasm";
/// Files of the page, with their media types. The last two are written by `web-bind`.
const FILES: [(&str, &str); 4] = [
    ("index.html", "text/html; charset=utf-8"),
    ("page.js", "text/javascript; charset=utf-8"),
    ("web.js", "text/javascript; charset=utf-8"),
    ("web_bg.wasm", "application/wasm"),
];
/// Number of files that are copied from `web/`.
const N_COPIED: usize = 2;

/// The port of the server without `--port`.
const DEFAULT_PORT: u16 = 8080;

/// Arguments of `web`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Port of the server; 0 for a free port, which is printed
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT, conflicts_with_all = ["out", "test"])]
    port: u16,
    /// Only write the page's files into DIR, for any web server
    #[arg(long, value_name = "DIR", conflicts_with = "test", value_parser = NonEmptyStringValueParser::new())]
    out: Option<String>,
    /// Open the page in headless Chromium on its software adapter, and print the report's last
    /// line, `N passed, N failed`; exit code 1 if a check failed
    #[arg(long)]
    test: bool,
    /// With --test: print the page's whole report as one JSON object
    #[arg(long, requires = "test")]
    json: bool,
}

pub(crate) fn run(options: Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let toolchain = Toolchain::find(toolchain::BROWSER)?;
    let folder = page_folder(&workspace);
    if options.test {
        let browser = browser::find()?;
        build(&workspace, &toolchain, &folder)?;
        return Report::from_page(&folder, &browser)?.print(options.json);
    }
    if let Some(folder) = options.out {
        let folder = std::path::absolute(folder)?;
        // A folder that cannot be created is an error before the build, which takes minutes.
        fs::create_dir_all(&folder).with_context(|| format!("--out {}", folder.display()))?;
        build(&workspace, &toolchain, &folder)?;
        output::print_line(format_args!("wrote the page to {}", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    // A port that is in use is an error before the build, which takes minutes.
    let server = PageServer::listen(options.port, folder.clone(), &FILES)?;
    build(&workspace, &toolchain, &folder)?;
    serve(&server)
}

/// Returns the folder of the page for the server and for tests.
fn page_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("web").join("page")
}

/// Serves the page until the process is ended or the server fails.
fn serve(server: &PageServer) -> Result<ExitCode> {
    output::print_line(format_args!(
        "serving the page at {} (Ctrl-C ends)",
        server.address()
    ))?;
    let error = server.serve();
    bail!("server: no more connections ({error})")
}

/// Builds the page and tests it in a browser, for `verify`. Returns the reason if tools are
/// missing.
pub(crate) fn test(workspace: &Workspace) -> Result<Result<Report, String>> {
    let (toolchain, browser) = match (Toolchain::find(toolchain::BROWSER), browser::find()) {
        (Ok(toolchain), Ok(browser)) => (toolchain, browser),
        (toolchain, browser) => {
            let missing = toolchain.err().into_iter().chain(browser.err());
            let missing: Vec<String> = missing.map(|error| error.to_string()).collect();
            return Ok(Err(missing.join("; ")));
        }
    };
    let folder = page_folder(workspace);
    build(workspace, &toolchain, &folder)?;
    Report::from_page(&folder, &browser).map(Ok)
}

/// Builds the library and writes the files of the page into a folder.
fn build(workspace: &Workspace, toolchain: &Toolchain, folder: &Path) -> Result<()> {
    // Another compiler in the same folder would rebuild every build script and macro.
    let target = workspace.target.join("web");
    let mut cargo = toolchain.cargo("build");
    cargo
        .args(["--profile", "web", "--package", "web", "--lib"])
        .env("CARGO_TARGET_DIR", &target);
    succeed(&mut cargo)?;
    let library = target.join(toolchain::BROWSER).join("web").join(LIBRARY);
    fs::create_dir_all(folder)?;
    let mut bind = process::cargo();
    bind.args(["run", "--quiet", "--package", "web-bind"])
        .args(["--features", "program", "--"])
        .args([&library, folder]);
    succeed(&mut bind)?;
    for (file, _) in &FILES[..N_COPIED] {
        fs::copy(workspace.root.join("web").join(file), folder.join(file))?;
    }
    Ok(())
}

/// Runs a command whose output is shown only if it fails.
fn succeed(command: &mut Command) -> Result<()> {
    let bar = process::spinner("cargo: building the page");
    let finished = process::watch(command, |line| {
        if let process::OutputLine::Err(text) = line {
            bar.set_message(text.trim().to_owned());
        }
    });
    bar.finish_and_clear();
    let finished = finished?;
    if !finished.status.success() {
        bail!(
            "build: {} failed ({})\n{}",
            process::name(command),
            finished.status,
            finished.err.trim_end()
        );
    }
    Ok(())
}

/// The report of the page.
pub(crate) struct Report(Value);

impl Report {
    /// Opens the page in a headless browser and waits for its report.
    fn from_page(folder: &Path, browser: &Path) -> Result<Self> {
        let report = browser::report(folder, &FILES, browser)?;
        let report = serde_json::from_str(&report).context("report: invalid JSON")?;
        Ok(Self(report))
    }

    /// Prints the report, or its last line; the failed checks go to stderr.
    fn print(&self, as_json: bool) -> Result<ExitCode> {
        if as_json {
            output::print_line(&self.0)?;
        } else {
            output::print_line(self.summary())?;
        }
        Ok(match self.failure() {
            None => ExitCode::SUCCESS,
            Some(failure) => {
                output::note(failure);
                ExitCode::FAILURE
            }
        })
    }

    /// Returns the last line: `N passed, N failed`.
    pub(crate) fn summary(&self) -> String {
        let count = |name: &str| self.0[name].as_u64().unwrap_or_default();
        format!("{} passed, {} failed", count("passed"), count("failed"))
    }

    /// Returns the failed checks as text; `None` if the page ran to its end and each of its checks
    /// has passed.
    pub(crate) fn failure(&self) -> Option<String> {
        let state = self.0["state"].as_str().unwrap_or_default();
        let failures = self.0["failures"].as_array().cloned().unwrap_or_default();
        let count = |name: &str| self.0[name].as_u64().unwrap_or_default();
        let (passed, expected) = (count("passed"), count("expected"));
        if state == "(finished)" && failures.is_empty() && passed > 0 && passed == expected {
            return None;
        }
        let n_shown = passed + count("failed");
        let shown = format!("{n_shown} of {expected} checks were shown");
        let lines = failures.iter().filter_map(Value::as_str);
        let lines: Vec<&str> = [state, &shown].into_iter().chain(lines).collect();
        Some(lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(passed: u64, failures: &[&str], state: &str) -> Report {
        let failed = failures.len();
        let expected = passed + failed as u64;
        Report(json!({
            "passed": passed,
            "failed": failed,
            "expected": expected,
            "failures": failures,
            "state": state,
        }))
    }

    #[test]
    fn a_report_passes_only_if_the_page_ended_and_all_checks_passed() {
        let good = report(3, &[], "(finished)");
        assert_eq!(
            (good.summary(), good.failure()),
            ("3 passed, 0 failed".into(), None)
        );
        let ended = report(3, &[], "(ended: no adapter)").failure().unwrap();
        assert_eq!(ended, "(ended: no adapter)\n3 of 3 checks were shown");
        assert!(report(0, &[], "(finished)").failure().is_some());
        let failed = report(3, &["x: failed"], "(finished)").failure().unwrap();
        assert!(failed.contains("x: failed"), "{failed}");
        let mut lacking = report(3, &[], "(finished)");
        lacking.0["expected"] = json!(4);
        let lacking = lacking.failure().unwrap();
        assert_eq!(lacking, "(finished)\n3 of 4 checks were shown");
        assert!(Report(json!(null)).failure().is_some());
    }
}
