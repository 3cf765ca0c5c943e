//! Two-dimensional grids for a linear count of workgroups.

use crate::{Error, Result};

/// Workgroups per dimension that WebGPU guarantees. A larger limit from a driver is not used,
/// because some drivers report more than they accept.
pub const MAX_WORKGROUPS_PER_DIMENSION: u32 = 65_535;

/// Returns a grid `[n_x, n_y]` for `n_workgroups` workgroups. Both sides are at most `limit` and at
/// most 65 535.
///
/// The grid has at least `n_workgroups` workgroups, and less than one additional row of `n_x`
/// workgroups. Kernels recover the linear index as `y · n_x + x` and compare it with the logical
/// size. Zero workgroups return `[0, 0]`.
///
/// # Errors
/// [`Error::TooLarge`] for more than `min(limit, 65 535)²` workgroups; `kernel` and `domain` appear
/// in the message.
///
/// # Examples
/// ```
/// assert_eq!(gpu_wgsl::linear_grid("k", &[0], 0, 65_535).unwrap(), [0, 0]);
/// assert_eq!(gpu_wgsl::linear_grid("k", &[9], 9, 65_535).unwrap(), [9, 1]);
/// assert_eq!(gpu_wgsl::linear_grid("k", &[65_536], 65_536, 65_535).unwrap(), [32_768, 2]);
/// ```
pub fn linear_grid(
    kernel: &str,
    domain: &[u64],
    n_workgroups: u64,
    limit: u32,
) -> Result<[u32; 2]> {
    let side = u64::from(limit.min(MAX_WORKGROUPS_PER_DIMENSION));
    let too_large = || Error::TooLarge {
        operation: "dispatch",
        name: kernel.to_owned(),
        shape: domain.to_vec(),
        needed: n_workgroups,
        unit: "workgroups",
        limit_name: "(maxComputeWorkgroupsPerDimension)²",
        limit: side * side,
    };
    if n_workgroups == 0 {
        return Ok([0, 0]);
    }
    if n_workgroups > side * side {
        return Err(too_large());
    }
    // The fewest rows that suffice, then rows of equal length, so that little of the last row is
    // wasted.
    let y = n_workgroups.div_ceil(side);
    let x = n_workgroups.div_ceil(y);
    Ok([x, y].map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_covers_the_count_and_wastes_less_than_a_row() {
        for n in [
            1,
            2,
            65_534,
            65_535,
            65_536,
            65_537,
            131_070,
            131_071,
            1_000_003,
            65_535 * 65_535,
        ] {
            let [x, y] = linear_grid("k", &[n], n, 100_000).unwrap().map(u64::from);
            assert!(x <= 65_535 && y <= 65_535);
            assert!(x * y >= n && x * y - n < y, "{n}: {x} x {y}");
        }
    }

    #[test]
    fn more_than_the_square_of_the_limit_is_too_large() {
        let error = linear_grid("fill", &[17], 17, 4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "dispatch: fill [17] needs 17 workgroups, but (maxComputeWorkgroupsPerDimension)² of the adapter is 16"
        );
    }
}
