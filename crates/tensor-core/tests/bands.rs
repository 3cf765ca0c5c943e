//! Bands: plans whose steps run piece by piece.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::sync::Arc;

use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::exec::{self, Executor, Storage};
use tensor_core::plan::{Band, BufferId, Kind, Plan, Target};
use tensor_core::rng::Philox;
use tensor_core::{Axes, DType, Error, Host, HostData, Reference, Tensor};

fn random(shape: &[usize]) -> Tensor {
    let mut data = vec![0.0; shape.iter().product()];
    Philox::new(5).fill_normal_f32(0, &mut data);
    Tensor::from_vec(shape, data)
}

/// Returns `(x - mean) / sqrt(variance + 1e-5)` of each row.
fn layer_norm(x: &Tensor) -> Tensor {
    let centered = x - x.mean(Axes::keepdims(1));
    let variance = centered.square().mean(Axes::keepdims(1));
    centered / (variance + 1e-5).sqrt()
}

/// Returns a plan for the host in which bands of any size are worth it.
fn planned(tensors: &[&Tensor]) -> (Plan, Vec<Arc<dyn Storage>>) {
    let target = Target {
        min_band: Some(0),
        ..Host::new().target()
    };
    Plan::new(tensors, &target).unwrap()
}

fn run(executor: &dyn Executor, plan: &Plan, data: &[Arc<dyn Storage>]) -> Vec<HostData> {
    let arrays = pollster::block_on(exec::run(executor, plan, data)).unwrap();
    let read = |array: Arc<dyn Storage>| pollster::block_on(array.read()).unwrap();
    arrays.into_iter().map(read).collect()
}

/// Returns the bits of the elements of arrays.
fn bits(arrays: &[HostData]) -> Vec<Vec<u64>> {
    let bits = |data: &HostData| {
        (0..data.len())
            .map(|at| data.get(at).unwrap().bits())
            .collect()
    };
    arrays.iter().map(bits).collect()
}

#[track_caller]
fn band(plan: &Plan) -> &Band {
    assert_eq!(plan.bands.len(), 1, "{}", plan.explain());
    &plan.bands[0]
}

#[test]
fn softmax_and_layer_norm_are_one_band_without_temporaries() {
    let x = random(&[1000, 300]);
    for tensor in [x.softmax(1), layer_norm(&x)] {
        let (plan, _) = Plan::new(&[&tensor], &Host::new().target()).unwrap();
        let band = band(&plan);
        assert_eq!(band.steps.len(), plan.steps.len(), "{}", plan.explain());
        assert_eq!((band.n_rows, band.outputs.len()), (1000, 1));
        assert_eq!(plan.peak_bytes(), 0);
        let pieces = band.n_rows.div_ceil(band.piece_rows);
        assert!(pieces >= 32, "{pieces} pieces");
    }
}

#[test]
fn the_exponentials_of_a_softmax_are_computed_once_in_a_band() {
    let exponentials = |plan: &Plan| {
        let nests = plan.steps.iter().flat_map(|step| &step.nest.values);
        nests
            .filter(|value| value.to_string().starts_with("exp"))
            .count()
    };
    let softmax = random(&[1000, 300]).softmax(1);
    let target = Host::new().target();
    let (plan, _) = Plan::new(&[&softmax], &target).unwrap();
    assert_eq!(exponentials(&plan), 1, "{}", plan.explain());
    let apart = Target {
        min_band: None,
        ..target
    };
    let (plan, _) = Plan::new(&[&softmax], &apart).unwrap();
    assert_eq!((exponentials(&plan), plan.bands.len()), (2, 0));
}

#[test]
fn small_arrays_and_executors_without_bands_have_none() {
    let (small, _) = Plan::new(&[&random(&[8, 8]).softmax(1)], &Host::new().target()).unwrap();
    assert!(small.bands.is_empty());
    let large = random(&[1000, 300]).softmax(1);
    let (plan, _) = Plan::new(&[&large], &Reference.target()).unwrap();
    assert!(plan.bands.is_empty());
}

/// Returns programs with bands of all kinds.
fn programs() -> Vec<(&'static str, Vec<Tensor>)> {
    let mut programs = Vec::new();
    // Numbers of rows around the number of pieces, and lengths of rows around a block of lanes.
    for rows in [2, 3, 31, 32, 33, 67] {
        for cols in [1, 5, 511, 513, 1025] {
            let x = random(&[rows, cols]);
            programs.push(("softmax", vec![x.softmax(1)]));
            programs.push(("layer norm", vec![layer_norm(&x)]));
        }
    }
    let x = random(&[40, 6, 50]);
    let scores = x.softmax(2);
    // An array of the band that is also an output, and two outputs.
    programs.push(("two outputs", vec![scores.clone(), scores.sum(2)]));
    // Rows of two axes, and rows that are parts of an axis.
    programs.push(("rows of planes", vec![x.sum(2).softmax(1)]));
    let halves = x.reshape(&[80, 150]).max(1).reshape(&[40, 2]);
    programs.push(("halves", vec![halves.exp().sum(1) + 1.0]));
    // A transposition within a row, and a gather from an array outside.
    let sums = x.sum(2).exp();
    let turned = (x.permute(&[0, 2, 1]) - sums.expand_dims(1)).sum(2);
    programs.push(("turned", vec![turned]));
    let table = random(&[7]);
    let at = x.argmax(2).cast(DType::I32) % 7;
    programs.push(("gather", vec![table.gather(&at, 0).sum(1)]));
    // Positions, comparisons and other types.
    let even = (Tensor::arange(50) % 2).eq(0);
    let counted = (x.gt(x.mean(Axes::keepdims(2))) & even).count(2);
    programs.push(("counts", vec![counted.cast(DType::F64).sqrt()]));
    programs
}

