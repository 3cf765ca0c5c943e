//! Reductions of every kind, compared with the reference executor, at each level and in pieces.

use std::sync::Arc;

use super::*;
use crate::compare::{Tolerance, compare};
use crate::einsum;
use crate::exec::reference::host_inputs;
use crate::exec::{Executor, Host, Reference, Storage};
use crate::plan::Plan;
use crate::rng::Philox;
use crate::{Scalar, Tensor, grad};

/// Returns small integers, so that every sum is exact in every type.
fn whole(shape: &[usize], stream: u64, dtype: DType) -> Tensor {
    let numbers = (0..shape.iter().product::<usize>() as u64)
        .map(|i| (Philox::new(5).stream(stream).uniform_f32(i) * 7.0).floor() - 3.0);
    let x = Tensor::from_vec(shape, numbers.collect::<Vec<f32>>());
    x.cast(dtype).realize(&Host::new()).unwrap()
}

/// Plans a reduction of one step, and returns its nest and its inputs.
fn reduction_of(name: &str, program: &Tensor) -> (Arc<LoopNest>, Vec<Arc<dyn Storage>>) {
    let mut target = Host::new().target();
    target.min_product = Some(1);
    let (plan, data) = Plan::new(&[program], &target).unwrap();
    let [step] = &plan.steps[..] else {
        panic!("{name}: {} steps\n{}", plan.steps.len(), plan.explain());
    };
    let is_pairs = Pairs::from_nest(&step.nest).is_some();
    assert!(is_pairs, "{name}: {}", plan.explain());
    let at = |input| plan.inputs.iter().position(|known| known == input).unwrap();
    let inputs = step.inputs.iter().map(|input| Arc::clone(&data[at(input)]));
    (Arc::clone(&step.nest), inputs.collect())
}

/// Returns the tiles of a reduction for inputs of the given types and lengths.
fn tiles_of(nest: &LoopNest, inputs: &[(DType, usize)]) -> Option<Tiles> {
    Tiles::new(nest, &Pairs::from_nest(nest).unwrap(), inputs)
}

/// The ways in which the lanes of a reduction are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lanes {
    InPlace,
    Bordered,
    Packed,
}

/// Returns elements of any type as `f64`, without rounding.
fn numbers<T: Element>(elements: &[T]) -> Vec<f64> {
    let scalars = elements.iter().map(|element| element.into_scalar());
    scalars.map(Scalar::to_f64).collect()
}

/// Compares a reduction with the reference at every level of this CPU, whole and cut into pieces of
/// different lengths along every axis. The output is filled with another number before. Returns the
/// ways in which the lanes were read.
fn check(name: &str, program: &Tensor) -> Lanes {
    let (nest, inputs) = reduction_of(name, program);
    let inputs = host_inputs(&inputs).unwrap();
    let lens: Vec<(DType, usize)> = inputs.iter().map(|x| (x.dtype(), x.len())).collect();
    let mut tiles = tiles_of(&nest, &lens).unwrap();
    let pool = Arc::new(Pool::default());
    let threads = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    let expected = program.realize(&Reference).unwrap();
    with_element!(nest.dtype(), T => {
        let expected = expected.to_host::<T>().unwrap();
        let expected = expected.as_slice().unwrap();
        let sentinel = T::from_scalar(Scalar::U32(77).cast(nest.dtype())).unwrap();
        let whole = (0, nest.domain[0]);
        let cuts = nest.domain.iter().enumerate().flat_map(|(axis, &size)| {
            [1, 7].map(|len| (axis, len.min(size)))
        });
        for cut in std::iter::once(whole).chain(cuts) {
            tiles.cut = cut;
            for (level_name, level) in Level::all() {
                let Some(level) = level else {
                    continue;
                };
                tiles.level = level;
                let mut out = pool.take(nest.dtype(), nest.output_len()).unwrap();
                out.elements_mut::<T>().fill(sentinel);
                let done = threads.install(|| tiles.reduce(&nest, &inputs, &mut out, &pool));
                assert!(done.unwrap(), "{name}: an element is not finite");
                let [out, expected] = [&*out.elements_mut::<T>(), expected].map(numbers);
                if let Err(mismatch) = compare(out, expected, &Tolerance::exact()) {
                    panic!("{name}, {level_name}, cut {cut:?}: {mismatch}");
                }
            }
        }
    });
    match (&tiles.roles.operands[1].copy, tiles.roles.runs.is_empty()) {
        (None, _) => Lanes::InPlace,
        (Some(_), true) if tiles.roles.lanes.len() > 1 => Lanes::Packed,
        (Some(_), _) => match nest.values.iter().any(|value| {
            matches!(value, Value::Load { input, guards, .. }
                if *input == tiles.roles.operands[1].input && !guards.is_empty())
        }) {
            true => Lanes::Bordered,
            false => Lanes::Packed,
        },
    }
}

