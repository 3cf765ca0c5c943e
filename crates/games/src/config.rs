//! Configuration of learning: a rule, an order of updates, an average, and stop conditions.
//!
//! Role: one configuration for matrix games and extensive games. Each combination that has a name
//! in the literature has a constructor; all other combinations can be set through the fields.
//! Method: in iteration `t`, from 1, each player computes the values of its actions and updates its
//! strategy. Its average adds the strategy that was played (the strategy before the update) with
//! weight `t^average`.

use crate::regret::{Keep, Step};
use crate::{Discount, Error, Result, Rule, Updates};
use std::time::Duration;

/// The stop conditions of a run; the first one that holds ends the run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StopConditions {
    /// Largest number of iterations.
    pub iterations: u64,
    /// Target: the run stops if NashConv of the average profile plus its rounding error is at most
    /// this number, in units of the payoffs. The run checks the target at checkpoints; 0 disables
    /// the target.
    pub nash_conv: f64,
    /// Time limit for learning, checked between iterations; evaluations of NashConv do not count.
    pub time: Option<Duration>,
}

/// A configuration of a learning run.
///
/// # Examples
/// ```
/// use games::{SolverConfig, MatrixGame, Updates, ndarray::array, solve};
///
/// let game = MatrixGame::zero_sum(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]])?;
/// let best = solve(&game, &SolverConfig::default().iterations(500))?;
/// assert!(best.nash_conv < 1e-6);
/// let textbook = SolverConfig::regret_matching().updates(Updates::Simultaneous).iterations(500);
/// assert!(solve(&game, &textbook)?.nash_conv > 0.06);
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SolverConfig {
    /// The rule that computes strategies from action values.
    pub rule: Rule,
    /// The order in which players update.
    pub updates: Updates,
    /// The exponent `p` of the average: iteration `t` has weight `t^p`.
    pub average: f64,
    /// The stop conditions.
    pub stop: StopConditions,
    /// Whether a run with a NashConv target may use linear algebra. This applies to a
    /// [`crate::MatrixGame`]: near an equilibrium, its support gives linear equations for the
    /// equilibrium itself. The run ends if a solution of these equations reaches the target. If the
    /// run ends for another reason, the best of these solutions is returned if its NashConv is
    /// below that of the average. If false, only averages are returned.
    pub polish: bool,
}

/// Largest exponent of weights; with [`MAX_ITERATIONS_DONE`] it keeps the sums of weights finite.
const MAX_POWER: f64 = 16.0;
/// Largest number of iterations done in a state from which a run can continue: numbers of
/// iterations up to this one are exact in f64, and no run takes more.
pub(crate) const MAX_ITERATIONS_DONE: u64 = 1 << f64::MANTISSA_DIGITS;
/// Default number of iterations.
const DEFAULT_ITERATIONS: u64 = 1000;

impl Default for SolverConfig {
    /// Returns [`Self::predictive_regret_matching_plus`].
    fn default() -> Self {
        Self::predictive_regret_matching_plus()
    }
}

impl SolverConfig {
    /// Returns the configuration of regret matching with alternating updates and a uniform average;
    /// CFR in extensive games.
    ///
    /// # Source
    /// Hart and Mas-Colell 2000; Zinkevich et al. 2007, "Regret minimization in games with
    /// incomplete information".
    #[must_use]
    pub fn regret_matching() -> Self {
        Self::matching(Discount::None, false, 0.0)
    }

    /// Returns the configuration of regret matching with clipped regrets, alternating updates and
    /// weight `t` for iteration `t`; CFR+ in extensive games.
    ///
    /// # Source
    /// Tammelin 2014, "Solving large imperfect information games using CFR+".
    #[must_use]
    pub fn regret_matching_plus() -> Self {
        Self::matching(Discount::Clip, false, 1.0)
    }

    /// Returns the configuration of predictive regret matching without clipping, with alternating
    /// updates and weight `t²` for iteration `t`.
    #[must_use]
    pub fn predictive_regret_matching() -> Self {
        Self::matching(Discount::None, true, 2.0)
    }

