//! Bases of a linear program, and their exact solutions.
//!
//! Method: a basis is chosen, and factorised, modulo a prime; solutions are lifted from there.

use super::factor::Factor;
use super::field::{Field, GAPS};
use super::lifting::{self, Fractions, SHORT_BITS, System};
use super::program::{LinearProgram, Optimum};
use super::short::ShortColumns;
use super::work::{LimitReached, Work};
use num_bigint::BigInt;
use num_traits::{Signed, Zero};

/// A set of columns of a program that determines a solution and prices.
#[derive(Debug)]
pub(super) struct Basis<'a> {
    program: &'a LinearProgram,
    field: Field,
    columns: Vec<usize>,
    factor: Factor,
    /// Upper bound on the bits of every minor.
    bits: u64,
    /// The columns in machine words, if their entries are short enough.
    short: Option<ShortColumns>,
}

impl<'a> Basis<'a> {
    /// Selects the first independent columns, in the order given; the columns must span all rows.
    ///
    /// If every prime in [`GAPS`] divides the determinant, which does not happen by chance, returns
    /// [`LimitReached::Steps`].
    pub(super) fn choose(
        program: &'a LinearProgram,
        preference: &[usize],
        work: &Work<'_>,
    ) -> Result<Self, LimitReached> {
        let mut counts = vec![0; program.n_rows()];
        for &column in preference {
            work.count(program.entries(column).len() as u64)?;
            for (row, _) in program.entries(column) {
                counts[*row] += 1;
            }
        }
        for field in GAPS.map(Field::new) {
            let reduced = preference.iter().map(|&column| {
                let reduce = |(row, entry): &(usize, BigInt)| (*row, field.reduce(entry));
                (column, program.entries(column).iter().map(reduce).collect())
            });
            let (factor, columns) = Factor::choose(field, &counts, reduced, work)?;
            if columns.len() == counts.len() {
                return Ok(Self {
                    bits: minor_bits(program, &columns),
                    short: short_columns(program, &columns),
                    program,
                    field,
                    columns,
                    factor,
                });
            }
        }
        Err(LimitReached::Steps)
    }

    /// Returns the basic solution and prices, whether feasible or not.
    pub(super) fn optimum(&self, work: &Work<'_>) -> Result<Optimum, LimitReached> {
        let columns = self.columns.iter();
        let shares: Vec<BigInt> = columns.map(|&column| self.program.share(column)).collect();
        let solution = lifting::solve(&Upright(self), &self.program.right(), work)?;
        Ok(Optimum {
            primal: self.spread(solution),
            dual: lifting::solve(&Transposed(self), &shares, work)?,
        })
    }

    /// Returns the coefficients that express a column of the program by the basis: 0 outside the
    /// basis.
    pub(super) fn shares_of(
        &self,
        column: usize,
        work: &Work<'_>,
    ) -> Result<Vec<BigInt>, LimitReached> {
        let mut right = vec![BigInt::zero(); self.columns.len()];
        for (row, entry) in self.program.entries(column) {
            right[*row] = entry.clone();
        }
        let solution = lifting::solve(&Upright(self), &right, work)?;
        Ok(self.spread(solution).numerators)
    }

    /// Returns the coefficient of one basis column in each column outside the basis; `None` for
    /// basis columns.
    pub(super) fn shares_in(
        &self,
        column: usize,
        work: &Work<'_>,
    ) -> Result<Vec<Option<BigInt>>, LimitReached> {
        let is_it = self
            .columns
            .iter()
            .map(|&other| BigInt::from(i32::from(other == column)));
        let row = lifting::solve(&Transposed(self), &is_it.collect::<Vec<_>>(), work)?;
        let product = |column| {
            self.program
                .product(column, &row.numerators, work)
                .map(Some)
        };
        let mut shares: Vec<_> = (0..self.program.n_columns())
            .map(product)
            .collect::<Result<_, _>>()?;
        for &column in &self.columns {
            shares[column] = None;
        }
        Ok(shares)
    }

    /// Returns the columns of the basis after one exchange.
    pub(super) fn exchanged(&self, leaving: usize, entering: usize) -> Vec<usize> {
        let exchange = |&column: &usize| if column == leaving { entering } else { column };
        self.columns.iter().map(exchange).collect()
    }

    /// Expands numbers for the basis columns to numbers for all columns, with zeros elsewhere.
    fn spread(&self, solution: Fractions) -> Fractions {
        let mut numerators = vec![BigInt::zero(); self.program.n_columns()];
        for (&column, numerator) in self.columns.iter().zip(solution.numerators) {
            numerators[column] = numerator;
        }
        Fractions {
            numerators,
            ..solution
        }
    }

