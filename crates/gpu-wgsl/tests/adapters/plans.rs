//! Plans on every adapter, with each step compared with the oracle. The many forms of products in
//! blocks run on the adapters in turn.
use std::time::Instant;

use gpu_wgsl::check::{compare_steps, every_adapter, on_adapters_in_turn};
use gpu_wgsl::{FallbackReason, Feature, Gpu, Select};
use tensor_core::exec::Executor;
use tensor_core::ndarray::ArrayD;
use tensor_core::plan::Plan;
use tensor_core::profile::{By, Column, Profiler, Span};
use tensor_core::rng::Philox;
use tensor_core::similarity::{PairCount, Similarity, Tile};
use tensor_core::{Axes, DType, Error, Host, Tensor};

fn check(gpu: &Gpu, name: &str, tensors: &[&Tensor]) {
    if let Err(error) = compare_steps(gpu, tensors) {
        panic!("{name}: {error}");
    }
}

fn normal(shape: &[usize], stream: u64) -> Tensor {
    let mut data = vec![0.0; shape.iter().product()];
    Philox::new(7).fill_normal_f32(stream, &mut data);
    Tensor::from_vec(shape, data)
}

#[test]
fn programs_give_what_the_oracle_gives() {
    for gpu in every_adapter() {
        let (x, y) = (normal(&[37, 41], 0), normal(&[41, 29], 1));
        let points = normal(&[16, 50], 2);
        let pairs = (points.expand_dims(2) - points.expand_dims(1))
            .abs()
            .lt(1.0);
        let image = normal(&[2, 3, 9, 11], 3);
        let windows = image
            .window(2, 3, 2)
            .window(3, 3, 2)
            .sum(Axes::from([4, 5]));
        let long = normal(&[3, 70_001], 5);
        let whole = Tensor::arange(1000) - 500;
        let programs: Vec<(&str, Tensor)> = vec![
            ("chain", (&x * 2.0 + 1.0).abs().sqrt() - x.exp()),
            ("broadcast", &x + x.sum(0)),
            ("rows", x.sum(1)),
            ("all of it", x.sum(..)),
            ("softmax", x.softmax(1)),
            ("matmul", x.matmul(&y)),
            ("similarity sum", pairs.count(0)),
            ("similarity all", pairs.all(0)),
            ("windows", windows),
            ("flip and pad", image.flip(3).pad(3, 2, 3, 0.0).relu()),
            ("argmax", x.argmax(1)),
            ("integers", whole.floor_div(7) * 3 - whole.rem(-13)),
            ("to bool", whole.ne(0)),
            ("half", x.cast(DType::F16)),
            ("half and back", x.cast(DType::F16).cast(DType::F32) * 3.0),
            ("random", Tensor::rand(Philox::new(3).stream(9), &[1001])),
            ("long sum", normal(&[300_000], 4).sum(..)),
            ("long extremes", long.max(..) - long.min(..)),
            ("long flags", long.lt(7.0).all(..)),
            ("long count", long.lt(0.0).count(1)),
            (
                "long mean with later operations",
                (&long * long.mean(Axes::keepdims(1))).sum(1),
            ),
            ("scalar", Tensor::scalar(2.0_f32) * 3.0),
            ("nothing", normal(&[0, 4], 0) * 2.0),
            ("sum of nothing", normal(&[0, 4], 0).sum(0)),
        ];
        for (name, tensor) in &programs {
            check(gpu, name, &[tensor]);
        }
    }
}

