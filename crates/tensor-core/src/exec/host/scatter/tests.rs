//! Scatters of each form, by their definition, and the nests that are recognized as scatters.

use super::pass::{TASK, WIDE};
use crate::dtype::Element;
use crate::exec::Executor;
use crate::ir::Scatter;
use crate::plan::Plan;
use crate::rng::Philox;
use crate::{Host, Reference, Tensor, grad};

/// Returns random numbers below `limit`.
fn numbers(len: usize, limit: u32, stream: u64) -> Vec<u32> {
    let random = Philox::new(3).stream(stream);
    let len = u64::try_from(len).unwrap();
    (0..len).map(|at| random.word(at) % limit).collect()
}

/// Evaluates a tensor on some numbers of threads and returns the result if all have the same bits.
fn on_all_threads<T: Element + PartialEq>(tensor: &Tensor, what: &str) -> Vec<T> {
    let on = |n_threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
        let eval = || tensor.eval::<T>(&Host::new()).unwrap();
        pool.build()
            .unwrap()
            .install(eval)
            .into_raw_vec_and_offset()
            .0
    };
    let one = on(1);
    for n_threads in [2, 3, 8] {
        assert!(on(n_threads) == one, "{what}: {n_threads} threads");
    }
    one
}

/// The sizes of a scatter along the middle one of three axes.
#[derive(Debug, Clone, Copy)]
struct Case {
    outer: usize,
    positions: usize,
    width: usize,
    terms: usize,
    /// Whether each element has an index of its own.
    is_along_axis: bool,
}

impl Case {
    /// Compares the sums, maxima and minima of whole numbers with loops.
    fn check<T: Element + PartialEq + Into<f64>>(self, convert: impl Fn(u32) -> T) {
        let Self {
            outer,
            positions,
            width,
            terms,
            is_along_axis,
        } = self;
        let what = format!("{self:?}");
        let len = outer * terms * width;
        let shape = [outer, terms, width];
        let index_len = if is_along_axis { len } else { terms };
        let at = numbers(index_len, u32::try_from(positions).unwrap(), 1);
        let elements = numbers(len, 100, 2);
        let start: Vec<u32> = numbers(outer * positions * width, 60, 3);
        let tensor = |shape: &[usize], from: &[u32]| {
            Tensor::from_vec(shape, from.iter().map(|&x| convert(x)).collect())
        };
        let x = tensor(&[outer, positions, width], &start);
        let values = tensor(&shape, &elements);
        let index: &[usize] = if is_along_axis { &shape } else { &[terms] };
        let index = Tensor::from_vec(index, at.clone());
        let [mut sums, mut most, mut least] = [start.clone(), start.clone(), start];
        for (number, &element) in elements.iter().enumerate() {
            let (outer, column) = (number / width / terms, number % width);
            let at = if is_along_axis {
                at[number]
            } else {
                at[number / width % terms]
            };
            let place = (outer * positions + at as usize) * width + column;
            sums[place] += element;
            most[place] = most[place].max(element);
            least[place] = least[place].min(element);
        }
        let results = if is_along_axis {
            [
                x.scatter_add_along_axis(&index, &values, 1),
                x.scatter_max_along_axis(&index, &values, 1),
                x.scatter_min_along_axis(&index, &values, 1),
            ]
        } else {
            [
                x.scatter_add(&index, &values, 1),
                x.scatter_max(&index, &values, 1),
                x.scatter_min(&index, &values, 1),
            ]
        };
        for (result, expected) in results.iter().zip([sums, most, least]) {
            let expected: Vec<T> = expected.into_iter().map(&convert).collect();
            assert!(on_all_threads::<T>(result, &what) == expected, "{what}");
        }
    }
}

#[test]
fn scatters_of_every_form_have_the_results_of_plain_loops() {
    for is_along_axis in [false, true] {
        for (outer, positions, width, terms) in [
            (1, 8, 1, 1),
            (1, 8, 1, 1000),
            (3, 9, 1, 50),
            // Several outer indices in each of several tasks.
            (TASK / 2, 9, 1, 3),
            (1, 3000, 1, 7),
            (2, 10, 5, 20),
            (1, 8, WIDE - 1, 100),
            (1, 8, WIDE, 100),
            // Positions divided between threads.
            (1, 31, 4 * WIDE, 2 * TASK / (4 * WIDE) + 3),
            // Elements divided into parts.
            (1, 10, 1, 2 * TASK - 1),
            (1, 10, 1, 2 * TASK),
            (1, 100, 1, 20 * TASK + 17),
            (2, 10, 3, TASK),
            (17, 10, 1, 3 * TASK),
        ] {
            let case = Case {
                outer,
                positions,
                width,
                terms,
                is_along_axis,
            };
            case.check(f64::from);
            case.check(|x| x);
            case.check(|x| i32::try_from(x).unwrap());
            case.check(|x| x as f32);
        }
    }
}