#[test]
fn bands_have_the_bits_of_single_steps_on_any_number_of_threads() {
    for (name, tensors) in programs() {
        let asked: Vec<&Tensor> = tensors.iter().collect();
        let (plan, data) = planned(&asked);
        assert!(!plan.bands.is_empty(), "{name}\n{}", plan.explain());
        let mut apart = plan.clone();
        apart.bands = Arc::new([]);
        let expected = run(&Host::new(), &apart, &data);
        let (reference, its_data) = Plan::new(&asked, &Reference.target()).unwrap();
        let exact = run(&Reference, &reference, &its_data);
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let results = pool
                .build()
                .unwrap()
                .install(|| run(&Host::new(), &plan, &data));
            assert_eq!(
                bits(&results),
                bits(&expected),
                "{name} on {threads} threads"
            );
        }
        for (result, exact) in expected.iter().zip(&exact) {
            let numbers = |data: &HostData| -> Vec<f64> {
                (0..data.len())
                    .map(|at| data.get(at).unwrap().to_f64())
                    .collect()
            };
            // The largest error of a few hundred roundings in f32.
            let bound = Tolerance::relative(1 << 40).or_absolute(1e-4);
            assert_close(numbers(result), numbers(exact), bound);
        }
    }
}

#[test]
fn a_step_that_reads_other_rows_stays_outside() {
    // Each row is the difference of a row and the row before.
    let sums = random(&[100, 30]).exp().sum(1);
    let differences = sums.slice(0, 1..) - sums.slice(0, ..-1);
    let (plan, data) = planned(&[&(differences * 2.0)]);
    assert!(plan.bands.is_empty(), "{}", plan.explain());
    assert_eq!(run(&Host::new(), &plan, &data)[0].len(), 99);
}

#[test]
fn an_error_in_a_band_has_the_line_of_its_operation() {
    let index = Tensor::from_vec(&[64], (0..64).collect::<Vec<i32>>());
    let sums = (index.expand_dims(1) + Tensor::arange(8)).max(1);
    let line = line!() + 1;
    let doubled = random(&[40]).gather(&sums, 0) * 2.0;
    let (plan, data) = planned(&[&doubled]);
    let failed = pollster::block_on(exec::run(&Host::new(), &plan, &data)).unwrap_err();
    assert!(
        matches!(failed.root(), Error::IndexOutOfRange { .. }),
        "{failed}"
    );
    assert_eq!(
        failed.location().map(|location| location.line()),
        Some(line)
    );
    assert_eq!(plan.bands.len(), 1, "{}", plan.explain());
}

#[test]
fn a_plan_with_a_changed_band_is_rejected() {
    let (plan, data) = planned(&[&random(&[64, 40]).softmax(1)]);
    let changed = |change: fn(&mut Band)| {
        let mut plan = plan.clone();
        let mut band = plan.bands[0].clone();
        change(&mut band);
        plan.bands = Arc::new([band]);
        plan
    };
    let changes: [fn(&mut Band); 7] = [
        |band| band.n_rows = 32,
        |band| band.piece_rows = 0,
        |band| band.steps = vec![0, 99],
        |band| band.steps.reverse(),
        |band| band.steps.clear(),
        |band| band.inputs.clear(),
        |band| band.outputs.push(BufferId(0)),
    ];
    for change in changes {
        let plan = changed(change);
        assert!(plan.check().unwrap_err().contains("band 0"));
        let result = pollster::block_on(exec::run(&Host::new(), &plan, &data));
        assert!(matches!(result.unwrap_err().root(), Error::BadStep { .. }));
    }
    let mut twice = plan.clone();
    twice.bands = Arc::new([plan.bands[0].clone(), plan.bands[0].clone()]);
    assert!(twice.check().unwrap_err().contains("band 1"));
    assert_eq!(plan.buffers[plan.outputs[0].0].kind, Kind::Output);
    plan.check().unwrap();
}

#[test]
fn a_band_needs_scratch_memory_for_its_pieces_alone() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    let host = Host::new();
    let softmax = random(&[4096, 500]).softmax(1);
    let output = pool.install(|| softmax.realize(&host)).unwrap();
    let extra = host.peak_bytes() - 4 * 4096 * 500;
    // Each thread has one piece at a time of at most 512 KiB.
    assert!(extra <= 2 << 19, "{extra} bytes");
    assert_eq!(output.shape().unwrap(), [4096, 500]);
}
