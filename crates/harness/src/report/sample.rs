//! Records with invented numbers, for tests.

use crate::record::{
    AdapterFacts, AdapterPeaks, Check, Machine, NotRun, Peaks, Record, RivalTiming, Row,
};

const GPU: &str = "Sample GPU 9000";
const SOFTWARE: &str = "samplepipe (SIMD, 256 bits)";

/// GFLOP/s of each CPU variant, chosen so that every plot has variants over four decades.
const CPU_VARIANTS: [(&str, f64); 6] = [
    ("three loops", 0.4),
    ("two loops and a dot product", 1.6),
    ("row broadcast", 2.9),
    ("einsum", 3.1),
    ("kernel simulator", 0.09),
    ("host", 120.0),
];
const GPU_VARIANTS: [(&str, f64); 3] = [
    ("wgsl naive", 0.05),
    ("wgsl tiles", 0.18),
    ("wgsl registers", 0.5),
];

/// Returns a run with every kind of outcome.
pub(crate) fn record() -> Record {
    let sizes = [
        (50_000, 784, 10),
        (5, 784, 10),
        (512, 512, 512),
        (1024, 1024, 1024),
        (2048, 2048, 2048),
    ];
    let mut rows = Vec::new();
    for (m, k, n) in sizes {
        let (m, k, n): (u32, u32, u32) = (m, k, n);
        let (m, k, n) = (f64::from(m), f64::from(k), f64::from(n));
        let size = format!("{m}x{k}x{n}");
        let (operations, bytes) = (2.0 * m * k * n, 4.0 * (m * k + k * n + m * n));
        // Small work does not reach the peak of any device.
        let fill = (operations / 1e9).clamp(1e-3, 1.0).powf(0.3) * (bytes / operations).powf(0.1);
        let first = CPU_VARIANTS[0].1 * fill;
        let row = |executor: &str, rate: f64, peak: f64| Row {
            workload: "matmul".into(),
            source: "S3".into(),
            size: size.clone(),
            executor: executor.into(),
            check: Check::Ok,
            median_s: Some(operations / rate / 1e9),
            low_s: Some(0.96 * operations / rate / 1e9),
            high_s: Some(1.07 * operations / rate / 1e9),
            first_call_s: Some(0.003 + 1.4 * operations / rate / 1e9),
            operations: Some(operations),
            bytes: Some(bytes),
            rate: Some(rate),
            rate_unit: "GFLOP/s".into(),
            gb_per_s: Some(rate * bytes / operations),
            speedup_over_first: Some(rate / first),
            share_of_peak: Some(rate / peak),
            ..Row::default()
        };
        for (executor, rate) in CPU_VARIANTS {
            let mut row = row(executor, rate * fill, 150.0);
            if executor == "three loops" || executor == "kernel simulator" {
                row.note = "rows 0..500 of 50000".into();
                row.share_of_work = Some(0.01);
            }
            if executor == "host" {
                // A rival that is slower on large matrices and faster on others.
                let torch = if m >= 1024.0 { 1.2 } else { 0.96 };
                for (name, version, speedup) in
                    [("numpy", "0.0-sample", 1.4), ("torch", "0.0-sample", torch)]
                {
                    row.rivals
                        .insert(name.into(), rival(version, speedup, &row));
                }
            }
            rows.push(row);
        }
        for (adapter, peak) in [(GPU, 9000.0), (SOFTWARE, 30.0)] {
            for (executor, share) in GPU_VARIANTS {
                rows.push(Row {
                    adapter: Some(adapter.into()),
                    ..row(executor, share * peak * fill, peak)
                });
            }
        }
    }
    let last = rows.len() - 1;
    rows[last].check = Check::Failed("element [17, 3] is 0.25, expected 0.75 within 1.2e-4".into());
    rows[last - 3].check = Check::Skipped("the oracle was not run at this size".into());
    let dead = rows.len() - 5;
    rows[dead] = Row {
        median_s: None,
        low_s: None,
        high_s: None,
        rate: None,
        gb_per_s: None,
        speedup_over_first: None,
        share_of_peak: None,
        first_call_s: None,
        check: Check::Skipped("buffer of 16 MiB is over the limit of this sample".into()),
        ..rows[dead].clone()
    };
    rows.extend(training());
    let not_run = NotRun {
        what: "jax".into(),
        why: "No module named 'jax'".into(),
        how: "pip install jax".into(),
    };
    Record {
        machine: machine(),
        rows,
        not_run: vec![not_run],
        ..Record::default()
    }
}

fn rival(version: &str, speedup: f64, ours: &Row) -> RivalTiming {
    let scaled = |ours: Option<f64>, factor: f64| ours.map(|ours| ours * factor);
    RivalTiming {
        version: version.into(),
        threads: 2,
        check: Check::Ok,
        median_s: scaled(ours.median_s, speedup),
        low_s: scaled(ours.median_s, 0.97 * speedup),
        high_s: scaled(ours.median_s, 1.04 * speedup),
        first_call_s: scaled(ours.first_call_s, speedup),
        peak_extra_bytes: Some(1 << 22),
        rate: scaled(ours.rate, 1.0 / speedup),
        gb_per_s: scaled(ours.gb_per_s, 1.0 / speedup),
        speedup_over_first: scaled(ours.speedup_over_first, 1.0 / speedup),
        share_of_peak: scaled(ours.share_of_peak, 1.0 / speedup),
        speedup: Some(speedup),
        low: Some(0.98 * speedup),
        high: Some(1.02 * speedup),
        ..RivalTiming::default()
    }
}

