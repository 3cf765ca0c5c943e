//! Programs that are large in one place, for the loops that executors use for large arrays.
//!
//! Method: some families, each a short program with its own data. The sizes are around thresholds
//! at which an executor may change its method: blocks of lanes, ranges of a product, groups of
//! rows, parts of a long reduction. The programs are few and no larger than necessary, because the
//! oracle computes every element. `coverage` counts the code paths that they reach.

use proptest::prelude::*;

use super::inputs::{Input, Values};
use super::program::{Instruction, RandomProgram, target};
use crate::dtype::DType;
use crate::op::{Binary, Compare, Reduce, Unary};
use crate::{Axes, Tensor, einsum, grad};
use layers::Layers;
use moves::Moves;
use scans::Scans;
use scatters::Scatters;
use sorts::Sorts;

mod layers;
mod moves;
mod scans;
mod scatters;
mod sorts;

/// A program of one of the families.
#[derive(Debug, Clone)]
pub(super) enum Large {
    Fold(Fold),
    Parts(Fold),
    Pairs(Pairs),
    Convolution(Convolution),
    Gradient(Gradient),
    Product(Product),
    Flags(Flags),
    Layers(Layers),
    Moves(Moves),
    Scans(Scans),
    Scatters(Scatters),
    Sorts(Sorts),
}

/// A reduction of one array, or of two combined arrays.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    op: Reduce,
    x: Input,
    y: Input,
    join: Join,
    /// The reduced axis; `None` for all axes.
    axis: Option<isize>,
}

/// The function that combines two arrays.
#[derive(Debug, Clone, Copy)]
enum Join {
    First,
    With(Binary),
    Distance,
    Hits(Compare),
    /// The number of ones in the bits of `x & y` or `x ^ y`; floats are multiplied instead.
    Ones(Binary),
    /// The products of the bytes of `x` and `y`; floats are multiplied instead.
    Bytes,
}

/// A reduction over all pairs: every row of one array combined with every lane of another.
#[derive(Debug, Clone)]
pub(super) struct Pairs {
    op: Reduce,
    join: Join,
    /// The comparison of the combined numbers with a constant before the reduction, or `None`.
    bound: Option<(Compare, f64)>,
    /// `[batch, inner, rows]`, or `[batch, rows, inner]` if `turned` is set.
    rows: Input,
    turned: bool,
    /// `[batch, inner, lanes]`.
    lanes: Input,
    backward: bool,
    /// Whether the rows are the lanes, so that the result is symmetric.
    with_itself: bool,
    /// The order of the result, and whether its batches are summed.
    batches: Batches,
}

/// The place of the batches in the result of a reduction over pairs.
#[derive(Debug, Clone, Copy)]
enum Batches {
    First,
    /// After the rows, so that neighbouring rows of the result meet other lanes.
    AfterRows,
    /// After the rows, and summed: a reduction of a reduction.
    Summed,
}

/// A reduction over the windows of an image, each combined with every lane of the weights.
#[derive(Debug, Clone)]
pub(super) struct Convolution {
    op: Reduce,
    join: Join,
    /// `[height, width, words]`.
    image: Input,
    /// `[taps, taps, words, lanes]`.
    weights: Input,
    taps: usize,
    step: usize,
    /// The numbers of zeros before and after the image, along both axes.
    padding: [usize; 2],
    backward: bool,
}

/// The gradient of a convolution by its image: sums over results of a product.
#[derive(Debug, Clone)]
pub(super) struct Gradient {
    /// `[channels, height, width]`.
    image: Input,
    /// `[filters, channels, taps, taps]`.
    weights: Input,
    /// `[filters, height, width]` of the result.
    cotangent: Input,
    step: usize,
    padding: usize,
}

/// A product of a tall or a narrow matrix and a small matrix.
#[derive(Debug, Clone)]
pub(super) struct Product {
    tall: Input,
    small: Input,
    factor: Factor,
    epilogue: Epilogue,
    layout: Layout,
}

