//! The reduced strategic form of a tree.
//!
//! Role: makes the solvers of strategic games, such as [`crate::exact::all_equilibria`], usable for
//! small trees.
//! Method: a plan of a player fixes an action at each information set that the plan itself does not
//! exclude; plans that differ only at excluded sets are the same plan. A cell of the strategic form
//! has the expected payoffs of its plans, over chance.
//! Limits: perfect recall; the number of plans grows exponentially with that of information sets.
//! Source: Kuhn 1953, "Extensive games and the problem of information"; Myerson 1991, "Game theory:
//! analysis of conflict", section 2.3.

use super::sequences::Count;
use super::{Leaf, Sequences, Tree};
use crate::number::{OVERHEAD_WORDS, words, words_of_gcd};
use crate::{Error, Labels, NormalForm, Rational, Result};
use ndarray::{ArrayD, IxDyn};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Zero};
use std::ops::Range;

const OPERATION: &str = StrategicForm::OPERATION;
/// Largest number of cells of a strategic form.
const MAX_CELLS: usize = 1 << 16;
/// Largest number of additions of payoffs, for all players together.
const MAX_ADDITIONS: usize = 1 << 24;
/// Largest product of a player's number of plans and its number of information sets.
const MAX_CHOICES: usize = 1 << 24;
/// Largest number of bits of the numerator or the denominator of a payoff, and of the common
/// denominator of a player's payoffs.
const MAX_BITS: u64 = 1 << 16;
/// Largest number of bits of a player's payoffs in all cells together.
const MAX_BITS_OF_ALL: u64 = 1 << 26;

