//! Solver for many small matrix games at once.
//!
//! Role: solves millions of small games, for inner loops, data generation and tests of a theory.
//! Method: [`N_LANES`] games of one shape run in parallel SIMD lanes. Such a group does all of
//! its iterations before the next group starts. The regret minimiser is the one used everywhere in
//! this crate; the factors of each iteration are computed once for all games.
//! Shapes: payoffs are `[games, rows, cols]`; strategies are `[games, rows]` and `[games, cols]`.
//! Accuracy: f64; the result of a game depends neither on its neighbours in the group nor on the
//! number of threads.

use crate::regret::{self, Sets, Step, WHOLE};
use crate::rounding::GainError;
use crate::simd::{mul_then_add, simd};
use crate::strategic::table::MAX_PAYOFF;
use crate::{Error, Result, Rule, SolverConfig, Updates};
use crate::{centre, number};
use ndarray::{Array2, Array3, Axis};
use pulp::Simd;

/// Largest number of iterations of a batch; the factors of all iterations are precomputed.
const MAX_ITERATIONS: u64 = 1 << 20;
/// Number of games in a group. Several SIMD vectors hide latency, because the operations of one
/// game depend on one another.
const N_LANES: usize = 32;

/// A vector with a number for each game of a group, aligned for SIMD loads.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct LaneGroup([f64; N_LANES]);

impl LaneGroup {
    /// Returns the lanes of SIMD vector `part`.
    #[inline(always)]
    fn part<S: Simd>(&self, part: usize) -> S::f64s {
        S::as_simd_f64s(&self.0).0[part]
    }

    fn set_part<S: Simd>(&mut self, part: usize, numbers: S::f64s) {
        S::as_mut_simd_f64s(&mut self.0).0[part] = numbers;
    }
}

/// A batch of zero-sum games of one shape.
///
/// # Examples
/// ```
/// use games::{Batch, SolverConfig, ndarray::Array3};
///
/// // A hundred games between rock-paper-scissors and its variant in which scissors crash.
/// let loss = |game| 1.0 + game as f64 / 99.0;
/// let gains = Array3::from_shape_fn((100, 3, 3), |(game, row, col)| match (row, col) {
///     (0, 2) => loss(game),
///     (2, 0) => -loss(game),
///     (1, 0) | (2, 1) => 1.0,
///     (0, 1) | (1, 2) => -1.0,
///     _ => 0.0,
/// });
/// let solution = Batch::zero_sum(gains)?.solve(&SolverConfig::default().iterations(500))?;
/// assert!(solution.nash_conv.iter().all(|&nash_conv| nash_conv < 1e-5));
/// assert!((solution.rows[[99, 1]] - 0.5).abs() < 1e-5);
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    payoffs: Array3<f64>,
    /// Constant of each game; it is subtracted from the payoffs before learning and evaluation.
    constants: Vec<f64>,
}

/// The solutions of a batch of games.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchSolution {
    /// The row players' average strategies, `[games, rows]`.
    pub rows: Array2<f64>,
    /// The column players' average strategies, `[games, cols]`.
    pub cols: Array2<f64>,
    /// The row players' expected payoffs under the average strategies.
    pub values: Vec<f64>,
    /// NashConv of each game, computed by best responses in f64.
    pub nash_conv: Vec<f64>,
    /// Upper bounds on the rounding errors of `nash_conv`.
    pub rounding: Vec<f64>,
}

/// The update step of one iteration and its weight in the average, common to all games.
#[derive(Clone, Copy)]
struct Tick {
    step: Step,
    weight: f64,
}

/// The solutions of one group of games: one vector for each action.
struct Group {
    rows: Vec<LaneGroup>,
    cols: Vec<LaneGroup>,
    values: LaneGroup,
    nash_conv: LaneGroup,
    rounding: LaneGroup,
}

