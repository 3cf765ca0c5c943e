//! The bases at which a fit begins.
//!
//! Method: a start is the range between the lowest and the highest level, and the ratios of the
//! basis within this range. The ranges are multiples of the population's size. The published
//! ratios 1:2:4:… (uniform levels) end in a worse fixed point from 3 bits on. Bases that grow more
//! slowly lead to the best basis known for the normal distribution: 3:5:7 with 3 bits and 3:5:7:11
//! with 4.

use super::Qem;
use crate::level_set::Alphabet;

/// The highest level of the published start relative to the standard deviation, with many bits:
/// twice the upper quartile of the normal distribution.
const PUBLISHED: f64 = 2.0 * 0.674_489_750_196_081_7;
/// The highest levels of the starts, relative to the published one.
const SIZES: [f64; 3] = [1.0, 1.4, 1.9];

/// Returns the bases and offsets at which a fit begins, for a population with this mean and this
/// mean square.
pub(super) fn bases(qem: &Qem, mean: f64, mean_square: f64) -> Vec<(Vec<f64>, f64)> {
    let size = mean_square.sqrt();
    let deviation = (mean_square - mean * mean).max(0.0).sqrt();
    let mut ranges = Vec::new();
    for reach in SIZES.map(|times| times * PUBLISHED) {
        match qem.alphabet {
            Alphabet::Signs => ranges.push([-reach * size, reach * size]),
            Alphabet::Bits => ranges.push([0.0, (reach * size).copysign(mean)]),
        }
        if qem.is_affine {
            ranges.push([mean - reach * deviation, mean + reach * deviation]);
        }
        if qem.is_affine && qem.alphabet == Alphabet::Signs {
            ranges.push([0.0, (reach * size).copysign(mean)]);
        }
    }
    let mut ratios = ratios(qem.bits);
    if qem.is_uniform {
        ratios.truncate(1);
    }
    let starts = ranges.iter().flat_map(|&[low, high]| {
        ratios.iter().map(move |ratios| {
            let (mut basis, offset) = spanned(qem.alphabet, ratios, low, high);
            basis.truncate(qem.basis_len());
            (basis, offset)
        })
    });
    starts.collect()
}

/// Returns the ratios of the numbers of a basis; the first ones are those of uniform levels.
fn ratios(bits: usize) -> Vec<Vec<f64>> {
    let ratios = |of: fn(f64) -> f64| (0..bits).map(|j| of(j as f64)).collect();
    vec![
        ratios(f64::exp2),
        ratios(|j| 1.5_f64.powf(j)),
        // 3, 5, 7, 11, 15, …
        ratios(|j| 3.0 + 2.0 * j + 2.0 * (j - 2.0).max(0.0)),
    ]
}

/// Returns the basis with these ratios whose lowest and highest levels are `low` and `high`, and
/// its offset.
fn spanned(alphabet: Alphabet, ratios: &[f64], low: f64, high: f64) -> (Vec<f64>, f64) {
    let sum: f64 = ratios.iter().sum();
    // A bit moves a level by its number, a sign by twice its number.
    let (width, offset) = match alphabet {
        Alphabet::Signs => ((high - low) / 2.0, (low + high) / 2.0),
        Alphabet::Bits => (high - low, low),
    };
    let basis = ratios.iter().map(|ratio| ratio * width / sum).collect();
    (basis, offset)
}