#[test]
fn products_of_all_sizes_around_the_tiles_are_exact() {
    for dtype in [DType::F32, DType::F64] {
        for (rows, inner, cols) in [
            (1, 2, 9),
            (2, 2, 5),
            (3, 7, 8),
            (5, 3, 15),
            (6, 8, 16),
            (7, 5, 17),
            (8, 8, 8),
            (13, 11, 31),
            (12, 600, 33),
            (9, 1025, 47),
            (25, 4, 70),
            (13, 600, 64),
            (7, 9, 111),
        ] {
            let name = format!("{dtype}, {rows} x {inner} x {cols}");
            let (a, b) = (
                whole(&[rows, inner], 1, dtype),
                whole(&[inner, cols], 2, dtype),
            );
            let (at, bt) = (
                whole(&[inner, rows], 3, dtype),
                whole(&[cols, inner], 4, dtype),
            );
            check(&name, &a.matmul(&b));
            check(&format!("{name}, transposed"), &a.matmul(&b).t());
            check(&format!("{name}, left"), &at.t().matmul(&b));
            check(&format!("{name}, right"), &a.matmul(&bt.t()));
            check(&format!("{name}, both"), &at.t().matmul(&bt.t()));
            check(
                &format!("{name}, flipped"),
                &a.flip(1).matmul(&b.flip(1).flip(0)),
            );
            check(&format!("{name}, relu"), &(a.matmul(&b) * 2 + 1).relu());
            check(&format!("{name}, compared"), &a.matmul(&b).lt(1));
        }
    }
}

#[test]
fn symmetric_results_of_all_sizes_are_those_of_the_whole() {
    for dtype in [DType::F32, DType::F64, DType::U32] {
        for n in [64, 65, 79, 97, 130] {
            let x = whole(&[n, 5], 1, dtype);
            let batches = whole(&[2, 5, n], 2, dtype);
            let of = |x: &Tensor, y: &Tensor| (x * y).sum(-1);
            let name = format!("{dtype}, {n}");
            check(&name, &of(&x.expand_dims(1), &x));
            check(&format!("{name}, maxima"), &(x.expand_dims(1) + &x).max(-1));
            // The second factor is the first in another order, or has another first element.
            check(
                &format!("{name}, flipped"),
                &of(&x.expand_dims(1), &x.flip(0)),
            );
            check(
                &format!("{name}, terms flipped"),
                &of(&x.expand_dims(1), &x.flip(1)),
            );
            let [front, back] = [x.slice(0, ..-1), x.slice(0, 1..)];
            check(
                &format!("{name}, shifted"),
                &of(&front.expand_dims(1), &back),
            );
            check(
                &format!("{name}, batches"),
                &(batches.expand_dims(3) * batches.expand_dims(2)).sum(1),
            );
            check(
                &format!("{name}, with more"),
                &(of(&x.expand_dims(1), &x) * 2),
            );
        }
    }
    // Several blocks of terms, some of which decide results early.
    let long = whole(&[1100, 70], 4, DType::F32);
    let distance = (long.expand_dims(2) - long.expand_dims(1)).abs();
    check("long sums", &distance.sum(0));
    check("long any", &distance.lt(0.5).any(0));
    check("long all", &distance.lt(6.5).all(0));
    let x = whole(&[3, 100], 3, DType::F32);
    let distance = (x.expand_dims(2) - x.expand_dims(1)).abs();
    check("near", &distance.lt(2.0).count(0));
    check("all near", &distance.lt(4.0).all(0));
    check("distances", &distance.sum(0));
    let words = whole(&[3, 100], 3, DType::U32);
    let ones = (words.expand_dims(2) ^ words.expand_dims(1)).count_ones();
    check("equal bits", &ones.sum(0));
}

