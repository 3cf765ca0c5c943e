//! `cargo xtask demo`: `trace` with a simulated GPU, for a fixed time.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;
use crate::workspace::Workspace;

/// Duration of the demonstration.
const DEMO: &str = "10s";
/// Help text of `demo`, printed before the help of the program.
const DEMO_HELP: &str = "\
Passes `--source demo --for 10s --out FILE` before the arguments; later arguments override earlier ones. FILE is
`target/demo/trace.csv` of the workspace, independent of the current folder.
";

/// Samples the simulated GPU for a fixed time. Further arguments are passed on and override the
/// defaults.
pub(crate) fn run(mut args: Vec<OsString>) -> Result<ExitCode> {
    if program::is_help_request(&args) {
        return program::help_here("demo", "trace", DEMO_HELP);
    }
    program::drop_separator(&mut args);
    program::build(&["trace"])?;
    let workspace = Workspace::load()?;
    let folder = workspace.root.join("target/demo");
    std::fs::create_dir_all(&folder)?;
    let mut all: Vec<OsString> = ["--source", "demo", "--for", DEMO, "--out"]
        .map(Into::into)
        .into();
    all.push(folder.join("trace.csv").into());
    all.extend(args);
    program::run_here(&workspace, "trace", &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_the_demonstration_has_its_length() {
        assert!(DEMO_HELP.contains(&format!("--for {DEMO} ")));
    }
}
