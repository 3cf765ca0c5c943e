//! Linear programs with integer coefficients, and their certificates.
//!
//! Role: the common form of all problems in this module: maximise `c·x` where `A x + s = b`, with a
//! slack `s` for each row. Input fractions are brought to a common denominator, row by row.

use super::gcd::{gcd, lcm, lowest_terms};
use super::lifting::Fractions;
use super::work::{LimitReached, Work};
use crate::{Error, Rational};
use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};
use std::ops::Range;

/// Largest number of coefficients of a program; limits memory.
const MAX_ENTRIES: usize = 1 << 20;

/// The set of allowed values of a variable or a slack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    /// Any number.
    Free,
    /// Zero or more; a slack with this domain makes its row an inequality.
    NonNegative,
    /// Zero; a slack with this domain makes its row an equation.
    Zero,
}

/// A linear program.
///
/// Columns are numbered from 0, variables first and then the slack of each row.
#[derive(Clone, Debug)]
pub(super) struct LinearProgram {
    domains: Vec<Domain>,
    objective: Vec<BigInt>,
    /// The factor that turned the coefficients of the given objective into integers.
    objective_scale: Rational,
    /// The entries of each variable's column, as (row, entry).
    columns: Vec<Vec<(usize, BigInt)>>,
    rows: Vec<Constraint>,
}

#[derive(Clone, Debug)]
struct Constraint {
    slack: Domain,
    /// The slack's column.
    unit: [(usize, BigInt); 1],
    right: BigInt,
    /// The factor that turned the numbers of the given row into integers.
    scale: Rational,
}

/// A solution `x` of a program with slacks `s`, and a solution `y` of its dual, both vertices,
/// which prove each other optimal.
///
/// The proof consists of these conditions: `A x + s = b`; every variable and slack is in its
/// domain; `Aᵀ y - c` is at least 0, and 0 for free variables; `c·x = b·y`.
#[derive(Clone, Debug)]
pub(super) struct Optimum {
    pub(super) primal: Fractions,
    pub(super) dual: Fractions,
}

impl LinearProgram {
    /// Starts a program with these variables, each with its coefficient in the objective.
    pub(super) fn maximize(
        variables: impl IntoIterator<Item = (Domain, Rational)>,
        work: &Work<'_>,
    ) -> Result<Self, LimitReached> {
        let (domains, objective): (Vec<_>, Vec<_>) = variables.into_iter().unzip();
        let objective_scale = integer_scale(objective.iter(), work)?;
        let objective: Vec<_> = objective
            .iter()
            .map(|share| scaled(share, &objective_scale))
            .collect();
        Ok(Self {
            columns: vec![vec![]; domains.len()],
            domains,
            objective,
            objective_scale,
            rows: vec![],
        })
    }

