//! Transpositions: planes whose rows are contiguous in the source and whose columns are contiguous
//! in the output.
//!
//! Method: blocks of 16 by 16 elements. A block reads whole cache lines and writes whole cache
//! lines, while a loop along either axis alone would use one element of each line of the other.
//! Strips of 64 columns keep the pages in use few enough for the CPU's page table cache: each
//! column of the output may be on a page of its own in the source.

/// The number of rows and of columns of a block.
pub(crate) const SIDE: usize = 16;
/// The number of columns of a strip.
const STRIP: usize = 64;

/// A plane: `len[0]` columns of the output, which are contiguous in the source, by `len[1]`
/// elements, which are contiguous in the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plane {
    pub(crate) len: [usize; 2],
    /// The distance in the source between neighbouring elements of the output.
    pub(crate) source_stride: isize,
    /// The distance in the output between neighbouring elements of the source.
    pub(crate) out_stride: usize,
}

impl Plane {
    /// Copies the plane that begins at element `first` of `data` to the start of `out`. Elements
    /// outside of `data` are left unchanged; valid nests have none.
    #[inline(always)]
    pub(crate) fn copy<T: Copy>(self, data: &[T], first: isize, out: &mut [T]) {
        let [n_rows, n_cols] = self.len;
        for strip in (0..n_cols).step_by(STRIP) {
            let strip = strip..n_cols.min(strip + STRIP);
            for row in (0..n_rows).step_by(SIDE) {
                for col in strip.clone().step_by(SIDE) {
                    let from = first
                        .wrapping_add(row.cast_signed())
                        .wrapping_add(self.source_stride.wrapping_mul(col.cast_signed()));
                    let out = &mut out[row * self.out_stride + col..];
                    let sides = [n_rows - row, n_cols - col];
                    if sides.iter().all(|&side| side >= SIDE) {
                        self.copy_block(data, from, out);
                    } else {
                        self.copy_rim(data, from, sides.map(|side| side.min(SIDE)), out);
                    }
                }
            }
        }
    }

    /// Copies a whole block.
    #[inline(always)]
    fn copy_block<T: Copy>(self, data: &[T], first: isize, out: &mut [T]) {
        let line = |col: usize| -> Option<&[T; SIDE]> {
            let at = first.wrapping_add(self.source_stride.wrapping_mul(col.cast_signed()));
            data.get(usize::try_from(at).ok()?..)?.first_chunk()
        };
        let Some(&corner) = line(0).map(|line| &line[0]) else {
            return;
        };
        let mut block = [[corner; SIDE]; SIDE];
        for (col, block) in block.iter_mut().enumerate() {
            let Some(line) = line(col) else {
                return;
            };
            *block = *line;
        }
        for row in 0..SIDE {
            let out = &mut out[row * self.out_stride..][..SIDE];
            out.copy_from_slice(&std::array::from_fn::<T, SIDE, _>(|col| block[col][row]));
        }
    }

    /// Copies a block that is smaller than 16 by 16.
    fn copy_rim<T: Copy>(self, data: &[T], first: isize, sides: [usize; 2], out: &mut [T]) {
        for row in 0..sides[0] {
            for col in 0..sides[1] {
                let from = first
                    .wrapping_add(row.cast_signed())
                    .wrapping_add(self.source_stride.wrapping_mul(col.cast_signed()));
                let element = usize::try_from(from).ok().and_then(|at| data.get(at));
                if let Some(&element) = element {
                    out[row * self.out_stride + col] = element;
                }
            }
        }
    }
}
