//! The parts of a workload that its runners share: an implementation, its result and the amount of
//! its work.
//!
//! Role: the basis of the runners (`on_cpu`, `on_host`, `on_gpu`, `staged`, `rivals`), which
//! [`workload`](crate::workload) combines.

use anyhow::{Result, bail};
use tensor_core::{Element, compare};

/// A result, row-major, in the element type of the workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Single-precision floats.
    F32(Vec<f32>),
    /// Double-precision floats.
    F64(Vec<f64>),
    /// Unsigned integers, such as counts.
    U32(Vec<u32>),
    /// Truth values.
    Bool(Vec<bool>),
}

impl Output {
    fn type_name(&self) -> &'static str {
        match self {
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::U32(_) => "u32",
            Self::Bool(_) => "bool",
        }
    }
}

/// An element type of results.
pub trait OutputElement: compare::Element + Element {
    /// Wraps the elements of a result.
    fn wrap(elements: Vec<Self>) -> Output;

    /// Returns the elements of a result of this type.
    ///
    /// # Errors
    /// The result has another element type.
    fn from_output(output: &Output) -> Result<&[Self]>;
}

macro_rules! output_element {
    ($type:ty, $variant:ident) => {
        impl OutputElement for $type {
            fn wrap(elements: Vec<Self>) -> Output {
                Output::$variant(elements)
            }

            fn from_output(output: &Output) -> Result<&[Self]> {
                match output {
                    Output::$variant(elements) => Ok(elements),
                    other => bail!(
                        "result has element type {} (expected {})",
                        other.type_name(),
                        <Self as compare::Element>::NAME
                    ),
                }
            }
        }
    };
}

output_element!(f32, F32);
output_element!(f64, F64);
output_element!(u32, U32);
output_element!(bool, Bool);

/// Type in which implementations receive an input, whose numbers are drawn in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputType {
    /// Single-precision floats.
    F32,
    /// Double-precision floats.
    F64,
    /// Unsigned integers, such as positions.
    U32,
}

impl InputType {
    /// Returns the size of an element, in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the name of the type in the rivals' protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::U32 => "u32",
        }
    }

    /// Returns a number as an element of type [`InputType::U32`]. The number must be whole and at
    /// most 2²⁴, so that f32 holds it exactly.
    #[must_use]
    pub fn integer(number: f32) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the caller passes a whole number from 0 to 2^24"
        )]
        let integer = number as u32;
        integer
    }
}

/// Something that does the work of a workload repeatedly and returns its result.
pub trait Implementation {
    /// Does the work `times` times and returns the seconds of each run, measured by its own
    /// [`Timer`](crate::record::Timer).
    ///
    /// # Errors
    /// Any failure during the work.
    fn run(&mut self, times: usize) -> Result<Vec<f64>>;

    /// Does the work `times` times and returns the seconds of each run by the host's clock, from
    /// the call until the result is complete in its memory (for a GPU, device memory). Returns
    /// `None` if [`Implementation::run`] measures the same.
    ///
    /// # Errors
    /// As [`Implementation::run`].
    fn wall(&mut self, _times: usize) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    /// Does the work once and returns the peak memory held in addition to inputs and result, in
    /// bytes, or `None` if no counter is available.
    ///
    /// # Errors
    /// As [`Implementation::run`].
    fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the result of the last run, row-major.
    ///
    /// # Errors
    /// The result cannot be read.
    fn result(&mut self) -> Result<Output>;

    /// Returns named numbers about the last run besides its time, such as `bytes_sent`, for the
    /// findings of the row.
    fn numbers(&self) -> Vec<(&'static str, f64)> {
        vec![]
    }
}

/// The leading rows of the work; a slow variant computes only some of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Number of rows done.
    pub rows: usize,
    /// Total number of rows.
    pub of: usize,
}

impl Portion {
    /// Returns the part that consists of all `rows` rows.
    #[must_use]
    pub fn whole(rows: usize) -> Self {
        Self { rows, of: rows }
    }