    fn n_operations(&self) -> usize {
        let lengths = self
            .columns
            .iter()
            .map(|&column| self.program.entries(column).len());
        self.factor.n_entries() + lengths.sum::<usize>()
    }
}

/// The system `B x = right`.
struct Upright<'a>(&'a Basis<'a>);

impl System for Upright<'_> {
    fn field(&self) -> Field {
        self.0.field
    }

    fn solve(&self, right: Vec<u64>) -> Vec<u64> {
        self.0.factor.solve(right)
    }

    fn multiply(&self, vector: &[BigInt], work: &Work<'_>) -> Result<Vec<BigInt>, LimitReached> {
        let mut sums = vec![BigInt::zero(); vector.len()];
        for (&column, number) in self.0.columns.iter().zip(vector) {
            if !number.is_zero() {
                for (row, entry) in self.0.program.entries(column) {
                    work.count_product(entry.bits(), number.bits())?;
                    sums[*row] += entry * number;
                }
            }
        }
        Ok(sums)
    }

    fn is_short(&self) -> bool {
        self.0.short.is_some()
    }

    fn subtract_product(&self, left: &mut [i128], vector: &[u64]) {
        let short = self
            .0
            .short
            .as_ref()
            .expect("the method is called only if `short` is set");
        short.subtract_combination(left, vector);
    }

    fn bits(&self) -> u64 {
        self.0.bits
    }

    fn n_operations(&self) -> usize {
        self.0.n_operations()
    }
}

/// The system `Bᵀ y = right`.
struct Transposed<'a>(&'a Basis<'a>);

impl System for Transposed<'_> {
    fn field(&self) -> Field {
        self.0.field
    }

    fn solve(&self, right: Vec<u64>) -> Vec<u64> {
        self.0.factor.solve_transposed(&right)
    }

    fn multiply(&self, vector: &[BigInt], work: &Work<'_>) -> Result<Vec<BigInt>, LimitReached> {
        let columns = self.0.columns.iter();
        columns
            .map(|&column| self.0.program.product(column, vector, work))
            .collect()
    }

    fn is_short(&self) -> bool {
        self.0.short.is_some()
    }

    fn subtract_product(&self, left: &mut [i128], vector: &[u64]) {
        let short = self
            .0
            .short
            .as_ref()
            .expect("the method is called only if `short` is set");
        short.subtract_products(left, vector);
    }

    fn bits(&self) -> u64 {
        self.0.bits
    }

    fn n_operations(&self) -> usize {
        self.0.n_operations()
    }
}

/// Returns an upper bound on the bits of every minor of some columns: the product of the columns'
/// sums of absolute values.
fn minor_bits(program: &LinearProgram, columns: &[usize]) -> u64 {
    let size = |&column: &usize| {
        let entries = program.entries(column).iter();
        entries.map(|(_, entry)| entry.abs()).sum::<BigInt>().bits()
    };
    columns.iter().map(size).sum()
}

/// Converts columns to machine words if the sums of absolute values of their entries, by rows and
/// by columns, have at most [`SHORT_BITS`] bits.
fn short_columns(program: &LinearProgram, columns: &[usize]) -> Option<ShortColumns> {
    let all = || columns.iter().flat_map(|&column| program.entries(column));
    let bits = all().map(|(_, entry)| entry.bits()).max().unwrap_or(0);
    let n_terms = u64::from(usize::BITS - columns.len().leading_zeros());
    let entries = |&column: &usize| program.entries(column);
    if bits + n_terms > SHORT_BITS {
        return None;
    }
    ShortColumns::new(columns.iter().map(entries), bits)
}

#[cfg(test)]
mod tests {
    use super::super::program::Domain;
    use super::super::work::Prover;
    use super::*;
    use crate::Rational;

    #[test]
    fn columns_are_short_only_if_all_sums_of_their_entries_are() {
        let work = Work::new(&Prover::new());
        let number = |bits: u32| Rational::from_integer(BigInt::from(1) << bits);
        let variables = [0, 1, 2].map(|_| (Domain::NonNegative, number(0)));
        let mut program = LinearProgram::maximize(variables, &work).unwrap();
        for bits in [[0, 70, 70], [0, 70, 125]] {
            let terms = bits.map(number).into_iter().enumerate().collect();
            program
                .push_row(terms, Domain::NonNegative, number(0), &work)
                .unwrap();
        }
        for (columns, is_short) in [([0, 1], true), ([1, 2], false), ([0, 2], false)] {
            let found = short_columns(&program, &columns);
            assert_eq!(found.is_some(), is_short, "{columns:?}");
        }
    }
}
