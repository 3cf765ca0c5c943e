//! Options of `bench`.

use std::path::PathBuf;

use clap::Parser;

/// Check and time workloads on every executor of this machine, next to other libraries
///
/// Every result is compared with a reference before it is timed. Results are printed as soon as a
/// workload is finished, and written to a record (JSON) and a report (HTML).
#[derive(Clone, Debug, Default, Parser)]
#[command(
    name = "bench",
    version,
    args_override_self = true,
    after_help = "Environment: RIVALS_PYTHON is the Python interpreter of the rivals, DATA_DIR the folder that contains \
                  mnist/.\nExit codes: 0; 1 if the check of one of our variants failed, or the inputs of a workload \
                  could not be computed; 2 for wrong usage; 130 if interrupted, with the finished workloads on disk."
)]
pub struct Bench {
    /// Run only workloads whose `name/size` contains PATTERN; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub only: Vec<String>,
    /// Run 16 small workloads, in about four minutes (the default)
    #[arg(long, conflicts_with_all = ["full", "long"])]
    pub quick: bool,
    /// Run all workloads but the long ones
    #[arg(long)]
    pub full: bool,
    /// Run all workloads, including those that take minutes each
    #[arg(long)]
    pub long: bool,
    /// Print `name/size` of the workloads, with the option that includes each, and exit
    #[arg(long)]
    pub list: bool,
    /// Read the images from DIR: at least 50000 images of 28 x 28 bytes in IDX format, in a file
    /// train-images-idx3-ubyte or train-images-idx3-ubyte.gz
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Do not measure other libraries (NumPy, PyTorch, ...)
    #[arg(long)]
    pub no_rivals: bool,
    /// Also write the record to benches/record/ of the workspace
    #[arg(long)]
    pub record: bool,
    /// Write bench/DATE.json and report/index.html under DIR [default: cargo's target folder]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON object per row instead of tables; `share_of_peak` uses the peaks measured
    /// before the run, the record uses the better of the peaks before and after
    #[arg(long)]
    pub json: bool,
    /// Profile instead of measuring: run each workload on the host executor for ten seconds, every
    /// other half second under a stack sampler (Unix), and write DIR/NAME-SIZE.folded
    ///
    /// The files have one line `a;b;c count` per stack, as read by flame-graph tools. The ten
    /// functions with the largest self time are printed.
    #[arg(long, value_name = "DIR")]
    pub sample: Option<PathBuf>,
}