    /// Returns the fraction of the whole work, from 0 to 1; 1 if there are no rows.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.of == 0 {
            1.0
        } else {
            self.rows as f64 / self.of as f64
        }
    }

    /// Returns the remark shown next to the numbers of a partial result; empty for the whole.
    #[must_use]
    pub fn note(self) -> String {
        if self.rows == self.of {
            String::new()
        } else {
            format!("rows 0..{} of {}", self.rows, self.of)
        }
    }
}

/// The unit of rates of arithmetic operations: 10⁹ per second.
pub const FLOP_UNIT: &str = "GFLOP/s";
/// The unit of rates of products of bits, each with the addition of the result: 10⁹ per second.
pub const BIT_PRODUCT_UNIT: &str = "Gbit-MAC/s";

/// An amount of work, in the unit in which users of the workload count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Arithmetic operations, including comparisons and selections.
    Operations(f64),
    /// Function values, regardless of the cost of each.
    Values(f64),
    /// Games that are solved or evaluated.
    Games(f64),
    /// Images that a network classifies.
    Images(f64),
    /// Iterations of a learning algorithm.
    Iterations(f64),
    /// Products of one bit and another, each with the addition of the result.
    BitProducts(f64),
}

impl Work {
    /// Returns the amount as a plain number.
    #[must_use]
    pub fn amount(self) -> f64 {
        match self {
            Self::Operations(amount)
            | Self::Values(amount)
            | Self::Games(amount)
            | Self::Images(amount)
            | Self::Iterations(amount)
            | Self::BitProducts(amount) => amount,
        }
    }

    /// Returns the amount multiplied by `share`, in the same unit.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        match self {
            Self::Operations(amount) => Self::Operations(share * amount),
            Self::Values(amount) => Self::Values(share * amount),
            Self::Games(amount) => Self::Games(share * amount),
            Self::Images(amount) => Self::Images(share * amount),
            Self::Iterations(amount) => Self::Iterations(share * amount),
            Self::BitProducts(amount) => Self::BitProducts(share * amount),
        }
    }

    /// Returns the number of arithmetic operations, or `None` if another unit is counted.
    #[must_use]
    pub fn operations(self) -> Option<f64> {
        match self {
            Self::Operations(amount) => Some(amount),
            Self::Values(_)
            | Self::Games(_)
            | Self::Images(_)
            | Self::Iterations(_)
            | Self::BitProducts(_) => None,
        }
    }

    /// Returns the work per second, in [`Work::rate_unit`].
    #[must_use]
    pub fn rate(self, seconds: f64) -> f64 {
        let unit = match self {
            Self::Operations(_) | Self::BitProducts(_) => 1e9,
            Self::Values(_) => 1e6,
            Self::Games(_) | Self::Images(_) | Self::Iterations(_) => 1.0,
        };
        self.amount() / seconds / unit
    }

    /// Returns the unit of [`Work::rate`]: 10⁹ operations or products of bits, 10⁶ values, single
    /// games, images or iterations per second.
    #[must_use]
    pub fn rate_unit(self) -> &'static str {
        match self {
            Self::Operations(_) => FLOP_UNIT,
            Self::Values(_) => "Mvalue/s",
            Self::Games(_) => "games/s",
            Self::Images(_) => "images/s",
            Self::Iterations(_) => "iterations/s",
            Self::BitProducts(_) => BIT_PRODUCT_UNIT,
        }
    }
}

/// Amount of work done, and its memory traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// Rows of the result that are computed.
    pub part: Portion,
    /// Amount of work, in the unit of its rate.
    pub work: Work,
    /// Bytes of inputs and outputs, each counted once.
    pub bytes: f64,
}

impl Extent {
    /// Returns the extent of work that is done as a whole.
    #[must_use]
    pub fn new(work: Work, bytes: f64) -> Self {
        Self {
            part: Portion::whole(1),
            work,
            bytes,
        }
    }

    /// Returns the extent of a part, assuming that every row costs the same.
    #[must_use]
    pub fn of_part(self, part: Portion) -> Self {
        let share = part.share();
        Self {
            part,
            work: self.work.share(share),
            bytes: share * self.bytes,
        }
    }
}
