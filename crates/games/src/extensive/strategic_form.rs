//! The reduced strategic form of a tree.
//!
//! Role: takes the solvers of strategic games, such as [`crate::exact::all_equilibria`], to small trees.
//! Method: a plan of a player fixes an action at each information set that the plan itself does not exclude; plans that
//! differ elsewhere alone are one. A cell of the strategic form has the expected payoffs of its plans, over chance.
//! Limits: perfect recall; the number of plans grows exponentially with that of information sets.
//! Source: Kuhn 1953, "Extensive games and the problem of information"; Myerson 1991, "Game theory: analysis of conflict",
//! section 2.3.

use super::{Decision, Sequences, Tree};
use crate::{Error, Labels, NormalForm, Rational, Result};
use ndarray::{ArrayD, IxDyn};
use num_traits::Zero;

const OPERATION: &str = "extensive::StrategicForm";
/// Most cells of a strategic form.
const MAX_CELLS: usize = 1 << 20;
/// Most terms of the expected payoffs of all cells.
const MAX_TERMS: usize = 1 << 24;

/// A plan: the action at each of a player's information sets, in the order of [`Sequences::decisions`]; `None` where
/// earlier actions of the plan exclude the set.
pub type Plan = Vec<Option<u32>>;

/// The reduced strategic form of a tree, and the plans that its actions stand for.
///
/// # Examples
/// ```
/// use games::{Bimatrix, exact, extensive::{StrategicForm, TreeBuilder}};
///
/// // A market is worth entering, unless its owner fights.
/// let names = |names: [&str; 2]| names.map(String::from).to_vec();
/// let mut builder = TreeBuilder::new("entry".into(), names(["entrant", "owner"]));
/// let entry = builder.information_set(0, "entry", names(["in", "out"]))?;
/// let reply = builder.information_set(1, "reply", names(["fight", "share"]))?;
/// builder.decision(entry, 2)?;
/// builder.decision(reply, 2)?;
/// builder.end(&[-1, -1])?;
/// builder.end(&[2, 1])?;
/// builder.end(&[0, 2])?;
/// let form = StrategicForm::of(&builder.finish()?)?;
/// let all = exact::all_equilibria(&Bimatrix::try_from(form.game().clone())?)?;
/// assert_eq!(all.len(), 3);
/// assert_eq!(all[2].strategies[1][0].to_string(), "2/3");
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StrategicForm {
    game: NormalForm,
    sequences: Sequences,
    plans: Vec<Vec<Plan>>,
}

impl StrategicForm {
    /// Computes the reduced strategic form of a tree with any number of players.
    ///
    /// Cost: one addition of fractions for each player, end, and cell that leads to the end.
    ///
    /// # Errors
    /// [`Error::TreeInvalid`] if a player forgets; [`Error::TooLarge`] above 2^20 cells or 2^24 additions.
    pub fn of(tree: &Tree) -> Result<Self> {
        let sequences = Sequences::of(tree)?;
        let players = 0..tree.n_players();
        let n_cells = players.clone().fold(1, |product: u128, player| {
            product.saturating_mul(n_plans(&sequences, player))
        });
        check_limit("number of cells", n_cells, MAX_CELLS)?;
        let plans = players.map(|player| reduced_plans(sequences.decisions(player)));
        let plans: Vec<Vec<Plan>> = plans.collect();
        let payoffs = payoffs(&sequences, &plans)?;
        let labels = Labels {
            actions: plan_names(tree, &sequences, &plans),
            ..tree.labels().clone()
        };
        Ok(Self {
            game: NormalForm::new(tree.n_players(), payoffs)?.with_labels(labels)?,
            sequences,
            plans,
        })
    }

    /// Returns the strategic game, whose actions are the plans.
    #[must_use]
    pub fn game(&self) -> &NormalForm {
        &self.game
    }

    /// Returns the sequence form of the tree.
    #[must_use]
    pub fn sequences(&self) -> &Sequences {
        &self.sequences
    }

    /// Returns a player's plans, in the order of the strategic game's actions.
    ///
    /// # Panics
    /// If there is no such player.
    #[must_use]
    pub fn plans(&self, player: usize) -> &[Plan] {
        &self.plans[player]
    }

    /// Returns the behaviour strategy that leads to each end as often as a mixture of plans does: a probability for each
    /// action of each information set, in the order of [`Sequences::decisions`].
    ///
    /// At sets that the mixture's own choices exclude, all actions have the same probability.
    ///
    /// # Panics
    /// If there is no such player, or not one weight for each of its plans.
    #[must_use]
    pub fn behaviour(&self, player: usize, weights: &[Rational]) -> Vec<Rational> {
        let plans = &self.plans[player];
        assert_eq!(weights.len(), plans.len(), "one weight for each plan");
        let weight_of = |is_counted: &dyn Fn(&Plan) -> bool| -> Rational {
            let pairs = plans.iter().zip(weights);
            pairs
                .filter(|(plan, _)| is_counted(plan))
                .map(|(_, weight)| weight)
                .sum()
        };
        let mut behaviour = vec![];
        for (set, decision) in self.sequences.decisions(player).iter().enumerate() {
            let reached = weight_of(&|plan| plan[set].is_some());
            for action in 0..decision.n_actions {
                behaviour.push(if reached.is_zero() {
                    Rational::new(1.into(), decision.n_actions.into())
                } else {
                    weight_of(&|plan| plan[set] == Some(action)) / &reached
                });
            }
        }
        behaviour
    }
}