    /// Adds a row `terms · x + slack = right`; a variable may occur more than once.
    pub(super) fn push_row(
        &mut self,
        mut terms: Vec<(usize, Rational)>,
        slack: Domain,
        right: Rational,
        work: &Work<'_>,
    ) -> Result<(), LimitReached> {
        terms.sort_by_key(|term| term.0);
        terms.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1 += &later.1;
            }
            same
        });
        let all = terms.iter().map(|term| &term.1).chain([&right]);
        let scale = integer_scale(all, work)?;
        for (variable, entry) in terms {
            if !entry.is_zero() {
                work.count_product(entry.numer().bits(), scale.numer().bits())?;
                self.columns[variable].push((self.rows.len(), scaled(&entry, &scale)));
            }
        }
        self.rows.push(Constraint {
            slack,
            unit: [(self.rows.len(), BigInt::one())],
            right: scaled(&right, &scale),
            scale,
        });
        Ok(())
    }

    pub(super) fn n_variables(&self) -> usize {
        self.domains.len()
    }

    pub(super) fn n_rows(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn n_columns(&self) -> usize {
        self.n_variables() + self.n_rows()
    }

    pub(super) fn domain(&self, column: usize) -> Domain {
        match column.checked_sub(self.n_variables()) {
            Some(row) => self.rows[row].slack,
            None => self.domains[column],
        }
    }

    /// Returns a column's coefficient in the objective.
    pub(super) fn share(&self, column: usize) -> BigInt {
        self.objective.get(column).cloned().unwrap_or_default()
    }

    /// Returns the entries of a column, by rows.
    pub(super) fn entries(&self, column: usize) -> &[(usize, BigInt)] {
        match column.checked_sub(self.n_variables()) {
            Some(row) => &self.rows[row].unit,
            None => &self.columns[column],
        }
    }

    pub(super) fn right(&self) -> Vec<BigInt> {
        self.rows.iter().map(|row| row.right.clone()).collect()
    }

    /// Returns the dual program: minimise `b·y` where `Aᵀ y - t = c`, converted to a maximisation,
    /// in the integer units of this program.
    pub(super) fn dual(&self) -> Self {
        let mut columns = vec![vec![]; self.n_rows()];
        for (variable, column) in self.columns.iter().enumerate() {
            for (row, entry) in column {
                columns[*row].push((variable, -entry));
            }
        }
        let row = |variable: usize| Constraint {
            slack: self.domains[variable].dual(),
            unit: [(variable, BigInt::one())],
            right: -&self.objective[variable],
            scale: Rational::one(),
        };
        Self {
            domains: self.rows.iter().map(|row| row.slack.dual()).collect(),
            objective: self.rows.iter().map(|row| -&row.right).collect(),
            objective_scale: Rational::one(),
            columns,
            rows: (0..self.n_variables()).map(row).collect(),
        }
    }

    /// Returns the program with some of its columns fixed at zero.
    pub(super) fn restricted(&self, is_zero: impl Fn(usize) -> bool) -> Self {
        let mut face = self.clone();
        let slacks = face.rows.iter_mut().map(|row| &mut row.slack);
        for (column, domain) in face.domains.iter_mut().chain(slacks).enumerate() {
            if is_zero(column) {
                *domain = Domain::Zero;
            }
        }
        face
    }

    /// Returns the program with another objective: the sum of these columns, in the integer units
    /// of this program.
    pub(super) fn maximizing_sum(mut self, columns: &[usize]) -> Self {
        let n_variables = self.n_variables();
        let slacks = columns
            .iter()
            .filter_map(|column| column.checked_sub(n_variables));
        let mut is_counted = vec![false; self.n_rows()];
        for row in slacks {
            is_counted[row] = true;
        }
        // A slack is the right-hand side of its row minus the row's terms.
        let share = |entries: &Vec<(usize, BigInt)>| {
            let counted = entries.iter().filter(|entry| is_counted[entry.0]);
            -counted.map(|entry| &entry.1).sum::<BigInt>()
        };
        self.objective = self.columns.iter().map(share).collect();
        for &variable in columns.iter().filter(|&&column| column < n_variables) {
            self.objective[variable] += 1;
        }
        self.objective_scale = Rational::one();
        self
    }

    /// Returns `A x` for values of the variables.
    fn activities(&self, x: &[BigInt], work: &Work<'_>) -> Result<Vec<BigInt>, LimitReached> {
        let mut activities = vec![BigInt::zero(); self.n_rows()];
        for (column, x) in self.columns.iter().zip(x) {
            if !x.is_zero() {
                for (row, entry) in column {
                    work.count_product(entry.bits(), x.bits())?;
                    activities[*row] += entry * x;
                }
            }
        }
        Ok(activities)
    }

    /// Returns the product of a column and a vector with one number for each row.
    pub(super) fn product(
        &self,
        column: usize,
        rows: &[BigInt],
        work: &Work<'_>,
    ) -> Result<BigInt, LimitReached> {
        let mut sum = BigInt::zero();
        for (row, entry) in self.entries(column) {
            work.count_product(entry.bits(), rows[*row].bits())?;
            sum += entry * &rows[*row];
        }
        Ok(sum)
    }

    /// Returns the reduced cost `Aᵀ y - c` (for a slack, `y`) of a column at prices `y`, times the
    /// denominator of the prices.
    pub(super) fn reduced_cost(
        &self,
        column: usize,
        y: &Fractions,
        work: &Work<'_>,
    ) -> Result<BigInt, LimitReached> {
        let prices = self.product(column, &y.numerators, work)?;
        Ok(prices - self.share(column) * &y.denominator)
    }

    /// Returns the reduced costs of all columns.
    pub(super) fn reduced_costs(
        &self,
        y: &Fractions,
        work: &Work<'_>,
    ) -> Result<Vec<BigInt>, LimitReached> {
        (0..self.n_columns())
            .map(|column| self.reduced_cost(column, y, work))
            .collect()
    }

    /// Returns the first column whose value is outside its domain.
    pub(super) fn first_wrong_value(&self, optimum: &Optimum) -> Option<usize> {
        let values = &optimum.primal.numerators;
        (0..self.n_columns()).find(|&column| !self.domain(column).holds(&values[column]))
    }

    /// Returns the first column whose reduced cost is outside the dual domain.
    pub(super) fn first_wrong_cost(&self, costs: &[BigInt]) -> Option<usize> {
        (0..self.n_columns()).find(|&column| !self.domain(column).dual().holds(&costs[column]))
    }

    /// Checks a proof by the definition of optimality, independently of any basis.
    pub(super) fn is_proof(
        &self,
        optimum: &Optimum,
        work: &Work<'_>,
    ) -> Result<bool, LimitReached> {
        let Optimum { primal, dual } = optimum;
        let (x, slacks) = primal.numerators.split_at(self.n_variables());
        let activities = self.activities(x, work)?;
        let costs = self.reduced_costs(dual, work)?;
        let rows = activities.into_iter().zip(slacks).zip(&self.rows);
        let mut rows = rows
            .map(|((activity, slack), row)| activity + slack == &row.right * &primal.denominator);
        let are_feasible = rows.all(|holds| holds)
            && primal.denominator.is_positive()
            && dual.denominator.is_positive()
            && self.first_wrong_value(optimum).is_none()
            && self.first_wrong_cost(&costs).is_none();
        let gain: BigInt = self.objective.iter().zip(x).map(|(c, x)| c * x).sum();
        let prices = self.rows.iter().zip(&dual.numerators);
        let cost: BigInt = prices.map(|(row, y)| &row.right * y).sum();
        work.count_product(gain.bits(), dual.denominator.bits())?;
        Ok(are_feasible && gain * &dual.denominator == cost * &primal.denominator)
    }

    /// Returns the objective at an optimum, in its original units.
    pub(super) fn value(
        &self,
        optimum: &Optimum,
        work: &Work<'_>,
    ) -> Result<Rational, LimitReached> {
        let gains = self.objective.iter().zip(&optimum.primal.numerators);
        let gain: BigInt = gains.map(|(share, x)| share * x).sum();
        let scale = &self.objective_scale;
        let denominator = &optimum.primal.denominator * scale.numer();
        lowest_terms(&(gain * scale.denom()), &denominator, work)
    }

    /// Returns the value of a variable at an optimum.
    pub(super) fn variable(
        &self,
        optimum: &Optimum,
        variable: usize,
        work: &Work<'_>,
    ) -> Result<Rational, LimitReached> {
        let primal = &optimum.primal;
        lowest_terms(&primal.numerators[variable], &primal.denominator, work)
    }

    /// Returns the numerators of the prices of some rows at an optimum, over their common
    /// denominator.
    pub(super) fn common_prices(
        &self,
        optimum: &Optimum,
        rows: Range<usize>,
        work: &Work<'_>,
    ) -> Result<Vec<BigInt>, LimitReached> {
        let scales = self.rows[rows.clone()].iter().map(|row| &row.scale);
        let common = scales.clone().try_fold(BigInt::one(), |common, scale| {
            lcm(common, scale.denom(), work)
        })?;
        let common = Rational::from(common);
        let prices = optimum.dual.numerators[rows].iter().zip(scales);
        let scaled_price = |(price, scale): (&BigInt, &Rational)| {
            work.count_product(price.bits(), scale.numer().bits() + common.numer().bits())?;
            Ok(price * scaled(scale, &common))
        };
        prices.map(scaled_price).collect()
    }
}

