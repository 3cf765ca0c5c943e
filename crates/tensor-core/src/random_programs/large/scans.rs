//! Scans of many elements.

use proptest::prelude::*;

use super::super::apply::is_small;
use super::super::inputs::{Input, Values};
use super::{number_type, reduce};
use crate::op::Reduce;
use crate::view::Slice;
use crate::{ScanAxis, Tensor};

/// One in this many points of a long line is compared.
const SOME: isize = 11;

/// A scan along the middle one of three axes.
#[derive(Debug, Clone)]
pub(in super::super) struct Scans {
    op: Reduce,
    x: Input,
    reversed: bool,
    exclusive: bool,
    /// Whether an operation comes before the scan.
    of_computed: bool,
    /// Whether operations come after the scan.
    with_more: bool,
}

/// Returns scans around the sizes at which an executor may cut lines or points, or put lines
/// together.
pub(super) fn scans() -> impl Strategy<Value = Scans> {
    let shape = prop_oneof![
        (100_usize..300, 1_usize..40, Just(1_usize)),
        (1_usize..4, 4000_usize..4200, Just(1)),
        (1_usize..3, 1000_usize..1100, 1_usize..5),
        (Just(1), 1_usize..4, 4000_usize..4200),
    ];
    shape.prop_flat_map(|(lines, points, width)| of_shape([lines, points, width]))
}

/// Returns scans of few lines that are long enough for several threads.
pub(super) fn parts() -> impl Strategy<Value = Scans> {
    let shape = prop_oneof![
        (Just(1_usize), 65_500_usize..70_000, Just(1_usize)),
        (Just(2), 65_500_usize..67_000, Just(1)),
        (Just(1), 9_000_usize..9_500, 7_usize..9),
    ];
    shape.prop_flat_map(|(lines, points, width)| of_shape([lines, points, width]))
}

fn of_shape(shape: [usize; 3]) -> impl Strategy<Value = Scans> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (reduce(), number_type(), any::<u16>(), flags).prop_map(
        move |(op, dtype, seed, (reversed, exclusive, of_computed, with_more))| Scans {
            op,
            x: Input::new(&shape, dtype, Values::Dyadic, seed),
            reversed,
            exclusive,
            of_computed,
            with_more,
        },
    )
}

impl Scans {
    pub(super) fn tensor(&self) -> Tensor {
        let x = self.x.tensor();
        let operand = if self.of_computed {
            x.maximum(1)
        } else {
            x.clone()
        };
        let mut along = ScanAxis::new(1);
        if self.reversed {
            along = along.reversed();
        }
        if self.exclusive {
            along = along.exclusive();
        }
        let scanned = operand.scanned(self.op, along);
        let scanned = if self.with_more {
            scanned.lt(&x)
        } else {
            scanned
        };
        // A program keeps small results, so some points of a long line are chosen.
        if is_small(&scanned) {
            scanned
        } else {
            let some = Slice {
                start: None,
                stop: None,
                step: SOME,
            };
            scanned.slice(1, some)
        }
    }
}