/// The numbers of rows, lanes and terms around the sizes of tiles, vectors and chunks.
const SIZES: [[usize; 3]; 9] = [
    [1, 64, 2],
    [3, 65, 31],
    [4, 17, 32],
    [9, 31, 7],
    [14, 33, 63],
    [7, 70, 600],
    [2, 8, 9],
    [2, 66, 700],
    [5, 33, 600],
];

#[test]
fn every_function_is_reduced_at_every_level() {
    for dtype in [DType::F32, DType::F64, DType::I32, DType::U32] {
        for [rows, lanes, n] in SIZES {
            let x = whole(&[n, rows], 1, dtype).expand_dims(2);
            let y = whole(&[n, lanes], 2, dtype).expand_dims(1);
            let mut functions = vec![("product", &x * &y), ("sum", &x + &y)];
            if matches!(dtype, DType::F32 | DType::F64) {
                functions.push(("distance", (&x - &y).abs()));
            }
            for (function, values) in functions {
                let name =
                    |fold: &str| format!("{fold} of {function}, {dtype}, {rows} x {lanes} x {n}");
                check(&name("sum"), &values.sum(0));
                check(&name("max"), &values.max(0));
                check(&name("min"), &values.min(0));
                if dtype != DType::F32 {
                    continue;
                }
                for (compare, hits) in [("lt", values.lt(4.0)), ("le", values.le(-8.0))] {
                    check(&name(&format!("count {compare}")), &hits.sum(0));
                    check(&name(&format!("all {compare}")), &hits.all(0));
                    check(&name(&format!("any {compare}")), &hits.any(0));
                    let follows = hits.any(0).select(2.0_f32, 3.0_f32);
                    check(&name(&format!("any {compare}, and more")), &follows);
                }
            }
        }
    }
}

#[test]
fn results_of_all_blocks_of_terms_are_combined() {
    let [n, rows, lanes] = [1300, 6, 33];
    let y = whole(&[n, lanes], 2, DType::F32).expand_dims(1);
    for (at, extreme) in [
        (0, 100.0),
        (650, 100.0),
        (n - 1, 100.0),
        (0, -100.0),
        (n - 1, -100.0),
    ] {
        // One term of each result is extreme.
        let data = (0..n * rows).map(|i| if i / rows == at { extreme } else { 0.0 });
        let x = Tensor::from_vec(&[n, rows], data.collect::<Vec<f32>>());
        let values = x.expand_dims(2) + &y;
        let name = |fold: &str| format!("{fold}, {extreme} at {at}");
        check(&name("sum"), &values.sum(0));
        check(&name("max"), &values.max(0));
        check(&name("min"), &values.min(0));
        check(&name("count"), &values.lt(-50.0).sum(0));
        check(&name("any"), &values.lt(-50.0).any(0));
        check(&name("all"), &values.lt(50.0).all(0));
    }
}

#[test]
fn special_numbers_are_reduced_at_every_level() {
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        1.5,
        -2.0,
        1e30,
    ];
    for dtype in [DType::F32, DType::F64] {
        for [rows, lanes, n] in [[3, 33, 2], [6, 70, 9]] {
            // Most lanes and rows meet at most one special number.
            let some = |shape: [usize; 2], stream| {
                let random = Philox::new(5).stream(stream);
                let number = |i: u64| match random.word(i) {
                    word if word % 8 == 0 => special[(word >> 8) as usize % special.len()],
                    word => f64::from(word >> 28),
                };
                let data = (0..(shape[0] * shape[1]) as u64).map(number);
                let x = Tensor::from_vec(&shape, data.collect::<Vec<f64>>());
                x.cast(dtype).realize(&Host::new()).unwrap()
            };
            let x = some([n, rows], 1).expand_dims(2);
            let y = some([n, lanes], 2).expand_dims(1);
            for (function, values) in [
                ("product", &x * &y),
                ("sum", &x + &y),
                ("distance", (&x - &y).abs()),
            ] {
                let name = |fold: &str| format!("{fold} of {function}, {dtype}, special");
                check(&name("max"), &values.max(0));
                check(&name("min"), &values.min(0));
                if dtype == DType::F32 {
                    for (compare, hits) in [("lt", values.lt(4.0)), ("le", values.le(0.0))] {
                        check(&name(&format!("count {compare}")), &hits.sum(0));
                        check(&name(&format!("all {compare}")), &hits.all(0));
                        check(&name(&format!("any {compare}")), &hits.any(0));
                    }
                }
            }
        }
    }
}

