//! Tests of workloads at small sizes: variants and rivals pass the check, and wrong results fail
//! the check.
//!
//! Limits: the workloads of games (`batch-games`, `bimatrix-equilibria`, `cfr`, `matrix-game`),
//! `cluster`, `qem-fit` and `similarity-pairs` are tested in their own modules.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use benches::mnist;
use benches::training::layer::Layer;
use benches::training::{Recipe, Samples, Session, Stage};
use benches::workloads::bit_gemm::BitMatrices;
use benches::workloads::conv::layer::ConvLayer;
use benches::workloads::inverse_gaussian::Function;
use benches::workloads::matmul::Product;
use benches::workloads::normality::Distances;
use benches::workloads::products::Form;
use benches::workloads::{
    attention, chain, conv, conv_binary, conv_gradients, functions, layer_norm, matmul,
    matmul_pair, matmul_scale, moves, products, rows, scans, scatters, similarity, small_eval,
    softmax, sorts, train_mnist, two_layer_net,
};
use benches::workloads::{infer_quant::Inference, quant_accuracy, train_quant};
use gpu_wgsl::check::skip;
use harness::program::{InputDistribution, TensorWorkload};
use harness::record::NotRun;
use harness::rivals::{BaselineArguments, Rival, python};
use harness::workload::{Implementation, Output, Problem, Workload};
use quant::train::{self, Images};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Returns one problem of each workload; sizes are not multiples of vector or block sizes.
fn problems() -> Vec<Box<dyn Problem>> {
    // Few rows, so that some pairs are similar in all rows.
    let pairs = [3, 37];
    let programs = [
        matmul_scale::program(19).problem(),
        matmul_pair::program(19).problem(),
        similarity::sum(pairs).problem(),
        similarity::all(pairs).problem(),
        chain::program([11, 23]).problem(),
        softmax::program([11, 23]).problem(),
        layer_norm::program([11, 23]).problem(),
        attention::program([2, 3, 11, 5]).problem(),
        moves::transpose([11, 23]).problem(),
        moves::pad([11, 23]).problem(),
        moves::join([11, 23]).problem(),
        moves::flip([11, 23]).problem(),
        moves::step([11, 23]).problem(),
        moves::rows([23, 11]).problem(),
        moves::elements(23).problem(),
    ];
    let layer = ConvLayer::new([2, 3, 7, 9], [5, 3]);
    let padded = ConvLayer {
        step: 2,
        padding: 1,
        ..layer
    };
    let convolutions = [layer, padded].map(|layer| conv::program(layer).problem());
    let gradients = conv_gradients::By::ALL.map(|by| conv_gradients::program(layer, by).problem());
    let products = [
        (Form::Batch(3), [5, 7, 3]),
        (Form::Single, [5, 7, 3]),
        (Form::Transposed, [5, 7, 3]),
    ]
    .map(|(form, shape)| products::program(form, shape).problem());
    let rows = rows::programs([11, 23]).map(TensorWorkload::problem);
    let scans = scans::programs([[11, 23], [1, 203]]).map(TensorWorkload::problem);
    let sorts = sorts::tasks([[11, 23], [1, 203]]);
    let tasks = functions::tasks(203)
        .chain(small_eval::tasks())
        .chain(sorts)
        .chain(scatters::tasks([203, 23]));
    let programs = programs.into_iter().chain(convolutions).chain(gradients);
    let programs = programs.chain(products).chain(rows).chain(scans);
    let programs = programs.chain(tasks.map(|task| task.prepare()));
    let mut problems: Vec<Box<dyn Problem>> = vec![Box::new(Product::square(19).unwrap())];
    problems.extend(programs.map(Result::unwrap));
    for function in [Function::Pdf, Function::Cdf, Function::Quantile] {
        problems.push(Box::new(function.problem(203).unwrap()));
    }
    for [weight_bits, bits] in [[1, 1], [1, 2], [2, 2]] {
        let layer = conv_binary::Layer::new([2, 5, 37], weight_bits, bits);
        problems.push(Box::new(layer.unwrap()));
    }
    problems.push(Box::new(BitMatrices::new([5, 96, 37])));
    problems.push(Box::new(Distances::new(5)));
    problems.push(Box::new(two_layer_net::session([5, 7, 4, 3], 12).unwrap()));
    problems.push(Box::new(classifier().unwrap()));
    for levels in ["float", "w2a2"] {
        problems.push(Box::new(inference(levels)));
        problems.push(Box::new(low_bit_training(levels)));
        problems.push(Box::new(low_bit_accuracy(levels)));
    }
    problems
}

