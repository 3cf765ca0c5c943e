//! Detection of a period in the power of a device.
//!
//! Role: idle gaps that repeat are a sign of a bottleneck. The driver averages utilisation over up
//! to a second, which hides short gaps; power shows them.
//! Method:
//! 1. The series is resampled to constant steps. Its spectrum is computed by FFT, with a Hann
//!    window and zero padding to at least twice the length.
//! 2. Noise of real devices is stronger at low frequencies. Each line is therefore compared with
//!    the medians of the neighbouring lines on both sides, not with white noise. For noise with a
//!    smooth spectrum, a ratio r to m independent neighbours is exceeded with a probability of
//!    about (1 + r/m)^−m. This probability times the number of lines bounds the false-alarm rate.
//! 3. The strongest significant peak may be a harmonic. If a quarter, a third or half of its
//!    frequency is a significant peak as well, the lowest of them is the fundamental.
//! 4. The frequency is refined by maximising the power of the first three harmonics.
//!
//! Limits: periods from four samples to a fifth of the trace.

use crate::updates::{count, median, usual_gap_s};
use std::f64::consts::{LN_2, TAU};

/// A period found in a series of power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periodicity {
    /// Length of the period, in s.
    pub period_s: f64,
    /// Duty cycle: share of time above the midpoint of low and high power, 0 to 1.
    pub duty: f64,
    /// Mean power below and above the midpoint, in W.
    pub levels_w: (f64, f64),
    /// Upper bound on the probability that noise without a period has a spectral peak as strong as
    /// the peak of this period.
    pub chance: f64,
    /// Number of periods in the trace.
    pub n_periods: f64,
}

/// Highest accepted probability of a false alarm.
const MAX_CHANCE: f64 = 1e-3;
/// Fewest samples in a period.
const MIN_SAMPLES: f64 = 4.0;
/// Fewest periods in a trace.
const MIN_PERIODS: f64 = 5.0;
/// Fewest samples of a series that is analysed.
const MIN_LENGTH: usize = 64;
/// Largest number of samples of the resampled series. In longer series, neighbouring readings are
/// averaged.
const MAX_LENGTH: usize = 1 << 16;
/// Distance of independent lines in the padded spectrum, in lines: a factor of two for the padding,
/// and of two for the Hann window.
const LINE_WIDTH: usize = 4;
/// Width, on each side of a line of the spectrum, of the neighbourhood that the line is compared
/// with, as a share of the line's frequency.
const NEIGHBOURHOOD: f64 = 0.4;
/// Smallest and largest number of independent neighbours on each side of a line.
const NEIGHBOURS: (usize, usize) = (5, 40);
/// Statistical efficiency of the median of exponential variables, relative to the mean.
const MEDIAN_WORTH: f64 = 0.48;
/// Divisors of a frequency that are tried to find its fundamental, the lowest frequency first.
const PARTS: [f64; 3] = [4.0, 3.0, 2.0];
/// Number of harmonics whose power the refinement sums.
const N_HARMONICS: i32 = 3;

/// Finds the period of a power series; each element is (time in s, power in W).
///
/// Times must rise; the interval need not be constant. Returns none if no period is significant
/// (false-alarm probability below 0.001), and for fewer than 64 samples or values that are not
/// finite.
#[must_use]
pub fn periodicity(series: &[(f64, f64)]) -> Option<Periodicity> {
    periodicity_of(series, 0.0)
}

