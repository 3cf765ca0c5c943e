//! Codes of the treatment of regrets in the kernels of games.

/// The treatment of accumulated regrets in regret matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MatchingKeep {
    /// Sums are unchanged.
    All,
    /// Negative sums are set to zero.
    Positive,
    /// Positive and negative sums are multiplied by factors, which may change with each iteration.
    Shares,
}