/// The way in which the tall factor is read.
#[derive(Debug, Clone, Copy)]
enum Factor {
    Plain,
    Flipped,
    Computed,
    /// Overlapping windows of a vector with about as many elements as the factor has rows; if
    /// `padded` is set, the vector is padded first.
    Windows {
        padded: bool,
    },
}

/// The operation on the product.
#[derive(Debug, Clone, Copy)]
enum Epilogue {
    None,
    /// A multiple of the product, plus a number for each column.
    Affine,
    Relation,
    /// The product plus a column of the tall factor, which is read a second time.
    Beside,
}

/// The order of axes in the result.
#[derive(Debug, Clone, Copy)]
enum Layout {
    Plain,
    Turned,
    /// Two row axes with the columns in between.
    Between,
}

/// `All` or `Any` over many flags, of which few decide the result.
#[derive(Debug, Clone)]
pub(super) struct Flags {
    op: Reduce,
    x: Input,
    axis: isize,
    /// Whether the opposite reduction (`Any` for `All`, `All` for `Any`) runs in the same loops.
    with_other: bool,
}

/// Returns the strategies of the families, each with a number `n`: one program of the family is
/// generated for `n` small programs.
pub(super) fn families() -> Vec<(u32, BoxedStrategy<RandomProgram>)> {
    let compare = prop::sample::select(vec![Compare::Lt, Compare::Le]);
    // Some bounds decide no comparison, and some decide all.
    let bound = prop::sample::select(vec![-10.0, 0.5, 1.0, 2.0, 10.0]);
    let hits = prop::sample::select(vec![Reduce::Sum, Reduce::All, Reduce::Any]);
    let compared = (hits, (compare, bound).prop_map(Some));
    let numbers = reduce().prop_map(|op| (op, None));
    let layout = prop_oneof![3 => Just(Layout::Plain), 1 => Just(Layout::Turned)];
    vec![
        (100, programs(folds().prop_map(Large::Fold))),
        (1000, programs(parts().prop_map(Large::Parts))),
        (500, programs(long_rows().prop_map(Large::Fold))),
        (60, programs(pairs(numbers).prop_map(Large::Pairs))),
        (60, programs(pairs(compared).prop_map(Large::Pairs))),
        (200, symmetric()),
        (50, programs(convolutions().prop_map(Large::Convolution))),
        (25, programs(gradients().prop_map(Large::Gradient))),
        (40, programs(products(layout).prop_map(Large::Product))),
        (
            60,
            programs(products(Just(Layout::Between)).prop_map(Large::Product)),
        ),
        (50, programs(flags().prop_map(Large::Flags))),
        (40, layers()),
        (20, programs(moves::moves().prop_map(Large::Moves))),
        (40, programs(scans::scans().prop_map(Large::Scans))),
        (500, programs(scans::parts().prop_map(Large::Scans))),
        (40, scatters()),
        (500, programs(scatters::parts().prop_map(Large::Scatters))),
        (40, programs(sorts::sorts().prop_map(Large::Sorts))),
        (500, programs(sorts::runs().prop_map(Large::Sorts))),
    ]
}

/// Returns programs with a symmetric reduction over pairs each.
pub(super) fn symmetric() -> BoxedStrategy<RandomProgram> {
    programs(symmetric_pairs().prop_map(Large::Pairs))
}

/// Returns programs with two products each, and operations on rows between them.
pub(super) fn layers() -> BoxedStrategy<RandomProgram> {
    programs(layers::layers().prop_map(Large::Layers))
}

/// Returns programs with a scatter each.
pub(super) fn scatters() -> BoxedStrategy<RandomProgram> {
    programs(scatters::scatters().prop_map(Large::Scatters))
}

fn programs(large: impl Strategy<Value = Large> + 'static) -> BoxedStrategy<RandomProgram> {
    let program = |(large, target)| RandomProgram::new(vec![Instruction::Large(large)], target);
    (large, target()).prop_map(program).boxed()
}

/// Returns lengths around the block sizes of an executor.
fn long() -> impl Strategy<Value = usize> {
    prop_oneof![
        511_usize..515,
        1023_usize..1027,
        2047_usize..2051,
        3000_usize..5000
    ]
}