#[test]
fn integers_wrap_and_compare_with_their_sign_at_every_level() {
    for dtype in [DType::U32, DType::I32] {
        let x = words(&[9, 6], 1, dtype).expand_dims(2);
        let y = words(&[9, 70], 2, dtype).expand_dims(1);
        for (function, values) in [("product", &x * &y), ("sum", &x + &y)] {
            let name = |fold: &str| format!("{fold} of {function}, {dtype}, all bits");
            check(&name("sum"), &values.sum(0));
            check(&name("max"), &values.max(0));
            check(&name("min"), &values.min(0));
        }
    }
}

#[test]
fn a_table_of_the_terms_of_a_very_long_axis_is_never_allocated() {
    let (x, y) = (
        whole(&[9, 1, 1], 1, DType::F32),
        whole(&[1, 70, 1], 2, DType::F32),
    );
    let sums = (x + y).broadcast_to(&[9, 70, 1 << 42]);
    let (nest, inputs) = reduction_of("any", &sums.lt(100).any(-1));
    let inputs = host_inputs(&inputs).unwrap();
    let lens: Vec<(DType, usize)> = inputs.iter().map(|x| (x.dtype(), x.len())).collect();
    assert!(tiles_of(&nest, &lens).is_none());
    let any = sums.lt(100).any(-1).eval::<bool>(&Host::new()).unwrap();
    assert!(any.iter().all(|&any| any));
}

#[test]
fn the_host_chooses_tiles_from_64_results_on() {
    for (rows, lanes, is_in_tiles) in [(8, 8, true), (7, 9, false), (1, 64, true), (1, 63, false)] {
        let (x, y) = (
            whole(&[90, rows], 1, DType::F32),
            whole(&[90, lanes], 2, DType::F32),
        );
        let distances = (x.expand_dims(2) - y.expand_dims(1)).abs().sum(0);
        let (nest, inputs) = reduction_of("distances", &distances);
        let inputs = host_inputs(&inputs).unwrap();
        let lens: Vec<(DType, usize)> = inputs.iter().map(|x| (x.dtype(), x.len())).collect();
        let product = crate::exec::host::product::Product::new(&nest, &lens);
        assert_eq!(product.is_some(), is_in_tiles, "{rows} x {lanes}");
    }
}

#[test]
fn a_large_input_that_is_read_once_is_not_copied() {
    let (rows, terms, cols) = (1 << 15, 256, 10);
    let len = rows * terms;
    let matrices = [(rows, terms), (terms, cols)];
    let [a, b] = matrices.map(|(m, n)| Tensor::from_vec(&[m, n], vec![0.0_f32; m * n]));
    for product in [a.matmul(&b), b.t().matmul(&a.t())] {
        let (nest, inputs) = reduction_of("product", &product);
        assert!(nest.contract.as_ref().unwrap().reads_once);
        let inputs = host_inputs(&inputs).unwrap();
        let inputs: Vec<_> = inputs
            .iter()
            .map(|data| (data.dtype(), data.len()))
            .collect();
        let tiles = tiles_of(&nest, &inputs).unwrap();
        assert!(
            tiles.copy_len() < len,
            "{} elements are copied",
            tiles.copy_len()
        );
    }
}

/// Returns words of random bits in memory, so that the tensor is a plain input.
fn words(shape: &[usize], stream: u64, dtype: DType) -> Tensor {
    let stream = Philox::new(5).stream(stream);
    let n = shape.iter().product::<usize>() as u64;
    let words: Vec<u32> = (0..n).map(|i| stream.word(i)).collect();
    let words = Tensor::from_vec(shape, words).cast(dtype);
    words.realize(&Host::new()).unwrap()
}

