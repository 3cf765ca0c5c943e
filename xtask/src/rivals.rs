//! `cargo xtask rivals`: installs the libraries that the benchmarks compare with.
//!
//! Role: creates a Python environment outside of the repository. Other commands pass the Python at
//! the default place to the programs as `RIVALS_PYTHON`, unless the user has set this variable.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use serde_json::json;

use commands::RIVAL_PACKAGES;
use tool_io::output;

/// Remarks on the packages, below the options.
const AFTER_HELP: &str = "\
PyTorch is large: some hundred MB, or GB with CUDA. `torch.compile` also needs a C++ compiler.
Packages that cannot be installed are listed and skipped: OpenSpiel has wheels for some versions of
Python only. For games there is also a Rust library: `cargo install cfr@0.6.2 --root DIR/cfr` adds
it (DIR: folder of the environment).";

/// Environment variable with the path of the Python interpreter in the environment.
const PYTHON_VARIABLE: &str = "RIVALS_PYTHON";
/// Folder of the environment in the user's cache folder.
const FOLDER: &str = "numerics-rivals";
/// Option of pip that prevents a build from source, which would require a toolchain and half an
/// hour.
const WHEELS_ONLY: &str = "--only-binary=open_spiel";

/// Arguments of `rivals`.
///
/// Creates a Python environment; the rows of its libraries then appear in the results of `bench`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Folder of the environment [default: numerics-rivals in `$XDG_CACHE_HOME`, else in ~/.cache]
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// Packages, separated by spaces; may be empty
    #[arg(long, value_name = "LIST", default_value_t = RIVAL_PACKAGES.join(" "))]
    packages: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Arguments of `pip install`, such as an index
    #[arg(last = true, value_name = "PIP ARGUMENTS")]
    pip_args: Vec<OsString>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let venv = match &options.venv {
        Some(venv) => std::path::absolute(venv)?,
        None => user_cache()?.join(FOLDER),
    };
    let python = create(&venv)?;
    let not_installed = install(&python, options)?;
    if options.json {
        output::print_line(
            json!({"python": python, "packages": options.packages, "not_installed": not_installed}),
        )?;
    } else {
        for package in not_installed {
            output::print_line(format_args!("not installed: {package}"))?;
        }
        output::print_line(format_args!("{PYTHON_VARIABLE}={}", python.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the environment variable with the Python at the default place; `None` if the environment
/// does not exist or if the user has set the variable.
pub(crate) fn variable() -> Option<(&'static str, PathBuf)> {
    let python = python_of(&user_cache().ok()?.join(FOLDER));
    let is_wanted = env::var_os(PYTHON_VARIABLE).is_none() && python.exists();
    is_wanted.then_some((PYTHON_VARIABLE, python))
}

fn python_of(venv: &Path) -> PathBuf {
    venv.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    })
}

/// Creates the environment if it does not exist; returns its Python.
fn create(venv: &Path) -> Result<PathBuf> {
    let python = python_of(venv);
    if !python.exists() {
        let system = if cfg!(windows) { "python" } else { "python3" };
        let mut command = Command::new(system);
        command.args(["-m", "venv"]).arg(venv);
        finish(
            command,
            "could not create the environment (Python with the module venv is required)",
        )?;
    }
    ensure!(
        python.exists(),
        "python was not created ({})",
        python.display()
    );
    Ok(python)
}

/// Installs the packages: all together, so that their versions match; if this fails, each package
/// separately. Returns the packages that failed.
fn install<'a>(python: &Path, options: &'a Options) -> Result<Vec<&'a str>> {
    const OTHERWISE: &str = "pip could not install the packages";
    let pip = |packages: &[&str]| {
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", WHEELS_ONLY])
            .args(packages)
            .args(&options.pip_args);
        finish(pip, OTHERWISE)
    };
    let packages: Vec<_> = options.packages.split_whitespace().collect();
    if packages.is_empty() || pip(&packages).is_ok() {
        return Ok(Vec::new());
    }
    let failed: Vec<&str> = packages
        .iter()
        .copied()
        .filter(|package| pip(&[package]).is_err())
        .collect();
    ensure!(failed.len() < packages.len(), OTHERWISE);
    Ok(failed)
}

/// Runs a command. Its stdout is copied to stderr, because stdout is reserved for the result.
fn finish(mut command: Command, otherwise: &'static str) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context(otherwise)?;
    let mut output = child
        .stdout
        .take()
        .expect("the child was spawned with this pipe");
    std::io::copy(&mut output, &mut std::io::stderr())?;
    if !child.wait()?.success() {
        bail!("{otherwise}");
    }
    Ok(())
}

/// Returns `$XDG_CACHE_HOME`, else `.cache` in the user's home folder.
fn user_cache() -> Result<PathBuf> {
    let set = |key| env::var_os(key).filter(|value| !value.is_empty());
    if let Some(cache) = set("XDG_CACHE_HOME") {
        return Ok(cache.into());
    }
    let home = set("HOME").or_else(|| set("USERPROFILE"));
    let home = home.context("home folder is unknown; set a folder with --venv")?;
    Ok(PathBuf::from(home).join(".cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn arguments_after_the_separator_are_for_pip() {
        use clap::Parser as _;
        let args = ["rivals", "--venv", "/v", "--packages", "", "--", "--pre"];
        let Line { options } = Line::parse_from(args);
        assert_eq!(options.venv, Some(PathBuf::from("/v")));
        assert_eq!(options.packages, "");
        assert_eq!(options.pip_args, [OsString::from("--pre")]);
    }

    #[cfg(unix)]
    #[test]
    fn what_cannot_be_installed_is_left_out() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = env::temp_dir().join(format!("rivals-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let python = folder.join("python");
        let script = "#!/bin/sh\nfor word; do [ \"$word\" = open_spiel ] && exit 1; done; exit 0\n";
        std::fs::write(&python, script).unwrap();
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
        let missing = |packages: &str| {
            let options = Options {
                venv: Some(folder.clone()),
                packages: packages.to_owned(),
                pip_args: vec![],
                json: false,
            };
            install(&python, &options).map(|missing| missing.join(" "))
        };
        assert_eq!(missing("numpy open_spiel nashpy").unwrap(), "open_spiel");
        assert_eq!(missing("numpy nashpy").unwrap(), "");
        assert!(missing("open_spiel").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