fn values() -> impl Strategy<Value = Values> {
    prop_oneof![4 => Just(Values::Dyadic), 2 => Just(Values::Plain), 1 => Just(Values::Wild)]
}

fn number_type() -> impl Strategy<Value = DType> {
    prop::sample::select(vec![
        DType::F32,
        DType::F32,
        DType::F64,
        DType::I32,
        DType::U32,
    ])
}

fn reduce() -> impl Strategy<Value = Reduce> {
    use Reduce::{Max, Min, Prod, Sum};
    prop::sample::select(vec![Sum, Sum, Sum, Max, Min, Prod])
}

fn join() -> impl Strategy<Value = Join> {
    prop_oneof![
        Just(Join::First),
        Just(Join::With(Binary::Mul)),
        Just(Join::With(Binary::Add)),
        Just(Join::Distance),
        prop::sample::select(&Compare::ALL[..]).prop_map(Join::Hits),
    ]
}

fn folds() -> impl Strategy<Value = Fold> {
    let shape = (long(), 1_usize..4, any::<bool>()).prop_map(|(long, short, last)| {
        let shape = if last {
            vec![short, long]
        } else {
            vec![long, short]
        };
        (shape, Some(isize::from(last)))
    });
    let seeds = (any::<u16>(), any::<u16>());
    (reduce(), join(), shape, number_type(), values(), seeds).prop_map(
        |(op, join, (shape, axis), dtype, values, seeds)| {
            let [x, y] = [seeds.0, seeds.1].map(|seed| Input::new(&shape, dtype, values, seed));
            Fold {
                op,
                x,
                y,
                join,
                axis,
            }
        },
    )
}

/// Returns reductions with few outputs, or one block of outputs, and more work than one task should
/// do. The results are exact, so that no missing element can hide in an error bound.
fn parts() -> impl Strategy<Value = Fold> {
    let shape = prop_oneof![
        Just(([1, 340_000], Some(1))),
        Just(([2, 340_000], Some(1))),
        Just(([640, 540], Some(0))),
        // These two axes cannot be merged, because the other array has an equal row for each index
        // of the first axis.
        Just(([400, 900], None)),
    ];
    // About one element in the whole array differs, so a single missed part changes the maximum.
    let rare = Values::RarelyOne { one_in: 1 << 18 };
    let what = prop_oneof![
        2 => Just((Reduce::Sum, Binary::Add, DType::F32, Values::Dyadic)),
        2 => Just((Reduce::Sum, Binary::Mul, DType::I32, Values::Plain)),
        1 => Just((Reduce::Max, Binary::Add, DType::F32, rare)),
    ];
    (what, shape, any::<u16>(), any::<u16>()).prop_map(
        |((op, join, dtype, values), (shape, axis), first, second)| {
            let x = Input::new(&shape, dtype, values, first);
            let of_y = axis.map_or([1, shape[1]], |_| shape);
            let y = Input::new(&of_y, dtype, values, second);
            let join = Join::With(join);
            Fold {
                op,
                x,
                y,
                join,
                axis,
            }
        },
    )
}

/// Returns exact reductions of floats along a few rows that are longer than a part.
fn long_rows() -> impl Strategy<Value = Fold> {
    let len = prop_oneof![65_530_usize..65_545, 131_070_usize..131_080];
    let what = prop::sample::select(vec![
        (Reduce::Sum, Binary::Add, DType::F32, Values::Dyadic),
        (Reduce::Sum, Binary::Sub, DType::F64, Values::Dyadic),
        (
            Reduce::Max,
            Binary::Add,
            DType::F32,
            Values::RarelyOne { one_in: 1 << 17 },
        ),
    ]);
    (what, 1_usize..4, len, any::<u16>(), any::<u16>()).prop_map(
        |((op, join, dtype, values), rows, len, first, second)| Fold {
            op,
            x: Input::new(&[rows, len], dtype, values, first),
            y: Input::new(&[1, len], dtype, values, second),
            join: Join::With(join),
            axis: Some(1),
        },
    )
}

