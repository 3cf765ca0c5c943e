//! Wrapper of the kernel `extensive_games_solve`.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a tree has fewer than 2^27 nodes, and iterations are below 2^24"
)]

use super::{MAX_ITERATIONS, matching, most_iterations, narrowed, ticks};
use crate::extensive::{CompiledGame, Sequences};
use crate::{Error, Profile, Result, SolverConfig, Updates};
use gpu_wgsl::Gpu;
use shaders::layout;
use shaders::params::ExtensiveGamesParams;
use std::collections::BTreeMap;

/// Largest number up to which f32 represents every integer.
const INTEGERS: f64 = 16_777_216.0;
/// Name of the operation in errors.
const OPERATION: &str = "gpu::solve_variants";
/// Numbers in one buffer, 64 MiB; every device can bind a buffer of this size.
const PART_LEN: usize = 1 << 24;
/// Numbers read by one dispatch, small enough that no driver times out.
const DISPATCH_WORK: u64 = 1 << 30;
/// Iterations of one dispatch; each of them waits at several dozen barriers.
const DISPATCH_ITERATIONS: u64 = 1 << 12;

/// Solves games that differ only in payoffs, such as stakes, antes or rakes, in parallel. Returns
/// each game's average profile.
///
/// One workgroup solves one game, from the first iteration to the last, so a few games leave most
/// of a device idle. Stop conditions other than the number of iterations are ignored.
///
/// Accuracy: in Kuhn and Leduc poker with CFR and CFR+, NashConv of the profile equals that of an
/// f64 run within a relative 1e-5 after up to 20 iterations, and within 5e-3 after 100. Later,
/// rounding decides ties between regrets.
///
/// # Errors
/// [`Error::ParameterInvalid`] if a parameter of the configuration is out of range;
/// [`Error::RuleNotOnDevice`] for any rule but regret matching; [`Error::TooLarge`] beyond
/// [`MAX_ITERATIONS`]; [`Error::TreesDiffer`] if the tree of a game differs from the tree of game
/// 0; [`Error::Device`] if the device is out of memory, was lost, or cannot run the kernel.
///
/// # Examples
/// ```
/// use games::extensive::{CompiledGame, Kuhn};
/// use games::{SolverConfig, gpu::solve_variants, nash_conv};
/// use gpu_wgsl::{Error, Gpu, Select};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gpu = match Gpu::open(Select::Best) {
///     Err(Error::NoAdapter { .. }) => return Ok(()), // this machine has none; `solve` still works
///     other => other?,
/// };
/// let kuhn = CompiledGame::new(&Kuhn)?;
/// let config = SolverConfig::regret_matching_plus().iterations(100);
/// let profiles = solve_variants(&gpu, std::slice::from_ref(&kuhn), &config)?;
/// assert!(nash_conv(&kuhn, &profiles[0])? < 0.003);
/// # Ok(())
/// # }
/// ```
pub fn solve_variants(
    gpu: &Gpu,
    games: &[CompiledGame],
    config: &SolverConfig,
) -> Result<Vec<Profile>> {
    let rule = matching(OPERATION, config)?;
    let iterations = config.stop.iterations;
    if iterations > MAX_ITERATIONS {
        return Err(Error::TooLarge {
            operation: OPERATION,
            what: "iterations",
            needed: iterations.into(),
            limit: MAX_ITERATIONS.into(),
        });
    }
    let Some(first) = games.first() else {
        return Ok(vec![]);
    };
    let tree = Flat::new(first.sequences());
    let mut payoffs = vec![];
    for (game, compiled) in games.iter().enumerate() {
        let other = Flat::new(compiled.sequences());
        if !other.has_tree_of(&tree) {
            return Err(Error::TreesDiffer {
                operation: OPERATION,
                game,
            });
        }
        payoffs.push(other.payoffs);
    }
    let n = tree.sequences.len();
    // The state and the payoffs are the largest buffers; games run together as far as both fit.
    let n_together = (PART_LEN / tree.n_state().max(tree.others.len()).max(1)).max(1);
    let mut sums = vec![];
    for part in payoffs.chunks(n_together) {
        if iterations == 0 {
            // Sums of 0 become uniform strategies.
            sums.resize(sums.len() + part.len() * n, 0.0);
        } else {
            sums.extend(tree.learn(gpu, part, config, rule)?);
        }
    }
    let profile = |sums: &[f32]| tree.profile(sums, first.sequences());
    Ok(sums.chunks_exact(n).map(profile).collect())
}

