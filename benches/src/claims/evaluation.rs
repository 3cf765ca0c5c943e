//! Claims of the lecture on Python performance about the evaluation of graphs: imperative and
//! declarative evaluation, fusion, and compilation at run time.
//!
//! Method: claims on PyTorch's evaluation are measured on programs of `tensor-core`: [`Eager`]
//! evaluates one operation after the other, [`jit`] compiles a whole program. Counts are preferred
//! to times.
//! Limits: claims on the interpreter of Python have no counterpart here.

use super::{Claim, Correction, Reading, Verdict, timing};
use crate::workloads::{matmul_pair, matmul_scale, two_layer_net};
use anyhow::Result;
use harness::program::InputDistribution;
use tensor_core::plan::{Plan, Step};
use tensor_core::{DType, Eager, Executor, Host, Tensor, jit};

/// Side of the matrices in the lecture's example of scheduling.
const SIDE: usize = 1000;
/// Number of elements of the array in the comparison of evaluations.
const LARGE: usize = 1 << 20;
/// Number of elements of a small array.
const SMALL: usize = 8;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s2.stack-machine",
        claim: "d = a + b c takes three loads, two operations and one store: arrays read, operations per element, and arrays \
            written",
        claimed: &[3.0, 2.0, 1.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let [a, b, c] =
                [1.0, 2.0, 3.0].map(|x: f32| Tensor::from_vec(&[SMALL], vec![x; SMALL]));
            let plan = on_host(&[&(a + b * c)])?;
            Ok(Some(vec![
                plan.inputs.len() as f64,
                operations(&plan) / SMALL as f64,
                plan.steps.len() as f64,
            ]))
        },
    },
    Claim {
        id: "s2.static-types",
        claim: "with static types, memory holds values without their types: bytes per element in addition to the value, in arrays \
            of f64, f32, i32 and bool",
        claimed: &[0.0; 4],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let ones = Tensor::from_vec(&[LARGE], vec![1.0_f32; LARGE]);
            let to = |dtype| ones.cast(dtype) + Tensor::zeros(&[], dtype);
            let of = |tensor: Tensor, value: usize| {
                let host = Host::new();
                let _array = tensor.realize(&host)?;
                anyhow::Ok(host.live_bytes() as f64 / LARGE as f64 - value as f64)
            };
            Ok(Some(vec![
                of(to(DType::F64), size_of::<f64>())?,
                of(to(DType::F32), size_of::<f32>())?,
                of(to(DType::I32), size_of::<i32>())?,
                of(ones.gt(0.0), size_of::<bool>())?,
            ]))
        },
    },
    Claim {
        id: "s2.imperative",
        claim: "imperative evaluation computes each operation where it is declared: arrays in memory after one, two and three \
            operations",
        claimed: &[1.0, 2.0, 3.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (host, x) = (Host::new(), large());
            let n_arrays = || host.live_bytes() as f64 / (4 * LARGE) as f64;
            Ok(Some(Eager::new(host.clone()).run(|| {
                let one = &x + 1.0;
                let after_one = n_arrays();
                let two = &one * 2.0;
                let after_two = n_arrays();
                let _three = two.relu();
                vec![after_one, after_two, n_arrays()]
            })))
        },
    },
    Claim {
        id: "s2.declarative",
        claim: "declarative evaluation computes nothing before the whole graph is declared, and shows no intermediate result: \
            arrays in memory after three declared operations, after the evaluation, and at the peak",
        claimed: &[0.0, 1.0, 1.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let host = Host::new();
            let arrays = |bytes: usize| bytes as f64 / (4 * LARGE) as f64;
            let declared = ((large() + 1.0) * 2.0).relu();
            let before = arrays(host.live_bytes());
            let _result = declared.realize(&host)?;
            Ok(Some(vec![
                before,
                arrays(host.live_bytes()),
                arrays(host.peak_bytes()),
            ]))
        },
    },
    Claim {
        id: "s2.graph-speed",
        claim: "a compiled graph is faster than eager execution: time of six elementwise operations on a million numbers as a \
            graph, divided by the time one after the other",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (host, x) = (Host::new(), large());
            let chain = || ((((&x + 1.0) * 0.5 - 3.0).relu() + 2.0) * 0.25).realize(&host);
            let eager = Eager::new(host.clone());
            let ratio = timing::ratio(|| Ok(chain()?), || Ok(eager.run(chain)?))?;
            Ok(Some(vec![ratio]))
        },
    },
    Claim {
        id: "s2.fusion",
        claim: "(x y) 100 + 10 runs as one step without an array between the product and its scale and shift: number of steps, and bytes of intermediate arrays",
        claimed: &[1.0, 0.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let [x, y, _] = matrices();
            let plan = on_host(&[&matmul_scale::expression(&[x, y])])?;
            Ok(Some(vec![
                plan.steps.len() as f64,
                plan.peak_bytes() as f64,
            ]))
        },
    },
    Claim {
        id: "s2.out-of-order",
        claim: "the two products of (x y + 100) + (x z + 1000) can run in parallel: number of products in each wave of the plan",
        claimed: &[2.0, 0.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let plan = on_host(&[&matmul_pair::expression(&matrices())])?;
            let n_products =
                |wave: &[Step]| wave.iter().filter(|step| is_product(step)).count() as f64;
            Ok(Some(plan.waves().map(n_products).collect()))
        },
    },
    Claim {
        id: "s2.fusion.loops",
        claim: "fusion makes one loop of the three loops of a product, its scale and its shift: arrays written without fusion \
            and with it",
        claimed: &[3.0, 1.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let host = Host::new();
            let factors = vectors();
            let arrays = || host.live_bytes() as f64 / (4 * SIDE * SIDE) as f64;
            let separate = Eager::new(host.clone()).run(|| matmul_scale::expression(&factors));
            let apart = arrays();
            drop(separate);
            let _together = matmul_scale::expression(&factors).realize(&host)?;
            Ok(Some(vec![apart, arrays()]))
        },
    },
    Claim {
        id: "s2.fusion.operations",
        claim: "fusion reduces the number of operations: operations of the outer product with scale and shift as one step, divided \
            by those of three steps",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: Some(Correction {
            claim: "it does not change the operations on numbers, but the reads and writes of arrays: the same quotient for \
                operations, and for bytes",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[1.0, 0.2],
            reading: Reading::Printed(2),
            measure: || {
                let (fused, separate) = fused_and_separate()?;
                let of_all = |of: fn(&Plan) -> f64| separate.iter().map(of).sum::<f64>();
                Ok(Some(vec![
                    operations(&fused) / of_all(operations),
                    traffic(&fused) / of_all(traffic),
                ]))
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || {
            let (fused, separate) = fused_and_separate()?;
            let of_all: f64 = separate.iter().map(operations).sum();
            Ok(Some(vec![operations(&fused) / of_all]))
        },
    },
    Claim {
        id: "s2.fusion.speed",
        claim: "fusion significantly improves performance: time of the outer product of 1000 by 1000 numbers with scale and shift \
            as one step, divided by the time of three steps",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (host, factors) = (Host::new(), vectors());
            let fused = || matmul_scale::expression(&factors).realize(&host);
            let eager = Eager::new(host.clone());
            let ratio = timing::ratio(|| Ok(fused()?), || Ok(eager.run(fused)?))?;
            Ok(Some(vec![ratio]))
        },
    },
    Claim {
        id: "s2.jit.cache",
        claim: "a compiled function is found in a cache when it is called again: compilations before the first call, compilations \
            and cache hits of 500 calls",
        claimed: &[0.0, 1.0, 499.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (host, compiled) = (Host::new(), jit(recurrent));
            let arguments = recurrent_arguments();
            let before = compiled.counters().misses;
            for _ in 0..two_layer_net::STEPS {
                compiled.call(&host, &arguments.each_ref())?;
            }
            let after = compiled.counters();
            Ok(Some(
                [before, after.misses, after.hits]
                    .map(|n| n as f64)
                    .to_vec(),
            ))
        },
    },
    Claim {
        id: "s2.jit.types",
        claim: "the types of arguments are inferred when the function is called: compilations and cache hits of two rounds of \
            calls with 3 x 3 numbers of f32, of f64, and 2 x 2 numbers",
        claimed: &[3.0, 3.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let host = Host::new();
            let compiled = jit(|args: &[Tensor]| Ok(vec![args[0].sum(..)]));
            let kinds = [
                ([3, 3], DType::F32),
                ([3, 3], DType::F64),
                ([2, 2], DType::F32),
            ];
            for (shape, dtype) in kinds.into_iter().chain(kinds) {
                compiled.call(&host, &[&Tensor::zeros(&shape, dtype)])?;
            }
            let counters = compiled.counters();
            Ok(Some(
                [counters.misses, counters.hits].map(|n| n as f64).to_vec(),
            ))
        },
    },
    Claim {
        id: "s2.jit.repeated",
        claim: "compilation at run time suits functions that are executed many times: time of a later call of the recurrent \
            layer divided by that of the first call",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let arguments = recurrent_arguments();
            let ratio = timing::later_by_first(recurrent, &arguments.each_ref())?;
            Ok(Some(vec![ratio]))
        },
    },
];