/// Finds the period of a series as [`periodicity`] does, with a resampling interval of at least
/// `usual_s`, in s. The lower limit is needed because a trace has additional rows where regions of
/// code begin and end.
pub(super) fn periodicity_of(series: &[(f64, f64)], usual_s: f64) -> Option<Periodicity> {
    let (step_s, samples) = even(series, usual_s)?;
    let lines = spectrum(&samples);
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
    let (n, length) = (samples.len() as f64, lines.len() as f64 * 2.0);
    // The index of a line is its number of cycles per padded length.
    let first = count(MIN_PERIODS * length / n).max(LINE_WIDTH);
    let last = count(length / MIN_SAMPLES).min(lines.len() - 1);
    // Bonferroni: the unpadded spectrum has n/2 lines, each of which may raise a false alarm.
    let chance = |line: usize| {
        let trials = n * 0.5;
        (tail(&lines, line) * trials).min(1.0)
    };
    let is_peak = |&line: &usize| lines[line] >= lines[line - 1] && lines[line] >= lines[line + 1];
    let peaks = (first.max(1)..last).filter(is_peak);
    let candidates = peaks.filter(|&line| chance(line) < MAX_CHANCE);
    let strongest = candidates.max_by(|&a, &b| lines[a].total_cmp(&lines[b]))?;
    // A peak of the padded spectrum may be one line off after the division.
    let mut found = strongest;
    for part in PARTS {
        #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
        let middle = count(strongest as f64 / part);
        let near = middle.saturating_sub(1).max(first)..=middle + 1;
        let lower = near.filter(is_peak).find(|&line| chance(line) < MAX_CHANCE);
        if let Some(lower) = lower {
            found = lower;
            break;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
    let cycles = refine(&samples, found as f64 / length, 1.0 / length);
    let alike: Vec<(f64, f64)> = samples.iter().map(|&watts| (watts, 1.0)).collect();
    let (duty, levels_w) = levels(&alike);
    Some(Periodicity {
        period_s: step_s / cycles,
        duty,
        levels_w,
        chance: chance(found),
        n_periods: n * cycles,
    })
}

/// Divides power, (W, weight), into two levels. Returns the share of the high level by weight, and
/// the means of the low and of the high level, in W.
pub(super) fn levels(watts: &[(f64, f64)]) -> (f64, (f64, f64)) {
    let extremes = |f: fn(f64, f64) -> f64, from| watts.iter().map(|w| w.0).fold(from, f);
    let (mut low, mut high) = (extremes(f64::min, f64::INFINITY), extremes(f64::max, 0.0));
    let mut share = 1.0;
    // k-means (Lloyd's algorithm) with k = 2 converges within a few rounds in one dimension.
    for _ in 0..20 {
        let middle = 0.5 * (low + high);
        let mean = |is_high: bool| {
            let part = watts.iter().filter(|&&(w, _)| (w > middle) == is_high);
            let (sum, n) = part.fold((0.0, 0.0), |(sum, n), (w, k)| (sum + k * w, n + k));
            (n > 0.0).then(|| (sum / n, n))
        };
        let (Some((next_low, n_low)), Some((next_high, n_high))) = (mean(false), mean(true)) else {
            break;
        };
        (low, high, share) = (next_low, next_high, n_high / (n_low + n_high));
    }
    (share, (low, high))
}

/// Resamples a series to constant steps: returns the step, in s, and the samples, in W.
///
/// A value holds until the next value. If more than [`MAX_LENGTH`] samples would be needed, a
/// sample is the mean of the readings in its step. Returns none for a series that is too short or
/// not finite.
fn even(series: &[(f64, f64)], usual_s: f64) -> Option<(f64, Vec<f64>)> {
    let (first, last) = (series.first()?, series.last()?);
    let span_s = last.0 - first.0;
    let times_s = series.iter().map(|reading| reading.0);
    // A longer interval would leave fewer than `MIN_LENGTH` samples.
    let longest_s = span_s / (MIN_LENGTH - 1) as f64;
    let interval_s = usual_gap_s(times_s, longest_s).max(usual_s);
    if interval_s <= 0.0 || !interval_s.is_finite() {
        return None;
    }
    let wanted = count(span_s / interval_s).saturating_add(1);
    let n = wanted.min(MAX_LENGTH);
    if n < MIN_LENGTH {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
    let (step_s, at_s) = {
        let step_s = span_s / (n - 1) as f64;
        (step_s, move |i: usize| first.0 + (i as f64 + 0.5) * step_s)
    };
    // `read` is the last reading at or before the middle of step i. While the series is not
    // thinned, this reading is the sample; otherwise all readings of the step are averaged.
    let (mut read, mut samples) = (0, Vec::with_capacity(n));
    for i in 0..n {
        let (mut sum, mut parts) = (series[read].1, 1.0);
        while read + 1 < series.len() && series[read + 1].0 <= at_s(i) {
            read += 1;
            (sum, parts) = if wanted > n {
                (sum + series[read].1, parts + 1.0)
            } else {
                (series[read].1, 1.0)
            };
        }
        samples.push(sum / parts);
    }
    samples
        .iter()
        .all(|sample| sample.is_finite())
        .then_some((step_s, samples))
}

/// Computes the power spectrum of the samples, minus their mean, up to half the sampling frequency.
fn spectrum(samples: &[f64]) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let mut x = vec![(0.0, 0.0); 2 * samples.len().next_power_of_two()];
    for (i, sample) in samples.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
        let window = 0.5 - 0.5 * (TAU * (i as f64 + 0.5) / n).cos();
        x[i].0 = (sample - mean) * window;
    }
    fourier(&mut x);
    x.truncate(x.len() / 2);
    x.iter().map(|(re, im)| re * re + im * im).collect()
}

/// Computes the discrete Fourier transform of complex numbers, (re, im), in place. The length must
/// be a power of two.
///
/// Source: Cooley and Tukey 1965, "An algorithm for the machine calculation of complex Fourier
/// series".
fn fourier(x: &mut [(f64, f64)]) {
    let n = x.len();
    // Bit reversal of the indices puts the inputs of each butterfly next to each other.
    let shift = usize::BITS - n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> shift;
        if i < j {
            x.swap(i, j);
        }
    }
    // Transforms of length `half` are combined in pairs to transforms of twice the length.
    let mut half = 1;
    while half < n {
        #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
        let turn = -TAU / (2 * half) as f64;
        for block in x.chunks_exact_mut(2 * half) {
            let (left, right) = block.split_at_mut(half);
            for (k, (a, b)) in left.iter_mut().zip(right).enumerate() {
                #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
                let (sin, cos) = (turn * k as f64).sin_cos();
                let turned = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                (*a, *b) = (
                    (a.0 + turned.0, a.1 + turned.1),
                    (a.0 - turned.0, a.1 - turned.1),
                );
            }
        }
        half *= 2;
    }
}

