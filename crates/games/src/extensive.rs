//! Games with moves in turn, chance and hidden information.
//!
//! Role: defines games by rules ([`ExtensiveGame`]), the forms that they are converted to
//! ([`Tree`], then [`Sequences`]), and three standard benchmark games. The conversion traverses a
//! game once; solvers use only the converted forms.

mod compiled;
mod kuhn;
mod leduc;
mod liars_dice;
mod sampling;
mod sequences;
mod strategic_form;
mod tree;

pub use compiled::CompiledGame;
pub use kuhn::Kuhn;
pub use leduc::{Leduc, LeducState};
pub use liars_dice::{LiarsDice, LiarsDiceState};
pub use sampling::{Mccfr, Sampling};
pub(crate) use sequences::Count;
pub use sequences::{Decision, Leaf, Sequences};
pub use strategic_form::{Plan, StrategicForm};
pub use tree::{Chance, InformationSet, Node, Tree, TreeBuilder};

/// The next event in a state of a game.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// Chance moves, with one nonnegative weight for each outcome. Weights need not sum to 1.
    Chance(Vec<f64>),
    /// A player chooses an action.
    Player {
        /// Index of the player to move, from 0.
        player: usize,
        /// The player's complete information. States with equal texts belong to the same
        /// information set, and must have the same actions.
        information: String,
        /// Number of actions, at least 1.
        n_actions: usize,
    },
    /// The game is over, with one payoff for each player.
    Terminal(Vec<f64>),
}

/// A game with moves in turn, defined by its rules.
///
/// A game must end, and every player must remember what it knew and did (perfect recall).
///
/// # Examples
/// A game of one's own: a coin that only the first player sees, and a guess.
/// ```
/// use games::extensive::{ExtensiveGame, Tree, Turn};
///
/// struct Coin;
///
/// impl ExtensiveGame for Coin {
///     type State = Vec<usize>;
///
///     fn title(&self) -> String {
///         "coin".into()
///     }
///
///     fn root(&self) -> Vec<usize> {
///         vec![]
///     }
///
///     fn turn(&self, moves: &Vec<usize>) -> Turn {
///         let player = |player, information| Turn::Player { player, information, n_actions: 2 };
///         match moves[..] {
///             [] => Turn::Chance(vec![1.0, 1.0]),
///             [coin] => player(0, format!("I see {coin}")),
///             [_, said] => player(1, format!("I hear {said}")),
///             [coin, _, guess] if coin == guess => Turn::Terminal(vec![-1.0, 1.0]),
///             [_, _, _] => Turn::Terminal(vec![1.0, -1.0]),
///             _ => unreachable!("the game is over after three moves"),
///         }
///     }
///
///     fn play(&self, moves: &Vec<usize>, action: usize) -> Vec<usize> {
///         [&moves[..], &[action]].concat()
///     }
/// }
///
/// let tree = Tree::from_game(&Coin)?;
/// assert_eq!(tree.information_sets().len(), 4);
/// # Ok::<(), games::Error>(())
/// ```
pub trait ExtensiveGame {
    /// A state of the game.
    type State;

    /// Returns the game's title.
    fn title(&self) -> String;

    /// Returns the number of players; 2 by default.
    fn n_players(&self) -> usize {
        2
    }

    /// Returns the state in which the game starts.
    fn root(&self) -> Self::State;

    /// Returns whose turn it is, or the payoffs if the game is over.
    fn turn(&self, state: &Self::State) -> Turn;

    /// Returns the state after an action or a chance outcome; both are numbered from 0.
    fn play(&self, state: &Self::State, action: usize) -> Self::State;

    /// Returns the name of an action or a chance outcome. The default is its number, counted from
    /// 1.
    fn action_name(&self, _state: &Self::State, action: usize) -> String {
        (action + 1).to_string()
    }
}
