//! Claims of the blog notes "Tracing GPU Resources" and "Setting up CUDA tools properly": energy,
//! utilisation, the DVFS curve of a P100, and compatibility of CUDA versions.
//!
//! Method: the notes' own table is passed to [`telemetry::analysis::dvfs`], and their terminal
//! output to [`toolkit`]. Claims about power and utilisation are compared with a recording of a
//! real load, which ran for half of each 0.1 s and was measured by an external meter; simulated
//! sensors and counters measure this recorded power.
//! Source of the recording: `crates/telemetry/testdata/power-traces/README.md`.
//! Limits: for the ETL process and the similarity job the notes show plots without numbers, so no
//! claims about these are checked.

use super::{Claim, Correction, Reading, Verdict};
use anyhow::{Context, Result};
use telemetry::Source as _;
use telemetry::analysis::{ClockMeasurement, Curve, dvfs};
use telemetry::doctor::image::{self, Host};
use telemetry::doctor::toolkit::{self, Version};
use telemetry::nvml;
use telemetry::synthetic::{
    Board, BoardLimits, Driver, Gpu, Model, PowerField, PowerProfile, PowerSegment, Scenario,
};

/// Clocks in the notes' table for a P100, in MHz.
const CLOCKS_MHZ: [f64; 7] = [544.0, 683.0, 810.0, 936.0, 1063.0, 1202.0, 1328.0];
/// Power at each clock, in W.
const WATTS: [f64; 7] = [57.0, 62.0, 65.0, 70.0, 78.0, 88.0, 115.0];
/// Images per second at each clock.
const RATES: [f64; 7] = [60.0, 75.0, 85.0, 95.0, 105.0, 115.0, 120.0];
/// Rounding error of the powers, which were read from a figure to 1 W.
const WATTS_ROUNDING: f64 = 0.5;
/// Rounding error of the rates, which were read from a figure to five images per second.
const RATES_ROUNDING: f64 = 2.5;

/// Memory that a CUDA program reports for the notes' T4, in bytes.
const T4_BYTES: f64 = 15_634_661_376.0;
const MIB: f64 = (1 << 20) as f64;

/// Output of `nvcc --version` in the first image of the notes.
const NVCC_NEW: &str = "Cuda compilation tools, release 12.1, V12.1.105";
/// Output of `nvcc --version` in the second image.
const NVCC_OLD: &str = "Cuda compilation tools, release 11.8, V11.8.89";
/// CUDA version of the notes' frameworks.
const FRAMEWORK: &str = "11.8";
/// The notes' driver version, as printed by `nvidia-smi`.
const DRIVER: &str = "510.47.03";

/// Power during the recording, measured by the external meter, in bins of 5 ms.
const METER: &str =
    include_str!("../../../crates/telemetry/testdata/power-traces/rtx3090-square-104ms.meter.csv");
/// Values that the GPU reported during the recording.
const REPORTED: &str =
    include_str!("../../../crates/telemetry/testdata/power-traces/rtx3090-square-104ms.sensor.csv");
/// Start and end times of the load during the recording.
const LOAD: &str =
    include_str!("../../../crates/telemetry/testdata/power-traces/rtx3090-square-104ms.load.csv");
