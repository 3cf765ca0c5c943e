// What kernels that match regrets share. Twin: `twin::matching`.

// What is kept of sums of regrets beside everything: those that are positive, or shares of both kinds.
const MATCHING_POSITIVE: u32 = 1u;
const MATCHING_SHARES: u32 = 2u;
// Below this sum of positive regrets there are none: its reciprocal would overflow.
const MATCHING_NOTHING: f32 = 1.1754944e-38;

// What is kept of a sum of regrets; `shares` are those of a positive and of a negative one.
fn matching_kept(sum: f32, keep: u32, shares: vec2<f32>) -> f32 {
    switch keep {
        case MATCHING_POSITIVE: { return max(sum, 0.0); }
        case MATCHING_SHARES: { return sum * select(shares.y, shares.x, sum > 0.0); }
        default: { return sum; }
    }
}
