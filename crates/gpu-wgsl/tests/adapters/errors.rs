//! Tests of device errors, each provoked on a real adapter.

use gpu_wgsl::check::{KernelCase, check_on, every_adapter};
use gpu_wgsl::{Error, Feature, Gpu, Select};
use shaders::params::{BufferCopyParams, MatmulParams, PhiloxFillParams};
use shaders::{Field, Kernel, Params, layout};
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tensor_core::compare::Tolerance;
use tensor_core::exec::{Executor, Storage};
use tensor_core::plan::{Plan, Step, Target};
use tensor_core::random_programs::check_program;
use tensor_core::{DType, HostData, Tensor};

#[test]
fn a_name_that_no_adapter_bears_is_no_adapter() {
    let error = Gpu::open(Select::Name("no such adapter".to_owned())).unwrap_err();
    assert!(
        matches!(&error, Error::NoAdapter { wanted, .. } if wanted.contains("no such adapter")),
        "{error}"
    );
    assert!(matches!(
        Gpu::open(Select::Index(999)),
        Err(Error::NoAdapter { .. })
    ));
}

#[test]
fn an_error_without_any_adapter_suggests_a_driver() {
    let message = |found: &[&str]| {
        let wanted = "any type".to_owned();
        let found = found.iter().copied().map(str::to_owned).collect();
        Error::NoAdapter { wanted, found }.to_string()
    };
    assert_eq!(
        message(&[]),
        "open: no adapter found (install a Vulkan driver, such as Mesa's llvmpipe)"
    );
    assert!(message(&["a", "b"]).ends_with("(found: a, b)"));
}

/// Parameters whose fields are in another order than in WGSL.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Swapped {
    factor: u32,
    n: u32,
}

impl Params for Swapped {
    const NAME: &'static str = "Swapped";
    const FIELDS: &'static [Field] = &[
        Field {
            name: "factor",
            offset_bytes: 0,
        },
        Field {
            name: "n",
            offset_bytes: 4,
        },
    ];

    fn domain(&self) -> [u64; 3] {
        [self.n.into(), 1, 1]
    }

    fn buffer_lens(&self) -> Vec<u64> {
        vec![self.n.into()]
    }

    fn loop_iterations(&self) -> u64 {
        0
    }
}

#[test]
fn parameters_with_fields_in_another_order_are_rejected() {
    let source = "struct Swapped { n: u32, factor: u32 }
        @group(0) @binding(0) var<uniform> params: Swapped;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(1) fn fill() { y[0] = params.n * params.factor; }";
    let kernel = shaders::reflect("fill", source).unwrap();
    for gpu in every_adapter() {
        let y = gpu.alloc::<u32>("y", &[1]).unwrap();
        let error = gpu.dispatch(&kernel, &Swapped { factor: 3, n: 1 }, &[&y]);
        let error = error.unwrap_err();
        assert!(
            matches!(&error, Error::Interface { why, .. } if why.contains("fields")),
            "{error}"
        );
    }
}

#[test]
fn a_kernel_case_that_compares_nothing_panics() {
    let case = |shapes: Vec<BufferCopyParams>, kernel| KernelCase {
        kernel,
        needs: &[],
        shapes,
        inputs: |_, _| vec![],
        twin: |_, _, _, _| {},
        tolerance: |_, _| Tolerance::exact(),
        fails_on: &[],
    };
    let mut without_output = layout::BUFFER_COPY.clone();
    without_output.bindings.to_mut().truncate(1);
    for gpu in every_adapter() {
        for case in [
            case(vec![], &layout::BUFFER_COPY),
            case(vec![BufferCopyParams::new(1)], &without_output),
        ] {
            assert!(catch_unwind(AssertUnwindSafe(|| check_on(gpu, &case))).is_err());
        }
    }
}

