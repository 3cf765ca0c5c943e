//! The learning loop, from the first iteration to an evaluated solution.
//!
//! Role: the one loop shared by all games and all configurations: iterations, checkpoints, stop
//! conditions and resumption.
//! Method: at checkpoints, whose distance grows, best responses evaluate the average profile.

use crate::config::MAX_ITERATIONS_DONE;
use crate::game::{BestResponses, Game, Profile, SolverState};
use crate::{Error, Result, SolverConfig, profile};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Up to this iteration every iteration is a checkpoint; later the distance is 1/32 of the
/// iterations done.
const CHECKPOINT_SHARE: u64 = 32;
/// After a failed polish, the number of iterations grows by this factor before the next attempt.
const POLISH_GROWTH: u64 = 4;
/// Interval between reads of the clock.
const CLOCK_EVERY: Duration = Duration::from_millis(2);

/// The reason why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StopReason {
    /// NashConv plus its rounding error is at most the target.
    AtTarget,
    /// NashConv is within its rounding error, and this error exceeds the target: best responses in
    /// f64 cannot decide whether a profile of this game reaches the target.
    AtRounding {
        /// Upper bound on the rounding error, in units of the payoffs.
        bound: f64,
    },
    /// The iteration limit was reached.
    AfterIterations,
    /// The time limit was reached.
    AfterTime,
    /// The caller's progress callback stopped the run.
    ByCaller,
}

/// An evaluation of the average profile during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Checkpoint {
    /// Number of iterations done.
    pub iteration: u64,
    /// Learning time since the start of the run, in seconds; evaluations are excluded.
    pub seconds: f64,
    /// NashConv of the average profile, in units of the payoffs.
    pub nash_conv: f64,
    /// Upper bound on the rounding error of `nash_conv`, in units of the payoffs.
    pub rounding: f64,
}

impl Checkpoint {
    /// Returns an upper bound of the true NashConv.
    fn bound(&self) -> f64 {
        self.nash_conv + self.rounding
    }

    /// Returns the reason to stop here with this target, or `None` to continue.
    fn end(&self, target: f64) -> Option<StopReason> {
        if target <= 0.0 {
            None
        } else if self.bound() <= target {
            Some(StopReason::AtTarget)
        } else if self.rounding > target && self.nash_conv <= self.rounding {
            Some(StopReason::AtRounding {
                bound: self.rounding,
            })
        } else {
            None
        }
    }
}

/// A profile with its payoffs and its distance from an equilibrium.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Solution {
    /// The average profile, or the equilibrium found from it by linear algebra, if that ended the
    /// run or has the smaller NashConv.
    pub strategies: Profile,
    /// Player 0's expected payoff under the profile; in a zero-sum game it is within NashConv of
    /// the game's value.
    pub value: f64,
    /// Each player's expected payoff under `strategies`; see
    /// [`BestResponses::values`](crate::BestResponses::values).
    pub values: Vec<f64>,
    /// The sum over players of the gain from a best response.
    pub nash_conv: f64,
    /// Upper bound on the rounding error of `nash_conv`, in units of the payoffs: the true NashConv
    /// is at most `nash_conv + rounding`.
    pub rounding: f64,
    /// NashConv divided by the number of players.
    pub exploitability: f64,
    /// NashConv computed from the players' sums of regrets R₁ and R₂ after N iterations, `(max R₁ +
    /// max R₂) / N`. `None` unless both are equal: simultaneous updates, uniform average,
    /// undiscounted regrets, a strategic game of two players with a constant sum.
    pub regret_nash_conv: Option<f64>,
    /// Number of iterations done.
    pub iterations: u64,
    /// Whether linear algebra found `strategies` from an average ([`SolverConfig::polish`]).
    pub polished: bool,
    /// The reason why the run stopped.
    pub stopped: StopReason,
    /// The checkpoints of the run.
    pub trace: Vec<Checkpoint>,
}

