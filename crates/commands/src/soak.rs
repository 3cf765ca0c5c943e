//! Options of `soak`.

use clap::Parser;

/// Repeat jobs for hours, and check that their results are right and their memory stays flat
///
/// Each job runs in a process of its own: random programs on the host and on each adapter,
/// training steps, the sampler on a simulated NVML with faults, and batches of games.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "soak",
    version,
    args_override_self = true,
    after_help = "A fault is recorded with the seed of its step; `--only NAME --seed SEED --minutes 0` repeats that step.\n\
                  A fault of all steps together needs the whole run: the command in the record repeats it.\n\
                  If the process of a job crashes, its step is unknown, and the first seed is recorded.\n\
                  Exit codes: 0; 1 if a result was wrong or the memory grew; 2 for wrong usage; 130 if interrupted, with \
                  the finished jobs recorded."
)]
pub struct Soak {
    /// Run only jobs whose name contains PATTERN; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub only: Vec<String>,
    /// Print the names of the jobs and exit
    #[arg(long)]
    pub list: bool,
    /// Run each job for N minutes, or for one step if N is 0
    #[arg(long, value_name = "N", default_value_t = 60.0, value_parser = minutes)]
    pub minutes: f64,
    /// Seed of the first step; each further step has the next seed [default: the time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run N jobs at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: u16,
    /// Print one JSON object per job instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write the results to xtask/record/soak.json of the workspace, in place of earlier results of
    /// the same jobs
    #[arg(long)]
    pub record: bool,
    /// Run the job of this name in this process, and print its outcome
    #[arg(long, value_name = "NAME", hide = true)]
    pub job: Option<String>,
}

/// Largest number of minutes: a year.
const MAX_MINUTES: f64 = 60.0 * 24.0 * 365.0;

/// Parses a number of minutes.
fn minutes(text: &str) -> Result<f64, String> {
    let expected = format!("expected a number from 0 to {MAX_MINUTES}");
    let minutes = text.parse::<f64>().ok();
    let minutes = minutes.filter(|minutes| (0.0..=MAX_MINUTES).contains(minutes));
    minutes.ok_or(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_a_finite_number_that_is_not_negative() {
        let parsed = |minutes| {
            let soak = Soak::try_parse_from(["soak", "--minutes", minutes]);
            soak.map(|soak| soak.minutes).ok()
        };
        assert_eq!((parsed("0"), parsed("1.5")), (Some(0.0), Some(1.5)));
        for wrong in ["-1", "NaN", "inf", "an hour", "1e9"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
