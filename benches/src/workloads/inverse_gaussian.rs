//! Functions of the inverse Gaussian law at a million points, and as many draws from it.
//!
//! Role: the workloads `ig-pdf`, `ig-cdf`, `ig-quantile` and `ig-sample`. Rungs: `loops`, the textbook formula with a library's
//! `erfcx`; `scalar`, a call for each number; `host`, a slice on one thread; `threads`, a slice on all; `wgsl`, in f32
//! on a device. The rival is
//! SciPy, on one thread as well.
//! Method: the truth is the textbook formula, which is right for this law; a quantile is right if the textbook's
//! distribution function leads back. Draws are judged by Kolmogorov's distance from the law.
//! Shapes: input and result are vectors; inputs are f32 numbers, computed with in f64.
//! Source: S0, whose script evaluates this law by SciPy.

use crate::program::Law;
use crate::rivals::{Job, script};
use crate::workload::{Extent, Output, Part, Problem, Rung, Task, Work, Workload};
use anyhow::{Result, bail, ensure};
use distributions::InverseGaussian;
use distributions::gpu::{self, Batch};
use gpu_wgsl::{Buffer, Gpu};
use puruspe::error::erfcx;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use tensor_core::compare::{Bound, compare};

/// The law of all four, that of the gates: S0's `mu = 0.5`.
const MEAN: f64 = 0.5;
const SHAPE: f64 = 1.0;
/// Numbers are drawn from here on, over this width: both tails.
const LOW: f32 = 0.01;
const WIDTH: f32 = 3.0;
/// Seed of the draws.
const SEED: u64 = 1;
/// The textbook formula multiplies the error of an exponent below 50, and a library's `erfcx` adds a few roundings.
const BOUND: usize = 200;
/// Kolmogorov's statistic `sqrt(n) D` exceeds this once in 10⁸ samples.
const WORST_STATISTIC: f64 = 3.1;

/// What is computed of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The density.
    Pdf,
    /// The distribution function.
    Cdf,
    /// Its inverse.
    Quantile,
    /// Draws.
    Sample,
}

impl Function {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pdf, Self::Cdf, Self::Quantile, Self::Sample];

    /// Gives the name of its workload.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pdf => "ig-pdf",
            Self::Cdf => "ig-cdf",
            Self::Quantile => "ig-quantile",
            Self::Sample => "ig-sample",
        }
    }

    /// Gives its task at the size that is measured; quantiles are fewer, or the rival would take seconds a run.
    #[must_use]
    pub fn task(self) -> Task {
        let len = match self {
            Self::Quantile => 20_000,
            _ => 1_000_000,
        };
        Task {
            name: self.name(),
            size: len.to_string(),
            needs_labels: false,
            program: None,
            prepare: Box::new(move |_| Ok(Box::new(self.problem(len)?))),
        }
    }

    /// Draws the inputs and computes the truth about them.
    ///
    /// # Errors
    /// None but that of a law whose parameters are wrong.
    pub fn problem(self, len: usize) -> Result<Values> {
        let mut inputs = Law::Uniform.draw(len, 0);
        if matches!(self, Self::Pdf | Self::Cdf) {
            inputs.iter_mut().for_each(|x| *x = LOW + WIDTH * *x);
        }
        if self == Self::Quantile {
            // Uniform numbers may be 0, whose quantile is.
            inputs.iter_mut().for_each(|p| *p = p.max(f32::EPSILON));
        }
        let law = InverseGaussian::new(MEAN, SHAPE)?;
        let xs: Vec<f64> = inputs.iter().map(|&x| f64::from(x)).collect();
        let truth = match self {
            Self::Pdf => xs.iter().map(|&x| textbook_pdf(x)).collect(),
            Self::Cdf => xs.iter().map(|&x| textbook_cdf(x)).collect(),
            Self::Quantile => xs.clone(),
            Self::Sample => Vec::new(),
        };
        Ok(Values {
            function: self,
            law,
            inputs,
            xs,
            truth,
        })
    }
}

/// The density, as textbooks write it.
fn textbook_pdf(x: f64) -> f64 {
    let exponent = SHAPE * (x - MEAN) * (x - MEAN) / (2.0 * MEAN * MEAN * x);
    (SHAPE / (2.0 * PI * x * x * x)).sqrt() * (-exponent).exp()
}

/// The distribution function by `Φ(w) + exp(2λ/μ) Φ(-v)`, both terms by `erfcx`.
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