#[test]
fn bits_of_matrices_of_every_length_are_counted_at_every_level() {
    for [rows, lanes, n] in SIZES {
        for dtype in [DType::U32, DType::I32] {
            let x = words(&[rows, n], 1, dtype).expand_dims(2);
            let y = words(&[n, lanes], 2, dtype).expand_dims(0);
            let name = |what| format!("{what}, {dtype}, {rows} x {lanes} x {n}");
            check(&name("xor"), &(&x ^ &y).count_ones().sum(1));
            check(&name("and"), &(&x & &y).count_ones().sum(1));
            check(&name("products of bytes"), &x.dot4_i8(&y).sum(1));
            let ones = Tensor::full(&[rows, n, 1], -1).cast(dtype);
            let ones = ones.realize(&Host::new()).unwrap();
            check(&name("all bits"), &(&ones & &y).count_ones().sum(1));
        }
    }
}

#[test]
fn bits_of_windows_with_padding_are_counted_at_every_level() {
    let mut lanes_in = Vec::new();
    for (taps, step, padding) in [(1, 1, 0), (3, 1, 1), (3, 2, 1), (3, 1, 3), (2, 3, 2)] {
        let image = words(&[2, 5, 9, 3], 1, DType::U32);
        let weights = words(&[taps, taps, 3, 66], 2, DType::U32);
        let padded = image
            .pad(1, padding, padding, 0)
            .pad(2, padding, padding, 0);
        let windows = padded.window(1, taps, step).window(2, taps, step);
        // [batch, height, width, taps down, taps across, words, lanes]
        let windows = windows.permute(&[0, 1, 2, 4, 5, 3]).expand_dims(-1);
        let name = |what| format!("{what} of {taps} taps, step {step}, padding {padding}");
        let axes = [3, 4, 5];
        let count = |x: Tensor| x.count_ones().sum(axes);
        lanes_in.push(check(&name("xor"), &count(&windows ^ &weights)));
        check(&name("and"), &count(&windows & &weights));
        let flipped = windows.flip(3).flip(5);
        check(&name("flipped"), &count(&flipped ^ &weights));
        check(&name("maximum"), &(&windows + &weights).max(axes));
        let products = windows.dot4_i8(&weights).sum(axes);
        check(&name("products of bytes"), &products);
    }
    assert!(lanes_in.contains(&Lanes::InPlace));
}

#[test]
fn lanes_at_strides_of_a_large_power_of_two_are_packed() {
    // The last of the 500 lanes fill no whole vector.
    for (inner, cols, is_packed) in [(20, 1024, true), (300, 48, false), (700, 512, true)] {
        for rows in [7, 8, 9] {
            let (a, b) = (
                whole(&[rows, inner], 1, DType::F32),
                whole(&[inner, cols], 2, DType::F32),
            );
            let b = b.slice(1, 0..cols.min(500));
            let distances = (a.expand_dims(2) - b.expand_dims(0)).abs().max(1);
            let name = format!("{rows} x {inner} x {cols}");
            let (nest, _) = reduction_of(&name, &distances);
            let lens = [(DType::F32, rows * inner), (DType::F32, inner * cols)];
            let tiles = tiles_of(&nest, &lens).unwrap();
            assert_eq!(tiles.packs, is_packed, "{name}");
            check(&name, &distances);
        }
    }
}

#[test]
fn products_of_batches_are_exact() {
    for (batch, rows, inner, cols) in [(3, 8, 8, 8), (2, 5, 3, 20), (4, 1, 6, 9), (5, 16, 16, 16)] {
        let (a, b) = (
            whole(&[batch, rows, inner], 1, DType::F32),
            whole(&[batch, inner, cols], 2, DType::F32),
        );
        let name = |what: &str| format!("{batch} x {rows} x {inner} x {cols}, {what}");
        check(&name("plain"), &a.matmul(&b));
        for spec in ["bik,bkj->ibj", "bik,bkj->ijb", "bik,bkj->jbi"] {
            check(&name(spec), &einsum(spec, &[&a, &b]));
        }
    }
}

