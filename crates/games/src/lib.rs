//! Equilibria of games: by regret, as fast as the machine allows, and exactly, with a certificate.
//!
//! Role: games from rock-paper-scissors to Liar's Dice, for people who need to know how far a strategy is from an
//! equilibrium. What a solver claims is always measured by a best response that shares nothing with it.

mod batch;
mod draw;
mod dynamics;
mod error;
pub mod exact;
pub mod extensive;
pub mod files;
mod number;
mod profile;
mod regret;
mod run;
mod simd;
mod source_order;
mod strategic;

pub use batch::{Batch, BatchSolution};
pub use dynamics::{Discount, Dynamics, Rule, Stop, Updates};
pub use error::{Error, Result};
pub use ndarray;
pub use number::{Number, Rational};
pub use profile::{BestResponses, Game, Profile, best_response, exploitability, nash_conv};
pub use run::{Checkpoint, Run, Solution, State, Stopped, solve, solve_with};
pub use source_order::SourceOrder;
pub use strategic::{Bimatrix, Labels, MatrixGame, NormalForm, StrategicGame};
