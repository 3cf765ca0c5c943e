//! Solvers for equilibria of games: fast approximate learning, and exact solutions with a
//! certificate.
//!
//! Role: solves games from rock-paper-scissors to Liar's Dice and measures how far a strategy is
//! from an equilibrium. The distance is always computed by a best response that is independent of
//! the solver.
//!
//! | a game is | type | equilibrium by learning | with a proof |
//! |---|---|---|---|
//! | two players, constant sum, one choice each | [`MatrixGame`] | [`solve`] | [`exact`](fn@exact) |
//! | two players, one choice each | [`Bimatrix`] | [`solve`] | [`exact::all_equilibria`], [`exact::lemke_howson`] |
//! | any number of players, one choice each | [`NormalForm`] | [`solve`] | [`exact::correlated_equilibrium`] |
//! | moves in turn, chance, hidden information | [`extensive::Tree`], compiled [`extensive::CompiledGame`] | [`solve`], [`extensive::Mccfr`] | [`exact`](fn@exact), [`exact::sequence_form_lp`]; small trees of any sum by [`extensive::StrategicForm`] |
//! | many small zero-sum games | [`Batch`] | [`Batch::solve`] | |
//!
//! # Learning
//! [`SolverConfig`] configures a learning run: a rule, an order of updates and an averaging scheme.
//! In an extensive game the rule runs in every information set on counterfactual regrets. The
//! combinations known from the literature are:
//!
//! | name | constructor | updates | average |
//! |---|---|---|---|
//! | CFR | [`SolverConfig::regret_matching`] | alternating | uniform |
//! | CFR+ | [`SolverConfig::regret_matching_plus`] | alternating | weight `t` |
//! | LCFR | [`SolverConfig::linear`] | alternating | weight `t` |
//! | DCFR | [`SolverConfig::discounted`]`(1.5, 0.0, 2.0)` | alternating | weight `t²` |
//! | PCFR+ | [`SolverConfig::predictive_regret_matching_plus`], the default | alternating | weight `t²` |
//!
//! Alternating updates: in iteration `t` player 0 learns and updates, then player 1 learns against
//! the updated player 0. Each average adds the strategy that was played (before the update),
//! weighted by the player's own reach, as in OpenSpiel's C++ solvers. Simultaneous updates
//! ([`Updates::Simultaneous`]): both players learn against the same pair of strategies.
//!
//! # Error measures
//! NashConv ([`nash_conv`]) is the sum over players of the gain from a best response.
//! Exploitability ([`exploitability`]) is NashConv divided by the number of players. In a zero-sum
//! game the value of a profile is within NashConv of the game's value.
//!
//! NashConv comes with a bound on its own rounding error ([`Solution::rounding`]). A target counts
//! as reached only if the sum of both is at most the target. A constant in a player's payoffs does
//! not change NashConv beyond rounding; the bound may grow with the constant.
//!
//! The average regrets `(max R₁ + max R₂) / N` of a zero-sum matrix game equal NashConv if updates
//! are simultaneous, the average is uniform, and sums of regrets are neither clipped nor discounted
//! ([`Solution::regret_nash_conv`]). In all other cases they differ from NashConv and are not
//! reported.
//!
//! Proofs have no time limit by default; [`exact::Prover`] adds a deadline and cancellation.
//!
//! # Source
//! Zinkevich, Johanson, Bowling and Piccione 2007, "Regret minimization in games with incomplete
//! information". Each rule's constructor names the source of the rule.

mod batch;
mod centre;
mod config;
mod draw;
mod equality;
mod error;
pub mod exact;
pub mod extensive;
pub mod files;
mod game;
#[cfg(feature = "gpu")]
pub mod gpu;
mod number;
mod profile;
mod regret;
mod rounding;
mod rule;
mod run;
mod simd;
mod strategic;

pub use batch::{Batch, BatchSolution};
pub use config::{SolverConfig, StopConditions};
pub use error::{Error, Result};
pub use exact::exact;
pub use game::{BestResponses, Game, Profile, SolverState};
pub use ndarray;
pub use number::{Number, Rational, compare};
pub use profile::{best_response, exploitability, nash_conv};
pub use rule::{Discount, Rule, Updates};
pub use run::{Checkpoint, Run, Solution, StopReason, solve, solve_with};
pub use strategic::{Bimatrix, Labels, MatrixGame, NormalForm, StrategicGame};