impl Batch {
    /// Creates a batch from the row players' payoffs, `[games, rows, cols]`.
    ///
    /// # Errors
    /// [`Error::EmptyGame`] if there are no rows or columns (a batch of zero games is valid);
    /// [`Error::PayoffInvalid`] if a payoff is not finite or its absolute value exceeds 1e150.
    pub fn zero_sum<T: Into<f64> + Clone + 'static>(gains: Array3<T>) -> Result<Self> {
        const OPERATION: &str = "Batch::zero_sum";
        let gains = gains.mapv_into_any(T::into);
        if gains.dim().1 == 0 || gains.dim().2 == 0 {
            return Err(Error::EmptyGame {
                operation: OPERATION,
                shape: gains.shape()[1..].to_vec(),
            });
        }
        let fits = |gain: &f64| gain.abs() <= MAX_PAYOFF;
        if let Some((cell, _)) = gains.indexed_iter().find(|(_, gain)| !fits(gain)) {
            return Err(Error::PayoffInvalid {
                operation: OPERATION,
                player: 0,
                cell: vec![cell.0, cell.1, cell.2],
                limit: MAX_PAYOFF,
            });
        }
        let games = gains.outer_iter();
        let constants = games.map(|game| centre::midpoint(game.iter().copied()));
        Ok(Self {
            constants: constants.collect(),
            payoffs: gains,
        })
    }

    /// Returns the payoffs, `[games, rows, cols]`.
    #[must_use]
    pub fn row_payoffs(&self) -> &Array3<f64> {
        &self.payoffs
    }

    /// Returns a game's payoffs minus the game's constant, row by row.
    pub(crate) fn centred(&self, game: usize) -> impl Iterator<Item = f64> {
        let gains = self.payoffs.index_axis(Axis(0), game).into_iter();
        gains.map(move |gain| gain - self.constants[game])
    }

    /// Runs `config.stop.iterations` iterations in every game, and evaluates the average
    /// strategies. The other stop conditions of `config` are ignored.
    ///
    /// Cost: for a 3×3 game and regret matching, 84 additions and multiplications per iteration,
    /// and some comparisons.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] if a parameter of the configuration is out of range. Hedge needs
    /// an explicit rate, because its default rate would differ from game to game.
    /// [`Error::TooLarge`] above 2^20 iterations.
    pub fn solve(&self, config: &SolverConfig) -> Result<BatchSolution> {
        let ticks = self.ticks(config)?;
        let (_, n_rows, n_cols) = self.payoffs.dim();
        let solve =
            |first: usize| learn_group([n_rows, n_cols], &self.lane_group(first), config, &ticks);
        Ok(self.solution(solve))
    }

    /// Evaluates average strategies that are read from `probability(player, game, action)`.
    #[cfg(feature = "gpu")]
    pub(crate) fn evaluate(
        &self,
        probability: impl Fn(usize, usize, usize) -> f64 + Send + Sync,
    ) -> BatchSolution {
        let (n_games, n_rows, n_cols) = self.payoffs.dim();
        self.solution(|first| {
            let game = |lane: usize| (first + lane).min(n_games - 1);
            let vector = |player, action| {
                LaneGroup(std::array::from_fn(|lane| {
                    probability(player, game(lane), action)
                }))
            };
            let rows = (0..n_rows).map(|row| vector(0, row)).collect();
            let cols = (0..n_cols).map(|col| vector(1, col)).collect();
            Group::evaluate(&self.lane_group(first), rows, cols)
        })
    }

    /// Computes the solutions of all games; `group(first)` computes the group whose first game has
    /// index `first`.
    fn solution(&self, group: impl Fn(usize) -> Group + Send + Sync) -> BatchSolution {
        let (n_games, n_rows, n_cols) = self.payoffs.dim();
        let firsts = (0..n_games).step_by(N_LANES);
        #[cfg(feature = "rayon")]
        let groups: Vec<Group> = {
            use rayon::prelude::*;
            firsts
                .collect::<Vec<_>>()
                .into_par_iter()
                .map(group)
                .collect()
        };
        #[cfg(not(feature = "rayon"))]
        let groups: Vec<Group> = firsts.map(group).collect();
        let each = |of: fn(&Group) -> &LaneGroup| {
            let groups = &groups;
            (0..n_games).map(move |game| of(&groups[game / N_LANES]).0[game % N_LANES])
        };
        BatchSolution {
            rows: Array2::from_shape_fn((n_games, n_rows), |(game, row)| {
                groups[game / N_LANES].rows[row].0[game % N_LANES]
            }),
            cols: Array2::from_shape_fn((n_games, n_cols), |(game, col)| {
                groups[game / N_LANES].cols[col].0[game % N_LANES]
            }),
            // Values of groups are centred, so the constants are added again.
            values: each(|group| &group.values)
                .zip(&self.constants)
                .map(|(value, constant)| value + constant)
                .collect(),
            nash_conv: each(|group| &group.nash_conv).collect(),
            rounding: each(|group| &group.rounding).collect(),
        }
    }

    /// Returns the centred payoffs of a group of games, one vector for each cell. Lanes beyond the
    /// last game repeat the last game.
    fn lane_group(&self, first: usize) -> Vec<LaneGroup> {
        let (n_games, n_rows, n_cols) = self.payoffs.dim();
        let game = |lane: usize| (first + lane).min(n_games - 1);
        let cell = |at: usize| {
            LaneGroup(std::array::from_fn(|lane| {
                self.payoffs[[game(lane), at / n_cols, at % n_cols]] - self.constants[game(lane)]
            }))
        };
        (0..n_rows * n_cols).map(cell).collect()
    }

    fn ticks(&self, config: &SolverConfig) -> Result<Vec<Tick>> {
        const OPERATION: &str = "Batch::solve";
        // Each game learns on its own, so the range is the largest of one game, not that of the
        // payoffs of all games together.
        let games = 0..self.constants.len();
        let ranges = games.map(|game| number::range(self.centred(game)));
        let range = ranges.fold(0.0, f64::max);
        config.check(OPERATION, range)?;
        if config.rule == (Rule::Hedge { rate: None }) {
            return Err(Error::ParameterInvalid {
                operation: OPERATION,
                parameter: "rate",
                value: f64::NAN,
                must: "given, the same for all games",
            });
        }
        let iterations = config.stop.iterations;
        if iterations > MAX_ITERATIONS {
            return Err(Error::TooLarge {
                operation: "Batch::solve",
                what: "number of iterations",
                needed: iterations.into(),
                limit: MAX_ITERATIONS.into(),
            });
        }
        let tick = |t| Tick {
            step: config.step(t, range),
            weight: config.weight(t),
        };
        Ok((1..=iterations).map(tick).collect())
    }
}

