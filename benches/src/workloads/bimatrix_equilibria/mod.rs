//! All equilibria of a bimatrix game.
//!
//! Role: the workload `bimatrix-equilibria`. Variants: `supports`, the oracle; `host`, enumeration
//! of the vertices of the best-response polytopes in exact fractions. The rival is Nashpy's
//! enumeration of vertices in floats, for the smaller game only.
//! Method: the oracle tries all pairs of supports of equal size, in floats. Games with equal
//! payoffs, which may have other equilibria, are drawn again.
//! Shapes: payoffs are `[n, n]`, integers from -99 to 99. The result has a row for each
//! equilibrium: the strategy of the row player, then that of the column player, sorted by
//! descending probability of the first action.
//! Source: von Stengel 2002, "Computing equilibria for two-person games".

use anyhow::Result;
use games::ndarray::Array2;
use games::{Bimatrix, exact};
use gpu_wgsl::Gpu;
use harness::program::InputDistribution;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{Extent, Problem, Task, Variant, Work, Workload};
use tensor_core::compare::Tolerance;

/// Number of actions of each player, for each of the two games.
const SIDES: [usize; 2] = [6, 12];
/// Largest game for the rival, which would take an hour for the larger one.
const RIVALS_SIDE: usize = 6;
/// Largest absolute payoff.
const LARGEST: f32 = 99.0;
/// Tolerance of probabilities.
const BOUND: f64 = 1e-9;
/// Factor by which probabilities are multiplied before they are rounded and sorted. Rounding errors
/// of equal probabilities then do not affect the order.
const DIGITS: f64 = 1e6;

/// Returns the tasks.
#[must_use]
pub fn tasks() -> Vec<Task> {
    let task = |side| {
        let size = format!("{side}x{side}");
        Task::new("bimatrix-equilibria", "S0", size, move || {
            Equilibria::new(side)
        })
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
    /// Draws a game and computes its equilibria.
    ///
    /// # Errors
    /// The game has no actions.
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

    /// Returns all equilibria, found by trying all pairs of supports of equal size.
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

    /// Returns the opponent's strategy on `support` against which exactly the actions `best` are
    /// the player's best responses, or `None` if there is no such strategy.
    fn mixture(&self, player: usize, best: u32, support: u32) -> Option<Vec<f64>> {
        let [best, support] = [best, support].map(|set| members(set, self.side));
        let payoff = |own: usize, other: usize| {
            f64::from(self.payoffs[player][place(player, own, other, self.side)])
        };
        // The unknowns are the probabilities and, last, the value of the best actions. There is one
        // equation per best action, `Σ payoff · p - value = 0`, and one for `Σ p = 1`.
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
        // An equilibrium requires positive probabilities on the support, and no better action
        // outside `best`.
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
        let bytes = (2 * self.side * self.side + self.truth.len()) * size_of::<f64>();
        Extent::new(Work::Games(1.0), bytes as f64)
    }

    /// Returns all equilibria, found by the solver.
    fn host(&self) -> Result<Vec<f64>> {
        let equilibria = exact::all_equilibria(&self.game)?;
        let profiles = equilibria.iter().map(|equilibrium| {
            let strategies = equilibrium.strategies.iter().flatten();
            strategies.map(games::Number::nearest).collect()
        });
        Ok(sorted(profiles.collect()))
    }
}

/// Draws a player's payoffs. A draw with two equal payoffs against the same action of the opponent
/// is repeated, because games with such ties may have further equilibria.
fn drawn(side: usize, player: usize) -> Vec<f32> {
    let draw = |stream: u64| -> Vec<f32> {
        let numbers = InputDistribution::Uniform.draw(side * side, 2 * stream + player as u64);
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

/// Returns the index of a player's payoff for its own action `own` against `other`; payoffs are
/// stored by rows for both players.
fn place(player: usize, own: usize, other: usize, side: usize) -> usize {
    let [row, col] = if player == 0 {
        [own, other]
    } else {
        [other, own]
    };
    row * side + col
}

/// Returns the actions of a set, given as a bit mask.
fn members(set: u32, side: usize) -> Vec<usize> {
    (0..side).filter(|action| set >> action & 1 == 1).collect()
}

/// Returns the profiles, sorted, as one list of probabilities.
fn sorted(mut profiles: Vec<Vec<f64>>) -> Vec<f64> {
    let order = |profile: &Vec<f64>, at: usize| (profile[at] * DIGITS).round();
    profiles.sort_by(|one, other| {
        // Lexicographic order, with larger probabilities first.
        let pairs = (0..one.len()).map(|at| order(other, at).total_cmp(&order(one, at)));
        pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    profiles.concat()
}

/// Solves `n` linear equations, each given as coefficients followed by the right side. Returns
/// `None` if the solution is not unique.
fn solved(mut equations: Vec<f64>, n: usize) -> Option<Vec<f64>> {
    /// Smallest pivot; payoffs are integers, so smaller values are rounding errors.
    const SMALLEST: f64 = 1e-9;
    let width = n + 1;
    for col in 0..n {
        let size = |row: usize| equations[row * width + col].abs();
        // Gaussian elimination with partial pivoting.
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
        // Back substitution, from the last unknown to the first.
        solution[at] = (row[n] - known) / row[at];
    }
    Some(solution)
}

impl Problem for Equilibria {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let rivals = if self.side <= RIVALS_SIDE {
            BaselineArguments::each(
                &["nashpy"],
                script!("bimatrix_equilibria.py"),
                &[("rows", self.side), ("cols", self.side)],
                &[("a", &self.payoffs[0]), ("b", &self.payoffs[1])],
            )
        } else {
            vec![]
        };
        let variants = [
            Variant::on_cpu("supports", self.extent(), 0, |out: &mut Vec<f64>| {
                *out = self.by_supports();
                Ok(())
            }),
            Variant::on_cpu("host", self.extent(), 0, |out: &mut Vec<f64>| {
                *out = self.host()?;
                Ok(())
            }),
        ];
        Workload::with_expected::<f64>(
            self.extent(),
            &self.truth,
            Tolerance::exact().or_absolute(BOUND),
        )
        .with_variants(variants)
        .with_rivals(rivals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use games::nash_conv;
    use harness::workload::{Output, Portion};

    #[test]
    fn supports_and_vertices_give_the_same_equilibria() {
        for side in [1, 2, 5] {
            let equilibria = Equilibria::new(side).unwrap();
            let n_found = equilibria.truth.len() / (2 * side);
            assert_eq!(
                n_found % 2,
                1,
                "a nondegenerate game has an odd number of equilibria"
            );
            let found = equilibria.host().unwrap();
            let workload = equilibria.workload(&[]);
            let check =
                |found: &[f64]| (workload.check)(&Output::F64(found.to_vec()), Portion::whole(1));
            check(&found).unwrap();
            assert!(check(&found[2 * side..]).is_err());
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
