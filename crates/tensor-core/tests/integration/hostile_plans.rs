//! Plans and nests that were built or changed by hand are rejected with an error, never a panic;
//! and plans store results that are expensive to compute again.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::sync::Arc;

use tensor_core::exec::{self, Executor, HostStorage, Storage};
use tensor_core::ir::{Contract, Guard, IndexMap, LoopNest, Value, ValueId};
use tensor_core::op::{Binary, Reduce, Scan, Sort, Sorted, Unary};
use tensor_core::plan::{Buffer, BufferId, BufferKind, Plan, Target};
use tensor_core::rng::Philox;
use tensor_core::{DType, Error, Host, HostData, Reference, Scalar, Tensor};

fn planned() -> (Plan, Vec<Arc<dyn Storage>>) {
    let x = Tensor::from_vec(&[4, 5], vec![1.0_f32; 20]);
    let sum = (&x * 2.0).sum(1).expand_dims(1) + x.max(0).exp().sum(0);
    Plan::new(&[&sum], &Host::new().target()).unwrap()
}

/// Returns a plan whose steps form a band.
fn planned_in_a_band() -> (Plan, Vec<Arc<dyn Storage>>) {
    let x = Tensor::from_vec(&[8, 5], vec![1.0_f32; 40]);
    let target = Target {
        min_band: Some(0),
        ..Host::new().target()
    };
    let (plan, data) = Plan::new(&[&x.softmax(1)], &target).unwrap();
    assert_eq!(plan.bands.len(), 1, "{}", plan.explain());
    (plan, data)
}

fn assert_rejected(plan: &Plan, data: &[Arc<dyn Storage>]) {
    for executor in [&Host::new() as &dyn Executor, &Reference] {
        let error = pollster::block_on(exec::run(executor, plan, data)).unwrap_err();
        assert!(matches!(error.root(), Error::BadStep { .. }), "{error}");
    }
}

/// Returns the nest of the first step, for modification. If other plans share the nest, the plan
/// gets a copy of its own.
fn nest(plan: &mut Plan) -> &mut LoopNest {
    Arc::make_mut(&mut Arc::make_mut(&mut plan.steps)[0].nest)
}

#[test]
fn plans_with_missing_buffers_or_steps_in_another_order_are_rejected() {
    let (plan, data) = planned();
    let changes: [fn(&mut Plan); 6] = [
        |plan| plan.inputs[0] = BufferId(99),
        |plan| plan.outputs[0] = BufferId(99),
        |plan| Arc::make_mut(&mut plan.steps)[0].output = BufferId(99),
        |plan| Arc::make_mut(&mut plan.steps)[0].inputs[0] = BufferId(99),
        |plan| plan.steps = plan.steps[1..].into(),
        |plan| Arc::make_mut(&mut plan.steps).reverse(),
    ];
    for (plan, data) in [planned(), planned_in_a_band()] {
        for change in changes {
            let mut changed = plan.clone();
            change(&mut changed);
            assert_rejected(&changed, &data);
        }
    }
    let none = pollster::block_on(exec::run_with(&[], &plan, &data, |_, _| 0));
    assert!(matches!(none.unwrap_err(), Error::NoExecutor));
}

#[test]
fn a_nest_that_breaks_a_rule_is_rejected() {
    let (plan, _) = planned();
    let nowhere = |n_axes: usize| IndexMap {
        offset: 0,
        strides: vec![0; n_axes],
    };
    let changes: [&dyn Fn(&mut Plan); 6] = [
        &|plan| nest(plan).values.clear(),
        &|plan| nest(plan).values[0] = Value::Cast(DType::F32, ValueId(7)),
        &|plan| nest(plan).inputs[0] = DType::F64,
        &|plan| nest(plan).domain = vec![1 << 40, 1 << 40],
        &|plan| nest(plan).reduce = vec![0],
        &|plan| {
            let n_axes = Arc::make_mut(&mut plan.steps)[0].nest.sizes().len();
            nest(plan).values[0] = Value::Load {
                input: 5,
                map: nowhere(n_axes),
                guards: vec![Guard {
                    map: nowhere(n_axes),
                    extent: 1,
                }],
            };
        },
    ];
    for (plan, data) in [planned(), planned_in_a_band()] {
        for change in changes {
            let mut changed = plan.clone();
            change(&mut changed);
            assert_rejected(&changed, &data);
        }
    }
    let other: Arc<dyn Storage> = Arc::new(HostStorage::foreign(HostData::F64(vec![1.0; 20])));
    let error = pollster::block_on(exec::run(&Host::new(), &plan, &[other])).unwrap_err();
    assert!(matches!(error, Error::InputMismatch { .. }), "{error}");
}

