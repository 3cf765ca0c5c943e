//! Sparse columns of integers in machine words.
//!
//! Role: the inner loops of lifting; a product of two machine words is much cheaper than a product
//! of arbitrary-precision integers, which allocates memory.
//! Method: entries by columns, in 64 bits if all fit, else in 128; all sums are modulo 2^128.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a program has at most 2^20 coefficients, so rows fit 32 bits"
)]

use num_bigint::BigInt;
use num_traits::ToPrimitive;

/// Number of bits of an entry that fit in a word with its sign.
const WORD_BITS: u64 = 63;

/// Columns of short integers.
#[derive(Debug)]
pub(super) struct ShortColumns {
    /// The index of each column's first entry; after the last column, the number of entries.
    starts: Vec<usize>,
    /// The row of each entry.
    rows: Vec<u32>,
    entries: Entries,
}

#[derive(Debug)]
enum Entries {
    Words(Vec<i64>),
    DoubleWords(Vec<i128>),
}

impl ShortColumns {
    /// Converts columns of (row, entry) whose entries have at most `bits` bits; returns `None` if
    /// an entry does not fit in 128 bits.
    pub(super) fn new<'a>(
        columns: impl Iterator<Item = &'a [(usize, BigInt)]> + Clone,
        bits: u64,
    ) -> Option<Self> {
        let mut starts = vec![0];
        for column in columns.clone() {
            starts.push(starts[starts.len() - 1] + column.len());
        }
        let all = || columns.clone().flatten();
        let rows = all().map(|(row, _)| *row as u32).collect();
        let entries = if bits <= WORD_BITS {
            Entries::Words(
                all()
                    .map(|(_, entry)| entry.to_i64())
                    .collect::<Option<_>>()?,
            )
        } else {
            Entries::DoubleWords(
                all()
                    .map(|(_, entry)| entry.to_i128())
                    .collect::<Option<_>>()?,
            )
        };
        Some(Self {
            starts,
            rows,
            entries,
        })
    }

    /// Subtracts from `left` each column times its factor.
    pub(super) fn subtract_combination(&self, left: &mut [i128], factors: &[u64]) {
        match &self.entries {
            Entries::Words(entries) => self.combine(entries, left, factors),
            Entries::DoubleWords(entries) => self.combine(entries, left, factors),
        }
    }

    /// Subtracts from each number of `left`, one per column, the dot product of its column and
    /// `vector`, which has one number per row.
    pub(super) fn subtract_products(&self, left: &mut [i128], vector: &[u64]) {
        match &self.entries {
            Entries::Words(entries) => self.multiply(entries, left, vector),
            Entries::DoubleWords(entries) => self.multiply(entries, left, vector),
        }
    }

    fn combine<T: Copy + Into<i128>>(&self, entries: &[T], left: &mut [i128], factors: &[u64]) {
        for (column, &factor) in self.starts.windows(2).zip(factors) {
            if factor == 0 {
                continue;
            }
            let own = column[0]..column[1];
            for (&row, &entry) in self.rows[own.clone()].iter().zip(&entries[own]) {
                let product = entry.into().wrapping_mul(factor.into());
                let left = &mut left[row as usize];
                *left = left.wrapping_sub(product);
            }
        }
    }

    fn multiply<T: Copy + Into<i128>>(&self, entries: &[T], left: &mut [i128], vector: &[u64]) {
        for (column, left) in self.starts.windows(2).zip(left) {
            let own = column[0]..column[1];
            for (&row, &entry) in self.rows[own.clone()].iter().zip(&entries[own]) {
                let product = entry.into().wrapping_mul(vector[row as usize].into());
                *left = left.wrapping_sub(product);
            }
        }
    }
}