simd! {
    /// Calls [`learn`] with array sizes known at compile time for small games.
    fn learn_group<'a, S>(simd; shape: [usize; 2], gains: &'a [LaneGroup], config: &'a SolverConfig, ticks: &'a [Tick]) -> Group {
        let zero = simd.splat_f64s(0.0);
        macro_rules! sized {
            ($($rows:literal $cols:literal,)+) => {
                match shape {
                    $([$rows, $cols] => learn(simd, ([zero; $rows], [zero; $cols]), gains, config, ticks),)+
                    [n_rows, n_cols] => learn(simd, (vec![zero; n_rows], vec![zero; n_cols]), gains, config, ticks),
                }
            };
        }
        // With constant sizes the compiler unrolls the loops and keeps strategies in registers.
        sized!(2 2, 2 3, 3 2, 3 3, 3 4, 4 3, 4 4,)
    }
}

/// Runs all iterations for one group and evaluates the averages.
///
/// The two players' zeros, one for each action, are the initial sums of regrets; they also select
/// the storage: arrays or vectors.
///
/// The inner loop runs over the games, not over the iterations of one game: within a game every
/// operation waits for the previous result.
#[inline(always)]
fn learn<S: Simd, R: PerAction<S>, C: PerAction<S>>(
    simd: S,
    (rows, cols): (R, C),
    gains: &[LaneGroup],
    config: &SolverConfig,
    ticks: &[Tick],
) -> Group {
    let (n_rows, n_cols) = (rows.as_ref().len(), cols.as_ref().len());
    let n_parts = N_LANES / S::F64_LANES;
    let pair = |part| Pair {
        gains: Gains { cells: gains, part },
        row: Player::new(simd, rows.clone(), config),
        col: Player::new(simd, cols.clone(), config),
    };
    let mut pairs: Vec<Pair<'_, R, C>> = (0..n_parts).map(pair).collect();
    for tick in ticks {
        for pair in &mut pairs {
            pair.iterate(simd, config.updates, tick);
        }
    }
    let zero = LaneGroup([0.0; N_LANES]);
    let mut averages = [vec![zero; n_rows], vec![zero; n_cols]];
    for pair in &pairs {
        let found = [pair.row.average(simd), pair.col.average(simd)];
        for (average, found) in averages.iter_mut().zip(found) {
            for (average, numbers) in average.iter_mut().zip(found) {
                average.set_part::<S>(pair.gains.part, numbers);
            }
        }
    }
    let [rows, cols] = averages;
    Group::evaluate(gains, rows, cols)
}

