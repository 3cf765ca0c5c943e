//! Limits of a proof: steps of arithmetic, a deadline and cancellation.
//!
//! Role: every loop of `exact` whose length depends on the game counts its work here, so that no
//! loop outlives its limits.
//! Method: work is counted in operations on machine words. The clock is read and the caller's
//! function is called after every [`WORDS_PER_LOOK`] operations, which take some milliseconds. A
//! deadline or a cancellation stays reached.
//! Limits: one operation on long integers cannot be interrupted, nor can one step of linear algebra
//! in floats: a copy of the program, or the iterations of the solver of linear programs between two
//! of its own readings of the clock.

use crate::exact::{
    CorrelatedEquilibrium, Dominance, Elimination, Equilibrium, ExactGame, FloatSolution, Objective,
};
use crate::extensive::{CompiledGame, Sequences, StrategicForm, Tree};
use crate::number::{OVERHEAD_WORDS, words};
use crate::{Bimatrix, Error, Result, StrategicGame};
use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Largest number of steps (operations on machine words) in the proof of one linear program.
pub(super) const MAX_STEPS: u64 = 1 << 34;
/// Fixed cost of an operation on fractions, in operations on words: several allocations, and a
/// greatest common divisor.
const FRACTION_OVERHEAD: u64 = 256;
/// Operations on words between two readings of the clock.
const WORDS_PER_LOOK: u64 = 1 << 20;

/// A prover with limits: a deadline, and a function that may cancel a proof.
///
/// Each method corresponds to a function of [`crate::exact`](mod@crate::exact) or to a preparation
/// of its input; these functions have no deadline. [`crate::files::read_within`] reads a file
/// within the same limits.
///
/// Limits: a proof usually ends some milliseconds after its deadline. It ends later if one
/// operation on very long integers takes longer, or if the solver in floats is running: the solver
/// reads the clock every 1000 iterations, which take longer for larger programs. A cancellation
/// takes effect only after the solver in floats ends.
///
/// # Examples
/// ```
/// use games::{Error, MatrixGame, exact::Prover, ndarray::array};
/// use std::time::{Duration, Instant};
///
/// let game = MatrixGame::zero_sum(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]])?;
/// let solution = Prover::new().time_limit(Duration::from_secs(10)).exact(&game)?;
/// assert_eq!(solution.value.to_string(), "0");
/// let late = Prover::new().deadline(Instant::now()).exact(&game);
/// assert!(matches!(late, Err(Error::DeadlineReached { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct Prover<'a> {
    deadline: Option<Instant>,
    watch: Option<&'a dyn Fn() -> ControlFlow<()>>,
}

impl fmt::Debug for Prover<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Prover");
        shown.field("deadline", &self.deadline);
        shown.field("is_watched", &self.watch.is_some()).finish()
    }
}

impl<'a> Prover<'a> {
    /// Creates a prover without limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the prover with a deadline after `time` from now; a time beyond the clock's range is
    /// no deadline.
    #[must_use]
    pub fn time_limit(self, time: Duration) -> Self {
        let deadline = Instant::now().checked_add(time);
        Self { deadline, ..self }
    }

