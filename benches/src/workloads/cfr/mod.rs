//! Counterfactual regret minimisation in Leduc poker and Liar's dice.
//!
//! Role: the workloads `leduc-cfr` (a hundred iterations of CFR; and DCFR until NashConv is 10⁻³),
//! `liars-dice-cfr` (ten iterations of CFR+) and `liars-dice-nash-conv` (evaluation of one
//! profile). Variants: `loops`, a walk over the tree; `host`, the compiled game; `isomorphic`, the
//! compiled game with the suits of Leduc poker merged, which does not change the result. Rivals:
//! OpenSpiel's solvers in C++, and the Rust program `cfr`, without the time in which it reads the
//! game.
//! Method: strategies are evaluated by the oracle's best responses, outside the measured time.
//! NashConv must be that of the oracle's own learning. The program `cfr` updates both players
//! simultaneously, so a result may match that variant of the oracle instead.
//! Shapes: the result is NashConv, one number.
//! Source: the blog note "Approximate Nash Equilibrium by Regret Matching" mentions poker and
//! larger card games as applications; Southey et al. 2005 (Leduc poker).

mod plain;

use super::convergence;
use anyhow::{Context, Result, bail, ensure};
use charts::Figure;
use games::extensive::{CompiledGame, ExtensiveGame, Leduc, LiarsDice, Tree};
use games::{Game, Profile, Run, Solution, SolverConfig, Updates, nash_conv, solve};
use gpu_wgsl::Gpu;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{Extent, OutputElement, Problem, Task, Variant, Work, Workload};
use plain::{Learning, Plain};
use tensor_core::compare::{Tolerance, compare};

/// Absolute tolerance for NashConv of a solver that ran the same number of iterations as the
/// oracle.
const NEAR: f64 = 1e-9;
/// Relative tolerance for NashConv after simultaneous updates, where a solver may resolve ties at
/// zero regret in another way than the oracle.
const ROUGHLY: f64 = 1e-4;
/// Target of NashConv. The rivals do not stop at the target by themselves, but run a fixed number
/// of iterations; the check verifies that this number is sufficient.
const TARGET: f64 = 1e-3;
/// Number of iterations with which OpenSpiel's CFR+ reaches [`TARGET`].
const OPEN_SPIEL_STEPS: usize = 750;
/// Number of iterations with which the DCFR of the program `cfr` reaches [`TARGET`].
const CFR_STEPS: usize = 32_000;
/// Maximum number of iterations of our solver, far above the number needed.
const MANY: u64 = 1_000_000;
/// Number of iterations in the figure.
const SHOWN: u64 = 2000;

/// The work to do in a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// A number of iterations of CFR, or of CFR+.
    Iterate {
        /// Number of iterations.
        iterations: usize,
        /// Whether the algorithm is CFR+.
        plus: bool,
    },
    /// DCFR until NashConv is at most the workload's target.
    Converge,
    /// NashConv of the uniform profile.
    NashConv,
}

/// Returns the tasks.
#[must_use]
pub fn tasks() -> Vec<Task> {
    const JOBS: [(&str, &str, usize, Job); 4] = [
        (
            "leduc-cfr",
            "936x100",
            0,
            Job::Iterate {
                iterations: 100,
                plus: false,
            },
        ),
        ("leduc-cfr", "936-to-1e-3", 0, Job::Converge),
        (
            "liars-dice-cfr",
            "24576x10",
            6,
            Job::Iterate {
                iterations: 10,
                plus: true,
            },
        ),
        ("liars-dice-nash-conv", "24576", 6, Job::NashConv),
    ];
    let task = |(name, size, faces, job): (&'static str, &'static str, _, _)| {
        let n_sets = size.split(['x', '-']).next().unwrap_or_default();
        Task::new(name, "S0", size, move || Cfr::new(n_sets, faces, job))
    };
    JOBS.map(task).into()
}

/// A game in all representations that are needed.
#[derive(Debug)]
struct Board {
    executor: &'static str,
    plain: Plain,
    tree: Tree,
    compiled: CompiledGame,
}

impl Board {
    fn new<G: ExtensiveGame>(executor: &'static str, game: &G) -> Result<Self> {
        let tree = Tree::from_game(game)?;
        Ok(Self {
            executor,
            plain: Plain::new(game),
            compiled: CompiledGame::from_tree(&tree)?,
            tree,
        })
    }

    /// Returns NashConv of a profile, by the oracle's best responses.
    fn judged(&self, profile: &Profile) -> Result<Vec<f64>> {
        Ok(vec![self.plain.nash_conv_of(&self.tree, profile)?])
    }

