//! All equilibria of a bimatrix game.
//!
//! Role: the workload `bimatrix-equilibria`. Rungs: `supports`, the oracle; `host`, vertices of the best-response polytopes,
//! proved in fractions. The rival is Nashpy's enumeration of vertices, in floats and on the smaller game.
//! Method: the truth is found by trying all pairs of supports of one size, in floats: equal payoffs, by which there may be other
//! equilibria, are drawn anew.
//! Shapes: payoffs are `[n, n]`, integers from -99 to 99; the result is a row for each equilibrium, the rows' strategy and
//! then the columns', the first action's share falling.
//! Source: von Stengel 2002, "Computing equilibria for two-person games".

use crate::program::Law;
use crate::rivals::{Job, script};
use crate::workload::{Extent, OutputElement, Part, Problem, Rung, Task, Work, Workload};
use anyhow::{Result, ensure};
use games::ndarray::Array2;
use games::{Bimatrix, exact};
use gpu_wgsl::Gpu;
use tensor_core::compare::{Bound, compare};

/// Numbers of actions of each player.
const SIDES: [usize; 2] = [6, 12];
/// The larger game would take the rival an hour.
const RIVALS_SIDE: usize = 6;
/// Payoffs lie between this and its negative.
const LARGEST: f32 = 99.0;
/// How near probabilities must lie.
const BOUND: f64 = 1e-9;
/// What of a probability decides the order of equilibria; floats of equal ones may differ beyond.
const DIGITS: f64 = 1e6;

/// Gives the tasks.
#[must_use]
pub fn tasks() -> Vec<Task> {
    let task = |side: usize| Task {
        name: "bimatrix-equilibria",
        size: format!("{side}x{side}"),
        needs_labels: false,
        program: None,
        prepare: Box::new(move |_| Ok(Box::new(Equilibria::new(side)?))),
    };
    SIDES.map(task).into()
}

/// A random game with all its equilibria.
#[derive(Debug)]
pub struct Equilibria {
    side: usize,
    payoffs: [Vec<f32>; 2],
    game: Bimatrix,
    truth: Vec<f64>,
}

impl Equilibria {
    /// Draws a game and finds its equilibria.
    ///
    /// # Errors
    /// It has no actions.
    pub fn new(side: usize) -> Result<Self> {
        let payoffs = [0, 1].map(|player| drawn(side, player));
        let [a, b] = payoffs
            .clone()
            .map(|payoffs| Array2::from_shape_vec([side; 2], payoffs));
        let mut equilibria = Self {
            side,
            payoffs,
            game: Bimatrix::new(a?, b?)?,
            truth: vec![],
        };
        equilibria.truth = equilibria.by_supports();
        Ok(equilibria)
    }

    /// Tries all pairs of equally large supports.
    fn by_supports(&self) -> Vec<f64> {
        let supports: Vec<u32> = (1..1_u32 << self.side).collect();
        let mut found = vec![];
        for &rows in &supports {
            for &cols in supports
                .iter()
                .filter(|cols| cols.count_ones() == rows.count_ones())
            {
                let of_cols = self.mixture(0, rows, cols);
                let profile = of_cols.and_then(|y| Some([self.mixture(1, cols, rows)?, y]));
                if let Some(profile) = profile {
                    found.push(profile.concat());
                }
            }
        }
        sorted(found)
    }

    /// Gives the opponent's strategy on `support` against which the player's best actions are `best`.
    fn mixture(&self, player: usize, best: u32, support: u32) -> Option<Vec<f64>> {
        let [best, support] = [best, support].map(|set| members(set, self.side));
        let payoff = |own: usize, other: usize| {
            f64::from(self.payoffs[player][place(player, own, other, self.side)])
        };
        // Unknown are the probabilities and, at the end, what the best actions are worth.
        let n = support.len();
        let mut equations = Vec::with_capacity((n + 1) * (n + 2));
        for &own in &best {
            equations.extend(support.iter().map(|&other| payoff(own, other)));
            equations.extend([-1.0, 0.0]);
        }
        equations.resize(equations.len() + n, 1.0);
        equations.extend([0.0, 1.0]);
        let solution = solved(equations, n + 1)?;
        let (value, probabilities) = solution.split_last()?;
        let worth = |own: usize| -> f64 {
            let pairs = support.iter().zip(probabilities);
            pairs.map(|(&other, p)| payoff(own, other) * p).sum()
        };
        let is_mixture = probabilities.iter().all(|&p| p > 0.0);
        let mut others = (0..self.side).filter(|own| !best.contains(own));
        if !is_mixture || others.any(|own| worth(own) >= *value) {
            return None;
        }
        let mut strategy = vec![0.0; self.side];
        for (&action, &p) in support.iter().zip(probabilities) {
            strategy[action] = p;
        }
        Some(strategy)
    }

    fn extent(&self) -> Extent {
        Extent {
            part: Part::whole(1),
            work: Work::Games(1.0),
            bytes: ((2 * self.side * self.side + self.truth.len()) * size_of::<f64>()) as f64,
        }
    }

    fn host(&self) -> Result<Vec<f64>> {
        let equilibria = exact::all_equilibria(&self.game)?;
        let profiles = equilibria.iter().map(|equilibrium| {
            let strategies = equilibrium.strategies.iter().flatten();
            strategies.map(games::Number::nearest).collect()
        });
        Ok(sorted(profiles.collect()))
    }

