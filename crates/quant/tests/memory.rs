//! Memory and spans of frozen networks: formulas of packed bytes and of products.

#![expect(
    clippy::unwrap_used,
    reason = "an error in a helper fails the test that calls it"
)]

use quant::{
    Activation, FrozenNetwork, InputImage, Layer, LevelSet, Network, Packing, Quantizer, Weights,
    Window,
};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::ndarray::ArrayD;
use tensor_core::profile::{Arg, Profile, Profiler};
use tensor_core::rng::Philox;
use tensor_core::{Host, Tensor};

const BATCH: usize = 3;
const SIDE: usize = 8;
/// The number of threads of the host.
const N_THREADS: usize = 2;
/// The largest number of bytes of the counts of all tasks that run at once.
const TASK_BYTES: usize = N_THREADS * 4 * (1 << 14);

/// A layer of the test network.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    /// The side of the image that the layer reads, and of the taps.
    side: usize,
    taps: usize,
    n_inputs: usize,
    n_outputs: usize,
    n_groups: usize,
    is_pooled: bool,
}

impl Shape {
    const fn new(name: &'static str, taps: usize, [n_inputs, n_outputs]: [usize; 2]) -> Self {
        Self {
            name,
            side: SIDE,
            taps,
            n_inputs,
            n_outputs,
            n_groups: 1,
            is_pooled: false,
        }
    }

    fn n_sums(&self) -> usize {
        let side = if self.taps == self.side { 1 } else { self.side };
        BATCH * side * side * self.n_outputs
    }

    /// Returns the largest number of bytes of temporaries of a packed layer, on the host.
    fn temporary_bytes(&self, form: Form) -> usize {
        // The counts of all pairs of planes and their sum.
        let counts = 4 * (n_pairs(form) + 1) * self.n_sums();
        let counts = counts.max(self.product_bytes(form));
        let n_thresholds = (1 << form.2) - 1;
        // A max-pool has 2 x 2 positions.
        let passed = 4 * self.n_sums() + (n_thresholds + 1) * self.n_sums();
        if self.is_pooled {
            counts.max(passed)
        } else {
            counts
        }
    }

    /// Returns the largest number of bytes while the words of the layer are multiplied: packed
    /// input and counts, the copies of input and weights, and the counts of a task for each thread.
    fn product_bytes(&self, form: Form) -> usize {
        let words_per_pixel = input_bytes(self, form) / (4 * BATCH * self.side.pow(2));
        let side = self.side + if self.taps == 3 { 2 } else { 0 };
        let with_border = BATCH * side * side * words_per_pixel;
        let planes_of_weights = n_pairs(form) / n_planes(form);
        let words_per_tap = words_per_pixel / n_planes(form) / self.n_groups;
        let weights = planes_of_weights * self.n_outputs * self.taps.pow(2) * words_per_tap;
        // A copy ends with 32 unused words.
        let copies = 4 * (with_border + weights + 2 * 32);
        input_bytes(self, form) + 4 * n_pairs(form) * self.n_sums() + copies + TASK_BYTES
    }

    fn n_products(&self) -> usize {
        self.n_sums() * self.taps * self.taps * self.n_inputs / self.n_groups
    }
}

/// The layers of a network whose memory is largest in the third layer. Its groups have other
/// numbers of channels than words.
fn shapes() -> [Shape; 5] {
    [
        Shape::new("first", 1, [2, 8]),
        Shape::new("second", 3, [8, 480]),
        Shape {
            n_groups: 12,
            ..Shape::new("third", 3, [480, 480])
        },
        Shape {
            is_pooled: true,
            ..Shape::new("fourth", 3, [480, 120])
        },
        Shape {
            side: SIDE / 2,
            ..Shape::new("last", SIDE / 2, [120, 3])
        },
    ]
}

/// The packing, the bits of a weight and those of an activation.
type Form = (Packing, usize, usize);

const FORMS: [Form; 4] = [
    (Packing::Bits, 1, 1),
    (Packing::Bits, 2, 2),
    (Packing::Bytes, 2, 2),
    (Packing::Bytes, 3, 5),
];

