// Common functions of regret matching. Twin: `twin::matching`.

// Treatments of accumulated regrets other than leaving them unchanged: clip negative sums to zero,
// or multiply by factors.
const MATCHING_POSITIVE: u32 = 1u;
const MATCHING_SHARES: u32 = 2u;
// Threshold below which a sum of positive regrets counts as zero, because its reciprocal would
// overflow.
const MATCHING_NOTHING: f32 = 1.1754944e-38;

// The accumulated regret `sum` after the treatment with the code `keep`. `shares` are the factors
// of positive and of negative sums.
fn matching_kept(sum: f32, keep: u32, shares: vec2<f32>) -> f32 {
    switch keep {
        case MATCHING_POSITIVE: { return max(sum, 0.0); }
        case MATCHING_SHARES: { return sum * select(shares.y, shares.x, sum > 0.0); }
        default: { return sum; }
    }
}
