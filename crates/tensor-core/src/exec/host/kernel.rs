//! Compiled nests and their cache.
//!
//! Role: between a step and the code that runs it. To check and compile a nest takes longer than
//! the loops of a small nest, so an executor caches kernels: the same nest on inputs of the same
//! lengths is compiled once, whichever plan contains it.
//! Memory: some kilobytes per nest, for as many nests as [`NestCache`] holds.

use std::sync::{Arc, OnceLock};

use super::lanes::Stored;
use super::moves::Moves;
use super::product::Product;
use super::rows::ChainRows;
use super::scan::ScanLoops;
use super::scatter::ScatterLoops;
use super::sort::SortLoops;
use super::split::Loops;
use crate::dtype::{DType, HostData, with_element};
use crate::error::{Error, Result};
use crate::exec::cache::NestCache;
use crate::ir::LoopNest;
use crate::storage::{HostStorage, Pool};

/// A checked and compiled nest.
#[derive(Debug)]
pub(super) struct Kernel {
    nest: Arc<LoopNest>,
    form: Form,
    /// The loops that move the elements of a span. Few kernels need them, so the first span
    /// compiles them.
    loops_of_moves: OnceLock<Loops>,
}

/// The start of consecutive elements of a kernel's output, and the inputs for these elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) inputs: &'a [&'a HostData],
    /// The number of the array's element with which each input begins.
    pub(super) starts: &'a [usize],
    /// The number of the first output element.
    pub(super) first: usize,
}

/// The way in which a kernel computes its output.
#[derive(Debug)]
enum Form {
    Nothing,
    Moves(Moves),
    Rows(Box<ChainRows>),
    Loops(Box<Loops>),
    Product(Box<Product>),
    Scan(Box<ScanLoops>),
    Sort(SortLoops),
    Scatter(Box<ScatterLoops>),
}

impl Kernel {
    /// Checks and compiles a nest. Returns [`Error::BadStep`] if it breaks a rule of the
    /// intermediate representation.
    pub(super) fn new(nest: &Arc<LoopNest>, inputs: &[(DType, usize)]) -> Result<Self> {
        nest.check(inputs).map_err(|what| Error::BadStep { what })?;
        let form = if nest.output_len() == 0 {
            Form::Nothing
        } else if let Some(scan) = ScanLoops::new(nest) {
            Form::Scan(Box::new(scan))
        } else if let Some(sort) = SortLoops::new(nest) {
            Form::Sort(sort)
        } else if let Some(scatter) = ScatterLoops::new(nest, inputs)? {
            Form::Scatter(Box::new(scatter))
        } else if let Some(product) = Product::new(nest, inputs) {
            Form::Product(Box::new(product))
        } else if let Some(moves) = Moves::from_nest(nest) {
            Form::Moves(moves)
        } else if let Some(rows) = ChainRows::new(nest) {
            Form::Rows(Box::new(rows))
        } else {
            Form::Loops(Box::new(Loops::new(nest)))
        };
        Ok(Self {
            nest: Arc::clone(nest),
            form,
            loops_of_moves: OnceLock::new(),
        })
    }

    /// Computes the output. Output and scratch memory come from the pool.
    pub(super) fn run(&self, inputs: &[&HostData], pool: &Arc<Pool>) -> Result<HostStorage> {
        let mut out = pool.take(self.nest.dtype(), self.nest.output_len())?;
        match &self.form {
            Form::Nothing => {}
            Form::Moves(moves) => with_element!(self.nest.dtype(), T => {
                moves.fill::<T>(inputs, out.elements_mut())?;
            }),
            Form::Rows(rows) => with_element!(self.nest.dtype(), T => {
                rows.fill::<T>(inputs, out.elements_mut())?;
            }),
            Form::Loops(loops) => with_element!(self.nest.dtype(), T => {
                loops.fill::<T>(inputs, out.elements_mut())?;
            }),
            Form::Product(product) => product.compute(&self.nest, inputs, &mut out, pool)?,
            Form::Scan(scan) => with_element!(self.nest.dtype(), T => {
                scan.fill::<T>(inputs, out.elements_mut())?;
            }),
            Form::Sort(sort) => sort.fill(inputs, &mut out, pool)?,
            Form::Scatter(scatter) => scatter.fill(inputs, &mut out, pool)?,
        }
        Ok(out)
    }

    /// Returns whether [`fill_span`](Self::fill_span) supports the kernel, for spans of a multiple
    /// of `unit` elements.
    pub(super) fn can_fill_spans(&self, unit: usize) -> bool {
        match &self.form {
            Form::Nothing | Form::Sort(_) | Form::Scatter(_) => false,
            Form::Moves(_) | Form::Rows(_) => true,
            Form::Product(product) => product.can_fill_spans(),
            Form::Loops(loops) => loops.can_fill_spans(unit),
            Form::Scan(scan) => scan.can_fill_spans(),
        }
    }

    /// Returns the loops of a nest that is a chain on rows, and `None` for any other nest.
    pub(super) fn rows(&self) -> Option<&ChainRows> {
        match &self.form {
            Form::Rows(rows) => Some(rows),
            _ => None,
        }
    }

    /// Computes consecutive elements of the output on the calling thread. The elements of a product
    /// must be whole lines ([`Matrices`](crate::ir::Matrices)).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) fn fill_span<T: Stored>(&self, span: &Span<'_>, out: &mut [T]) -> Result<()> {
        match &self.form {
            Form::Nothing | Form::Sort(_) | Form::Scatter(_) => {
                unreachable!("`can_fill_spans` returned `false`")
            }
            Form::Moves(_) => {
                let loops = self.loops_of_moves.get_or_init(|| Loops::new(&self.nest));
                loops.fill_span(span, out)
            }
            Form::Rows(rows) => rows.fill_span(span, out),
            Form::Product(product) => product.fill_span(&self.nest, span, out),
            Form::Loops(loops) => loops.fill_span(span, out),
            Form::Scan(scan) => scan.fill_span(span, out),
        }
    }
}

/// The kernel cache of an executor, by nest and by the types and lengths of the inputs.
#[derive(Debug, Default)]
pub(super) struct Kernels(NestCache<Vec<(DType, usize)>, Kernel>);

impl Kernels {
    /// Returns the kernel of a nest for inputs of these types and lengths. Compiles the nest if the
    /// cache does not contain the kernel.
    ///
    /// # Errors
    /// [`Error::BadStep`] for a nest that breaks a rule of the intermediate representation.
    pub(super) fn get(
        &self,
        nest: &Arc<LoopNest>,
        inputs: Vec<(DType, usize)>,
    ) -> Result<Arc<Kernel>> {
        self.0
            .get(nest, inputs, |nest, inputs| Kernel::new(nest, inputs))
    }
}