/// Learns until a stop condition holds, and returns the average profile with its distance from an
/// equilibrium.
///
/// The result has the same bits on every CPU for the same game, configuration and build, unless a
/// time limit stops the run. Hedge, discounts, and averages with exponents other than 0, 1 and 2
/// call `exp` or `powf`, whose last bits depend on the platform.
///
/// # Errors
/// [`Error::ParameterInvalid`] if a parameter of the configuration is out of range;
/// [`Error::RuleUnsupported`] if the rule does not support extensive games.
///
/// # Examples
/// ```
/// use games::{Bimatrix, SolverConfig, extensive::{CompiledGame, Kuhn}, ndarray::array, solve};
///
/// let chicken = Bimatrix::new(array![[6, 2], [7, 0]], array![[6, 7], [2, 0]])?;
/// assert!(solve(&chicken, &SolverConfig::default())?.nash_conv < 1e-3);
/// let poker = solve(&CompiledGame::new(&Kuhn)?, &SolverConfig::default().tolerance(1e-6))?;
/// assert!((poker.value + 1.0 / 18.0).abs() <= poker.nash_conv);
/// # Ok::<(), games::Error>(())
/// ```
pub fn solve<G: Game>(game: &G, config: &SolverConfig) -> Result<Solution> {
    let run = Run::from_state("solve", game, config, game.start(config))?;
    Ok(run.finish(|_| ControlFlow::Continue(())))
}

/// Runs [`solve`], and passes every checkpoint to `progress`, which may stop the run.
///
/// # Errors
/// As [`solve`].
pub fn solve_with<G: Game>(
    game: &G,
    config: &SolverConfig,
    progress: impl FnMut(&Checkpoint) -> ControlFlow<()>,
) -> Result<Solution> {
    let run = Run::from_state("solve_with", game, config, game.start(config))?;
    Ok(run.finish(progress))
}

/// A learning run that can be inspected, stopped and resumed.
///
/// # Examples
/// ```
/// use games::{SolverConfig, MatrixGame, Run, ndarray::array};
///
/// let game = MatrixGame::zero_sum(array![[1, -1], [-1, 1]])?;
/// let config = SolverConfig::default().iterations(100);
/// let mut run = Run::new(&game, &config)?;
/// run.advance(40);
/// let kept = run.state().clone();
/// let whole = Run::new(&game, &config)?.finish(|_| std::ops::ControlFlow::Continue(()));
/// let resumed = Run::resume(&game, &config, kept)?.finish(|_| std::ops::ControlFlow::Continue(()));
/// assert_eq!(whole.strategies, resumed.strategies);
/// # Ok::<(), games::Error>(())
/// ```
pub struct Run<'g, G: Game> {
    game: &'g G,
    config: SolverConfig,
    state: SolverState,
    scratch: G::Scratch,
    busy: Duration,
    trace: Vec<Checkpoint>,
    /// First iteration at which the average is polished.
    polish_from: u64,
    /// The best profile found by linear algebra, and its evaluation.
    polished: Option<(Profile, Checkpoint)>,
}

impl<G: Game> std::fmt::Debug for Run<'_, G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Run");
        shown
            .field("config", &self.config)
            .field("iteration", &self.state.iteration);
        shown.finish_non_exhaustive()
    }
}

impl<'g, G: Game> Run<'g, G> {
    /// Starts a run. All strategies are uniform, except with fictitious play.
    ///
    /// # Errors
    /// As [`solve`].
    pub fn new(game: &'g G, config: &SolverConfig) -> Result<Self> {
        Self::from_state("Run::new", game, config, game.start(config))
    }

    /// Creates a run that continues from the state of another run of the same game.
    ///
    /// # Errors
    /// In addition to the errors of [`solve`]: [`Error::StateInvalid`] if the state has another
    /// shape, rule, order of updates or average, or contains numbers that no run produces;
    /// [`Error::ProfileInvalid`] if the next strategies do not form a profile.
    pub fn resume(game: &'g G, config: &SolverConfig, state: SolverState) -> Result<Self> {
        check_state(game, &state, &game.start(config))?;
        Self::from_state("Run::resume", game, config, state)
    }

