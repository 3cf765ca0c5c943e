//! NashConv in fractions, from its definition.

use games::extensive::Sequences;
use games::{Profile, Rational, StrategicGame};
use num_traits::{One, Zero};

/// Converts a finite float to a fraction of the same value.
pub(crate) fn exact(float: f64) -> Rational {
    Rational::from_float(float).unwrap()
}

/// Returns fractions of sum 1, in proportion to floats.
fn normalised(probabilities: &[f64]) -> Vec<Rational> {
    let total: Rational = probabilities.iter().map(|&p| exact(p)).sum();
    probabilities.iter().map(|&p| exact(p) / &total).collect()
}

/// Returns NashConv of a profile of a strategic game, cell by cell.
pub(crate) fn nash_conv_of_game(game: &impl StrategicGame, profile: &Profile) -> Rational {
    let shape = game.shape();
    let profile: Vec<Vec<Rational>> = profile
        .iter()
        .map(|strategy| normalised(strategy))
        .collect();
    let mut total = Rational::zero();
    for player in 0..shape.len() {
        let mut action_values = vec![Rational::zero(); shape[player]];
        let n_cells: usize = shape.iter().product();
        for at in 0..n_cells {
            let mut rest = at;
            let cell: Vec<usize> = shape
                .iter()
                .map(|&side| {
                    let index = rest % side;
                    rest /= side;
                    index
                })
                .collect();
            let others = (0..shape.len()).filter(|&other| other != player);
            let weight: Rational = others
                .map(|other| profile[other][cell[other]].clone())
                .product();
            action_values[cell[player]] += weight * game.payoff(player, &cell);
        }
        let pairs = action_values.iter().zip(&profile[player]);
        let value: Rational = pairs.map(|(action_value, p)| action_value * p).sum();
        total += action_values.iter().max().unwrap() - value;
    }
    total
}

/// Returns NashConv of a profile of a tree of two players, by its sequence form.
pub(crate) fn nash_conv_of_tree(form: &Sequences, profile: &Profile) -> Rational {
    let strategy = |player: usize| -> Vec<Rational> {
        let decisions = form.decisions(player).iter();
        decisions
            .flat_map(|decision| normalised(&profile[player][decision.actions()]))
            .collect()
    };
    let strategies = [strategy(0), strategy(1)];
    let plans = [0, 1].map(|player| {
        let mut plan = vec![Rational::one(); form.n_sequences(player)];
        for decision in form.decisions(player) {
            for place in decision.actions() {
                plan[place + 1] = &plan[decision.parent as usize] * &strategies[player][place];
            }
        }
        plan
    });
    let mut total = Rational::zero();
    for player in 0..2 {
        let mut action_values = vec![Rational::zero(); form.n_sequences(player)];
        let mut value = Rational::zero();
        for (at, leaf) in form.leaves().iter().enumerate() {
            let sequences = form.leaf_sequences(at);
            let (own, other) = (sequences[player] as usize, sequences[1 - player] as usize);
            let payoff = &form.outcomes()[leaf.outcome as usize][player];
            let action_value = form.exact_reach(leaf.reach) * payoff * &plans[1 - player][other];
            value += &action_value * &plans[player][own];
            action_values[own] += action_value;
        }
        for decision in form.decisions(player).iter().rev() {
            let best = decision
                .actions()
                .map(|place| action_values[place + 1].clone())
                .max()
                .unwrap();
            action_values[decision.parent as usize] += best;
        }
        total += &action_values[0] - value;
    }
    total
}
