//! Kernels of nests on every adapter: blocks of all sizes are right, and texts with a fault are found out.

use std::sync::Arc;

use tensor_core::exec::{Executor, against_reference};
use tensor_core::plan::{Plan, Step};
use tensor_core::rng::Philox;
use tensor_core::{HostData, Tensor};

use super::{Array, Compiled};
use crate::check::every_adapter;
use crate::nest::{self, Emitted, Room, Schedule, ShapeClass, Tile};
use crate::{Gpu, tuning};

fn normal(shape: &[usize], stream: u64) -> Tensor {
    let mut data = vec![0.0; shape.iter().product()];
    Philox::new(11).fill_normal_f32(stream, &mut data);
    Tensor::from_vec(shape, data)
}

/// The only step of a program, and its inputs.
fn step(gpu: &Gpu, program: &Tensor) -> (Step, Vec<HostData>) {
    let (plan, data) = Plan::of(&[program], &gpu.target()).unwrap();
    assert_eq!(plan.steps.len(), 1, "{}", plan.explain());
    let read = data.into_iter().map(|data| pollster::block_on(data.read()));
    (plan.steps[0].clone(), read.map(Result::unwrap).collect())
}

/// Runs a text for a step and compares what it gives with the oracle.
fn compare(
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
    let output = compiled.run(gpu, &step.nest, None, &arrays).unwrap();
    let storage: Arc<dyn tensor_core::exec::Storage> = Arc::new(output);
    let actual = pollster::block_on(storage.read()).unwrap();
    against_reference(gpu, step, &data.iter().collect::<Vec<_>>(), &actual)
        .map_err(|error| error.to_string())
}

fn room(gpu: &Gpu, class: ShapeClass, tile: Tile) -> Room {
    let mut room = gpu.room().clone();
    room.tiles = room.tiles.with(class, tile);
    room
}

#[test]
fn blocks_of_all_candidate_sizes_give_what_the_oracle_gives() {
    for gpu in every_adapter() {
        for class in ShapeClass::ALL {
            let [batch, rows, cols] = match class {
                // Large enough for the class needs too many blocks here; its sizes serve a square as well.
                ShapeClass::Large | ShapeClass::Square => [1, 131, 70],
                ShapeClass::Tall => [1, 300, 11],
                ShapeClass::Wide => [1, 12, 290],
                ShapeClass::Small => [9, 19, 25],
            };
            let (a, b) = (normal(&[batch, rows, 37], 0), normal(&[batch, 37, cols], 1));
            let program = step(gpu, &((&a * 2.0).matmul(&b) + 1.0));
            for tile in tuning::candidates(class) {
                let used = match class {
                    ShapeClass::Large => ShapeClass::Square,
                    class => class,
                };
                let room = room(gpu, used, tile);
                let schedule = nest::schedule(&program.0.nest, &room);
                assert!(matches!(schedule, Schedule::Blocks(_)), "{tile:?}");
                let emitted = nest::emit(&program.0.nest, &schedule);
                let compared = compare(gpu, &program, &schedule, &emitted);
                assert_eq!(compared, Ok(()), "{class:?} {tile:?}\n{}", emitted.source);
            }
        }
    }
}

#[test]
fn a_fault_in_a_text_is_found() {
    for gpu in every_adapter() {
        let (x, y) = (normal(&[70, 37], 2), normal(&[37, 75], 3));
        let product = x.matmul(&y);
        let close = (x.expand_dims(1) - &x).abs().lt(2.0);
        let faults = [
            (&product, "start = 0u", "start = 16u"),
            (&product, "min(16u, 37u - start)", "16u"),
            (&product, "(start + term, 36u)", "(start + term, 35u)"),
            (&product, "let first_row = block", "let first_row = 0u * block"),
            (&product, "thread_col * 4u + 1u", "thread_col * 4u + 2u"),
            (&product, "fma(v1_0, v0_0, ", "fma(v1_0, v0_1, "),
            (&product, "fma(v1_3, v0_3, ", "fma(v1_3, v0_3, 0.001 + "),
            (&product, "out[75i * i_0 + j_3] = v3_0_3", "out[75i * i_0 + j_3] = v3_0_2"),
            (&close.all(2), "(bits & mask) >> above", "(bits & mask) >> shift"),
            (&close.all(2), "~(mask << shift)", "~mask"),
            (&close.all(2), "wg_goes_on) == 0u", "wg_goes_on) != 0u"),
            (&close.all(2), "v6_1_1) << 1u", "v6_1_1) << 2u"),
            (&x.sum(1), "step > 0u", "step > 1u"),
            (&x.sum(1), "j < 37i", "j < 36i"),
            (&x.sum(1), "lane < step", "lane + 1u < step"),
        ];
        for (program, from, to) in faults {
            let program = step(gpu, program);
            let schedule = nest::schedule(&program.0.nest, gpu.room());
            let emitted = nest::emit(&program.0.nest, &schedule);
            assert_eq!(compare(gpu, &program, &schedule, &emitted), Ok(()));
            assert!(emitted.source.contains(from), "{from}:\n{}", emitted.source);
            let broken = Emitted {
                source: emitted.source.replace(from, to),
                ..emitted
            };
            let compared = compare(gpu, &program, &schedule, &broken);
            assert!(compared.is_err(), "`{to}` was not found out");
        }
    }
}
