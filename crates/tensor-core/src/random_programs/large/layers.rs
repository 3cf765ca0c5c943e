//! Products of matrices with operations on rows between them, which run in bands.

use proptest::prelude::*;

use super::super::inputs::Input;
use super::values;
use crate::dtype::DType;
use crate::{Axes, Tensor};

/// A product, operations on its rows, and a second product.
#[derive(Debug, Clone)]
pub(in super::super) struct Layers {
    /// `[batch, rows, inner]`.
    x: Input,
    /// `[batch, inner, cols]`, or `[batch, cols, inner]` if `turned` is set.
    first: Input,
    turned: bool,
    between: Between,
    second: Second,
    /// `[batch, cols, width]`.
    weights: Input,
}

/// The operations between the products.
#[derive(Debug, Clone, Copy)]
enum Between {
    /// The distance of each element from the maximum of its row.
    Distance,
    Softmax,
    /// The elements and the sum of their row.
    Sum,
}

/// The second product.
#[derive(Debug, Clone, Copy)]
enum Second {
    Plain,
    /// The columns of the result are the outer side.
    Turned,
    /// The maximum of the products of each row with all rows of the same matrix.
    WithItself,
}

/// Returns layers with products that are divided into pieces. Some products have sums that the host
/// divides into blocks.
pub(super) fn layers() -> impl Strategy<Value = Layers> {
    let sizes = prop_oneof![
        4 => (Just(1_usize), 256_usize..300, 32_usize..40, 16_usize..20, 16_usize..50),
        3 => (Just(8_usize), 33_usize..36, 70_usize..75, 60_usize..64, Just(57_usize)),
        2 => (Just(1_usize), 256_usize..300, 5_usize..9, 600_usize..1030, 1_usize..50),
        1 => (Just(2_usize), 128_usize..140, 1_usize..4, 1100_usize..1200, 1_usize..50),
    ];
    let between = prop_oneof![
        2 => Just(Between::Distance),
        1 => Just(Between::Softmax),
        1 => Just(Between::Sum),
    ];
    let second = prop_oneof![
        3 => Just(Second::Plain),
        1 => Just(Second::Turned),
        1 => Just(Second::WithItself),
    ];
    let dtype = prop_oneof![3 => Just(DType::F32), 1 => Just(DType::F64)];
    let data = (dtype, values(), any::<[u16; 3]>());
    (sizes, between, second, any::<bool>(), data).prop_map(
        |((batch, rows, cols, inner, width), between, second, turned, (dtype, values, seeds))| {
            let input = |[rows, cols]: [usize; 2], seed| {
                Input::new(&[batch, rows, cols], dtype, values, seed)
            };
            let of_first = if turned { [cols, inner] } else { [inner, cols] };
            Layers {
                x: input([rows, inner], seeds[0]),
                first: input(of_first, seeds[1]),
                turned,
                between,
                second,
                weights: input([cols, width], seeds[2]),
            }
        },
    )
}

impl Layers {
    pub(super) fn tensor(&self) -> Tensor {
        let last_two_exchanged = |tensor: &Tensor| tensor.swap_axes(-1, -2);
        let first = self.first.tensor();
        let product = self.x.tensor().matmul(&match self.turned {
            true => last_two_exchanged(&first),
            false => first,
        });
        let rows = match self.between {
            Between::Distance => &product - product.max(Axes::keepdims(-1)),
            Between::Softmax => product.softmax(-1),
            Between::Sum => &product + product.sum(Axes::keepdims(-1)),
        };
        let weights = self.weights.tensor();
        match self.second {
            Second::Plain => rows.matmul(&weights),
            Second::Turned => last_two_exchanged(&weights).matmul(&last_two_exchanged(&rows)),
            Second::WithItself => rows.matmul(&last_two_exchanged(&rows)).max(-1),
        }
    }
}