/// The two players of as many games as a SIMD vector has lanes.
struct Pair<'a, R, C> {
    gains: Gains<'a>,
    row: Player<R>,
    col: Player<C>,
}

impl<R, C> Pair<'_, R, C> {
    #[inline(always)]
    fn iterate<S: Simd>(&mut self, simd: S, updates: Updates, tick: &Tick)
    where
        R: PerAction<S>,
        C: PerAction<S>,
    {
        let Self { gains, row, col } = self;
        gains.right(simd, col.strategy.as_ref(), row.values.as_mut());
        // Alternating: the column player's values are against the row player's new strategy.
        if updates == Updates::Alternating {
            row.update(simd, tick);
            gains.left(simd, row.strategy.as_ref(), col.values.as_mut());
        } else {
            gains.left(simd, row.strategy.as_ref(), col.values.as_mut());
            row.update(simd, tick);
        }
        col.update(simd, tick);
    }
}

/// Storage of one number per action, in an array or on the heap.
trait PerAction<S: Simd>: Clone + AsRef<[S::f64s]> + AsMut<[S::f64s]> {}

impl<S: Simd, T: Clone + AsRef<[S::f64s]> + AsMut<[S::f64s]>> PerAction<S> for T {}

/// The state of one player in a group of games.
#[repr(C, align(64))]
struct Player<N> {
    strategy: N,
    regrets: N,
    sum: N,
    values: N,
}

impl<N> Player<N> {
    #[inline(always)]
    fn new<S: Simd>(simd: S, zeros: N, config: &SolverConfig) -> Self
    where
        N: PerAction<S>,
    {
        let mut strategy = zeros.clone();
        let n_actions = strategy.as_ref().len();
        for (action, p) in strategy.as_mut().iter_mut().enumerate() {
            *p = simd.splat_f64s(config.first(action, n_actions));
        }
        Self {
            strategy,
            regrets: zeros.clone(),
            sum: zeros.clone(),
            values: zeros,
        }
    }

    #[inline(always)]
    fn update<S: Simd>(&mut self, simd: S, tick: &Tick)
    where
        N: PerAction<S>,
    {
        let weight = simd.splat_f64s(tick.weight);
        for (sum, &strategy) in self.sum.as_mut().iter_mut().zip(self.strategy.as_ref()) {
            *sum = mul_then_add(simd, weight, strategy, *sum);
        }
        let sets = Sets {
            values: self.values.as_ref(),
            regrets: self.regrets.as_mut(),
            strategy: self.strategy.as_mut(),
        };
        regret::step(simd, tick.step, sets, WHOLE);
    }

