//! The variants of `matmul` on the CPU, from three loops to the best library.
//!
//! Each function computes the leading rows of `c = a · b` into `c`; `c` determines the number of
//! rows.

use super::Product;
use anyhow::Result;
use harness::workload::{Portion, Variant};
use shaders::params::MatmulParams;
use shaders::{layout, twin};
use std::hint::black_box;
use tensor_core::ndarray::{ArrayView1, ArrayView2, ArrayViewMut2, Axis};
use tensor_core::{Reference, Tensor, einsum, gemm};

/// Maximum number of operations of a plain variant, about one second of work. The complete product
/// of the images has fewer operations.
const PLAIN_OPERATIONS: f64 = 0.8e9;
/// Maximum number of operations of a variant that walks down the columns of B, if B is larger than
/// a core's caches.
const STRIDING_OPERATIONS: f64 = 0.2e9;
/// Largest number of elements of a B that fits into a core's cache: 1 MiB.
const NEAR_LEN: usize = 1 << 18;
/// Number of operations of the part that the reference executor computes. It is small, because this
/// executor interprets the program for every value.
const REFERENCE_OPERATIONS: f64 = 3e6;
/// Maximum number of operations of a variant that walks along the rows of B.
const STREAMING_OPERATIONS: f64 = 20e9;

type Compute = fn(ArrayView2<'_, f32>, ArrayView2<'_, f32>, ArrayViewMut2<'_, f32>) -> Result<()>;

/// Multiplies with three loops, one element at a time: the first version of the notebook.
///
/// # Errors
/// None; the signature is that of every variant.
pub fn three_loops(
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    mut c: ArrayViewMut2<'_, f32>,
) -> Result<()> {
    for i in 0..c.nrows() {
        for j in 0..c.ncols() {
            c[[i, j]] = 0.0;
            for k in 0..a.ncols() {
                c[[i, j]] += a[[i, k]] * b[[k, j]];
            }
        }
    }
    Ok(())
}

/// Multiplies with two loops and a dot product: `c[i, j] = a[i, :] · b[:, j]`.
///
/// # Errors
/// None; the signature is that of every variant.
pub fn dot_products(
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    mut c: ArrayViewMut2<'_, f32>,
) -> Result<()> {
    let dot =
        |x: ArrayView1<'_, f32>, y: ArrayView1<'_, f32>| x.iter().zip(y).map(|(x, y)| x * y).sum();
    for i in 0..c.nrows() {
        for j in 0..c.ncols() {
            c[[i, j]] = dot(a.row(i), b.column(j));
        }
    }
    Ok(())
}

/// Multiplies by row broadcast: `c[i] = Σₖ a[i, k] · b[k, :]`, with a whole row of `b` at a time.
///
/// # Errors
/// None; the signature is that of every variant.
pub fn row_broadcast(
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    mut c: ArrayViewMut2<'_, f32>,
) -> Result<()> {
    for (mut row, weights) in c.rows_mut().into_iter().zip(a.rows()) {
        row.fill(0.0);
        for (&weight, terms) in weights.iter().zip(b.rows()) {
            row.scaled_add(weight, &terms);
        }
    }
    Ok(())
}

/// Multiplies by Einstein summation, `ik,kj->ij`, over strided views.
///
/// # Errors
/// The shapes do not match.
pub fn einstein(
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    mut c: ArrayViewMut2<'_, f32>,
) -> Result<()> {
    c.assign(&einsum::oracle("ik,kj->ij", &[&a, &b])?);
    Ok(())
}

/// Multiplies with the naive GPU kernel, simulated on the CPU: the kernel's twin is called for
/// every invocation of the grid.
///
/// # Errors
/// A size is 2³² or more.
pub fn simulator(
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    mut c: ArrayViewMut2<'_, f32>,
) -> Result<()> {
    let [rows, inner, cols] = [a.nrows(), a.ncols(), b.ncols()].map(u32::try_from);
    let params = MatmulParams::new(rows?, inner?, cols?);
    let (a, b) = (a.as_slice().unwrap_or(&[]), b.as_slice().unwrap_or(&[]));
    twin::matmul_naive(
        &layout::MATMUL_NAIVE,
        &params,
        a,
        b,
        c.as_slice_mut().unwrap_or(&mut []),
    );
    Ok(())
}

/// Multiplies with the GEMM library behind [`gemm::matmul_into`], on all threads, into existing
/// memory.
///
/// # Errors
/// The shapes do not match.
pub fn library(
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    c: ArrayViewMut2<'_, f32>,
) -> Result<()> {
    Ok(gemm::matmul_into(a, b, c)?)
}

/// Returns the variants of the CPU in order.
pub fn variants(product: &Product) -> Vec<Variant<'_>> {
    let striding = if product.b.len() > NEAR_LEN {
        STRIDING_OPERATIONS
    } else {
        PLAIN_OPERATIONS
    };
    let plain: [(&'static str, Compute, f64); 6] = [
        ("three-loops", three_loops, striding),
        ("dot-products", dot_products, striding),
        ("row-broadcast", row_broadcast, STREAMING_OPERATIONS),
        ("einsum", einstein, STREAMING_OPERATIONS),
        ("simulator", simulator, striding),
        ("gemm", library, f64::INFINITY),
    ];
    let variant = |(executor, compute, operations)| {
        let part = product.part(operations);
        let len = part.rows * product.shape[2];
        Variant::on_cpu(executor, product.extent(part), len, move |c| {
            multiply(product, part, compute, c)
        })
    };
    let mut variants: Vec<Variant<'_>> = plain.map(variant).into();
    variants.extend(tensors(product));
    variants
}

/// Returns the variants that compute the product as a lazy tensor: one on the reference executor,
/// one on the host executor.
fn tensors(product: &Product) -> [Variant<'_>; 2] {
    let [rows, inner, cols] = product.shape;
    let a = Tensor::from_vec(&[rows, inner], product.a.clone());
    let b = Tensor::from_vec(&[inner, cols], product.b.clone());
    let part = product.part(REFERENCE_OPERATIONS);
    let (few, weights) = (a.slice(0, ..part.rows.cast_signed()), b.clone());
    let (part, whole) = (product.extent(part), product.extent(product.whole()));
    [
        Variant::evaluated::<f32>("reference", Reference, part, move || few.matmul(&weights)),
        Variant::compiled::<f32>("host", whole, vec![a, b], |args| args[0].matmul(&args[1])),
    ]
}

/// Computes the rows of `part` into `c`.
fn multiply(product: &Product, part: Portion, compute: Compute, c: &mut [f32]) -> Result<()> {
    let [rows, inner, cols] = product.shape;
    let a = ArrayView2::from_shape((rows, inner), &product.a[..])?;
    let (a, _) = a.split_at(Axis(0), part.rows);
    let b = ArrayView2::from_shape((inner, cols), &product.b[..])?;
    let c = ArrayViewMut2::from_shape((part.rows, cols), c)?;
    compute(black_box(a), black_box(b), c)
}
