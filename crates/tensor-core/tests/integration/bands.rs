//! Bands: plans whose steps run piece by piece.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::sync::Arc;

use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::exec::{self, Executor, Storage};
use tensor_core::plan::{Band, BufferId, BufferKind, Plan, Target};
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

/// Returns `softmax(q · kᵀ / √width) · v` for each index of the first axis.
fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    let width = q.shape().unwrap()[2] as f64;
    let scores = q.matmul(&k.swap_axes(1, 2)) / width.sqrt();
    scores.softmax(2).matmul(v)
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
fn attention_is_one_band_and_holds_no_scores() {
    for [batch, length, width] in [[16, 256, 64], [2, 1000, 64], [1, 2048, 16], [1, 4096, 64]] {
        let [q, k, v] = [0, 1, 2].map(|_| random(&[batch, length, width]));
        let (plan, data) = Plan::new(&[&attention(&q, &k, &v)], &Host::new().target()).unwrap();
        let band = band(&plan);
        assert_eq!(band.steps.len(), plan.steps.len(), "{}", plan.explain());
        assert_eq!(plan.peak_bytes(), 0);
        let host = Host::new();
        let threads = rayon::ThreadPoolBuilder::new().num_threads(2);
        let threads = threads.build().unwrap();
        threads.install(|| run(&host, &plan, &data));
        let (scores, result) = (4 * batch * length * length, 4 * batch * length * width);
        let extra = host.peak_bytes() - result;
        // Two arrays of the scores of a piece for each thread, at most 2 MiB.
        assert!(
            extra <= 4 << 20 && extra < scores / 2,
            "{extra} bytes beyond the result, scores of {scores} bytes"
        );
    }
}