    /// Returns the average strategy; uniform before the first iteration.
    #[inline(always)]
    fn average<S: Simd>(&self, simd: S) -> Vec<S::f64s>
    where
        N: PerAction<S>,
    {
        let zero = simd.splat_f64s(0.0);
        let sums = self.sum.as_ref();
        let total = sums
            .iter()
            .fold(zero, |total, &sum| simd.add_f64s(total, sum));
        let is_some = simd.greater_than_f64s(total, zero);
        let equal = simd.splat_f64s(1.0 / sums.len() as f64);
        sums.iter()
            .map(|&sum| simd.select_f64s(is_some, simd.div_f64s(sum, total), equal))
            .collect()
    }
}

/// The payoffs of as many games as a SIMD vector has lanes.
#[derive(Clone, Copy)]
struct Gains<'a> {
    cells: &'a [LaneGroup],
    part: usize,
}

impl Gains<'_> {
    /// Writes the value of each row against the columns' probabilities.
    #[inline(always)]
    fn right<S: Simd>(self, simd: S, cols: &[S::f64s], values: &mut [S::f64s]) {
        for (row, value) in self.cells.chunks_exact(cols.len()).zip(values) {
            let mut sum = simd.splat_f64s(0.0);
            for (gain, &p) in row.iter().zip(cols) {
                sum = mul_then_add(simd, gain.part::<S>(self.part), p, sum);
            }
            *value = sum;
        }
    }

    /// Writes the value of each column, to the column player, against the rows' probabilities.
    #[inline(always)]
    fn left<S: Simd>(self, simd: S, rows: &[S::f64s], values: &mut [S::f64s]) {
        values.fill(simd.splat_f64s(0.0));
        for (row, &p) in self.cells.chunks_exact(values.len()).zip(rows) {
            for (gain, value) in row.iter().zip(&mut *values) {
                *value = simd.sub_f64s(*value, simd.mul_f64s(gain.part::<S>(self.part), p));
            }
        }
    }
}

impl Group {
    /// Evaluates strategies by best responses to centred payoffs.
    fn evaluate(gains: &[LaneGroup], rows: Vec<LaneGroup>, cols: Vec<LaneGroup>) -> Self {
        let mut group = Self {
            values: LaneGroup([0.0; N_LANES]),
            nash_conv: LaneGroup([0.0; N_LANES]),
            rounding: LaneGroup([0.0; N_LANES]),
            rows,
            cols,
        };
        for lane in 0..N_LANES {
            let evaluation = group.evaluate_lane(gains, lane);
            group.values.0[lane] = evaluation.value;
            group.nash_conv.0[lane] = evaluation.nash_conv;
            group.rounding.0[lane] = evaluation.rounding;
        }
        group
    }

    fn evaluate_lane(&self, gains: &[LaneGroup], lane: usize) -> Evaluation {
        let (n_rows, n_cols) = (self.rows.len(), self.cols.len());
        let gain = |row: usize, col: usize| gains[row * n_cols + col].0[lane];
        let value_of_row = |row| -> f64 {
            (0..n_cols)
                .map(|col| gain(row, col) * self.cols[col].0[lane])
                .sum()
        };
        let value_of_col = |col| -> f64 {
            (0..n_rows)
                .map(|row| gain(row, col) * self.rows[row].0[lane])
                .sum()
        };
        let of_rows: Vec<f64> = (0..n_rows).map(value_of_row).collect();
        let of_cols: Vec<f64> = (0..n_cols).map(value_of_col).collect();
        let best_row = of_rows.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let best_col = of_cols.iter().copied().fold(f64::INFINITY, f64::min);
        // The gain is a sum of the losses of actions. No term is negative, so there is no
        // cancellation.
        let rows = || {
            self.rows
                .iter()
                .zip(&of_rows)
                .map(|(p, value)| (p.0[lane], value))
        };
        let cols = || {
            self.cols
                .iter()
                .zip(&of_cols)
                .map(|(p, value)| (p.0[lane], value))
        };
        let row_gain: f64 = rows().map(|(p, value)| p * (best_row - value)).sum();
        let col_gain: f64 = cols().map(|(p, value)| p * (value - best_col)).sum();
        let size = gains
            .iter()
            .fold(0.0, |size: f64, gain| size.max(gain.0[lane].abs()));
        // One product, the sums over the other player's actions, and the gain.
        let error = |n_own: usize, n_other: usize| GainError {
            size,
            n_roundings: (n_other + 2) as f64,
            depth: 1.0,
            // Averages sum to 1 up to one rounding for each action of either player.
            n_relative: (2 * (n_own + n_other) + 2) as f64,
        };
        Evaluation {
            value: rows().map(|(p, value)| p * value).sum(),
            nash_conv: row_gain + col_gain,
            rounding: error(n_rows, n_cols).bound(row_gain) + error(n_cols, n_rows).bound(col_gain),
        }
    }
}

