//! Loops up to the number of iterations after which a driver ends all loops of an invocation.

use gpu_wgsl::Error;
use gpu_wgsl::check::every_adapter;
use shaders::params::MatmulParams;
use shaders::{Params, layout};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;
use tensor_core::{Axes, Host, Tensor};

/// A kernel that counts the iterations of nested loops. Mesa clears the workgroup memory in a loop.
const SOURCE: &str = "struct LoopParams { outer: u32, inner: u32 }
    @group(0) @binding(0) var<uniform> params: LoopParams;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    var<workgroup> wg_zeros: array<u32, 4096>;
    @compute @workgroup_size(1) fn loops() {
        var n = 0u;
        for (var i = 0u; i < params.outer; i += 1u) {
            for (var k = 0u; k < params.inner; k += 1u) { n += 1u + wg_zeros[k % 4096u]; }
        }
        y[0] = n;
    }";

/// Parameters of the kernel `loops`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct LoopParams {
    outer: u32,
    inner: u32,
}

impl Params for LoopParams {
    const NAME: &'static str = "LoopParams";
    const FIELDS: &'static [shaders::Field] = &[
        shaders::Field {
            name: "outer",
            offset_bytes: 0,
        },
        shaders::Field {
            name: "inner",
            offset_bytes: 4,
        },
    ];

    fn domain(&self) -> [u64; 3] {
        [1, 1, 1]
    }

    fn buffer_lens(&self) -> Vec<u64> {
        vec![1]
    }

    fn loop_iterations(&self) -> u64 {
        u64::from(self.outer) * (u64::from(self.inner) + 2) + 1
    }
}

#[test]
fn loops_that_a_driver_would_end_are_rejected_and_others_are_whole() {
    let kernel = shaders::reflect("loops", SOURCE).unwrap();
    for gpu in every_adapter() {
        let limit = gpu.adapter().max_loop_iterations;
        let most = u32::try_from(limit.unwrap_or(70_000)).unwrap();
        for [outer, inner] in [
            [1, most - 3],
            [1, most - 2],
            [most / 3, 1],
            [most / 3 - 1, 1],
            [most / 258, 256],
            [300, 1000],
            [40_000, 2],
            [70_000, 1],
        ] {
            let params = LoopParams { outer, inner };
            let y = gpu.upload("y", &[1], &[7_u32]).unwrap();
            let is_whole = limit.is_none_or(|limit| params.loop_iterations() <= limit);
            match gpu.dispatch(&kernel, &params, &[&y]) {
                Ok(()) => {
                    assert!(is_whole, "{params:?}");
                    assert_eq!(gpu.read(&y).unwrap(), [outer * inner], "{params:?}");
                }
                Err(error) => {
                    assert!(!is_whole, "{params:?}: {error}");
                    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
                }
            }
        }
    }
}

#[test]
fn sums_longer_than_a_drivers_loops_are_rejected_and_others_are_whole() {
    for gpu in every_adapter() {
        for kernel in [&layout::MATMUL_NAIVE, &layout::MATMUL_TILE] {
            for inner in [56_000, 65_534, 65_535, 65_536, 70_000] {
                let a = gpu.upload("a", &[1, inner], &vec![1.0_f32; inner]).unwrap();
                let b = gpu.upload("b", &[inner, 1], &vec![1.0_f32; inner]).unwrap();
                let limit = gpu.adapter().max_loop_iterations;
                let c = gpu.alloc::<f32>("c", &[1, 1]).unwrap();
                let params = MatmulParams::new(1, u32::try_from(inner).unwrap(), 1);
                match gpu.dispatch(kernel, &params, &[&a, &b, &c]) {
                    Ok(()) => {
                        assert!(limit.is_none_or(|limit| (inner as u64) < limit));
                        assert_close(gpu.read(&c).unwrap(), [inner as f64], Tolerance::exact());
                    }
                    Err(error) => {
                        assert!(inner > 56_000 && limit.is_some(), "{error}");
                        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
                    }
                }
            }
        }
    }
}

#[test]
fn nested_reductions_beyond_a_drivers_loops_are_whole() {
    for gpu in every_adapter() {
        for shape in [[400, 300, 3], [40_000, 2, 2], [2, 70_000, 1]] {
            let len = shape.iter().product();
            let x = Tensor::arange(len).reshape(&shape) % 7 - 3;
            let program = x.sum(Axes::from([0, 1]));
            let expected = program.eval::<i32>(&Host::new()).unwrap();
            assert_eq!(program.eval::<i32>(gpu).unwrap(), expected, "{shape:?}");
        }
    }
}

/// Returns `len` random numbers of either sign, of magnitude below 6.
fn normal(len: usize, stream: u64) -> Tensor {
    let mut data = vec![0.0; len];
    Philox::new(3).fill_normal_f32(stream, &mut data);
    Tensor::from_vec(&[len], data)
}

#[test]
fn remainders_have_loops_that_count_too() {
    // The exponents differ by about 230, so a remainder takes 29 iterations. Each invocation has
    // hundreds of terms.
    let len = 200_000;
    let x = normal(len, 1).abs() * 2_f64.powi(118) + 2_f64.powi(110);
    let divisors = [2, 3, 4].map(|stream| normal(len, stream));
    let rems = divisors.map(|divisor| x.rem(divisor.abs() * 2_f64.powi(-110) + 2_f64.powi(-116)));
    let [first, second, third] = rems;
    let program = (first.maximum(second).maximum(third) * 2_f64.powi(110)).max(..);
    let expected = program.eval::<f32>(&Host::new()).unwrap();
    for gpu in every_adapter() {
        assert_eq!(program.eval::<f32>(gpu).unwrap(), expected);
    }
}