#[test]
fn sums_of_many_floats_are_those_of_f64() {
    // A sum in f32 would stay at 2^24.
    let ones = Tensor::full(&[(1 << 24) + 1000], 1.0_f32);
    let index = Tensor::from_vec(&[1], vec![3_u32]).broadcast_to(&[(1 << 24) + 1000]);
    let sums = Tensor::full(&[8], 0.0_f32).scatter_add(&index, &ones, 0);
    let sums = sums.eval::<f32>(&Host::new()).unwrap();
    assert_eq!(sums[[3]], 16_778_216.0);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for (shape, positions) in [
        ([1, 20 * TASK, 1], 50),
        ([2, 3 * TASK, 3], 10),
        ([1, 4000, 64], 9),
    ] {
        let len: usize = shape.iter().product();
        let elements = (0..len).map(|at| (at as f32 * 0.37).sin()).collect();
        let elements = Tensor::from_vec(&shape, elements).exp();
        let index = numbers(shape[1], u32::try_from(positions).unwrap(), 5);
        let index = Tensor::from_vec(&[shape[1]], index);
        let start = Tensor::full(&[shape[0], positions, shape[2]], 0.1_f32);
        let sums = start.scatter_add(&index, &elements, 1);
        on_all_threads::<f32>(&sums.sqrt(), &format!("{shape:?}"));
    }
}

#[test]
fn not_a_number_is_kept_at_its_position_alone() {
    let values = Tensor::from_vec(&[4], vec![1.0_f32, f32::NAN, 3.0, -0.0]);
    let index = Tensor::from_vec(&[4], vec![1_u32, 2, 1, 5]);
    let start = Tensor::full(&[8], 2.0_f32);
    for result in [
        start.scatter_add(&index, &values, 0),
        start.scatter_max(&index, &values, 0),
        start.scatter_min(&index, &values, 0),
    ] {
        let result = result.eval::<f32>(&Host::new()).unwrap();
        for (at, x) in result.iter().enumerate() {
            assert_eq!(x.is_nan(), at == 2, "{result}");
        }
    }
}

/// Returns how many steps of a program are scatters, after its results on the host are compared
/// with the reference.
fn n_scatters(program: &Tensor) -> usize {
    let [host, reference] = [
        program
            .cast(crate::DType::F64)
            .eval::<f64>(&Host::new())
            .unwrap(),
        program
            .cast(crate::DType::F64)
            .eval::<f64>(&Reference)
            .unwrap(),
    ];
    assert_eq!(host, reference, "{program:?}");
    let (plan, _) = Plan::new(&[program], &Host::new().target()).unwrap();
    let is_scatter = |step: &&crate::plan::Step| Scatter::from_nest(&step.nest).is_some();
    plan.steps.iter().filter(is_scatter).count()
}