#[test]
fn blocks_give_what_the_oracle_gives() {
    let (tall, wide) = (normal(&[71, 9], 6), normal(&[9, 67], 7));
    let batch = normal(&[5, 33, 7], 8);
    let many = normal(&[40, 12, 7], 9);
    let (rows, cols) = (normal(&[1030, 37], 10), normal(&[37, 10], 11));
    let bias = normal(&[67], 12);
    let distances = (tall.expand_dims(1) - &tall).abs();
    let aligned = normal(&[64, 40], 13);
    let close = (aligned.expand_dims(1) - &aligned).abs().lt(3.0);
    let image = normal(&[3, 5, 14, 13], 14);
    let kernels = normal(&[17, 5, 3, 3], 15);
    let windows = image.window(2, 3, 1).window(3, 3, 1);
    let windows = windows.permute(&[0, 2, 3, 1, 4, 5]).expand_dims(3);
    let convolved = (windows * &kernels).sum(Axes::from([4, 5, 6]));
    let steps = Tensor::arange(71 * 9).reshape(&[71, 9]);
    let scales = normal(&[9], 16);
    let halves = (0..71 * 9).map(|n| half::f16::from_f64(n as f64 / 64.0));
    let halves = Tensor::from_vec(&[71, 9], halves.collect());
    let product = |a: &Tensor, b: &Tensor| a.matmul(b);
    let small_flags = |side: usize| {
        let x = normal(&[3, side, 7], 20);
        (x.expand_dims(2) - x.expand_dims(1)).abs().lt(2.0).all(3)
    };
    let programs: Vec<(&str, Tensor)> = vec![
        ("plain", product(&tall, &wide)),
        (
            "whole blocks",
            product(&normal(&[64, 16], 6), &normal(&[16, 64], 7)) + 1.0,
        ),
        ("prologue", product(&tall.exp(), &(&wide * 2.0).tanh())),
        (
            "scaled terms",
            ((&tall * &scales).expand_dims(1) * &tall).sum(2),
        ),
        ("epilogue", (product(&tall, &wide) + &bias).relu()),
        ("batch", product(&batch, &batch.permute(&[0, 2, 1])).relu()),
        ("small ones", product(&many, &many.permute(&[0, 2, 1]))),
        ("few columns", product(&rows, &cols)),
        ("few columns, flags", product(&rows, &cols).lt(0.5)),
        ("few rows", product(&cols.t(), &rows.t()) - 1.0),
        ("halves", product(&halves.cast(DType::F32), &wide)),
        ("to halves", product(&tall, &wide).cast(DType::F16)),
        (
            "to halves in words",
            product(&tall, &normal(&[9, 68], 7)).cast(DType::F16),
        ),
        ("integers", (steps.expand_dims(1) * &steps).sum(2)),
        ("extremes", distances.max(2) - distances.min(2)),
        ("count", distances.lt(0.5).count(2)),
        ("all", distances.lt(2.5).all(2)),
        ("any in words", (!&close).any(2)),
        ("flags of 17", small_flags(17)),
        ("flags of 24", small_flags(24)),
        ("flags of 31", small_flags(31)),
        ("flags of 32", small_flags(32)),
        ("flags of 33", small_flags(33)),
        ("halves of 31", {
            let x = normal(&[3, 31, 5], 19);
            product(&x, &x.permute(&[0, 2, 1])).cast(DType::F16)
        }),
        ("all of a batch", {
            let pairs = (many.expand_dims(2) - many.expand_dims(1)).abs();
            pairs.lt(3.0).all(3)
        }),
        (
            "padded",
            product(&tall.pad(1, 2, 1, 0.0), &normal(&[12, 70], 8)),
        ),
        ("with sums of rows", {
            let both = (tall.expand_dims(1) * &tall).sum(2);
            both / (&tall * &tall).sum(1).expand_dims(1).sqrt()
        }),
        ("transposed", product(&tall, &wide).t() * 2.0),
        ("convolution", convolved),
        ("random factors", {
            let mask = Tensor::rand(Philox::new(3).stream(9), &[71, 9]).lt(0.5);
            product(&mask.select(&tall, 0.0), &wide)
        }),
        (
            "long",
            product(&normal(&[66, 5000], 17), &normal(&[5000, 65], 18)),
        ),
    ];
    for (gpu, (name, tensor)) in on_adapters_in_turn(&programs) {
        check(gpu, name, &[tensor]);
    }
}

#[test]
fn long_sums_of_random_numbers_draw_from_their_own_streams() {
    for gpu in every_adapter() {
        let seed = Philox::new(3);
        let drawn = |stream: u64| Tensor::rand(seed.stream(stream), &[1 << 19]);
        let ratio = 3.0 * drawn(5).sum(0) / (7.0 + drawn((1 << 40) + 9).square().sum(0));
        check(gpu, "ratio of sums", &[&ratio]);
    }
}