    fn from_state(
        operation: &'static str,
        game: &'g G,
        config: &SolverConfig,
        state: SolverState,
    ) -> Result<Self> {
        config.check(operation, game.range())?;
        if !game.supports(&config.rule) {
            return Err(Error::RuleUnsupported {
                operation,
                rule: config.rule,
            });
        }
        Ok(Self {
            game,
            config: *config,
            scratch: game.scratch(&state),
            state,
            busy: Duration::ZERO,
            trace: vec![],
            polish_from: polish_from(game),
            polished: None,
        })
    }

    /// Runs this number of iterations; the stop conditions of the configuration are ignored.
    pub fn advance(&mut self, iterations: u64) {
        let begin = Instant::now();
        let until = self.state.iteration.saturating_add(iterations);
        self.game
            .iterate(&mut self.state, &mut self.scratch, &self.config, until);
        self.busy += begin.elapsed();
    }

    /// Returns the state, sufficient to resume the run.
    pub fn state(&self) -> &SolverState {
        &self.state
    }

    /// Returns the average profile.
    pub fn average(&self) -> Profile {
        self.game.average(&self.state)
    }

    /// Returns the profile to be played next.
    pub fn playing(&self) -> Profile {
        self.game.current(&self.state)
    }

    /// Learns until a stop condition of the configuration holds.
    pub fn finish(mut self, mut progress: impl FnMut(&Checkpoint) -> ControlFlow<()>) -> Solution {
        let stop = self.config.stop;
        loop {
            let done = self.state.iteration;
            let next = done
                .saturating_add(1 + done / CHECKPOINT_SHARE)
                .min(stop.iterations);
            let in_time = self.advance_in_time(next, stop.time);
            let mut checkpoint = self.push_checkpoint();
            if let Some(polished) = self.polish(&checkpoint) {
                checkpoint = polished;
            }
            let broken = progress(&checkpoint).is_break();
            let stopped = if let Some(end) = checkpoint.end(stop.nash_conv) {
                Some(end)
            } else if self.state.iteration >= stop.iterations {
                Some(StopReason::AfterIterations)
            } else if !in_time {
                Some(StopReason::AfterTime)
            } else {
                broken.then_some(StopReason::ByCaller)
            };
            if let Some(stopped) = stopped {
                return self.solution(stopped);
            }
        }
    }

    /// Runs iterations up to number `until` or until the time limit. Returns whether time is left.
    fn advance_in_time(&mut self, until: u64, time: Option<Duration>) -> bool {
        let Some(time) = time else {
            self.advance(until.saturating_sub(self.state.iteration));
            return true;
        };
        let mut stride = 1;
        while self.state.iteration < until && self.busy < time {
            let before = self.busy;
            self.advance(stride.min(until - self.state.iteration));
            if self.busy - before < CLOCK_EVERY {
                stride *= 2;
            }
        }
        self.busy < time
    }

    /// Tries to end a run that has a NashConv target by linear algebra. Returns the checkpoint of
    /// the resulting profile if it ends the run.
    fn polish(&mut self, average: &Checkpoint) -> Option<Checkpoint> {
        let target = self.config.stop.nash_conv;
        let wanted = self.config.polish && target > 0.0 && average.end(target).is_none();
        if !wanted || self.state.iteration < self.polish_from {
            return None;
        }
        self.polish_from = self.state.iteration.saturating_mul(POLISH_GROWTH);
        let begin = Instant::now();
        let polished = self.game.polished(&self.average());
        let answers = polished
            .as_ref()
            .map(|polished| self.game.responses(polished));
        self.busy += begin.elapsed();
        let (polished, checkpoint) = (polished?, self.checkpoint(&answers?));
        let ends = checkpoint.end(target).is_some();
        let known = self.polished.as_ref();
        // A profile that ends the run is the result. The best of the other profiles is stored,
        // because the run may end at a limit with an average that is worse.
        if ends || known.is_none_or(|(_, known)| checkpoint.bound() < known.bound()) {
            self.polished = Some((polished, checkpoint));
        }
        if ends {
            self.trace.push(checkpoint);
        }
        ends.then_some(checkpoint)
    }