/// Returns a large array of ones.
fn large() -> Tensor {
    Tensor::from_vec(&[LARGE], vec![1.0_f32; LARGE])
}

/// Returns matrices for planning; a plan does not depend on their elements.
fn matrices() -> [Tensor; 3] {
    [(); 3].map(|()| Tensor::from_vec(&[SIDE; 2], vec![0.0_f32; SIDE * SIDE]))
}

/// Returns a column and a row, whose product is the outer product of the lecture's example.
fn vectors() -> [Tensor; 2] {
    [[SIDE, 1], [1, SIDE]].map(|shape| Tensor::from_vec(&shape, vec![0.5_f32; SIDE]))
}

fn on_host(tensors: &[&Tensor]) -> Result<Plan> {
    let (plan, _) = Plan::new(tensors, &Host::new().target())?;
    Ok(plan)
}

/// Returns the plan of the outer product with scale and shift, and the plans of its three
/// operations alone.
fn fused_and_separate() -> Result<(Plan, [Plan; 3])> {
    let host = Host::new();
    let factors = vectors();
    let product = factors[0].matmul(&factors[1]);
    let array = product.realize(&host)?;
    let separate = [
        on_host(&[&product])?,
        on_host(&[&(&array * 100.0)])?,
        on_host(&[&(&array + 10.0)])?,
    ];
    Ok((on_host(&[&matmul_scale::expression(&factors)])?, separate))
}