    /// Returns the configuration of predictive regret matching with clipped regrets, alternating
    /// updates and weight `t²` for iteration `t`; PCFR+ in extensive games.
    ///
    /// # Source
    /// Farina, Kroer and Sandholm 2021, "Faster game solving via predictive Blackwell
    /// approachability".
    #[must_use]
    pub fn predictive_regret_matching_plus() -> Self {
        Self::matching(Discount::Clip, true, 2.0)
    }

    /// Returns the configuration of regret matching with discounted regrets, alternating updates
    /// and weight `t^γ` for iteration `t`; DCFR in extensive games, usually with 1.5, 0 and 2.
    ///
    /// [`Discount::Powers`] defines the discount by `alpha` and `beta`.
    ///
    /// # Source
    /// Brown and Sandholm 2019, "Solving imperfect-information games via discounted regret
    /// minimization".
    #[must_use]
    pub fn discounted(alpha: f64, beta: f64, gamma: f64) -> Self {
        Self::matching(Discount::Powers { alpha, beta }, false, gamma)
    }

    /// Returns the configuration [`Self::discounted`] with 1, 1 and 1, whose discounts are linear;
    /// LCFR in extensive games.
    #[must_use]
    pub fn linear() -> Self {
        Self::discounted(1.0, 1.0, 1.0)
    }

    /// Returns the configuration of exponential weights with a decreasing rate, simultaneous
    /// updates and a uniform average. The rate is the default of [`Rule::Hedge`].
    ///
    /// # Source
    /// Freund and Schapire 1999, "Adaptive game playing using multiplicative weights"; for the rate
    /// Cesa-Bianchi and Lugosi 2006, "Prediction, Learning, and Games".
    #[must_use]
    pub fn hedge() -> Self {
        Self::new(Rule::Hedge { rate: None }, Updates::Simultaneous, 0.0)
    }

    /// Returns the configuration of fictitious play with simultaneous updates. The average is the
    /// frequency of actions; each player starts with its first action.
    ///
    /// # Source
    /// Brown 1951, "Iterative solution of games by fictitious play". With three players or more,
    /// each player responds to the joint play of the others, not to the product of their
    /// frequencies.
    #[must_use]
    pub fn fictitious_play() -> Self {
        Self::new(Rule::FictitiousPlay, Updates::Simultaneous, 0.0)
    }

    /// Returns the configuration of the replicator equation in discrete time steps, with
    /// simultaneous updates and a uniform average.
    ///
    /// # Source
    /// Taylor and Jonker 1978, "Evolutionarily stable strategies and game dynamics".
    #[must_use]
    pub fn replicator(step: f64) -> Self {
        Self::new(Rule::Replicator { step }, Updates::Simultaneous, 0.0)
    }

    /// Sets the order of updates.
    #[must_use]
    pub fn updates(self, updates: Updates) -> Self {
        Self { updates, ..self }
    }

    /// Sets the exponent of the average: iteration `t` has weight `t^power`.
    #[must_use]
    pub fn average(self, power: f64) -> Self {
        Self {
            average: power,
            ..self
        }
    }

    /// Sets the largest number of iterations.
    #[must_use]
    pub fn iterations(mut self, iterations: u64) -> Self {
        self.stop.iterations = iterations;
        self
    }

    /// Also stops once NashConv, rounding error included, is at most `nash_conv`.
    #[must_use]
    pub fn tolerance(mut self, nash_conv: f64) -> Self {
        self.stop.nash_conv = nash_conv;
        self
    }

