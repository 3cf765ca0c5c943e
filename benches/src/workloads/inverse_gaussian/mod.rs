//! Functions of the inverse Gaussian distribution at a million points, and a million draws.
//!
//! Role: the workloads `ig-pdf`, `ig-cdf`, `ig-quantile` and `ig-sample`. Variants: `loops`, the
//! textbook formula with a library's `erfcx`; `scalar`, one call per number; `host`, a slice on one
//! thread; `threads`, a slice on all threads; `wgsl`, in f32 on a GPU. The rival is SciPy, on one
//! thread.
//! Method: the expected result is the textbook formula, which is accurate for the parameters used
//! here. A quantile is correct if the textbook's distribution function maps it back to its
//! probability. Draws are checked by the Kolmogorov distance from the distribution.
//! Shapes: inputs and result are vectors; inputs are f32 numbers, converted to f64 for the
//! computation.
//! Source: the blog note "Normality of Inverse Gaussian", whose script evaluates this distribution
//! with SciPy.

use anyhow::{Context as _, Result, bail, ensure};
use distributions::InverseGaussian;
use distributions::gpu::{self, Batch};
use gpu_wgsl::{Buffer, Gpu};
use harness::program::InputDistribution;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{Extent, Output, Problem, Task, Variant, Work, Workload};
use puruspe::error::erfcx;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use tensor_core::compare::{Tolerance, compare};

/// Mean of the distribution in all four workloads, as in the note.
const MEAN: f64 = 0.5;
/// Shape of the distribution in all four workloads.
const SHAPE: f64 = 1.0;
/// Lowest input, in the left tail.
const LOW: f32 = 0.01;
/// Width of the range of inputs, which covers both tails.
const WIDTH: f32 = 3.0;
/// Seed of the draws.
const SEED: u64 = 1;
/// Tolerance in epsilons. In the textbook formula, `exp` magnifies the rounding error of its
/// exponent by the exponent's size, which is below 50; the library's `erfcx` adds a few roundings.
const BOUND: usize = 200;
/// Limit of Kolmogorov's statistic `sqrt(n) D`, which is exceeded once in 10⁸ samples.
const WORST_STATISTIC: f64 = 3.1;

/// The function to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Probability density.
    Pdf,
    /// Cumulative distribution function.
    Cdf,
    /// Quantile, the inverse of the distribution function.
    Quantile,
    /// Random draws.
    Sample,
}

impl Function {
    /// All functions.
    pub const ALL: [Self; 4] = [Self::Pdf, Self::Cdf, Self::Quantile, Self::Sample];

    /// Returns the name of the workload.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pdf => "ig-pdf",
            Self::Cdf => "ig-cdf",
            Self::Quantile => "ig-quantile",
            Self::Sample => "ig-sample",
        }
    }

    /// Returns the task at the size that is measured. The number of quantiles is smaller, because
    /// the rival would take seconds per run.
    #[must_use]
    pub fn task(self) -> Task {
        let len = match self {
            Self::Quantile => 20_000,
            _ => 1_000_000,
        };
        Task::new(self.name(), "S0", len.to_string(), move || {
            self.problem(len)
        })
    }

    /// Draws the inputs and computes the expected result.
    ///
    /// # Errors
    /// The distribution's parameters are invalid, which does not occur for those used here.
    pub fn problem(self, len: usize) -> Result<Values> {
        let mut inputs = InputDistribution::Uniform.draw(len, 0);
        if matches!(self, Self::Pdf | Self::Cdf) {
            inputs.iter_mut().for_each(|x| *x = LOW + WIDTH * *x);
        }
        if self == Self::Quantile {
            // Uniform numbers may be 0, whose quantile is 0, the end of the support. Such inputs
            // are replaced by a small positive probability.
            inputs.iter_mut().for_each(|p| *p = p.max(f32::EPSILON));
        }
        let distribution = InverseGaussian::new(MEAN, SHAPE)?;
        let xs: Vec<f64> = inputs.iter().map(|&x| f64::from(x)).collect();
        let truth = match self {
            Self::Pdf => xs.iter().map(|&x| textbook_pdf(x)).collect(),
            Self::Cdf => xs.iter().map(|&x| textbook_cdf(x)).collect(),
            Self::Quantile => xs.clone(),
            Self::Sample => Vec::new(),
        };
        Ok(Values {
            function: self,
            distribution,
            inputs,
            xs,
            truth,
        })
    }
}