/// Returns reductions over pairs with the given operation and comparison.
fn pairs(
    fold: impl Strategy<Value = (Reduce, Option<(Compare, f64)>)>,
) -> impl Strategy<Value = Pairs> {
    let join = prop_oneof![
        1 => Just(Join::With(Binary::Mul)),
        1 => Just(Join::With(Binary::Add)),
        2 => Just(Join::Distance),
        1 => Just(Join::Ones(Binary::And)),
        1 => Just(Join::Ones(Binary::Xor)),
        1 => Just(Join::Bytes),
    ];
    let lanes = prop_oneof![
        1 => (Just(1_usize), 64_usize..130),
        4 => (Just(1_usize), 512_usize..580),
        1 => (Just(1_usize), 1024_usize..1090),
        1 => (Just(2_usize), 512_usize..580),
        2 => (2_usize..4, 64_usize..130),
    ];
    let sizes = (lanes, 4_usize..10, 1_usize..9);
    let batches = prop::sample::select(vec![Batches::First, Batches::AfterRows, Batches::Summed]);
    let ways = (
        (any::<bool>(), batches),
        prop::bool::weighted(0.1),
        any::<bool>(),
    );
    let dtype = prop_oneof![2 => Just(DType::F32), 1 => number_type()];
    let data = (dtype, values(), any::<u16>(), any::<u16>());
    (join, fold, sizes, ways, data).prop_map(
        |(join, (op, bound), ((batch, lanes), rows, inner), ways, data)| {
            let ((turned, batches), backward, one_far) = ways;
            let (dtype, values, first, second) = data;
            // With `OneFar` one row is decided at the first element, and the others are not.
            let turned = turned && !one_far;
            let of_row = if one_far {
                Values::OneFar { every: rows }
            } else {
                values
            };
            let of_rows = if turned { [rows, inner] } else { [inner, rows] };
            let shape = |matrix: [usize; 2]| [batch, matrix[0], matrix[1]];
            Pairs {
                op,
                join,
                bound,
                rows: Input::new(&shape(of_rows), dtype, of_row, first),
                turned,
                lanes: Input::new(&shape([inner, lanes]), dtype, values, second),
                backward,
                with_itself: false,
                batches,
            }
        },
    )
}

/// Returns reductions over pairs of elements of one array, with enough terms for several tasks.
fn symmetric_pairs() -> impl Strategy<Value = Pairs> {
    let join = prop_oneof![
        1 => Just(Join::With(Binary::Mul)),
        1 => Just(Join::With(Binary::Add)),
        2 => Just(Join::Distance),
        1 => Just(Join::Ones(Binary::Xor)),
    ];
    let sizes = (1_usize..3, 150_usize..250, 64_usize..80);
    let bound = prop::sample::select(vec![0.5, 2.0]).prop_map(|bound| (Compare::Lt, bound));
    let hits = prop::sample::select(vec![Reduce::Sum, Reduce::All, Reduce::Any]);
    let fold = prop_oneof![
        2 => reduce().prop_map(|op| (op, None)),
        1 => (hits, bound.prop_map(Some)),
    ];
    (fold, join, sizes, number_type(), values(), any::<u16>()).prop_map(
        |((op, bound), join, (batch, inner, lanes), dtype, values, seed)| {
            let lanes = Input::new(&[batch, inner, lanes], dtype, values, seed);
            Pairs {
                op,
                join,
                bound,
                rows: lanes.clone(),
                turned: false,
                lanes,
                backward: false,
                with_itself: true,
                batches: Batches::First,
            }
        },
    )
}