    /// Returns the prover with a deadline.
    #[must_use]
    pub fn deadline(self, deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..self
        }
    }

    /// Returns the prover with a function that is called every few milliseconds and may cancel the
    /// proof.
    #[must_use]
    pub fn interrupted_by(self, watch: &'a dyn Fn() -> ControlFlow<()>) -> Self {
        Self {
            watch: Some(watch),
            ..self
        }
    }

    /// Solves a zero-sum game, as [`exact`](fn@crate::exact) does.
    ///
    /// # Errors
    /// Those of [`exact`](fn@crate::exact); [`Error::DeadlineReached`] and [`Error::Cancelled`] at
    /// the prover's limits.
    pub fn exact<G: ExactGame>(&self, game: &G) -> Result<G::Solution> {
        game.solve_exactly(self)
    }

    /// Solves a zero-sum tree in floats, as [`sequence_form_lp`](super::sequence_form_lp) does.
    ///
    /// # Errors
    /// Those of [`Self::exact`].
    pub fn sequence_form_lp(&self, tree: &Tree) -> Result<FloatSolution> {
        super::sequence_form::solve_in_floats(tree, self)
    }

    /// Computes the sequence form of a tree, as [`Sequences::new`] does.
    ///
    /// # Errors
    /// Those of that function; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's
    /// limits.
    pub fn sequences(&self, tree: &Tree) -> Result<Sequences> {
        Sequences::counted(tree, &self.counter("extensive::Sequences"))
    }

    /// Compiles a tree, as [`CompiledGame::from_tree`] does.
    ///
    /// # Errors
    /// Those of that function; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's
    /// limits.
    pub fn compile(&self, tree: &Tree) -> Result<CompiledGame> {
        CompiledGame::counted(tree, &self.counter("extensive::CompiledGame"))
    }

    /// Computes the reduced strategic form of a tree, as [`StrategicForm::new`] does.
    ///
    /// # Errors
    /// Those of that function; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's
    /// limits.
    pub fn strategic_form(&self, tree: &Tree) -> Result<StrategicForm> {
        StrategicForm::counted(tree, &self.counter(StrategicForm::OPERATION))
    }

    /// Returns a function that counts operations on machine words, and returns the error of the
    /// operation at the prover's limits.
    pub(crate) fn counter(&self, operation: &'static str) -> impl Fn(usize) -> Result<()> {
        let work = Work::new(self);
        move |n_words| {
            let counted = work.count(n_words as u64);
            counted.map_err(|halt| halt.error(operation))
        }
    }

    /// Computes all extreme equilibria, as [`all_equilibria`](super::all_equilibria) does.
    ///
    /// # Errors
    /// Those of that function; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's
    /// limits.
    pub fn all_equilibria(&self, game: &Bimatrix) -> Result<Vec<Equilibrium>> {
        super::vertices::all(game, self)
    }

    /// Computes one equilibrium, as [`lemke_howson`](super::lemke_howson) does.
    ///
    /// # Errors
    /// Those of that function; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's
    /// limits.
    pub fn lemke_howson(&self, game: &Bimatrix, label: usize) -> Result<Equilibrium> {
        super::lemke_howson::one(game, label, self)
    }

    /// Computes the equilibria at the ends of all paths, as
    /// [`lemke_howson_all`](super::lemke_howson_all) does.
    ///
    /// # Errors
    /// Those of that function; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's
    /// limits.
    pub fn lemke_howson_all(&self, game: &Bimatrix) -> Result<Vec<Equilibrium>> {
        super::lemke_howson::all(game, self)
    }

    /// Computes a best correlated equilibrium, as
    /// [`correlated_equilibrium`](super::correlated_equilibrium) does.
    ///
    /// # Errors
    /// Those of that function; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's
    /// limits.
    pub fn correlated_equilibrium(
        &self,
        game: &impl StrategicGame,
        objective: &Objective,
    ) -> Result<CorrelatedEquilibrium> {
        super::correlated::correlated(game, objective, self)
    }

    /// Computes a best coarse correlated equilibrium, as
    /// [`coarse_correlated_equilibrium`](super::coarse_correlated_equilibrium) does.
    ///
    /// # Errors
    /// Those of that function; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's
    /// limits.
    pub fn coarse_correlated_equilibrium(
        &self,
        game: &impl StrategicGame,
        objective: &Objective,
    ) -> Result<CorrelatedEquilibrium> {
        super::correlated::coarse_correlated(game, objective, self)
    }

    /// Eliminates dominated actions, as [`eliminate_dominated`](super::eliminate_dominated) does.
    ///
    /// # Errors
    /// Those of that function; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's
    /// limits.
    pub fn eliminate_dominated(
        &self,
        game: &impl StrategicGame,
        dominance: Dominance,
    ) -> Result<Elimination> {
        super::domination::eliminate(game, dominance, self)
    }
}

/// The limit that ended a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitReached {
    /// The steps of arithmetic are used up.
    Steps,
    /// The deadline is reached.
    Deadline,
    /// The caller cancelled the proof.
    Cancelled,
}

impl LimitReached {
    /// Returns the error of an operation that reached the limit.
    pub(super) fn error(self, operation: &'static str) -> Error {
        match self {
            Self::Steps => Error::Unproved {
                operation,
                limit: MAX_STEPS,
            },
            Self::Deadline => Error::DeadlineReached { operation },
            Self::Cancelled => Error::Cancelled { operation },
        }
    }
}

/// The steps that one call has left, and its time limits.
#[derive(Debug)]
pub(super) struct Work<'a> {
    prover: Prover<'a>,
    steps_left: Cell<u64>,
    words_to_look: Cell<u64>,
    halted: Cell<Option<LimitReached>>,
}

impl<'a> Work<'a> {
    pub(super) fn new(prover: &Prover<'a>) -> Self {
        Self {
            prover: *prover,
            steps_left: Cell::new(MAX_STEPS),
            words_to_look: Cell::new(0),
            halted: Cell::new(None),
        }
    }

    /// Returns a `Work` whose only limit is a number of steps.
    #[cfg(test)]
    pub(super) fn with_steps(steps: u64) -> Self {
        let work = Self::new(&Prover::new());
        work.steps_left.set(steps);
        work
    }

