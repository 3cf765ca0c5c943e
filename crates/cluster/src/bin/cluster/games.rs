//! `cluster games`: random zero-sum games, solved by several rules.
//!
//! Method: a task is a batch of games with one rule and one seed. The payoffs are drawn by the
//! rank that solves them, from a stream of random numbers of their own, so no rank depends on
//! another.

use anyhow::{Result, bail};
use clap::Args;
use cluster::Cluster;
use games::ndarray::Array3;
use games::{Batch, SolverConfig};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tensor_core::rng::Philox;

use super::Work;
use super::options::{Common, allocated, positive};
use super::summary::Summary;

/// A function that returns the configuration of a rule.
type Rule = fn() -> SolverConfig;

/// The rules with their names.
const RULES: [(&str, Rule); 6] = [
    ("regret-matching", SolverConfig::regret_matching),
    ("regret-matching+", SolverConfig::regret_matching_plus),
    ("predictive", SolverConfig::predictive_regret_matching),
    ("predictive+", SolverConfig::predictive_regret_matching_plus),
    ("linear", SolverConfig::linear),
    ("discounted", || SolverConfig::discounted(1.5, 0.0, 2.0)),
];

/// Solve random zero-sum games with several rules and seeds, and report how far from equilibrium
/// they end
///
/// Prints a row for each rule and seed: the mean and the largest NashConv.
#[derive(Args, Debug)]
#[command(args_override_self = true, allow_negative_numbers = true)]
pub(super) struct Options {
    /// Games for each rule and seed
    #[arg(long = "games", value_name = "N", value_parser = positive, default_value_t = 100_000)]
    n_games: usize,
    /// Actions of each player
    #[arg(long = "actions", value_name = "N", value_parser = positive, default_value_t = 3)]
    n_actions: usize,
    /// Rules, separated by commas, or `all`: regret-matching, regret-matching+, predictive,
    /// predictive+, linear, discounted
    #[arg(long, value_name = "LIST", value_parser = rules, default_value = "predictive+")]
    rules: RuleList,
    /// Seeds 0 to N - 1; payoffs are normal, and equal for all rules
    #[arg(long = "seeds", value_name = "N", value_parser = positive, default_value_t = 1)]
    n_seeds: usize,
    /// Iterations in each game
    #[arg(long = "iterations", value_name = "N", value_parser = positive, default_value_t = 500)]
    n_iterations: usize,
    /// Games in a task
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 10_000)]
    batch: usize,
    #[command(flatten)]
    common: Common,
}

/// Places in [`RULES`].
type RuleList = Vec<usize>;

impl Work for Options {
    fn common(&self) -> &Common {
        &self.common
    }

    fn run(&self, cluster: &Cluster) -> Result<Summary> {
        run(self, cluster, &self.common)
    }
}

/// The result of a task.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Distance {
    n_games: usize,
    sum: f64,
    largest: f64,
}

/// Parses names of rules.
fn rules(text: &str) -> Result<RuleList, String> {
    if text == "all" {
        return Ok((0..RULES.len()).collect());
    }
    let place = |name: &str| {
        let place = RULES.iter().position(|rule| rule.0 == name);
        place.ok_or_else(|| format!("unknown rule {name:?}"))
    };
    let places = text.split(',').map(place).collect::<Result<Vec<_>, _>>()?;
    match (1..places.len()).find(|&number| places[..number].contains(&places[number])) {
        Some(number) => Err(format!(
            "rule {:?} is listed twice",
            RULES[places[number]].0
        )),
        None => Ok(places),
    }
}

fn run(options: &Options, cluster: &Cluster, common: &Common) -> Result<Summary> {
    let n_batches = options.n_games.div_ceil(options.batch);
    let n_rows = options.rules.len().checked_mul(options.n_seeds);
    let n_tasks = n_rows.and_then(|n_rows| n_rows.checked_mul(n_batches));
    // The numbers of a batch and of all games have to be representable, too.
    let n_payoffs = options.n_actions.checked_pow(2);
    let n_payoffs = n_payoffs.and_then(|n_payoffs| n_payoffs.checked_mul(options.n_games));
    let (Some(n_rows), Some(n_tasks), Some(_)) = (n_rows, n_tasks, n_payoffs) else {
        bail!("games: too many games, seeds or actions for this machine's numbers");
    };
    let names: Vec<&str> = options.rules.iter().map(|&rule| RULES[rule].0).collect();
    let description = format!(
        "{} games with {} actions, rules {}, {} seeds, {} iterations, batches of {}",
        options.n_games,
        options.n_actions,
        names.join(","),
        options.n_seeds,
        options.n_iterations,
        options.batch
    );
    let size_of = |task: usize| {
        let first = task % n_batches * options.batch;
        first..options.n_games.min(first + options.batch)
    };
    let job = common.job(&description, n_tasks);
    let job = job.with_cost(|task| size_of(task).len() as f64);
    let mapped = cluster.map(&job, |task| {
        let row = task / n_batches;
        let (rule, seed) = (options.rules[row / options.n_seeds], row % options.n_seeds);
        solve(options, rule, seed as u64, size_of(task))
    })?;
    let rows = mapped.results.chunks(n_batches).enumerate();
    let rows = rows.map(|(row, batches)| {
        let mut all = Distance::default();
        for batch in batches {
            all.n_games += batch.n_games;
            all.sum += batch.sum;
            all.largest = all.largest.max(batch.largest);
        }
        let mean = all.sum / all.n_games as f64;
        vec![
            json!(names[row / options.n_seeds]),
            json!(row % options.n_seeds),
            json!(all.n_games),
            json!(mean),
            json!(all.largest),
        ]
    });
    let columns = vec!["rule", "seed", "games", "mean_nash_conv", "max_nash_conv"];
    let n_games = (n_rows * options.n_games) as f64;
    Ok(Summary::new()
        .with_table(columns, rows.collect())
        .with("tasks", n_tasks)
        .with("games_per_s", n_games / mapped.elapsed.as_secs_f64())
        .with_times(&mapped)
        .with_predictions(common, |machine| mapped.predict(&job, machine)))
}

/// Solves the games of a task.
fn solve(
    options: &Options,
    rule: usize,
    seed: u64,
    own: std::ops::Range<usize>,
) -> Result<Distance> {
    let n = options.n_actions;
    let what = format!("games: the payoffs of {} games with {n} actions", own.len());
    let mut payoffs = allocated(
        &what,
        n.checked_pow(2).and_then(|n| n.checked_mul(own.len())),
    )?;
    let random = Philox::new(seed);
    random.fill_normal_f32((own.start * n * n) as u64, &mut payoffs);
    let payoffs = Array3::from_shape_vec((own.len(), n, n), payoffs);
    let payoffs = payoffs.expect("there are as many numbers as elements");
    let config = RULES[rule].1().iterations(options.n_iterations as u64);
    let solution = Batch::zero_sum(payoffs)?.solve(&config)?;
    let distances = solution.nash_conv.iter();
    Ok(Distance {
        n_games: own.len(),
        sum: distances.clone().sum(),
        largest: distances.copied().fold(0.0, f64::max),
    })
}
