//! Tests of workloads at small sizes: variants and rivals pass the check, and wrong results fail
//! the check.
//!
//! Limits: variants and wrong results of the workloads of games (`batch-games`,
//! `bimatrix-equilibria`, `cfr`, `matrix-game`), `cluster`, `qem-fit` and `similarity-pairs` are
//! tested in their own modules. Here, only the rivals of games run. A rival whose library is not
//! installed is skipped.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use benches::mnist;
use benches::training::layer::Layer;
use benches::training::{Recipe, Samples, Session, Stage};
use benches::workloads::batch_games::Games;
use benches::workloads::bimatrix_equilibria::Equilibria;
use benches::workloads::bit_gemm::BitMatrices;
use benches::workloads::cfr::{Cfr, Job};
use benches::workloads::conv::layer::ConvLayer;
use benches::workloads::inverse_gaussian::Function;
use benches::workloads::matmul::Product;
use benches::workloads::matrix_game::Square;
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
use harness::workload::{Implementation, Output, Portion, Problem, Work, Workload};
use quant::train::{self, Images};
use std::collections::BTreeSet;
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
    problems.extend(classifiers());
    for levels in ["float", "w2a2"] {
        problems.push(Box::new(inference(levels)));
        problems.push(Box::new(low_bit_training(levels)));
        problems.push(Box::new(low_bit_accuracy(levels)));
    }
    problems
}

