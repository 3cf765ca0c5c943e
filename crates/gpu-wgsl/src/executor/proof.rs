//! Tests of nest kernels on every adapter: results of kernels on chunks, and detection of faults in
//! kernel texts.

use std::sync::Arc;

use tensor_core::exec::{Executor, Storage, against_reference};
use tensor_core::plan::{Plan, Step};
use tensor_core::rng::Philox;
use tensor_core::{DType, Host, HostData, Tensor};

use super::{Array, Compiled};
use crate::check::{compare_steps, every_adapter, on_adapters_in_turn, skip};
use crate::nest::{self, Division, Emitted, Schedule};
use crate::{FallbackReason, Feature, Gpu, Select, ShapeClass, tiles};

fn normal(shape: &[usize], stream: u64) -> Tensor {
    let mut data = vec![0.0; shape.iter().product()];
    Philox::new(11).fill_normal_f32(stream, &mut data);
    Tensor::from_vec(shape, data)
}

/// Returns the only step of a program, and its inputs.
pub(super) fn step(gpu: &Gpu, program: &Tensor) -> (Step, Vec<HostData>) {
    let (plan, data) = Plan::new(&[program], &gpu.target()).unwrap();
    assert_eq!(plan.steps.len(), 1, "{}", plan.explain());
    let read = data.into_iter().map(|data| pollster::block_on(data.read()));
    (plan.steps[0].clone(), read.map(Result::unwrap).collect())
}