/// Returns images of random pixels with classes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "pixels are below 256"
)]
fn images(n: usize, side: usize) -> Images {
    let pixels = InputDistribution::Uniform.draw(n * side * side, 7);
    let pixels = pixels.into_iter().map(|x| (x * 255.0) as u8).collect();
    let labels = (0..n as u32).map(|at| at * 7 % 10).collect();
    Images::new([side, side, 1], pixels, labels, 10).unwrap()
}

fn inference(levels: &str) -> Inference {
    Inference::new(levels, &images(3, 28), images(1, 28), false).unwrap()
}

/// Returns four steps of a training; the network needs images of at least 16 × 16 pixels.
fn low_bit_training(levels: &'static str) -> train_quant::Start {
    train_quant::Start::new(levels, &images(9, 16), 4, 3).unwrap()
}

fn low_bit_accuracy(levels: &'static str) -> quant_accuracy::Whole {
    let recipe = train::Recipe {
        batch: 4,
        n_epochs: 1,
        ..train::Recipe::default()
    };
    let [training, test] = images(13, 16).split_at(9).unwrap();
    quant_accuracy::Whole::from_random(levels, [training, test], recipe).unwrap()
}

/// Returns a training of a small net with every kind of layer, on random data.
fn classifier() -> anyhow::Result<Session> {
    let conv = |inputs, outputs, side| Layer::Conv {
        inputs,
        outputs,
        side,
        taps: 3,
        step: 2,
    };
    let dense = |inputs, outputs| Layer::Dense { inputs, outputs };
    let recipe = train_mnist::Net::Conv.recipe(false);
    let recipe = Recipe {
        layers: vec![
            conv(1, 2, 9),
            Layer::Relu(32),
            conv(2, 3, 4),
            Layer::Relu(3),
            dense(3, 5),
            Layer::Relu(5),
            dense(5, 10),
        ],
        batch: 4,
        stages: vec![
            Stage {
                epochs: 2,
                rate: 0.1,
            },
            Stage {
                epochs: 1,
                rate: 0.01,
            },
        ],
        least_accuracy: 0.0,
        ..recipe
    };
    // The last two of 14 samples do not fill a batch.
    let samples = |n: usize| Samples {
        inputs: InputDistribution::Uniform.draw(n * 81, 3),
        answers: (0..n).map(|at| (at * 7 % 10) as f32).collect(),
    };
    recipe.session(samples(14), samples(3))
}

/// Changes the first element: a float by about one percent, an integer by 1, a truth value to its
/// opposite. Of a training, it also changes the accuracy, because not every workload compares its
/// losses.
fn spoil(result: &mut Output, n_losses: usize) {
    match result {
        Output::F32(elements) => {
            elements[0] = elements[0] * 1.01 + 0.01;
            if n_losses > 0 && elements.len() > n_losses {
                elements[n_losses] += 0.01;
            }
        }
        Output::F64(elements) => elements[0] = elements[0] * 1.01 + 0.01,
        Output::U32(elements) => elements[0] += 1,
        Output::Bool(elements) => elements[0] = !elements[0],
    }
}

/// Runs a variant, or the rival of a name, and checks its results.
fn run_and_check(workload: &Workload<'_>, name: Option<&str>, contestant: &mut dyn Implementation) {
    assert_eq!(contestant.run(2).unwrap().len(), 2);
    let part = workload.whole.part;
    let result = contestant.result().unwrap();
    workload.judge(name, &result, part).unwrap();
    contestant.peak_extra_bytes().unwrap();
    let result = contestant.result().unwrap();
    workload.judge(name, &result, part).unwrap();
}

#[test]
fn every_variant_meets_the_oracle_and_tells_its_memory() {
    for problem in problems() {
        let mut workload = problem.workload(&[]);
        for variant in std::mem::take(&mut workload.variants) {
            let mut contestant = (variant.start)().unwrap();
            run_and_check(&workload, None, contestant.as_mut());
        }
    }
}