    /// Returns the profile in which all actions of an information set are equally likely.
    fn uniform(&self) -> Profile {
        let of_player = |player| {
            let choices = self.compiled.choices(player).into_iter();
            choices.flat_map(|n| vec![1.0 / n as f64; n]).collect()
        };
        [0, 1].map(of_player).into()
    }
}

/// Work on a game, with the expected result.
#[derive(Debug)]
pub struct Cfr {
    faces: usize,
    job: Job,
    /// The game itself, followed by equivalent games.
    boards: Vec<Board>,
    /// NashConv computed by the oracle. For [`Job::Iterate`] there are two values, with alternating
    /// and with simultaneous updates; for [`Job::Converge`] the only value is the target.
    truth: Vec<f64>,
}

impl Cfr {
    /// Computes the expected result; `n_sets` is the number of information sets, as in the task's
    /// size. `faces` is the number of faces of a die, or 0 for Leduc poker.
    ///
    /// # Errors
    /// The game has another number of information sets, or its tree is too large.
    pub fn new(n_sets: &str, faces: usize, job: Job) -> Result<Self> {
        let boards = if faces == 0 {
            vec![
                Board::new("host", &Leduc::new())?,
                Board::new("isomorphic", &Leduc::isomorphic())?,
            ]
        } else {
            vec![Board::new("host", &LiarsDice::new(faces, 1)?)?]
        };
        let plain = &boards[0].plain;
        ensure!(
            n_sets == plain.n_sets().to_string(),
            "the game has {} information sets (size of the task: {n_sets})",
            plain.n_sets()
        );
        let truth = match job {
            Job::Iterate { iterations, plus } => [Updates::Alternating, Updates::Simultaneous]
                .map(|updates| {
                    let mut learning = Learning::new(plain, plus, updates);
                    learning.advance(iterations);
                    learning.nash_conv()
                })
                .into(),
            Job::Converge => vec![TARGET],
            Job::NashConv => vec![plain.uniform_nash_conv()],
        };
        Ok(Self {
            faces,
            job,
            boards,
            truth,
        })
    }

    fn extent(&self) -> Extent {
        let Board {
            plain, compiled, ..
        } = &self.boards[0];
        // A profile has one probability per action of each information set, for both players.
        let n_actions: usize = [0, 1]
            .map(|player| compiled.choices(player).iter().sum())
            .iter()
            .sum();
        let work = match self.job {
            Job::Iterate { iterations, .. } => Work::Iterations(iterations as f64),
            Job::Converge | Job::NashConv => Work::Games(1.0),
        };
        // Payoffs of the terminal nodes, and a profile.
        let bytes = (plain.n_ends() + n_actions) * size_of::<f64>();
        Extent::new(work, bytes as f64)
    }

