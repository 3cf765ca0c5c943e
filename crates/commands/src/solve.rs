//! Options of `solve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Largest number of iterations that may be written with an exponent (2^53): not every larger
/// integer is representable as `f64`.
const MAX_ITERATIONS: f64 = 9_007_199_254_740_992.0;
/// Longest time limit, in seconds: 31 years.
const MAX_SECONDS: f64 = 1e9;

/// Compute the equilibrium of a game file, with a proof if possible
///
/// Players, information sets and actions are numbered from 1, information sets for each player.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "solve",
    version,
    args_override_self = true,
    after_help = "Exit codes: 0 if an equilibrium was found or the NashConv was reached; 2 for wrong usage; 1 otherwise."
)]
pub struct Solve {
    /// Game in Gambit's format .nfg or .efg, detected by its first word; `-` reads standard input
    ///
    /// A strategic game may have any number of players, an extensive game must have two.
    pub file: PathBuf,
    /// Print a line for each action: numbers and names of player, information set and action, its
    /// probability, and the exact fraction if it is proved
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print one JSON object per line: first the method and its facts, then the same data as --csv
    #[arg(long)]
    pub json: bool,
    /// Print proved numbers as fractions instead of decimals
    #[arg(long, conflicts_with = "learn")]
    pub exact: bool,
    /// Use regret learning even if a proof is possible
    #[arg(long)]
    pub learn: bool,
    /// Maximum number of learning iterations
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value = "1e6", value_parser = iterations)]
    pub iterations: u64,
    /// Learn until NashConv plus its rounding error is at most X [default: 1e-6 of the range of
    /// payoffs]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = target)]
    pub tolerance: Option<f64>,
    /// Time limit in seconds for reading and solving; proofs use at most half of it [default: 300
    /// for proofs, then 60 for learning]
    #[arg(long, value_name = "S", allow_hyphen_values = true, value_parser = seconds)]
    pub time_limit: Option<Duration>,
}

/// Parses a number of iterations, written as `1000000` or as `1e6`.
fn iterations(text: &str) -> Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let is_count = |number: &f64| number.fract() == 0.0 && (0.0..=MAX_ITERATIONS).contains(number);
    let number: Option<f64> = text.parse().ok().filter(is_count);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 0 to 2^53"
    )]
    let number = number.map(|number| number as u64);
    let expected = "expected a whole number, such as 1e6 (at most 2^53 with an exponent)";
    number.ok_or_else(|| expected.into())
}

/// Parses the NashConv at which learning ends.
fn target(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let number = number.filter(|number| *number >= 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a finite number of at least 0".into())
}

/// Parses a time limit in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds));
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| format!("expected a number of seconds, from 0 to {MAX_SECONDS:e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Solve, clap::Error> {
        Solve::try_parse_from(["solve", "FILE"].iter().chain(args))
    }

    /// Returns the message of a command line that is wrong.
    fn wrong_use(args: &[&str]) -> String {
        let error = parsed(args).expect_err("the command line is wrong");
        assert_eq!(error.exit_code(), 2, "{args:?}");
        error.to_string()
    }

    #[test]
    fn numbers_have_limits_and_errors_name_their_option() {
        let iterations = |text| parsed(&["--iterations", text]).unwrap().iterations;
        assert_eq!(iterations("1e6"), 1_000_000);
        assert_eq!(iterations("18446744073709551615"), u64::MAX);
        for bad in ["1.5", "-1", "nan", "1e20", "many", ""] {
            let message = wrong_use(&["--iterations", bad]);
            assert!(message.contains("--iterations"), "{bad}: {message}");
            assert!(message.contains("at most 2^53"), "{bad}: {message}");
        }
        for bad in ["nan", "inf", "-1e-3"] {
            assert!(
                wrong_use(&["--tolerance", bad]).contains("--tolerance"),
                "{bad}"
            );
        }
        for bad in ["-1", "nan", "inf", "1e300", "1e10", "soon"] {
            let message = wrong_use(&["--time-limit", bad]);
            assert!(message.contains("--time-limit"), "{bad}: {message}");
            assert!(message.contains("from 0 to 1e9"), "{bad}: {message}");
        }
        let time_limit = |text| parsed(&["--time-limit", text]).unwrap().time_limit;
        assert_eq!(time_limit("1e9"), Some(Duration::from_secs(1_000_000_000)));
        assert_eq!(time_limit("0"), Some(Duration::ZERO));
    }

    #[test]
    fn options_that_exclude_each_other_are_wrong_use() {
        assert!(wrong_use(&["--exact", "--learn"]).contains("--exact"));
        for forms in [["--json", "--csv"], ["--csv", "--json"]] {
            assert!(wrong_use(&forms).contains("--csv"));
        }
        wrong_use(&["another"]);
        assert!(parsed(&["--csv", "--csv"]).unwrap().csv);
    }
}
