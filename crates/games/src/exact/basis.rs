//! Bases of a linear program, and their exact solutions.
//!
//! Method: a basis is chosen, and factorised, modulo a prime; solutions are lifted from there.

use super::factor::Factor;
use super::field::{Field, GAPS};
use super::lifting::{self, Budget, Exhausted, Fractions, System};
use super::program::{Optimum, Program};
use num_bigint::BigInt;
use num_traits::{Signed, Zero};

/// Columns of a program that determine a solution and prices.
#[derive(Debug)]
pub(super) struct Basis<'a> {
    program: &'a Program,
    field: Field,
    columns: Vec<usize>,
    factor: Factor,
    /// Bits that no minor exceeds.
    bits: u64,
}

impl<'a> Basis<'a> {
    /// Takes the first columns, in the order given, that are independent; they must span all rows.
    ///
    /// If every prime divides the determinant, which nobody meets by accident, the budget counts as spent.
    pub(super) fn choose(
        program: &'a Program,
        preference: &[usize],
        budget: &mut Budget,
    ) -> Result<Self, Exhausted> {
        let mut counts = vec![0; program.n_rows()];
        for &column in preference {
            for (row, _) in program.entries(column) {
                counts[*row] += 1;
            }
        }
        for field in GAPS.map(Field::new) {
            let reduced = preference.iter().map(|&column| {
                let reduce = |(row, entry): &(usize, BigInt)| (*row, field.reduce(entry));
                (column, program.entries(column).iter().map(reduce).collect())
            });
            let (factor, columns) = Factor::choose(field, &counts, reduced);
            budget.spend(factor.n_operations() + counts.iter().sum::<usize>(), 0)?;
            if columns.len() == counts.len() {
                return Ok(Self {
                    bits: minor_bits(program, &columns),
                    program,
                    field,
                    columns,
                    factor,
                });
            }
        }
        Err(Exhausted)
    }

    /// Gives the basis' solution and prices, whatever they are.
    pub(super) fn optimum(&self, budget: &mut Budget) -> Result<Optimum, Exhausted> {
        let columns = self.columns.iter();
        let shares: Vec<BigInt> = columns.map(|&column| self.program.share(column)).collect();
        let solution = lifting::solve(&Upright(self), &self.program.right(), budget)?;
        Ok(Optimum {
            primal: self.spread(solution),
            dual: lifting::solve(&Transposed(self), &shares, budget)?,
        })
    }

    /// Gives how much of each column a column of the program replaces: 0 outside the basis.
    pub(super) fn shares_of(
        &self,
        column: usize,
        budget: &mut Budget,
    ) -> Result<Vec<BigInt>, Exhausted> {
        let mut right = vec![BigInt::zero(); self.columns.len()];
        for (row, entry) in self.program.entries(column) {
            right[*row] = entry.clone();
        }
        let solution = lifting::solve(&Upright(self), &right, budget)?;
        Ok(self.spread(solution).numerators)
    }

    /// Gives how much of one column of the basis each column outside replaces; `None` for the basis itself.
    pub(super) fn shares_in(
        &self,
        column: usize,
        budget: &mut Budget,
    ) -> Result<Vec<Option<BigInt>>, Exhausted> {
        let is_it = self
            .columns
            .iter()
            .map(|&other| BigInt::from(i32::from(other == column)));
        let row = lifting::solve(&Transposed(self), &is_it.collect::<Vec<_>>(), budget)?;
        let product = |column| product(self.program, column, &row.numerators);
        let mut shares: Vec<_> = (0..self.program.n_columns())
            .map(|at| Some(product(at)))
            .collect();
        for &column in &self.columns {
            shares[column] = None;
        }
        Ok(shares)
    }

    /// Gives the columns of the basis with one exchanged for another.
    pub(super) fn exchanged(&self, leaving: usize, entering: usize) -> Vec<usize> {
        let exchange = |&column: &usize| if column == leaving { entering } else { column };
        self.columns.iter().map(exchange).collect()
    }

    /// Gives numbers of the basis' columns as numbers of all columns.
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

    fn reduced(&self, right: &[BigInt]) -> Vec<u64> {
        right
            .iter()
            .map(|number| self.field.reduce(number))
            .collect()
    }

    fn n_operations(&self) -> usize {
        let lengths = self
            .columns
            .iter()
            .map(|&column| self.program.entries(column).len());
        self.factor.n_entries() + lengths.sum::<usize>()
    }
}

/// `B x = right`.
struct Upright<'a>(&'a Basis<'a>);

impl System for Upright<'_> {
    fn field(&self) -> Field {
        self.0.field
    }

    fn solve(&self, right: &[BigInt]) -> Vec<u64> {
        self.0.factor.solve(self.0.reduced(right))
    }

    fn multiply(&self, vector: &[BigInt]) -> Vec<BigInt> {
        let mut sums = vec![BigInt::zero(); vector.len()];
        for (&column, number) in self.0.columns.iter().zip(vector) {
            if !number.is_zero() {
                for (row, entry) in self.0.program.entries(column) {
                    sums[*row] += entry * number;
                }
            }
        }
        sums
    }

    fn bits(&self) -> u64 {
        self.0.bits
    }

    fn n_operations(&self) -> usize {
        self.0.n_operations()
    }
}

/// `Bᵀ y = right`.
struct Transposed<'a>(&'a Basis<'a>);

impl System for Transposed<'_> {
    fn field(&self) -> Field {
        self.0.field
    }

    fn solve(&self, right: &[BigInt]) -> Vec<u64> {
        self.0.factor.solve_transposed(&self.0.reduced(right))
    }

    fn multiply(&self, vector: &[BigInt]) -> Vec<BigInt> {
        let columns = self.0.columns.iter();
        columns
            .map(|&column| product(self.0.program, column, vector))
            .collect()
    }

    fn bits(&self) -> u64 {
        self.0.bits
    }

    fn n_operations(&self) -> usize {
        self.0.n_operations()
    }
}

/// Bounds the bits of every minor of some columns, by the product of their sums of sizes.
fn minor_bits(program: &Program, columns: &[usize]) -> u64 {
    let size = |&column: &usize| {
        let entries = program.entries(column).iter();
        entries.map(|(_, entry)| entry.abs()).sum::<BigInt>().bits()
    };
    columns.iter().map(size).sum()
}

/// Multiplies a column by a number for each row.
fn product(program: &Program, column: usize, rows: &[BigInt]) -> BigInt {
    let entries = program.entries(column).iter();
    entries.map(|(row, entry)| entry * &rows[*row]).sum()
}
