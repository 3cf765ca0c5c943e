//! Products of matrices, and other reductions over pairs.
//!
//! Role: runs a nest that is a reduction over pairs ([`Pairs`]), with its epilogue.
//! Method: if both factors and the result are large matrices in memory ([`Matrices`]), the GEMM
//! library multiplies directly into the output, and the epilogue is then computed there in place.
//! Some lines of such an output can be computed alone. All other reductions run in `tiles`, and so
//! do products that read a large input once
//! ([`Contract::reads_once`](crate::ir::Contract::reads_once)).
//! Accuracy: as [`crate::gemm`].

use ndarray::{ArrayViewMut2, ShapeBuilder};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::around_fold::epilogue_of;
use super::factor::{Factor, matrix, set_index};
use super::kernel::Span;
use super::lanes::{Stored, with_floats};
use super::split::Loops;
use super::tiles::Tiles;
use crate::dtype::{DType, HostData, with_element};
use crate::error::Result;
#[cfg(test)]
use crate::fault::{self, Fault};
use crate::float::Float;
use crate::gemm;
use crate::ir::{IndexMap, LoopNest, Matrices, Pairs};
use crate::parallel;
use crate::storage::{HostStorage, Pool};

/// A reduction over pairs with its plan of computation.
#[derive(Debug)]
pub(super) struct Product {
    pairs: Pairs,
    /// Set if the GEMM library computes the nest: the matrices, and the optional epilogue.
    in_memory: Option<(Matrices, Option<Loops>)>,
    /// The tiles of all other reductions; `None` if these do not support the guards of the factors.
    tiles: Option<Tiles>,
    /// The loops of the nest, the fallback. Few products need them, so the first that does compiles
    /// them.
    loops: OnceLock<Loops>,
}

impl Product {
    /// Prepares the reduction of a nest, for inputs of the given types and lengths. Returns `None`
    /// if the nest is no reduction over pairs, or if the loops of the interpreter are faster.
    pub(super) fn new(nest: &LoopNest, inputs: &[(DType, usize)]) -> Option<Self> {
        if nest.sizes().contains(&0) {
            return None;
        }
        let pairs = Pairs::from_nest(nest)?;
        if nest.contract.is_none() && !pairs.is_large(nest) {
            return None;
        }
        let in_memory = Matrices::from_nest(nest, &pairs).map(|matrices| {
            let sums = IndexMap::in_order(&nest.domain);
            let epilogue = (pairs.folded != nest.result())
                .then(|| Loops::in_place(&epilogue_of(nest, &[pairs.folded], &sums)));
            (matrices, epilogue)
        });
        let tiles = match in_memory {
            Some(_) => None,
            None => Tiles::new(nest, &pairs, inputs),
        };
        // A contract is multiplied here even if only the loops support it.
        let is_taken = nest.contract.is_some()
            || tiles
                .as_ref()
                .is_some_and(|tiles| is_worth_copies(nest, tiles));
        is_taken.then(|| Self {
            pairs,
            in_memory,
            tiles,
            loops: OnceLock::new(),
        })
    }

    /// Computes the reduction with its epilogue into `out`.
    pub(super) fn compute(
        &self,
        nest: &LoopNest,
        inputs: &[&HostData],
        out: &mut HostStorage,
        pool: &Arc<Pool>,
    ) -> Result<()> {
        let by_library = match self.pairs.dtype {
            DType::F64 => self.multiply_in_memory::<f64>(nest, inputs, out)?,
            _ => self.multiply_in_memory::<f32>(nest, inputs, out)?,
        };
        if by_library {
            return Ok(());
        }
        if let Some(tiles) = &self.tiles
            && tiles.reduce(nest, inputs, out, pool)?
        {
            return Ok(());
        }
        let loops = self.loops.get_or_init(|| Loops::new(nest));
        with_element!(nest.dtype(), R => loops.fill::<R>(inputs, out.elements_mut()))
    }

    /// Returns whether [`fill_span`](Self::fill_span) supports the reduction.
    pub(super) fn can_fill_spans(&self) -> bool {
        let in_memory = self.in_memory.as_ref();
        in_memory.is_some_and(|(matrices, _)| matrices.has_lines())
    }

    /// Computes consecutive lines of the output on the calling thread.
    pub(super) fn fill_span<T: Stored>(
        &self,
        nest: &LoopNest,
        span: &Span<'_>,
        out: &mut [T],
    ) -> Result<()> {
        let Some((matrices, epilogue)) = &self.in_memory else {
            unreachable!("`can_fill_spans` returned `false`");
        };
        let products = Products::new(nest, &self.pairs, matrices);
        let fit = with_floats!(out, out => products.multiply_lines(span, out)?);
        if !fit {
            let loops = self.loops.get_or_init(|| Loops::new(nest));
            return loops.fill_span(span, out);
        }
        match epilogue {
            Some(epilogue) => epilogue.fill_span(span, out),
            None => Ok(()),
        }
    }