/// A game in the layout of the kernel, which is documented in the shader's header.
struct Flat {
    first_sequences: usize,
    sequences: Vec<[u32; 4]>,
    decisions: Vec<[u32; 4]>,
    levels: Vec<u32>,
    others: Vec<u32>,
    payoffs: Vec<f32>,
}

impl Flat {
    fn new(form: &Sequences) -> Self {
        let first_sequences = form.n_sequences(0);
        let n_sequences = first_sequences + form.n_sequences(1);
        let mut flat = Self {
            first_sequences,
            sequences: vec![[0; 4]; n_sequences],
            decisions: vec![],
            levels: vec![],
            others: vec![],
            payoffs: vec![],
        };
        flat.place_decisions(form);
        flat.place_payoffs(form);
        flat
    }

    /// Sorts decisions by depth, player and parent, so that the decisions after a sequence are
    /// contiguous.
    fn place_decisions(&mut self, form: &Sequences) {
        let mut places = vec![];
        for player in 0..2 {
            let start = (player * self.first_sequences) as u32;
            let mut depths = vec![0; form.n_sequences(player)];
            for decision in form.decisions(player) {
                let depth = depths[decision.parent as usize];
                let end = decision.first + decision.n_actions;
                depths[decision.first as usize..end as usize].fill(depth + 1);
                let (parent, first) = (start + decision.parent, start + decision.first);
                places.push((depth, player, parent, first, decision.n_actions));
            }
        }
        places.sort_unstable();
        let n_depths = places.last().map_or(0, |last| last.0 + 1);
        // Level `2 depth + player` starts at the number of decisions in lower levels.
        for level in 0..2 * n_depths {
            let before = |place: &(usize, usize, u32, u32, u32)| 2 * place.0 + place.1 < level;
            self.levels.push(places.partition_point(before) as u32);
        }
        self.levels.push(places.len() as u32);
        for (i, (_, _, parent, first, n_actions)) in (0..).zip(places) {
            // The sort makes the decisions of a parent contiguous. An end of 0 marks a parent
            // without decisions so far.
            let [_, _, from, to] = &mut self.sequences[parent as usize];
            if *to == 0 {
                *from = i;
            }
            *to = i + 1;
            self.decisions.push([parent, first, n_actions, 0]);
        }
    }

    /// Sums the payoffs of leaves with the same pair of sequences, in a separate unit for each
    /// player.
    fn place_payoffs(&mut self, form: &Sequences) {
        let mut pairs: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        let starts = [0, self.first_sequences as u32];
        for player in 0..2 {
            let weighted = form.weighted_payoffs(player);
            let unit = unit_of_payoffs(&weighted);
            for (leaf, payoff) in weighted.into_iter().enumerate() {
                let ends = form.leaf_sequences(leaf);
                let at = |player: usize| starts[player] + ends[player];
                *pairs.entry((at(player), at(1 - player))).or_default() += payoff / unit;
            }
        }
        // In the order of keys, the pairs of a sequence are contiguous.
        for (i, ((own, other), payoff)) in (0..).zip(pairs) {
            let [from, to, ..] = &mut self.sequences[own as usize];
            if *to == 0 {
                *from = i;
            }
            *to = i + 1;
            self.others.push(other);
            self.payoffs.push(narrowed(payoff));
        }
    }

    fn has_tree_of(&self, other: &Self) -> bool {
        self.first_sequences == other.first_sequences
            && self.sequences == other.sequences
            && self.decisions == other.decisions
            && self.levels == other.levels
            && self.others == other.others
    }

    /// Returns the number of state values per game that are kept between dispatches, without the
    /// averages.
    fn n_state(&self) -> usize {
        4 * self.sequences.len() + self.decisions.len()
    }

