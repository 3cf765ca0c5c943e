//! Numbers that change from step to step, without a new kernel.

use std::ops::Range;

use gpu_wgsl::check::{compare_steps, every_adapter};
use gpu_wgsl::{Feature, Gpu, Select};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;
use tensor_core::{DType, Reference, Tensor, grad, jit};

fn normal(shape: &[usize], stream: u64) -> Tensor {
    let mut data = vec![0.0; shape.iter().product()];
    Philox::new(3).fill_normal_f32(stream, &mut data);
    Tensor::from_vec(shape, data)
}

/// Returns the range of `len` positions from `start` on.
fn range(start: u8, len: usize) -> Range<usize> {
    usize::from(start)..usize::from(start) + len
}

/// Opens a separate device on each adapter, so that other tests do not add to its compiled kernels.
fn opened() -> Vec<Gpu> {
    let adapters = every_adapter().iter().map(|gpu| gpu.adapter().index);
    adapters
        .map(|index| Gpu::open(Select::Index(index)))
        .map(|opened| opened.unwrap_or_else(|error| panic!("{error}")))
        .collect()
}

/// Checks a program for several numbers. No kernel may be compiled after the first two numbers, 0
/// and 1. Number 1 may need another kernel, because an offset of 0 has its own kernel.
fn assert_compiled_once(gpu: &Gpu, name: &str, program: impl Fn(u8) -> Tensor) {
    let check = |number: u8| {
        if let Err(error) = compare_steps(gpu, &[&program(number)]) {
            panic!("{name} with number {number}: {error}");
        }
    };
    check(0);
    check(1);
    let n_compiled = gpu.compiled_kernels();
    (2..6).for_each(check);
    assert_eq!(gpu.compiled_kernels(), n_compiled, "{name}");
}

#[test]
fn constants_offsets_and_streams_need_no_new_kernel() {
    for gpu in &opened() {
        let (x, m) = (normal(&[16, 16], 0), normal(&[16, 16], 1));
        let whole = Tensor::arange(256).reshape(&[16, 16]);
        assert_compiled_once(gpu, "learning rate", |n| {
            &x - x.matmul(&m).tanh() * (1e-3 / (1.0 + f64::from(n)))
        });
        // Different constants, because equal constants are one parameter.
        assert_compiled_once(gpu, "integers", |n| {
            let n = i32::from(n);
            (&whole * (n + 2) + (n + 20)).floor_div(n + 40)
        });
        assert_compiled_once(gpu, "special numbers", |n| {
            x.maximum(
                [0.0_f32, -0.0, f32::INFINITY, f32::MIN_POSITIVE, 1e-45, -1.0][usize::from(n)],
            )
        });
        assert_compiled_once(gpu, "start of a slice", |n| x.slice(0, range(n, 4)));
        assert_compiled_once(gpu, "padding", |n| {
            x.pad(0, n.into(), (8 - n).into(), 0.5) * 2.0
        });
        assert_compiled_once(gpu, "gradient of a slice", |n| {
            let loss = x.slice(1, range(n, 5)).square().sum(..);
            grad(&loss, &[&x]).unwrap().remove(0)
        });
        assert_compiled_once(gpu, "positions", |n| {
            Tensor::arange(40).slice(0, range(n, 9)) * 3
        });
        assert_compiled_once(gpu, "row of a gather", |n| {
            x.slice(0, range(n, 4)).gather(&(Tensor::arange(8) % 4), 0)
        });
        assert_compiled_once(gpu, "seed and stream", |n| {
            Tensor::rand(
                Philox::new(7 + u64::from(n)).stream(u64::from(n) + (1 << 40)),
                &[77],
            )
        });
        assert_compiled_once(gpu, "normal numbers", |n| {
            Tensor::randn(Philox::new(7).stream(u64::from(n) + 100), &[77])
        });
        match gpu.require("f64", &[Feature::F64, Feature::Int64]) {
            Ok(()) => assert_compiled_once(gpu, "f64", |n| {
                x.cast(DType::F64) * (0.1 + f64::from(n)) + 1e-300
            }),
            Err(missing) => gpu_wgsl::check::skip(&missing.to_string()),
        }
    }
}

/// The numbers are small integers, the learning rates are powers of 2 and the noise has 24 bits, so
/// products are exact, and each of the two sums that round has one result in any order of
/// operations.
#[test]
fn arguments_of_compiled_functions_need_no_new_kernel() {
    let integers = |factor: i32| {
        let mixed = (Tensor::arange(256) * factor) % 7 - 3;
        mixed.cast(DType::F32).reshape(&[16, 16])
    };
    let (w, m) = (integers(5), integers(11));
    let seed = Philox::new(11);
    for gpu in &opened() {
        let step = jit(|of: &[Tensor]| {
            let noise = Tensor::rand_in_stream(seed, &of[2], &[16, 16]);
            Ok(vec![&of[0] - (of[0].matmul(&m).relu() + noise) * &of[1]])
        });
        let mut n_compiled = Vec::new();
        for n in 0..4_u32 {
            let rate = 0.5_f32.powi(n.cast_signed() + 1);
            let arguments = [w.clone(), Tensor::scalar(rate), Tensor::scalar(n)];
            let stepped = step.call(gpu, &arguments.each_ref()).unwrap();
            let noise = Tensor::rand(seed.stream(n.into()), &[16, 16]);
            let expected = &w - (w.matmul(&m).relu() + noise) * rate;
            assert_close(
                stepped[0].to_host::<f32>().unwrap(),
                expected.eval::<f32>(&Reference).unwrap(),
                Tolerance::bits(),
            );
            n_compiled.push(gpu.compiled_kernels());
        }
        assert!(
            n_compiled.iter().all(|n| *n == n_compiled[0]),
            "{n_compiled:?}"
        );
    }
}

#[test]
fn steps_of_an_unrolled_network_share_their_kernels() {
    for gpu in &opened() {
        const STEPS: isize = 20;
        let (u, w) = (normal(&[STEPS as usize, 4, 8], 0), normal(&[8, 8], 1));
        let before = gpu.compiled_kernels();
        let mut state = normal(&[4, 8], 2);
        for step in 0..STEPS {
            let input = u.slice(0, step..step + 1).squeeze(0);
            state = (state.matmul(&w) + input).tanh();
        }
        if let Err(error) = compare_steps(gpu, &[&state]) {
            panic!("{error}");
        }
        let n_compiled = gpu.compiled_kernels() - before;
        assert!(
            n_compiled <= 4,
            "{n_compiled} kernels for {STEPS} equal steps"
        );
    }
}
