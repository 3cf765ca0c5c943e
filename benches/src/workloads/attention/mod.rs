//! Attention: `softmax(q · kᵀ / √width) · v` for each head of each sample.
//!
//! Role: the workload `attention`: two batched matrix products with a softmax over rows between
//! them, whose scores take as much memory as inputs and result at the size that is measured.
//! Shapes: `q`, `k`, `v` and the result `[batch, heads, length, width]`, row-major.
//! Accuracy: compared with f64. Let `s` be the largest `Σ|q·k| / √width` of a query. A score has an
//! error of at most `e = of_sum(width) · s` epsilons. A probability therefore has a relative error
//! of `2 e` (its power and the sum of all powers), plus `PROBABILITY_EPSILONS`, plus the error of
//! the sum over `length`. The second product adds the error of another sum over `length`. All are
//! in epsilons of `Σ p|v|`.
//! Source: Vaswani et al. 2017, "Attention Is All You Need".

use crate::roundings;
use anyhow::Result;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::Work;
use std::rc::Rc;
use tensor_core::compare::Tolerance;

/// Operations per score besides the products: one each for scale, maximum, subtraction,
/// exponential, sum and division.
const OPERATIONS_PER_SCORE: f64 = 6.0;
/// Relative error of a probability besides those of the sums, in epsilons. Twice, for the power and
/// for the sum of all powers: up to 4 from the division by the root, whose result is below 8; up to
/// 8 from the score less the maximum, whose magnitude is below 16; 4 for a fast exponential. Once:
/// one for the division by the sum.
const PROBABILITY_EPSILONS: usize = 33;

/// Returns the program for normal numbers.
#[must_use]
pub fn program([batch, heads, length, width]: [usize; 4]) -> TensorWorkload<f32, 3> {
    let axes = [
        ("batch", batch),
        ("heads", heads),
        ("length", length),
        ("width", width),
    ];
    let input = |name, stream| Input::new(name, InputDistribution::Normal, stream, &axes);
    TensorWorkload {
        name: "attention",
        source: "S2",
        size: format!("{batch}x{heads}x{length}x{width}"),
        script: script!("attention.py"),
        inputs: [input("q", 0), input("k", 1), input("v", 2)],
        truth: Rc::new(truth),
        loops: Rc::new(loops),
        expression: Rc::new(move |[q, k, v]| {
            let scores = q.matmul(&k.swap_axes(-1, -2)) / (width as f64).sqrt();
            scores.softmax(-1).matmul(v)
        }),
        options: Options {
            runs_on_software: false,
            ..Options::default()
        },
    }
}

fn truth([q, k, v]: &[Array; 3]) -> Result<Truth> {
    let [_, _, length, width] = q.sides();
    let [q, k, v] = [q, k, v].map(Array::in_f64);
    let root = (width as f64).sqrt();
    let (of_scores, of_rows) = (roundings::of_sum(width), roundings::of_sum(length));
    let (mut expected, mut tolerances) = (Vec::new(), Vec::new());
    let heads = |x| <[f64]>::chunks_exact(x, length * width);
    for ((q, k), v) in heads(&q).zip(heads(&k)).zip(heads(&v)) {
        for query in q.chunks_exact(width) {
            let terms = |key| query.iter().zip(key).map(|(q, k): (&f64, &f64)| q * k);
            let keys = || k.chunks_exact(width);
            let powers = keys().map(|key| (terms(key).sum::<f64>() / root).exp());
            let powers: Vec<f64> = powers.collect();
            let magnitudes = keys().map(|key| terms(key).map(f64::abs).sum::<f64>() / root);
            let score_epsilons = of_scores as f64 * magnitudes.fold(0.0, f64::max);
            let epsilons = 2.0 * score_epsilons + (PROBABILITY_EPSILONS + 2 * of_rows) as f64;
            let total: f64 = powers.iter().sum();
            let (mut row, mut magnitudes) = (vec![0.0; width], vec![0.0; width]);
            for (power, value) in powers.iter().zip(v.chunks_exact(width)) {
                for ((sum, magnitude), v) in row.iter_mut().zip(&mut magnitudes).zip(value) {
                    *sum += power / total * v;
                    *magnitude += power / total * v.abs();
                }
            }
            expected.extend(row);
            tolerances.extend(magnitudes.into_iter().map(|sum| epsilons * sum));
        }
    }
    let n_scores = (expected.len() / width * length) as f64;
    Ok(Truth {
        expected,
        // The number of epsilons differs between rows, so the magnitudes contain it.
        tolerance: Tolerance::relative(1).scaled_by(tolerances),
        work: Work::Operations(n_scores * (4.0 * width as f64 + OPERATIONS_PER_SCORE)),
    })
}

/// Computes one query at a time: its scores, their softmax, and the sum of weighted values.
fn loops([q, k, v]: &[Array; 3], out: &mut [f32]) -> Result<()> {
    let [_, _, length, width] = q.sides();
    let root = (width as f32).sqrt();
    let mut scores = vec![0.0; length];
    for (at, (query, out)) in q
        .elements
        .chunks_exact(width)
        .zip(out.chunks_exact_mut(width))
        .enumerate()
    {
        let head = at / length * length * width;
        let [keys, values] =
            [k, v].map(|x| x.elements[head..][..length * width].chunks_exact(width));
        let mut max = f32::NEG_INFINITY;
        for (score, key) in scores.iter_mut().zip(keys) {
            let terms = query.iter().zip(key).map(|(q, k)| q * k);
            *score = terms.sum::<f32>() / root;
            max = max.max(*score);
        }
        let mut sum = 0.0;
        for score in &mut scores {
            *score = (*score - max).exp();
            sum += *score;
        }
        out.fill(0.0);
        for (power, value) in scores.iter().zip(values) {
            for (out, v) in out.iter_mut().zip(value) {
                *out += power / sum * v;
            }
        }
    }
    Ok(())
}