#[test]
fn an_output_that_is_a_temporary_is_rejected() {
    let (plan, data) = planned();
    let is_temporary = |buffer: &Buffer| buffer.kind == BufferKind::Temporary;
    let temporary = plan.buffers.iter().position(is_temporary).unwrap();
    let mut changed = plan;
    changed.outputs[0] = BufferId(temporary);
    assert_eq!(
        changed.check().unwrap_err(),
        format!("output buffer {temporary} is a temporary (expected an input or an output)")
    );
    assert_rejected(&changed, &data);
}

#[test]
fn a_size_that_overflows_saturates() {
    let (plan, _) = planned();
    let of_shape = |shape: &[usize]| {
        let buffer = Buffer {
            shape: shape.to_vec(),
            ..plan.buffers[0].clone()
        };
        (buffer.len(), buffer.bytes())
    };
    assert_eq!(of_shape(&[1 << 40, 1 << 40]), (usize::MAX, usize::MAX));
    assert_eq!(of_shape(&[1 << 40, 1 << 40, 0]), (0, 0));
    assert_eq!(of_shape(&[1 << 62]), (1 << 62, usize::MAX));
}

#[test]
fn a_load_that_its_guards_do_not_keep_inside_the_input_is_rejected() {
    let x = Tensor::from_vec(&[20], vec![1.0_f32; 20]);
    let (plan, data) = Plan::new(&[&(x.pad(0, 2, 3, 0.0) * 2.0)], &Host::new().target()).unwrap();
    let change_load = |plan: &mut Plan, change: &dyn Fn(&mut IndexMap, &mut Vec<Guard>)| {
        for value in &mut nest(plan).values {
            if let Value::Load { map, guards, .. } = value {
                change(map, guards);
            }
        }
    };
    let changes: [&dyn Fn(&mut Plan); 4] = [
        &|plan| change_load(plan, &|map, _| map.offset = 1000),
        &|plan| change_load(plan, &|map, _| map.offset -= 1),
        &|plan| change_load(plan, &|_, guards| guards[0].extent += 1),
        &|plan| {
            change_load(plan, &|_, guards| {
                // A guard that depends on no axis and always holds.
                guards[0].map.strides[0] = 0;
                guards[0].map.offset = 0;
            });
        },
    ];
    for change in changes {
        let mut changed = plan.clone();
        change(&mut changed);
        assert_rejected(&changed, &data);
    }
    // Nothing is read where no index fulfils the guards.
    let mut unread = plan.clone();
    change_load(&mut unread, &|map, guards| {
        map.offset = 1000;
        guards[0].map.offset = -1000;
    });
    assert_eq!(unread.steps[0].nest.check(&[(DType::F32, 20)]), Ok(()));
    // Index 19 of the result is the last that a guard of two conditions lets through.
    let mut narrow = plan;
    change_load(&mut narrow, &|map, guards| {
        map.offset = 0;
        guards.push(Guard {
            map: map.clone(),
            extent: 20,
        });
    });
    assert_eq!(narrow.steps[0].nest.check(&[(DType::F32, 20)]), Ok(()));
}

#[test]
fn a_gather_that_reads_outside_its_input_is_rejected() {
    let x = Tensor::from_vec(&[4, 5], vec![1.0_f32; 20]);
    let index = Tensor::from_vec(&[3], vec![3_i32; 3]);
    let gathered = x.gather(&index, 0) * 2.0;
    let (plan, data) = Plan::new(&[&gathered], &Host::new().target()).unwrap();
    let is_gather = |value: &Value| matches!(value, Value::Gather { .. });
    let gathers = |plan: &Plan| plan.steps[0].nest.values.iter().position(is_gather);
    let at = gathers(&plan).unwrap();
    let changes: [fn(&mut isize, &mut usize, &mut IndexMap); 5] = [
        |stride, _, _| *stride = isize::MAX,
        |stride, _, _| *stride += 1,
        |stride, _, _| *stride = -*stride,
        |_, extent, _| *extent += 1,
        |_, _, map| map.offset += 1,
    ];
    for change in changes {
        let mut changed = plan.clone();
        if let Value::Gather {
            stride,
            extent,
            map,
            ..
        } = &mut nest(&mut changed).values[at]
        {
            change(stride, extent, map);
        }
        assert_rejected(&changed, &data);
    }
}