#[test]
fn one_wrong_element_is_refused_and_so_are_other_lengths_and_types() {
    for problem in problems() {
        let mut workload = problem.workload(&[]);
        let part = workload.whole.part;
        let variant = workload.variants.pop().unwrap();
        let mut contestant = (variant.start)().unwrap();
        contestant.run(1).unwrap();
        let mut result = contestant.result().unwrap();
        (workload.check)(&result, part).unwrap();
        spoil(&mut result, workload.n_losses);
        let whole = format!("{:?}", workload.whole);
        (workload.check)(&result, part).expect_err(&whole);
        for other in [
            Output::F32(vec![]),
            Output::F64(vec![0.0; 4]),
            Output::U32(vec![0; 4]),
            Output::Bool(vec![true; 4]),
        ] {
            (workload.check)(&other, part).expect_err(&whole);
        }
    }
}

#[test]
fn operations_and_bytes_are_positive_and_rates_of_parts_stay_comparable() {
    for problem in problems() {
        let workload = problem.workload(&[]);
        for variant in &workload.variants {
            let extent = variant.extent;
            let (amount, whole) = (extent.work.amount(), workload.whole.work.amount());
            assert!(amount > 0.0 && amount <= whole);
            assert!(extent.bytes > 0.0 && extent.bytes <= workload.whole.bytes);
        }
    }
}

#[test]
fn inference_reads_the_numbers_of_its_network() {
    let bytes = |levels| inference(levels).workload(&[]).whole.bytes;
    // Weights, the bias of the last layer, normalizations, and scale and offset of the input.
    let n_numbers = 32 * 25 + 64 * 25 * 32 + 512 * 1024 + 10 * 512 + 10 + 4 * (32 + 64 + 512) + 2;
    let (n_pixels, n_scores) = (28 * 28, 10);
    let expected = n_pixels + 4 * (n_numbers + n_scores);
    assert_eq!(bytes("float"), f64::from(expected));
    // Two bits take 1/16 of f32.
    let of_bits = bytes("w2a2");
    assert!(
        of_bits > bytes("float") / 16.0 && of_bits < bytes("float") / 8.0,
        "{of_bits}"
    );
}