/// Returns the problems whose variants are tested in their own modules, because a result with one
/// changed element can be right, too: games with their strategies, and random draws.
fn games_and_draws() -> Vec<Box<dyn Problem>> {
    let iterate = |plus| Job::Iterate {
        iterations: 10,
        plus,
    };
    let mut problems: Vec<Box<dyn Problem>> = vec![
        Box::new(Square::new(20).unwrap()),
        Box::new(Equilibria::new(3).unwrap()),
        Box::new(Function::Sample.problem(203).unwrap()),
        // OpenSpiel plays all of this few games.
        Box::new(Games::new(3).unwrap()),
    ];
    for (n_sets, faces, job) in [
        ("936", 0, iterate(false)),
        ("192", 3, iterate(true)),
        ("192", 3, Job::NashConv),
    ] {
        problems.push(Box::new(Cfr::new(n_sets, faces, job).unwrap()));
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

/// Returns a training of a small net of each form, on random data.
fn classifiers() -> [Box<dyn Problem>; 3] {
    train_mnist::Net::ALL.map(|net| Box::new(classifier(net).unwrap()) as Box<dyn Problem>)
}

/// Returns a training of a small net on random data; with convolutions, the net has every kind of
/// layer.
fn classifier(net: train_mnist::Net) -> anyhow::Result<Session> {
    let conv = |inputs, outputs, side| Layer::Conv {
        inputs,
        outputs,
        side,
        taps: 3,
        step: 2,
    };
    let dense = |inputs, outputs| Layer::Dense { inputs, outputs };
    let layers = match net {
        train_mnist::Net::Softmax => vec![dense(81, 10)],
        train_mnist::Net::Hidden => vec![dense(81, 5), Layer::Relu(5), dense(5, 10)],
        train_mnist::Net::Conv => vec![
            conv(1, 2, 9),
            Layer::Relu(32),
            conv(2, 3, 4),
            Layer::Relu(3),
            dense(3, 5),
            Layer::Relu(5),
            dense(5, 10),
        ],
    };
    let recipe = net.recipe(false);
    let (_, tolerance) = &recipe.first_losses;
    let recipe = Recipe {
        layers,
        first_losses: (5, tolerance.clone()),
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

/// Runs a variant, or the rival of a name, and checks its results, which are those of a part of
/// the work.
fn run_and_check(
    workload: &Workload<'_>,
    name: Option<&str>,
    part: Portion,
    contestant: &mut dyn Implementation,
) {
    assert_eq!(contestant.run(2).unwrap().len(), 2);
    let result = contestant.result().unwrap();
    workload.judge(name, &result, part).unwrap();
    contestant.peak_extra_bytes().unwrap();
    let result = contestant.result().unwrap();
    workload.judge(name, &result, part).unwrap();
}

#[test]
fn every_variant_meets_the_oracle_and_reports_its_memory() {
    for problem in problems() {
        let mut workload = problem.workload(&[]);
        for variant in std::mem::take(&mut workload.variants) {
            let mut contestant = (variant.start)().unwrap();
            let part = workload.whole.part;
            run_and_check(&workload, None, part, contestant.as_mut());
        }
    }
}

#[test]
fn one_wrong_element_is_rejected_and_so_are_other_lengths_and_types() {
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
            assert!(extent.bytes > 0.0);
            // Padded images and weights in f32 are larger than images and packed weights. The bytes
            // of this variant have a test of their own.
            let reads_larger_inputs = variant.executor == "host-f32" && amount == whole;
            assert!(reads_larger_inputs || extent.bytes <= workload.whole.bytes);
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
fn the_bytes_of_a_convolution_are_those_that_its_variant_reads() {
    let [batch, side, channels] = [2, 5, 37];
    let layer = conv_binary::Layer::new([batch, side, channels], 2, 2).unwrap();
    let workload = layer.workload(&[]);
    let bytes = |executor: &str| {
        let mut variants = workload.variants.iter();
        variants
            .find(|variant| variant.executor == executor)
            .unwrap()
            .extent
            .bytes
    };
    // Two planes of 37 bits are four words.
    let n_pixels = batch * side * side;
    let saved = 4 * n_pixels * (channels - 4);
    assert_eq!(bytes("host") - bytes("host-words"), saved as f64);
    // The variant in f32 reads images with their padding, and weights that are not packed.
    let n_outside = batch * ((side + 2) * (side + 2) - side * side);
    let more = 4 * (n_outside * channels + channels * 3 * 3 * (channels - 4));
    assert_eq!(bytes("host-f32") - bytes("host"), more as f64);
}

#[test]
fn the_rate_of_a_network_with_levels_is_images_per_second() {
    let work = |levels| inference(levels).workload(&[]).whole.work;
    assert_eq!(work("w2a2"), Work::Images(1.0));
    assert_eq!(work("w2a2").rate_unit(), "images/s");
    assert!(work("float").operations().is_some());
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
///
/// # Panics
/// A rival is wrong, or no problem has a rival in this library.
fn check_rivals(library: &str, problems: &[Box<dyn Problem>]) {
    let Ok(python) = python() else {
        return skip("no Python on this machine");
    };
    let mut n_checked = 0;
    for problem in problems {
        let workload = problem.workload(&[]);
        let jobs = workload.rivals.iter();
        for job in jobs.filter(|job| job.library == library) {
            match Rival::start(&python, job) {
                Ok(mut rival) => {
                    let part = job.part.unwrap_or(workload.whole.part);
                    run_and_check(&workload, Some(library), part, &mut rival);
                    n_checked += 1;
                }
                Err(missing) => {
                    assert!(is_absent(&missing), "{}", missing.why);
                    return skip(&missing.why);
                }
            }
        }
    }
    assert!(n_checked > 0, "no problem has a rival in {library}");
}

/// Returns whether a library, its support of CUDA or a program is not installed.
fn is_absent(missing: &NotRun) -> bool {
    let reasons = ["No module", "no CUDA support", "program cfr not found"];
    reasons.iter().any(|reason| missing.why.contains(reason))
}

/// Libraries, and a function that returns problems with rivals in these libraries.
type Group = (&'static [&'static str], fn() -> Vec<Box<dyn Problem>>);

/// The problems whose rivals the tests start.
const RIVALS: [Group; 5] = [
    (&["numpy", "scipy"], problems),
    (&["numpy", "scipy"], games_and_draws),
    (&["nashpy", "open_spiel", "cfr"], games_and_draws),
    (&["torch", "jax"], one_of_each_type),
    (
        &["openvino", "openvino-int8", "openvino-f32"],
        problems_for_openvino,
    ),
];

/// Starts and checks the rivals of [`RIVALS`] in some libraries.
fn check_rivals_in(libraries: &[&str]) {
    for library in libraries {
        let mut n_groups = 0;
        for (_, problems) in RIVALS.iter().filter(|(known, _)| known.contains(library)) {
            check_rivals(library, &problems());
            n_groups += 1;
        }
        assert!(n_groups > 0, "{library} has no problems");
    }
}

#[test]
fn rivals_in_numpy_meet_every_oracle() {
    check_rivals_in(&["numpy"]);
}

/// Returns one problem of each element type of arguments and of results, and the trainings of each
/// script. Not all problems, because a process that loads PyTorch or JAX takes seconds to start,
/// and `bench` checks every rival of every workload before it times it.
fn one_of_each_type() -> Vec<Box<dyn Problem>> {
    let in_f64 = functions::tasks(203).find(|task| task.id.size.contains("f64"));
    let mut problems: Vec<Box<dyn Problem>> = vec![
        moves::rows([23, 11]).problem().unwrap(),
        in_f64.unwrap().prepare().unwrap(),
        similarity::sum([3, 37]).problem().unwrap(),
        similarity::all([3, 37]).problem().unwrap(),
        softmax::program([11, 23]).problem().unwrap(),
        Box::new(two_layer_net::session([5, 7, 4, 3], 12).unwrap()),
        Box::new(inference("float")),
        Box::new(low_bit_training("float")),
    ];
    problems.extend(classifiers());
    problems
}

#[test]
fn rivals_in_torch_meet_the_oracles() {
    check_rivals_in(&["torch"]);
}

#[test]
fn rivals_in_jax_meet_the_oracles() {
    check_rivals_in(&["jax"]);
}

#[test]
fn rivals_in_scipy_meet_every_oracle() {
    check_rivals_in(&["scipy"]);
}

#[test]
fn rivals_in_libraries_of_games_meet_every_oracle() {
    check_rivals_in(&["nashpy", "open_spiel", "cfr"]);
}

#[test]
fn every_script_has_a_rival_that_tests_start() {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workloads");
    let folders = std::fs::read_dir(workloads).unwrap();
    let folders = folders.map(|folder| folder.unwrap().path());
    let files = folders.filter(|folder| folder.is_dir()).flat_map(|folder| {
        let files = std::fs::read_dir(folder).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap())
    });
    let scripts: BTreeSet<String> = files.filter(|name| name.ends_with(".py")).collect();
    let mut started = BTreeSet::new();
    for (libraries, problems) in RIVALS {
        for problem in problems() {
            let jobs = problem.workload(&[]).rivals.into_iter();
            let jobs = jobs.filter(|job| libraries.contains(&job.library));
            started.extend(jobs.map(|job| job.script.name.to_owned()));
        }
    }
    assert_eq!(started, scripts);
}

#[test]
fn rivals_in_openvino_meet_their_oracles() {
    check_rivals_in(&["openvino", "openvino-int8", "openvino-f32"]);
}

fn problems_for_openvino() -> Vec<Box<dyn Problem>> {
    // OpenVINO needs a multiple of 8 channels.
    let layers = [[1, 1], [2, 2]]
        .map(|[weight_bits, bits]| conv_binary::Layer::new([2, 5, 40], weight_bits, bits).unwrap());
    let mut problems: Vec<Box<dyn Problem>> = vec![Box::new(inference("float"))];
    problems.extend(layers.map(|layer| Box::new(layer) as Box<dyn Problem>));
    problems
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
                let part = workload.whole.part;
                run_and_check(&workload, Some("torch-cuda"), part, &mut rival);
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
        &[
            chain,
            training,
            Box::new(classifier(train_mnist::Net::Conv).unwrap()),
        ],
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