#[test]
fn a_scan_that_breaks_a_rule_is_rejected() {
    let x = Tensor::from_vec(&[3, 5], vec![1.0_f32; 15]);
    let (plan, data) = Plan::new(&[&(x.cumsum(1) * 2.0)], &Host::new().target()).unwrap();
    let change_scan = |plan: &mut Plan, change: &dyn Fn(&mut Scan)| {
        for value in &mut nest(plan).values {
            if let Value::Scanned(scan, _) = value {
                change(scan);
            }
        }
    };
    let changes: [&dyn Fn(&mut Plan); 6] = [
        &|plan| change_scan(plan, &|scan| scan.axis = 2),
        &|plan| change_scan(plan, &|scan| scan.axis = usize::MAX),
        &|plan| change_scan(plan, &|scan| scan.op = Reduce::Any),
        &|plan| {
            let nest = nest(plan);
            let (id, scan) = nest.scan().unwrap();
            nest.values.push(Value::Scanned(scan, id));
            nest.dtypes.push(DType::F32);
        },
        &|plan| {
            let nest = nest(plan);
            let (id, _) = nest.scan().unwrap();
            nest.values.push(Value::Reduced(Reduce::Sum, id));
            nest.dtypes.push(DType::F32);
        },
        &|plan| {
            let nest = nest(plan);
            nest.reduce = vec![2];
            let maps = nest.values.iter_mut().flat_map(Value::maps_mut);
            maps.for_each(|map| map.strides.push(0));
        },
    ];
    for change in changes {
        let mut changed = plan.clone();
        change(&mut changed);
        assert_rejected(&changed, &data);
        let _ = changed.explain().to_string();
    }
}

#[test]
fn a_position_of_a_number_that_is_no_integer_is_rejected() {
    let index = Tensor::from_vec(&[3], vec![1_u32; 3]);
    let (plan, data) = Plan::new(&[&index.bincount(4)], &Host::new().target()).unwrap();
    let mut changed = plan.clone();
    let own = nest(&mut changed);
    let is_load = |value: &Value| matches!(value, Value::Load { .. });
    let at = own.values.iter().position(is_load).unwrap();
    own.values[at] = Value::Const(Scalar::F32(1.0));
    own.dtypes[at] = DType::F32;
    own.inputs[0] = DType::U32;
    let error = own.check(&[(DType::U32, 3)]).unwrap_err();
    assert!(error.contains("position is not defined on f32"), "{error}");
    assert_rejected(&changed, &data);
}

#[test]
fn a_sort_that_breaks_a_rule_is_rejected() {
    let x = Tensor::from_vec(&[3, 5], vec![1.0_f32; 15]);
    let (plan, data) = Plan::new(&[&x.sort(1)], &Host::new().target()).unwrap();
    let change_sort = |plan: &mut Plan, change: &dyn Fn(&mut Sort)| {
        for value in &mut nest(plan).values {
            if let Value::Sorted(sort, _) = value {
                change(sort);
            }
        }
    };
    let changes: [&dyn Fn(&mut Plan); 9] = [
        &|plan| change_sort(plan, &|sort| sort.axis = 2),
        &|plan| change_sort(plan, &|sort| sort.axis = usize::MAX),
        &|plan| change_sort(plan, &|sort| sort.result = Sorted::Positions),
        &|plan| nest(plan).values[0] = Value::Const(Scalar::F32(1.0)),
        &|plan| {
            // The transposed input.
            nest(plan).domain = vec![5, 3];
            let maps = nest(plan).values.iter_mut().flat_map(Value::maps_mut);
            maps.for_each(|map| map.strides = vec![1, 5]);
        },
        &|plan| {
            // A part of the input that does not begin with its first element.
            nest(plan).domain = vec![2, 5];
            let maps = nest(plan).values.iter_mut().flat_map(Value::maps_mut);
            maps.for_each(|map| map.offset = 5);
        },
        &|plan| {
            if let Value::Load { map, guards, .. } = &mut nest(plan).values[0] {
                let (map, extent) = (map.clone(), 15);
                guards.push(Guard { map, extent });
            }
        },
        &|plan| {
            nest(plan).values.push(Value::Cast(DType::F64, ValueId(1)));
            nest(plan).dtypes.push(DType::F64);
        },
        &|plan| {
            let nest = nest(plan);
            nest.reduce = vec![2];
            let maps = nest.values.iter_mut().flat_map(Value::maps_mut);
            maps.for_each(|map| map.strides.push(0));
        },
    ];
    for change in changes {
        let mut changed = plan.clone();
        change(&mut changed);
        assert_rejected(&changed, &data);
        let _ = changed.explain().to_string();
    }
}