#[test]
fn products_of_windows_are_exact() {
    let mut lanes = Vec::new();
    for (size, taps, step, padding) in [
        (9, 1, 1, 0),
        (9, 3, 1, 0),
        (9, 3, 1, 1),
        (20, 3, 1, 1),
        (9, 3, 2, 1),
        (10, 2, 3, 2),
        (5, 5, 1, 4),
    ] {
        for (images, channels, filters) in [(2, 3, 5), (1, 2, 17), (3, 4, 16)] {
            let image = whole(&[images, channels, size, size + 1], 1, DType::F32);
            let padded = image
                .pad(2, padding, padding, 0.0)
                .pad(3, padding, padding, 0.0);
            let windows = padded.window(2, taps, step).window(3, taps, step);
            let kernels = whole(&[filters, channels, taps, taps], 2, DType::F32);
            let name = |what: &str| {
                format!(
                    "{images} of {channels} x {size}², {filters} filters of {taps}², step {step}, padding {padding}: {what}"
                )
            };
            for spec in [
                "ncyxij,ocij->noyx",
                "ncyxij,ocij->nyxo",
                "ncyxij,ocij->oyxn",
            ] {
                lanes.push(check(&name(spec), &einsum(spec, &[&windows, &kernels])));
            }
            let size = windows.shape().unwrap().to_vec();
            let gradient = whole(&[images, filters, size[2], size[3]], 3, DType::F32);
            let by_weights = einsum("ncyxij,noyx->ocij", &[&windows, &gradient]);
            lanes.push(check(&name("by weights"), &by_weights));
        }
    }
    for way in [Lanes::InPlace, Lanes::Bordered, Lanes::Packed] {
        assert!(lanes.contains(&way), "no lanes are {way:?}");
    }
}

#[test]
fn padding_on_one_axis_and_reversed_windows_are_read_from_a_copy() {
    let image = whole(&[2, 8, 30], 1, DType::F32);
    let kernels = whole(&[9, 2, 3, 3], 2, DType::F32);
    let padded = image.pad(1, 2, 0, 0.0);
    for (name, image) in [
        ("down", padded.clone()),
        ("flipped", padded.flip(1).flip(2)),
        ("across", image.pad(2, 0, 3, 0.0)),
        ("sliced", image.pad(2, 5, 5, 0.0).slice(2, 3..37)),
    ] {
        let windows = image.window(1, 3, 1).window(2, 3, 2);
        check(name, &einsum("cyxij,ocij->oyx", &[&windows, &kernels]));
        check(
            name,
            &einsum("cyxij,ocij->yxo", &[&windows.flip(3), &kernels]),
        );
    }
}

/// Returns the gradient of a convolution by its images.
fn gradient_by_images([size, taps, step, padding]: [usize; 4], kernels: &Tensor) -> Tensor {
    let [filters, channels] = [kernels.shape().unwrap()[0], kernels.shape().unwrap()[1]];
    let image = whole(&[2, channels, size, size + 1], 1, DType::F32);
    let padded = image
        .pad(2, padding, padding, 0.0)
        .pad(3, padding, padding, 0.0);
    let windows = padded.window(2, taps, step).window(3, taps, step);
    let result = einsum("ncyxij,ocij->noyx", &[&windows, kernels]);
    let shape = result.shape().unwrap().to_vec();
    let cotangent = whole(&[2, filters, shape[2], shape[3]], 3, DType::F32);
    let loss = (result * cotangent).sum(..);
    grad(&loss, &[&image]).unwrap().remove(0)
}

#[test]
fn gradients_by_images_are_one_product() {
    for case in [[9, 3, 1, 0], [9, 3, 1, 1], [20, 3, 1, 1], [7, 5, 1, 2]] {
        let kernels = whole(&[5, 3, case[1], case[1]], 2, DType::F32);
        check(&format!("{case:?}"), &gradient_by_images(case, &kernels));
    }
}