fn convolutions() -> impl Strategy<Value = Convolution> {
    let join = prop_oneof![
        2 => Just(Join::With(Binary::Add)),
        1 => Just(Join::With(Binary::Mul)),
        1 => Just(Join::Distance),
        2 => Just(Join::Ones(Binary::And)),
        2 => Just(Join::Ones(Binary::Xor)),
        1 => Just(Join::Bytes),
    ];
    let op = prop::sample::select(vec![Reduce::Sum, Reduce::Sum, Reduce::Max]);
    // Images are at least as large as a window.
    let sizes = (3_usize..6, 4_usize..11, 1_usize..4, 64_usize..131);
    let ways = (
        1_usize..4,
        1_usize..3,
        [0_usize..3, 0_usize..3],
        prop::bool::weighted(0.2),
    );
    let dtype = prop::sample::select(vec![DType::U32, DType::I32, DType::F32]);
    let data = (dtype, values(), any::<u16>(), any::<u16>());
    (op, join, sizes, ways, data).prop_map(
        |(op, join, (height, width, words, lanes), (taps, step, padding, backward), data)| {
            let (dtype, values, first, second) = data;
            Convolution {
                op,
                join,
                image: Input::new(&[height, width, words], dtype, values, first),
                weights: Input::new(&[taps, taps, words, lanes], dtype, values, second),
                taps,
                step,
                padding,
                backward,
            }
        },
    )
}

fn gradients() -> impl Strategy<Value = Gradient> {
    let sizes = (
        1_usize..4,
        1_usize..12,
        [5_usize..12, 5_usize..20],
        1_usize..4,
    );
    let ways = (1_usize..3, 0_usize..3);
    let dtype = prop::sample::select(vec![DType::F32, DType::F32, DType::F64]);
    let data = (dtype, values(), any::<u16>(), any::<u16>(), any::<u16>());
    (sizes, ways, data).prop_map(
        |((channels, filters, size, taps), (step, padding), (dtype, values, x, w, c))| {
            let result = size.map(|size| (size + 2 * padding - taps) / step + 1);
            let weights = [filters, channels, taps, taps];
            let cotangent = [filters, result[0], result[1]];
            Gradient {
                image: Input::new(&[channels, size[0], size[1]], dtype, values, x),
                weights: Input::new(&weights, dtype, values, w),
                cotangent: Input::new(&cotangent, dtype, values, c),
                step,
                padding,
            }
        },
    )
}

fn products(layout: impl Strategy<Value = Layout>) -> impl Strategy<Value = Product> {
    let factor = prop_oneof![
        2 => Just(Factor::Plain),
        1 => Just(Factor::Flipped),
        1 => Just(Factor::Computed),
        3 => any::<bool>().prop_map(|padded| Factor::Windows { padded }),
    ];
    let epilogue = prop_oneof![
        1 => Just(Epilogue::None),
        2 => Just(Epilogue::Affine),
        1 => Just(Epilogue::Relation),
        1 => Just(Epilogue::Beside),
    ];
    let how = (factor, epilogue, layout);
    let sizes = prop_oneof![
        // A few vectors.
        1 => (513_usize..600, 2_usize..5, 2_usize..4),
        // Several pieces.
        2 => (60_usize..65, 140_usize..150, 32_usize..36),
        // Tiles of all shapes.
        2 => (2_usize..40, 2_usize..20, 4_usize..40),
        // Several blocks of terms.
        1 => (2_usize..6, prop_oneof![510_usize..515, 1022_usize..1027], 4_usize..20),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F32, DType::F64, DType::I32]);
    let data = (dtype, values(), any::<u16>(), any::<u16>());
    (how, sizes, data).prop_map(
        |((factor, epilogue, layout), (half, inner, cols), (dtype, values, first, second))| {
            Product {
                tall: Input::new(&[2 * half, inner], dtype, values, first),
                small: Input::new(&[inner, cols], dtype, values, second),
                factor,
                epilogue,
                layout,
            }
        },
    )
}

fn flags() -> impl Strategy<Value = Flags> {
    let shape = prop_oneof![
        (3000_usize..6000).prop_map(|len| (vec![len], 0)),
        (2_usize..4, 2100_usize..3000).prop_map(|(rows, len)| (vec![rows, len], 1)),
        (8_usize..13, 512_usize..600).prop_map(|(len, lanes)| (vec![len, lanes], 0)),
    ];
    let rare = prop::sample::select(vec![1, 2, 40, 3000, 1 << 20]);
    let op = prop::sample::select(vec![Reduce::All, Reduce::Any]);
    let dtype = prop::sample::select(vec![DType::F32, DType::Bool, DType::I32, DType::F64]);
    (
        op,
        shape,
        dtype,
        rare,
        any::<u16>(),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(op, (shape, axis), dtype, one_in, seed, with_other)| {
            // The rare values are those that decide the result.
            let values = if op == Reduce::Any {
                Values::RarelyOne { one_in }
            } else {
                Values::RarelyZero { one_in }
            };
            let x = Input::new(&shape, dtype, values, seed);
            Flags {
                op,
                x,
                axis,
                with_other,
            }
        })
}

