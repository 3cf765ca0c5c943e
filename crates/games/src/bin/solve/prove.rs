//! Equilibria with an exact proof in fractions.
//!
//! Method: games of one player by a comparison of all actions. Constant-sum games of two players by
//! a linear program. Other strategic games, and trees by their reduced strategic form, by the
//! enumeration of all extreme equilibria, or by the Lemke-Howson algorithm if the enumeration
//! reaches a limit.

use std::cmp::Ordering;

use games::exact::Equilibrium;
use games::extensive::{Sequences, StrategicForm, Tree};
use games::{Bimatrix, Error, MatrixGame, NormalForm, Rational, StrategicGame as _, compare};

use super::answer::{Answer, FactValue};
use super::options::Options;

/// The name of the operation in errors.
const OPERATION: &str = "solve";

/// Largest number of probabilities in the answer to a game of one player: one for each action in
/// each equilibrium.
const MAX_PROBABILITIES: usize = 1 << 20;

/// Equilibria of a game whose sum is not constant.
struct Found {
    equilibria: Vec<Equilibrium>,
    /// The limit that ended the enumeration; there may then be further equilibria.
    reason: Option<Error>,
}

/// Returns whether an error is a limit of proofs; the game is then solved by learning.
pub(super) fn is_limit(fault: &Error) -> bool {
    matches!(
        fault,
        Error::TooLarge { .. } | Error::Unproved { .. } | Error::DeadlineReached { .. }
    )
}

/// Solves a strategic game of one player or two.
pub(super) fn strategic(game: &NormalForm, options: &Options) -> games::Result<Answer> {
    if game.shape().len() == 1 {
        return one_player(game, options);
    }
    let bimatrix = Bimatrix::try_from(game.clone())?;
    match MatrixGame::try_from(bimatrix.clone()) {
        Ok(matrix) => constant_sum(&matrix, options),
        Err(_) => general_sum(&bimatrix, options),
    }
}

/// Solves a game of one player: every best action is an extreme equilibrium.
fn one_player(game: &NormalForm, options: &Options) -> games::Result<Answer> {
    let labels = game.labels();
    let mut answer = Answer::new(&labels.title, "all best actions, proved");
    for (number, (strategy, payoff)) in (1..).zip(best_strategies(game)?) {
        options.check_proof_time(OPERATION)?;
        answer.push_fact(number, "payoffs", FactValue::Fractions(vec![payoff]));
        answer.push_strategic(number, labels, &[strategy]);
    }
    Ok(answer)
}

/// Solves a tree of one player: every best plan is an extreme equilibrium of its reduced strategic
/// form.
pub(super) fn one_player_tree(
    tree: &Tree,
    strategic: &StrategicForm,
    options: &Options,
) -> games::Result<Answer> {
    let title = &tree.labels().title;
    let method = "all best plans of the reduced strategic form, proved";
    let mut answer = Answer::new(title, method);
    for (number, (strategy, payoff)) in (1..).zip(best_strategies(strategic.game())?) {
        options.check_proof_time(OPERATION)?;
        answer.push_fact(number, "payoffs", FactValue::Fractions(vec![payoff]));
        let behaviour = strategic.behaviour(0, &strategy);
        answer.push_behaviour(number, tree, strategic.sequences(), &[behaviour]);
    }
    Ok(answer)
}

/// Returns the pure strategy of each best action of a game of one player, and its payoff.
fn best_strategies(
    game: &NormalForm,
) -> games::Result<impl Iterator<Item = (Vec<Rational>, Rational)>> {
    let payoffs: Vec<Rational> = (0..game.shape()[0])
        .map(|action| game.payoff(0, &[action]))
        .collect();
    let best = payoffs.iter().max_by(|a, b| compare(a, b));
    let is_best = |payoff| best.is_some_and(|best| compare(payoff, best).is_eq());
    let is_best = payoffs.iter().map(is_best);
    let best_actions = is_best.enumerate().filter(|&(_, is_best)| is_best);
    let best_actions: Vec<usize> = best_actions.map(|(action, _)| action).collect();
    let n_probabilities = best_actions.len() as u128 * payoffs.len() as u128;
    if n_probabilities > MAX_PROBABILITIES as u128 {
        return Err(Error::TooLarge {
            operation: OPERATION,
            what: "number of probabilities of all equilibria",
            needed: n_probabilities,
            limit: MAX_PROBABILITIES as u128,
        });
    }
    Ok(best_actions.into_iter().map(move |action| {
        let mut strategy = vec![Rational::default(); payoffs.len()];
        strategy[action] = Rational::from_integer(1.into());
        (strategy, payoffs[action].clone())
    }))
}