#[test]
fn gradients_by_images_of_windows_with_a_step_are_exact() {
    // The axes of the positions and of the residues are merged between both sums, so only the inner
    // sum is part of the product.
    for case in [
        [9, 3, 2, 0],
        [10, 3, 2, 1],
        [11, 5, 2, 2],
        [12, 2, 2, 0],
        [13, 4, 3, 1],
    ] {
        let kernels = whole(&[5, 3, case[1], case[1]], 2, DType::F32);
        is_same(&format!("{case:?}"), &gradient_by_images(case, &kernels));
    }
}

/// Compares a program on the host with the reference.
fn is_same(name: &str, program: &Tensor) {
    let host = program.eval::<f32>(&Host::new()).unwrap();
    let oracle = program.eval::<f32>(&Reference).unwrap();
    if let Err(mismatch) = compare(host, oracle, &Tolerance::exact()) {
        panic!("{name}: {mismatch}");
    }
}

#[test]
fn numbers_that_are_not_finite_meet_no_padding() {
    for wild in [f32::NAN, f32::INFINITY] {
        let kernels = whole(&[5, 3, 3, 3], 2, DType::F32);
        let place = Tensor::from_vec(&[9], (0_i32..9).collect::<Vec<_>>()).reshape(&[3, 3]);
        let kernels = place
            .eq(2)
            .select(wild, &kernels)
            .realize(&Host::new())
            .unwrap();
        for case in [[9, 3, 1, 0], [10, 3, 2, 1]] {
            let gradient = gradient_by_images(case, &kernels);
            let oracle = gradient.eval::<f32>(&Reference).unwrap();
            assert!(oracle.iter().any(|x| x.is_finite()));
            is_same(&format!("{case:?}, {wild}"), &gradient);
        }
    }
}

#[test]
fn paddings_that_are_much_larger_than_the_array_are_not_copied() {
    let x = whole(&[4, 100], 1, DType::F32).pad(1, 1 << 20, 1 << 20, 0.0);
    let windows = x.window(1, 3, 1 << 19);
    let kernels = whole(&[5, 4, 3], 2, DType::F32);
    let product = einsum("cyi,oci->oy", &[&windows, &kernels]);
    let (nest, inputs) = reduction_of("windows", &product);
    let inputs = host_inputs(&inputs).unwrap();
    let lens: Vec<(DType, usize)> = inputs.iter().map(|x| (x.dtype(), x.len())).collect();
    if let Some(tiles) = tiles_of(&nest, &lens) {
        let copies = tiles.roles.operands.iter().map(Operand::copy_len);
        assert!(copies.max().unwrap() < 10_000);
    }
    is_same("windows", &product);
}

#[test]
fn few_rows_are_divided_along_the_lanes() {
    let (a, b) = (
        whole(&[5, 64], 1, DType::F32),
        whole(&[64, 20_000], 2, DType::F32),
    );
    let (nest, inputs) = reduction_of("wide", &a.matmul(&b));
    let inputs = host_inputs(&inputs).unwrap();
    let lens: Vec<(DType, usize)> = inputs.iter().map(|x| (x.dtype(), x.len())).collect();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(8)
        .build()
        .unwrap();
    let tiles = pool.install(|| tiles_of(&nest, &lens));
    let (axis, n) = tiles.unwrap().cut;
    assert!(axis == 1 && n < 20_000 / 2, "{axis}, {n}");
}

/// Returns the products of windows of images with filters, both with the channels last.
fn windows_by_filters(
    images: &Tensor,
    filters: &Tensor,
    [taps, step]: [usize; 2],
    [before, after]: [usize; 2],
) -> Tensor {
    let padded = images.pad(1, before, after, 0.0).pad(2, before, after, 0.0);
    let windows = padded.window(1, taps, step).window(2, taps, step);
    // The order of the layers for images: channels are the last axis of a filter.
    let windows = windows.permute(&[0, 1, 2, 4, 5, 3]);
    einsum("nyxijc,ijco->nyxo", &[&windows, filters])
}

