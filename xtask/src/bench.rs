//! `cargo xtask bench`: the main job.
//!
//! Role: makes sure the data are there, builds the program `bench` and runs it with the
//! arguments passed through; `--bundle` packs it for machines without cargo.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::workspace::Workspace;
use crate::{bundle, data, program, rivals};

const HELP: &str = "\
usage: cargo xtask bench [arguments]
       cargo xtask bench --bundle DIR

Runs every workload on every executor found, checks each result before it is timed,
prints a table, writes target/report/index.html and a JSON record to target/bench/.
Fetches MNIST first (see `cargo xtask data --help`) and goes on without it if it must.

  --only PATTERN   only workloads whose name contains PATTERN
  --list           name the workloads and run nothing
  --json           one JSON object per line instead of the table
  --data DIR       IDX files of your own; nothing is fetched
  --record         add the record to benches/record/
  --bundle DIR     write a folder that runs ./bench on a machine without cargo
  --               what follows goes to the program unread (`-- --help` asks it itself)

Arguments that are not named here go to the program unchanged.
";

pub(crate) fn run(mut args: Vec<OsString>) -> Result<ExitCode> {
    if program::asks_for_help(&args) {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(dir) = take_path(&mut args, "--bundle")? {
        ensure!(
            args.is_empty(),
            lexopt::Error::from("--bundle takes no further arguments")
        );
        return bundle::write(&std::path::absolute(dir)?);
    }
    let own_data = take_path(&mut args, "--data")?;
    program::drop_separator(&mut args);
    let workspace = Workspace::load()?;
    let cache = data::cache(&workspace)?;
    match own_data {
        // The program runs in the workspace root, so a path relative to here must not stay so.
        Some(dir) => {
            args.extend(["--data".into(), std::path::absolute(dir)?.into_os_string()]);
        }
        None if args.iter().any(|arg| arg == "--list") => (),
        None => fetch(&cache.join("mnist")),
    }
    program::build(&["bench"])?;
    let mut envs = vec![("DATA_DIR", cache.into_os_string())];
    if env::var_os(rivals::PYTHON_VARIABLE).is_none()
        && let Some(python) = rivals::default_python()
    {
        envs.push((rivals::PYTHON_VARIABLE, python.into_os_string()));
    }
    program::run(&workspace, "bench", &args, &envs)
}

/// Fetches MNIST where it is absent; a failure is said in one line and stops nothing.
fn fetch(dir: &Path) {
    match data::ensure_mnist(dir) {
        Ok(data::Source::Present) => (),
        Ok(data::Source::Fetched) => eprintln!("fetched MNIST into {}", dir.display()),
        Err(fault) => eprintln!("MNIST was not fetched: {fault}"),
    }
}

/// Takes `--key DIR` or `--key=DIR` out of the arguments before `--`.
fn take_path(args: &mut Vec<OsString>, key: &str) -> Result<Option<PathBuf>> {
    let end = args.iter().position(|arg| arg == "--");
    let joined = format!("{key}=");
    for place in 0..end.unwrap_or(args.len()) {
        let arg = args[place].as_os_str();
        if arg == OsStr::new(key) {
            ensure!(
                place + 1 < end.unwrap_or(args.len()),
                lexopt::Error::from(format!("{key} needs a folder"))
            );
            let value = args.drain(place..place + 2).next_back();
            return Ok(value.map(PathBuf::from));
        }
        if let Some(value) = arg.to_str().and_then(|text| text.strip_prefix(&joined)) {
            let value = PathBuf::from(value);
            args.remove(place);
            return Ok(Some(value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_path_is_taken_in_both_forms() {
        let mut two = args(&["--only", "matmul", "--data", "mine", "--json"]);
        assert_eq!(take_path(&mut two, "--data").unwrap(), Some("mine".into()));
        assert_eq!(two, args(&["--only", "matmul", "--json"]));
        let mut one = args(&["--data=mine"]);
        assert_eq!(take_path(&mut one, "--data").unwrap(), Some("mine".into()));
        assert!(one.is_empty());
    }

    #[test]
    fn a_path_after_the_separator_stays() {
        let mut hidden = args(&["--", "--data", "mine"]);
        assert_eq!(take_path(&mut hidden, "--data").unwrap(), None);
        assert_eq!(hidden.len(), 3);
    }

    #[test]
    fn a_key_without_its_folder_is_wrong_use() {
        let error = take_path(&mut args(&["--bundle"]), "--bundle").unwrap_err();
        assert!(error.downcast_ref::<lexopt::Error>().is_some());
    }
}