const BIN_S: f64 = 0.005;
const MS_PER_S: f64 = 1e3;
/// Index of the column with the utilisation in [`REPORTED`].
const BUSY_COLUMN: usize = 3;
/// Evaluated interval of the recording, in s. Its distance from the start and the end of the load
/// is longer than the update interval of any sensor.
const WINDOW_S: (f64, f64) = (2.5, 8.5);
/// Interval between two rows of the notes' script, in s.
const INTERVAL_S: f64 = 0.1;
/// Number of rows of the script within the evaluated interval.
const N_ROWS: u32 = 60;
/// Boards of each kind of sensor: the sensors of V100 and A100 measure only during a part of the
/// time, those of T4 and RTX 3090 all the time.
const BOARDS: [Board; 4] = [Board::V100, Board::A100, Board::T4, Board::Rtx3090];
/// Number of evenly spaced time shifts within [`INTERVAL_S`] that are tested, both for the
/// recording relative to the sensor's updates and for the rows of the script.
const PHASES: u32 = 10;
/// Power limit of the simulated boards, in W: above the power of the load, so that it has no
/// effect.
const NO_LIMIT_W: f64 = 1e3;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s0.trace.energy",
        claim: "energy is hard to determine from samples of power, which varies, and a counter is better: largest error of \
            the counter divided by that of power sampled every 0.1 s, by the sensors of a V100, an A100, a T4 and an RTX 3090",
        claimed: &[1.0; 4],
        reading: Reading::Below,
        correction: Some(Correction {
            claim: "true for sensors with partial coverage of time (V100, A100); with full coverage (T4, RTX 3090) power is \
                within 1 %: ratios of the former two, errors of power of the latter two",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[1.0, 1.0, 0.01, 0.01],
            reading: Reading::Below,
            measure: || {
                let ratio = |board| errors(board).map(|[counter, power]| counter / power);
                let by_power = |board| errors(board).map(|[_, power]| power);
                Ok(Some(vec![
                    ratio(BOARDS[0])?,
                    ratio(BOARDS[1])?,
                    by_power(BOARDS[2])?,
                    by_power(BOARDS[3])?,
                ]))
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || {
            let ratio = |board| errors(board).map(|[counter, power]| counter / power);
            let ratios: Result<_> = BOARDS.into_iter().map(ratio).collect();
            ratios.map(Some)
        },
    },
    Claim {
        id: "s0.trace.utilisation",
        claim: "utilisation is the share of time in which a kernel runs: difference, in percentage points, between the \
            utilisation reported by an RTX 3090 under an intermittent load and the share of time in which the load ran",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (reported, on) = utilisation()?;
            Ok(Some(vec![(reported - on).abs()]))
        },
    },
    Claim {
        id: "s0.dvfs.optimum",
        claim: "a clock exists at which the energy per image is smallest: this clock in MHz, its energy in J, and the saving \
            compared with the highest clock, all three computed here from the table",
        claimed: &[936.0, 0.7368, 0.2311],
        reading: Reading::Printed(4),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let least = curve()?.least_energy;
            Ok(Some(vec![least.clock_mhz, least.joules, least.saving]))
        },
    },
    Claim {
        id: "s0.dvfs.paper",
        claim: "Tang et al., the source of the table, save up to 23.1 % in training: saving at the best clock of the table \
            compared with the highest clock",
        claimed: &[0.231],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some(vec![curve()?.least_energy.saving])),
    },
    Claim {
        id: "s0.dvfs.price",
        claim: "higher performance costs energy: number of steps of the table to a higher rate that save energy",
        claimed: &[0.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "true above the clock of least energy: slowest Pareto-optimal clock; clocks with the least product of \
                energy and time, and of energy and time squared; slowdown and saving of the former compared with the \
                highest clock",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[936.0, 1202.0, 1202.0, 0.0417, 0.2015],
            reading: Reading::Printed(4),
            measure: || {
                let curve = curve()?;
                let slowest = curve.pareto.last().context("no Pareto-optimal clock")?;
                let edp = curve.least_edp;
                Ok(Some(vec![
                    curve.points[*slowest].clock_mhz,
                    edp.clock_mhz,
                    curve.least_ed2p.clock_mhz,
                    edp.slowdown,
                    edp.saving,
                ]))
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || {
            let curve = curve()?;
            let steps = curve.points.windows(2).zip(curve.joules.windows(2));
            let saves = steps.filter(|(points, joules)| {
                points[1].rate > points[0].rate && joules[1] < joules[0]
            });
            Ok(Some(vec![saves.count() as f64]))
        },
    },
    Claim {
        id: "s0.dvfs.parabola",
        claim: "energy as a function of the clock is a parabola: smallest possible error of a parabola divided by the \
            rounding error of the table",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: Some(Correction {
            claim: "it is convex but no parabola: number of decreases of the slope; minimum in MHz and coefficient of \
                determination of the least-squares parabola; the same two numbers for the model with time a + b/f and \
                power p + c f⁴ (coefficient of determination of power)",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[0.0, 949.48, 0.93, 934.75, 0.98],
            reading: Reading::Printed(2),
            measure: || {
                let curve = curve()?;
                let slope = |i: usize| {
                    (curve.joules[i + 1] - curve.joules[i]) / (CLOCKS_MHZ[i + 1] - CLOCKS_MHZ[i])
                };
                let n_turns = (2..CLOCKS_MHZ.len())
                    .filter(|&i| slope(i - 1) < slope(i - 2))
                    .count();
                let parabola = curve.parabola.context("no parabola")?;
                let (vertex_mhz, _) = parabola.minimum.context("the parabola has no minimum")?;
                let physical = curve.best_physical().context("no power model fits")?;
                Ok(Some(vec![
                    n_turns as f64,
                    vertex_mhz,
                    parabola.r_squared,
                    physical.minimum_mhz.context("no minimum")?,
                    physical.power_r_squared,
                ]))
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || Ok(Some(vec![from_any_parabola(&curve()?.joules)])),
    },
    Claim {
        id: "s0.query.t4",
        claim: "a Tesla T4 has a peak bandwidth of 320.064 GB/s and 40 multiprocessors: computed from memory clock and bus \
            width, and from the number of cores",
        claimed: &[320.064, 40.0],
        reading: Reading::Printed(6),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let t4 = Gpu::from_board(Board::T4);
            let clock_mhz = *t4.clocks.memory_mhz.first().context("no clock")?;
            let of_one =
                nvml::cores_per_multiprocessor(t4.compute_capability).context("unknown")?;
            Ok(Some(vec![
                nvml::bandwidth(clock_mhz, t4.memory_bus_bits),
                f64::from(t4.n_cores) / f64::from(of_one),
            ]))
        },
    },
    Claim {
        id: "s0.query.board",
        claim: "a Tesla T4 has compute capability 7.5, 15,360 MiB of memory and a power limit of 70 W",
        claimed: &[7.5, 15_360.0, 70.0],
        reading: Reading::Printed(1),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let t4 = Gpu::from_board(Board::T4);
            let (major, minor) = t4.compute_capability;
            Ok(Some(vec![
                f64::from(major) + f64::from(minor) / 10.0,
                t4.memory.total_bytes as f64 / MIB,
                t4.limits.default_w,
            ]))
        },
    },
    Claim {
        id: "s0.query.memory",
        claim: "a Tesla T4 has 15,634,661,376 bytes of memory",
        claimed: &[T4_BYTES],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "this is the part of the board's 15,360 MiB that programs can use: share that the driver reserves",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[0.0293],
            reading: Reading::Printed(4),
            measure: || {
                let total = Gpu::from_board(Board::T4).memory.total_bytes as f64;
                Ok(Some(vec![1.0 - T4_BYTES / total]))
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || {
            let t4 = Gpu::from_board(Board::T4);
            Ok(Some(vec![t4.memory.total_bytes as f64]))
        },
    },
    Claim {
        id: "s0.query.device",
        claim: "the driver of a Tesla T4 reports these properties: compute capability, multiprocessors, GB/s, MiB and W",
        claimed: &[7.5, 40.0, 320.064, 15_360.0, 70.0],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            // Machines without NVIDIA's library have no T4.
            let Ok(library) = nvml::Nvml::open() else {
                return Ok(None);
            };
            let mut devices = library.devices().iter();
            let Some(device) = devices.find(|device| device.name.ends_with("T4")) else {
                return Ok(None);
            };
            let found = library.query(device.index);
            let (major, minor) = found.compute_capability.context("no compute capability")?;
            Ok(Some(vec![
                f64::from(major) + f64::from(minor) / 10.0,
                found.multiprocessors.context("no multiprocessors")?.into(),
                found.bandwidth_gb_s.context("no bandwidth")?,
                found.memory_bytes.context("no memory")? as f64 / MIB,
                device.limits.default_w.context("no power limit")?,
            ]))
        },
    },
    Claim {
        id: "s0.cuda.of-driver",
        claim: "driver 510.47.03 supports CUDA up to 11.6",
        claimed: &[11.0, 6.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let cuda = cuda_of_driver();
            Ok(Some([cuda.major, cuda.minor].map(f64::from).to_vec()))
        },
    },
    Claim {
        id: "s0.cuda.framework",
        claim: "PyTorch extensions for CUDA 11.8 cannot be built with the toolkit of the first image, but with that of the \
            second: 1 if they can be built and the version reported by nvcc, for each image",
        claimed: &[0.0, 12.1, 1.0, 11.8],
        reading: Reading::Printed(1),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let mut found = vec![];
            for output in [NVCC_NEW, NVCC_OLD] {
                let toolkit = toolkit::from_nvcc(output)
                    .context("no release number in the output of `nvcc --version`")?;
                let builds = toolkit::toolkit_builds(toolkit, FRAMEWORK.parse()?).is_ok();
                found.extend([f64::from(builds), toolkit.to_string().parse()?]);
            }
            Ok(Some(found))
        },
    },
    Claim {
        id: "s0.cuda.same-version",
        claim: "the toolkit must have the same version as PyTorch's CUDA, 11.8: number of versions among 11.0 to 11.7, and \
            among 12.0 to 12.7, that can build extensions",
        claimed: &[0.0, 0.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "the toolkit must have the same major version: the same two numbers",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[8.0, 0.0],
            reading: Reading::Printed(0),
            measure: other_versions_that_build,
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: other_versions_that_build,
    },
    Claim {
        id: "s0.cuda.image",
        claim: "with driver 510.47.03 a program runs in the image of CUDA 11.6.2, but not in that of CUDA 12.2, which requires \
            a newer driver: 1 if it runs, by the table of driver versions and then by the requirements of the images",
        claimed: &[1.0, 0.0, 1.0, 0.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let host = Host {
                cuda: Some(cuda_of_driver().to_string()),
                driver: Some(DRIVER.to_owned()),
                ..Host::default()
            };
            let starts = |condition| image::starts(condition, &host).is_ok();
            let starts = [
                runs("11.6.2")?,
                runs("12.2.0")?,
                starts("cuda>=11.6"),
                starts("cuda>=12.2"),
            ];
            Ok(Some(starts.map(f64::from).to_vec()))
        },
    },
    Claim {
        id: "s0.cuda.only-major",
        claim: "with driver 510.47.03 a program only runs in images of the driver's major CUDA version: 1 if it runs, for \
            CUDA 10.2, 11.6, 11.8 and 12.2",
        claimed: &[0.0, 1.0, 1.0, 0.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "in images of the driver's major CUDA version or of an earlier one: the same four numbers",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[1.0, 1.0, 1.0, 0.0],
            reading: Reading::Printed(0),
            measure: images_that_run,
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: images_that_run,
    },
];

fn curve() -> Result<Curve> {
    let rows = CLOCKS_MHZ.into_iter().zip(WATTS).zip(RATES);
    let point = |((clock_mhz, watts), rate)| ClockMeasurement {
        clock_mhz,
        watts,
        rate,
        noise: 0.0,
    };
    Ok(dvfs(&rows.map(point).collect::<Vec<_>>())?)
}

/// Returns the maximum error of the best parabola through the energies, that is, of the parabola
/// with the smallest maximum error. Each error is divided by the rounding error of the energy at
/// that clock.
///
/// For four points, the best parabola misses each point by the same multiple of its rounding error;
/// the multiple follows from the third divided difference. For more points, the error is that of
/// the four points with the largest multiple (de la Vallée-Poussin).
fn from_any_parabola(joules: &[f64]) -> f64 {
    let rounding = |i: usize| joules[i] * (WATTS_ROUNDING / WATTS[i] + RATES_ROUNDING / RATES[i]);
    let missed = |four: [usize; 4]| {
        let (mut difference, mut rounded) = (0.0, 0.0);
        for i in four {
            let others = four.iter().filter(|&&j| j != i);
            let spread: f64 = others.map(|&j| CLOCKS_MHZ[i] - CLOCKS_MHZ[j]).product();
            difference += joules[i] / spread;
            rounded += rounding(i) / spread.abs();
        }
        difference.abs() / rounded
    };
    let n = joules.len();
    let mut ratios = vec![];
    for (a, b) in (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))) {
        for (c, d) in (b + 1..n).flat_map(|c| (c + 1..n).map(move |d| (c, d))) {
            ratios.push(missed([a, b, c, d]));
        }
    }
    // `f64::max` ignores NaN.
    ratios
        .into_iter()
        .map(f64::abs)
        .max_by(f64::total_cmp)
        .unwrap_or(f64::NAN)
}

/// Returns the CUDA version of the notes' driver.
fn cuda_of_driver() -> Version {
    const MAJOR: u32 = 1000;
    const MINOR: u32 = 10;
    let driver = Driver {
        version: DRIVER.to_owned(),
        ..Driver::default()
    };
    let version = driver.cuda_version();
    Version {
        major: version / MAJOR,
        minor: version % MAJOR / MINOR,
    }
}

/// Returns whether programs built by a toolkit run on the notes' driver.
fn runs(toolkit: &str) -> Result<bool> {
    let driver = toolkit::Driver {
        version: DRIVER.parse()?,
        cuda: Some(cuda_of_driver()),
    };
    Ok(driver.runs(toolkit.parse()?).is_ok())
}

fn images_that_run() -> Result<Option<Vec<f64>>> {
    let found = ["10.2", "11.6", "11.8", "12.2"].map(|image| runs(image).map(f64::from));
    found.into_iter().collect::<Result<_>>().map(Some)
}

fn other_versions_that_build() -> Result<Option<Vec<f64>>> {
    let framework = FRAMEWORK.parse()?;
    let of_major = |major| {
        let toolkits = (0..8).map(move |minor| Version { major, minor });
        let builds = |&toolkit: &Version| toolkit::toolkit_builds(toolkit, framework).is_ok();
        toolkits.filter(builds).count() as f64
    };
    Ok(Some(vec![of_major(11), of_major(12)]))
}

/// Returns the utilisation reported by the GPU of the recording, and the share of time in which its
/// load ran, both in percent.
fn utilisation() -> Result<(f64, f64)> {
    let (from_ms, to_ms) = (WINDOW_S.0 * MS_PER_S, WINDOW_S.1 * MS_PER_S);
    let rows = columns(REPORTED)?;
    let within = rows.iter().filter(|row| (from_ms..to_ms).contains(&row[0]));
    let reported: Vec<f64> = within.map(|row| row[BUSY_COLUMN]).collect();
    // Each time stamp occurs twice in the file. Without duplicates, starts and ends of the load
    // alternate.
    let mut stamps: Vec<f64> = columns(LOAD)?.concat();
    stamps.dedup();
    let on_ms: f64 = stamps
        .chunks_exact(2)
        .map(|load| (load[1].min(to_ms) - load[0].max(from_ms)).max(0.0))
        .sum();
    let reported_pct = reported.iter().sum::<f64>() / reported.len() as f64;
    Ok((reported_pct, 100.0 * on_ms / (to_ms - from_ms)))
}

/// Returns two numbers, each the largest relative error over all time shifts: that of the energy
/// counter, and that of the energy that the notes' script computes from power samples. The
/// reference is the energy of the recorded power.
fn errors(board: Board) -> Result<[f64; 2]> {
    let rows = columns(METER)?;
    let phases = || (0..PHASES).map(|i| INTERVAL_S * f64::from(i) / f64::from(PHASES));
    let mut worst = [0.0_f64; 2];
    for moved_s in phases() {
        let mut pieces = vec![PowerSegment::level(
            rows[0][0] / MS_PER_S + moved_s,
            rows[0][1],
        )];
        pieces.extend(rows.iter().map(|row| PowerSegment::level(BIN_S, row[1])));
        let gpu = Gpu {
            power: PowerProfile {
                pieces,
                repeats: false,
            },
            limits: BoardLimits {
                min_w: NO_LIMIT_W,
                default_w: NO_LIMIT_W,
                max_w: NO_LIMIT_W,
            },
            ..Gpu::from_board(board)
        };
        let model = Model::new(Scenario {
            gpus: vec![gpu],
            ..Scenario::default()
        })?;
        let gpu = &model.gpus()[0];
        for read_s in phases() {
            let row_s = |row: u32| WINDOW_S.0 + moved_s + read_s + INTERVAL_S * f64::from(row);
            let reported_w = |row| gpu.reported_w(PowerField::Draw, row_s(row));
            let counted_j = |row| gpu.counted_j(row_s(row)).context("no counter");
            let watts: Option<f64> = (0..N_ROWS).map(reported_w).sum();
            let by_power_j = watts.context("no power")? * INTERVAL_S;
            let by_counter_j = counted_j(N_ROWS)? - counted_j(0)?;
            let true_j = gpu.energy_j(row_s(0), row_s(N_ROWS));
            for (worst, joules) in worst.iter_mut().zip([by_counter_j, by_power_j]) {
                // NaN is above all numbers in the total order.
                let error = (joules / true_j - 1.0).abs();
                let larger = [*worst, error].into_iter().max_by(f64::total_cmp);
                *worst = larger.unwrap_or(error);
            }
        }
    }
    Ok(worst)
}

/// Parses the rows of a semicolon-separated table with a header.
fn columns(text: &str) -> Result<Vec<Vec<f64>>> {
    let row = |line: &str| {
        let numbers = line.split(';').map(str::parse);
        Ok(numbers.collect::<Result<_, _>>()?)
    };
    text.lines().skip(1).map(row).collect()
}