#[test]
fn f64_is_f64() {
    for gpu in every_adapter() {
        if let Err(missing) = gpu.require("f64", &[Feature::F64, Feature::Int64]) {
            gpu_wgsl::check::skip(&missing.to_string());
            continue;
        }
        let wide = |shape: &[usize], stream: u64| {
            let x = normal(shape, stream).cast(DType::F64) * std::f64::consts::PI;
            Tensor::from_array(x.eval::<f64>(&Host::new()).unwrap())
        };
        let (a, b) = (wide(&[37, 41], 0), wide(&[41, 29], 1));
        let special = [f64::NAN, f64::INFINITY, -1e300, 3e9, -3e9, 0.5, -0.0, 1.5];
        let special = Tensor::from_vec(&[8], special.to_vec());
        for (name, program) in [
            ("arithmetic", (&a * 2.0 - 1.0) / (a.abs() + 1e-3)),
            (
                "functions",
                a.abs().sqrt() + a.floor() - a.ceil() * a.round() + a.trunc().recip(),
            ),
            ("sums", a.sum(1)),
            ("long sum", wide(&[100_003], 2).sum(..)),
            ("extremes", a.max(0) - a.min(0)),
            ("choice", a.lt(0.0).select(&a, a.maximum(0.1))),
            ("product", a.matmul(&b)),
            (
                "larger product",
                wide(&[70, 40], 3).matmul(&wide(&[40, 66], 4)),
            ),
            ("to f32 and back", a.cast(DType::F32).cast(DType::F64) - &a),
            ("to integers", a.cast(DType::I32)),
            ("from integers", Tensor::arange(50).cast(DType::F64) / 7.0),
            ("from flags", a.lt(0.0).cast(DType::F64).sum(0)),
            ("special numbers to integers", special.cast(DType::I32)),
            ("special numbers to counts", special.cast(DType::U32)),
            ("which is NaN", special.is_nan()),
        ] {
            check(gpu, name, &[&program]);
        }
        // More digits than f32 has.
        let third = Tensor::from_vec(&[1], vec![1.0_f64]) / 3.0;
        let digits = (third * 3e12).eval::<f64>(gpu).unwrap()[[0]];
        assert!((digits - 1e12).abs() < 1e-3, "{digits}");
    }
}

#[test]
fn whole_plans_run_and_give_their_results() {
    for gpu in every_adapter() {
        let x = normal(&[20, 30], 0);
        let y: ArrayD<f32> = (x.softmax(1).matmul(&x.t())).eval(gpu).unwrap();
        assert_eq!(y.shape(), [20, 20]);
        let total: f32 = x.softmax(1).sum(..).eval::<f32>(gpu).unwrap()[[]];
        assert!((total - 20.0).abs() < 1e-4, "{total}");
    }
}

#[test]
fn an_index_out_of_range_is_an_error_of_its_line() {
    for gpu in every_adapter() {
        let table = normal(&[5], 0);
        let line = line!() + 2;
        let looked_up = table.gather(&Tensor::from_vec(&[3], vec![0, 7, -5]), 0);
        let error = (&looked_up * 2.0).eval::<f32>(gpu).unwrap_err();
        assert!(
            matches!(error.root(), Error::IndexOutOfRange { index, extent: 5 } if *index == 7.0),
            "{error}"
        );
        assert_eq!(error.location().unwrap().line(), line, "{error}");
        // Even an empty part of the result has the error.
        let looked_up = looked_up.realize(gpu).unwrap();
        let error = (looked_up.slice(0, 0..0) * 2.0).eval::<f32>(gpu);
        assert!(error.is_err_and(|error| matches!(error.root(), Error::IndexOutOfRange { .. })));
    }
}