    fn check(&self, result: &[f64]) -> Result<()> {
        let n_actions = 2 * self.side;
        ensure!(
            result.len() == self.truth.len(),
            "{} numbers, where {} equilibria of {n_actions} actions are",
            result.len(),
            self.truth.len() / n_actions
        );
        compare(result, &self.truth, &Bound::exact().or_absolute(BOUND))?;
        Ok(())
    }
}

/// Draws a player's payoffs, again until none are equal against the same action of the opponent.
fn drawn(side: usize, player: usize) -> Vec<f32> {
    let draw = |stream: u64| -> Vec<f32> {
        let numbers = Law::Uniform.draw(side * side, 2 * stream + player as u64);
        let whole = |number: f32| (number * (2.0 * LARGEST + 1.0)).floor() - LARGEST;
        numbers.into_iter().map(whole).collect()
    };
    let mut stream = 0;
    loop {
        let payoffs = draw(stream);
        let of_action = |own: usize, other: usize| payoffs[place(player, own, other, side)];
        let ties = |other| {
            let mut seen: Vec<f32> = (0..side).map(|own| of_action(own, other)).collect();
            seen.sort_by(f32::total_cmp);
            seen.windows(2).any(|two| two[0] == two[1])
        };
        if !(0..side).any(ties) {
            return payoffs;
        }
        stream += 1;
    }
}

/// Gives where the payoff of a player's own action against another's stands.
fn place(player: usize, own: usize, other: usize, side: usize) -> usize {
    let [row, col] = if player == 0 {
        [own, other]
    } else {
        [other, own]
    };
    row * side + col
}

/// Gives the actions of a set.
fn members(set: u32, side: usize) -> Vec<usize> {
    (0..side).filter(|action| set >> action & 1 == 1).collect()
}

/// Sorts profiles and gives them one after the other.
fn sorted(mut profiles: Vec<Vec<f64>>) -> Vec<f64> {
    let order = |profile: &Vec<f64>, at: usize| (profile[at] * DIGITS).round();
    profiles.sort_by(|one, other| {
        let pairs = (0..one.len()).map(|at| order(other, at).total_cmp(&order(one, at)));
        pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    profiles.concat()
}

/// Solves `n` linear equations, each its coefficients and then its right side; nothing if they have no one solution.
fn solved(mut equations: Vec<f64>, n: usize) -> Option<Vec<f64>> {
    /// Pivots below this are rounding errors of payoffs that are whole numbers.
    const SMALLEST: f64 = 1e-9;
    let width = n + 1;
    for col in 0..n {
        let size = |row: usize| equations[row * width + col].abs();
        let pivot = (col..n).max_by(|&one, &other| size(one).total_cmp(&size(other)))?;
        if size(pivot) < SMALLEST {
            return None;
        }
        for at in 0..width {
            equations.swap(col * width + at, pivot * width + at);
        }
        let (above, below) = equations.split_at_mut((col + 1) * width);
        let pivots = &above[col * width..];
        for row in below.chunks_exact_mut(width) {
            let factor = row[col] / pivots[col];
            for (entry, pivot) in row.iter_mut().zip(pivots).skip(col) {
                *entry -= factor * pivot;
            }
        }
    }
    let mut solution = vec![0.0; n];
    for (at, row) in equations.chunks_exact(width).enumerate().rev() {
        let known: f64 = (at + 1..n).map(|other| row[other] * solution[other]).sum();
        solution[at] = (row[n] - known) / row[at];
    }
    Some(solution)
}

impl Problem for Equilibria {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let rivals = if self.side <= RIVALS_SIDE {
            Job::each(
                &["nashpy"],
                script!("bimatrix_equilibria.py"),
                &[("rows", self.side), ("cols", self.side)],
                &[("a", &self.payoffs[0]), ("b", &self.payoffs[1])],
            )
        } else {
            vec![]
        };
        Workload {
            name: "bimatrix-equilibria",
            source: "S0",
            size: format!("{0}x{0}", self.side),
            whole: self.extent(),
            n_losses: 0,
            figure: None,
            rungs: vec![
                Rung::on_cpu("supports", self.extent(), 0, |out: &mut Vec<f64>| {
                    *out = self.by_supports();
                    Ok(())
                }),
                Rung::on_cpu("host", self.extent(), 0, |out: &mut Vec<f64>| {
                    *out = self.host()?;
                    Ok(())
                }),
            ],
            rivals,
            left_out: Vec::new(),
            check: Box::new(|result, _| self.check(f64::of(result)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use games::nash_conv;

    #[test]
    fn supports_and_vertices_give_the_same_equilibria() {
        for side in [1, 2, 5] {
            let equilibria = Equilibria::new(side).unwrap();
            let n_found = equilibria.truth.len() / (2 * side);
            assert_eq!(
                n_found % 2,
                1,
                "a game that is not degenerate has an odd number"
            );
            let found = equilibria.host().unwrap();
            equilibria.check(&found).unwrap();
            assert!(equilibria.check(&found[2 * side..]).is_err());
            for profile in equilibria.truth.chunks_exact(2 * side) {
                let profile = profile
                    .chunks_exact(side)
                    .map(<[f64]>::to_vec)
                    .collect::<Vec<_>>();
                assert!(nash_conv(&equilibria.game, &profile).unwrap() < 1e-10);
            }
        }
    }
}
