//! Copies from one half of a symmetric matrix to the other half.
//!
//! Method: a piece of a symmetric output consists of whole rows. The elements left of its diagonal
//! block are copied from the rows above, in blocks of rows and columns, so that each cache line is
//! read and written few times.
//!
//! ```text
//! piece 0   a b c d e f        computed: all
//!           b g h i j k
//! piece 1   c h l m n o        computed: l m n o, m p q r
//!           d i m p q r        mirrored: c h, d i
//! ```

use super::roles::Roles;
use crate::error::Result;
#[cfg(test)]
use crate::fault::{self, Fault};
use crate::parallel;

/// The minimum number of rows of a matrix that is mirrored.
const LEAST: usize = 64;
/// The number of columns that are copied at a time.
const COLUMNS: usize = 16;

/// Returns whether each piece of the output, `n` indices of an axis, consists of some rows of a
/// matrix of at least `LEAST` rows, and the lanes are the last axis.
pub(super) fn supports(roles: &Roles, domain: &[usize], (cut, n): (usize, usize)) -> bool {
    cut + 2 == domain.len()
        && domain[cut] >= LEAST
        && n < domain[cut]
        && roles.rows == [cut]
        && roles.lanes == [cut + 1]
        && roles.runs.is_empty()
}

/// Copies the computed elements to their mirrored places, in matrices of `n` rows that were
/// computed in pieces of `piece` rows.
pub(super) fn mirror<T: Copy + Send + Sync>(out: &mut [T], n: usize, piece: usize) -> Result<()> {
    #[cfg(test)]
    if fault::is_planted(Fault::UnmirroredHalf) {
        return Ok(());
    }
    for matrix in out.chunks_mut(n * n) {
        let (mut below, mut above) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for (row, elements) in matrix.chunks_mut(n).enumerate() {
            let (left, right) = elements.split_at_mut(row / piece * piece);
            below.push(left);
            above.push(&*right);
        }
        parallel::for_each(
            below.chunks_mut(piece).enumerate(),
            || (),
            |(), (number, rows)| {
                let first = number * piece;
                for col in (0..first).step_by(COLUMNS) {
                    for (row, elements) in rows.iter_mut().enumerate() {
                        let elements = elements[col..].iter_mut().take(COLUMNS);
                        for (element, col) in elements.zip(col..) {
                            // The elements of a row above begin at the diagonal of its piece.
                            *element = above[col][first + row - col / piece * piece];
                        }
                    }
                }
                Ok(())
            },
        )?;
    }
    Ok(())
}