/// The evaluation of one game of a group.
struct Evaluation {
    /// The row player's expected payoff minus the constant.
    value: f64,
    nash_conv: f64,
    rounding: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::Scalar;
    use tensor_core::compare::{Tolerance, assert_close};
    use tensor_core::rng::Philox;

    /// Returns configurations of 20 iterations for every rule and both orders of updates.
    fn rules() -> Vec<SolverConfig> {
        let rules = [
            SolverConfig::regret_matching(),
            SolverConfig::regret_matching_plus(),
            SolverConfig::predictive_regret_matching(),
            SolverConfig::predictive_regret_matching_plus(),
            SolverConfig::discounted(1.5, 0.5, 2.0),
            SolverConfig {
                rule: Rule::Hedge { rate: Some(0.7) },
                ..SolverConfig::hedge()
            },
            SolverConfig::fictitious_play(),
            SolverConfig::replicator(0.2),
        ];
        let orders = [Updates::Alternating, Updates::Simultaneous];
        rules
            .into_iter()
            .flat_map(|rule| orders.map(|order| rule.updates(order).iterations(20)))
            .collect()
    }

    /// Returns games with distinct payoffs between -1 and 1.
    fn games([n_rows, n_cols]: [usize; 2], n_games: usize) -> Batch {
        let mut gains = vec![0.0; n_games * n_rows * n_cols];
        Philox::new(11).fill_uniform_f64(0, &mut gains);
        let gains = Array3::from_shape_vec((n_games, n_rows, n_cols), gains).unwrap();
        Batch::zero_sum(gains.mapv(|gain| 2.0 * gain - 1.0)).unwrap()
    }

    /// The reference uses one lane at a time and array sizes unknown at compile time.
    #[test]
    fn every_width_of_vectors_has_the_bits_of_one_lane() {
        let shapes = [
            [1, 1],
            [2, 2],
            [2, 3],
            [3, 2],
            [3, 3],
            [3, 4],
            [4, 3],
            [4, 4],
            [1, 5],
            [7, 2],
            [5, 9],
            [11, 13],
        ];
        for shape in shapes {
            for n_games in [1, N_LANES - 1, N_LANES] {
                let batch = games(shape, n_games);
                let gains = batch.lane_group(0);
                for config in rules() {
                    let ticks = batch.ticks(&config).unwrap();
                    let zeros = (vec![0.0; shape[0]], vec![0.0; shape[1]]);
                    let plain = learn(Scalar, zeros, &gains, &config, &ticks);
                    let wide = learn_group(shape, &gains, &config, &ticks);
                    let numbers = |group: Group| -> Vec<f64> {
                        let evaluation = [group.values, group.nash_conv];
                        let all = group.rows.into_iter().chain(group.cols).chain(evaluation);
                        all.flat_map(|numbers| numbers.0).collect()
                    };
                    assert_close(numbers(wide), numbers(plain), Tolerance::bits());
                }
            }
        }
    }
}
