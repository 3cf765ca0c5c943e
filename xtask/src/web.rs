//! `cargo xtask web`: builds the page that runs kernels in a browser, serves it, or tests it in
//! headless Chromium.
//!
//! Role: the build of `web/` for WebAssembly, and the report of a test. The page defines the
//! checks.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::process;
use crate::workspace::Workspace;
use server::PageServer;
use tool_io::output;
use toolchain::{TARGET, Toolchain};

mod browser;
mod server;
mod toolchain;

const HELP: &str = "\
usage: cargo xtask web [--port PORT] [--out DIR] [--test] [--json]

Builds the page `web/` and serves it at http://127.0.0.1:PORT/ until Ctrl-C. The page compiles all
kernels with the browser's WebGPU, runs matrix products, a similarity, a training step and random
programs, checks the results, and shows times. Opened on a computer with a GPU, it tests the kernels
on that GPU's driver.

  --port PORT   port of the server (default: 8080); 0 for a free port, which is printed
  --out DIR     only write the page's files into DIR, for any web server
  --test        open the page in headless Chromium on its software adapter, and print the report's
                last line, `N passed, N failed`; exit code 1 if a check failed
  --json        with --test: print the page's whole report as one JSON object

The build needs the target wasm32-unknown-unknown: `rustup target add wasm32-unknown-unknown`, or
Debian's packages rustc-web, rust-web-src and lld.
";

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

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    let (mut port, mut out, mut test, mut as_json) = (8080_u16, None, false, false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            lexopt::Arg::Long("port") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                port = text.parse().map_err(|_| -> lexopt::Error {
                    format!("--port: {text:?} is not a number from 0 to 65535").into()
                })?;
            }
            lexopt::Arg::Long("out") => out = Some(PathBuf::from(parser.value()?)),
            lexopt::Arg::Long("test") => test = true,
            lexopt::Arg::Long("json") => as_json = true,
            lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => {
                output::print(HELP)?;
                return Ok(ExitCode::SUCCESS);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    let workspace = Workspace::load()?;
    let toolchain = Toolchain::find()?;
    let folder = match &out {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("web").join("page"),
    };
    build(&workspace, &toolchain, &folder)?;
    if out.is_some() {
        output::print_line(format_args!("wrote the page to {}", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if test {
        let browser = browser::find()?;
        let report = Report::of(&folder, &browser)?;
        if as_json {
            output::print_line(&report.0)?;
        } else {
            output::print_line(report.summary())?;
        }
        return Ok(match report.failure() {
            None => ExitCode::SUCCESS,
            Some(failure) => {
                eprintln!("{failure}");
                ExitCode::FAILURE
            }
        });
    }
    let server = PageServer::listen(port, folder)?;
    let address = server.address();
    output::print_line(format_args!("serving the page at {address} (Ctrl-C ends)"))?;
    bail!(
        "the server does not accept connections any more ({})",
        server.serve()
    )
}

/// Builds the page and tests it in a browser, for `verify`. Returns the reason if tools are
/// missing.
pub(crate) fn test(workspace: &Workspace) -> Result<Result<Report, String>> {
    let (toolchain, browser) = match (Toolchain::find(), browser::find()) {
        (Ok(toolchain), Ok(browser)) => (toolchain, browser),
        (toolchain, browser) => {
            let missing = toolchain.err().into_iter().chain(browser.err());
            let missing: Vec<String> = missing.map(|error| error.to_string()).collect();
            return Ok(Err(missing.join("; ")));
        }
    };
    let folder = workspace.target.join("web").join("page");
    build(workspace, &toolchain, &folder)?;
    Report::of(&folder, &browser).map(Ok)
}

/// Builds the library and writes the files of the page into a folder.
fn build(workspace: &Workspace, toolchain: &Toolchain, folder: &Path) -> Result<()> {
    // Another compiler in the same folder would rebuild every build script and macro.
    let target = workspace.target.join("web");
    let mut cargo = toolchain.cargo();
    cargo
        .args(["--profile", "web", "--package", "web", "--lib"])
        .env("CARGO_TARGET_DIR", &target);
    succeed(&mut cargo)?;
    let library = target.join(TARGET).join("web").join(LIBRARY);
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
        bail!("could not build the page\n{}", finished.err.trim_end());
    }
    Ok(())
}

/// The report of the page.
pub(crate) struct Report(Value);

impl Report {
    /// Opens the page in a headless browser and waits for its report.
    fn of(folder: &Path, browser: &Path) -> Result<Self> {
        let report = browser::report(folder, browser)?;
        let report = serde_json::from_str(&report).context("the page's report is not JSON")?;
        Ok(Self(report))
    }

    /// Returns the last line: `N passed, N failed`.
    pub(crate) fn summary(&self) -> String {
        let count = |name: &str| self.0[name].as_u64().unwrap_or_default();
        format!("{} passed, {} failed", count("passed"), count("failed"))
    }

    /// Returns the failed checks as text; `None` if the page ran to its end and all checks passed.
    pub(crate) fn failure(&self) -> Option<String> {
        let state = self.0["state"].as_str().unwrap_or_default();
        let failures = self.0["failures"].as_array().cloned().unwrap_or_default();
        let passed = self.0["passed"].as_u64().unwrap_or_default();
        if state == "(finished)" && failures.is_empty() && passed > 0 {
            return None;
        }
        let lines = failures.iter().filter_map(Value::as_str);
        let lines: Vec<&str> = [state].into_iter().chain(lines).collect();
        Some(lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(passed: u64, failures: &[&str], state: &str) -> Report {
        let failed = failures.len();
        Report(json!({"passed": passed, "failed": failed, "failures": failures, "state": state}))
    }

    #[test]
    fn a_report_passes_only_if_the_page_ended_and_something_passed() {
        let good = report(3, &[], "(finished)");
        assert_eq!(
            (good.summary(), good.failure()),
            ("3 passed, 0 failed".into(), None)
        );
        let ended = report(3, &[], "(ended: no adapter)").failure().unwrap();
        assert_eq!(ended, "(ended: no adapter)");
        assert!(report(0, &[], "(finished)").failure().is_some());
        let failed = report(3, &["x: failed"], "(finished)").failure().unwrap();
        assert!(failed.contains("x: failed"), "{failed}");
        assert!(Report(json!(null)).failure().is_some());
    }
}