impl Large {
    pub(super) fn tensor(&self) -> Tensor {
        match self {
            Self::Fold(fold) | Self::Parts(fold) => fold.tensor(),
            Self::Pairs(pairs) => pairs.tensor(),
            Self::Convolution(convolution) => convolution.tensor(),
            Self::Gradient(gradient) => gradient.tensor(),
            Self::Product(product) => product.tensor(),
            Self::Flags(flags) => flags.tensor(),
            Self::Moves(moves) => moves.tensor(),
            Self::Scans(scans) => scans.tensor(),
            Self::Scatters(scatters) => scatters.tensor(),
            Self::Layers(layers) => layers.tensor(),
            Self::Sorts(sorts) => sorts.tensor(),
        }
    }
}

impl Join {
    fn apply(self, x: &Tensor, y: &Tensor) -> Tensor {
        match self {
            Self::First => x.clone(),
            Self::With(op) => x.binary(op, y),
            Self::Distance => distance(x, y),
            Self::Hits(op) => Tensor::compared(op, x.clone(), y.clone()),
            Self::Ones(_) | Self::Bytes if x.node().dtype.is_float() => x * y,
            Self::Bytes => x.dot4_i8(y),
            Self::Ones(op) => x.binary(op, y).count_ones(),
        }
    }
}

/// Returns `|x - y|`; unsigned operands are converted to a signed type first.
fn distance(x: &Tensor, y: &Tensor) -> Tensor {
    let signed = |x: &Tensor| match x.node().dtype {
        DType::U32 => x.cast(DType::I32),
        _ => x.clone(),
    };
    (signed(x) - signed(y)).abs()
}

/// Reduces with an operation, or with a sum if the type does not support the operation.
fn folded(op: Reduce, x: &Tensor, axes: &Axes) -> Tensor {
    let accepted = op.accepts(x.node().dtype);
    x.reduced(if accepted { op } else { Reduce::Sum }, axes)
}

impl Fold {
    fn tensor(&self) -> Tensor {
        let joined = self.join.apply(&self.x.tensor(), &self.y.tensor());
        folded(
            self.op,
            &joined,
            &self.axis.map_or(Axes::from(..), Axes::from),
        )
    }
}

impl Pairs {
    /// Returns the comparison of the combined numbers, if the program has one.
    fn compared(&self, joined: Tensor) -> Tensor {
        match self.bound {
            Some((op, bound)) => {
                let bound = super::apply::constant(bound, joined.node().dtype);
                Tensor::compared(op, joined, bound)
            }
            None => joined,
        }
    }

    fn tensor(&self) -> Tensor {
        let (rows, lanes) = (self.rows.tensor(), self.lanes.tensor());
        if self.with_itself {
            let joined = self
                .join
                .apply(&lanes.expand_dims(3), &lanes.expand_dims(2));
            return folded(self.op, &self.compared(joined), &Axes::from(1));
        }
        let rows = if self.turned {
            rows.permute(&[0, 2, 1])
        } else {
            rows
        };
        let [rows, lanes] = [rows, lanes].map(|x| if self.backward { x.flip(1) } else { x });
        let joined = self.join.apply(&rows.expand_dims(3), &lanes.expand_dims(2));
        let joined = self.compared(joined);
        // [batch, inner, rows, lanes]
        match self.batches {
            Batches::First => folded(self.op, &joined, &Axes::from(1)),
            Batches::AfterRows | Batches::Summed => {
                let result = folded(self.op, &joined.permute(&[2, 0, 3, 1]), &Axes::from(-1));
                match self.batches {
                    Batches::Summed => folded(Reduce::Sum, &result, &Axes::from(1)),
                    _ => result,
                }
            }
        }
    }
}