/// Returns the number of a player's reduced plans: at each set the sum over actions, behind each action the product over
/// the sets that follow.
fn n_plans(sequences: &Sequences, player: usize) -> u128 {
    let mut after = vec![1_u128; sequences.n_sequences(player)];
    for decision in sequences.decisions(player).iter().rev() {
        let actions = decision.actions().map(|place| after[place + 1]);
        let here = actions.fold(0, u128::saturating_add);
        let before = &mut after[decision.parent as usize];
        *before = before.saturating_mul(here);
    }
    after[0]
}

/// Returns a player's reduced plans, in the order of their actions at the first set, then the next.
fn reduced_plans(decisions: &[Decision]) -> Vec<Plan> {
    let mut plans: Vec<Plan> = vec![vec![]];
    for decision in decisions {
        let longer = plans.into_iter().flat_map(|plan| {
            let leads_here = decision.parent == 0 || has_chosen(decisions, &plan, decision.parent);
            let n_choices = if leads_here { decision.n_actions } else { 1 };
            (0..n_choices).map(move |action| {
                let mut plan = plan.clone();
                plan.push(leads_here.then_some(action));
                plan
            })
        });
        plans = longer.collect();
    }
    plans
}

/// Returns whether a plan, which may be cut short, takes the action that a sequence ends with.
fn has_chosen(decisions: &[Decision], plan: &Plan, sequence: u32) -> bool {
    let takes = |(decision, action): (&Decision, &Option<u32>)| {
        action.is_some_and(|action| decision.first + action == sequence)
    };
    decisions.iter().zip(plan).any(takes)
}

fn check_limit(what: &'static str, needed: u128, limit: usize) -> Result<()> {
    if needed <= limit as u128 {
        return Ok(());
    }
    Err(Error::TooLarge {
        operation: OPERATION,
        what,
        needed,
        limit: limit as u128,
    })
}

/// Returns each player's expected payoffs in all cells.
fn payoffs(sequences: &Sequences, plans: &[Vec<Plan>]) -> Result<Vec<ArrayD<Rational>>> {
    let n_players = plans.len();
    let shape: Vec<usize> = plans.iter().map(Vec::len).collect();
    // The plans of each player that lead to each of its sequences.
    let leading = |player: usize| -> Vec<Vec<usize>> {
        let decisions = sequences.decisions(player);
        let all = 0..sequences.n_sequences(player);
        all.map(|sequence| {
            let sequence = u32::try_from(sequence).expect("a tree has fewer than 2^27 nodes");
            let leads = |&plan: &usize| {
                sequence == 0 || has_chosen(decisions, &plans[player][plan], sequence)
            };
            (0..plans[player].len()).filter(leads).collect()
        })
        .collect()
    };
    let leading: Vec<_> = (0..n_players).map(leading).collect();
    let mut payoffs = vec![ArrayD::from_elem(IxDyn(&shape), Rational::zero()); n_players];
    let mut n_terms: usize = 0;
    for (at, leaf) in sequences.leaves().iter().enumerate() {
        let ends = sequences.leaf_sequences(at).iter().zip(&leading);
        let own: Vec<&Vec<usize>> = ends.map(|(&end, leading)| &leading[end as usize]).collect();
        let n_here: usize = own.iter().map(|plans| plans.len()).product();
        n_terms = n_terms.saturating_add(n_here * n_players);
        check_limit("number of additions", n_terms as u128, MAX_TERMS)?;
        let reach = sequences.exact_reach(leaf.reach);
        let outcome = &sequences.outcomes()[leaf.outcome as usize];
        for (payoffs, payoff) in payoffs.iter_mut().zip(outcome) {
            let worth = &reach * payoff;
            for number in 0..n_here {
                *payoffs
                    .get_mut(&cell(&own, number)[..])
                    .expect("plans are within the shape") += &worth;
            }
        }
    }
    Ok(payoffs)
}

/// Returns the cell of one combination of plans, by its number.
fn cell(plans: &[&Vec<usize>], number: usize) -> Vec<usize> {
    let mut rest = number;
    plans
        .iter()
        .map(|plans| {
            let plan = plans[rest % plans.len()];
            rest /= plans.len();
            plan
        })
        .collect()
}

/// Returns a name for each plan: its actions' names, with `*` where earlier actions exclude the set.
fn plan_names(tree: &Tree, sequences: &Sequences, plans: &[Vec<Plan>]) -> Vec<Vec<String>> {
    let name = |player: usize, plan: &Plan| {
        let choices = sequences
            .decisions(player)
            .iter()
            .zip(plan)
            .map(|(decision, action)| {
                let names = &tree.information_sets()[decision.set as usize].actions;
                match action {
                    Some(action) if names[*action as usize].is_empty() => (action + 1).to_string(),
                    Some(action) => names[*action as usize].clone(),
                    None => "*".to_owned(),
                }
            });
        choices.collect::<Vec<_>>().join(" ")
    };
    let players = plans.iter().enumerate();
    players
        .map(|(player, plans)| plans.iter().map(|plan| name(player, plan)).collect())
        .collect()
}
