//! Leduc hold'em.

use super::{ExtensiveGame, Turn};

/// Poker with six cards, one for each player and one for the table.
///
/// Each player pays an ante of 1. There are two rounds of betting with at most two raises each, of
/// 2 in the first round and of 4 in the second; the table's card is shown in between. A pair with
/// the table's card wins, else the higher card; equal ranks share the pot. Number of terminal
/// nodes: 30 deals times 4 folds in the first round, and 120 deals times 5 ways to get there times
/// 9 ways to end in the second.
///
/// Value for the first player: -0.0856064240780.
///
/// # Source
/// Southey et al. 2005, "Bayes' bluff: opponent modelling in poker".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leduc {
    suits: bool,
}

/// Number of ranks in the deck; each rank has two suits.
const N_RANKS: usize = 3;
const N_SUITS: usize = 2;
/// Largest number of raises in a round.
const MAX_RAISES: usize = 2;
/// Size of a raise in each round.
const RAISES: [f64; 2] = [2.0, 4.0];

/// An action of a player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Fold,
    Call,
    Raise,
}

/// A state of the game.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeducState {
    cards: Vec<usize>,
    rounds: [Vec<Act>; 2],
}

impl Leduc {
    /// Returns the game in which players distinguish suits: 936 information sets.
    #[must_use]
    pub fn new() -> Self {
        Self { suits: true }
    }

    /// Returns the strategically equivalent game in which players see ranks only: 288 information
    /// sets.
    #[must_use]
    pub fn isomorphic() -> Self {
        Self { suits: false }
    }

    /// Returns the multiplicity in the deck of each card that can be dealt next.
    fn weights(self, dealt: &[usize]) -> Vec<f64> {
        let copies = if self.suits { 1 } else { N_SUITS };
        let left = |card| copies - dealt.iter().filter(|&&other| other == card).count();
        let n_cards = N_RANKS * N_SUITS / copies;
        (0..n_cards).map(|card| left(card) as f64).collect()
    }

    /// Returns the cards that can be dealt next.
    fn deck(self, dealt: &[usize]) -> Vec<usize> {
        let weights = self.weights(dealt);
        (0..weights.len())
            .filter(|&card| weights[card] > 0.0)
            .collect()
    }

    fn rank(self, card: usize) -> usize {
        if self.suits { card / N_SUITS } else { card }
    }

    fn showdown(self, cards: &[usize], stake: f64) -> Turn {
        let table = self.rank(cards[2]);
        // A pair beats every single rank.
        let strength = |card| {
            let rank = self.rank(card);
            if rank == table { N_RANKS } else { rank }
        };
        let gain = match strength(cards[0]).cmp(&strength(cards[1])) {
            std::cmp::Ordering::Less => -stake,
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => stake,
        };
        Turn::Terminal(vec![gain, -gain])
    }
}

impl Default for Leduc {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the legal actions after these acts of a round; empty if the round is over.
fn acts(round: &[Act]) -> Vec<Act> {
    let over = round.contains(&Act::Fold) || (round.len() >= 2 && round.last() == Some(&Act::Call));
    if over {
        return vec![];
    }
    let n_raises = round.iter().filter(|&&act| act == Act::Raise).count();
    let mut acts = vec![];
    if n_raises > 0 {
        acts.push(Act::Fold);
    }
    acts.push(Act::Call);
    if n_raises < MAX_RAISES {
        acts.push(Act::Raise);
    }
    acts
}

/// Returns each player's contribution to the pot.
fn stakes(rounds: &[Vec<Act>; 2]) -> [f64; 2] {
    let mut stakes = [1.0; 2];
    for (round, raise) in rounds.iter().zip(RAISES) {
        for (at, act) in round.iter().enumerate() {
            let (player, other) = (at % 2, 1 - at % 2);
            match act {
                Act::Fold => {}
                Act::Call => stakes[player] = stakes[other],
                Act::Raise => stakes[player] = stakes[other] + raise,
            }
        }
    }
    stakes
}

impl LeducState {
    /// Returns the index of the current round.
    fn round(&self) -> usize {
        usize::from(self.cards.len() == 3)
    }
}

impl ExtensiveGame for Leduc {
    type State = LeducState;

    fn title(&self) -> String {
        "Leduc hold'em".into()
    }

    fn root(&self) -> LeducState {
        LeducState::default()
    }

    fn turn(&self, state: &LeducState) -> Turn {
        let chance = || {
            let weights = self.weights(&state.cards);
            Turn::Chance(weights.into_iter().filter(|&weight| weight > 0.0).collect())
        };
        if state.cards.len() < 2 {
            return chance();
        }
        let round = &state.rounds[state.round()];
        let stakes = stakes(&state.rounds);
        if round.last() == Some(&Act::Fold) {
            let folder = (round.len() - 1) % 2;
            let gain = if folder == 0 { -stakes[0] } else { stakes[1] };
            return Turn::Terminal(vec![gain, -gain]);
        }
        let acts = acts(round);
        if acts.is_empty() {
            return if state.round() == 0 {
                chance()
            } else {
                self.showdown(&state.cards, stakes[0])
            };
        }
        let player = round.len() % 2;
        let shown = &state.cards[2..];
        Turn::Player {
            player,
            information: format!("{} {shown:?} {:?}", state.cards[player], state.rounds),
            n_actions: acts.len(),
        }
    }

    fn play(&self, state: &LeducState, action: usize) -> LeducState {
        let mut next = state.clone();
        let acts = if state.cards.len() < 2 {
            vec![]
        } else {
            acts(&state.rounds[state.round()])
        };
        match acts.get(action) {
            Some(&act) => next.rounds[state.round()].push(act),
            None => next.cards.push(self.deck(&state.cards)[action]),
        }
        next
    }

    fn action_name(&self, state: &LeducState, action: usize) -> String {
        let next = self.play(state, action);
        if next.cards.len() > state.cards.len() {
            return next.cards[state.cards.len()].to_string();
        }
        match next.rounds[state.round()].last() {
            Some(Act::Fold) => "fold".into(),
            Some(Act::Call) => "call".into(),
            Some(Act::Raise) | None => "raise".into(),
        }
    }
}