    /// Returns the variant of the oracle, or `None` for learning to a target, which the oracle does
    /// not do.
    fn loops(&self) -> Option<Variant<'_>> {
        let plain = &self.boards[0].plain;
        match self.job {
            Job::Iterate { iterations, plus } => Some(Variant::scored(
                "loops",
                self.extent(),
                move || Ok(Learning::new(plain, plus, Updates::Alternating)),
                move |learning| {
                    learning.advance(iterations);
                    Ok(())
                },
                |learning| Ok(vec![learning.nash_conv()]),
            )),
            Job::Converge => None,
            Job::NashConv => Some(Variant::on_cpu("loops", self.extent(), 1, |out| {
                out[0] = plain.uniform_nash_conv();
                Ok(())
            })),
        }
    }

    fn variant<'a>(&'a self, board: &'a Board) -> Variant<'a> {
        let (executor, extent, compiled) = (board.executor, self.extent(), &board.compiled);
        match self.job {
            Job::Iterate { iterations, plus } => Variant::scored(
                executor,
                extent,
                move || {
                    let config = if plus {
                        SolverConfig::regret_matching_plus()
                    } else {
                        SolverConfig::regret_matching()
                    };
                    Ok(Run::new(compiled, &config)?)
                },
                move |run| {
                    run.advance(iterations as u64);
                    Ok(())
                },
                |run| board.judged(&run.average()),
            ),
            Job::Converge => Variant::scored(
                executor,
                extent,
                || Ok(None),
                move |solution: &mut Option<Solution>| {
                    let config = dcfr().iterations(MANY).tolerance(TARGET);
                    *solution = Some(solve(compiled, &config)?);
                    Ok(())
                },
                |solution| board.judged(&solution.as_ref().context("no solution")?.strategies),
            ),
            Job::NashConv => {
                let uniform = board.uniform();
                Variant::on_cpu(executor, extent, 1, move |out| {
                    out[0] = nash_conv(compiled, &uniform)?;
                    Ok(())
                })
            }
        }
    }

    fn rivals(&self) -> Vec<BaselineArguments<'_>> {
        let run = |library, iterations: usize, plus: bool| {
            let sizes = [
                ("faces", self.faces),
                ("iterations", iterations),
                ("plus", plus.into()),
            ];
            BaselineArguments::each(&[library], script!("cfr.py"), &sizes, &[])
        };
        match self.job {
            // The CFR+ of `cfr` uses other weights, so it is not comparable.
            Job::Iterate { iterations, plus } if plus => run("open_spiel", iterations, true),
            Job::Iterate { iterations, .. } => ["open_spiel", "cfr"]
                .map(|library| run(library, iterations, false))
                .concat(),
            Job::Converge => [
                run("open_spiel", OPEN_SPIEL_STEPS, true),
                run("cfr", CFR_STEPS, true),
            ]
            .concat(),
            Job::NashConv => run("open_spiel", 0, false),
        }
    }

    fn check(&self, result: &[f64]) -> Result<()> {
        let [found] = result else {
            bail!("result has {} numbers (expected 1, NashConv)", result.len());
        };
        let near = |truth: f64, by: f64| -> Result<()> {
            compare([*found], [truth], &Tolerance::exact().or_absolute(by))?;
            Ok(())
        };
        match self.truth[..] {
            [target] if self.job == Job::Converge => ensure!(
                (0.0..=target).contains(found),
                "NashConv is {found} (at most {target})"
            ),
            [truth] => near(truth, NEAR)?,
            // Alternating updates are expected; the looser tolerance applies to simultaneous ones
            // only.
            [alternating, simultaneous] => near(alternating, NEAR)
                .or_else(|error| near(simultaneous, ROUGHLY * simultaneous).or(Err(error)))?,
            _ => bail!("no expected result"),
        }
        Ok(())
    }

    /// Draws the figure that compares the convergence of variants of CFR.
    fn figure(&self) -> Result<Figure> {
        let variants = [
            ("CFR", SolverConfig::regret_matching()),
            ("CFR+", SolverConfig::regret_matching_plus()),
            ("LCFR", SolverConfig::linear()),
            ("DCFR(1.5, 0, 2)", dcfr()),
            ("PCFR+", SolverConfig::predictive_regret_matching_plus()),
        ];
        let caption = "NashConv of the average strategies in Leduc poker, computed by best responses, over iterations (left) \
            and over time (right).";
        convergence::figure(&self.boards[0].compiled, caption, SHOWN, &variants)
    }
}

fn dcfr() -> SolverConfig {
    SolverConfig::discounted(1.5, 0.0, 2.0)
}

impl Problem for Cfr {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let mut variants: Vec<Variant<'a>> = self.loops().into_iter().collect();
        variants.extend(self.boards.iter().map(|board| self.variant(board)));
        let workload = Workload::new(self.extent(), |result, _| {
            self.check(f64::from_output(result)?)
        })
        .with_variants(variants)
        .with_rivals(self.rivals());
        if self.job == Job::Converge {
            workload.with_figure(|_| self.figure())
        } else {
            workload
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::workload::Portion;

    /// Runs every variant of a workload once and checks its result.
    fn check_variants(job: Job, faces: usize, sets: &str) {
        let cfr = Cfr::new(sets, faces, job).unwrap();
        let workload = cfr.workload(&[]);
        assert!(workload.variants.len() >= 2);
        for variant in workload.variants {
            let mut contestant = (variant.start)().unwrap();
            contestant.run(1).unwrap();
            let result = contestant.result().unwrap();
            (workload.check)(&result, Portion::whole(1)).unwrap();
        }
    }

    #[test]
    fn all_variants_end_where_the_oracle_does() {
        let job = |iterations, plus| Job::Iterate { iterations, plus };
        check_variants(job(10, false), 0, "936");
        check_variants(job(10, true), 3, "192");
        check_variants(Job::NashConv, 3, "192");
        check_variants(Job::Converge, 0, "936");
    }

    #[test]
    fn other_results_are_rejected() {
        let job = Job::Iterate {
            iterations: 3,
            plus: false,
        };
        let cfr = Cfr::new("192", 3, job).unwrap();
        let [alternating, simultaneous] = cfr.truth[..] else {
            panic!("expected two values of NashConv")
        };
        for (found, is_right) in [
            (alternating, true),
            (simultaneous, true),
            (alternating + 1e-7, false),
            (f64::NAN, false),
            (0.0, false),
        ] {
            assert_eq!(cfr.check(&[found]).is_ok(), is_right, "{found}");
        }
        assert!(cfr.check(&[]).is_err());
        let target = Cfr::new("936", 0, Job::Converge).unwrap();
        assert!(target.check(&[TARGET]).is_ok());
        assert!(target.check(&[1.01 * TARGET]).is_err() && target.check(&[f64::NAN]).is_err());
    }
}