/// Returns the density by the textbook formula.
fn textbook_pdf(x: f64) -> f64 {
    let exponent = SHAPE * (x - MEAN) * (x - MEAN) / (2.0 * MEAN * MEAN * x);
    (SHAPE / (2.0 * PI * x * x * x)).sqrt() * (-exponent).exp()
}

/// Returns the distribution function as `Φ(w) + exp(2λ/μ) Φ(-v)`, both terms computed with `erfcx`.
fn textbook_cdf(x: f64) -> f64 {
    let s = (SHAPE / x).sqrt();
    let (w, v) = (s * (x - MEAN) / MEAN, s * (x + MEAN) / MEAN);
    let decay = 0.5 * (-0.5 * w * w).exp();
    let other = decay * erfcx(v * FRAC_1_SQRT_2);
    let one = decay * erfcx(w.abs() * FRAC_1_SQRT_2);
    if w < 0.0 {
        one + other
    } else {
        1.0 - one + other
    }
}

/// A function of the distribution, with the inputs and the expected result.
#[derive(Clone, Debug)]
pub struct Values {
    function: Function,
    distribution: InverseGaussian,
    inputs: Vec<f32>,
    /// Inputs in f64.
    xs: Vec<f64>,
    truth: Vec<f64>,
}

impl Values {
    fn extent(&self) -> Extent {
        let len = self.inputs.len() as f64;
        // Draws have no inputs.
        let n_arrays = if self.function == Function::Sample {
            1.0
        } else {
            2.0
        };
        let bytes = n_arrays * len * size_of::<f64>() as f64;
        Extent::new(Work::Values(len), bytes)
    }

    fn variant<'a>(
        &self,
        name: &'static str,
        work: impl FnMut(&mut Vec<f64>) -> Result<()> + 'a,
    ) -> Variant<'a> {
        Variant::on_cpu(name, self.extent(), self.inputs.len(), work)
    }

    /// Returns a variant that computes one number after the other.
    fn singly<'a>(&'a self, name: &'static str, function: impl Fn(f64) -> f64 + 'a) -> Variant<'a> {
        self.variant(name, move |out: &mut Vec<f64>| {
            for (out, &x) in out.iter_mut().zip(&self.xs) {
                *out = function(x);
            }
            Ok(())
        })
    }

    /// Returns the variant of a device, in f32, or `None` if the device does not support the
    /// function.
    fn on_gpu<'a>(&'a self, gpu: &'a Gpu) -> Option<Variant<'a>> {
        let call = match self.function {
            Function::Pdf => Batch::pdf_buffer,
            Function::Cdf => Batch::cdf_buffer,
            Function::Quantile => return None,
            Function::Sample => |batch: &Batch<'_>, xs: &Buffer<f32>| {
                batch.sample_buffer(SEED, 0, 0..u32::try_from(xs.len()).unwrap_or(u32::MAX))
            },
        };
        // Numbers in f32 are half as long as in f64.
        let whole = self.extent();
        let extent = Extent {
            bytes: 0.5 * whole.bytes,
            ..whole
        };
        Some(Variant::called_on_gpu(gpu, extent, move || {
            let batch = Batch::new(gpu, self.distribution)?;
            let xs = gpu.upload("xs", &[self.inputs.len()], &self.inputs)?;
            Ok(move || Ok(call(&batch, &xs)?))
        }))
    }

    fn on_cpu(&self) -> Vec<Variant<'_>> {
        let (distribution, xs) = (self.distribution, &self.xs[..]);
        match self.function {
            Function::Pdf => vec![
                self.singly("loops", textbook_pdf),
                self.singly("scalar", move |x| distribution.pdf(x)),
                self.variant("host", move |out| Ok(distribution.pdf_into(xs, out)?)),
                self.variant(
                    "threads",
                    move |out| Ok(distribution.par_pdf_into(xs, out)?),
                ),
            ],
            Function::Cdf => vec![
                self.singly("loops", textbook_cdf),
                self.singly("scalar", move |x| distribution.cdf(x)),
                self.variant("host", move |out| Ok(distribution.cdf_into(xs, out)?)),
                self.variant(
                    "threads",
                    move |out| Ok(distribution.par_cdf_into(xs, out)?),
                ),
            ],
            Function::Quantile => vec![
                self.singly("scalar", move |p| distribution.inverse_cdf(p)),
                self.variant("host", move |out| {
                    Ok(distribution.inverse_cdf_into(xs, out)?)
                }),
                self.variant("threads", move |out| {
                    Ok(distribution.par_inverse_cdf_into(xs, out)?)
                }),
            ],
            Function::Sample => vec![self.variant("host", move |out| {
                distribution.sample_into(&mut Xoshiro256PlusPlus::seed_from_u64(SEED), out);
                Ok(())
            })],
        }
    }

    /// Returns the tolerance of results in f32, which is the documented accuracy of the device's
    /// functions.
    fn f32_tolerance(&self) -> Tolerance {
        let function = match self.function {
            Function::Pdf => gpu::Function::Pdf,
            _ => gpu::Function::Cdf,
        };
        let epsilons = gpu::max_epsilons(function) as f64 * f64::from(f32::EPSILON);
        let allowed = self
            .truth
            .iter()
            .map(|truth| truth * epsilons / f64::EPSILON);
        Tolerance::relative(1)
            .scaled_by(allowed)
            .or_absolute(f32::MIN_POSITIVE.into())
    }

    fn check(&self, result: &Output) -> Result<()> {
        // Results of a device are in f32.
        let (result, tolerance): (Vec<f64>, _) = match result {
            Output::F64(values) => (values.clone(), Tolerance::relative(BOUND)),
            Output::F32(values) => (
                values.iter().map(|&x| x.into()).collect(),
                self.f32_tolerance(),
            ),
            other => bail!("result must be floats (got {other:?})"),
        };
        ensure!(
            result.len() == self.inputs.len(),
            "result has {} values (expected {})",
            result.len(),
            self.inputs.len()
        );
        let found = match self.function {
            Function::Pdf | Function::Cdf => result,
            Function::Quantile => result.into_iter().map(textbook_cdf).collect(),
            Function::Sample => return goodness(result),
        };
        compare(found, &self.truth, &tolerance)?;
        Ok(())
    }
}

