//! Options of `report`.

use std::path::PathBuf;

use clap::Parser;

/// Rebuild the report of a record, compare two records, or show the trend of many
///
/// With one record, write its page. With two, compare them row by row; two folders with the same
/// number of records are compared in pairs. A change is marked only if its interval excludes 1.
#[derive(Clone, Debug, Default, Parser)]
#[command(
    name = "report",
    version,
    args_override_self = true,
    after_help = "Exit codes: 0; 1 if a record cannot be read, or if two records are from different machines; 2 for \
                  wrong usage."
)]
pub struct Report {
    /// Record to show, or the record before the change [default: the newest in bench/ of cargo's
    /// target folder]
    #[arg(value_name = "RECORD")]
    pub before: Option<PathBuf>,
    /// Record after the change
    #[arg(value_name = "AFTER", conflicts_with = "trend")]
    pub after: Option<PathBuf>,
    /// Show the speed over time of all records in a folder [default: benches/record of the
    /// workspace]
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with = "before")]
    pub trend: Option<Option<PathBuf>>,
    /// Print the speed-ups of a record as Markdown, and write no page
    #[arg(long, requires = "before", conflicts_with_all = ["after", "out", "json"])]
    pub markdown: bool,
    /// Compare records of different machines, adapters or drivers
    #[arg(long)]
    pub any_machine: bool,
    /// File to write [default: report/index.html in cargo's target folder; none for a comparison]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}