impl Optimum {
    /// Returns the proof as a proof of the dual program, in which values and prices exchange roles.
    pub(super) fn swapped(
        self,
        program: &LinearProgram,
        work: &Work<'_>,
    ) -> Result<Self, LimitReached> {
        let n_variables = program.n_variables();
        let cost = |variable| program.reduced_cost(variable, &self.dual, work);
        let costs: Vec<_> = (0..n_variables).map(cost).collect::<Result<_, _>>()?;
        let Self {
            mut primal,
            mut dual,
        } = self;
        dual.numerators.extend(costs);
        primal.numerators.truncate(n_variables);
        Ok(Self {
            primal: dual,
            dual: primal,
        })
    }
}

impl Domain {
    /// Returns the domain of the reduced cost of a variable with this domain. The price of a row
    /// whose slack has this domain has the same domain.
    pub(super) fn dual(self) -> Self {
        match self {
            Self::Free => Self::Zero,
            Self::NonNegative => Self::NonNegative,
            Self::Zero => Self::Free,
        }
    }

    /// Returns whether a number is in the domain. A positive multiple, such as the numerator of a
    /// fraction, has the same result.
    pub(super) fn holds(self, number: &BigInt) -> bool {
        match self {
            Self::Free => true,
            Self::NonNegative => !number.is_negative(),
            Self::Zero => number.is_zero(),
        }
    }
}

/// Returns an error if a program has too many coefficients.
pub(super) fn check_size(operation: &'static str, n_entries: usize) -> crate::Result<()> {
    if n_entries > MAX_ENTRIES {
        return Err(Error::TooLarge {
            operation,
            what: "number of coefficients",
            needed: n_entries as u128,
            limit: MAX_ENTRIES as u128,
        });
    }
    Ok(())
}

/// Returns the factor that turns fractions into integers without a common divisor; 1 if all
/// fractions are 0.
fn integer_scale<'a>(
    fractions: impl Iterator<Item = &'a Rational> + Clone,
    work: &Work<'_>,
) -> Result<Rational, LimitReached> {
    let mut denominator = BigInt::one();
    let mut divisor = BigInt::zero();
    for fraction in fractions.filter(|fraction| !fraction.is_zero()) {
        work.count_fraction(fraction.numer().bits() + fraction.denom().bits())?;
        denominator = lcm(denominator, fraction.denom(), work)?;
        if !divisor.is_one() {
            divisor = gcd(
                divisor.into_parts().1,
                fraction.numer().magnitude().clone(),
                work,
            )?
            .into();
        }
    }
    if divisor.is_zero() {
        return Ok(Rational::one());
    }
    Ok(Rational::new_raw(denominator, divisor))
}

/// Returns a fraction times a scale that makes it an integer; both divisions are exact.
fn scaled(fraction: &Rational, scale: &Rational) -> BigInt {
    if fraction.is_zero() {
        return BigInt::zero();
    }
    (fraction.numer() / scale.denom()) * (scale.numer() / fraction.denom())
}