#[test]
fn padding_is_left_out_of_the_products_of_several_images() {
    for (n, size, channels, taps, step, paddings) in [
        (7, 5, 3, 3, 1, [1, 1]),
        (6, 6, 70, 3, 1, [1, 1]),
        (13, 4, 200, 3, 1, [2, 1]),
        (7, 6, 130, 3, 2, [1, 0]),
        (6, 3, 20, 5, 1, [4, 4]),
        (6, 2, 64, 5, 1, [6, 0]),
    ] {
        let images = whole(&[n, size, size, channels], 1, DType::F32);
        let filters = whole(&[taps, taps, channels, 20], 2, DType::F32);
        let result = windows_by_filters(&images, &filters, [taps, step], paddings);
        let name = format!("{n} images of {size}² x {channels}, {taps} taps, {paddings:?}");
        let (nest, inputs) = reduction_of(&name, &result);
        let inputs = host_inputs(&inputs).unwrap();
        let lens: Vec<_> = inputs.iter().map(|x| (x.dtype(), x.len())).collect();
        let tiles = tiles_of(&nest, &lens).unwrap();
        assert!(tiles.padding.is_some(), "{name}: {tiles:?}");
        check(&name, &result);
        let weight = whole(result.shape().unwrap(), 3, DType::F32);
        let gradient = grad(&(&result * &weight).sum(..), &[&images]).unwrap();
        is_same(&name, &gradient[0]);
    }
}

#[test]
fn padding_stays_in_the_sums_of_few_images_and_behind_inner_guards() {
    let padded = |n: usize| {
        let images = whole(&[n, 4, 4, 64], 1, DType::F32);
        let padded = images.pad(1, 1, 1, 0.0).pad(2, 1, 1, 0.0);
        padded.window(1, 3, 1).window(2, 3, 1)
    };
    let filters = whole(&[3, 64, 3, 20], 2, DType::F32);
    // The guard of the last axis depends on an inner axis of the blocks, so only the guard of the
    // rows of a window can leave padding out.
    for (n, is_left_out) in [(7, true), (5, false)] {
        let windows = padded(n).permute(&[0, 1, 2, 4, 3, 5]);
        let result = einsum("nyxicj,icjo->nyxo", &[&windows, &filters]);
        let name = format!("{n} images");
        let (nest, inputs) = reduction_of(&name, &result);
        let inputs = host_inputs(&inputs).unwrap();
        let lens: Vec<_> = inputs.iter().map(|x| (x.dtype(), x.len())).collect();
        let tiles = tiles_of(&nest, &lens).unwrap();
        assert_eq!(tiles.padding.is_some(), is_left_out, "{name}: {tiles:?}");
        let is_copied = tiles.roles.operands[0].copy_len() > 0;
        assert!(is_copied, "{name}: the border of the inner guard is read");
        is_same(&name, &result);
    }
}

#[test]
fn padding_is_left_out_of_the_terms_of_packed_lanes() {
    for (n, size, channels) in [(7, 3, 64), (6, 2, 256)] {
        let images = whole(&[n, size, size, channels], 1, DType::F32);
        // The lanes of all terms begin in the same sets of a cache.
        let filters = whole(&[3, 3, channels, 256], 2, DType::F32);
        let result = windows_by_filters(&images, &filters, [3, 1], [1, 1]);
        let name = format!("{n} images of {size}² x {channels}");
        let (nest, inputs) = reduction_of(&name, &result);
        let inputs = host_inputs(&inputs).unwrap();
        let lens: Vec<_> = inputs.iter().map(|x| (x.dtype(), x.len())).collect();
        let tiles = tiles_of(&nest, &lens).unwrap();
        assert!(tiles.packs && tiles.padding.is_some(), "{name}: {tiles:?}");
        is_same(&name, &result);
    }
}

#[test]
fn a_filter_that_is_not_finite_meets_the_padding() {
    for number in [f32::INFINITY, f32::NAN] {
        let images = whole(&[7, 5, 5, 64], 1, DType::F32);
        let mut filters: Vec<f32> = (0..9 * 64 * 20).map(|i| (i % 5) as f32).collect();
        filters[40] = number;
        let filters = Tensor::from_vec(&[3, 3, 64, 20], filters);
        let result = windows_by_filters(&images, &filters, [3, 1], [1, 1]);
        is_same("filters", &result);
        let corner = result.eval::<f32>(&Host::new()).unwrap()[[0, 0, 0, 0]];
        assert!(corner.is_nan(), "0 times {number} is {corner}");
    }
}