/// A plan: the action at each of a player's information sets, in the order of
/// [`Sequences::decisions`]; `None` where earlier actions of the plan exclude the set.
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
/// builder.terminal(&[-1, -1])?;
/// builder.terminal(&[2, 1])?;
/// builder.terminal(&[0, 2])?;
/// let form = StrategicForm::new(&builder.finish()?)?;
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
    /// The name of the operation in errors.
    pub(crate) const OPERATION: &'static str = "extensive::StrategicForm";

    /// Computes the reduced strategic form of a tree with any number of players.
    ///
    /// Cost: one addition of integers for each player, end, and cell that leads to the end.
    /// [`Prover::strategic_form`](crate::exact::Prover::strategic_form) adds a deadline.
    ///
    /// # Errors
    /// [`Error::TreeInvalid`] if a player lacks perfect recall; [`Error::TooLarge`] above 2^16
    /// cells, 2^24 additions, 2^24 choices in a player's plans or 256 chance moves on a path. Also
    /// if an end's payoff times its probability, or the common denominator of these products, needs
    /// more than 2^16 bits, or more than 2^26 bits divided by the number of cells.
    pub fn new(tree: &Tree) -> Result<Self> {
        Self::counted(tree, &|_| Ok(()))
    }

    /// Computes the reduced strategic form, and reports the work to `count`; an error of `count`
    /// ends the computation.
    pub(crate) fn counted(tree: &Tree, count: &Count<'_>) -> Result<Self> {
        count(0)?;
        let sequences = Sequences::counted(tree, count)?;
        let players = 0..tree.n_players();
        check_size(&sequences, players.clone())?;
        let plans = players.clone();
        let plans = plans.map(|player| reduced_plans(&sequences, player, count));
        let plans = plans.collect::<Result<Vec<Vec<Plan>>>>()?;
        let ends = Ends::new(&sequences, &plans, count)?;
        let payoffs = players.map(|player| ends.payoffs(player));
        let payoffs = payoffs.collect::<Result<Vec<_>>>()?;
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

    /// Returns the behaviour strategy that leads to each leaf with the same probability as a
    /// mixture of plans: a probability for each action of each information set, in the order of
    /// [`Sequences::decisions`].
    ///
    /// At sets that the mixture's own choices exclude, all actions have the same probability.
    ///
    /// # Panics
    /// If there is no such player, not one weight for each of its plans, or a weight whose
    /// denominator is 0.
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

/// Returns the number of a player's reduced plans.
///
/// The number after a sequence is the product over the sets directly after the sequence; the number
/// at a set is the sum over its actions.
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

/// The information set and the action that a sequence ends with; `None` for the empty sequence.
type LastChoice = Option<(usize, u32)>;

/// Returns the last choice of each of a player's sequences.
fn last_choices(sequences: &Sequences, player: usize) -> Vec<LastChoice> {
    let mut choices = vec![None; sequences.n_sequences(player)];
    for (set, decision) in sequences.decisions(player).iter().enumerate() {
        for action in 0..decision.n_actions {
            choices[(decision.first + action) as usize] = Some((set, action));
        }
    }
    choices
}

/// Returns whether a plan, which may have no entries yet for later sets, takes the action that a
/// sequence ends with.
fn takes(plan: &Plan, sequence: LastChoice) -> bool {
    sequence.is_none_or(|(set, action)| plan[set] == Some(action))
}

/// Returns a player's reduced plans, in the order of their actions at the first set, then the next.
fn reduced_plans(sequences: &Sequences, player: usize, count: &Count<'_>) -> Result<Vec<Plan>> {
    let choices = last_choices(sequences, player);
    let mut plans: Vec<Plan> = vec![vec![]];
    for decision in sequences.decisions(player) {
        let mut longer = Vec::with_capacity(plans.len());
        // A plan that does not lead to the set is extended once, by `None`; this is the reduction.
        for plan in plans {
            let leads_here = takes(&plan, choices[decision.parent as usize]);
            let n_choices = if leads_here { decision.n_actions } else { 1 };
            for action in 0..n_choices {
                count(OVERHEAD_WORDS + plan.len())?;
                let choice = leads_here.then_some(action);
                longer.push(plan.iter().copied().chain([choice]).collect());
            }
        }
        plans = longer;
    }
    Ok(plans)
}

/// Checks the numbers of chance moves, cells and choices in plans before any plan is created.
fn check_size(sequences: &Sequences, players: Range<usize>) -> Result<()> {
    sequences.check_chance_moves(OPERATION)?;
    let n_cells = players.clone().fold(1, |product: u128, player| {
        product.saturating_mul(n_plans(sequences, player))
    });
    check_limit("number of cells", n_cells, MAX_CELLS)?;
    for player in players {
        let n_sets = sequences.decisions(player).len() as u128;
        let n_choices = n_plans(sequences, player).saturating_mul(n_sets);
        check_limit("number of choices in plans", n_choices, MAX_CHOICES)?;
    }
    Ok(())
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

/// Returns the largest number of bits of a payoff and of the common denominator in a game of
/// `n_cells` cells.
fn max_bits(n_cells: usize) -> u64 {
    MAX_BITS.min(MAX_BITS_OF_ALL / n_cells.max(1) as u64)
}

/// The terminal nodes of a tree, and the plans that lead to these nodes.
struct Ends<'a> {
    sequences: &'a Sequences,
    shape: Vec<usize>,
    /// For each player and each of its sequences, the plans that lead to the sequence.
    leading: Vec<Vec<Vec<usize>>>,
    count: &'a Count<'a>,
}

impl<'a> Ends<'a> {
    fn new(sequences: &'a Sequences, plans: &[Vec<Plan>], count: &'a Count<'a>) -> Result<Self> {
        let mut leading = vec![];
        for (player, plans) in plans.iter().enumerate() {
            let of_sequence = |sequence: &LastChoice| {
                count(plans.len())?;
                let leads = |&plan: &usize| takes(&plans[plan], *sequence);
                Ok((0..plans.len()).filter(leads).collect())
            };
            let sequences = last_choices(sequences, player);
            let of_player: Result<Vec<Vec<usize>>> = sequences.iter().map(of_sequence).collect();
            leading.push(of_player?);
        }
        let shape = plans.iter().map(Vec::len).collect();
        let ends = Self {
            sequences,
            shape,
            leading,
            count,
        };
        let n_cells = (0..sequences.leaves().len()).map(|leaf| ends.n_cells(leaf) as u128);
        let n_additions = n_cells.sum::<u128>() * plans.len() as u128;
        check_limit("number of additions", n_additions, MAX_ADDITIONS)?;
        Ok(ends)
    }

    /// Returns each player's plans that lead to a leaf.
    fn plans(&self, leaf: usize) -> Vec<&[usize]> {
        let own = self.sequences.leaf_sequences(leaf).iter();
        let own = own.zip(&self.leading);
        own.map(|(&sequence, leading)| &leading[sequence as usize][..])
            .collect()
    }

    /// Returns the number of cells that lead to a leaf.
    fn n_cells(&self, leaf: usize) -> usize {
        self.plans(leaf).iter().map(|plans| plans.len()).product()
    }

    /// Returns a player's expected payoffs in all cells.
    ///
    /// Sums are integers over one denominator: reducing fractions to lowest terms after each
    /// addition would cost more than the rest of the computation.
    fn payoffs(&self, player: usize) -> Result<ArrayD<Rational>> {
        let (values, common) = self.values(player)?;
        let mut sums = vec![BigInt::ZERO; self.shape.iter().product()];
        let n_words = words(common.bits());
        for (leaf, value) in values.iter().enumerate() {
            let plans = self.plans(leaf);
            for number in 0..self.n_cells(leaf) {
                (self.count)(OVERHEAD_WORDS + n_words)?;
                sums[place(&plans, &self.shape, number)] += value;
            }
        }
        let fraction = |sum| {
            (self.count)(words_of_gcd(common.bits()))?;
            Ok(Rational::new(sum, common.clone()))
        };
        let fractions: Result<Vec<Rational>> = sums.into_iter().map(fraction).collect();
        let array = ArrayD::from_shape_vec(IxDyn(&self.shape), fractions?);
        Ok(array.expect("there is a sum for each cell"))
    }

    /// Returns the common denominator and, for each leaf, the numerator of the player's payoff
    /// times the probability that chance leads to the leaf.
    fn values(&self, player: usize) -> Result<(Vec<BigInt>, BigInt)> {
        let limit = max_bits(self.shape.iter().product());
        let (mut values, mut common) = (vec![], BigInt::one());
        for Leaf { reach, outcome } in self.sequences.leaves() {
            let payoff = &self.sequences.outcomes()[*outcome as usize][player];
            // The limit is checked after every fraction, so that the denominator cannot grow
            // without bound.
            let value = self.sequences.exact_reach(*reach) * payoff;
            let bits = value.numer().bits().max(value.denom().bits());
            (self.count)(words_of_gcd(common.bits().max(bits)))?;
            common = common.lcm(value.denom());
            let needed = common.bits().max(bits);
            if needed > limit {
                return Err(Error::TooLarge {
                    operation: OPERATION,
                    what: "number of bits of a payoff or of the common denominator",
                    needed: needed.into(),
                    limit: limit.into(),
                });
            }
            values.push(value);
        }
        let integer = |value: Rational| {
            (self.count)(OVERHEAD_WORDS + words(common.bits()).pow(2))?;
            Ok(value.numer() * (&common / value.denom()))
        };
        let integers: Result<Vec<BigInt>> = values.into_iter().map(integer).collect();
        Ok((integers?, common))
    }
}

/// Returns the row-major index of the cell of combination `number` of the given plans.
fn place(plans: &[&[usize]], shape: &[usize], number: usize) -> usize {
    // The digits of `number` in the mixed radix of the plans' counts choose one plan per player.
    let mut rest = number;
    plans.iter().zip(shape).fold(0, |place, (plans, side)| {
        let plan = plans[rest % plans.len()];
        rest /= plans.len();
        place * side + plan
    })
}

/// Returns a name for each plan: its actions' names, with `*` where earlier actions exclude the
/// set.
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