/// Checks by Kolmogorov's statistic that numbers are draws from the distribution.
fn goodness(mut sample: Vec<f64>) -> Result<()> {
    ensure!(
        sample.iter().all(|x| *x > 0.0 && x.is_finite()),
        "a draw is not positive and finite"
    );
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    // The largest distance between the distribution function and the empirical one, which jumps
    // from rank / n to (rank + 1) / n at each draw.
    let steps = sample.iter().zip(0_u32..).map(|(&x, rank)| {
        let (cdf, rank) = (textbook_cdf(x), f64::from(rank));
        (cdf - rank / n).max((rank + 1.0) / n - cdf)
    });
    // `f64::max` ignores NaN.
    let largest = steps.map(f64::abs).max_by(f64::total_cmp);
    let statistic = n.sqrt() * largest.context("there are no draws")?;
    compare(
        [statistic],
        [0.0_f64],
        &Tolerance::exact().or_absolute(WORST_STATISTIC),
    )?;
    Ok(())
}

impl Problem for Values {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let script = match self.function {
            Function::Pdf => script!("ig_pdf.py"),
            Function::Cdf => script!("ig_cdf.py"),
            Function::Quantile => script!("ig_quantile.py"),
            Function::Sample => script!("ig_sample.py"),
        };
        let (sizes, arrays) = ([("n", self.inputs.len())], [("x", &self.inputs[..])]);
        Workload::new(self.extent(), |result, _| self.check(result))
            .with_variants(self.on_cpu())
            .with_variants(gpus.iter().filter_map(|gpu| self.on_gpu(gpu)))
            .with_rivals(BaselineArguments::each(&["scipy"], script, &sizes, &arrays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_of_another_distribution_are_rejected() {
        let mut draws = vec![0.0; 100_000];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        for (mean, is_right) in [(MEAN, true), (1.02 * MEAN, false)] {
            let distribution = InverseGaussian::new(mean, SHAPE).unwrap();
            distribution.sample_into(&mut rng, &mut draws);
            assert_eq!(goodness(draws.clone()).is_ok(), is_right);
        }
        draws[7] = 0.0;
        assert!(goodness(draws).is_err());
    }
}
