//! Scatters of many elements.

use proptest::prelude::*;

use super::super::apply::{positions, scattered};
use super::super::inputs::{Input, Values};
use super::{number_type, values};
use crate::Tensor;
use crate::dtype::DType;
use crate::op::Reduce;

/// A scatter along the middle one of three axes.
#[derive(Debug, Clone)]
pub(in super::super) struct Scatters {
    op: Reduce,
    /// `[outer, positions, width]`.
    start: Input,
    /// `[outer, terms, width]`.
    elements: Input,
    /// `[terms]`, or `[outer, terms, width]` if each element has an index.
    index: Input,
    /// Whether the positions count from the end.
    from_end: bool,
    /// Whether the elements are computed.
    of_computed: bool,
    /// Whether a comparison follows the scatter.
    with_more: bool,
    /// Whether the program counts the elements of the index instead of scattering.
    counts: bool,
}

/// Returns scatters around the sizes at which an executor may choose another method.
pub(super) fn scatters() -> impl Strategy<Value = Scatters> {
    let sizes = prop_oneof![
        (Just(1_usize), 7_usize..30, Just(1_usize), 100_usize..400),
        (2_usize..20, 7_usize..12, Just(1), 5_usize..30),
        (1_usize..4, 7_usize..12, 2_usize..5, 5_usize..60),
        (1_usize..3, 8_usize..10, 15_usize..40, 5_usize..30),
        // More positions than elements.
        (1_usize..3, 300_usize..400, 1_usize..3, 1_usize..10),
    ];
    sizes.prop_flat_map(of_sizes)
}

/// Returns scatters with enough elements to be divided into parts.
pub(super) fn parts() -> impl Strategy<Value = Scatters> {
    let sizes = prop_oneof![
        (
            Just(1_usize),
            Just(8_usize),
            Just(1_usize),
            65_530_usize..70_000
        ),
        (Just(2), Just(8), 2_usize..4, 33_000_usize..34_000),
    ];
    sizes.prop_flat_map(of_sizes)
}

fn of_sizes(
    (outer, positions, width, terms): (usize, usize, usize, usize),
) -> impl Strategy<Value = Scatters> {
    let op = prop::sample::select(vec![Reduce::Sum, Reduce::Max, Reduce::Min]);
    let flags = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        0..6,
    );
    (op, number_type(), values(), any::<u16>(), flags).prop_map(
        move |(op, dtype, values, seed, (of_computed, with_more, from_end, each, kind))| {
            let index: &[usize] = if each {
                &[outer, terms, width]
            } else {
                &[terms]
            };
            Scatters {
                op,
                start: Input::new(&[outer, positions, width], dtype, Values::Dyadic, seed),
                elements: Input::new(&[outer, terms, width], dtype, values, seed ^ 1),
                index: Input::new(index, DType::I32, Values::Plain, seed ^ 2),
                from_end,
                of_computed,
                with_more,
                counts: kind == 0,
            }
        },
    )
}

impl Scatters {
    pub(super) fn tensor(&self) -> Tensor {
        let (start, elements) = (self.start.tensor(), self.elements.tensor());
        let size = self.start.shape()[1];
        let index = positions(&self.index.tensor(), size, self.from_end && !self.counts);
        if self.counts {
            return index.bincount(size);
        }
        let elements = if self.of_computed {
            elements.maximum(1)
        } else {
            elements
        };
        let is_along_axis = self.index.shape().len() > 1;
        let result = scattered(self.op, &start, (&index, &elements), 1, is_along_axis);
        if self.with_more {
            result.lt(start.flip(1))
        } else {
            result
        }
    }
}
