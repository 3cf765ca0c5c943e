//! Products of matrices, and other reductions over pairs.
//!
//! Role: runs a nest that is a reduction over pairs ([`Pairs`]), with its epilogue.
//! Method: if both factors and the result are large matrices in memory, the GEMM library multiplies
//! directly into the output, and the epilogue is then computed there in place. All other
//! reductions run in `tiles`.
//! Accuracy: as [`crate::gemm`].

use ndarray::{ArrayViewMut2, ShapeBuilder};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::around_fold::epilogue_of;
use super::factor::{Factor, len_of, matrix, set_index, stride_over};
use super::lanes::Stored;
use super::split::Loops;
use super::tiles::Tiles;
use crate::dtype::{DType, HostData, with_element};
use crate::error::Result;
use crate::float::Float;
use crate::gemm;
use crate::ir::{IndexMap, LoopNest, Pairs, Value, ValueId};
use crate::parallel;
use crate::storage::{HostStorage, Pool};

/// A reduction over pairs with its plan of computation.
#[derive(Debug)]
pub(super) struct Product {
    pairs: Pairs,
    /// Set if the GEMM library computes the nest: a product whose factors and result are large
    /// matrices in memory. The strides of rows and columns of all three, and the optional epilogue.
    in_memory: Option<([[usize; 2]; 3], Option<Loops>)>,
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
        // The library writes sums in the type of the factors, so the output must have this type.
        let is_plain = nest.contract.is_some() && nest.dtype() == pairs.dtype;
        let strides = strides_in_memory(nest, &pairs)
            .filter(|_| is_plain && is_for_the_library(nest, &pairs));
        let in_memory = strides.map(|strides| {
            let sums = IndexMap::in_order(&nest.domain);
            let epilogue = (pairs.folded != nest.result())
                .then(|| Loops::in_place(&epilogue_of(nest, &[pairs.folded], &sums)));
            (strides, epilogue)
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

    /// Computes the nest with the GEMM library. Returns `false` if the library does not compute it.
    fn multiply_in_memory<T: Float + Stored<Lane = T>>(
        &self,
        nest: &LoopNest,
        inputs: &[&HostData],
        out: &mut HostStorage,
    ) -> Result<bool> {
        let Some((strides, epilogue)) = &self.in_memory else {
            return Ok(false);
        };
        let out = out.elements_mut::<T>();
        if !multiply_in_memory(nest, &self.pairs, *strides, inputs, out)? {
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

/// Returns whether the library multiplies matrices of these sizes faster than tiles do: products of
/// a matrix and a few vectors, and products that are so long that the cost of a call to the library
/// does not matter.
fn is_for_the_library(nest: &LoopNest, pairs: &Pairs) -> bool {
    /// The smallest number of multiplications of a long product.
    const LONG: usize = 1 << 17;
    /// The largest number of vectors.
    const FEW: usize = 3;
    let sides = [0, 1].map(|number| len_of(&pairs.own[number], &nest.domain));
    let multiplications = sides[0]
        .saturating_mul(sides[1])
        .saturating_mul(nest.reduce_len());
    sides[0].min(sides[1]) <= FEW || multiplications >= LONG
}

/// Returns the strides of rows and columns of both factors and of the product in the output, or
/// `None` if one of the three is not a matrix in memory.
fn strides_in_memory(nest: &LoopNest, pairs: &Pairs) -> Option<[[usize; 2]; 3]> {
    let sizes = nest.sizes();
    let inner: Vec<usize> = (nest.domain.len()..sizes.len()).collect();
    // The batch axes must come first in the output, so that the product of each batch index is one
    // contiguous chunk.
    if (0..pairs.batch.len()).any(|axis| !pairs.batch.contains(&axis)) {
        return None;
    }
    // Padding has guards, which strides cannot express.
    let map_of = |factor: ValueId| match &nest.values[factor.0] {
        Value::Load { map, guards, .. } if guards.is_empty() => Some(map),
        _ => None,
    };
    let (lhs, rhs) = (map_of(pairs.factors[0])?, map_of(pairs.factors[1])?);
    let layout = IndexMap::in_order(&nest.domain);
    let [rows, cols] = &pairs.own;
    let of = |map: &IndexMap, axes: &[usize]| stride_over(map, axes, &sizes);
    Some([
        [of(lhs, rows)?, of(lhs, &inner)?],
        [of(rhs, &inner)?, of(rhs, cols)?],
        [of(&layout, rows)?, of(&layout, cols)?],
    ])
}

/// Multiplies directly into the output. Returns `false` if a factor does not fit within its input;
/// the output then contains unspecified values.
fn multiply_in_memory<T: Float + Stored<Lane = T>>(
    nest: &LoopNest,
    pairs: &Pairs,
    [a_strides, b_strides, c_strides]: [[usize; 2]; 3],
    inputs: &[&HostData],
    out: &mut [T],
) -> Result<bool> {
    let sizes = nest.sizes();
    let inner: Vec<usize> = (nest.domain.len()..sizes.len()).collect();
    let batch: Vec<usize> = (0..pairs.batch.len()).collect();
    let (lhs, rhs) = (
        Factor::<T>::new(nest, pairs.factors[0], inputs),
        Factor::<T>::new(nest, pairs.factors[1], inputs),
    );
    let [rows, cols] = &pairs.own;
    let [m, k, n] = [
        len_of(rows, &sizes),
        len_of(&inner, &sizes),
        len_of(cols, &sizes),
    ];
    // One large product uses all threads itself; many small products use one thread each.
    let parallel_inside = len_of(&batch, &sizes) == 1;
    let one = |(number, out): (usize, &mut [T])| -> Result<bool> {
        let mut index = vec![0; sizes.len()];
        set_index(&mut index, &batch, &sizes, number);
        let a = matrix(lhs.elements, lhs.map.at(&index), [m, k], a_strides);
        let b = matrix(rhs.elements, rhs.map.at(&index), [k, n], b_strides);
        let c = ArrayViewMut2::from_shape([m, n].strides(c_strides), out).ok();
        let (Some(a), Some(b), Some(c)) = (a, b, c) else {
            return Ok(false);
        };
        gemm::multiply_into(a, b, c, parallel_inside)?;
        Ok(true)
    };
    if parallel_inside {
        return one((0, out));
    }
    let fit = AtomicBool::new(true);
    let products = out.chunks_mut(m * n).enumerate();
    parallel::for_each(
        products,
        || (),
        |(), product| {
            fit.fetch_and(one(product)?, Ordering::Relaxed);
            Ok(())
        },
    )?;
    Ok(fit.into_inner())
}
