//! Nests made ready to run, and kept.
//!
//! Role: between a step and what runs it. Checking and compiling a nest costs more than a small one's loops, so an executor
//! keeps what it made: the same nest on inputs of the same lengths is ready at once, whichever plan it stands in.
//! Memory: some kilobytes a nest, and at most [`MAX_KEPT`] of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::product::{self, Product};
use super::split::Loops;
use crate::dtype::{DType, HostData, with_element};
use crate::error::{Error, Result};
use crate::exec::pool::Pool;
use crate::exec::storage::HostStorage;
use crate::ir::LoopNest;

/// So many nests are kept; when there are more, all are forgotten.
const MAX_KEPT: usize = 1024;

/// A nest that keeps all rules for inputs of some lengths, compiled.
#[derive(Debug)]
pub(super) struct Kernel {
    nest: Arc<LoopNest>,
    inputs: Vec<(DType, usize)>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Nothing,
    Loops(Box<Loops>),
    Product(Box<Product>),
}

impl Kernel {
    /// Refuses a nest that breaks a rule of the intermediate representation.
    fn of(nest: &Arc<LoopNest>, inputs: Vec<(DType, usize)>) -> Result<Self> {
        nest.check(&inputs)
            .map_err(|what| Error::BadStep { what })?;
        let form = match &nest.contract {
            _ if nest.output_len() == 0 => Form::Nothing,
            Some(contract) if product::takes(nest, contract) => {
                Form::Product(Box::new(Product::of(nest, contract)))
            }
            _ => Form::Loops(Box::new(Loops::of(nest))),
        };
        Ok(Self {
            nest: Arc::clone(nest),
            inputs,
            form,
        })
    }

    /// Computes the output; scratch memory comes from the pool.
    pub(super) fn run(&self, inputs: &[&HostData], pool: &Arc<Pool>) -> Result<HostStorage> {
        let mut out = pool.take(self.nest.dtype(), self.nest.output_len())?;
        match &self.form {
            Form::Nothing => {}
            Form::Loops(loops) => with_element!(self.nest.dtype(), T => {
                loops.fill::<T>(inputs, out.elements_mut())?;
            }),
            Form::Product(product) => product.multiply(&self.nest, inputs, &mut out, pool)?,
        }
        Ok(out)
    }
}

/// The kernels of an executor.
#[derive(Debug, Default)]
pub(super) struct Kernels(Mutex<HashMap<Arc<LoopNest>, Arc<Kernel>>>);

impl Kernels {
    /// The kernel of a nest on such inputs; made now, if there is none.
    ///
    /// # Errors
    /// [`Error::BadStep`] for a nest that breaks a rule.
    pub(super) fn of(&self, nest: &Arc<LoopNest>, inputs: &[&HostData]) -> Result<Arc<Kernel>> {
        let signature = || inputs.iter().map(|data| (data.dtype(), data.len()));
        // A panic in between leaves the table whole: entries are put in finished.
        let kernels = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels().get(nest)
            && signature().eq(kernel.inputs.iter().copied())
        {
            return Ok(Arc::clone(kernel));
        }
        let kernel = Arc::new(Kernel::of(nest, signature().collect())?);
        let mut kernels = kernels();
        if kernels.len() >= MAX_KEPT {
            kernels.clear();
        }
        kernels.insert(Arc::clone(&kernel.nest), Arc::clone(&kernel));
        Ok(kernel)
    }
}