#[test]
fn a_sort_reads_the_input_that_its_load_names() {
    let [x, y] = [2.0_f32, 1.0].map(|scale| {
        let numbers = (0..15).map(|at| scale * ((at * 7) % 15) as f32);
        Tensor::from_vec(&[3, 5], numbers.collect())
    });
    let (mut plan, _) = Plan::new(&[&x.sort(1)], &Host::new().target()).unwrap();
    let (other, others) = Plan::new(&[&y.sort(1)], &Host::new().target()).unwrap();
    // The first input, of another type and length, is not read.
    let unread: Arc<dyn Storage> = Arc::new(HostStorage::foreign(HostData::F64(vec![1.0; 2])));
    let sorted = &plan.steps[0];
    let mut nest = (*sorted.nest).clone();
    nest.inputs.insert(0, DType::F64);
    if let Value::Load { input, .. } = &mut nest.values[0] {
        *input = 1;
    }
    let mut step = sorted.clone();
    step.nest = Arc::new(nest);
    let buffer = Buffer {
        shape: vec![2],
        dtype: DType::F64,
        ..plan.buffers[plan.inputs[0].0].clone()
    };
    let id = BufferId(plan.buffers.len());
    plan.buffers = plan.buffers.iter().cloned().chain([buffer]).collect();
    plan.inputs.push(id);
    step.inputs.insert(0, id);
    plan.steps = vec![step].into();
    let data = [Arc::clone(&others[0]), unread];
    let run = |plan: &Plan, data: &[Arc<dyn Storage>]| {
        let results = pollster::block_on(exec::run(&Host::new(), plan, data)).unwrap();
        let result = pollster::block_on(Arc::clone(&results[0]).read()).unwrap();
        let result: Vec<_> = (0..result.len()).map(|at| result.get(at)).collect();
        result
    };
    assert_eq!(run(&plan, &data), run(&other, &others));
}

#[test]
fn a_band_with_a_buffer_of_another_shape_or_type_is_rejected() {
    let (plan, data) = planned_in_a_band();
    let changes: [fn(&mut Buffer); 3] = [
        |buffer| buffer.shape = vec![1],
        |buffer| buffer.shape = vec![80],
        |buffer| buffer.dtype = DType::I32,
    ];
    for step in plan.steps.iter() {
        for change in changes {
            let mut changed = plan.clone();
            change(&mut Arc::make_mut(&mut changed.buffers)[step.output.0]);
            assert_rejected(&changed, &data);
        }
    }
}

#[test]
fn shapes_and_waves_that_overflow_are_rejected_by_name() {
    for (plan, data) in [planned(), planned_in_a_band()] {
        let last = plan.steps.len() - 1;
        let output = plan.steps[last].output.0;
        let mut large = plan.clone();
        Arc::make_mut(&mut large.buffers)[output].shape = vec![1 << 40, 1 << 40];
        let mut late = plan.clone();
        Arc::make_mut(&mut late.steps)[last].wave = usize::MAX;
        for (changed, problem) in [
            (
                large,
                format!("buffer {output}: shape [1099511627776, 1099511627776] is too large"),
            ),
            (
                late,
                format!("step {last}: wave is too large ({}", usize::MAX),
            ),
        ] {
            let message = changed.check().unwrap_err();
            assert!(message.starts_with(&problem), "{message}");
            assert_rejected(&changed, &data);
        }
    }
}

