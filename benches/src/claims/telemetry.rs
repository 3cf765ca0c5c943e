//! Claims of S0's notes on tracing GPUs and on CUDA's tools: energy, utilisation, a P100's curve, versions that fit.
//!
//! Method: the note's own table goes through [`telemetry::analysis::dvfs`], what its terminal printed through
//! [`toolkit`]. What it says of power and of utilisation is held against a recording of a real load, on for half of
//! each 0.1 s, that an external meter measured; the sensors and counters that look at that power are models.
//! Source: of the recording, `crates/telemetry/testdata/power-traces/README.md`.
//! Limits: of the ETL process and of the similarity job the note shows plots and prints no number, so neither is here.

use super::{Claim, Correction, Reading, Verdict};
use anyhow::{Context, Result};
use telemetry::analysis::{Curve, Point, dvfs};
use telemetry::doctor::image::{self, Host};
use telemetry::doctor::toolkit::{self, Version};
use telemetry::nvml;
use telemetry::synthetic::{
    Board, Driver, Gpu, Limits, Model, Piece, PowerField, Program, Scenario,
};

/// The note's table of a P100: clocks in MHz, power in W, images per second.
const CLOCKS_MHZ: [f64; 7] = [544.0, 683.0, 810.0, 936.0, 1063.0, 1202.0, 1328.0];
const WATTS: [f64; 7] = [57.0, 62.0, 65.0, 70.0, 78.0, 88.0, 115.0];
const RATES: [f64; 7] = [60.0, 75.0, 85.0, 95.0, 105.0, 115.0, 120.0];
/// What was rounded off at most: it was read from a figure to a watt, and to five images per second.
const WATTS_ROUNDING: f64 = 0.5;
const RATES_ROUNDING: f64 = 2.5;

/// What `nvcc --version` said in the two images of the note, and what its frameworks were built for.
const NVCC_NEW: &str = "Cuda compilation tools, release 12.1, V12.1.105";
const NVCC_OLD: &str = "Cuda compilation tools, release 11.8, V11.8.89";
const FRAMEWORK: &str = "11.8";
/// The note's driver, as `nvidia-smi` printed it.
const DRIVER: &str = "510.47.03";

/// The recording: what the meter measured in bins of 5 ms, what the GPU told, and when the load began and ended.
const METER: &str =
    include_str!("../../../crates/telemetry/testdata/power-traces/rtx3090-square-104ms.meter.csv");
const TOLD: &str =
    include_str!("../../../crates/telemetry/testdata/power-traces/rtx3090-square-104ms.sensor.csv");
const LOAD: &str =
    include_str!("../../../crates/telemetry/testdata/power-traces/rtx3090-square-104ms.load.csv");