    /// Resets the steps to those of one linear program; a deadline or a cancellation stays reached.
    pub(super) fn begin_program(&self) {
        self.steps_left.set(MAX_STEPS);
        if self.halted.get() == Some(LimitReached::Steps) {
            self.halted.set(None);
        }
    }

    /// Returns the time left to the deadline; `None` without a deadline.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let deadline = self.prover.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    /// Counts operations on words and subtracts them from the steps left.
    pub(super) fn spend_words(&self, n_operations: usize) -> std::result::Result<(), LimitReached> {
        self.take(n_operations as u64)
    }

    /// Counts operations on integers of `bits` bits and subtracts them from the steps left.
    pub(super) fn spend(
        &self,
        n_operations: usize,
        bits: u64,
    ) -> std::result::Result<(), LimitReached> {
        let words = OVERHEAD_WORDS as u64 + bits / u64::from(u64::BITS);
        self.take((n_operations as u64).saturating_mul(words))
    }

    fn take(&self, steps: u64) -> std::result::Result<(), LimitReached> {
        let Some(left) = self.steps_left.get().checked_sub(steps) else {
            return Err(self.halt(LimitReached::Steps));
        };
        self.steps_left.set(left);
        self.count(steps)
    }

    /// Counts operations on words without subtracting steps, so that only the time limit applies.
    pub(super) fn count(&self, n_words: u64) -> std::result::Result<(), LimitReached> {
        match self.words_to_look.get().checked_sub(n_words) {
            Some(left) => {
                self.words_to_look.set(left);
                self.check()
            }
            None => {
                self.words_to_look.set(WORDS_PER_LOOK);
                self.look()
            }
        }
    }

    /// Counts an operation, such as a product, that combines each word of one integer with each
    /// word of another.
    pub(super) fn count_product(
        &self,
        bits: u64,
        other_bits: u64,
    ) -> std::result::Result<(), LimitReached> {
        let n_pairs = words(bits).saturating_mul(words(other_bits));
        self.count(OVERHEAD_WORDS.saturating_add(n_pairs) as u64)
    }

    /// Counts an operation that creates or copies fractions with this total number of bits.
    pub(super) fn count_fraction(&self, bits: u64) -> std::result::Result<(), LimitReached> {
        self.count(FRACTION_OVERHEAD + bits / u64::from(u64::BITS))
    }

    /// Returns the limit that was reached, if any, without reading the clock.
    pub(super) fn check(&self) -> std::result::Result<(), LimitReached> {
        self.halted.get().map_or(Ok(()), Err)
    }

    /// Reads the clock and calls the caller's function.
    pub(super) fn look(&self) -> std::result::Result<(), LimitReached> {
        self.check()?;
        if self
            .prover
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return Err(self.halt(LimitReached::Deadline));
        }
        if self.prover.watch.is_some_and(|watch| watch().is_break()) {
            return Err(self.halt(LimitReached::Cancelled));
        }
        Ok(())
    }

    fn halt(&self, halt: LimitReached) -> LimitReached {
        self.halted.set(Some(halt));
        halt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_reached_stays_reached() {
        let calls = Cell::new(0);
        let watch = || {
            calls.set(calls.get() + 1);
            if calls.get() == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let prover = Prover::new().interrupted_by(&watch);
        let work = Work::new(&prover);
        let n_done = (0..10)
            .take_while(|_| work.count(WORDS_PER_LOOK + 1).is_ok())
            .count();
        assert_eq!((n_done, work.look()), (2, Err(LimitReached::Cancelled)));
        assert_eq!(
            (work.count(0), calls.get()),
            (Err(LimitReached::Cancelled), 3)
        );
        let late = Work::new(&Prover::new().deadline(Instant::now()));
        assert_eq!(late.count(1), Err(LimitReached::Deadline));
        assert_eq!(Work::with_steps(10).spend(1, 0), Err(LimitReached::Steps));
    }

    #[test]
    fn a_product_counts_each_pair_of_words() {
        let work = Work::new(&Prover::new());
        work.count(1).unwrap();
        let before = work.words_to_look.get();
        // Integers of two and of three words.
        work.count_product(65, 130).unwrap();
        let counted = before - work.words_to_look.get();
        assert_eq!(counted, OVERHEAD_WORDS as u64 + 6);
    }

    #[test]
    fn a_new_program_has_steps_again_but_no_new_deadline() {
        let work = Work::with_steps(10);
        assert_eq!(work.spend(1, 0), Err(LimitReached::Steps));
        work.begin_program();
        assert_eq!((work.spend(1, 0), work.look()), (Ok(()), Ok(())));
        let late = Work::new(&Prover::new().deadline(Instant::now()));
        assert_eq!(late.look(), Err(LimitReached::Deadline));
        late.begin_program();
        assert_eq!(late.spend(1, 0), Err(LimitReached::Deadline));
    }
}