#[test]
fn products_stay_outside_if_their_pieces_would_have_few_rows() {
    // Products of few rows, with a factor of 8 MB, and with a factor of 1 MB.
    for [rows, inner, is_banded] in [[40, 256, 0], [1024, 2048, 0], [1024, 256, 1]] {
        let product = random(&[rows, inner]).matmul(&random(&[inner, 1024]));
        let (plan, _) = planned(&[&product.softmax(1)]);
        let in_band = plan.bands.iter().flat_map(|band| &band.steps);
        let products = in_band.filter(|&&at| plan.steps[at].nest.contract.is_some());
        assert_eq!(products.count(), is_banded, "{}", plan.explain());
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

/// The name of programs that take seconds on the reference executor. They are compared with single
/// steps only; a smaller program of the same form is also compared with the reference.
const LONG: &str = "long turned attention";

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
    // Products with operations on rows between them: the last piece has one row, or pieces consist
    // of a part of a product, or of whole products. Sums have one block or several.
    for [batch, length, width] in [[1, 993, 16], [3, 300, 20], [40, 48, 64], [1, 520, 70]] {
        let [q, k, v] = [0, 1, 2].map(|_| random(&[batch, length, width]));
        programs.push(("attention", vec![attention(&q, &k, &v)]));
        // The columns of the last product are the outer side of its result.
        let scores = q.matmul(&k.swap_axes(1, 2)).softmax(2);
        let turned = v.swap_axes(1, 2).matmul(&scores.swap_axes(1, 2));
        let name = if batch == 3 { "turned attention" } else { LONG };
        programs.push((name, vec![turned * 2.0]));
    }
    let wide = random(&[300, 40]).cast(DType::F64);
    let product = wide.matmul(&random(&[40, 60]).cast(DType::F64));
    programs.push(("f64", vec![product.softmax(1), product.max(1)]));
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
        if name == LONG {
            continue;
        }
        let (reference, its_data) = Plan::new(&asked, &Reference.target()).unwrap();
        let exact = run(&Reference, &reference, &its_data);
        for (result, exact) in expected.iter().zip(&exact) {
            let numbers = |data: &HostData| -> Vec<f64> {
                (0..data.len())
                    .map(|at| data.get(at).unwrap().to_f64())
                    .collect()
            };
            let (result, exact) = (numbers(result), numbers(exact));
            // A few hundred roundings in f32, relative to the largest element.
            let largest = exact.iter().map(|x| x.abs()).fold(0.0, f64::max);
            let bound = Tolerance::exact().or_absolute(3e-5 * largest);
            assert_close(result, exact, bound);
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
    let sums = ((index.expand_dims(1) + Tensor::arange(8)) % 100).max(1);
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
    let changes: [fn(&mut Band); 8] = [
        |band| band.n_rows = 48,
        |band| band.piece_rows = 0,
        |band| band.steps = vec![0, 99],
        // The step in between needs the first step, and the last step needs the one in between.
        |band| band.steps = vec![0, 3],
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
    assert_eq!(plan.buffers[plan.outputs[0].0].kind, BufferKind::Output);
    plan.check().unwrap();
}

#[test]
fn folds_over_pairs_stay_outside() {
    // The distances of all rows of two matrices, which the host computes in tiles.
    let [x, y] = [random(&[300, 20]), random(&[64, 20])];
    let distances = (x.expand_dims(1) - y.expand_dims(0)).abs().sum(2);
    let (plan, _) = planned(&[&(-distances).softmax(1)]);
    let band = band(&plan);
    assert_eq!(
        (plan.steps.len(), band.steps.len()),
        (5, 4),
        "{}",
        plan.explain()
    );
    let is_in_band = band.steps.contains(&0);
    assert!(!is_in_band && band.inputs == [plan.steps[0].output]);
}

#[test]
fn a_table_of_a_band_is_gathered_outside() {
    let table = random(&[64, 5]).exp().sum(1);
    let at = Tensor::from_vec(&[64], (0..64).rev().collect::<Vec<i32>>());
    let (plan, data) = planned(&[&(table.gather(&at, 0) + 1.0).exp()]);
    assert!(plan.bands.is_empty(), "{}", plan.explain());
    assert_eq!(run(&Host::new(), &plan, &data)[0].len(), 64);
}

#[test]
fn a_plan_with_bands_runs_on_two_executors() {
    let softmax = random(&[64, 40]).softmax(1);
    let (plan, data) = planned(&[&softmax]);
    let expected = run(&Host::new(), &plan, &data);
    let (first, second) = (Host::new(), Host::new());
    let executors: [&dyn Executor; 2] = [&first, &second];
    let arrays = exec::run_with(&executors, &plan, &data, |number, _| number % 2);
    let array = pollster::block_on(arrays).unwrap().remove(0);
    let result = pollster::block_on(array.read()).unwrap();
    assert_eq!(bits(&[result]), bits(&expected));
    // Each executor computes two steps, so both need memory.
    assert!(first.peak_bytes() > 0 && second.peak_bytes() > 0);
}

#[test]
fn inputs_of_a_band_are_dropped_after_the_band() {
    // The sums need the exponentials of all rows, so they are no part of the next band.
    let x = random(&[512, 512]);
    let product = x.matmul(&x);
    let softmax = (&product * 0.01).softmax(1);
    let last = softmax.matmul(&x);
    let (plan, data) = planned(&[&last]);
    assert_eq!(plan.bands.len(), 1, "{}", plan.explain());
    let host = Host::new();
    run(&host, &plan, &data);
    // The product and its softmax, then the softmax and the result: two arrays at a time, and
    // scratch memory.
    let array = 4 * 512 * 512;
    assert!(
        host.peak_bytes() < 2 * array + array / 2 + (4 << 20),
        "{}",
        host.peak_bytes()
    );
}

#[test]
fn bands_hold_no_more_arrays_than_single_steps() {
    /// The maximum number of bytes of a piece.
    const PIECE: usize = 1 << 19;
    /// The scratch memory of two threads, and the piece by which bands may raise the peak.
    const WORKING: usize = 2 * PIECE + PIECE;
    let weights = random(&[256, 8]);
    // Layers whose results are also read outside of their band: by products, or by columns.
    let products = |n: usize| {
        let (mut x, mut read) = (random(&[512, 256]), Vec::new());
        for _ in 0..n {
            x = x.softmax(1);
            read.push(x.matmul(&weights));
            x = (&x * 3.0).tanh();
        }
        [read, vec![x]].concat()
    };
    let columns = |n: usize| {
        let (mut x, mut read) = (random(&[1024, 256]), Vec::new());
        for _ in 0..n {
            x = (&x - x.max(Axes::keepdims(1))).exp();
            read.push(x.sum(0));
        }
        [read, vec![x]].concat()
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    for n in [1, 3, 8, 16] {
        for tensors in [products(n), columns(n)] {
            let asked: Vec<&Tensor> = tensors.iter().collect();
            let target = Host::new().target();
            let (plan, data) = Plan::new(&asked, &target).unwrap();
            let alone = Target {
                min_band: None,
                ..target
            };
            let (apart, _) = Plan::new(&asked, &alone).unwrap();
            assert!(!plan.bands.is_empty(), "{}", plan.explain());
            let peak = |plan: &Plan| {
                let host = Host::new();
                pool.install(|| run(&host, plan, &data));
                host.peak_bytes()
            };
            let (with, without) = (peak(&plan), peak(&apart));
            assert!(
                with <= without + WORKING,
                "{n} layers: {with}, {without} without bands"
            );
        }
    }
}

#[test]
fn a_large_band_begins_within_a_small_one() {
    // The first two steps share 4 rows and are small. The third has rows that are too large for
    // them, but shares 1024 rows with the second.
    let first = random(&[4, 64]).max(1).reshape(&[4, 1, 1]);
    let second = (random(&[4, 256, 4]) - first).max(Axes::keepdims(2));
    let third = (random(&[4, 256, 512]) - second).exp();
    let (plan, _) = Plan::new(&[&third], &Host::new().target()).unwrap();
    let rows: Vec<usize> = plan.bands.iter().map(|band| band.n_rows).collect();
    assert_eq!(rows, [1024], "{}", plan.explain());
}

#[test]
fn a_plan_has_no_bands_if_waiting_for_an_input_raises_the_peak() {
    // The products have too few rows to join bands.
    let (x, narrow) = (random(&[200, 8]), random(&[8, 4096]));
    // A band reads a large array, which was computed early, and the maxima of the columns of a
    // chain of products. In the meantime the chain needs an array of 200 rows of `len`.
    let planned = |len: usize, min_band: Option<usize>| {
        let early = x.matmul(&narrow);
        let large = x.matmul(&random(&[8, 4096])).matmul(&random(&[4096, 8]));
        let larger = large.matmul(&random(&[8, len]));
        let y = (larger.max(0) - early.max(Axes::keepdims(1))).exp();
        let target = Target {
            min_band,
            ..Host::new().target()
        };
        Plan::new(&[&y], &target).unwrap().0
    };
    let min_band = Host::new().target().min_band;
    let (short, long) = (planned(256, min_band), planned(8192, min_band));
    assert!(!short.bands.is_empty(), "{}", short.explain());
    assert!(long.bands.is_empty(), "{}", long.explain());
    assert_eq!(long.peak_bytes(), planned(8192, None).peak_bytes());
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