#[test]
fn a_convolution_without_windows_is_an_error() {
    for (taps, step) in [(10, 2), (0, 2), (3, 0)] {
        let recipe = Recipe {
            layers: vec![Layer::Conv {
                inputs: 1,
                outputs: 10,
                side: 9,
                taps,
                step,
            }],
            ..train_mnist::Net::Conv.recipe(false)
        };
        let error = recipe.session(Samples::default(), Samples::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no windows"), "{error}");
    }
}

/// Starts the rivals in one library and checks them, or skips the test with the reason.
fn check_rivals(library: &str, problems: &[Box<dyn Problem>]) {
    let Ok(python) = python() else {
        return skip("no Python on this machine");
    };
    for problem in problems {
        let workload = problem.workload(&[]);
        let jobs = workload.rivals.iter();
        for job in jobs.filter(|job| job.library == library) {
            match Rival::start(&python, job) {
                Ok(mut rival) => run_and_check(&workload, Some(library), &mut rival),
                Err(missing) => {
                    assert!(is_absent(&missing), "{}", missing.why);
                    return skip(&missing.why);
                }
            }
        }
    }
}

/// Returns whether a library or its support of CUDA is not installed.
fn is_absent(missing: &NotRun) -> bool {
    let reasons = ["No module", "no CUDA support"];
    reasons.iter().any(|reason| missing.why.contains(reason))
}

#[test]
fn rivals_in_numpy_meet_every_oracle() {
    check_rivals("numpy", &problems());
}

/// Returns one problem of each element type of arguments and of results, and one training of each
/// goal. Not all problems, because a process that loads PyTorch or JAX takes seconds to start, and
/// `bench` checks every rival of every workload before it times it.
fn one_of_each_type() -> [Box<dyn Problem>; 9] {
    let in_f64 = functions::tasks(203).find(|task| task.id.size.contains("f64"));
    [
        moves::rows([23, 11]).problem().unwrap(),
        in_f64.unwrap().prepare().unwrap(),
        similarity::sum([3, 37]).problem().unwrap(),
        similarity::all([3, 37]).problem().unwrap(),
        softmax::program([11, 23]).problem().unwrap(),
        Box::new(two_layer_net::session([5, 7, 4, 3], 12).unwrap()),
        Box::new(classifier().unwrap()),
        Box::new(inference("float")),
        Box::new(low_bit_training("float")),
    ]
}

#[test]
fn rivals_in_torch_meet_the_oracles() {
    check_rivals("torch", &one_of_each_type());
}

#[test]
fn rivals_in_jax_meet_the_oracles() {
    check_rivals("jax", &one_of_each_type());
}

#[test]
fn rivals_in_scipy_meet_every_oracle() {
    check_rivals("scipy", &problems());
}

#[test]
fn rivals_in_openvino_meet_their_oracles() {
    // OpenVINO needs a multiple of 8 channels.
    let layers = [[1, 1], [2, 2]]
        .map(|[weight_bits, bits]| conv_binary::Layer::new([2, 5, 40], weight_bits, bits).unwrap());
    let mut problems: Vec<Box<dyn Problem>> = vec![Box::new(inference("float"))];
    problems.extend(layers.map(|layer| Box::new(layer) as Box<dyn Problem>));
    for library in ["openvino", "openvino-int8", "openvino-f32"] {
        check_rivals(library, &problems);
    }
}

/// A rival that ran on the CPU under the name of the GPU would start on every machine.
#[test]
fn rivals_on_cuda_meet_the_oracles_and_are_absent_without_cuda() {
    let Ok(python) = python() else {
        return skip("no Python on this machine");
    };
    let mut problems: Vec<Box<dyn Problem>> = vec![Box::new(inference("float"))];
    problems.push(Box::new(low_bit_training("w2a2")));
    problems.extend(one_of_each_type());
    problems.extend(scatters::tasks([203, 23]).map(|task| task.prepare().unwrap()));
    for problem in problems {
        let workload = problem.workload(&[]);
        let mut jobs = workload.rivals.iter();
        let Some(job) = jobs.find(|job| job.library == "torch") else {
            continue;
        };
        let job = BaselineArguments {
            library: "torch-cuda",
            ..job.clone()
        };
        match Rival::start(&python, &job) {
            Ok(mut rival) => {
                assert!(has_cuda(&python), "{} runs without CUDA", job.script.name);
                run_and_check(&workload, Some("torch-cuda"), &mut rival);
            }
            Err(missing) => {
                assert!(is_absent(&missing), "{}", missing.why);
                skip(&missing.why);
                // All other scripts use `protocol.rival`, so that one of them is enough.
                if job.script.name != "infer_quant.py" {
                    return;
                }
            }
        }
    }
}

fn has_cuda(python: &Path) -> bool {
    let mut command = Command::new(python);
    let check = "import sys, torch; sys.exit(not torch.cuda.is_available())";
    let status = command.args(["-c", check]).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn rivals_that_torch_compiles_meet_their_oracles() {
    let chain = chain::program([11, 23]).problem().unwrap();
    let training = Box::new(two_layer_net::session([5, 7, 4, 3], 12).unwrap());
    check_rivals(
        "torch-compile",
        &[chain, training, Box::new(classifier().unwrap())],
    );
}

#[test]
fn nets_learn_the_digits_that_ship_with_the_project() {
    let digits = mnist::digits().unwrap();
    for net in [train_mnist::Net::Softmax, train_mnist::Net::Hidden] {
        let session = net.session(&digits).unwrap();
        let mut workload = session.workload(&[]);
        let host = workload.variants.pop().unwrap();
        let mut contestant = (host.start)().unwrap();
        contestant.run(1).unwrap();
        (workload.check)(&contestant.result().unwrap(), workload.whole.part).unwrap();
    }
}

#[test]
fn matmul_multiplies_or_says_what_is_missing() {
    let Ok(python) = python() else {
        return skip("no Python on this machine");
    };
    let on_cuda = ["torch-cuda", "torch-compile-cuda"];
    for library in ["numpy", "torch", "torch-compile", "jax"]
        .into_iter()
        .chain(on_cuda)
    {
        let job = BaselineArguments {
            library,
            script: matmul::SCRIPT,
            sizes: vec![("m", 2), ("k", 3), ("n", 1)],
            arrays: vec![
                ("a", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
                ("b", &[1.0, 0.5, -1.0]),
            ],
            types: vec![],
            patience: Duration::from_secs(60),
            part: None,
        };
        match Rival::start(&python, &job) {
            Ok(mut rival) => {
                assert_eq!(rival.name, library);
                assert_eq!(rival.run(3).unwrap().len(), 3);
                assert_eq!(rival.result().unwrap(), Output::F32(vec![-1.0, 0.5]));
            }
            Err(missing) => {
                assert!(is_absent(&missing), "{}", missing.why);
                skip(&missing.why);
            }
        }
    }
}
