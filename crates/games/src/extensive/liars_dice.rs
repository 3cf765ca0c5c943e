//! Liar's dice.

use super::{ExtensiveGame, Turn};
use crate::{Error, Result};

/// Liar's dice for two players.
///
/// Each player rolls its dice in secret. In turn the players bid a quantity and a face, claiming
/// that at least this many of all dice show the face. Each bid must be higher than the last: a
/// larger quantity, or the same quantity of a higher face. The highest face is wild: it counts as
/// every other face. Instead of bidding, a player may call the last bidder a liar. Then all dice
/// are shown, and the player who was right gains 1.
///
/// With one die of `n` faces for each player there are `2n` bids, `n 2^(2n)` information sets and
/// `n² (2^(2n) - 1)` ends. Values for the first player: 1/9 for three faces, 1/16 for four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiarsDice {
    n_faces: usize,
    n_dice: usize,
}

/// A state of the game.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiarsDiceState {
    /// The faces that each player rolled, in ascending order.
    rolls: Vec<Vec<usize>>,
    /// The bids made, each `quantity * n_faces + face`, counted from 0.
    bids: Vec<usize>,
    called: bool,
}

/// Largest number of bids; a game has `2^n` bid histories for `n` bids.
const MAX_BIDS: usize = 24;

impl LiarsDice {
    /// Creates the game with these numbers of faces and of dice for each player.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] if a number is 0; [`Error::TooLarge`] above 24 bids.
    pub fn new(n_faces: usize, n_dice: usize) -> Result<Self> {
        const OPERATION: &str = "LiarsDice::new";
        for (parameter, value) in [("n_faces", n_faces), ("n_dice", n_dice)] {
            if value == 0 {
                return Err(Error::ParameterInvalid {
                    operation: OPERATION,
                    parameter,
                    value: 0.0,
                    must: "at least 1",
                });
            }
        }
        let needed = 2 * n_faces as u128 * n_dice as u128;
        if needed > MAX_BIDS as u128 {
            return Err(Error::TooLarge {
                operation: OPERATION,
                what: "number of bids",
                needed,
                limit: MAX_BIDS as u128,
            });
        }
        Ok(Self { n_faces, n_dice })
    }

    fn n_bids(self) -> usize {
        2 * self.n_faces * self.n_dice
    }

    /// Returns all rolls of one player, and how many of the equally likely throws produce each
    /// roll.
    fn rolls(self) -> (Vec<Vec<usize>>, Vec<f64>) {
        let mut rolls: Vec<Vec<usize>> = vec![];
        let mut counts: Vec<f64> = vec![];
        let places: Vec<usize> = (0..self.n_dice)
            .scan(1, |place, _| {
                Some(std::mem::replace(place, *place * self.n_faces))
            })
            .collect();
        let n_throws = places.iter().fold(1, |n_throws, _| n_throws * self.n_faces);
        for throw in 0..n_throws {
            let mut roll: Vec<usize> = places
                .iter()
                .map(|place| throw / place % self.n_faces)
                .collect();
            roll.sort_unstable();
            match rolls.iter().position(|known| *known == roll) {
                Some(at) => counts[at] += 1.0,
                None => {
                    rolls.push(roll);
                    counts.push(1.0);
                }
            }
        }
        (rolls, counts)
    }

    fn is_true(self, bid: usize, rolls: &[Vec<usize>]) -> bool {
        let (quantity, face) = (bid / self.n_faces + 1, bid % self.n_faces);
        let wild = self.n_faces - 1;
        let dice = rolls.iter().flatten();
        dice.filter(|&&shown| shown == face || shown == wild)
            .count()
            >= quantity
    }
}

impl ExtensiveGame for LiarsDice {
    type State = LiarsDiceState;

    fn title(&self) -> String {
        format!(
            "Liar's dice, {} faces, {} dice each",
            self.n_faces, self.n_dice
        )
    }

    fn root(&self) -> LiarsDiceState {
        LiarsDiceState {
            rolls: vec![],
            bids: vec![],
            called: false,
        }
    }

    fn turn(&self, state: &LiarsDiceState) -> Turn {
        if state.rolls.len() < 2 {
            return Turn::Chance(self.rolls().1);
        }
        let player = state.bids.len() % 2;
        let last = state.bids.last();
        if let (true, Some(&bid)) = (state.called, last) {
            // The player to move has called; the opponent made the bid.
            let caller_wins = !self.is_true(bid, &state.rolls);
            let gain = if (player == 0) == caller_wins {
                1.0
            } else {
                -1.0
            };
            return Turn::Terminal(vec![gain, -gain]);
        }
        let n_higher = self.n_bids() - last.map_or(0, |bid| bid + 1);
        Turn::Player {
            player,
            information: format!("{:?} {:?}", state.rolls[player], state.bids),
            n_actions: n_higher + usize::from(last.is_some()),
        }
    }

    fn play(&self, state: &LiarsDiceState, action: usize) -> LiarsDiceState {
        let mut next = state.clone();
        if state.rolls.len() < 2 {
            next.rolls.push(self.rolls().0.swap_remove(action));
            return next;
        }
        let bid = state.bids.last().map_or(0, |bid| bid + 1) + action;
        if bid < self.n_bids() {
            next.bids.push(bid);
        } else {
            next.called = true;
        }
        next
    }

    fn action_name(&self, state: &LiarsDiceState, action: usize) -> String {
        let next = self.play(state, action);
        if let Some(roll) = next.rolls.get(state.rolls.len()) {
            let faces: Vec<String> = roll.iter().map(|face| (face + 1).to_string()).collect();
            return faces.join("");
        }
        if next.called {
            return "liar".into();
        }
        let bid = state.bids.len();
        let bid = next.bids[bid];
        format!("{}x{}", bid / self.n_faces + 1, bid % self.n_faces + 1)
    }
}
