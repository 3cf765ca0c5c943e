//! The answer of `solve`: facts, and a probability for each action.
//!
//! Role: the data type that `prove` and `learn` create and `print` writes.

use games::extensive::{Sequences, Tree};
use games::{Error, Labels, Rational};
use num_traits::{ToPrimitive as _, Zero as _};

/// The result of a proof or of learning.
pub(super) struct Answer {
    pub(super) title: String,
    pub(super) method: &'static str,
    pub(super) facts: Vec<Fact>,
    pub(super) rows: Vec<Row>,
    /// Why learning ended above its target, if it did.
    pub(super) shortfall: Option<String>,
}

/// The probability of one action in one equilibrium.
pub(super) struct Row {
    pub(super) equilibrium: usize,
    pub(super) action: Action,
    pub(super) probability: f64,
    pub(super) fraction: Option<Rational>,
}

/// An action: numbers and names of player, information set and action. Numbers count from 1; they
/// are needed because names may be equal.
#[derive(Clone)]
pub(super) struct Action {
    pub(super) numbers: [usize; 3],
    pub(super) names: [String; 3],
    /// Whether the player's own choices lead to the information set with positive probability.
    pub(super) is_reached: bool,
}

/// A property of an equilibrium or of the method.
pub(super) struct Fact {
    /// Number of the equilibrium, from 1; 0 for a fact about all equilibria.
    pub(super) equilibrium: usize,
    pub(super) name: &'static str,
    pub(super) value: FactValue,
}

/// The value of a [`Fact`].
pub(super) enum FactValue {
    Fractions(Vec<Rational>),
    Floats(Vec<f64>),
    Count(u64),
    Text(String),
}

/// Returns a hint on the option that changes the cause of an error, if there is one.
pub(super) fn hint(fault: &Error) -> &'static str {
    match fault {
        Error::DeadlineReached { .. } => " (`--time-limit SECONDS` sets the time)",
        _ => "",
    }
}

/// Returns the nearest float.
pub(super) fn float(fraction: &Rational) -> f64 {
    fraction.to_f64().unwrap_or(f64::NAN)
}

impl Answer {
    pub(super) fn new(title: &str, method: &'static str) -> Self {
        Self {
            title: title.to_owned(),
            method,
            facts: vec![],
            rows: vec![],
            shortfall: None,
        }
    }

    /// Returns whether the answer is proved or reaches its NashConv target.
    pub(super) fn is_reached(&self) -> bool {
        self.shortfall.is_none()
    }

    pub(super) fn push_fact(&mut self, equilibrium: usize, name: &'static str, value: FactValue) {
        self.facts.push(Fact {
            equilibrium,
            name,
            value,
        });
    }

    /// Adds a fact with the limit that ended a proof, if a limit ended it.
    pub(super) fn push_reason(&mut self, reason: Option<Error>) {
        let Some(reason) = reason else {
            return;
        };
        let hint = hint(&reason);
        self.push_fact(0, "reason", FactValue::Text(format!("{reason}{hint}")));
    }

    /// Adds the first player's value, and the payoffs of both players if their sum is not 0.
    pub(super) fn push_value(&mut self, value: &Rational, sum: &Rational) {
        self.push_fact(0, "value", FactValue::Fractions(vec![value.clone()]));
        if !sum.is_zero() {
            let payoffs = vec![value.clone(), sum - value];
            self.push_fact(0, "payoffs", FactValue::Fractions(payoffs));
        }
    }

    /// Adds a probability without a proof.
    pub(super) fn push(&mut self, equilibrium: usize, action: Action, probability: f64) {
        self.rows.push(Row {
            equilibrium,
            action,
            probability,
            fraction: None,
        });
    }

    /// Adds a probability with a proof.
    fn push_proved(&mut self, equilibrium: usize, action: Action, fraction: Rational) {
        self.push(equilibrium, action, float(&fraction));
        if let Some(row) = self.rows.last_mut() {
            row.fraction = Some(fraction);
        }
    }

    /// Adds an equilibrium of a strategic game.
    pub(super) fn push_strategic(
        &mut self,
        number: usize,
        labels: &Labels,
        strategies: &[Vec<Rational>],
    ) {
        for (player, strategy) in strategies.iter().enumerate() {
            for (action, fraction) in strategy.iter().enumerate() {
                let action = Action::strategic(labels, player, action);
                self.push_proved(number, action, fraction.clone());
            }
        }
    }

    /// Adds an equilibrium of a tree.
    pub(super) fn push_behaviour(
        &mut self,
        number: usize,
        tree: &Tree,
        form: &Sequences,
        strategies: &[Vec<Rational>],
    ) {
        for (player, strategy) in strategies.iter().enumerate() {
            let reached = reached(form, player, strategy);
            let actions = actions(tree, form, player).into_iter().zip(reached);
            for ((action, is_reached), fraction) in actions.zip(strategy) {
                let action = Action {
                    is_reached,
                    ..action
                };
                self.push_proved(number, action, fraction.clone());
            }
        }
    }
}

/// Returns the action that each probability of a player's strategy belongs to.
pub(super) fn actions(tree: &Tree, form: &Sequences, player: usize) -> Vec<Action> {
    let sets = tree.information_sets();
    // The number of each of the player's sets among the sets of this player.
    let mut n_own = 0;
    let numbers = sets.iter().map(|set| {
        n_own += usize::from(set.player == player);
        n_own
    });
    let numbers: Vec<usize> = numbers.collect();
    let mut actions = vec![];
    for decision in form.decisions(player) {
        let set = &sets[decision.set as usize];
        let number = numbers[decision.set as usize];
        for (action, name) in set.actions.iter().enumerate() {
            actions.push(Action {
                numbers: [player + 1, number, action + 1],
                names: [
                    tree.labels().player(player),
                    name_or_number(&set.name, number),
                    name_or_number(name, action + 1),
                ],
                is_reached: true,
            });
        }
    }
    actions
}

fn name_or_number(name: &str, number: usize) -> String {
    if name.is_empty() {
        number.to_string()
    } else {
        name.to_owned()
    }
}

/// Returns for each action of a player's strategy whether the player's own choices lead to the
/// action's information set.
fn reached(form: &Sequences, player: usize, strategy: &[Rational]) -> Vec<bool> {
    let mut is_taken = vec![true; form.n_sequences(player)];
    let mut reached = vec![false; strategy.len()];
    for decision in form.decisions(player) {
        let leads_here = is_taken[decision.parent as usize];
        for place in decision.actions() {
            reached[place] = leads_here;
            is_taken[place + 1] = leads_here && !strategy[place].is_zero();
        }
    }
    reached
}

impl Action {
    /// Returns an action of a strategic game, whose only information set has no name.
    pub(super) fn strategic(labels: &Labels, player: usize, action: usize) -> Self {
        Self {
            numbers: [player + 1, 1, action + 1],
            names: [
                labels.player(player),
                String::new(),
                labels.action(player, action),
            ],
            is_reached: true,
        }
    }
}