#[test]
fn a_contract_that_the_nest_does_not_fulfil_is_rejected() {
    let matrices = |dtype: DType| {
        let [a, b] = [[2, 3], [3, 2]].map(|shape| Tensor::arange(6).reshape(&shape).cast(dtype));
        let [a, b] = [a, b].map(|matrix| matrix.realize(&Host::new()).unwrap());
        let target = Target {
            min_product: Some(1),
            ..Host::new().target()
        };
        Plan::new(&[&a.matmul(&b)], &target).unwrap()
    };
    let (plan, data) = matrices(DType::F32);
    let contract = plan.steps[0].nest.contract.clone().unwrap();
    let mut swapped = plan;
    nest(&mut swapped).contract = Some(Contract {
        rows: contract.cols.clone(),
        cols: contract.rows.clone(),
        ..contract.clone()
    });
    assert_rejected(&swapped, &data);
    let (mut of_integers, data) = matrices(DType::I32);
    assert!(of_integers.steps[0].nest.contract.is_none());
    nest(&mut of_integers).contract = Some(contract);
    assert_rejected(&of_integers, &data);
}

#[test]
fn a_contract_with_a_map_of_another_rank_is_rejected() {
    let [a, b] = [[2, 3], [3, 2]].map(|shape| {
        let matrix = Tensor::arange(6).reshape(&shape).cast(DType::F32);
        matrix.realize(&Host::new()).unwrap()
    });
    let target = Target {
        min_product: Some(1),
        ..Host::new().target()
    };
    let (mut plan, data) = Plan::new(&[&a.matmul(&b)], &target).unwrap();
    let own = nest(&mut plan);
    let contract = own.contract.clone().unwrap();
    // The left factor becomes the exponential of its load.
    own.values.truncate(2);
    own.values.extend([
        Value::Unary(Unary::Exp, contract.lhs),
        Value::Binary(Binary::Mul, ValueId(2), contract.rhs),
        Value::Reduced(Reduce::Sum, ValueId(3)),
    ]);
    own.dtypes = vec![DType::F32; 5];
    own.contract = Some(Contract {
        lhs: ValueId(2),
        sum: ValueId(4),
        ..contract
    });
    assert_eq!(own.check(&[(DType::F32, 6); 2]), Ok(()));
    for n_strides in [0, 2, 4] {
        let mut changed = plan.clone();
        let maps = nest(&mut changed).values.iter_mut();
        let maps = maps.flat_map(Value::maps_mut);
        maps.for_each(|map| map.strides.resize(n_strides, 1));
        assert_rejected(&changed, &data);
    }
}

#[test]
fn what_is_generated_is_kept_where_many_read_it() {
    let x = Tensor::randn(Philox::new(1), &[300, 300]);
    let (plan, _) = Plan::new(&[&x.matmul(&x)], &Host::new().target()).unwrap();
    assert!(
        plan.steps.iter().any(|step| step.nest.contract.is_some()),
        "{}",
        plan.explain()
    );
}

#[test]
fn a_join_too_long_to_count_is_an_error() {
    let piece = |value: f32| Tensor::full(&[1 << 31], value);
    let pieces = [piece(1.0), piece(2.0), piece(3.0)];
    let joined = Tensor::concat(&pieces.iter().collect::<Vec<_>>(), 0);
    let error = joined.shape().unwrap_err();
    assert!(matches!(error.root(), Error::TooLarge { .. }), "{error}");
}

#[test]
fn a_shape_of_too_many_axes_is_an_error_that_names_the_limit() {
    let ones = |rank: usize| Tensor::from_vec(&vec![1; rank], vec![1.0_f32]);
    let most = ones(64);
    assert!((&most + 1.0).exp().eval::<f32>(&Host::new()).is_ok());
    let index = Tensor::from_vec(&[1; 40], vec![0_i32]);
    let letters: String = ('a'..='z').chain('A'..='Z').collect();
    let dots = format!("...{letters},...->...{letters}");
    for (operation, tensor) in [
        ("from_vec", ones(65)),
        ("from_vec", ones(32_000)),
        ("reshape", most.reshape(&[1; 65])),
        ("broadcast_to", most.broadcast_to(&[1; 65])),
        ("expand_dims", most.expand_dims(0)),
        ("window", most.window(0, 1, 1)),
        ("gather", ones(40).gather(&index, 0)),
        ("einsum", tensor_core::einsum(&dots, &[&most, &ones(13)])),
        ("matmul", most.matmul(&most)),
    ] {
        let error = tensor.shape().unwrap_err();
        assert!(
            matches!(error.root(), Error::RankTooLarge { limit: 64, .. }),
            "{error}"
        );
        assert!(
            error.to_string().starts_with(operation),
            "{operation}: {error}"
        );
    }
}
