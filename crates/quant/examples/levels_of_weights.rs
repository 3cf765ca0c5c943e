//! Fits the weights of a layer with 1 to 4 bits, and compares the errors with those of uniform
//! levels and of levels without a basis.
//!
//! Run it with `cargo run -p quant --example levels_of_weights`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use quant::{Population, Qem, Sample, lloyd_max};

fn main() -> quant::Result<()> {
    // Weights as of a trained layer: many near 0, few far out.
    let weights: Vec<f32> = (0..20_000_u16)
        .map(|i| {
            let p = (f32::from(i) + 0.5) / 20_000.0;
            let distance = -(1.0 - (2.0 * p - 1.0).abs()).ln();
            distance.copysign(p - 0.5) * 0.02
        })
        .collect();
    let sample = Sample::new(&weights)?;
    let whole = sample.sum_of_squares() / weights.len() as f64;
    println!("mean square error in % of the mean square of the weights");
    println!("bits  learned basis  uniform  without a basis");
    for bits in 1..=4 {
        let fit = Qem::signs(bits)?.fit(&sample)?;
        let uniform = Qem::signs(bits)?.uniform().fit(&sample)?;
        let levels = fit.level_set()?;
        let start: Vec<f64> = levels.levels().iter().copied().map(f64::from).collect();
        let best = lloyd_max(&sample, &start)?;
        let percent = |error: f64| 100.0 * error / whole;
        println!(
            "{bits:4}  {:13.2}  {:7.2}  {:15.2}",
            percent(fit.mean_square_error),
            percent(uniform.mean_square_error),
            percent(best.mean_square_error)
        );
        let (codes, _) = levels.quantize(&weights);
        assert_eq!(levels.dequantize(&codes)?.len(), weights.len());
    }
    Ok(())
}