    /// Computes the nest with the GEMM library. Returns `false` if the library does not compute it.
    fn multiply_in_memory<T: Float + Stored<Lane = T>>(
        &self,
        nest: &LoopNest,
        inputs: &[&HostData],
        out: &mut HostStorage,
    ) -> Result<bool> {
        let Some((matrices, epilogue)) = &self.in_memory else {
            return Ok(false);
        };
        let out = out.elements_mut::<T>();
        let products = Products::new(nest, &self.pairs, matrices);
        if !products.multiply(inputs, out)? {
            return Ok(false);
        }
        if let Some(epilogue) = epilogue {
            epilogue.fill(inputs, out)?;
        }
        Ok(true)
    }
}

/// Returns whether each copied element is used so often that tiles with copies are faster than the
/// loops of the interpreter.
fn is_worth_copies(nest: &LoopNest, tiles: &Tiles) -> bool {
    /// The number of terms that the interpreter reduces while tiles copy an element.
    const TERMS: usize = 4;
    let n_terms = nest.output_len().saturating_mul(nest.reduce_len());
    tiles.copy_len().saturating_mul(TERMS) <= n_terms
}

/// The products that the GEMM library computes.
#[derive(Clone, Copy)]
struct Products<'a> {
    nest: &'a LoopNest,
    pairs: &'a Pairs,
    matrices: &'a Matrices,
}

impl<'a> Products<'a> {
    fn new(nest: &'a LoopNest, pairs: &'a Pairs, matrices: &'a Matrices) -> Self {
        Self {
            nest,
            pairs,
            matrices,
        }
    }

    /// Multiplies directly into the output, on all threads. Returns `false` if a factor does not
    /// fit within its input; the output then contains unspecified values.
    fn multiply<T: Float + Stored<Lane = T>>(
        self,
        inputs: &[&HostData],
        out: &mut [T],
    ) -> Result<bool> {
        let starts = vec![0; inputs.len()];
        let span = |first| Span {
            inputs,
            starts: &starts,
            first,
        };
        // One large product uses all threads itself; many small products use one thread each.
        if self.matrices.n_batches == 1 {
            return self.multiply_one(&span(0), out, true);
        }
        let len = self.matrices.sides[0] * self.matrices.sides[1];
        let fit = AtomicBool::new(true);
        let products = out.chunks_mut(len).enumerate();
        parallel::for_each(
            products,
            || (),
            |(), (number, out)| {
                let fits = self.multiply_one(&span(number * len), out, false)?;
                fit.fetch_and(fits, Ordering::Relaxed);
                Ok(())
            },
        )?;
        Ok(fit.into_inner())
    }

    /// Multiplies directly into consecutive lines of the output, on the calling thread. Returns
    /// `false` as [`multiply`](Self::multiply).
    fn multiply_lines<T: Float + Stored<Lane = T>>(
        self,
        span: &Span<'_>,
        mut out: &mut [T],
    ) -> Result<bool> {
        let len = self.matrices.sides[0] * self.matrices.sides[1];
        let mut first = span.first;
        #[cfg(test)]
        if fault::is_planted(Fault::BandedLines) {
            first = first.saturating_sub(self.matrices.line_len());
        }
        // The lines of each batch index are those of another product.
        while !out.is_empty() {
            let (lines, rest) = out.split_at_mut(out.len().min(len - first % len));
            let span = Span { first, ..*span };
            if !self.multiply_one(&span, lines, false)? {
                return Ok(false);
            }
            first += lines.len();
            out = rest;
        }
        Ok(true)
    }

    /// Computes consecutive lines of one product.
    fn multiply_one<T: Float + Stored<Lane = T>>(
        self,
        span: &Span<'_>,
        out: &mut [T],
        in_parallel: bool,
    ) -> Result<bool> {
        let Matrices {
            strides: [a_strides, b_strides, c_strides],
            sides,
            n_terms,
            outer,
            n_outer_axes,
            ..
        } = *self.matrices;
        let sizes = self.nest.sizes();
        let mut index = vec![0; sizes.len()];
        let axes: Vec<usize> = (0..n_outer_axes).collect();
        let line_len = self.matrices.line_len();
        set_index(&mut index, &axes, &sizes, span.first / line_len);
        let mut part = sides;
        part[outer] = out.len() / line_len;
        let [m, n] = part;
        let [lhs, rhs] = self.pairs.factors.map(|factor| {
            let factor = Factor::<T>::new(self.nest, factor, span.inputs);
            let start = span.starts[factor.input].cast_signed();
            (factor.elements, factor.map.at(&index).wrapping_sub(start))
        });
        let a = matrix(lhs.0, lhs.1, [m, n_terms], a_strides);
        let b = matrix(rhs.0, rhs.1, [n_terms, n], b_strides);
        let c = ArrayViewMut2::from_shape([m, n].strides(c_strides), out).ok();
        let (Some(a), Some(b), Some(c)) = (a, b, c) else {
            return Ok(false);
        };
        if in_parallel {
            gemm::multiply_into(a, b, c, true)?;
        } else {
            gemm::multiply_part_into(a, b, c, sides)?;
        }
        Ok(true)
    }
}
