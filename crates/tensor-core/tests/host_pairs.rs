//! The loops over pairs and the products by ranges, compared with the reference executor: every
//! combination, at sizes around their tile sizes.
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

#[test]
fn rows_of_several_batches_meet_their_own_lanes() {
    let x = whole(&[3, 5, 10], 1, DType::F32);
    let y = whole(&[3, 5, 80], 2, DType::F32);
    let near = (x.expand_dims(3) - y.expand_dims(2)).abs().lt(2.0);
    same("batched count", &near.sum(1));
    same("batched all", &near.all(1));
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
