//! Nests made ready to run, and kept.
//!
//! Role: between a step and what runs it. Checking and compiling a nest costs more than a small one's loops, so an executor
//! keeps what it made: the same nest on inputs of the same lengths is ready at once, whichever plan it stands in.
//! Memory: some kilobytes a nest, for the latest of them ([`Kept`]).

use std::sync::Arc;

use super::product::{self, Product};
use super::split::Loops;
use crate::dtype::{DType, HostData, with_element};
use crate::error::{Error, Result};
use crate::exec::kept::Kept;
use crate::exec::pool::Pool;
use crate::exec::storage::HostStorage;
use crate::ir::LoopNest;

/// A nest that keeps all rules, compiled.
#[derive(Debug)]
pub(super) struct Kernel {
    nest: Arc<LoopNest>,
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
    fn of(nest: &Arc<LoopNest>, inputs: &[(DType, usize)]) -> Result<Self> {
        nest.check(inputs).map_err(|what| Error::BadStep { what })?;
        let form = match &nest.contract {
            _ if nest.output_len() == 0 => Form::Nothing,
            Some(contract) if product::takes(nest, contract) => {
                Form::Product(Box::new(Product::of(nest, contract)))
            }
            _ => Form::Loops(Box::new(Loops::of(nest))),
        };
        Ok(Self {
            nest: Arc::clone(nest),
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

/// What a kernel was made for: a nest, and the types and lengths of its inputs.
type Key = (Arc<LoopNest>, Vec<(DType, usize)>);

/// The kernels of an executor.
#[derive(Debug, Default)]
pub(super) struct Kernels(Kept<Key, Kernel>);

impl Kernels {
    /// The kernel of a nest on such inputs; made now, if there is none.
    ///
    /// # Errors
    /// [`Error::BadStep`] for a nest that breaks a rule.
    pub(super) fn of(&self, nest: &Arc<LoopNest>, inputs: &[&HostData]) -> Result<Arc<Kernel>> {
        let lens = inputs.iter().map(|data| (data.dtype(), data.len()));
        let key = (Arc::clone(nest), lens.collect());
        self.0.get(key, |(nest, lens)| Kernel::of(nest, lens))
    }
}