fn operations(plan: &Plan) -> f64 {
    plan.steps.iter().map(|step| step.nest.operations()).sum()
}

/// Returns the bytes of all arrays that the steps of a plan read and write.
fn traffic(plan: &Plan) -> f64 {
    let buffers = plan
        .steps
        .iter()
        .flat_map(|step| step.inputs.iter().chain([&step.output]));
    buffers
        .map(|buffer| plan.buffers[buffer.0].bytes() as f64)
        .sum()
}

fn is_product(step: &Step) -> bool {
    step.nest.contract.is_some()
}

/// Computes the next state of the lecture's recurrent layer.
fn recurrent(arguments: &[Tensor]) -> tensor_core::Result<Vec<Tensor>> {
    let [x, state, of_state, of_input] = arguments else {
        return Ok(vec![]);
    };
    let next = of_input.matmul(&x.t()) + of_state.matmul(&state.t());
    Ok(vec![next.tanh()])
}

/// Returns input, state and weights of the recurrent layer.
fn recurrent_arguments() -> [Tensor; 4] {
    [[1, 10], [1, 20], [20, 20], [20, 10]].map(|shape| {
        let elements = InputDistribution::Normal.draw(shape[0] * shape[1], 0);
        Tensor::from_vec(&shape, elements)
    })
}
