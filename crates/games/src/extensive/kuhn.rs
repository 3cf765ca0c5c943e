//! Kuhn poker.

use super::{ExtensiveGame, Turn};

/// Poker with three cards, one for each player, an ante of 1 and at most one bet of 1.
///
/// Value for the first player: -1/18. Number of terminal nodes: 6 deals times 5 ways to bet.
///
/// # Source
/// Kuhn 1950, "A simplified two-person poker".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kuhn;

/// Number of cards in the deck.
const N_CARDS: usize = 3;

impl ExtensiveGame for Kuhn {
    /// The cards of both players, followed by their actions: 0 is pass, 1 is bet.
    type State = Vec<usize>;

    fn title(&self) -> String {
        "Kuhn poker".into()
    }

    fn root(&self) -> Vec<usize> {
        vec![]
    }

    fn turn(&self, moves: &Vec<usize>) -> Turn {
        let [first, second, bets @ ..] = &moves[..] else {
            return Turn::Chance(vec![1.0; N_CARDS - moves.len()]);
        };
        let cards = [*first, *second];
        let showdown = |stake: f64| {
            let gain = if cards[0] > cards[1] { stake } else { -stake };
            Turn::Terminal(vec![gain, -gain])
        };
        match bets {
            [0, 0] => showdown(1.0),
            [1, 0] => Turn::Terminal(vec![1.0, -1.0]),
            [0, 1, 0] => Turn::Terminal(vec![-1.0, 1.0]),
            [1, 1] | [0, 1, 1] => showdown(2.0),
            _ => {
                let player = bets.len() % 2;
                let said: String = bets
                    .iter()
                    .map(|&bet| if bet == 1 { 'b' } else { 'p' })
                    .collect();
                Turn::Player {
                    player,
                    information: format!("{}{said}", cards[player]),
                    n_actions: 2,
                }
            }
        }
    }

    fn play(&self, moves: &Vec<usize>, action: usize) -> Vec<usize> {
        // The second card is drawn from the two remaining cards.
        let move_ = match moves[..] {
            [first] if action >= first => action + 1,
            _ => action,
        };
        [&moves[..], &[move_]].concat()
    }

    fn action_name(&self, moves: &Vec<usize>, action: usize) -> String {
        match moves.len() {
            0 | 1 => self.play(moves, action)[moves.len()].to_string(),
            _ => ["pass", "bet"][action].into(),
        }
    }
}
