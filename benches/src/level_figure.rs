//! Panels that show levels over the histogram of the weights.
//!
//! Role: the figures of `qem-fit` and `quant-accuracy`.

use charts::{Panel, Series};

/// The number of bars of the histogram.
const N_BARS: usize = 60;

/// Returns a panel with the histogram of weights, and a vertical line at each level.
#[must_use]
pub fn panel(label: String, weights: &[f64], levels: &[f64]) -> Panel {
    let (bars, highest) = histogram(weights);
    // One line that rises at each level and returns to the axis.
    let rises = |&level: &f64| [(level, 0.0), (level, highest), (level, 0.0)];
    Panel {
        x: label,
        y: "number of weights".into(),
        lines: vec![
            Series::through("weights", bars),
            Series::through("levels", levels.iter().flat_map(rises)),
        ],
        ..Panel::default()
    }
}

/// Returns the outline of the histogram, and its highest bar.
fn histogram(weights: &[f64]) -> (Vec<(f64, f64)>, f64) {
    let largest = weights.iter().fold(0.0_f64, |most, w| most.max(w.abs()));
    let width = 2.0 * largest / N_BARS as f64;
    let edge = |bar: usize| bar as f64 * width - largest;
    let count = |bar: usize| {
        let is_last = bar + 1 == N_BARS;
        let inside = weights
            .iter()
            .filter(|&&w| w >= edge(bar) && (w < edge(bar + 1) || is_last));
        inside.count() as f64
    };
    let counts: Vec<f64> = (0..N_BARS).map(count).collect();
    let highest = counts.iter().copied().fold(0.0, f64::max);
    let outline = counts.iter().enumerate();
    let outline = outline.flat_map(|(bar, &n)| [(edge(bar), n), (edge(bar + 1), n)]);
    (outline.collect(), highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_in_one_bar() {
        let weights = [-1.0, -1.0, 0.01, 0.99, 1.0];
        let (outline, highest) = histogram(&weights);
        // Both ends of each bar are points of the outline.
        let total: f64 = outline.iter().step_by(2).map(|point| point.1).sum();
        assert_eq!((total, highest), (5.0, 2.0));
        assert_eq!((outline[0].0, outline[2 * N_BARS - 1].0), (-1.0, 1.0));
    }

    #[test]
    fn levels_rise_to_the_highest_bar() {
        let panel = panel("weight".to_owned(), &[0.5, 0.5, -1.0], &[0.25]);
        assert_eq!(
            panel.lines[1].points,
            [[0.25, 0.0], [0.25, 2.0], [0.25, 0.0]]
        );
    }
}
