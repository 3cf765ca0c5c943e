//! `cargo xtask bench`: runs the benchmarks.
//!
//! Role: fetches the data, builds the program `bench` and runs it with the same arguments.
//! `--bundle` packs the program for machines without cargo.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::workspace::Workspace;
use crate::{bundle, data, mpi, program};

/// Help text of this command, printed before the program's own help.
const ADDED: &str = "\
Fetches MNIST first (see `cargo xtask data --help`); continues without MNIST if this fails. Additional options:

  --bundle DIR    write a folder with ./bench for a machine without cargo, and do not run the benchmarks
  --data DIR      as below, but DIR is relative to the current folder; nothing is fetched
  --sample DIR    as below; the build then contains line tables, which identify inlined functions
";

/// Cargo options that add line tables. The machine code does not change, but the size of the
/// program triples, so they are only used for sampling.
const LINE_TABLES: [&str; 4] = [
    "--config",
    "profile.release.package.tensor-core.debug=\"line-tables-only\"",
    "--config",
    "profile.release.package.benches.debug=\"line-tables-only\"",
];

pub(crate) fn run(mut args: Vec<OsString>) -> Result<ExitCode> {
    if program::is_help_request(&args) {
        return program::help("bench", ADDED);
    }
    if let Some(dir) = take_path(&mut args, "--bundle")? {
        ensure!(
            args.is_empty(),
            lexopt::Error::from("--bundle cannot be combined with other arguments")
        );
        return bundle::write(&std::path::absolute(dir)?);
    }
    let own_data = take_path(&mut args, "--data")?;
    program::drop_separator(&mut args);
    let workspace = Workspace::load()?;
    match own_data {
        // The program runs in the workspace root, so a path relative to the current folder is made
        // absolute.
        Some(dir) => {
            args.extend(["--data".into(), std::path::absolute(dir)?.into_os_string()]);
        }
        None if args.iter().any(|arg| arg == "--list") => (),
        None => fetch(&data::MNIST.dir(&workspace)?),
    }
    let line_tables = if samples(&args) {
        &LINE_TABLES[..]
    } else {
        &[]
    };
    program::build_with(&["bench"], &[mpi::build(), line_tables].concat())?;
    program::run(&workspace, "bench", &args)
}

/// Fetches MNIST if it is missing. A failure is reported in one line and is not an error.
fn fetch(dir: &Path) {
    match data::MNIST.ensure(dir) {
        Ok(data::Source::Present) => (),
        Ok(data::Source::Fetched) => eprintln!("fetched MNIST into {}", dir.display()),
        Err(fault) => eprintln!("could not fetch MNIST: {fault}"),
    }
}

/// Returns whether the arguments request stack sampling.
fn samples(args: &[OsString]) -> bool {
    let mut texts = args.iter().filter_map(|arg| arg.to_str());
    texts.any(|arg| arg == "--sample" || arg.starts_with("--sample="))
}

/// Removes `--key DIR` or `--key=DIR` from the arguments before `--` and returns the folder.
fn take_path(args: &mut Vec<OsString>, key: &str) -> Result<Option<PathBuf>> {
    let end = args.iter().position(|arg| arg == "--");
    let joined = format!("{key}=");
    for place in 0..end.unwrap_or(args.len()) {
        let arg = args[place].as_os_str();
        if arg == OsStr::new(key) {
            ensure!(
                place + 1 < end.unwrap_or(args.len()),
                lexopt::Error::from(format!("{key}: missing folder"))
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
    fn both_forms_of_sampling_are_seen() {
        assert!(samples(&args(&["--only", "chain", "--sample", "out"])));
        assert!(samples(&args(&["--sample=out"])));
        assert!(!samples(&args(&["--only", "sample"])));
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
