//! The number of threads does not change any bit.

use tensor_core::compare::{Tolerance, compare};
use tensor_core::rng::Philox;
use tensor_core::{DType, Host, Tensor, einsum};

fn random(shape: &[usize], stream: u64) -> Tensor {
    let mut data = vec![0.0; shape.iter().product()];
    Philox::new(3).stream(stream).fill_normal_f32(0, &mut data);
    Tensor::from_vec(shape, data)
}

#[test]
fn one_two_three_and_eight_threads_give_the_same_bits() {
    let (x, y) = (random(&[700, 300], 1), random(&[300, 500], 2));
    let line = random(&[3_000_001], 3);
    let image = random(&[2, 4, 40, 50], 4);
    let kernels = random(&[6, 4, 3, 3], 5);
    let windows = image.window(2, 3, 1).window(3, 3, 1);
    let programs = [
        ("sum of a line", line.sum(..)),
        ("sum of a line in f64", line.cast(DType::F64).exp().sum(..)),
        ("product", line.abs().pow(1e-6).prod(..)),
        ("columns", x.exp().sum(0)),
        ("rows", x.tanh().sum(1)),
        ("few columns", random(&[200_000, 3], 6).sigmoid().sum(0)),
        ("softmax", x.softmax(1)),
        ("matrix product and more", (x.matmul(&y) * 0.5).sin()),
        (
            "pairs",
            (x.expand_dims(2) - x.slice(1, ..64).expand_dims(1))
                .abs()
                .sum(0),
        ),
        (
            "convolution",
            einsum("ncyxij,ocij->noyx", &[&windows, &kernels]).relu(),
        ),
        (
            "random numbers",
            Tensor::randn(Philox::new(1), &[100_000]).sum(..),
        ),
    ];
    for (name, program) in programs {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            // Computed in its own type, so that products use the GEMM library; the conversion to
            // f64 for the comparison is exact.
            let result = pool.install(|| program.realize(&Host::new()).unwrap());
            result.cast(DType::F64).eval::<f64>(&Host::new()).unwrap()
        };
        let one = with(1);
        for threads in [2, 3, 8] {
            if let Err(mismatch) = compare(with(threads), &one, &Tolerance::bits()) {
                panic!("{name} on {threads} threads: {mismatch}");
            }
        }
    }
}
