//! A value that a plan computes twice has the same bits both times, on every executor of this
//! crate.
//!
//! Role: tests the guarantee that [`Tensor::argmax`] needs, which searches for an extreme among
//! values that are computed again.
//! Method: programs whose values are expensive to store or cheap to compute, in shapes that end
//! inside a block of lanes. The position of an extreme must be in range and must contain the
//! extreme of the values that `eval` returns.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::plan::{Plan, Step};
use tensor_core::rng::Philox;
use tensor_core::{Axes, DType, Executor, Host, Reference, Tensor};

/// Rows and columns: below, at and above a few blocks of lanes.
const SHAPES: [[usize; 2]; 4] = [[3, 5], [17, 64], [5, 1025], [1030, 7]];

fn values(shape: [usize; 2], dtype: DType) -> Vec<(&'static str, Tensor)> {
    let normal = |stream, shape: &[usize]| {
        Tensor::randn(Philox::new(5).stream(stream), shape)
            .realize(&Host::new())
            .unwrap()
            .cast(dtype)
    };
    let [rows, cols] = shape;
    let (x, y, z) = (normal(1, &shape), normal(2, &[cols]), normal(3, &[rows, 1]));
    let deep = normal(4, &[rows, cols, 9]);
    vec![
        ("a product and a sum", &x * &y + &z),
        ("functions", (&x * &y + &z).exp().sin().tanh() / (&x + 3.0)),
        ("powers", (x.abs() + 0.5).pow(&y).sqrt().ln()),
        ("distances", (y.expand_dims(0) - &z).abs().recip()),
        ("sums", deep.sum(2)),
        ("sums and more", (deep.square().mean(2) + 1e-3).sqrt() * &x),
        ("sums of the middle", deep.permute(&[0, 2, 1]).sum(1).exp()),
        (
            "a matrix product",
            deep.reshape(&[rows * cols, 9])
                .matmul(&normal(6, &[9]))
                .reshape(&shape),
        ),
        ("a softmax", x.softmax(1)),
    ]
}

#[test]
fn an_extreme_is_found_among_values_that_are_computed_again() {
    for executor in [&Host::new() as &dyn Executor, &Reference] {
        for shape in SHAPES {
            for dtype in [DType::F32, DType::F64] {
                for (name, x) in values(shape, dtype) {
                    for axis in [0, 1] {
                        let name = format!("{name} {shape:?} {dtype} {axis} {}", executor.name());
                        check(&name, &x, axis, executor);
                    }
                }
            }
        }
    }
}

fn check(name: &str, x: &Tensor, axis: isize, executor: &dyn Executor) {
    let size = x.shape().unwrap()[axis.unsigned_abs()];
    let kept = x.realize(executor).unwrap();
    for (found, extreme) in [
        (x.argmax(axis), kept.max(Axes::keepdims(axis))),
        (x.argmin(axis), kept.min(Axes::keepdims(axis))),
    ] {
        let found = found.realize(executor).unwrap();
        let positions = found.to_host::<u32>().unwrap();
        let in_range = |&position: &u32| (position as usize) < size;
        assert!(positions.iter().all(in_range), "{name}: {positions}");
        let there = kept.take_along_axis(&found.expand_dims(axis), axis);
        // Values that are computed alone may differ as far as a different order of additions
        // allows.
        let absolute = match x.dtype().unwrap() {
            DType::F64 => 1e-14,
            _ => 1e-5,
        };
        let bound = Tolerance::relative(64).or_absolute(absolute);
        if x.dtype().unwrap() == DType::F64 {
            let [there, extreme] = [there, extreme].map(|x| x.eval::<f64>(executor).unwrap());
            assert_close(there.flatten(), extreme.flatten(), bound);
        } else {
            let [there, extreme] =
                [there, extreme].map(|x| x.cast(DType::F32).eval::<f32>(executor).unwrap());
            assert_close(there.flatten(), extreme.flatten(), bound);
        }
    }
}

#[test]
fn a_sum_is_not_computed_again_to_find_its_extreme() {
    let deep = Tensor::randn(Philox::new(5), &[7, 5, 1030])
        .realize(&Host::new())
        .unwrap();
    for sums in [deep.sum(2), deep.sum(1).exp(), deep.sum(0).t()] {
        for axis in [0, 1] {
            let (plan, _) = Plan::new(&[&sums.argmax(axis)], &Host::new().target()).unwrap();
            let is_sum = |step: &&Step| step.origins.iter().any(|origin| origin.operation == "sum");
            assert_eq!(
                plan.steps.iter().filter(is_sum).count(),
                1,
                "{}",
                plan.explain()
            );
        }
    }
}

#[test]
fn a_view_that_makes_a_value_constant_does_not_change_its_bits() {
    let x = Tensor::from_vec(&[1, 4], vec![1.0_f32, 2.0, 3.0, 4.0]).pad(0, 1, 0, 0.0);
    for step in 0..200_u8 {
        let shifted = &x + f32::from(step) * 0.013_71;
        for (name, y) in [
            ("exp", shifted.exp()),
            ("ln", (&shifted + 1.0).ln()),
            ("sigmoid", shifted.sigmoid()),
            ("pow", (&shifted + 1.0).pow(1.7)),
        ] {
            let first = y.argmax(1).slice(0, ..1);
            for executor in [&Host::new() as &dyn Executor, &Reference] {
                let position = first.eval::<u32>(executor).unwrap()[[0]];
                assert_eq!(position, 0, "{name} {step} on {}", executor.name());
            }
        }
    }
}
