//! Reductions over pairs, compared with the reference executor: every combination, at sizes around
//! those of tiles.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use tensor_core::compare::{Tolerance, compare};
use tensor_core::rng::Philox;
use tensor_core::{DType, Host, Reference, Tensor, einsum};

/// Returns small integers, so that every sum and product is exact in every type.
fn whole(shape: &[usize], stream: u64, dtype: DType) -> Tensor {
    let data: Vec<f32> = (0..shape.iter().product::<usize>() as u64)
        .map(|i| (Philox::new(9).stream(stream).uniform_f32(i) * 7.0).floor() - 3.0)
        .collect();
    // Stored in memory, so that the tensor is a plain input.
    Tensor::from_vec(shape, data)
        .cast(dtype)
        .realize(&Host::new())
        .unwrap()
}

fn same(name: &str, tensor: &Tensor) {
    let as_f64 = tensor.cast(DType::F64);
    let host = as_f64.eval::<f64>(&Host::new()).unwrap();
    let oracle = as_f64.eval::<f64>(&Reference).unwrap();
    if let Err(mismatch) = compare(host, oracle, &Tolerance::exact()) {
        panic!("{name}: {mismatch}");
    }
}

#[test]
fn every_fold_over_pairs_gives_what_the_oracle_gives() {
    for (rows, lanes, n) in [
        (4, 64, 1),
        (9, 65, 3),
        (8, 130, 17),
        (13, 200, 40),
        (5, 63, 5),
        (33, 600, 7),
    ] {
        for dtype in [DType::F32, DType::F64, DType::I32] {
            let x = whole(&[n, rows], 1, dtype).expand_dims(2);
            let y = whole(&[n, lanes], 2, dtype).expand_dims(1);
            let mut functions = vec![("product", &x * &y), ("sum", &x + &y)];
            functions.push(("distance", (&x - &y).abs()));
            for (function, pairs) in functions {
                let name =
                    |fold: &str| format!("{fold} of {function}, {dtype}, {rows} x {lanes} x {n}");
                same(&name("sum"), &pairs.sum(0));
                same(&name("max"), &pairs.max(0));
                same(&name("min"), &pairs.min(0));
                for (compare, hits) in [
                    ("lt", pairs.lt(4)),
                    ("le", pairs.le(4)),
                    ("gt", pairs.gt(0)),
                ] {
                    same(&name(&format!("count {compare}")), &hits.sum(0));
                    same(&name(&format!("all {compare}")), &hits.all(0));
                    same(&name(&format!("any {compare}")), &hits.any(0));
                }
            }
        }
    }
}

/// Returns words of random bits.
fn words(shape: &[usize], stream: u64) -> Tensor {
    let stream = Philox::new(9).stream(stream);
    let n = shape.iter().product::<usize>() as u64;
    Tensor::from_vec(shape, (0..n).map(|i| stream.word(i)).collect::<Vec<u32>>())
}

#[test]
fn ones_are_counted_in_every_bit_of_long_sums() {
    // A counter of one byte overflows after 31 words of ones.
    for n in [1, 30, 31, 32, 62, 63, 400] {
        let full = Tensor::full(&[n, 6], u32::MAX)
            .realize(&Host::new())
            .unwrap();
        for (rows, bits) in [(full, "ones"), (words(&[n, 6], 1), "random bits")] {
            let lanes = words(&[n, 70], 2);
            for (dtype, rows, lanes) in [
                (DType::U32, rows.clone(), lanes.clone()),
                (DType::I32, rows.cast(DType::I32), lanes.cast(DType::I32)),
            ] {
                let [rows, lanes] = [rows, lanes].map(|x| x.realize(&Host::new()).unwrap());
                let (x, y) = (rows.expand_dims(2), lanes.expand_dims(1));
                let name = |op: &str| format!("{op}, {bits}, {dtype}, {n} words");
                same(&name("xor"), &(&x ^ &y).count_ones().sum(0));
                same(&name("and"), &(&x & &y).count_ones().sum(0));
                same(&name("products of bytes"), &x.dot4_i8(&y).sum(0));
            }
        }
    }
}

#[test]
fn windows_next_to_the_padding_count_zeros() {
    for dtype in [DType::U32, DType::I32] {
        check_windows(dtype);
    }
}

fn check_windows(dtype: DType) {
    let stored = |x: Tensor| x.cast(dtype).realize(&Host::new()).unwrap();
    let image = stored(words(&[5, 9, 3], 1));
    for (taps, step, padding) in [(1, 1, 0), (3, 1, 1), (3, 2, 1), (3, 1, 3), (2, 3, 2)] {
        let weights = stored(words(&[taps, taps, 3, 66], 2));
        let padded = image
            .pad(0, padding, padding, 0)
            .pad(1, padding, padding, 0);
        let windows = padded.window(0, taps, step).window(1, taps, step);
        // [height, width, taps down, taps across, words, lanes]
        let windows = windows.permute(&[0, 1, 3, 4, 2]).expand_dims(-1);
        let name =
            |what: &str| format!("{what} of {taps} taps, step {step}, padding {padding}, {dtype}");
        same(
            &name("xor"),
            &(&windows ^ &weights).count_ones().sum([2, 3, 4]),
        );
        same(
            &name("and"),
            &(&windows & &weights).count_ones().sum([2, 3, 4]),
        );
        same(&name("maximum"), &(&windows + &weights).max([2, 3, 4]));
        same(
            &name("products of bytes"),
            &windows.dot4_i8(&weights).sum([2, 3, 4]),
        );
        let flipped = windows.flip(2).flip(4);
        same(
            &name("flipped"),
            &(&flipped ^ &weights).count_ones().sum([2, 3, 4]),
        );
    }
}