/// Runs a kernel text for a step and compares the result with the oracle.
pub(super) fn compare(
    gpu: &Gpu,
    (step, data): &(Step, Vec<HostData>),
    schedule: &Schedule,
    emitted: &Emitted,
) -> Result<(), String> {
    let compiled = Compiled::new(gpu, &step.nest, schedule, emitted).unwrap();
    let arrays: Vec<Array> = data
        .iter()
        .map(|data| Array::upload(gpu, data).unwrap())
        .collect();
    let arrays: Vec<&Array> = arrays.iter().collect();
    let (_, numbers) = nest::split(&step.nest);
    let output = compiled
        .run(gpu, &step.nest, &numbers, None, &arrays)
        .unwrap();
    let storage: Arc<dyn Storage> = Arc::new(output);
    let actual = pollster::block_on(storage.read()).unwrap();
    against_reference(gpu, step, &data.iter().collect::<Vec<_>>(), &actual)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn check(gpu: &Gpu, name: &str, program: &Tensor) {
    if let Err(error) = compare_steps(gpu, &[program]) {
        panic!("{name}: {error}");
    }
}

#[test]
fn arrays_that_cannot_be_bound_whole_are_computed_in_chunks() {
    for gpu in every_adapter() {
        // Bindings of 4096 bytes: about a thousand elements.
        let gpu = Gpu::limited(Select::Index(gpu.adapter().index), 4096, f64::INFINITY).unwrap();
        gpu.poison_allocations(true);
        let long = normal(&[5003], 0);
        let table = normal(&[70, 61], 1);
        let (a, b) = (normal(&[300, 17], 2), normal(&[17, 40], 3));
        let batch = normal(&[9, 40, 6], 4);
        let points = normal(&[200, 5], 5);
        let close = (points.expand_dims(1) - &points).abs().lt(2.0);
        let positions = (Tensor::arange(3000) * 7) % 900;
        let counted = Tensor::arange(5003).cast(DType::F32);
        for (name, program) in [
            ("elementwise", &long * 2.0 + &counted),
            ("flags", long.lt(0.0)),
            ("of flags", long.lt(0.0).select(&long, 1.0)),
            ("halves", long.cast(DType::F16)),
            ("unread chunks of f64", {
                let [first, second] = [normal(&[2500], 15), normal(&[1], 16)];
                Tensor::concat(&[&first.cast(DType::F64), &second.cast(DType::F64)], 0)
            }),
            ("flip", normal(&[5003], 12).flip(0) + &long),
            ("pad", long.pad(0, 1500, 700, 3.0)),
            ("unread chunks", {
                let (first, second) = (normal(&[5120], 13), normal(&[3072], 14));
                Tensor::concat(&[&first, &second], 0)
            }),
            ("transpose", table.t() * 2.0),
            ("broadcast", normal(&[40, 1], 6) + normal(&[1, 50], 7)),
            ("random", Tensor::rand(Philox::new(3).stream(9), &[3001])),
            ("rows", table.sum(1)),
            ("columns", table.sum(0)),
            ("all of it", normal(&[20_011], 8).sum(..)),
            ("long extremes", normal(&[3, 7001], 9).max(1)),
            ("product", a.matmul(&b)),
            ("batch", batch.matmul(&batch.permute(&[0, 2, 1]))),
            ("packed", close.all(2)),
            ("gather", normal(&[900], 10).gather(&positions, 0)),
            ("the last element", long.slice(0, -1..) * 2.0),
            ("three elements", long.slice(0, 3001..3004).exp()),
            ("a sum of a few", long.slice(0, 2000..2040).sum(..)),
            ("a flag", long.slice(0, 4999..5000).lt(0.0)),
        ] {
            // SwiftShader has no f64.
            let needs: &[Feature] = match name {
                "unread chunks of f64" => &[Feature::F64, Feature::Int64],
                _ => &[],
            };
            match gpu.require(name, needs) {
                Ok(()) => check(&gpu, name, &program),
                Err(missing) => skip(&missing.to_string()),
            }
        }
        // A gather may read any element of its table, so the table cannot be bound in part.
        let table = normal(&[1500], 11);
        let beyond = table.gather(&(Tensor::arange(40) * 31), 0);
        let on_host = beyond.eval::<f32>(&Host::new()).unwrap();
        assert_eq!(beyond.eval::<f32>(&gpu).unwrap(), on_host);
        assert!(gpu.fallbacks().contains_key(&FallbackReason::Indivisible));
        // A caller that runs the step without a check receives the reason.
        let (step, data) = step(&gpu, &beyond);
        let arrays = data.into_iter().map(|data| Executor::upload(&gpu, data));
        let arrays = arrays.collect::<tensor_core::Result<Vec<_>>>().unwrap();
        let error = gpu.run(&step, &arrays).unwrap_err();
        let tensor_core::Error::Device { source, .. } = &error else {
            panic!("{error}");
        };
        let reason = FallbackReason::Indivisible.to_string();
        assert!(source.to_string().contains(&reason), "{source}");
    }
}

#[test]
fn what_might_take_too_long_runs_in_parts_and_leaves_in_several_submissions() {
    for gpu in every_adapter() {
        let index = Select::Index(gpu.adapter().index);
        let gpu = Gpu::limited(index, 1 << 27, 10_000.0).unwrap();
        gpu.poison_allocations(true);
        let (a, b) = (normal(&[70, 37], 0), normal(&[37, 75], 1));
        let close = (a.expand_dims(1) - &a).abs().lt(2.0);
        for (name, program) in [
            ("product", a.matmul(&b)),
            ("packed", close.all(2)),
            ("elementwise", normal(&[50_001], 2).exp()),
            ("sum", normal(&[50_001], 3).sum(..)),
        ] {
            check(&gpu, name, &program);
        }
        let (step, data) = step(&gpu, &a.matmul(&b));
        let lens: Vec<usize> = data.iter().map(HostData::len).collect();
        match nest::divide(&step.nest, &lens, gpu.limits()) {
            Some(Division::Windows(parts)) => assert!(parts.len() > 30, "{}", parts.len()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_fault_in_a_text_is_found() {
    let (x, y) = (normal(&[70, 37], 2), normal(&[37, 75], 3));
    let product = x.matmul(&y);
    let close = (x.expand_dims(1) - &x).abs().lt(2.0);
    /// Lanes per output element in the programs that do not run in blocks. The faults below for
    /// `x.sum(1)`, a sum over 37 elements, edit the text of a kernel with this number of lanes.
    const LANES: u32 = 8;
    let faults = [
        (&product, "start = 0u", "start = 16u"),
        (&product, "min(16u, 37u - start)", "16u"),
        (&product, "(start + term, 36u)", "(start + term, 35u)"),
        (
            &product,
            "let first_row = block",
            "let first_row = 0u * block",
        ),
        (&product, "thread_col * 4u + 1u", "thread_col * 4u + 2u"),
        (&product, "fma(v1_0, v0_0, ", "fma(v1_0, v0_1, "),
        (&product, "fma(v1_3, v0_3, ", "fma(v1_3, v0_3, 0.001 + "),
        (
            &product,
            "out[75i * i_0 + j_3] = v3_0_3",
            "out[75i * i_0 + j_3] = v3_0_2",
        ),
        (
            &close.all(2),
            "(bits & mask) >> above",
            "(bits & mask) >> shift",
        ),
        (&close.all(2), "~(mask << shift)", "~mask"),
        (&close.all(2), "wg_goes_on) == 0u", "wg_goes_on) != 0u"),
        (&close.all(2), "v6_1_1) << 1u", "v6_1_1) << 2u"),
        (&x.sum(1), "step > 0u", "step > 1u"),
        (&x.sum(1), "j < 37i", "j < 36i"),
        (&x.sum(1), "lane < step", "lane + 1u < step"),
    ];
    for (gpu, (program, from, to)) in on_adapters_in_turn(faults) {
        let program = step(gpu, program);
        // The faults below edit the text for the default sizes, so the device's entry in the
        // table of tiles must not apply.
        let tile = tiles::default(ShapeClass::Square);
        let in_blocks =
            Schedule::in_blocks(&program.0.nest, ShapeClass::Square, tile, gpu.limits());
        let schedule = in_blocks.unwrap_or(Schedule::Lanes(LANES));
        let (form, _) = nest::split(&program.0.nest);
        let emitted = nest::emit(&form, &schedule, None);
        assert_eq!(compare(gpu, &program, &schedule, &emitted), Ok(()));
        assert!(emitted.source.contains(from), "{from}:\n{}", emitted.source);
        let broken = Emitted {
            source: emitted.source.replace(from, to),
            ..emitted
        };
        let compared = compare(gpu, &program, &schedule, &broken);
        assert!(compared.is_err(), "fault `{to}` was not detected");
    }
}

/// Emits the kernel of a step in which subgroups combine partial results.
fn emitted_with_subgroups(step: &Step, lanes: u32) -> Emitted {
    let (form, _) = nest::split(&step.nest);
    nest::emit(&form, &Schedule::Subgroups(lanes), None)
}

fn with_subgroups() -> impl Iterator<Item = &'static Gpu> {
    every_adapter()
        .iter()
        .filter(|gpu| match gpu.require("kernel", &[Feature::Subgroups]) {
            Ok(()) => true,
            Err(missing) => {
                skip(&missing.to_string());
                false
            }
        })
}

#[test]
fn subgroups_and_trees_compute_the_same_reductions() {
    const LANES: u32 = 128;
    /// The condition of the text that a device without full subgroups does not meet.
    const FULL: &str = "subgroup_size * n_subgroups == 128u";
    for gpu in with_subgroups() {
        // One more term than invocations, and several for each.
        for (stream, n_terms) in [129, 2000].into_iter().enumerate() {
            let x = normal(&[5, n_terms], stream as u64);
            let counted = (Tensor::arange(5 * n_terms) % 1009).reshape(&[5, n_terms]);
            for program in [
                x.sum(1),
                x.max(1) - 1.0,
                x.min(0),
                (&counted * 3).sum(1),
                counted.max(1),
                x.lt(2.0).all(1).cast(DType::I32),
                x.gt(2.0).any(1).cast(DType::I32),
                x.gt(0.0).count(1),
                x.cast(DType::F16).cast(DType::F32).max(1),
                x.sum(1) + counted.cast(DType::F32).sum(1),
            ] {
                let program = step(gpu, &program);
                let subgroups = emitted_with_subgroups(&program.0, LANES);
                let not_full = Emitted {
                    source: subgroups.source.replace(FULL, "false"),
                    ..subgroups.clone()
                };
                assert_ne!(subgroups.source, not_full.source);
                let tree = Schedule::Lanes(LANES);
                let (form, _) = nest::split(&program.0.nest);
                let of_tree = nest::emit(&form, &tree, None);
                assert_eq!(compare(gpu, &program, &tree, &of_tree), Ok(()));
                for emitted in [subgroups, not_full] {
                    let compared = compare(gpu, &program, &Schedule::Subgroups(LANES), &emitted);
                    assert_eq!(compared, Ok(()), "{}", emitted.source);
                }
            }
        }
    }
}

#[test]
fn a_fault_in_a_text_with_subgroups_is_found() {
    for gpu in with_subgroups() {
        let program = step(gpu, &normal(&[5, 700], 0).sum(1));
        let emitted = emitted_with_subgroups(&program.0, 256);
        for (from, to) in [
            ("step > 0u", "step > 1u"),
            ("n < n_parts", "n + 1u < n_parts"),
            ("wg_v1[subgroup] =", "wg_v1[subgroup / 2u] ="),
        ] {
            assert!(emitted.source.contains(from), "{from}:\n{}", emitted.source);
            let broken = Emitted {
                source: emitted.source.replace(from, to),
                ..emitted.clone()
            };
            let compared = compare(gpu, &program, &Schedule::Subgroups(256), &broken);
            assert!(compared.is_err(), "fault `{to}` was not detected");
        }
    }
}