#[test]
fn programs_that_scatter_are_recognized() {
    let (n, k) = (12, 40);
    let index = Tensor::from_vec(&[k], numbers(k, 12, 1));
    let signed = index.cast(crate::DType::I32) - 5;
    let whole = |shape: &[usize]| {
        let len = shape.iter().product();
        let numbers = numbers(len, 8, 2).into_iter().map(|x| x as f32).collect();
        Tensor::from_vec(shape, numbers)
    };
    let (line, table, x) = (whole(&[k]), whole(&[n, 3]), whole(&[k, 3]));
    let zeros = Tensor::full(&[n], 0.0_f32);
    let of = |loss: Tensor, by: &Tensor| grad(&loss, &[by]).unwrap().remove(0);
    let sums = zeros.scatter_add(&index, &line, 0);
    let counts = index.bincount(n);
    let looked_up = (table.gather(&signed, 0) * &x).sum(..);
    let along = Tensor::from_vec(&[k, 3], numbers(3 * k, 12, 4));
    let along = (table.take_along_axis(&along, 0) * &x).sum(..);
    for (name, program) in [
        ("sums", sums.clone()),
        ("counts", counts.clone()),
        (
            "counts by comparison",
            signed.expand_dims(-1).eq(Tensor::arange(12)).count(0),
        ),
        ("a histogram", line.histogram(9, 0.0, 8.0)),
        (
            "sums divided by counts",
            &sums / counts.cast(crate::DType::F32).maximum(1.0),
        ),
        (
            "computed elements",
            zeros.scatter_add(&index, &line.square(), 0),
        ),
        ("reversed sums", sums.flip(0)),
        ("some of the sums", sums.slice(0, 2..11)),
        ("sums in another shape", sums.reshape(&[3, 4])),
        (
            "transposed sums",
            Tensor::full(&[n, 3], 0.0_f32)
                .scatter_add(&index, &x, 0)
                .t(),
        ),
        ("a maximum", zeros.scatter_max(&index, &line, 0)),
        ("the gradient of a gather", of(looked_up, &table)),
        ("the gradient of a gather along an axis", of(along, &table)),
    ] {
        assert!(n_scatters(&program) > 0, "{name}");
    }
    let scattered = Tensor::full(&[n], 1.0_f32).scatter_max(&index, &line, 0);
    let squares = scattered.square().sum(..);
    let gradient = of(squares, &line);
    let (plan, _) = Plan::new(&[&gradient], &Host::new().target()).unwrap();
    assert!(n_scatters(&gradient) >= 2, "{}", plan.explain());
    // A comparison with few positions is faster.
    assert_eq!(n_scatters(&index.rem(5_u32).bincount(5)), 0);
}

#[test]
fn several_folds_of_one_index_are_one_step() {
    let index = Tensor::from_vec(&[100], numbers(100, 12, 1));
    let x = Tensor::from_vec(&[100], numbers(100, 8, 2));
    let zeros = Tensor::full(&[12], 0_u32);
    let both = zeros.scatter_add(&index, &x, 0) * zeros.scatter_max(&index, &x, 0);
    let (plan, _) = Plan::new(&[&both], &Host::new().target()).unwrap();
    let folds = |step: &crate::plan::Step| Scatter::from_nest(&step.nest).map(|it| it.folds.len());
    let n_folds: Vec<usize> = plan.steps.iter().filter_map(folds).collect();
    assert_eq!(n_folds, [2], "{}", plan.explain());
    n_scatters(&both);
}

#[test]
fn positions_that_a_view_leaves_out_are_not_checked() {
    // Guards of padding, elements that a slice leaves out, and an index that is repeated.
    let index = Tensor::from_vec(&[4], vec![99_i32, 3, -1, 99]);
    let [x, few] = [40, 8].map(|n| Tensor::full(&[n], 1.0_f32));
    let inside = index.slice(0, 1..3);
    for (program, expected) in [
        (x.scatter_add(&inside, &Tensor::scalar(2.0_f32), 0), 44.0),
        (
            few.scatter_add(&inside.pad(0, 2, 3, 1), &Tensor::scalar(2.0_f32), 0),
            22.0,
        ),
        (
            x.scatter_max(
                &inside.expand_dims(0).broadcast_to(&[5, 2]),
                &Tensor::scalar(2.0_f32),
                0,
            ),
            42.0,
        ),
    ] {
        for executor in [&Host::new() as &dyn Executor, &Reference] {
            let sum = program.sum(..).eval::<f32>(executor).unwrap();
            assert_eq!(sum.first(), Some(&expected));
        }
    }
    // A table of positions returns the positions that the index names.
    let named = Tensor::arange(7)
        .cast(crate::DType::U32)
        .gather(&inside.pad(0, 1, 1, -7), 0);
    for executor in [&Host::new() as &dyn Executor, &Reference] {
        let named = named.pad(0, 1, 0, 5).eval::<u32>(executor).unwrap();
        assert_eq!(named.into_raw_vec_and_offset().0, [5, 0, 3, 6, 0]);
    }
}

