//! The end of a training whose result no longer improves.

use std::ops::ControlFlow;

/// A rule that ends a training after a number of scores in a row that are not better than the best
/// score before.
///
/// A score is better if it is higher. An example is the accuracy on images that are used neither
/// for training nor for the reported result. A score of NaN is never better.
///
/// # Examples
/// The callback of [`Training::run`](super::Training::run) returns the result of `observe` at the
/// end of an epoch, and stores the network if its score is the best one.
/// ```
/// use std::ops::ControlFlow;
///
/// use quant::train::EarlyStop;
///
/// let mut stop = EarlyStop::new(2);
/// let mut best = None;
/// for (epoch, score) in [0.90, 0.93, 0.92, 0.93, 0.95].into_iter().enumerate() {
///     let flow = stop.observe(score);
///     if stop.is_best() {
///         best = Some(epoch);
///     }
///     if flow == ControlFlow::Break(()) {
///         break;
///     }
/// }
/// assert_eq!((best, stop.best()), (Some(1), Some(0.93)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyStop {
    patience: usize,
    best: Option<f64>,
    n_since_best: usize,
}

impl EarlyStop {
    /// Creates a rule that ends the training after `patience` scores in a row that are not better;
    /// 0 counts as 1.
    #[must_use]
    pub fn new(patience: usize) -> Self {
        Self {
            patience: patience.max(1),
            best: None,
            n_since_best: 0,
        }
    }

    /// Adds a score, and returns whether the training goes on.
    pub fn observe(&mut self, score: f64) -> ControlFlow<()> {
        let is_best = match self.best {
            Some(best) => score > best,
            None => !score.is_nan(),
        };
        if is_best {
            self.best = Some(score);
            self.n_since_best = 0;
        } else {
            self.n_since_best += 1;
        }
        if self.n_since_best >= self.patience {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Returns whether the last score was the best one.
    #[must_use]
    pub fn is_best(&self) -> bool {
        self.best.is_some() && self.n_since_best == 0
    }

    /// Returns the best score; `None` before the first one.
    #[must_use]
    pub fn best(&self) -> Option<f64> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_are_no_numbers_or_equal_are_not_better() {
        let mut stop = EarlyStop::new(3);
        let flows = [f64::NAN, 0.5, 0.5, f64::NAN, 0.4].map(|score| stop.observe(score));
        assert_eq!(
            flows.map(|flow| flow.is_break()),
            [false, false, false, false, true]
        );
        assert_eq!(stop.best(), Some(0.5));
        let mut stop = EarlyStop::new(1);
        assert!(stop.observe(f64::NAN).is_break() && !stop.is_best());
    }
}