const BIN_S: f64 = 0.005;
const MS_PER_S: f64 = 1e3;
/// Column of utilisation in what the GPU told.
const BUSY_COLUMN: usize = 3;
/// Within the load, by more than an update of any sensor, in s.
const WINDOW_S: (f64, f64) = (2.5, 8.5);
/// What the script sleeps between two rows, in s.
const INTERVAL_S: f64 = 0.1;
/// Its rows within the window.
const N_ROWS: u32 = 60;
/// Of every kind of sensor one: two that do not see all of the time, and two that do.
const BOARDS: [Board; 4] = [Board::V100, Board::A100, Board::T4, Board::Rtx3090];
/// Ways for an update of a sensor, and for a row, to fall within that.
const PHASES: u32 = 10;
/// More than the load draws, in W.
const NO_LIMIT_W: f64 = 1e3;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s0.trace.energy",
        claim: "energy is hard to find from samples of power, which varies, and a counter is better: its largest \
            error over that of power read every 0.1 s, by the sensors of a V100, an A100, a T4 and an RTX 3090",
        claimed: &[1.0; 4],
        reading: Reading::Below,
        correction: Some(Correction {
            claim: "so it is by sensors that do not see all of the time, as the former two; by those of the latter \
                two, which do, power is within 1 %",
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
        claim: "utilisation is the share of time with a kernel running: what an RTX 3090 told under a load that came \
            and went, less the share of time that it was there, in points",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (told, on) = utilisation()?;
            Ok(Some(vec![(told - on).abs()]))
        },
    },
    Claim {
        id: "s0.dvfs.optimum",
        claim: "the clock can be set so that an image takes the least energy: that clock in MHz, the energy in J, \
            and what it saves against the highest, all three ours",
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
        claim: "Tang et al., from whom the table is, save up to 23.1 % in training: share saved at the best of the \
            table's clocks against the highest",
        claimed: &[0.231],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some(vec![curve()?.least_energy.saving])),
    },
    Claim {
        id: "s0.dvfs.price",
        claim: "higher performance comes at a price in energy: number of steps of the table to a higher rate that \
            save energy",
        claimed: &[0.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "above the clock of the least energy, the slowest that no other beats; clocks of the least \
                product of energy and time, and of energy and time squared; and what the former costs in rate \
                and saves in energy, against the highest",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[936.0, 1202.0, 1202.0, 0.0417, 0.2015],
            reading: Reading::Printed(4),
            measure: || {
                let curve = curve()?;
                let slowest = curve.pareto.last().context("no clock is best")?;
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
        claim: "energy over the clock is a parabola: how far the nearest one misses the table, over what the table \
            was rounded by",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: Some(Correction {
            claim: "it is convex, and no parabola: number of turns the other way; lowest point in MHz of the \
                parabola by least squares, and the share of the variance that it explains; the same of time as a \
                + b/f and power as p + c f⁴, the share being of power",
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
                let (vertex_mhz, _) = parabola.minimum.context("no lowest point")?;
                let physical = curve.best_physical().context("no model of power")?;
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
        claim: "a Tesla T4 has a peak bandwidth of 320.064 GB/s and 40 multiprocessors, by clock and width of its \
            memory and by its cores",
        claimed: &[320.064, 40.0],
        reading: Reading::Printed(6),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let t4 = Gpu::of(Board::T4);
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
        id: "s0.cuda.of-driver",
        claim: "driver 510.47.03 is of CUDA 11.6",
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
        claim: "extensions of PyTorch for CUDA 11.8 are not built by the toolkit of the first image, and are by that \
            of the second (1 if so), whose nvcc says 12.1 and 11.8",
        claimed: &[0.0, 12.1, 1.0, 11.8],
        reading: Reading::Printed(1),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let mut found = vec![];
            for said in [NVCC_NEW, NVCC_OLD] {
                let toolkit = toolkit::of_nvcc(said).context("nvcc says no release")?;
                let builds = toolkit::toolkit_builds(toolkit, FRAMEWORK.parse()?).is_ok();
                found.extend([f64::from(builds), toolkit.to_string().parse()?]);
            }
            Ok(Some(found))
        },
    },
    Claim {
        id: "s0.cuda.same-version",
        claim: "the toolkit has to be of the same version as PyTorch's, 11.8: how many of 11.0 to 11.7 and of 12.0 \
            to 12.7 build",
        claimed: &[0.0, 0.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "of the same major version",
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
        claim: "on driver 510.47.03 a program runs in the image of CUDA 11.6.2, and that of 12.2, which asks for as \
            much, does not start (1 if so): by the table of drivers, and by what the images ask for",
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
        claim: "on driver 510.47.03 a program runs only in an image of the driver's major version: of CUDA 10.2, \
            11.6, 11.8 and 12.2 (1 if so)",
        claimed: &[0.0, 1.0, 1.0, 0.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "of that or of an earlier one",
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
    let point = |((clock_mhz, watts), rate)| Point {
        clock_mhz,
        watts,
        rate,
        noise: 0.0,
    };
    Ok(dvfs(&rows.map(point).collect::<Vec<_>>())?)
}

/// Gives the least that a parabola misses the table's energies by, over what rounding makes of each.
///
/// Of four points, the nearest parabola misses all by the same multiple of their weights, and third divided differences
/// say which; of more points it misses those four by most for which that multiple is greatest (de la Vallée-Poussin).
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
    let mut most = 0.0_f64;
    for (a, b) in (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))) {
        for (c, d) in (b + 1..n).flat_map(|c| (c + 1..n).map(move |d| (c, d))) {
            most = most.max(missed([a, b, c, d]));
        }
    }
    most
}

/// Gives the version of CUDA that the note's driver runs.
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

/// Whether the note's driver runs what a toolkit builds.
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

/// Gives the utilisation that the recording's GPU told, and the share of time that its load was there, in per cent.
fn utilisation() -> Result<(f64, f64)> {
    let (from_ms, to_ms) = (WINDOW_S.0 * MS_PER_S, WINDOW_S.1 * MS_PER_S);
    let rows = columns(TOLD)?;
    let within = rows.iter().filter(|row| (from_ms..to_ms).contains(&row[0]));
    let told: Vec<f64> = within.map(|row| row[BUSY_COLUMN]).collect();
    // Each stamp stands there twice; the load begins at the first, ends at the next, and so on.
    let mut stamps: Vec<f64> = columns(LOAD)?.concat();
    stamps.dedup();
    let on_ms: f64 = stamps
        .chunks_exact(2)
        .map(|load| (load[1].min(to_ms) - load[0].max(from_ms)).max(0.0))
        .sum();
    let told_pct = told.iter().sum::<f64>() / told.len() as f64;
    Ok((told_pct, 100.0 * on_ms / (to_ms - from_ms)))
}

/// Gives the largest error of the energy counter, and of the sum over power that is read as the script does, as shares
/// of what the meter measured.
fn errors(board: Board) -> Result<[f64; 2]> {
    let rows = columns(METER)?;
    let phases = || (0..PHASES).map(|i| INTERVAL_S * f64::from(i) / f64::from(PHASES));
    let mut worst = [0.0_f64; 2];
    for moved_s in phases() {
        let mut pieces = vec![Piece::level(rows[0][0] / MS_PER_S + moved_s, rows[0][1])];
        pieces.extend(rows.iter().map(|row| Piece::level(BIN_S, row[1])));
        let gpu = Gpu {
            power: Program {
                pieces,
                repeats: false,
            },
            limits: Limits {
                min_w: NO_LIMIT_W,
                default_w: NO_LIMIT_W,
                max_w: NO_LIMIT_W,
            },
            ..Gpu::of(board)
        };
        let model = Model::new(Scenario {
            gpus: vec![gpu],
            ..Scenario::default()
        })?;
        let gpu = &model.gpus()[0];
        for read_s in phases() {
            let row_s = |row: u32| WINDOW_S.0 + moved_s + read_s + INTERVAL_S * f64::from(row);
            let told_w = |row| gpu.told_w(PowerField::Draw, row_s(row));
            let counted_j = |row| gpu.counted_j(row_s(row)).context("no counter");
            let watts: Option<f64> = (0..N_ROWS).map(told_w).sum();
            let by_power_j = watts.context("no power")? * INTERVAL_S;
            let by_counter_j = counted_j(N_ROWS)? - counted_j(0)?;
            let true_j = gpu.energy_j(row_s(0), row_s(N_ROWS));
            for (worst, joules) in worst.iter_mut().zip([by_counter_j, by_power_j]) {
                *worst = worst.max((joules / true_j - 1.0).abs());
            }
        }
    }
    Ok(worst)
}

/// Gives the rows of a table with a header.
fn columns(text: &str) -> Result<Vec<Vec<f64>>> {
    let row = |line: &str| {
        let numbers = line.split(';').map(str::parse);
        Ok(numbers.collect::<Result<_, _>>()?)
    };
    text.lines().skip(1).map(row).collect()
}