#[test]
fn an_index_out_of_range_is_found_in_any_gather_and_after_a_decision() {
    let index = |numbers: [i32; 3]| Tensor::from_vec(&[3], numbers.to_vec());
    let (table, longer) = (normal(&[5], 0), normal(&[9], 1));
    for (first, second, wrong, extent) in [
        ([0, 4, -5], [8, 9, 0], 9.0, 9),
        ([0, 5, 1], [8, -9, 0], 5.0, 5),
    ] {
        // The first result decides `any`, but the wrong index after it is an error.
        let both = table.gather(&index(first), 0) + longer.gather(&index(second), 0);
        let decided = both.lt(1e9).any(..).cast(DType::F32);
        for gpu in every_adapter() {
            let executors: [&dyn Executor; 2] = [&Host::new(), gpu];
            for (executor, program) in executors.iter().flat_map(|e| [(e, &both), (e, &decided)]) {
                let error = program.eval::<f32>(*executor).unwrap_err();
                let found = error.root();
                assert!(
                    matches!(found, Error::IndexOutOfRange { index, extent: of }
                        if *index == wrong && *of == extent),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn an_array_longer_than_a_binding_is_one_like_others() {
    for gpu in every_adapter() {
        let limits = gpu.adapter().limits;
        let len = usize::try_from(limits.max_storage_buffer_binding_size / 4).unwrap() + 1001;
        let x = (Tensor::arange(len) % 7).realize(gpu);
        // SwiftShader's buffers are no longer than its bindings.
        if limits.max_buffer_size == limits.max_storage_buffer_binding_size {
            let error = x.unwrap_err();
            assert!(error.to_string().contains("maxBufferSize"), "{error}");
            continue;
        }
        let x = x.unwrap();
        let flags = x.eq(3).realize(gpu).unwrap();
        let counts = [&x.eq(3), &flags].map(|flags| flags.count(..));
        let expected = u32::try_from((len + 3) / 7).unwrap();
        for count in counts {
            assert_eq!(count.eval::<u32>(gpu).unwrap()[[]], expected);
        }
        let last: ArrayD<i32> = x.slice(0, -1..).eval(gpu).unwrap();
        assert_eq!(last[[0]], i32::try_from((len - 1) % 7).unwrap());
    }
}

#[test]
fn a_program_gives_the_same_bits_each_time() {
    for gpu in every_adapter() {
        let x = normal(&[64, 700], 0);
        let program = x.softmax(1).matmul(&x.t()).sum(0).exp();
        let bits = || -> Vec<u32> {
            let result = program.eval::<f32>(gpu).unwrap();
            result.iter().map(|element| element.to_bits()).collect()
        };
        assert_eq!(bits(), bits());
    }
}

#[test]
fn what_a_device_does_not_take_runs_on_the_host() {
    for gpu in every_adapter() {
        let x = normal(&[40], 0);
        let wide = x.cast(DType::F64).exp().sum(..);
        let of = |why| gpu.fallbacks().get(&why).copied().unwrap_or(0);
        let count = || of(FallbackReason::FunctionOfF64) + of(FallbackReason::F64);
        let before = count();
        let (on_host, on_device) = (wide.eval::<f64>(&Host::new()), wide.eval::<f64>(gpu));
        assert_eq!(on_device.unwrap(), on_host.unwrap());
        assert!(count() > before);
        let before = of(FallbackReason::Sort);
        let sorted = (&x * 2.0).sort(0) + 1.0;
        let (on_host, on_device) = (sorted.eval::<f32>(&Host::new()), sorted.eval::<f32>(gpu));
        assert_eq!(on_device.unwrap(), on_host.unwrap());
        assert!(of(FallbackReason::Sort) > before);
    }
}

#[test]
fn scatters_run_on_the_device_with_the_results_of_the_host() {
    let index = Tensor::arange(90).reshape(&[30, 3]) * 7 % 11;
    let whole = (normal(&[30, 3], 0) * 4.0).round();
    let column = || index.slice(1, ..1).flatten();
    let start = Tensor::full(&[11, 3], 0.5_f32);
    let programs = [
        start.scatter_add(&column(), &whole, 0),
        start.scatter_max(&(column() - 11), &whole, 0) * 2.0,
        start.scatter_min_along_axis(&index, &whole, 0),
        index.bincount(12).cast(DType::F32),
        whole.histogram(5, -4.0, 4.0).cast(DType::F32),
    ];
    for gpu in every_adapter() {
        for program in &programs {
            let [on_host, on_device] = [
                program.eval::<f32>(&Host::new()).unwrap(),
                program.eval::<f32>(gpu).unwrap(),
            ];
            assert_eq!(on_device, on_host, "{program:?}");
        }
    }
}

#[test]
fn arrays_count_as_they_lie_on_the_device() {
    for gpu in every_adapter() {
        let gpu = Gpu::open(Select::Name(gpu.adapter().name.clone())).unwrap();
        let live = || gpu.memory().unwrap().live_bytes;
        let x = Tensor::arange(1000).realize(&gpu).unwrap();
        assert_eq!(live(), 4000);
        let flags = x.lt(500).realize(&gpu).unwrap();
        assert_eq!(live(), 4000 + 128);
        drop((x, flags));
        assert_eq!(live(), 0);
    }
}

#[test]
fn a_profile_shows_when_the_device_ran_each_step() {
    for shared in every_adapter() {
        // A separate device, because a device runs only one measurement at a time.
        let gpu = shared.reopen().unwrap();
        let x = normal(&[300, 200], 0).realize(&gpu).unwrap();
        let program = (&x - x.sum(0)).exp().matmul(&x.t());
        program.realize(&gpu).unwrap();
        let profiler = Profiler::new(&gpu);
        let before = Instant::now();
        let results: Vec<Tensor> = (0..3)
            .map(|_| program.realize(&profiler).unwrap())
            .collect();
        let elapsed_ns = u64::try_from(before.elapsed().as_nanos()).unwrap();
        let profile = profiler.profile();
        let table = profile.table(By::Step, Column::Time);
        let name = |span: &Span| span.track == gpu.adapter().name.as_str().into();
        let spans: Vec<Span> = profile.spans().filter(name).collect();
        let n_steps: u64 = table.rows.iter().map(|row| row.calls).sum();
        assert!(spans.len() >= 9 && n_steps == spans.len() as u64, "{table}");
        // Spans of one queue do not overlap, and lie within the time that the host waited.
        let start_ns = profiler.clock_ns(before);
        for pair in spans.windows(2) {
            assert!(pair[0].start_ns <= pair[1].start_ns, "{pair:?}");
        }
        let (first, last) = (spans.first().unwrap(), spans.last().unwrap());
        let slack_ns = 2_000_000;
        assert!(
            first.start_ns + slack_ns >= start_ns,
            "{first:?} {start_ns}"
        );
        assert!(last.end_ns <= start_ns + elapsed_ns + slack_ns, "{last:?}");
        let on_device: u64 = spans.iter().map(|span| span.end_ns - span.start_ns).sum();
        assert!(on_device > 0 && on_device <= elapsed_ns + slack_ns);
        assert_eq!(table.total_ns, on_device);
        // Queueing has its own row in the table of spans, and the row of the product contains its
        // operations.
        let queued = profile.table(By::Span, Column::Time);
        let queued = queued.rows.iter().find(|row| row.name == "queue").unwrap();
        assert_eq!(queued.calls, n_steps);
        let product = table
            .rows
            .iter()
            .find(|row| row.operations >= 3.0 * 2.0 * 300.0 * 200.0 * 300.0);
        assert!(product.is_some_and(|row| row.gflops() > 0.0), "{table}");
        assert!(profile.trace_json().contains(&gpu.adapter().name));
        assert!(!profile.memory_curve().is_empty());
        drop(results);
    }
}

#[test]
fn pairs_of_few_columns_are_those_of_the_host() {
    for gpu in every_adapter() {
        for (d, side) in [
            (1, 32),
            (20, 8192),
            (30, 8192),
            (32, 32),
            (100, 32),
            (100, 64),
        ] {
            // Integer values, so that differences are exact.
            let x = Tensor::from_array(
                normal(&[7, d], 21)
                    .round()
                    .eval::<f32>(&Host::new())
                    .unwrap(),
            );
            let job = Similarity::within(2.5).with_tile_size(side);
            let (mut on_host, mut on_device) = (PairCount::default(), PairCount::default());
            job.stream(&Host::new(), &x, &mut on_host).unwrap();
            job.stream(gpu, &x, &mut on_device).unwrap();
            assert_eq!(on_device, on_host, "{d} {side}");
        }
    }
}

#[test]
fn arrays_on_the_way_take_each_others_place_before_anything_is_sent() {
    for shared in every_adapter() {
        let gpu = shared.reopen().unwrap();
        gpu.poison_allocations(false);
        let x = (normal(&[64, 64], 22) * 0.1).realize(&gpu).unwrap();
        gpu.finish().unwrap();
        gpu.reset_peak();
        let before = gpu.pool().live_bytes();
        let chain = (0..8).fold(x.clone(), |y, _| y.matmul(&x));
        let (plan, _) = Plan::new(&[&chain], &gpu.target()).unwrap();
        let result = chain.realize(&gpu).unwrap();
        let array = 4 * 64 * 64;
        let extra = gpu.pool().peak_bytes() - before;
        assert_eq!(plan.steps.len(), 8);
        assert!(
            extra <= plan.peak_bytes() as u64 + array,
            "{extra} {}",
            plan.peak_bytes()
        );
        // The plan succeeds with a budget of exactly its peak.
        gpu.set_budget(Some(
            gpu.pool().live_bytes() + plan.peak_bytes() as u64 + array,
        ));
        let again = chain.realize(&gpu).unwrap();
        assert_eq!(
            again.to_host::<f32>().unwrap(),
            result.to_host::<f32>().unwrap()
        );
        // An upload into memory that recorded work still reads must wait for this work.
        gpu.set_budget(None);
        let sum = (&x + 1.0).realize(&gpu).unwrap();
        let expected = (&sum * 2.0).eval::<f32>(&gpu).unwrap();
        for _ in 0..20 {
            let upload = Tensor::from_vec(&[64, 64], vec![7.0_f32; 64 * 64]);
            let doubled = (&sum * 2.0).realize(&gpu).unwrap();
            drop((&doubled + 1.0).realize(&gpu).unwrap());
            let other = upload.realize(&gpu).unwrap();
            assert_eq!(doubled.to_host::<f32>().unwrap(), expected);
            assert_eq!(other.to_host::<f32>().unwrap()[[63, 63]], 7.0);
        }
    }
}

#[test]
fn nothing_of_a_shape_on_the_way_is_in_memory() {
    for shared in every_adapter() {
        let gpu = shared.reopen().unwrap();
        let (n, d) = (64, 300);
        let x = normal(&[n, d], 26).realize(&gpu).unwrap();
        gpu.finish().unwrap();
        let near = (x.expand_dims(2) - x.expand_dims(1)).abs().lt(1.0);
        for (program, result_bytes) in [(near.count(0), 4 * d * d), (near.all(0), d * d / 8 + 4)] {
            gpu.reset_peak();
            let before = gpu.pool().live_bytes();
            program.realize(&gpu).unwrap();
            let extra = gpu.pool().peak_bytes() - before;
            assert!(extra <= result_bytes as u64, "{extra} {result_bytes}");
        }
    }
}

#[test]
fn a_measurement_misses_no_step_of_a_wave() {
    for shared in every_adapter() {
        let gpu = shared.reopen().unwrap();
        let [x, y, z] = [23, 24, 25].map(|stream| normal(&[128, 128], stream));
        let timings = gpu.time(|| {
            let both = [&x.matmul(&y), &x.matmul(&z)];
            Tensor::realize_all(both, &gpu).unwrap();
            Ok(())
        });
        assert_eq!(timings.unwrap().len(), 2);
    }
}

#[test]
fn all_pairs_stream_through_bounded_memory_and_are_what_the_host_says() {
    for shared in every_adapter() {
        let gpu = shared.reopen().unwrap();
        let (n, d, side) = (40, 1000, 128);
        // Integer values, so that differences are exact.
        let x = (normal(&[n, d], 0) * 0.45).round() + (Tensor::arange(d) % 3).cast(DType::F32);
        let x = Tensor::from_array(x.eval::<f32>(&Host::new()).unwrap());
        let job = Similarity::within(1.5).with_tile_size(side);
        let (mut on_host, mut on_device) = (PairCount::default(), PairCount::default());
        job.stream(&Host::new(), &x, &mut on_host).unwrap();
        job.stream(&gpu, &x, &mut on_device).unwrap();
        assert_eq!(on_device, on_host);
        assert!(
            on_host.similar > d as u64 && on_host.similar < on_host.pairs / 2,
            "{on_host:?}"
        );
        // The peak is at most the memory of all columns plus twelve tiles of bits.
        let columns = (n * d.next_multiple_of(32) * 4) as u64;
        let tile = (side * side / 8) as u64;
        let peak = gpu.pool().peak_bytes();
        assert!(peak <= columns + 12 * tile, "{peak}: {columns}, {tile}");
        assert_eq!(gpu.pool().live_bytes(), 0);
        let data = x.to_host::<f32>().unwrap();
        let mut seen = 0;
        let mut sink = |tile: Tile| {
            for (i, j) in [(0, 0), (3, 17), (tile.place.rows - 1, tile.place.cols - 1)] {
                let (i, j) = (i.min(tile.place.rows - 1), j.min(tile.place.cols - 1));
                let (row, col) = (tile.place.row + i, tile.place.col + j);
                let mut rows = (0..n).map(|k| (data[[k, row]] - data[[k, col]]).abs() < 1.5);
                assert_eq!(tile.get(i, j), Some(rows.all(|alike| alike)), "{row} {col}");
                seen += 1;
            }
            Ok::<(), std::convert::Infallible>(())
        };
        job.stream(&gpu, &x, &mut sink).unwrap();
        assert_eq!(seen, 3 * 36);
    }
}

#[test]
fn packed_bools_need_no_kernel_and_none_is_explained() {
    for gpu in every_adapter() {
        let flags = normal(&[3, 64], 5).lt(0.0).realize(gpu).unwrap();
        let packed = flags.pack_bits();
        let (plan, _) = Plan::new(&[&packed], &gpu.target()).unwrap();
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(gpu.explain(&plan), []);
        let expected = packed.eval::<u32>(&Host::new()).unwrap();
        assert_eq!(packed.eval::<u32>(gpu).unwrap(), expected);
    }
}