/// One function of the law with inputs and truth.
#[derive(Clone, Debug)]
pub struct Values {
    function: Function,
    law: InverseGaussian,
    inputs: Vec<f32>,
    /// The inputs in f64.
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
        Extent {
            part: Part::whole(1),
            work: Work::Values(len),
            bytes: n_arrays * len * size_of::<f64>() as f64,
        }
    }

    fn rung<'a>(
        &self,
        name: &'static str,
        work: impl FnMut(&mut Vec<f64>) -> Result<()> + 'a,
    ) -> Rung<'a> {
        Rung::on_cpu(name, self.extent(), self.inputs.len(), work)
    }

    /// A rung that computes one number after the other.
    fn singly<'a>(&'a self, name: &'static str, function: impl Fn(f64) -> f64 + 'a) -> Rung<'a> {
        self.rung(name, move |out: &mut Vec<f64>| {
            for (out, &x) in out.iter_mut().zip(&self.xs) {
                *out = function(x);
            }
            Ok(())
        })
    }

    /// The rung of a device, in f32, where it has the function.
    fn on_gpu<'a>(&'a self, gpu: &'a Gpu) -> Option<Rung<'a>> {
        let call = match self.function {
            Function::Pdf => Batch::pdf_buffer,
            Function::Cdf => Batch::cdf_buffer,
            Function::Quantile => return None,
            Function::Sample => |batch: &Batch<'_>, xs: &Buffer<f32>| {
                batch.sample_buffer(SEED, 0, 0..u32::try_from(xs.len()).unwrap_or(u32::MAX))
            },
        };
        // In f32 numbers are half as long.
        let whole = self.extent();
        let extent = Extent {
            bytes: 0.5 * whole.bytes,
            ..whole
        };
        Some(Rung::called_on_gpu(gpu, extent, move || {
            let batch = Batch::new(gpu, self.law)?;
            let xs = gpu.upload("xs", &[self.inputs.len()], &self.inputs)?;
            Ok(move || Ok(call(&batch, &xs)?))
        }))
    }

    fn rungs<'a>(&'a self, gpus: &'a [Gpu]) -> Vec<Rung<'a>> {
        let mut rungs = self.on_cpu();
        rungs.extend(gpus.iter().filter_map(|gpu| self.on_gpu(gpu)));
        rungs
    }

    fn on_cpu(&self) -> Vec<Rung<'_>> {
        let (law, xs) = (self.law, &self.xs[..]);
        match self.function {
            Function::Pdf => vec![
                self.singly("loops", textbook_pdf),
                self.singly("scalar", move |x| law.pdf(x)),
                self.rung("host", move |out| Ok(law.pdf_into(xs, out)?)),
                self.rung("threads", move |out| Ok(law.par_pdf_into(xs, out)?)),
            ],
            Function::Cdf => vec![
                self.singly("loops", textbook_cdf),
                self.singly("scalar", move |x| law.cdf(x)),
                self.rung("host", move |out| Ok(law.cdf_into(xs, out)?)),
                self.rung("threads", move |out| Ok(law.par_cdf_into(xs, out)?)),
            ],
            Function::Quantile => vec![
                self.singly("scalar", move |p| law.inverse_cdf(p)),
                self.rung("host", move |out| Ok(law.inverse_cdf_into(xs, out)?)),
                self.rung("threads", move |out| Ok(law.par_inverse_cdf_into(xs, out)?)),
            ],
            Function::Sample => vec![self.rung("host", move |out| {
                law.sample_into(&mut Xoshiro256PlusPlus::seed_from_u64(SEED), out);
                Ok(())
            })],
        }
    }

    /// How near results in f32 must lie: the promise of the device's functions.
    fn f32_bound(&self) -> Bound {
        let function = match self.function {
            Function::Pdf => gpu::Function::Pdf,
            _ => gpu::Function::Cdf,
        };
        let epsilons = gpu::max_epsilons(function) as f64 * f64::from(f32::EPSILON);
        let allowed = self
            .truth
            .iter()
            .map(|truth| truth * epsilons / f64::EPSILON);
        Bound::relative(1)
            .scaled_by(allowed)
            .or_absolute(f32::MIN_POSITIVE.into())
    }

    fn check(&self, result: &Output) -> Result<()> {
        // What a device gives has f32's digits.
        let (result, bound): (Vec<f64>, _) = match result {
            Output::F64(values) => (values.clone(), Bound::relative(BOUND)),
            Output::F32(values) => (values.iter().map(|&x| x.into()).collect(), self.f32_bound()),
            other => bail!("values of a function are floats, not {other:?}"),
        };
        ensure!(
            result.len() == self.inputs.len(),
            "{} values for {} inputs",
            result.len(),
            self.inputs.len()
        );
        let found = match self.function {
            Function::Pdf | Function::Cdf => result,
            Function::Quantile => result.into_iter().map(textbook_cdf).collect(),
            Function::Sample => return goodness(result),
        };
        compare(found, &self.truth, &bound)?;
        Ok(())
    }
}

/// Checks that numbers are draws from the law.
fn goodness(mut sample: Vec<f64>) -> Result<()> {
    ensure!(
        sample.iter().all(|x| *x > 0.0 && x.is_finite()),
        "a draw is not positive and finite"
    );
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let steps = sample.iter().zip(0_u32..).map(|(&x, rank)| {
        let (cdf, rank) = (textbook_cdf(x), f64::from(rank));
        (cdf - rank / n).max((rank + 1.0) / n - cdf)
    });
    let statistic = n.sqrt() * steps.fold(0.0, f64::max);
    compare(
        [statistic],
        [0.0_f64],
        &Bound::exact().or_absolute(WORST_STATISTIC),
    )?;
    Ok(())
}

impl Problem for Values {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        Workload {
            name: self.function.name(),
            source: "S0",
            size: self.inputs.len().to_string(),
            whole: self.extent(),
            n_losses: 0,
            figure: None,
            rungs: self.rungs(gpus),
            rivals: Job::each(
                &["scipy"],
                match self.function {
                    Function::Pdf => script!("ig_pdf.py"),
                    Function::Cdf => script!("ig_cdf.py"),
                    Function::Quantile => script!("ig_quantile.py"),
                    Function::Sample => script!("ig_sample.py"),
                },
                &[("n", self.inputs.len())],
                &[("x", &self.inputs)],
            ),
            left_out: Vec::new(),
            check: Box::new(|result, _| self.check(result)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_of_another_law_are_refused() {
        let mut draws = vec![0.0; 100_000];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        for (mean, is_right) in [(MEAN, true), (1.02 * MEAN, false)] {
            let law = InverseGaussian::new(mean, SHAPE).unwrap();
            law.sample_into(&mut rng, &mut draws);
            assert_eq!(goodness(draws.clone()).is_ok(), is_right);
        }
        draws[7] = 0.0;
        assert!(goodness(draws).is_err());
    }
}