#[test]
fn a_destroyed_device_is_lost_and_a_new_one_works() {
    for shared in every_adapter() {
        let index = shared.adapter().index;
        let gpu = Gpu::open(Select::Index(index)).unwrap();
        let words = gpu.upload("words", &[3], &[1_u32, 2, 3]).unwrap();
        gpu.dispatch(
            &layout::PHILOX_FILL,
            &PhiloxFillParams::new(1, 2, 3),
            &[&words],
        )
        .unwrap();
        gpu.destroy();
        let lost = [
            gpu.read(&words).map(drop),
            gpu.alloc::<f32>("x", &[1]).map(drop),
            gpu.write(&words, &[1, 2, 3]),
            gpu.dispatch(
                &layout::PHILOX_FILL,
                &PhiloxFillParams::new(1, 2, 3),
                &[&words],
            ),
            gpu.flush(),
            gpu.finish(),
            gpu.time(|| Ok(())).map(drop),
        ];
        for outcome in lost {
            assert!(
                matches!(&outcome, Err(Error::Lost { adapter, .. }) if *adapter == gpu.adapter().name),
                "{outcome:?}"
            );
        }
        let anew = Gpu::open(Select::Index(index)).unwrap();
        let words = anew.upload("words", &[3], &[7_u32, 8, 9]).unwrap();
        assert_eq!(anew.read(&words).unwrap(), [7, 8, 9]);
    }
}

#[test]
fn a_budget_is_out_of_memory_and_names_the_buffer() {
    for shared in every_adapter() {
        let gpu = Gpu::open(Select::Index(shared.adapter().index)).unwrap();
        gpu.set_budget(Some(4096));
        let held = gpu.alloc::<f32>("held", &[512]).unwrap();
        drop(gpu.alloc::<f32>("free", &[512]).unwrap());
        let reserved_bytes = gpu.pool().reserved_bytes();
        let error = gpu.alloc::<f32>("weights", &[32, 17]).unwrap_err();
        let Error::OutOfMemory {
            name,
            shape,
            bytes,
            live_bytes,
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(
            (name.as_str(), &shape[..], *bytes, *live_bytes),
            ("weights", &[32, 17][..], 2176, 2048)
        );
        // Free buffers do not count, so to free them would not help.
        assert_eq!(gpu.pool().reserved_bytes(), reserved_bytes);
        drop(held);
        gpu.alloc::<f32>("weights", &[32, 17]).unwrap();
    }
}

#[test]
fn an_error_of_memory_names_the_largest_holders() {
    for shared in every_adapter() {
        let gpu = Gpu::open(Select::Index(shared.adapter().index)).unwrap();
        let x = Tensor::arange(1000).realize(&gpu).unwrap();
        let line = line!() + 1;
        let held: Vec<Tensor> = (1..4).map(|n| (&x + n).realize(&gpu).unwrap()).collect();
        gpu.set_budget(Some(gpu.pool().live_bytes() + 100));
        let error = (&x * 2).eval::<i32>(&gpu).unwrap_err();
        let place = format!("add (crates/gpu-wgsl/tests/adapters/errors.rs:{line})");
        let largest = format!("largest holders: {place} (12000 bytes in 3), ");
        let text = device_error(&error).unwrap().to_string();
        assert!(text.contains(&largest), "{text}");
        // No data is lost: existing arrays can be read, and the program runs once the budget is
        // removed.
        assert_eq!(held[2].to_host::<i32>().unwrap()[[999]], 1002);
        gpu.set_budget(None);
        assert_eq!((&x * 2).eval::<i32>(&gpu).unwrap()[[999]], 1998);
    }
}

#[test]
fn a_buffer_beyond_the_limit_is_too_large_and_nothing_is_allocated() {
    for gpu in every_adapter() {
        // Other tests allocate from the pool of the shared device.
        let gpu = gpu.reopen().unwrap();
        let limit = gpu.adapter().limits.max_buffer_size.min(u32::MAX.into());
        let side = usize::try_from(limit / 4).unwrap() + 1;
        let before = gpu.pool().reserved_bytes();
        let error = gpu.alloc::<f32>("x", &[side]).unwrap_err();
        assert!(
            matches!(&error, Error::TooLarge { name, needed, .. } if name == "x" && *needed == 4 * side as u64)
        );
        for shape in [
            vec![usize::MAX],
            vec![usize::MAX, usize::MAX],
            vec![1 << 40, 1 << 40, 3],
            vec![usize::MAX, 2, 0],
            vec![0, usize::MAX, 2],
        ] {
            let error = gpu.alloc::<f32>("huge", &shape).unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::TooLarge {
                        needed: u64::MAX,
                        ..
                    }
                ),
                "{error}"
            );
        }
        let params = PhiloxFillParams::new(0, 0, u32::MAX);
        let small = gpu.alloc::<u32>("small", &[4]).unwrap();
        let error = gpu
            .dispatch(&layout::PHILOX_FILL, &params, &[&small])
            .unwrap_err();
        assert!(matches!(error, Error::Interface { .. }), "{error}");
        assert!(gpu.pool().reserved_bytes() <= before + 512);
    }
}

