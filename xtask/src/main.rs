//! The project's commands: `cargo xtask COMMAND`.
//!
//! Role: dispatches to one module per command. Does not depend on GPU crates and builds in seconds.
//! Method: heavy commands are programs of `benches`, built in release mode and run with the same
//! arguments, so that starting `xtask` does not require a build of wgpu.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

mod adapters;
mod artifact;
mod bench;
mod bundle;
mod codegen;
mod data;
mod debian;
mod demo;
mod matrix_driver;
mod mpi;
mod process;
mod program;
mod rivals;
mod temporary;
mod verify;
mod web;
mod workspace;

/// Exit status of an invalid command line, as for other command-line tools.
const USAGE: u8 = 2;

/// A command, with its description in the help text.
struct Command {
    name: &'static str,
    does: &'static str,
    run: fn(Vec<OsString>) -> Result<ExitCode>,
}

const COMMANDS: [Command; 14] = [
    Command {
        name: "bench",
        does: "run the workloads on every executor found, checked before they are timed",
        run: bench::run,
    },
    Command {
        name: "verify",
        does: "check everything that must hold: format, lints, docs, edges, tests, kernels",
        run: verify::run,
    },
    Command {
        name: "doctor",
        does: "list adapters, CPU features, drivers and data of this machine",
        run: |args| program::forward("doctor", args),
    },
    Command {
        name: "trace",
        does: "sample power, energy and utilization while a command runs",
        run: |args| program::forward_here("trace", args),
    },
    Command {
        name: "demo",
        does: "demonstrate `trace` on a simulated GPU",
        run: demo::run,
    },
    Command {
        name: "report",
        does: "rebuild the HTML report from recorded JSON",
        run: |args| program::forward("report", args),
    },
    Command {
        name: "data",
        does: "fetch a data set outside of git and check its sha256",
        run: data::run,
    },
    Command {
        name: "rivals",
        does: "set up a Python environment with NumPy, PyTorch and others for comparison rows",
        run: rivals::run,
    },
    Command {
        name: "solve",
        does: "find the equilibrium of a game file (.nfg, .efg), with a proof if possible",
        run: |args| program::forward_here("solve", args),
    },
    Command {
        name: "explain",
        does: "show a workload's program at each level: plan, WGSL, SPIR-V",
        run: |args| program::forward("explain", args),
    },
    Command {
        name: "tune",
        does: "find the fastest block sizes for a GPU and write them to the table",
        run: |args| program::forward("tune", args),
    },
    Command {
        name: "adapters",
        does: "list or fetch software Vulkan drivers for more tests of the GPU path",
        run: adapters::run,
    },
    Command {
        name: "web",
        does: "serve a page that runs and checks kernels in a browser, or test it",
        run: web::run,
    },
    Command {
        name: "codegen",
        does: "rewrite shaders/src/layout.rs by reflection of the kernels",
        run: codegen::run,
    },
];

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    let name = args.next().map(|name| name.to_string_lossy().into_owned());
    let (name, done) = match name.as_deref() {
        None | Some("--help" | "-h" | "help") => ("xtask", print_table()),
        Some(name) => match COMMANDS.iter().find(|command| command.name == name) {
            Some(command) => (command.name, (command.run)(args.collect())),
            None => {
                eprint!("error: no command named {name:?}\n\n{}", table());
                return ExitCode::from(USAGE);
            }
        },
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // An invalid argument is an error of usage; every other error is a failure of the
            // command.
            if let Some(wrong_use) = error.downcast_ref::<lexopt::Error>() {
                eprintln!("error: {name}: {wrong_use} (see `cargo xtask {name} --help`)");
                return ExitCode::from(USAGE);
            }
            eprintln!("error: {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_table() -> Result<ExitCode> {
    tool_io::output::print(table())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the table of commands for the help text.
fn table() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND [arguments]\n\n");
    for command in &COMMANDS {
        text += &format!("  {:<8} {}\n", command.name, command.does);
    }
    text + "\n`cargo xtask COMMAND --help` shows a command's options.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_command_once() {
        let table = table();
        for command in &COMMANDS {
            assert_eq!(table.matches(&format!("\n  {} ", command.name)).count(), 1);
        }
    }
}
