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
    after_help = "Exit codes: 0 if an equilibrium was found or the NashConv was reached; 2 for wrong usage; 1 otherwise."
)]
pub struct Solve {
    /// Game in Gambit's format .nfg or .efg, detected by its first word; `-` reads standard input
    ///
    /// A strategic game may have any number of players, an extensive one two.
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
    #[arg(long, value_name = "N", default_value = "1e6", value_parser = iterations)]
    pub iterations: u64,
    /// Learn until NashConv plus its rounding error is at most X [default: 1e-6 of the range of
    /// payoffs]
    #[arg(long, value_name = "X", value_parser = target)]
    pub tolerance: Option<f64>,
    /// Time limit in seconds for reading and solving; proofs use at most half of it [default: 300
    /// for proofs, then 60 for learning]
    #[arg(long, value_name = "S", value_parser = seconds)]
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
    number.ok_or_else(|| "expected a whole number, such as 1e6".into())
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

    #[test]
    fn numbers_have_limits() {
        assert_eq!(iterations("1e6"), Ok(1_000_000));
        assert_eq!(iterations("18446744073709551615"), Ok(u64::MAX));
        for text in ["", "-1", "1.5", "1e300", "nan", "inf"] {
            assert!(iterations(text).is_err(), "{text}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["-1", "1e10", "nan", "x"] {
            assert!(
                seconds(text).is_err() && (text == "1e10" || target(text).is_err()),
                "{text}"
            );
        }
    }

    #[test]
    fn options_that_exclude_each_other_are_wrong_usage() {
        for args in [
            &["solve"][..],
            &["solve", "a", "b"],
            &["solve", "a", "--csv", "--json"],
            &["solve", "a", "--exact", "--learn"],
            &["solve", "a", "--iterations", "x"],
        ] {
            let error = Solve::try_parse_from(args).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{args:?}");
        }
    }
}
