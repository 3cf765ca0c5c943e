//! Which library multiplies matrices fastest on this CPU: the measurement behind `tensor_core::gemm`.
//!
//! Role: run by hand, `cargo run --release --manifest-path benches/gemm-libraries/Cargo.toml`; prints the table that
//! ARCHITECTURE.md cites; with `--no-default-features`, `gemm` without its AVX-512 kernels. `matrixmultiply` takes its threads from `MATMUL_NUM_THREADS`.
//! Method: f32, row-major; libraries take turns, the median of 25 runs each counts.

use std::time::Instant;

const SIZES: [[usize; 3]; 5] = [
    [512; 3],
    [1024; 3],
    [2048; 3],
    [50_000, 784, 10],
    [5, 784, 10],
];
const N_RUNS: usize = 25;

struct Product {
    shape: [usize; 3],
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

type Multiply = fn(&mut Product);

fn main() {
    let libraries: [(&str, Multiply); 4] = [
        ("`gemm` 0.19, all threads", gemm_threads),
        ("`gemm` 0.19, 1 thread", gemm_alone),
        (
            "`faer` 0.24 (`private-gemm-x86`), all threads",
            faer_threads,
        ),
        ("`matrixmultiply` 0.3.11", matrixmultiply),
    ];
    println!(
        "GFLOP/s | {}",
        SIZES.map(|[m, k, n]| format!("{m}x{k}x{n}")).join(" | ")
    );
    let mut table = libraries.map(|(name, _)| name.to_owned());
    for shape in SIZES {
        for (line, rate) in table
            .iter_mut()
            .zip(rates(shape, libraries.map(|(_, multiply)| multiply)))
        {
            *line += &format!(" | {rate:.0}");
        }
    }
    println!("{}", table.join("\n"));
}

fn rates(shape: [usize; 3], libraries: [Multiply; 4]) -> [f64; 4] {
    let [m, k, n] = shape;
    let fill = |len: usize| {
        (0..len)
            .map(|i| (i * 7919 % 1013) as f32 / 1013.0 - 0.5)
            .collect()
    };
    let mut product = Product {
        shape,
        a: fill(m * k),
        b: fill(k * n),
        c: vec![0.0; m * n],
    };
    let mut seconds = libraries.map(|_| Vec::new());
    let mut first: Option<Vec<f32>> = None;
    for _ in 0..N_RUNS {
        for (multiply, seconds) in libraries.iter().zip(&mut seconds) {
            // The first call wakes the library's threads.
            product.c.fill(f32::NAN);
            multiply(&mut product);
            let first = first.get_or_insert_with(|| product.c.clone());
            let close = |(x, y): (&f32, &f32)| (x - y).abs() <= 1e-3 * (k as f32).sqrt();
            assert!(
                first.iter().zip(&product.c).all(close),
                "two libraries differ"
            );
            let start = Instant::now();
            multiply(&mut product);
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        2e-9 * (m * k * n) as f64 / seconds[N_RUNS / 2]
    })
}

fn gemm_threads(product: &mut Product) {
    gemm_with(product, gemm::Parallelism::Rayon(0));
}

fn gemm_alone(product: &mut Product) {
    gemm_with(product, gemm::Parallelism::None);
}

fn gemm_with(
    Product {
        shape: [m, k, n],
        a,
        b,
        c,
    }: &mut Product,
    parallelism: gemm::Parallelism,
) {
    let (a_row, b_row) = (*k as isize, *n as isize);
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: the vectors hold m x k, k x n and m x n floats and the strides are those of row-major matrices.
    unsafe {
        gemm::gemm(
            *m,
            *n,
            *k,
            c,
            1,
            b_row,
            false,
            a,
            1,
            a_row,
            b,
            1,
            b_row,
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

fn faer_threads(
    Product {
        shape: [m, k, n],
        a,
        b,
        c,
    }: &mut Product,
) {
    faer::linalg::matmul::matmul(
        faer::MatMut::from_row_major_slice_mut(c, *m, *n),
        faer::Accum::Replace,
        faer::MatRef::from_row_major_slice(a, *m, *k),
        faer::MatRef::from_row_major_slice(b, *k, *n),
        1.0,
        faer::Par::rayon(0),
    );
}

fn matrixmultiply(
    Product {
        shape: [m, k, n],
        a,
        b,
        c,
    }: &mut Product,
) {
    let (a_row, b_row) = (*k as isize, *n as isize);
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: as above.
    unsafe { matrixmultiply::sgemm(*m, *k, *n, 1.0, a, a_row, 1, b, b_row, 1, 0.0, c, b_row, 1) }
}