/// Returns the probability that noise as strong as the neighbouring lines has a line at least as
/// strong as `line`; 1 if a side has no neighbours.
///
/// The line is compared with the stronger side, so that the steep low-frequency flank of a step or
/// a slope does not count as a peak.
fn tail(lines: &[f64], line: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
    let reach = NEIGHBOURHOOD * line as f64 / LINE_WIDTH as f64;
    let reach = count(reach).clamp(NEIGHBOURS.0, NEIGHBOURS.1);
    // The window spreads a line over its next neighbours, so the first two widths are left out.
    let away = (2..=reach + 1).map(|i| i * LINE_WIDTH);
    let below = away.clone().filter_map(|away| line.checked_sub(away));
    let below: Vec<f64> = below.filter(|&l| l > 0).map(|l| lines[l]).collect();
    let above: Vec<f64> = away
        .filter_map(|away| lines.get(line + away))
        .copied()
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let m = MEDIAN_WORTH * (below.len() + above.len()) as f64;
    let (Some(below), Some(above)) = (median(below), median(above)) else {
        return 1.0;
    };
    // The median of an exponential variable is ln 2 times its mean.
    let ratio = lines[line] * LN_2 / below.max(above).max(f64::MIN_POSITIVE);
    (1.0 + ratio / m).powf(-m)
}

