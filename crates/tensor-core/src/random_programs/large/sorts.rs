//! Sorts of many elements.

use proptest::prelude::*;

use super::super::apply::is_small;
use super::super::inputs::Input;
use super::{number_type, values};
use crate::op::Sorted;
use crate::view::Slice;
use crate::{SortAxis, Tensor};

/// One in this many points of a long line is compared.
const SOME: isize = 11;

/// A sort along the middle one of three axes.
#[derive(Debug, Clone)]
pub(in super::super) struct Sorts {
    x: Input,
    descending: bool,
    result: Sorted,
    /// Whether an operation comes before the sort.
    of_computed: bool,
}

/// Returns sorts around the sizes at which an executor may choose another algorithm, or put columns
/// together.
pub(super) fn sorts() -> impl Strategy<Value = Sorts> {
    let shape = prop_oneof![
        (100_usize..300, 1_usize..40, Just(1_usize)),
        (1_usize..20, 500_usize..530, Just(1)),
        (1_usize..3, 1000_usize..1100, 1_usize..5),
        (1_usize..3, 100_usize..200, 14_usize..35),
    ];
    shape.prop_flat_map(|(lines, points, width)| of_shape([lines, points, width]))
}

/// Returns sorts of one line that is long enough for several threads.
pub(super) fn runs() -> impl Strategy<Value = Sorts> {
    (65_500_usize..140_000).prop_flat_map(|points| of_shape([1, points, 1]))
}

fn of_shape(shape: [usize; 3]) -> impl Strategy<Value = Sorts> {
    let result = prop_oneof![Just(Sorted::Elements), Just(Sorted::Positions)];
    let flags = (any::<bool>(), any::<bool>());
    (number_type(), values(), any::<u16>(), result, flags).prop_map(
        move |(dtype, values, seed, result, (descending, of_computed))| Sorts {
            x: Input::new(&shape, dtype, values, seed),
            descending,
            result,
            of_computed,
        },
    )
}

impl Sorts {
    pub(super) fn tensor(&self) -> Tensor {
        let x = self.x.tensor();
        let operand = if self.of_computed { x.maximum(1) } else { x };
        let along = SortAxis::new(1);
        let along = if self.descending {
            along.descending()
        } else {
            along
        };
        let sorted = match self.result {
            Sorted::Elements => operand.sort(along),
            Sorted::Positions => operand.argsort(along),
        };
        // A program keeps small results, so some points of a long line are chosen.
        if is_small(&sorted) {
            sorted
        } else {
            let some = Slice {
                start: None,
                stop: None,
                step: SOME,
            };
            sorted.slice(1, some)
        }
    }
}