#[test]
fn a_buffer_beyond_the_binding_limit_is_too_large_for_a_kernel() {
    for gpu in every_adapter() {
        let limits = gpu.adapter().limits;
        let len = u32::try_from(limits.max_storage_buffer_binding_size / 4).unwrap() + 1;
        let words = gpu.alloc::<u32>("words", &[len as usize]);
        // SwiftShader's buffers are no longer than its bindings.
        if limits.max_buffer_size == limits.max_storage_buffer_binding_size {
            let error = words.unwrap_err();
            assert!(error.to_string().contains("maxBufferSize"), "{error}");
            continue;
        }
        let words = words.unwrap();
        let params = PhiloxFillParams::new(0, 0, len);
        let error = gpu
            .dispatch(&layout::PHILOX_FILL, &params, &[&words])
            .unwrap_err();
        let text = "dispatch: words [";
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn an_array_beyond_every_buffer_is_too_large_before_any_step_runs() {
    for shared in every_adapter() {
        let gpu = Gpu::open(Select::Index(shared.adapter().index)).unwrap();
        // More than 2^31 elements: kernels cannot index so many, and the host would need minutes.
        let bytes = gpu.adapter().limits.max_buffer_size.max(1 << 33);
        let len = usize::try_from(bytes / 4).unwrap() + 1;
        let rows = Tensor::full(&[len.isqrt() + 1, 2], 1.0_f32);
        for program in [
            Tensor::full(&[len], 1.0_f32),
            Tensor::full(&[len], 1.0_f32) * 2.0,
            Tensor::scalar(true).broadcast_to(&[64 * len]),
            // The product of the matrices is an intermediate array; the result is a number.
            rows.matmul(&rows.t()).max(..),
        ] {
            let error = program.realize(&gpu).unwrap_err();
            let tensor_core::Error::Device { source, .. } = error.root() else {
                panic!("{error}");
            };
            let source = source.downcast_ref::<Error>().unwrap();
            assert!(matches!(source, Error::TooLarge { .. }), "{source}");
            assert!(error.to_string().contains("errors.rs"), "{error}");
        }
        assert_eq!(
            gpu.fallbacks().len(),
            0,
            "a step was counted as run on the host"
        );
        assert_eq!(gpu.compiled_kernels(), 0);
    }
}

#[test]
fn a_workgroup_beyond_the_limit_is_too_large() {
    for gpu in every_adapter() {
        let limits = gpu.adapter().limits;
        let sides = [
            (limits.max_compute_workgroup_size_x, "X"),
            (limits.max_compute_workgroup_size_y, "Y"),
            (limits.max_compute_workgroup_size_z, "Z"),
        ];
        let (x, y) = (
            gpu.upload("x", &[4], &[0.0_f32; 4]).unwrap(),
            gpu.alloc::<f32>("y", &[4]).unwrap(),
        );
        for (axis, (side, letter)) in sides.into_iter().enumerate() {
            let mut kernel = layout::BUFFER_COPY;
            kernel.workgroup_size = [1; 3];
            kernel.workgroup_size[axis] = side + 1;
            let error = gpu
                .dispatch(&kernel, &BufferCopyParams::new(1), &[&x, &y])
                .unwrap_err();
            let name = if side < limits.max_compute_invocations_per_workgroup {
                format!("maxComputeWorkgroupSize{letter}")
            } else {
                "maxComputeInvocationsPerWorkgroup".to_owned()
            };
            assert!(
                matches!(&error, Error::TooLarge { limit_name, .. } if *limit_name == name),
                "{error}"
            );
        }
    }
}

#[test]
fn a_feature_that_is_not_there_is_unsupported() {
    for gpu in every_adapter() {
        for feature in Feature::ALL {
            let outcome = gpu.require("attention", &[feature]);
            if gpu.adapter().features.contains(&feature) {
                assert_eq!(outcome, Ok(()));
            } else {
                let error = outcome.unwrap_err();
                assert!(
                    matches!(&error, Error::Unsupported { operation, feature: missing, .. } if operation == "attention" && *missing == feature)
                );
            }
        }
    }
}

#[test]
fn calls_that_do_not_fit_their_kernel_are_named() {
    for gpu in every_adapter() {
        let a = gpu.upload("a", &[2, 3], &[0.0_f32; 6]).unwrap();
        let b = gpu.upload("b", &[4, 2], &[0.0_f32; 8]).unwrap();
        let c = gpu.alloc::<f32>("c", &[2, 2]).unwrap();
        let words = gpu.alloc::<u32>("words", &[8]).unwrap();
        let params = MatmulParams::new(2, 3, 2);
        let kernel = &layout::MATMUL_NAIVE;
        let calls = [
            (
                gpu.dispatch(kernel, &params, &[&a, &b]),
                "expected 3 buffers, found 2",
            ),
            (
                gpu.dispatch(kernel, &BufferCopyParams::new(1), &[&a, &b, &c]),
                "expected parameters MatmulParams (16 bytes)",
            ),
            (
                gpu.dispatch(kernel, &params, &[&a, &words, &c]),
                "binding 2 (b) has element type F32, but words has U32",
            ),
            (
                gpu.dispatch(kernel, &params, &[&a, &c, &b]),
                "binding 2 (b) needs 6 scalars, but c has shape [2, 2]",
            ),
            (
                gpu.dispatch(kernel, &MatmulParams::new(2, 2, 2), &[&a, &b, &a]),
                "binding 3 (c) shares output a with binding 1",
            ),
            (
                gpu.upload("x", &[2, 2], &[0_u32; 3]).map(drop),
                "x has shape [2, 2], but the data has 3 elements",
            ),
        ];
        for (outcome, text) in calls {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let other = Gpu::open(Select::Index(gpu.adapter().index)).unwrap();
        assert!(matches!(other.read(&a), Err(Error::ForeignBuffer { .. })));
    }
}

#[test]
fn a_description_that_is_not_the_texts_is_rejected() {
    let copy = &layout::BUFFER_COPY;
    let edited = |from: &str, to: &str| {
        assert!(copy.source.contains(from), "{from}");
        Kernel {
            source: Cow::Owned(copy.source.replace(from, to)),
            ..copy.clone()
        }
    };
    let swapped = vec![copy.bindings[1].clone(), copy.bindings[0].clone()];
    let cases = [
        (
            edited("GROUP: u32 = 256u", "GROUP: u32 = 32u"),
            "workgroups of [256, 1, 1], found [32, 1, 1]",
        ),
        (
            edited("array<vec4<f32>>", "array<vec4<u32>>"),
            "element: U32",
        ),
        (
            edited("pad2: u32,", "pad2: u32, pad3: vec4<u32>,"),
            "size_bytes: 32",
        ),
        (
            edited(
                "const GROUP",
                "var<workgroup> w: array<f32, 9>; const GROUP",
            ),
            "memory, found 36",
        ),
        (
            Kernel {
                bindings: Cow::Owned(swapped),
                ..copy.clone()
            },
            "described [Binding",
        ),
        (
            Kernel {
                workgroup_size: [0, 1, 1],
                ..copy.clone()
            },
            "workgroups of [0, 1, 1]",
        ),
    ];
    for gpu in every_adapter() {
        let x = gpu.upload("x", &[4], &[0.0_f32; 4]).unwrap();
        let y = gpu.alloc::<f32>("y", &[4]).unwrap();
        for (kernel, text) in &cases {
            let outcome = gpu.dispatch(kernel, &BufferCopyParams::new(1), &[&x, &y]);
            let error = outcome.expect_err(text);
            assert!(matches!(error, Error::Interface { .. }), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}

#[test]
fn text_that_is_no_wgsl_is_rejected_with_its_place() {
    for gpu in every_adapter() {
        let x = gpu.upload("x", &[4], &[0.0_f32; 4]).unwrap();
        let y = gpu.alloc::<f32>("y", &[4]).unwrap();
        for source in ["fn", "", "@compute @workgroup_size(1) fn other() {}"] {
            let kernel = Kernel {
                source: Cow::Borrowed(source),
                ..layout::BUFFER_COPY
            };
            let error = gpu
                .dispatch(&kernel, &BufferCopyParams::new(1), &[&x, &y])
                .unwrap_err();
            assert!(
                matches!(&error, Error::Shader { kernel, .. } if kernel == "buffer_copy"),
                "{error}"
            );
        }
        // The device still works after a failed compilation.
        gpu.dispatch(&layout::BUFFER_COPY, &BufferCopyParams::new(1), &[&x, &y])
            .unwrap();
        assert_eq!(gpu.read(&y).unwrap(), [0.0; 4]);
    }
}

/// Returns the device error that caused an error of the executor.
pub(crate) fn device_error(error: &tensor_core::Error) -> Option<&Error> {
    match error.root() {
        tensor_core::Error::Device { source, .. } => source.as_ref().downcast_ref(),
        _ => None,
    }
}

/// An executor that loses its device in the middle of a plan.
#[derive(Debug)]
struct Fragile {
    gpu: Gpu,
    steps_left: AtomicUsize,
}

impl Executor for Fragile {
    fn name(&self) -> &str {
        self.gpu.name()
    }

    fn target(&self) -> Target {
        self.gpu.target()
    }

    fn accepts(&self, step: &Step, input_lens: &[usize]) -> bool {
        self.gpu.accepts(step, input_lens)
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        self.gpu.owns(storage)
    }

    fn upload(&self, data: HostData) -> tensor_core::Result<Arc<dyn Storage>> {
        Executor::upload(&self.gpu, data)
    }

    fn run(
        &self,
        step: &Step,
        inputs: &[Arc<dyn Storage>],
    ) -> tensor_core::Result<Arc<dyn Storage>> {
        if self.steps_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.gpu.destroy();
        }
        self.gpu.run(step, inputs)
    }

    fn submit(&self) -> tensor_core::Result<()> {
        Executor::submit(&self.gpu)
    }
}

#[test]
fn a_loss_in_the_middle_of_a_plan_is_survived() {
    for shared in every_adapter() {
        let x = Tensor::arange(600).reshape(&[20, 30]).cast(DType::F32);
        let program = ((&x - x.mean(0)) * 0.01).exp().sum(1) * 2.0;
        let mut n_lost = 0;
        for steps_left in 1..4 {
            let fragile = Fragile {
                gpu: shared.reopen().unwrap(),
                steps_left: AtomicUsize::new(steps_left),
            };
            let on_device = x.realize(&fragile.gpu).unwrap();
            match program.eval::<f32>(&fragile) {
                Ok(_) => continue,
                Err(error) => {
                    let fault = device_error(&error);
                    assert!(matches!(fault, Some(Error::Lost { .. })), "{error}");
                }
            }
            n_lost += 1;
            assert!(on_device.to_host::<f32>().is_err());
            // Host data stays valid and can be used on a new device.
            let anew = fragile.gpu.reopen().unwrap();
            assert!(!anew.is_same_device(&fragile.gpu));
            let program = std::slice::from_ref(&program);
            check_program(&anew, program, &Executor::target(&anew)).unwrap();
        }
        assert!(n_lost >= 2, "{n_lost}");
    }
}

#[test]
fn a_step_that_the_device_rejects_is_an_error_if_it_is_run() {
    for gpu in every_adapter() {
        // WGSL has no exponential of f64, and many devices have no f64 at all.
        let x = Tensor::from_vec(&[2], vec![0.0_f64, 1.0]);
        let (plan, _) = Plan::new(&[&x.exp()], &gpu.target()).unwrap();
        let step = &plan.steps[0];
        assert!(!gpu.accepts(step, &[2]));
        let input = Executor::upload(gpu, HostData::F64(vec![0.0, 1.0])).unwrap();
        let error = gpu.run(step, &[input]).unwrap_err();
        let fault = device_error(&error);
        assert!(
            matches!(fault, Some(Error::Device { operation: "run", message }) if message.contains("f64")),
            "{error}"
        );
        // The same program runs on the host.
        assert_eq!(x.exp().eval::<f64>(gpu).unwrap()[[0]], 1.0);
    }
}

#[test]
fn nan_is_found_where_it_arises() {
    for gpu in every_adapter() {
        let data = [1.0_f32, -1.0, 0.0, f32::NAN];
        let x = Tensor::from_vec(&[4], data.to_vec());
        let found = x.sqrt().is_nan().eval::<bool>(gpu).unwrap();
        assert_eq!(
            found.into_raw_vec_and_offset().0,
            [false, true, false, true]
        );
        assert!(x.is_nan().any(..).eval::<bool>(gpu).unwrap()[[]]);
    }
}