    /// Runs all iterations on the GPU and returns the sums of weighted sequence probabilities, game
    /// by game.
    fn learn(
        &self,
        gpu: &Gpu,
        payoffs: &[Vec<f32>],
        config: &SolverConfig,
        (keep, predictive): (shaders::params::MatchingKeep, f32),
    ) -> Result<Vec<f32>> {
        let (n_games, n) = (payoffs.len(), self.sequences.len());
        let ticks = ticks(config);
        let words = |name: &str, words: &[u32]| gpu.upload(name, &[words.len()], words);
        let floats = |name: &str, floats: &[f32]| gpu.upload(name, &[floats.len()], floats);
        let sequences = words("sequences", self.sequences.as_flattened())?;
        let decisions = words("decisions", self.decisions.as_flattened())?;
        let levels = words("levels", &self.levels)?;
        let others = words("others", &self.others)?;
        let ticks = floats("ticks", &ticks)?;
        let payoffs = floats("payoffs", &payoffs.concat())?;
        let state = gpu.alloc::<f32>("state", &[n_games * self.n_state()])?;
        let averages = gpu.alloc::<f32>("averages", &[n_games * n])?;
        // An estimate of the numbers that an iteration reads: each pair once, and about eight for
        // each sequence.
        let work = n_games as u64 * (self.others.len() + 8 * n) as u64;
        let params = |done: u64, n_iterations: u32| ExtensiveGamesParams {
            games: n_games as u32,
            first_sequences: self.first_sequences as u32,
            sequences: n as u32,
            decisions: self.decisions.len() as u32,
            depths: self.levels.len() as u32 / 2,
            pairs: self.others.len() as u32,
            done: done as u32,
            iterations: n_iterations,
            keep: keep as u32,
            alternating: u32::from(config.updates == Updates::Alternating),
            predictive,
            pad0: 0,
        };
        let most = (DISPATCH_WORK / work)
            .clamp(1, DISPATCH_ITERATIONS)
            .min(most_iterations(gpu, |n| params(0, n)));
        let iterations = config.stop.iterations;
        let mut done = 0;
        while done < iterations {
            let n_iterations = most.min(iterations - done);
            let params = params(done, n_iterations as u32);
            let buffers = [
                &*sequences,
                &*decisions,
                &*levels,
                &*others,
                &*ticks,
                &*payoffs,
                &*state,
                &*averages,
            ];
            gpu.dispatch(&layout::EXTENSIVE_GAMES_SOLVE, &params, &buffers)?;
            // One flush per dispatch, because a driver may time out on a submission of several.
            gpu.flush()?;
            done += n_iterations;
        }
        Ok(gpu.read(&averages)?)
    }

    /// Computes strategies from sums; at decisions that were never reached, all actions are equally
    /// likely.
    fn profile(&self, sums: &[f32], form: &Sequences) -> Profile {
        let mut profile = vec![];
        for player in 0..2 {
            let mut strategy = vec![0.0; form.n_sequences(player) - 1];
            for decision in form.decisions(player) {
                let first = player * self.first_sequences + decision.first as usize;
                let own = &sums[first..first + decision.n_actions as usize];
                let total: f64 = own.iter().map(|&sum| f64::from(sum)).sum();
                // A strategy has no number for the empty sequence, which is sequence 0.
                let place = decision.first as usize - 1;
                for (p, &sum) in strategy[place..].iter_mut().zip(own) {
                    *p = if total > 0.0 {
                        f64::from(sum) / total
                    } else {
                        1.0 / own.len() as f64
                    };
                }
            }
            profile.push(strategy);
        }
        profile
    }
}

/// Returns the unit of a player's payoffs: the smallest nonzero absolute payoff. Payoffs that are
/// multiples of this unit become integers, which f32 represents exactly; ties between regrets
/// depend on this. If the largest payoff would then be [`INTEGERS`] or more, returns the largest
/// absolute payoff instead.
fn unit_of_payoffs(payoffs: &[f64]) -> f64 {
    let sizes = payoffs.iter().map(|payoff| payoff.abs());
    let sizes = sizes.filter(|&size| size > 0.0);
    let largest = sizes.clone().fold(f64::MIN_POSITIVE, f64::max);
    let smallest = sizes.fold(largest, f64::min);
    if largest / smallest < INTEGERS {
        smallest
    } else {
        largest
    }
}