fn frozen((packing, weight_bits, bits): Form) -> FrozenNetwork {
    let basis: Vec<f32> = (0..weight_bits).map(|bit| (1 << bit) as f32).collect();
    let signs = Quantizer::new(vec![LevelSet::signs(&basis).unwrap()]).unwrap();
    let shapes = shapes();
    let layers = shapes.iter().enumerate().map(|(number, shape)| {
        let n = shape.n_outputs * shape.taps * shape.taps * shape.n_inputs / shape.n_groups;
        let random = Philox::new(number as u64);
        let weights = if number == 0 || number == shapes.len() - 1 {
            let numbers = (0..n as u64).map(|i| random.uniform_f32(i) - 0.5);
            Weights::Float(numbers.collect())
        } else {
            let codes = (0..n as u64).map(|i| random.word(i).to_le_bytes()[0]);
            Weights::Levels {
                quantizer: signs.clone(),
                codes: codes.map(|code| code >> (8 - weight_bits)).collect(),
            }
        };
        let mut window = Window::new([shape.taps; 2]);
        if shape.taps == 3 {
            window = window.with_padding([[1, 1], [1, 1]]);
        }
        let layer = Layer::new(shape.name, shape.n_outputs, window, weights);
        let layer = layer.with_groups(shape.n_groups);
        let layer = if shape.is_pooled {
            layer.with_pool(Window::new([2, 2]).with_stride([2, 2]))
        } else {
            layer
        };
        if number == shapes.len() - 1 {
            layer
        } else {
            let levels = LevelSet::uniform_from_zero(bits, 0.5).unwrap();
            layer.with_activation(Activation::Levels(levels))
        }
    });
    let input = InputImage::unit([SIDE, SIDE, 2]);
    let network = Network::new(input, layers.collect()).unwrap();
    network.freeze_to(packing).unwrap()
}

fn pixels() -> Vec<u8> {
    let places = 0..(BATCH * SIDE * SIDE * 2) as u64;
    places
        .map(|i| Philox::new(7).word(i).to_le_bytes()[0])
        .collect()
}

/// Checks that two outputs are equal.
fn assert_equal(actual: &ArrayD<f32>, expected: &ArrayD<f32>) {
    let elements = |array: &ArrayD<f32>| array.iter().copied().collect::<Vec<_>>();
    assert_close(elements(actual), elements(expected), Tolerance::exact());
}

/// Returns the bytes of the packed input of a layer after the first.
fn input_bytes(shape: &Shape, (packing, _, bits): Form) -> usize {
    let group_len = shape.n_inputs / shape.n_groups;
    let words = match packing {
        Packing::Bits => bits * shape.n_groups * group_len.div_ceil(32),
        Packing::Bytes => shape.n_groups * group_len.div_ceil(4),
    };
    4 * BATCH * shape.side * shape.side * words
}

/// Returns the number of planes of a packed input.
fn n_planes((packing, _, bits): Form) -> usize {
    match packing {
        Packing::Bits => bits,
        Packing::Bytes => 1,
    }
}

/// Returns the product of the bits of an activation and a weight.
fn n_pairs((packing, weight_bits, bits): Form) -> usize {
    match packing {
        Packing::Bits => bits * weight_bits,
        Packing::Bytes => 1,
    }
}

#[test]
fn the_hosts_peak_is_that_of_the_largest_counts_and_sums() {
    for form in FORMS {
        let host = Host::new();
        let frozen = frozen(form);
        let threads = rayon::ThreadPoolBuilder::new().num_threads(N_THREADS);
        let threads = threads.build().unwrap();
        let output = threads.install(|| frozen.run(&pixels(), &host)).unwrap();
        let most = shapes()
            .iter()
            .map(|shape| shape.temporary_bytes(form))
            .max();
        let most = most.unwrap();
        // With one pair of planes, flags of thresholds take the place of counts. With bytes, the
        // product of the layer with the most weights is the largest; its tasks have few counts.
        let slack = match form {
            (Packing::Bits, 1, 1) => most,
            (Packing::Bits, ..) => 0,
            (Packing::Bytes, ..) => TASK_BYTES,
        };
        let peak = host.peak_bytes();
        assert!(
            peak <= most && peak >= most - slack,
            "{form:?}: {peak} {most}"
        );
        assert_eq!((output.len(), host.live_bytes()), (BATCH * 3, 0));
    }
}

