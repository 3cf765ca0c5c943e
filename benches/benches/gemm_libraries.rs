//! Speed of CPU libraries for matrix products: the measurement behind the choice in
//! `tensor_core::gemm`.
//!
//! Role: `cargo bench -p benches --features libraries --bench gemm_libraries` prints the table in
//! the header of `tensor_core::gemm`. The number of threads of `matrixmultiply` is set by
//! `MATMUL_NUM_THREADS`.
//! Method: the products of the workload `matmul`; every result passes its check. Libraries take
//! turns. Each is warmed up until its threads are awake and spread over the cores; the median of
//! its times counts.

#![allow(clippy::print_stdout, reason = "a program prints its results")]
#![expect(
    unsafe_code,
    reason = "two of the libraries take raw pointers and strides"
)]

use benches::mnist;
use benches::workloads::matmul::{Case, Product};
use harness::measure::{SETTLE, Timing, wall};
use harness::workload::Portion;
use std::thread::sleep;
use std::time::{Duration, Instant};

const CASES: [Case; 5] = [
    Case::Square(512),
    Case::Square(1024),
    Case::Square(2048),
    Case::Images(mnist::N_IMAGES),
    Case::Images(5),
];
const N_ROUNDS: usize = 7;
/// Number of timed runs per turn.
const N_RUNS: usize = 5;
/// Duration of untimed work before the timed runs.
const WARM_UP: Duration = Duration::from_millis(50);

type Multiply = fn(&Product, &mut [f32]);

const LIBRARIES: [(&str, Multiply); 5] = [
    ("`gemm` 0.19", chosen),
    ("`gemm` 0.18, AVX2", gemm_avx2),
    ("`faer` 0.24", faer),
    ("`matrixmultiply` 0.3", matrixmultiply),
    ("`ndarray` 0.17 (`dot`)", ndarray_dot),
];

fn main() -> anyhow::Result<()> {
    let images = mnist::load(None)?;
    println!("images: {}", images.origin);
    let mut lines = LIBRARIES.map(|(name, _)| format!("| {name} |"));
    print!("| GFLOP/s |");
    for case in CASES {
        print!(" {} |", case.size());
        let product = case.product(&images.pixels)?;
        for (line, rate) in lines.iter_mut().zip(rates(&product)?) {
            *line += &format!(" {rate:.0} |");
        }
    }
    println!("\n{}", lines.join("\n"));
    Ok(())
}

fn rates(product: &Product) -> anyhow::Result<Vec<f64>> {
    let [rows, _, cols] = product.shape;
    let whole = Portion::whole(rows);
    let mut c = vec![0.0; rows * cols];
    let mut samples = vec![Vec::new(); LIBRARIES.len()];
    for _ in 0..N_ROUNDS {
        for ((_, multiply), samples) in LIBRARIES.iter().zip(&mut samples) {
            sleep(SETTLE);
            let start = Instant::now();
            while start.elapsed() < WARM_UP {
                multiply(product, &mut c);
            }
            c.fill(f32::MAX);
            samples.extend((0..N_RUNS).map(|_| wall(|| multiply(product, &mut c))));
            product.check(&c, whole)?;
        }
    }
    let rate = |samples: Vec<f64>| {
        let timing = Timing::from_samples(&samples)
            .expect("there is at least one round, and times are finite");
        product.operations(whole) / timing.median * 1e-9
    };
    Ok(samples.into_iter().map(rate).collect())
}

fn views(product: &Product) -> [tensor_core::ndarray::ArrayView2<'_, f32>; 2] {
    let [rows, inner, cols] = product.shape;
    [((rows, inner), &product.a), ((inner, cols), &product.b)].map(|(shape, data)| {
        tensor_core::ndarray::ArrayView2::from_shape(shape, data)
            .expect("the product's data has its shape")
    })
}

fn result<'a>(product: &Product, c: &'a mut [f32]) -> tensor_core::ndarray::ArrayViewMut2<'a, f32> {
    let [rows, _, cols] = product.shape;
    tensor_core::ndarray::ArrayViewMut2::from_shape((rows, cols), c)
        .expect("the caller allocated a result of this shape")
}

fn chosen(product: &Product, c: &mut [f32]) {
    let [a, b] = views(product);
    tensor_core::gemm::matmul_into(a, b, result(product, c)).expect("the shapes match");
}

fn ndarray_dot(product: &Product, c: &mut [f32]) {
    let [a, b] = views(product);
    tensor_core::ndarray::linalg::general_mat_mul(1.0, &a, &b, 0.0, &mut result(product, c));
}

fn faer(product: &Product, c: &mut [f32]) {
    let [rows, inner, cols] = product.shape;
    faer::linalg::matmul::matmul(
        faer::MatMut::from_row_major_slice_mut(c, rows, cols),
        faer::Accum::Replace,
        faer::MatRef::from_row_major_slice(&product.a, rows, inner),
        faer::MatRef::from_row_major_slice(&product.b, inner, cols),
        1.0,
        faer::Par::rayon(0),
    );
}

/// Returns the row stride of A, and that of B and C, in elements. B and C have the same number of
/// columns.
fn strides(product: &Product) -> [isize; 2] {
    let [_, inner, cols] = product.shape;
    [inner, cols]
        .map(|side| isize::try_from(side).expect("the side of a matrix in memory fits an isize"))
}

fn gemm_avx2(product: &Product, c: &mut [f32]) {
    let [rows, inner, cols] = product.shape;
    let [a_row, b_row] = strides(product);
    let (a, b, c) = (product.a.as_ptr(), product.b.as_ptr(), c.as_mut_ptr());
    let threads = gemm_avx2::Parallelism::Rayon(0);
    // SAFETY: the slices hold rows x inner, inner x cols and rows x cols floats, row-major, and `c`
    // is not aliased.
    unsafe {
        gemm_avx2::gemm(
            rows, cols, inner, c, 1, b_row, false, a, 1, a_row, b, 1, b_row, 0.0, 1.0, false,
            false, false, threads,
        );
    }
}

fn matrixmultiply(product: &Product, c: &mut [f32]) {
    let [rows, inner, cols] = product.shape;
    let [a_row, b_row] = strides(product);
    let (a, b, c) = (product.a.as_ptr(), product.b.as_ptr(), c.as_mut_ptr());
    // SAFETY: as for `gemm_avx2`.
    unsafe {
        matrixmultiply::sgemm(
            rows, inner, cols, 1.0, a, a_row, 1, b, b_row, 1, 0.0, c, b_row, 1,
        )
    }
}