impl Convolution {
    fn tensor(&self) -> Tensor {
        let (image, weights) = (self.image.tensor(), self.weights.tensor());
        let zero = super::apply::constant(0.0, image.node().dtype);
        let [before, after] = self.padding;
        let padded = |x: Tensor, axis: isize| x.pad(axis, before, after, zero.clone());
        let image = padded(padded(image, 0), 1);
        let image = if self.backward { image.flip(2) } else { image };
        // [height, width, words, taps down, taps across]
        let windows = image
            .window(0, self.taps, self.step)
            .window(1, self.taps, self.step);
        let windows = windows.permute(&[0, 1, 3, 4, 2]).expand_dims(-1);
        let joined = self.join.apply(&windows, &weights);
        folded(self.op, &joined, &Axes::from([2, 3, 4]))
    }
}

impl Gradient {
    /// Returns the gradient.
    ///
    /// # Panics
    /// If the gradient does not exist although all operations are valid.
    fn tensor(&self) -> Tensor {
        let (image, weights) = (self.image.tensor(), self.weights.tensor());
        let zero = super::apply::constant(0.0, image.node().dtype);
        let pad = |x: Tensor, axis: isize| x.pad(axis, self.padding, self.padding, zero.clone());
        let taps = self.weights.shape()[2];
        let padded = pad(pad(image.clone(), 1), 2);
        let windows = padded.window(1, taps, self.step).window(2, taps, self.step);
        let result = einsum("cyxij,fcij->fyx", &[&windows, &weights]);
        let loss = (result * self.cotangent.tensor()).sum(..);
        match grad(&loss, &[&image]).map(|mut gradients| gradients.pop()) {
            Ok(Some(gradient)) => gradient,
            other => panic!("a valid program has no gradient: {other:?}"),
        }
    }
}

impl Product {
    fn tensor(&self) -> Tensor {
        let (tall, small) = (self.tall.tensor(), self.small.tensor());
        let (rows, inner) = (self.tall.shape()[0], self.tall.shape()[1]);
        let vector = || tall.slice(1, ..1).flatten();
        let factor = match self.factor {
            Factor::Plain => tall.clone(),
            Factor::Flipped => tall.flip(0),
            Factor::Computed => (tall.clone() + tall.clone()).abs(),
            Factor::Windows { padded: true } => {
                let zero = super::apply::constant(0.0, tall.node().dtype);
                vector().pad(0, 1, inner - 2, zero).window(0, inner, 1)
            }
            Factor::Windows { padded: false } => {
                let data = tall.flatten().slice(0, ..(rows + inner - 1).cast_signed());
                data.window(0, inner, 1)
            }
        };
        let product = match self.layout {
            Layout::Between => factor.reshape(&[2, rows / 2, inner]).matmul(&small),
            Layout::Plain | Layout::Turned => factor.matmul(&small),
        };
        let product = match self.epilogue {
            Epilogue::None => product,
            Epilogue::Affine => product * 2 + small.slice(0, ..1).flatten(),
            Epilogue::Relation => product.lt(1),
            Epilogue::Beside => {
                product.clone()
                    + tall.slice(1, ..1).reshape(&match self.layout {
                        Layout::Between => vec![2, rows / 2, 1],
                        Layout::Plain | Layout::Turned => vec![rows, 1],
                    })
            }
        };
        match self.layout {
            Layout::Plain => product,
            Layout::Turned => product.t(),
            Layout::Between => product.permute(&[0, 2, 1]),
        }
    }
}

impl Flags {
    fn tensor(&self) -> Tensor {
        let x = self.x.tensor();
        let flags = match x.node().dtype {
            DType::Bool => x.clone(),
            _ => x.gt(0),
        };
        let answer = flags.reduced(self.op, &Axes::from(self.axis));
        if !self.with_other {
            return answer;
        }
        let other = match self.op {
            Reduce::All => Reduce::Any,
            _ => Reduce::All,
        };
        let neither = flags
            .reduced(other, &Axes::from(self.axis))
            .unary(Unary::Not);
        answer.binary(Binary::Xor, neither)
    }
}