/// Returns a training in which all losses agree except for one rival, which converges to a worse
/// minimum; one of the variants was timed once.
fn training() -> [Row; 3] {
    let losses = |floor: f32| -> Vec<f32> {
        let noise = |step: u16| (f32::from(step % 97 * 62 % 97) / 97.0 - 0.5).mul_add(0.3, 1.0);
        let loss = |step: u16| 2.3 * (-f32::from(step) / 60.0).exp() + floor * noise(step);
        (0..250).map(loss).collect()
    };
    let row = |executor: &str, seconds: f64| Row {
        workload: "two-layer-net".into(),
        source: "S2".into(),
        size: "64x1000x100x10".into(),
        executor: executor.into(),
        check: Check::Ok,
        median_s: Some(seconds),
        rate: Some(20.0 / seconds),
        rate_unit: "GFLOP/s".into(),
        losses: losses(0.01),
        accuracy: Some(0.9731),
        ..Row::default()
    };
    let loops = Row {
        note: "one run".into(),
        ..row("loops", 5.2)
    };
    let mut host = row("host", 0.25);
    for (name, speedup, floor) in [
        ("numpy", 4.0, 0.01),
        ("torch", 2.4, 0.03),
        ("jax", 3.0, 0.01),
    ] {
        let timing = RivalTiming {
            losses: losses(floor),
            accuracy: host.accuracy,
            ..rival("0.0-sample", speedup, &host)
        };
        host.rivals.insert(name.into(), timing);
    }
    let wgsl = Row {
        adapter: Some(GPU.into()),
        ..row("wgsl", 0.09)
    };
    [loops, host, wgsl]
}

fn machine() -> Machine {
    let adapter = |name: &str, device_type: &str| AdapterFacts {
        name: name.into(),
        backend: "Vulkan".into(),
        driver: "sample driver 1.2.3".into(),
        device_type: device_type.into(),
        limits: [("max_storage_buffer_binding_size".to_owned(), 134_217_728)].into(),
        features: [("timestamps".to_owned(), true), ("f16".to_owned(), false)].into(),
    };
    let peak = |flops, copy| AdapterPeaks {
        flops: Some(flops),
        copy_bytes_per_s: Some(copy),
        bit_products: Some(4.0 * flops),
    };
    Machine {
        cpu: "Sample CPU 2000".into(),
        cores: 2,
        cpu_features: ["fma", "avx2"].map(str::to_owned).to_vec(),
        memory_bytes: Some(8 << 30),
        os: "linux".into(),
        arch: "x86_64".into(),
        rustc: Some("rustc 0.0.0 (sample)".into()),
        commit: Some("0000000-dirty".into()),
        date: "2000-01-01T00:00:00Z".into(),
        data_origin: Some("made-up numbers of a test".into()),
        peaks: Peaks {
            cpu_flops: Some(150e9),
            cpu_copy_bytes_per_s: Some(18e9),
            cpu_bit_products: [("AVX2".to_owned(), 400e9)].into(),
            adapters: [
                (GPU.to_owned(), peak(9e12, 400e9)),
                (SOFTWARE.to_owned(), peak(30e9, 9e9)),
            ]
            .into(),
        },
        disturbed: None,
        adapters: vec![adapter(GPU, "DiscreteGpu"), adapter(SOFTWARE, "Cpu")],
        rivals: [("numpy".to_owned(), "0.0-sample".to_owned())].into(),
    }
}

/// Returns a record in which every text contains markup.
pub(crate) fn hostile() -> Record {
    const TEXT: &str = "\"><script>alert('x')</script><svg onload=\"y\">&";
    let text = || TEXT.to_owned();
    let row = Row {
        workload: text(),
        source: text(),
        size: text(),
        executor: text(),
        adapter: Some(text()),
        rate: Some(1.0),
        operations: Some(1.0),
        bytes: Some(1.0),
        median_s: Some(1.0),
        rate_unit: text(),
        note: text(),
        losses: vec![2.0, 1.0],
        rivals: [(
            text(),
            RivalTiming {
                version: text(),
                note: text(),
                check: Check::Failed(text()),
                ..RivalTiming::default()
            },
        )]
        .into(),
        ..Row::default()
    };
    let plotted = Row {
        rate_unit: "GFLOP/s".into(),
        workload: TEXT.repeat(2),
        ..row.clone()
    };
    let skipped = Row {
        check: Check::Skipped(text()),
        median_s: None,
        rate: None,
        ..row.clone()
    };
    let adapter = AdapterFacts {
        name: text(),
        backend: text(),
        driver: text(),
        device_type: text(),
        limits: [(text(), 1)].into(),
        features: [(text(), true)].into(),
    };
    let machine = Machine {
        cpu: text(),
        cpu_features: vec![text()],
        os: text(),
        arch: text(),
        rustc: Some(text()),
        commit: Some(text()),
        date: text(),
        data_origin: Some(text()),
        adapters: vec![adapter],
        peaks: Peaks {
            cpu_flops: Some(1e9),
            adapters: [(
                text(),
                AdapterPeaks {
                    flops: Some(1e9),
                    copy_bytes_per_s: Some(1e9),
                    ..AdapterPeaks::default()
                },
            )]
            .into(),
            ..Peaks::default()
        },
        ..Machine::default()
    };
    let not_run = NotRun {
        what: text(),
        why: text(),
        how: text(),
    };
    Record {
        machine,
        rows: vec![row, plotted, skipped],
        not_run: vec![not_run],
        ..Record::default()
    }
}
