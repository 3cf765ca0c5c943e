//! `cargo xtask rivals`: the peers that the benches compare with.
//!
//! Role: makes a Python environment with the peers outside the repository. Programs are told
//! the one at the default place as `RIVALS_PYTHON`, unless the user has set another.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

const HELP: &str = "\
usage: cargo xtask rivals [--venv DIR] [--packages LIST] [--json] [-- pip arguments]

Creates a Python environment with NumPy, SciPy, PyTorch and JAX, whose rows then stand in the
table of `cargo xtask bench`. PyTorch is large: some hundred MB, or GB with CUDA. Its
compiled rival also needs a C++ compiler.

  --venv DIR        where (default: numerics-rivals in $XDG_CACHE_HOME, else in ~/.cache)
  --packages LIST   what to install, by spaces (default: \"numpy scipy torch jax\"; may be empty)
  --json            one JSON object instead of text
  --                what follows goes to `pip install`, an index for instance
";

/// Names the Python of the rivals to the programs.
const PYTHON_VARIABLE: &str = "RIVALS_PYTHON";
/// Name of the environment in the user's cache folder.
const FOLDER: &str = "numerics-rivals";
const PACKAGES: &str = "numpy scipy torch jax";

struct Options {
    venv: PathBuf,
    packages: String,
    pip_args: Vec<OsString>,
    json: bool,
}

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    let Some(options) = parse(args)? else {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    let python = create(&options)?;
    if options.json {
        println!(
            "{}",
            json!({"python": python, "packages": options.packages})
        );
    } else {
        println!("{PYTHON_VARIABLE}={}", python.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the arguments; `None` where they ask for help.
fn parse(mut args: Vec<OsString>) -> Result<Option<Options>> {
    let pip_args = match args.iter().position(|arg| arg == "--") {
        Some(place) => args.drain(place..).skip(1).collect(),
        None => Vec::new(),
    };
    let (mut venv, mut packages, mut json) = (None, PACKAGES.to_owned(), false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            lexopt::Arg::Long("venv") => venv = Some(PathBuf::from(parser.value()?)),
            lexopt::Arg::Long("packages") => {
                packages = parser.value()?.to_string_lossy().into_owned();
            }
            lexopt::Arg::Long("json") => json = true,
            lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => return Ok(None),
            _ => return Err(arg.unexpected().into()),
        }
    }
    let venv = match venv {
        Some(venv) => std::path::absolute(venv)?,
        None => user_cache()?.join(FOLDER),
    };
    Ok(Some(Options {
        venv,
        packages,
        pip_args,
        json,
    }))
}

/// The variable that tells a program the Python at the default place, if that was created and the
/// user set no other.
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

/// Creates the environment where it is absent, installs the packages, returns its Python.
fn create(options: &Options) -> Result<PathBuf> {
    let python = python_of(&options.venv);
    if !python.exists() {
        let system = if cfg!(windows) { "python" } else { "python3" };
        let mut venv = Command::new(system);
        venv.args(["-m", "venv"]).arg(&options.venv);
        finish(venv, "a Python with its venv module is needed")?;
    }
    ensure!(python.exists(), "{} was not created", python.display());
    let packages: Vec<_> = options.packages.split_whitespace().collect();
    if !packages.is_empty() {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install"])
            .args(packages)
            .args(&options.pip_args);
        finish(pip, "pip could not install the packages")?;
    }
    Ok(python)
}

/// Runs a command whose progress the user sees on stderr; stdout stays ours.
fn finish(mut command: Command, otherwise: &'static str) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context(otherwise)?;
    let mut said = child
        .stdout
        .take()
        .expect("the child was spawned with this pipe");
    std::io::copy(&mut said, &mut std::io::stderr())?;
    if !child.wait()?.success() {
        bail!("{otherwise}");
    }
    Ok(())
}

/// `$XDG_CACHE_HOME`, else `.cache` in the user's home.
fn user_cache() -> Result<PathBuf> {
    let set = |key| env::var_os(key).filter(|value| !value.is_empty());
    if let Some(cache) = set("XDG_CACHE_HOME") {
        return Ok(cache.into());
    }
    let home = set("HOME").or_else(|| set("USERPROFILE"));
    let home = home.context("the home folder is not known; name a place with --venv")?;
    Ok(PathBuf::from(home).join(".cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_after_the_separator_are_for_pip() {
        let args = ["--venv", "/v", "--packages", "", "--", "--pre"];
        let options = parse(args.iter().map(OsString::from).collect()).unwrap();
        let options = options.unwrap();
        assert_eq!(options.venv, PathBuf::from("/v"));
        assert_eq!(options.packages, "");
        assert_eq!(options.pip_args, [OsString::from("--pre")]);
    }
}