fn constant_sum(game: &MatrixGame, options: &Options) -> games::Result<Answer> {
    let labels = game.labels();
    let found = options.prover().exact(game)?;
    let unique = found
        .unique
        .map(|unique| if unique { "unique" } else { "one of several" });
    let mut answer = Answer::new(&labels.title, "linear program, proved");
    answer.push_value(&found.value, game.sum());
    answer.push_fact(0, "strategies", FactValue::Text(unique.join(", ")));
    answer.push_strategic(1, labels, &found.strategies);
    Ok(answer)
}

fn general_sum(game: &Bimatrix, options: &Options) -> games::Result<Answer> {
    let labels = game.labels();
    let found = equilibria(game, options)?;
    let method = if found.reason.is_none() {
        "all extreme equilibria, proved"
    } else {
        "one equilibrium by Lemke-Howson, proved"
    };
    let mut answer = Answer::new(&labels.title, method);
    answer.push_reason(found.reason);
    for (number, equilibrium) in (1..).zip(found.equilibria) {
        let payoffs = FactValue::Fractions(equilibrium.payoffs.to_vec());
        answer.push_fact(number, "payoffs", payoffs);
        answer.push_strategic(number, labels, &equilibrium.strategies);
    }
    Ok(answer)
}

/// Computes all extreme equilibria, or a single equilibrium if the enumeration reaches a limit.
fn equilibria(game: &Bimatrix, options: &Options) -> games::Result<Found> {
    match options.prover_of_all().all_equilibria(game) {
        Ok(equilibria) => Ok(Found {
            equilibria,
            reason: None,
        }),
        Err(fault) if is_limit(&fault) => Ok(Found {
            equilibria: vec![options.prover().lemke_howson(game, 0)?],
            reason: Some(fault),
        }),
        Err(fault) => Err(fault),
    }
}

/// Solves a two-player tree: by its sequence form if the sum of payoffs is constant,
/// otherwise by its reduced strategic form.
pub(super) fn extensive(tree: &Tree, form: &Sequences, options: &Options) -> games::Result<Answer> {
    let found = match options.prover().exact(form) {
        Err(Error::NotConstantSum { .. }) => return general_sum_tree(tree, form, options),
        found => found?,
    };
    let title = &tree.labels().title;
    let mut answer = Answer::new(title, "sequence-form linear program, proved");
    answer.push_value(&found.value, &found.sum);
    answer.push_behaviour(1, tree, form, &found.strategies);
    Ok(answer)
}

fn general_sum_tree(tree: &Tree, form: &Sequences, options: &Options) -> games::Result<Answer> {
    let strategic = options.prover().strategic_form(tree)?;
    let found = equilibria(&Bimatrix::try_from(strategic.game().clone())?, options)?;
    let method = if found.reason.is_none() {
        "all extreme equilibria of the reduced strategic form, proved"
    } else {
        "one equilibrium of the reduced strategic form by Lemke-Howson, proved"
    };
    let mut answer = Answer::new(&tree.labels().title, method);
    answer.push_reason(found.reason);
    push_behaviours(&mut answer, tree, form, &strategic, &found.equilibria);
    Ok(answer)
}

/// Adds the distinct behaviour strategies of the equilibria of a strategic form. Different mixed
/// strategies may have the same behaviour strategy.
fn push_behaviours(
    answer: &mut Answer,
    tree: &Tree,
    form: &Sequences,
    strategic: &StrategicForm,
    equilibria: &[Equilibrium],
) {
    let behaviours = equilibria.iter().map(|equilibrium| {
        [0, 1].map(|player| strategic.behaviour(player, &equilibrium.strategies[player]))
    });
    let behaviours: Vec<[Vec<Rational>; 2]> = behaviours.collect();
    // All behaviours have the same number of probabilities.
    let order = |a: usize, b: usize| {
        let [a, b] = [a, b].map(|at| behaviours[at].iter().flatten());
        let mut orders = a.zip(b).map(|(a, b)| compare(a, b));
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    let mut distinct: Vec<usize> = (0..equilibria.len()).collect();
    // The sort is stable, so the first of equal behaviours remains.
    distinct.sort_by(|&a, &b| order(a, b));
    distinct.dedup_by(|later, first| order(*first, *later).is_eq());
    distinct.sort_unstable();
    for (number, at) in (1..).zip(distinct) {
        let payoffs = FactValue::Fractions(equilibria[at].payoffs.to_vec());
        answer.push_fact(number, "payoffs", payoffs);
        answer.push_behaviour(number, tree, form, &behaviours[at]);
    }
}