/// Finds the frequency near `guess`, in cycles per sample, at which the sum of the power of the
/// first harmonics has a maximum. `width` is the distance of two lines of the spectrum.
fn refine(samples: &[f64], guess: f64, width: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let strength = |cycles: f64| -> f64 {
        let harmonic = |h: i32| {
            let turn = TAU * cycles * f64::from(h);
            let (mut re, mut im) = (0.0, 0.0);
            for (i, sample) in samples.iter().enumerate() {
                #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
                let (sin, cos) = (turn * i as f64).sin_cos();
                re += (sample - mean) * cos;
                im += (sample - mean) * sin;
            }
            re * re + im * im
        };
        (1..=N_HARMONICS).map(harmonic).sum()
    };
    // Hill climbing; the step is halved when neither side is stronger.
    let (mut best, mut step) = ((strength(guess), guess), 0.5 * width);
    while step > 1e-3 * width {
        let sides = [best.1 - step, best.1 + step].map(|cycles| (strength(cycles), cycles));
        let next = if sides[0].0 > sides[1].0 {
            sides[0]
        } else {
            sides[1]
        };
        if next.0 > best.0 {
            best = next;
        } else {
            step *= 0.5;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SensorClass;
    use crate::synthetic::{PowerProfile, Sensor};
    use crate::testdata::Random;

    /// Generates noise with a power spectrum of about 1/f: a sum of autoregressive processes whose
    /// rates are an octave apart.
    fn pink(noise: &mut Random, n: usize) -> Vec<f64> {
        let mut states = [0.0; 10];
        let sample = |_| {
            for (octave, state) in (0..).zip(states.iter_mut()) {
                let keep = 1.0 - 0.5_f64.powi(octave + 1);
                *state = keep * *state + (1.0 - keep * keep).sqrt() * noise.normal();
            }
            states.iter().sum::<f64>()
        };
        (0..n).map(sample).collect()
    }

    fn timed(samples: Vec<f64>) -> Vec<(f64, f64)> {
        samples
            .into_iter()
            .enumerate()
            .map(|(i, w)| (i as f64 * 0.1, 150.0 + w))
            .collect()
    }

    #[test]
    fn noise_raises_an_alarm_in_less_than_one_of_a_hundred_traces() {
        let mut alarms = [0; 3];
        for seed in 0..1000 {
            let mut noise = Random(seed);
            let white = (0..600).map(|_| noise.normal()).collect();
            let mut walk = 0.0;
            let brown = (0..600)
                .map(|_| {
                    walk += noise.normal();
                    walk
                })
                .collect();
            for (alarms, samples) in alarms.iter_mut().zip([white, pink(&mut noise, 600), brown]) {
                *alarms += i32::from(periodicity(&timed(samples)).is_some());
            }
        }
        eprintln!(
            "false alarms in 1,000 traces: white {}, 1/f {}, 1/f² {}",
            alarms[0], alarms[1], alarms[2]
        );
        assert!(alarms.iter().all(|&alarms| alarms < 10), "{alarms:?}");
    }

    #[test]
    fn period_and_duty_of_idle_gaps_are_found_through_every_sensor() {
        let mut noise = Random(5);
        for class in SensorClass::ALL {
            for (period_s, duty) in [(1.7, 0.5), (2.93, 0.3), (5.0, 0.8), (7.77, 0.9)] {
                let shorter_s = period_s * f64::min(duty, 1.0 - duty);
                if class == SensorClass::LastSecond && shorter_s < 1.2 {
                    // The sensor averages over a second, so readings never reach the low level.
                    continue;
                }
                let load = PowerProfile::square(60.0, 260.0, period_s, duty);
                let sensor = Sensor::for_class(class);
                let read = |i: i32| {
                    let time_s = f64::from(i) * 0.1;
                    (
                        time_s,
                        sensor.reported_w(&load, time_s) + 8.0 * noise.normal(),
                    )
                };
                let series: Vec<_> = (0..900).map(read).collect();
                let found = periodicity(&series).unwrap();
                let what = format!("{class:?} {period_s} {duty}: {found:?}");
                assert!((found.period_s - period_s).abs() <= 0.1, "{what}");
                assert!((found.duty - duty).abs() <= 0.03, "{what}");
                assert!((found.levels_w.0 - 60.0).abs() < 30.0, "{what}");
                assert!(found.chance < MAX_CHANCE, "{what}");
            }
        }
    }

    #[test]
    fn series_without_a_period_have_none() {
        let straight = |f: fn(f64) -> f64| (0..300).map(|i| f(f64::from(i))).collect::<Vec<_>>();
        assert_eq!(periodicity(&[]), None);
        assert_eq!(periodicity(&timed(straight(|_| 0.0))), None);
        assert_eq!(periodicity(&timed(straight(|i| i))), None);
        assert_eq!(
            periodicity(&timed(straight(|i| if i > 150.0 { 99.0 } else { 0.0 }))),
            None
        );
        assert_eq!(periodicity(&timed(straight(|_| f64::NAN))), None);
        assert_eq!(periodicity(&[(1.0, 5.0); 100]), None);
    }

    #[test]
    fn a_transform_of_a_wave_is_a_line() {
        let mut x: Vec<(f64, f64)> = (0..64)
            .map(|i| ((TAU * f64::from(i) * 5.0 / 64.0).cos(), 0.0))
            .collect();
        fourier(&mut x);
        for (k, (re, im)) in x.iter().enumerate() {
            let expected = if k == 5 || k == 59 { 32.0 } else { 0.0 };
            assert!(
                (re - expected).abs() < 1e-12 && im.abs() < 1e-12,
                "{k}: {re} {im}"
            );
        }
    }
}