    /// Also stops after this time.
    #[must_use]
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.stop.time = Some(time);
        self
    }

    /// Disables linear algebra; the run returns averages only.
    #[must_use]
    pub fn without_polish(self) -> Self {
        Self {
            polish: false,
            ..self
        }
    }

    /// Returns an error if a parameter is out of range; `range` is the largest range of a player's
    /// payoffs.
    pub(crate) fn check(&self, operation: &'static str, range: f64) -> Result<()> {
        let check = |parameter, value: f64, is_good: bool, must| {
            if is_good {
                return Ok(());
            }
            Err(Error::ParameterInvalid {
                operation,
                parameter,
                value,
                must,
            })
        };
        const FINITE: &str = "at least 0 and finite";
        let average = self.average;
        check(
            "average",
            average,
            (0.0..=MAX_POWER).contains(&average),
            "from 0 to 16",
        )?;
        let target = self.stop.nash_conv;
        check(
            "stop.nash_conv",
            target,
            target >= 0.0 && target.is_finite(),
            FINITE,
        )?;
        match self.rule {
            Rule::RegretMatching {
                discount: Discount::Powers { alpha, beta },
                ..
            } => {
                check("alpha", alpha, !alpha.is_nan(), "a number")?;
                check("beta", beta, !beta.is_nan(), "a number")
            }
            Rule::Hedge { rate: Some(rate) } => {
                check("rate", rate, rate >= 0.0 && rate.is_finite(), FINITE)
            }
            Rule::Replicator { step } => {
                const SMALL: &str = "above 0, and at most 1 over the range of payoffs";
                check("step", step, step > 0.0 && step * range <= 1.0, SMALL)
            }
            _ => Ok(()),
        }
    }

    /// Returns the initial probability of `action` for a player with `n_actions` actions.
    pub(crate) fn first(&self, action: usize, n_actions: usize) -> f64 {
        if self.rule == Rule::FictitiousPlay {
            f64::from(u8::from(action == 0))
        } else {
            1.0 / n_actions as f64
        }
    }

    /// Returns the weight of iteration `t` in the average.
    pub(crate) fn weight(&self, t: u64) -> f64 {
        power(t, self.average)
    }

    /// Returns the update step of iteration `t` for a player with this range of payoffs.
    pub(crate) fn step(&self, t: u64, range: f64) -> Step {
        match self.rule {
            Rule::RegretMatching {
                discount,
                predictive,
            } => {
                let keep = match discount {
                    Discount::None => Keep::All,
                    Discount::Clip => Keep::Positive,
                    Discount::Powers { alpha, beta } => Keep::Shares {
                        positive: kept(t, alpha),
                        negative: kept(t, beta),
                    },
                };
                Step::Match { keep, predictive }
            }
            Rule::Hedge { rate: Some(rate) } => Step::Hedge {
                rate,
                by_actions: false,
            },
            // The next strategy is played in iteration t + 1. If the range is 0, there are no
            // regrets.
            Rule::Hedge { rate: None } => Step::Hedge {
                rate: if range > 0.0 {
                    // The reciprocal of a subnormal range overflows.
                    ((8.0 / (t as f64 + 1.0)).sqrt() / range).min(f64::MAX)
                } else {
                    0.0
                },
                by_actions: true,
            },
            Rule::FictitiousPlay => Step::Follow,
            Rule::Replicator { step } => Step::Replicate { step },
        }
    }

    /// Returns whether `(max R₁ + max R₂) / N` is NashConv of a zero-sum game, where `Rᵢ` are
    /// player i's sums of regrets after `N` iterations.
    ///
    /// This holds with simultaneous updates, a uniform average, and sums of regrets without
    /// discount.
    pub(crate) fn regrets_are_nash_conv(&self) -> bool {
        let plain = !matches!(
            self.rule,
            Rule::RegretMatching {
                discount: Discount::Clip | Discount::Powers { .. },
                ..
            }
        );
        plain && self.updates == Updates::Simultaneous && self.average == 0.0
    }

    fn matching(discount: Discount, predictive: bool, average: f64) -> Self {
        let rule = Rule::RegretMatching {
            discount,
            predictive,
        };
        Self::new(rule, Updates::Alternating, average)
    }

    fn new(rule: Rule, updates: Updates, average: f64) -> Self {
        Self {
            rule,
            updates,
            average,
            stop: StopConditions {
                iterations: DEFAULT_ITERATIONS,
                nash_conv: 0.0,
                time: None,
            },
            polish: true,
        }
    }
}

/// Returns `t^k`; common exponents avoid a call of `powf`.
fn power(t: u64, k: f64) -> f64 {
    let t = t as f64;
    if k == 0.0 {
        1.0
    } else if k == 1.0 {
        t
    } else if k == 2.0 {
        t * t
    } else {
        t.powf(k)
    }
}

/// Returns `t^k / (t^k + 1)`, with its limits for infinite `k`.
fn kept(t: u64, k: f64) -> f64 {
    1.0 / (1.0 + (t as f64).powf(-k))
}