#[test]
fn rows_of_several_batches_meet_their_own_lanes() {
    let x = whole(&[3, 5, 10], 1, DType::F32);
    let y = whole(&[3, 5, 80], 2, DType::F32);
    let near = (x.expand_dims(3) - y.expand_dims(2)).abs().lt(2.0);
    same("batched count", &near.sum(1));
    same("batched all", &near.all(1));
}

#[test]
fn neighbouring_rows_may_meet_other_lanes() {
    for (n_rows, n_batches) in [(1, 2), (9, 2), (5, 3), (8, 4), (16, 5)] {
        let name = |what: &str| format!("{what} of {n_rows} rows and {n_batches} batches");
        let rows = words(&[n_rows, 1, 7, 1], 1);
        let lanes = words(&[n_batches, 7, 70], 2);
        let ones = (&rows ^ &lanes).count_ones().sum(2);
        same(&name("ones"), &ones);
        same(&name("sums of ones"), &ones.sum(1));
        for dtype in [DType::F32, DType::I32] {
            let (x, y) = (
                whole(&[n_rows, 1, 7, 1], 3, dtype),
                whole(&[n_batches, 7, 70], 4, dtype),
            );
            same(&name("sums"), &(&x + &y).sum(2));
            same(&name("hits"), &(&x + &y).lt(1).sum(2));
        }
    }
}

#[test]
fn instructions_of_two_operations_nest_in_every_way() {
    let shape = [7, 300];
    let [a, b, c, d] = [1, 2, 3, 4].map(|stream| whole(&shape, stream, DType::F32));
    let product = &a * &b;
    let values = [
        ("|ab - c|", (&product - &c).abs()),
        ("|ab + c| d", (&product + &c).abs() * &d),
        ("|ab - c| d + c", (&product - &c).abs() * &d + &c),
        ("|(a - b) c - d|", ((&a - &b) * &c - &d).abs()),
        ("|ab - ab|", (&product - &product).abs()),
        (
            "||a - b| - |c - d||",
            ((&a - &b).abs() - (&c - &d).abs()).abs(),
        ),
        ("ab cd + a", &product * (&c * &d) + &a),
    ];
    for (name, value) in &values {
        same(name, value);
        for axis in [0, 1] {
            same(name, &value.sum(axis));
            same(name, &value.max(axis));
            same(name, &value.lt(3).sum(axis));
            same(name, &value.le(&c).any(axis));
            same(
                name,
                &(value.lt(3).sum(axis).cast(DType::F32) * 2.0 - value.max(axis)).abs(),
            );
        }
    }
}

#[test]
fn products_by_ranges_give_what_the_oracle_gives() {
    let image = whole(&[2, 3, 20, 30], 1, DType::F32);
    let kernels = whole(&[5, 3, 3, 3], 2, DType::F32);
    let padded = image.pad(2, 1, 1, 0.0).pad(3, 1, 1, 0.0);
    for (name, source) in [("valid", &image), ("padded", &padded)] {
        let windows = source.window(2, 3, 1).window(3, 3, 1);
        same(name, &einsum("ncyxij,ocij->noyx", &[&windows, &kernels]));
        same(
            name,
            &einsum("ncyxij,ocij->nyxo", &[&windows, &kernels]).relu(),
        );
        same(name, &einsum("ocij,ncyxij->oyxn", &[&kernels, &windows]));
        same(
            name,
            &einsum("ncyxij,ocij->yoxn", &[&windows, &kernels]).lt(0),
        );
    }
    let (a, b) = (
        whole(&[6, 30, 40], 3, DType::F32),
        whole(&[6, 40, 20], 4, DType::F32),
    );
    for spec in [
        "bik,bkj->bij",
        "bik,bkj->ibj",
        "bik,bkj->bji",
        "bik,bkj->jib",
        "bik,bkj->ij",
    ] {
        same(spec, &(einsum(spec, &[&a, &b]) * 2.0 + 1.0));
        same(spec, &einsum(spec, &[&a, &b]));
        same(spec, &einsum(spec, &[&a.flip(1), &b.flip(2)]));
    }
    let (long, wide) = (
        whole(&[3000, 40], 5, DType::F32),
        whole(&[40, 9], 6, DType::F32),
    );
    same("long", &(long.matmul(&wide) + 1.0));
    same("long, turned", &(wide.t().matmul(&long.t()) + 1.0));
}