#[test]
fn terms_of_any_strides_are_read_without_copies() {
    // Sums over two axes of an index; the elements are repeated along one of them, or transposed.
    let index = Tensor::from_vec(&[6, 500], numbers(3000, 12, 1));
    let whole = |shape: &[usize], stream: u64| {
        let len = shape.iter().product();
        let numbers = numbers(len, 8, stream).into_iter().map(|x| x as f32);
        Tensor::from_vec(shape, numbers.collect())
    };
    let zeros = |shape: &[usize]| Tensor::full(shape, 0.0_f32);
    let (bags, rows) = (whole(&[6, 20], 2), whole(&[500, 6], 3));
    let each = whole(&[500, 6, 20], 5);
    for (name, program, expected) in [
        (
            "repeated rows",
            zeros(&[12, 20]).scatter_add(
                &index,
                &bags.expand_dims(1).broadcast_to(&[6, 500, 20]),
                0,
            ),
            0,
        ),
        (
            "repeated elements",
            zeros(&[12]).scatter_add(&index, &bags.slice(1, ..1), 0),
            0,
        ),
        (
            "one element",
            zeros(&[12]).scatter_max(&index, &Tensor::scalar(3.0_f32), 0),
            0,
        ),
        (
            "transposed elements",
            zeros(&[12]).scatter_add(&index, &rows.t(), 0),
            1,
        ),
        (
            "transposed rows",
            zeros(&[12, 20]).scatter_add(&index, &each.permute(&[1, 0, 2]), 0),
            0,
        ),
        (
            "a repeated index",
            zeros(&[9, 20]).scatter_min(
                &index.slice(0, ..1).rem(9_u32).broadcast_to(&[6, 500]),
                &each.permute(&[1, 0, 2]),
                0,
            ),
            0,
        ),
        (
            "flipped rows",
            zeros(&[12, 20]).scatter_add(&index, &each.permute(&[1, 0, 2]).flip(1), 0),
            1,
        ),
    ] {
        assert!(n_scatters(&program) == 1, "{name}");
        let host = Host::new();
        let result = program.eval::<f32>(&host).unwrap();
        // Besides the results, a copy of the elements where one is expected, and the index if it is
        // computed.
        let copied = expected * 4 * 500 * 6 * if name == "flipped rows" { 20 } else { 1 };
        let computed = if name == "a repeated index" {
            4 * 500
        } else {
            0
        };
        let most = 4 * result.len() * 3 + copied + computed + 512;
        assert!(
            host.peak_bytes() <= most,
            "{name}: {} bytes",
            host.peak_bytes()
        );
    }
}

#[test]
fn gradients_of_scatters_and_lookups_by_comparison_have_no_loop_over_positions() {
    let index = Tensor::from_vec(&[40], numbers(40, 12, 1));
    let numbers = |shape: &[usize]| {
        let len: usize = shape.iter().product();
        Tensor::from_vec(
            shape,
            numbers(len, 8, 2).into_iter().map(|x| x as f32).collect(),
        )
    };
    let (values, start, table) = (numbers(&[40, 3]), numbers(&[12, 3]), numbers(&[12]));
    let looked_up_by = |index: Tensor, places: Tensor| {
        let hits = index.expand_dims(-1).eq(places);
        hits.select(&table, 0.0).sum(-1)
    };
    let places = Tensor::arange(12).cast(crate::DType::U32);
    let looked_up = |index: &Tensor| looked_up_by(index.clone(), places.clone());
    let squares = |x: Tensor| x.square().sum(..);
    let of = |loss: Tensor, by: &Tensor| grad(&loss, &[by]).unwrap().remove(0);
    for (name, program) in [
        (
            "sums",
            of(squares(start.scatter_add(&index, &values, 0)), &values),
        ),
        (
            "maxima",
            of(squares(start.scatter_max(&index, &values, 0)), &values),
        ),
        ("lookups", looked_up(&index)),
        (
            "lookups of signed positions",
            looked_up_by((&index - 3_u32).cast(crate::DType::I32), Tensor::arange(12)),
        ),
        (
            "lookups of positions that do not exist",
            looked_up(&(&index * 2_u32)),
        ),
    ] {
        n_scatters(&program);
        let (plan, _) = Plan::new(&[&program], &Host::new().target()).unwrap();
        for step in &*plan.steps {
            let is_scatter = Scatter::from_nest(&step.nest).is_some();
            let has_loop = step.nest.reduce.contains(&12);
            assert!(is_scatter || !has_loop, "{name}: {}", plan.explain());
        }
    }
}

