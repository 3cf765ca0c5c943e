//! Options of `doctor`.

use std::path::PathBuf;

use clap::Parser;

/// Report hardware, drivers and data of this machine, and incompatibilities
#[derive(Clone, Debug, Default, Parser)]
#[command(
    name = "doctor",
    version,
    args_override_self = true,
    after_help = "Exit codes: 0; 1 if a finding affects the accuracy of numbers or the speed (`!`), or if something does \
                  not work or is incompatible (`x`); 2 for wrong usage. A machine without a GPU is not an error."
)]
pub struct Doctor {
    /// Print one JSON object per finding: id, state (found, missing, warning, failed), detail
    #[arg(long)]
    pub json: bool,
    /// Also write these objects to FILE
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