    /// Evaluates the average profile and adds the checkpoint to the trace.
    fn push_checkpoint(&mut self) -> Checkpoint {
        let checkpoint = self.checkpoint(&self.game.responses(&self.average()));
        self.trace.push(checkpoint);
        checkpoint
    }

    fn checkpoint(&self, answers: &BestResponses) -> Checkpoint {
        Checkpoint {
            iteration: self.state.iteration,
            seconds: self.busy.as_secs_f64(),
            nash_conv: answers.nash_conv(),
            rounding: answers.rounding,
        }
    }

    fn solution(mut self, stopped: StopReason) -> Solution {
        let target = self.config.stop.nash_conv;
        let mut strategies = self.average();
        let mut answers = self.game.responses(&strategies);
        let polished = self.polished.take().filter(|(_, checkpoint)| {
            checkpoint.end(target).is_some() || checkpoint.bound() < answers.nash_conv_bound()
        });
        let is_polished = polished.is_some();
        if let Some((polished, _)) = polished {
            answers = self.game.responses(&polished);
            strategies = polished;
        }
        let nash_conv = answers.nash_conv();
        let counts =
            !is_polished && self.config.regrets_are_nash_conv() && self.state.iteration > 0;
        Solution {
            value: answers.values[0],
            values: answers.values,
            nash_conv,
            rounding: answers.rounding,
            exploitability: nash_conv / self.game.n_players() as f64,
            regret_nash_conv: if counts {
                self.game.regret_nash_conv(&self.state)
            } else {
                None
            },
            iterations: self.state.iteration,
            polished: is_polished,
            stopped,
            trace: self.trace,
            strategies,
        }
    }
}

/// Returns the first iteration at which a polish is tried: by then learning has cost about as much
/// as one polish.
fn polish_from<G: Game>(game: &G) -> u64 {
    let n_numbers: usize = (0..game.n_players())
        .flat_map(|player| game.choices(player))
        .sum();
    n_numbers as u64 / 4
}

/// Returns an error if no run of the game that starts from `first` can produce the state.
fn check_state<G: Game>(game: &G, state: &SolverState, first: &SolverState) -> Result<()> {
    let invalid = |fault: String| Err(Error::StateInvalid { fault });
    let how = |state: &SolverState| {
        let SolverConfig {
            rule,
            updates,
            average,
            ..
        } = state.config;
        (rule, updates, average)
    };
    if how(state) != how(first) {
        let fault = format!(
            "configurations differ (state {:?}; run {:?})",
            how(state),
            how(first)
        );
        return invalid(fault);
    }
    if state.iteration > MAX_ITERATIONS_DONE {
        return invalid(format!(
            "too many iterations ({}; limit {MAX_ITERATIONS_DONE})",
            state.iteration
        ));
    }
    if state.players.len() != first.players.len() {
        return invalid(format!(
            "number of players differs (state {}; game {})",
            state.players.len(),
            first.players.len()
        ));
    }
    for (player, (given, first)) in state.players.iter().zip(&first.players).enumerate() {
        let arrays = [
            ("regrets", &given.regrets, &first.regrets, f64::MIN),
            ("strategy", &given.strategy, &first.strategy, 0.0),
            ("sum", &given.sum, &first.sum, 0.0),
        ];
        for (name, given, first, least) in arrays {
            if given.len() != first.len() {
                let fault = format!(
                    "wrong length of player {player}'s {name} ({}; expected {})",
                    given.len(),
                    first.len()
                );
                return invalid(fault);
            }
            if !given
                .iter()
                .all(|&number| number >= least && number.is_finite())
            {
                return invalid(format!(
                    "player {player}'s {name} contains a number out of range"
                ));
            }
        }
        if !given.sum.iter().sum::<f64>().is_finite() {
            return invalid(format!("player {player}'s sum is too large"));
        }
    }
    profile::check("Run::resume", game, &game.current(state))
}
