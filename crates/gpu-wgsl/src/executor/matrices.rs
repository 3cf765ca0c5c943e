//! Devices whose products of `f16` use cooperative matrices.
//!
//! Role: opens such a device and checks its products before a caller can use it.

use tensor_core::compare::{Tolerance, compare};
use tensor_core::plan::{Plan, Step};
use tensor_core::{DType, Executor, Reference, Tensor};

use crate::nest;
use crate::{Error, Feature, Gpu, Result, Select};

impl Gpu {
    /// Opens a device that multiplies matrices of `f16` by cooperative matrices (tensor cores).
    ///
    /// Cooperative matrices compute a sum of products if both factors are `f16` values cast to
    /// `f32`, if the nest has no other reduction, and if the output has more than 16 rows and
    /// columns, more than 32 of one of them, and on a GPU at least 4096 elements. The nest may have
    /// any epilogue. All other programs run as on a device of [`Gpu::open`], except that values
    /// which a program converts from `f16` are stored as `f16` between steps. Products of two `f16`
    /// are exact in `f32`. Their sums are `f32`; the order of the additions, and how the hardware
    /// rounds between them, is not specified. The hardware may treat subnormal `f16` as zero.
    ///
    /// Cooperative matrices are an experimental feature of wgpu, whose implementation may contain
    /// errors. The function therefore compares products with exact results before it returns the
    /// device. Costs: the time to compile and run four kernels.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the adapter has no such matrices ([`Adapter::matrix_side`]), or
    /// too little workgroup memory for their blocks; [`Error::WrongProducts`] if a compared product
    /// is wrong; otherwise as [`Gpu::open`], and errors of the device.
    ///
    /// [`Adapter::matrix_side`]: crate::Adapter::matrix_side
    ///
    /// # Examples
    /// ```
    /// use gpu_wgsl::{Error, Gpu, Select};
    /// use tensor_core::{DType, Tensor};
    ///
    /// let gpu = match Gpu::open_with_matrices(Select::Best) {
    ///     Err(Error::Unsupported { .. }) => Gpu::open(Select::Best)?,
    ///     # Err(Error::NoAdapter { .. }) => return Ok(()),
    ///     opened => opened?,
    /// };
    /// let half = |x: Tensor| x.cast(DType::F16).cast(DType::F32);
    /// let [a, b] = [Tensor::full(&[64, 64], 0.5_f32), Tensor::full(&[64, 64], 2.0_f32)];
    /// let product = half(a).matmul(&half(b)).eval::<f32>(&gpu)?;
    /// assert_eq!(product[[0, 0]], 64.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_with_matrices(select: Select) -> Result<Self> {
        let gpu = Self::open_unchecked_matrices(select)?;
        gpu.check_matrices()?;
        Ok(gpu)
    }

    /// Compares products by cooperative matrices with exact products.
    fn check_matrices(&self) -> Result<()> {
        // The sides of the first product are multiples of every block, those of the second are not.
        // The others are high and wide.
        for sizes @ [rows, inner, cols] in
            [[128, 64, 128], [77, 43, 90], [260, 40, 20], [20, 40, 260]]
        {
            let product = integer_product([integers([rows, inner], 5), integers([inner, cols], 7)]);
            let product = product.map_err(unpacked)?;
            self.check_product(sizes, &product, &product)?;
        }
        Ok(())
    }

    /// Compares a product with the exact result of a program.
    fn check_product(&self, sizes: [usize; 3], product: &Tensor, exact: &Tensor) -> Result<()> {
        let (plan, _) = Plan::new(&[product], &self.target()).map_err(unpacked)?;
        let has_matrices = |step: &Step| {
            let schedule = nest::schedule(&step.nest, self.limits());
            schedule.has_matrices()
        };
        if !plan.steps.iter().all(has_matrices) {
            return Err(Error::Unsupported {
                operation: format!("open: product of {sizes:?}"),
                feature: Feature::CooperativeMatrix,
                adapter: self.adapter().name.clone(),
            });
        }
        let actual = product.eval::<f32>(self).map_err(unpacked)?;
        let exact = exact.eval::<f32>(&Reference).map_err(unpacked)?;
        compare(actual, exact, &Tolerance::bits())
            .map(drop)
            .map_err(|mismatch| {
                let [rows, inner, cols] = sizes;
                Error::WrongProducts {
                    adapter: self.adapter().name.clone(),
                    why: format!("[{rows}, {inner}] x [{inner}, {cols}]: {mismatch}"),
                }
            })
    }
}

