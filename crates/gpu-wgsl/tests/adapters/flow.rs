//! Memory and control flow: recorded work runs once and in order, returned memory is reused,
//! measured times are positive.

use gpu_wgsl::check::every_adapter;
use gpu_wgsl::{Error, Gpu, Select, Timer};
use shaders::layout;
use shaders::params::{BufferCopyParams, FmaPeakParams};
use std::time::Duration;

fn fresh(shared: &Gpu) -> Gpu {
    Gpu::open(Select::Index(shared.adapter().index))
        .expect("an adapter that was opened before can be opened again")
}

#[test]
fn zero_sizes_and_rank_0_are_shapes_like_others() {
    for gpu in every_adapter() {
        for shape in [&[0][..], &[3, 0], &[0, 1 << 20, 7]] {
            let empty = gpu.upload::<f32>("empty", shape, &[]).unwrap();
            assert_eq!(gpu.read(&empty).unwrap(), []);
        }
        let scalar = gpu.upload("scalar", &[], &[4.5_f32]).unwrap();
        assert_eq!(gpu.read(&scalar).unwrap(), [4.5]);
    }
}

#[test]
fn recorded_work_sees_what_a_buffer_held_when_it_was_recorded() {
    for gpu in every_adapter() {
        let x = gpu.upload("x", &[4], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let y = gpu.alloc::<f32>("y", &[4]).unwrap();
        gpu.dispatch(&layout::BUFFER_COPY, &BufferCopyParams::new(1), &[&x, &y])
            .unwrap();
        gpu.write(&x, &[9.0; 4]).unwrap();
        assert_eq!(gpu.read(&y).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(gpu.read(&x).unwrap(), [9.0; 4]);
    }
}

#[test]
fn a_buffer_dropped_before_the_flush_is_not_reused_before_it_was_read() {
    for shared in every_adapter() {
        let gpu = fresh(shared);
        let y = gpu.alloc::<f32>("y", &[4]).unwrap();
        let x = gpu.upload("x", &[4], &[1.0_f32; 4]).unwrap();
        gpu.dispatch(&layout::BUFFER_COPY, &BufferCopyParams::new(1), &[&x, &y])
            .unwrap();
        drop(x);
        let other = gpu.upload("other", &[4], &[2.0_f32; 4]).unwrap();
        assert_eq!(gpu.read(&y).unwrap(), [1.0; 4]);
        assert_eq!(gpu.read(&other).unwrap(), [2.0; 4]);
    }
}

#[test]
fn a_chain_of_dispatches_runs_in_order_even_beyond_one_batch() {
    for gpu in every_adapter() {
        let a = gpu.upload("a", &[4], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let b = gpu.upload("b", &[4], &[0.0_f32; 4]).unwrap();
        let c = gpu.upload("c", &[4], &[0.0_f32; 4]).unwrap();
        for _ in 0..1500 {
            gpu.dispatch(&layout::BUFFER_COPY, &BufferCopyParams::new(1), &[&a, &b])
                .unwrap();
            gpu.dispatch(&layout::BUFFER_COPY, &BufferCopyParams::new(1), &[&b, &c])
                .unwrap();
        }
        assert_eq!(gpu.read(&c).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    }
}

#[test]
fn pool_counters_follow_what_is_held() {
    for shared in every_adapter() {
        let gpu = fresh(shared);
        let a = gpu.alloc::<f32>("a", &[1000]).unwrap();
        let b = gpu.alloc::<f32>("b", &[500]).unwrap();
        assert_eq!(
            (gpu.pool().live_bytes(), gpu.pool().peak_bytes()),
            (6000, 6000)
        );
        drop(a);
        assert_eq!(
            (gpu.pool().live_bytes(), gpu.pool().peak_bytes()),
            (2000, 6000)
        );
        let created = gpu.pool().n_created();
        let c = gpu.alloc::<f32>("c", &[1000]).unwrap();
        assert_eq!(
            (gpu.pool().n_created(), gpu.pool().n_reused()),
            (created, 1)
        );
        drop((b, c));
        gpu.reset_peak();
        gpu.trim();
        let counters = gpu.pool();
        assert_eq!(
            (
                counters.live_bytes(),
                counters.peak_bytes(),
                counters.reserved_bytes()
            ),
            (0, 0, 0)
        );
    }
}

#[test]
fn every_timer_names_every_dispatch_and_grows_with_the_work() {
    for shared in every_adapter() {
        let gpu = fresh(shared);
        let y = gpu.alloc::<f32>("y", &[4 * 4096]).unwrap();
        let run =
            |rounds| gpu.dispatch(&layout::FMA_PEAK, &FmaPeakParams::new(4096, rounds), &[&y]);
        for timer in [Timer::InPass, Timer::PerPass, Timer::WallClock] {
            // The shortest of several runs, because other programs may interrupt a dispatch.
            let mut shortest = [Duration::MAX; 2];
            for _ in 0..5 {
                let measured = gpu.time_by(timer, || {
                    run(16)?;
                    run(16 * 64)
                });
                let timings = match measured {
                    Err(Error::Unsupported { .. }) if timer != gpu.timer() => break,
                    other => other.unwrap(),
                };
                assert_eq!(timings.len(), 2);
                assert!(timings.iter().all(|timing| timing.kernel == "fma_peak"));
                for (shortest, timing) in shortest.iter_mut().zip(timings) {
                    *shortest = timing.elapsed.min(*shortest);
                }
            }
            if shortest != [Duration::MAX; 2] {
                assert!(
                    Duration::ZERO < shortest[0] && shortest[0] < shortest[1],
                    "{timer:?}: {shortest:?}"
                );
            }
        }
    }
}

#[test]
fn threads_share_a_device() {
    for gpu in every_adapter() {
        std::thread::scope(|scope| {
            for thread in 0..4_u16 {
                scope.spawn(move || {
                    for _ in 0..20 {
                        let x = gpu.upload("x", &[256], &[f32::from(thread); 256]).unwrap();
                        let y = gpu.alloc::<f32>("y", &[256]).unwrap();
                        gpu.dispatch(&layout::BUFFER_COPY, &BufferCopyParams::new(64), &[&x, &y])
                            .unwrap();
                        assert_eq!(gpu.read(&y).unwrap(), [f32::from(thread); 256]);
                    }
                });
            }
        });
    }
}

#[test]
fn a_measurement_holds_its_own_threads_dispatches_and_no_other_runs_next_to_it() {
    for shared in every_adapter() {
        let gpu = fresh(shared);
        let y = gpu.alloc::<f32>("y", &[4 * 64]).unwrap();
        let run = || gpu.dispatch(&layout::FMA_PEAK, &FmaPeakParams::new(64, 1), &[&y]);
        let timings = gpu
            .time(|| {
                std::thread::scope(|scope| scope.spawn(run).join().unwrap())?;
                assert_eq!(gpu.time(run), Err(Error::Measuring));
                run()
            })
            .unwrap();
        assert_eq!(timings.len(), 1);
        let failed = gpu.time(|| Err(Error::Measuring));
        assert_eq!(failed, Err(Error::Measuring));
        assert_eq!(gpu.time(run).unwrap().len(), 1);
    }
}

#[test]
fn a_kernel_sees_its_buffer_and_not_the_rest_of_its_size_class() {
    let source = "struct P { n: u32 } @group(0) @binding(0) var<uniform> p: P;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(1) fn len() { y[0] = arrayLength(&y) + 0u * p.n; }";
    let kernel = shaders::reflect("len", source).unwrap();
    for gpu in every_adapter() {
        let y = gpu.alloc::<u32>("y", &[5]).unwrap();
        gpu.dispatch(&kernel, &P { n: 1 }, &[&y]).unwrap();
        assert_eq!(gpu.read(&y).unwrap()[0], 5);
    }
}

/// Parameters of the kernel `len`.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct P {
    n: u32,
}

impl shaders::Params for P {
    const NAME: &'static str = "P";
    const FIELDS: &'static [shaders::Field] = &[shaders::Field {
        name: "n",
        offset_bytes: 0,
    }];

    fn domain(&self) -> [u64; 3] {
        [self.n.into(), 1, 1]
    }

    fn buffer_lens(&self) -> Vec<u64> {
        vec![1]
    }

    fn loop_iterations(&self) -> u64 {
        0
    }
}

#[test]
fn what_is_read_is_what_was_there_when_the_read_began() {
    for gpu in every_adapter() {
        let x = gpu.upload("x", &[3], &[1_u32, 2, 3]).unwrap();
        let (first, second) = (gpu.start_read(&x).unwrap(), gpu.start_read(&x).unwrap());
        gpu.write(&x, &[7, 8, 9]).unwrap();
        let third = gpu.start_read(&x).unwrap();
        drop(second);
        gpu.finish().unwrap();
        assert!(first.is_ready() && third.is_ready());
        assert_eq!(third.wait().unwrap(), [7, 8, 9]);
        assert_eq!(pollster::block_on(first.finish()).unwrap(), [1, 2, 3]);
        let empty = gpu.alloc::<f32>("empty", &[0]).unwrap();
        assert_eq!(gpu.start_read(&empty).unwrap().wait().unwrap(), []);
    }
}

#[test]
fn long_arrays_travel_in_pieces() {
    // More than one part of an upload, and more pieces than are in flight at a time.
    let len = (70 << 20) / 4 + 3;
    let words: Vec<u32> = (0..len)
        .map(|n: u32| n.wrapping_mul(2_654_435_761))
        .collect();
    for gpu in every_adapter() {
        let long = gpu.upload("long", &[words.len()], &words).unwrap();
        assert!(gpu.read(&long).unwrap() == words);
        assert!(gpu.start_read(&long).unwrap().wait().unwrap() == words);
    }
}