#[test]
fn a_sum_of_one_negative_zero_is_zero() {
    let index = Tensor::from_vec(&[2], vec![3_u32, 9]);
    let hits = index
        .expand_dims(-1)
        .eq(Tensor::arange(9).cast(crate::DType::U32));
    let sums = hits.select(Tensor::full(&[9], -0.0_f32), 0.0).sum(-1);
    for executor in [&Host::new() as &dyn Executor, &Reference] {
        let quotients = (1.0 / &sums).eval::<f32>(executor).unwrap();
        assert_eq!(quotients.into_raw_vec_and_offset().0, [f32::INFINITY; 2]);
    }
}

#[test]
fn a_comparison_with_positions_of_another_axis_checks_its_index() {
    let at = Tensor::from_vec(&[3], vec![1_i32, 15, 2]);
    let places = |n: usize| Tensor::arange(n).cast(crate::DType::U32);
    let counts = |n: usize| {
        let hits = places(10).gather(&at, 0).expand_dims(-1).eq(places(n));
        hits.count(0)
    };
    // Every index of a gather is checked, whether its element is selected or not.
    let index = Tensor::from_vec(&[4], vec![3_u32, 0, 1, 2]);
    let all = Tensor::from_vec(
        &[4, 12],
        (0..48).map(|i| if i == 5 { 15 } else { 0 }).collect(),
    );
    let table = Tensor::full(&[10], 1.0_f32);
    let elements = table.gather(&all, 0);
    let selected = index.expand_dims(-1).eq(places(12)).select(elements, 0.0);
    // The looked up element is the same at every position.
    let hits = places(10).gather(&at, 0).expand_dims(-1).eq(places(10));
    let ones = hits.select(Tensor::scalar(1_u32), 0).sum(-1);
    for program in [
        ones,
        counts(20),
        counts(10),
        counts(9),
        selected.sum(-1).cast(crate::DType::U32),
    ] {
        for executor in [&Host::new() as &dyn Executor, &Reference] {
            let error = program.eval::<u32>(executor).unwrap_err().to_string();
            let expected = "index 15 is out of range (the axis has 10 elements)";
            assert!(error.contains(expected), "{error}");
        }
    }
}

#[test]
fn a_position_outside_the_axis_is_an_error() {
    let x = Tensor::full(&[20], 1.0_f32);
    let one = Tensor::scalar(1.0_f32);
    let at = |bad: i32, n: usize| {
        let good = (0..7).cycle().take(n);
        Tensor::from_vec(&[n + 1], good.chain([bad]).collect())
    };
    let wide = Tensor::full(&[20, 2 * WIDE], 1.0_f32);
    for bad in [20, -21, i32::MAX, i32::MIN] {
        for (name, program) in [
            ("sums", x.scatter_add(&at(bad, 3), &one, 0)),
            (
                "some of the sums",
                x.scatter_add(&at(bad, 3), &one, 0).slice(0, 2..12),
            ),
            ("reversed sums", x.scatter_add(&at(bad, 3), &one, 0).flip(0)),
            (
                "some of the reversed sums",
                x.scatter_add(&at(bad, 3), &one, 0).flip(0).slice(0, 9..),
            ),
            ("parts", x.scatter_add(&at(bad, 5 * TASK), &one, 0)),
            ("wide rows", wide.scatter_add(&at(bad, TASK / 8), &one, 0)),
            (
                "along an axis",
                x.scatter_max_along_axis(&at(bad, 3), &one, 0),
            ),
            (
                "rows along an axis",
                wide.scatter_min_along_axis(&at(bad, 3).expand_dims(1), &one, 0),
            ),
        ] {
            let executors: [&dyn Executor; 2] = [&Host::new(), &Reference];
            for executor in executors
                .into_iter()
                .take(if name == "parts" { 1 } else { 2 })
            {
                let error = program.eval::<f32>(executor).unwrap_err().to_string();
                let expected = format!("index {bad} is out of range (the axis has 20 elements)");
                assert!(error.contains(&expected), "{name}: {error}");
            }
        }
    }
    for (index, shown) in [(at(8, 3), 8), (at(-1, 3), u32::MAX)] {
        let error = index
            .bincount(8)
            .eval::<u32>(&Host::new())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("index {shown} is out of range")),
            "{error}"
        );
    }
}