#[test]
#[cfg(feature = "gpu")]
fn the_peak_of_a_devices_pool_is_that_of_the_largest_packed_input_and_output() {
    if let Some(shared) = gpu_wgsl::check::adapter_of_the_day() {
        let gpu = shared.reopen().unwrap();
        for form in FORMS {
            let frozen = frozen(form);
            gpu.finish().unwrap();
            assert_eq!(gpu.pool().live_bytes(), 0);
            let network = frozen.upload(&gpu).unwrap();
            let weights = gpu.pool().live_bytes();
            gpu.finish().unwrap();
            gpu.reset_peak();
            let output = network.run(&pixels()).unwrap();
            let packed: Vec<u64> = shapes()[1..]
                .iter()
                .map(|shape| input_bytes(shape, form) as u64)
                .collect();
            let largest = packed.windows(2).map(|pair| pair[0] + pair[1]).max();
            let peak = gpu.pool().peak_bytes();
            assert_eq!(peak, weights + largest.unwrap(), "{form:?}");
            assert_eq!(gpu.pool().live_bytes(), weights);
            assert_equal(&output, &frozen.run(&pixels(), &Host::new()).unwrap());
        }
    }
}

/// Checks that the spans of a track are the layers, with the bytes and products of their sizes.
fn check_spans(profile: &Profile, track: &str, frozen: &FrozenNetwork, form: Form) {
    let spans: Vec<_> = profile
        .spans()
        .filter(|span| &*span.track == track)
        .collect();
    let spans = spans.iter().filter(|span| {
        span.args
            .iter()
            .any(|(name, _)| name.ends_with(" products"))
    });
    let spans: Vec<_> = spans.collect();
    let shapes = shapes();
    let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, shapes.map(|shape| shape.name));
    for (number, (span, shape)) in spans.iter().zip(&shapes).enumerate() {
        let read = match number {
            0 => 4 * pixels().len(),
            _ => input_bytes(shape, form),
        };
        let written = match shapes.get(number + 1) {
            Some(next) => input_bytes(next, form),
            None => 4 * shape.n_sums(),
        };
        let is_packed = (1..4).contains(&number);
        let (kind, n_pairs) = match (form.0, is_packed) {
            (Packing::Bits, true) => ("bit products", n_pairs(form)),
            (Packing::Bytes, true) => ("byte products", 1),
            // The last layer multiplies its numbers with each plane.
            (Packing::Bits, false) if number > 0 => ("integer products", form.2),
            (_, false) => ("integer products", 1),
        };
        let expected = [
            ("bytes read", read + frozen.layers()[number].n_bytes()),
            ("bytes written", written),
            (kind, shape.n_products() * n_pairs),
        ];
        let expected = expected.map(|(name, n)| (name.into(), Arg::Count(n as u64)));
        assert_eq!(span.args, expected, "{}", span.name);
        assert!(span.end_ns > span.start_ns, "{span:?}");
    }
    assert!(
        spans
            .windows(2)
            .all(|pair| pair[0].end_ns <= pair[1].start_ns),
        "one layer after the other"
    );
}

#[test]
fn a_profile_has_a_span_for_each_layer() {
    #[cfg(feature = "gpu")]
    let mut adapters = gpu_wgsl::check::adapters_in_turn();
    for form in FORMS {
        let frozen = frozen(form);
        let codes: Tensor = frozen.codes(&pixels()).unwrap();
        let host = Host::new();
        let profiler = Profiler::new(&host);
        let output = frozen.profile(&codes, &profiler).unwrap();
        let expected = frozen.run(&pixels(), &host).unwrap();
        assert_equal(&output.to_host().unwrap(), &expected);
        let profile = profiler.profile();
        check_spans(&profile, "layers", &frozen, form);
        // The steps have spans of their own.
        assert!(profile.spans().count() > 2 * shapes().len());
        #[cfg(feature = "gpu")]
        if let Some(gpu) = adapters.next() {
            let profiler = Profiler::new(gpu);
            let network = frozen.upload(gpu).unwrap();
            let output = network.profile(&codes, &profiler).unwrap();
            assert_equal(&output.to_host().unwrap(), &expected);
            let device = &gpu.adapter().name;
            check_spans(&profiler.profile(), device, &frozen, form);
        }
    }
}