/// Returns the device's own error in an error of a program.
fn unpacked(error: tensor_core::Error) -> Error {
    if let tensor_core::Error::Device { source, .. } = error.root()
        && let Some(own) = source.downcast_ref::<Error>()
    {
        return own.clone();
    }
    Error::Device {
        operation: "open",
        message: error.to_string(),
    }
}

/// Returns the product of matrices of `f16`, whose elements are computed on the host.
fn integer_product(factors: [Tensor; 2]) -> tensor_core::Result<Tensor> {
    let [a, b] = factors.map(|factor| factor.realize(&Reference));
    Ok(a?.cast(DType::F32).matmul(&b?.cast(DType::F32)))
}

/// Returns integers from -8 to 8 in `f16`. All sums of their products are exact in `f32`, whatever
/// the order of the additions.
fn integers(shape: [usize; 2], step: i32) -> Tensor {
    let numbers = Tensor::arange(shape[0] * shape[1]) * step % 17 - 8;
    numbers.reshape(&shape).cast(DType::F16)
}

#[cfg(test)]
mod tests {
    use tensor_core::Axes;
    use tensor_core::rng::Philox;

    use super::super::proof;
    use super::*;
    use crate::check::{compare_steps, every_adapter, skip};
    use crate::nest::Emitted;
    use crate::tuning::{Product, Tuner};
    use crate::{ShapeClass, Tile};

    /// Returns the devices with cooperative matrices.
    fn devices() -> Vec<Gpu> {
        let adapters = every_adapter().iter();
        let opened = adapters.filter_map(|gpu| {
            let select = Select::Index(gpu.adapter().index);
            match Gpu::open_with_matrices(select) {
                Ok(gpu) => Some(gpu),
                Err(error @ Error::Unsupported { .. }) => {
                    assert_eq!(gpu.adapter().matrix_side, None);
                    skip(&error.to_string());
                    None
                }
                Err(error) => panic!("{error}"),
            }
        });
        opened.collect()
    }

    fn halves(shape: &[usize], stream: u64) -> Tensor {
        let normal = Tensor::randn(Philox::new(61).stream(stream), shape);
        normal.cast(DType::F16).cast(DType::F32)
    }

    /// Returns the number of steps of a program whose kernels multiply by cooperative matrices.
    fn n_multiplying(gpu: &Gpu, program: &Tensor) -> usize {
        let (plan, _) = Plan::new(&[program], &gpu.target()).unwrap();
        let multiplies = |step: &&Step| {
            let schedule = nest::schedule(&step.nest, gpu.limits());
            schedule.has_matrices()
        };
        plan.steps.iter().filter(multiplies).count()
    }

