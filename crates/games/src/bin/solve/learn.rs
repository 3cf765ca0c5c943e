//! Strategies learned by regret minimization and evaluated by best responses.

use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::Result;
use games::extensive::{Plan, Sequences, StrategicForm, Tree};
use games::{
    Bimatrix, Checkpoint, Error, Game, MatrixGame, NormalForm, Solution, SolverConfig, StopReason,
    StrategicGame as _,
};
use indicatif::{ProgressBar, ProgressStyle};

use super::answer::{Action, Answer, FactValue, actions};
use super::options::Options;

/// Default NashConv at which learning ends, relative to the range of payoffs.
const TARGET: f64 = 1e-6;

/// Solves a strategic game by learning. `reason` is the limit that ended an earlier proof, if any.
pub(super) fn strategic(
    game: &NormalForm,
    options: &Options,
    reason: Option<Error>,
) -> Result<Answer> {
    let labels = game.labels();
    let matrix = Bimatrix::try_from(game.clone()).and_then(MatrixGame::try_from);
    let (solution, mut answer) = match &matrix {
        Ok(matrix) => learn(matrix, &labels.title, options)?,
        Err(_) => learn(game, &labels.title, options)?,
    };
    answer.push_reason(reason);
    for (player, strategy) in solution.strategies.iter().enumerate() {
        for (action, &p) in strategy.iter().enumerate() {
            answer.push(1, Action::strategic(labels, player, action), p);
        }
    }
    Ok(answer)
}

/// Solves a tree by learning. `reason` is the limit that ended an earlier proof, if any.
pub(super) fn extensive(
    tree: &Tree,
    form: &Sequences,
    options: &Options,
    reason: Option<Error>,
) -> Result<Answer> {
    let game = options.preparation().compile(tree)?;
    let (solution, mut answer) = learn(&game, &tree.labels().title, options)?;
    answer.push_reason(reason);
    for (player, strategy) in solution.strategies.into_iter().enumerate() {
        for (action, p) in actions(tree, form, player).into_iter().zip(strategy) {
            answer.push(1, action, p);
        }
    }
    Ok(answer)
}

/// Solves a tree of any number of players by learning in its reduced strategic form. `reason` is
/// the limit that ended an earlier proof, if any.
pub(super) fn plans(
    tree: &Tree,
    strategic: &StrategicForm,
    options: &Options,
    reason: Option<Error>,
) -> Result<Answer> {
    let (solution, mut answer) = learn(strategic.game(), &tree.labels().title, options)?;
    answer.push_reason(reason);
    for (player, weights) in solution.strategies.iter().enumerate() {
        let behaviour = behaviour(strategic, player, weights);
        let actions = actions(tree, strategic.sequences(), player);
        for (action, p) in actions.into_iter().zip(behaviour) {
            answer.push(1, action, p);
        }
    }
    Ok(answer)
}

/// Returns the behaviour strategy of a mixture of plans in floats, as
/// [`StrategicForm::behaviour`] does in fractions.
fn behaviour(strategic: &StrategicForm, player: usize, weights: &[f64]) -> Vec<f64> {
    let plans = strategic.plans(player);
    let weight_of = |is_counted: &dyn Fn(&Plan) -> bool| -> f64 {
        let pairs = plans.iter().zip(weights);
        let counted = pairs.filter(|(plan, _)| is_counted(plan));
        counted.map(|(_, weight)| weight).sum()
    };
    let mut behaviour = vec![];
    for (set, decision) in strategic.sequences().decisions(player).iter().enumerate() {
        let reached = weight_of(&|plan| plan[set].is_some());
        for action in 0..decision.n_actions {
            behaviour.push(if reached > 0.0 {
                weight_of(&|plan| plan[set] == Some(action)) / reached
            } else {
                1.0 / f64::from(decision.n_actions)
            });
        }
    }
    behaviour
}

fn learn<G: Game>(game: &G, title: &str, options: &Options) -> Result<(Solution, Answer)> {
    let tolerance = options.tolerance.unwrap_or(TARGET * game.range());
    let time = options.time_to_learn();
    let deadline = Instant::now().checked_add(time);
    let config = SolverConfig::default()
        .iterations(options.iterations)
        // A target of 0 would disable the end at rounding errors and the use of linear algebra.
        .tolerance(tolerance.max(f64::MIN_POSITIVE))
        .time_limit(time);
    let solution = solve_with_progress(game, &config, deadline)?;
    let answer = answer_of(&solution, title, tolerance);
    Ok((solution, answer))
}

/// Solves a game by learning until the deadline, and shows the progress if there is a terminal.
fn solve_with_progress<G: Game>(
    game: &G,
    config: &SolverConfig,
    deadline: Option<Instant>,
) -> Result<Solution> {
    let bar = ProgressBar::no_length().with_style(ProgressStyle::with_template("{spinner} {msg}")?);
    let solution = games::solve_with(game, config, |checkpoint: &Checkpoint| {
        bar.set_message(format!(
            "iteration {}, NashConv {:.3e}",
            checkpoint.iteration, checkpoint.nash_conv
        ));
        bar.tick();
        // The time limit of the configuration does not count evaluations, which may take longer
        // than the iterations between them.
        match deadline {
            Some(deadline) if Instant::now() >= deadline => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    })?;
    bar.finish_and_clear();
    Ok(solution)
}

/// Returns an answer with all facts of a solution, without strategies.
fn answer_of(solution: &Solution, title: &str, tolerance: f64) -> Answer {
    let method = if solution.polished {
        "linear algebra from an average of learning"
    } else {
        "average of learning by regret"
    };
    let mut answer = Answer::new(title, method);
    answer.push_fact(0, "payoffs", FactValue::Floats(solution.values.clone()));
    answer.push_fact(0, "NashConv", FactValue::Floats(vec![solution.nash_conv]));
    answer.push_fact(0, "rounding", FactValue::Floats(vec![solution.rounding]));
    answer.push_fact(0, "iterations", FactValue::Count(solution.iterations));
    if let StopReason::AtRounding { bound } = solution.stopped {
        let note =
            format!("rounding errors hide a NashConv below {bound:.3e} (target {tolerance:.3e})");
        answer.push_fact(0, "limit", FactValue::Text(note));
    }
    let Solution {
        nash_conv,
        rounding,
        iterations,
        ..
    } = solution;
    // Written so that a NaN misses the target.
    let is_reached = nash_conv + rounding <= tolerance;
    if !is_reached {
        answer.shortfall = Some(format!(
            "NashConv {nash_conv:.3e} with rounding error {rounding:.3e} is above the target \
             {tolerance:.3e} after {iterations} iterations (--iterations and --time-limit set the limits)"
        ));
    }
    answer
}