    #[test]
    fn products_of_halves_match_the_oracle() {
        for gpu in devices() {
            gpu.poison_allocations(true);
            let [a, b] = [halves(&[150, 100], 0), halves(&[100, 70], 1)];
            let batch = halves(&[3, 40, 33], 2);
            let bias = halves(&[70], 3);
            let windows = halves(&[4, 6, 12, 12], 4);
            let windows = windows.window(2, 3, 1).window(3, 3, 1);
            let kernels = halves(&[24, 6, 1, 1, 3, 3], 5);
            let two_layers = (a.matmul(&b) + &bias).relu().cast(DType::F16);
            for (name, expected, program) in [
                ("product", 1, a.matmul(&b)),
                ("one stage", 1, a.slice(1, 0..16).matmul(&b.slice(0, 0..16))),
                ("two terms", 1, a.slice(1, 0..2).matmul(&b.slice(0, 0..2))),
                ("of transposed factors", 1, b.t().matmul(&a.t())),
                ("with an epilogue", 1, (a.matmul(&b) * 0.5 + &bias).relu()),
                ("to halves", 1, a.matmul(&b).cast(DType::F16)),
                ("to flags", 1, a.matmul(&b).gt(0.0)),
                ("batch", 1, batch.matmul(&batch.permute(&[0, 2, 1]))),
                (
                    "convolution",
                    1,
                    (windows.expand_dims(1) * kernels).sum(Axes::from([2, 5, 6])),
                ),
                (
                    "two layers",
                    2,
                    two_layers.cast(DType::F32).matmul(&b.t().slice(1, 0..50)),
                ),
                ("few rows", 0, a.slice(0, 0..9).matmul(&b)),
                ("not of halves", 0, a.exp().matmul(&b)),
                ("two sums", 0, a.matmul(&b) + a.abs().matmul(&b)),
            ] {
                assert_eq!(n_multiplying(&gpu, &program), expected, "{name}");
                if let Err(error) = compare_steps(&gpu, &[&program]) {
                    panic!("{name}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_fault_in_a_text_with_matrices_is_found() {
        for gpu in devices() {
            let factors = [integers([77, 43], 5), integers([43, 90], 7)];
            let program = integer_product(factors).unwrap();
            let step = proof::step(&gpu, &program);
            let schedule = nest::schedule(&step.0.nest, gpu.limits());
            let emitted = nest::emit(&nest::split(&step.0.nest).0, &schedule, None);
            assert_eq!(proof::compare(&gpu, &step, &schedule, &emitted), Ok(()));
            for (from, to) in [
                ("coopLoadT<", "coopLoad<"),
                ("coopStoreT(", "coopStore("),
                ("coopMultiplyAdd(a_0, b_0, c_0_0)", "c_0_0"),
                ("select(0.0h, ", "select(1.0h, "),
                ("+ team_col + ", "+ "),
            ] {
                let source = emitted.source.replace(from, to);
                assert_ne!(source, emitted.source, "{from}");
                let broken = Emitted {
                    source,
                    ..emitted.clone()
                };
                let found = proof::compare(&gpu, &step, &schedule, &broken);
                assert!(found.is_err(), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn a_wrong_product_and_a_product_without_matrices_have_errors_of_their_own() {
        for gpu in devices() {
            let product = |step| {
                let factors = [integers([77, 43], step), integers([43, 90], 7)];
                integer_product(factors).unwrap()
            };
            let check = |a: &Tensor, b: &Tensor| gpu.check_product([77, 43, 90], a, b);
            assert_eq!(check(&product(5), &product(5)), Ok(()));
            let wrong = check(&product(5), &product(3)).unwrap_err();
            assert!(matches!(wrong, Error::WrongProducts { .. }), "{wrong}");
            let plain = Tensor::arange(5000).reshape(&[50, 100]).cast(DType::F32);
            let plain = plain.matmul(&plain.t());
            let without = check(&plain, &plain).unwrap_err();
            assert!(matches!(without, Error::Unsupported { .. }), "{without}");
            gpu.destroy();
            let lost = check(&product(5), &product(5)).unwrap_err();
            assert!(matches!(lost, Error::Lost { .. }), "{lost}");
        }
    }

    #[test]
    fn a_device_with_matrices_is_opened_again_with_matrices() {
        for gpu in devices() {
            let again = gpu.reopen().unwrap();
            let factors = [integers([77, 43], 5), integers([43, 90], 7)];
            let product = integer_product(factors).unwrap();
            assert_eq!(n_multiplying(&again, &product), 1);
        }
    }

    #[test]
    fn sizes_of_blocks_change_no_bit_of_a_product() {
        for gpu in devices() {
            let class = ShapeClass::Matrices;
            let product = Product {
                batch: 1,
                rows: 70,
                inner: 33,
                cols: 150,
            };
            let mut tuner = Tuner::new(&gpu, class, product).unwrap();
            for [rows, cols, inner] in [[64, 64, 32], [32, 64, 16]] {
                let tile = Tile {
                    block_rows: rows,
                    block_cols: cols,
                    block_inner: inner,
                    thread_rows: 8,
                    thread_cols: 4,
                };
                tuner.time(tile, 1).unwrap();
            }
        }
    }
}
